//! Indexes of the extension's access methods: verify, describe and measure one. `sql/hnsw.sql`
//! declares these functions, because their argument is a `regclass`.

use pgrx::{
    iter::TableIterator,
    name, pg_extern,
    pg_sys::{self, panic::ErrorReport},
};
use rag_protocol::call::Purpose;

use crate::{
    error::Error,
    index::{RecallQueries, am::open::OpenIndex},
    models::embedding::embed_texts,
};

const MAX_QUERIES: i32 = 10_000;
const MAX_TOP_K: i32 = 1000;

#[pg_extern(sql = false, strict, parallel_restricted)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_check_index(
    index: pg_sys::Oid,
) -> Result<
    TableIterator<
        'static,
        (
            name!(level, Option<i32>),
            name!(block, Option<i64>),
            name!(slot, Option<i32>),
            name!(problem, String),
        ),
    >,
    ErrorReport,
> {
    let open = OpenIndex::open(index)?;
    let problems = (open.method.check)(&open)?;
    Ok(TableIterator::new(problems.into_iter().map(|found| {
        (found.level, found.block, found.slot, found.problem)
    })))
}

#[pg_extern(sql = false, strict, parallel_restricted)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_hnsw_info(
    index: pg_sys::Oid,
) -> Result<
    TableIterator<
        'static,
        (
            name!(metric, &'static str),
            name!(dimensions, Option<i32>),
            name!(m, i32),
            name!(ef_construction, i32),
            name!(vectors, i64),
            name!(nodes, i64),
            name!(tombstones, i64),
            name!(free_slots, i64),
            name!(levels, i32),
            name!(average_degree, f64),
            name!(pages, i64),
            name!(bytes, i64),
            name!(slots_per_page, i32),
            name!(code_dimensions, i32),
            name!(hint, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let open = OpenIndex::open(index)?;
    let Some(describe) = open.method.info else {
        let name = open.method.name.to_string_lossy();
        let message = format!("rag_hnsw_info does not describe {name} indexes");
        let hint = format!("Use {}.", open.method.info_function);
        return Err(Error::unsupported(message).hint(hint).into());
    };
    let info = describe(&open)?;
    Ok(TableIterator::once((
        info.metric,
        info.dimensions,
        info.m,
        info.ef_construction,
        info.vectors,
        info.nodes,
        info.tombstones,
        info.free_slots,
        info.levels,
        info.average_degree,
        info.pages,
        info.bytes,
        info.slots_per_page,
        info.code_dimensions,
        info.hint,
    )))
}

#[pg_extern(sql = false, strict, volatile)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_hnsw_recall(
    index: pg_sys::Oid,
    queries: i32,
    top_k: i32,
) -> Result<
    TableIterator<
        'static,
        (
            name!(ef_search, i32),
            name!(recall, f64),
            name!(milliseconds, f64),
            name!(exact_milliseconds, f64),
        ),
    >,
    ErrorReport,
> {
    check_range("queries", queries, MAX_QUERIES)?;
    check_range("top_k", top_k, MAX_TOP_K)?;
    let open = OpenIndex::open(index)?;
    let queries = RecallQueries::RandomRows(i64::from(queries));
    Ok(TableIterator::new(recall(&open, queries, top_k)?))
}

#[pg_extern(sql = false, volatile)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_hnsw_recall_of_texts(
    index: Option<pg_sys::Oid>,
    queries: Option<Vec<Option<String>>>,
    top_k: Option<i32>,
    model: Option<&str>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(ef_search, i32),
            name!(recall, f64),
            name!(milliseconds, f64),
            name!(exact_milliseconds, f64),
        ),
    >,
    ErrorReport,
> {
    let (Some(index), Some(queries), Some(top_k)) = (index, queries, top_k) else {
        return Ok(TableIterator::new(vec![]));
    };
    let queries: Option<Vec<String>> = queries.into_iter().collect();
    let queries =
        queries.ok_or_else(|| Error::null_not_allowed("queries must not contain nulls"))?;
    check_range("the number of queries", queries.len() as i32, MAX_QUERIES)?;
    check_range("top_k", top_k, MAX_TOP_K)?;
    let open = OpenIndex::open(index)?;
    let vectors = embed_texts(model, Purpose::Query, queries)?
        .into_iter()
        .map(Vec::from)
        .collect();
    let queries = RecallQueries::Vectors(vectors);
    Ok(TableIterator::new(recall(&open, queries, top_k)?))
}

fn recall(
    open: &OpenIndex,
    queries: RecallQueries,
    top_k: i32,
) -> Result<impl Iterator<Item = (i32, f64, f64, f64)> + use<>, Error> {
    let Some(measure) = open.method.recall else {
        let name = open.method.name.to_string_lossy();
        return Err(
            Error::unsupported(format!("cannot measure the recall of a {name} index"))
                .detail("Its searches find every row that matches."),
        );
    };
    let measured = measure(open, queries, top_k as usize)?;
    Ok(measured.into_iter().map(|row| {
        (
            row.ef_search,
            row.recall,
            row.milliseconds,
            row.exact_milliseconds,
        )
    }))
}

fn check_range(name: &str, value: i32, max: i32) -> Result<(), Error> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid_parameter(format!(
        "{name} must be between 1 and {max}, not {value}"
    )))
}
