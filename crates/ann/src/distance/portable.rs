//! Plain Rust, for any CPU. Many independent sums let the compiler use whatever vectors the target
//! always has.

use super::{element::Element, kernels::CosineSums};

/// The number of elements of sixteen registers of four. A power of two, for [`total`].
const LANES: usize = 64;

pub(super) fn l2_squared<E: Element>(a: &[E], b: &[E]) -> f32 {
    sum(a, b, |x, y| (x - y) * (x - y))
}

pub(super) fn inner_product<E: Element>(a: &[E], b: &[E]) -> f32 {
    sum(a, b, |x, y| x * y)
}

pub(super) fn l1<E: Element>(a: &[E], b: &[E]) -> f32 {
    sum(a, b, |x, y| (x - y).abs())
}

/// Three passes, because compilers turn one pass with three sums into slower code.
pub(super) fn cosine_sums<E: Element>(a: &[E], b: &[E]) -> CosineSums<f32> {
    CosineSums {
        dot: inner_product(a, b),
        a: inner_product(a, a),
        b: inner_product(b, b),
    }
}

#[inline(always)]
fn sum<E: Element>(a: &[E], b: &[E], term: impl Fn(f32, f32) -> f32) -> f32 {
    let (a_blocks, a_tail) = a.as_chunks::<LANES>();
    let (b_blocks, b_tail) = b.as_chunks::<LANES>();
    let mut lanes = [0f32; LANES];
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            lanes[lane] += term(x[lane].to_f32(), y[lane].to_f32());
        }
    }
    for (lane, (&x, &y)) in a_tail.iter().zip(b_tail).enumerate() {
        lanes[lane] += term(x.to_f32(), y.to_f32());
    }
    total(lanes)
}

/// Adds halves to halves, so that few additions wait for each other.
#[inline(always)]
fn total<const N: usize>(mut lanes: [f32; N]) -> f32 {
    let mut half = N / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}
