//! `rag_internal.knowledge_item`: items that have a number and are fetched from a uri.

use pgrx::datum::{DatumWithOid, TimestampWithTimeZone};
use rag_protocol::identity::DocumentId;

use crate::{
    error::Error,
    pg::{
        roles::Owner,
        spi::{OwnerRights, Row, as_owner},
    },
};

/// The status of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Pending,
    Active,
    Error,
}

impl Status {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Active, Self::Error];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Error => "error",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// What an item is fetched as. The names are values of `document_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnowledgeKind {
    Markdown,
    Website,
    Folder,
}

impl KnowledgeKind {
    pub const ALL: [Self; 3] = [Self::Markdown, Self::Website, Self::Folder];

    pub fn name(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Website => "website",
            Self::Folder => "folder",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// An item as a user defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeItem {
    pub id: i64,
    pub title: Option<String>,
    pub uri: String,
    pub kind: KnowledgeKind,
    pub category: Option<String>,
    /// Separated by commas.
    pub tags: Option<String>,
    /// Patterns of the files of a folder that belong to the item. Empty: all files.
    pub paths: Vec<String>,
    /// The role that set the uri.
    pub owner: Owner,
}

/// Returns the values of an item's columns, the parameters $1 to $10 of statements that write them.
fn arguments<'a>(collection: &'a str, item: &'a KnowledgeItem) -> [DatumWithOid<'a>; 10] {
    let paths: Vec<&str> = item.paths.iter().map(String::as_str).collect();
    [
        collection.into(),
        item.id.into(),
        item.title.as_deref().into(),
        item.uri.as_str().into(),
        item.kind.name().into(),
        item.category.as_deref().into(),
        item.tags.as_deref().into(),
        item.owner.name.as_str().into(),
        item.owner.id.into(),
        paths.into(),
    ]
}

/// Registers an item as pending. Returns false if an item with its number exists.
pub fn create(owner: &OwnerRights, collection: &str, item: &KnowledgeItem) -> Result<bool, Error> {
    let made = owner.execute(
        "INSERT INTO rag_internal.knowledge_item (
             collection, knowledge_id, title, uri, document_type, category, tags, owner,
             owner_id, paths)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
        &arguments(collection, item),
    )?;
    Ok(made > 0)
}

/// Returns an item, and locks it until the transaction ends.
pub fn lock(
    owner: &OwnerRights,
    collection: &str,
    id: i64,
) -> Result<Option<KnowledgeItem>, Error> {
    let found = owner.execute_returning(
        "SELECT knowledge_id, title, uri, document_type, category, tags, paths, owner_id, owner
         FROM rag_internal.knowledge_item WHERE collection = $1 AND knowledge_id = $2 FOR UPDATE",
        &[collection.into(), id.into()],
        |row| read(&row),
    )?;
    Ok(found.into_iter().next())
}

/// Returns an item.
pub fn find(collection: &str, id: i64) -> Result<Option<KnowledgeItem>, Error> {
    let found = as_owner(|owner| {
        owner.query(
            "SELECT knowledge_id, title, uri, document_type, category, tags, paths, owner_id, owner
             FROM rag_internal.knowledge_item WHERE collection = $1 AND knowledge_id = $2",
            &[collection.into(), id.into()],
            |row| read(&row),
        )
    })?;
    Ok(found.into_iter().next())
}

/// Returns when an item was registered.
pub fn created_at(
    owner: &OwnerRights,
    collection: &str,
    id: i64,
) -> Result<Option<TimestampWithTimeZone>, Error> {
    let found = owner.query(
        "SELECT created_at FROM rag_internal.knowledge_item WHERE collection = $1
            AND knowledge_id = $2",
        &[collection.into(), id.into()],
        |row| row.required("created_at"),
    )?;
    Ok(found.into_iter().next())
}

fn read(row: &Row<'_, '_>) -> Result<KnowledgeItem, Error> {
    Ok(KnowledgeItem {
        id: row.required("knowledge_id")?,
        title: row.get("title")?,
        uri: row.required("uri")?,
        kind: KnowledgeKind::parse(&row.required::<String>("document_type")?)
            .ok_or_else(|| Error::internal("unknown kind of a knowledge item"))?,
        category: row.get("category")?,
        tags: row.get("tags")?,
        paths: row.required("paths")?,
        owner: Owner::stored(row.required("owner_id")?, row.required("owner")?),
    })
}

