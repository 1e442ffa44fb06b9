//! Counts the rows that match, and visits only those that not all transactions see.
//!
//! A table may tell of a block that all transactions see all of its rows. What the index has of
//! such a block counts, unless it is of a row that was deleted before: VACUUM marks such documents
//! before it says that of their blocks. So the marks are read after the blocks were asked for, and
//! only of a segment that was still a part of the index then. Rows of other segments are visited,
//! and so are those of pending documents, which are few.

use std::ops::Range;

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{self, OutOfMemory, push},
};

use super::{
    checked::SegmentCondition,
    cursor::TermCursor,
    listing::DENSE_ROWS,
    opened::{OpenedQuery, OpenedSegment, SegmentCache},
    window::WINDOW,
};
use crate::{
    meta::Meta,
    query::QueryRef,
    score::Scorer,
    segment::{
        layout::{DOCUMENTS_PER_PAGE, ROWS_PER_PAGE},
        reader::DocumentWindow,
    },
};

/// What a table knows of its rows.
pub trait TableRows {
    /// Returns true if all transactions see all rows of a block.
    fn are_all_visible(&mut self, block: u32) -> bool;

    /// Returns true if the caller sees a row at this place, and it matches.
    fn is_counted(&mut self, row: Tid) -> bool;
}

/// Numbers of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowCount {
    /// Those that match.
    pub rows: u64,
    /// Those that were visited.
    pub visited: u64,
}

impl RowCount {
    fn visit(&mut self, row: Tid, table: &mut impl TableRows) {
        self.visited += 1;
        self.rows += u64::from(table.is_counted(row));
    }
}

/// Counts the rows that match a query, as the index was when the count began.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn count_rows<'q>(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: impl Into<QueryRef<'q>>,
    table: &mut impl TableRows,
) -> Result<RowCount, IndexError> {
    let query = query.into();
    let opened = OpenedQuery::read(pages, cache, query)?;
    let scorer = Scorer::new(opened.parameters, &opened.statistics, query);
    let mut count = RowCount::default();
    for (row, _) in opened.pending.scored(pages, &scorer)? {
        count.visit(row, table);
    }
    for segment in &opened.segments {
        let counting = Counting {
            pages,
            segment,
            scorer: &scorer,
            has_positions: opened.has_positions,
        };
        let of_segment = match counting.count(table, true)? {
            Some(count) => count,
            None => counting.count(table, false)?.unwrap_or_default(),
        };
        count.rows += of_segment.rows;
        count.visited += of_segment.visited;
    }
    Ok(count)
}

/// A segment whose documents are counted.
struct Counting<'a, P> {
    pages: &'a P,
    segment: &'a OpenedSegment,
    scorer: &'a Scorer,
    has_positions: bool,
}

