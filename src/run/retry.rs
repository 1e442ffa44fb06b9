//! Retries of runs that failed.

use std::time::Duration;

use pgrx::datum::TimestampWithTimeZone;
use rag_schedule::backoff;

use super::schedule::{from_microseconds, microseconds, now};
use crate::{cluster, error::Error, pg::process::random, settings};

/// Maximum number of attempts in a row that a server may postpone (HTTP 429 and the like) before
/// the run fails for good.
const MAX_THROTTLED: u32 = 10;
/// Longest delay that a server can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The next attempt after a run that failed.
#[derive(Debug, Clone)]
pub struct Retry {
    pub at: TimestampWithTimeZone,
    pub delay: Duration,
    /// Attempts that have failed, this one included.
    pub attempt: u32,
    /// Attempts that the server postponed.
    pub throttled: u32,
}

impl Retry {
    /// Returns the delay for a message: `in 12 s`.
    pub fn after(&self) -> String {
        match self.delay.as_secs() {
            0 => "at once".to_string(),
            seconds => format!("in {seconds} s"),
        }
    }
}

/// Returns the next attempt after a run that failed with `error`, if there is one. Before it,
/// `attempt` attempts failed and `throttled` ones were postponed by the server. The latter do not
/// count as retries.
pub fn next_retry(error: &Error, max_retries: u32, attempt: u32, throttled: u32) -> Option<Retry> {
    if !error.cause().is_retried() || !cluster::are_scheduling() {
        return None;
    }
    let (attempt, throttled) = match error.retry_after() {
        Some(_) => (attempt, throttled + 1),
        None => (attempt + 1, throttled),
    };
    if attempt > max_retries || throttled > MAX_THROTTLED || max_retries == 0 {
        return None;
    }
    let backoff = backoff::delay(settings::retry_delay(), attempt + throttled, random());
    let delay = error
        .retry_after()
        .map_or(backoff, |asked| backoff.max(asked.min(MAX_RETRY_AFTER)));
    let at = microseconds(now()).saturating_add(delay.as_micros().try_into().unwrap_or(i64::MAX));
    Some(Retry {
        at: from_microseconds(at),
        delay,
        attempt,
        throttled,
    })
}
