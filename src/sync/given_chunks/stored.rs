//! Documents whose chunks an application splits itself: `rag_upsert_chunks` and its relatives.
//!
//! Such a document has the value [`GIVEN`] in `rag.documents.chunking`. Its content is what its
//! chunks contain, in their order, with an empty line between two of them.

use std::collections::{HashMap, HashSet};

use crate::{
    catalog::{
        chunks,
        collections::Collection,
        documents::{GIVEN, document_id},
        partitions,
    },
    error::Error,
    pg::spi::{OwnerRights, Row, uuid},
    types::vector::OwnedVector,
};
use pgrx::datum::DatumWithOid;
use rag_definition::labels::Labels;
use rag_protocol::identity::{ChunkId, DocumentId, EmbeddingKey};

/// The number of characters, which are line ends, between two chunks in the content.
pub const SEPARATOR: i32 = 2;

/// A document to be created if it does not exist.
pub struct GivenDocument<'a> {
    pub id: DocumentId,
    /// The id of the application, if it is no UUID.
    pub given_id: Option<&'a str>,
    pub uri: &'a str,
    pub title: Option<&'a str>,
    pub labels: &'a Labels,
}

/// A stored document.
pub struct LockedDocument {
    pub id: DocumentId,
    pub title: Option<String>,
    /// The hash that the application has given, or else that of the content.
    pub hash: Option<String>,
}

/// Returns documents that exist, by their ids in ascending order, and where their chunks come from.
/// Locks them until the transaction ends. Runs as the extension's owner, like all functions here.
pub fn lock(
    owner: &OwnerRights,
    collection: &Collection,
    ids: &[DocumentId],
) -> Result<Vec<(LockedDocument, GivenOrigin)>, Error> {
    owner.execute_returning(
        "SELECT document_id, title, coalesce(raw_hash, content_hash) AS hash, source, knowledge_id,
                chunking
         FROM rag.documents WHERE collection = $1 AND document_id = ANY ($2)
         ORDER BY document_id FOR UPDATE",
        &[collection.name.as_str().into(), documents(ids).into()],
        |row| {
            let document = locked(&row)?;
            let origin = GivenOrigin {
                source: row.get("source")?,
                knowledge_id: row.get("knowledge_id")?,
                is_given: row.get::<String>("chunking")?.as_deref() == Some(GIVEN),
            };
            Ok((document, origin))
        },
    )
}

/// Returns all documents of a collection with chunks of an application, and locks them.
pub fn lock_all(
    owner: &OwnerRights,
    collection: &Collection,
) -> Result<Vec<LockedDocument>, Error> {
    owner.execute_returning(
        "SELECT document_id, title, coalesce(raw_hash, content_hash) AS hash FROM rag.documents
         WHERE collection = $1 AND source IS NULL AND chunking = $2
         ORDER BY document_id FOR UPDATE",
        &[collection.name.as_str().into(), GIVEN.into()],
        |row| locked(&row),
    )
}

fn locked(row: &Row<'_, '_>) -> Result<LockedDocument, Error> {
    Ok(LockedDocument {
        id: document_id(row)?,
        title: row.get("title")?,
        hash: row.get("hash")?,
    })
}

/// Where a document comes from.
pub struct GivenOrigin {
    pub source: Option<String>,
    pub knowledge_id: Option<i64>,
    /// An application gives its chunks.
    pub is_given: bool,
}

