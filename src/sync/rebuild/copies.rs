//! The documents that a rebuild has copied: `rag_internal.rebuilt_document`. All functions run as
//! the extension's owner.

use std::collections::HashMap;

use pgrx::datum::DatumWithOid;
use rag_protocol::identity::DocumentId;

use crate::{
    catalog::{
        collections::Collection, documents::document_id, partitions::Partition,
        shards::is_distributed,
    },
    error::Error,
    pg::spi::{OwnerRights, Row, uuid},
};

/// Deletes chunks of documents that are not recorded as copied, as after a dump was restored.
pub fn delete_unrecorded(
    owner: &OwnerRights,
    collection: &str,
    relation: &Partition,
) -> Result<(), Error> {
    let recorded = "SELECT r.document_id FROM rag_internal.rebuilt_document r
                    WHERE r.collection = $1";
    // Citus sends the ids to the servers, but cannot join them; the planner prefers to join
    let condition = match is_distributed()? {
        true => format!("c.document_id NOT IN ({recorded})"),
        false => format!("NOT EXISTS ({recorded} AND r.document_id = c.document_id)"),
    };
    owner.execute(
        &format!("DELETE FROM {} c WHERE {condition}", relation.qualified()),
        &[collection.into()],
    )?;
    Ok(())
}

/// A document whose stored version is not copied yet.
pub struct PendingDocument {
    pub id: DocumentId,
    /// See `rag_internal.rebuilt_document`.
    pub version: String,
    pub uri: String,
    pub chunking: Option<String>,
    pub has_text: bool,
    pub text_bytes: i64,
    pub chunks: i64,
    /// The number of chunks that it has lost with damaged pages.
    pub lost_chunks: i64,
    /// Another version is copied already.
    pub is_again: bool,
}

impl PendingDocument {
    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        Ok(Self {
            id: document_id(row)?,
            version: row.required("version")?,
            uri: row.required("uri")?,
            chunking: row.get("chunking")?,
            has_text: row.required("has_text")?,
            text_bytes: row.required("text_bytes")?,
            chunks: row.required("chunks")?,
            lost_chunks: 0,
            is_again: row.required("is_again")?,
        })
    }
}

/// Returns documents whose stored versions are not copied yet, in the order of their ids, after the
/// document `after`.
pub fn next_documents(
    owner: &OwnerRights,
    collection: &str,
    after: Option<DocumentId>,
    limit: i64,
) -> Result<Vec<PendingDocument>, Error> {
    owner.execute_returning(
        "SELECT d.document_id, d.xmin::text AS version, d.uri, d.chunking,
                d.content IS NOT NULL AS has_text,
                coalesce(octet_length(d.content), 0)::int8 AS text_bytes,
                d.chunk_count::int8 AS chunks, r.document_id IS NOT NULL AS is_again
         FROM rag.documents d
              LEFT JOIN rag_internal.rebuilt_document r
                  ON r.collection = $1 AND r.document_id = d.document_id
                 AND ($2 IS NULL OR r.document_id > $2)
         WHERE d.collection = $1 AND ($2 IS NULL OR d.document_id > $2)
           AND r.version IS DISTINCT FROM d.xmin::text
         ORDER BY d.document_id LIMIT $3",
        &[
            collection.into(),
            after.map(|id| uuid(id.0)).into(),
            limit.into(),
        ],
        |row| PendingDocument::read(&row),
    )
}

/// Counts the chunks that some documents have lost. The table of the collection can be read.
pub fn count_lost_chunks(
    owner: &OwnerRights,
    collection: &Collection,
    documents: &mut [PendingDocument],
) -> Result<(), Error> {
    let ids: Vec<DocumentId> = documents.iter().map(|document| document.id).collect();
    let stored = owner.execute_returning(
        &format!(
            "SELECT c.document_id, count(*) AS chunks FROM rag.chunks c
             WHERE {} AND c.document_id = ANY ($1) GROUP BY 1",
            collection.rows("c.")
        ),
        &[uuids(&ids).into()],
        |row| Ok((document_id(&row)?, row.required::<i64>("chunks")?)),
    )?;
    let stored: HashMap<DocumentId, i64> = stored.into_iter().collect();
    for document in documents {
        let found = stored.get(&document.id).copied().unwrap_or_default();
        document.lost_chunks = (document.chunks - found).max(0);
    }
    Ok(())
}

/// Removes copied documents that are no longer stored. Returns their number.
pub fn remove_vanished(
    owner: &OwnerRights,
    collection: &str,
    relation: &Partition,
) -> Result<usize, Error> {
    let gone = owner.execute_returning(
        "DELETE FROM rag_internal.rebuilt_document r
         WHERE r.collection = $1 AND NOT EXISTS (
             SELECT FROM rag.documents d
             WHERE d.collection = $1 AND d.document_id = r.document_id)
         RETURNING r.document_id",
        &[collection.into()],
        |row| document_id(&row),
    )?;
    delete_copies(owner, relation, &gone)?;
    Ok(gone.len())
}

/// Deletes the copied chunks of some documents.
pub fn delete_copies(
    owner: &OwnerRights,
    relation: &Partition,
    ids: &[DocumentId],
) -> Result<(), Error> {
    if ids.is_empty() {
        return Ok(());
    }
    owner.execute(
        &format!(
            "DELETE FROM {} WHERE document_id = ANY ($1)",
            relation.qualified()
        ),
        &[uuids(ids).into()],
    )?;
    Ok(())
}

