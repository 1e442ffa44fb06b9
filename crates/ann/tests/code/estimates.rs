//! Distances that are estimated from codes.

use super::*;

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
                "{metric:?} {dimensions} coded in {code_dimensions}: {estimate} for {exact}, \
                 expected error {error}"
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
