//! Positions: where in a document a term occurs. Words of a document are counted from 0.
//!
//! The positions of a block of postings, or of a shorter list, are a string of bits, the lowest bit
//! of a byte first: [`PARAMETER_BITS`] for the parameter of the code, [`MODE_BITS`] that tell how
//! many positions each document has, these numbers if they do not follow from the frequencies, and
//! then the positions of each document: the first, and the differences less 1.
//!
//! The code is that of Rice (1979): a number is cut into its lowest bits, as many as the parameter
//! says, and the rest, which is written as so many ones and a zero. 16 ones stand for a number that
//! follows in 32 bits. The parameter is the one that takes least room.
//!
//! The strings of short lists are in the dictionary. Others lie on pages of their own, one after
//! another, each with its length before it, and may go on on the next page. A list of several
//! blocks has their places behind the last.

//!
//! | file | contents |
//! |---|---|
//! | [`block`] | the positions of a block, and how they are stored |
//! | [`bits`] | the code |
//! | [`write`] | writes the positions of a segment |
//! | [`read`] | reads the positions of a term |

mod bits;
mod block;
mod read;
mod write;

#[cfg(test)]
mod tests;

use super::{
    layout::{ByteReader, put_varint, u16_at, u32_at},
    postings::Place,
};

pub use block::PositionsBlock;
pub use read::TermPositions;
pub use write::PositionsWriter;

/// Maximum bytes of positions that are in the dictionary itself.
const INLINE_BYTES: usize = 24;
/// Bytes of a [`Place`].
const PLACE_BYTES: usize = 6;

/// Where the positions of a term are, as the dictionary has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PositionsPlace {
    /// The segment has no positions.
    Nowhere,
    /// In the dictionary itself.
    Inline { bytes: [u8; INLINE_BYTES], len: u8 },
    /// The positions of a short list, or the places of those of each block.
    At(Place),
}

/// The byte before a place, instead of the length of positions that are in the dictionary.
const AT: u8 = u8::MAX;

impl PositionsPlace {
    pub fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Nowhere => {}
            Self::Inline { bytes: list, len } => {
                bytes.push(*len);
                bytes.extend_from_slice(&list[..usize::from(*len)]);
            }
            Self::At(place) => {
                bytes.push(AT);
                put_varint(bytes, place.block);
                bytes.extend_from_slice(&place.offset.to_le_bytes());
            }
        }
    }

    pub fn read(reader: &mut ByteReader<'_>) -> Option<Self> {
        match reader.byte()? {
            AT => {
                let block = reader.varint()?;
                let offset = u16_at(reader.take(2)?, 0)?;
                Some(Self::At(Place { block, offset }))
            }
            len => {
                let mut bytes = [0; INLINE_BYTES];
                let list = reader.take(usize::from(len))?;
                bytes.get_mut(..list.len())?.copy_from_slice(list);
                Some(Self::Inline { bytes, len })
            }
        }
    }
}

fn write_place(place: Place, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&place.block.to_le_bytes());
    bytes.extend_from_slice(&place.offset.to_le_bytes());
}

fn read_place(bytes: &[u8]) -> Option<Place> {
    Some(Place {
        block: u32_at(bytes, 0)?,
        offset: u16_at(bytes, 4)?,
    })
}
