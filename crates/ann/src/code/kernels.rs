//! Chooses the instructions for codes.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use super::{QueryBlock, Rotation, portable};

/// One implementation of the work on codes. A value exists outside this module only if the CPU can
/// run it. All implementations give the same results, bit by bit.
///
/// Calling a function on a CPU without the instructions it was compiled for is undefined behaviour.
/// With slices of wrong lengths the result is wrong, nothing worse.
pub struct Kernels {
    name: &'static str,
    dot: unsafe fn(&[u8], &[QueryBlock]) -> i32,
    rotate: unsafe fn(&Rotation, &mut [f32]),
    encode: unsafe fn(&[f32], f32, &mut [u8]) -> f32,
    round_query: unsafe fn(&[f32], f32, &mut [QueryBlock]) -> i32,
}

const PORTABLE: Kernels = Kernels {
    name: "portable",
    dot: portable::dot,
    rotate: portable::rotate,
    encode: portable::encode,
    round_query: portable::round_query,
};

#[cfg(target_arch = "x86_64")]
const AVX2: Kernels = Kernels {
    name: "avx2",
    dot: super::avx2::dot,
    rotate: super::avx2::rotate,
    encode: super::avx2::encode,
    round_query: super::avx2::round_query,
};

#[cfg(target_arch = "x86_64")]
const AVX512: Kernels = Kernels {
    name: "avx512",
    dot: super::avx512::dot,
    rotate: super::avx512::rotate,
    encode: super::avx512::encode,
    round_query: super::avx512::round_query,
};

/// NEON is part of every aarch64 target, so portable code is compiled for it already. Only `dot` is
/// faster by hand.
#[cfg(target_arch = "aarch64")]
const NEON: Kernels = Kernels {
    name: "neon",
    dot: super::neon::dot,
    ..PORTABLE
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
            (is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni"))
            .then_some(&AVX512),
            is_x86_feature_detected!("avx2").then_some(&AVX2),
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

    /// Returns Σ uᵢ qᵢ over the blocks that both have. It is at most 16,000 · 15 · 128, far from
    /// the limits of 32 bits.
    #[inline]
    pub fn dot(&self, code: &[u8], query: &[QueryBlock]) -> i32 {
        // SAFETY: `available` hands out only what the CPU can run.
        unsafe { (self.dot)(code, query) }
    }

    /// Rotates a vector of `rotation.dimensions()` elements in place.
    pub fn rotate(&self, rotation: &Rotation, vector: &mut [f32]) {
        // SAFETY: `available` hands out only what the CPU can run.
        unsafe { (self.rotate)(rotation, vector) }
    }

    /// See [`grid::encode`](super::grid::encode).
    pub(super) fn encode(&self, residual: &[f32], deviation: f32, code: &mut [u8]) -> f32 {
        // SAFETY: `available` hands out only what the CPU can run.
        unsafe { (self.encode)(residual, deviation, code) }
    }

    /// See [`grid::round_query`](super::grid::round_query).
    pub(super) fn round_query(
        &self,
        coordinates: &[f32],
        inverse: f32,
        blocks: &mut [QueryBlock],
    ) -> i32 {
        // SAFETY: `available` hands out only what the CPU can run.
        unsafe { (self.round_query)(coordinates, inverse, blocks) }
    }
}
