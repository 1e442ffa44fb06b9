//! Indexes of the access method `rag_bm25`: describe one, merge its segments, and search it without
//! the planner. `sql/bm25.sql` declares these functions, because their argument is a `regclass`.

use pgrx::{
    itemptr::{item_pointer_get_both, item_pointer_set_all},
    iter::TableIterator,
    name, pg_extern,
    pg_sys::{self, panic::ErrorReport},
};
use rag_pages::Tid;

use crate::{
    error::Error,
    index::{am::open::OpenIndex, bm25},
};

#[pg_extern(sql = false, strict, parallel_restricted)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_bm25_info(
    index: pg_sys::Oid,
) -> Result<
    TableIterator<
        'static,
        (
            name!(text_config, String),
            name!(analysis, String),
            name!(accents, String),
            name!(positions, bool),
            name!(k1, f64),
            name!(b, f64),
            name!(documents, i64),
            name!(deleted, i64),
            name!(average_length, Option<f64>),
            name!(segments, i32),
            name!(pending_documents, i64),
            name!(pending_pages, i64),
            name!(pages, i64),
            name!(bytes, i64),
            name!(free_pages, i64),
            name!(in_flight_pages, i64),
            name!(hint, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let open = OpenIndex::open(index)?;
    let described = bm25::info::info(&open)?;
    let info = &described.info;
    let all = info.documents + info.dead;
    let average_length = (all > 0).then(|| info.total_length as f64 / all as f64);
    let free = info.free_blocks + u64::from(info.spare);
    let accents = if described.folds_accents {
        "fold"
    } else {
        "keep"
    };
    let unused = described.pages - i64::from(info.high_water);
    Ok(TableIterator::once((
        described.text_config,
        described.analysis.name().to_owned(),
        accents.to_owned(),
        info.has_positions,
        shortest(info.parameters.k1),
        shortest(info.parameters.b),
        info.documents as i64,
        info.dead as i64,
        average_length,
        info.segments as i32,
        info.pending_documents as i64,
        i64::from(info.pending_pages),
        described.pages,
        described.bytes,
        free as i64 + unused.max(0),
        i64::from(info.in_flight),
        described.hint,
    )))
}

fn place_of(tid: Tid) -> pg_sys::ItemPointerData {
    let mut place = pg_sys::ItemPointerData::default();
    item_pointer_set_all(&mut place, tid.block, tid.offset);
    place
}

/// Returns the number that is written as the user wrote it.
fn shortest(parameter: f32) -> f64 {
    parameter
        .to_string()
        .parse()
        .unwrap_or(f64::from(parameter))
}

#[pg_extern(sql = false, strict, volatile)]
fn rag_bm25_merge(index: pg_sys::Oid) -> Result<(), ErrorReport> {
    Ok(bm25::info::merge(index)?)
}

#[pg_extern(sql = false, strict, stable, parallel_restricted)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_bm25_search(
    index: pg_sys::Oid,
    query: &str,
    top_k: i32,
) -> Result<
    TableIterator<'static, (name!(ctid, pg_sys::ItemPointerData), name!(score, f64))>,
    ErrorReport,
> {
    let Ok(limit @ 1..) = usize::try_from(top_k) else {
        let message = format!("top_k must be greater than 0, not {top_k}");
        return Err(Error::invalid_parameter(message).into());
    };
    let open = OpenIndex::open(index)?;
    let found = bm25::search::search(&open, query, limit)?;
    let rows = found.into_iter().map(|(tid, score)| (place_of(tid), score));
    Ok(TableIterator::new(rows))
}

#[pg_extern(sql = false, strict, stable, parallel_restricted)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_bm25_scores(
    index: pg_sys::Oid,
    query: &str,
    rows: Vec<Option<pg_sys::ItemPointerData>>,
) -> Result<
    TableIterator<'static, (name!(ctid, pg_sys::ItemPointerData), name!(score, f64))>,
    ErrorReport,
> {
    let rows: Option<Vec<_>> = rows.into_iter().collect();
    let rows = rows.ok_or_else(|| Error::null_not_allowed("rows must not contain nulls"))?;
    let tids: Vec<Tid> = rows
        .iter()
        .map(|row| {
            let (block, offset) = item_pointer_get_both(*row);
            Tid { block, offset }
        })
        .collect();
    let open = OpenIndex::open(index)?;
    let scores = bm25::search::scores(&open, query, &tids)?;
    Ok(TableIterator::new(rows.into_iter().zip(scores)))
}
