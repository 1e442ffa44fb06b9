//! `rag.chunks`: pieces of documents with their embeddings.

use std::collections::HashMap;

use pgrx::datum::DatumWithOid;
use rag_protocol::{
    identity::{DocumentId, EmbeddingKey},
    ingest::Chunk,
};

use super::{
    access,
    collections::Collection,
    documents::planned_once,
    partitions::{self, Partition},
    shards,
    stored_documents::{StoredChunk, StoredDocument, json},
};
use crate::{
    error::Error,
    pg::{
        lookup::{self, lock_relation},
        spi::{OwnerRights, Rights, Row, array_literal, as_caller, as_owner, column, uuid},
    },
    types::vector::OwnedVector,
};

/// Returns the embeddings for `keys` that are stored in a collection, or else in another one.
pub fn stored_embeddings(
    collection: &Collection,
    keys: &[EmbeddingKey],
) -> Result<HashMap<EmbeddingKey, OwnedVector>, Error> {
    as_owner(|owner| {
        let own = collection.name.as_str();
        partitions::join_writers(own);
        let mut found = match partitions::of(own)? {
            Some(partition) => own_embeddings(owner, own, &partition, keys)?,
            None => HashMap::new(),
        };
        let missing: Vec<EmbeddingKey> = keys
            .iter()
            .filter(|key| !found.contains_key(key))
            .copied()
            .collect();
        if !missing.is_empty() {
            let others = planned_once(|| {
                owner.query_prepared(
                    "SELECT DISTINCT c.name, c.partition
                     FROM rag_internal.embedding_place p JOIN rag_internal.collection c
                         ON c.name = p.collection
                     WHERE p.embedding_key = ANY ($1) AND c.name <> $2
                       AND c.partition IS NOT NULL AND NOT c.imported",
                    &[uuids(&missing).into(), own.into()],
                    |row| Ok((row.required("name")?, row.required("partition")?)),
                )
            })?;
            found.extend(embeddings_in(owner, others, &missing)?);
        }
        Ok(found)
    })
}

/// Returns the embeddings that a collection has in its partition.
fn own_embeddings(
    owner: &OwnerRights,
    collection: &str,
    partition: &Partition,
    keys: &[EmbeddingKey],
) -> Result<HashMap<EmbeddingKey, OwnedVector>, Error> {
    let statement = format!(
        "SELECT DISTINCT ON (embedding_key) embedding_key, embedding FROM rag.chunks
         WHERE {} AND embedding_key = ANY ($1)",
        partition.rows(collection, "")
    );
    let keys = uuids(keys).into();
    let found = planned_once(|| owner.query_prepared(&statement, &[keys], read_embedding))?;
    Ok(found.into_iter().collect())
}

fn read_embedding(row: Row<'_, '_>) -> Result<(EmbeddingKey, OwnedVector), Error> {
    let key = EmbeddingKey(row.uuid("embedding_key")?);
    Ok((key, row.required::<OwnedVector>("embedding")?))
}

/// Returns the embeddings that are stored in some collections, which are given with their
/// partitions. The statement is planned over these alone.
fn embeddings_in(
    owner: &OwnerRights,
    collections: Vec<(String, String)>,
    keys: &[EmbeddingKey],
) -> Result<HashMap<EmbeddingKey, OwnedVector>, Error> {
    if collections.is_empty() {
        return Ok(HashMap::new());
    }
    let (collections, partitions): (Vec<String>, Vec<String>) = collections.into_iter().unzip();
    let found = owner.query(
        "SELECT DISTINCT ON (embedding_key) embedding_key, embedding FROM rag.chunks
         WHERE partition = ANY ($1) AND collection = ANY ($2) AND embedding_key = ANY ($3)",
        &[partitions.into(), collections.into(), uuids(keys).into()],
        read_embedding,
    )?;
    Ok(found.into_iter().collect())
}

fn uuids(keys: &[EmbeddingKey]) -> Vec<pgrx::Uuid> {
    keys.iter().map(|key| uuid(key.0)).collect()
}

