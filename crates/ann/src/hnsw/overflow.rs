//! The heap rows of nodes that have several: rows of equal vectors. They lie in chains. Short
//! chains consist of cells on pages of their own ([`cells`](super::cells)), long ones of overflow
//! slots on pages of the base level. A chain may have slots first and cells after them.
//!
//! Scans read chains link by link, without a lock. They use what they read if the node has the same
//! chain ([`Slot::chain`](super::slots::Slot::chain)) afterwards. So a row may be added to any
//! link, and a dead row removed. Before a link is freed, or a row moves from one link to another,
//! the node must get another chain.
//!
//! Inserts hold the structure lock shared while they know a link. So a chain is taken from its node
//! only under the exclusive lock. Its links may be freed afterwards.

use rag_pages::{ReadPages, WritePages};

use super::{
    IndexError, Tid,
    allocate::{self, NewSlot},
    cells::{self, CELL, Cells, CellsMut},
    index::Body,
    layout::{Geometry, NONE},
    slots::{SlotState, Target},
};
use crate::memory::{self, OutOfMemory};

/// Maximum number of rows that are put into cells.
const IN_CELLS: usize = 4 * cells::ROWS;

/// Appends the rows of a chain that begins at `first`.
pub(super) fn rows(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
    rows: &mut Vec<Tid>,
) -> Result<(), IndexError> {
    walk(store, geometry, first, |_, found| {
        for row in found {
            memory::push(rows, row)?;
        }
        Ok(())
    })
}

/// Appends the rows of the first `links` links of a chain that begins at `first`. Returns true if
/// the chain has more links.
pub(super) fn first_rows(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
    links: u64,
    rows: &mut Vec<Tid>,
) -> Result<bool, IndexError> {
    walk_some(store, geometry, first, links, |_, found| {
        for row in found {
            memory::push(rows, row)?;
        }
        Ok(())
    })
}

/// Calls `f` with each link of a chain and its rows.
pub(super) fn walk(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
    f: impl FnMut(u32, &mut dyn Iterator<Item = Tid>) -> Result<(), OutOfMemory>,
) -> Result<(), IndexError> {
    walk_some(store, geometry, first, u64::MAX, f).map(drop)
}

/// Calls `f` with the first `links` links of a chain. Returns true if the chain has more links.
fn walk_some(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
    links: u64,
    mut f: impl FnMut(u32, &mut dyn Iterator<Item = Tid>) -> Result<(), OutOfMemory>,
) -> Result<bool, IndexError> {
    const INTERRUPT_PERIOD: u64 = 64;
    let mut id = first;
    // Brent's algorithm: a walk in a circle returns to a link that it saw a power of two of steps
    // ago.
    let (mut steps, mut power, mut before) = (0_u64, 1_u64, NONE);
    while id != NONE && steps < links {
        if id == before {
            return Err(IndexError::corrupted(
                block_of(geometry, id),
                "a chain of heap rows has no end",
            ));
        }
        steps += 1;
        if steps == power {
            (before, power) = (id, power * 2);
        }
        if steps.is_multiple_of(INTERRUPT_PERIOD) {
            store.check_interrupts();
        }
        id = read_link(store, geometry, id, |rows| f(id, rows))?;
    }
    Ok(id != NONE)
}

/// Calls `f` with the rows of one link of a chain. Returns the next link.
pub(super) fn read_link(
    store: &impl ReadPages,
    geometry: &Geometry,
    id: u32,
    f: impl FnOnce(&mut dyn Iterator<Item = Tid>) -> Result<(), OutOfMemory>,
) -> Result<u32, IndexError> {
    let block = block_of(geometry, id);
    if block >= store.block_count() {
        return Err(IndexError::corrupted(
            block,
            "a chain of heap rows leads beyond the end of the index",
        ));
    }
    store.read(block, |page| {
        if id & CELL != 0 {
            let Some(cell) = Cells::open(page, block)?.cell(cells::place(id)) else {
                return Ok(NONE);
            };
            f(&mut cell.rows()).map_err(IndexError::of_memory)?;
            return Ok(cell.next());
        }
        let slot = geometry.follow(page, block).slot(geometry.slot(id))?;
        if slot.state()? != SlotState::Overflow {
            geometry.check_freed(page, block)?;
            return Ok(NONE); // freed meanwhile: the node no longer has this chain
        }
        f(&mut slot.rows()?).map_err(IndexError::of_memory)?;
        Ok(slot.down())
    })
}

