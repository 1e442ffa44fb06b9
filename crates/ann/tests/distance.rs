//! Every path this CPU can run, against the formulas in `f64`.

use proptest::prelude::*;
use rag_ann::{
    distance::{self, Kernels, Metric},
    half::Half,
};

/// Relative to the sum of the terms' magnitudes, which is what rounding in `f32` scales with.
const TOLERANCE: f64 = 1e-5;

/// A sum and the sum of its terms' magnitudes.
fn sum(a: &[f32], b: &[f32], term: impl Fn(f64, f64) -> f64) -> (f64, f64) {
    a.iter()
        .zip(b)
        .fold((0.0, 0.0), |(sum, magnitude), (&x, &y)| {
            let term = term(f64::from(x), f64::from(y));
            (sum + term, magnitude + term.abs())
        })
}

fn assert_near(found: f64, expected: f64, magnitude: f64, what: &str) {
    let same = found == expected || (found.is_nan() && expected.is_nan());
    assert!(
        same || (found - expected).abs() <= TOLERANCE * magnitude,
        "{what}: found {found}, expected {expected}"
    );
}

/// Checks all distances of all paths.
fn check(a: &[f32], b: &[f32]) {
    let l2 = sum(a, b, |x, y| (x - y) * (x - y));
    let dot = sum(a, b, |x, y| x * y);
    let l1 = sum(a, b, |x, y| (x - y).abs());
    let norms = sum(a, a, |x, y| x * y).0.sqrt() * sum(b, b, |x, y| x * y).0.sqrt();
    let cosine = 1.0 - (dot.0 / norms).clamp(-1.0, 1.0);
    for kernels in Kernels::available() {
        let what = |metric| format!("{} {metric} of {} elements", kernels.name(), a.len());
        assert_near(kernels.l2_squared(a, b), l2.0, l2.1, &what("l2_squared"));
        assert_near(
            kernels.inner_product(a, b),
            dot.0,
            dot.1,
            &what("inner_product"),
        );
        assert_near(kernels.l1(a, b), l1.0, l1.1, &what("l1"));
        assert_near(
            kernels.cosine_distance(a, b),
            cosine,
            1.0,
            &what("cosine_distance"),
        );
    }
}

/// Elements in -1..1 from a multiplicative hash.
fn vector(length: usize, seed: u32) -> Vec<f32> {
    (0..length as u32)
        .map(|i| {
            ((i ^ seed << 16).wrapping_add(seed)).wrapping_mul(2_654_435_761) as f32
                / u32::MAX as f32
                * 2.0
                - 1.0
        })
        .collect()
}

#[test]
fn the_portable_path_is_always_there_and_last() {
    let names: Vec<&str> = Kernels::available().map(Kernels::name).collect();
    assert_eq!(names.last(), Some(&"portable"));
    assert_eq!(names.first(), Some(&Kernels::best().name()));
}

#[test]
fn every_length_is_summed_to_its_end() {
    for length in 0..=2000 {
        check(&vector(length, 1), &vector(length, 2));
    }
}

/// One element that differs, at each place in turn: no lane is left out or counted twice.
#[test]
fn every_element_counts_once() {
    for length in [1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 200] {
        for place in 0..length {
            let mut a = vec![0f32; length];
            a[place] = 3.0;
            let b = vec![1f32; length];
            for kernels in Kernels::available() {
                assert_eq!(kernels.inner_product(&a, &b), 3.0);
                assert_eq!(kernels.l2_squared(&a, &b), 4.0 + (length - 1) as f64);
                assert_eq!(kernels.l1(&a, &b), 2.0 + (length - 1) as f64);
            }
        }
    }
}

#[test]
fn slices_may_start_anywhere() {
    let (a, b) = (vector(2016, 3), vector(2016, 4));
    for start in 0..16 {
        for length in [0, 1, 15, 16, 100, 384, 1000, 2000] {
            check(
                &a[start..start + length],
                &b[15 - start..15 - start + length],
            );
        }
    }
}

/// Elements beyond the slice are NaN: one that was read would show.
#[test]
fn nothing_is_read_into_the_sum_beyond_the_end() {
    for length in 0..100 {
        let mut a = vector(length + 64, 5);
        let mut b = vector(length + 64, 6);
        a[length..].fill(f32::NAN);
        b[length..].fill(f32::NAN);
        check(&a[..length], &b[..length]);
    }
}

#[test]
fn sums_beyond_f32_are_taken_in_f64() {
    for scale in [f32::MAX, 1e30, 1e19, 1e-19, 1e-25, 1e-38, 1e-44] {
        for length in [1, 5, 16, 100, 384] {
            let scaled = |seed| {
                vector(length, seed)
                    .iter()
                    .map(|x| x * scale)
                    .collect::<Vec<_>>()
            };
            check(&scaled(7), &scaled(8));
            check(&scaled(9), &vector(length, 10));
        }
    }
    assert_eq!(
        distance::l2_squared(&[f32::MAX], &[0.0]),
        f64::from(f32::MAX).powi(2)
    );
    assert_eq!(distance::cosine_distance(&[1e30, 0.0], &[1e30, 0.0]), 0.0);
    assert_eq!(distance::cosine_distance(&[1e-40, 0.0], &[0.0, 1e-40]), 1.0);
}

