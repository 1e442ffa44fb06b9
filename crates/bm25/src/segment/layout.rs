//! Where each field of a segment's pages is. Offsets count from the start of a page's content.
//! Numbers are little-endian.

use rag_pages::Tid;

use crate::format::CONTENT_BYTES;

/// Number of documents of a block of postings.
pub const BLOCK: usize = 128;

/// Number of documents of a page of documents: a byte of length for each, then a bit for each.
pub const DOCUMENTS_PER_PAGE: usize = 7168;
/// Where the marks of deleted documents begin on a page of documents.
pub const MARKS_OFFSET: usize = DOCUMENTS_PER_PAGE;
/// Bytes of the marks on a page of documents.
pub const MARK_BYTES: usize = DOCUMENTS_PER_PAGE / 8;
const _: () = assert!(MARKS_OFFSET + MARK_BYTES <= CONTENT_BYTES);

/// Number of rows of a page of rows.
pub const ROWS_PER_PAGE: usize = CONTENT_BYTES / Tid::BYTES;

/// The header of a segment. Block numbers follow: of the pages of documents, then of the pages of
/// rows. They go on on the next pages, from the start of their content.
#[repr(C)]
pub struct HeaderBytes {
    pub documents: [u8; 4],
    pub root: [u8; 4],
    pub total_length: [u8; 8],
    pub terms: [u8; 8],
    pub postings: [u8; 8],
}

/// Bytes of the header before the block numbers.
pub const HEADER_HEAD: usize = size_of::<HeaderBytes>();
const _: () = assert!(HEADER_HEAD == 32);

/// What is known of a block of postings without reading it.
#[repr(C)]
pub struct SkipBytes {
    /// The last document.
    pub last: [u8; 4],
    /// Where the block is.
    pub block: [u8; 4],
    pub offset: [u8; 2],
    /// Widths in bits of the packed differences and frequencies. [`UNPACKED`] for the last block of
    /// a list if it is not full.
    pub document_bits: u8,
    pub frequency_bits: u8,
    /// The highest frequency, at most 255. 255 also stands for more.
    pub max_frequency: u8,
    /// The shortest length.
    pub min_norm: u8,
}

/// Bytes of a skip.
pub const SKIP_BYTES: usize = size_of::<SkipBytes>();
const _: () = assert!(SKIP_BYTES == 14);

/// Width of a block of variable-length integers.
pub const UNPACKED: u8 = 255;

/// Maximum bytes of a list that is in the dictionary itself.
pub const INLINE_BYTES: usize = 24;

/// Returns the four bytes at `offset`, or `None` beyond the end.
#[inline]
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Returns the two bytes at `offset`, or `None` beyond the end.
#[inline]
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let bytes = bytes.get(offset..offset.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

/// Returns the eight bytes at `offset`, or `None` beyond the end.
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let bytes = bytes.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Appends a number in 7 bits a byte, the lowest first.
pub fn put_varint(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads numbers that [`put_varint`] wrote.
#[derive(Clone, Copy)]
pub struct ByteReader<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the next number, or `None` if the bytes do not hold one.
    #[inline]
    pub fn varint(&mut self) -> Option<u32> {
        let mut number = 0_u32;
        for shift in (0..35).step_by(7) {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u32::from(byte & 0x7F).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(byte)
    }

    /// Returns the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Returns the number of bytes that are left.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}