/// Creates a document without chunks, unless it exists. It has the hash that a plan has announced.
pub fn create(
    owner: &OwnerRights,
    collection: &Collection,
    document: &GivenDocument<'_>,
) -> Result<(), Error> {
    owner.execute_prepared(
        "INSERT INTO rag.documents (
             document_id, collection, uri, title, own_title, document_type, category, tags, status,
             chunking, raw_hash, given_id)
         SELECT $1, $2, $3, $4, $4 IS NOT NULL, 'text', $5, $6, 'pending', $7,
                (SELECT p.hash FROM rag_internal.planned_hash p
                 WHERE p.collection = $2 AND p.document_id = $1), $8
         ON CONFLICT (collection, document_id) DO NOTHING",
        &[
            uuid(document.id.0).into(),
            collection.name.as_str().into(),
            document.uri.into(),
            document.title.into(),
            document.labels.category.as_deref().into(),
            document.labels.tags.clone().into(),
            GIVEN.into(),
            document.given_id.into(),
        ],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Returns the condition that selects the chunks of a collection.
fn rows(owner: &OwnerRights, collection: &Collection, alias: &str) -> Result<String, Error> {
    partitions::rows_of_writer(owner, collection.name.as_str(), alias)
}

/// Returns the documents of those of some chunks that are stored.
pub fn documents_of(
    owner: &OwnerRights,
    collection: &Collection,
    ids: &[ChunkId],
) -> Result<HashMap<ChunkId, DocumentId>, Error> {
    let found = owner.execute_returning(
        &format!(
            "SELECT document_id, chunk_id FROM rag.chunks WHERE {} AND chunk_id = ANY ($1)",
            rows(owner, collection, "")?
        ),
        &[chunk_ids(ids).into()],
        |row| Ok((chunk_id(&row)?, document_id(&row)?)),
    )?;
    Ok(found.into_iter().collect())
}

/// Returns the ids of all chunks of some documents.
pub fn ids_by_document(
    owner: &OwnerRights,
    collection: &Collection,
    ids: &[DocumentId],
) -> Result<HashMap<DocumentId, HashSet<ChunkId>>, Error> {
    let mut of = HashMap::<_, HashSet<_>>::new();
    let found = owner.execute_returning(
        &format!(
            "SELECT document_id, chunk_id FROM rag.chunks WHERE {} AND document_id = ANY ($1)",
            rows(owner, collection, "")?
        ),
        &[documents(ids).into()],
        |row| Ok((document_id(&row)?, chunk_id(&row)?)),
    )?;
    for (document, chunk) in found {
        of.entry(document).or_default().insert(chunk);
    }
    Ok(of)
}

/// The position of a chunk in the content of its document, and what follows from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    pub document: DocumentId,
    pub id: ChunkId,
    /// The place among the chunks of the document, from 0.
    pub index: i32,
    /// The number of characters.
    pub chars: i32,
    /// The number of line ends.
    pub line_ends: i32,
    /// The first character in the content, from 0.
    pub start: i32,
    /// The first line, from 1.
    pub line: i32,
}

/// Returns the positions of all chunks of some documents.
pub fn positions(
    owner: &OwnerRights,
    collection: &Collection,
    ids: &[DocumentId],
) -> Result<Vec<Position>, Error> {
    owner.execute_returning(
        &format!(
            "SELECT document_id, chunk_id, chunk_index, start_index, start_line,
                    length(content) AS chars, end_line - start_line AS line_ends
             FROM rag.chunks WHERE {} AND document_id = ANY ($1)",
            rows(owner, collection, "")?
        ),
        &[documents(ids).into()],
        |row| {
            Ok(Position {
                document: document_id(&row)?,
                id: chunk_id(&row)?,
                index: row.required("chunk_index")?,
                chars: row.required("chars")?,
                line_ends: row.required("line_ends")?,
                start: row.required("start_index")?,
                line: row.required("start_line")?,
            })
        },
    )
}

/// A chunk as it is written.
pub struct GivenRow<'a> {
    pub position: Position,
    pub given_id: Option<&'a str>,
    pub page: Option<i32>,
    pub content: &'a str,
    pub metadata: String,
    pub key: EmbeddingKey,
    pub embedding: &'a OwnedVector,
}

