//! A search that is restricted to given rows, such as those that another index has for a filter.
//!
//! The given documents of each segment are scored one after the other. Nothing is read of blocks of
//! postings between them, nor of a term that cannot make a document good enough.

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{OutOfMemory, append, push},
};

use super::{
    best::{Best, Found, Hit},
    checked::SegmentCondition,
    cursor::TermCursor,
    lengths::Lengths,
    opened::OpenedQuery,
    window::SegmentSearch,
};
use crate::{
    query::Condition,
    score::{Scorer, TermScores},
    segment::{layout::DOCUMENTS_PER_PAGE, reader::PostingsList},
};

const PER_PAGE: u32 = DOCUMENTS_PER_PAGE as u32;
/// Number of documents between two checks whether the search is interrupted.
const CHECKED: usize = 1024;

/// Heap rows that a search is restricted to: rows of a block, or all that are in it.
#[derive(Debug, Default)]
pub struct GivenRows {
    /// In ascending order.
    blocks: Vec<GivenBlock>,
    /// The rows of one block after the other, in ascending order.
    offsets: Vec<u16>,
}

#[derive(Debug, Clone, Copy)]
struct GivenBlock {
    block: u32,
    is_whole: bool,
    /// End of its rows in `offsets`.
    end: usize,
}

impl GivenRows {
    /// Adds a row that comes after all others.
    ///
    /// # Errors
    /// Memory runs out.
    #[inline]
    pub fn add_row(&mut self, row: Tid) -> Result<(), OutOfMemory> {
        match self.blocks.last_mut() {
            Some(last) if last.block == row.block => {
                debug_assert!(!last.is_whole && self.offsets.last() < Some(&row.offset));
                push(&mut self.offsets, row.offset)?;
                last.end = self.offsets.len();
                Ok(())
            }
            _ => self.add_rows(row.block, &[row.offset]),
        }
    }

    /// Adds rows of a block that comes after all others.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add_rows(&mut self, block: u32, offsets: &[u16]) -> Result<(), OutOfMemory> {
        debug_assert!(offsets.is_sorted());
        append(&mut self.offsets, offsets)?;
        self.add(block, false)
    }

    /// Adds all rows of a block that comes after all others.
    ///
    /// # Errors
    /// Memory runs out.
    pub fn add_block(&mut self, block: u32) -> Result<(), OutOfMemory> {
        self.add(block, true)
    }

    fn add(&mut self, block: u32, is_whole: bool) -> Result<(), OutOfMemory> {
        debug_assert!(self.blocks.last().is_none_or(|last| last.block < block));
        let end = self.offsets.len();
        let added = GivenBlock {
            block,
            is_whole,
            end,
        };
        push(&mut self.blocks, added)
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the number of blocks of which all rows are given, and the number of other rows.
    pub fn count(&self) -> (usize, usize) {
        let whole = self.blocks.iter().filter(|given| given.is_whole).count();
        (whole, self.offsets.len())
    }

    fn offsets_of(&self, place: usize) -> &[u16] {
        let start = place.checked_sub(1).map_or(0, |last| self.blocks[last].end);
        &self.offsets[start..self.blocks[place].end]
    }

    fn contains(&self, row: Tid) -> bool {
        let found = self
            .blocks
            .binary_search_by_key(&row.block, |given| given.block);
        found.is_ok_and(|place| {
            self.blocks[place].is_whole || self.offsets_of(place).binary_search(&row.offset).is_ok()
        })
    }

    /// Returns ranges of rows in ascending order: the first and the last, as [`Tid::key`] numbers
    /// them.
    pub(crate) fn ranges(&self) -> Ranges<'_> {
        Ranges {
            blocks: self.blocks.iter(),
            rows: self.offsets.iter(),
            block: 0,
            left: 0,
            taken: 0,
        }
    }
}

/// See [`GivenRows::ranges`].
pub(crate) struct Ranges<'a> {
    blocks: std::slice::Iter<'a, GivenBlock>,
    rows: std::slice::Iter<'a, u16>,
    /// The block of the next rows, and how many are left of it.
    block: u32,
    left: usize,
    /// Number of rows of all blocks so far.
    taken: usize,
}

impl Iterator for Ranges<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            let block = self.block;
            if self.left > 0 {
                self.left -= 1;
                let offset = *self.rows.next()?;
                let key = Tid { block, offset }.key();
                return Some((key, key));
            }
            let given = self.blocks.next()?;
            self.block = given.block;
            self.left = given.end - self.taken;
            self.taken = given.end;
            if given.is_whole {
                let first = Tid {
                    block: given.block,
                    offset: 0,
                };
                return Some((first.key(), first.key() | u64::from(u16::MAX)));
            }
        }
    }
}

/// The documents of an opened query that are given.
pub struct GivenDocuments {
    /// True for each pending document that is given.
    pending: Vec<bool>,
    /// The documents of each segment, in ascending order.
    segments: Vec<Vec<u32>>,
}

impl GivenDocuments {
    pub fn find(
        pages: &impl ReadPages,
        opened: &OpenedQuery,
        rows: &GivenRows,
    ) -> Result<Self, IndexError> {
        let mut given = Self {
            pending: vec![],
            segments: vec![],
        };
        for row in opened.pending.rows() {
            push(&mut given.pending, rows.contains(row)).map_err(IndexError::of_memory)?;
        }
        for segment in &opened.segments {
            // a segment without the terms has no document to score
            let mut documents = vec![];
            if !segment.lists.is_empty() {
                let ranges = rows.ranges().map(|(first, last)| (first, last, ()));
                segment
                    .reader
                    .each_within(pages, ranges, |document, ()| push(&mut documents, document))?;
            }
            given.segments.push(documents);
        }
        Ok(given)
    }

