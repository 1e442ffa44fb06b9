//! Delays between retries.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use proptest::prelude::*;
use rag_schedule::backoff::{MAX_DELAY, delay};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn delays_double_up_to_the_maximum() {
    let longest = |attempt| delay(10 * SECOND, attempt, 1.0).as_secs();
    let delays: Vec<u64> = (1..=11).map(longest).collect();
    assert_eq!(
        delays,
        [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    );
    assert_eq!(longest(0), 10);
    assert_eq!(longest(u32::MAX), 3600);
}

#[test]
fn jitter_subtracts_up_to_half() {
    assert_eq!(delay(8 * SECOND, 2, 0.0), 8 * SECOND);
    assert_eq!(delay(8 * SECOND, 2, 0.5), 12 * SECOND);
    assert_eq!(delay(8 * SECOND, 2, 1.0), 16 * SECOND);
    assert_eq!(delay(8 * SECOND, 40, 0.0), MAX_DELAY / 2);
}

#[test]
fn invalid_random_numbers_and_attempts_are_harmless() {
    assert_eq!(delay(Duration::ZERO, u32::MAX, 1.0), Duration::ZERO);
    assert_eq!(delay(Duration::MAX, u32::MAX, 1.0), MAX_DELAY);
    assert_eq!(delay(Duration::from_nanos(1), 43, 1.0), MAX_DELAY);
    assert_eq!(
        delay(Duration::from_nanos(1), 33, 1.0),
        Duration::from_nanos(1 << 32)
    );
    for (random, expected) in [
        (f64::NAN, 4),
        (f64::INFINITY, 4),
        (f64::NEG_INFINITY, 2),
        (-3.0, 2),
        (7.0, 4),
    ] {
        assert_eq!(delay(4 * SECOND, 1, random), expected * SECOND, "{random}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn delays_keep_within_bounds_and_their_median_does_not_fall(
        base in any::<Duration>(),
        attempt in prop_oneof![1u32..100, any::<u32>()],
        random in 0.0..1.0f64,
    ) {
        let (least, most) = (delay(base, attempt, 0.0), delay(base, attempt, 1.0));
        prop_assert!((least..=most).contains(&delay(base, attempt, random)));
        prop_assert!(most <= MAX_DELAY && most >= base.min(MAX_DELAY) - Duration::from_nanos(1));
        prop_assert!(most - 2 * least <= Duration::from_nanos(1));
        prop_assert!(delay(base, attempt.saturating_add(1), 0.5) >= delay(base, attempt, 0.5));
    }
}
