//! A query's way through the index: candidates in order of estimated distance, as many as are asked
//! for.
//!
//! 1. **Beam.** The usual search with a pool of `ef` candidates answers the first requests.
//! 2. **Outwards.** Who wants more gets it by expanding further nodes, best first, always
//!    [`LOOKAHEAD`] times as many as were asked for, but `ef` at least: so later candidates are as
//!    reliable as the first.
//! 3. **Sweep.** Once the walk has met a good part of the index, reading all codes in sequence is
//!    cheaper, and it is complete: a node that no link leads to is found, too. So a scan that is
//!    asked often enough returns everything.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
};

use rag_pages::ReadPages;

use super::{
    Damage, Index, Tid,
    index::Body,
    layout::State,
    overflow,
    walk::{Start, Walk, each_slot},
};
use crate::{
    code::Query,
    memory::{OutOfMemory, Reserve, push},
    pool::{is_expanded, key, key_distance, key_id},
    visited::Visited,
};

/// Nodes expanded for each candidate that is asked for. More are more reliable and cost more.
const LOOKAHEAD: u64 = 3;
/// The same for the first [`FEW`], which are those of a query without a filter: for them `ef` says
/// how reliable.
const LOOKAHEAD_OF_FEW: u64 = 2;
const FEW: u64 = 20;
/// A distance estimated along links costs so many times what it costs in a sweep: pages come in
/// random order.
const SWEEP_ADVANTAGE: u64 = 4;
/// Candidates that are kept in memory however little there is.
const MIN_KEYS: usize = 1024;
/// Nodes that are expanded together once the first search is over.
const EXPANDED_TOGETHER: usize = 4;

#[derive(Debug, Clone, Copy)]
pub struct ScanLimits {
    /// Candidates that the first search keeps, at least 1.
    pub ef: usize,
    /// Whether to go on when those are used up.
    pub iterative: bool,
    /// Nodes that may be visited before it stops going on; 0: no limit.
    pub max_tuples: u64,
    /// Candidates that a scan keeps in memory, 8 bytes each, [`MIN_KEYS`] at least. A sweep is
    /// repeated for what comes after them.
    pub max_keys: usize,
}

/// A scan; its buffers serve one after another.
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
    /// Candidates that were taken, with tombstones.
    taken: u64,
    /// Base slots whose rows were returned.
    returned: Vec<u32>,
    tids: Vec<Tid>,
    /// Whether the candidate that was returned last has more rows than `tids`.
    has_more: bool,
    /// The code of a node whose chain is being read.
    code: Vec<u8>,
}

/// Rows of a candidate that has many, as far as they were not read yet.
///
/// Each time the chain is read from its beginning, twice as much of it, and what was returned
/// before is left out: so it may change in any way from one time to the next.
#[derive(Debug)]
pub struct Rest {
    node: u32,
    /// Links of the chain that were read.
    links: u64,
    returned: HashSet<Tid>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Phase {
    /// How many of the pool were returned.
    Beam(usize),
    Outwards,
    /// The last key that the sweep before kept, if it could not keep all.
    Sweep(Option<u64>),
    #[default]
    Done,
}

impl Scan {
    /// Begins the search for what is near `query`, a vector of the index's dimensions.
    ///
    /// # Errors
    /// A page is damaged.
    pub fn begin(
        &mut self,
        index: &Index,
        store: &impl ReadPages,
        query: &[f32],
        limits: ScanLimits,
    ) -> Result<(), Damage> {
        self.phase = Phase::Done;
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

    /// The next candidate's estimated distance; its heap rows are in [`tids`](Self::tids), and in
    /// [`rest`](Self::rest) if there are more. `None`: that was all.
    ///
    /// # Errors
    /// A page is damaged.
    pub fn next(&mut self, index: &Index, store: &impl ReadPages) -> Result<Option<f32>, Damage> {
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
                push(&mut self.returned, key_id(key)).map_err(Damage::of_memory)?;
                // where no estimate can be relied on, all rows are to be ranked before the first is
                // returned
                return Ok(Some(if body.mixed {
                    f32::NEG_INFINITY
                } else {
                    key_distance(key)
                }));
            }
        }
    }

