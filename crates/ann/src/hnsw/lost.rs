//! Finding links of chains that no node leads to: what a crash or an error leaves between the
//! making of a link and the change of the node, or between the change of a node and the freeing of
//! what it led to.

use rag_pages::{Block, ReadPages, WritePages};

use super::{
    Damage,
    allocate::{change, change_cells},
    cells::{self, CELL, Cells},
    index::Body,
    layout::{Geometry, Kind, Special, State},
    overflow,
};
use crate::{
    memory::{OutOfMemory, push},
    visited::Visited,
};

/// A set of links of chains: slots and cells.
#[derive(Default)]
pub(super) struct LinkSet {
    slots: Visited,
    cells: Visited,
}

impl LinkSet {
    /// # Errors
    /// There is no memory for it.
    pub fn insert(&mut self, id: u32) -> Result<bool, OutOfMemory> {
        if id & CELL != 0 {
            self.cells.insert(id & !CELL)
        } else {
            self.slots.insert(id)
        }
    }

    pub fn contains(&self, id: u32) -> bool {
        if id & CELL != 0 {
            self.cells.contains(id & !CELL)
        } else {
            self.slots.contains(id)
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.slots
            .iter()
            .chain(self.cells.iter().map(|id| id | CELL))
    }
}

/// Adds the links of chains that lie on a page to `there`, and the first links of its nodes to
/// `firsts`.
pub(super) fn look(
    body: &Body,
    store: &impl ReadPages,
    block: Block,
    there: &mut LinkSet,
    firsts: &mut Vec<u32>,
) -> Result<(), Damage> {
    let geometry = body.base();
    store.read(block, |page| {
        let special = Special::read(page, block)?;
        match special.kind {
            Kind::Slots if special.level == 0 => {
                for slot in geometry.follow(page, block).slots() {
                    let (i, slot) = slot?;
                    match slot.state()? {
                        State::Overflow => {
                            there
                                .insert(geometry.id(block, i))
                                .map_err(Damage::of_memory)?;
                        }
                        State::Node | State::Tombstone if slot.has_overflow() => {
                            push(firsts, slot.down()).map_err(Damage::of_memory)?;
                        }
                        _ => {}
                    }
                }
            }
            Kind::Cells => {
                for (place, _) in Cells::open(page, block)?.used() {
                    there
                        .insert(cells::id(block, place))
                        .map_err(Damage::of_memory)?;
                }
            }
            _ => {}
        }
        Ok(())
    })
}

/// Adds the links of the chains that begin at `firsts` to `led_to`.
pub(super) fn follow(
    body: &Body,
    store: &impl ReadPages,
    firsts: &mut Vec<u32>,
    led_to: &mut LinkSet,
) -> Result<(), Damage> {
    for first in firsts.drain(..) {
        overflow::walk(store, body.base(), first, |id, _| {
            led_to.insert(id).map(drop)
        })?;
    }
    Ok(())
}

/// Marks links that seem to be lost; whoever fills one anew takes the mark away.
pub(super) fn mark<S: WritePages>(body: &Body, store: &S, ids: &[u32]) -> Result<(), Damage> {
    change_marked(body, store, ids, true)
}

/// Frees those of the links that are marked still. Between the marking and the look that found
/// nobody who leads to them, all inserts at work must have come to their end.
pub(super) fn free_marked<S: WritePages>(
    body: &Body,
    store: &S,
    ids: &[u32],
) -> Result<(), Damage> {
    change_marked(body, store, ids, false)
}

fn change_marked<S: WritePages>(
    body: &Body,
    store: &S,
    ids: &[u32],
    marks: bool,
) -> Result<(), Damage> {
    let geometry = body.base();
    for &id in ids {
        store.check_interrupts();
        if id & CELL != 0 {
            let place = cells::place(id);
            change_cells(store, cells::block(id), |cells| {
                let Some(cell) = cells.read().cell(place) else {
                    return Ok(None);
                };
                match (marks, cell.is_marked()) {
                    (true, _) => cells.set_mark(place),
                    (false, true) => cells.set_free(place)?,
                    (false, false) => return Ok(None),
                }
                Ok(Some(()))
            })?;
        } else {
            change_slot(store, geometry, id, marks)?;
        }
    }
    Ok(())
}

fn change_slot<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    id: u32,
    marks: bool,
) -> Result<(), Damage> {
    change(store, geometry, geometry.block(id), |slots| {
        let i = geometry.slot(id);
        let slot = slots.slot(i)?;
        if slot.state()? != State::Overflow {
            return Ok(None);
        }
        match (marks, slot.is_marked()) {
            (true, _) => slots.set_mark(i),
            (false, true) => slots.set_free(i),
            (false, false) => return Ok(None),
        }
        Ok(Some(()))
    })?;
    Ok(())
}
