//! Healing the graph around tombstones, and freeing them.
//!
//! Few tombstones among live nodes do no harm. Where they lie together they do: a search must leave
//! the region before it finds an answer. So those go at every vacuum whose own links lead to
//! tombstones to a good part ([`SURROUNDED`]); all of them go when they are many.

use rag_pages::{Block, LockMode, WritePages};

use super::{
    Damage, Index, MAX_LEVELS,
    allocate::change,
    cells::CELLS,
    index::Body,
    layout::{Kind, NONE, Special, State, max_links},
    links::Links,
    lost::{self, LinkSet},
    meta::Meta,
    overflow, reach,
    vacuum::Uninterrupted,
    walk::{Walk, each_slot, read_slot},
};
use crate::{
    memory::{self, push},
    pool::{key, key_id},
    random,
    visited::Visited,
};

/// Nodes, dead ones included, among which one that lost neighbours finds others: above the base,
/// and where the dead neighbours lead to few.
const CANDIDATES: usize = 200;

/// A tombstone goes if one in so many of its links leads to a tombstone. Where a tenth of all rows
/// died at random, that is one in ten thousand of them.
const SURROUNDED: usize = 3;

/// Heals the graph around tombstones and frees them: all of them if they are more than the share
/// `many` of the nodes, else those that lie together. Returns how many of the base level it freed.
///
/// It also frees links of chains that no node leads to, and makes the chains of pages with room.
/// `ordered` is for pages in the order of the file, `store` for pages in any order: the same pages
/// by two ways.
///
/// # Errors
/// A page is damaged.
pub fn repair<S: WritePages>(
    index: &Index,
    ordered: &S,
    store: &S,
    many: f64,
) -> Result<u64, Damage> {
    let Some(body) = index.body() else {
        return Ok(0);
    };
    Repair {
        body,
        ordered,
        store,
        blocks: vec![vec![]; MAX_LEVELS],
        cell_blocks: vec![],
        pages_seen: 0,
        nodes: 0,
        tombstones: Visited::new(),
        count: 0,
        dead: vec![],
        links: Links::default(),
        walk: Walk::default(),
    }
    .run(many)
}

struct Repair<'a, S> {
    body: &'a Body,
    ordered: &'a S,
    store: &'a S,
    /// Pages of slots, by level, and pages of cells, among the first `pages_seen`.
    blocks: Vec<Vec<Block>>,
    cell_blocks: Vec<Block>,
    pages_seen: Block,
    /// Nodes of the base level that have rows.
    nodes: u64,
    /// All tombstones of the base level, and how many they are.
    tombstones: Visited,
    count: u64,
    /// Tombstones that go, by level.
    dead: Vec<Visited>,
    links: Links,
    walk: Walk,
}

