//! Plain Rust, which the compiler turns into the vector instructions that the target always has.

use super::{BLOCK_BYTES, QueryBlock, Rotation, grid};

const LANES: usize = 16;

/// Returns Σ uᵢ qᵢ over the blocks that both have.
pub(super) fn dot(code: &[u8], query: &[QueryBlock]) -> i32 {
    let mut sum = 0;
    for (code, QueryBlock(query)) in code.as_chunks::<BLOCK_BYTES>().0.iter().zip(query) {
        // Eight products of at most 15 * 128 in magnitude are added in 16 bits, which can hold
        // them. The compiler vectorizes separate loops.
        let mut pairs = [0i16; BLOCK_BYTES];
        for i in 0..BLOCK_BYTES {
            let (low, high) = (i16::from(code[i] & 15), i16::from(code[i] >> 4));
            pairs[i] = low * i16::from(query[i]) + high * i16::from(query[BLOCK_BYTES + i]);
        }
        let mut eights = [0i16; LANES];
        for pairs in pairs.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                eights[lane] += pairs[lane];
            }
        }
        sum += eights.iter().map(|&eight| i32::from(eight)).sum::<i32>();
    }
    sum
}

pub(super) fn rotate(rotation: &Rotation, vector: &mut [f32]) {
    rotation.apply(vector);
}

pub(super) fn encode(residual: &[f32], deviation: f32, code: &mut [u8]) -> f32 {
    grid::encode(residual, deviation, code)
}

pub(super) fn round_query(coordinates: &[f32], inverse: f32, blocks: &mut [QueryBlock]) -> i32 {
    grid::round_query(coordinates, inverse, blocks)
}
