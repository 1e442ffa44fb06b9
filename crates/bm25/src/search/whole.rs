//! A list of postings that is read as a whole before a search.
//!
//! What each of its documents gets is known then. So bounds of windows are exact, and the best
//! windows tell what the best documents of the segment have at least.

use std::ops::Range;

use rag_pages::{
    IndexError, ReadPages,
    memory::{self, append},
};

use super::{
    cursor::advance,
    lengths::Lengths,
    window::{SegmentSearch, WINDOW, place_in},
};
use crate::{
    score::TermScores,
    segment::{
        layout::{BLOCK, DOCUMENTS_PER_PAGE},
        postings::PostingsBlock,
        reader::{ListBlocks, PostingsList},
    },
};

/// Documents in ascending order, with the units that a term adds to them. It only moves forward,
/// unless it is restarted.
pub struct WholeList {
    documents: Vec<u32>,
    units: Vec<u32>,
    at: usize,
}

impl WholeList {
    pub fn read<P: ReadPages>(
        search: &SegmentSearch<'_, P>,
        list: &PostingsList,
        scores: TermScores<'_>,
        lengths: &mut Lengths,
    ) -> Result<Self, IndexError> {
        let mut whole = Self {
            documents: vec![],
            units: vec![],
            at: 0,
        };
        match &list.blocks {
            ListBlocks::Short(block, ..) => whole.add(search, block, scores, lengths)?,
            ListBlocks::Union(union) => {
                let mut block = PostingsBlock::default();
                for number in 0..union.skips.len() {
                    union.read_block(number, &mut block);
                    whole.add(search, &block, scores, lengths)?;
                }
            }
            ListBlocks::Long(skips) => {
                let count = skips.len() * BLOCK;
                whole.documents = memory::with_room(count).map_err(IndexError::of_memory)?;
                whole.units = memory::with_room(count).map_err(IndexError::of_memory)?;
                let mut block = PostingsBlock::default();
                for number in 0..skips.len() {
                    let documents = list.documents;
                    search.segment.read_block(
                        search.pages,
                        skips,
                        documents,
                        number,
                        &mut block,
                    )?;
                    whole.add(search, &block, scores, lengths)?;
                }
            }
        }
        Ok(whole)
    }

    fn add<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        block: &PostingsBlock,
        scores: TermScores<'_>,
        lengths: &mut Lengths,
    ) -> Result<(), IndexError> {
        let mut units = [0; BLOCK];
        let documents = &block.documents[..block.len];
        let mut from = 0;
        while let Some(first) = documents.get(from) {
            // the documents of one page
            let number = *first as usize / DOCUMENTS_PER_PAGE;
            let norms = lengths.of_page(search, number)?;
            let is_within = |document: &u32| *document as usize / DOCUMENTS_PER_PAGE == number;
            let to = match documents.last() {
                Some(last) if is_within(last) => documents.len(),
                _ => from + documents[from..].partition_point(is_within).max(1),
            };
            let start = (number * DOCUMENTS_PER_PAGE) as u32;
            let norm = |i: usize| norms[place_in::<DOCUMENTS_PER_PAGE>(documents[from + i], start)];
            scores.units_of_all(&block.frequencies[from..to], norm, &mut units[from..]);
            from = to;
        }
        append(&mut self.documents, documents).map_err(IndexError::of_memory)?;
        append(&mut self.units, &units[..documents.len()]).map_err(IndexError::of_memory)
    }

    /// Moves back to the first document.
    pub fn restart(&mut self) {
        self.at = 0;
    }

    /// Calls `f` with the window of each document, and its units.
    #[inline]
    pub fn each_bound(&self, mut f: impl FnMut(usize, u32)) {
        for (document, units) in self.documents.iter().zip(&self.units) {
            f(*document as usize / WINDOW, *units);
        }
    }

    /// Returns the documents in a range, and their units.
    pub fn within(&mut self, range: Range<u32>) -> (&[u32], &[u32]) {
        let from = advance(&self.documents, self.at, range.start);
        let to = advance(&self.documents, from, range.end);
        self.at = to;
        (&self.documents[from..to], &self.units[from..to])
    }

    /// Returns the units of a document, or 0.
    #[inline]
    pub fn units(&mut self, document: u32) -> u32 {
        self.at = advance(&self.documents, self.at, document);
        if self.documents.get(self.at) == Some(&document) {
            self.units[self.at]
        } else {
            0
        }
    }
}
