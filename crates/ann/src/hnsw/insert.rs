//! Adding a vector to the graph on pages.
//!
//! 1. Walk to the place, level by level, and choose the node's neighbours on each. No page is
//!    changed yet.
//! 2. Write the node's slots from the base upwards. Nothing leads to them yet.
//! 3. Link back from the neighbours, one page at a time. From the first link on, searches find the
//!    node.
//! 4. If the node is higher than all others, make it the entry point.
//!
//! A crash between two steps leaves a node that no search finds, or only some. Its transaction has
//! not committed, so no result is missing, and vacuum removes the node like that of any dead row.
//!
//! The structure lock is held shared throughout, so that vacuum can wait for inserts that do not
//! know its tombstones. An insert that creates the first node, or one higher than all others, holds
//! it exclusively.

use rag_pages::{LockMode, PageCopies, WritePages};

use super::{
    Index, IndexError, MAX_LEVELS, STRUCTURE, Tid,
    allocate::{self, NewSlot},
    group::Group,
    index::Body,
    layout::NONE,
    links::Links,
    meta::MetaPage,
    overflow,
    slots::{SlotState, Target},
    walk::Walk,
};
use crate::{
    code::{Factors, Query},
    memory::push,
    pool::{key_distance, key_id},
    random,
};

/// Inserts vectors. Its buffers are reused.
#[derive(Default)]
pub struct Inserter {
    walk: Walk,
    query: Query,
    rotated: Vec<f32>,
    pub(super) code: Vec<u8>,
    pub(super) links: Links,
    /// Keys that the walk did not keep.
    met: Vec<u64>,
    /// The nodes that are inserted with this one.
    pub(super) group: Group,
    pub(super) copies: PageCopies,
}

/// A new node that is to be written.
pub(super) struct InsertPlan {
    pub factors: Factors,
    /// Chosen neighbours by level, nearest first.
    pub neighbours: Vec<Vec<u32>>,
}

enum InsertOutcome {
    Inserted,
    NeedsExclusiveLock,
    /// The codes have another meaning than when the index was opened.
    Outdated,
}

pub(super) enum Found {
    /// This is the first node of the index.
    Nothing,
    /// A slot on the way was freed meanwhile.
    Freed,
    /// There is a node with the same vector.
    Equal(u32),
    Place(InsertPlan),
}

impl Inserter {
    /// Inserts a vector of the index's dimensions. `level` comes from [`random_level`].
    ///
    /// Returns false, and inserts nothing, if the index must be opened again: its codes have
    /// another meaning now, or vacuum has found it empty and reset its dimensions.
    ///
    /// # Errors
    /// A page is corrupted.
    pub fn insert(
        &mut self,
        index: &Index,
        store: &impl WritePages,
        vector: &[f32],
        tid: Tid,
        level: usize,
    ) -> Result<bool, IndexError> {
        let Some(body) = index.body() else {
            return Err(IndexError::corrupted(
                0,
                "the number of dimensions is missing",
            ));
        };
        let level = level.min(MAX_LEVELS - 1);
        let factors = self.encode(body, vector);
        self.group.clear();
        let ef = usize::from(index.description().ef_construction);
        for mode in [LockMode::Shared, LockMode::Exclusive] {
            store.lock(STRUCTURE, mode);
            let done = match index.is_of(store) {
                Ok(true) => self.insert_locked(body, ef, store, factors, tid, level, mode),
                other => other.map(|_| InsertOutcome::Outdated),
            };
            store.unlock(STRUCTURE, mode);
            match done? {
                InsertOutcome::Inserted => break,
                InsertOutcome::NeedsExclusiveLock => {}
                InsertOutcome::Outdated => return Ok(false),
            }
        }
        self.shrink();
        Ok(true)
    }

    /// Makes a vector the code and the query of what follows.
    pub(super) fn encode(&mut self, body: &Body, vector: &[f32]) -> Factors {
        self.code.resize(body.quantizer.code_bytes(), 0);
        body.quantizer.prepare(vector, &mut self.query);
        body.quantizer
            .encode(vector, &mut self.rotated, &mut self.code)
    }

