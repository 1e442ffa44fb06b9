//! What vectors are made of.

use super::kernels::{Kernels, Sums};
use crate::half::Half;

mod sealed {
    pub trait Sealed: Copy {}
    impl Sealed for f32 {}
    impl Sealed for crate::half::Half {}
}

/// An element of a vector: `f32` or [`Half`].
pub trait Element: sealed::Sealed {
    fn to_f32(self) -> f32;

    fn to_f64(self) -> f64 {
        f64::from(self.to_f32())
    }

    /// Returns the sums of an implementation over such elements.
    fn sums(kernels: &Kernels) -> &Sums<Self>;
}

impl Element for f32 {
    #[inline]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline]
    fn sums(kernels: &Kernels) -> &Sums<Self> {
        &kernels.single
    }
}

impl Element for Half {
    #[inline]
    fn to_f32(self) -> f32 {
        self.to_f32()
    }

    #[inline]
    fn sums(kernels: &Kernels) -> &Sums<Self> {
        &kernels.half
    }
}