/// Returns a number that no item of a collection has.
pub fn next_number(owner: &OwnerRights, collection: &str) -> Result<i64, Error> {
    let found = owner.execute_returning(
        "SELECT n.number
         FROM (SELECT nextval('rag_internal.knowledge_number')
               FROM generate_series(
                   0, (SELECT count(*) FROM rag_internal.knowledge_item k WHERE k.collection = $1)))
              AS n (number)
         WHERE NOT EXISTS (SELECT FROM rag_internal.knowledge_item k
                           WHERE k.collection = $1 AND k.knowledge_id = n.number)
         LIMIT 1",
        &[collection.into()],
        |row| row.required("number"),
    )?;
    let number = found.into_iter().next();
    number.ok_or_else(|| Error::internal("no number of a knowledge item is free"))
}

/// Returns true if an item exists.
pub fn exists(owner: &OwnerRights, collection: &str, id: i64) -> Result<bool, Error> {
    let found = owner.query(
        "SELECT FROM rag_internal.knowledge_item WHERE collection = $1 AND knowledge_id = $2",
        &[collection.into(), id.into()],
        |_| Ok(()),
    )?;
    Ok(!found.is_empty())
}

/// Returns the numbers of a collection's items with a status, or of all items. Those that wait to
/// be indexed count as active.
pub fn numbers(
    owner: &OwnerRights,
    collection: &str,
    status: Option<Status>,
) -> Result<Vec<i64>, Error> {
    owner.query(
        "SELECT knowledge_id FROM rag_internal.knowledge_item
         WHERE collection = $1
           AND ($2 IS NULL OR status = $2 OR $2 = 'active' AND status = 'pending')
         ORDER BY 1",
        &[collection.into(), status.map(Status::name).into()],
        |row| row.required("knowledge_id"),
    )
}

/// Updates an item. With `reset`, what was indexed of it is outdated, and it is pending again.
pub fn update(
    owner: &OwnerRights,
    collection: &str,
    item: &KnowledgeItem,
    reset: bool,
) -> Result<(), Error> {
    let mut arguments = Vec::from(arguments(collection, item));
    arguments.push(reset.into());
    owner.execute(
        "UPDATE rag_internal.knowledge_item
         SET title = $3, uri = $4, document_type = $5, category = $6,
             tags = $7, owner = $8, owner_id = $9, paths = $10,
             status = CASE WHEN $11 THEN 'pending' ELSE status END,
             error = CASE WHEN $11 THEN NULL ELSE error END
         WHERE collection = $1 AND knowledge_id = $2",
        &arguments,
    )?;
    Ok(())
}

/// Records that an item is indexed.
pub fn record_success(
    owner: &OwnerRights,
    collection: &str,
    id: i64,
    content_hash: &str,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.knowledge_item SET status = 'active', error = NULL, content_hash = $3,
             last_fetched_at = now(), indexed_at = now()
         WHERE collection = $1 AND knowledge_id = $2",
        &[collection.into(), id.into(), content_hash.into()],
    )?;
    Ok(())
}

/// Records that an item could not be indexed. What was indexed before stays.
pub fn record_failure(
    owner: &OwnerRights,
    collection: &str,
    id: i64,
    error: &str,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.knowledge_item SET status = 'error', error = $3
         WHERE collection = $1 AND knowledge_id = $2",
        &[collection.into(), id.into(), error.into()],
    )?;
    Ok(())
}

/// Records that an item is no longer indexed. Returns false if the item does not exist.
pub fn reset_to_pending(owner: &OwnerRights, collection: &str, id: i64) -> Result<bool, Error> {
    let changed = owner.execute(
        "UPDATE rag_internal.knowledge_item
         SET status = 'pending', error = NULL, content_hash = NULL,
             last_fetched_at = NULL, indexed_at = NULL
         WHERE collection = $1 AND knowledge_id = $2",
        &[collection.into(), id.into()],
    )?;
    Ok(changed > 0)
}

/// Returns the documents of an item, with their uris.
pub fn documents(
    owner: &OwnerRights,
    collection: &str,
    id: i64,
) -> Result<Vec<(DocumentId, String)>, Error> {
    owner.query(
        "SELECT document_id, uri FROM rag.documents
         WHERE collection = $1 AND knowledge_id = $2",
        &[collection.into(), id.into()],
        |row| Ok((super::documents::document_id(&row)?, row.required("uri")?)),
    )
}

/// Deletes an item. Returns false if it does not exist.
pub fn remove(owner: &OwnerRights, collection: &str, id: i64) -> Result<bool, Error> {
    let removed = owner.execute(
        "DELETE FROM rag_internal.knowledge_item WHERE collection = $1 AND knowledge_id = $2",
        &[collection.into(), id.into()],
    )?;
    Ok(removed > 0)
}
