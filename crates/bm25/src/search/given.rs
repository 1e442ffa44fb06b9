//! A search that is restricted to given rows, such as those that another index has for a filter.
//!
//! The given documents of each segment are scored one after the other. Nothing is read of blocks of
//! postings between them, nor of a term that cannot make a document good enough.

use std::ops::RangeInclusive;

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{OutOfMemory, append, push},
};

use super::{
    best::{Best, Found, Hit},
    cursor::TermCursor,
    lengths::Lengths,
    opened::OpenedQuery,
    window::SegmentSearch,
};
use crate::{
    score::{Scorer, TermScores},
    segment::{layout::DOCUMENTS_PER_PAGE, reader::PostingsList},
};

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

    /// Returns ranges of rows in ascending order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = RangeInclusive<Tid>> {
        self.blocks.iter().enumerate().flat_map(|(place, given)| {
            let block = given.block;
            let tid = move |offset| Tid { block, offset };
            let whole = given.is_whole.then(|| tid(0)..=tid(u16::MAX));
            let rows = self.offsets_of(place).iter();
            whole
                .into_iter()
                .chain(rows.map(move |offset| tid(*offset)..=tid(*offset)))
        })
    }
}

/// The documents of an opened query that are given.
pub struct GivenDocuments {
    /// Whether each pending document is given.
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
            given.segments.push(match segment.lists.is_empty() {
                true => vec![],
                false => segment.reader.documents_within(pages, rows.ranges())?,
            });
        }
        Ok(given)
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
        opened.pending.offer(scorer, is_given, best)?;
        for (part, (segment, documents)) in (1..).zip(opened.segments.iter().zip(&self.segments)) {
            let search = SegmentSearch {
                pages,
                segment: &segment.reader,
                dead: segment.dead,
                part,
            };
            let lists = segment.lists.iter();
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
            let page = document as usize / DOCUMENTS_PER_PAGE;
            let norm = lengths.of_page(search, page)?[document as usize % DOCUMENTS_PER_PAGE];
            let mut units = 0_u32;
            for (cursor, others) in cursors.iter_mut().zip(&others) {
                let missing = needed.saturating_sub(units.saturating_add(*others));
                // 0 also if the document cannot be good enough
                let frequency = cursor.frequency(search, document, missing)?;
                let added = match frequency {
                    0 => 0,
                    _ => cursor.scores.units(frequency, norm),
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
        given.add_rows(3, &[2, 7]).unwrap();
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
        let row = |row: Tid| row..=row;
        let expected = [
            row(tid(3, 2)),
            row(tid(3, 7)),
            tid(5, 0)..=tid(5, u16::MAX),
            row(tid(u32::MAX, 1)),
        ];
        assert_eq!(ranges, expected);
    }
}
