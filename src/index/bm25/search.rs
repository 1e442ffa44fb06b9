//! `rag_bm25_search` and `rag_bm25_scores`: ranked rows, and the scores of given rows, for searches
//! that combine them with others.

use rag_bm25::Scan;
use rag_pages::{IndexError, ReadPages, Tid, memory::push};

use super::{cache, damaged, info::require_method, ranking::ranking};
use crate::{
    error::Error,
    index::am::{
        heap::{HeapRows, Snapshot, index_place},
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
    let index = open.index();
    let ranking = ranking(index.id(), words.as_bytes())?;
    let opened = cache::open(index)?;
    let pages = opened.pages(index);
    let statistics = Some(&ranking.statistics);
    let mut scan = Scan::begin(
        &pages,
        &opened.segments,
        &ranking.terms,
        statistics,
        work_mem(),
    )
    .map_err(|damage| damaged(*index, damage))?;
    let mut rows = HeapRows::open(open.table(), index, Snapshot::of_statement());
    let mut found = vec![];
    while found.len() < limit {
        pages.check_interrupts();
        let next = scan.next(&pages);
        let Some((tid, score)) = next.map_err(|damage| damaged(*index, damage))? else {
            break;
        };
        if let Some(visible) = rows.visible_version(tid) {
            push(&mut found, (visible, score))
                .map_err(|memory| damaged(*index, IndexError::of_memory(memory)))?;
        }
    }
    rows.close();
    Ok(found)
}

/// Returns the scores of rows for a query, 0 for a row that does not match.
///
/// # Errors
/// It is no index of `rag_bm25`, or it is corrupted.
pub fn scores(open: &OpenIndex, words: &str, rows: &[Tid]) -> Result<Vec<f64>, Error> {
    require_method(open)?;
    scores_of(open, words, rows)
}

/// Does the same for an index that is known to be one of `rag_bm25`, and rows that the caller has
/// read.
///
/// # Errors
/// The index is corrupted.
pub fn scores_of(open: &LockedIndex, words: &str, rows: &[Tid]) -> Result<Vec<f64>, Error> {
    let index = open.index();
    let ranking = ranking(index.id(), words.as_bytes())?;
    let opened = cache::open(index)?;
    let places: Vec<Tid> = rows
        .iter()
        .map(|tid| index_place(open.table(), *tid))
        .collect();
    let statistics = Some(&ranking.statistics);
    rag_bm25::score_rows(
        &opened.pages(index),
        &opened.segments,
        &ranking.terms,
        statistics,
        &places,
    )
    .map_err(|damage| damaged(*index, damage))
}