/// Inserts chunks. The columns that they share with their documents come from these.
pub fn insert(
    owner: &OwnerRights,
    collection: &Collection,
    rows: &[GivenRow<'_>],
) -> Result<(), Error> {
    let keys: Vec<EmbeddingKey> = rows.iter().map(|row| row.key).collect();
    chunks::note_places(owner, collection.name.as_str(), &keys)?;
    let partition = partitions::of_writer(owner, collection.name.as_str())?;
    let partition = partition.as_ref().map(|partition| partition.name());
    let arguments: Vec<DatumWithOid> = vec![
        column(rows, |row| uuid(row.position.document.0)).into(),
        column(rows, |row| uuid(row.position.id.0)).into(),
        column(rows, |row| row.position.index).into(),
        column(rows, |row| row.position.start).into(),
        column(rows, |row| row.position.line).into(),
        column(rows, |row| row.position.line + row.position.line_ends).into(),
        column(rows, |row| row.page).into(),
        column(rows, |row| row.content).into(),
        column(rows, |row| row.metadata.as_str()).into(),
        column(rows, |row| uuid(row.key.0)).into(),
        column(rows, |row| row.embedding).into(),
        partition.into(),
        collection.name.as_str().into(),
        column(rows, |row| row.given_id).into(),
    ];
    owner.execute_prepared(
        "INSERT INTO rag.chunks (
             collection, uri, title, document_id, document_type, category, tags, metadata,
             fetched_at, indexed_at, chunk_id, chunk_index, start_index, content, embedding_key,
             embedding, start_line, end_line, page, partition, given_id)
         SELECT d.collection, d.uri, d.title, d.document_id, d.document_type, d.category, d.tags,
                c.metadata::jsonb, now(), now(), c.id, c.index,
                c.start_index, c.content, c.key, c.embedding, c.start_line, c.end_line, c.page, $12,
                c.given_id
         FROM ROWS FROM (unnest($1), unnest($2), unnest($3), unnest($4), unnest($5), unnest($6),
                         unnest($7), unnest($8), unnest($9), unnest($10), unnest($11),
                         unnest($14))
             AS c (document_id, id, index, start_index, start_line, end_line, page, content,
                   metadata, key, embedding, given_id)
         JOIN rag.documents d ON d.collection = $13 AND d.document_id = c.document_id",
        &arguments,
        |_| Ok(()),
    )?;
    Ok(())
}

/// Moves chunks whose place in the content has changed.
pub fn set_positions(
    owner: &OwnerRights,
    collection: &Collection,
    moved: &[Position],
) -> Result<(), Error> {
    if moved.is_empty() {
        return Ok(());
    }
    owner.execute(
        &format!(
            "UPDATE rag.chunks c
             SET start_index = p.start_index, start_line = p.line, end_line = p.line + p.line_ends
             FROM ROWS FROM (unnest($1), unnest($2), unnest($3), unnest($4), unnest($5))
                 AS p (document_id, id, start_index, line, line_ends)
             WHERE {} AND c.document_id = p.document_id AND c.chunk_id = p.id",
            rows(owner, collection, "c.")?
        ),
        &[
            column(moved, |p| uuid(p.document.0)).into(),
            column(moved, |p| uuid(p.id.0)).into(),
            column(moved, |p| p.start).into(),
            column(moved, |p| p.line).into(),
            column(moved, |p| p.line_ends).into(),
        ],
    )?;
    Ok(())
}

/// Deletes chunks, and returns their number.
pub fn delete(
    owner: &OwnerRights,
    collection: &Collection,
    ids: &[ChunkId],
) -> Result<usize, Error> {
    let deleted = owner.execute_returning(
        &format!(
            "DELETE FROM rag.chunks WHERE {} AND chunk_id = ANY ($1) RETURNING embedding_key",
            rows(owner, collection, "")?
        ),
        &[chunk_ids(ids).into()],
        |row| row.required::<pgrx::Uuid>("embedding_key"),
    )?;
    let count = deleted.len();
    owner.execute(
        "DELETE FROM rag_internal.embedding_place WHERE collection = $1
            AND embedding_key = ANY ($2)",
        &[collection.name.as_str().into(), deleted.into()],
    )?;
    Ok(count)
}

/// Counts the chunks of documents again that have lost some. They are indexed again when they are
/// added again, or by the next sync.
pub fn count_chunks(
    owner: &OwnerRights,
    collection: &Collection,
    ids: &[DocumentId],
) -> Result<(), Error> {
    let counted = owner.execute_returning(
        &format!(
            "SELECT document_id, count(*) AS chunks FROM rag.chunks
             WHERE {} AND document_id = ANY ($1) GROUP BY document_id",
            rows(owner, collection, "")?
        ),
        &[documents(ids).into()],
        |row| Ok((document_id(&row)?, row.required::<i64>("chunks")?)),
    )?;
    let counts: HashMap<DocumentId, i64> = counted.into_iter().collect();
    let counts = ids.iter().map(|id| counts.get(id).copied().unwrap_or(0));
    owner.execute(
        "UPDATE rag.documents d SET raw_hash = NULL, chunk_count = k.chunks
         FROM ROWS FROM (unnest($2), unnest($3)) AS k (document_id, chunks)
         WHERE d.collection = $1 AND d.document_id = k.document_id",
        &[
            collection.name.as_str().into(),
            documents(ids).into(),
            counts.collect::<Vec<_>>().into(),
        ],
    )?;
    Ok(())
}

