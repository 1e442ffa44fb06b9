//! The heap rows of nodes that have several: rows of equal vectors. They lie in chains, few of them
//! in cells on pages of their own ([`cells`](super::cells)), many in overflow slots on pages of the
//! base level. A chain may have slots first and cells after them.
//!
//! Scans read chains without a lock, link by link, and believe what they read if the node has the
//! same chain ([`Slot::chain`](super::layout::Slot::chain)) afterwards. So a row may be added to
//! any link, and a dead one removed; but whoever frees a link of a chain, or moves a row from one
//! link to another, must give the node another chain before.
//!
//! Inserts hold the structure lock shared while they know a link. So it is locked exclusively where
//! a chain is taken from its node, and what was taken may be freed afterwards.

use rag_pages::{ReadPages, WritePages};

use super::{
    Damage, Tid,
    allocate::{self, Content},
    cells::{self, CELL, Cells, CellsMut},
    index::Body,
    layout::{Geometry, NONE, State, Target},
};
use crate::memory::{self, OutOfMemory};

/// Most rows that are put into cells.
const IN_CELLS: usize = 4 * cells::ROWS;

/// Appends the rows of a chain that begins at `first`.
pub(super) fn rows(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
    rows: &mut Vec<Tid>,
) -> Result<(), Damage> {
    walk(store, geometry, first, |_, found| {
        for row in found {
            memory::push(rows, row)?;
        }
        Ok(())
    })
}

/// Appends the rows of the first `links` links of a chain that begins at `first`. Returns whether
/// it goes on after them.
pub(super) fn first_rows(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
    links: u64,
    rows: &mut Vec<Tid>,
) -> Result<bool, Damage> {
    walk_some(store, geometry, first, links, |_, found| {
        for row in found {
            memory::push(rows, row)?;
        }
        Ok(())
    })
}

/// Gives each link of a chain and its rows to `f`.
pub(super) fn walk(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
    f: impl FnMut(u32, &mut dyn Iterator<Item = Tid>) -> Result<(), OutOfMemory>,
) -> Result<(), Damage> {
    walk_some(store, geometry, first, u64::MAX, f).map(drop)
}

