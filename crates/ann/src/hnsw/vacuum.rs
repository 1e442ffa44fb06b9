//! Forgetting rows that are gone, and healing the graph.
//!
//! [`remove`] makes a node whose rows are all dead a tombstone: it no longer is an answer, but still a way to others.
//! [`repair`] gives nodes that link to tombstones other links and frees the tombstones' slots. It runs when there are many,
//! because a tenth of the nodes being dead already touches most of the lists.

use rag_pages::{Block, LockMode, WritePages};

use super::{
    Damage, Index, MAX_LEVELS, Tid,
    allocate::change,
    index::Body,
    layout::{Kind, NONE, Special, State, max_links},
    links::Links,
    meta::Meta,
    overflow, reach,
    walk::{Walk, each_slot, read_slot},
};
use crate::{
    memory::{self, push},
    pool::{key, key_id},
    visited::Visited,
};

/// Nodes above the base, dead ones included, among which one that lost neighbours finds others.
const CANDIDATES_ABOVE: usize = 200;

/// What [`remove`] did and left.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Removal {
    /// Heap rows removed.
    pub removed: u64,
    /// Heap rows that are still there.
    pub remaining: u64,
    pub tombstones: u64,
    /// Slots of the base level that have rows.
    pub nodes: u64,
}

/// Removes the heap rows that `is_dead` names.
///
/// # Errors
/// A page is damaged.
pub fn remove(index: &Index, store: &impl WritePages, is_dead: &mut dyn FnMut(Tid) -> bool) -> Result<Removal, Damage> {
    let mut removal = Removal::default();
    let Some(body) = index.body() else { return Ok(removal) };
    let geometry = body.base();
    let mut chained: Vec<u32> = vec![];
    for block in 1..store.block_count() {
        let mut rows: Vec<(usize, Tid)> = vec![];
        each_slot(store, geometry, block, |id, slot| {
            match slot.state()? {
                State::Node if slot.has_overflow() => push(&mut chained, id).map_err(Damage::of_memory)?,
                State::Node => rows.push((geometry.slot(id), slot.tid())),
                State::Tombstone => removal.tombstones += 1,
                State::Free | State::Overflow => {}
            }
            Ok(())
        })?;
        let all = rows.len() as u64;
        rows.retain(|(_, tid)| is_dead(*tid));
        removal.nodes += all - rows.len() as u64;
        removal.remaining += all - rows.len() as u64;
        if rows.is_empty() {
            continue;
        }
        let removed = change(store, geometry, block, |slots| {
            let mut removed = 0;
            for &(i, tid) in &rows {
                let slot = slots.slot(i)?;
                if slot.has_overflow() {
                    // a row was added meanwhile, and this one went into the chain
                    push(&mut chained, geometry.id(block, i)).map_err(Damage::of_memory)?;
                } else if slot.state()? == State::Node && slot.tid() == tid {
                    slots.set_tombstone(i);
                    removed += 1;
                }
            }
            Ok((removed > 0).then_some(removed))
        })?;
        removal.removed += removed.unwrap_or(0);
        removal.tombstones += removed.unwrap_or(0);
    }
    for node in chained {
        remove_from_chain(body, store, node, is_dead, &mut removal)?;
    }
    Meta::update(store, |meta| {
        let same = meta.nodes == removal.nodes && meta.tombstones == removal.tombstones;
        (meta.nodes, meta.tombstones) = (removal.nodes, removal.tombstones);
        !same
    })?;
    Ok(removal)
}