const INSERT: &str = "INSERT INTO rag.chunks (
             collection, source, uri, title, document_id, knowledge_id, document_type, category,
             tags, metadata, fetched_at, indexed_at, chunk_id, chunk_index, start_index, content,
             embedding_key, embedding, start_line, end_line, page, heading_path, head_length,
             anchor, partition)
         SELECT $1, d.source, d.uri, d.title, d.id, d.knowledge_id, d.document_type, d.category,
                d.tags::text[], d.metadata, now(), now(),
                c.id, c.chunk_index, c.start_index, c.content, c.key, c.embedding,
                c.start_line, c.end_line, c.page, c.heading_path::text[], c.head_length,
                c.anchor, $2
         FROM ROWS FROM (unnest($12), unnest($13), unnest($14), unnest($15), unnest($16),
                         unnest($17), unnest($18), unnest($19), unnest($20), unnest($21),
                         unnest($22), unnest($23), unnest($24))
             AS c (document, id, chunk_index, start_index, content, key, embedding, start_line,
                   end_line, page, heading_path, head_length, anchor)
         JOIN ROWS FROM (unnest($3), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8),
                         unnest($9), unnest($10), unnest($11)) WITH ORDINALITY
             AS d (id, source, uri, title, knowledge_id, document_type, category, tags, metadata,
                   number)
             ON d.number = c.document";

/// Replaces the chunks of documents of a collection. Returns its partition, which it has.
pub(super) fn replace(
    owner: &OwnerRights,
    collection: &str,
    documents: &[StoredDocument<'_>],
) -> Result<Partition, Error> {
    let partition = partitions::of_writer(owner, collection)?
        .ok_or_else(|| Error::internal("a collection with documents has no partition"))?;
    let rows = partition.rows(collection, "");
    let ids: Vec<DocumentId> = documents.iter().map(|document| document.id).collect();
    let chunks: Vec<PlacedChunk<'_>> = placed(documents).collect();
    let keys: Vec<EmbeddingKey> = chunks.iter().map(|placed| placed.chunk.key).collect();
    delete_but(owner, collection, &rows, &ids, &keys)?;
    if chunks.is_empty() {
        return Ok(partition);
    }
    note_places(owner, collection, &keys)?;
    let arguments: [DatumWithOid<'_>; 24] = [
        collection.into(),
        partition.name().into(),
        column(documents, |document| uuid(document.id.0)),
        column(documents, |document| document.source),
        column(documents, |document| document.uri),
        column(documents, |document| document.title),
        column(documents, |document| document.attributes.knowledge_id),
        column(documents, |document| document.document_type),
        column(documents, |document| {
            document.attributes.labels.category.as_deref()
        }),
        column(documents, |document| document.tags()),
        column(documents, |document| json(document.chunk_metadata)),
        column(&chunks, |c| c.document as i64 + 1),
        column(&chunks, |c| uuid(c.chunk.id.0)),
        column(&chunks, |c| c.index as i32),
        column(&chunks, |c| c.chunk.place.start_index as i32),
        column(&chunks, |c| c.chunk.content.as_ref()),
        uuids(&keys).into(),
        column(&chunks, |c| c.chunk.embedding),
        column(&chunks, |c| c.chunk.place.start_line as i32),
        column(&chunks, |c| c.chunk.place.end_line as i32),
        column(&chunks, |c| c.chunk.place.page.map(|page| page as i32)),
        column(&chunks, |c| headings(c.chunk.place)),
        column(&chunks, |c| c.chunk.place.head_length() as i32),
        column(&chunks, |c| c.chunk.place.anchor.as_deref()),
    ];
    owner.execute_prepared(INSERT, &arguments, |_| Ok(()))?;
    Ok(partition)
}

/// A chunk, with its number in the document, and that of the document, from 0.
struct PlacedChunk<'a> {
    document: usize,
    index: usize,
    chunk: &'a StoredChunk<'a>,
}

