//! The places of heap rows.

/// The place of a heap row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid {
    pub block: u32,
    /// From 1 on.
    pub offset: u16,
}

impl Tid {
    /// Bytes of a place on a page: the block, then the offset, both little-endian.
    pub const BYTES: usize = 6;

    /// Reads a place from the first bytes of a slice that has as many.
    #[inline]
    pub fn read(bytes: &[u8]) -> Self {
        Self {
            block: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            offset: u16::from_le_bytes([bytes[4], bytes[5]]),
        }
    }

    /// Returns a number that has the order of places.
    #[inline]
    pub const fn key(self) -> u64 {
        (self.block as u64) << 16 | self.offset as u64
    }

    /// Returns that number of a place that [`write`](Self::write) has written.
    #[inline]
    pub const fn read_key(bytes: &[u8; Self::BYTES]) -> u64 {
        let block = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let offset = u16::from_le_bytes([bytes[4], bytes[5]]);
        Self { block, offset }.key()
    }

    /// Returns the bytes of a place.
    #[inline]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let (block, offset) = (self.block.to_le_bytes(), self.offset.to_le_bytes());
        [block[0], block[1], block[2], block[3], offset[0], offset[1]]
    }

    /// Writes a place into the first bytes of a slice that has as many.
    #[inline]
    pub fn write(self, bytes: &mut [u8]) {
        bytes[..Self::BYTES].copy_from_slice(&self.to_bytes());
    }
}