    /// Releases memory that a search among many tombstones has taken.
    pub(super) fn shrink(&mut self) {
        const KEPT: usize = 64 * 1024;
        if self.met.capacity() > KEPT {
            self.met = vec![];
            self.links = Links::default();
        }
    }

    /// The lock must be exclusive if the node has to become the entry point: if it is higher than
    /// all others, or if no live node could lead to it.
    #[allow(clippy::too_many_arguments)] // all of one insert, passed on once
    fn insert_locked<S: WritePages>(
        &mut self,
        body: &Body,
        ef: usize,
        store: &S,
        factors: Factors,
        tid: Tid,
        level: usize,
        mode: LockMode,
    ) -> Result<InsertOutcome, IndexError> {
        const ATTEMPTS: usize = 10;
        let mut may_be_equal = true;
        for _ in 0..ATTEMPTS {
            let meta = MetaPage::read(store)?;
            let plan = match self.find(body, ef, store, factors, level, &meta, may_be_equal)? {
                Found::Equal(node) => {
                    if overflow::add(body, store, node, tid)? {
                        return Ok(InsertOutcome::Inserted);
                    }
                    may_be_equal = false; // it died meanwhile
                    continue;
                }
                Found::Freed => continue,
                Found::Nothing => InsertPlan {
                    factors,
                    neighbours: vec![vec![]; level + 1],
                },
                Found::Place(plan) => plan,
            };
            let becomes_entry = meta.entry == NONE
                || level > meta.top_level as usize
                || plan.neighbours[0].is_empty();
            if becomes_entry && mode == LockMode::Shared {
                return Ok(InsertOutcome::NeedsExclusiveLock);
            }
            let slots = self.write(body, store, &plan, tid)?;
            let top = slots.last().copied().unwrap_or(NONE);
            self.link_back(body, store, &plan, &slots)?;
            if becomes_entry {
                MetaPage::update(store, |meta| {
                    (meta.entry, meta.top_level) = (top, level as u32);
                    true
                })?;
            }
            return Ok(InsertOutcome::Inserted);
        }
        Err(IndexError::corrupted(
            0,
            "the entry point leads to a free slot",
        ))
    }

