//! Knowledge items: documents that have a number and are fetched from a uri.

use pgrx::{
    JsonB, Uuid, datum::TimestampWithTimeZone, iter::TableIterator, name, pg_extern,
    pg_sys::panic::ErrorReport,
};

use super::required;
use crate::{
    catalog::knowledge::{self as items, Status},
    error::Error,
    pg::spi::as_owner,
    run::session,
    sync::knowledge::{self, KnowledgeArguments},
};

#[pg_extern]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_create_knowledge(
    knowledge_id: Option<i64>,
    title: Option<&str>,
    uri: Option<&str>,
    document_type: pgrx::default!(Option<&str>, "'markdown'"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
    paths: pgrx::default!(Option<Vec<String>>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(knowledge_id, i64),
            name!(collection, String),
            name!(title, Option<String>),
            name!(uri, String),
            name!(document_type, String),
            name!(category, Option<String>),
            name!(tags, Option<String>),
            name!(paths, Vec<String>),
            name!(status, String),
            name!(created_at, Option<TimestampWithTimeZone>),
        ),
    >,
    ErrorReport,
> {
    super::require_writer(c"rag_create_knowledge()", "register knowledge")?;
    let uri = Some(required("uri", uri)?);
    let document_type = Some(required("document_type", document_type)?);
    let collection = super::writable(collection)?;
    let id = match knowledge_id {
        Some(id) => id,
        None => as_owner(|owner| items::next_number(owner, collection.name.as_str()))?,
    };
    let item = knowledge::create(
        &collection,
        id,
        &KnowledgeArguments {
            title,
            uri,
            document_type,
            category,
            tags,
            paths,
        },
    )?;
    let name = collection.name.as_str();
    Ok(TableIterator::once((
        id,
        name.to_string(),
        item.title,
        item.uri,
        item.kind.name().to_string(),
        item.category,
        item.tags,
        item.paths,
        Status::Pending.name().to_string(),
        as_owner(|owner| items::created_at(owner, name, id))?,
    )))
}

#[pg_extern]
#[allow(clippy::too_many_arguments)] // the function's signature in SQL
fn rag_alter_knowledge(
    knowledge_id: Option<i64>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    title: pgrx::default!(Option<&str>, "NULL"),
    uri: pgrx::default!(Option<&str>, "NULL"),
    document_type: pgrx::default!(Option<&str>, "NULL"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<&str>, "NULL"),
    paths: pgrx::default!(Option<Vec<String>>, "NULL"),
) -> Result<(), ErrorReport> {
    super::require_writer(c"rag_alter_knowledge()", "alter knowledge")?;
    let id = required("knowledge_id", knowledge_id)?;
    let collection = super::writable(collection)?;
    Ok(knowledge::alter(
        &collection,
        id,
        &KnowledgeArguments {
            title,
            uri,
            document_type,
            category,
            tags,
            paths,
        },
    )?)
}

#[pg_extern]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_index_knowledge(
    knowledge_id: Option<i64>,
    collection: pgrx::default!(Option<&str>, "'default'"),
    title: pgrx::default!(Option<&str>, "NULL"),
    uri: pgrx::default!(Option<&str>, "NULL"),
    document_type: pgrx::default!(Option<&str>, "NULL"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<&str>, "NULL"),
    paths: pgrx::default!(Option<Vec<String>>, "NULL"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(success, bool),
            name!(knowledge_id, i64),
            name!(document_id, Option<Uuid>),
            name!(chunks_indexed, i32),
            name!(content_hash, String),
            name!(error, Option<String>),
        ),
    >,
    ErrorReport,
> {
    super::require_writer(c"rag_index_knowledge()", "index knowledge")?;
    let id = required("knowledge_id", knowledge_id)?;
    let collection = super::writable(collection)?;
    let indexed = knowledge::index(
        &collection,
        id,
        &KnowledgeArguments {
            title,
            uri,
            document_type,
            category,
            tags,
            paths,
        },
    )?;
    let success = indexed.success();
    let document = indexed.document.map(|id| crate::pg::spi::uuid(id.0));
    Ok(TableIterator::once((
        success,
        id,
        document,
        indexed.chunks as i32,
        indexed.content_hash.unwrap_or_default(),
        indexed.error,
    )))
}

/// Indexes the items with a status. Items that no attempt has failed to index count as active.
#[pg_extern]
fn rag_index_all_knowledge(
    status: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<JsonB, ErrorReport> {
    super::require_writer(c"rag_index_all_knowledge()", "index knowledge")?;
    let collection = super::writable(collection)?;
    let status = status.map(parse_status).transpose()?;
    // what this transaction has registered, the worker does not see
    let seen = as_owner(|owner| items::numbers(owner, collection.name.as_str(), status))?.len();
    let summary = session::knowledge::index_all(&collection, status)?;
    let indexed = summary["total_items"].as_u64().unwrap_or_default() as usize;
    if indexed < seen {
        pgrx::notice!(
            "knowledge items that were not indexed because they are not committed: {}",
            seen - indexed
        );
    }
    Ok(JsonB(summary))
}

fn parse_status(status: &str) -> Result<Status, Error> {
    Status::parse(status).ok_or_else(|| {
        Error::invalid_parameter(format!("unknown status \"{status}\"")).hint(format!(
            "Valid statuses are {}. NULL selects all items.",
            Status::ALL.map(Status::name).join(", ")
        ))
    })
}

#[pg_extern]
fn rag_unindex_knowledge(
    knowledge_id: i64,
    collection: pgrx::default!(&str, "'default'"),
) -> Result<bool, ErrorReport> {
    super::require_writer(c"rag_unindex_knowledge()", "remove knowledge")?;
    let collection = super::writable(Some(collection))?;
    Ok(knowledge::unindex(collection.name.as_str(), knowledge_id)?)
}

#[pg_extern]
fn rag_drop_knowledge(
    knowledge_id: i64,
    collection: pgrx::default!(&str, "'default'"),
) -> Result<bool, ErrorReport> {
    super::require_writer(c"rag_drop_knowledge()", "drop a knowledge item")?;
    let collection = super::writable(Some(collection))?;
    Ok(knowledge::remove(collection.name.as_str(), knowledge_id)?)
}
