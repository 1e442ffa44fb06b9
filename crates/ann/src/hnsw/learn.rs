//! The centroid of an index that was made over an empty table.
//!
//! Codes are of differences to the mean of the data, which is unknown as long as there is none. So
//! the first vectors are coded without it. The insert that finds [`ENOUGH`] slots computes the mean
//! and encodes all vectors again. Ids and links stay.
//!
//! 1. Lock the structure exclusively: no insert is under way.
//! 2. Write the centroid, and note in the first page that codes are *mixed*: from now on scans rely
//!    on no estimate and rank all rows by their exact distance, of which there are few.
//! 3. Encode the nodes again, page by page, level by level.
//! 4. Note that this is done.
//!
//! A crash or an error leaves mixed codes, which the next insert encodes again. Inserts that opened
//! the index before look at the first page under the lock, and open it again. A scan that began
//! before may estimate wrongly what it has not returned yet; it still returns every row.

use rag_pages::{LockMode, WritePages};

use super::{
    Damage, Index, MAX_LEVELS, Tid,
    allocate::change,
    index::Body,
    layout::{NONE, State},
    meta::Meta,
    overflow,
    place::append_centroid,
    walk::{each_slot, read_slot},
};
use crate::{
    code::{Factors, Quantizer},
    memory::{self, push},
};

/// Slots from which on there are vectors enough for a mean. With twice as many it is too late: to
/// code them anew would take long, as in an index that grew large before there was this.
const ENOUGH: u64 = 1000;

/// Nodes that are too few for a mean: where there are many rows of few vectors.
const TOO_FEW: usize = 250;

/// Whether the insert that has just been made should have the centroid learned.
pub fn is_due(index: &Index, store: &impl WritePages) -> bool {
    let Some(body) = index.body() else {
        return false;
    };
    let slots = || u64::from(store.block_count() - 1) * body.base().slots as u64;
    body.centroid == NONE && (ENOUGH..2 * ENOUGH).contains(&slots())
}

/// Learns the centroid, or ends what another has begun, unless there is nothing to do. `vector_of`
/// fills in the vector of a heap row, if that can be seen.
///
/// # Errors
/// A page is damaged, or memory runs out.
pub fn learn(
    index: &Index,
    store: &impl WritePages,
    vector_of: &mut dyn FnMut(Tid, &mut Vec<f32>) -> bool,
) -> Result<(), Damage> {
    let Some(body) = index.body() else {
        return Ok(());
    };
    store.lock(LockMode::Exclusive);
    let learned = learn_locked(body, store, vector_of);
    store.unlock(LockMode::Exclusive);
    learned
}

fn learn_locked<S: WritePages>(
    body: &Body,
    store: &S,
    vector_of: &mut dyn FnMut(Tid, &mut Vec<f32>) -> bool,
) -> Result<(), Damage> {
    let meta = Meta::read(store)?;
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
        Meta::update(store, |meta| {
            (meta.centroid, meta.mixed) = (centroid, true);
            true
        })?;
    }
    let learned = Index::open(store)?;
    let Some(new) = learned.body() else {
        return Ok(());
    };
    // What a page was coded with is not known where another has begun: only vectors help then.
    let old = (!meta.mixed).then_some(&body.quantizer);
    recode_base(new, old, store, &rows, vector_of)?;
    for level in 1..MAX_LEVELS {
        if !recode_above(new, store, level)? {
            break;
        }
    }
    Meta::update(store, |meta| std::mem::take(&mut meta.mixed))
}

/// The nodes of the base level, with a heap row of each that has one.
struct Rows {
    nodes: Vec<(u32, Option<Tid>)>,
}

impl Rows {
    fn read<S: WritePages>(body: &Body, store: &S) -> Result<Self, Damage> {
        let geometry = body.base();
        let mut nodes: Vec<(u32, Option<Tid>)> = vec![];
        let mut chained: Vec<(usize, u32)> = vec![];
        for block in 1..store.block_count() {
            each_slot(store, geometry, block, |id, slot| {
                let tid = match slot.state()? {
                    State::Node if slot.has_overflow() => {
                        push(&mut chained, (nodes.len(), slot.down()))
                            .map_err(Damage::of_memory)?;
                        None
                    }
                    State::Node => Some(slot.tid()),
                    State::Tombstone => None,
                    State::Free | State::Overflow => return Ok(()),
                };
                push(&mut nodes, (id, tid)).map_err(Damage::of_memory)
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

/// Codes the nodes of the base level anew: from their vectors, and where these cannot be seen, as
/// those of rows that others are inserting or that are dead, from what the codes by `old` say of
/// them.
fn recode_base<S: WritePages>(
    new: &Body,
    old: Option<&Quantizer>,
    store: &S,
    rows: &Rows,
    vector_of: &mut dyn FnMut(Tid, &mut Vec<f32>) -> bool,
) -> Result<(), Damage> {
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
            let mut code = memory::filled(geometry.code_bytes, 0).map_err(Damage::of_memory)?;
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
                if matches!(slots.slot(*i)?.state()?, State::Node | State::Tombstone) {
                    slots.set_code(*i, code, *factors);
                }
            }
            Ok(Some(()))
        })?;
    }
    Ok(())
}

/// Gives the nodes of a level above the base the codes that they have one level down; whether there
/// is any.
fn recode_above<S: WritePages>(body: &Body, store: &S, level: usize) -> Result<bool, Damage> {
    let (geometry, below) = (body.level(level), body.level(level - 1));
    let mut any = false;
    for block in 1..store.block_count() {
        let mut nodes: Vec<(usize, u32)> = vec![];
        each_slot(store, geometry, block, |id, slot| {
            if matches!(slot.state()?, State::Node | State::Tombstone) {
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
                return Err(Damage::new(
                    block,
                    format!("a node leads down to {down}, which is beyond the end"),
                ));
            }
            read_slot(store, below, below.block(down), down, |slot| {
                if matches!(slot.state()?, State::Node | State::Tombstone) {
                    codes.push((i, slot.code.to_vec(), slot.factors()));
                }
                Ok(())
            })?;
        }
        change(store, geometry, block, |slots| {
            for (i, code, factors) in &codes {
                if matches!(slots.slot(*i)?.state()?, State::Node | State::Tombstone) {
                    slots.set_code(*i, code, *factors);
                }
            }
            Ok(Some(()))
        })?;
    }
    Ok(any)
}
