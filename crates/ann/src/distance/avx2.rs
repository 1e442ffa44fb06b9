//! AVX2 with FMA: four sums of eight lanes. A tail is loaded with a mask.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::kernels::CosineSums;

const LANES: usize = 8;

#[target_feature(enable = "avx2,fma")]
pub(super) fn l2_squared(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |acc, x, y| {
        let difference = _mm256_sub_ps(x, y);
        _mm256_fmadd_ps(difference, difference, acc)
    })
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn inner_product(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |acc, x, y| _mm256_fmadd_ps(x, y, acc))
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn l1(a: &[f32], b: &[f32]) -> f32 {
    let sign = _mm256_set1_ps(-0.0);
    sum(a, b, |acc, x, y| {
        _mm256_add_ps(acc, _mm256_andnot_ps(sign, _mm256_sub_ps(x, y)))
    })
}

#[target_feature(enable = "avx2,fma")]
pub(super) fn cosine_sums(a: &[f32], b: &[f32]) -> CosineSums<f32> {
    let zero = _mm256_setzero_ps();
    let (mut dot, mut a_squared, mut b_squared) = ([zero; 2], [zero; 2], [zero; 2]);
    let mut add = |i: usize, x: __m256, y: __m256| {
        dot[i] = _mm256_fmadd_ps(x, y, dot[i]);
        a_squared[i] = _mm256_fmadd_ps(x, x, a_squared[i]);
        b_squared[i] = _mm256_fmadd_ps(y, y, b_squared[i]);
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
    let total = |sums: [__m256; 2]| reduce_add(_mm256_add_ps(sums[0], sums[1]));
    CosineSums {
        dot: total(dot),
        a: total(a_squared),
        b: total(b_squared),
    }
}

/// Folds `step(acc, x, y)` over all lanes. `step` must return `acc` if `x` and `y` are zero.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sum(a: &[f32], b: &[f32], step: impl Fn(__m256, __m256, __m256) -> __m256) -> f32 {
    let mut sums = [_mm256_setzero_ps(); 4];
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
    reduce_add(_mm256_add_ps(
        _mm256_add_ps(sums[0], sums[1]),
        _mm256_add_ps(sums[2], sums[3]),
    ))
}

/// Returns the sum of the eight lanes.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn reduce_add(lanes: __m256) -> f32 {
    let four = _mm_add_ps(
        _mm256_castps256_ps128(lanes),
        _mm256_extractf128_ps::<1>(lanes),
    );
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

/// Loads the `i`th eight elements of a block.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn load<const N: usize>(block: &[f32; N], i: usize) -> __m256 {
    let lanes = &block[i * LANES..(i + 1) * LANES];
    // SAFETY: the slice is eight readable floats; the load asks for no alignment.
    unsafe { _mm256_loadu_ps(lanes.as_ptr()) }
}

/// Loads up to eight elements, followed by zeros.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn load_partial(tail: &[f32]) -> __m256 {
    /// Any eight in a row, starting at `8 - n`, select the first `n` lanes.
    static MASKS: [i32; 2 * LANES] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    let start = LANES - tail.len().min(LANES);
    let mask = &MASKS[start..start + LANES];
    // SAFETY: the mask slice is eight readable integers and selects only elements of the tail;
    // masked-out lanes are not read.
    unsafe { _mm256_maskload_ps(tail.as_ptr(), _mm256_loadu_si256(mask.as_ptr().cast())) }
}
