//! How long to wait before a run is tried again.
//!
//! Exponential backoff with equal jitter: the delay doubles with each attempt up to [`MOST`], and a
//! random half of it is taken off, so that sources that failed together do not come back together
//! and none comes back at once.

use std::time::Duration;

/// No delay is longer.
pub const MOST: Duration = Duration::from_secs(3600);

/// The delay after the failed attempt number `attempt`, counted from 1: between half of `base *
/// 2^(attempt-1)` and all of it, as `random` says, which is from 0 to 1.
pub fn delay(base: Duration, attempt: u32, random: f64) -> Duration {
    let base = base.min(MOST).as_nanos();
    // The base is below 2^42 nanoseconds, and so is the most: shifted by 42 any base has reached
    // it.
    let most = (base << attempt.saturating_sub(1).min(42)).min(MOST.as_nanos());
    let half = Duration::from_nanos(u64::try_from(most).unwrap_or(u64::MAX)) / 2;
    let random = if random.is_nan() {
        1.0
    } else {
        random.clamp(0.0, 1.0)
    };
    half + half.mul_f64(random)
}
