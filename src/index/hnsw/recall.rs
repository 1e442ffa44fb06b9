//! `rag_index_recall`: how many of the true nearest neighbours the index finds, and how fast, for
//! several values of `rag.ef_search`.
//!
//! Queries are texts, or vectors of random rows. These find themselves and their like, and so are
//! easier than questions in words. The truth comes from one pass over the table that computes the
//! distance of each row to each query; what one exact query takes is measured with a few of them.

use std::{ffi::CString, time::Instant};

use pgrx::{
    Spi,
    datum::DatumWithOid,
    iter::TableIterator,
    name, pg_extern,
    pg_sys::{self, panic::ErrorReport},
};
use rag_ann::code::Metric;

use super::{
    functions::{OpenIndex, read_one},
    is_indexable,
    opclass::exact_distance,
    rows::RowMemory,
};
use crate::{
    engine::client::embed, error::Error, pg::guc::with_settings, settings,
    types::vector::OwnedVector,
};

/// Values of `rag.ef_search` that are tried, beside the present one.
const EF_SEARCH: [usize; 5] = [20, 40, 80, 160, 320];
/// Queries whose time without the index is measured.
const EXACT_QUERIES: usize = 3;
/// What is as near as the kth nearest, but for rounding, is one of the nearest, too.
const TOLERANCE: f64 = 1e-6;
const MAX_QUERIES: i32 = 10_000;
const MAX_K: i32 = 1000;
/// Rows that are read at a time.
const PORTION: i64 = 1000;

struct Measured {
    ef_search: usize,
    recall: f64,
    milliseconds: f64,
    exact_milliseconds: f64,
}

impl Measured {
    fn row(self) -> (i32, f64, f64, f64) {
        (
            self.ef_search as i32,
            self.recall,
            self.milliseconds,
            self.exact_milliseconds,
        )
    }
}

#[pg_extern(sql = false, strict, volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_index_recall(
    index: pg_sys::Oid,
    queries: i32,
    k: i32,
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
    check_range("k", k, MAX_K)?;
    let open = OpenIndex::open(index)?;
    let measured = open.as_owner(|| {
        let (expression, condition) = open.expression()?;
        let rows = format!(
            "SELECT {expression} FROM ONLY {} WHERE {condition}",
            open.table_name()
        );
        let random = format!("{rows} ORDER BY pg_catalog.random() LIMIT $1");
        measure(
            &open,
            &random_vectors(&random, i64::from(queries), open.metric())?,
            k as usize,
        )
    })?;
    Ok(TableIterator::new(measured.into_iter().map(Measured::row)))
}

#[pg_extern(sql = false, volatile, parallel_unsafe)]
#[allow(clippy::type_complexity)] // the function's signature in SQL
fn rag_index_recall_of_texts(
    index: Option<pg_sys::Oid>,
    queries: Option<Vec<Option<String>>>,
    k: Option<i32>,
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
    let (Some(index), Some(queries), Some(k)) = (index, queries, k) else {
        return Ok(TableIterator::new(vec![]));
    };
    let queries: Option<Vec<String>> = queries.into_iter().collect();
    let queries =
        queries.ok_or_else(|| Error::null_not_allowed("queries must not contain nulls"))?;
    check_range("the number of queries", queries.len() as i32, MAX_QUERIES)?;
    check_range("k", k, MAX_K)?;
    let open = OpenIndex::open(index)?;
    let mut vectors: Vec<Vec<f32>> = embed(queries, model)?.into_iter().map(Vec::from).collect();
    vectors.retain(|vector| is_indexable(open.metric(), vector));
    let measured = open.as_owner(|| measure(&open, &vectors, k as usize))?;
    Ok(TableIterator::new(measured.into_iter().map(Measured::row)))
}

fn check_range(name: &str, value: i32, max: i32) -> Result<(), Error> {
    if (1..=max).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid_parameter(format!(
        "{name} must be between 1 and {max}, not {value}"
    )))
}

fn measure(open: &OpenIndex, vectors: &[Vec<f32>], k: usize) -> Result<Vec<Measured>, Error> {
    let (expression, condition) = open.expression()?;
    let (table, operator, metric) = (open.table_name(), open.operator()?, open.metric());
    if vectors.is_empty() {
        return Ok(vec![]);
    }
    let rows = format!("SELECT {expression} FROM ONLY {table} WHERE {condition}");
    let truth = nearest_distances(&rows, vectors, k, metric)?;
    let possible: usize = truth.iter().map(Vec::len).sum();
    if possible == 0 {
        check_dimensions(&expression, &table, &condition, vectors[0].len())?;
        return Ok(vec![]);
    }

    let distance = format!("({expression}) {operator} $1");
    let nearest = format!(
        "SELECT {distance} FROM ONLY {table} WHERE {condition} ORDER BY {distance} LIMIT {k}"
    );
    let some = &vectors[..vectors.len().min(EXACT_QUERIES)];
    let exact = [
        (c"plan_cache_mode", c"force_generic_plan"),
        (c"enable_indexscan", c"off"),
        (c"enable_seqscan", c"on"),
        (c"max_parallel_workers_per_gather", c"0"),
    ];
    let (_, exact_milliseconds) = with_settings(&exact, || run(&nearest, some))?;

    let mut values = EF_SEARCH.to_vec();
    values.push(settings::ef_search());
    values.sort_unstable();
    values.dedup();
    let mut measured = vec![];
    for ef_search in values {
        let ef = CString::new(ef_search.to_string()).unwrap_or_default();
        let indexed = [
            (c"plan_cache_mode", c"force_generic_plan"),
            (c"rag.ef_search", ef.as_c_str()),
            (c"enable_indexscan", c"on"),
            (c"enable_seqscan", c"off"),
            (c"enable_bitmapscan", c"off"),
            (c"enable_sort", c"off"),
        ];
        let (found, milliseconds) = with_settings(&indexed, || run(&nearest, vectors))?;
        let right: usize = found
            .iter()
            .zip(&truth)
            .map(|(found, truth)| count_right(found, truth))
            .sum();
        let recall = right as f64 / possible as f64;
        measured.push(Measured {
            ef_search,
            recall,
            milliseconds,
            exact_milliseconds,
        });
    }
    Ok(measured)
}

