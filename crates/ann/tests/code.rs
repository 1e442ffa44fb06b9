//! Codes: every path this CPU can run against the formulas in `f64`, and estimated against exact
//! distances.

use proptest::prelude::*;
use rag_ann::code::{
    Factors, Kernels, Metric, Quantizer, Query, QueryBlock, Rotation, from_order_bits, order_bits,
};
use rag_ann::distance;

const METRICS: [Metric; 4] = [Metric::L2, Metric::InnerProduct, Metric::Cosine, Metric::L1];
const DIMENSIONS: [usize; 8] = [1, 3, 100, 128, 384, 768, 1536, 16_000];
const BLOCK: usize = 128;

/// Normally distributed enough: sums of four from a linear congruential generator.
fn vector(length: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..length)
        .map(|_| uniform() + uniform() + uniform() + uniform())
        .collect()
}

/// A vector at a small angle to another.
fn near(of: &[f32], seed: u64) -> Vec<f32> {
    of.iter()
        .zip(vector(of.len(), seed))
        .map(|(x, y)| x + 0.3 * y)
        .collect()
}

fn exact(metric: Metric, a: &[f32], b: &[f32]) -> f64 {
    match metric {
        Metric::L2 | Metric::L1 => distance::l2_squared(a, b),
        Metric::InnerProduct => distance::negative_inner_product(a, b),
        Metric::Cosine => distance::cosine_distance(a, b),
    }
}

fn encode(quantizer: &Quantizer, vector: &[f32]) -> (Vec<u8>, Factors) {
    let mut code = vec![0; quantizer.code_bytes()];
    let factors = quantizer.encode(vector, &mut Vec::new(), &mut code);
    (code, factors)
}

fn estimate(query: &Query, (code, factors): &(Vec<u8>, Factors)) -> f64 {
    f64::from(query.distance(code, *factors))
}

/// The mean of some vectors around `offset`.
fn centroid(metric: Metric, dimensions: usize, seed: u64, offset: f32) -> Vec<f32> {
    let quantizer = Quantizer::new(metric, dimensions, BLOCK, seed, vec![]);
    let mut mean = quantizer.mean();
    for i in 0..20 {
        mean.add(
            &vector(dimensions, 1000 + i)
                .iter()
                .map(|x| x + offset)
                .collect::<Vec<f32>>(),
        );
    }
    mean.finish()
}

fn quantizer(
    metric: Metric,
    dimensions: usize,
    code_dimensions: usize,
    seed: u64,
    offset: f32,
) -> Quantizer {
    Quantizer::new(
        metric,
        dimensions,
        code_dimensions,
        seed,
        centroid(metric, dimensions, seed, offset),
    )
}

/// The level of each coordinate, by the documented layout.
fn levels(code: &[u8]) -> Vec<i64> {
    (0..code.len() * 2)
        .map(|i| {
            let byte = code[i / BLOCK * 64 + i % 64];
            i64::from(if i % BLOCK < 64 { byte & 15 } else { byte >> 4 })
        })
        .collect()
}

fn check_dot(code: &[u8], query: &[QueryBlock]) {
    let query_elements = query.iter().flat_map(|block| block.0);
    let expected: i64 = levels(code)
        .iter()
        .zip(query_elements)
        .map(|(u, q)| u * i64::from(q))
        .sum();
    for kernels in Kernels::available() {
        assert_eq!(
            i64::from(kernels.dot(code, query)),
            expected,
            "{} of {} bytes",
            kernels.name(),
            code.len()
        );
    }
}

#[test]
fn the_portable_path_is_always_there_and_last() {
    let names: Vec<&str> = Kernels::available().map(Kernels::name).collect();
    assert_eq!(names.last(), Some(&"portable"));
    assert_eq!(names.first(), Some(&Kernels::best().name()));
}

#[test]
fn the_largest_products_do_not_overflow() {
    for blocks in [1, 2, 3, 125] {
        for byte in [0x00, 0x0f, 0xf0, 0xff] {
            for element in [-128, -127, 127] {
                check_dot(
                    &vec![byte; blocks * 64],
                    &vec![QueryBlock([element; BLOCK]); blocks],
                );
            }
        }
    }
}

