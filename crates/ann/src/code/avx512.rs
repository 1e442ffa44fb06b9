//! AVX-512 with VNNI: one instruction computes four products and their sum. The rest is portable
//! code compiled for wider vectors, without FMA, so that it gives the same bits.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{BLOCK_BYTES, QueryBlock, Rotation, grid};

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn dot(code: &[u8], query: &[QueryBlock]) -> i32 {
    let low_half = _mm512_set1_epi8(15);
    let (mut low_sum, mut high_sum) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (code, query) in code.as_chunks::<BLOCK_BYTES>().0.iter().zip(query) {
        let bytes = load(code);
        let low = _mm512_and_si512(bytes, low_half);
        let high = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low_half);
        let (low_query, high_query) = load_query(query);
        low_sum = _mm512_dpbusd_epi32(low_sum, low, low_query);
        high_sum = _mm512_dpbusd_epi32(high_sum, high, high_query);
    }
    _mm512_reduce_add_epi32(_mm512_add_epi32(low_sum, high_sum))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn rotate(rotation: &Rotation, vector: &mut [f32]) {
    rotation.apply(vector);
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn encode(residual: &[f32], deviation: f32, code: &mut [u8]) -> f32 {
    grid::encode(residual, deviation, code)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn round_query(coordinates: &[f32], inverse: f32, blocks: &mut [QueryBlock]) -> i32 {
    grid::round_query(coordinates, inverse, blocks)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(block: &[u8; BLOCK_BYTES]) -> __m512i {
    // SAFETY: the array is 64 readable bytes; the load asks for no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

/// Loads both halves of a block of a query.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_query(block: &QueryBlock) -> (__m512i, __m512i) {
    let (low, high) = block.0.split_at(BLOCK_BYTES);
    // SAFETY: each slice is 64 readable bytes; the loads ask for no alignment.
    unsafe {
        (
            _mm512_loadu_si512(low.as_ptr().cast()),
            _mm512_loadu_si512(high.as_ptr().cast()),
        )
    }
}
