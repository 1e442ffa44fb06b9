//! Distances between two vectors of `f32`, or of [`Half`](crate::half::Half).
//!
//! | function | value | pgvector's operator |
//! |---|---|---|
//! | [`l2_squared`] | Σ (aᵢ − bᵢ)² | `<->` is its square root |
//! | [`inner_product`] | Σ aᵢ bᵢ | `<#>` is its negative, [`negative_inner_product`] |
//! | [`cosine_distance`] | 1 − Σ aᵢ bᵢ / (‖a‖ ‖b‖) | `<=>` |
//! | [`l1`] | Σ \|aᵢ − bᵢ\| | `<+>` |
//!
//! **Paths.** The sums use the widest instructions of the CPU: AVX-512F, AVX2 with FMA and
//! F16C, NEON, or portable Rust. The choice is made once a process, at the first call. No lock is
//! held and no file is read, so that a forked child may inherit the choice or make it again. A loop
//! over many vectors can keep [`Kernels::best`] and save even reading the stored choice. The paths
//! add in different orders, so their last digits differ. Halves are widened as they are loaded: a
//! path gives the same bits for them as for the same numbers in `f32`.
//!
//! **Precision.** Sums are kept in `f32` lanes: about six digits, relative to the sum of the terms'
//! magnitudes. If a sum leaves the range in which `f32` is that exact (an overflow, or squares so
//! small that they vanish), it is computed again in `f64`. So `cosine_distance([1e30], [1e30])` is
//! 0 and not NaN. Only infinite or NaN elements give infinite or NaN results. pgvector gives
//! infinity or NaN for such vectors.
//!
//! **Lengths.** Both slices must have the same length, which the caller must check. A debug build
//! panics. A release build compares the elements that both have, and never reads beyond either.

mod element;
mod kernels;
mod portable;
mod wide;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod sums;

pub use element::Element;
pub use kernels::Kernels;

/// Returns the squared Euclidean distance. Smaller is nearer.
#[inline]
pub fn l2_squared<E: Element>(a: &[E], b: &[E]) -> f64 {
    Kernels::best().l2_squared(a, b)
}

/// Returns the inner product. Larger is nearer.
#[inline]
pub fn inner_product<E: Element>(a: &[E], b: &[E]) -> f64 {
    Kernels::best().inner_product(a, b)
}

/// Returns the negative inner product. Smaller is nearer.
#[inline]
pub fn negative_inner_product<E: Element>(a: &[E], b: &[E]) -> f64 {
    -inner_product(a, b)
}

/// Returns the cosine distance, in `0.0..=2.0` despite rounding. Returns NaN if either vector is
/// all zeros, as pgvector does: such a vector has no direction.
#[inline]
pub fn cosine_distance<E: Element>(a: &[E], b: &[E]) -> f64 {
    Kernels::best().cosine_distance(a, b)
}

/// Returns the sum of absolute differences (taxicab distance). Smaller is nearer.
#[inline]
pub fn l1<E: Element>(a: &[E], b: &[E]) -> f64 {
    Kernels::best().l1(a, b)
}

/// Returns the Euclidean length, summed in `f64`.
pub fn norm<E: Element>(a: &[E]) -> f64 {
    wide::norm_squared(a).sqrt()
}

/// Writes `a` scaled to length 1 into `out`, replacing its content. A vector of zeros stays zeros,
/// as in pgvector.
pub fn l2_normalize(a: &[f32], out: &mut Vec<f32>) {
    let norm = norm(a);
    let divisor = if norm == 0.0 { 1.0 } else { norm };
    out.clear();
    out.extend(a.iter().map(|&x| (f64::from(x) / divisor) as f32));
}

/// A distance. Smaller is nearer for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// [`l2_squared`], which orders as the Euclidean distance does, without the square root.
    L2Squared,
    /// [`negative_inner_product`]
    InnerProduct,
    /// [`cosine_distance`]
    Cosine,
    /// [`l1`]
    L1,
}

impl Metric {
    /// Returns the function of the metric, to be called without another match.
    pub fn function(self) -> fn(&[f32], &[f32]) -> f64 {
        match self {
            Metric::L2Squared => l2_squared,
            Metric::InnerProduct => negative_inner_product,
            Metric::Cosine => cosine_distance,
            Metric::L1 => l1,
        }
    }
}
