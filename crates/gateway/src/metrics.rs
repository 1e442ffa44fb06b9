//! Metrics of the program, and numbers of requests of keys.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rag_metrics::{Family, Format, Sample};

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

    /// Returns the text of the program's own metrics, without an end.
    pub fn text(&self, connections: (usize, usize), format: Format) -> String {
        let mut samples = vec![];
        for ((method, path, status), number) in &*lock(&self.requests) {
            let status = status.to_string();
            samples.push(sample(
                "rag_gateway_requests_total",
                &[("method", method), ("route", path), ("status", &status)],
                *number as f64,
            ));
        }
        for (path, times) in &*lock(&self.times) {
            let limits = BUCKETS.iter().map(|limit| format!("{limit:?}"));
            let limits = limits
                .zip(times.buckets)
                .chain([("+Inf".into(), times.count)]);
            for (limit, number) in limits {
                samples.push(sample(
                    "rag_gateway_request_seconds_bucket",
                    &[("route", path), ("le", &limit)],
                    number as f64,
                ));
            }
            let route = [("route", *path)];
            let count = times.count as f64;
            samples.push(sample("rag_gateway_request_seconds_sum", &route, times.sum));
            samples.push(sample("rag_gateway_request_seconds_count", &route, count));
        }
        let singles = [
            (
                "rag_gateway_requests_in_flight",
                self.in_flight.load(Relaxed) as f64,
            ),
            (
                "rag_gateway_event_streams",
                self.streams.load(Relaxed) as f64,
            ),
            (
                "rag_gateway_wrong_keys_total",
                self.wrong_keys.load(Relaxed) as f64,
            ),
            (
                "rag_gateway_limited_requests_total",
                self.limited.load(Relaxed) as f64,
            ),
            ("rag_gateway_connections", connections.0 as f64),
            ("rag_gateway_connections_in_use", connections.1 as f64),
        ];
        samples.extend(singles.map(|(name, value)| sample(name, &[], value)));
        rag_metrics::text(FAMILIES, &samples, format)
    }
}

const FAMILIES: &[Family] = &[
    Family::counter("rag_gateway_requests_total", "Requests that have ended."),
    Family::histogram("rag_gateway_request_seconds", "Time of a request."),
    Family::gauge("rag_gateway_requests_in_flight", "Requests in progress."),
    Family::gauge("rag_gateway_event_streams", "Open streams of events."),
    Family::counter(
        "rag_gateway_wrong_keys_total",
        "Requests with a key or token that is not valid.",
    ),
    Family::counter(
        "rag_gateway_limited_requests_total",
        "Requests that were refused by the limit of their key.",
    ),
    Family::gauge("rag_gateway_connections", "Connections to the database."),
    Family::gauge("rag_gateway_connections_in_use", "Connections that work."),
];

fn sample(name: &str, labels: &[(&str, &str)], value: f64) -> Sample {
    let own = |(label, value): &(&str, &str)| ((*label).to_owned(), (*value).to_owned());
    Sample {
        name: name.to_owned(),
        labels: labels.iter().map(own).collect(),
        value,
    }
}

/// Returns the format that a client asks for by `Accept`.
pub fn format_for(accept: Option<&str>) -> Format {
    match accept {
        Some(accept) if accept.contains("application/openmetrics-text") => Format::OpenMetrics,
        _ => Format::Prometheus,
    }
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
    fn requests_are_a_histogram() {
        let metrics = Metrics::default();
        metrics.request("GET", "/health", 200, Instant::now());
        let text = metrics.text((2, 1), Format::OpenMetrics);
        for line in [
            "# TYPE rag_gateway_requests counter",
            "rag_gateway_requests_total{method=\"GET\",route=\"/health\",status=\"200\"} 1",
            "rag_gateway_request_seconds_bucket{route=\"/health\",le=\"1.0\"} 1",
            "rag_gateway_request_seconds_bucket{route=\"/health\",le=\"+Inf\"} 1",
            "rag_gateway_connections 2",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
