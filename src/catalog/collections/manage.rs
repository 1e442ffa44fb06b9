//! Collections are created, altered and dropped.

use rag_definition::Quota;

use super::Collection;
use crate::{
    catalog::{name::Name, partitions, placement, rebuilds, retrievers, storage_changes},
    error::Error,
    pg::{
        lock::Lock,
        roles::Owner,
        security::as_owner,
        spi::{execute, query},
        transaction::with_latest_snapshot,
    },
};

pub struct NewCollection<'a> {
    pub name: &'a Name,
    /// The name by which an application knows the collection.
    pub external_id: Option<&'a str>,
    pub retriever: &'a str,
    /// None: the model that the retriever names, or the default one.
    pub embedding_model: Option<&'a str>,
    pub chunk_size: Option<i32>,
    pub chunk_overlap: Option<i32>,
    pub chunk_unit: &'a str,
    pub metadata_whitelist: Option<Vec<String>>,
    pub description: Option<&'a str>,
    pub owner: &'a Owner,
    /// With its schema.
    pub text_config: &'a str,
    pub title_weight: i32,
    pub quota: Quota,
}

/// # Errors
/// The name or the external id is in use, or the retriever does not exist.
pub fn create(new: NewCollection<'_>) -> Result<(), Error> {
    let name = new.name;
    match create_if_missing(new)? {
        true => Ok(()),
        false => Err(Error::duplicate(format!(
            "collection \"{name}\" already exists"
        ))),
    }
}

/// Creates a collection. Returns false if a collection of this name exists.
///
/// # Errors
/// The name or the external id is in use, or the retriever does not exist.
pub fn create_if_missing(new: NewCollection<'_>) -> Result<bool, Error> {
    as_owner(|| {
        claim_name(new.name, None)?;
        if let Some(id) = new.external_id.filter(|id| *id != new.name.as_str()) {
            claim_external_id(id, None)?;
        }
        let retrievers = query(
            "SELECT 1 FROM rag_internal.retriever WHERE name = $1",
            &[new.retriever.into()],
            |_| Ok(()),
        )?;
        if retrievers.is_empty() {
            return Err(retrievers::missing(new.retriever));
        }
        let made = execute(
            "INSERT INTO rag_internal.collection (
                 name, retriever, chunk_size, chunk_overlap, metadata_whitelist, description,
                 chunk_unit, external_id, owner, owner_id, text_config, title_weight,
                 max_documents, max_bytes, embedding_model)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
             ON CONFLICT (name) DO NOTHING",
            &[
                new.name.as_str().into(),
                new.retriever.into(),
                new.chunk_size.into(),
                new.chunk_overlap.into(),
                new.metadata_whitelist.into(),
                new.description.into(),
                new.chunk_unit.into(),
                new.external_id.into(),
                new.owner.name.as_str().into(),
                new.owner.id.into(),
                new.text_config.into(),
                new.title_weight.into(),
                new.quota.max_documents.into(),
                new.quota.max_bytes.into(),
                new.embedding_model.into(),
            ],
        )?;
        if made == 0 {
            return Ok(false);
        }
        placement::check(&Collection::get(new.name.as_str())?)?;
        Ok(true)
    })
}

/// Changes of a collection. None leaves a value as it is, and an empty text removes it.
pub struct CollectionChanges<'a> {
    pub description: Option<&'a str>,
    pub external_id: Option<&'a str>,
    pub quota: Quota,
}

/// Changes what of a collection can be changed without touching its documents.
///
/// # Errors
/// The external id is in use.
pub fn alter(collection: &Collection, changes: &CollectionChanges<'_>) -> Result<(), Error> {
    as_owner(|| {
        if let Some(id) = changes.external_id.filter(|id| !id.is_empty()) {
            claim_external_id(id, Some(collection))?;
        }
        execute(
            "UPDATE rag_internal.collection
          SET description = nullif(coalesce($2, description), ''),
                 external_id = nullif(coalesce($3, external_id), ''),
                 max_documents = $4, max_bytes = $5, updated_at = pg_catalog.now()
             WHERE name = $1",
            &[
                collection.name.as_str().into(),
                changes.description.into(),
                changes.external_id.into(),
                changes.quota.max_documents.into(),
                changes.quota.max_bytes.into(),
            ],
        )?;
        Ok(())
    })
}

// Names and external ids are one name space: otherwise the owner of a collection could give it the
// external id of another one, and answer in its place. Each that is given to a collection is locked
// until the transaction ends, so that no other session gives it at the same time.

/// # Errors
/// The name is the external id of another collection than `of`.
pub fn claim_name(name: &Name, of: Option<&Collection>) -> Result<(), Error> {
    Lock::collection_name(name.as_str()).acquire_for_transaction();
    let others = with_latest_snapshot(|| {
        query(
            "SELECT FROM rag_internal.collection
          WHERE external_id = $1 AND name <> $1 AND name IS DISTINCT FROM $2",
            &[
                name.as_str().into(),
                of.map(|collection| collection.name.as_str()).into(),
            ],
            |_| Ok(()),
        )
    })?;
    match others.is_empty() {
        true => Ok(()),
        false => Err(
            Error::duplicate(format!("collection name \"{name}\" is already in use"))
                .detail("It is the external id of another collection.")
                .hint("Use another name."),
        ),
    }
}

