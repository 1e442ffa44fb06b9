//! `rag_explain_search`.

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::search::SearchArguments;
use crate::{pg::json::JsonbText, search::explain::explain, types::vector::Vector};

#[pg_extern(stable, parallel_restricted, cost = 100000)]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_explain_search(
    query: Option<&str>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    top_k: pgrx::default!(Option<i32>, "NULL"),
    mode: pgrx::default!(Option<&str>, "NULL"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    settings: pgrx::default!(Option<JsonbText>, "NULL"),
    query_embedding: pgrx::default!(Option<Vector<'_>>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(step, String),
            name!(detail, String),
            name!(rows, Option<i64>),
            name!(pages, Option<i64>),
            name!(milliseconds, Option<f64>),
        ),
    >,
    ErrorReport,
> {
    let request = SearchArguments {
        query,
        collection,
        top_k,
        mode,
        filter,
        settings,
        query_embedding,
        ..SearchArguments::default()
    }
    .into_request()?;
    let steps = explain(request)?;
    Ok(TableIterator::new(steps.into_iter().map(|step| {
        (
            step.step.to_owned(),
            step.detail,
            step.rows,
            step.pages,
            step.milliseconds,
        )
    })))
}
