//! `rag.manifest`: digests of what runs have indexed of each document.
//!
//! They are computed in SQL, by one function for writing and checking (`sql/drift.sql`).

use rag_protocol::identity::DocumentId;

use crate::{
    error::Error,
    pg::spi::{execute, uuid},
};

/// Where a statement that inserts the chunks of a document returns what [`noting`] needs.
const NOTED: &str =
    "RETURNING chunks.chunk_index, chunks.chunk_id, rag.chunk_digest(chunks) AS digest";

/// The statement that inserts chunks, made into one that also notes their document. The numbers of
/// its further parameters are `first` (the document's id), then collection, source, uri, content
/// hash and digest.
///
/// Digests are taken of the rows as they are inserted: reading them again would cost more.
pub fn noting(insert_chunks: &str, first: usize) -> String {
    let [id, collection, source, uri, content_hash, digest]: [usize; 6] =
        std::array::from_fn(|i| first + i);
    format!(
        "WITH stored AS ({insert_chunks} {NOTED})
         INSERT INTO rag.manifest AS m (document_id, collection, source, uri, content_hash, chunk_count, digest)
         SELECT ${id}, ${collection}, ${source}, ${uri}, ${content_hash}, pg_catalog.count(*)::pg_catalog.int4,
                ${digest} || pg_catalog.sha256(coalesce(
                    pg_catalog.string_agg(s.digest, '' ORDER BY s.chunk_index, s.chunk_id), ''))
         FROM stored s {REPLACE}"
    )
}

const REPLACE: &str = "ON CONFLICT (document_id) DO UPDATE SET collection = excluded.collection, source = excluded.source,
    uri = excluded.uri, content_hash = excluded.content_hash, chunk_count = excluded.chunk_count, digest = excluded.digest";

/// Notes a document as it is stored now. Runs as the extension's owner, in the transaction that
/// stored it.
pub fn note(collection: &str, id: DocumentId) -> Result<(), Error> {
    execute(
        &format!(
            "INSERT INTO rag.manifest AS m (document_id, collection, source, uri, content_hash, chunk_count, digest)
             SELECT d.document_id, $1, d.source, d.uri, d.content_hash, d.chunk_count, d.digest
             FROM rag.document_digests($1) d WHERE d.document_id = $2 {REPLACE}"
        ),
        &[collection.into(), uuid(id.0).into()],
    )?;
    Ok(())
}

/// Forgets documents that their source no longer has. Runs as the extension's owner.
pub fn forget(ids: &[DocumentId]) -> Result<(), Error> {
    let ids: Vec<pgrx::Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    execute(
        "DELETE FROM rag.manifest WHERE document_id = ANY ($1)",
        &[ids.into()],
    )?;
    Ok(())
}
