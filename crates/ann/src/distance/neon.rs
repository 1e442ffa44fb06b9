//! NEON: four sums of four lanes. A tail is copied to a padded block.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::kernels::CosineSums;

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

#[target_feature(enable = "neon")]
pub(super) fn cosine_sums(a: &[f32], b: &[f32]) -> CosineSums<f32> {
    let zero = vdupq_n_f32(0.0);
    let (mut dot, mut a_squared, mut b_squared) = ([zero; 2], [zero; 2], [zero; 2]);
    let mut add = |i: usize, x: float32x4_t, y: float32x4_t| {
        dot[i] = vfmaq_f32(dot[i], x, y);
        a_squared[i] = vfmaq_f32(a_squared[i], x, x);
        b_squared[i] = vfmaq_f32(b_squared[i], y, y);
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
    let total = |sums: [float32x4_t; 2]| vaddvq_f32(vaddq_f32(sums[0], sums[1]));
    CosineSums {
        dot: total(dot),
        a: total(a_squared),
        b: total(b_squared),
    }
}

/// Folds `step(acc, x, y)` over all lanes. `step` must return `acc` if `x` and `y` are zero.
#[inline]
#[target_feature(enable = "neon")]
fn sum(
    a: &[f32],
    b: &[f32],
    step: impl Fn(float32x4_t, float32x4_t, float32x4_t) -> float32x4_t,
) -> f32 {
    let mut sums = [vdupq_n_f32(0.0); 4];
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
    vaddvq_f32(vaddq_f32(
        vaddq_f32(sums[0], sums[1]),
        vaddq_f32(sums[2], sums[3]),
    ))
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
