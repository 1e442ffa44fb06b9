//! Links a node to the nodes near it, and back.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    MAX_LEVEL, NONE, Node, Parameters,
    codes::Codes,
    links::{ChosenLinks, List, ListShape, Lists, LockedList},
};
use crate::{
    code::{Quantizer, Query},
    memory::OutOfMemory,
    pool::{Pool, key, key_distance, key_id, not_expanded},
    select::{diverse, fill},
    visited::Visited,
};

/// The data that all threads share while they link nodes.
pub(super) struct Linker<'a> {
    quantizer: &'a Quantizer,
    parameters: Parameters,
    codes: &'a Codes,
    levels: &'a [u8],
    shape: &'a ListShape,
    lists: Lists<'a>,
    /// Level << 32 | node of the entry point, or [`EMPTY`] before there is one.
    entry: AtomicU64,
}

const EMPTY: u64 = u64::MAX;

/// The buffers of a thread.
pub(super) struct Scratch {
    query: Query,
    pub pool: Pool,
    visited: Visited,
    fresh: Vec<Node>,
    entries: Vec<u64>,
    /// The links of a new node, by level.
    choices: [ChosenLinks; MAX_LEVEL + 1],
    chooser: Chooser,
}

impl<'a> Linker<'a> {
    pub fn new(
        quantizer: &'a Quantizer,
        parameters: Parameters,
        codes: &'a Codes,
        levels: &'a [u8],
        shape: &'a ListShape,
    ) -> Result<Self, OutOfMemory> {
        let lists = Lists::new(shape, levels)?;
        Ok(Self {
            quantizer,
            parameters,
            codes,
            levels,
            shape,
            lists,
            entry: AtomicU64::new(EMPTY),
        })
    }

    pub fn scratch(&self) -> Result<Scratch, OutOfMemory> {
        let mut visited = Visited::new();
        visited.reserve(self.codes.len())?;
        Ok(Scratch {
            query: Query::default(),
            pool: Pool::new(),
            visited,
            fresh: vec![],
            entries: vec![],
            choices: Default::default(),
            chooser: Chooser::default(),
        })
    }

    /// The base lists, the upper lists and the entry point.
    pub fn finish(self) -> (Vec<u32>, Vec<u32>, Option<Node>) {
        let entry = self.entry();
        let (base, upper) = self.lists.finish();
        (base, upper, entry.map(|(node, _)| node))
    }

    /// Returns the entry point and its level.
    pub fn entry(&self) -> Option<(Node, usize)> {
        let entry = self.entry.load(Ordering::Acquire);
        (entry != EMPTY).then_some((entry as Node, (entry >> 32) as usize))
    }

    /// Returns the number of levels.
    pub fn levels(&self) -> usize {
        self.entry().map_or(0, |(_, level)| level + 1)
    }

    pub fn level(&self, node: Node) -> usize {
        self.levels[node as usize] as usize
    }

