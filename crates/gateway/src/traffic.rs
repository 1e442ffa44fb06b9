//! Searches of the last hour that this program has answered, by minute.

use std::{
    collections::VecDeque,
    sync::Mutex,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::metrics::lock;

/// Minutes that are kept.
const MINUTES: u64 = 60;
/// Upper limit of the first bucket of times, in milliseconds.
const LEAST: f64 = 0.1;
/// Quotient of the upper limits of two buckets, so a percentile is at most this much too high.
const STEP: f64 = 1.2;
/// Number of buckets. The last one begins at about 90 seconds.
const BUCKETS: usize = 76;

struct Minute {
    /// Minutes since 1970.
    number: u64,
    errors: u32,
    /// Of the requests that succeeded.
    buckets: [u32; BUCKETS],
}

impl Minute {
    fn count(&self) -> u32 {
        self.buckets.iter().sum()
    }

    /// Returns an upper limit of the times of a share of the requests, in milliseconds. None: there
    /// are no requests.
    fn percentile(&self, share: f64) -> Option<f64> {
        let wanted = (f64::from(self.count()) * share).ceil() as u32;
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted && seen > 0
        })?;
        Some(LEAST * STEP.powi(bucket as i32))
    }
}

#[derive(Default)]
pub struct Traffic(Mutex<VecDeque<Minute>>);

impl Traffic {
    /// Counts a search that has ended now.
    pub fn search(&self, took: Duration, is_error: bool) {
        self.record(now(), took, is_error);
    }

    fn record(&self, number: u64, took: Duration, is_error: bool) {
        let mut minutes = lock(&self.0);
        minutes.retain(|minute| minute.number + MINUTES > number);
        if minutes.back().is_none_or(|last| last.number < number) {
            minutes.push_back(Minute {
                number,
                errors: 0,
                buckets: [0; BUCKETS],
            });
        }
        let Some(minute) = minutes.back_mut() else {
            return;
        };
        if is_error {
            minute.errors += 1;
            return;
        }
        let milliseconds = took.as_secs_f64() * 1000.0;
        let bucket = (milliseconds / LEAST).log(STEP).ceil().max(0.0) as usize;
        minute.buckets[bucket.min(BUCKETS - 1)] += 1;
    }

    /// Returns the minutes of the last hour that have searches, ascending.
    pub fn minutes(&self) -> Value {
        self.since(now())
    }

    fn since(&self, number: u64) -> Value {
        let minutes = lock(&self.0);
        let recent = minutes
            .iter()
            .filter(|minute| minute.number + MINUTES > number);
        recent
            .map(|minute| {
                json!({
                    "minute": minute.number * 60,
                    "count": minute.count(),
                    "errors": minute.errors,
                    "p50_ms": minute.percentile(0.5),
                    "p95_ms": minute.percentile(0.95),
                })
            })
            .collect()
    }
}

fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    time.unwrap_or_default().as_secs() / 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_of_the_last_hour_are_kept() {
        let traffic = Traffic::default();
        for (minute, milliseconds) in [(1, 5), (60, 10), (60, 10), (60, 100)] {
            traffic.record(minute, Duration::from_millis(milliseconds), false);
        }
        traffic.record(61, Duration::from_millis(1), true);
        let minutes = traffic.since(61);
        let counts: Vec<_> = minutes
            .as_array()
            .into_iter()
            .flatten()
            .map(|minute| (minute["minute"].as_u64(), minute["count"].as_u64()))
            .collect();
        assert_eq!(counts, [(Some(3600), Some(3)), (Some(3660), Some(0))]);
        let median = minutes[0]["p50_ms"].as_f64().unwrap_or_default();
        assert!((10.0..12.0).contains(&median), "{median}");
        let slow = minutes[0]["p95_ms"].as_f64().unwrap_or_default();
        assert!((100.0..120.0).contains(&slow), "{slow}");
        assert_eq!(minutes[1]["errors"], 1);
        assert!(minutes[1]["p50_ms"].is_null());
    }
}
