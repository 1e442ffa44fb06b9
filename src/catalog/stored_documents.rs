//! Documents with their chunks, as they are stored: some of them by a few statements.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use rag_protocol::{
    identity::{ChunkId, DocumentId, EmbeddingKey},
    ingest::{Chunk, NamedPlace},
};
use serde_json::{Map, Value};

use super::{
    chunks, digests,
    documents::{DocumentAttributes, document_id, planned_once},
    kept_documents, partitions,
};
use crate::{
    error::Error,
    pg::spi::{OwnerRights, array_literal, column, uuid},
    types::vector::OwnedVector,
};

/// A document with its chunks, as it is stored.
pub struct StoredDocument<'a> {
    pub id: DocumentId,
    pub source: Option<&'a str>,
    pub uri: &'a str,
    pub title: &'a str,
    pub own_title: bool,
    pub document_type: &'static str,
    pub attributes: DocumentAttributes,
    pub content_hash: &'a str,
    pub raw_hash: Option<&'a str>,
    pub validator: Option<&'a str>,
    pub chunking: &'a str,
    pub text: &'a str,
    pub metadata: &'a Map<String, Value>,
    pub anchors: &'a [NamedPlace],
    pub chunk_metadata: &'a Map<String, Value>,
    pub chunks: Vec<StoredChunk<'a>>,
}

pub struct StoredChunk<'a> {
    pub id: ChunkId,
    /// The position in the text.
    pub place: &'a Chunk,
    pub content: Cow<'a, str>,
    pub key: EmbeddingKey,
    pub embedding: &'a OwnedVector,
}

impl StoredDocument<'_> {
    /// Returns the tags as a literal of `text[]`.
    pub fn tags(&self) -> Option<String> {
        self.attributes.labels.tags.as_deref().map(array_literal)
    }
}

/// Stores documents of a collection with their chunks, and replaces what was stored under their
/// ids, which are different. Returns for each document true if it is new.
///
/// The rows of the documents are written first, in the order of their ids. Of two concurrent
/// transactions the second waits for a row, and then sees and deletes the chunks of the first.
///
/// # Errors
/// A statement fails.
pub fn replace(
    owner: &OwnerRights,
    collection: &str,
    documents: &[StoredDocument<'_>],
) -> Result<Vec<bool>, Error> {
    planned_once(|| {
        partitions::join_writers(collection);
        let mut written = write_rows(owner, collection, documents)?;
        let adopted = adopt_kept(owner, collection, documents)?;
        let partition = chunks::replace(owner, collection, documents)?;
        let rows = documents.iter().filter_map(|document| {
            let digest = written.get_mut(&document.id)?.digest.take()?;
            Some((document, digest))
        });
        digests::record_stored(owner, collection, &partition, &rows.collect::<Vec<_>>())?;
        let is_new = |document: &StoredDocument<'_>| {
            written.get(&document.id).is_some_and(|row| row.is_new)
                && !adopted.contains(document.uri)
        };
        Ok(documents.iter().map(is_new).collect())
    })
}

/// What became of the row of a document.
struct WrittenRow {
    is_new: bool,
    /// The digest of the row, if the document has a source.
    digest: Option<Vec<u8>>,
}

/// Writes the rows of documents, which have no chunks yet.
fn write_rows(
    owner: &OwnerRights,
    collection: &str,
    documents: &[StoredDocument<'_>],
) -> Result<HashMap<DocumentId, WrittenRow>, Error> {
    let mut rows: Vec<&StoredDocument<'_>> = documents.iter().collect();
    rows.sort_unstable_by_key(|document| document.id.0);
    let written = owner.execute_prepared(
        "INSERT INTO rag.documents AS d (
             document_id, collection, source, uri, title, knowledge_id, document_type, category,
             tags, status, content_hash, content, chunk_count, metadata, raw_hash, chunking,
             own_title, validator, anchors, fetched_at, indexed_at)
         SELECT n.id, $1, n.source, n.uri, n.title, n.knowledge_id, n.document_type, n.category,
                n.tags::text[], 'active', n.content_hash, n.content, n.chunk_count, n.metadata,
                n.raw_hash, n.chunking, n.own_title, n.validator, n.anchors, now(), now()
         FROM ROWS FROM (unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7),
                         unnest($8), unnest($9), unnest($10), unnest($11), unnest($12),
                         unnest($13), unnest($14), unnest($15), unnest($16), unnest($17),
                         unnest($18))
             AS n (id, source, uri, title, knowledge_id, document_type, category, tags,
                   content_hash, content, chunk_count, metadata, raw_hash, chunking, own_title,
                   validator, anchors)
         ON CONFLICT (collection, document_id) DO UPDATE SET
             source = excluded.source, former_source = NULL,
             uri = excluded.uri, title = excluded.title, knowledge_id = excluded.knowledge_id,
             document_type = excluded.document_type, category = excluded.category,
             tags = excluded.tags, status = 'active', error = NULL,
             content_hash = excluded.content_hash, content = excluded.content,
             chunk_count = excluded.chunk_count, metadata = excluded.metadata,
             raw_hash = excluded.raw_hash, chunking = excluded.chunking,
             own_title = excluded.own_title, validator = excluded.validator,
             anchors = excluded.anchors,
             fetched_at = excluded.fetched_at, indexed_at = excluded.indexed_at
         RETURNING d.document_id, d.xmax = 0 AS is_new,
             CASE WHEN d.source IS NOT NULL THEN rag_internal.document_digest(d) END AS digest",
        &[
            collection.into(),
            column(&rows, |document| uuid(document.id.0)),
            column(&rows, |document| document.source),
            column(&rows, |document| document.uri),
            column(&rows, |document| document.title),
            column(&rows, |document| document.attributes.knowledge_id),
            column(&rows, |document| document.document_type),
            column(&rows, |document| {
                document.attributes.labels.category.as_deref()
            }),
            column(&rows, |document| document.tags()),
            column(&rows, |document| document.content_hash),
            column(&rows, |document| document.text),
            column(&rows, |document| document.chunks.len() as i32),
            column(&rows, |document| json(document.metadata)),
            column(&rows, |document| document.raw_hash),
            column(&rows, |document| document.chunking),
            column(&rows, |document| document.own_title),
            column(&rows, |document| document.validator),
            column(&rows, |document| anchors(document.anchors)),
        ],
        |row| {
            let written = WrittenRow {
                is_new: row.required("is_new")?,
                digest: row.get("digest")?,
            };
            Ok((document_id(&row)?, written))
        },
    )?;
    Ok(written.into_iter().collect())
}

/// Returns places as they are stored: `[[0, "install"], ...]`.
fn anchors(places: &[NamedPlace]) -> Option<pgrx::JsonB> {
    (!places.is_empty()).then(|| pgrx::JsonB(serde_json::json!(places)))
}

pub(super) fn json(object: &Map<String, Value>) -> pgrx::JsonB {
    pgrx::JsonB(Value::Object(object.clone()))
}

/// Removes documents of the same uris that dropped sources have left. Returns the uris of these.
fn adopt_kept(
    owner: &OwnerRights,
    collection: &str,
    documents: &[StoredDocument<'_>],
) -> Result<HashSet<String>, Error> {
    let of_sources = documents
        .iter()
        .filter(|document| document.source.is_some());
    let uris: Vec<&str> = of_sources.map(|document| document.uri).collect();
    if uris.is_empty() {
        return Ok(HashSet::new());
    }
    kept_documents::remove(owner, collection, uris)
}
