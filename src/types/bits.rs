//! The signs of a vector's elements as a bit string.

use pgrx::pg_extern;

use super::{Vector, datum::BitString};

/// Returns a bit for each element: 1 if it is above zero.
#[pg_extern(sql = false, immutable, strict, parallel_safe)]
fn binary_quantize(vector: Vector<'_>) -> BitString {
    let elements = vector.as_slice();
    let byte = |elements: &[f32]| {
        elements
            .iter()
            .enumerate()
            .fold(0, |byte, (i, x)| byte | (u8::from(*x > 0.0) << (7 - i)))
    };
    BitString {
        length: elements.len(),
        bytes: elements.chunks(8).map(byte).collect(),
    }
}