/// # Errors
/// The vectors of the table are of other dimensions than the queries.
fn check_dimensions(
    expression: &str,
    table: &str,
    condition: &str,
    dimensions: usize,
) -> Result<(), Error> {
    let statement = format!(
        "SELECT (SELECT rag_functions.vector_dims({expression}) FROM ONLY {table} WHERE {condition} LIMIT 1)"
    );
    match read_one::<i32>(&statement, &[])? {
        Some(expected) if expected as usize != dimensions => Err(Error::data_exception(format!(
            "expected {expected} dimensions, not {dimensions}"
        ))
        .hint("Queries must be embedded by the model that the vectors of the index are of: see the argument model.")),
        _ => Ok(()),
    }
}

/// How many of the found are as near as the farthest of the true nearest.
fn count_right(found: &[f64], truth: &[f64]) -> usize {
    let Some(farthest) = truth.last() else {
        return 0;
    };
    let limit = farthest + TOLERANCE * farthest.abs().max(1e-3);
    found.iter().filter(|distance| **distance <= limit).count()
}

fn random_vectors(statement: &str, count: i64, metric: Metric) -> Result<Vec<Vec<f32>>, Error> {
    let vectors = with_settings(&[(c"enable_indexscan", c"off")], || {
        Spi::connect(|client| {
            let rows = client.select(statement, None, &[DatumWithOid::from(count)])?;
            Ok::<_, Error>(
                rows.map(|row| row.get::<OwnedVector>(1))
                    .collect::<Result<Vec<_>, _>>()?,
            )
        })
    })?;
    Ok(vectors
        .into_iter()
        .flatten()
        .map(Vec::from)
        .filter(|vector: &Vec<f32>| is_indexable(metric, vector))
        .collect())
}

/// The `k` least distances to each of the queries among the vectors that `statement` selects, in
/// ascending order.
fn nearest_distances(
    statement: &str,
    queries: &[Vec<f32>],
    k: usize,
    metric: Metric,
) -> Result<Vec<Vec<f64>>, Error> {
    let distance = exact_distance(metric);
    let mut nearest: Vec<Vec<f64>> = vec![vec![]; queries.len()];
    let mut add = |vector: &[f32]| {
        for (query, nearest) in queries.iter().zip(&mut nearest) {
            if query.len() != vector.len() {
                continue;
            }
            let distance = distance(query, vector);
            if distance.is_nan()
                || (nearest.len() == k && nearest.last().is_some_and(|worst| distance >= *worst))
            {
                continue;
            }
            let at = nearest.partition_point(|other| *other <= distance);
            nearest.insert(at, distance);
            nearest.truncate(k);
        }
    };
    Spi::connect(|client| {
        let memory = RowMemory::new();
        let mut rows = client.try_open_cursor(statement, &[])?;
        while !rows.fetch(PORTION as _)?.is_empty() {
            // SAFETY: what was just fetched; it is freed before the next is, not only in the end.
            unsafe {
                let table = pg_sys::SPI_tuptable;
                for i in 0..pg_sys::SPI_processed as usize {
                    let mut is_null = false;
                    let vector = pg_sys::SPI_getbinval(
                        *(*table).vals.add(i),
                        (*table).tupdesc,
                        1,
                        &mut is_null,
                    );
                    if !is_null {
                        memory.with_vector(vector, &mut add);
                    }
                }
                pg_sys::SPI_freetuptable(table);
            }
        }
        Ok::<_, Error>(())
    })?;
    if metric == Metric::L2 {
        // the operator's distance is the root
        nearest
            .iter_mut()
            .flatten()
            .for_each(|distance| *distance = distance.sqrt());
    }
    Ok(nearest)
}

/// Runs a statement for each of the vectors; the distances that it finds, and the milliseconds of
/// one.
fn run(statement: &str, vectors: &[Vec<f32>]) -> Result<(Vec<Vec<f64>>, f64), Error> {
    Spi::connect(|client| {
        let vector_type = <OwnedVector as pgrx::IntoDatum>::type_oid();
        let prepared = client.prepare(statement, &[pgrx::PgOid::from(vector_type)])?;
        let mut results = Vec::with_capacity(vectors.len());
        let mut seconds = 0.0;
        for vector in vectors {
            pgrx::check_for_interrupts!();
            let argument = DatumWithOid::from(OwnedVector::new(vector.clone())?);
            let start = Instant::now();
            let rows = client.select(&prepared, None, &[argument])?;
            seconds += start.elapsed().as_secs_f64();
            let distances: Result<Vec<_>, pgrx::spi::Error> =
                rows.map(|row| row.get::<f64>(1)).collect();
            results.push(distances?.into_iter().flatten().collect());
        }
        Ok((results, seconds * 1000.0 / vectors.len() as f64))
    })
}
