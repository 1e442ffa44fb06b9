//! Collections and sources are renamed: all rows that name them.
//!
//! Ids of documents stay: they are made from the first names (`ids_from`). A digest covers the
//! names, so those of documents that have not drifted are made again. The transaction keeps writers
//! out.

use rag_protocol::identity::DocumentId;

use super::{
    collections::Collection,
    documents::{self, document_id},
    name::Name,
    partitions::{self, Partition},
    shards::{self, Distribution},
};
use crate::{
    error::Error,
    pg::spi::{OwnerRights, uuid},
};

/// Tables without references to `rag_internal.collection`, with columns that name a collection.
const NOTES_OF_COLLECTIONS: [&str; 6] = [
    "document_digest",
    "embedding_place",
    "planned_hash",
    "knowledge_run",
    "content_change",
    "run",
];

/// Renames a collection. Its partition keeps its name.
///
/// # Errors
/// A collection has the new name.
pub fn collection(owner: &OwnerRights, collection: &Collection, new: &Name) -> Result<(), Error> {
    let (old, new) = (collection.name.as_str(), new.as_str());
    check_distribution(collection)?;
    let intact = intact(owner, old, None)?;
    // Each reference is checked at the end of the statement, when both of its sides are renamed.
    owner.execute(
        "WITH of_source AS (
             UPDATE rag_internal.source SET collection = $2 WHERE collection = $1),
         of_document AS (
             UPDATE rag.documents SET collection = $2 WHERE collection = $1),
         of_item AS (
             UPDATE rag_internal.knowledge_item SET collection = $2 WHERE collection = $1),
         of_queued AS (
             UPDATE rag_internal.queued_document SET collection = $2 WHERE collection = $1),
         of_grant AS (
             UPDATE rag_internal.collection_grant SET collection = $2 WHERE collection = $1)
         UPDATE rag_internal.collection
         SET name = $2, ids_from = coalesce(ids_from, name), updated_at = now()
         WHERE name = $1",
        &[old.into(), new.into()],
    )?;
    owner.execute(
        "DELETE FROM rag_internal.content_change WHERE collection = $1",
        &[old.into()],
    )?;
    for table in NOTES_OF_COLLECTIONS {
        owner.execute(
            &format!("UPDATE rag_internal.{table} SET collection = $2 WHERE collection = $1"),
            &[old.into(), new.into()],
        )?;
    }
    owner.execute(
        "UPDATE rag_internal.run_total t SET collection = $2
         WHERE collection = $1 AND NOT EXISTS (
             SELECT FROM rag_internal.run_total o
             WHERE o.source = t.source AND o.collection = $2 AND o.phase = t.phase)",
        &[old.into(), new.into()],
    )?;
    if let Some(partition) = &collection.partition {
        rename_rows(owner, partition, old, new)?;
    }
    record(owner, new, None, &intact)
}

/// # Errors
/// The name says on which server the chunks are.
fn check_distribution(collection: &Collection) -> Result<(), Error> {
    if collection.partition.is_none() || shards::distribution()? != Some(Distribution::ByCollection)
    {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "cannot rename collection \"{}\": its name says on which server its chunks are",
        collection.name
    ))
    .detail("Chunks are distributed by collection.")
    .hint(
        "Export the collection with rag_export_blocks, import it under the new name, and drop this \
         one.",
    ))
}

/// Renames the chunks of a collection. A partition of its own has a CHECK of the name.
fn rename_rows(
    owner: &OwnerRights,
    partition: &Partition,
    old: &str,
    new: &str,
) -> Result<(), Error> {
    let table = partition.qualified();
    let checks = owner.query(
        "SELECT FROM pg_constraint
         WHERE conrelid = to_regclass($1) AND conname = 'partition_collection'",
        &[table.as_str().into()],
        |_| Ok(()),
    )?;
    if !checks.is_empty() {
        owner.execute(
            &format!("ALTER TABLE {table} DROP CONSTRAINT partition_collection"),
            &[],
        )?;
    }
    owner.execute(
        &format!(
            "UPDATE rag.chunks SET collection = $1 WHERE {}",
            partition.rows(old, "")
        ),
        &[new.into()],
    )?;
    if !checks.is_empty() {
        owner.execute(
            &format!(
                "ALTER TABLE {table} ADD CONSTRAINT partition_collection CHECK (collection = {})",
                pgrx::spi::quote_literal(new)
            ),
            &[],
        )?;
    }
    Ok(())
}

/// Renames a source. The caller has dropped its triggers.
pub fn source(owner: &OwnerRights, old: &Name, new: &Name) -> Result<(), Error> {
    let (old, new) = (old.as_str(), new.as_str());
    owner.execute(
        "UPDATE rag_internal.source
         SET name = $2, ids_from = coalesce(ids_from, name), updated_at = now()
         WHERE name = $1",
        &[old.into(), new.into()],
    )?;
    for table in ["run", "run_error"] {
        owner.execute(
            &format!("UPDATE rag_internal.{table} SET source = $2 WHERE source = $1"),
            &[old.into(), new.into()],
        )?;
    }
    owner.execute(
        "UPDATE rag_internal.run_total t SET source = $2
         WHERE source = $1 AND NOT EXISTS (
             SELECT FROM rag_internal.run_total o
             WHERE o.source = $2 AND o.collection = t.collection AND o.phase = t.phase)",
        &[old.into(), new.into()],
    )?;
    for collection in documents::ids_by_collection(owner, old, None)?.into_keys() {
        rename_source_in(owner, &collection, old, new)?;
    }
    Ok(())
}

fn rename_source_in(
    owner: &OwnerRights,
    collection: &str,
    old: &str,
    new: &str,
) -> Result<(), Error> {
    let rows = partitions::rows_of_writer(owner, collection, "")?;
    let intact = intact(owner, collection, Some(old))?;
    for (table, rows) in [
        ("rag.documents", "collection = $3"),
        ("rag_internal.document_digest", "collection = $3"),
        ("rag.chunks", &format!("{rows} AND $3 IS NOT NULL")),
    ] {
        owner.execute(
            &format!("UPDATE {table} SET source = $2 WHERE {rows} AND source = $1"),
            &[old.into(), new.into(), collection.into()],
        )?;
    }
    record(owner, collection, Some(new), &intact)
}

/// Returns the documents that are as their sources' runs have indexed them.
fn intact(
    owner: &OwnerRights,
    collection: &str,
    source: Option<&str>,
) -> Result<Vec<DocumentId>, Error> {
    owner.execute_returning(
        "SELECT d.document_id FROM rag_internal.compute_document_digests($1, $2) d
             JOIN rag_internal.document_digest m ON m.collection = $1
                 AND m.document_id = d.document_id
         WHERE m.digest = d.digest",
        &[collection.into(), source.into()],
        |row| document_id(&row),
    )
}

/// Records the present digests of some documents.
fn record(
    owner: &OwnerRights,
    collection: &str,
    source: Option<&str>,
    ids: &[DocumentId],
) -> Result<(), Error> {
    let ids: Vec<pgrx::Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    owner.execute(
        "UPDATE rag_internal.document_digest m SET digest = d.digest
         FROM rag_internal.compute_document_digests($1, $2) d
         WHERE m.collection = $1 AND m.document_id = d.document_id AND d.document_id = ANY ($3)",
        &[collection.into(), source.into(), ids.into()],
    )?;
    Ok(())
}
