//! `rag.document_digests`: the digests of the documents that runs have indexed.
//!
//! One SQL function computes them for writing and for checking (`sql/drift.sql`).

use rag_protocol::identity::DocumentId;

use crate::{
    error::Error,
    pg::spi::{execute, uuid},
};

/// The RETURNING clause that [`insert_with_digest`] adds to the insertion of chunks.
const DIGEST_COLUMNS: &str =
    "RETURNING chunks.chunk_index, chunks.chunk_id, rag.chunk_digest(chunks) AS digest";

/// Returns a statement that inserts chunks and also records the digest of their document. Its
/// further parameters, from number `first`, are the document's id, collection, source, uri, content
/// hash and digest.
///
/// Digests are computed from the rows as they are inserted. Reading the rows again would cost more.
pub fn insert_with_digest(insert_chunks: &str, first: usize) -> String {
    let [id, collection, source, uri, content_hash, digest]: [usize; 6] =
        std::array::from_fn(|i| first + i);
    format!(
        "WITH stored AS ({insert_chunks} {DIGEST_COLUMNS})
         INSERT INTO rag.document_digests AS m (
             document_id, collection, source, uri, content_hash, chunk_count, digest)
         SELECT ${id}, ${collection}, ${source}, ${uri}, ${content_hash},
                pg_catalog.count(*)::pg_catalog.int4,
                ${digest} || pg_catalog.sha256(coalesce(
                    pg_catalog.string_agg(s.digest, '' ORDER BY s.chunk_index, s.chunk_id), ''))
         FROM stored s {ON_CONFLICT}"
    )
}

const ON_CONFLICT: &str = "ON CONFLICT (document_id) DO UPDATE SET
    collection = excluded.collection, source = excluded.source, uri = excluded.uri,
    content_hash = excluded.content_hash, chunk_count = excluded.chunk_count,
    digest = excluded.digest";

/// Records the digest of a document as it is stored now. Runs as the extension's owner, in the
/// transaction that stored it.
pub fn record(collection: &str, id: DocumentId) -> Result<(), Error> {
    execute(
        &format!(
            "INSERT INTO rag.document_digests AS m (
                 document_id, collection, source, uri, content_hash, chunk_count, digest)
             SELECT d.document_id, $1, d.source, d.uri, d.content_hash, d.chunk_count, d.digest
             FROM rag.compute_document_digests($1) d WHERE d.document_id = $2 {ON_CONFLICT}"
        ),
        &[collection.into(), uuid(id.0).into()],
    )?;
    Ok(())
}

/// Deletes the digests of documents that their source no longer has. Runs as the extension's owner.
pub fn delete(ids: &[DocumentId]) -> Result<(), Error> {
    let ids: Vec<pgrx::Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    execute(
        "DELETE FROM rag.document_digests WHERE document_id = ANY ($1)",
        &[ids.into()],
    )?;
    Ok(())
}
