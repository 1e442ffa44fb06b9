//! The same sums in `f64`. They are slower, and right if the elements themselves are finite: no
//! product of two `f32` overflows or vanishes in `f64`.

use super::{element::Element, kernels::CosineSums};

pub(super) fn l2_squared<E: Element>(a: &[E], b: &[E]) -> f64 {
    pairs(a, b).map(|(x, y)| (x - y) * (x - y)).sum()
}

pub(super) fn inner_product<E: Element>(a: &[E], b: &[E]) -> f64 {
    pairs(a, b).map(|(x, y)| x * y).sum()
}

pub(super) fn l1<E: Element>(a: &[E], b: &[E]) -> f64 {
    pairs(a, b).map(|(x, y)| (x - y).abs()).sum()
}

pub(super) fn cosine_sums<E: Element>(a: &[E], b: &[E]) -> CosineSums<f64> {
    pairs(a, b).fold(
        CosineSums {
            dot: 0.0,
            a: 0.0,
            b: 0.0,
        },
        |sums, (x, y)| CosineSums {
            dot: sums.dot + x * y,
            a: sums.a + x * x,
            b: sums.b + y * y,
        },
    )
}

pub(super) fn norm_squared<E: Element>(a: &[E]) -> f64 {
    const LANES: usize = 8;
    let (blocks, tail) = a.as_chunks::<LANES>();
    let mut lanes = [0f64; LANES];
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane += x.to_f64() * x.to_f64();
        }
    }
    lanes.iter().sum::<f64>() + tail.iter().map(|&x| x.to_f64() * x.to_f64()).sum::<f64>()
}

fn pairs<E: Element>(a: &[E], b: &[E]) -> impl Iterator<Item = (f64, f64)> {
    a.iter().zip(b).map(|(&x, &y)| (x.to_f64(), y.to_f64()))
}
