//! Adding a vector to the graph on pages.
//!
//! 1. Walk to the place, level by level, and choose the node's neighbours on each; no page is changed yet.
//! 2. Write the node's slots from the base upwards. Nobody can reach them.
//! 3. Link back from each neighbour, one page at a time: from the first of these on searches find the node.
//! 4. If the node is higher than all others, make it the entry point.
//!
//! A crash between any two of them leaves a node that nobody or not everybody finds; its transaction has not committed, so
//! nobody misses it, and vacuum removes it like any other dead row's.
//!
//! The structure lock is held shared throughout, so that vacuum can wait for those who have not seen its tombstones, and
//! exclusively by who makes the first node or a higher one than all others.

use rag_pages::{LockMode, WritePages};

use super::{
    Damage, Index, MAX_LEVELS, Tid,
    allocate::{self, Content},
    index::Body,
    layout::{NONE, State, Target, max_links},
    links::Links,
    meta::Meta,
    overflow,
    walk::Walk,
};
use crate::{
    code::{Factors, Query},
    pool::{key_distance, key_id},
};

/// Inserts vectors; its buffers serve one after another.
#[derive(Default)]
pub struct Inserter {
    walk: Walk,
    query: Query,
    rotated: Vec<f32>,
    code: Vec<u8>,
    links: Links,
}

/// What is to be written of a new node.
struct Plan {
    factors: Factors,
    /// Chosen neighbours by level, with their distances.
    neighbours: Vec<Vec<(f32, u32)>>,
}

enum Found {
    /// The first node of the index.
    Nothing,
    /// A node with the same vector.
    Equal(u32),
    Place(Plan),
}

impl Inserter {
    /// Inserts a vector of the index's dimensions; `level` is from [`random_level`].
    ///
    /// # Errors
    /// A page is damaged.
    pub fn insert(
        &mut self,
        index: &Index,
        store: &impl WritePages,
        vector: &[f32],
        tid: Tid,
        level: usize,
    ) -> Result<(), Damage> {
        let Some(body) = index.body() else {
            return Err(Damage::new(0, "its dimensions are not known"));
        };
        let level = level.min(MAX_LEVELS - 1);
        self.code.resize(body.quantizer.code_bytes(), 0);
        let factors = body.quantizer.encode(vector, &mut self.rotated, &mut self.code);
        body.quantizer.prepare(vector, &mut self.query);

        store.lock(LockMode::Shared);
        let meta = Meta::read(store)?;
        let mode = if meta.entry == NONE || level > meta.top_level as usize {
            store.unlock(LockMode::Shared);
            store.lock(LockMode::Exclusive);
            LockMode::Exclusive
        } else {
            LockMode::Shared
        };
        let done = self.insert_locked(body, index.description().ef_construction, store, factors, tid, level, mode);
        store.unlock(mode);
        done
    }

    #[allow(clippy::too_many_arguments)] // all of one insert, passed on once
    fn insert_locked<S: WritePages>(
        &mut self,
        body: &Body,
        ef: u16,
        store: &S,
        factors: Factors,
        tid: Tid,
        level: usize,
        mode: LockMode,
    ) -> Result<(), Damage> {
        let mut may_be_equal = true;
        loop {
            let meta = Meta::read(store)?;
            let plan = match self.find(body, usize::from(ef), store, factors, level, &meta, may_be_equal)? {
                Found::Equal(node) => {
                    if overflow::add(body, store, node, tid)? {
                        return Ok(());
                    }
                    may_be_equal = false; // it died meanwhile
                    continue;
                }
                Found::Nothing => Plan { factors, neighbours: vec![vec![]; level + 1] },
                Found::Place(plan) => plan,
            };
            let top = self.write(body, store, &plan, tid)?;
            let higher = meta.entry == NONE || level > meta.top_level as usize;
            if higher && mode == LockMode::Exclusive {
                Meta::update(store, |meta| {
                    meta.entry = top;
                    meta.top_level = level as u32;
                    true
                })?;
            }
            return Ok(());
        }
    }