impl<S: WritePages> Repair<'_, S> {
    fn run(mut self, many: f64) -> Result<u64, Damage> {
        // Inserts that began before the tombstones were made may still link to them: wait until
        // they are through.
        self.fence();
        let lost = self.look()?;
        let tombstones = self.count;
        let all = tombstones as f64 > many * (self.nodes + tombstones) as f64;
        let going = if tombstones > 0 {
            self.find_dead(all)?
        } else {
            0
        };
        lost::mark(self.body, self.store, &lost)?;
        // The same for the tombstones above the base, which were only made now; and pages that came
        // since have nodes that may link to them.
        self.fence();
        self.free_lost(lost)?;
        let mut freed = 0;
        if going > 0 {
            self.find_new_pages()?;
            self.move_entry()?;
            for level in (0..MAX_LEVELS).rev() {
                for i in 0..self.blocks[level].len() {
                    self.relink_page(level, self.blocks[level][i])?;
                }
            }
            reach::attach_stragglers(self.body, self.ordered, self.store, &mut self.links)?;
            // No node links to one that goes any more. Inserts that met one before may be on their
            // way: wait again.
            self.fence();
            for level in (0..MAX_LEVELS).rev() {
                freed = self.free_level(level)?;
            }
        }
        for level in 0..if going > 0 { MAX_LEVELS } else { 1 } {
            let room = self.body.level(level).slots;
            self.chain_pages(&self.blocks[level], room, |meta| {
                &mut meta.insert_block[level]
            })?;
        }
        self.chain_pages(&self.cell_blocks, CELLS, |meta| &mut meta.cell_block)?;
        Meta::update(self.store, |meta| {
            let before = (meta.nodes, meta.tombstones, meta.repair_due);
            (meta.nodes, meta.tombstones, meta.repair_due) =
                (self.nodes, tombstones.saturating_sub(freed), false);
            before != (meta.nodes, meta.tombstones, meta.repair_due)
        })?;
        if self.nodes == 0 && freed == tombstones {
            self.forget_dimensions()?;
        }
        Ok(freed)
    }

    fn fence(&self) {
        self.store.lock(LockMode::Exclusive);
        self.store.unlock(LockMode::Exclusive);
    }

    /// Reads all pages: notes what they are and the tombstones of the base level, and counts the
    /// nodes there. Returns links of chains that seem to be lost.
    fn look(&mut self) -> Result<Vec<u32>, Damage> {
        let (mut there, mut led_to, mut firsts) = (LinkSet::default(), LinkSet::default(), vec![]);
        let end = self.ordered.block_count();
        for block in 1..end {
            self.find_page(block)?;
            each_slot(self.ordered, self.body.base(), block, |id, slot| {
                match slot.state()? {
                    State::Tombstone => {
                        self.count +=
                            u64::from(self.tombstones.insert(id).map_err(Damage::of_memory)?);
                    }
                    State::Node => self.nodes += 1,
                    State::Free | State::Overflow => {}
                }
                Ok(())
            })?;
            lost::look(self.body, self.ordered, block, &mut there, &mut firsts)?;
            lost::follow(self.body, self.store, &mut firsts, &mut led_to)?;
        }
        self.pages_seen = end;
        memory::collect(there.iter().filter(|id| !led_to.contains(*id))).map_err(Damage::of_memory)
    }

    /// Notes the pages that were added since.
    fn find_new_pages(&mut self) -> Result<(), Damage> {
        let end = self.ordered.block_count();
        for block in self.pages_seen.max(1)..end {
            self.find_page(block)?;
        }
        self.pages_seen = end;
        Ok(())
    }

    fn find_page(&mut self, block: Block) -> Result<(), Damage> {
        self.ordered.check_interrupts();
        let special = self
            .ordered
            .read(block, |page| Special::read(page, block))?;
        match special.kind {
            Kind::Slots if usize::from(special.level) < MAX_LEVELS => {
                push(&mut self.blocks[usize::from(special.level)], block)
                    .map_err(Damage::of_memory)?;
            }
            Kind::Cells => push(&mut self.cell_blocks, block).map_err(Damage::of_memory)?,
            _ => {}
        }
        Ok(())
    }

    /// Frees what still is led to by nobody, now that all inserts that were at work when it was
    /// marked are through.
    fn free_lost(&self, mut lost: Vec<u32>) -> Result<(), Damage> {
        if lost.is_empty() {
            return Ok(());
        }
        let (mut led_to, mut firsts) = (LinkSet::default(), vec![]);
        for block in 1..self.ordered.block_count() {
            self.ordered.check_interrupts();
            lost::look(
                self.body,
                self.ordered,
                block,
                &mut LinkSet::default(),
                &mut firsts,
            )?;
            lost::follow(self.body, self.store, &mut firsts, &mut led_to)?;
        }
        lost.retain(|id| !led_to.contains(*id));
        lost::free_marked(self.body, self.store, &lost)
    }

    /// Chooses the tombstones of the base level that go, and makes their slots above tombstones,
    /// too.
    fn find_dead(&mut self, all: bool) -> Result<u64, Damage> {
        let mut count = 0;
        for level in 0..MAX_LEVELS {
            let geometry = self.body.level(level);
            let mut dead = Visited::new();
            for &block in &self.blocks[level] {
                let below = level.checked_sub(1).map(|below| &self.dead[below]);
                if level == 0
                    && !(0..geometry.slots).any(|i| self.tombstones.contains(geometry.id(block, i)))
                {
                    continue;
                }
                let mut found = vec![];
                each_slot(self.ordered, geometry, block, |id, slot| {
                    let goes = match (slot.state()?, below) {
                        (State::Tombstone, None) => all || self.is_surrounded(slot.links()?),
                        (State::Tombstone, Some(_)) => true, // as an earlier repair has chosen
                        (State::Node, Some(below)) if below.contains(slot.down()) => {
                            found.push(id);
                            true
                        }
                        _ => false,
                    };
                    if goes {
                        dead.insert(id).map_err(Damage::of_memory)?;
                        count += u64::from(level == 0);
                    }
                    Ok(())
                })?;
                if !found.is_empty() {
                    change(self.ordered, geometry, block, |slots| {
                        for &id in &found {
                            slots.set_tombstone(geometry.slot(id));
                        }
                        Ok(Some(()))
                    })?;
                }
            }
            self.dead.push(dead);
        }
        Ok(count)
    }

    /// Whether a tombstone with these links lies among others.
    fn is_surrounded(&self, links: impl ExactSizeIterator<Item = u32>) -> bool {
        let count = links.len();
        SURROUNDED * links.filter(|link| self.tombstones.contains(*link)).count() >= count
    }

    /// Makes a live node the entry point, if the present one is dead.
    ///
    /// It is looked for before the structure is locked: only vacuum makes nodes dead, and an insert
    /// that found none alive has made its own the entry point.
    fn move_entry(&self) -> Result<(), Damage> {
        let is_dead = |meta: &Meta| {
            let top = (meta.top_level as usize).min(MAX_LEVELS - 1);
            (meta.entry != NONE && self.dead[top].contains(meta.entry)).then_some(top)
        };
        let Some(top) = is_dead(&Meta::read(self.store)?) else {
            return Ok(());
        };
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
                each_slot(self.ordered, self.body.level(level), block, |id, slot| {
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

    /// Gives other links to the nodes of a page that link to tombstones that go.
    fn relink_page(&mut self, level: usize, block: Block) -> Result<(), Damage> {
        let geometry = self.body.level(level);
        loop {
            let ill = self.ill_nodes(level, block)?;
            if ill.is_empty() {
                return Ok(());
            }
            let mut healed: Vec<(Ill, Vec<u32>)> = vec![];
            for ill in ill {
                self.store.check_interrupts();
                let new = match ill.state {
                    State::Node => {
                        self.new_links(level, geometry.id(block, ill.slot), &ill.links)?
                    }
                    _ => ill
                        .links
                        .iter()
                        .copied()
                        .filter(|link| !self.dead[level].contains(*link))
                        .collect(),
                };
                healed.push((ill, new));
            }
            change(self.store, geometry, block, |slots| {
                let mut changed = false;
                for (ill, new) in &healed {
                    // one that an insert has changed meanwhile is looked at again
                    if slots.slot(ill.slot)?.links()?.eq(ill.links.iter().copied()) {
                        slots.set_links(ill.slot, new);
                        changed = true;
                    }
                }
                Ok(changed.then_some(()))
            })?;
            for (ill, new) in healed {
                let node = geometry.id(block, ill.slot);
                for link in new.into_iter().filter(|link| !ill.links.contains(link)) {
                    self.store.check_interrupts();
                    self.links
                        .link_back(self.body, self.store, level, link, node, false)?;
                }
            }
        }
    }

    /// Nodes of a page that link to tombstones that go, and tombstones that stay and do.
    fn ill_nodes(&self, level: usize, block: Block) -> Result<Vec<Ill>, Damage> {
        let geometry = self.body.level(level);
        let dead = &self.dead[level];
        let mut ill = vec![];
        each_slot(self.ordered, geometry, block, |id, slot| {
            let state = slot.state()?;
            let stays = state == State::Node || (state == State::Tombstone && !dead.contains(id));
            if stays && slot.links()?.any(|link| dead.contains(link)) {
                ill.push(Ill {
                    slot: geometry.slot(id),
                    state,
                    links: slot.links()?.collect(),
                });
            }
            Ok(())
        })?;
        Ok(ill)
    }

    /// The best links among the live neighbours, the live neighbours of the dead ones and, above
    /// the base and where these are few, what a search finds: where most have died the others may
    /// be more than two links away.
    fn new_links(&mut self, level: usize, node: u32, old: &[u32]) -> Result<Vec<u32>, Damage> {
        let geometry = self.body.level(level);
        let dead = if level == 0 {
            &self.tombstones
        } else {
            &self.dead[level]
        };
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
        if self
            .links
            .read_node(self.body, self.store, level, node)?
            .is_none()
        {
            return Ok(vec![]);
        }
        let limit = max_links(level, self.body.m);
        candidates.sort_unstable();
        candidates.dedup();
        candidates.retain(|id| *id != node);
        if level > 0 || candidates.len() < limit / 2 {
            let mut met: Vec<u64> = vec![];
            self.walk.begin(self.store);
            let start = [key(0.0, node)];
            self.walk.beam(
                self.store,
                geometry,
                self.links.node(),
                &start,
                CANDIDATES,
                |key| push(&mut met, key),
            )?;
            // those that were met on the way out of a dead region, too
            met.retain(|key| level == 0 && !dead.contains(key_id(*key)));
            met.sort_unstable();
            met.truncate(CANDIDATES);
            let found = self
                .walk
                .pool
                .as_slice()
                .iter()
                .chain(&met)
                .map(|key| key_id(*key));
            candidates.extend(found.filter(|id| !dead.contains(*id) && *id != node));
            candidates.sort_unstable();
            candidates.dedup();
        }
        let chosen =
            self.links
                .choose_for_node(self.body, self.store, level, &candidates, limit)?;
        let mut links: Vec<u32> = chosen.into_iter().map(|(_, id)| id).collect();
        links.sort_unstable();
        Ok(links)
    }

    /// Frees the tombstones of a level that go; returns how many it freed.
    fn free_level(&self, level: usize) -> Result<u64, Damage> {
        let geometry = self.body.level(level);
        let mut freed = 0;
        for &block in &self.blocks[level] {
            let mut dead: Vec<usize> = vec![];
            let mut chains: Vec<u32> = vec![];
            each_slot(self.ordered, geometry, block, |id, slot| {
                if self.dead[level].contains(id) && slot.state()? == State::Tombstone {
                    dead.push(geometry.slot(id));
                    if slot.has_overflow() {
                        chains.push(slot.down()); // as older versions left them
                    }
                }
                Ok(())
            })?;
            if dead.is_empty() {
                continue;
            }
            let mut links = vec![];
            for chain in chains {
                overflow::walk(self.store, geometry, chain, |id, _| push(&mut links, id))?;
            }
            change(self.ordered, geometry, block, |slots| {
                for &slot in &dead {
                    slots.set_free(slot);
                }
                Ok(Some(()))
            })?;
            overflow::free(self.body, &Uninterrupted(self.store), links)?;
            freed += dead.len() as u64;
        }
        Ok(freed)
    }

    /// Makes the chain of the pages with room for something: of `blocks`, and of those that inserts
    /// have added since.
    fn chain_pages(
        &self,
        blocks: &[Block],
        room: usize,
        head: impl Fn(&mut Meta) -> &mut u32,
    ) -> Result<(), Damage> {
        let is_new = |block: u32| block != NONE && block >= self.pages_seen;
        let newest = Some(*head(&mut Meta::read(self.store)?)).filter(|block| is_new(*block));
        let mut next = newest.unwrap_or(NONE);
        let mut last = newest;
        for &block in blocks.iter().rev() {
            self.ordered.check_interrupts();
            let special = self
                .ordered
                .read(block, |page| Special::read(page, block))?;
            if usize::from(special.used) >= room {
                continue;
            }
            if special.next != next {
                self.set_next(block, next)?;
            }
            last = last.or(Some(block));
            next = block;
        }
        let Some(last) = last else { return Ok(()) };
        let mut replaced = next;
        Meta::update(self.store, |meta| {
            replaced = std::mem::replace(head(meta), next);
            replaced != next
        })?;
        if is_new(replaced) && Some(replaced) != newest && replaced > last {
            // a page that an insert has added since the head was read
            self.set_next(last, replaced)?;
        }
        Ok(())
    }

    fn set_next(&self, block: Block, next: u32) -> Result<(), Damage> {
        let mut result = Ok(());
        self.ordered
            .write(block, |page| match Special::read(page, block) {
                Ok(special) => {
                    Special { next, ..special }.write(page);
                    Some(())
                }
                Err(damage) => {
                    result = Err(damage);
                    None
                }
            });
        result
    }

    /// Where nothing is left of an index whose dimensions an insert has told, makes it as it was
    /// before that: the insert may have been rolled back.
    ///
    /// The index gets another seed, by which others see that what they know of it is no longer so.
    fn forget_dimensions(&self) -> Result<(), Damage> {
        if Meta::read(self.store)?.centroid != NONE {
            return Ok(()); // a build has told the dimensions, and where the data lies
        }
        let store = Uninterrupted(self.store);
        store.lock(LockMode::Exclusive);
        let forgotten = self.forget_locked(&store);
        store.unlock(LockMode::Exclusive);
        forgotten
    }

    fn forget_locked(&self, store: &Uninterrupted<'_, S>) -> Result<(), Damage> {
        let slots =
            memory::collect(self.blocks.iter().flatten().copied()).map_err(Damage::of_memory)?;
        let is_empty = |block: &Block| -> Result<bool, Damage> {
            Ok(self
                .ordered
                .read(*block, |page| Special::read(page, *block))?
                .used
                == 0)
        };
        if Meta::read(store)?.entry != NONE || store.0.block_count() != self.pages_seen {
            return Ok(());
        }
        for block in &slots {
            if !is_empty(block)? {
                return Ok(());
            }
        }
        for block in slots {
            // pages are divided otherwise with other dimensions
            self.ordered.write(block, |page| {
                page.0[rag_pages::HEADER_BYTES..rag_pages::SPECIAL_OFFSET].fill(0);
                Some(())
            });
        }
        Meta::update(store, |meta| {
            (meta.dimensions, meta.code_dimensions) = (0, 0);
            meta.description.seed = random::next(&mut meta.description.seed);
            true
        })
    }
}

/// A node or tombstone that links to tombstones that go.
struct Ill {
    slot: usize,
    state: State,
    links: Vec<u32>,
}
