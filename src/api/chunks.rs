//! Chunks that applications split themselves.

use pgrx::{JsonB, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use rag_protocol::identity::ChunkId;

use super::{parsed, required};
use crate::{
    cluster::operation_stats::{CountedOperation, Operation},
    pg::json::JsonbText,
    sync::given_chunks as given,
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
    let ids: Vec<ChunkId> = required("chunk_ids", chunk_ids)?
        .into_iter()
        .flatten()
        .map(|id| given::chunk_id(&id))
        .collect();
    Ok(given::delete(&collection, &ids)?)
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
