//! The heap rows of nodes that have several: rows of equal vectors. They lie in chains of overflow slots on pages of the
//! base level.

use rag_pages::{ReadPages, WritePages};

use super::{
    Damage, Tid,
    allocate::{self, Content},
    index::Body,
    layout::{Geometry, NONE, State, Target},
};
use crate::{
    memory::{self, OutOfMemory},
    visited::Visited,
};

/// Appends the rows of a chain that begins at `first`.
pub(super) fn rows(store: &impl ReadPages, geometry: &Geometry, first: u32, rows: &mut Vec<Tid>) -> Result<(), Damage> {
    walk(store, geometry, first, |_, found| {
        for row in found {
            memory::push(rows, row)?;
        }
        Ok(())
    })
}

/// Gives each slot of a chain and its rows to `f`.
pub(super) fn walk(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
    mut f: impl FnMut(u32, &mut dyn Iterator<Item = Tid>) -> Result<(), OutOfMemory>,
) -> Result<(), Damage> {
    let blocks = store.block_count();
    let mut seen = Visited::new();
    let mut id = first;
    loop {
        if id == NONE {
            return Ok(());
        }
        let block = geometry.block(id);
        if block >= blocks {
            return Err(Damage::new(block, "a chain of heap rows leads beyond the end"));
        }
        if !seen.insert(id).map_err(Damage::of_memory)? {
            return Err(Damage::new(block, "a chain of heap rows has no end"));
        }
        id = store.read(block, |page| {
            let slot = geometry.follow(page, block).slot(geometry.slot(id))?;
            if slot.state()? != State::Overflow {
                geometry.check_freed(page, block)?;
                return Ok(NONE); // freed meanwhile, with the node that it belonged to
            }
            f(id, &mut slot.rows()?).map_err(Damage::of_memory)?;
            Ok(slot.down())
        })?;
    }
}

/// Adds a row to a node that has this vector. False where the node is no longer one that can take it.
///
/// Vacuum may run at the same time and have read some pages already; it goes through all chains once more at its end
/// (see `remove`), so a row may be copied into a chain.
pub(super) fn add<S: WritePages>(body: &Body, store: &S, node: u32, tid: Tid) -> Result<bool, Damage> {
    let geometry = body.base();
    let block = geometry.block(node);
    const ATTEMPTS: usize = 10;
    for _ in 0..ATTEMPTS {
        let seen = store.read(block, |page| {
            let slot = geometry.follow(page, block).slot(geometry.slot(node))?;
            Ok(match (slot.state()?, slot.has_overflow()) {
                (State::Node, true) => Some(Target::Overflow(slot.down())),
                (State::Node, false) => Some(Target::Row(slot.tid())),
                _ => None,
            })
        })?;
        let Some(seen) = seen else { return Ok(false) };
        let (rows, next) = match seen {
            Target::Overflow(first) if push(store, geometry, first, tid)? => return Ok(true),
            Target::Overflow(first) | Target::Slot(first) => (vec![tid], first),
            Target::Row(old) => (vec![old, tid], NONE),
        };
        let made = allocate::put(body, store, 0, None, Content::Overflow { rows: &rows, next })?;
        if point_to(store, geometry, node, seen, made)? {
            return Ok(true);
        }
        // another was quicker: no one knows of the new slot
        allocate::free(store, geometry, made)?;
    }
    Ok(false)
}

/// Adds a row to an overflow slot that has room.
fn push<S: WritePages>(store: &S, geometry: &Geometry, id: u32, tid: Tid) -> Result<bool, Damage> {
    let block = geometry.block(id);
    if block >= store.block_count() {
        return Err(Damage::new(block, "a chain of heap rows leads beyond the end"));
    }
    allocate::change(store, geometry, block, |slots| {
        let i = geometry.slot(id);
        let slot = slots.slot(i)?;
        if slot.state()? != State::Overflow || slot.rows()?.len() >= geometry.overflow_rows() {
            return Ok(None);
        }
        let rows: Vec<Tid> = slot.rows()?.chain([tid]).collect();
        slots.set_rows(i, &rows);
        Ok(Some(()))
    })
    .map(|done| done.is_some())
}

/// Makes an overflow slot the first of a node's, if the node is still as it was seen.
fn point_to<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    node: u32,
    seen: Target,
    first: u32,
) -> Result<bool, Damage> {
    allocate::change(store, geometry, geometry.block(node), |slots| {
        let i = geometry.slot(node);
        let slot = slots.slot(i)?;
        let same = slot.state()? == State::Node
            && match seen {
                Target::Row(tid) => !slot.has_overflow() && slot.tid() == tid,
                Target::Overflow(id) | Target::Slot(id) => slot.has_overflow() && slot.down() == id,
            };
        if !same {
            return Ok(None);
        }
        slots.set_target(i, Target::Overflow(first));
        Ok(Some(()))
    })
    .map(|done| done.is_some())
}
