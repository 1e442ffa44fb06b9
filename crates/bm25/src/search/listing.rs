//! All documents that match, without ranking them: in the order of the index, which is that of
//! their rows within each segment.
//!
//! All postings of all terms are read once, and added up a window of documents at a time. So the
//! scores are known as well.

use rag_pages::{IndexError, ReadPages, Tid, memory::push};

use super::{
    checked::SegmentCondition,
    cursor::TermCursor,
    lengths::Lengths,
    opened::{OpenedQuery, SegmentCache},
    window::{WINDOW, norms_of_window, place_in},
};
use crate::{
    query::QueryRef,
    score::{Scorer, Statistics},
    segment::layout::ROWS_PER_PAGE,
};

/// Number of documents that are listed at first, and at most, before they are returned.
const FIRST_BATCH: usize = 1 << 9;
const MAX_BATCH: usize = 1 << 17;
/// A page of rows is read as a whole if so many of its rows are wanted.
pub const DENSE_ROWS: usize = 12;

/// A list of the rows that match. It is read as the index was when it began: documents that are
/// added later may be left out.
pub struct Listing {
    opened: OpenedQuery,
    scorer: Scorer,
    /// The part that is read next, 0 for pending documents, and its next document.
    part: usize,
    document: u32,
    /// Rows that are returned next, the last first.
    rows: Vec<(Tid, f64)>,
    batch: usize,
}

impl Listing {
    /// Begins a list. `statistics` are those of all partitions, or `None` for those of this index.
    ///
    /// # Errors
    /// The index is corrupted, or memory runs out.
    pub fn begin<'q>(
        pages: &impl ReadPages,
        cache: &SegmentCache,
        query: impl Into<QueryRef<'q>>,
        statistics: Option<&Statistics>,
    ) -> Result<Self, IndexError> {
        let query = query.into();
        let mut opened = OpenedQuery::read(pages, cache, query)?;
        if let Some(statistics) = statistics {
            opened.statistics = statistics.clone();
        }
        Ok(Self {
            scorer: Scorer::new(opened.parameters, &opened.statistics, query),
            opened,
            part: 0,
            document: 0,
            rows: vec![],
            batch: FIRST_BATCH,
        })
    }

    /// Returns the statistics that scores depend on.
    pub fn statistics(&self) -> &Statistics {
        &self.opened.statistics
    }

    /// Returns the next row that matches, and its score. Returns `None` at the end.
    ///
    /// # Errors
    /// The index is corrupted, or memory runs out.
    pub fn next(&mut self, pages: &impl ReadPages) -> Result<Option<(Tid, f64)>, IndexError> {
        loop {
            if let Some(row) = self.rows.pop() {
                return Ok(Some(row));
            }
            if self.part > self.opened.segments.len() {
                return Ok(None);
            }
            self.fill(pages)?;
            self.rows.reverse();
        }
    }

    /// Finds the next rows.
    fn fill(&mut self, pages: &impl ReadPages) -> Result<(), IndexError> {
        if self.part == 0 {
            for (row, units) in self.opened.pending.scored(pages, &self.scorer)? {
                let row = (row, self.scorer.score_of(units));
                push(&mut self.rows, row).map_err(IndexError::of_memory)?;
            }
            self.part = 1;
            return Ok(());
        }
        let found = self.documents(pages)?;
        let segment = &self.opened.segments[self.part - 1].reader;
        let mut rows = vec![];
        for of_page in found.chunk_by(|a, b| page_of(a.0) == page_of(b.0)) {
            let page = page_of(of_page[0].0);
            if of_page.len() >= DENSE_ROWS {
                segment.read_rows(pages, page, &mut rows)?;
            }
            for (document, units) in of_page {
                let row = if of_page.len() < DENSE_ROWS {
                    segment.row(pages, *document)?
                } else {
                    let place = *document as usize - page * ROWS_PER_PAGE;
                    // a corrupted list has documents that the segment does not have
                    *rows.get(place).ok_or_else(|| segment.without_page(page))?
                };
                let row = (row, self.scorer.score_of(*units));
                push(&mut self.rows, row).map_err(IndexError::of_memory)?;
            }
        }
        self.batch = (self.batch * 4).min(MAX_BATCH);
        if self.document == u32::MAX {
            self.part += 1;
            self.document = 0;
        }
        Ok(())
    }

    /// Returns the next documents of a segment with their units. Sets the next document to the
    /// highest number at the end.
    fn documents(&mut self, pages: &impl ReadPages) -> Result<Vec<(u32, u32)>, IndexError> {
        let segment = &self.opened.segments[self.part - 1];
        let search = segment.search(pages, self.part as u32);
        let has_positions = self.opened.has_positions;
        let condition = self.scorer.condition();
        let mut condition = condition
            .map(|condition| SegmentCondition::new(condition, segment, &self.scorer, has_positions))
            .transpose()?;
        let mut cursors = vec![];
        for (term, list) in segment.counted() {
            let cursor = TermCursor::new(list, self.scorer.term(*term));
            cursors.push(cursor.map_err(IndexError::of_memory)?);
        }
        let mut found = vec![];
        let mut lengths = Lengths::default();
        let mut units = Box::new([0_u32; WINDOW]);
        while found.len() < self.batch {
            pages.check_interrupts();
            let mut next = None;
            for cursor in &mut cursors {
                let first = cursor.next_from(&search, self.document)?;
                next = next.into_iter().chain(first).min();
            }
            let next = next.filter(|next| *next < segment.reader.documents());
            let Some(next) = next else {
                self.document = u32::MAX;
                break;
            };
            let start = next - next % WINDOW as u32;
            let norms = norms_of_window(&mut lengths, &search, start)?;
            for cursor in &mut cursors {
                cursor.each_units(&search, start, norms, 0, |documents, added| {
                    for (document, added) in documents.iter().zip(added) {
                        let place = place_in::<WINDOW>(*document, start);
                        units[place] = units[place].saturating_add(*added);
                    }
                })?;
            }
            for (document, units) in (start..).zip(units.iter_mut()) {
                let units = std::mem::take(units);
                let is_found = units > 0
                    && !lengths.is_dead(&search, document)?
                    && match &mut condition {
                        Some(condition) => condition.holds(&search, document)?,
                        None => true,
                    };
                if is_found {
                    push(&mut found, (document, units)).map_err(IndexError::of_memory)?;
                }
            }
            self.document = start.saturating_add(WINDOW as u32);
        }
        Ok(found)
    }
}

/// Returns the number of the page that has the row of a document.
fn page_of(document: u32) -> usize {
    document as usize / ROWS_PER_PAGE
}