/// Puts the content of documents together from their chunks, and counts these. Deletes documents
/// that have none. Returns the number of documents deleted.
pub fn finish(
    owner: &OwnerRights,
    collection: &Collection,
    ids: &[DocumentId],
) -> Result<usize, Error> {
    let name = collection.name.as_str();
    let mut found = vec![];
    let joined = owner.execute_returning(
        &format!(
            "SELECT document_id, count(*) AS chunks,
                    string_agg(content, repeat(E'\\n', {SEPARATOR}) ORDER BY chunk_index) AS content
             FROM rag.chunks WHERE {} AND document_id = ANY ($1) GROUP BY document_id",
            rows(owner, collection, "")?
        ),
        &[documents(ids).into()],
        |row| {
            found.push(document_id(&row)?);
            Ok((
                row.required::<i64>("chunks")?,
                row.required::<String>("content")?,
            ))
        },
    )?;
    owner.execute(
        "UPDATE rag.documents d
         SET content = k.content, chunk_count = k.chunks, status = 'active', error = NULL,
             content_hash = encode(sha256(convert_to(k.content, 'UTF8')), 'hex'),
             fetched_at = now(), indexed_at = now()
         FROM ROWS FROM (unnest($2), unnest($3), unnest($4)) AS k (document_id, chunks, content)
         WHERE d.collection = $1 AND d.document_id = k.document_id",
        &[
            name.into(),
            documents(&found).into(),
            column(&joined, |(chunks, _)| *chunks).into(),
            column(&joined, |(_, content)| content.as_str()).into(),
        ],
    )?;
    owner.execute(
        "DELETE FROM rag_internal.planned_hash WHERE collection = $1 AND document_id = ANY ($2)",
        &[name.into(), documents(ids).into()],
    )?;
    let found: HashSet<DocumentId> = found.into_iter().collect();
    let without: Vec<DocumentId> = ids
        .iter()
        .filter(|id| !found.contains(id))
        .copied()
        .collect();
    if without.is_empty() {
        return Ok(0);
    }
    owner.execute(
        "DELETE FROM rag.documents WHERE collection = $1 AND document_id = ANY ($2)",
        &[name.into(), documents(&without).into()],
    )
}

/// Records the hashes that a plan announces of documents which are not stored, instead of those of
/// earlier plans.
pub fn announce(
    owner: &OwnerRights,
    collection: &Collection,
    hashes: &[(DocumentId, &str)],
) -> Result<(), Error> {
    let name = collection.name.as_str();
    owner.execute(
        "DELETE FROM rag_internal.planned_hash WHERE collection = $1",
        &[name.into()],
    )?;
    owner.execute(
        "INSERT INTO rag_internal.planned_hash (collection, document_id, hash)
         SELECT $1, h.* FROM ROWS FROM (unnest($2), unnest($3)) AS h",
        &[
            name.into(),
            column(hashes, |(id, _)| uuid(id.0)).into(),
            column(hashes, |(_, hash)| *hash).into(),
        ],
    )?;
    Ok(())
}

/// Returns those of some documents whose chunks an application gives, and locks them.
pub fn lock_among(
    owner: &OwnerRights,
    collection: &Collection,
    ids: &[DocumentId],
) -> Result<Vec<DocumentId>, Error> {
    owner.execute_returning(
        "SELECT document_id FROM rag.documents
         WHERE collection = $1 AND document_id = ANY ($2) AND source IS NULL AND chunking = $3
         ORDER BY document_id FOR UPDATE",
        &[
            collection.name.as_str().into(),
            documents(ids).into(),
            GIVEN.into(),
        ],
        |row| document_id(&row),
    )
}

fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn documents(ids: &[DocumentId]) -> Vec<pgrx::Uuid> {
    column(ids, |id| uuid(id.0))
}

fn chunk_ids(ids: &[ChunkId]) -> Vec<pgrx::Uuid> {
    column(ids, |id| uuid(id.0))
}

fn chunk_id(row: &Row<'_, '_>) -> Result<ChunkId, Error> {
    Ok(ChunkId(row.uuid("chunk_id")?))
}