    pub fn list(&self, node: Node, level: usize) -> List<'_> {
        self.lists.of(node, level)
    }

    pub fn nodes(&self) -> usize {
        self.codes.len()
    }

    /// Maximum number of links of a node on a level, without the slack.
    pub fn limit(&self, level: usize) -> usize {
        if level == 0 {
            self.shape.base_limit()
        } else {
            self.shape.upper_limit()
        }
    }

    /// Makes a node the query of the following searches.
    pub fn prepare(&self, scratch: &mut Scratch, node: Node) {
        self.prepare_query(&mut scratch.query, node);
    }

    fn prepare_query(&self, query: &mut Query, node: Node) {
        self.quantizer
            .prepare_from_code(self.codes.code(node), self.codes.factors(node), query);
    }

    #[inline]
    fn distance(&self, query: &Query, node: Node) -> f32 {
        query.distance(self.codes.code(node), self.codes.factors(node))
    }

    /// Makes the next search begin at these nodes.
    pub fn begin_at(&self, scratch: &mut Scratch, entries: impl Iterator<Item = Node>) {
        let Scratch {
            query,
            entries: keys,
            ..
        } = scratch;
        keys.clear();
        keys.extend(entries.map(|entry| key(self.distance(query, entry), entry)));
    }

    /// Links a node on all its levels.
    pub fn insert(&self, scratch: &mut Scratch, node: Node) -> Result<(), OutOfMemory> {
        let level = self.level(node);
        let this = (level as u64) << 32 | u64::from(node);
        let Some((entry, top)) = self.entry() else {
            // The first node is inserted while there is only one thread.
            self.entry.store(this, Ordering::Release);
            return Ok(());
        };
        self.prepare(scratch, node);
        self.begin_at(scratch, [entry].into_iter());
        for above in (level + 1..=top).rev() {
            self.search(scratch, node, above, 1)?;
        }
        let shared = level.min(top);
        for at in (0..=shared).rev() {
            self.search(scratch, node, at, self.parameters.ef_construction)?;
            let found = scratch.pool.as_slice();
            scratch.chooser.candidates.clear();
            scratch
                .chooser
                .candidates
                .extend(found.iter().map(|key| Candidate {
                    key: *key,
                    settled: false,
                }));
            scratch
                .chooser
                .choose(self, self.limit(at), &mut scratch.choices[at]);
        }
        // The node's own links come first, so that a search that finds the node finds a way on.
        for at in 0..=shared {
            self.list(node, at).lock().replace(&scratch.choices[at]);
        }
        for at in 0..=shared {
            for place in 0..scratch.choices[at].links.len() {
                self.link(scratch, scratch.choices[at].links[place], node, at);
            }
        }
        if level > top {
            // If another thread has set a higher one, that stays.
            self.entry.fetch_max(this, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Searches a level for the nodes nearest to the query, which is that of `node`, beginning at
    /// the keys in `scratch.entries`. Leaves the best `ef` in `scratch.pool` and in
    /// `scratch.entries`.
    pub fn search(
        &self,
        scratch: &mut Scratch,
        node: Node,
        level: usize,
        ef: usize,
    ) -> Result<(), OutOfMemory> {
        let Scratch {
            query,
            pool,
            visited,
            fresh,
            entries,
            ..
        } = scratch;
        visited.clear();
        visited.insert(node)?;
        pool.reset(ef);
        for &entry in entries.iter() {
            visited.insert(key_id(entry))?;
            pool.insert(entry);
        }
        while let Some(best) = pool.next_unexpanded() {
            fresh.clear();
            for id in self.list(key_id(best), level).ids() {
                if visited.insert(id)? {
                    self.codes.prefetch(id);
                    fresh.push(id);
                }
            }
            if let Some(next) = pool.peek_unexpanded() {
                self.list(key_id(next), level).prefetch();
            }
            for &id in fresh.iter() {
                let key = key(self.distance(query, id), id);
                if key < pool.worst() {
                    pool.insert(key);
                }
            }
        }
        entries.clear();
        entries.extend(pool.as_slice().iter().map(|found| not_expanded(*found)));
        Ok(())
    }

    /// Adds a link from `node` to `new`, unless there is no room and the other links suit the node
    /// better.
    fn link(&self, scratch: &mut Scratch, node: Node, new: Node, level: usize) {
        let mut list = self.list(node, level).lock();
        if list.is_full() {
            self.choose_anew(
                &mut scratch.chooser,
                &mut list,
                node,
                Some(new),
                self.limit(level),
            );
        } else {
            list.push(new);
        }
    }

    /// Chooses the remaining links of a list of level 0 that has more than the limit.
    pub fn shorten(&self, scratch: &mut Scratch, node: Node) {
        let mut list = self.list(node, 0).lock();
        if list.count() > self.limit(0) {
            self.choose_anew(&mut scratch.chooser, &mut list, node, None, self.limit(0));
        }
    }

    /// Chooses a list's links among its own and a new one.
    fn choose_anew(
        &self,
        chooser: &mut Chooser,
        list: &mut LockedList<'_>,
        node: Node,
        new: Option<Node>,
        limit: usize,
    ) {
        let Chooser {
            node: query,
            candidates,
            ..
        } = chooser;
        self.prepare_query(query, node);
        let links = (0..list.count()).map(|place| (list.get(place), place < list.settled()));
        candidates.clear();
        candidates.extend(
            links
                .chain(new.map(|new| (new, false)))
                .map(|(other, settled)| {
                    self.codes.prefetch(other);
                    Candidate {
                        key: u64::from(other),
                        settled,
                    }
                }),
        );
        for candidate in candidates.iter_mut() {
            let other = candidate.key as Node;
            candidate.key = key(self.distance(query, other), other);
        }
        candidates.sort_unstable_by_key(|candidate| candidate.key);
        let mut choice = std::mem::take(&mut chooser.choice);
        chooser.choose(self, limit, &mut choice);
        list.replace(&choice);
        chooser.choice = choice;
    }
}

/// A node that may become a neighbour.
struct Candidate {
    key: u64,
    /// True if it is a neighbour already, and diverse from the other settled ones.
    settled: bool,
}

/// Buffers for choosing neighbours.
#[derive(Default)]
struct Chooser {
    node: Query,
    /// The candidates in order of distance.
    candidates: Vec<Candidate>,
    distances: Vec<f32>,
    /// Codes of the chosen ones, to compare others with, in the order in which they were first
    /// requested.
    queries: Vec<Query>,
    /// The place in `queries` for each candidate, or [`NONE`].
    query_of: Vec<u32>,
    choice: ChosenLinks,
}

impl Chooser {
    /// Chooses neighbours among the candidates.
    fn choose(&mut self, linker: &Linker<'_>, limit: usize, choice: &mut ChosenLinks) {
        let Self {
            candidates,
            distances,
            queries,
            query_of,
            ..
        } = self;
        distances.clear();
        distances.extend(
            candidates
                .iter()
                .map(|candidate| key_distance(candidate.key)),
        );
        query_of.clear();
        query_of.resize(candidates.len(), NONE);
        let mut prepared = 0;
        let between = |candidate: usize, other: usize| {
            if candidates[candidate].settled && candidates[other].settled {
                return f32::INFINITY; // known to be far enough apart
            }
            if query_of[other] == NONE {
                query_of[other] = prepared as u32;
                if prepared == queries.len() {
                    queries.push(Query::default());
                }
                linker.prepare_query(&mut queries[prepared], key_id(candidates[other].key));
                prepared += 1;
            }
            linker.distance(
                &queries[query_of[other] as usize],
                key_id(candidates[candidate].key),
            )
        };
        let mut places = diverse(distances, limit, linker.quantizer.metric(), between);
        choice.settled = places.len();
        fill(&mut places, candidates.len(), limit);
        choice.links.clear();
        choice.links.extend(
            places
                .into_iter()
                .map(|place| key_id(candidates[place].key)),
        );
    }
}
