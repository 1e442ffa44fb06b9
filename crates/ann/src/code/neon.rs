//! NEON: products and sums of four in 16 bits, then pairs of those in 32.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::{BLOCK_BYTES, QueryBlock};

const LANES: usize = 16;

#[target_feature(enable = "neon")]
pub(super) fn dot(code: &[u8], query: &[QueryBlock]) -> i32 {
    let mut sums = [vdupq_n_s32(0); BLOCK_BYTES / LANES];
    for (code, query) in code.as_chunks::<BLOCK_BYTES>().0.iter().zip(query) {
        for (i, sum) in sums.iter_mut().enumerate() {
            let bytes = load(code, i);
            let low = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
            let high = vreinterpretq_s8_u8(vshrq_n_u8::<4>(bytes));
            let (low_query, high_query) = (
                load_query(query, i),
                load_query(query, i + BLOCK_BYTES / LANES),
            );
            // Four products are within 4 * 15 * 128 = 7680: far from the bounds of 16 bits.
            let products = vmull_s8(vget_low_s8(low), vget_low_s8(low_query));
            let products = vmlal_high_s8(products, low, low_query);
            let products = vmlal_s8(products, vget_low_s8(high), vget_low_s8(high_query));
            let products = vmlal_high_s8(products, high, high_query);
            *sum = vpadalq_s16(*sum, products);
        }
    }
    vaddvq_s32(vaddq_s32(
        vaddq_s32(sums[0], sums[1]),
        vaddq_s32(sums[2], sums[3]),
    ))
}

/// Loads the `i`th 16 bytes of a block of a code.
#[inline]
#[target_feature(enable = "neon")]
fn load(block: &[u8; BLOCK_BYTES], i: usize) -> uint8x16_t {
    let lanes = &block[i * LANES..(i + 1) * LANES];
    // SAFETY: the slice is 16 readable bytes; the load asks for no alignment.
    unsafe { vld1q_u8(lanes.as_ptr()) }
}

/// Loads the `i`th 16 bytes of a block of a query.
#[inline]
#[target_feature(enable = "neon")]
fn load_query(block: &QueryBlock, i: usize) -> int8x16_t {
    let lanes = &block.0[i * LANES..(i + 1) * LANES];
    // SAFETY: the slice is 16 readable bytes; the load asks for no alignment.
    unsafe { vld1q_s8(lanes.as_ptr()) }
}
