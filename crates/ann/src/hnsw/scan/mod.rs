//! Answers a query: returns candidates in the order of their estimated distance, one by one on
//! request.
//!
//! 1. **Beam.** A search with a pool of `ef` candidates answers the first requests.
//! 2. **Outwards.** Further requests expand further nodes, best first: [`LOOKAHEAD`] times as many
//!    as were requested, but at least `ef`. So later candidates are as reliable as the first.
//! 3. **Sweep.** Once the walk has met a good part of the index, reading all codes in sequence is
//!    cheaper. It also finds nodes that no link leads to. So a scan can return every row.

mod sweep;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
};

use rag_pages::ReadPages;

use super::{
    Index, IndexError, Tid,
    index::Body,
    overflow,
    slots::SlotState,
    walk::{Start, Walk},
};
use crate::{
    code::Query,
    memory::{OutOfMemory, Reserve, push},
    pool::{is_expanded, key_distance, key_id},
};

/// Nodes expanded for each requested candidate. More nodes make the order more reliable and cost
/// more.
const LOOKAHEAD: u64 = 3;
/// Nodes expanded for each of the first [`FEW`] candidates. These are the ones of a query without a
/// filter, for which `ef` sets the reliability.
const LOOKAHEAD_OF_FEW: u64 = 2;
const FEW: u64 = 20;
/// Minimum number of candidates that are kept in memory.
const MIN_KEYS: usize = 1024;
/// Number of nodes that are expanded together after the first search.
const EXPANDED_TOGETHER: usize = 4;

#[derive(Debug, Clone, Copy)]
pub struct ScanLimits {
    /// Number of candidates that the first search keeps, at least 1.
    pub ef: usize,
    /// True if it continues when those are used up.
    pub iterative: bool,
    /// Number of visited nodes after which it does not continue. 0 means no limit.
    pub max_tuples: u64,
    /// Number of candidates that a scan keeps in memory, 8 bytes each, at least [`MIN_KEYS`]. The
    /// sweep is repeated for the ones after them.
    pub max_keys: usize,
}

/// A scan. Its buffers are reused.
#[derive(Default)]
pub struct Scan {
    walk: Walk,
    query: Query,
    limits: Option<ScanLimits>,
    phase: Phase,
    /// Keys that the beam's pool had no room for.
    left_out: Vec<u64>,
    /// Nodes met and not expanded, nearest first.
    frontier: BinaryHeap<Reverse<u64>>,
    /// Nodes expanded and not returned, nearest first.
    ready: BinaryHeap<Reverse<u64>>,
    expanded: u64,
    /// Candidates that were taken, including tombstones.
    taken: u64,
    /// Base slots whose rows were returned.
    returned: Vec<u32>,
    tids: Vec<Tid>,
    /// True if the last returned candidate has more rows than `tids`.
    has_more: bool,
    /// The code of a node whose chain is being read.
    code: Vec<u8>,
}

/// Unread rows of a candidate that has many.
///
/// Each time the chain is read from its beginning, twice as far, and rows that were returned before
/// are left out. So the chain may change in any way between two reads.
#[derive(Debug)]
pub struct UnreadRows {
    node: u32,
    /// Number of links of the chain that were read.
    links: u64,
    returned: HashSet<Tid>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Phase {
    /// Number of candidates of the pool that were returned.
    Beam(usize),
    Outwards,
    /// The last key that the sweep before kept, if it could not keep all.
    Sweep(Option<u64>),
    #[default]
    Ended,
}

impl Scan {
    /// Begins a search with `query`, a vector of the index's dimensions.
    ///
    /// # Errors
    /// A page is corrupted.
    pub fn begin(
        &mut self,
        index: &Index,
        store: &impl ReadPages,
        query: &[f32],
        limits: ScanLimits,
    ) -> Result<(), IndexError> {
        self.phase = Phase::Ended;
        self.limits = Some(limits);
        self.left_out.clear();
        self.frontier.clear();
        self.ready.clear();
        self.returned.clear();
        self.has_more = false;
        (self.expanded, self.taken) = (0, 0);
        let Some(body) = index.body() else {
            return Ok(());
        };
        body.quantizer.prepare(query, &mut self.query);
        self.walk.begin(store);
        match self.walk.descend(body, store, &self.query)? {
            Start::Empty => {}
            Start::Blocked => self.sweep(body, store, None)?,
            Start::At(_) if body.mixed => self.sweep(body, store, None)?,
            Start::At(entry) => {
                let left_out = &mut self.left_out;
                let keep = |key| {
                    if limits.iterative {
                        push(left_out, key)
                    } else {
                        Ok(())
                    }
                };
                self.walk.beam(
                    store,
                    body.base(),
                    &self.query,
                    &[entry],
                    limits.ef.max(1),
                    keep,
                )?;
                self.phase = Phase::Beam(0);
            }
        }
        Ok(())
    }