    /// Returns the documents that satisfy a condition, by which something is required. Unless
    /// `knows_phrases`, the places of words in segments are not looked at: see
    /// [`checked`](super::checked).
    pub fn matching(
        pages: &impl ReadPages,
        opened: &OpenedQuery,
        scorer: &Scorer,
        condition: &Condition,
        knows_phrases: bool,
    ) -> Result<Self, IndexError> {
        let mut given = Self {
            pending: opened.pending.holds(pages, condition)?,
            segments: vec![],
        };
        for segment in &opened.segments {
            pages.check_interrupts();
            let mut condition = SegmentCondition::new(condition, segment, scorer, knows_phrases)?;
            given
                .segments
                .push(condition.documents(&segment.search(pages, 0))?);
        }
        Ok(given)
    }

    /// Keeps the documents that satisfy a condition.
    pub fn retain(
        &mut self,
        pages: &impl ReadPages,
        opened: &OpenedQuery,
        scorer: &Scorer,
        condition: &Condition,
    ) -> Result<(), IndexError> {
        let holds = opened.pending.holds(pages, condition)?;
        for (is_given, holds) in self.pending.iter_mut().zip(holds) {
            *is_given &= holds;
        }
        for (segment, documents) in opened.segments.iter().zip(&mut self.segments) {
            let mut condition =
                SegmentCondition::new(condition, segment, scorer, opened.has_positions)?;
            let search = segment.search(pages, 0);
            let mut kept = 0;
            for place in 0..documents.len() {
                if place % CHECKED == 0 {
                    pages.check_interrupts();
                }
                let document = documents[place];
                documents[kept] = document;
                kept += usize::from(condition.holds(&search, document)?);
            }
            documents.truncate(kept);
        }
        Ok(())
    }

    /// Offers all given documents that may be among the best.
    pub fn offer(
        &self,
        pages: &impl ReadPages,
        opened: &OpenedQuery,
        scorer: &Scorer,
        best: &mut Best,
    ) -> Result<(), IndexError> {
        let is_given = |document: u32| self.pending.get(document as usize) == Some(&true);
        opened.pending.offer(pages, scorer, is_given, best)?;
        for (part, (segment, documents)) in (1..).zip(opened.segments.iter().zip(&self.segments)) {
            let search = segment.search(pages, part);
            let lists = segment.counted();
            let terms = lists.map(|(term, list)| (list, scorer.term(*term)));
            offer_documents(&search, terms, documents, best)?;
        }
        Ok(())
    }
}

/// Offers documents of a segment that may be among the best.
fn offer_documents<'t, P: ReadPages>(
    search: &SegmentSearch<'_, P>,
    terms: impl Iterator<Item = (&'t PostingsList, TermScores<'t>)>,
    documents: &[u32],
    best: &mut Best,
) -> Result<(), IndexError> {
    let mut cursors = vec![];
    for (list, scores) in terms {
        cursors.push(TermCursor::new(list, scores).map_err(IndexError::of_memory)?);
    }
    // rare terms add most, and are found with least work
    cursors.sort_by_key(TermCursor::documents);
    // what the terms after each one add at most
    let mut others = vec![0_u32; cursors.len()];
    for place in (1..cursors.len()).rev() {
        others[place - 1] = others[place].saturating_add(cursors[place].most());
    }
    let mut lengths = Lengths::default();
    for group in documents.chunks(CHECKED) {
        search.pages.check_interrupts();
        for document in group.iter().copied() {
            let found = Found {
                part: search.part,
                document,
            };
            let needed = best.needed(found);
            let mut units = 0_u32;
            for (cursor, others) in cursors.iter_mut().zip(&others) {
                let missing = needed.saturating_sub(units.saturating_add(*others));
                // 0 also if the document cannot be good enough
                let frequency = cursor.frequency(search, document, missing)?;
                let added = match frequency {
                    0 => 0,
                    _ => {
                        let (page, place) = (document / PER_PAGE, document % PER_PAGE);
                        let norms = lengths.of_page(search, page as usize)?;
                        cursor.scores.units(frequency, norms[place as usize])
                    }
                };
                if added < missing {
                    units = 0;
                    break;
                }
                units = units.saturating_add(added);
            }
            if units >= needed && !lengths.is_dead(search, document)? {
                best.offer(Hit { units, found })
                    .map_err(IndexError::of_memory)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tid(block: u32, offset: u16) -> Tid {
        Tid { block, offset }
    }

    #[test]
    fn rows_and_whole_blocks_are_contained() {
        let mut given = GivenRows::default();
        assert!(given.is_empty() && !given.contains(tid(0, 1)));
        given.add_row(tid(3, 2)).unwrap();
        given.add_row(tid(3, 7)).unwrap();
        given.add_block(5).unwrap();
        given.add_rows(u32::MAX, &[1]).unwrap();
        assert_eq!(given.count(), (1, 3));
        let inside = [
            tid(3, 2),
            tid(3, 7),
            tid(5, 1),
            tid(5, 291),
            tid(u32::MAX, 1),
        ];
        let outside = [tid(2, 2), tid(3, 1), tid(3, 8), tid(4, 1), tid(6, 1)];
        assert!(inside.into_iter().all(|row| given.contains(row)));
        assert!(!outside.into_iter().any(|row| given.contains(row)));
        let ranges: Vec<_> = given.ranges().collect();
        let row = |row: Tid| (row.key(), row.key());
        let expected = [
            row(tid(3, 2)),
            row(tid(3, 7)),
            (tid(5, 0).key(), tid(5, u16::MAX).key()),
            row(tid(u32::MAX, 1)),
        ];
        assert_eq!(ranges, expected);
    }
}
