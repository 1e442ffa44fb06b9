//! Finds the nodes that can be reached from the entry point.

use rag_pages::{ReadPages, WritePages};

use super::{
    IndexError, MAX_LEVELS,
    allocate::change,
    index::Body,
    layout::{NONE, max_links},
    links::Links,
    meta::MetaPage,
    slots::SlotState,
    walk::{Walk, each_slot, read_slot},
};
use crate::{memory::push, pool::key_id, visited::Visited};

/// Adds to `reached` the slots that links of a level lead to from `start`.
fn spread(
    body: &Body,
    store: &impl ReadPages,
    level: usize,
    start: u32,
    reached: &mut Visited,
) -> Result<(), IndexError> {
    let geometry = body.level(level);
    let blocks = store.block_count();
    let mut waiting = vec![start];
    reached.insert(start).map_err(IndexError::of_memory)?;
    while let Some(id) = waiting.pop() {
        let block = geometry.block(id);
        if block >= blocks {
            continue; // a page that is newer than this look
        }
        store.check_interrupts();
        read_slot(store, geometry, block, id, |slot| {
            if matches!(slot.state()?, SlotState::Node | SlotState::Tombstone) {
                for link in slot.links()? {
                    if u64::from(link) < geometry.ids(blocks)
                        && reached.insert(link).map_err(IndexError::of_memory)?
                    {
                        push(&mut waiting, link).map_err(IndexError::of_memory)?;
                    }
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Adds all slots that can be reached from `start`. It reads page after page in the order of the
/// file, repeatedly until nothing is new. Links lead to pages all over the file, and each page is
/// read once for all of its nodes.
fn spread_in_order(
    body: &Body,
    ordered: &impl ReadPages,
    level: usize,
    start: u32,
    reached: &mut Visited,
) -> Result<(), IndexError> {
    let geometry = body.level(level);
    let blocks = ordered.block_count();
    let mut expanded = Visited::new();
    let mut more = reached.insert(start).map_err(IndexError::of_memory)?;
    while std::mem::take(&mut more) {
        for block in 1..blocks {
            let waits = |reached: &Visited, expanded: &Visited| {
                let waits = |id: &u32| reached.contains(*id) && !expanded.contains(*id);
                (0..geometry.slots)
                    .map(|i| geometry.id(block, i))
                    .find(waits)
            };
            if waits(reached, &expanded).is_none() {
                continue;
            }
            more = true;
            ordered.check_interrupts();
            ordered.read(block, |page| {
                let slots = geometry.follow(page, block);
                while let Some(id) = waits(reached, &expanded) {
                    expanded.insert(id).map_err(IndexError::of_memory)?;
                    let slot = slots.slot(geometry.slot(id))?;
                    if matches!(slot.state()?, SlotState::Node | SlotState::Tombstone) {
                        for link in slot
                            .links()?
                            .filter(|link| u64::from(*link) < geometry.ids(blocks))
                        {
                            reached.insert(link).map_err(IndexError::of_memory)?;
                        }
                    }
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Returns the slots that a search can reach, for each level from the base to the entry point's.
pub(super) fn reachable(
    body: &Body,
    ordered: &impl ReadPages,
    store: &impl ReadPages,
) -> Result<Vec<Visited>, IndexError> {
    let meta = MetaPage::read(store)?;
    let mut levels = vec![];
    let mut id = meta.entry;
    if id == NONE {
        return Ok(levels);
    }
    for level in (0..=(meta.top_level as usize).min(MAX_LEVELS - 1)).rev() {
        let geometry = body.level(level);
        let block = geometry.block(id);
        if block >= store.block_count() {
            return Err(IndexError::corrupted(
                0,
                "a link leads beyond the end of the index",
            ));
        }
        let mut reached = Visited::new();
        spread_in_order(body, ordered, level, id, &mut reached)?;
        levels.push(reached);
        id = read_slot(store, geometry, block, id, |slot| Ok(slot.down()))?;
    }
    levels.reverse();
    Ok(levels)
}

/// Adds links to nodes of the base level to which nothing leads. A link comes from one of the
/// node's own neighbours that can be reached. If it has none, the link comes from the nearest nodes
/// that can.
pub(super) fn attach_stragglers<S: WritePages>(
    body: &Body,
    ordered: &S,
    store: &S,
    links: &mut Links,
) -> Result<(), IndexError> {
    let mut levels = reachable(body, ordered, store)?;
    let Some(reached) = levels.first_mut() else {
        return Ok(());
    };
    let geometry = body.base();
    for block in 1..ordered.block_count() {
        let mut stragglers = vec![];
        each_slot(ordered, geometry, block, |id, slot| {
            if slot.state()? == SlotState::Node && !reached.contains(id) {
                stragglers.push((id, slot.links()?.collect::<Vec<u32>>()));
            }
            Ok(())
        })?;
        for (id, neighbours) in stragglers {
            if reached.contains(id) {
                continue; // by one before it
            }
            store.check_interrupts();
            let from = match neighbours.into_iter().find(|link| reached.contains(*link)) {
                Some(link) => Some(link),
                None => link_by_search(body, store, links, id)?,
            };
            if let Some(from) = from
                && links.link_back(body, store, 0, from, id, true)?
            {
                spread(body, store, 0, id, reached)?;
            }
        }
    }
    Ok(())
}

/// Gives a node whose links lead nowhere the links that an insert would choose. Returns its nearest
/// neighbour, or `None` if there is none or an insert has changed the list.
fn link_by_search<S: WritePages>(
    body: &Body,
    store: &S,
    links: &mut Links,
    id: u32,
) -> Result<Option<u32>, IndexError> {
    const CANDIDATES: usize = 100;
    let geometry = body.base();
    let Some(old) = links.read_node(body, store, 0, id)? else {
        return Ok(None);
    };
    let mut walk = Walk::default();
    walk.begin(store);
    let Some(start) = walk.descend_to(body, store, links.node(), &MetaPage::read(store)?, 0)?
    else {
        return Ok(None);
    };
    walk.beam(store, geometry, links.node(), &[start], CANDIDATES, |_| {
        Ok(())
    })?;
    let found: Vec<u32> = walk
        .pool
        .as_slice()
        .iter()
        .map(|key| key_id(*key))
        .filter(|found| *found != id)
        .collect();
    let chosen = links.choose_for_node(body, store, 0, &found, max_links(1, body.m))?;
    let new: Vec<u32> = chosen.iter().map(|(_, id)| *id).collect();
    let done = change(store, geometry, geometry.block(id), |slots| {
        let slot = slots.slot(geometry.slot(id))?;
        // A link that an insert added meanwhile may be the only one to its node.
        let same = slot.state()? == SlotState::Node && slot.links()?.eq(old.iter().copied());
        if same {
            slots.set_links(geometry.slot(id), &new);
        }
        Ok(same.then_some(()))
    })?;
    Ok(done.and(new.first().copied()))
}
