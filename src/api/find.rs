//! `rag_find`.

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_contract::HighlightSettings;
use rag_language::KEY;
use rag_retrieval::context::{fitted, fitted_end};
use serde_json::Value;

use super::search::{SearchArguments, notify_degraded};
use crate::{
    error::Error,
    search::{
        highlight::{SnippetKey, Snippets, with_snippets},
        search_all,
    },
};

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
    let mut rows = vec![];
    for hit in found.hits {
        let key = SnippetKey {
            collection: Some(hit.collection.clone()),
            query: query.map(str::to_owned),
            settings: None,
            embedding: None,
        };
        let new = || {
            let collection = super::readable(Some(&hit.collection))?;
            Snippets::new(collection, query, HighlightSettings::default(), None)
        };
        let language = hit.metadata.0.get(KEY).and_then(Value::as_str);
        let line = |snippets: &mut Snippets| snippets.line(&hit.content, language, SNIPPET_WIDTH);
        rows.push((
            hit.rank,
            fitted(hit.title_or_name(), TITLE_WIDTH),
            with_snippets(key, new, line)?,
            fitted_end(&hit.location(), LOCATION_WIDTH),
        ));
    }
    Ok(TableIterator::new(rows))
}