/// Removes dead rows of a node that has several, and the node with the last of them.
fn remove_from_chain<S: WritePages>(
    body: &Body,
    store: &S,
    node: u32,
    is_dead: &mut dyn FnMut(Tid) -> bool,
    removal: &mut Removal,
) -> Result<(), Damage> {
    let geometry = body.base();
    let block = geometry.block(node);
    let first = |store: &S| {
        read_slot(store, geometry, block, node, |slot| {
            Ok((slot.state()? == State::Node && slot.has_overflow()).then(|| slot.down()))
        })
    };
    let Some(chain) = first(store)? else { return Ok(()) };
    let mut slots: Vec<(u32, Vec<Tid>)> = vec![];
    overflow::walk(store, geometry, chain, |id, rows| push(&mut slots, (id, memory::collect(rows)?)))?;
    let mut left = 0;
    for (id, rows) in slots {
        let dead: Vec<Tid> = rows.iter().copied().filter(|tid| is_dead(*tid)).collect();
        left += rows.len() - dead.len();
        if dead.is_empty() {
            continue;
        }
        change(store, geometry, geometry.block(id), |slots| {
            let i = geometry.slot(id);
            let kept: Vec<Tid> = slots.slot(i)?.rows()?.filter(|tid| !dead.contains(tid)).collect();
            slots.set_rows(i, &kept);
            Ok(Some(()))
        })?;
        removal.removed += dead.len() as u64;
    }
    removal.remaining += left as u64;
    if left > 0 {
        removal.nodes += 1;
        return Ok(());
    }
    // An insert may be adding a row to the chain: with the structure locked there is none.
    store.lock(LockMode::Exclusive);
    let dead = (|| {
        let Some(chain) = first(store)? else { return Ok(false) };
        let mut rows = vec![];
        overflow::rows(store, geometry, chain, &mut rows)?;
        if !rows.is_empty() {
            return Ok(false);
        }
        change(store, geometry, block, |slots| {
            slots.set_tombstone(geometry.slot(node));
            Ok(Some(()))
        })?;
        Ok(true)
    })();
    store.unlock(LockMode::Exclusive);
    match dead? {
        true => removal.tombstones += 1,
        false => removal.nodes += 1,
    }
    Ok(())
}

/// Heals the graph around its tombstones and frees their slots; returns how many of the base level it freed.
///
/// # Errors
/// A page is damaged.
pub fn repair(index: &Index, store: &impl WritePages) -> Result<u64, Damage> {
    let Some(body) = index.body() else { return Ok(0) };
    Repair {
        body,
        store,
        blocks: vec![vec![]; MAX_LEVELS],
        pages_seen: 0,
        dead: vec![],
        links: Links::default(),
        walk: Walk::default(),
    }
    .run()
}

struct Repair<'a, S> {
    body: &'a Body,
    store: &'a S,
    /// Pages of slots, by level, among the first `pages_seen`.
    blocks: Vec<Vec<Block>>,
    pages_seen: Block,
    /// Tombstones, by level.
    dead: Vec<Visited>,
    links: Links,
    walk: Walk,
}

