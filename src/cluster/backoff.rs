//! Delays between attempts that grow with each failure.

use std::time::Duration;

/// The first and the longest delay of a sequence in which each is twice the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// Returns the delay that follows another one, or the first.
    pub fn after(self, previous: Option<Duration>) -> Duration {
        previous.map_or(self.first, |previous| (previous * 2).min(self.longest))
    }

    /// Returns the delay after a number of failures in a row, the first one being 0.
    pub fn nth(self, failures: u32) -> Duration {
        self.first
            .saturating_mul(1 << failures.min(30))
            .min(self.longest)
    }
}
