//! Reads the positions of a term.

use rag_pages::{Block, IndexError, ReadPages, memory::append};

use super::{PLACE_BYTES, PositionsBlock, PositionsPlace, read_place};
use crate::{
    format::{self, PageKind},
    segment::{
        layout::BLOCK,
        postings::{Place, PostingsBlock},
        reader::{PostingsList, SegmentReader},
    },
};

/// The positions of the postings of a term, block by block.
#[derive(Debug, Clone)]
pub struct TermPositions {
    place: PositionsPlace,
    /// Where those of each block are, once they are known. Empty for a short list.
    places: Vec<Place>,
    bytes: Vec<u8>,
    pub block: PositionsBlock,
}

impl TermPositions {
    /// Begins to read the positions of a list.
    pub fn open(
        pages: &impl ReadPages,
        segment: &SegmentReader,
        list: &PostingsList,
    ) -> Result<Self, IndexError> {
        let (place, documents) = (list.positions, list.documents);
        let mut positions = Self {
            place,
            places: vec![],
            bytes: vec![],
            block: PositionsBlock::default(),
        };
        if let PositionsPlace::At(place) = place
            && documents as usize >= BLOCK
        {
            let bytes = PLACE_BYTES * (documents as usize).div_ceil(BLOCK);
            positions.read_bytes(pages, segment, place, Some(bytes))?;
            let places = positions.bytes.chunks(PLACE_BYTES);
            let places =
                places.map(|bytes| read_place(bytes).ok_or_else(|| unreadable(place.block)));
            positions.places = places.collect::<Result<_, _>>()?;
        }
        Ok(positions)
    }

    /// Returns where the positions of a block begin on pages.
    pub fn place_of(&self, number: usize) -> Option<Place> {
        match self.place {
            PositionsPlace::At(place) if self.places.is_empty() => Some(place),
            PositionsPlace::At(_) => self.places.get(number).copied(),
            _ => None,
        }
    }

    /// Reads the positions of block `number`, which has these postings. They are empty if the
    /// segment has none.
    pub fn read(
        &mut self,
        pages: &impl ReadPages,
        segment: &SegmentReader,
        number: usize,
        postings: &PostingsBlock,
    ) -> Result<(), IndexError> {
        self.block.clear();
        let (block, bytes) = match (self.place, self.place_of(number)) {
            (PositionsPlace::Nowhere, _) => return Ok(()),
            (PositionsPlace::Inline { bytes, len }, _) if number == 0 => {
                let bytes = bytes.get(..usize::from(len)).unwrap_or_default();
                self.bytes.clear();
                self.bytes.extend_from_slice(bytes);
                (segment.dictionary.root, &self.bytes)
            }
            (PositionsPlace::Inline { .. }, _) | (PositionsPlace::At(_), None) => {
                return Err(unreadable(segment.dictionary.root));
            }
            (PositionsPlace::At(_), Some(place)) => {
                self.read_bytes(pages, segment, place, None)?;
                (place.block, &self.bytes)
            }
        };
        let read = self
            .block
            .read(postings, bytes)
            .map_err(IndexError::of_memory)?;
        read.ok_or_else(|| unreadable(block))
    }

    /// Reads bytes that may go on on the next pages. Their number is before them if it is not
    /// known.
    fn read_bytes(
        &mut self,
        pages: &impl ReadPages,
        segment: &SegmentReader,
        place: Place,
        known: Option<usize>,
    ) -> Result<(), IndexError> {
        self.bytes.clear();
        let mut left = known;
        let (mut block, mut offset) = (place.block, usize::from(place.offset));
        let (mut length, mut shift) = (0_u64, 0);
        for _ in 0..=segment.owned.limit {
            let owned = segment.owned;
            let next = owned.read_page(pages, block, PageKind::Positions, |page| {
                let mut bytes = format::content(page).get(offset..).unwrap_or_default();
                while left.is_none()
                    && let Some((byte, rest)) = bytes.split_first()
                {
                    bytes = rest;
                    if shift > 28 {
                        return Err(unreadable(block));
                    }
                    length |= u64::from(byte & 0x7F) << shift;
                    shift += 7;
                    left = (*byte < 0x80).then_some(length as usize);
                }
                let taken = left.unwrap_or(0).min(bytes.len());
                append(&mut self.bytes, &bytes[..taken]).map_err(IndexError::of_memory)?;
                left = left.map(|left| left - taken);
                Ok(format::next(page))
            })?;
            if left == Some(0) {
                return Ok(());
            }
            if next == 0 {
                break;
            }
            pages.check_interrupts();
            (block, offset) = (next, 0);
        }
        Err(unreadable(place.block))
    }
}

fn unreadable(block: Block) -> IndexError {
    IndexError::corrupted(block, "positions are not readable")
}
