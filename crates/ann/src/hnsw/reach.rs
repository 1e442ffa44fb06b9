//! Which nodes can be reached from the entry point.

use rag_pages::{ReadPages, WritePages};

use super::{
    Damage, MAX_LEVELS,
    index::Body,
    layout::{Kind, NONE, Special, State},
    links::Links,
    meta::Meta,
    walk::read_slot,
};
use crate::visited::Visited;

/// Adds to `reached` what links of a level lead to from `start`.
fn spread(body: &Body, store: &impl ReadPages, level: usize, start: u32, reached: &mut Visited) -> Result<(), Damage> {
    let geometry = body.level(level);
    let blocks = store.block_count();
    let mut waiting = vec![start];
    reached.insert(start);
    while let Some(id) = waiting.pop() {
        let block = geometry.block(id);
        if block >= blocks {
            continue; // a page that is newer than this look
        }
        store.check_interrupts();
        read_slot(store, geometry, block, id, |slot| {
            if matches!(slot.state()?, State::Node | State::Tombstone) {
                for link in slot.links()? {
                    if u64::from(link) < geometry.ids(blocks) && reached.insert(link) {
                        waiting.push(link);
                    }
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The slots of the levels, from the base up to the entry point's, that a search can come to.
pub(super) fn reachable(body: &Body, store: &impl ReadPages) -> Result<Vec<Visited>, Damage> {
    let meta = Meta::read(store)?;
    let mut levels = vec![];
    let mut id = meta.entry;
    if id == NONE {
        return Ok(levels);
    }
    for level in (0..=(meta.top_level as usize).min(MAX_LEVELS - 1)).rev() {
        let geometry = body.level(level);
        let block = geometry.block(id);
        if block >= store.block_count() {
            return Err(Damage::new(0, "the way from the entry point leads beyond the end"));
        }
        let mut reached = Visited::new();
        spread(body, store, level, id, &mut reached)?;
        levels.push(reached);
        id = read_slot(store, geometry, block, id, |slot| Ok(slot.down()))?;
    }
    levels.reverse();
    Ok(levels)
}

/// Links nodes of the base level that no one leads to from one of their own neighbours that can be reached.
pub(super) fn attach_stragglers<S: WritePages>(body: &Body, store: &S, links: &mut Links) -> Result<(), Damage> {
    let mut levels = reachable(body, store)?;
    let Some(reached) = levels.first_mut() else { return Ok(()) };
    let geometry = body.base();
    for block in 1..store.block_count() {
        let mut stragglers = vec![];
        store.read(block, |page| {
            let special = Special::read(page, block)?;
            if special.kind != Kind::Slots || special.level != 0 {
                return Ok(());
            }
            for slot in geometry.open(page, block)?.slots() {
                let (i, slot) = slot?;
                let id = geometry.id(block, i);
                if slot.state()? == State::Node && !reached.contains(id) {
                    stragglers.push((id, slot.links()?.collect::<Vec<u32>>()));
                }
            }
            Ok(())
        })?;
        for (id, neighbours) in stragglers {
            let from = neighbours.into_iter().find(|link| reached.contains(*link));
            if let Some(from) = from.filter(|_| !reached.contains(id)) {
                links.link_back(body, store, 0, from, id, true)?;
                spread(body, store, 0, id, reached)?;
            }
        }
    }
    Ok(())
}
