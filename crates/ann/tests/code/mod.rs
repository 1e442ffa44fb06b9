//! Codes: every path this CPU can run against the formulas in `f64`, and estimated against exact
//! distances.

mod estimates;
mod extremes;

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

proptest! {
    #[test]
    fn any_code_is_multiplied_rightly(
        code in prop::collection::vec(any::<u8>(), 64 * 13),
        query in prop::collection::vec(any::<i8>(), 128 * 12),
        start in 0usize..64,
        blocks in 0usize..=12,
    ) {
        let query = query.as_chunks().0[..blocks].iter();
        let query: Vec<QueryBlock> = query.map(|&block| QueryBlock(block)).collect();
        check_dot(&code[start..start + blocks * 64], &query);
    }

    #[test]
    fn order_bits_order_as_the_distances_do(a in any::<f32>(), b in any::<f32>()) {
        let expected = a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        prop_assert_eq!(order_bits(a).cmp(&order_bits(b)), expected);
        prop_assert!(a.is_nan() || from_order_bits(order_bits(a)) == a);
    }

    #[test]
    fn any_finite_vector_is_coded(
        elements in prop::collection::vec(
            prop::num::f32::NORMAL | prop::num::f32::SUBNORMAL | prop::num::f32::ZERO,
            1..300,
        ),
        code_dimensions in prop::sample::select(vec![128usize, 256, 384]),
    ) {
        for metric in METRICS {
            let quantizer = quantizer(metric, elements.len(), code_dimensions, 1, 0.5);
            let coded = encode(&quantizer, &elements);
            prop_assert!(coded.1.scale.is_finite() && coded.1.scale >= 0.0);
            prop_assert!(coded.1.bias.is_finite());
            prop_assert!(!estimate(&quantizer.query(&elements), &coded).is_nan());
            prop_assert!(!estimate(&quantizer.query(&vector(elements.len(), 1)), &coded).is_nan());
        }
    }
}
