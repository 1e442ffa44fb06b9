//! `rag.documents`: what is stored of each document, text included.

use std::collections::HashMap;

use rag_definition::labels::Labels;
use rag_protocol::{identity::DocumentId, ingest::KnownVersion};

use super::{chunks, partitions, shards};
use crate::{
    error::Error,
    pg::{
        guc::with_settings,
        spi::{OwnerRights, Row, uuid},
    },
};

/// What `rag.documents.chunking` has instead of the settings that the text was split with, if an
/// application has split it.
pub const GIVEN: &str = "given";

/// Returns the versions of a source's documents that are indexed with `chunking`, by uri.
pub fn known_versions(
    owner: &OwnerRights,
    collection: &str,
    source: &str,
    chunking: &str,
) -> Result<HashMap<String, KnownVersion>, Error> {
    let found = owner.query(
        "SELECT uri, raw_hash, validator FROM rag.documents
         WHERE collection = $1 AND source = $2 AND chunking = $3 AND status = 'active'
           AND raw_hash IS NOT NULL",
        &[collection.into(), source.into(), chunking.into()],
        |row| {
            Ok((
                row.required("uri")?,
                KnownVersion {
                    raw_hash: row.required("raw_hash")?,
                    validator: row.get("validator")?,
                },
            ))
        },
    )?;
    Ok(found.into_iter().collect())
}

/// Number of documents whose languages stand for those of a source or a collection.
const LANGUAGE_SAMPLE: i64 = 200;

/// Returns the languages of some documents of a source, and how many of them have each. Without a
/// source, or if it has no such documents, it is those of the collection.
pub fn languages(
    owner: &OwnerRights,
    collection: &str,
    source: Option<&str>,
) -> Result<HashMap<String, u64>, Error> {
    let count = |condition: &str| {
        owner.query(
            &format!(
                "SELECT language, count(*) AS documents FROM (
                     SELECT metadata ->> 'language' AS language FROM rag.documents
                     WHERE collection = $1 AND {condition}
                       AND metadata ->> 'language' <> 'und' LIMIT $3) AS d
                 GROUP BY language"
            ),
            &[collection.into(), source.into(), LANGUAGE_SAMPLE.into()],
            |row| {
                let documents: i64 = row.required("documents")?;
                Ok((row.required("language")?, documents.unsigned_abs()))
            },
        )
    };
    let mut found = count("source = $2")?;
    if found.is_empty() {
        found = count("$2 IS NOT DISTINCT FROM $2")?;
    }
    Ok(found.into_iter().collect())
}

/// Returns the hashes of those of some documents that are indexed with `chunking`.
pub fn raw_hashes(
    owner: &OwnerRights,
    collection: &str,
    ids: &[DocumentId],
    chunking: &str,
) -> Result<HashMap<DocumentId, String>, Error> {
    let ids: Vec<pgrx::Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    let found = owner.query(
        "SELECT document_id, raw_hash FROM rag.documents
         WHERE collection = $1 AND document_id = ANY ($2) AND chunking = $3
           AND status = 'active' AND raw_hash IS NOT NULL",
        &[collection.into(), ids.into(), chunking.into()],
        |row| Ok((document_id(&row)?, row.required("raw_hash")?)),
    )?;
    Ok(found.into_iter().collect())
}

/// Returns the uris of a source's documents that could not be indexed.
pub fn failed_uris(
    owner: &OwnerRights,
    collection: &str,
    source: &str,
) -> Result<Vec<String>, Error> {
    owner.query(
        "SELECT uri FROM rag.documents
         WHERE collection = $1 AND source = $2 AND status = 'error'",
        &[collection.into(), source.into()],
        |row| row.required("uri"),
    )
}

pub fn document_id(row: &Row<'_, '_>) -> Result<DocumentId, Error> {
    Ok(DocumentId(row.uuid("document_id")?))
}

/// Stores new validators of documents whose content has not changed.
pub fn set_validators(
    owner: &OwnerRights,
    collection: &str,
    validators: &[(DocumentId, String)],
) -> Result<(), Error> {
    let ids: Vec<pgrx::Uuid> = validators.iter().map(|(id, _)| uuid(id.0)).collect();
    let validators: Vec<&str> = validators
        .iter()
        .map(|(_, validator)| validator.as_str())
        .collect();
    owner.execute(
        "UPDATE rag.documents d SET validator = v.validator
         FROM ROWS FROM (unnest($2), unnest($3)) AS v (id, validator)
         WHERE d.collection = $1 AND d.document_id = v.id",
        &[collection.into(), ids.into(), validators.into()],
    )?;
    Ok(())
}

/// Returns those of some documents that belong to a source, as defined by [`ids_of_source`].
pub fn ids_owned_by(
    owner: &OwnerRights,
    collection: &str,
    ids: &[DocumentId],
    source: &str,
) -> Result<Vec<DocumentId>, Error> {
    let ids: Vec<pgrx::Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    owner.execute_returning(
        "SELECT document_id FROM rag.documents
         WHERE collection = $1 AND document_id = ANY ($2) AND source = $3
         UNION SELECT document_id FROM rag_internal.document_digest
               WHERE collection = $1 AND document_id = ANY ($2) AND source = $3",
        &[collection.into(), ids.into(), source.into()],
        |row| document_id(&row),
    )
}

