//! `rag_internal.document_digest`: the digests of the documents that runs have indexed.
//!
//! One SQL function computes them for writing and for checking (`sql/drift.sql`).

use pgrx::datum::DatumWithOid;
use rag_protocol::identity::DocumentId;

use super::{partitions::Partition, stored_documents::StoredDocument};
use crate::{
    error::Error,
    pg::spi::{OwnerRights, column, uuid},
};

/// Records the digests of documents whose chunks were just stored. Each comes with that of its row.
///
/// The digests of chunks are computed from the stored rows, in a statement of its own: RETURNING
/// would need a WITH around the insertion, which cannot be distributed over servers.
pub fn record_stored(
    owner: &OwnerRights,
    collection: &str,
    partition: &Partition,
    documents: &[(&StoredDocument<'_>, Vec<u8>)],
) -> Result<(), Error> {
    if documents.is_empty() {
        return Ok(());
    }
    let rows = partition.rows(collection, "c.");
    let statement = format!(
        "INSERT INTO rag_internal.document_digest AS m (
             document_id, collection, source, uri, content_hash, chunk_count, digest)
         SELECT d.id, $1, d.source, d.uri, d.content_hash, coalesce(k.chunk_count, 0),
                d.digest || sha256(coalesce(k.digests, ''))
         FROM ROWS FROM (unnest($2), unnest($3), unnest($4), unnest($5), unnest($6))
             AS d (id, source, uri, content_hash, digest)
         LEFT JOIN (
             SELECT c.document_id, count(*)::int4 AS chunk_count,
                    string_agg(c.digest, '' ORDER BY c.chunk_index, c.chunk_id) AS digests
             FROM (SELECT c.document_id, c.chunk_index, c.chunk_id,
                          rag_internal.chunk_digest(
                              c.chunk_id, c.chunk_index, c.start_index, c.head_length,
                              c.start_line, c.end_line, c.page, c.heading_path, c.anchor,
                              c.source, c.uri, c.title, c.knowledge_id, c.document_type,
                              c.category, c.tags, c.metadata, c.embedding_key, c.content,
                              c.fetched_at, c.indexed_at, c.embedding) AS digest
                   FROM rag.chunks c WHERE {rows} AND c.document_id = ANY ($2)) c
             GROUP BY c.document_id) k ON k.document_id = d.id
         {ON_CONFLICT}"
    );
    let args: [DatumWithOid<'_>; 6] = [
        collection.into(),
        column(documents, |(document, _)| uuid(document.id.0)),
        column(documents, |(document, _)| document.source),
        column(documents, |(document, _)| document.uri),
        column(documents, |(document, _)| document.content_hash),
        column(documents, |(_, digest)| digest.as_slice()),
    ];
    owner.execute_prepared(&statement, &args, |_| Ok(()))?;
    Ok(())
}

const ON_CONFLICT: &str = "ON CONFLICT (collection, document_id) DO UPDATE SET
    source = excluded.source, uri = excluded.uri,
    content_hash = excluded.content_hash, chunk_count = excluded.chunk_count,
    digest = excluded.digest";

/// Records the digest of a document as it is stored now, in the transaction that stored it.
pub fn record(owner: &OwnerRights, collection: &str, id: DocumentId) -> Result<(), Error> {
    owner.execute(
        &format!(
            "INSERT INTO rag_internal.document_digest AS m (
                 document_id, collection, source, uri, content_hash, chunk_count, digest)
             SELECT d.document_id, $1, d.source, d.uri, d.content_hash, d.chunk_count, d.digest
             FROM rag_internal.compute_document_digests($1, of_document => $2) d {ON_CONFLICT}"
        ),
        &[collection.into(), uuid(id.0).into()],
    )?;
    Ok(())
}

/// Deletes the digests of documents that their source no longer has.
pub fn delete(owner: &OwnerRights, collection: &str, ids: &[DocumentId]) -> Result<(), Error> {
    let ids: Vec<pgrx::Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    owner.execute(
        "DELETE FROM rag_internal.document_digest WHERE collection = $1 AND document_id = ANY ($2)",
        &[collection.into(), ids.into()],
    )?;
    Ok(())
}
