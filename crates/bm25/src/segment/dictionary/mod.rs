//! The dictionary of a segment: a B-tree from terms to their postings, written once from left to
//! right.
//!
//! A leaf has its entries in the order of their terms. An entry has the number of bytes that it
//! shares with the term before, the others, the number of documents, and where the postings are.
//! Every 16th entry shares nothing, and the leaf begins with the offsets of these. Leaves are a
//! chain. An inner page has, for each page below, a term that is not less than all terms to the
//! left and not greater than the first of the page.
//!
//! | file | contents |
//! |---|---|
//! | [`write`] | writes a dictionary |
//! | [`look_up`] | finds a term |
//! | [`walk`] | reads all terms in their order |

mod look_up;
mod walk;
mod write;

use rag_pages::{Block, IndexError};

use super::{
    layout::{BLOCK, ByteReader, INLINE_BYTES, put_varint, u16_at, u32_at},
    positions::PositionsPlace,
    postings::{Place, PostingsPlace},
};
use crate::format::CONTENT_BYTES;

pub use look_up::Dictionary;
pub use walk::TermsOfDictionary;
pub use write::DictionaryWriter;

/// Number of entries from one that shares nothing to the next.
const RESTART: usize = 16;
/// Bytes of the counts at the start of a leaf: of entries, and of restarts.
const LEAF_HEAD: usize = 4;
/// Maximum height of the tree. Each inner page leads to three pages at least.
const MAX_LEVELS: usize = 20;
/// Terms of a page are this long at most, with all that belongs to them.
const MAX_ENTRY_BYTES: usize = crate::terms::MAX_TERM_BYTES + 64;
const _: () = assert!(LEAF_HEAD + 3 * MAX_ENTRY_BYTES <= CONTENT_BYTES);

/// How the postings of a term are stored: the low two bits of the byte before them.
const INLINE: u8 = 0;
const SHORT: u8 = 1;
const LONG: u8 = 2;

/// What the dictionary has of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermPostings {
    /// Number of documents, at least 1.
    pub documents: u32,
    pub place: PostingsPlace,
    pub positions: PositionsPlace,
}

impl TermPostings {
    fn write(&self, bytes: &mut Vec<u8>) {
        let place = |bytes: &mut Vec<u8>, place: Place| {
            bytes.extend_from_slice(&place.block.to_le_bytes());
            bytes.extend_from_slice(&place.offset.to_le_bytes());
        };
        put_varint(bytes, self.documents);
        match self.place {
            PostingsPlace::Inline { bytes: list, len } => {
                bytes.push(INLINE | len << 2);
                bytes.extend_from_slice(&list[..usize::from(len)]);
            }
            PostingsPlace::Short {
                place: at,
                max_frequency,
                min_norm,
            } => {
                bytes.push(SHORT);
                place(bytes, at);
                bytes.extend_from_slice(&[max_frequency, min_norm]);
            }
            PostingsPlace::Long { skips } => {
                bytes.push(LONG);
                place(bytes, skips);
            }
        }
        self.positions.write(bytes);
    }

    fn read(reader: &mut ByteReader<'_>, has_positions: bool) -> Option<Self> {
        let documents = reader.varint()?;
        let form = reader.byte()?;
        let place = |reader: &mut ByteReader<'_>| {
            let bytes = reader.take(6)?;
            Some(Place {
                block: u32_at(bytes, 0)?,
                offset: u16_at(bytes, 4)?,
            })
        };
        let place = match form & 3 {
            INLINE => {
                let list = reader.take(usize::from(form >> 2))?;
                let mut bytes = [0; INLINE_BYTES];
                bytes.get_mut(..list.len())?.copy_from_slice(list);
                PostingsPlace::Inline {
                    bytes,
                    len: list.len() as u8,
                }
            }
            SHORT => PostingsPlace::Short {
                place: place(reader)?,
                max_frequency: reader.byte()?,
                min_norm: reader.byte()?,
            },
            LONG => PostingsPlace::Long {
                skips: place(reader)?,
            },
            _ => return None,
        };
        let positions = match has_positions {
            true => PositionsPlace::read(reader)?,
            false => PositionsPlace::Nowhere,
        };
        let is_long = matches!(place, PostingsPlace::Long { .. });
        (documents > 0 && is_long == (documents as usize >= BLOCK)).then_some(Self {
            documents,
            place,
            positions,
        })
    }
}

/// Returns the entries of a leaf, and the offsets in them of those that share nothing.
fn leaf_parts(content: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let count = usize::from(u16_at(content, 0)?);
    let restarts = 2 * usize::from(u16_at(content, 2)?);
    let (restarts, entries) = content.get(LEAF_HEAD..)?.split_at_checked(restarts)?;
    Some((count, restarts, entries))
}

fn unreadable(block: Block) -> IndexError {
    IndexError::corrupted(block, "a page of the dictionary is not readable")
}
