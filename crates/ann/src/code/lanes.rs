//! Sums over `f32` vectors in a fixed order: sixteen lanes, which suit any vector unit, then the
//! lanes in pairs. Every CPU gives the same bits. Elements beyond a multiple of sixteen are left
//! out: all vectors here are multiples of 128.

pub(super) const LANES: usize = 16;

/// Below this a sum of squares may have lost terms that are too small for `f32`.
const LEAST_EXACT: f32 = 1e-20;

#[inline(always)]
pub(super) fn reduce(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

pub(super) fn inner_product(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    for (a, b) in a
        .as_chunks::<LANES>()
        .0
        .iter()
        .zip(b.as_chunks::<LANES>().0)
    {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    reduce(sums)
}

/// Returns Σ aᵢ², also if the squares are too small for `f32`.
pub(super) fn norm_squared(a: &[f32]) -> f64 {
    let sum = inner_product(a, a);
    if sum >= LEAST_EXACT {
        f64::from(sum)
    } else {
        a.iter().map(|&x| f64::from(x) * f64::from(x)).sum()
    }
}

/// Returns the largest magnitude. NaN elements are skipped.
pub(super) fn largest(a: &[f32]) -> f32 {
    let larger = |max: f32, x: f32| if x.abs() > max { x.abs() } else { max };
    let mut lanes = [0f32; LANES];
    let (chunks, tail) = a.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], chunk[lane]);
        }
    }
    lanes
        .into_iter()
        .chain(tail.iter().copied())
        .fold(0.0, larger)
}
