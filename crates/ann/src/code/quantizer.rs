//! Turns vectors into codes and queries.

use super::query::Terms;
use super::{BLOCK, Factors, Kernels, Metric, Query, QueryBlock, Rotation, grid, lanes};
use crate::distance;

/// The magnitude that elements are kept within, so that no sum of squares overflows `f32`.
const LARGEST: f32 = 1e15;

/// A level in the middle, twice: the code of a vector that equals the centroid.
const MIDDLE_LEVELS: u8 = 0x88;

/// The meaning of the codes of an index, common to all its vectors. Immutable.
pub struct Quantizer {
    metric: Metric,
    dimensions: usize,
    code_dimensions: usize,
    rotation: Rotation,
    /// c, rotated; P elements
    centroid: Vec<f32>,
    /// |c|²
    centroid_squared: f64,
    kernels: &'static Kernels,
}

impl Quantizer {
    /// * `dimensions`: D, 1 to 16,000
    /// * `code_dimensions`: C, a multiple of 128, at most D rounded up to such; brought into these
    ///   bounds
    /// * `centroid`: what [`Mean`] gave, or empty for zero
    pub fn new(
        metric: Metric,
        dimensions: usize,
        code_dimensions: usize,
        seed: u64,
        mut centroid: Vec<f32>,
    ) -> Self {
        let rotation = Rotation::new(dimensions, seed);
        let padded = rotation.dimensions();
        debug_assert!(centroid.is_empty() || centroid.len() == padded);
        centroid.resize(padded, 0.0);
        for x in &mut centroid {
            *x = if x.is_nan() {
                0.0
            } else {
                x.clamp(-LARGEST, LARGEST)
            };
        }
        Self {
            metric,
            dimensions,
            code_dimensions: code_dimensions.max(1).next_multiple_of(BLOCK).min(padded),
            rotation,
            centroid_squared: lanes::norm_squared(&centroid),
            centroid,
            kernels: Kernels::best(),
        }
    }

    /// Returns the same quantizer with other kernels, to compare them.
    pub fn with_kernels(self, kernels: &'static Kernels) -> Self {
        Self { kernels, ..self }
    }

    pub fn metric(&self) -> Metric {
        self.metric
    }

    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    pub fn code_dimensions(&self) -> usize {
        self.code_dimensions
    }

    pub fn code_bytes(&self) -> usize {
        self.code_dimensions / 2
    }

    /// Returns c, rotated. It has as many elements as the dimensions rounded up to a multiple of
    /// 128.
    pub fn centroid(&self) -> &[f32] {
        &self.centroid
    }

