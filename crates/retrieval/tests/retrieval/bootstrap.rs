//! Intervals and comparisons.

use proptest::prelude::*;
use rag_retrieval::evaluation::Resampling;

const RESAMPLING: Resampling = Resampling { resamples: 2000 };

fn alternating(high: f64, low: f64, queries: usize) -> Vec<f64> {
    (0..queries)
        .map(|n| if n % 2 == 0 { high } else { low })
        .collect()
}

#[test]
fn interval_has_the_width_of_the_standard_error() {
    let values = alternating(1.0, 0.0, 400);
    let estimate = RESAMPLING.estimate(&values, || {});
    // 1.96 * 0.5 / sqrt(400)
    assert!((estimate.high - estimate.low - 2.0 * 0.049).abs() < 0.01);
    assert!((estimate.mean - 0.5).abs() < 1e-12);
}

#[test]
fn small_difference_of_each_query_is_significant() {
    let better = alternating(0.9, 0.1, 50);
    let worse: Vec<f64> = better.iter().map(|value| value - 0.01).collect();
    let comparison = RESAMPLING.compare(&better, &worse, || {});
    assert!((comparison.difference.mean - 0.01).abs() < 1e-9);
    // all resamples have the same mean, so none is as far from it as it is from 0
    assert!(comparison.p_value < 0.001);
}

#[test]
fn difference_of_one_query_is_not_significant() {
    let mut better = alternating(0.9, 0.1, 50);
    let worse = better.clone();
    better[0] = 1.0;
    let comparison = RESAMPLING.compare(&better, &worse, || {});
    assert!(comparison.p_value > 0.2, "{comparison:?}");
}

#[test]
fn equal_settings_do_not_differ() {
    let values = alternating(0.9, 0.1, 50);
    let comparison = RESAMPLING.compare(&values, &values, || {});
    assert_eq!(comparison.difference.mean, 0.0);
    assert_eq!(comparison.p_value, 1.0);
}

/// A normal test of the same differences has z = 2 and p = 0.0455.
#[test]
fn p_value_is_near_that_of_a_normal_test() {
    let differences = alternating(1.2, -0.8, 100);
    let none = vec![0.0; 100];
    let comparison = Resampling { resamples: 20_000 }.compare(&differences, &none, || {});
    assert!((comparison.difference.mean - 0.2).abs() < 1e-9);
    assert!(
        (0.035..0.065).contains(&comparison.p_value),
        "{comparison:?}"
    );
}

#[test]
fn each_resample_is_reported() {
    let mut ticks = 0;
    RESAMPLING.estimate(&[1.0], || ticks += 1);
    assert_eq!(ticks, 2000);
}

proptest! {
    #[test]
    fn intervals_lie_within_the_values(values in prop::collection::vec(0.0..=1.0, 1..40)) {
        let resampling = Resampling { resamples: 200 };
        let estimate = resampling.estimate(&values, || {});
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(least - 1e-9 <= estimate.low && estimate.low <= estimate.high);
        prop_assert!(estimate.high <= most + 1e-9);
        prop_assert_eq!(estimate, resampling.estimate(&values, || {}));
    }

    #[test]
    fn the_order_of_settings_changes_only_the_sign(
        pairs in prop::collection::vec((0.0..=1.0, 0.0..=1.0), 1..40),
    ) {
        let (one, other): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let resampling = Resampling { resamples: 200 };
        let forth = resampling.compare(&one, &other, || {});
        let back = resampling.compare(&other, &one, || {});
        prop_assert!((forth.difference.mean + back.difference.mean).abs() < 1e-12);
        prop_assert_eq!(forth.p_value, back.p_value);
        prop_assert!(forth.p_value > 0.0 && forth.p_value <= 1.0);
    }
}
