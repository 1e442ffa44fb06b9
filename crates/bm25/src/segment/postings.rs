//! Postings: which documents have a term, and how often.
//!
//! A list is cut into blocks of 128 documents. A full block is packed in bits: the differences of
//! document numbers less 1, then the frequencies less 1. Documents that do not fill a block are
//! variable-length integers: the difference and a bit that says that the frequency is 1, then the
//! frequency if it is not. A list of less than 128 documents consists of those alone.

use std::mem::offset_of;

use bitpacking::{BitPacker, BitPacker4x};

use super::layout::{
    BLOCK, ByteReader, INLINE_BYTES, SKIP_BYTES, SkipBytes, UNPACKED, put_varint, u16_at, u32_at,
};
use rag_pages::Block;

/// Where some bytes of a segment are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub block: Block,
    /// From the start of the page's content.
    pub offset: u16,
}

/// What is known of a block of postings without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    pub last: u32,
    pub place: Place,
    pub document_bits: u8,
    pub frequency_bits: u8,
    pub max_frequency: u8,
    pub min_norm: u8,
}

impl Skip {
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.last.to_le_bytes());
        bytes.extend_from_slice(&self.place.block.to_le_bytes());
        bytes.extend_from_slice(&self.place.offset.to_le_bytes());
        bytes.extend_from_slice(&[
            self.document_bits,
            self.frequency_bits,
            self.max_frequency,
            self.min_norm,
        ]);
    }

    /// Reads a skip of [`SKIP_BYTES`].
    #[inline]
    pub fn read(bytes: &[u8; SKIP_BYTES]) -> Self {
        let number = |offset| u32_at(bytes, offset).unwrap_or_default();
        Self {
            last: number(offset_of!(SkipBytes, last)),
            place: Place {
                block: number(offset_of!(SkipBytes, block)),
                offset: u16_at(bytes, offset_of!(SkipBytes, offset)).unwrap_or_default(),
            },
            document_bits: bytes[offset_of!(SkipBytes, document_bits)],
            frequency_bits: bytes[offset_of!(SkipBytes, frequency_bits)],
            max_frequency: bytes[offset_of!(SkipBytes, max_frequency)],
            min_norm: bytes[offset_of!(SkipBytes, min_norm)],
        }
    }

    /// Returns the highest frequency that a document of the block may have.
    pub fn frequency_bound(&self) -> u32 {
        frequency_bound(self.max_frequency)
    }
}

/// Returns the frequency that a byte of [`SkipBytes::max_frequency`] bounds.
pub fn frequency_bound(byte: u8) -> u32 {
    match byte {
        u8::MAX => u32::MAX,
        frequency => u32::from(frequency),
    }
}

/// Where the postings of a term are, as the dictionary has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostingsPlace {
    /// In the dictionary itself.
    Inline { bytes: [u8; INLINE_BYTES], len: u8 },
    /// Less than a block, in variable-length integers.
    Short {
        place: Place,
        max_frequency: u8,
        min_norm: u8,
    },
    /// The skips of the blocks.
    Long { skips: Place },
}

/// Decoded postings of a block, or of a short list.
#[derive(Debug, Clone)]
pub struct PostingsBlock {
    pub documents: [u32; BLOCK],
    pub frequencies: [u32; BLOCK],
    pub len: usize,
}

impl Default for PostingsBlock {
    fn default() -> Self {
        Self {
            documents: [0; BLOCK],
            frequencies: [0; BLOCK],
            len: 0,
        }
    }
}

impl PostingsBlock {
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds a posting. There must be room for it.
    pub fn push(&mut self, document: u32, frequency: u32) {
        self.documents[self.len] = document;
        self.frequencies[self.len] = frequency;
        self.len += 1;
    }

    pub fn is_full(&self) -> bool {
        self.len == BLOCK
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let documents = self.documents[..self.len].iter().copied();
        documents.zip(self.frequencies[..self.len].iter().copied())
    }

    /// Appends the postings as variable-length integers. `before` is the document before the first,
    /// or `None` if there is none.
    pub fn write_unpacked(&self, before: Option<u32>, bytes: &mut Vec<u8>) {
        let mut next = before.map_or(0, |document| document + 1);
        for (document, frequency) in self.iter() {
            let difference = document - next;
            next = document + 1;
            // 2^31 documents do not fit a segment
            put_varint(bytes, difference << 1 | u32::from(frequency == 1));
            if frequency != 1 {
                put_varint(bytes, frequency);
            }
        }
    }

