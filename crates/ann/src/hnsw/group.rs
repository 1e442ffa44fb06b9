//! Adding several vectors to the graph on pages together.
//!
//! Each is inserted as [`insert`](super::insert) says, up to step 2. The vectors written so far are
//! candidates for the next ones, although nothing leads to them yet. At the end all of them are
//! linked back to, so that a page is written once for many links, and the links of a list are
//! chosen once. If vectors that follow each other are near, they share pages and neighbours.
//!
//! The structure lock is held for the whole group, but not for long: a session that waits for it
//! holds up all others. Pages are read from copies meanwhile. Vacuum cannot free what they show.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use rag_pages::{CopiedPages, LockMode, WritePages};

use super::{
    Index, IndexError, MAX_LEVELS, STRUCTURE, Tid,
    index::Body,
    insert::{Found, Inserter},
    layout::NONE,
    links::back_links,
    meta::MetaPage,
    overflow,
    walk::Walk,
};
use crate::{
    code::{Factors, Query},
    pool::key,
};

/// The maximum number of vectors of a group.
const LARGEST: usize = 256;
/// The time after which no vector is added to a group.
const LONGEST: Duration = Duration::from_millis(20);
/// Fewer vectors do not come back to a page often enough for a copy of it.
const LEAST_COPIED: usize = 32;

/// A vector that is to be inserted. The level comes from [`random_level`](super::random_level).
#[derive(Debug, Clone, Copy)]
pub struct NewVector<'a> {
    pub vector: &'a [f32],
    pub tid: Tid,
    pub level: usize,
}

/// Nodes that are written, and to which nothing leads yet.
#[derive(Default)]
pub(super) struct Group {
    nodes: Vec<GroupNode>,
    /// Their codes, one after another.
    codes: Vec<u8>,
}

struct GroupNode {
    factors: Factors,
    /// Its slots by level, and the neighbours that they link to.
    slots: Vec<u32>,
    neighbours: Vec<Vec<u32>>,
}

impl Group {
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.codes.clear();
    }

    /// Adds the nodes of a level to those that a walk has found.
    pub fn offer(&self, level: usize, query: &Query, walk: &mut Walk) -> Result<(), IndexError> {
        let bytes = self.codes.len() / self.nodes.len().max(1);
        let codes = self.codes.chunks_exact(bytes.max(1));
        for (node, code) in self.nodes.iter().zip(codes) {
            if let Some(id) = node.slots.get(level) {
                walk.offer(key(query.distance(code, node.factors), *id))?;
            }
        }
        Ok(())
    }
}

impl Inserter {
    /// Inserts some of the vectors, from the first one on. They have the index's dimensions.
    /// Returns their number, which is 0 if the index must be opened again: see
    /// [`insert`](Self::insert).
    ///
    /// # Errors
    /// A page is corrupted, or memory runs out.
    pub fn insert_some(
        &mut self,
        index: &Index,
        store: &impl WritePages,
        vectors: &[NewVector<'_>],
    ) -> Result<usize, IndexError> {
        let Some(first) = vectors.first() else {
            return Ok(0);
        };
        store.lock(STRUCTURE, LockMode::Shared);
        let inserted = match (index.is_of(store), index.body()) {
            (Ok(true), Some(body)) => {
                let ef = usize::from(index.description().ef_construction);
                self.insert_group(body, ef, store, vectors)
            }
            (is_of, _) => is_of.map(|_| 0),
        };
        store.unlock(STRUCTURE, LockMode::Shared);
        self.shrink();
        match inserted? {
            // it may need the lock exclusively
            0 => self
                .insert(index, store, first.vector, first.tid, first.level)
                .map(usize::from),
            inserted => Ok(inserted),
        }
    }

    fn insert_group<S: WritePages>(
        &mut self,
        body: &Body,
        ef: usize,
        store: &S,
        vectors: &[NewVector<'_>],
    ) -> Result<usize, IndexError> {
        if vectors.len() < LEAST_COPIED {
            return self.write_group(body, ef, store, vectors);
        }
        let mut copies = std::mem::take(&mut self.copies);
        let pages = CopiedPages::new(store, &mut copies).map_err(IndexError::of_memory)?;
        let written = self.write_group(body, ef, &pages, vectors);
        self.copies = copies;
        written
    }

    fn write_group<S: WritePages>(
        &mut self,
        body: &Body,
        ef: usize,
        store: &S,
        vectors: &[NewVector<'_>],
    ) -> Result<usize, IndexError> {
        let began = Instant::now();
        let meta = MetaPage::read(store)?;
        self.group.clear();
        let mut written = 0;
        for new in &vectors[..vectors.len().min(LARGEST)] {
            let is_due = written > 0 && began.elapsed() > LONGEST;
            if is_due || !self.write_one(body, ef, store, new, &meta)? {
                break;
            }
            written += 1;
        }
        self.link_group(body, store)?;
        Ok(written)
    }

    /// Writes a node to which nothing leads yet. Returns false if it must be inserted alone: the
    /// entry point changes, or slots are freed again and again.
    fn write_one<S: WritePages>(
        &mut self,
        body: &Body,
        ef: usize,
        store: &S,
        new: &NewVector<'_>,
        meta: &MetaPage,
    ) -> Result<bool, IndexError> {
        const ATTEMPTS: usize = 3;
        let level = new.level.min(MAX_LEVELS - 1);
        if meta.entry == NONE || level > meta.top_level as usize {
            return Ok(false);
        }
        let factors = self.encode(body, new.vector);
        let mut may_be_equal = true;
        for _ in 0..ATTEMPTS {
            match self.find(body, ef, store, factors, level, meta, may_be_equal)? {
                Found::Equal(node) if overflow::add(body, store, node, new.tid)? => {
                    return Ok(true);
                }
                Found::Equal(_) => may_be_equal = false, // it died meanwhile
                Found::Freed => {}
                Found::Place(plan) if !plan.neighbours[0].is_empty() => {
                    let slots = self.write(body, store, &plan, new.tid)?;
                    self.group.codes.extend_from_slice(&self.code);
                    self.group.nodes.push(GroupNode {
                        factors,
                        slots,
                        neighbours: plan.neighbours,
                    });
                    return Ok(true);
                }
                Found::Place(_) | Found::Nothing => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Links back to the nodes of the group.
    fn link_group<S: WritePages>(&mut self, body: &Body, store: &S) -> Result<(), IndexError> {
        let nodes = std::mem::take(&mut self.group.nodes);
        let levels = nodes.iter().map(|node| node.slots.len()).max();
        for level in 0..levels.unwrap_or(0) {
            let of_level = nodes.iter().filter_map(|node| {
                let slot = *node.slots.get(level)?;
                Some((slot, node.neighbours.get(level)?))
            });
            let links = of_level.clone();
            let links = links.flat_map(|(slot, neighbours)| back_links(neighbours, slot));
            let mut linked = HashSet::new();
            let mut add = |slot| {
                linked.insert(slot);
            };
            self.links
                .link_all(body, store, level, &mut links.collect::<Vec<_>>(), &mut add)?;
            for (slot, neighbours) in of_level {
                if !linked.contains(&slot) {
                    self.links
                        .link_back_one(body, store, level, neighbours, slot)?;
                }
            }
        }
        Ok(())
    }
}
