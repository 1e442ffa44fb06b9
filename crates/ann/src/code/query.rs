//! A prepared query, and the distance from it to a coded vector.

use super::{BLOCK, Factors, Kernels};

/// 128 coordinates of a query, rounded to eight bits, in order. Aligned so that no load crosses a
/// cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct QueryBlock(pub [i8; BLOCK]);

/// A query, filled by one [`Quantizer`](super::Quantizer). A query that was never filled finds
/// everything at distance 0. Reuse it to reuse its memory.
pub struct Query {
    pub(super) kernels: &'static Kernels,
    pub(super) blocks: Vec<QueryBlock>,
    /// Memory for the rotated vector.
    pub(super) rotated: Vec<f32>,
    pub(super) terms: Terms,
}

/// The distance is `base + bias_weight * bias + scale * step * (2 dot − offset)`. It is computed in
/// `f64`, in which none of these products overflows, so that finite values give no NaN.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Terms {
    pub base: f64,
    pub bias_weight: f64,
    pub step: f64,
    /// 15 Σ qᵢ: what centring the code's levels subtracts from twice the product
    pub offset: i32,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            kernels: Kernels::best(),
            blocks: Vec::new(),
            rotated: Vec::new(),
            terms: Terms::default(),
        }
    }
}

impl Query {
    /// Returns the estimated distance to a coded vector: squared L2, negative inner product or
    /// cosine distance. It is close to the exact one, and comparable with other estimates. A code
    /// of another length than the quantizer's gives a wrong distance.
    #[inline]
    pub fn distance(&self, code: &[u8], factors: Factors) -> f32 {
        debug_assert_eq!(code.len(), self.blocks.len() * super::BLOCK_BYTES);
        let product = 2 * self.kernels.dot(code, &self.blocks) - self.terms.offset;
        let Terms {
            base,
            bias_weight,
            step,
            ..
        } = self.terms;
        (base
            + bias_weight * f64::from(factors.bias)
            + f64::from(factors.scale) * (step * f64::from(product))) as f32
    }
}