    /// Looks for the place of the vector and chooses its neighbours on the levels `0..=level`.
    #[allow(clippy::too_many_arguments)]
    fn find<S: WritePages>(
        &mut self,
        body: &Body,
        ef: usize,
        store: &S,
        factors: Factors,
        level: usize,
        meta: &Meta,
        may_be_equal: bool,
    ) -> Result<Found, Damage> {
        if meta.entry == NONE {
            return Ok(Found::Nothing);
        }
        let top = (meta.top_level as usize).min(MAX_LEVELS - 1);
        let mut neighbours = vec![vec![]; level + 1];
        self.walk.begin(store);
        let first = level.min(top);
        let Some(start) = self.walk.descend_to(body, store, &self.query, meta, first)? else {
            // The entry point or a way down from it was freed: cannot be, as vacuum frees with the structure locked.
            return Err(Damage::new(0, "its entry point leads to a free slot"));
        };
        let mut entries = vec![start];
        for at in (0..=first).rev() {
            let geometry = body.level(at);
            self.walk.beam(store, geometry, &self.query, &entries, ef, |_| ())?;
            let found: Vec<(f32, u32)> =
                self.walk.pool.as_slice().iter().map(|key| (key_distance(*key), key_id(*key))).collect();
            if at == 0
                && may_be_equal
                && let Some(node) = self.equal(body, store, &found, factors)?
            {
                return Ok(Found::Equal(node));
            }
            let limit = usize::from(body.m);
            neighbours[at] = self.links.choose(body, store, at, &found, limit)?;
            if at > 0 {
                entries = self.below(body, store, at, &found)?;
            }
        }
        Ok(Found::Place(Plan { factors, neighbours }))
    }

    /// The node of the base level that has the same code. Only the nearest are looked at: it would be among them. Where it
    /// is missed, there are two nodes with the same vector, which is no harm.
    fn equal<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        found: &[(f32, u32)],
        factors: Factors,
    ) -> Result<Option<u32>, Damage> {
        const NEAREST: usize = 4;
        for &(_, id) in found.iter().take(NEAREST) {
            let code = &self.code;
            let equal = self.walk.read_slot(store, body.base(), id, |slot| {
                Ok(slot.state()? == State::Node && slot.factors() == factors && slot.code == code.as_slice())
            })?;
            if equal {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// The same nodes one level down, as keys.
    fn below<S: WritePages>(
        &mut self,
        body: &Body,
        store: &S,
        level: usize,
        found: &[(f32, u32)],
    ) -> Result<Vec<u64>, Damage> {
        let mut entries = Vec::with_capacity(found.len());
        for &(distance, id) in found {
            let down = self.walk.read_slot(store, body.level(level), id, |slot| Ok((slot.state()?, slot.down())))?;
            if matches!(down.0, State::Node | State::Tombstone) {
                entries.push(crate::pool::key(distance, down.1));
            }
        }
        Ok(entries)
    }

    /// Writes the node's slots and the links back to it; returns its slot on its highest level.
    fn write<S: WritePages>(&mut self, body: &Body, store: &S, plan: &Plan, tid: Tid) -> Result<u32, Damage> {
        let mut target = Target::Row(tid);
        let mut slots = Vec::with_capacity(plan.neighbours.len());
        for (level, neighbours) in plan.neighbours.iter().enumerate() {
            let near = neighbours.first().map(|(_, id)| body.level(level).block(*id));
            let links: Vec<u32> = neighbours.iter().map(|(_, id)| *id).collect();
            let content = Content::Node { code: &self.code, factors: plan.factors, target, links: &links };
            let id = allocate::put(body, store, level, near, content)?;
            target = Target::Slot(id);
            slots.push(id);
        }
        for (level, neighbours) in plan.neighbours.iter().enumerate() {
            for (nearest, &(_, id)) in neighbours.iter().enumerate() {
                let new = slots[level];
                self.links.link_back(body, store, level, id, new, nearest == 0)?;
            }
        }
        Ok(slots.last().copied().unwrap_or(NONE))
    }
}

/// The level of a new node: `uniform` is a random number in 0..1. One in m nodes of a level is on the next, too.
pub fn random_level(m: u16, uniform: f64) -> usize {
    let scale = 1.0 / f64::from(m.max(2)).ln();
    ((-uniform.max(f64::MIN_POSITIVE).ln() * scale) as usize).min(MAX_LEVELS - 1)
}
