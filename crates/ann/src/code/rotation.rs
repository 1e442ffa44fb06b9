//! A random rotation that costs P log P. It consists of random signs, a Hadamard transform and a
//! mixing of the halves, four times.
//!
//! The transform works on a power of two of coordinates, p. If P is not one, p is the largest power
//! below it. The rounds then alternate between the first p and the last p coordinates, which
//! together are all, since 2p > P. After each round, coordinates of the two halves are turned
//! pairwise by 45 degrees (a step of Kac's walk), so that the coordinates that a round leaves out
//! meet the ones that it transforms. Every round keeps lengths and inner products.

use super::BLOCK;
use crate::random;

const ROUNDS: usize = 4;

/// Levels of the transform within a block: it has 2^7 coordinates.
const BLOCK_LEVELS: u32 = BLOCK.ilog2();

/// Number of these that move the coordinates. The others are between coordinates at least this
/// power of two apart, which is the number of elements of the widest vector register.
const MOVING_LEVELS: u32 = 4;

pub struct Rotation {
    dimensions: usize,
    /// p, the number of coordinates that the transform takes at once.
    power: usize,
    /// The factors of each round: ±1, times a number that preserves the length in the following
    /// sums.
    factors: Vec<f32>,
}

impl Rotation {
    /// Returns a rotation in `dimensions` dimensions, rounded up to a multiple of 128. The same
    /// seed gives the same rotation in all versions, because indexes store it.
    pub fn new(dimensions: usize, seed: u64) -> Self {
        let dimensions = dimensions.max(1).next_multiple_of(BLOCK);
        let mut rotation = Self {
            dimensions,
            power: 1 << dimensions.ilog2(),
            factors: Vec::new(),
        };
        let transform = 1.0 / (rotation.power as f64).sqrt();
        let mix = if rotation.power == dimensions {
            1.0
        } else {
            std::f64::consts::FRAC_1_SQRT_2
        };
        let mut state = seed;
        let mut bits = 0;
        for round in 0..ROUNDS {
            let window = rotation.window(round);
            for coordinate in 0..dimensions {
                bits = if coordinate % 64 == 0 {
                    random::next(&mut state)
                } else {
                    bits >> 1
                };
                let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
                let transform = if window.contains(&coordinate) {
                    transform
                } else {
                    1.0
                };
                rotation.factors.push((sign * transform * mix) as f32);
            }
        }
        rotation
    }

    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns the coordinates that a round transforms.
    fn window(&self, round: usize) -> std::ops::Range<usize> {
        if round.is_multiple_of(2) {
            0..self.power
        } else {
            self.dimensions - self.power..self.dimensions
        }
    }

    /// Rotates a vector of [`dimensions`](Self::dimensions) elements in place. A vector of another
    /// length is left as it is. This is inlined into functions compiled for wider vectors, see
    /// [`Kernels`](super::Kernels).
    #[inline(always)]
    pub(super) fn apply(&self, vector: &mut [f32]) {
        debug_assert_eq!(vector.len(), self.dimensions);
        if vector.len() != self.dimensions {
            return;
        }
        for (round, factors) in self.factors.chunks_exact(self.dimensions).enumerate() {
            for (x, factor) in vector.iter_mut().zip(factors) {
                *x *= factor;
            }
            hadamard(&mut vector[self.window(round)]);
            if self.power < self.dimensions {
                let (a, b) = vector.split_at_mut(self.dimensions / 2);
                butterfly(a, b);
            }
        }
    }
}

/// The Hadamard transform of a power of two of elements, at least [`BLOCK`], except for the order
/// of the results. It makes the vector longer by the root of their number.
#[inline(always)]
fn hadamard(x: &mut [f32]) {
    for block in x.as_chunks_mut::<BLOCK>().0 {
        for _ in 0..MOVING_LEVELS {
            *block = perfect_shuffle(block);
        }
        // The pairs above are now in the low bits of the coordinates' numbers.
        for level in MOVING_LEVELS..BLOCK_LEVELS {
            pair_up(block, 1 << level);
        }
    }
    let mut distance = BLOCK;
    while distance < x.len() {
        pair_up(x, distance);
        distance *= 2;
    }
}

/// One level: sums and differences of the first and the second half, alternating.
#[inline(always)]
fn perfect_shuffle(x: &[f32; BLOCK]) -> [f32; BLOCK] {
    let mut shuffled = [0f32; BLOCK];
    for i in 0..BLOCK / 2 {
        let (a, b) = (x[i], x[BLOCK / 2 + i]);
        (shuffled[2 * i], shuffled[2 * i + 1]) = (a + b, a - b);
    }
    shuffled
}

/// One level: sums and differences of elements at a distance, in place.
#[inline(always)]
fn pair_up(x: &mut [f32], distance: usize) {
    for pair in x.chunks_exact_mut(2 * distance) {
        let (a, b) = pair.split_at_mut(distance);
        butterfly(a, b);
    }
}

/// Writes sums to `a` and differences to `b`.
#[inline(always)]
fn butterfly(a: &mut [f32], b: &mut [f32]) {
    for (a, b) in a.iter_mut().zip(b) {
        (*a, *b) = (*a + *b, *a - *b);
    }
}
