//! Writes the positions of a segment.

use rag_pages::{
    IndexError, ReusePages,
    memory::{OutOfMemory, Reserve},
};

use super::{INLINE_BYTES, PLACE_BYTES, PositionsBlock, PositionsPlace, write_place};
use crate::{
    allocate::Allocation,
    format::PageKind,
    segment::{
        layout::put_varint,
        postings::{Place, PostingsBlock},
        writer::ByteStream,
    },
};

/// Writes the positions of a segment, term by term.
pub struct PositionsWriter {
    stream: ByteStream,
    /// The positions of the postings that are not written yet.
    block: PositionsBlock,
    /// Where those of the term's blocks are.
    places: Vec<u8>,
    bytes: Vec<u8>,
    /// Number of positions that were added.
    pub count: u64,
}

impl PositionsWriter {
    pub fn new() -> Self {
        Self {
            stream: ByteStream::new(PageKind::Positions),
            block: PositionsBlock::default(),
            places: vec![],
            bytes: vec![],
            count: 0,
        }
    }

    /// Adds the positions of the next posting.
    pub fn push(&mut self, positions: &[u32]) -> Result<(), OutOfMemory> {
        self.count += positions.len() as u64;
        self.block.push(positions)
    }

    /// Writes the positions of a block of a list of several.
    pub fn end_block<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
        postings: &PostingsBlock,
    ) -> Result<(), IndexError> {
        self.encode(postings).map_err(IndexError::of_memory)?;
        let place = self.write_bytes(pages, space)?;
        self.places
            .make_room(PLACE_BYTES)
            .map_err(IndexError::of_memory)?;
        write_place(place, &mut self.places);
        Ok(())
    }

    /// Writes the positions of a short list, or ends a list of several blocks.
    pub fn end_term<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
        postings: &PostingsBlock,
    ) -> Result<PositionsPlace, IndexError> {
        if !self.places.is_empty() {
            let place = self.stream.write_across(pages, space, &self.places)?;
            self.places.clear();
            return Ok(PositionsPlace::At(place));
        }
        self.encode(postings).map_err(IndexError::of_memory)?;
        if self.bytes.len() <= INLINE_BYTES {
            let mut bytes = [0; INLINE_BYTES];
            bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
            let len = self.bytes.len() as u8;
            return Ok(PositionsPlace::Inline { bytes, len });
        }
        self.write_bytes(pages, space).map(PositionsPlace::At)
    }

    fn encode(&mut self, postings: &PostingsBlock) -> Result<(), OutOfMemory> {
        self.bytes.clear();
        self.block.write(postings, &mut self.bytes)?;
        self.block.clear();
        Ok(())
    }

    fn write_bytes<P: ReusePages>(
        &mut self,
        pages: &P,
        space: &mut Allocation<'_, P>,
    ) -> Result<Place, IndexError> {
        let mut length = vec![];
        put_varint(&mut length, self.bytes.len() as u32);
        let place = self.stream.write_across(pages, space, &length)?;
        self.stream.write_across(pages, space, &self.bytes)?;
        Ok(place)
    }

    pub fn finish<P: ReusePages>(
        self,
        pages: &P,
        space: &mut Allocation<'_, P>,
    ) -> Result<(), IndexError> {
        self.stream.finish(pages, space)
    }
}