fn placed<'a>(documents: &'a [StoredDocument<'a>]) -> impl Iterator<Item = PlacedChunk<'a>> {
    documents.iter().enumerate().flat_map(|(number, document)| {
        let chunks = document.chunks.iter().enumerate();
        chunks.map(move |(index, chunk)| PlacedChunk {
            document: number,
            index,
            chunk,
        })
    })
}

/// Returns the headings above a chunk as a literal of `text[]`.
fn headings(place: &Chunk) -> Option<String> {
    let headings = &place.heading_path;
    (!headings.is_empty()).then(|| array_literal(headings))
}

/// Records that a collection has these embeddings, unless another collection is recorded. Nobody
/// takes those of an imported collection.
pub fn note_places(
    owner: &OwnerRights,
    collection: &str,
    keys: &[EmbeddingKey],
) -> Result<(), Error> {
    owner.execute_prepared(
        "INSERT INTO rag_internal.embedding_place (embedding_key, collection)
         SELECT DISTINCT k.key, c.name
         FROM rag_internal.collection c, unnest($1) AS k (key)
         WHERE c.name = $2 AND NOT c.imported
           AND NOT EXISTS (SELECT FROM rag_internal.embedding_place p
               WHERE p.embedding_key = k.key)",
        &[uuids(keys).into(), collection.into()],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Deletes the chunks of some documents.
pub fn delete(
    owner: &OwnerRights,
    collection: &str,
    documents: &[DocumentId],
) -> Result<(), Error> {
    let rows = partitions::rows_of_writer(owner, collection, "")?;
    delete_but(owner, collection, &rows, documents, &[])
}

/// Deletes all chunks of a collection from its partition.
pub fn delete_all(
    owner: &OwnerRights,
    partition: &Partition,
    collection: &str,
) -> Result<(), Error> {
    shards::commit_together(owner, partition)?;
    let rows = partition.rows(collection, "");
    owner.execute(&format!("DELETE FROM rag.chunks WHERE {rows}"), &[])?;
    Ok(())
}

/// Deletes the chunks of some documents. The collection stays recorded for the embeddings in
/// `kept`. `rows` is the condition of the collection's rows.
fn delete_but(
    owner: &OwnerRights,
    collection: &str,
    rows: &str,
    documents: &[DocumentId],
    kept: &[EmbeddingKey],
) -> Result<(), Error> {
    let ids: Vec<pgrx::Uuid> = documents.iter().map(|id| uuid(id.0)).collect();
    let statement = format!(
        "DELETE FROM rag.chunks WHERE {rows} AND document_id = ANY ($1) RETURNING embedding_key"
    );
    let deleted = owner.execute_prepared(&statement, &[ids.into()], |row| {
        row.required::<pgrx::Uuid>("embedding_key")
    })?;
    // most documents are new
    if deleted.is_empty() {
        return Ok(());
    }
    let args: [DatumWithOid<'_>; 3] = [collection.into(), deleted.into(), uuids(kept).into()];
    owner.execute_prepared(
        "DELETE FROM rag_internal.embedding_place p
         WHERE p.embedding_key = ANY ($2) AND p.collection = $1
           AND NOT p.embedding_key = ANY ($3)",
        &args,
        |_| Ok(()),
    )?;
    Ok(())
}

/// Returns the number of chunks of a collection that the caller may see, and the number of
/// knowledge items that they belong to.
pub fn counts(collection: &Collection) -> Result<(i64, i64), Error> {
    let found = as_reader(collection, |reader| {
        reader.query(
            &format!(
                "SELECT count(*) AS chunks, count(DISTINCT knowledge_id) AS items
             FROM rag.chunks WHERE {}",
                collection.rows("")
            ),
            &[],
            |row| Ok((row.required("chunks")?, row.required("items")?)),
        )
    })?;
    Ok(found.into_iter().next().unwrap_or((0, 0)))
}

/// Returns the relation that statements on one collection read. Where chunks are distributed, it is
/// the partition: Citus plans a statement on `rag.chunks` over all of them. Without chunks, and for
/// a caller that row-level security concerns, it is `rag.chunks`.
pub fn relation(collection: &Collection) -> Result<String, Error> {
    Ok(match &collection.partition {
        Some(partition) if shards::is_distributed()? && access::sees_every_row(collection) => {
            partition.qualified()
        }
        _ => "rag.chunks".to_owned(),
    })
}

/// Runs a statement that reads chunks of one collection. It returns what the caller may see.
pub fn query_chunks<T>(
    collection: &Collection,
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    check_not_moved(collection)?;
    as_reader(collection, |reader| reader.query(statement, args, read))
}

/// Runs a statement that reads chunks of one collection, and whose plan the session keeps. Its
/// condition is [`Collection::rows`].
pub fn query_chunks_prepared<T>(
    collection: &Collection,
    statement: &str,
    args: &[DatumWithOid<'_>],
    read: impl FnMut(Row<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    check_not_moved(collection)?;
    as_reader(collection, |reader| {
        reader.query_prepared(statement, args, read)
    })
}

/// Checks that a statement finds the collection's partition. A rebuild may have replaced it after
/// the snapshot was taken with which its name was read. From here on it stays until the transaction
/// ends.
///
/// # Errors
/// A rebuild has replaced it.
pub fn check_not_moved(collection: &Collection) -> Result<(), Error> {
    let Some(partition) = &collection.partition else {
        return Ok(());
    };
    lock_relation(lookup::chunks_table(), pgrx::pg_sys::AccessShareLock);
    match partition.oid() {
        Some(_) => Ok(()),
        None => Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            format!("collection \"{}\" was rebuilt meanwhile", collection.name),
        )
        .hint("Try again.")),
    }
}

/// Runs `f`, which reads chunks of one collection that the caller may see. With the caller's rights
/// row-level security applies. A caller that it does not concern gets the owner's, which saves the
/// check of each row.
pub fn as_reader<R>(collection: &Collection, f: impl FnOnce(&Rights) -> R) -> R {
    if access::sees_every_row(collection) {
        as_owner(|owner| f(owner))
    } else {
        as_caller(f)
    }
}
