//! `rag_facets`.

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_filter::Facet;

use super::search::parse_filter;
use crate::{
    error::Error,
    pg::json::JsonbText,
    search::facets::{FacetRequest, facets},
};

/// The keys whose values are counted if the caller names none.
const DEFAULT_KEYS: [&str; 4] = ["source", "document_type", "category", "tags"];
const MAX_KEYS: usize = 20;
const MAX_TOP: i32 = 1000;

#[pg_extern(stable, parallel_restricted, cost = 100000)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_facets(
    query: Option<&str>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    keys: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    top: pgrx::default!(Option<i32>, "10"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(key, String),
            name!(value, String),
            name!(documents, i64),
            name!(chunks, i64),
        ),
    >,
    ErrorReport,
> {
    let top = top.ok_or_else(|| Error::null_not_allowed("top must not be NULL"))?;
    if !(1..=MAX_TOP).contains(&top) {
        return Err(Error::invalid_parameter(format!(
            "top must be between 1 and {MAX_TOP}, not {top}"
        ))
        .into());
    }
    let query = query.filter(|query| !query.trim().is_empty());
    let request = FacetRequest {
        query: query.map(str::to_owned),
        facets: parse_keys(keys)?,
        filter: parse_filter(filter)?,
        collection: super::readable(collection)?,
        top,
    };
    let counts = facets(request)?.into_iter();
    Ok(TableIterator::new(counts.map(|count| {
        (count.key, count.value, count.documents, count.chunks)
    })))
}

/// Reads the argument `keys`. A key that is named twice counts once.
fn parse_keys(keys: Option<Vec<Option<String>>>) -> Result<Vec<Facet>, Error> {
    let keys = keys.unwrap_or_else(|| DEFAULT_KEYS.map(|key| Some(key.to_owned())).to_vec());
    if keys.is_empty() || keys.len() > MAX_KEYS {
        return Err(Error::invalid_parameter(format!(
            "keys must have 1 to {MAX_KEYS} elements, not {}",
            keys.len()
        )));
    }
    let mut facets: Vec<Facet> = vec![];
    for (number, key) in (1..).zip(keys) {
        let path = format!("keys[{number}]");
        let key = key.ok_or_else(|| Error::null_not_allowed(format!("{path} must not be NULL")))?;
        let facet = Facet::parse(&key, &path)
            .map_err(|e| Error::invalid_parameter(format!("invalid keys: {e}")).hint(e.hint))?;
        if !facets.contains(&facet) {
            facets.push(facet);
        }
    }
    Ok(facets)
}
