//! Writes the rows of a collection as a bundle has them.
//!
//! A bundle could have false embeddings of texts. So other collections take none from a collection
//! that was imported: see `rag_internal.collection.imported`. No row of
//! `rag_internal.embedding_place` is written.

use pgrx::datum::DatumWithOid;
use rag_bundle::{Chunk, Digest, Document, KnowledgeItem};

use super::exactly;
use crate::{
    catalog::{collections::Collection, partitions::Partition},
    error::Error,
    pg::{
        roles::Owner,
        spi::{array_literal, column, uuid},
    },
    types::vector::OwnedVector,
};

/// Returns `unnest($from), ...` for so many parameters.
fn unnested(from: usize, count: usize) -> String {
    (from..from + count)
        .map(|n| format!("unnest(${n})"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Records that a collection was imported, before it has chunks, and what its ids are made from.
///
/// # Errors
/// The statement fails.
pub fn mark_imported(collection: &str, ids_from: Option<&str>) -> Result<(), Error> {
    exactly(|owner| {
        owner.execute(
            "UPDATE rag_internal.collection SET imported = true, ids_from = $2 WHERE name = $1",
            &[collection.into(), ids_from.into()],
        )
    })?;
    Ok(())
}

/// Inserts documents.
///
/// # Errors
/// Another record of the bundle has the id of a document.
pub fn insert_documents(collection: &Collection, rows: &[Document]) -> Result<(), Error> {
    let ids = column(rows, |d| uuid(d.document_id));
    let taken = exactly(|owner| {
        owner.execute_returning(
            "SELECT document_id::text FROM rag.documents
             WHERE collection = $1 AND document_id = ANY ($2) ORDER BY document_id LIMIT 1",
            &[collection.name.as_str().into(), ids],
            |row| row.required::<String>("document_id"),
        )
    })?;
    if let Some(id) = taken.first() {
        return Err(Error::duplicate(format!(
            "the bundle has several documents with the id {id}"
        )));
    }
    let statement = format!(
        "INSERT INTO rag.documents (
             collection, document_id, given_id, source, former_source, uri, title, knowledge_id,
             document_type, category, tags, status, error, content_hash, chunk_count, raw_hash,
             chunking, own_title, validator, created_at, fetched_at, indexed_at, content, metadata,
             anchors)
         SELECT $1, d.document_id, d.given_id, d.source, d.former_source, d.uri, d.title,
                d.knowledge_id, d.document_type, d.category, d.tags::text[], d.status,
                d.error,
                d.content_hash, d.chunk_count, d.raw_hash, d.chunking, d.own_title, d.validator,
                d.created_at::timestamptz, d.fetched_at::timestamptz,
                d.indexed_at::timestamptz, d.content, d.metadata::jsonb, d.anchors
         FROM ROWS FROM ({}) AS d (
             document_id, given_id, source, former_source, uri, title, knowledge_id, document_type,
             category, tags, status, error, content_hash, chunk_count, raw_hash, chunking,
             own_title,
             validator, created_at, fetched_at, indexed_at, content, metadata, anchors)",
        unnested(2, 24)
    );
    let args: Vec<DatumWithOid<'_>> = vec![
        collection.name.as_str().into(),
        column(rows, |d| uuid(d.document_id)),
        column(rows, |d| d.given_id.as_deref()),
        column(rows, |d| d.source.as_deref()),
        column(rows, |d| d.former_source.as_deref()),
        column(rows, |d| d.uri.as_str()),
        column(rows, |d| d.title.as_deref()),
        column(rows, |d| d.knowledge_id),
        column(rows, |d| d.document_type.as_deref()),
        column(rows, |d| d.category.as_deref()),
        column(rows, |d| d.tags.as_deref().map(array_literal)),
        column(rows, |d| d.status.as_str()),
        column(rows, |d| d.error.as_deref()),
        column(rows, |d| d.content_hash.as_deref()),
        column(rows, |d| d.chunk_count),
        column(rows, |d| d.raw_hash.as_deref()),
        column(rows, |d| d.chunking.as_deref()),
        column(rows, |d| d.own_title),
        column(rows, |d| d.validator.as_deref()),
        column(rows, |d| d.created_at.as_str()),
        column(rows, |d| d.fetched_at.as_deref()),
        column(rows, |d| d.indexed_at.as_deref()),
        column(rows, |d| d.content.as_deref()),
        column(rows, |d| d.metadata.as_str()),
        column(rows, |d| {
            d.anchors
                .as_ref()
                .map(|it| pgrx::JsonB(serde_json::json!(it)))
        }),
    ];
    exactly(|owner| owner.execute_prepared(&statement, &args, |_| Ok(())))?;
    Ok(())
}

/// Inserts chunks with their embeddings.
///
/// # Errors
/// A chunk with such ids exists, or an embedding has other dimensions.
pub fn insert_chunks(collection: &Collection, rows: &[(Chunk, OwnedVector)]) -> Result<(), Error> {
    let statement = format!(
        "INSERT INTO rag.chunks (
             collection, document_id, chunk_id, chunk_index, start_index, start_line, end_line,
             page, heading_path, source, former_source, uri, title, knowledge_id, document_type,
             category, tags, embedding_key, fetched_at, indexed_at, content, metadata, embedding,
             given_id, head_length, anchor, partition)
         SELECT $1, c.document_id, c.chunk_id, c.chunk_index, c.start_index, c.start_line,
                c.end_line, c.page, c.heading_path::text[],
                CASE WHEN d.former_source IS NULL THEN c.source END, d.former_source, c.uri,
                c.title, c.knowledge_id, c.document_type, c.category, c.tags::text[],
                c.embedding_key, c.fetched_at::timestamptz,
                c.indexed_at::timestamptz, c.content, c.metadata::jsonb,
                c.embedding, c.given_id, c.head_length, c.anchor, $2
         FROM ROWS FROM ({}) AS c (
             document_id, chunk_id, chunk_index, start_index, start_line, end_line, page,
             heading_path, source, uri, title, knowledge_id, document_type, category, tags,
             embedding_key, fetched_at, indexed_at, content, metadata, embedding, given_id,
             head_length, anchor)
              LEFT JOIN rag.documents d
                  ON d.collection = $1 AND d.document_id = c.document_id",
        unnested(3, 24)
    );
    let partition = collection.partition.as_ref().map(Partition::name);
    let args: Vec<DatumWithOid<'_>> = vec![
        collection.name.as_str().into(),
        partition.into(),
        column(rows, |(c, _)| uuid(c.document_id)),
        column(rows, |(c, _)| uuid(c.chunk_id)),
        column(rows, |(c, _)| c.chunk_index),
        column(rows, |(c, _)| c.start_index),
        column(rows, |(c, _)| c.start_line),
        column(rows, |(c, _)| c.end_line),
        column(rows, |(c, _)| c.page),
        column(rows, |(c, _)| c.heading_path.as_deref().map(array_literal)),
        column(rows, |(c, _)| c.source.as_deref()),
        column(rows, |(c, _)| c.uri.as_str()),
        column(rows, |(c, _)| c.title.as_deref()),
        column(rows, |(c, _)| c.knowledge_id),
        column(rows, |(c, _)| c.document_type.as_str()),
        column(rows, |(c, _)| c.category.as_deref()),
        column(rows, |(c, _)| c.tags.as_deref().map(array_literal)),
        column(rows, |(c, _)| uuid(c.embedding_key)),
        column(rows, |(c, _)| c.fetched_at.as_str()),
        column(rows, |(c, _)| c.indexed_at.as_str()),
        column(rows, |(c, _)| c.content.as_str()),
        column(rows, |(c, _)| c.metadata.as_str()),
        column(rows, |(_, embedding)| embedding.clone()),
        column(rows, |(c, _)| c.given_id.as_deref()),
        column(rows, |(c, _)| c.head_length),
        column(rows, |(c, _)| c.anchor.as_deref()),
    ];
    exactly(|owner| owner.execute_prepared(&statement, &args, |_| Ok(())))?;
    Ok(())
}

