//! Distances between two `f32` vectors.
//!
//! | function | value | pgvector's operator |
//! |---|---|---|
//! | [`l2_squared`] | Σ (aᵢ − bᵢ)² | `<->` is its square root |
//! | [`inner_product`] | Σ aᵢ bᵢ | `<#>` is its negative, [`negative_inner_product`] |
//! | [`cosine_distance`] | 1 − Σ aᵢ bᵢ / (‖a‖ ‖b‖) | `<=>` |
//! | [`l1`] | Σ \|aᵢ − bᵢ\| | `<+>` |
//!
//! **Paths.** The sums run on the widest instructions the CPU has: AVX-512F, AVX2 with FMA, NEON,
//! or portable Rust. The choice is made once a process, at the first call, by asking the CPU: no
//! lock is held and no file is read, so a forked child may inherit the answer or find it again. A
//! loop over many vectors can hold [`Kernels::best`] and save even the look at the stored choice.
//! The paths add in different orders, so their last digits differ.
//!
//! **Precision.** Sums are kept in `f32` lanes: about six digits, relative to the sum of the terms'
//! magnitudes. A sum that left the range where `f32` is that exact (an overflow, or squares so
//! small that they vanish) is taken again in `f64`. So `cosine_distance([1e30], [1e30])` is 0 and
//! not NaN, and only infinite or NaN elements give infinite or NaN results; pgvector gives infinity
//! or NaN for such vectors.
//!
//! **Lengths.** Both slices must have the same length, which is the caller's to check: a debug
//! build panics, a release build compares the elements that both have and never reads beyond
//! either.

mod kernels;
mod portable;
mod wide;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

pub use kernels::Kernels;

/// Squared Euclidean distance. Smaller is nearer.
#[inline]
pub fn l2_squared(a: &[f32], b: &[f32]) -> f64 {
    Kernels::best().l2_squared(a, b)
}

/// Inner product. Larger is nearer.
#[inline]
pub fn inner_product(a: &[f32], b: &[f32]) -> f64 {
    Kernels::best().inner_product(a, b)
}

/// Inner product with its sign turned, so that smaller is nearer.
#[inline]
pub fn negative_inner_product(a: &[f32], b: &[f32]) -> f64 {
    -inner_product(a, b)
}

/// Cosine distance, in `0.0..=2.0`: rounding never carries it outside. NaN when either vector is
/// all zeros, as in pgvector: such a vector has no direction.
#[inline]
pub fn cosine_distance(a: &[f32], b: &[f32]) -> f64 {
    Kernels::best().cosine_distance(a, b)
}

/// Sum of absolute differences (taxicab distance). Smaller is nearer.
#[inline]
pub fn l1(a: &[f32], b: &[f32]) -> f64 {
    Kernels::best().l1(a, b)
}

/// Euclidean length, summed in `f64`.
pub fn norm(a: &[f32]) -> f64 {
    wide::norm_squared(a).sqrt()
}

/// Writes `a` scaled to length 1 into `out`, replacing what was there. A vector of zeros stays
/// zeros, as in pgvector.
pub fn l2_normalize(a: &[f32], out: &mut Vec<f32>) {
    let norm = norm(a);
    let divisor = if norm == 0.0 { 1.0 } else { norm };
    out.clear();
    out.extend(a.iter().map(|&x| (f64::from(x) / divisor) as f32));
}

/// A way to measure distance; smaller is nearer for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// [`l2_squared`]: orders as the Euclidean distance does, without the square root.
    L2Squared,
    /// [`negative_inner_product`]
    InnerProduct,
    /// [`cosine_distance`]
    Cosine,
    /// [`l1`]
    L1,
}

impl Metric {
    /// The function that measures it, to be called without looking at the metric again.
    pub fn function(self) -> fn(&[f32], &[f32]) -> f64 {
        match self {
            Metric::L2Squared => l2_squared,
            Metric::InnerProduct => negative_inner_product,
            Metric::Cosine => cosine_distance,
            Metric::L1 => l1,
        }
    }
}