/// Records that the chunks of a document are lost, and cannot be made again from its text.
pub fn lose_chunks(
    owner: &OwnerRights,
    collection: &str,
    id: DocumentId,
    kept: i64,
    problem: &str,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag.documents SET status = 'error', error = $3, chunk_count = $4
         WHERE collection = $1 AND document_id = $2
           AND (status <> 'error' OR error IS DISTINCT FROM $3)",
        &[
            collection.into(),
            uuid(id.0).into(),
            format!("its chunks are lost, write them again: {problem}").into(),
            i32::try_from(kept).unwrap_or(i32::MAX).into(),
        ],
    )?;
    Ok(())
}

/// Returns the ids of all documents of a source. These are the stored documents, even if another
/// session has just stored them, and those that were indexed by a run and then deleted by a user.
pub fn ids_of_source(
    owner: &OwnerRights,
    collection: &str,
    source: &str,
) -> Result<Vec<DocumentId>, Error> {
    owner.execute_returning(
        "SELECT document_id FROM rag.documents WHERE collection = $1 AND source = $2
         UNION
         SELECT document_id FROM rag_internal.document_digest WHERE collection = $1
             AND source = $2",
        &[collection.into(), source.into()],
        |row| document_id(&row),
    )
}

/// Returns the ids of the stored documents of a source that a container holds, an archive or a
/// mailbox.
pub fn ids_in_container(
    owner: &OwnerRights,
    collection: &str,
    source: &str,
    container: &str,
) -> Result<Vec<DocumentId>, Error> {
    owner.query(
        "SELECT document_id FROM rag.documents
         WHERE collection = $1 AND source = $2 AND starts_with(uri, $3 || '!/')",
        &[collection.into(), source.into(), container.into()],
        |row| document_id(&row),
    )
}

/// Ids of all documents of a source, as [`ids_of_source`] has them, by collection; all collections
/// but one.
pub fn ids_by_collection(
    owner: &OwnerRights,
    source: &str,
    except: Option<&str>,
) -> Result<HashMap<String, Vec<DocumentId>>, Error> {
    let found = owner.execute_returning(
        "SELECT i.document_id, c.name
         FROM rag_internal.collection c,
              LATERAL (SELECT document_id FROM rag.documents
                       WHERE collection = c.name AND source = $1
                       UNION SELECT document_id FROM rag_internal.document_digest
                       WHERE collection = c.name AND source = $1) i
         WHERE c.name IS DISTINCT FROM $2",
        &[source.into(), except.into()],
        |row| Ok((document_id(&row)?, row.required::<String>("name")?)),
    )?;
    let mut by_collection = HashMap::<_, Vec<_>>::new();
    for (id, collection) in found {
        by_collection.entry(collection).or_default().push(id);
    }
    Ok(by_collection)
}

/// Runs statements that are kept while the tables grow, those of triggers included. Their plans are
/// made once, and use keys even if the tables are empty then.
///
/// Where chunks are distributed, the values of parameters say which servers a statement is for. So
/// it is planned with them.
pub(super) fn planned_once<R>(f: impl FnOnce() -> R) -> R {
    if shards::is_distributed().unwrap_or(false) {
        return f();
    }
    let settings = [
        (c"plan_cache_mode", c"force_generic_plan"),
        (c"enable_seqscan", c"off"),
        (c"jit", c"off"),
    ];
    with_settings(&settings, f)
}

/// A document that could not be indexed.
pub struct FailedDocument<'a> {
    pub id: DocumentId,
    pub collection: &'a str,
    pub source: Option<&'a str>,
    pub uri: &'a str,
    pub document_type: Option<&'a str>,
    pub error: &'a str,
    /// It exists. Otherwise, as for a folder that could not be listed, no new document is created.
    pub fetched: bool,
}

/// Records that a document could not be indexed. Only its status and error change: what was indexed
/// before stays. A document that a dropped source of the same name left does not change at all.
pub fn record_failure(owner: &OwnerRights, failed: &FailedDocument<'_>) -> Result<(), Error> {
    if !failed.fetched {
        owner.execute(
            "UPDATE rag.documents SET status = 'error', error = $3
             WHERE collection = $1 AND document_id = $2 AND source IS NOT DISTINCT FROM $4",
            &[
                failed.collection.into(),
                uuid(failed.id.0).into(),
                failed.error.into(),
                failed.source.into(),
            ],
        )?;
        return Ok(());
    }
    let inserted = owner.execute_returning(
        "INSERT INTO rag.documents AS d (
             document_id, collection, source, uri, document_type, status, error)
         VALUES ($1, $2, $3, $4, $5, 'error', $6)
         ON CONFLICT (collection, document_id)
             DO UPDATE SET status = 'error', error = excluded.error
             WHERE d.source IS NOT DISTINCT FROM excluded.source
         RETURNING d.xmax = 0 AS is_new",
        &[
            uuid(failed.id.0).into(),
            failed.collection.into(),
            failed.source.into(),
            failed.uri.into(),
            failed.document_type.into(),
            failed.error.into(),
        ],
        |row| row.required::<bool>("is_new"),
    )?;
    if failed.source.is_some() && inserted.first() == Some(&true) {
        super::digests::record(owner, failed.collection, failed.id)?;
    }
    Ok(())
}