/// Inserts knowledge items. `owner` is the role that registers their uris.
///
/// # Errors
/// A statement fails.
pub fn insert_knowledge(
    collection: &Collection,
    rows: &[KnowledgeItem],
    owner: &Owner,
) -> Result<(), Error> {
    let statement = format!(
        "INSERT INTO rag_internal.knowledge_item (
             collection, owner, owner_id, knowledge_id, title, uri, document_type, category, tags,
             paths, status, error, content_hash, created_at, last_fetched_at, indexed_at)
         SELECT $1, $2, $3, k.knowledge_id, k.title, k.uri, k.document_type, k.category, k.tags,
                coalesce(string_to_array(k.paths, E'\\n'), '{{}}'), k.status,
                k.error, k.content_hash, k.created_at::timestamptz,
                k.fetched_at::timestamptz, k.indexed_at::timestamptz
         FROM ROWS FROM ({}) AS k (
             knowledge_id, title, uri, document_type, category, tags, paths, status, error,
             content_hash, created_at, fetched_at, indexed_at)",
        unnested(4, 13)
    );
    let args: Vec<DatumWithOid<'_>> = vec![
        collection.name.as_str().into(),
        owner.name.as_str().into(),
        owner.id.into(),
        column(rows, |k| k.knowledge_id),
        column(rows, |k| k.title.as_deref()),
        column(rows, |k| k.uri.as_str()),
        column(rows, |k| k.document_type.as_str()),
        column(rows, |k| k.category.as_deref()),
        column(rows, |k| k.tags.as_deref()),
        column(rows, |k| k.paths.as_deref()),
        column(rows, |k| k.status.as_str()),
        column(rows, |k| k.error.as_deref()),
        column(rows, |k| k.content_hash.as_deref()),
        column(rows, |k| k.created_at.as_str()),
        column(rows, |k| k.fetched_at.as_deref()),
        column(rows, |k| k.indexed_at.as_deref()),
    ];
    exactly(|rights| rights.execute_prepared(&statement, &args, |_| Ok(())))?;
    Ok(())
}

