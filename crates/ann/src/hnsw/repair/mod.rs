//! Repairs the graph around tombstones, and frees them.
//!
//! Few tombstones among live nodes do no harm. Where they lie together, a search must leave the
//! region before it finds an answer. So every vacuum frees the tombstones whose links mostly lead
//! to tombstones ([`SURROUNDED`]). It frees all of them if there are many.

mod bridge;
mod free;
mod relink;
mod stragglers;

use rag_pages::{Block, LockMode, WritePages};

use super::{
    Index, IndexError, MAX_LEVELS, STRUCTURE,
    allocate::change,
    cells::CELLS,
    index::Body,
    layout::{NONE, PageKind, SpecialSpace},
    links::Links,
    lost::{self, LinkSet},
    meta::MetaPage,
    slots::SlotState,
    vacuum::Uninterrupted,
    walk::{Walk, each_slot},
};
use crate::{
    memory::{self, push},
    random,
    visited::Visited,
};
use bridge::Heirs;
use stragglers::attach_stragglers;

/// A tombstone is freed if one in this many of its links leads to a tombstone. If a tenth of all
/// rows died at random, one in ten thousand tombstones is freed.
const SURROUNDED: usize = 3;

/// Repairs the graph around tombstones and frees them. It frees all of them if they are more than
/// the share `many` of the nodes, otherwise those that lie together. Returns the number of freed
/// slots of the base level.
///
/// It also frees links of chains that no node leads to, and chains the pages with room. `ordered`
/// and `store` are the same pages. `ordered` is used to read them in the order of the file, `store`
/// in any order.
///
/// # Errors
/// A page is corrupted.
pub fn repair<S: WritePages>(
    index: &Index,
    ordered: &S,
    store: &S,
    many: f64,
) -> Result<u64, IndexError> {
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
        heirs: Heirs::default(),
        links: Links::default(),
        walk: Walk::default(),
    }
    .run(many)
}

struct Repair<'a, S> {
    body: &'a Body,
    ordered: &'a S,
    store: &'a S,
    /// Pages of slots by level, and pages of cells, among the first `pages_seen`.
    blocks: Vec<Vec<Block>>,
    cell_blocks: Vec<Block>,
    pages_seen: Block,
    /// Number of nodes of the base level that have rows.
    nodes: u64,
    /// All tombstones of the base level, and their number.
    tombstones: Visited,
    count: u64,
    /// Tombstones to be freed, by level.
    dead: Vec<Visited>,
    heirs: Heirs,
    links: Links,
    walk: Walk,
}

