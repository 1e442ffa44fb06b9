//! Chooses the instructions for distances, and turns raw `f32` sums into results.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use super::{element::Element, portable, wide};
use crate::half::Half;

/// A raw sum over two slices. Calling it on a CPU without the instructions it was compiled for is
/// undefined behaviour. With slices of different lengths the result is wrong, nothing worse.
type Sum<E, T> = unsafe fn(&[E], &[E]) -> T;

/// The sums for the cosine, computed in one pass.
pub(super) struct CosineSums<T> {
    pub dot: T,
    /// Σ aᵢ²
    pub a: T,
    /// Σ bᵢ²
    pub b: T,
}

impl CosineSums<f64> {
    fn distance(&self) -> f64 {
        // No product of two sums of `f32` squares overflows or vanishes in `f64`, and equal sums
        // have an exact root: the distance of a vector to itself is 0.
        1.0 - (self.dot / (self.a * self.b).sqrt()).clamp(-1.0, 1.0)
    }
}

/// The sums over vectors of an element type.
pub struct Sums<E> {
    l2_squared: Sum<E, f32>,
    inner_product: Sum<E, f32>,
    l1: Sum<E, f32>,
    cosine_sums: Sum<E, CosineSums<f32>>,
}

/// One implementation of the distances. A value exists outside this module only if the CPU can run
/// it.
pub struct Kernels {
    name: &'static str,
    pub(super) single: Sums<f32>,
    pub(super) half: Sums<Half>,
}

macro_rules! sums_of {
    ($($module:ident)::+) => {
        Sums {
            l2_squared: $($module)::+::l2_squared,
            inner_product: $($module)::+::inner_product,
            l1: $($module)::+::l1,
            cosine_sums: $($module)::+::cosine_sums,
        }
    };
}

const PORTABLE: Kernels = Kernels {
    name: "portable",
    single: sums_of!(portable),
    half: sums_of!(portable),
};

#[cfg(target_arch = "x86_64")]
const AVX2: Kernels = Kernels {
    name: "avx2",
    single: sums_of!(super::avx2::single),
    half: sums_of!(super::avx2::half),
};

#[cfg(target_arch = "x86_64")]
const AVX512: Kernels = Kernels {
    name: "avx512",
    single: sums_of!(super::avx512::single),
    half: sums_of!(super::avx512::half),
};

#[cfg(target_arch = "aarch64")]
const NEON: Kernels = Kernels {
    name: "neon",
    single: sums_of!(super::neon::single),
    half: sums_of!(super::neon::half),
};

impl Kernels {
    /// Returns the fastest implementation that this CPU can run. It is determined at the first
    /// call.
    #[inline]
    pub fn best() -> &'static Kernels {
        static BEST: OnceLock<&'static Kernels> = OnceLock::new();
        BEST.get_or_init(|| Self::available().next().unwrap_or(&PORTABLE))
    }

    /// Returns all implementations that this CPU can run, fastest first. The last is the portable
    /// one.
    pub fn available() -> impl Iterator<Item = &'static Kernels> {
        #[cfg(target_arch = "x86_64")]
        let native = [
            is_x86_feature_detected!("avx512f").then_some(&AVX512),
            (is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c"))
            .then_some(&AVX2),
        ];
        #[cfg(target_arch = "aarch64")]
        let native = [std::arch::is_aarch64_feature_detected!("neon").then_some(&NEON)];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let native = [];
        native.into_iter().flatten().chain([&PORTABLE])
    }

    /// Returns `avx512`, `avx2`, `neon` or `portable`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// See [`l2_squared`](super::l2_squared).
    #[inline]
    pub fn l2_squared<E: Element>(&self, a: &[E], b: &[E]) -> f64 {
        let (a, b) = same_length(a, b);
        // SAFETY: `available` hands out only what the CPU can run.
        let sum = unsafe { (E::sums(self).l2_squared)(a, b) };
        if is_exact(sum) {
            f64::from(sum)
        } else {
            wide::l2_squared(a, b)
        }
    }

    /// See [`inner_product`](super::inner_product).
    #[inline]
    pub fn inner_product<E: Element>(&self, a: &[E], b: &[E]) -> f64 {
        let (a, b) = same_length(a, b);
        // SAFETY: `available` hands out only what the CPU can run.
        let sum = unsafe { (E::sums(self).inner_product)(a, b) };
        if is_exact(sum.abs()) {
            f64::from(sum)
        } else {
            wide::inner_product(a, b)
        }
    }

    /// See [`l1`](super::l1).
    #[inline]
    pub fn l1<E: Element>(&self, a: &[E], b: &[E]) -> f64 {
        let (a, b) = same_length(a, b);
        // SAFETY: `available` hands out only what the CPU can run.
        let sum = unsafe { (E::sums(self).l1)(a, b) };
        // Differences are not squared: the smallest are as exact as the others.
        if sum.is_finite() {
            f64::from(sum)
        } else {
            wide::l1(a, b)
        }
    }

    /// See [`cosine_distance`](super::cosine_distance).
    #[inline]
    pub fn cosine_distance<E: Element>(&self, a: &[E], b: &[E]) -> f64 {
        let (a, b) = same_length(a, b);
        // SAFETY: `available` hands out only what the CPU can run.
        let sums = unsafe { (E::sums(self).cosine_sums)(a, b) };
        // With both norms in range the dot product is: it is at most their product, and loses less
        // than they do.
        if is_exact(sums.a) && is_exact(sums.b) {
            CosineSums {
                dot: f64::from(sums.dot),
                a: f64::from(sums.a),
                b: f64::from(sums.b),
            }
            .distance()
        } else {
            wide::cosine_sums(a, b).distance()
        }
    }
}

/// Returns the parts that both have. These are both slices unless the caller is wrong.
#[inline]
fn same_length<'a, E>(a: &'a [E], b: &'a [E]) -> (&'a [E], &'a [E]) {
    debug_assert_eq!(a.len(), b.len(), "vectors of different lengths");
    let length = a.len().min(b.len());
    (&a[..length], &b[..length])
}

/// Returns true if a non-negative sum of products has its six digits. Products below 1.2e-38 lose
/// digits, at most 7e-46 each. Above 1e-30 that does not matter even for a billion of them. Returns
/// false for NaN.
#[inline]
fn is_exact(sum: f32) -> bool {
    (1e-30..=f32::MAX).contains(&sum)
}