/// Inserts digests with their bytes.
///
/// # Errors
/// A statement fails.
pub fn insert_digests(collection: &Collection, rows: &[(Digest, Vec<u8>)]) -> Result<(), Error> {
    let statement = format!(
        "INSERT INTO rag_internal.document_digest (
             collection, document_id, source, uri, content_hash, chunk_count, digest)
         SELECT $1, d.* FROM ROWS FROM ({}) AS d",
        unnested(2, 6)
    );
    let args: Vec<DatumWithOid<'_>> = vec![
        collection.name.as_str().into(),
        column(rows, |(d, _)| uuid(d.document_id)),
        column(rows, |(d, _)| d.source.as_str()),
        column(rows, |(d, _)| d.uri.as_str()),
        column(rows, |(d, _)| d.content_hash.as_deref()),
        column(rows, |(d, _)| d.chunk_count),
        column(rows, |(_, bytes)| bytes.as_slice()),
    ];
    exactly(|owner| owner.execute_prepared(&statement, &args, |_| Ok(())))?;
    Ok(())
}

/// Computes the digests of all documents of sources as they are stored now.
///
/// # Errors
/// A statement fails.
pub fn digest_all(collection: &Collection) -> Result<(), Error> {
    exactly(|owner| {
        owner.execute(
            "INSERT INTO rag_internal.document_digest (
                 document_id, collection, source, uri, content_hash, chunk_count, digest)
             SELECT d.document_id, $1, d.source, d.uri, d.content_hash, d.chunk_count, d.digest
             FROM rag_internal.compute_document_digests($1) AS d WHERE d.source IS NOT NULL",
            &[collection.name.as_str().into()],
        )
    })?;
    Ok(())
}

/// When a collection was created, and when it was changed last.
pub struct CollectionTimes<'a> {
    pub created_at: &'a str,
    pub updated_at: &'a str,
}

/// Gives a collection that was just written the times that it had.
///
/// # Errors
/// A text is no time.
pub fn restore_times(collection: &Collection, times: &CollectionTimes<'_>) -> Result<(), Error> {
    let args = || -> [DatumWithOid<'_>; 3] {
        [
            collection.name.as_str().into(),
            times.created_at.into(),
            times.updated_at.into(),
        ]
    };
    exactly(|owner| {
        owner.execute(
            "UPDATE rag_internal.collection
             SET created_at = $2::timestamptz, updated_at = $3::timestamptz
             WHERE name = $1",
            &args(),
        )?;
        owner.execute(
            "DELETE FROM rag_internal.content_change WHERE collection = $1",
            &args()[..1],
        )?;
        owner.execute(
            "INSERT INTO rag_internal.content_change (collection, changed_at)
             VALUES ($1, $2::timestamptz)",
            &[collection.name.as_str().into(), times.updated_at.into()],
        )
    })?;
    Ok(())
}