impl<S: WritePages> Repair<'_, S> {
    fn run(mut self, many: f64) -> Result<u64, IndexError> {
        // Inserts that began before the tombstones were created may still link to them. Wait until
        // they have finished.
        self.fence();
        let lost = self.read_pages()?;
        let tombstones = self.count;
        let all = tombstones as f64 > many * (self.nodes + tombstones) as f64;
        let going = if tombstones > 0 {
            self.find_dead(all)?
        } else {
            0
        };
        lost::mark(self.body, self.store, &lost)?;
        // Wait again, for inserts that may link to the tombstones above the base, which were
        // created just now. Pages that were added since have nodes that may link to them.
        self.fence();
        self.free_lost(lost)?;
        let mut freed = 0;
        if going > 0 {
            self.find_new_pages()?;
            self.move_entry()?;
            self.find_heirs()?;
            for level in (0..MAX_LEVELS).rev() {
                for i in 0..self.blocks[level].len() {
                    self.relink_page(level, self.blocks[level][i])?;
                }
            }
            self.bridge()?;
            attach_stragglers(self.body, self.ordered, self.store, &mut self.links)?;
            // No node links to a tombstone to be freed any more. Inserts that met one before may
            // still be running: wait again.
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
        MetaPage::update(self.store, |meta| {
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
        self.store.lock(STRUCTURE, LockMode::Exclusive);
        self.store.unlock(STRUCTURE, LockMode::Exclusive);
    }

    /// Reads all pages. Records their kinds and the tombstones of the base level, and counts the
    /// nodes there. Returns links of chains that seem to be lost.
    fn read_pages(&mut self) -> Result<Vec<u32>, IndexError> {
        let (mut there, mut led_to, mut firsts) = (LinkSet::default(), LinkSet::default(), vec![]);
        let end = self.ordered.block_count();
        for block in 1..end {
            self.find_page(block)?;
            each_slot(self.ordered, self.body.base(), block, |id, slot| {
                match slot.state()? {
                    SlotState::Tombstone => {
                        self.count +=
                            u64::from(self.tombstones.insert(id).map_err(IndexError::of_memory)?);
                    }
                    SlotState::Node => self.nodes += 1,
                    SlotState::Free | SlotState::Overflow => {}
                }
                Ok(())
            })?;
            lost::look(self.body, self.ordered, block, &mut there, &mut firsts)?;
            lost::follow(self.body, self.store, &mut firsts, &mut led_to)?;
        }
        self.pages_seen = end;
        there.without(&led_to).map_err(IndexError::of_memory)
    }

    /// Records the pages that were added since.
    fn find_new_pages(&mut self) -> Result<(), IndexError> {
        let end = self.ordered.block_count();
        for block in self.pages_seen.max(1)..end {
            self.find_page(block)?;
        }
        self.pages_seen = end;
        Ok(())
    }

    fn find_page(&mut self, block: Block) -> Result<(), IndexError> {
        self.ordered.check_interrupts();
        let special = self
            .ordered
            .read(block, |page| SpecialSpace::read(page, block))?;
        match special.kind {
            PageKind::Slots if usize::from(special.level) < MAX_LEVELS => {
                push(&mut self.blocks[usize::from(special.level)], block)
                    .map_err(IndexError::of_memory)?;
            }
            PageKind::Cells => push(&mut self.cell_blocks, block).map_err(IndexError::of_memory)?,
            _ => {}
        }
        Ok(())
    }

    /// Frees the marked links to which still no node leads. All inserts that ran when they were
    /// marked have finished.
    fn free_lost(&self, mut lost: Vec<u32>) -> Result<(), IndexError> {
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

    /// Chooses the tombstones of the base level to be freed, and makes their slots above
    /// tombstones, too.
    fn find_dead(&mut self, all: bool) -> Result<u64, IndexError> {
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
                        (SlotState::Tombstone, None) => all || self.is_surrounded(slot.links()?),
                        (SlotState::Tombstone, Some(_)) => true, // as an earlier repair has chosen
                        (SlotState::Node, Some(below)) if below.contains(slot.down()) => {
                            found.push(id);
                            true
                        }
                        _ => false,
                    };
                    if goes {
                        dead.insert(id).map_err(IndexError::of_memory)?;
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

    /// Returns true if a tombstone with these links lies among others.
    fn is_surrounded(&self, links: impl ExactSizeIterator<Item = u32>) -> bool {
        let count = links.len();
        SURROUNDED * links.filter(|link| self.tombstones.contains(*link)).count() >= count
    }

    /// Makes a live node the entry point, if the present one is dead.
    ///
    /// The node is found before the structure is locked. That is safe: only vacuum makes nodes
    /// dead, and an insert that found none alive has made its own node the entry point.
    fn move_entry(&self) -> Result<(), IndexError> {
        let is_dead = |meta: &MetaPage| {
            let top = (meta.top_level as usize).min(MAX_LEVELS - 1);
            (meta.entry != NONE && self.dead[top].contains(meta.entry)).then_some(top)
        };
        let Some(top) = is_dead(&MetaPage::read(self.store)?) else {
            return Ok(());
        };
        let (entry, level) = self.highest_node(top)?.unwrap_or((NONE, 0));
        self.store.lock(STRUCTURE, LockMode::Exclusive);
        let moved = MetaPage::update(self.store, |meta| {
            let moves = is_dead(meta).is_some();
            if moves {
                (meta.entry, meta.top_level) = (entry, level as u32);
            }
            moves
        });
        self.store.unlock(STRUCTURE, LockMode::Exclusive);
        moved
    }

    /// Returns a live node of the highest level that has one.
    fn highest_node(&self, top: usize) -> Result<Option<(u32, usize)>, IndexError> {
        for level in (0..=top).rev() {
            for &block in &self.blocks[level] {
                let mut found = None;
                each_slot(self.ordered, self.body.level(level), block, |id, slot| {
                    if slot.state()? == SlotState::Node {
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

    /// Resets an index of which nothing is left and whose dimensions an insert has determined. That
    /// insert may have been rolled back.
    ///
    /// The index gets another seed, by which sessions notice that what they remember is no longer
    /// true.
    fn forget_dimensions(&self) -> Result<(), IndexError> {
        if MetaPage::read(self.store)?.centroid != NONE {
            return Ok(()); // a build has told the dimensions, and where the data lies
        }
        let store = Uninterrupted(self.store);
        store.lock(STRUCTURE, LockMode::Exclusive);
        let forgotten = self.forget_locked(&store);
        store.unlock(STRUCTURE, LockMode::Exclusive);
        forgotten
    }

    fn forget_locked(&self, store: &Uninterrupted<'_, S>) -> Result<(), IndexError> {
        let slots = memory::collect(self.blocks.iter().flatten().copied())
            .map_err(IndexError::of_memory)?;
        let is_empty = |block: &Block| -> Result<bool, IndexError> {
            Ok(self
                .ordered
                .read(*block, |page| SpecialSpace::read(page, *block))?
                .used
                == 0)
        };
        if MetaPage::read(store)?.entry != NONE || store.0.block_count() != self.pages_seen {
            return Ok(());
        }
        for block in &slots {
            if !is_empty(block)? {
                return Ok(());
            }
        }
        for block in slots {
            // With other dimensions, pages are divided in another way.
            self.ordered.write(block, |page| {
                page.0[rag_pages::HEADER_BYTES..rag_pages::SPECIAL_OFFSET].fill(0);
                Some(())
            });
        }
        MetaPage::update(store, |meta| {
            (meta.dimensions, meta.code_dimensions) = (0, 0);
            meta.description.seed = random::next(&mut meta.description.seed);
            true
        })
    }
}

/// Returns links of a node, or an error if there is no memory for them.
fn copy(links: impl Iterator<Item = u32>) -> Result<Vec<u32>, IndexError> {
    memory::collect(links).map_err(IndexError::of_memory)
}
