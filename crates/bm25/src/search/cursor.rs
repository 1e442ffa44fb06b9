//! A cursor over the postings of a term in a segment.

use std::ops::Range;

use rag_pages::{
    IndexError, ReadPages,
    memory::{self, OutOfMemory, append},
};

use super::window::{SegmentSearch, WINDOW, place_in};
use crate::{
    score::TermScores,
    segment::{
        layout::BLOCK,
        positions::TermPositions,
        postings::{PostingsBlock, Skip},
        reader::{ListBlocks, PostingsList, Union},
    },
};

/// No block is decoded.
const NONE: usize = usize::MAX;

/// A cursor over the postings of a term. It only moves forward, unless it is restarted.
pub struct TermCursor<'s> {
    pub scores: TermScores<'s>,
    list: &'s PostingsList,
    /// Number of documents with the term.
    documents: u32,
    /// Empty for a list of less than a block.
    skips: &'s [Skip],
    /// The postings, if they are in memory.
    union: Option<&'s Union>,
    /// Units that no document of each block exceeds.
    bounds: Vec<u32>,
    /// The block that the cursor is at, and the one that is decoded.
    current: usize,
    decoded: usize,
    block: Box<PostingsBlock>,
    /// Where in the decoded block.
    at: usize,
    /// Positions, once they are asked for, and the number of the block that they are of.
    positions: Option<Box<(TermPositions, usize)>>,
}

impl<'s> TermCursor<'s> {
    pub fn new(list: &'s PostingsList, scores: TermScores<'s>) -> Result<Self, OutOfMemory> {
        let bounds_of = |skips: &[Skip]| {
            let mut bounds = memory::filled(skips.len(), 0)?;
            for (bound, skip) in bounds.iter_mut().zip(skips) {
                *bound = scores.bound(skip.frequency_bound(), skip.min_norm);
            }
            Ok(bounds)
        };
        let mut in_memory = None;
        let (skips, bounds, block, decoded) = match &list.blocks {
            ListBlocks::Short(block, frequency, norm) => {
                let bound = scores.bound(*frequency, *norm);
                (&[][..], vec![bound], block.clone(), 0)
            }
            ListBlocks::Long(skips) => (skips.as_slice(), bounds_of(skips)?, Box::default(), NONE),
            ListBlocks::Union(union) => {
                in_memory = Some(&**union);
                let bounds = bounds_of(&union.skips)?;
                (union.skips.as_slice(), bounds, Box::default(), NONE)
            }
        };
        Ok(Self {
            scores,
            list,
            documents: list.documents,
            skips,
            union: in_memory,
            bounds,
            current: 0,
            decoded,
            block,
            at: 0,
            positions: None,
        })
    }

    /// Returns the number of documents with the term.
    pub fn documents(&self) -> usize {
        self.documents as usize
    }

    /// Returns the units that no document exceeds.
    pub fn most(&self) -> u32 {
        self.bounds.iter().copied().max().unwrap_or(0)
    }

    /// Moves back to the first posting.
    pub fn restart(&mut self) {
        self.current = 0;
        self.at = 0;
    }

    /// Calls `f` with the windows that may have documents of the term, and the units that none of
    /// these exceeds. A window may come several times.
    pub fn each_bound(&self, mut f: impl FnMut(usize, u32)) {
        if self.skips.is_empty() {
            for document in &self.block.documents[..self.block.len] {
                f(*document as usize / WINDOW, self.bounds[0]);
            }
            return;
        }
        let mut first = 0;
        for (skip, bound) in self.skips.iter().zip(&self.bounds) {
            // A corrupted page may tell of documents that the segment does not have.
            let last = skip.last.max(first) as usize / WINDOW;
            let after = (first as usize / WINDOW).saturating_add(self.bounds.len() * WINDOW);
            for window in first as usize / WINDOW..=last.min(after) {
                f(window, *bound);
            }
            first = skip.last.saturating_add(1);
        }
    }

    /// Returns the last document of a block.
    #[inline]
    fn last(&self, number: usize) -> u32 {
        match self.skips.get(number) {
            Some(skip) => skip.last,
            None => {
                let documents = &self.block.documents[..self.block.len];
                documents.last().copied().unwrap_or(0)
            }
        }
    }

    /// Moves to the first block that may have documents from `document` on, without reading it.
    #[inline]
    fn move_to(&mut self, document: u32) {
        if self.current < self.bounds.len() && self.last(self.current) < document {
            self.move_far(document);
        }
    }

    fn move_far(&mut self, document: u32) {
        let (mut from, mut step) = (self.current + 1, 1);
        while from + step < self.skips.len() && self.skips[from + step].last < document {
            from += step;
            step *= 2;
        }
        let to = (from + step + 1).min(self.skips.len());
        let between = self.skips.get(from..to).unwrap_or_default();
        self.current = from + between.partition_point(|skip| skip.last < document);
    }

