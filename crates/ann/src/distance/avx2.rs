//! AVX2 with FMA and F16C: four sums of eight lanes. A tail is loaded with a mask, and one of
//! halves copied to a padded block.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    _mm256_add_ps as add, _mm256_fmadd_ps as multiply_add, _mm256_setzero_ps as zero, *,
};

use super::kernels::CosineSums;

const LANES: usize = 8;

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_squared_difference(acc: __m256, x: __m256, y: __m256) -> __m256 {
    let difference = _mm256_sub_ps(x, y);
    _mm256_fmadd_ps(difference, difference, acc)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_absolute_difference(acc: __m256, x: __m256, y: __m256) -> __m256 {
    let sign = _mm256_set1_ps(-0.0);
    _mm256_add_ps(acc, _mm256_andnot_ps(sign, _mm256_sub_ps(x, y)))
}

/// Returns the sum of the eight lanes.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn reduce_add(lanes: __m256) -> f32 {
    let four = _mm_add_ps(
        _mm256_castps256_ps128(lanes),
        _mm256_extractf128_ps::<1>(lanes),
    );
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

pub(super) mod single {
    use super::{super::sums::define_sums, *};

    define_sums!("avx2,fma", __m256, f32);

    /// Loads the `i`th eight elements of a block.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn load<const N: usize>(block: &[f32; N], i: usize) -> __m256 {
        let lanes = &block[i * LANES..(i + 1) * LANES];
        // SAFETY: the slice is eight readable floats; the load asks for no alignment.
        unsafe { _mm256_loadu_ps(lanes.as_ptr()) }
    }

    /// Loads up to eight elements, followed by zeros.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn load_partial(tail: &[f32]) -> __m256 {
        /// Any eight in a row, starting at `8 - n`, select the first `n` lanes.
        static MASKS: [i32; 2 * LANES] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
        let start = LANES - tail.len().min(LANES);
        let mask = &MASKS[start..start + LANES];
        // SAFETY: the mask slice is eight readable integers and selects only elements of the tail;
        // masked-out lanes are not read.
        unsafe { _mm256_maskload_ps(tail.as_ptr(), _mm256_loadu_si256(mask.as_ptr().cast())) }
    }
}

pub(super) mod half {
    use super::{
        super::sums::{define_sums, padded},
        *,
    };
    use crate::half::Half;

    define_sums!("avx2,fma,f16c", __m256, Half);

    /// Loads the `i`th eight elements of a block.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn load<const N: usize>(block: &[Half; N], i: usize) -> __m256 {
        let lanes = &block[i * LANES..(i + 1) * LANES];
        // SAFETY: the slice is eight readable numbers of 16 bits; the load asks for no alignment.
        _mm256_cvtph_ps(unsafe { _mm_loadu_si128(lanes.as_ptr().cast()) })
    }

    /// Loads up to eight elements, followed by zeros.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn load_partial(tail: &[Half]) -> __m256 {
        load::<LANES>(&padded(tail), 0)
    }
}
