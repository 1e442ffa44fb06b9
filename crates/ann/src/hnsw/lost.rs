//! Finds links of chains that no node leads to. A crash or an error leaves such links if it happens
//! after a link was created and before the node was changed, or after the node was changed and
//! before its old links were freed.

use std::collections::HashMap;

use rag_pages::{Block, ReadPages, WritePages};

use super::{
    IndexError,
    allocate::{change, change_cells},
    cells::{self, CELL, Cells},
    index::Body,
    layout::{Geometry, PageKind, SpecialSpace},
    overflow,
    slots::SlotState,
};
use crate::memory::{self, OutOfMemory, push};

/// A set of links of chains, both slots and cells. Its memory grows with the number of pages that
/// have such links, not with the size of the index.
#[derive(Default)]
pub(super) struct LinkSet {
    /// Bits of 64 links, by the number of the first one divided by 64.
    words: HashMap<u32, u64>,
}

impl LinkSet {
    /// Returns true if the link was not in the set.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn insert(&mut self, id: u32) -> Result<bool, OutOfMemory> {
        self.words.try_reserve(1).map_err(|_| OutOfMemory)?;
        let word = self.words.entry(id / 64).or_default();
        let bit = 1 << (id % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        Ok(is_new)
    }

    pub fn contains(&self, id: u32) -> bool {
        self.words
            .get(&(id / 64))
            .is_some_and(|word| word & 1 << (id % 64) != 0)
    }

    /// Returns the links that are not in `others`, in ascending order: those of a page together.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn without(&self, others: &Self) -> Result<Vec<u32>, OutOfMemory> {
        let links = self.words.iter().flat_map(|(&at, &word)| {
            let known = others.words.get(&at).copied().unwrap_or(0);
            let left = word & !known;
            (0..64)
                .filter(move |bit| left & 1 << bit != 0)
                .map(move |bit| at * 64 + bit)
        });
        let mut links = memory::collect(links)?;
        links.sort_unstable();
        Ok(links)
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
) -> Result<(), IndexError> {
    let geometry = body.base();
    store.read(block, |page| {
        let special = SpecialSpace::read(page, block)?;
        match special.kind {
            PageKind::Slots if special.level == 0 => {
                for slot in geometry.follow(page, block).slots() {
                    let (i, slot) = slot?;
                    match slot.state()? {
                        SlotState::Overflow => {
                            there
                                .insert(geometry.id(block, i))
                                .map_err(IndexError::of_memory)?;
                        }
                        SlotState::Node | SlotState::Tombstone if slot.has_overflow() => {
                            push(firsts, slot.down()).map_err(IndexError::of_memory)?;
                        }
                        _ => {}
                    }
                }
            }
            PageKind::Cells => {
                for (place, _) in Cells::open(page, block)?.used() {
                    there
                        .insert(cells::id(block, place))
                        .map_err(IndexError::of_memory)?;
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
) -> Result<(), IndexError> {
    for first in firsts.drain(..) {
        overflow::walk(store, body.base(), first, |id, _| {
            led_to.insert(id).map(drop)
        })?;
    }
    Ok(())
}

/// Marks links that seem to be lost. An insert that fills a link again removes the mark.
pub(super) fn mark<S: WritePages>(body: &Body, store: &S, ids: &[u32]) -> Result<(), IndexError> {
    change_marked(body, store, ids, true)
}

/// Frees the links that are still marked. All inserts that ran when the links were marked must have
/// finished before the read that found no node leading to them.
pub(super) fn free_marked<S: WritePages>(
    body: &Body,
    store: &S,
    ids: &[u32],
) -> Result<(), IndexError> {
    change_marked(body, store, ids, false)
}

fn change_marked<S: WritePages>(
    body: &Body,
    store: &S,
    ids: &[u32],
    marks: bool,
) -> Result<(), IndexError> {
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
) -> Result<(), IndexError> {
    change(store, geometry, geometry.block(id), |slots| {
        let i = geometry.slot(id);
        let slot = slots.slot(i)?;
        if slot.state()? != SlotState::Overflow {
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