#[test]
fn nan_and_infinity_pass_through() {
    for length in [1, 3, 8, 16, 20, 64, 100] {
        for place in [0, length / 2, length - 1] {
            for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let (mut a, b) = (vector(length, 11), vector(length, 12));
                a[place] = odd;
                for kernels in Kernels::available() {
                    assert!(!kernels.l2_squared(&a, &b).is_finite());
                    assert!(!kernels.inner_product(&a, &b).is_finite());
                    assert!(!kernels.l1(&a, &b).is_finite());
                    assert!(kernels.cosine_distance(&a, &b).is_nan());
                    assert!(kernels.l1(&a, &a).is_nan());
                }
            }
        }
    }
}

#[test]
fn cosine_of_a_zero_vector_is_nan() {
    for length in [0, 1, 17, 384] {
        let zero = vec![0f32; length];
        for kernels in Kernels::available() {
            assert!(kernels.cosine_distance(&zero, &vec![1.0; length]).is_nan());
            assert!(kernels.cosine_distance(&zero, &zero).is_nan());
        }
    }
}

#[test]
fn cosine_stays_between_zero_and_two() {
    for seed in 0..2000 {
        let a = vector(1 + seed as usize % 40, seed);
        let opposite: Vec<f32> = a.iter().map(|x| -x * 3.0).collect();
        for kernels in Kernels::available() {
            assert_eq!(kernels.cosine_distance(&a, &a), 0.0);
            assert!((0.0..=2.0).contains(&kernels.cosine_distance(&a, &opposite)));
        }
    }
}

#[test]
fn normalized_vectors_have_length_one_and_zeros_stay() {
    let mut out = vec![9.0; 3];
    distance::l2_normalize(&[3.0, 4.0], &mut out);
    assert_eq!(out, [0.6, 0.8]);
    distance::l2_normalize(&[0.0; 4], &mut out);
    assert_eq!(out, [0.0; 4]);
    distance::l2_normalize(&[f32::MAX, f32::MAX], &mut out);
    assert!((distance::norm(&out) - 1.0).abs() < 1e-7);
    distance::l2_normalize(&[], &mut out);
    assert!(out.is_empty());
    assert_eq!(distance::norm(&[3.0, 4.0]), 5.0);
}

#[test]
fn metrics_order_the_nearer_first() {
    let (query, near, far) = ([1.0, 0.2], [0.9, 0.3], [-0.5, 0.4]);
    for metric in [
        Metric::L2Squared,
        Metric::InnerProduct,
        Metric::Cosine,
        Metric::L1,
    ] {
        let distance = metric.function();
        assert!(
            distance(&query, &near) < distance(&query, &far),
            "{metric:?}"
        );
    }
}

/// In release builds; debug builds panic instead.
#[cfg(not(debug_assertions))]
#[test]
fn unequal_lengths_compare_what_both_have() {
    for length in [3, 16, 70] {
        let long = vector(200, 13);
        let short = vector(length, 14);
        for kernels in Kernels::available() {
            assert_eq!(
                kernels.l2_squared(&long, &short),
                kernels.l2_squared(&short, &long)
            );
            assert_near(
                kernels.l1(&long, &short),
                kernels.l1(&long[..length], &short),
                10.0,
                kernels.name(),
            );
        }
    }
}

proptest! {
    /// Finite elements of any magnitude.
    #[test]
    fn any_finite_vectors_are_measured(
        pairs in prop::collection::vec(
            (
                prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO,
                prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO,
            ),
            0..300,
        ),
        cut in 0usize..8,
    ) {
        let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let cut = cut.min(a.len());
        check(&a[cut..], &b[cut..]);
    }

    #[test]
    fn ordinary_vectors_are_measured(
        pairs in prop::collection::vec((-10f32..10.0, -10f32..10.0), 0..2000),
    ) {
        let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        check(&a, &b);
    }
}

/// Halves give the same bits as the same numbers in `f32`, by the same path.
fn check_halves(a: &[f32], b: &[f32]) {
    let halves =
        |vector: &[f32]| -> Vec<Half> { vector.iter().map(|&x| Half::from_f32(x)).collect() };
    let (a, b) = (halves(a), halves(b));
    let widen = |vector: &[Half]| -> Vec<f32> { vector.iter().map(|x| x.to_f32()).collect() };
    let (x, y) = (widen(&a), widen(&b));
    for kernels in Kernels::available() {
        let what = |metric| format!("{} {metric} of {} halves", kernels.name(), a.len());
        let same = |found: f64, expected: f64, metric| {
            assert_eq!(found.to_bits(), expected.to_bits(), "{}", what(metric));
        };
        same(
            kernels.l2_squared(&a, &b),
            kernels.l2_squared(&x, &y),
            "l2_squared",
        );
        same(
            kernels.inner_product(&a, &b),
            kernels.inner_product(&x, &y),
            "inner_product",
        );
        same(kernels.l1(&a, &b), kernels.l1(&x, &y), "l1");
        same(
            kernels.cosine_distance(&a, &b),
            kernels.cosine_distance(&x, &y),
            "cosine_distance",
        );
    }
    assert_eq!(distance::norm(&a).to_bits(), distance::norm(&x).to_bits());
}

#[test]
fn halves_give_the_bits_of_the_same_numbers() {
    for length in 0..150 {
        check_halves(&vector(length, 1), &vector(length, 2));
    }
    check_halves(&vector(16_000, 1), &vector(16_000, 2));
    check_halves(&[65504.0, -65504.0, 6e-8], &[-65504.0, 65504.0, -6e-8]);
    check_halves(&[1.0, 1.0], &[1.0, -1.0]); // a sum of 0 is computed again
    check_halves(&[0.0; 40], &[0.0; 40]);
}
