//! Learns the centroid of an index that was created on an empty table.
//!
//! Codes are of differences to the mean of the data, which is unknown while there are no data. So
//! the first vectors are coded without it. The insert that finds [`ENOUGH`] slots computes the mean
//! and encodes all vectors again. Ids and links stay.
//!
//! 1. Lock the structure exclusively, so that no insert is running.
//! 2. Write the centroid, and record in the meta page that codes are *mixed*. From now on, scans
//!    trust no estimate and rank all rows by their exact distance. There are few rows.
//! 3. Encode the nodes again, page by page, level by level.
//! 4. Record that this is done.
//!
//! A crash or an error leaves mixed codes, which the next insert encodes again. Inserts that opened
//! the index before check the meta page under the lock and open it again. A scan that began before
//! may estimate wrong distances of nodes that it has not returned yet. It still returns every row.

use rag_pages::{LockMode, WritePages};

use super::{
    Index, IndexError, MAX_LEVELS, STRUCTURE, Tid,
    allocate::change,
    index::Body,
    layout::NONE,
    meta::MetaPage,
    overflow,
    place::append_centroid,
    slots::SlotState,
    walk::{each_slot, read_slot},
};
use crate::{
    code::{Factors, Quantizer},
    memory::{self, push},
};

/// Number of slots that have enough vectors for a mean. Beyond twice that number it is too late,
/// because encoding them again would take long. An index may be that large if it was created before
/// learning existed.
const ENOUGH: u64 = 1000;

/// Fewer nodes than this are too few for a mean. Many rows may have few vectors.
const TOO_FEW: usize = 250;

/// Returns true if the insert that has just finished should have the centroid learned.
pub fn is_due(index: &Index, store: &impl WritePages) -> bool {
    let Some(body) = index.body() else {
        return false;
    };
    let slots = || u64::from(store.block_count() - 1) * body.base().slots as u64;
    body.centroid == NONE && (ENOUGH..2 * ENOUGH).contains(&slots())
}

/// Learns the centroid, or finishes what another insert has begun, if there is something to do.
/// `vector_of` writes the vector of a heap row if the row is visible.
///
/// # Errors
/// A page is corrupted, or memory runs out.
pub fn learn(
    index: &Index,
    store: &impl WritePages,
    vector_of: &mut dyn FnMut(Tid, &mut Vec<f32>) -> bool,
) -> Result<(), IndexError> {
    let Some(body) = index.body() else {
        return Ok(());
    };
    store.lock(STRUCTURE, LockMode::Exclusive);
    let learned = learn_locked(body, store, vector_of);
    store.unlock(STRUCTURE, LockMode::Exclusive);
    learned
}

fn learn_locked<S: WritePages>(
    body: &Body,
    store: &S,
    vector_of: &mut dyn FnMut(Tid, &mut Vec<f32>) -> bool,
) -> Result<(), IndexError> {
    let meta = MetaPage::read(store)?;
    if meta.centroid != NONE && !meta.mixed {
        return Ok(()); // another was quicker
    }
    let rows = Rows::read(body, store)?;
    if !meta.mixed {
        if rows.nodes.len() < TOO_FEW {
            return Ok(());
        }
        let mut mean = body.quantizer.mean();
        let mut vector = vec![];
        for (_, tid) in &rows.nodes {
            store.check_interrupts();
            if tid.is_some_and(|tid| vector_of(tid, &mut vector))
                && vector.len() == body.quantizer.dimensions()
            {
                mean.add(&vector);
            }
        }
        let centroid = append_centroid(store, &mean.finish());
        MetaPage::update(store, |meta| {
            (meta.centroid, meta.mixed) = (centroid, true);
            true
        })?;
    }
    let learned = Index::open(store)?;
    let Some(new) = learned.body() else {
        return Ok(());
    };
    // If another insert has begun, the old meaning of a page's codes is unknown. Then only vectors
    // help.
    let old = (!meta.mixed).then_some(&body.quantizer);
    recode_base(new, old, store, &rows, vector_of)?;
    for level in 1..MAX_LEVELS {
        if !recode_above(new, store, level)? {
            break;
        }
    }
    MetaPage::update(store, |meta| std::mem::take(&mut meta.mixed))
}

/// Returns the nodes of the base level, each with its heap row if it has one.
struct Rows {
    nodes: Vec<(u32, Option<Tid>)>,
}

