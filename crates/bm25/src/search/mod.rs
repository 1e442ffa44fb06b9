//! Answers queries: the best documents, and the scores of given ones.
//!
//! | file | contents |
//! |---|---|
//! | [`opened`] | the parts of an index that a query reads, as at one moment |
//! | [`window`] | finds the best documents of a segment |
//! | [`given`] | finds the best of given documents |
//! | [`cursor`] | moves along the postings of a term |
//! | [`whole`] | postings of a rare term, which are read before |
//! | [`lengths`] | lengths of documents |
//! | [`listing`] | all documents that match, without ranking them |
//! | [`phrases`] | documents with a phrase |
//! | [`best`] | the best documents so far |

mod best;
mod cursor;
mod given;
mod lengths;
mod listing;
mod opened;
mod phrases;
mod whole;
mod window;

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{self, OutOfMemory, append, push},
};

use self::{
    best::{Best, Found, Hit},
    cursor::TermCursor,
    given::GivenDocuments,
    opened::OpenedQuery,
    window::{SegmentSearch, Windows},
};
use crate::{
    score::{Scorer, Statistics},
    segment::{
        layout::DOCUMENTS_PER_PAGE,
        reader::{DocumentWindow, SegmentReader},
    },
    terms::Terms,
};

pub use given::GivenRows;
pub use listing::Listing;
pub use opened::SegmentCache;
pub use phrases::rows_with_phrase;

/// Number of documents that a search finds at first. Most queries want ten rows, and one or two of
/// these may be invisible.
const FIRST_BATCH: usize = 12;
/// Number of documents that the second search for the same query finds. The third one finds as many
/// as memory holds: a filter is likely to let few rows pass.
const SECOND_BATCH: usize = 256;
/// Number of documents of a large batch that are put in order at first.
const FIRST_PORTION: usize = 1024;
/// Each further portion is larger by this factor.
const GROWTH: usize = 4;

/// Returns the statistics of an index for a query.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn statistics(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: &Terms,
) -> Result<Statistics, IndexError> {
    Ok(OpenedQuery::read(pages, cache, query)?.statistics)
}

/// Returns the `k` best rows for a query with their scores, the best first.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn top(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: &Terms,
    statistics: Option<&Statistics>,
    k: usize,
) -> Result<Vec<(Tid, f64)>, IndexError> {
    let mut scan = Scan::begin(pages, cache, query, statistics, usize::MAX)?;
    scan.batch = k;
    let mut rows = vec![];
    while rows.len() < k {
        let Some(row) = scan.next(pages)? else { break };
        push(&mut rows, row).map_err(IndexError::of_memory)?;
    }
    Ok(rows)
}

/// A search whose rows come on demand, the best first.
///
/// It reads the index as it was when the search began: documents that are added later may be left
/// out.
pub struct Scan {
    opened: OpenedQuery,
    scorer: Scorer,
    windows: Box<Windows>,
    /// The documents that the search is restricted to.
    given: Option<GivenDocuments>,
    /// Documents that are returned next, the best last.
    hits: Vec<Hit>,
    /// Documents of the batch that come after these, in any order.
    rest: Vec<Hit>,
    /// Number of documents that are put in order next.
    portion: usize,
    /// The worst document of the last batch.
    last: Option<Hit>,
    /// Number of documents that the next batch has.
    batch: usize,
    /// Maximum number of documents of a batch.
    max_batch: usize,
    is_complete: bool,
}

impl Scan {
    /// Begins a search. `statistics` are those of all partitions, or `None` for those of this
    /// index. Results take about `memory` bytes at most.
    ///
    /// # Errors
    /// The index is corrupted, or memory runs out.
    pub fn begin(
        pages: &impl ReadPages,
        cache: &SegmentCache,
        query: &Terms,
        statistics: Option<&Statistics>,
        memory: usize,
    ) -> Result<Self, IndexError> {
        let mut opened = OpenedQuery::read(pages, cache, query)?;
        if let Some(statistics) = statistics {
            opened.statistics = statistics.clone();
        }
        let scorer = Scorer::new(opened.parameters, &opened.statistics, query);
        Ok(Self {
            opened,
            scorer,
            windows: Box::default(),
            given: None,
            hits: vec![],
            rest: vec![],
            portion: 0,
            last: None,
            batch: FIRST_BATCH,
            max_batch: (memory / (2 * size_of::<Hit>())).max(FIRST_BATCH),
            is_complete: false,
        })
    }

