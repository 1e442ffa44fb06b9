//! Knowledge items: documents with a number of the user's, fetched from a uri.

use pgrx::{Uuid, iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::{
    catalog::{
        self,
        collections::Collection,
        knowledge::{self as items, Item},
    },
    error::Error,
    knowledge::{self, Indexed},
};

const TYPES: [&str; 3] = ["markdown", "website", "folder"];
const STATUSES: [&str; 3] = ["pending", "active", "error"];

#[pg_extern]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // the function's signature in SQL
fn rag_index_knowledge(
    knowledge_id: Option<i64>,
    title: Option<&str>,
    uri: Option<&str>,
    document_type: pgrx::default!(Option<&str>, "'markdown'"),
    category: pgrx::default!(Option<&str>, "NULL"),
    tags: pgrx::default!(Option<&str>, "NULL"),
    collection: pgrx::default!(Option<&str>, "'default'"),
    defer: pgrx::default!(bool, "false"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(success, bool),
            name!(document_id, Option<Uuid>),
            name!(chunks_indexed, i32),
            name!(content_hash, Option<String>),
            name!(error, Option<String>),
        ),
    >,
    ErrorReport,
> {
    super::require_writer(c"rag_index_knowledge()", "index knowledge")?;
    let item = Item {
        id: required("knowledge_id", knowledge_id)?,
        title: title.map(str::trim).filter(|title| !title.is_empty()).map(String::from),
        uri: required("uri", uri)?.trim().to_string(),
        kind: required("document_type", document_type)?.to_string(),
        category: category.map(String::from),
        tags: tags.map(String::from),
    };
    if !TYPES.contains(&item.kind.as_str()) {
        return Err(Error::invalid_parameter(format!("unknown document_type \"{}\"", item.kind))
            .hint(format!("Types: {}.", TYPES.join(", ")))
            .into());
    }
    let collection = Collection::get(required("collection", collection)?)?;
    items::register(collection.name.as_str(), &item)?;
    if defer {
        return Ok(TableIterator::new(vec![]));
    }
    let indexed = knowledge::index(&item, &collection)?;
    Ok(TableIterator::once(row(indexed)))
}

type Row = (bool, Option<Uuid>, i32, Option<String>, Option<String>);

fn row(indexed: Indexed) -> Row {
    let id = indexed.document.map(|id| catalog::uuid(id.0));
    (indexed.success(), id, indexed.chunks as i32, indexed.content_hash, indexed.error)
}

#[pg_extern]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_index_all(
    status: pgrx::default!(Option<&str>, "'active'"),
    collection: pgrx::default!(Option<&str>, "'default'"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(knowledge_id, i64),
            name!(success, bool),
            name!(document_id, Option<Uuid>),
            name!(chunks_indexed, i32),
            name!(content_hash, Option<String>),
            name!(error, Option<String>),
        ),
    >,
    ErrorReport,
> {
    super::require_writer(c"rag_index_all()", "index knowledge")?;
    let status = required("status", status)?;
    if !STATUSES.contains(&status) {
        return Err(Error::invalid_parameter(format!("unknown status \"{status}\""))
            .hint(format!("Statuses: {}.", STATUSES.join(", ")))
            .into());
    }
    let name = required("collection", collection)?;
    Collection::get(name)?;
    let mut rows = vec![];
    for item in items::with_status(name, status)? {
        // anew each time: the first item may make the collection's partition
        let indexed = catalog::subtransaction(|| knowledge::index(&item, &Collection::get(name)?));
        let indexed = match indexed {
            Ok(indexed) => indexed,
            Err(error) => {
                items::fail(name, item.id, &error.message)?;
                Indexed::failed(error.message)
            }
        };
        let (success, id, chunks, hash, error) = row(indexed);
        rows.push((item.id, success, id, chunks, hash, error));
    }
    Ok(TableIterator::new(rows))
}

#[pg_extern]
fn rag_remove_knowledge(knowledge_id: i64, collection: pgrx::default!(&str, "'default'")) -> Result<bool, ErrorReport> {
    super::require_writer(c"rag_remove_knowledge()", "remove knowledge")?;
    let collection = Collection::get(collection)?;
    Ok(knowledge::remove(collection.name.as_str(), knowledge_id)?)
}
