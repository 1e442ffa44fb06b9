//! NEON: four sums of four lanes. A tail is copied to a padded block.
#![allow(unsafe_code)]

use std::arch::aarch64::{vaddq_f32 as add, vaddvq_f32 as reduce_add, *};

use super::{kernels::CosineSums, sums::padded};

const LANES: usize = 4;

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

#[inline]
#[target_feature(enable = "neon")]
fn add_squared_difference(acc: float32x4_t, x: float32x4_t, y: float32x4_t) -> float32x4_t {
    let difference = vsubq_f32(x, y);
    vfmaq_f32(acc, difference, difference)
}

#[inline]
#[target_feature(enable = "neon")]
fn add_absolute_difference(acc: float32x4_t, x: float32x4_t, y: float32x4_t) -> float32x4_t {
    vaddq_f32(acc, vabdq_f32(x, y))
}

/// Loads four elements.
#[inline]
#[target_feature(enable = "neon")]
fn load_four(lanes: &[f32; LANES]) -> float32x4_t {
    // SAFETY: the array is four readable floats; the load asks for no alignment.
    unsafe { vld1q_f32(lanes.as_ptr()) }
}

pub(super) mod single {
    use super::{super::sums::define_sums, *};

    define_sums!("neon", float32x4_t, f32);

    /// Loads the `i`th four elements of a block.
    #[inline]
    #[target_feature(enable = "neon")]
    fn load<const N: usize>(block: &[f32; N], i: usize) -> float32x4_t {
        load_four(&padded(&block[i * LANES..(i + 1) * LANES]))
    }

    /// Loads up to four elements, followed by zeros.
    #[inline]
    #[target_feature(enable = "neon")]
    fn load_partial(tail: &[f32]) -> float32x4_t {
        load_four(&padded(tail))
    }
}

pub(super) mod half {
    use super::{super::sums::define_sums, *};
    use crate::half::Half;

    define_sums!("neon", float32x4_t, Half);

    /// Loads the `i`th four elements of a block.
    #[inline]
    #[target_feature(enable = "neon")]
    fn load<const N: usize>(block: &[Half; N], i: usize) -> float32x4_t {
        load_partial(&block[i * LANES..(i + 1) * LANES])
    }

    /// Loads up to four elements, followed by zeros.
    #[inline]
    #[target_feature(enable = "neon")]
    fn load_partial(tail: &[Half]) -> float32x4_t {
        load_four(&padded::<Half, LANES>(tail).map(Half::to_f32))
    }
}