    /// Makes the first batch as large as the number of rows that the caller is going to request.
    pub fn expect(&mut self, rows: usize) {
        self.batch = rows.max(FIRST_BATCH);
    }

    /// Restricts the search to given rows. It has returned none yet.
    ///
    /// # Errors
    /// The index is corrupted, or memory runs out.
    pub fn restrict(&mut self, pages: &impl ReadPages, rows: &GivenRows) -> Result<(), IndexError> {
        self.given = Some(GivenDocuments::find(pages, &self.opened, rows)?);
        Ok(())
    }

    /// Returns the statistics that scores depend on.
    pub fn statistics(&self) -> &Statistics {
        &self.opened.statistics
    }

    /// Returns the next row that matches, and its score. Rows of equal score come in the order of
    /// the index. Returns `None` at the end.
    ///
    /// # Errors
    /// The index is corrupted, or memory runs out.
    pub fn next(&mut self, pages: &impl ReadPages) -> Result<Option<(Tid, f64)>, IndexError> {
        if self.hits.is_empty() {
            if self.rest.is_empty() && !self.is_complete {
                self.find(pages)?;
            }
            self.sort_portion().map_err(IndexError::of_memory)?;
        }
        let Some(hit) = self.hits.pop() else {
            return Ok(None);
        };
        let Found { part, document } = hit.found;
        let row = match part.checked_sub(1) {
            None => self.opened.pending.row(document),
            Some(segment) => {
                let segment = &self.opened.segments[segment as usize];
                segment.reader.row(pages, document)?
            }
        };
        Ok(Some((row, self.scorer.score_of(hit.units))))
    }

    /// Finds the next batch of documents.
    fn find(&mut self, pages: &impl ReadPages) -> Result<(), IndexError> {
        let limit = self.batch.min(self.max_batch);
        let mut best = self.best(pages, Best::new(limit, self.last))?;
        if best.lacks_expected() {
            // a concurrent VACUUM has deleted some since the number of the deleted was read
            best = self.best(pages, Best::new(limit, self.last).without_floor())?;
        }
        self.rest = best.into_hits();
        self.is_complete = self.rest.len() < limit;
        self.last = self.rest.iter().min().copied().or(self.last);
        (self.portion, self.batch) = match self.batch {
            usize::MAX => (FIRST_PORTION, usize::MAX),
            batch if batch < SECOND_BATCH => (batch, SECOND_BATCH),
            batch => (batch, usize::MAX),
        };
        Ok(())
    }

    /// Offers all documents that may be among the best.
    fn best(&mut self, pages: &impl ReadPages, mut best: Best) -> Result<Best, IndexError> {
        if let Some(given) = &self.given {
            given.offer(pages, &self.opened, &self.scorer, &mut best)?;
            return Ok(best);
        }
        self.opened
            .pending
            .offer(&self.scorer, |_| true, &mut best)?;
        for (number, segment) in self.opened.segments.iter().enumerate() {
            let search = SegmentSearch {
                pages,
                segment: &segment.reader,
                dead: segment.dead,
                part: number as u32 + 1,
            };
            let lists = segment.lists.iter();
            let terms = lists.map(|(term, list)| (list, self.scorer.term(*term)));
            self.windows.search(&search, terms, &mut best)?;
        }
        Ok(best)
    }

    /// Moves the best documents of the rest to those that are returned next. A large batch is not
    /// put in order as a whole, because most searches end before.
    fn sort_portion(&mut self) -> Result<(), OutOfMemory> {
        let others = self.rest.len().saturating_sub(self.portion);
        if others > 0 {
            self.rest.select_nth_unstable(others);
            append(&mut self.hits, &self.rest[others..])?;
            self.rest.truncate(others);
            self.portion = self.portion.saturating_mul(GROWTH);
        } else {
            self.hits = std::mem::take(&mut self.rest);
        }
        self.hits.sort_unstable();
        Ok(())
    }
}

