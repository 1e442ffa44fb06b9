//! Finding a place for a new slot, and changing pages of slots.
//!
//! The meta page names, for each level and for cells, the first of a chain of pages that have room.
//! An insert that finds the first page full advances the head to the next page of the chain, or
//! appends a page. Vacuum rebuilds the chain.

use rag_pages::{Block, WritePages};

use super::{
    IndexError, Tid,
    cells::{self, CellsMut},
    index::Body,
    layout::{Geometry, NONE, SpecialSpace},
    meta::MetaPage,
    slots::{SlotsMut, Target},
};
use crate::code::Factors;

/// The content of a new slot.
pub(super) enum NewSlot<'a> {
    Node {
        code: &'a [u8],
        factors: Factors,
        target: Target,
        links: &'a [u32],
    },
    Overflow {
        rows: &'a [Tid],
        next: u32,
    },
}

/// Changes a page of slots. If `f` returns `None`, the page stays as it was.
pub(super) fn change<S: WritePages, R>(
    store: &S,
    geometry: &Geometry,
    block: Block,
    f: impl FnOnce(&mut SlotsMut<'_>) -> Result<Option<R>, IndexError>,
) -> Result<Option<R>, IndexError> {
    let mut damage = None;
    let result = store.write(block, |page| {
        let changed = geometry
            .open_mut(page, block)
            .and_then(|mut slots| f(&mut slots));
        changed.unwrap_or_else(|e| {
            damage = Some(e);
            None
        })
    });
    damage.map_or(Ok(result), Err)
}

/// Changes a page of cells. If `f` returns `None`, the page stays as it was.
pub(super) fn change_cells<S: WritePages, R>(
    store: &S,
    block: Block,
    f: impl FnOnce(&mut CellsMut<'_>) -> Result<Option<R>, IndexError>,
) -> Result<Option<R>, IndexError> {
    let mut damage = None;
    let result = store.write(block, |page| {
        let changed = CellsMut::open(page, block).and_then(|mut cells| f(&mut cells));
        changed.unwrap_or_else(|e| {
            damage = Some(e);
            None
        })
    });
    damage.map_or(Ok(result), Err)
}

/// Fills a slot of the page `near` if that has room, otherwise of the level's insert page. Returns
/// its id.
pub(super) fn put<S: WritePages>(
    body: &Body,
    store: &S,
    level: usize,
    near: Option<Block>,
    content: NewSlot<'_>,
) -> Result<u32, IndexError> {
    let geometry = body.level(level);
    if let Some(block) = near
        && has_room(store, geometry, block)?
        && let Some(id) = put_on(store, geometry, block, &content)?
    {
        return Ok(id);
    }
    let has_numbers = || store.block_count() < geometry.max_blocks();
    let put = at_head(
        store,
        |meta| &mut meta.insert_block[level],
        |block| put_on(store, geometry, block, &content),
        || has_numbers().then(|| store.append(|_, page| geometry.init(page))),
    )?;
    put.ok_or_else(|| {
        IndexError::corrupted(
            store.block_count(),
            "the index has as many pages as its links can name",
        )
    })
}

/// Puts rows into a new cell. Returns its number, or `None` if the index has more pages than cells
/// can have numbers for.
pub(super) fn put_cell<S: WritePages>(
    store: &S,
    rows: &[Tid],
    next: u32,
) -> Result<Option<u32>, IndexError> {
    let put_on = |block| {
        change_cells(store, block, |cells| {
            let Some(place) = cells.free_place() else {
                return Ok(None);
            };
            cells.put(place, rows, next)?;
            Ok(Some(cells::id(block, place)))
        })
    };
    let has_numbers = || store.block_count() < cells::MAX_BLOCKS;
    at_head(
        store,
        |meta| &mut meta.cell_block,
        put_on,
        || has_numbers().then(|| store.append(|_, page| cells::init(page))),
    )
}

/// Fills a place on the first page with room of the chain that starts at `head`. If there is no
/// page with room, it appends one if `append` is given, and otherwise returns `None`.
fn at_head<S: WritePages>(
    store: &S,
    head: impl Fn(&mut MetaPage) -> &mut u32,
    put_on: impl Fn(Block) -> Result<Option<u32>, IndexError>,
    append: impl Fn() -> Option<Block>,
) -> Result<Option<u32>, IndexError> {
    loop {
        store.check_interrupts();
        let first = *head(&mut MetaPage::read(store)?);
        let mut next = NONE;
        if first != NONE {
            if first >= store.block_count() {
                return Err(IndexError::corrupted(
                    0,
                    format!("insert page {first} is beyond the end of the index"),
                ));
            }
            if let Some(id) = put_on(first)? {
                return Ok(Some(id));
            }
            next = next_of(store, first)?;
        }
        if next == NONE {
            let Some(appended) = append() else {
                return Ok(None);
            };
            next = appended;
        }
        MetaPage::update(store, |meta| {
            // Another insert may have moved the head. Then the appended page waits for vacuum.
            let head = head(meta);
            let mine = *head == first;
            if mine {
                *head = next;
            }
            mine
        })?;
    }
}

fn has_room<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    block: Block,
) -> Result<bool, IndexError> {
    store.read(block, |page| {
        geometry.open(page, block)?;
        Ok(usize::from(SpecialSpace::read(page, block)?.used) < geometry.slots)
    })
}

fn put_on<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    block: Block,
    content: &NewSlot<'_>,
) -> Result<Option<u32>, IndexError> {
    change(store, geometry, block, |slots| {
        let Some(slot) = slots.free_slot()? else {
            return Ok(None);
        };
        match *content {
            NewSlot::Node {
                code,
                factors,
                target,
                links,
            } => slots.put_node(slot, code, factors, target, links),
            NewSlot::Overflow { rows, next } => slots.put_overflow(slot, rows, next),
        }
        Ok(Some(geometry.id(block, slot)))
    })
}

/// Returns the page after one whose kind was checked, if that has room.
fn next_of<S: WritePages>(store: &S, block: Block) -> Result<u32, IndexError> {
    let next = store
        .read(block, |page| SpecialSpace::read(page, block))?
        .next;
    // Chains go from the end of the file to its beginning.
    if next != NONE && (next <= block || next >= store.block_count()) {
        return Err(IndexError::corrupted(
            block,
            format!("invalid next page with free slots: {next}"),
        ));
    }
    Ok(next)
}
