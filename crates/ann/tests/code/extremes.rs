//! Vectors, queries and slices at the limits.

use super::*;

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
