//! What a search does, and how long that takes.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use super::notice::Notice;
use crate::pg::process::pages_read;

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

/// What a part of a search has done.
#[derive(Debug, Clone)]
pub struct Step {
    pub part: Part,
    /// Phrases in English.
    pub details: Vec<String>,
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
    details: Vec<String>,
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
                details: std::mem::take(&mut steps.details),
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
    pub fn note(&self, detail: impl FnOnce() -> String) {
        if let Some(steps) = &self.steps {
            steps.borrow_mut().details.push(detail());
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

    pub fn take_notices(&self) -> Vec<Notice> {
        self.notices.take()
    }

    pub fn into_steps(self) -> Vec<Step> {
        let steps = self.steps.map(RefCell::into_inner);
        steps.unwrap_or_default().ended
    }
}
