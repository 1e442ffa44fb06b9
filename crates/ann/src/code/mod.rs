//! Four-bit codes: vectors in an eighth of their size, and distances between a query and a code
//! without decoding it.
//!
//! **Encoding.** A vector of D elements is padded with zeros to P, the next multiple of 128, and
//! turned by a random rotation ([`Rotation`]), which spreads its content evenly over all
//! coordinates. The centroid is subtracted. The residual r = x − c is rounded to sixteen evenly
//! spaced levels, u in 0..=15, coordinate by coordinate. The spacing is the best of nine for that
//! vector. Only the first C coordinates are coded. C is P, unless such a code would not fit its
//! page. Then the code is of a random projection as well.
//!
//! **Estimating.** With ū = u − 7.5 the vector ū points nearly along r, and its error is, after a
//! random rotation, as likely to lie in any direction across r. So with the scale a = |r|² / ⟨r, ū⟩
//! the product a ⟨q, ū⟩ estimates ⟨q, r⟩ without bias for every q, and exactly for q = r. That
//! holds for C < P too: ū is then a vector with zeros in the coordinates that are not coded. With
//! q′ = q − c:
//!
//! | metric | bias β | estimated distance |
//! |---|---|---|
//! | [`L2`](Metric::L2) | \|r\|² | \|q′\|² + β − 2 a ⟨q′, ū⟩ ≈ \|q − x\|² |
//! | [`InnerProduct`](Metric::InnerProduct) | ⟨c, r⟩ | −(⟨q, c⟩ + β + a ⟨q′, ū⟩) ≈ −⟨q, x⟩ |
//! | [`Cosine`](Metric::Cosine) | \|r\|² | half of L2's, for vectors scaled to length 1 |
//! | [`L1`](Metric::L1) | \|r\|² | L2's: a rotation does not keep sums of absolute differences |
//!
//! a and β are the [`Factors`] of a vector and are kept beside its code. The coordinates of q′ are
//! rounded to eight bits, so that ⟨q′, ū⟩ is a sum of products of small integers, for which CPUs
//! have instructions ([`Kernels`]). Estimates may come out slightly below the least distance there
//! can be.
//!
//! **Layout of a code.** C/2 bytes. The 64 bytes of block b hold coordinates 128b..128b+64 in their
//! low halves and 128b+64..128b+128 in their high halves.
//!
//! **The same everywhere.** Codes and factors are stored, so encoding gives the same bits on every
//! CPU: its sums are taken in a fixed order and without fused multiply-add.
//!
//! **Range.** A vector with elements beyond 1e15 in magnitude is scaled down until they are within
//! it (except for Cosine, for which length does not matter). So finite vectors never give a NaN.
//! But L2 distances beyond 1e30 cannot be distinguished, and neither can those below 1e-38.
//!
//! Source: J. Gao and C. Long, "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical
//! Error Bound for Approximate Nearest Neighbor Search", SIGMOD 2024; J. Gao et al., "Practical and
//! Asymptotically Optimal Quantization of High-Dimensional Vectors in Euclidean Space for
//! Approximate Nearest Neighbor Search", 2024.

mod grid;
mod kernels;
mod lanes;
mod order;
mod portable;
mod quantizer;
mod query;
mod rotation;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

pub use kernels::Kernels;
pub use order::{from_order_bits, order_bits};
pub use quantizer::{Mean, Quantizer};
pub use query::{Query, QueryBlock};
pub use rotation::Rotation;

/// Coordinates in a block of a code. Numbers of coordinates are multiples of it.
pub const BLOCK: usize = 128;

/// Bytes of a block of a code.
const BLOCK_BYTES: usize = BLOCK / 2;

/// The distance that an index measures. Smaller is nearer for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Squared Euclidean distance.
    L2,
    /// Inner product, negated.
    InnerProduct,
    /// 1 − the cosine of the angle between the vectors.
    Cosine,
    /// Sum of absolute differences. A rotation does not keep it, so codes estimate
    /// [`L2`](Metric::L2) instead. A search finds candidates by that estimate; the caller computes
    /// the exact distance to rank them.
    L1,
}

/// The numbers that are stored beside a vector's code; see the [module's](self) formulas.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Factors {
    /// a, the factor of the code's coordinates ū. It is finite and not negative.
    pub scale: f32,
    /// β: |r|², or ⟨c, r⟩ for inner products. It is finite.
    pub bias: f32,
}

impl Factors {
    /// Returns the stored bits. They are equal if the factors are the same, even if these are NaN.
    pub fn bits(self) -> [u32; 2] {
        [self.scale.to_bits(), self.bias.to_bits()]
    }
}
