//! Answers queries: the best documents, and the scores of given ones.
//!
//! | file | contents |
//! |---|---|
//! | [`opened`] | the parts of an index that a query reads, as at one moment |
//! | [`pending`] | the pending documents that it is about |
//! | [`union`] | the postings of several terms together |
//! | [`window`], [`candidates`] | find the best documents of a segment |
//! | [`given`] | finds the best of given documents |
//! | [`checked`] | finds the documents that satisfy a condition |
//! | [`rows`] | the scores of given rows |
//! | [`cursor`] | moves along the postings of a term |
//! | [`whole`] | postings of a rare term, which are read before |
//! | [`lengths`] | lengths of documents |
//! | [`near`] | terms that are spelled almost like a word |
//! | [`listing`] | all documents that match, without ranking them |
//! | [`count`] | how many rows match |
//! | [`phrases`] | documents with a phrase |
//! | [`best`] | the best documents so far |

mod best;
mod candidates;
mod checked;
mod count;
mod cursor;
mod given;
mod lengths;
mod listing;
mod lookup;
mod near;
mod opened;
mod pending;
mod phrases;
mod rows;
mod union;
mod whole;
mod window;

use rag_pages::{
    IndexError, ReadPages, Tid,
    memory::{OutOfMemory, append, push},
};

use self::{
    best::{Best, Found, Hit},
    checked::SegmentCondition,
    given::GivenDocuments,
    opened::OpenedQuery,
    window::Windows,
};
use crate::{
    query::QueryRef,
    score::{Scorer, Statistics},
};

pub use count::{RowCount, TableRows, count_rows};
pub use given::GivenRows;
pub use listing::Listing;
pub use lookup::{RowScore, RowScores};
pub use near::{NearTerm, near_terms};
pub use opened::SegmentCache;
pub use rows::{rows_that_may_hold, score_rows, terms_in_row};

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
/// As many documents with the words of a phrase are looked at for each that is wanted, and for each
/// of these so many if that is not enough.
const CANDIDATES: usize = 8;

/// Returns the statistics of an index for a query.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn statistics<'q>(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: impl Into<QueryRef<'q>>,
) -> Result<Statistics, IndexError> {
    Ok(OpenedQuery::read(pages, cache, query.into())?.statistics)
}

/// Returns the `k` best rows for a query with their scores, the best first.
///
/// # Errors
/// The index is corrupted, or memory runs out.
pub fn top<'q>(
    pages: &impl ReadPages,
    cache: &SegmentCache,
    query: impl Into<QueryRef<'q>>,
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
    /// These have the words of phrases that are required, perhaps at other places: the best are
    /// looked at.
    are_candidates: bool,
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
    pub fn begin<'q>(
        pages: &impl ReadPages,
        cache: &SegmentCache,
        query: impl Into<QueryRef<'q>>,
        statistics: Option<&Statistics>,
        memory: usize,
    ) -> Result<Self, IndexError> {
        let query = query.into();
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
            are_candidates: false,
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
        let mut given = GivenDocuments::find(pages, &self.opened, rows)?;
        if let Some(condition) = self.scorer.condition() {
            given.retain(pages, &self.opened, &self.scorer, condition)?;
        }
        self.given = Some(given);
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
        if self.given.is_none()
            && let Some(condition) = self.scorer.condition()
            && !condition.required.is_empty()
        {
            let (opened, scorer) = (&self.opened, &self.scorer);
            self.are_candidates = opened.has_positions && condition.requires_phrase();
            let knows_phrases = opened.has_positions && !self.are_candidates;
            let matching =
                GivenDocuments::matching(pages, opened, scorer, condition, knows_phrases)?;
            self.given = Some(matching);
        }
        let limit = self.batch.min(self.max_batch);
        let mut wanted = limit;
        if self.are_candidates {
            wanted = wanted.saturating_mul(CANDIDATES);
        }
        self.rest.clear();
        while self.rest.len() < limit && !self.is_complete {
            let hits = self.next_best(pages, wanted.min(self.max_batch))?;
            if self.are_candidates {
                let checked = self.checked(pages, hits)?;
                append(&mut self.rest, &checked).map_err(IndexError::of_memory)?;
                wanted = wanted.saturating_mul(CANDIDATES);
            } else {
                self.rest = hits;
                break;
            }
        }
        (self.portion, self.batch) = match self.batch {
            usize::MAX => (FIRST_PORTION, usize::MAX),
            batch if batch < SECOND_BATCH => (batch, SECOND_BATCH),
            batch => (batch, usize::MAX),
        };
        Ok(())
    }

    /// Returns the next best documents, in any order.
    fn next_best(&mut self, pages: &impl ReadPages, wanted: usize) -> Result<Vec<Hit>, IndexError> {
        let mut best = self.best(pages, Best::new(wanted, self.last))?;
        if best.lacks_expected() {
            // a concurrent VACUUM has deleted some since the number of the deleted was read
            best = self.best(pages, Best::new(wanted, self.last).without_floor())?;
        }
        let hits = best.into_hits();
        self.is_complete = hits.len() < wanted;
        self.last = hits.iter().min().copied().or(self.last);
        Ok(hits)
    }

    /// Returns the documents that satisfy the condition.
    fn checked(&self, pages: &impl ReadPages, mut hits: Vec<Hit>) -> Result<Vec<Hit>, IndexError> {
        let Some(condition) = self.scorer.condition() else {
            return Ok(hits);
        };
        hits.sort_unstable_by_key(|hit| hit.found);
        let mut checked = vec![];
        for of_part in hits.chunk_by(|one, other| one.found.part == other.found.part) {
            let part = of_part[0].found.part;
            let Some(segment) = part.checked_sub(1) else {
                // where words are in pending documents was looked at before
                append(&mut checked, of_part).map_err(IndexError::of_memory)?;
                continue;
            };
            let segment = &self.opened.segments[segment as usize];
            let search = segment.search(pages, part);
            let mut condition = SegmentCondition::new(condition, segment, &self.scorer, true)?;
            for hit in of_part {
                if condition.holds(&search, hit.found.document)? {
                    push(&mut checked, *hit).map_err(IndexError::of_memory)?;
                }
            }
        }
        Ok(checked)
    }

    /// Offers all documents that may be among the best.
    fn best(&mut self, pages: &impl ReadPages, mut best: Best) -> Result<Best, IndexError> {
        let has_positions = self.opened.has_positions;
        let condition = self.scorer.condition();
        if condition.is_some() {
            best = best.without_floor(); // which would count documents that are excluded
        }
        if let Some(given) = &self.given {
            given.offer(pages, &self.opened, &self.scorer, &mut best)?;
            return Ok(best);
        }
        self.opened
            .pending
            .offer(pages, &self.scorer, |_| true, &mut best)?;
        for (number, segment) in self.opened.segments.iter().enumerate() {
            let search = segment.search(pages, number as u32 + 1);
            let lists = segment.counted();
            let terms = lists.map(|(term, list)| (list, self.scorer.term(*term)));
            let mut condition = condition
                .map(|condition| {
                    SegmentCondition::new(condition, segment, &self.scorer, has_positions)
                })
                .transpose()?;
            let condition = condition.as_mut();
            self.windows.search(&search, terms, condition, &mut best)?;
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