impl<S: WritePages> Repair<'_, S> {
    fn run(mut self) -> Result<u64, Damage> {
        // Inserts that began before the tombstones were made may still link to them: wait until they are through.
        self.fence();
        if self.find_dead()? == 0 {
            // a repair before this one was stopped when it had freed all, and before it noted that
            Meta::update(self.store, |meta| std::mem::take(&mut meta.tombstones) > 0)?;
            return Ok(0);
        }
        // The same for the tombstones above the base, which were only made now; and pages that came since have nodes that
        // may link to them.
        self.fence();
        self.find_pages()?;
        self.move_entry()?;
        for level in (0..MAX_LEVELS).rev() {
            for i in 0..self.blocks[level].len() {
                self.relink_page(level, self.blocks[level][i])?;
            }
        }
        reach::attach_stragglers(self.body, self.store, &mut self.links)?;
        // No live node links to a tombstone any more. Inserts that met one before may be on their way: wait again.
        self.fence();
        let mut freed = 0;
        for level in (0..MAX_LEVELS).rev() {
            freed = self.free_level(level)?;
        }
        Meta::update(self.store, |meta| {
            meta.tombstones = meta.tombstones.saturating_sub(freed);
            true
        })?;
        Ok(freed)
    }

    fn fence(&self) {
        self.store.lock(LockMode::Exclusive);
        self.store.unlock(LockMode::Exclusive);
    }

    /// Notes the pages of slots that were added since it was called last.
    fn find_pages(&mut self) -> Result<(), Damage> {
        let end = self.store.block_count();
        for block in self.pages_seen.max(1)..end {
            self.store.check_interrupts();
            let special = self.store.read(block, |page| Special::read(page, block))?;
            if special.kind == Kind::Slots && usize::from(special.level) < MAX_LEVELS {
                push(&mut self.blocks[usize::from(special.level)], block).map_err(Damage::of_memory)?;
            }
        }
        self.pages_seen = end;
        Ok(())
    }

    /// Finds the tombstones of the base level, and makes their slots above tombstones, too.
    fn find_dead(&mut self) -> Result<u64, Damage> {
        let store = self.store;
        self.find_pages()?;
        let mut count = 0;
        for level in 0..MAX_LEVELS {
            let geometry = self.body.level(level);
            let mut dead = Visited::new();
            for &block in &self.blocks[level] {
                let below = level.checked_sub(1).map(|below| &self.dead[below]);
                let mut found = vec![];
                each_slot(store, geometry, block, |id, slot| {
                    match slot.state()? {
                        State::Tombstone => {
                            dead.insert(id).map_err(Damage::of_memory)?;
                            count += u64::from(level == 0);
                        }
                        State::Node if below.is_some_and(|below| below.contains(slot.down())) => found.push(id),
                        _ => {}
                    }
                    Ok(())
                })?;
                if !found.is_empty() {
                    change(store, geometry, block, |slots| {
                        for &id in &found {
                            slots.set_tombstone(geometry.slot(id));
                        }
                        Ok(Some(()))
                    })?;
                    for id in found {
                        dead.insert(id).map_err(Damage::of_memory)?;
                    }
                }
            }
            self.dead.push(dead);
        }
        Ok(count)
    }

    /// Makes a live node the entry point, if the present one is dead.
    ///
    /// It is looked for before the structure is locked: only vacuum makes nodes dead, and an insert that found none alive
    /// has made its own the entry point.
    fn move_entry(&self) -> Result<(), Damage> {
        let is_dead = |meta: &Meta| {
            let top = (meta.top_level as usize).min(MAX_LEVELS - 1);
            (meta.entry != NONE && self.dead[top].contains(meta.entry)).then_some(top)
        };
        let Some(top) = is_dead(&Meta::read(self.store)?) else { return Ok(()) };
        let (entry, level) = self.highest_node(top)?.unwrap_or((NONE, 0));
        self.store.lock(LockMode::Exclusive);
        let moved = Meta::update(self.store, |meta| {
            let moves = is_dead(meta).is_some();
            if moves {
                (meta.entry, meta.top_level) = (entry, level as u32);
            }
            moves
        });
        self.store.unlock(LockMode::Exclusive);
        moved
    }

    /// A live node of the highest level that has one.
    fn highest_node(&self, top: usize) -> Result<Option<(u32, usize)>, Damage> {
        for level in (0..=top).rev() {
            for &block in &self.blocks[level] {
                let mut found = None;
                each_slot(self.store, self.body.level(level), block, |id, slot| {
                    if slot.state()? == State::Node {
                        found = Some(id);
                    }
                    Ok(())
                })?;
                if let Some(id) = found {
                    return Ok(Some((id, level)));
                }
            }
        }
        Ok(None)
    }

    /// Gives other links to the nodes of a page that link to tombstones.
    fn relink_page(&mut self, level: usize, block: Block) -> Result<(), Damage> {
        let geometry = self.body.level(level);
        loop {
            let ill = self.ill_nodes(level, block)?;
            if ill.is_empty() {
                return Ok(());
            }
            let mut healed: Vec<(usize, Vec<u32>, Vec<u32>)> = vec![];
            for (i, old) in ill {
                let new = self.new_links(level, geometry.id(block, i), &old)?;
                healed.push((i, old, new));
            }
            change(self.store, geometry, block, |slots| {
                let mut changed = false;
                for (i, old, new) in &healed {
                    // one that an insert has changed meanwhile is looked at again
                    if slots.slot(*i)?.links()?.eq(old.iter().copied()) {
                        slots.set_links(*i, new);
                        changed = true;
                    }
                }
                Ok(changed.then_some(()))
            })?;
            for (i, old, new) in healed {
                let node = geometry.id(block, i);
                for link in new.into_iter().filter(|link| !old.contains(link)) {
                    self.links.link_back(self.body, self.store, level, link, node, false)?;
                }
            }
        }
    }

    /// Nodes of a page that link to tombstones, with their links.
    fn ill_nodes(&self, level: usize, block: Block) -> Result<Vec<(usize, Vec<u32>)>, Damage> {
        let geometry = self.body.level(level);
        let mut ill = vec![];
        each_slot(self.store, geometry, block, |id, slot| {
            if slot.state()? == State::Node && slot.links()?.any(|link| self.dead[level].contains(link)) {
                ill.push((geometry.slot(id), slot.links()?.collect()));
            }
            Ok(())
        })?;
        Ok(ill)
    }

    /// The best links among the live neighbours, the live neighbours of the dead ones and, above the base, what a search
    /// finds: there nodes are few, and where most have died the others may be more than two links away.
    fn new_links(&mut self, level: usize, node: u32, old: &[u32]) -> Result<Vec<u32>, Damage> {
        let geometry = self.body.level(level);
        let dead = &self.dead[level];
        let mut candidates: Vec<u32> = vec![];
        for &link in old {
            if !dead.contains(link) {
                candidates.push(link);
                continue;
            }
            let block = geometry.block(link);
            read_slot(self.store, geometry, block, link, |slot| {
                candidates.extend(slot.links()?.filter(|link| !dead.contains(*link)));
                Ok(())
            })?;
        }
        if self.links.read_node(self.body, self.store, level, node)?.is_none() {
            return Ok(vec![]);
        }
        if level > 0 {
            self.walk.begin(self.store);
            self.walk.beam(self.store, geometry, self.links.node(), &[key(0.0, node)], CANDIDATES_ABOVE, |_| Ok(()))?;
            let found = self.walk.pool.as_slice().iter().map(|key| key_id(*key));
            candidates.extend(found.filter(|id| !dead.contains(*id)));
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates.retain(|id| *id != node);
        let limit = max_links(level, self.body.m);
        let chosen = self.links.choose_for_node(self.body, self.store, level, &candidates, limit)?;
        let mut links: Vec<u32> = chosen.into_iter().map(|(_, id)| id).collect();
        links.sort_unstable();
        Ok(links)
    }

    /// Frees the tombstones of a level, and chains its pages that have free slots; returns how many it freed.
    fn free_level(&self, level: usize) -> Result<u64, Damage> {
        let geometry = self.body.level(level);
        let mut freed = 0;
        let mut next = NONE;
        let mut chains: Vec<u32> = vec![];
        for &block in self.blocks[level].iter().rev() {
            self.store.check_interrupts();
            let here = change(self.store, geometry, block, |slots| {
                let mut here = 0;
                for i in 0..geometry.slots {
                    let slot = slots.slot(i)?;
                    if self.dead[level].contains(geometry.id(block, i)) && slot.state()? == State::Tombstone {
                        if slot.has_overflow() {
                            push(&mut chains, slot.down()).map_err(Damage::of_memory)?;
                        }
                        slots.set_free(i);
                        here += 1;
                    }
                }
                let special = slots.special()?;
                let full = usize::from(special.used) >= geometry.slots;
                if here == 0 && (full || special.next == next) {
                    return Ok(if full { None } else { Some((0, true)) });
                }
                slots.set_next(next)?;
                Ok(Some((here, !full)))
            })?;
            if let Some((here, has_room)) = here {
                freed += here;
                if has_room {
                    next = block;
                }
            }
        }
        for chain in chains {
            let mut ids = vec![];
            overflow::walk(self.store, geometry, chain, |id, _| push(&mut ids, id))?;
            for id in ids {
                super::allocate::free(self.store, geometry, id)?;
            }
        }
        if next != NONE {
            Meta::update(self.store, |meta| {
                meta.insert_block[level] = next;
                true
            })?;
        }
        Ok(freed)
    }
}
