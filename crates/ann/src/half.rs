//! Floats of 16 bits, half precision: one bit for the sign, five for the exponent and ten for the
//! fraction. The largest is 65504, and the least above zero 2⁻²⁴ (6e-8).
#![allow(unsafe_code)] // instructions of the CPU

/// A float of 16 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Half(u16);

impl Half {
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// Returns the nearest one, of two the one with an even fraction. It is infinite from 65520 on.
    /// A NaN remains one.
    pub fn from_f32(x: f32) -> Self {
        let bits = x.to_bits();
        let sign = ((bits >> 16) & 0x8000) as u16;
        let magnitude = bits & 0x7fff_ffff;
        let rounded = match magnitude {
            0x7f80_0001.. => 0x7e00,
            0x477f_f000.. => 0x7c00,
            // The exponent is 112 less. The dropped bits round, and may carry into the exponent.
            0x3880_0000.. => (magnitude - (112 << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13,
            // Below 2⁻¹⁴ the steps are of 2⁻²⁴. Adding ½ leaves those to the last bits of the sum,
            // and rounds.
            _ => (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits(),
        };
        Self(sign | rounded as u16)
    }

    /// Returns the same number.
    #[inline]
    pub fn to_f32(self) -> f32 {
        let sign = u32::from(self.0 & 0x8000) << 16;
        let magnitude = u32::from(self.0 & 0x7fff);
        let bits = match magnitude {
            0x7c00.. => (magnitude << 13) | 0x7f80_0000,
            0x0400.. => (magnitude << 13) + (112 << 23),
            // a multiple of 2⁻²⁴
            _ => (magnitude as f32 * (1.0 / 16_777_216.0)).to_bits(),
        };
        f32::from_bits(sign | bits)
    }
}

/// Replaces the content of `out` by the same numbers.
pub fn widen(halves: &[Half], out: &mut Vec<f32>) {
    out.clear();
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("f16c") {
        // SAFETY: the CPU has the instructions.
        return unsafe { widen_f16c(halves, out) };
    }
    out.extend(halves.iter().map(|half| half.to_f32()));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn widen_f16c(halves: &[Half], out: &mut Vec<f32>) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
    let (blocks, tail) = halves.as_chunks::<8>();
    out.reserve(halves.len());
    for block in blocks {
        let mut lanes = [0f32; 8];
        // SAFETY: eight readable numbers of 16 bits, and eight writable floats.
        unsafe {
            let numbers = _mm_loadu_si128(block.as_ptr().cast());
            _mm256_storeu_ps(lanes.as_mut_ptr(), _mm256_cvtph_ps(numbers));
        }
        out.extend_from_slice(&lanes);
    }
    out.extend(tail.iter().map(|half| half.to_f32()));
}

#[cfg(test)]
mod tests {
    use super::{Half, widen};

    #[test]
    fn many_are_widened_as_one() {
        let halves: Vec<Half> = (0..=u16::MAX).map(Half::from_bits).collect();
        let mut wide = vec![];
        for length in [0, 1, 7, 8, 9, halves.len()] {
            widen(&halves[..length], &mut wide);
            assert_eq!(wide.len(), length);
            for (half, x) in halves.iter().zip(&wide) {
                let expected = half.to_f32();
                assert!(x.to_bits() == expected.to_bits() || x.is_nan() && expected.is_nan());
            }
        }
    }

    #[test]
    fn each_survives_the_way_to_f32_and_back() {
        for bits in 0..=u16::MAX {
            let half = Half::from_bits(bits);
            let x = half.to_f32();
            if x.is_nan() {
                assert!(Half::from_f32(x).to_f32().is_nan());
            } else {
                assert_eq!(Half::from_f32(x), half, "{x}");
            }
        }
    }

    #[test]
    fn rounds_to_the_nearest_and_then_to_the_even() {
        for bits in 0..0x7bff {
            let (low, high) = (Half::from_bits(bits), Half::from_bits(bits + 1));
            let (a, b) = (low.to_f32(), high.to_f32());
            let middle = a + (b - a) / 2.0; // exact: f32 has thirteen bits more
            let even = if bits % 2 == 0 { low } else { high };
            assert_eq!(Half::from_f32(middle), even, "{middle}");
            assert_eq!(Half::from_f32(middle.next_down()), low, "below {middle}");
            assert_eq!(Half::from_f32(middle.next_up()), high, "above {middle}");
            assert_eq!(Half::from_f32(-middle).to_bits(), even.to_bits() | 0x8000);
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        let rounded = |x: f32| Half::from_f32(x).to_f32();
        assert_eq!(rounded(65519.996), 65504.0);
        assert_eq!(rounded(65520.0), f32::INFINITY);
        assert_eq!(rounded(f32::MIN), f32::NEG_INFINITY);
        assert_eq!(rounded(f32::MIN_POSITIVE), 0.0);
        assert_eq!(rounded(-1e-30).to_bits(), (-0.0f32).to_bits());
        assert_eq!(rounded(2f32.powi(-25)), 0.0);
        assert_eq!(rounded(2f32.powi(-25).next_up()), 2f32.powi(-24));
        assert!(rounded(f32::NAN).is_nan());
    }
}