/// Returns the page of a link and its place there.
pub(super) fn place_of(geometry: &Geometry, id: u32) -> (u32, usize) {
    let place = if id & CELL != 0 {
        cells::place(id)
    } else {
        geometry.slot(id)
    };
    (block_of(geometry, id), place)
}

fn block_of(geometry: &Geometry, id: u32) -> u32 {
    if id & CELL != 0 {
        cells::block(id)
    } else {
        geometry.block(id)
    }
}

/// Adds a row to a node that has this vector. Returns false if the node can no longer take it.
///
/// Vacuum may run at the same time. It removes dead rows from nodes under the lock of their page.
/// So a dead row is copied into a chain only before vacuum has read the node, and vacuum then finds
/// it in the chain.
pub(super) fn add<S: WritePages>(
    body: &Body,
    store: &S,
    node: u32,
    tid: Tid,
) -> Result<bool, IndexError> {
    let geometry = body.base();
    let block = geometry.block(node);
    const ATTEMPTS: usize = 10;
    for _ in 0..ATTEMPTS {
        let seen = store.read(block, |page| {
            let slot = geometry.follow(page, block).slot(geometry.slot(node))?;
            Ok(match (slot.state()?, slot.has_overflow()) {
                (SlotState::Node, true) => Some(Target::Overflow(slot.down())),
                (SlotState::Node, false) => Some(Target::Row(slot.tid())),
                _ => None,
            })
        })?;
        let Some(seen) = seen else { return Ok(false) };
        let made = match seen {
            Target::Row(old) => put_link(body, store, &[old, tid], NONE, true)?,
            Target::Overflow(first) | Target::Slot(first) => {
                if push(store, geometry, first, tid)? {
                    return Ok(true);
                }
                let few = has_few_cells(store, geometry, first)?;
                put_link(body, store, &[tid], first, few)?
            }
        };
        if point_to(store, geometry, node, seen, made)? {
            return Ok(true);
        }
        // Another insert has already added a chain. Nothing leads to the new link.
        free(body, store, vec![made])?;
    }
    Ok(false)
}

/// Returns true if a chain consists of cells and may get another one.
fn has_few_cells(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
) -> Result<bool, IndexError> {
    let mut id = first;
    for _ in 0..IN_CELLS / cells::ROWS {
        if id & CELL == 0 || id == NONE {
            return Ok(id == NONE);
        }
        id = read_link(store, geometry, id, |_| Ok(()))?;
    }
    Ok(false)
}

/// Adds a row to a link that has room.
fn push<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    id: u32,
    tid: Tid,
) -> Result<bool, IndexError> {
    let block = block_of(geometry, id);
    if block >= store.block_count() {
        return Err(IndexError::corrupted(
            block,
            "a chain of heap rows leads beyond the end of the index",
        ));
    }
    if id & CELL != 0 {
        let place = cells::place(id);
        let pushed = allocate::change_cells(store, block, |cells| {
            let rows = cells
                .read()
                .cell(place)
                .map(|cell| cell.rows().chain([tid]).collect::<Vec<Tid>>());
            let Some(rows) = rows.filter(|rows| rows.len() <= cells::ROWS) else {
                return Ok(None);
            };
            cells.set_rows(place, &rows);
            Ok(Some(()))
        })?;
        return Ok(pushed.is_some());
    }
    allocate::change(store, geometry, block, |slots| {
        let i = geometry.slot(id);
        let slot = slots.slot(i)?;
        if slot.state()? != SlotState::Overflow || slot.rows()?.len() >= geometry.overflow_rows() {
            return Ok(None);
        }
        let rows: Vec<Tid> = slot.rows()?.chain([tid]).collect();
        slots.set_rows(i, &rows);
        Ok(Some(()))
    })
    .map(|done| done.is_some())
}

