//! `rag_find`.

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_retrieval::context::{fitted, fitted_end, snippet};
use rag_words::query::ParsedQuery;

use super::search::{SearchArguments, notify_degraded};
use crate::{error::Error, search::search_all};

/// The widths of the columns, in columns of a terminal: a row of psql has 98 of them.
const TITLE_WIDTH: usize = 22;
const SNIPPET_WIDTH: usize = 40;
const LOCATION_WIDTH: usize = 22;

#[pg_extern(stable, parallel_restricted, cost = 100000)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_find(
    query: Option<&str>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    top_k: pgrx::default!(Option<i32>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(rank, i32),
            name!(title, String),
            name!(snippet, String),
            name!(location, String),
        ),
    >,
    ErrorReport,
> {
    Ok(found(query, top_k, &[collection])?)
}

#[pg_extern(name = "rag_find", stable, parallel_restricted, cost = 100000)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_find_several(
    query: Option<&str>,
    collection: Option<Vec<Option<String>>>,
    top_k: pgrx::default!(Option<i32>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(rank, i32),
            name!(title, String),
            name!(snippet, String),
            name!(location, String),
        ),
    >,
    ErrorReport,
> {
    Ok(found(query, top_k, &super::elements(&collection))?)
}

/// Searches, and returns the rows of what was found.
fn found(
    query: Option<&str>,
    top_k: Option<i32>,
    collections: &[Option<&str>],
) -> Result<TableIterator<'static, (i32, String, String, String)>, Error> {
    let requests = SearchArguments {
        query,
        top_k,
        ..SearchArguments::default()
    }
    .into_requests(collections)?;
    let found = search_all(&requests)?;
    if let Some(why) = &found.degraded {
        notify_degraded(&requests[0], found.mode, why);
    }
    // words that are excluded are not looked for
    let query = ParsedQuery::parse(query.unwrap_or_default())
        .subject()
        .into_owned();
    Ok(TableIterator::new(found.hits.into_iter().map(move |hit| {
        (
            hit.rank,
            fitted(hit.title_or_name(), TITLE_WIDTH),
            snippet(&hit.content, &query, SNIPPET_WIDTH),
            fitted_end(&hit.location(), LOCATION_WIDTH),
        )
    })))
}
