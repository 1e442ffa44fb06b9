//! The delay before a run is retried.
//!
//! Exponential backoff with equal jitter. The delay doubles with each attempt up to [`MAX_DELAY`].
//! Up to half of it is subtracted at random, so that sources that failed together are not retried
//! together, and none is retried at once.

use std::time::Duration;

pub const MAX_DELAY: Duration = Duration::from_secs(3600);

/// Returns the delay after the failed attempt number `attempt`, counted from 1: between half of
/// `base
/// * 2^(attempt-1)` and all of it. `random` is from 0 to 1.
pub fn delay(base: Duration, attempt: u32, random: f64) -> Duration {
    let base = base.min(MAX_DELAY).as_nanos();
    // base and maximum are below 2^42 ns: shifted by 42, any base has reached the maximum
    let max = (base << attempt.saturating_sub(1).min(42)).min(MAX_DELAY.as_nanos());
    let half = Duration::from_nanos(u64::try_from(max).unwrap_or(u64::MAX)) / 2;
    let random = if random.is_nan() {
        1.0
    } else {
        random.clamp(0.0, 1.0)
    };
    half + half.mul_f64(random)
}
