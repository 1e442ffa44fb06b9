//! AVX-512F: four sums of sixteen lanes. A tail is loaded with a mask, and one of halves copied to
//! a padded block.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    _mm512_add_ps as add, _mm512_fmadd_ps as multiply_add, _mm512_reduce_add_ps as reduce_add,
    _mm512_setzero_ps as zero, *,
};

use super::kernels::CosineSums;

const LANES: usize = 16;

#[inline]
#[target_feature(enable = "avx512f")]
fn add_squared_difference(acc: __m512, x: __m512, y: __m512) -> __m512 {
    let difference = _mm512_sub_ps(x, y);
    _mm512_fmadd_ps(difference, difference, acc)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add_absolute_difference(acc: __m512, x: __m512, y: __m512) -> __m512 {
    _mm512_add_ps(acc, _mm512_abs_ps(_mm512_sub_ps(x, y)))
}

pub(super) mod single {
    use super::{super::sums::define_sums, *};

    define_sums!("avx512f", __m512, f32);

    /// Loads the `i`th sixteen elements of a block.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load<const N: usize>(block: &[f32; N], i: usize) -> __m512 {
        let lanes = &block[i * LANES..(i + 1) * LANES];
        // SAFETY: the slice is sixteen readable floats; the load asks for no alignment.
        unsafe { _mm512_loadu_ps(lanes.as_ptr()) }
    }

    /// Loads up to sixteen elements, followed by zeros.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_partial(tail: &[f32]) -> __m512 {
        let mask = if tail.len() < LANES {
            (1 << tail.len()) - 1
        } else {
            !0
        };
        // SAFETY: the mask selects only elements of the slice; masked-out lanes are not read.
        unsafe { _mm512_maskz_loadu_ps(mask, tail.as_ptr()) }
    }
}

pub(super) mod half {
    use super::{
        super::sums::{define_sums, padded},
        *,
    };
    use crate::half::Half;

    define_sums!("avx512f", __m512, Half);

    /// Loads the `i`th sixteen elements of a block.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load<const N: usize>(block: &[Half; N], i: usize) -> __m512 {
        let lanes = &block[i * LANES..(i + 1) * LANES];
        // SAFETY: the slice is sixteen readable numbers of 16 bits; the load asks for no alignment.
        _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) })
    }

    /// Loads up to sixteen elements, followed by zeros.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_partial(tail: &[Half]) -> __m512 {
        load::<LANES>(&padded(tail), 0)
    }
}