#[test]
fn every_coordinate_counts_once() {
    for place in 0..3 * BLOCK {
        let mut query = [QueryBlock([0; BLOCK]); 3];
        query[place / BLOCK].0[place % BLOCK] = 1;
        let code: Vec<u8> = (0..192u8).map(|i| i.wrapping_mul(37)).collect();
        check_dot(&code, &query);
    }
}

#[test]
fn products_end_with_the_shorter_of_code_and_query() {
    let code = [0xffu8; 200];
    let query = [QueryBlock([1; BLOCK]); 2];
    for kernels in Kernels::available() {
        assert_eq!(kernels.dot(&code, &query), 2 * 128 * 15);
        assert_eq!(kernels.dot(&code[..127], &query), 128 * 15);
        assert_eq!(kernels.dot(&code[..63], &query), 0);
        assert_eq!(kernels.dot(&code, &[]), 0);
    }
}

#[test]
fn rotation_keeps_lengths_and_inner_products() {
    for dimensions in [128, 256, 384, 640, 768, 896, 1024, 1536, 16_000] {
        let rotation = Rotation::new(dimensions, 7);
        assert_eq!(rotation.dimensions(), dimensions);
        let (a, b) = (vector(dimensions, 1), vector(dimensions, 2));
        let mut unit = vec![0f32; dimensions];
        unit[dimensions / 3] = 1.0;
        for kernels in Kernels::available() {
            let rotated = |vector: &[f32]| {
                let mut vector = vector.to_vec();
                kernels.rotate(&rotation, &mut vector);
                vector
            };
            let (ra, rb, ru) = (rotated(&a), rotated(&b), rotated(&unit));
            for (x, y, rx, ry) in [
                (&a, &b, &ra, &rb),
                (&a, &a, &ra, &ra),
                (&unit, &a, &ru, &ra),
                (&unit, &unit, &ru, &ru),
            ] {
                let (before, after) = (
                    distance::inner_product(x, y),
                    distance::inner_product(rx, ry),
                );
                let tolerance = 1e-5 * distance::norm(x) * distance::norm(y);
                assert!(
                    (before - after).abs() <= tolerance,
                    "{dimensions}: {before} became {after}"
                );
            }
        }
    }
}

/// Or a vector with one large element would be coded badly.
#[test]
fn rotation_spreads_a_single_element_over_all_coordinates() {
    for dimensions in [128, 384, 896, 1024, 1536] {
        for place in [0, 1, dimensions / 2, dimensions - 1] {
            let rotation = Rotation::new(dimensions, 3);
            let mut unit = vec![0f32; dimensions];
            unit[place] = 1.0;
            Kernels::best().rotate(&rotation, &mut unit);
            let largest = unit.iter().fold(0f32, |max, x| max.max(x.abs()));
            assert!(
                largest * (dimensions as f32).sqrt() < 6.0,
                "{dimensions} {place}: {largest}"
            );
        }
    }
}

