//! NEON: four sums of four lanes. A tail is copied to a padded block.
#![allow(unsafe_code)]

use std::arch::aarch64::{vaddq_f32 as add, vaddvq_f32 as reduce_add, *};

use super::{kernels::CosineSums, sums::define_sums};

const LANES: usize = 4;

#[target_feature(enable = "neon")]
pub(super) fn l2_squared(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |acc, x, y| {
        let difference = vsubq_f32(x, y);
        vfmaq_f32(acc, difference, difference)
    })
}

#[target_feature(enable = "neon")]
pub(super) fn inner_product(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |acc, x, y| vfmaq_f32(acc, x, y))
}

#[target_feature(enable = "neon")]
pub(super) fn l1(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |acc, x, y| vaddq_f32(acc, vabdq_f32(x, y)))
}

define_sums!("neon", float32x4_t);

#[inline]
#[target_feature(enable = "neon")]
fn zero() -> float32x4_t {
    vdupq_n_f32(0.0)
}

#[inline]
#[target_feature(enable = "neon")]
fn multiply_add(x: float32x4_t, y: float32x4_t, sum: float32x4_t) -> float32x4_t {
    vfmaq_f32(sum, x, y)
}

/// Loads the `i`th four elements of a block.
#[inline]
#[target_feature(enable = "neon")]
fn load<const N: usize>(block: &[f32; N], i: usize) -> float32x4_t {
    let lanes = &block[i * LANES..(i + 1) * LANES];
    // SAFETY: the slice is four readable floats; the load asks for no alignment.
    unsafe { vld1q_f32(lanes.as_ptr()) }
}

/// Loads up to four elements, followed by zeros.
#[inline]
#[target_feature(enable = "neon")]
fn load_partial(tail: &[f32]) -> float32x4_t {
    let mut lanes = [0f32; LANES];
    for (lane, &x) in lanes.iter_mut().zip(tail) {
        *lane = x;
    }
    load(&lanes, 0)
}
