//! AVX2: pairs of products are summed in 16 bits, then pairs of those in 32. The rest is portable
//! code compiled for wider vectors, without FMA, so that it gives the same bits.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{BLOCK_BYTES, QueryBlock, Rotation, grid};

const LANES: usize = 32;

#[target_feature(enable = "avx2")]
pub(super) fn dot(code: &[u8], query: &[QueryBlock]) -> i32 {
    let (low_half, ones) = (_mm256_set1_epi8(15), _mm256_set1_epi16(1));
    let mut sums = [_mm256_setzero_si256(); 2];
    for (code, query) in code.as_chunks::<BLOCK_BYTES>().0.iter().zip(query) {
        for (i, sum) in sums.iter_mut().enumerate() {
            let bytes = load(code, i);
            let low = _mm256_and_si256(bytes, low_half);
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low_half);
            // Each sum of two products is within 2 * 15 * 128 = 3840, so four are far from the
            // bounds of 16 bits.
            let low = _mm256_maddubs_epi16(low, load_query(query, i));
            let high = _mm256_maddubs_epi16(high, load_query(query, i + 2));
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_add_epi16(low, high), ones));
        }
    }
    reduce_add(_mm256_add_epi32(sums[0], sums[1]))
}

#[target_feature(enable = "avx2")]
pub(super) fn rotate(rotation: &Rotation, vector: &mut [f32]) {
    rotation.apply(vector);
}

#[target_feature(enable = "avx2")]
pub(super) fn encode(residual: &[f32], deviation: f32, code: &mut [u8]) -> f32 {
    grid::encode(residual, deviation, code)
}

#[target_feature(enable = "avx2")]
pub(super) fn round_query(coordinates: &[f32], inverse: f32, blocks: &mut [QueryBlock]) -> i32 {
    grid::round_query(coordinates, inverse, blocks)
}

/// Returns the sum of the eight lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn reduce_add(lanes: __m256i) -> i32 {
    let four = _mm_add_epi32(
        _mm256_castsi256_si128(lanes),
        _mm256_extracti128_si256::<1>(lanes),
    );
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
}

/// Loads the `i`th 32 bytes of a block of a code.
#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &[u8; BLOCK_BYTES], i: usize) -> __m256i {
    let lanes = &block[i * LANES..(i + 1) * LANES];
    // SAFETY: the slice is 32 readable bytes; the load asks for no alignment.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

/// Loads the `i`th 32 bytes of a block of a query.
#[inline]
#[target_feature(enable = "avx2")]
fn load_query(block: &QueryBlock, i: usize) -> __m256i {
    let lanes = &block.0[i * LANES..(i + 1) * LANES];
    // SAFETY: the slice is 32 readable bytes; the load asks for no alignment.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}
