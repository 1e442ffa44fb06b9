//! SQL types of the extension.

pub mod bits;
mod halfvec;
pub mod indexed;
pub mod vector;