    /// The rows that the candidate that was returned last has beside those in [`tids`](Self::tids),
    /// to be read by [`read_rest`](Self::read_rest).
    pub fn rest(&self) -> Option<Rest> {
        let node = self.returned.last().copied().filter(|_| self.has_more)?;
        Some(Rest {
            node,
            links: 1,
            returned: self.tids.iter().copied().collect(),
        })
    }

    /// Reads more rows of a candidate into [`tids`](Self::tids): as many as were read of it before,
    /// or `all`. Whether there are still more.
    ///
    /// # Errors
    /// A page is damaged.
    pub fn read_rest(
        &mut self,
        index: &Index,
        store: &impl ReadPages,
        rest: &mut Rest,
        all: bool,
    ) -> Result<bool, Damage> {
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
            .map_err(|_| Damage::of_memory(OutOfMemory))?;
        self.tids.retain(|tid| rest.returned.insert(*tid));
        Ok(more)
    }

    /// Reads the rows of a node, of a chain the first `links` links, into `tids`; whether the chain
    /// goes on after them.
    fn read_rows(
        &mut self,
        body: &Body,
        store: &impl ReadPages,
        node: u32,
        links: u64,
    ) -> Result<bool, Damage> {
        let geometry = body.base();
        loop {
            self.tids.clear();
            let (tids, code) = (&mut self.tids, &mut self.code);
            let chain = self.walk.read_slot(store, geometry, node, |slot| {
                match (slot.state()?, slot.has_overflow()) {
                    (State::Node, false) => tids.push(slot.tid()),
                    (State::Node, true) => {
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
            // If the node was freed meanwhile, so was its chain, and the rows may be another's. If
            // it has another chain, rows may have moved from where this one had not come to yet.
            let code = &self.code;
            let same = self.walk.read_slot(store, geometry, node, |slot| {
                let same =
                    slot.state()? == State::Node && slot.has_overflow() && slot.chain() == chain;
                Ok(same && slot.factors().bits() == factors && slot.code == code.as_slice())
            })?;
            if same {
                return Ok(more);
            }
            store.check_interrupts();
        }
    }

    /// The page of the candidate that was returned last.
    pub fn block(&self, index: &Index) -> u32 {
        let id = self.returned.last().copied().unwrap_or_default();
        index.body().map_or(0, |body| body.base().block(id))
    }

    /// Heap rows of the candidate that was returned last, or those that
    /// [`read_rest`](Self::read_rest) has read.
    pub fn tids(&self) -> &[Tid] {
        &self.tids
    }

    /// Gives back memory that a long scan has taken, so that the next one does not keep it.
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

    /// Nodes whose distance was estimated so far.
    pub fn visited(&self) -> u64 {
        self.walk.scored
    }

    fn next_key<S: ReadPages>(&mut self, body: &Body, store: &S) -> Result<Option<u64>, Damage> {
        let Some(limits) = self.limits else {
            return Ok(None);
        };
        loop {
            match self.phase {
                Phase::Done => return Ok(None),
                Phase::Beam(at) => {
                    let pool = self.walk.pool.as_slice();
                    let reliable = !limits.iterative || self.wanted() <= pool.len() as u64;
                    if reliable && at < pool.len() {
                        self.phase = Phase::Beam(at + 1);
                        return Ok(Some(pool[at]));
                    }
                    if !limits.iterative {
                        self.phase = Phase::Done;
                        continue;
                    }
                    self.go_outwards(at).map_err(Damage::of_memory)?;
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
                        // what was met and not expanded is as well known
                        self.ready.append(&mut self.frontier);
                    }
                    let nearest_is_ready = match (self.ready.peek(), self.frontier.peek()) {
                        (Some(Reverse(ready)), Some(Reverse(frontier))) => ready < frontier,
                        (ready, _) => ready.is_some(),
                    };
                    if limited || (nearest_is_ready && self.expanded >= self.wanted()) {
                        match self.ready.pop() {
                            Some(Reverse(key)) => return Ok(Some(key)),
                            None => self.phase = Phase::Done,
                        }
                        continue;
                    }
                    self.expand(body, store)?;
                }
                Phase::Sweep(kept) => match (self.ready.pop(), kept) {
                    (Some(Reverse(key)), _) => return Ok(Some(key)),
                    (None, Some(last)) => self.sweep(body, store, Some(last))?,
                    (None, None) => self.phase = Phase::Done,
                },
            }
        }
    }

    /// Nodes that must be expanded before the next candidate is returned.
    fn wanted(&self) -> u64 {
        let next = self.taken + 1;
        next * if next <= FEW {
            LOOKAHEAD_OF_FEW
        } else {
            LOOKAHEAD
        }
    }

    /// Turns what the beam found, of which `at` were returned, into the state of the walk that goes
    /// on from there.
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

    /// Expands the nearest nodes of the frontier: several, so that what they lead to is fetched
    /// together.
    fn expand<S: ReadPages>(&mut self, body: &Body, store: &S) -> Result<(), Damage> {
        let mut nearest = [0; EXPANDED_TOGETHER];
        let mut count = 0;
        self.ready
            .make_room(EXPANDED_TOGETHER)
            .map_err(Damage::of_memory)?;
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
        // Half of the memory for each. What is farther is found by the sweep in the end.
        let room = self
            .limits
            .map_or(0, |limits| limits.max_keys)
            .max(MIN_KEYS)
            / 2;
        keep_nearest(&mut self.frontier, room);
        keep_nearest(&mut self.ready, room);
        Ok(())
    }

    fn sweep_is_cheaper(&self, body: &Body) -> bool {
        self.walk.scored * SWEEP_ADVANTAGE > self.slots(body)
    }

    /// About what a sweep would visit.
    fn slots(&self, body: &Body) -> u64 {
        u64::from(self.walk.blocks()) * body.base().slots as u64
    }

    /// Reads all codes and makes those ready that were not returned yet, or as many of the nearest
    /// as there is room for. `after`: the last key of the sweep before.
    fn sweep<S: ReadPages>(
        &mut self,
        body: &Body,
        store: &S,
        after: Option<u64>,
    ) -> Result<(), Damage> {
        let room = self
            .limits
            .map_or(0, |limits| limits.max_keys)
            .max(MIN_KEYS);
        let geometry = body.base();
        let mut returned = Visited::new();
        for &id in &self.returned {
            returned.insert(id).map_err(Damage::of_memory)?;
        }
        self.frontier.clear();
        self.ready.clear();
        let mut keys: Vec<u64> = vec![];
        let mut complete = true;
        let mut cut = |keys: &mut Vec<u64>| {
            keys.select_nth_unstable(room);
            keys.truncate(room);
            complete = false;
        };
        for block in 1..store.block_count() {
            each_slot(store, geometry, block, |id, slot| {
                if slot.state()? == State::Node && !returned.contains(id) {
                    self.walk.scored += 1;
                    let key = key(self.query.distance(slot.code, slot.factors()), id);
                    if after.is_none_or(|last| key > last) {
                        push(&mut keys, key).map_err(Damage::of_memory)?;
                    }
                }
                Ok(())
            })?;
            if keys.len() > 2 * room {
                cut(&mut keys);
            }
        }
        if keys.len() > room {
            cut(&mut keys);
        }
        let last = keys.iter().copied().max().filter(|_| !complete);
        self.phase = Phase::Sweep(last);
        self.ready = keys.into_iter().map(Reverse).collect(); // in the place of the keys
        Ok(())
    }
}

/// Leaves the nearest `room` keys where there are more, and some room for others before that is
/// done again.
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