impl<P: ReadPages> Counting<'_, P> {
    /// Counts the rows of the segment. Unless `asks_blocks`, all are visited. Returns `None` if
    /// blocks were asked for, and the segment is no longer a part of the index.
    fn count(
        &self,
        table: &mut impl TableRows,
        asks_blocks: bool,
    ) -> Result<Option<RowCount>, IndexError> {
        let reader = &self.segment.reader;
        // in the end those that need no visit
        let mut documents = self.matching()?;
        if self.segment.dead > 0 {
            // the place of a row may be that of another one now
            self.remove_deleted(&mut documents)?;
        }
        let mut count = RowCount::default();
        let (mut of_page, mut rows) = (vec![], vec![]);
        for page in 0..(reader.documents() as usize).div_ceil(ROWS_PER_PAGE) {
            let first = page * ROWS_PER_PAGE;
            of_page.clear();
            documents
                .list(first..first + ROWS_PER_PAGE, &mut of_page)
                .map_err(IndexError::of_memory)?;
            if of_page.is_empty() {
                continue;
            }
            self.pages.check_interrupts();
            self.read_rows(page, &of_page, &mut rows)?;
            let mut of_page = of_page.as_slice();
            for of_block in rows.chunk_by(|a, b| a.block == b.block) {
                let (numbers, rest) = of_page.split_at(of_block.len());
                of_page = rest;
                if asks_blocks && table.are_all_visible(of_block[0].block) {
                    continue;
                }
                for (document, row) in numbers.iter().zip(of_block) {
                    documents.remove(*document);
                    count.visit(*row, table);
                }
            }
        }
        if asks_blocks {
            let meta = Meta::read(self.pages)?;
            let id = reader.owned.owner_id;
            let Some(entry) = meta.segments.iter().find(|entry| entry.id == id) else {
                return Ok(None);
            };
            if entry.dead > self.segment.dead {
                self.remove_deleted(&mut documents)?;
            }
        }
        count.rows += documents.len();
        Ok(Some(count))
    }

    /// Returns the documents that match, also deleted ones.
    fn matching(&self) -> Result<DocumentSet, IndexError> {
        let search = self.segment.search(self.pages, 0);
        let after = self.segment.reader.documents();
        let mut found = DocumentSet::new(after)?;
        for (term, list) in self.segment.counted() {
            let cursor = TermCursor::new(list, self.scorer.term(*term));
            let mut cursor = cursor.map_err(IndexError::of_memory)?;
            for start in (0..after).step_by(WINDOW) {
                self.pages.check_interrupts();
                let end = (start + WINDOW as u32).min(after);
                cursor.each(&search, start..end, 0, |documents, _| {
                    documents.iter().for_each(|document| found.add(*document));
                })?;
            }
        }
        let Some(condition) = self.scorer.condition() else {
            return Ok(found);
        };
        let mut holding =
            SegmentCondition::new(condition, self.segment, self.scorer, self.has_positions)?;
        let mut both = DocumentSet::new(after)?;
        if condition.required.is_empty() {
            let mut candidates = vec![];
            for start in (0..after as usize).step_by(WINDOW) {
                self.pages.check_interrupts();
                candidates.clear();
                let listed = found.list(start..start + WINDOW, &mut candidates);
                listed.map_err(IndexError::of_memory)?;
                for document in &candidates {
                    if holding.holds(&search, *document)? {
                        both.add(*document);
                    }
                }
            }
        } else {
            for document in holding.documents(&search)? {
                if found.has(document) {
                    both.add(document);
                }
            }
        }
        Ok(both)
    }

    /// Reads the rows of documents of a page of rows.
    fn read_rows(
        &self,
        page: usize,
        documents: &[u32],
        rows: &mut Vec<Tid>,
    ) -> Result<(), IndexError> {
        let reader = &self.segment.reader;
        rows.clear();
        if documents.len() < DENSE_ROWS {
            for document in documents {
                let row = reader.row(self.pages, *document)?;
                push(rows, row).map_err(IndexError::of_memory)?;
            }
            return Ok(());
        }
        reader.read_rows(self.pages, page, rows)?;
        let first = page * ROWS_PER_PAGE;
        for (place, document) in documents.iter().enumerate() {
            // the documents ascend, so that none is overwritten that is still wanted
            rows[place] = rows[*document as usize - first];
        }
        rows.truncate(documents.len());
        Ok(())
    }

    /// Removes the documents that are marked as deleted.
    fn remove_deleted(&self, documents: &mut DocumentSet) -> Result<(), IndexError> {
        let reader = &self.segment.reader;
        let mut window = Box::new(DocumentWindow::default());
        let mut of_page = vec![];
        for page in 0..(reader.documents() as usize).div_ceil(DOCUMENTS_PER_PAGE) {
            let first = page * DOCUMENTS_PER_PAGE;
            of_page.clear();
            documents
                .list(first..first + DOCUMENTS_PER_PAGE, &mut of_page)
                .map_err(IndexError::of_memory)?;
            if of_page.is_empty() {
                continue;
            }
            self.pages.check_interrupts();
            reader.read_window(self.pages, page, &mut window)?;
            for document in &of_page {
                if window.is_dead(*document as usize - first) {
                    documents.remove(*document);
                }
            }
        }
        Ok(())
    }
}

/// A set of the documents of a segment.
struct DocumentSet {
    /// The number of documents that the segment has.
    after: u32,
    /// A bit for each of them.
    words: Vec<u64>,
}

impl DocumentSet {
    /// Makes an empty set.
    fn new(after: u32) -> Result<Self, IndexError> {
        let words = memory::filled((after as usize).div_ceil(64), 0);
        Ok(Self {
            after,
            words: words.map_err(IndexError::of_memory)?,
        })
    }

    /// Adds a document, unless the segment does not have it: a corrupted list may.
    #[inline]
    fn add(&mut self, document: u32) {
        if document < self.after {
            self.words[document as usize / 64] |= 1 << (document % 64);
        }
    }

    fn has(&self, document: u32) -> bool {
        let word = self.words.get(document as usize / 64);
        word.is_some_and(|word| word & 1 << (document % 64) != 0)
    }

    fn remove(&mut self, document: u32) {
        if let Some(word) = self.words.get_mut(document as usize / 64) {
            *word &= !(1 << (document % 64));
        }
    }

    fn len(&self) -> u64 {
        let words = self.words.iter();
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    /// Appends the documents in a range, in ascending order.
    fn list(&self, range: Range<usize>, found: &mut Vec<u32>) -> Result<(), OutOfMemory> {
        let last = range.end.div_ceil(64).min(self.words.len());
        for number in range.start / 64..last {
            let mut word = self.words[number];
            while word != 0 {
                let document = number * 64 + word.trailing_zeros() as usize;
                word &= word - 1;
                if range.contains(&document) {
                    push(found, document as u32)?;
                }
            }
        }
        Ok(())
    }
}