/// Records documents that were copied. With `chunking`, it is their new value, and their chunks are
/// others than before.
pub fn record(
    owner: &OwnerRights,
    collection: &str,
    relation: &Partition,
    documents: &[&PendingDocument],
    chunking: Option<&str>,
    are_changed: bool,
) -> Result<(), Error> {
    let ids: Vec<DocumentId> = documents.iter().map(|document| document.id).collect();
    let versions: Vec<&str> = documents.iter().map(|d| d.version.as_str()).collect();
    let digest = if are_changed { DIGEST } else { "NULL::bytea" };
    let relation = relation.qualified();
    let arguments: [DatumWithOid<'_>; 4] = [
        collection.into(),
        uuids(&ids).into(),
        versions.into(),
        chunking.into(),
    ];
    owner.execute_prepared(
        &format!(
            "INSERT INTO rag_internal.rebuilt_document AS r (
                 collection, document_id, version, chunking, chunk_count, digest, language)
             SELECT $1, n.id, n.version, $4, coalesce(k.chunk_count, 0), k.digest, k.language
             FROM ROWS FROM (unnest($2), unnest($3)) AS n (id, version)
                  LEFT JOIN (SELECT c.document_id,
                                    count(*)::int4 AS chunk_count,
                                    {digest} AS digest,
                                    min(c.metadata ->> 'language') AS language
                             FROM {relation} c WHERE c.document_id = ANY ($2)
                             GROUP BY c.document_id) k ON k.document_id = n.id
             ON CONFLICT (collection, document_id) DO UPDATE SET
                 version = excluded.version, chunking = excluded.chunking,
                 chunk_count = excluded.chunk_count, digest = excluded.digest,
                 language = excluded.language"
        ),
        &arguments,
        |_| Ok(()),
    )?;
    Ok(())
}

/// The digest of the chunks of a document, as in `rag_internal.document_digest`.
const DIGEST: &str = "sha256(string_agg(
    rag_internal.chunk_digest(
        c.chunk_id, c.chunk_index, c.start_index, c.head_length, c.start_line, c.end_line,
        c.page, c.heading_path, c.anchor, c.source, c.uri, c.title, c.knowledge_id,
        c.document_type, c.category, c.tags, c.metadata, c.embedding_key, c.content,
        c.fetched_at, c.indexed_at, c.embedding),
    '' ORDER BY c.chunk_index, c.chunk_id))";

/// The document with `digest` differs from what its source indexed.
const DRIFTED: &str = "substr(m.digest, 1, 32) <> rag_internal.document_digest(d)";

/// Writes what has changed into the rows of documents, and into their digests. The row of a
/// document that has drifted from its digest keeps the former digest, so that the next check finds
/// it. With `notes_languages`, also writes the languages of documents that have none. Returns
/// false, and leaves the rest to another attempt, if other transactions have locked documents.
pub fn apply_to_documents(
    owner: &OwnerRights,
    collection: &str,
    notes_languages: bool,
) -> Result<bool, Error> {
    let changed: Vec<i64> = owner.query(
        "SELECT count(*) FROM rag_internal.rebuilt_document
         WHERE collection = $1 AND (chunking IS NOT NULL OR digest IS NOT NULL)",
        &[collection.into()],
        |row| row.required("count"),
    )?;
    if changed.first() == Some(&0) {
        return Ok(true);
    }
    let locked: Vec<i64> = owner.execute_returning(
        "WITH locked AS (
             SELECT d.document_id FROM rag_internal.rebuilt_document r
                  JOIN rag.documents d
                      ON d.collection = $1 AND d.document_id = r.document_id
             WHERE r.collection = $1 AND (r.chunking IS NOT NULL OR r.digest IS NOT NULL)
             FOR UPDATE OF d SKIP LOCKED)
         SELECT count(*) FROM locked",
        &[collection.into()],
        |row| row.required("count"),
    )?;
    if locked != changed {
        return Ok(false);
    }
    let drifted = owner.execute_returning(
        &format!(
            "SELECT d.document_id FROM rag_internal.rebuilt_document r
                  JOIN rag.documents d
                      ON d.collection = $1 AND d.document_id = r.document_id
                  JOIN rag_internal.document_digest m
                      ON m.collection = $1 AND m.document_id = r.document_id
             WHERE r.collection = $1 AND r.digest IS NOT NULL AND {DRIFTED}"
        ),
        &[collection.into()],
        |row| document_id(&row),
    )?;
    owner.execute(
        "UPDATE rag.documents d
         SET chunking = r.chunking, chunk_count = r.chunk_count, indexed_at = now()
         FROM rag_internal.rebuilt_document r
         WHERE r.collection = $1 AND d.collection = $1 AND d.document_id = r.document_id
           AND r.chunking IS NOT NULL",
        &[collection.into()],
    )?;
    if notes_languages {
        owner.execute(
            "UPDATE rag.documents d
             SET metadata = d.metadata || jsonb_build_object('language', r.language)
             FROM rag_internal.rebuilt_document r
             WHERE r.collection = $1 AND d.collection = $1 AND d.document_id = r.document_id
               AND r.language IS NOT NULL
               AND (r.chunking IS NOT NULL OR r.digest IS NOT NULL)
               AND NOT d.metadata ? 'language'",
            &[collection.into()],
        )?;
    }
    owner.execute(
        "UPDATE rag_internal.document_digest m
         SET chunk_count = r.chunk_count, digest = rag_internal.document_digest(d) || r.digest
         FROM rag_internal.rebuilt_document r
              JOIN rag.documents d ON d.collection = $1 AND d.document_id = r.document_id
         WHERE r.collection = $1 AND r.digest IS NOT NULL
           AND m.collection = $1 AND m.document_id = r.document_id
           AND NOT m.document_id = ANY ($2)",
        &[collection.into(), uuids(&drifted).into()],
    )?;
    Ok(true)
}

fn uuids(ids: &[DocumentId]) -> Vec<pgrx::Uuid> {
    ids.iter().map(|id| uuid(id.0)).collect()
}
