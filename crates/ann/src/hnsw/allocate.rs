//! Finding a place for a new slot, and changing pages of slots.
//!
//! The first page names, for each level and for cells, the head of a chain of pages with free ones.
//! An insert that finds the head full moves it on to the next page of the chain, or appends a page.
//! Vacuum rebuilds the chain.

use rag_pages::{Block, WritePages};

use super::{
    Damage, Tid,
    cells::{self, CellsMut},
    index::Body,
    layout::{Geometry, NONE, SlotsMut, Special, Target},
    meta::Meta,
};
use crate::code::Factors;

/// What a new slot is to hold.
pub(super) enum Content<'a> {
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

/// Changes a page of slots; `None` of `f` leaves it as it was.
pub(super) fn change<S: WritePages, R>(
    store: &S,
    geometry: &Geometry,
    block: Block,
    f: impl FnOnce(&mut SlotsMut<'_>) -> Result<Option<R>, Damage>,
) -> Result<Option<R>, Damage> {
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

/// Changes a page of cells; `None` of `f` leaves it as it was.
pub(super) fn change_cells<S: WritePages, R>(
    store: &S,
    block: Block,
    f: impl FnOnce(&mut CellsMut<'_>) -> Result<Option<R>, Damage>,
) -> Result<Option<R>, Damage> {
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

/// Puts a slot on the page `near` if that has room, else where new ones of the level go; returns
/// its id.
pub(super) fn put<S: WritePages>(
    body: &Body,
    store: &S,
    level: usize,
    near: Option<Block>,
    content: Content<'_>,
) -> Result<u32, Damage> {
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
        Damage::new(
            store.block_count(),
            "the index has as many pages as its links can name",
        )
    })
}

/// Puts rows into a new cell; returns its number, or `None` where the index has more pages than
/// cells can be on.
pub(super) fn put_cell<S: WritePages>(
    store: &S,
    rows: &[Tid],
    next: u32,
) -> Result<Option<u32>, Damage> {
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

/// Puts something on the first page with room of the chain that `head` of the first page names;
/// `None` where there is no page with room and `append` makes none.
fn at_head<S: WritePages>(
    store: &S,
    head: impl Fn(&mut Meta) -> &mut u32,
    put_on: impl Fn(Block) -> Result<Option<u32>, Damage>,
    append: impl Fn() -> Option<Block>,
) -> Result<Option<u32>, Damage> {
    loop {
        store.check_interrupts();
        let first = *head(&mut Meta::read(store)?);
        let mut next = NONE;
        if first != NONE {
            if first >= store.block_count() {
                return Err(Damage::new(
                    0,
                    format!("the page for new nodes, {first}, is beyond the end"),
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
        Meta::update(store, |meta| {
            // unless another has moved it: then the page that was appended waits for vacuum
            let head = head(meta);
            let mine = *head == first;
            if mine {
                *head = next;
            }
            mine
        })?;
    }
}

fn has_room<S: WritePages>(store: &S, geometry: &Geometry, block: Block) -> Result<bool, Damage> {
    store.read(block, |page| {
        geometry.open(page, block)?;
        Ok(usize::from(Special::read(page, block)?.used) < geometry.slots)
    })
}

fn put_on<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    block: Block,
    content: &Content<'_>,
) -> Result<Option<u32>, Damage> {
    change(store, geometry, block, |slots| {
        let Some(slot) = slots.free_slot()? else {
            return Ok(None);
        };
        match *content {
            Content::Node {
                code,
                factors,
                target,
                links,
            } => slots.put_node(slot, code, factors, target, links),
            Content::Overflow { rows, next } => slots.put_overflow(slot, rows, next),
        }
        Ok(Some(geometry.id(block, slot)))
    })
}

/// Returns the next page with room after one whose kind was checked.
fn next_of<S: WritePages>(store: &S, block: Block) -> Result<u32, Damage> {
    let next = store.read(block, |page| Special::read(page, block))?.next;
    // chains are made from the end to the beginning of the file
    if next != NONE && (next <= block || next >= store.block_count()) {
        return Err(Damage::new(
            block,
            format!("the next page with free slots cannot be {next}"),
        ));
    }
    Ok(next)
}