/// Codes are stored: a change of their bits makes every index wrong.
#[test]
fn codes_have_the_bits_they_always_had() {
    let checksum = |bytes: &[u8]| {
        bytes.iter().fold(0u32, |sum, &byte| {
            (sum ^ u32::from(byte)).wrapping_mul(16_777_619)
        })
    };
    let found: Vec<(u32, u32, u32)> = [100, 384, 1024]
        .into_iter()
        .map(|dimensions| {
            let quantizer = Quantizer::new(
                Metric::L2,
                dimensions,
                dimensions.next_multiple_of(BLOCK),
                42,
                vec![],
            );
            let (code, factors) = encode(&quantizer, &vector(dimensions, 5));
            (
                checksum(&code),
                factors.scale.to_bits(),
                factors.bias.to_bits(),
            )
        })
        .collect();
    let expected = [
        (1_025_027_699, 1_042_467_157, 1_108_786_826),
        (100_066_482, 1_046_432_946, 1_124_278_078),
        (222_791_908, 1_044_911_894, 1_135_347_236),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_path_gives_the_same_bits() {
    for metric in METRICS {
        for dimensions in [1, 100, 384, 900, 1024] {
            let x = vector(dimensions, 3);
            let mut seen = None;
            for kernels in Kernels::available() {
                let quantizer = quantizer(metric, dimensions, 2000, 1, 0.2).with_kernels(kernels);
                let coded = encode(&quantizer, &x);
                let found = (
                    estimate(&quantizer.query(&near(&x, 4)), &coded).to_bits(),
                    coded,
                );
                assert_eq!(
                    *seen.get_or_insert(found.clone()),
                    found,
                    "{} {metric:?} {dimensions}",
                    kernels.name()
                );
            }
        }
    }
}

/// By how much estimates of ⟨q′, r⟩ err, as one standard deviation: the code's angle to the
/// residual has a tangent of about .11 where all coordinates are coded, and the query's rounding
/// adds a little.
fn expected_error(query_norm: f64, residual_norm: f64, coded_share: f64, padded: usize) -> f64 {
    let cosine_squared = 0.988 * coded_share;
    let tangent = ((1.0 - cosine_squared) / cosine_squared).sqrt();
    query_norm * residual_norm * (tangent + 0.02) / (padded as f64).sqrt()
}

fn check_estimates(metric: Metric, dimensions: usize, code_dimensions: usize, offset: f32) {
    let quantizer = quantizer(metric, dimensions, code_dimensions, 11, offset);
    let padded = dimensions.next_multiple_of(BLOCK);
    let coded_share = quantizer.code_dimensions() as f64 / padded as f64;
    let shift = |v: Vec<f32>| v.iter().map(|x| x + offset).collect::<Vec<f32>>();
    // L2's and Cosine's biases are the squared lengths of the residuals.
    let by_length = if metric == Metric::InnerProduct {
        Metric::L2
    } else {
        metric
    };
    let residuals = self::quantizer(by_length, dimensions, code_dimensions, 11, offset);
    let residual_norm = |v: &[f32]| f64::from(encode(&residuals, v).1.bias).sqrt();
    for seed in 0..20 {
        let x = shift(vector(dimensions, seed));
        let coded = encode(&quantizer, &x);
        for y in [
            shift(vector(dimensions, seed + 100)),
            near(&x, seed + 200),
            x.clone(),
        ] {
            let exact = if x == y && metric != Metric::InnerProduct {
                0.0
            } else {
                exact(metric, &y, &x)
            };
            let estimate = estimate(&quantizer.query(&y), &coded);
            let error = expected_error(residual_norm(&y), residual_norm(&x), coded_share, padded);
            let error = if matches!(metric, Metric::L2 | Metric::L1) {
                2.0 * error
            } else {
                error
            };
            let rounding = 1e-5 * (exact.abs() + distance::norm(&x) * distance::norm(&y));
            assert!(
                (estimate - exact).abs() <= 6.0 * error + rounding,
                "{metric:?} {dimensions} coded in {code_dimensions}: {estimate} for {exact}, expected error {error}"
            );
        }
    }
}

#[test]
fn estimates_are_close_to_exact_distances() {
    for metric in METRICS {
        for dimensions in DIMENSIONS {
            for offset in [0.0, 0.7] {
                check_estimates(
                    metric,
                    dimensions,
                    dimensions.next_multiple_of(BLOCK),
                    offset,
                );
            }
        }
    }
}

#[test]
fn estimates_from_fewer_coordinates_are_as_close_as_those_allow() {
    for metric in METRICS {
        for (dimensions, code_dimensions) in [(200, 128), (384, 256), (1000, 512), (16_000, 12_800)]
        {
            check_estimates(metric, dimensions, code_dimensions, 0.5);
        }
    }
}

/// Averaged over rotations, the estimate is the exact distance, both from a query and between
/// codes.
#[test]
fn estimates_are_right_on_average_however_few_coordinates_are_coded() {
    let dimensions = 384;
    let (x, y) = (vector(dimensions, 1), near(&vector(dimensions, 1), 2));
    for metric in METRICS {
        for code_dimensions in [128, 256, 384] {
            let rounds = 400;
            let (mut from_query, mut between_codes) = (0.0, 0.0);
            for seed in 0..rounds {
                let quantizer = Quantizer::new(metric, dimensions, code_dimensions, seed, vec![]);
                let (coded_x, coded_y) = (encode(&quantizer, &x), encode(&quantizer, &y));
                let mut query = quantizer.query(&y);
                from_query += estimate(&query, &coded_x) / rounds as f64;
                quantizer.prepare_from_code(&coded_y.0, coded_y.1, &mut query);
                between_codes += estimate(&query, &coded_x) / rounds as f64;
            }
            let exact = exact(metric, &y, &x);
            let scale = match metric {
                Metric::Cosine => 1.0,
                Metric::L2 | Metric::L1 => 2.0 * distance::norm(&x) * distance::norm(&y),
                Metric::InnerProduct => distance::norm(&x) * distance::norm(&y),
            };
            for (found, what, tolerance) in
                [(from_query, "query", 0.01), (between_codes, "code", 0.03)]
            {
                let error = (found - exact) / scale;
                assert!(
                    error.abs() < tolerance,
                    "{metric:?} {code_dimensions} from {what}: {found} for {exact}, {error}"
                );
            }
        }
    }
}

#[test]
fn a_vector_is_at_no_distance_from_its_own_code() {
    for metric in [Metric::L2, Metric::Cosine] {
        for (dimensions, code_dimensions) in [(3, 128), (384, 384), (384, 128), (16_000, 12_800)] {
            let quantizer = quantizer(metric, dimensions, code_dimensions, 5, 0.3);
            let x = vector(dimensions, 9);
            let coded = encode(&quantizer, &x);
            let found = estimate(&quantizer.query(&x), &coded);
            assert!(
                found.abs() < 0.01 * f64::from(coded.1.bias),
                "{metric:?} {dimensions}: {found}"
            );
        }
    }
}

/// The distance between two codes by the formulas, in `f64`.
fn between_codes(
    quantizer: &Quantizer,
    centroid: &[f32],
    (a, a_factors): &(Vec<u8>, Factors),
    (b, b_factors): &(Vec<u8>, Factors),
) -> f64 {
    let centred = |code: &[u8]| {
        levels(code)
            .iter()
            .map(|&u| u as f64 - 7.5)
            .collect::<Vec<_>>()
    };
    let product: f64 = centred(a).iter().zip(centred(b)).map(|(x, y)| x * y).sum();
    let share =
        quantizer.code_dimensions() as f64 / quantizer.dimensions().next_multiple_of(BLOCK) as f64;
    let product = product * f64::from(a_factors.scale) * f64::from(b_factors.scale) * share;
    let biases = f64::from(a_factors.bias) + f64::from(b_factors.bias);
    match quantizer.metric() {
        Metric::L2 | Metric::L1 => biases - 2.0 * product,
        Metric::Cosine => biases / 2.0 - product,
        Metric::InnerProduct => -(distance::norm(centroid).powi(2) + biases + product),
    }
}

#[test]
fn a_code_as_query_measures_by_the_formulas() {
    for metric in METRICS {
        for (dimensions, code_dimensions) in [
            (1, 128),
            (100, 128),
            (384, 384),
            (384, 256),
            (16_000, 16_000),
        ] {
            let centroid = centroid(metric, dimensions, 11, 0.4);
            let quantizer =
                Quantizer::new(metric, dimensions, code_dimensions, 11, centroid.clone());
            let mut query = Query::default();
            for seed in 0..10 {
                let a = encode(&quantizer, &vector(dimensions, seed));
                let b = encode(&quantizer, &near(&vector(dimensions, seed), seed + 50));
                quantizer.prepare_from_code(&a.0, a.1, &mut query);
                let (found, expected) = (
                    estimate(&query, &b),
                    between_codes(&quantizer, &centroid, &a, &b),
                );
                let magnitude =
                    f64::from(a.1.bias.abs() + b.1.bias.abs()) + distance::norm(&centroid).powi(2);
                assert!(
                    (found - expected).abs() <= 1e-5 * magnitude,
                    "{metric:?} {dimensions}: {found}, {expected}"
                );
                quantizer.prepare_from_code(&b.0, b.1, &mut query);
                assert!(
                    (estimate(&query, &a) - found).abs() <= 1e-5 * magnitude,
                    "not symmetric"
                );
            }
        }
    }
}

#[test]
fn a_query_that_is_used_again_forgets_the_last() {
    let small = quantizer(Metric::Cosine, 100, 128, 1, 0.0);
    let large = quantizer(Metric::L2, 1000, 1024, 2, 0.5);
    let mut query = Query::default();
    for (quantizer, seed) in [(&small, 1), (&large, 2), (&small, 3), (&large, 4)] {
        let x = vector(quantizer.dimensions(), seed);
        let coded = encode(quantizer, &vector(quantizer.dimensions(), seed + 10));
        quantizer.prepare(&x, &mut query);
        assert_eq!(
            estimate(&query, &coded),
            estimate(&quantizer.query(&x), &coded)
        );
    }
}

#[test]
fn equal_vectors_have_equal_codes_and_factors() {
    for metric in METRICS {
        let quantizer = quantizer(metric, 384, 384, 1, 0.1);
        let x = vector(384, 1);
        let mut scratch = vec![f32::NAN; 7];
        let mut code = vec![0xaa; quantizer.code_bytes()];
        let factors = quantizer.encode(&x, &mut scratch, &mut code);
        assert_eq!((code, factors), encode(&quantizer, &x));
    }
    let quantizer = quantizer(Metric::Cosine, 384, 384, 1, 0.1);
    let x = vector(384, 1);
    for scale in [2.0, 1e-30, 1e30] {
        let scaled: Vec<f32> = x.iter().map(|x| x * scale).collect();
        let (query, scaled) = (quantizer.query(&x), encode(&quantizer, &scaled));
        assert!(
            (estimate(&query, &scaled) - estimate(&query, &encode(&quantizer, &x))).abs() < 1e-4
        );
    }
}

#[test]
fn the_mean_is_that_of_the_vectors() {
    let dimensions = 200;
    for metric in METRICS {
        let quantizer = Quantizer::new(metric, dimensions, 256, 1, vec![]);
        assert!(quantizer.mean().finish().iter().all(|&x| x == 0.0));
        let vectors: Vec<Vec<f32>> = (0..50).map(|seed| vector(dimensions, seed)).collect();
        let mut mean = quantizer.mean();
        let mut expected = vec![0f64; 256];
        for vector in &vectors {
            mean.add(vector);
            let norm = if metric == Metric::Cosine {
                distance::norm(vector)
            } else {
                1.0
            };
            for (sum, &x) in expected.iter_mut().zip(vector) {
                *sum += f64::from(x) / norm / vectors.len() as f64;
            }
        }
        let mut expected: Vec<f32> = expected.iter().map(|&x| x as f32).collect();
        Kernels::best().rotate(&Rotation::new(dimensions, 1), &mut expected);
        let found = mean.finish();
        assert!(
            distance::l2_squared(&found, &expected).sqrt()
                < 1e-6 * distance::norm(&expected).max(1.0)
        );
    }
}

#[test]
fn a_vector_that_equals_the_centroid_is_measured() {
    for metric in METRICS {
        for dimensions in [1, 384] {
            let (x, y) = (vector(dimensions, 1), vector(dimensions, 2));
            let plain = Quantizer::new(metric, dimensions, 384, 1, vec![]);
            let mut mean = plain.mean();
            mean.add(&x);
            let quantizer = Quantizer::new(metric, dimensions, 384, 1, mean.finish());
            let coded = encode(&quantizer, &x);
            let magnitude = distance::norm(&x).max(1.0) * distance::norm(&y).max(1.0);
            assert!(
                (estimate(&quantizer.query(&y), &coded) - exact(metric, &y, &x)).abs()
                    < 1e-4 * magnitude
            );
            assert!(estimate(&quantizer.query(&x), &coded).is_finite());
        }
    }
}

/// Magnitudes at the ends of what `f32` holds, and zeros.
#[test]
fn odd_magnitudes_give_finite_factors_and_no_nan() {
    let scales = [
        0.0,
        1e-45,
        1e-38,
        1e-30,
        1e-20,
        1e-10,
        1.0,
        1e10,
        1e18,
        1e20,
        1e38,
        f32::MAX,
    ];
    for metric in METRICS {
        for (dimensions, code_dimensions) in [(1, 128), (384, 384), (384, 128), (16_000, 16_000)] {
            let base = vector(dimensions, 1);
            let largest = base.iter().fold(0f32, |max, x| max.max(x.abs()));
            let scaled = |scale: f32| {
                base.iter()
                    .map(|x| x / largest * scale)
                    .collect::<Vec<f32>>()
            };
            for center in [0.0, 1.0, f32::MAX] {
                let plain = Quantizer::new(metric, dimensions, code_dimensions, 3, vec![]);
                let mut mean = plain.mean();
                mean.add(&scaled(center));
                let quantizer =
                    Quantizer::new(metric, dimensions, code_dimensions, 3, mean.finish());
                let codes: Vec<_> = scales
                    .iter()
                    .map(|&scale| encode(&quantizer, &scaled(scale)))
                    .collect();
                let mut query = Query::default();
                for (code, factors) in &codes {
                    assert!(
                        factors.scale.is_finite()
                            && factors.scale >= 0.0
                            && factors.bias.is_finite()
                    );
                    quantizer.prepare_from_code(code, *factors, &mut query);
                    assert!(codes.iter().all(|coded| !estimate(&query, coded).is_nan()));
                }
                for scale in scales {
                    quantizer.prepare(&scaled(scale), &mut query);
                    assert!(
                        codes.iter().all(|coded| !estimate(&query, coded).is_nan()),
                        "{metric:?} {scale}"
                    );
                }
            }
        }
    }
}

#[test]
fn small_and_large_vectors_keep_their_order() {
    for metric in METRICS {
        for scale in [1e-15, 1e-10, 1e10, 1e14] {
            let scaled = |v: Vec<f32>| v.iter().map(|x| x * scale).collect::<Vec<f32>>();
            let quantizer = Quantizer::new(metric, 384, 384, 3, vec![]);
            let x = vector(384, 1);
            let (close, far) = (
                encode(&quantizer, &scaled(near(&x, 2))),
                encode(&quantizer, &scaled(vector(384, 3))),
            );
            let query = quantizer.query(&scaled(x));
            assert!(
                estimate(&query, &close) < estimate(&query, &far),
                "{metric:?} {scale}"
            );
        }
    }
    // Of inner products the length of the query does not change the order.
    let quantizer = Quantizer::new(Metric::InnerProduct, 384, 384, 3, vec![]);
    let x = vector(384, 1);
    let (close, far) = (
        encode(&quantizer, &near(&x, 2)),
        encode(&quantizer, &vector(384, 3)),
    );
    for scale in [1e-30, 1e38] {
        let query = quantizer.query(&x.iter().map(|x| x * scale).collect::<Vec<f32>>());
        assert!(estimate(&query, &close) < estimate(&query, &far), "{scale}");
    }
}

#[test]
fn vectors_that_are_not_finite_do_no_harm() {
    for metric in METRICS {
        let quantizer = quantizer(metric, 100, 128, 3, 0.1);
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = vector(100, 1);
            x[50] = odd;
            let coded = encode(&quantizer, &x);
            assert!(coded.1.scale.is_finite() && coded.1.bias.is_finite());
            assert!(estimate(&quantizer.query(&vector(100, 2)), &coded).is_finite());
            let _ = estimate(&quantizer.query(&x), &coded);
        }
        let broken = Quantizer::new(metric, 100, 128, 3, vec![f32::NAN; 128]);
        assert!(
            estimate(
                &broken.query(&vector(100, 2)),
                &encode(&broken, &vector(100, 1))
            )
            .is_finite()
        );
    }
}

#[test]
fn code_dimensions_are_brought_into_their_bounds() {
    let of = |dimensions, code_dimensions| {
        Quantizer::new(Metric::L2, dimensions, code_dimensions, 1, vec![])
    };
    assert_eq!(of(1, 0).code_dimensions(), 128);
    assert_eq!(of(384, 200).code_dimensions(), 256);
    assert_eq!(of(384, 4096).code_dimensions(), 384);
    assert_eq!(of(16_000, 16_000).code_bytes(), 8000);
}

/// In release builds; debug builds panic instead.
#[cfg(not(debug_assertions))]
#[test]
fn slices_of_wrong_lengths_do_no_harm() {
    let quantizer = Quantizer::new(Metric::L2, 384, 384, 1, vec![0.5; 3]);
    let mut query = Query::default();
    for length in [0, 1, 100, 383, 385, 5000] {
        quantizer.prepare(&vector(length, 1), &mut query);
        for bytes in [0, 1, 63, 64, 191, 193, 1000] {
            let mut code = vec![0x55; bytes];
            let factors = quantizer.encode(&vector(length, 2), &mut Vec::new(), &mut code);
            let _ = query.distance(&code, factors);
            quantizer.prepare_from_code(&code, factors, &mut query);
            let _ = query.distance(&code, factors);
        }
    }
}

#[test]
fn nan_is_ordered_last_and_zeros_are_equal() {
    assert_eq!(order_bits(f32::NAN), u32::MAX);
    assert_eq!(order_bits(-f32::NAN), u32::MAX);
    assert!(order_bits(f32::INFINITY) < u32::MAX);
    assert_eq!(order_bits(-0.0), order_bits(0.0));
    assert!(from_order_bits(u32::MAX).is_nan());
    assert_eq!(
        from_order_bits(order_bits(f32::NEG_INFINITY)),
        f32::NEG_INFINITY
    );
}

#[test]
fn any_address_may_be_prefetched() {
    let bytes = [0u8; 300];
    rag_ann::code::prefetch(bytes.as_ptr(), bytes.len());
    rag_ann::code::prefetch(bytes.as_ptr().wrapping_add(13), 0);
    rag_ann::code::prefetch(std::ptr::null(), 1000);
}

proptest! {
    #[test]
    fn any_code_is_multiplied_rightly(
        code in prop::collection::vec(any::<u8>(), 64 * 13),
        query in prop::collection::vec(any::<i8>(), 128 * 12),
        start in 0usize..64,
        blocks in 0usize..=12,
    ) {
        let query: Vec<QueryBlock> = query.as_chunks().0[..blocks].iter().map(|&block| QueryBlock(block)).collect();
        check_dot(&code[start..start + blocks * 64], &query);
    }

    #[test]
    fn order_bits_order_as_the_distances_do(a in any::<f32>(), b in any::<f32>()) {
        prop_assert_eq!(order_bits(a).cmp(&order_bits(b)), a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())));
        prop_assert!(a.is_nan() || from_order_bits(order_bits(a)) == a);
    }

    #[test]
    fn any_finite_vector_is_coded(
        elements in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO, 1..300),
        code_dimensions in prop::sample::select(vec![128usize, 256, 384]),
    ) {
        for metric in METRICS {
            let quantizer = quantizer(metric, elements.len(), code_dimensions, 1, 0.5);
            let coded = encode(&quantizer, &elements);
            prop_assert!(coded.1.scale.is_finite() && coded.1.scale >= 0.0 && coded.1.bias.is_finite());
            prop_assert!(!estimate(&quantizer.query(&elements), &coded).is_nan());
            prop_assert!(!estimate(&quantizer.query(&vector(elements.len(), 1)), &coded).is_nan());
        }
    }
}
