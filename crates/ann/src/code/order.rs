//! Distances as unsigned integers of the same order, so that a distance and an id pack into one
//! sortable key.

/// Returns bits with `order_bits(a) < order_bits(b)` exactly if `a < b`. The two zeros are equal,
/// and NaN comes last.
#[inline]
pub fn order_bits(distance: f32) -> u32 {
    if distance.is_nan() {
        return u32::MAX;
    }
    // Adding zero turns -0 into +0.
    let bits = (distance + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Returns the distance that [`order_bits`] converted into `bits`.
#[inline]
pub fn from_order_bits(bits: u32) -> f32 {
    f32::from_bits(if bits & SIGN == 0 {
        !bits
    } else {
        bits & !SIGN
    })
}

const SIGN: u32 = 1 << 31;
