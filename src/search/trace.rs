//! What a search does, and how long that takes.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use rag_retrieval::fusion::{FoundWords, Method};

use super::{notice::Notice, words::NoKeywords};
use crate::{cluster::search_stats::TIMES, pg::process::pages_read};

/// A part of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Embedding the query.
    Embedding,
    /// The list of vector search, or all chunks if few pass the filter.
    Vector,
    /// The list of keyword search, and the scores of what vector search has found.
    Keyword,
    /// Combining both.
    Fusion,
    /// Reading the chunks of the results.
    Results,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Vector => "vector",
            Self::Keyword => "keyword",
            Self::Fusion => "fusion",
            Self::Results => "results",
        }
    }
}

/// What a part of a search does. `explain` says it in English.
#[derive(Debug)]
pub enum Event {
    /// The caller has given the embedding of the query.
    EmbeddingGiven,
    /// The query is embedded by a model of this name.
    EmbeddedBy(String),
    /// The words of the query, with the number of chunks that have them, if the caller may know it.
    Words(Vec<(String, Option<u64>)>),
    NoWords(NoKeywords),
    /// The words are searched for in the table, because an index is corrupted.
    WordsInTable,
    /// How the planner finds the nearest chunks.
    Path {
        /// The candidates that the index keeps. None without an index.
        ef_search: Option<usize>,
        /// As EXPLAIN writes them.
        scans: Vec<String>,
    },
    /// All shards have named their best; of these, so many are found.
    FoundOnShards(usize),
    /// More documents than this number have changes that the server does not have yet.
    ManyPending(usize),
    /// The candidates of a server, the documents with changes that it does not have yet, and the
    /// chunks that are found of both.
    OfServer {
        named: usize,
        pending: usize,
        found: usize,
    },
    /// Too few of the most candidates that a server may name pass the filter.
    FewOfServer,
    /// Chunks that the keyword index has named, in a number of steps.
    NamedByIndex {
        chunks: usize,
        steps: usize,
    },
    /// Chunks of those that may be found.
    FoundByWords(usize),
    /// Chunks of the vector list whose keyword scores are computed.
    ScoredByWords(usize),
    /// Chunks that the planner expects to pass the filter.
    ExpectedToPass(f64),
    /// More chunks than this number are expected to pass.
    ManyExpected(usize),
    /// More chunks than this number pass.
    ManyPass(usize),
    /// So few chunks pass that all are scored.
    FewPass,
    /// Chunks whose scores are computed, because few pass.
    Scored(usize),
    /// The words of the query that decide the weights. All counts are 0 for a query without codes.
    Weighed(FoundWords),
    /// The results were chosen.
    Chosen {
        method: Method,
        /// The cosine similarity that counts as 0.
        baseline: f64,
        candidates: usize,
        /// The number below the threshold of the request, if it has one.
        below_threshold: Option<usize>,
        /// Too few documents: longer lists are needed.
        needs_more: bool,
    },
    /// The chunks of the results are read, with their neighbours within a distance.
    Read {
        neighbours: i32,
    },
    /// Chunks with the text of another one.
    Copies(usize),
}

/// What a part of a search has done.
#[derive(Debug)]
pub struct Step {
    pub part: Part,
    pub events: Vec<Event>,
    /// The number of rows that it has returned, if that is known.
    pub rows: Option<usize>,
    /// The number of pages of tables and indexes that it has read, in memory or not.
    pub pages: i64,
    pub time: Duration,
}

/// The time that each part of a search has taken so far, and what the caller should know. If steps
/// are recorded, also what each part did.
#[derive(Debug, Default)]
pub struct Trace {
    times: [Cell<Duration>; 5],
    steps: Option<RefCell<Steps>>,
    notices: RefCell<Vec<Notice>>,
}

#[derive(Debug, Default)]
struct Steps {
    ended: Vec<Step>,
    /// Of the step in progress.
    events: Vec<Event>,
    rows: Option<usize>,
}

impl Trace {
    /// Returns a trace that records steps.
    pub fn of_steps() -> Self {
        Self {
            steps: Some(RefCell::default()),
            ..Self::default()
        }
    }

    pub fn time_of(&self, part: Part) -> Duration {
        self.times[part as usize].get()
    }

    /// Runs `f` as a step of a part of the search.
    pub fn measure<R>(&self, part: Part, f: impl FnOnce() -> R) -> R {
        let pages = self.steps.is_some().then(pages_read);
        let started = Instant::now();
        let result = f();
        let elapsed = started.elapsed();
        let time = &self.times[part as usize];
        time.set(time.get() + elapsed);
        if let (Some(steps), Some(pages)) = (&self.steps, pages) {
            let mut steps = steps.borrow_mut();
            let step = Step {
                part,
                events: std::mem::take(&mut steps.events),
                rows: steps.rows.take(),
                pages: pages_read() - pages,
                time: elapsed,
            };
            steps.ended.push(step);
        }
        result
    }

    pub fn records_steps(&self) -> bool {
        self.steps.is_some()
    }

    /// Records what the step in progress does.
    pub fn note(&self, event: impl FnOnce() -> Event) {
        if let Some(steps) = &self.steps {
            steps.borrow_mut().events.push(event());
        }
    }

    /// Records the number of rows that the step in progress returns.
    pub fn rows(&self, rows: usize) {
        if let Some(steps) = &self.steps {
            steps.borrow_mut().rows = Some(rows);
        }
    }

    /// Records what the caller should know, once.
    pub fn tell(&self, notice: Notice) {
        let mut notices = self.notices.borrow_mut();
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }

    /// Returns the times of a search that took `total`, as in [`SearchCounts::times`].
    ///
    /// [`SearchCounts::times`]: crate::cluster::search_stats::SearchCounts::times
    pub fn times(&self, total: Duration) -> [Duration; TIMES] {
        [
            total,
            self.time_of(Part::Embedding),
            self.time_of(Part::Vector),
            self.time_of(Part::Keyword),
            self.time_of(Part::Fusion) + self.time_of(Part::Results),
        ]
    }

    pub fn take_notices(&self) -> Vec<Notice> {
        self.notices.take()
    }

    pub fn into_steps(self) -> Vec<Step> {
        let steps = self.steps.map(RefCell::into_inner);
        steps.unwrap_or_default().ended
    }
}
