//! `rag_bm25_search` and `rag_bm25_scores`: ranked rows, and the scores of given rows, for searches
//! that combine them with others.

use std::ops::ControlFlow;

use rag_bm25::Scan;
use rag_pages::{IndexError, ReadPages, Tid, memory::push};

use super::{
    cache, index_error,
    info::require_method,
    ranking::{Purpose, Ranking, ranking},
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
    let query = &ranking.query;
    let mut scan =
        Scan::begin(&pages, &opened.segments, query, statistics, work_mem()).map_err(failed)?;
    scan.expect(first);
    let mut rows = HeapRows::open(open.table(), index, Snapshot::of_statement());
    let matches = |rows: &mut HeapRows<'_>, tid| match ranking.needs_recheck(&opened) {
        true => rows
            .with_text(tid, |text| ranking.matches(text))
            .unwrap_or(Ok(false)),
        false => Ok(true),
    };
    let mut next_batch = |limit: usize| -> Result<Vec<(Tid, f64)>, Error> {
        let mut found = vec![];
        while found.len() < limit {
            pages.check_interrupts();
            let Some((tid, score)) = scan.next(&pages).map_err(failed)? else {
                break;
            };
            let Some(visible) = rows.visible_version(tid) else {
                continue;
            };
            if matches(&mut rows, tid)? {
                let added = push(&mut found, (visible, score));
                added.map_err(|e| failed(IndexError::of_memory(e)))?;
            }
        }
        Ok(found)
    };
    let mut limit = first;
    let result = loop {
        let found = match next_batch(limit) {
            Ok(found) => found,
            Err(e) => break Err(e),
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
    let mut scores = rag_bm25::score_rows(
        &opened.pages(index),
        &opened.segments,
        &ranking.query,
        statistics,
        &places,
    )
    .map_err(|e| index_error(*index, e))?;
    let may_match: Vec<bool> = scores.iter().map(|score| *score > 0.0).collect();
    let matches = checked(open, &ranking, &places, may_match, Ranking::matches)?;
    for (score, matches) in scores.iter_mut().zip(matches) {
        *score = if matches { *score } else { 0.0 };
    }
    Ok(scores)
}

/// Returns which rows that the caller has read have what a query requires, and nothing that it
/// excludes. They need not have its words.
///
/// # Errors
/// The index is corrupted.
pub fn allowed(open: &LockedIndex, words: &str, rows: &[Tid]) -> Result<Vec<bool>, Error> {
    let index = open.index();
    let ranking = ranking(Purpose::Search, index.id(), words.as_bytes())?;
    let opened = cache::open(index)?;
    let places = index_places(open.table(), rows);
    let pages = opened.pages(index);
    let allowed = rag_bm25::rows_that_may_hold(&pages, &opened.segments, &ranking.query, &places)
        .map_err(|e| index_error(*index, e))?;
    checked(open, &ranking, &places, allowed, Ranking::allows)
}

/// Asks the texts of rows for which the answer of the index is not certain.
fn checked(
    open: &LockedIndex,
    ranking: &Ranking,
    rows: &[Tid],
    mut answers: Vec<bool>,
    check: impl Fn(&Ranking, &[u8]) -> Result<bool, Error>,
) -> Result<Vec<bool>, Error> {
    if !ranking.needs_recheck(&*cache::open(open.index())?) {
        return Ok(answers);
    }
    let mut heap = HeapRows::open(open.table(), open.index(), Snapshot::of_statement());
    for (tid, answer) in rows.iter().zip(&mut answers).filter(|(_, answer)| **answer) {
        let checked = heap.with_text(*tid, |text| check(ranking, text));
        *answer = checked.unwrap_or(Ok(false))?;
    }
    heap.close();
    Ok(answers)
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
    rag_bm25::terms_in_row(&pages, &opened.segments, &ranking.query, place)
        .map_err(|e| index_error(*index, e))
}