    /// Returns the estimated distance of the next candidate, or `None` at the end. Its heap rows
    /// are in [`tids`](Self::tids). If there are more, they are in [`rest`](Self::rest).
    ///
    /// # Errors
    /// A page is corrupted.
    pub fn next(
        &mut self,
        index: &Index,
        store: &impl ReadPages,
    ) -> Result<Option<f32>, IndexError> {
        let Some(body) = index.body() else {
            return Ok(None);
        };
        loop {
            let Some(key) = self.next_key(body, store)? else {
                return Ok(None);
            };
            self.taken += 1;
            self.has_more = match self.walk.row(key_id(key)) {
                Some(row) => {
                    self.tids.clear();
                    self.tids.push(row);
                    false
                }
                None => self.read_rows(body, store, key_id(key), 1)?,
            };
            if !self.tids.is_empty() || self.has_more {
                push(&mut self.returned, key_id(key)).map_err(IndexError::of_memory)?;
                // If no estimate is reliable, all rows must be ranked before the first one is
                // returned.
                return Ok(Some(if body.mixed {
                    f32::NEG_INFINITY
                } else {
                    key_distance(key)
                }));
            }
        }
    }

    /// Returns the rows of the last returned candidate beyond those in [`tids`](Self::tids), for
    /// [`read_rest`](Self::read_rest).
    pub fn rest(&self) -> Option<UnreadRows> {
        let node = self.returned.last().copied().filter(|_| self.has_more)?;
        Some(UnreadRows {
            node,
            links: 1,
            returned: self.tids.iter().copied().collect(),
        })
    }

    /// Reads more rows of a candidate into [`tids`](Self::tids): as many as were read before, or
    /// `all`. Returns true if there are still more.
    ///
    /// # Errors
    /// A page is corrupted.
    pub fn read_rest(
        &mut self,
        index: &Index,
        store: &impl ReadPages,
        rest: &mut UnreadRows,
        all: bool,
    ) -> Result<bool, IndexError> {
        self.tids.clear();
        let Some(body) = index.body() else {
            return Ok(false);
        };
        rest.links = if all {
            u64::MAX
        } else {
            rest.links.saturating_mul(2)
        };
        let more = self.read_rows(body, store, rest.node, rest.links)?;
        rest.returned
            .try_reserve(self.tids.len())
            .map_err(|_| IndexError::of_memory(OutOfMemory))?;
        self.tids.retain(|tid| rest.returned.insert(*tid));
        Ok(more)
    }

    /// Reads the rows of a node into `tids`; of a chain the first `links` links. Returns true if
    /// the chain has more links.
    fn read_rows(
        &mut self,
        body: &Body,
        store: &impl ReadPages,
        node: u32,
        links: u64,
    ) -> Result<bool, IndexError> {
        let geometry = body.base();
        loop {
            self.tids.clear();
            let (tids, code) = (&mut self.tids, &mut self.code);
            let chain = self.walk.read_slot(store, geometry, node, |slot| {
                match (slot.state()?, slot.has_overflow()) {
                    (SlotState::Node, false) => tids.push(slot.tid()),
                    (SlotState::Node, true) => {
                        code.clear();
                        code.extend_from_slice(slot.code);
                        return Ok(Some((slot.chain(), slot.factors().bits())));
                    }
                    _ => {} // its rows are gone
                }
                Ok(None)
            })?;
            let Some((chain, factors)) = chain else {
                return Ok(false);
            };
            let more = overflow::first_rows(store, geometry, chain.0, links, &mut self.tids)?;
            // If the node was freed meanwhile, so was its chain, and the rows may be another
            // node's. If it has another chain, rows may have moved out of the part that was not
            // read yet.
            let code = &self.code;
            let same = self.walk.read_slot(store, geometry, node, |slot| {
                let same = slot.state()? == SlotState::Node
                    && slot.has_overflow()
                    && slot.chain() == chain;
                Ok(same && slot.factors().bits() == factors && slot.code == code.as_slice())
            })?;
            if same {
                return Ok(more);
            }
            store.check_interrupts();
        }
    }

    /// Returns the page of the last returned candidate.
    pub fn block(&self, index: &Index) -> u32 {
        let id = self.returned.last().copied().unwrap_or_default();
        index.body().map_or(0, |body| body.base().block(id))
    }

    /// Returns the heap rows of the last returned candidate, or those that
    /// [`read_rest`](Self::read_rest) has read.
    pub fn tids(&self) -> &[Tid] {
        &self.tids
    }

    /// Releases memory that a long scan has taken.
    pub fn shrink(&mut self) {
        const KEPT: usize = 64 * 1024;
        let keys = self.left_out.capacity()
            + self.frontier.capacity()
            + self.ready.capacity()
            + self.returned.capacity();
        self.walk.shrink();
        if keys > KEPT {
            (self.left_out, self.returned) = (vec![], vec![]);
            (self.frontier, self.ready) = (BinaryHeap::new(), BinaryHeap::new());
        }
    }

    /// Returns the number of nodes whose distance was estimated so far.
    pub fn visited(&self) -> u64 {
        self.walk.scored
    }

