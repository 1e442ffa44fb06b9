//! `rag.knowledge`: items that are named by a number and fetched from a uri.

use rag_protocol::identity::DocumentId;

use super::{as_owner, execute, query};
use crate::error::Error;

/// What a user says of an item.
#[derive(Debug, Clone)]
pub struct Item {
    pub id: i64,
    pub title: Option<String>,
    pub uri: String,
    /// `markdown`, `website` or `folder`.
    pub kind: String,
    pub category: Option<String>,
    /// With commas between them.
    pub tags: Option<String>,
}

/// Writes down an item; one that is new is pending, one that is known keeps its status.
pub fn register(collection: &str, item: &Item) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "INSERT INTO rag.knowledge (collection, knowledge_id, title, uri, document_type, category, tags)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (collection, knowledge_id) DO UPDATE SET title = excluded.title, uri = excluded.uri,
                 document_type = excluded.document_type, category = excluded.category, tags = excluded.tags",
            &[
                collection.into(),
                item.id.into(),
                item.title.as_deref().into(),
                item.uri.as_str().into(),
                item.kind.as_str().into(),
                item.category.as_deref().into(),
                item.tags.as_deref().into(),
            ],
        )
    })?;
    Ok(())
}

/// The items of a collection that have a status, by their numbers.
pub fn with_status(collection: &str, status: &str) -> Result<Vec<Item>, Error> {
    as_owner(|| {
        query(
            "SELECT knowledge_id, title, uri, document_type, category, tags FROM rag.knowledge
             WHERE collection = $1 AND status = $2 ORDER BY knowledge_id",
            &[collection.into(), status.into()],
            |row| {
                Ok(Item {
                    id: row.required(1)?,
                    title: row.get(2)?,
                    uri: row.required(3)?,
                    kind: row.required(4)?,
                    category: row.get(5)?,
                    tags: row.get(6)?,
                })
            },
        )
    })
}

/// Notes that an item is indexed.
pub fn succeed(collection: &str, id: i64, content_hash: &str) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.knowledge SET status = 'active', error = NULL, content_hash = $3,
                 fetched_at = pg_catalog.now(), indexed_at = pg_catalog.now()
             WHERE collection = $1 AND knowledge_id = $2",
            &[collection.into(), id.into(), content_hash.into()],
        )
    })?;
    Ok(())
}

/// Notes that an item could not be indexed; what was indexed before stays.
pub fn fail(collection: &str, id: i64, error: &str) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.knowledge SET status = 'error', error = $3 WHERE collection = $1 AND knowledge_id = $2",
            &[collection.into(), id.into(), error.into()],
        )
    })?;
    Ok(())
}

/// The documents that carry an item's number, with their uris.
pub fn documents(collection: &str, id: i64) -> Result<Vec<(DocumentId, String)>, Error> {
    as_owner(|| {
        query(
            "SELECT document_id, uri FROM rag.documents WHERE collection = $1 AND knowledge_id = $2",
            &[collection.into(), id.into()],
            |row| Ok((super::documents::document_id(&row)?, row.required(2)?)),
        )
    })
}

/// Forgets an item; whether it was there.
pub fn remove(collection: &str, id: i64) -> Result<bool, Error> {
    let removed = as_owner(|| {
        execute(
            "DELETE FROM rag.knowledge WHERE collection = $1 AND knowledge_id = $2",
            &[collection.into(), id.into()],
        )
    })?;
    Ok(removed > 0)
}
