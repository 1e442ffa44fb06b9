//! How long the parts of a search take.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// A part of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Embedding the query.
    Embedding,
    /// The list of vector search.
    Vector,
    /// The list of keyword search, and the scores of what vector search has found.
    Keyword,
    /// Combining both, and reading the chunks of the results.
    Fusion,
}

/// The time that each part of a search has taken so far.
#[derive(Debug, Clone, Default)]
pub struct SearchTimes([Cell<Duration>; 4]);

impl SearchTimes {
    pub fn of(&self, part: Part) -> Duration {
        self.0[part as usize].get()
    }

    /// Runs `f` as a part of the search.
    pub fn measure<R>(&self, part: Part, f: impl FnOnce() -> R) -> R {
        let started = Instant::now();
        let result = f();
        let time = &self.0[part as usize];
        time.set(time.get() + started.elapsed());
        result
    }
}
