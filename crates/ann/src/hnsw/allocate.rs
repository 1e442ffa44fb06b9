//! Finding a place for a new slot, and changing pages of slots.
//!
//! The first page names, for each level, the head of a chain of pages with free slots. Whoever finds the head full moves it
//! on to the next of the chain, or appends a page; vacuum makes the chain anew.

use rag_pages::{Block, WritePages};

use super::{
    Damage, Tid,
    index::Body,
    layout::{Geometry, NONE, SlotsMut, Target},
    meta::Meta,
};
use crate::code::Factors;

/// What a new slot is to hold.
pub(super) enum Content<'a> {
    Node { code: &'a [u8], factors: Factors, target: Target, links: &'a [u32] },
    Overflow { rows: &'a [Tid], next: u32 },
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
        let changed = geometry.open_mut(page, block).and_then(|mut slots| f(&mut slots));
        changed.unwrap_or_else(|e| {
            damage = Some(e);
            None
        })
    });
    damage.map_or(Ok(result), Err)
}

/// Puts a slot on the page `near` if that has room, else where new ones of the level go; returns its id.
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
    loop {
        store.check_interrupts();
        let head = Meta::read(store)?.insert_block[level];
        if head != NONE {
            if head >= store.block_count() {
                return Err(Damage::new(0, format!("the page for new nodes, {head}, is beyond the end")));
            }
            if let Some(id) = put_on(store, geometry, head, &content)? {
                return Ok(id);
            }
        }
        let next = if head == NONE { NONE } else { next_of(store, geometry, head)? };
        let new = if next == NONE { append(store, geometry)? } else { next };
        Meta::update(store, |meta| {
            // unless another has moved it: then the page that was appended waits for vacuum
            let mine = meta.insert_block[level] == head;
            if mine {
                meta.insert_block[level] = new;
            }
            mine
        })?;
    }
}

fn has_room<S: WritePages>(store: &S, geometry: &Geometry, block: Block) -> Result<bool, Damage> {
    store.read(block, |page| {
        geometry.open(page, block)?;
        Ok(usize::from(super::layout::Special::read(page, block)?.used) < geometry.slots)
    })
}

fn put_on<S: WritePages>(
    store: &S,
    geometry: &Geometry,
    block: Block,
    content: &Content<'_>,
) -> Result<Option<u32>, Damage> {
    change(store, geometry, block, |slots| {
        let Some(slot) = slots.free_slot()? else { return Ok(None) };
        match *content {
            Content::Node { code, factors, target, links } => slots.put_node(slot, code, factors, target, links),
            Content::Overflow { rows, next } => slots.put_overflow(slot, rows, next),
        }
        Ok(Some(geometry.id(block, slot)))
    })
}

fn next_of<S: WritePages>(store: &S, geometry: &Geometry, block: Block) -> Result<u32, Damage> {
    let next = store.read(block, |page| {
        geometry.open(page, block)?;
        Ok(super::layout::Special::read(page, block)?.next)
    })?;
    // chains are made from the end to the beginning of the file
    if next != NONE && (next <= block || next >= store.block_count()) {
        return Err(Damage::new(block, format!("the next page with free slots cannot be {next}")));
    }
    Ok(next)
}

fn append<S: WritePages>(store: &S, geometry: &Geometry) -> Result<Block, Damage> {
    let end = store.block_count();
    if end >= geometry.max_blocks() {
        return Err(Damage::new(end, "the index has as many pages as its links can name"));
    }
    Ok(store.append(|_, page| geometry.init(page)))
}

/// Makes a slot that no one refers to free again.
pub(super) fn free<S: WritePages>(store: &S, geometry: &Geometry, id: u32) -> Result<(), Damage> {
    change(store, geometry, geometry.block(id), |slots| {
        slots.set_free(geometry.slot(id));
        Ok(Some(()))
    })?;
    Ok(())
}
