//! `rag_internal.document_digest`: the digests of the documents that runs have indexed.
//!
//! One SQL function computes them for writing and for checking (`sql/drift.sql`).

use pgrx::datum::DatumWithOid;
use rag_protocol::identity::DocumentId;

use super::{documents::StoredDocument, partitions::Partition};
use crate::{
    error::Error,
    pg::spi::{OwnerRights, uuid},
};

/// Records the digest of a document whose chunks were just stored. `digest` is that of its row.
///
/// The digests of chunks are computed from the stored rows, in a statement of its own: RETURNING
/// would need a WITH around the insertion, which cannot be distributed over servers.
pub fn record_stored(
    owner: &OwnerRights,
    document: &StoredDocument<'_>,
    partition: &Partition,
    digest: Vec<u8>,
) -> Result<(), Error> {
    let rows = partition.rows(document.collection, "c.");
    let statement = format!(
        "INSERT INTO rag_internal.document_digest AS m (
             document_id, collection, source, uri, content_hash, chunk_count, digest)
         SELECT $1, $2, $3, $4, $5, k.chunk_count, $6 || k.digest
         FROM (SELECT count(*)::int4 AS chunk_count,
                      sha256(coalesce(string_agg(
                          rag_internal.chunk_digest(
                              c.chunk_id, c.chunk_index, c.start_index, c.start_line, c.end_line,
                              c.page, c.heading_path, c.source, c.uri, c.title, c.knowledge_id,
                              c.document_type, c.category, c.tags, c.metadata, c.embedding_key,
                              c.content, c.fetched_at, c.indexed_at, c.embedding),
                          '' ORDER BY c.chunk_index, c.chunk_id), '')) AS digest
               FROM rag.chunks c WHERE {rows} AND c.document_id = $1) k
         {ON_CONFLICT}"
    );
    let args: [DatumWithOid<'_>; 6] = [
        uuid(document.id.0).into(),
        document.collection.into(),
        document.source.into(),
        document.uri.into(),
        document.content_hash.into(),
        digest.into(),
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