    /// Returns a mean to which vectors are added one by one. The quantizer's own centroid does not
    /// matter.
    pub fn mean(&self) -> Mean<'_> {
        Mean {
            quantizer: self,
            sums: vec![0.0; self.dimensions],
            count: 0,
        }
    }

    /// Writes the code of a vector and returns its factors. `code` has
    /// [`code_bytes`](Self::code_bytes) bytes. `scratch` is overwritten, and passed in so that its
    /// memory is reused.
    pub fn encode(&self, vector: &[f32], scratch: &mut Vec<f32>, code: &mut [u8]) -> Factors {
        debug_assert_eq!(code.len(), self.code_bytes());
        self.load(vector, scratch);
        self.encode_rotated(scratch, code)
    }

    /// Writes the code of a vector of which only the code by another quantizer is known, with the
    /// same rotation and no centroid.
    pub fn recode(
        &self,
        other: &Self,
        code: &[u8],
        factors: Factors,
        scratch: &mut Vec<f32>,
        new: &mut [u8],
    ) -> Factors {
        let mut query = Query::default();
        other.prepare_from_code(code, factors, &mut query);
        let step = (f64::from(factors.scale) / 2.0) as f32;
        scratch.clear();
        scratch.extend(
            query
                .blocks
                .iter()
                .flat_map(|block| block.0)
                .map(|level| f32::from(level) * step),
        );
        scratch.resize(self.rotation.dimensions(), 0.0);
        self.encode_rotated(scratch, new)
    }

    /// Codes a rotated vector, from which the centroid is subtracted in place.
    fn encode_rotated(&self, rotated: &mut [f32], code: &mut [u8]) -> Factors {
        self.subtract_centroid(rotated);
        let residual = &rotated[..];
        let coded = &residual[..self.code_dimensions];
        let norm_squared = lanes::norm_squared(residual);
        let bias = match self.metric {
            Metric::L2 | Metric::L1 | Metric::Cosine => norm_squared,
            Metric::InnerProduct => f64::from(lanes::inner_product(&self.centroid, residual)),
        };
        let coded_squared = if coded.len() == residual.len() {
            norm_squared
        } else {
            lanes::norm_squared(coded)
        };
        let deviation = (coded_squared / coded.len() as f64).sqrt() as f32;
        // Smaller deviations have no reciprocal in `f32` and count as zero.
        let product = if deviation >= f32::MIN_POSITIVE {
            self.kernels.encode(coded, deviation, code)
        } else {
            0.0
        };
        let scale = norm_squared / f64::from(product);
        if product > 0.0 && scale.is_finite() {
            Factors {
                scale: finite(scale),
                bias: finite(bias),
            }
        } else {
            code.fill(MIDDLE_LEVELS);
            Factors {
                scale: 0.0,
                bias: finite(bias),
            }
        }
    }

    /// Returns a query for `vector`.
    pub fn query(&self, vector: &[f32]) -> Query {
        let mut query = Query::default();
        self.prepare(vector, &mut query);
        query
    }

    /// Makes `query` a query for `vector`.
    pub fn prepare(&self, vector: &[f32], query: &mut Query) {
        self.load(vector, &mut query.rotated);
        let centroid_product = match self.metric {
            Metric::L2 | Metric::L1 | Metric::Cosine => 0.0,
            Metric::InnerProduct => f64::from(lanes::inner_product(&self.centroid, &query.rotated)),
        };
        self.subtract_centroid(&mut query.rotated);
        let norm_squared = match self.metric {
            Metric::L2 | Metric::L1 | Metric::Cosine => lanes::norm_squared(&query.rotated),
            Metric::InnerProduct => 0.0,
        };
        let coordinates = &query.rotated[..self.code_dimensions];
        let largest = lanes::largest(coordinates);
        let inverse = 127.0 / largest;
        // It has no reciprocal and counts as zero.
        let (inverse, step) = if inverse.is_finite() {
            (inverse, f64::from(largest) / 127.0)
        } else {
            (0.0, 0.0)
        };
        query.kernels = self.kernels;
        query
            .blocks
            .resize(self.code_dimensions / BLOCK, QueryBlock([0; BLOCK]));
        let sum = self
            .kernels
            .round_query(coordinates, inverse, &mut query.blocks);
        query.terms = self.terms(norm_squared, centroid_product, step, sum);
    }

    /// Makes `query` a query for a vector of which only the code is known. Distances are then
    /// between two estimates.
    pub fn prepare_from_code(&self, code: &[u8], factors: Factors, query: &mut Query) {
        debug_assert_eq!(code.len(), self.code_bytes());
        query.kernels = self.kernels;
        query
            .blocks
            .resize(self.code_dimensions / BLOCK, QueryBlock([0; BLOCK]));
        let sum = grid::unpack(code, &mut query.blocks);
        // The scale of a code compensates for the coordinates that are not coded. If two codes are
        // multiplied, only one scale may do so. The query therefore has the coordinates as they
        // are.
        let coded_share = self.code_dimensions as f64 / self.rotation.dimensions() as f64;
        let step = f64::from(factors.scale) / 2.0 * coded_share;
        let bias = f64::from(factors.bias);
        query.terms = self.terms(bias, self.centroid_squared + bias, step, sum);
    }

    /// Returns the terms for a query whose coordinates are `step` times the rounded ones.
    /// `norm_squared`, |q′|², is used for L2 and Cosine, and `centroid_product`, ⟨q, c⟩, for inner
    /// products.
    fn terms(&self, norm_squared: f64, centroid_product: f64, step: f64, sum: i32) -> Terms {
        let offset = 15 * sum;
        match self.metric {
            Metric::L2 | Metric::L1 => Terms {
                base: norm_squared,
                bias_weight: 1.0,
                step: -step,
                offset,
            },
            Metric::Cosine => Terms {
                base: norm_squared / 2.0,
                bias_weight: 0.5,
                step: -step / 2.0,
                offset,
            },
            Metric::InnerProduct => Terms {
                base: -centroid_product,
                bias_weight: -1.0,
                step: -step / 2.0,
                offset,
            },
        }
    }

    /// Replaces `rotated` by the vector, normalized for Cosine, padded and rotated.
    fn load(&self, vector: &[f32], rotated: &mut Vec<f32>) {
        debug_assert_eq!(vector.len(), self.dimensions);
        let padded = self.rotation.dimensions();
        let vector = &vector[..vector.len().min(padded)];
        rotated.clear();
        match self.factor(vector) {
            Some(factor) => rotated.extend(vector.iter().map(|&x| (f64::from(x) * factor) as f32)),
            None => rotated.extend_from_slice(vector),
        }
        rotated.resize(padded, 0.0);
        self.kernels.rotate(&self.rotation, rotated);
    }

    /// Returns the factor that a vector is multiplied by first.
    fn factor(&self, vector: &[f32]) -> Option<f64> {
        if self.metric == Metric::Cosine {
            let norm = distance::norm(vector);
            return (norm > 0.0).then(|| 1.0 / norm);
        }
        let largest = lanes::largest(vector);
        (largest > LARGEST).then(|| f64::from(LARGEST) / f64::from(largest))
    }

    fn subtract_centroid(&self, rotated: &mut [f32]) {
        for (x, c) in rotated.iter_mut().zip(&self.centroid) {
            *x -= c;
        }
    }
}

/// The mean of vectors, in the form that a [`Quantizer`] takes.
pub struct Mean<'q> {
    quantizer: &'q Quantizer,
    sums: Vec<f64>,
    count: usize,
}

impl Mean<'_> {
    pub fn add(&mut self, vector: &[f32]) {
        debug_assert_eq!(vector.len(), self.sums.len());
        let factor = self.quantizer.factor(vector).unwrap_or(1.0);
        for (sum, &x) in self.sums.iter_mut().zip(vector) {
            *sum += f64::from(x) * factor;
        }
        self.count += 1;
    }

    /// P elements; zeros if no vector was added.
    pub fn finish(self) -> Vec<f32> {
        let rotation = &self.quantizer.rotation;
        let count = self.count.max(1) as f64;
        let mut mean: Vec<f32> = self.sums.iter().map(|sum| (sum / count) as f32).collect();
        mean.resize(rotation.dimensions(), 0.0);
        self.quantizer.kernels.rotate(rotation, &mut mean);
        mean
    }
}

/// Returns the nearest finite `f32`, and 0 for NaN.
fn finite(x: f64) -> f32 {
    if x.is_nan() {
        0.0
    } else {
        x.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    }
}