    fn next_key<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
    ) -> Result<Option<u64>, IndexError> {
        let Some(limits) = self.limits else {
            return Ok(None);
        };
        loop {
            match self.phase {
                Phase::Ended => return Ok(None),
                Phase::Beam(at) => {
                    let pool = self.walk.pool.as_slice();
                    let reliable = !limits.iterative || self.wanted() <= pool.len() as u64;
                    if reliable && at < pool.len() {
                        self.phase = Phase::Beam(at + 1);
                        return Ok(Some(pool[at]));
                    }
                    if !limits.iterative {
                        self.phase = Phase::Ended;
                        continue;
                    }
                    self.go_outwards(at).map_err(IndexError::of_memory)?;
                }
                Phase::Outwards => {
                    let exhausted = self.frontier.is_empty();
                    let within = |visits| limits.max_tuples == 0 || visits <= limits.max_tuples;
                    if (exhausted || self.sweep_is_cheaper(body))
                        && within(self.walk.scored + self.slots(body))
                    {
                        self.sweep(body, store, None)?;
                        continue;
                    }
                    let limited = exhausted || !within(self.walk.scored + 1);
                    if limited {
                        // What was met and not expanded is known as well.
                        self.ready.append(&mut self.frontier);
                    }
                    let nearest_is_ready = match (self.ready.peek(), self.frontier.peek()) {
                        (Some(Reverse(ready)), Some(Reverse(frontier))) => ready < frontier,
                        (ready, _) => ready.is_some(),
                    };
                    if limited || (nearest_is_ready && self.expanded >= self.wanted()) {
                        match self.ready.pop() {
                            Some(Reverse(key)) => return Ok(Some(key)),
                            None => self.phase = Phase::Ended,
                        }
                        continue;
                    }
                    self.expand(body, store)?;
                }
                Phase::Sweep(kept) => match (self.ready.pop(), kept) {
                    (Some(Reverse(key)), _) => return Ok(Some(key)),
                    (None, Some(last)) => self.sweep(body, store, Some(last))?,
                    (None, None) => self.phase = Phase::Ended,
                },
            }
        }
    }

    /// Returns the number of nodes that must be expanded before the next candidate is returned.
    fn wanted(&self) -> u64 {
        let next = self.taken + 1;
        next * if next <= FEW {
            LOOKAHEAD_OF_FEW
        } else {
            LOOKAHEAD
        }
    }

    /// Converts the result of the beam, of which `at` candidates were returned, into the state of
    /// the walk that continues from there.
    fn go_outwards(&mut self, at: usize) -> Result<(), OutOfMemory> {
        let pool = self.walk.pool.as_slice();
        self.expanded = pool.len() as u64;
        let expanded = self
            .left_out
            .iter()
            .filter(|key| is_expanded(**key))
            .count();
        self.ready.make_room(pool.len() - at + expanded)?;
        self.frontier.make_room(self.left_out.len() - expanded)?;
        self.ready.extend(pool[at..].iter().copied().map(Reverse));
        for key in self.left_out.drain(..) {
            let heap = if is_expanded(key) {
                &mut self.ready
            } else {
                &mut self.frontier
            };
            heap.push(Reverse(key));
        }
        self.expanded += expanded as u64;
        self.phase = Phase::Outwards;
        Ok(())
    }

    /// Expands the nearest nodes of the frontier: several, so that their neighbours are prefetched
    /// together.
    fn expand<S: ReadPages>(&mut self, body: &Body, store: &S) -> Result<(), IndexError> {
        let mut nearest = [0; EXPANDED_TOGETHER];
        let mut count = 0;
        self.ready
            .make_room(EXPANDED_TOGETHER)
            .map_err(IndexError::of_memory)?;
        while count < nearest.len()
            && let Some(Reverse(key)) = self.frontier.pop()
        {
            nearest[count] = key_id(key);
            count += 1;
            self.ready.push(Reverse(key));
        }
        self.expanded += count as u64;
        let frontier = &mut self.frontier;
        self.walk
            .expand(store, body.base(), &self.query, &nearest[..count], |key| {
                frontier.make_room(1)?;
                frontier.push(Reverse(key));
                Ok(())
            })?;
        // Each gets half of the memory. The sweep finds what is farther in the end.
        let room = self
            .limits
            .map_or(0, |limits| limits.max_keys)
            .max(MIN_KEYS)
            / 2;
        keep_nearest(&mut self.frontier, room);
        keep_nearest(&mut self.ready, room);
        Ok(())
    }
}

/// Keeps the nearest `room` keys if there are more, less some room for others before that is
/// necessary again.
fn keep_nearest(keys: &mut BinaryHeap<Reverse<u64>>, room: usize) {
    if keys.len() <= room {
        return;
    }
    let kept = room * 3 / 4;
    let mut all = std::mem::take(keys).into_vec();
    all.select_nth_unstable_by_key(kept, |Reverse(key)| *key);
    all.truncate(kept);
    *keys = all.into();
}
