//! AVX-512F: four sums of sixteen lanes. A tail is loaded with a mask.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::kernels::CosineSums;

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

#[target_feature(enable = "avx512f")]
pub(super) fn cosine_sums(a: &[f32], b: &[f32]) -> CosineSums<f32> {
    let zero = _mm512_setzero_ps();
    let (mut dot, mut a_squared, mut b_squared) = ([zero; 2], [zero; 2], [zero; 2]);
    let mut add = |i: usize, x: __m512, y: __m512| {
        dot[i] = _mm512_fmadd_ps(x, y, dot[i]);
        a_squared[i] = _mm512_fmadd_ps(x, x, a_squared[i]);
        b_squared[i] = _mm512_fmadd_ps(y, y, b_squared[i]);
    };
    let (a_blocks, a_tail) = a.as_chunks::<{ 2 * LANES }>();
    let (b_blocks, b_tail) = b.as_chunks::<{ 2 * LANES }>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        add(0, load(x, 0), load(y, 0));
        add(1, load(x, 1), load(y, 1));
    }
    for (x, y) in a_tail.chunks(LANES).zip(b_tail.chunks(LANES)) {
        add(0, load_partial(x), load_partial(y));
    }
    let total = |sums: [__m512; 2]| _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
    CosineSums {
        dot: total(dot),
        a: total(a_squared),
        b: total(b_squared),
    }
}

/// Folds `step(acc, x, y)` over all lanes. `step` must return `acc` if `x` and `y` are zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum(a: &[f32], b: &[f32], step: impl Fn(__m512, __m512, __m512) -> __m512) -> f32 {
    let mut sums = [_mm512_setzero_ps(); 4];
    let (a_blocks, a_tail) = a.as_chunks::<{ 4 * LANES }>();
    let (b_blocks, b_tail) = b.as_chunks::<{ 4 * LANES }>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for (i, acc) in sums.iter_mut().enumerate() {
            *acc = step(*acc, load(x, i), load(y, i));
        }
    }
    for (acc, (x, y)) in sums
        .iter_mut()
        .zip(a_tail.chunks(LANES).zip(b_tail.chunks(LANES)))
    {
        *acc = step(*acc, load_partial(x), load_partial(y));
    }
    _mm512_reduce_add_ps(_mm512_add_ps(
        _mm512_add_ps(sums[0], sums[1]),
        _mm512_add_ps(sums[2], sums[3]),
    ))
}

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