/// Returns the scores of rows: 0 for a row that does not match, or is not in the index.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn score_rows(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: &Terms,
    statistics: Option<&Statistics>,
    rows: &[Tid],
) -> Result<Vec<f64>, IndexError> {
    let opened = OpenedQuery::read(pages, cache, query)?;
    let statistics = statistics.unwrap_or(&opened.statistics);
    let scorer = Scorer::new(opened.parameters, statistics, query);
    let mut scores = memory::filled(rows.len(), 0.0).map_err(IndexError::of_memory)?;
    let mut in_order = vec![];
    for (number, row) in rows.iter().enumerate() {
        push(&mut in_order, (*row, number)).map_err(IndexError::of_memory)?;
    }
    in_order.sort_unstable();
    for (row, units) in opened.pending.scored(&scorer)? {
        let from = in_order.partition_point(|(known, _)| *known < row);
        for (_, number) in in_order[from..]
            .iter()
            .take_while(|(known, _)| *known == row)
        {
            scores[*number] = scorer.score_of(units);
        }
    }
    for segment in &opened.segments {
        let mut found = vec![];
        let rows = in_order.iter();
        segment.reader.each_within(
            pages,
            rows.map(|(row, number)| (row.key(), row.key(), *number)),
            |document, number| push(&mut found, (document, *number)),
        )?;
        let mut cursors = vec![];
        for (term, list) in segment.lists.iter() {
            let cursor = TermCursor::new(list, scorer.term(*term));
            cursors.push(cursor.map_err(IndexError::of_memory)?);
        }
        let search = SegmentSearch {
            pages,
            segment: &segment.reader,
            dead: segment.dead,
            part: 0,
        };
        let mut norms = Norms::default();
        for (document, number) in found {
            let Some(norm) = norms.of_live(pages, &segment.reader, document)? else {
                continue;
            };
            let mut units = 0_u32;
            for cursor in &mut cursors {
                let frequency = cursor.frequency(&search, document, 0)?;
                if frequency > 0 {
                    units = units.saturating_add(cursor.scores.units(frequency, norm));
                }
            }
            scores[number] = scorer.score_of(units);
        }
    }
    Ok(scores)
}

/// Returns which terms of a query a row has, in the order of [`Terms::iter`]: none if it is not in
/// the index.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn terms_in_row(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: &Terms,
    row: Tid,
) -> Result<Vec<bool>, IndexError> {
    let opened = OpenedQuery::read(pages, cache, query)?;
    let scorer = Scorer::new(opened.parameters, &opened.statistics, query);
    let mut found = memory::filled(query.len(), false).map_err(IndexError::of_memory)?;
    for term in opened.pending.terms_of(row) {
        found[term as usize] = true;
    }
    for segment in &opened.segments {
        let mut documents = vec![];
        segment.reader.each_within(
            pages,
            std::iter::once((row.key(), row.key(), ())),
            |document, ()| push(&mut documents, document),
        )?;
        let search = SegmentSearch {
            pages,
            segment: &segment.reader,
            dead: segment.dead,
            part: 0,
        };
        let mut norms = Norms::default();
        for document in documents {
            if norms.of_live(pages, &segment.reader, document)?.is_none() {
                continue;
            }
            for (term, list) in segment.lists.iter() {
                let cursor = TermCursor::new(list, scorer.term(*term));
                let mut cursor = cursor.map_err(IndexError::of_memory)?;
                found[*term] |= cursor.frequency(&search, document, 0)? > 0;
            }
        }
    }
    Ok(found)
}

/// Lengths of documents of a segment, which are requested in ascending order.
#[derive(Default)]
struct Norms {
    window: Box<DocumentWindow>,
    number: Option<usize>,
}

impl Norms {
    /// Returns the length of a document, or `None` if it is deleted.
    fn of_live(
        &mut self,
        pages: &impl ReadPages,
        segment: &SegmentReader,
        document: u32,
    ) -> Result<Option<u8>, IndexError> {
        let number = document as usize / DOCUMENTS_PER_PAGE;
        if self.number != Some(number) {
            pages.check_interrupts();
            segment.read_window(pages, number, &mut self.window)?;
            self.number = Some(number);
        }
        let place = document as usize % DOCUMENTS_PER_PAGE;
        Ok((!self.window.is_dead(place)).then(|| self.window.norms[place]))
    }
}
