//! `rag.knowledge`: items that are named by a number and fetched from a uri.

use pgrx::datum::DatumWithOid;
use rag_protocol::identity::DocumentId;

use crate::{
    error::Error,
    pg::{
        roles::Owner,
        security::as_owner,
        spi::{Row, execute, execute_returning, query},
    },
};

/// What a user says of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub id: i64,
    pub title: Option<String>,
    pub uri: String,
    /// `markdown`, `website` or `folder`.
    pub kind: String,
    pub category: Option<String>,
    /// With commas between them.
    pub tags: Option<String>,
    /// Who gave the uri.
    pub owner: Owner,
}

/// The values of an item's columns, $1 to $9 of what writes them.
fn arguments<'a>(collection: &'a str, item: &'a Item) -> [DatumWithOid<'a>; 9] {
    [
        collection.into(),
        item.id.into(),
        item.title.as_deref().into(),
        item.uri.as_str().into(),
        item.kind.as_str().into(),
        item.category.as_deref().into(),
        item.tags.as_deref().into(),
        item.owner.name.as_str().into(),
        item.owner.id.into(),
    ]
}

/// Registers an item as pending, unless there is one of its number; whether it did.
pub fn create(collection: &str, item: &Item) -> Result<bool, Error> {
    let made = as_owner(|| {
        execute(
            "INSERT INTO rag.knowledge (collection, knowledge_id, title, uri, document_type, category, tags, owner, owner_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
            &arguments(collection, item),
        )
    })?;
    Ok(made > 0)
}

/// An item, which nobody else can change until the transaction ends.
pub fn lock(collection: &str, id: i64) -> Result<Option<Item>, Error> {
    let found = as_owner(|| {
        execute_returning(
            "SELECT knowledge_id, title, uri, document_type, category, tags, owner_id, owner FROM rag.knowledge
             WHERE collection = $1 AND knowledge_id = $2 FOR UPDATE",
            &[collection.into(), id.into()],
            |row| read(&row),
        )
    })?;
    Ok(found.into_iter().next())
}

fn read(row: &Row<'_, '_>) -> Result<Item, Error> {
    Ok(Item {
        id: row.required(1)?,
        title: row.get(2)?,
        uri: row.required(3)?,
        kind: row.required(4)?,
        category: row.get(5)?,
        tags: row.get(6)?,
        owner: Owner::stored(row.required(7)?, row.required(8)?),
    })
}

/// The numbers of the items of a collection, of those that have a status or of all.
pub fn numbers(collection: &str, status: Option<&str>) -> Result<Vec<i64>, Error> {
    as_owner(|| {
        query(
            "SELECT knowledge_id FROM rag.knowledge WHERE collection = $1 AND ($2 IS NULL OR status = $2) ORDER BY 1",
            &[collection.into(), status.into()],
            |row| row.required(1),
        )
    })
}

/// Writes down what is said of an item now. `is_other`: what was indexed of it is something else.
pub fn change(collection: &str, item: &Item, is_other: bool) -> Result<(), Error> {
    let mut arguments = Vec::from(arguments(collection, item));
    arguments.push(is_other.into());
    as_owner(|| {
        execute(
            "UPDATE rag.knowledge SET title = $3, uri = $4, document_type = $5, category = $6, tags = $7, owner = $8,
                 owner_id = $9, status = CASE WHEN $10 THEN 'pending' ELSE status END,
                 error = CASE WHEN $10 THEN NULL ELSE error END
             WHERE collection = $1 AND knowledge_id = $2",
            &arguments,
        )
    })?;
    Ok(())
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

/// Notes that nothing of an item is indexed any more; whether there is such an item.
pub fn forget_indexed(collection: &str, id: i64) -> Result<bool, Error> {
    let changed = as_owner(|| {
        execute(
            "UPDATE rag.knowledge SET status = 'pending', error = NULL, content_hash = NULL, fetched_at = NULL,
                 indexed_at = NULL
             WHERE collection = $1 AND knowledge_id = $2",
            &[collection.into(), id.into()],
        )
    })?;
    Ok(changed > 0)
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
