//! Metrics of the program, in Prometheus' text format, and numbers of requests of keys.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::identity::Identity;

/// Upper limits of the histogram of times, in seconds.
const BUCKETS: [f64; 11] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

#[derive(Default)]
struct Times {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

/// What is counted.
#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(&'static str, &'static str, u16), u64>>,
    times: Mutex<BTreeMap<&'static str, Times>>,
    pub in_flight: AtomicUsize,
    pub streams: AtomicUsize,
    pub wrong_keys: AtomicU64,
    pub limited: AtomicU64,
    calls: Mutex<HashMap<String, (u64, SystemTime)>>,
}

/// Locks a mutex. No code panics while it holds one of these.
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Metrics {
    /// Counts a request that has ended.
    pub fn request(&self, method: &'static str, path: &'static str, status: u16, began: Instant) {
        *lock(&self.requests)
            .entry((method, path, status))
            .or_default() += 1;
        let seconds = began.elapsed().as_secs_f64();
        let mut times = lock(&self.times);
        let times = times.entry(path).or_default();
        times.count += 1;
        times.sum += seconds;
        for (count, limit) in times.buckets.iter_mut().zip(BUCKETS) {
            *count += u64::from(seconds <= limit);
        }
    }

    /// Counts a call of a key, for the next report to the database.
    pub fn call(&self, identity: &Identity) {
        if let Identity::Key { id, .. } = identity {
            let mut calls = lock(&self.calls);
            let entry = calls.entry(id.clone()).or_insert((0, UNIX_EPOCH));
            *entry = (entry.0 + 1, SystemTime::now());
        }
    }

    /// Takes the numbers of calls that were not reported yet.
    pub fn take_calls(&self) -> HashMap<String, (u64, SystemTime)> {
        std::mem::take(&mut *lock(&self.calls))
    }

    /// Gives back numbers that could not be reported.
    pub fn put_calls(&self, calls: HashMap<String, (u64, SystemTime)>) {
        let mut known = lock(&self.calls);
        for (id, (number, last)) in calls {
            let entry = known.entry(id).or_insert((0, UNIX_EPOCH));
            *entry = (entry.0 + number, entry.1.max(last));
        }
    }

    /// Returns the text of the program's own metrics.
    pub fn text(&self, connections: (usize, usize)) -> String {
        let mut text = String::new();
        metric(&mut text, "rag_gateway_requests_total", "counter");
        for ((method, path, status), number) in &*lock(&self.requests) {
            let _ = writeln!(
                text,
                "rag_gateway_requests_total{{method=\"{method}\",route=\"{path}\",\
                 status=\"{status}\"}} {number}"
            );
        }
        metric(&mut text, "rag_gateway_request_seconds", "histogram");
        for (path, times) in &*lock(&self.times) {
            for (limit, number) in BUCKETS.iter().zip(times.buckets) {
                let _ = writeln!(
                    text,
                    "rag_gateway_request_seconds_bucket{{route=\"{path}\",le=\"{limit}\"}} {number}"
                );
            }
            let _ = writeln!(
                text,
                "rag_gateway_request_seconds_bucket{{route=\"{path}\",le=\"+Inf\"}} {}\n\
                 rag_gateway_request_seconds_sum{{route=\"{path}\"}} {}\n\
                 rag_gateway_request_seconds_count{{route=\"{path}\"}} {}",
                times.count, times.sum, times.count
            );
        }
        let singles = [
            ("requests_in_flight", "gauge", self.in_flight.load(Relaxed)),
            ("event_streams", "gauge", self.streams.load(Relaxed)),
            (
                "wrong_keys_total",
                "counter",
                self.wrong_keys.load(Relaxed) as usize,
            ),
            (
                "limited_requests_total",
                "counter",
                self.limited.load(Relaxed) as usize,
            ),
            ("connections", "gauge", connections.0),
            ("connections_in_use", "gauge", connections.1),
        ];
        for (name, kind, value) in singles {
            let name = format!("rag_gateway_{name}");
            metric(&mut text, &name, kind);
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }
}

fn metric(text: &mut String, name: &str, kind: &str) {
    let _ = writeln!(text, "# TYPE {name} {kind}");
}

/// Returns the rows of `rag.metrics` as text.
pub fn of_database(rows: &Value) -> String {
    let mut text = String::new();
    let mut last = "";
    for row in rows.as_array().into_iter().flatten() {
        let (Some(name), Some(value)) = (row["name"].as_str(), row["value"].as_f64()) else {
            continue;
        };
        if name != last {
            let is_counter = name.ends_with("_total");
            metric(
                &mut text,
                name,
                if is_counter { "counter" } else { "gauge" },
            );
            last = name;
        }
        let labels: Vec<_> = row["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(label, value)| format!("{label}={}", json!(value.as_str().unwrap_or_default())))
            .collect();
        let labels = match labels.as_slice() {
            [] => String::new(),
            labels => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(text, "{name}{labels} {value}");
    }
    text
}

/// Limits of requests a minute: a bucket of tokens for each key.
pub struct RateLimit {
    a_minute: f64,
    buckets: Mutex<HashMap<String, (f64, Instant)>>,
}

impl RateLimit {
    pub fn new(a_minute: u32) -> Self {
        Self {
            a_minute: f64::from(a_minute),
            buckets: Mutex::default(),
        }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// The seconds until there is one.
    pub fn take(&self, who: &str) -> Result<(), u64> {
        let mut buckets = lock(&self.buckets);
        // those that are full again need not be remembered
        if buckets.len() > 10_000 {
            buckets.retain(|_, (_, last)| last.elapsed() < Duration::from_secs(60));
        }
        let (tokens, last) = buckets
            .entry(who.to_string())
            .or_insert_with(|| (self.a_minute, Instant::now()));
        let rate = self.a_minute / 60.0;
        *tokens = (*tokens + last.elapsed().as_secs_f64() * rate).min(self.a_minute);
        *last = Instant::now();
        if *tokens >= 1.0 {
            *tokens -= 1.0;
            return Ok(());
        }
        Err(((1.0 - *tokens) / rate).ceil().max(1.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_has_used_its_requests_waits() {
        let limit = RateLimit::new(2);
        assert_eq!(limit.take("a"), Ok(()));
        assert_eq!(limit.take("a"), Ok(()));
        assert_eq!(limit.take("a"), Err(30));
        assert_eq!(limit.take("b"), Ok(()));
    }

    #[test]
    fn metrics_of_the_database_are_lines() {
        let rows = json!([
            {"name": "a_total", "labels": {"of": "x\"y"}, "value": 2},
            {"name": "b", "labels": {}, "value": 0.5},
        ]);
        assert_eq!(
            of_database(&rows),
            "# TYPE a_total counter\na_total{of=\"x\\\"y\"} 2\n# TYPE b gauge\nb 0.5\n"
        );
    }
}
