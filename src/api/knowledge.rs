//! Knowledge items: documents that have a number and are fetched from a uri.

use pgrx::{JsonB, Uuid, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};
use serde_json::{Value, json};

use super::required;
use crate::{
    catalog::{collections::Collection, damage::explained, knowledge as items},
    error::Error,
    pg::transaction::require_no_block,
    sync::knowledge::{self, KnowledgeArguments, KnowledgeResult},
};

const STATUSES: [&str; 3] = ["pending", "active", "error"];

#[pg_extern]
#[allow(clippy::too_many_arguments)] // the function's signature in SQL
fn rag_create_knowledge(
    knowledge_id: Option<i64>,
    title: Option<&str>,
    uri: Option<&str>,
    document_type: pgrx::default!(Option<&str>, "'markdown'"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<i64, ErrorReport> {
    super::require_writer(c"rag_create_knowledge()", "register knowledge")?;
    let uri = Some(required("uri", uri)?);
    let document_type = Some(required("document_type", document_type)?);
    let collection = super::writable(collection)?;
    let id = match knowledge_id {
        Some(id) => id,
        None => items::next_number(collection.name.as_str())?,
    };
    knowledge::create(
        &collection,
        id,
        &KnowledgeArguments {
            title,
            uri,
            document_type,
            category,
            tags,
        },
    )?;
    Ok(id)
}

#[pg_extern]
#[allow(clippy::too_many_arguments)] // the function's signature in SQL
fn rag_alter_knowledge(
    knowledge_id: Option<i64>,
    title: pgrx::default!(Option<&str>, "NULL"),
    uri: pgrx::default!(Option<&str>, "NULL"),
    document_type: pgrx::default!(Option<&str>, "NULL"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
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
        },
    )?)
}

#[pg_extern]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_index_knowledge(
    knowledge_id: Option<i64>,
    title: pgrx::default!(Option<&str>, "NULL"),
    uri: pgrx::default!(Option<&str>, "NULL"),
    document_type: pgrx::default!(Option<&str>, "NULL"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(success, bool),
            name!(knowledge_id, i64),
            name!(document_id, Option<Uuid>),
            name!(chunks_indexed, i32),
            name!(content_hash, Option<String>),
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
        },
    )?;
    let success = indexed.success();
    let document = indexed.document.map(|id| crate::pg::spi::uuid(id.0));
    Ok(TableIterator::once((
        success,
        id,
        document,
        indexed.chunks as i32,
        indexed.content_hash,
        indexed.error,
    )))
}

/// `rag.knowledge_to_index`, for the procedure `rag_index_all`.
#[pg_extern(sql = false)]
fn knowledge_to_index(
    status: Option<&str>,
    collection: Option<&str>,
) -> Result<Vec<i64>, ErrorReport> {
    super::require_writer(c"rag_index_all()", "index knowledge")?;
    require_no_block("rag_index_all")?;
    let collection = super::writable(collection)?;
    to_index(&collection, status)
}

/// Returns the numbers of the items with a status. Items that no attempt has failed to index count
/// as active.
fn to_index(collection: &Collection, status: Option<&str>) -> Result<Vec<i64>, ErrorReport> {
    if let Some(status) = status.filter(|status| !STATUSES.contains(status)) {
        return Err(
            Error::invalid_parameter(format!("unknown status \"{status}\""))
                .hint(format!(
                    "Valid statuses are {}. NULL selects all items.",
                    STATUSES.join(", ")
                ))
                .into(),
        );
    }
    Ok(items::numbers(collection.name.as_str(), status)?)
}

/// Indexes items as the procedure `rag_index_all` does, in the caller's transaction.
#[pg_extern]
fn rag_index_knowledge_items(
    status: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<JsonB, ErrorReport> {
    super::require_writer(c"rag_index_knowledge_items()", "index knowledge")?;
    let collection = super::writable(collection)?;
    let ids = to_index(&collection, status)?;
    let mut results = vec![];
    for (place, id) in (1..).zip(&ids) {
        results.push(index_item(&collection, *id, place, ids.len() as i32)?);
    }
    Ok(summary(results))
}

/// `rag.index_knowledge_item`, for the procedure `rag_index_all`.
#[pg_extern(sql = false)]
fn index_knowledge_item(
    knowledge_id: i64,
    collection: &str,
    place: i32,
    of: i32,
) -> Result<JsonB, ErrorReport> {
    super::require_writer(c"rag_index_all()", "index knowledge")?;
    let collection = super::writable(Some(collection))?;
    Ok(JsonB(index_item(&collection, knowledge_id, place, of)?))
}

/// Indexes an item. A failure is part of the result.
fn index_item(
    collection: &Collection,
    knowledge_id: i64,
    place: i32,
    of: i32,
) -> Result<Value, Error> {
    let indexed =
        explained(|| knowledge::index(collection, knowledge_id, &KnowledgeArguments::default()));
    let indexed = match indexed {
        Ok(indexed) => indexed,
        Err(error) => {
            items::record_failure(collection.name.as_str(), knowledge_id, &error.message)?;
            KnowledgeResult::failed(error.message)
        }
    };
    let outcome = match &indexed.error {
        Some(error) => error.clone(),
        None if indexed.chunks == 1 => "1 chunk".into(),
        None => format!("{} chunks", indexed.chunks),
    };
    pgrx::notice!("knowledge item {knowledge_id} ({place} of {of}): {outcome}");
    Ok(json!({
        "knowledge_id": knowledge_id,
        "success": indexed.success(),
        "document_id": indexed.document.map(|id| id.to_string()),
        "chunks_indexed": indexed.chunks,
        "content_hash": indexed.content_hash,
        "error": indexed.error,
    }))
}

/// `rag.knowledge_summary`, for the procedure `rag_index_all`.
#[pg_extern(sql = false)]
fn knowledge_summary(results: Vec<JsonB>) -> JsonB {
    summary(results.into_iter().map(|result| result.0).collect())
}

fn summary(results: Vec<Value>) -> JsonB {
    let successful = results
        .iter()
        .filter(|result| result["success"] == true)
        .count();
    JsonB(json!({
        "total_items": results.len(),
        "successful": successful,
        "failed": results.len() - successful,
        "results": results,
    }))
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
fn rag_remove_knowledge(
    knowledge_id: i64,
    collection: pgrx::default!(&str, "'default'"),
) -> Result<bool, ErrorReport> {
    super::require_writer(c"rag_remove_knowledge()", "remove knowledge")?;
    let collection = super::writable(Some(collection))?;
    Ok(knowledge::remove(collection.name.as_str(), knowledge_id)?)
}