impl Rows {
    fn read<S: WritePages>(body: &Body, store: &S) -> Result<Self, IndexError> {
        let geometry = body.base();
        let mut nodes: Vec<(u32, Option<Tid>)> = vec![];
        let mut chained: Vec<(usize, u32)> = vec![];
        for block in 1..store.block_count() {
            each_slot(store, geometry, block, |id, slot| {
                let tid = match slot.state()? {
                    SlotState::Node if slot.has_overflow() => {
                        push(&mut chained, (nodes.len(), slot.down()))
                            .map_err(IndexError::of_memory)?;
                        None
                    }
                    SlotState::Node => Some(slot.tid()),
                    SlotState::Tombstone => None,
                    SlotState::Free | SlotState::Overflow => return Ok(()),
                };
                push(&mut nodes, (id, tid)).map_err(IndexError::of_memory)
            })?;
        }
        for (place, chain) in chained {
            let mut rows = vec![];
            overflow::rows(store, geometry, chain, &mut rows)?;
            nodes[place].1 = rows.first().copied();
        }
        Ok(Self { nodes })
    }
}

/// Encodes the nodes of the base level again, from their vectors. The vectors of dead rows and of
/// rows being inserted are not visible: these nodes are encoded from their codes by `old`.
fn recode_base<S: WritePages>(
    new: &Body,
    old: Option<&Quantizer>,
    store: &S,
    rows: &Rows,
    vector_of: &mut dyn FnMut(Tid, &mut Vec<f32>) -> bool,
) -> Result<(), IndexError> {
    let geometry = new.base();
    let (mut vector, mut rotated) = (vec![], vec![]);
    for here in rows
        .nodes
        .chunk_by(|a, b| geometry.block(a.0) == geometry.block(b.0))
    {
        store.check_interrupts();
        let block = geometry.block(here[0].0);
        let mut codes: Vec<(usize, Vec<u8>, Factors)> = vec![];
        for &(id, tid) in here {
            let mut code = memory::filled(geometry.code_bytes, 0).map_err(IndexError::of_memory)?;
            let seen = tid.is_some_and(|tid| vector_of(tid, &mut vector))
                && vector.len() == new.quantizer.dimensions();
            let factors = match old {
                _ if seen => new.quantizer.encode(&vector, &mut rotated, &mut code),
                Some(old) => read_slot(store, geometry, block, id, |slot| {
                    Ok(new.quantizer.recode(
                        old,
                        slot.code,
                        slot.factors(),
                        &mut rotated,
                        &mut code,
                    ))
                })?,
                None => continue,
            };
            codes.push((geometry.slot(id), code, factors));
        }
        change(store, geometry, block, |slots| {
            for (i, code, factors) in &codes {
                if matches!(
                    slots.slot(*i)?.state()?,
                    SlotState::Node | SlotState::Tombstone
                ) {
                    slots.set_code(*i, code, *factors);
                }
            }
            Ok(Some(()))
        })?;
    }
    Ok(())
}

/// Copies the codes of the level below to the nodes of a level. Returns true if the level has
/// nodes.
fn recode_above<S: WritePages>(body: &Body, store: &S, level: usize) -> Result<bool, IndexError> {
    let (geometry, below) = (body.level(level), body.level(level - 1));
    let mut any = false;
    for block in 1..store.block_count() {
        let mut nodes: Vec<(usize, u32)> = vec![];
        each_slot(store, geometry, block, |id, slot| {
            if slot.state()?.has_code() {
                nodes.push((geometry.slot(id), slot.down()));
            }
            Ok(())
        })?;
        if nodes.is_empty() {
            continue;
        }
        any = true;
        let mut codes: Vec<(usize, Vec<u8>, Factors)> = vec![];
        for (i, down) in nodes {
            if below.block(down) >= store.block_count() {
                return Err(IndexError::corrupted(
                    block,
                    format!(
                        "a node leads down to slot {down}, which is beyond the end of the index"
                    ),
                ));
            }
            read_slot(store, below, below.block(down), down, |slot| {
                if slot.state()?.has_code() {
                    codes.push((i, slot.code.to_vec(), slot.factors()));
                }
                Ok(())
            })?;
        }
        change(store, geometry, block, |slots| {
            for (i, code, factors) in &codes {
                if matches!(
                    slots.slot(*i)?.state()?,
                    SlotState::Node | SlotState::Tombstone
                ) {
                    slots.set_code(*i, code, *factors);
                }
            }
            Ok(Some(()))
        })?;
    }
    Ok(any)
}
