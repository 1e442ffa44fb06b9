//! Collections: create, drop, look at.

use pgrx::{JsonB, datum::TimestampWithTimeZone, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::catalog::{
    chunks,
    collections::{self, Collection, NewCollection},
    name::Name,
};

#[pg_extern]
fn rag_create_collection(
    name: Option<&str>,
    retriever: pgrx::default!(Option<&str>, "'default'"),
    chunk_size: pgrx::default!(Option<i32>, "NULL"),
    chunk_overlap: pgrx::default!(Option<i32>, "NULL"),
    metadata_whitelist: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    description: pgrx::default!(Option<&str>, "NULL"),
    chunk_unit: pgrx::default!(Option<&str>, "'characters'"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_create_collection()", "create a collection")?;
    let name = Name::parse("collection", required("name", name)?)?;
    let retriever = required("retriever", retriever)?;
    let metadata_whitelist = super::without_nulls("metadata_whitelist", metadata_whitelist)?;
    let chunk_unit = required("chunk_unit", chunk_unit)?;
    collections::checked_splitting(chunk_size, chunk_overlap, chunk_unit)?;
    let new = NewCollection {
        name: &name,
        retriever,
        chunk_size,
        chunk_overlap,
        chunk_unit,
        metadata_whitelist,
        description,
    };
    Ok(collections::create(new)?)
}

#[pg_extern]
fn rag_drop_collection(name: &str, if_exists: pgrx::default!(bool, "false")) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_drop_collection()", "drop a collection")?;
    match Collection::find(name)? {
        Some(collection) => Ok(collections::drop(&collection)?),
        None if if_exists => {
            pgrx::notice!("collection \"{name}\" does not exist, skipping");
            Ok(())
        }
        None => Err(Collection::missing(name).into()),
    }
}

#[pg_extern(stable)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_collection_status(
    name: &str,
) -> Result<
    TableIterator<
        'static,
        (
            name!(has_index, bool),
            name!(document_count, i64),
            name!(chunk_count, i64),
            name!(embedding_dimension, Option<i32>),
            name!(index_type, String),
            name!(created_at, TimestampWithTimeZone),
            name!(updated_at, TimestampWithTimeZone),
            name!(total_size_bytes, i64),
            name!(table_bytes, i64),
            name!(index_bytes, i64),
            name!(state, String),
            name!(detail, Option<String>),
        ),
    >,
    ErrorReport,
> {
    let s = collections::status(&Collection::get(name)?)?;
    Ok(TableIterator::once((
        s.is_indexed,
        s.documents,
        s.chunks,
        s.dimensions,
        if s.is_indexed { "hnsw" } else { "flat" }.to_string(),
        s.created_at,
        s.updated_at,
        s.table_bytes + s.index_bytes,
        s.table_bytes,
        s.index_bytes,
        if s.errors == 0 { "ready" } else { "degraded" }.to_string(),
        (s.errors > 0)
            .then(|| format!("{} of {} documents could not be indexed; rag.documents says why", s.errors, s.documents)),
    )))
}

#[pg_extern(stable)]
fn rag_stats(collection: pgrx::default!(&str, "'default'")) -> Result<JsonB, ErrorReport> {
    let collection = Collection::get(collection)?;
    let (chunks, items) = chunks::counts(collection.name.as_str())?;
    Ok(JsonB(serde_json::json!({
        "total_chunks": chunks,
        "unique_knowledge_items": items,
        "collection_name": collection.name.as_str(),
        "embedding_model": collection.model.map(|m| m.name),
    })))
}
