//! Rice's code in strings of bits, the lowest bit of a byte first.

/// So many ones stand for a number in 32 bits.
const ESCAPE: u32 = 16;
/// Bits of the longest number.
pub const RAW_BITS: u32 = ESCAPE + 32;

pub fn zigzag(difference: u32) -> u32 {
    difference << 1 ^ ((difference as i32) >> 31) as u32
}

pub fn unzigzag(number: u32) -> u32 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

pub fn rice_bits(number: u32, parameter: u32) -> u32 {
    match number >> parameter {
        ESCAPE.. => RAW_BITS,
        rest => rest + 1 + parameter,
    }
}

pub struct BitWriter<'a> {
    bytes: &'a mut Vec<u8>,
    buffer: u64,
    bits: u32,
}

impl<'a> BitWriter<'a> {
    /// Appends to bytes.
    pub fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self {
            bytes,
            buffer: 0,
            bits: 0,
        }
    }

    /// Writes up to 48 bits.
    pub fn put(&mut self, number: u64, bits: u32) {
        self.buffer |= number << self.bits;
        self.bits += bits;
        while self.bits >= 8 {
            self.bytes.push(self.buffer as u8);
            self.buffer >>= 8;
            self.bits -= 8;
        }
    }

    pub fn rice(&mut self, number: u32, parameter: u32) {
        let rest = number >> parameter;
        if rest >= ESCAPE {
            self.put(u64::from(number) << ESCAPE | ((1 << ESCAPE) - 1), RAW_BITS);
            return;
        }
        let lowest = u64::from(number) & ((1 << parameter) - 1);
        self.put(
            lowest << (rest + 1) | ((1 << rest) - 1),
            rest + 1 + parameter,
        );
    }

    pub fn finish(self) {
        if self.bits > 0 {
            self.bytes.push(self.buffer as u8);
        }
    }
}

pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// In bits.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns true if all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.bytes.len() == self.at.div_ceil(8)
    }

    /// Returns the next 57 bits at least, with zeros after the last.
    #[inline]
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let bytes = match rest.first_chunk() {
            Some(bytes) => *bytes,
            None => std::array::from_fn(|i| rest.get(i).copied().unwrap_or(0)),
        };
        u64::from_le_bytes(bytes) >> (self.at % 8)
    }

    #[inline]
    fn skip(&mut self, bits: u32) -> Option<()> {
        self.at += bits as usize;
        (self.at <= 8 * self.bytes.len()).then_some(())
    }

    /// Reads up to 32 bits.
    pub fn take(&mut self, bits: u32) -> Option<u32> {
        let number = (self.peek() & ((1 << bits) - 1)) as u32;
        self.skip(bits)?;
        Some(number)
    }

    /// Reads a number. Returns `None` at the end.
    #[inline]
    pub fn rice(&mut self, parameter: u32) -> Option<u32> {
        let next = self.peek();
        let rest = next.trailing_ones();
        if rest >= ESCAPE {
            self.skip(RAW_BITS)?;
            return Some((next >> ESCAPE) as u32);
        }
        let lowest = next >> (rest + 1) & ((1 << parameter) - 1);
        self.skip(rest + 1 + parameter)?;
        u32::try_from(u64::from(rest) << parameter | lowest).ok()
    }
}