/// Makes a link the first one of a node, if the node did not change since it was read.
fn point_to<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    node: u32,
    seen: Target,
    first: u32,
) -> Result<bool, IndexError> {
    allocate::change(store, geometry, geometry.block(node), |slots| {
        let i = geometry.slot(node);
        let slot = slots.slot(i)?;
        let same = slot.state()? == SlotState::Node
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

/// Writes a link to which nothing leads yet: a cell for `few` rows, if one is free, otherwise a
/// slot.
fn put_link<S: WritePages>(
    body: &Body,
    store: &S,
    rows: &[Tid],
    next: u32,
    few: bool,
) -> Result<u32, IndexError> {
    if few
        && rows.len() <= cells::ROWS
        && let Some(id) = allocate::put_cell(store, rows, next)?
    {
        return Ok(id);
    }
    allocate::put(body, store, 0, None, NewSlot::Overflow { rows, next })
}

/// Returns the number of rows of a link in a chain of `rows` rows.
fn rows_of_link(geometry: &Geometry, rows: usize) -> usize {
    if rows <= IN_CELLS {
        cells::ROWS
    } else {
        geometry.overflow_rows().max(1)
    }
}

/// Writes a new chain of rows. Returns its first link, which is the one with room.
pub(super) fn put_chain<S: WritePages>(
    body: &Body,
    store: &S,
    rows: &[Tid],
) -> Result<u32, IndexError> {
    let mut next = NONE;
    for part in rows.chunks(rows_of_link(body.base(), rows.len())) {
        next = put_link(body, store, part, next, rows.len() <= IN_CELLS)?;
    }
    Ok(next)
}

/// Returns true if a chain of `links` links with `rows` remaining rows should be rewritten: if one
/// row is left, which needs no chain, or if a fifth of the links is not needed.
pub(super) fn is_sparse(geometry: &Geometry, links: usize, rows: usize) -> bool {
    let needed = rows.div_ceil(rows_of_link(geometry, rows));
    rows <= 1 || links > needed + needed / 4
}

/// Removes the rows of a link for which `keep` returns false.
pub(super) fn keep<S: WritePages>(
    body: &Body,
    store: &S,
    id: u32,
    mut is_kept: impl FnMut(Tid) -> bool,
) -> Result<(), IndexError> {
    let geometry = body.base();
    if id & CELL != 0 {
        let place = cells::place(id);
        allocate::change_cells(store, cells::block(id), |cells| {
            let Some(cell) = cells.read().cell(place) else {
                return Ok(None);
            };
            let kept: Vec<Tid> = cell.rows().filter(|tid| is_kept(*tid)).collect();
            cells.set_rows(place, &kept);
            Ok(Some(()))
        })?;
        return Ok(());
    }
    allocate::change(store, geometry, geometry.block(id), |slots| {
        let i = geometry.slot(id);
        let kept: Vec<Tid> = slots.slot(i)?.rows()?.filter(|tid| is_kept(*tid)).collect();
        slots.set_rows(i, &kept);
        Ok(Some(()))
    })?;
    Ok(())
}

/// Frees links to which nothing leads, those of a page together.
pub(super) fn free<S: WritePages>(
    body: &Body,
    store: &S,
    mut ids: Vec<u32>,
) -> Result<(), IndexError> {
    let geometry = body.base();
    ids.sort_unstable();
    ids.dedup();
    for here in ids
        .chunk_by(|a, b| a & CELL == b & CELL && block_of(geometry, *a) == block_of(geometry, *b))
    {
        let block = block_of(geometry, here[0]);
        if here[0] & CELL != 0 {
            allocate::change_cells(store, block, |cells| free_cells(cells, here))?;
        } else {
            allocate::change(store, geometry, block, |slots| {
                for id in here {
                    slots.set_free(geometry.slot(*id));
                }
                Ok(Some(()))
            })?;
        }
    }
    Ok(())
}

fn free_cells(cells: &mut CellsMut<'_>, ids: &[u32]) -> Result<Option<()>, IndexError> {
    for id in ids {
        cells.set_free(cells::place(*id))?;
    }
    Ok(Some(()))
}
