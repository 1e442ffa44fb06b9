//! `rag_bm25_search` and `rag_bm25_scores`: ranked rows, and the scores of given rows, for searches
//! that combine them with others.

use std::ops::ControlFlow;

use rag_bm25::Scan;
use rag_pages::{IndexError, ReadPages, Tid, memory::push};

use super::{
    cache, index_error,
    info::require_method,
    ranking::{Purpose, ranking},
};
use crate::{
    error::Error,
    index::am::{
        heap::{HeapRows, Snapshot, index_places},
        open::OpenIndex,
        relation::LockedIndex,
    },
    pg::memory::work_mem,
};

/// Returns the places and scores of the best `limit` rows for a query that the current snapshot
/// sees, the best first.
///
/// # Errors
/// It is no index of `rag_bm25`, or it is corrupted.
pub fn search(open: &OpenIndex, words: &str, limit: usize) -> Result<Vec<(Tid, f64)>, Error> {
    require_method(open)?;
    let mut found = vec![];
    each_batch(open, words, limit, |rows| {
        found = rows;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// Calls `f` with the rows for a query that the current snapshot sees, the best first: with at most
/// `first` rows, then with twice as many, and so on until `f` breaks or no row is left. The index
/// is known to be one of `rag_bm25`.
///
/// # Errors
/// The index is corrupted, or `f` fails.
pub fn each_batch(
    open: &LockedIndex,
    words: &str,
    first: usize,
    mut f: impl FnMut(Vec<(Tid, f64)>) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let index = open.index();
    let ranking = ranking(Purpose::Search, index.id(), words.as_bytes())?;
    let opened = cache::open(index)?;
    let pages = opened.pages(index);
    let failed = |e| index_error(*index, e);
    let statistics = Some(&ranking.statistics);
    let terms = &ranking.terms;
    let mut scan =
        Scan::begin(&pages, &opened.segments, terms, statistics, work_mem()).map_err(failed)?;
    scan.expect(first);
    let mut rows = HeapRows::open(open.table(), index, Snapshot::of_statement());
    let mut next_batch = |limit: usize| {
        let mut found = vec![];
        while found.len() < limit {
            pages.check_interrupts();
            let Some((tid, score)) = scan.next(&pages)? else {
                break;
            };
            if let Some(visible) = rows.visible_version(tid) {
                push(&mut found, (visible, score)).map_err(IndexError::of_memory)?;
            }
        }
        Ok(found)
    };
    let mut limit = first;
    let result = loop {
        let found = match next_batch(limit) {
            Ok(found) => found,
            Err(e) => break Err(failed(e)),
        };
        let is_last = found.len() < limit;
        match f(found) {
            Ok(ControlFlow::Continue(())) if !is_last => limit = limit.saturating_mul(2),
            result => break result.map(|_| ()),
        }
    };
    rows.close();
    result
}

/// Returns the scores of rows for a query, 0 for a row that does not match.
///
/// # Errors
/// It is no index of `rag_bm25`, or it is corrupted.
pub fn scores(open: &OpenIndex, words: &str, rows: &[Tid]) -> Result<Vec<f64>, Error> {
    require_method(open)?;
    scores_of(open, words, rows)
}

/// Returns the scores of rows that the caller has read, by an index that is known to be one of
/// `rag_bm25`.
///
/// # Errors
/// The index is corrupted.
pub fn scores_of(open: &LockedIndex, words: &str, rows: &[Tid]) -> Result<Vec<f64>, Error> {
    let index = open.index();
    let ranking = ranking(Purpose::Search, index.id(), words.as_bytes())?;
    let opened = cache::open(index)?;
    let places = index_places(open.table(), rows);
    let statistics = Some(&ranking.statistics);
    rag_bm25::score_rows(
        &opened.pages(index),
        &opened.segments,
        &ranking.terms,
        statistics,
        &places,
    )
    .map_err(|e| index_error(*index, e))
}

/// Returns which terms of a query a row has that the caller has read, by an index that is known to
/// be one of `rag_bm25`.
///
/// # Errors
/// The index is corrupted.
pub fn terms_in(open: &LockedIndex, words: &str, row: Tid) -> Result<Vec<bool>, Error> {
    let index = open.index();
    let ranking = ranking(Purpose::Search, index.id(), words.as_bytes())?;
    let opened = cache::open(index)?;
    let [place] = index_places(open.table(), &[row])[..] else {
        return Err(Error::internal("a row has several places in an index"));
    };
    let pages = opened.pages(index);
    rag_bm25::terms_in_row(&pages, &opened.segments, &ranking.terms, place)
        .map_err(|e| index_error(*index, e))
}
