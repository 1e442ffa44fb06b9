//! `rag.chunks`: pieces of documents with their embeddings.

use std::collections::HashMap;

use pgrx::datum::DatumWithOid;
use rag_protocol::identity::EmbeddingKey;

use super::{as_owner, drift, execute, execute_prepared, query, query_as_caller, uuid};
use crate::{error::Error, indexing::StoredDocument, types::vector::OwnedVector};

/// The embeddings that are stored already, in any collection, among those that `keys` ask for.
pub fn stored_embeddings(keys: &[EmbeddingKey]) -> Result<HashMap<EmbeddingKey, Vec<f32>>, Error> {
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let wanted: Vec<pgrx::Uuid> = keys.iter().map(|key| uuid(key.0)).collect();
    let found = as_owner(|| {
        query(
            "SELECT DISTINCT ON (embedding_key) embedding_key, embedding FROM rag.chunks WHERE embedding_key = ANY ($1)",
            &[wanted.into()],
            |row| {
                let key = EmbeddingKey(uuid::Uuid::from_bytes(*row.required::<pgrx::Uuid>(1)?.as_bytes()));
                Ok((key, Vec::from(row.required::<OwnedVector>(2)?)))
            },
        )
    })?;
    Ok(found.into_iter().collect())
}

const INSERT: &str =
    "INSERT INTO rag.chunks (collection, source, uri, title, document_id, knowledge_id, document_type, category, tags,
                                 metadata, fetched_at, indexed_at,
                                 chunk_id, chunk_index, start_index, content, embedding_key, embedding,
                                 start_line, end_line, page, heading_path)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, pg_catalog.now(), pg_catalog.now(),
                c.id, c.ordinality - 1, c.start_index, c.content, c.key, c.embedding, c.start_line, c.end_line, c.page,
                (SELECT pg_catalog.array_agg(h.heading ORDER BY h.ordinality)
                 FROM pg_catalog.jsonb_array_elements_text(c.headings::pg_catalog.jsonb) WITH ORDINALITY AS h (heading))
         FROM ROWS FROM (pg_catalog.unnest($11), pg_catalog.unnest($12), pg_catalog.unnest($13), pg_catalog.unnest($14),
                         pg_catalog.unnest($15), pg_catalog.unnest($16), pg_catalog.unnest($17), pg_catalog.unnest($18),
                         pg_catalog.unnest($19)) WITH ORDINALITY
              AS c (id, start_index, content, key, embedding, start_line, end_line, page, headings)";

/// Puts a document's chunks in the place of those it had, and notes that of a source's, whose row has this digest. Runs as the
/// extension's owner.
pub fn replace(document: &StoredDocument<'_>, digest: Option<Vec<u8>>) -> Result<(), Error> {
    delete(document.collection, &[document.id])?;
    let chunks = &document.chunks;
    let metadata = pgrx::JsonB(serde_json::Value::Object(document.chunk_metadata.clone()));
    let mut arguments: Vec<DatumWithOid> = vec![
        document.collection.into(),
        document.source.into(),
        document.uri.into(),
        document.title.into(),
        uuid(document.id.0).into(),
        document.attributes.knowledge_id.into(),
        document.document_type.into(),
        document.attributes.category.as_deref().into(),
        document.attributes.tags.clone().into(),
        metadata.into(),
        chunks.iter().map(|c| uuid(c.id.0)).collect::<Vec<_>>().into(),
        chunks.iter().map(|c| c.place.start_index as i32).collect::<Vec<_>>().into(),
        chunks.iter().map(|c| c.content).collect::<Vec<_>>().into(),
        chunks.iter().map(|c| uuid(c.key.0)).collect::<Vec<_>>().into(),
        chunks.iter().map(|c| c.embedding.clone()).collect::<Vec<_>>().into(),
        chunks.iter().map(|c| c.place.start_line as i32).collect::<Vec<_>>().into(),
        chunks.iter().map(|c| c.place.end_line as i32).collect::<Vec<_>>().into(),
        chunks.iter().map(|c| c.place.page.map(|page| page as i32)).collect::<Vec<_>>().into(),
        chunks.iter().map(|c| serde_json::json!(c.place.heading_path).to_string()).collect::<Vec<_>>().into(),
    ];
    let Some(digest) = digest else {
        execute_prepared(INSERT, &arguments, |_| Ok(()))?;
        return Ok(());
    };
    let first = arguments.len() + 1;
    arguments.extend([
        uuid(document.id.0).into(),
        document.collection.into(),
        document.source.into(),
        document.uri.into(),
        document.content_hash.into(),
        digest.into(),
    ]);
    execute_prepared(&drift::noting(INSERT, first), &arguments, |_| Ok(()))?;
    Ok(())
}

/// Deletes the chunks of some documents. Runs as the extension's owner.
pub fn delete(collection: &str, documents: &[rag_protocol::identity::DocumentId]) -> Result<usize, Error> {
    let ids: Vec<pgrx::Uuid> = documents.iter().map(|id| uuid(id.0)).collect();
    execute("DELETE FROM rag.chunks WHERE collection = $1 AND document_id = ANY ($2)", &[collection.into(), ids.into()])
}

/// Chunks of a collection that the caller may see, and the knowledge items (or else documents) that they are of.
pub fn counts(collection: &str) -> Result<(i64, i64), Error> {
    let found = query_as_caller(
            "SELECT pg_catalog.count(*), pg_catalog.count(DISTINCT coalesce(knowledge_id::pg_catalog.text, document_id::pg_catalog.text))
             FROM rag.chunks WHERE collection = $1",
            &[collection.into()],
            |row| Ok((row.required(1)?, row.required(2)?)),
    )?;
    Ok(found.into_iter().next().unwrap_or((0, 0)))
}