/// Deletes documents that their source no longer has, with their chunks and digests. Returns their
/// number.
pub fn delete_and_forget(
    owner: &OwnerRights,
    collection: &str,
    ids: &[DocumentId],
) -> Result<usize, Error> {
    let deleted = delete(owner, collection, ids)?;
    super::digests::delete(owner, collection, ids)?;
    Ok(deleted)
}

/// Deletes documents with their chunks, and returns their number. Rows come first, as in
/// [`stored_documents::replace`](super::stored_documents::replace).
pub fn delete(owner: &OwnerRights, collection: &str, ids: &[DocumentId]) -> Result<usize, Error> {
    partitions::join_writers(collection);
    let rows: Vec<pgrx::Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    let deleted = owner.execute(
        "DELETE FROM rag.documents WHERE collection = $1 AND document_id = ANY ($2)",
        &[collection.into(), rows.into()],
    )?;
    planned_once(|| chunks::delete(owner, collection, ids))?;
    Ok(deleted)
}

/// Returns the number of documents in each collection that still has its partition, by name. These
/// are the documents that DROP EXTENSION deletes.
pub fn counts_in_partitions(owner: &OwnerRights) -> Result<Vec<(String, i64)>, Error> {
    owner.query(
        "SELECT d.collection, count(*) FROM rag.documents d
         WHERE d.collection IN (
             SELECT k.name FROM rag_internal.collection k
             JOIN pg_class c ON c.relname = k.partition
             JOIN pg_inherits i ON i.inhrelid = c.oid
             WHERE i.inhparent = 'rag.chunks'::regclass)
         GROUP BY d.collection ORDER BY d.collection",
        &[],
        |row| Ok((row.required("collection")?, row.required("count")?)),
    )
}

/// The stored version of a document.
#[derive(Debug)]
pub struct IndexedVersion {
    pub raw_hash: String,
    pub chunking: String,
    pub content_hash: String,
    pub chunks: i32,
}

/// Returns the stored version of a document, or None if it is missing or incomplete.
pub fn indexed_version(
    owner: &OwnerRights,
    collection: &str,
    id: DocumentId,
) -> Result<Option<IndexedVersion>, Error> {
    partitions::join_writers(collection);
    let found = {
        let partition = partitions::of(collection)?;
        let rows = partitions::Partition::rows_of(partition.as_ref(), collection, "");
        owner.query(
            &format!(
                "SELECT raw_hash, chunking, content_hash, chunk_count FROM rag.documents
                 WHERE collection = $1 AND document_id = $2 AND status = 'active'
                   AND raw_hash IS NOT NULL AND chunking IS NOT NULL AND content_hash IS NOT NULL
                   AND chunk_count = (SELECT count(*) FROM rag.chunks
                                      WHERE {rows} AND document_id = $2)"
            ),
            &[collection.into(), uuid(id.0).into()],
            |row| {
                Ok(IndexedVersion {
                    raw_hash: row.required("raw_hash")?,
                    chunking: row.required("chunking")?,
                    content_hash: row.required("content_hash")?,
                    chunks: row.required("chunk_count")?,
                })
            },
        )
    }?;
    Ok(found.into_iter().next())
}

/// The source and the knowledge item that a document belongs to.
pub struct DocumentOrigin {
    pub source: Option<String>,
    pub uri: String,
    pub knowledge_id: Option<i64>,
}

/// Returns the origin of a document, and locks its row until the transaction ends.
pub fn lock(
    owner: &OwnerRights,
    collection: &str,
    id: DocumentId,
) -> Result<Option<DocumentOrigin>, Error> {
    let found = owner.execute_returning(
        "SELECT source, uri, knowledge_id FROM rag.documents
         WHERE collection = $1 AND document_id = $2 FOR UPDATE",
        &[collection.into(), uuid(id.0).into()],
        |row| {
            Ok(DocumentOrigin {
                source: row.get("source")?,
                uri: row.required("uri")?,
                knowledge_id: row.get("knowledge_id")?,
            })
        },
    )?;
    Ok(found.into_iter().next())
}

/// Returns the collections that have a document of this id.
pub fn collections_of(owner: &OwnerRights, id: DocumentId) -> Result<Vec<String>, Error> {
    owner.query(
        "SELECT c.name FROM rag_internal.collection c
         WHERE EXISTS (SELECT FROM rag.documents d
                       WHERE d.collection = c.name AND d.document_id = $1)
         ORDER BY c.name",
        &[uuid(id.0).into()],
        |row| row.required("name"),
    )
}

/// The attributes that a user gives to a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentAttributes {
    pub knowledge_id: Option<i64>,
    pub labels: Labels,
}