    fn decode<P: ReadPages>(&mut self, search: &SegmentSearch<'_, P>) -> Result<(), IndexError> {
        if self.decoded != self.current {
            let (skips, documents) = (self.skips, self.documents);
            let number = self.current;
            let block = &mut self.block;
            self.decoded = NONE; // if the block is not readable
            match self.union {
                Some(union) => union.read_block(number, block),
                None => search
                    .segment
                    .read_block(search.pages, skips, documents, number, block)?,
            }
            self.decoded = number;
            self.at = 0;
        }
        Ok(())
    }

    /// Calls `f` with the postings of the documents in `range`: documents, frequencies. Passes over
    /// blocks without a document that has `least` units.
    pub fn each<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        range: Range<u32>,
        least: u32,
        mut f: impl FnMut(&[u32], &[u32]),
    ) -> Result<(), IndexError> {
        let Range { start, end } = range;
        self.move_to(start);
        while self.current < self.bounds.len() {
            if self.bounds[self.current] < least {
                if self.last(self.current) >= end {
                    return Ok(());
                }
            } else {
                self.decode(search)?;
                let documents = &self.block.documents[..self.block.len];
                let from = advance(documents, self.at, start);
                let to = match documents.last() {
                    Some(last) if *last < end => documents.len(),
                    _ => from + documents[from..].partition_point(|known| *known < end),
                };
                f(&documents[from..to], &self.block.frequencies[from..to]);
                self.at = to;
                if to < documents.len() {
                    return Ok(());
                }
            }
            self.current += 1;
            self.at = 0;
        }
        Ok(())
    }

    /// Calls `f` with documents of a window, and the units that each of them gets. `norms` are the
    /// lengths of the window's documents. Passes over blocks without a document that has `least`
    /// units.
    pub fn each_units<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        start: u32,
        norms: &[u8; WINDOW],
        least: u32,
        mut f: impl FnMut(&[u32], &[u32]),
    ) -> Result<(), IndexError> {
        let scores = self.scores;
        let mut units = [0; BLOCK];
        let range = start..start + WINDOW as u32;
        self.each(search, range, least, |documents, frequencies| {
            let norm = |i: usize| norms[place_in::<WINDOW>(documents[i], start)];
            scores.units_of_all(frequencies, norm, &mut units);
            f(documents, &units);
        })
    }

    /// Returns the first document with the term from `document` on.
    pub fn next_from<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
    ) -> Result<Option<u32>, IndexError> {
        self.move_to(document);
        while self.current < self.bounds.len() {
            self.decode(search)?;
            let documents = &self.block.documents[..self.block.len];
            let at = advance(documents, self.at, document);
            self.at = at;
            if let Some(next) = documents.get(at) {
                return Ok(Some(*next));
            }
            // a corrupted skip tells of documents that its block does not have
            self.current += 1;
            self.at = 0;
        }
        Ok(None)
    }

    /// Appends the positions of the term in the document that [`next_from`](Self::next_from) or
    /// [`frequency`](Self::frequency) has found last, in ascending order: none if the index has no
    /// positions.
    ///
    /// # Errors
    /// The index is corrupted, or memory runs out.
    pub fn positions<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        found: &mut Vec<u32>,
    ) -> Result<(), IndexError> {
        let (positions, of_block) = match &mut self.positions {
            Some(positions) => &mut **positions,
            none => {
                let positions = TermPositions::open(search.pages, search.segment, self.list)?;
                &mut **none.insert(Box::new((positions, NONE)))
            }
        };
        if *of_block != self.decoded {
            *of_block = NONE;
            positions.read(search.pages, search.segment, self.decoded, &self.block)?;
            *of_block = self.decoded;
        }
        append(found, positions.block.of(self.at)).map_err(IndexError::of_memory)
    }

    /// Returns the frequency of the term in a document, or 0. Also returns 0 if no document of the
    /// block can have `missing` units.
    #[inline]
    pub fn frequency<P: ReadPages>(
        &mut self,
        search: &SegmentSearch<'_, P>,
        document: u32,
        missing: u32,
    ) -> Result<u32, IndexError> {
        self.move_to(document);
        if self
            .bounds
            .get(self.current)
            .is_none_or(|bound| *bound < missing)
        {
            return Ok(0);
        }
        self.decode(search)?;
        let documents = &self.block.documents[..self.block.len];
        let at = advance(documents, self.at, document);
        self.at = at;
        let is_found = documents.get(at) == Some(&document);
        Ok(if is_found {
            self.block.frequencies[at]
        } else {
            0
        })
    }
}

/// Returns the place of the first document from `document` on, at `at` or after it. It is mostly
/// near.
#[inline]
pub fn advance(documents: &[u32], mut at: usize, document: u32) -> usize {
    let mut step = 1;
    while at + step < documents.len() && documents[at + step] < document {
        at += step;
        step *= 2;
    }
    let end = (at + step + 1).min(documents.len());
    let between = documents.get(at..end).unwrap_or_default();
    at + between.partition_point(|known| *known < document)
}
