//! Plain Rust, for any CPU. Sixteen independent sums let the compiler use whatever vectors the target always has.

use super::kernels::CosineSums;

const LANES: usize = 16;

pub(super) fn l2_squared(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |x, y| (x - y) * (x - y))
}

pub(super) fn inner_product(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |x, y| x * y)
}

pub(super) fn l1(a: &[f32], b: &[f32]) -> f32 {
    sum(a, b, |x, y| (x - y).abs())
}

pub(super) fn cosine_sums(a: &[f32], b: &[f32]) -> CosineSums<f32> {
    /// Fewer than elsewhere: three sets of lanes must stay in registers.
    const LANES: usize = 8;
    let (a_blocks, a_tail) = a.as_chunks::<LANES>();
    let (b_blocks, b_tail) = b.as_chunks::<LANES>();
    let (mut dot, mut a_squared, mut b_squared) = ([0f32; LANES], [0f32; LANES], [0f32; LANES]);
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            dot[lane] += x[lane] * y[lane];
        }
        for lane in 0..LANES {
            a_squared[lane] += x[lane] * x[lane];
        }
        for lane in 0..LANES {
            b_squared[lane] += y[lane] * y[lane];
        }
    }
    for (lane, (&x, &y)) in a_tail.iter().zip(b_tail).enumerate() {
        dot[lane] += x * y;
        a_squared[lane] += x * x;
        b_squared[lane] += y * y;
    }
    CosineSums { dot: dot.iter().sum(), a: a_squared.iter().sum(), b: b_squared.iter().sum() }
}

#[inline(always)]
fn sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let (a_blocks, a_tail) = a.as_chunks::<LANES>();
    let (b_blocks, b_tail) = b.as_chunks::<LANES>();
    let mut lanes = [0f32; LANES];
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            lanes[lane] += term(x[lane], y[lane]);
        }
    }
    for (lane, (&x, &y)) in a_tail.iter().zip(b_tail).enumerate() {
        lanes[lane] += term(x, y);
    }
    lanes.iter().sum()
}