/// The same for the first `links` links. Returns whether the chain goes on after them.
fn walk_some(
    store: &impl ReadPages,
    geometry: &Geometry,
    first: u32,
    links: u64,
    mut f: impl FnMut(u32, &mut dyn Iterator<Item = Tid>) -> Result<(), OutOfMemory>,
) -> Result<bool, Damage> {
    const INTERRUPT_PERIOD: u64 = 64;
    let mut id = first;
    // Brent's algorithm: a walk in circles comes to a place where it was a power of two of steps
    // ago.
    let (mut steps, mut power, mut before) = (0_u64, 1_u64, NONE);
    while id != NONE && steps < links {
        if id == before {
            return Err(Damage::new(
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

/// Gives the rows of one link of a chain to `f`; returns the next one.
pub(super) fn read_link(
    store: &impl ReadPages,
    geometry: &Geometry,
    id: u32,
    f: impl FnOnce(&mut dyn Iterator<Item = Tid>) -> Result<(), OutOfMemory>,
) -> Result<u32, Damage> {
    let block = block_of(geometry, id);
    if block >= store.block_count() {
        return Err(Damage::new(
            block,
            "a chain of heap rows leads beyond the end",
        ));
    }
    store.read(block, |page| {
        if id & CELL != 0 {
            let Some(cell) = Cells::open(page, block)?.cell(cells::place(id)) else {
                return Ok(NONE);
            };
            f(&mut cell.rows()).map_err(Damage::of_memory)?;
            return Ok(cell.next());
        }
        let slot = geometry.follow(page, block).slot(geometry.slot(id))?;
        if slot.state()? != State::Overflow {
            geometry.check_freed(page, block)?;
            return Ok(NONE); // freed meanwhile: the node no longer has this chain
        }
        f(&mut slot.rows()?).map_err(Damage::of_memory)?;
        Ok(slot.down())
    })
}

/// The page of a link, and its place there.
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

/// Adds a row to a node that has this vector. False where the node is no longer one that can take
/// it.
///
/// Vacuum may run at the same time. A dead row is only copied from a node whose row vacuum has not
/// looked at yet, as it takes dead rows out of nodes under the lock of their page: there it meets
/// the chain then.
pub(super) fn add<S: WritePages>(
    body: &Body,
    store: &S,
    node: u32,
    tid: Tid,
) -> Result<bool, Damage> {
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
        // another was quicker: no one knows of the new link
        free(body, store, vec![made])?;
    }
    Ok(false)
}

/// Whether a chain is one of cells that may get another one.
fn has_few_cells(store: &impl ReadPages, geometry: &Geometry, first: u32) -> Result<bool, Damage> {
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
fn push<S: WritePages>(store: &S, geometry: &Geometry, id: u32, tid: Tid) -> Result<bool, Damage> {
    let block = block_of(geometry, id);
    if block >= store.block_count() {
        return Err(Damage::new(
            block,
            "a chain of heap rows leads beyond the end",
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
        if slot.state()? != State::Overflow || slot.rows()?.len() >= geometry.overflow_rows() {
            return Ok(None);
        }
        let rows: Vec<Tid> = slot.rows()?.chain([tid]).collect();
        slots.set_rows(i, &rows);
        Ok(Some(()))
    })
    .map(|done| done.is_some())
}

/// Makes a link the first of a node's, if the node is still as it was seen.
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

/// Writes a link that nobody knows of yet: a cell for `few` rows, if there is one, else a slot.
fn put_link<S: WritePages>(
    body: &Body,
    store: &S,
    rows: &[Tid],
    next: u32,
    few: bool,
) -> Result<u32, Damage> {
    if few
        && rows.len() <= cells::ROWS
        && let Some(id) = allocate::put_cell(store, rows, next)?
    {
        return Ok(id);
    }
    allocate::put(body, store, 0, None, Content::Overflow { rows, next })
}

/// Rows of a link in a chain of so many.
fn rows_of_link(geometry: &Geometry, rows: usize) -> usize {
    if rows <= IN_CELLS {
        cells::ROWS
    } else {
        geometry.overflow_rows().max(1)
    }
}

/// Writes a new chain of rows; returns its first link, which is the one with room.
pub(super) fn put_chain<S: WritePages>(
    body: &Body,
    store: &S,
    rows: &[Tid],
) -> Result<u32, Damage> {
    let mut next = NONE;
    for part in rows.chunks(rows_of_link(body.base(), rows.len())) {
        next = put_link(body, store, part, next, rows.len() <= IN_CELLS)?;
    }
    Ok(next)
}

/// Whether a chain of `links` should be written anew where `rows` are left of it: a node with one
/// row has no need of it, and a fifth of the links may be too many.
pub(super) fn is_sparse(geometry: &Geometry, links: usize, rows: usize) -> bool {
    let needed = rows.div_ceil(rows_of_link(geometry, rows));
    rows <= 1 || links > needed + needed / 4
}

/// Leaves those of the rows of a link that are to be kept.
pub(super) fn keep<S: WritePages>(
    body: &Body,
    store: &S,
    id: u32,
    mut is_kept: impl FnMut(Tid) -> bool,
) -> Result<(), Damage> {
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

/// Frees links that nobody refers to, those on a page together.
pub(super) fn free<S: WritePages>(body: &Body, store: &S, mut ids: Vec<u32>) -> Result<(), Damage> {
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

fn free_cells(cells: &mut CellsMut<'_>, ids: &[u32]) -> Result<Option<()>, Damage> {
    for id in ids {
        cells.set_free(cells::place(*id))?;
    }
    Ok(Some(()))
}
