//! Retries of runs that failed.
#![allow(unsafe_code)] // random numbers

use std::time::Duration;

use pgrx::{datum::TimestampWithTimeZone, pg_sys};
use rag_schedule::backoff;

use crate::{cluster, error::Error, settings};

use super::schedule::{from_microseconds, microseconds, now};

/// A server that keeps asking to be left alone is asked so often in a row before the run counts as
/// failed for good.
const MOST_THROTTLED: u32 = 10;
/// No server is given more time than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// When and as what a run that failed is tried again.
#[derive(Debug, Clone)]
pub struct Again {
    pub at: TimestampWithTimeZone,
    pub delay: Duration,
    /// Tries that have failed, this one included, and tries that were put off.
    pub attempt: u32,
    pub throttled: u32,
}

impl Again {
    /// For a message: `in 12 s`.
    pub fn after(&self) -> String {
        match self.delay.as_secs() {
            0 => "at once".to_string(),
            seconds => format!("in {seconds} s"),
        }
    }
}

/// Whether a run that failed with `error` is tried again, after `attempt` tries that failed and
/// `throttled` ones that the other side asked to put off. The latter do not use up retries.
pub fn try_again(error: &Error, max_retries: u32, attempt: u32, throttled: u32) -> Option<Again> {
    if !cluster::are_scheduling() {
        return None;
    }
    let (attempt, throttled) = match error.retry_after {
        Some(_) => (attempt, throttled + 1),
        None => (attempt + 1, throttled),
    };
    if attempt > max_retries || throttled > MOST_THROTTLED || max_retries == 0 {
        return None;
    }
    let backoff = backoff::delay(settings::retry_delay(), attempt + throttled, random());
    let delay = error
        .retry_after
        .map_or(backoff, |asked| backoff.max(asked.min(LONGEST_PAUSE)));
    let at = microseconds(now()).saturating_add(delay.as_micros().try_into().unwrap_or(i64::MAX));
    Some(Again {
        at: from_microseconds(at),
        delay,
        attempt,
        throttled,
    })
}

/// In 0..1, to keep sources apart; nothing secret depends on it.
fn random() -> f64 {
    let mut bytes = [0; 4];
    // SAFETY: fills as many bytes as there are.
    let filled = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), bytes.len()) };
    if filled {
        f64::from(u32::from_ne_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    } else {
        0.5
    }
}
