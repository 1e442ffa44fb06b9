//! `rag_duplicates`.

use pgrx::{Uuid, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use crate::{error::Error, search::duplicates::duplicates};

/// Texts that are less similar are not found reliably.
const MIN_SIMILARITY: f64 = 0.7;

#[pg_extern(stable, parallel_restricted, cost = 1000000)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_duplicates(
    collection: pgrx::default!(Option<&str>, "'default'"),
    similarity: pgrx::default!(Option<f64>, "0.9"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(group_number, i64),
            name!(similarity, f64),
            name!(title, Option<String>),
            name!(uri, String),
            name!(chunk_index, i32),
            name!(document_id, Uuid),
            name!(chunk_id, Uuid),
        ),
    >,
    ErrorReport,
> {
    let least = similarity.ok_or_else(|| Error::null_not_allowed("similarity must not be NULL"))?;
    if !(MIN_SIMILARITY..=1.0).contains(&least) {
        return Err(Error::invalid_parameter(format!(
            "similarity must be between {MIN_SIMILARITY} and 1, not {least}"
        ))
        .into());
    }
    let found = duplicates(&super::readable(collection)?, least)?;
    Ok(TableIterator::new(found.into_iter().map(|duplicate| {
        let chunk = duplicate.chunk;
        (
            duplicate.group,
            duplicate.similarity,
            chunk.title,
            chunk.uri,
            chunk.chunk_index,
            chunk.document_id,
            chunk.chunk_id,
        )
    })))
}
