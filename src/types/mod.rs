//! SQL types of the extension.

pub mod vector;