/// # Errors
/// `id` is empty, or is the external id or the name of another collection.
fn claim_external_id(id: &str, of: Option<&Collection>) -> Result<(), Error> {
    if id.trim().is_empty() {
        return Err(Error::invalid_parameter("external_id must not be empty")
            .hint("Use NULL for a collection without an external id."));
    }
    Lock::collection_name(id).acquire_for_transaction();
    let own = of.map(|collection| collection.name.as_str());
    let others = with_latest_snapshot(|| {
        query(
            "SELECT name = $1 FROM rag_internal.collection
          WHERE (name = $1 OR external_id = $1) AND name IS DISTINCT FROM $2",
            &[id.into(), own.into()],
            |row| row.required::<bool>(1),
        )
    })?;
    let Some(is_name) = others.into_iter().max() else {
        return Ok(());
    };
    let what = if is_name { "name" } else { "external id" };
    Err(
        Error::duplicate(format!("external_id \"{id}\" is already in use"))
            .detail(format!("It is the {what} of another collection.")),
    )
}

/// Returns the collections whose storage is on another server.
pub fn with_server() -> Result<Vec<String>, Error> {
    as_owner(|| {
        query(
            "SELECT c.name FROM rag_internal.collection c JOIN rag_internal.retriever r
                 ON r.name = c.retriever
             WHERE r.server_url IS NOT NULL
             ORDER BY 1",
            &[],
            |row| row.required(1),
        )
    })
}

/// The default collection of functions and manifests.
const DEFAULT: &str = "default";

/// Checks that a collection may be dropped, apart from sources that fill it.
///
/// # Errors
/// It is the default collection.
pub fn check_droppable(collection: &Collection) -> Result<(), Error> {
    if collection.name.as_str() != DEFAULT {
        return Ok(());
    }
    Err(Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "cannot drop collection \"default\" because it is required by functions of the extension",
    )
    .hint(
        "To empty it, call rag_drop_source(name, keep_documents => false) and \
         rag_delete_document(document_id).",
    ))
}

/// Checks that a collection may have another name.
///
/// # Errors
/// It is the default collection.
pub fn check_renamable(collection: &Collection) -> Result<(), Error> {
    if collection.name.as_str() != DEFAULT {
        return Ok(());
    }
    Err(Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "cannot rename collection \"default\" because it is required by functions of the \
         extension",
    ))
}

/// Drops a collection with its documents and chunks.
///
/// # Errors
/// A source fills the collection, or it is the default collection.
pub fn drop(collection: &Collection) -> Result<(), Error> {
    check_droppable(collection)?;
    let name = collection.name.as_str();
    as_owner(|| {
        // the same statement may have dropped them
        let sources: Vec<String> = with_latest_snapshot(|| {
            query(
                "SELECT name FROM rag_internal.source WHERE collection = $1 ORDER BY 1",
                &[name.into()],
                |row| row.required(1),
            )
        })?;
        if !sources.is_empty() {
            return Err(Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop collection \"{name}\" because sources depend on it"),
            )
            .detail(format!("Sources: {}.", sources.join(", ")))
            .hint(
                "Drop the sources first with rag_drop_source, or together with the collection by \
                 with_sources => true.",
            ));
        }
        // what they have written must be deleted, too
        partitions::exclude_writers(name)?;
        // others may have dropped the collection, and created another one, in the meantime
        if Collection::find(name)?.is_none_or(|now| now.serial != collection.serial) {
            return Err(Collection::missing(name));
        }
        rebuilds::discard(name)?;
        placement::remove(collection)?;
        if collection.storage().server().is_some() {
            storage_changes::release(collection)?;
        }
        execute(
            "DELETE FROM rag.documents WHERE collection = $1",
            &[name.into()],
        )?;
        execute(
            "DELETE FROM rag_internal.document_digest WHERE collection = $1",
            &[name.into()],
        )?;
        execute(
            "DELETE FROM rag_internal.knowledge_item WHERE collection = $1",
            &[name.into()],
        )?;
        execute(
            "DELETE FROM rag_internal.collection_grant WHERE collection = $1",
            &[name.into()],
        )?;
        execute(
            "DELETE FROM rag_internal.collection WHERE name = $1",
            &[name.into()],
        )?;
        for noted in [
            "content_change",
            "embedding_place",
            "planned_hash",
            "knowledge_run",
        ] {
            execute(
                &format!("DELETE FROM rag_internal.{noted} WHERE collection = $1"),
                &[name.into()],
            )?;
        }
        Ok(())
    })
}
