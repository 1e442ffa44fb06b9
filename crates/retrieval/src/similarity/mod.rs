//! How much texts have in common, whatever their blanks, signs and capital letters are.
//!
//! A text is the set of its shingles: all its runs of [`SHINGLE`](shingles::SHINGLE) characters.
//! The similarity of two texts is that of their sets: what both have, divided by what one of them
//! has (Jaccard). A [`Signature`] estimates it from 128 bytes (MinHash by one permutation, Li, Owen
//! and Zhang 2012; Broder 1997 has the method). [`Leaders`] finds groups of similar texts.

mod groups;
mod shingles;
mod signature;

pub use groups::{Leaders, likely_groups};
pub use shingles::Shingles;
pub use signature::Signature;
