//! AVX-512F: four sums of sixteen lanes. A tail is loaded with a mask.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    _mm512_add_ps as add, _mm512_fmadd_ps as multiply_add, _mm512_reduce_add_ps as reduce_add,
    _mm512_setzero_ps as zero, *,
};

use super::{kernels::CosineSums, sums::define_sums};

const LANES: usize = 16;

#[target_feature(enable = "avx512f")]
pub(super) fn l2_squared(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |acc, x, y| {
        let difference = _mm512_sub_ps(x, y);
        _mm512_fmadd_ps(difference, difference, acc)
    })
}

#[target_feature(enable = "avx512f")]
pub(super) fn inner_product(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |acc, x, y| _mm512_fmadd_ps(x, y, acc))
}

#[target_feature(enable = "avx512f")]
pub(super) fn l1(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |acc, x, y| {
        _mm512_add_ps(acc, _mm512_abs_ps(_mm512_sub_ps(x, y)))
    })
}

define_sums!("avx512f", __m512);

/// Loads the `i`th sixteen elements of a block.
#[inline]
#[target_feature(enable = "avx512f")]
fn load<const N: usize>(block: &[f32; N], i: usize) -> __m512 {
    let lanes = &block[i * LANES..(i + 1) * LANES];
    // SAFETY: the slice is sixteen readable floats; the load asks for no alignment.
    unsafe { _mm512_loadu_ps(lanes.as_ptr()) }
}

/// Loads up to sixteen elements, followed by zeros.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_partial(tail: &[f32]) -> __m512 {
    let mask = if tail.len() < LANES {
        (1 << tail.len()) - 1
    } else {
        !0
    };
    // SAFETY: the mask selects only elements of the slice; masked-out lanes are not read.
    unsafe { _mm512_maskz_loadu_ps(mask, tail.as_ptr()) }
}
