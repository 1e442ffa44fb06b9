//! Rounds a residual to sixteen levels, and a query to eight bits.

use super::lanes::{LANES, reduce};
use super::{BLOCK, BLOCK_BYTES, QueryBlock};

/// Spacings of the levels that are tried, in standard deviations of the residual's coordinates. For
/// normally distributed coordinates .335 is best. The others are for vectors whose coordinates are
/// flatter or have tails.
const SPACINGS: [f32; 9] = [0.22, 0.26, 0.29, 0.32, 0.335, 0.35, 0.37, 0.40, 0.44];

/// The middle of the levels 0..=15.
const MIDDLE: f32 = 7.5;

/// Adding it to a small number rounds that to an integer, ties to even, and leaves the integer in
/// the low bits.
const ROUNDER: f32 = 12_582_912.0; // 1.5 * 2^23

/// Writes the code of a residual with the given standard deviation, and returns ⟨r, ū⟩.
#[inline(always)]
pub(super) fn encode(residual: &[f32], deviation: f32, code: &mut [u8]) -> f32 {
    let (mut best, mut best_cosine, mut best_product) = (0.0, f32::NEG_INFINITY, 0.0);
    for spacing in SPACINGS {
        let inverse = 1.0 / (spacing * deviation);
        let (product, norm_squared) = fit(residual, inverse);
        let cosine = product / norm_squared.sqrt();
        if cosine > best_cosine {
            (best, best_cosine, best_product) = (inverse, cosine, product);
        }
    }
    for (bytes, residual) in code
        .as_chunks_mut::<BLOCK_BYTES>()
        .0
        .iter_mut()
        .zip(residual.as_chunks::<BLOCK>().0)
    {
        for i in 0..BLOCK_BYTES {
            let (low, high) = (
                level(residual[i], best),
                level(residual[BLOCK_BYTES + i], best),
            );
            bytes[i] = (low.to_bits() & 15 | (high.to_bits() & 15) << 4) as u8;
        }
    }
    best_product
}

/// Returns ⟨r, ū⟩ and |ū|² for one spacing.
#[inline(always)]
fn fit(residual: &[f32], inverse: f32) -> (f32, f32) {
    let (mut products, mut squares) = ([0f32; LANES], [0f32; LANES]);
    for chunk in residual.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            let centred = level(chunk[lane], inverse) - ROUNDER - MIDDLE;
            products[lane] += centred * chunk[lane];
            squares[lane] += centred * centred;
        }
    }
    (reduce(products), reduce(squares))
}

/// Returns the level of a coordinate, plus [`ROUNDER`].
#[inline(always)]
fn level(x: f32, inverse: f32) -> f32 {
    (x * inverse + MIDDLE).clamp(0.0, 2.0 * MIDDLE) + ROUNDER
}

/// Rounds `coordinates`, times `inverse`, to `blocks`. The products must be within ±127. Returns
/// the sum of the rounded coordinates.
#[inline(always)]
pub(super) fn round_query(coordinates: &[f32], inverse: f32, blocks: &mut [QueryBlock]) -> i32 {
    let mut sum = 0;
    for (block, coordinates) in blocks.iter_mut().zip(coordinates.as_chunks::<BLOCK>().0) {
        for (rounded, x) in block.0.iter_mut().zip(coordinates) {
            let bits = (x * inverse + ROUNDER).to_bits();
            *rounded = bits as i8;
            sum += i32::from(bits as i8);
        }
    }
    sum
}

/// Writes the exact query of a code, 2u − 15. Returns its sum.
pub(super) fn unpack(code: &[u8], blocks: &mut [QueryBlock]) -> i32 {
    let mut sum = 0;
    for (block, bytes) in blocks.iter_mut().zip(code.as_chunks::<BLOCK_BYTES>().0) {
        let (low, high) = block.0.split_at_mut(BLOCK_BYTES);
        for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
            *low = (2 * (byte & 15)) as i8 - 15;
            *high = (2 * (byte >> 4)) as i8 - 15;
        }
        sum += block.0.iter().map(|&x| i32::from(x)).sum::<i32>();
    }
    sum
}
