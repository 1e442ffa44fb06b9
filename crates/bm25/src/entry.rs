//! A segment, as the meta page leads to it.

use std::mem::offset_of;

use rag_pages::{Block, IndexError};

use crate::{
    format::{SegmentBytes, SegmentEntry, put, u32_at, u64_at},
    list::decode_block,
};

/// Reads a segment.
///
/// # Errors
/// It leads to blocks that are not in use.
pub fn decode_segment(b: &[u8], high_water: Block) -> Result<SegmentEntry, IndexError> {
    let block = |at: usize| decode_block(b, at, high_water);
    Ok(SegmentEntry {
        id: u64_at(b, offset_of!(SegmentBytes, id)),
        header: block(offset_of!(SegmentBytes, header))?,
        owner: block(offset_of!(SegmentBytes, owner))?,
        owner_tail: block(offset_of!(SegmentBytes, owner_tail))?,
        documents: u32_at(b, offset_of!(SegmentBytes, documents)),
        dead: u32_at(b, offset_of!(SegmentBytes, dead)),
        total_length: u64_at(b, offset_of!(SegmentBytes, total_length)),
        pages: u32_at(b, offset_of!(SegmentBytes, pages)),
        positions: u64_at(b, offset_of!(SegmentBytes, positions)).checked_sub(1),
    })
}

pub fn encode_segment(b: &mut [u8], entry: &SegmentEntry) {
    put(b, offset_of!(SegmentBytes, id), entry.id.to_le_bytes());
    put(
        b,
        offset_of!(SegmentBytes, header),
        entry.header.to_le_bytes(),
    );
    put(
        b,
        offset_of!(SegmentBytes, owner),
        entry.owner.to_le_bytes(),
    );
    put(
        b,
        offset_of!(SegmentBytes, owner_tail),
        entry.owner_tail.to_le_bytes(),
    );
    put(
        b,
        offset_of!(SegmentBytes, documents),
        entry.documents.to_le_bytes(),
    );
    put(b, offset_of!(SegmentBytes, dead), entry.dead.to_le_bytes());
    put(
        b,
        offset_of!(SegmentBytes, total_length),
        entry.total_length.to_le_bytes(),
    );
    put(
        b,
        offset_of!(SegmentBytes, pages),
        entry.pages.to_le_bytes(),
    );
    let positions = entry.positions.map_or(0, |count| count + 1);
    put(
        b,
        offset_of!(SegmentBytes, positions),
        positions.to_le_bytes(),
    );
}