    /// Finds the place of the vector and chooses its neighbours on the levels `0..=level`.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn find<S: WritePages>(
        &mut self,
        body: &Body,
        ef: usize,
        store: &S,
        factors: Factors,
        level: usize,
        meta: &MetaPage,
        may_be_equal: bool,
    ) -> Result<Found, IndexError> {
        if meta.entry == NONE {
            return Ok(Found::Nothing);
        }
        let top = (meta.top_level as usize).min(MAX_LEVELS - 1);
        let mut neighbours = vec![vec![]; level + 1];
        self.walk.begin(store);
        let first = level.min(top);
        let Some(start) = self
            .walk
            .descend_to(body, store, &self.query, meta, first)?
        else {
            return Ok(Found::Freed);
        };
        let mut entries = vec![start];
        for at in (0..=first).rev() {
            let (found, chosen) = self.neighbours(body, ef, store, at, &entries)?;
            neighbours[at] = chosen.iter().map(|(_, id)| *id).collect();
            if at == 0
                && may_be_equal
                && let Some(node) = self.equal(body, store, &found, factors)?
            {
                return Ok(Found::Equal(node));
            }
            if at > 0 {
                entries = self.below(body, store, at, &found)?;
            }
        }
        Ok(Found::Place(InsertPlan {
            factors,
            neighbours,
        }))
    }

    /// Returns the nearest nodes of a level with their distances, and those of them to link to. If
    /// too few of them are alive, it searches farther, twice, and then also uses nodes that the
    /// walk met and did not keep. It continues only until one is alive: a node without a link to a
    /// live one could not be found itself.
    #[allow(clippy::type_complexity)] // two lists of the same kind
    fn neighbours<S: WritePages>(
        &mut self,
        body: &Body,
        ef: usize,
        store: &S,
        level: usize,
        entries: &[u64],
    ) -> Result<(Vec<(f32, u32)>, Vec<(f32, u32)>), IndexError> {
        const FARTHER: usize = 4;
        const TIMES: u32 = 2;
        let limit = usize::from(body.m);
        let mut ef = ef;
        let mut attempt = 0;
        loop {
            let (met, keeps) = (&mut self.met, attempt >= TIMES);
            met.clear();
            let keep = |key| if keeps { push(met, key) } else { Ok(()) };
            self.walk
                .beam(store, body.level(level), &self.query, entries, ef, keep)?;
            self.group.offer(level, &self.query, &mut self.walk)?;
            let pair = |key: &u64| (key_distance(*key), key_id(*key));
            let found: Vec<(f32, u32)> = self.walk.pool.as_slice().iter().map(pair).collect();
            let mut chosen = self.links.choose(body, store, level, &found, limit)?;
            if keeps {
                self.met.sort_unstable();
                let farther: Vec<(f32, u32)> = found
                    .iter()
                    .copied()
                    .chain(self.met.iter().take(FARTHER * ef).map(pair))
                    .collect();
                chosen = self.links.choose(body, store, level, &farther, limit)?;
            }
            let wanted = if keeps { 1 } else { limit };
            if self.links.alive() >= wanted || found.len() < ef {
                return Ok((found, chosen));
            }
            ef *= FARTHER;
            attempt += 1;
        }
    }

    /// Returns the node of the base level that has the same code. Only the nearest nodes are
    /// checked, since it would be among them. If it is missed, two nodes have the same vector,
    /// which does no harm.
    fn equal<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        found: &[(f32, u32)],
        factors: Factors,
    ) -> Result<Option<u32>, IndexError> {
        const NEAREST: usize = 4;
        for &(_, id) in found.iter().take(NEAREST) {
            let code = &self.code;
            let equal = self.walk.read_slot(store, body.base(), id, |slot| {
                Ok(slot.state()? == SlotState::Node
                    && slot.factors() == factors
                    && slot.code == code.as_slice())
            })?;
            if equal {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Returns the same nodes one level down, as keys.
    fn below<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        found: &[(f32, u32)],
    ) -> Result<Vec<u64>, IndexError> {
        let mut entries = Vec::with_capacity(found.len());
        for &(distance, id) in found {
            let down = self.walk.read_slot(store, body.level(level), id, |slot| {
                Ok((slot.state()?, slot.down()))
            })?;
            if !down.0.has_code() {
                continue; // freed meanwhile
            }
            // A page that was added since the walk began exists, too.
            let below = body.level(level - 1);
            if u64::from(down.1) >= below.ids(self.walk.blocks())
                && u64::from(down.1) >= below.ids(store.block_count())
            {
                let block = body.level(level).block(id);
                return Err(IndexError::corrupted(
                    block,
                    format!(
                        "a node leads down to slot {}, which is beyond the end of the index",
                        down.1
                    ),
                ));
            }
            entries.push(crate::pool::key(distance, down.1));
        }
        Ok(entries)
    }

    /// Writes the node's slots, from the base upwards. Returns their ids.
    pub(super) fn write<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        plan: &InsertPlan,
        tid: Tid,
    ) -> Result<Vec<u32>, IndexError> {
        let mut target = Target::Row(tid);
        let mut slots = Vec::with_capacity(plan.neighbours.len());
        for (level, neighbours) in plan.neighbours.iter().enumerate() {
            let near = neighbours.first().map(|id| body.level(level).block(*id));
            let content = NewSlot::Node {
                code: &self.code,
                factors: plan.factors,
                target,
                links: neighbours,
            };
            let id = allocate::put(body, store, level, near, content)?;
            target = Target::Slot(id);
            slots.push(id);
        }
        Ok(slots)
    }

    /// Writes the links back to the node.
    fn link_back<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        plan: &InsertPlan,
        slots: &[u32],
    ) -> Result<(), IndexError> {
        for (level, (neighbours, slot)) in plan.neighbours.iter().zip(slots).enumerate() {
            self.links
                .link_back_all(body, store, level, neighbours, *slot)?;
        }
        Ok(())
    }
}

/// Returns the level of a new node. `uniform` is a random number in 0..=1.
pub fn random_level(m: u16, uniform: f64) -> usize {
    random::level(m.into(), MAX_LEVELS - 1, uniform)
}
