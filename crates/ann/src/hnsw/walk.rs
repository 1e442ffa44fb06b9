//! Searches one level: a best-first walk along links that keeps the best `ef` nodes it has met.

use rag_pages::{Block, ReadPages};

use super::{
    IndexError, MAX_LEVELS, Tid,
    format::RECORD_HEAD,
    index::Body,
    layout::{Geometry, NONE, PageKind, SpecialSpace},
    meta::MetaPage,
    slots::{Slot, SlotState},
};
use crate::{
    code::Query,
    memory::OutOfMemory,
    pool::{Pool, key, key_id},
    visited::Visited,
};

/// Expansions between two checks for interrupts.
const INTERRUPT_PERIOD: u64 = 64;

/// The state of a walk. Its buffers are reused.
#[derive(Default)]
pub(super) struct Walk {
    pub pool: Pool,
    visited: Visited,
    /// Neighbours of the expanded node that were not met before.
    fresh: Vec<u32>,
    /// Number of pages that the index is known to have.
    blocks: Block,
    /// Number of distances estimated since [`begin`](Self::begin).
    pub scored: u64,
    expanded: u64,
    rows: ReadRows,
}

/// Heap rows of the nodes that a walk has expanded, as far as there is room. The walk reads their
/// slots anyway, so the slots need not be read again for the rows.
#[derive(Default)]
struct ReadRows {
    /// Walk, id and row of a node of the base, at a place computed from the id.
    entries: Vec<(u32, u32, Tid)>,
    walk: u32,
}

impl ReadRows {
    const PLACES: usize = 1024;

    fn begin(&mut self) {
        self.walk = self.walk.wrapping_add(1);
        if self.entries.is_empty() || self.walk == 0 {
            self.entries.clear();
            self.entries.resize(
                Self::PLACES,
                (
                    0,
                    0,
                    Tid {
                        block: 0,
                        offset: 0,
                    },
                ),
            );
            self.walk = 1;
        }
    }

    #[inline]
    fn place(id: u32) -> usize {
        (id.wrapping_mul(0x9e37_79b1) >> 22) as usize % Self::PLACES
    }

    #[inline]
    fn note(&mut self, id: u32, row: Tid) {
        if let Some(entry) = self.entries.get_mut(Self::place(id)) {
            *entry = (self.walk, id, row);
        }
    }

    fn find(&self, id: u32) -> Option<Tid> {
        let (walk, noted, row) = *self.entries.get(Self::place(id))?;
        (walk == self.walk && noted == id).then_some(row)
    }
}

/// Number of neighbours whose codes are prefetched together, if there are as many.
const FETCHED_TOGETHER: usize = 8;

/// Number of candidates on the way down. Most deletions leave clusters that hardly link to each
/// other. With one candidate a search too often ends in the wrong cluster. A second one costs 2 %
/// of a search.
const DESCENT: usize = 2;

/// Where a search of the base level begins.
pub(super) enum Start {
    /// The level has no node.
    Empty,
    /// The key of a node.
    At(u64),
    /// On every way down, a slot was freed meanwhile.
    Blocked,
}

impl Walk {
    pub fn begin(&mut self, store: &impl ReadPages) {
        self.blocks = store.block_count();
        self.scored = 0;
        self.expanded = 0;
        self.rows.begin();
    }

    /// Returns the heap row of a node of the base that has one row, if this walk has read it. Since
    /// then the row may have been removed. Another row may be in its place, which the walk's
    /// snapshot does not see.
    pub fn row(&self, id: u32) -> Option<Tid> {
        self.rows.find(id)
    }

    /// Releases the memory that a walk through a large index has taken.
    pub fn shrink(&mut self) {
        const KEPT: usize = 8 << 20;
        self.visited.shrink(KEPT);
    }

    pub fn blocks(&self) -> Block {
        self.blocks
    }

