//! Finds the nodes that can be reached from the entry point.
//!
//! A search comes down to the base at a node near the query, and so it can also find a node that no
//! path of the base leads to from the entry point ([`reachable`]). But then searches that come down
//! elsewhere do not find it. So VACUUM leaves none of those ([`stragglers`]).

use rag_pages::ReadPages;

use super::{
    Index, IndexError, MAX_LEVELS,
    index::Body,
    layout::NONE,
    meta::MetaPage,
    slots::SlotState,
    walk::{each_slot, read_slot},
};
use crate::{memory::push, visited::Visited};

/// Adds to `reached` the slots that links of a level lead to from `start`.
pub(super) fn spread(
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
            if slot.state()?.has_code() {
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

/// Adds all slots that can be reached from `starts`. It reads page after page in the order of the
/// file, repeatedly until nothing is new. Links lead to pages all over the file, and each page is
/// read once for all of its nodes.
pub(super) fn spread_in_order(
    body: &Body,
    ordered: &impl ReadPages,
    level: usize,
    starts: &[u32],
    reached: &mut Visited,
) -> Result<(), IndexError> {
    let geometry = body.level(level);
    let blocks = ordered.block_count();
    let mut expanded = Visited::new();
    let mut more = false;
    for &start in starts {
        more |= reached.insert(start).map_err(IndexError::of_memory)?;
    }
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
                    if slot.state()?.has_code() {
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

/// Returns the entry point's slot on each level, from the top to the base.
pub(super) fn entries(
    body: &Body,
    store: &impl ReadPages,
) -> Result<Vec<(usize, u32)>, IndexError> {
    let meta = MetaPage::read(store)?;
    let mut entries = vec![];
    let mut id = meta.entry;
    if id == NONE {
        return Ok(entries);
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
        entries.push((level, id));
        id = read_slot(store, geometry, block, id, |slot| Ok(slot.down()))?;
    }
    Ok(entries)
}

/// Returns the number of nodes, of all levels, that the links of their level do not lead to from
/// the entry point.
///
/// # Errors
/// A page is corrupted.
pub fn stragglers(index: &Index, store: &impl ReadPages) -> Result<u64, IndexError> {
    let Some(body) = index.body() else {
        return Ok(0);
    };
    let mut count = 0;
    for (level, entry) in entries(body, store)? {
        let mut reached = Visited::new();
        spread_in_order(body, store, level, &[entry], &mut reached)?;
        for block in 1..store.block_count() {
            each_slot(store, body.level(level), block, |id, slot| {
                count += u64::from(slot.state()? == SlotState::Node && !reached.contains(id));
                Ok(())
            })?;
        }
    }
    Ok(count)
}

/// Returns the slots of the base that searches can reach, or `None` if there is no entry point. On
/// each level a search begins at the entry point's slot, or at the slot below any node that it can
/// reach on the level above.
pub(super) fn reachable(
    body: &Body,
    ordered: &impl ReadPages,
    store: &impl ReadPages,
) -> Result<Option<Visited>, IndexError> {
    let mut reached = None;
    let mut starts: Vec<u32> = vec![];
    for (level, entry) in entries(body, store)? {
        push(&mut starts, entry).map_err(IndexError::of_memory)?;
        let here = reached.insert(Visited::new());
        spread_in_order(body, ordered, level, &starts, here)?;
        starts.clear();
        if level == 0 {
            break;
        }
        let limit = body.level(level - 1).ids(store.block_count());
        for block in 1..ordered.block_count() {
            each_slot(ordered, body.level(level), block, |id, slot| {
                let leads_down =
                    slot.state()?.has_code() && here.contains(id) && u64::from(slot.down()) < limit;
                if leads_down {
                    push(&mut starts, slot.down()).map_err(IndexError::of_memory)?;
                }
                Ok(())
            })?;
        }
    }
    Ok(reached)
}
