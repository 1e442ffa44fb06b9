//! Chunks that applications split themselves.

use pgrx::{JsonB, Uuid, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_protocol::identity::ChunkId;

use super::{parsed, required, search::parse_filter};
use crate::{
    cluster::operation_stats::{CountedOperation, Operation},
    pg::json::JsonbText,
    search::fetch,
    sync::given_chunks as given,
    types::vector::OwnedVector,
};

#[pg_extern]
fn rag_upsert_chunks(
    chunks: Option<JsonbText>,
    collection: Option<&str>,
    skip_existing: pgrx::default!(Option<bool>, "true"),
) -> Result<i64, ErrorReport> {
    super::prevent_on_standby(c"rag_upsert_chunks()");
    let collection = super::writable(collection)?;
    let skip_existing = required("skip_existing", skip_existing)?;
    let chunks = given::read_chunks(&collection, required("chunks", parsed("chunks", chunks)?)?)?;
    let name = collection.name.as_str();
    let counted = CountedOperation::begin(Operation::UpsertChunks, name, chunks.len());
    let written = given::upsert(&collection, &chunks, skip_existing)?;
    counted.succeed();
    Ok(written)
}

#[pg_extern]
fn rag_delete_chunks(
    chunk_ids: Option<Vec<Option<String>>>,
    collection: Option<&str>,
) -> Result<i64, ErrorReport> {
    super::prevent_on_standby(c"rag_delete_chunks()");
    let collection = super::writable(collection)?;
    let ids = parse_ids(required("chunk_ids", chunk_ids)?);
    Ok(given::delete(&collection, &ids)?)
}

/// Reads the ids of chunks. NULL stands for none.
fn parse_ids(ids: Vec<Option<String>>) -> Vec<ChunkId> {
    let ids = ids.into_iter().flatten();
    ids.map(|id| given::chunk_id(&id)).collect()
}

#[pg_extern(stable, parallel_restricted, cost = 100000)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_get_chunks(
    collection: pgrx::default!(Option<&str>, "'default'"),
    chunk_ids: pgrx::default!(Option<Vec<Option<String>>>, "NULL"),
    filter: pgrx::default!(Option<JsonbText>, "NULL"),
    with_embeddings: pgrx::default!(Option<bool>, "false"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(chunk_id, Uuid),
            name!(given_id, Option<String>),
            name!(document_id, Uuid),
            name!(uri, String),
            name!(title, Option<String>),
            name!(chunk_index, i32),
            name!(content, String),
            name!(metadata, JsonB),
            name!(category, Option<String>),
            name!(tags, Option<Vec<String>>),
            name!(page, Option<i32>),
            name!(embedding, Option<OwnedVector>),
        ),
    >,
    ErrorReport,
> {
    let collection = super::readable(collection)?;
    let ids = chunk_ids.map(parse_ids);
    let filter = parse_filter(filter)?;
    let with_embeddings = required("with_embeddings", with_embeddings)?;
    let mut chunks = fetch::open(collection, ids.as_deref(), &filter, with_embeddings)?;
    let chunks = std::iter::from_fn(move || chunks.next().unwrap_or_else(|error| error.raise()));
    Ok(TableIterator::new(chunks.map(|chunk| {
        (
            chunk.chunk_id,
            chunk.given_id,
            chunk.document_id,
            chunk.uri,
            chunk.title,
            chunk.chunk_index,
            chunk.content,
            chunk.metadata,
            chunk.category,
            chunk.tags,
            chunk.page,
            chunk.embedding,
        )
    })))
}

#[pg_extern]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_apply_plan(
    docs: Option<JsonbText>,
    collection: Option<&str>,
) -> Result<
    TableIterator<
        'static,
        (
            name!(deleted, i64),
            name!(changed, i64),
            name!(unchanged, i64),
            name!(missing_chunks, i64),
            name!(deleted_chunks, i64),
        ),
    >,
    ErrorReport,
> {
    super::prevent_on_standby(c"rag_apply_plan()");
    let collection = super::writable(collection)?;
    let plan = given::read_plan(&collection, required("docs", parsed("docs", docs)?)?)?;
    let done = given::apply_plan(&collection, &plan)?;
    Ok(TableIterator::once((
        done.deleted,
        done.changed,
        done.unchanged,
        done.missing_chunks,
        done.deleted_chunks,
    )))
}

#[pg_extern(stable, parallel_restricted)]
fn rag_chunk_state(collection: Option<&str>) -> Result<JsonB, ErrorReport> {
    let collection = super::readable(collection)?;
    Ok(JsonB(given::state::of(&collection)?))
}