    /// Goes down from the entry point to the base level, greedily.
    pub fn descend<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        query: &Query,
    ) -> Result<Start, IndexError> {
        if let Some((level, id)) = body.upper.near(body, store, query, self.blocks)? {
            if let Some(start) = self.descend_from(body, store, query, (level, id), 0)? {
                return Ok(Start::At(start));
            }
            body.upper.forget();
        }
        const ATTEMPTS: usize = 5;
        for _ in 0..ATTEMPTS {
            let meta = MetaPage::read(store)?;
            if meta.entry == NONE {
                return Ok(Start::Empty);
            }
            if let Some(start) = self.descend_to(body, store, query, &meta, 0)? {
                return Ok(Start::At(start));
            }
        }
        Ok(Start::Blocked)
    }

    /// Returns the key of a node of level `to` near the query. Returns `None` if a slot on the way
    /// was freed meanwhile.
    pub fn descend_to<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        query: &Query,
        meta: &MetaPage,
        to: usize,
    ) -> Result<Option<u64>, IndexError> {
        let top = (meta.top_level as usize).min(MAX_LEVELS - 1);
        self.descend_from(body, store, query, (top, meta.entry), to)
    }

    /// Goes down from a slot of a level.
    fn descend_from<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        query: &Query,
        (mut level, mut id): (usize, u32),
        to: usize,
    ) -> Result<Option<u64>, IndexError> {
        loop {
            let geometry = body.level(level);
            let Some(entry) = self.score_one(store, geometry, query, id)? else {
                return Ok(None);
            };
            if level == to {
                return Ok(Some(entry));
            }
            self.beam(store, geometry, query, &[entry], DESCENT, |_| Ok(()))?;
            let best = self
                .pool
                .as_slice()
                .first()
                .map_or(id, |best| key_id(*best));
            let down = self.read_slot(store, geometry, best, |slot| {
                Ok((slot.state()?, slot.down()))
            })?;
            match down {
                (SlotState::Node | SlotState::Tombstone, down) => id = down,
                _ => return Ok(None),
            }
            level -= 1;
        }
    }

    /// Searches a level from `entries` (keys). Leaves the best `ef` keys in the pool, best first.
    /// `left_out` gets every key that the pool had no room for.
    pub fn beam<S: ReadPages>(
        &mut self,
        store: &S,
        geometry: &Geometry,
        query: &Query,
        entries: &[u64],
        ef: usize,
        mut left_out: impl FnMut(u64) -> Result<(), OutOfMemory>,
    ) -> Result<(), IndexError> {
        self.visited.clear();
        self.pool.reset(ef);
        for &entry in entries {
            if self
                .visited
                .insert(key_id(entry))
                .map_err(IndexError::of_memory)?
                && let Some(out) = self.pool.insert(entry)
            {
                left_out(out).map_err(IndexError::of_memory)?;
            }
        }
        while let Some(best) = self.pool.next_unexpanded() {
            self.fresh.clear();
            self.prefetch_next(store, geometry);
            self.gather(store, geometry, key_id(best))?;
            // With few codes per batch, prefetching would not hide the latency.
            while self.fresh.len() < FETCHED_TOGETHER
                && let Some(next) = self.pool.next_unexpanded()
            {
                self.prefetch_next(store, geometry);
                self.gather(store, geometry, key_id(next))?;
            }
            let pool = &mut self.pool;
            let fresh = &self.fresh;
            self.scored += fresh.len() as u64;
            score(store, geometry, query, fresh, |key| {
                match pool.insert(key) {
                    Some(out) => left_out(out),
                    None => Ok(()),
                }
            })?;
        }
        Ok(())
    }

    /// Adds a node to those that [`beam`](Self::beam) has found, unless it has met the node.
    pub fn offer(&mut self, key: u64) -> Result<(), IndexError> {
        if self
            .visited
            .insert(key_id(key))
            .map_err(IndexError::of_memory)?
        {
            self.pool.insert(key);
        }
        Ok(())
    }

    /// Calls `found` with the keys of the neighbours of some nodes that were not met before.
    pub fn expand<S: ReadPages>(
        &mut self,
        store: &S,
        geometry: &Geometry,
        query: &Query,
        ids: &[u32],
        found: impl FnMut(u64) -> Result<(), OutOfMemory>,
    ) -> Result<(), IndexError> {
        self.fresh.clear();
        for &id in ids {
            let (block, slot) = (geometry.block(id), geometry.slot(id));
            store.prefetch(block, [geometry.record_range(slot)]);
        }
        for &id in ids {
            self.gather(store, geometry, id)?;
        }
        self.scored += self.fresh.len() as u64;
        score(store, geometry, query, &self.fresh, found)
    }

    /// Prefetches the links of the node that is expanded next, unless a better one is found before.
    fn prefetch_next(&self, store: &impl ReadPages, geometry: &Geometry) {
        if let Some(next) = self.pool.peek_unexpanded() {
            let (block, slot) = (geometry.block(key_id(next)), geometry.slot(key_id(next)));
            store.prefetch(block, [geometry.record_range(slot)]);
        }
    }

    /// Adds the neighbours of a node that were not met before to `fresh`.
    fn gather<S: ReadPages>(
        &mut self,
        store: &S,
        geometry: &Geometry,
        id: u32,
    ) -> Result<(), IndexError> {
        self.expanded += 1;
        if self.expanded.is_multiple_of(INTERRUPT_PERIOD) {
            store.check_interrupts();
        }
        let block = self.block(store, geometry, id)?;
        let before = self.fresh.len();
        loop {
            let limit = geometry.ids(self.blocks);
            let (fresh, visited, rows) = (&mut self.fresh, &mut self.visited, &mut self.rows);
            let beyond = store.read(block, |page| {
                let slot = geometry.follow(page, block).slot(geometry.slot(id))?;
                match slot.state()? {
                    SlotState::Node if geometry.level == 0 && !slot.has_overflow() => {
                        rows.note(id, slot.tid())
                    }
                    SlotState::Node | SlotState::Tombstone => {}
                    SlotState::Free | SlotState::Overflow => {
                        geometry.check_freed(page, block)?;
                        return Ok(None);
                    }
                }
                for link in slot.links()? {
                    if u64::from(link) >= limit {
                        return Ok(Some(link));
                    }
                    if visited.insert(link).map_err(IndexError::of_memory)? {
                        fresh.push(link);
                    }
                }
                Ok(None)
            })?;
            let Some(link) = beyond else { return Ok(()) };
            // The page is newer than this walk, or there is no such page.
            for id in self.fresh.drain(before..) {
                self.visited.remove(id);
            }
            self.blocks = store.block_count();
            if u64::from(link) >= geometry.ids(self.blocks) {
                return Err(IndexError::corrupted(
                    block,
                    format!("a link leads to slot {link}, which is beyond the end of the index"),
                ));
            }
        }
    }

    /// Returns the key of a slot that was not reached by a link, or `None` if it holds no node.
    fn score_one<S: ReadPages>(
        &mut self,
        store: &S,
        geometry: &Geometry,
        query: &Query,
        id: u32,
    ) -> Result<Option<u64>, IndexError> {
        self.block(store, geometry, id)?;
        self.scored += 1;
        let mut found = None;
        score(store, geometry, query, &[id], |key| {
            found = Some(key);
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads one slot.
    pub fn read_slot<S: ReadPages, R>(
        &mut self,
        store: &S,
        geometry: &Geometry,
        id: u32,
        f: impl FnOnce(Slot<'_>) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        let block = self.block(store, geometry, id)?;
        read_slot(store, geometry, block, id, f)
    }

    /// Returns the page of a slot, which must exist.
    fn block(
        &mut self,
        store: &impl ReadPages,
        geometry: &Geometry,
        id: u32,
    ) -> Result<Block, IndexError> {
        let block = geometry.block(id);
        if block >= self.blocks {
            self.blocks = store.block_count();
            if block >= self.blocks {
                return Err(IndexError::corrupted(
                    block,
                    "a link leads to a page beyond the end of the index",
                ));
            }
        }
        Ok(block)
    }
}

/// Calls `f` with each slot of a page and its id, if the page belongs to this level.
pub(super) fn each_slot<S: ReadPages>(
    store: &S,
    geometry: &Geometry,
    block: Block,
    mut f: impl FnMut(u32, Slot<'_>) -> Result<(), IndexError>,
) -> Result<(), IndexError> {
    store.check_interrupts();
    store.read(block, |page| {
        let special = SpecialSpace::read(page, block)?;
        if special.kind != PageKind::Slots || special.level != geometry.level {
            return Ok(());
        }
        for slot in geometry.follow(page, block).slots() {
            let (i, slot) = slot?;
            f(geometry.id(block, i), slot)?;
        }
        Ok(())
    })
}

/// Reads one slot of an existing page.
pub(super) fn read_slot<S: ReadPages, R>(
    store: &S,
    geometry: &Geometry,
    block: Block,
    id: u32,
    f: impl FnOnce(Slot<'_>) -> Result<R, IndexError>,
) -> Result<R, IndexError> {
    store.read(block, |page| {
        f(geometry.follow(page, block).slot(geometry.slot(id))?)
    })
}

/// Estimates the distances of some slots of existing pages. Consecutive slots on a page take one
/// page lock. Slots that hold no node are skipped.
fn score<S: ReadPages>(
    store: &S,
    geometry: &Geometry,
    query: &Query,
    ids: &[u32],
    mut found: impl FnMut(u64) -> Result<(), OutOfMemory>,
) -> Result<(), IndexError> {
    for &id in ids {
        let (block, slot) = (geometry.block(id), geometry.slot(id));
        let code = (geometry.code_offset(slot), geometry.code_bytes);
        let head = (geometry.record_offset(slot), RECORD_HEAD);
        store.prefetch(block, [code, head]);
    }
    for here in ids.chunk_by(|a, b| geometry.block(*a) == geometry.block(*b)) {
        let block = geometry.block(here[0]);
        store.read(block, |page| {
            let slots = geometry.follow(page, block);
            for &id in here {
                let slot = slots.slot(geometry.slot(id))?;
                match slot.state()? {
                    SlotState::Node | SlotState::Tombstone => {
                        let key = key(query.distance(slot.code, slot.factors()), id);
                        found(key).map_err(IndexError::of_memory)?;
                    }
                    SlotState::Free | SlotState::Overflow => geometry.check_freed(page, block)?,
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}