    /// Appends a full block, packed. Returns the widths in bits of documents and frequencies.
    pub fn write_packed(&mut self, before: Option<u32>, bytes: &mut Vec<u8>) -> (u8, u8) {
        let packer = BitPacker4x::new();
        for frequency in &mut self.frequencies {
            *frequency = frequency.saturating_sub(1);
        }
        let document_bits = packer.num_bits_strictly_sorted(before, &self.documents);
        let frequency_bits = packer.num_bits(&self.frequencies);
        let start = bytes.len();
        let document_bytes = packed_bytes(document_bits);
        bytes.resize(start + document_bytes + packed_bytes(frequency_bits), 0);
        let (documents, frequencies) = bytes[start..].split_at_mut(document_bytes);
        packer.compress_strictly_sorted(before, &self.documents, documents, document_bits);
        packer.compress(&self.frequencies, frequencies, frequency_bits);
        (document_bits, frequency_bits)
    }

    /// Reads a packed block. Returns `None` if the bytes do not hold one.
    #[inline]
    pub fn read_packed(&mut self, before: Option<u32>, skip: &Skip, bytes: &[u8]) -> Option<()> {
        let (document_bits, frequency_bits) = (skip.document_bits, skip.frequency_bits);
        if document_bits > 32 || frequency_bits > 32 {
            return None;
        }
        let packer = BitPacker4x::new();
        let (documents, rest) = bytes.split_at_checked(packed_bytes(document_bits))?;
        let frequencies = rest.get(..packed_bytes(frequency_bits))?;
        packer.decompress_strictly_sorted(before, documents, &mut self.documents, document_bits);
        packer.decompress(frequencies, &mut self.frequencies, frequency_bits);
        for frequency in &mut self.frequencies {
            *frequency = frequency.wrapping_add(1);
        }
        self.len = BLOCK;
        (self.documents[BLOCK - 1] == skip.last).then_some(())
    }

    /// Reads `count` postings in variable-length integers. Returns `None` if the bytes do not hold
    /// as many.
    pub fn read_unpacked(&mut self, before: Option<u32>, count: usize, bytes: &[u8]) -> Option<()> {
        if count > BLOCK {
            return None;
        }
        let mut reader = ByteReader::new(bytes);
        let mut next = match before {
            Some(document) => document.checked_add(1)?,
            None => 0,
        };
        self.len = 0;
        for _ in 0..count {
            let number = reader.varint()?;
            let document = next.checked_add(number >> 1)?;
            next = document.checked_add(1)?;
            let frequency = if number & 1 == 1 { 1 } else { reader.varint()? };
            self.push(document, frequency);
        }
        Some(())
    }
}

/// Returns the bytes of 128 numbers of this width.
fn packed_bytes(bits: u8) -> usize {
    usize::from(bits) * BLOCK / 8
}

/// Returns the number of postings in block `number` of a list of `count`.
pub fn block_len(number: usize, count: usize) -> usize {
    count.saturating_sub(number * BLOCK).min(BLOCK)
}

/// Returns true if a block is packed.
pub fn is_packed(skip: &Skip) -> bool {
    skip.document_bits != UNPACKED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(postings: impl IntoIterator<Item = (u32, u32)>) -> PostingsBlock {
        let mut block = PostingsBlock::default();
        for (document, frequency) in postings {
            block.push(document, frequency);
        }
        block
    }

    #[test]
    fn packed_blocks_are_read_as_they_were_written() {
        for (before, step) in [(None, 1), (Some(4), 7), (Some(1_000_000), 1000)] {
            let first = before.map_or(0, |document| document + 1);
            let postings: Vec<_> = (0..128_u32)
                .map(|i| (first + i * step + i % step.min(3), 1 + (i * i) % 300))
                .collect();
            let mut bytes = vec![9];
            let (document_bits, frequency_bits) =
                block(postings.iter().copied()).write_packed(before, &mut bytes);
            let skip = Skip {
                last: postings[127].0,
                place: Place {
                    block: 0,
                    offset: 0,
                },
                document_bits,
                frequency_bits,
                max_frequency: 0,
                min_norm: 0,
            };
            let mut read = PostingsBlock::default();
            read.read_packed(before, &skip, &bytes[1..]).unwrap();
            assert_eq!(read.iter().collect::<Vec<_>>(), postings);
            assert_eq!(read.read_packed(before, &skip, &bytes[2..]), None);
        }
    }

    #[test]
    fn short_lists_are_read_as_they_were_written() {
        let postings = [(0, 1), (1, 2), (500, 1), (501, 70_000), (1 << 30, 1)];
        let mut bytes = vec![];
        block(postings).write_unpacked(None, &mut bytes);
        let mut read = PostingsBlock::default();
        read.read_unpacked(None, 5, &bytes).unwrap();
        assert_eq!(read.iter().collect::<Vec<_>>(), postings);
        assert_eq!(read.read_unpacked(None, 6, &bytes), None);
        assert_eq!(read.read_unpacked(None, 129, &bytes), None);
    }
}
