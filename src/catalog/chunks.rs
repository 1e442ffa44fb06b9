//! `rag.chunks`: pieces of documents with their embeddings.

use std::collections::HashMap;

use pgrx::datum::DatumWithOid;
use rag_protocol::identity::{DocumentId, EmbeddingKey};

use super::{
    access,
    collections::Collection,
    digests,
    documents::StoredDocument,
    partitions::{self, Partition},
};
use crate::{
    error::Error,
    pg::{
        lookup::{self, lock_relation},
        spi::{OwnerRights, Rights, Row, as_caller, as_owner, uuid},
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
        let partition = partitions::of(own)?;
        let of_own = partition.map(|partition| (own.to_owned(), partition.name().to_owned()));
        let mut found = embeddings_in(owner, of_own.into_iter().collect(), keys)?;
        let missing: Vec<EmbeddingKey> = keys
            .iter()
            .filter(|key| !found.contains_key(key))
            .copied()
            .collect();
        if !missing.is_empty() {
            let others: Vec<(String, String)> = owner.query(
                "SELECT DISTINCT c.name, c.partition
                 FROM rag_internal.embedding_place p JOIN rag_internal.collection c
                     ON c.name = p.collection
                 WHERE p.embedding_key = ANY ($1) AND c.name <> $2 AND c.partition IS NOT NULL
                   AND NOT c.imported",
                &[uuids(&missing).into(), own.into()],
                |row| Ok((row.required("name")?, row.required("partition")?)),
            )?;
            found.extend(embeddings_in(owner, others, &missing)?);
        }
        Ok(found)
    })
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
        |row| {
            let key = EmbeddingKey(row.uuid("embedding_key")?);
            Ok((key, row.required::<OwnedVector>("embedding")?))
        },
    )?;
    Ok(found.into_iter().collect())
}

fn uuids(keys: &[EmbeddingKey]) -> Vec<pgrx::Uuid> {
    keys.iter().map(|key| uuid(key.0)).collect()
}

const INSERT: &str = "INSERT INTO rag.chunks (
             collection, source, uri, title, document_id, knowledge_id, document_type, category,
             tags, metadata, fetched_at, indexed_at, chunk_id, chunk_index, start_index, content,
             embedding_key, embedding, start_line, end_line, page, heading_path, partition)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now(), now(),
                c.id, c.ordinality - 1, c.start_index, c.content, c.key, c.embedding,
                c.start_line, c.end_line, c.page,
                (SELECT array_agg(h.heading ORDER BY h.ordinality)
                 FROM jsonb_array_elements_text(c.headings::jsonb)
                     WITH ORDINALITY AS h (heading)), $20
         FROM ROWS FROM (unnest($11), unnest($12), unnest($13), unnest($14), unnest($15),
                         unnest($16), unnest($17), unnest($18), unnest($19))
             WITH ORDINALITY AS c (
                 id, start_index, content, key, embedding, start_line, end_line, page, headings)";

/// Replaces the chunks of a document. With the digest of its row, also records the digest of the
/// whole document. The collection has a partition.
pub fn replace(
    owner: &OwnerRights,
    document: &StoredDocument<'_>,
    digest: Option<Vec<u8>>,
) -> Result<(), Error> {
    let chunks = &document.chunks;
    let keys: Vec<EmbeddingKey> = chunks.iter().map(|chunk| chunk.key).collect();
    let partition = partitions::of_writer(owner, document.collection)?
        .ok_or_else(|| Error::internal("a collection with documents has no partition"))?;
    let rows = partition.rows(document.collection, "");
    delete_but(owner, document.collection, &rows, &[document.id], &keys)?;
    note_places(owner, document.collection, &keys)?;
    let metadata = pgrx::JsonB(serde_json::Value::Object(document.chunk_metadata.clone()));
    let arguments: Vec<DatumWithOid> = vec![
        document.collection.into(),
        document.source.into(),
        document.uri.into(),
        document.title.into(),
        uuid(document.id.0).into(),
        document.attributes.knowledge_id.into(),
        document.document_type.into(),
        document.attributes.labels.category.as_deref().into(),
        document.attributes.labels.tags.clone().into(),
        metadata.into(),
        chunks
            .iter()
            .map(|c| uuid(c.id.0))
            .collect::<Vec<_>>()
            .into(),
        chunks
            .iter()
            .map(|c| c.place.start_index as i32)
            .collect::<Vec<_>>()
            .into(),
        chunks.iter().map(|c| c.content).collect::<Vec<_>>().into(),
        uuids(&keys).into(),
        chunks
            .iter()
            .map(|c| c.embedding)
            .collect::<Vec<_>>()
            .into(),
        chunks
            .iter()
            .map(|c| c.place.start_line as i32)
            .collect::<Vec<_>>()
            .into(),
        chunks
            .iter()
            .map(|c| c.place.end_line as i32)
            .collect::<Vec<_>>()
            .into(),
        chunks
            .iter()
            .map(|c| c.place.page.map(|page| page as i32))
            .collect::<Vec<_>>()
            .into(),
        chunks
            .iter()
            .map(|c| serde_json::json!(c.place.heading_path).to_string())
            .collect::<Vec<_>>()
            .into(),
        partition.name().into(),
    ];
    owner.execute_prepared(INSERT, &arguments, |_| Ok(()))?;
    match digest {
        Some(digest) => digests::record_stored(owner, document, &partition, digest),
        None => Ok(()),
    }
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
        "WITH deleted AS (
             DELETE FROM rag.chunks WHERE {rows} AND document_id = ANY ($2)
             RETURNING embedding_key)
         DELETE FROM rag_internal.embedding_place p USING deleted d
         WHERE p.embedding_key = d.embedding_key AND p.collection = $1
           AND NOT d.embedding_key = ANY ($3)"
    );
    let args: [DatumWithOid<'_>; 3] = [collection.into(), ids.into(), uuids(kept).into()];
    owner.execute_prepared(&statement, &args, |_| Ok(()))?;
    Ok(())
}

/// Returns the number of chunks of a collection that the caller may see, and the number of
/// knowledge items that they belong to.
pub fn counts(collection: &Collection) -> Result<(i64, i64), Error> {
    let found = as_caller(|caller| {
        caller.query(
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
