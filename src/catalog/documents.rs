//! `rag.documents`: what is stored of each document, text included.

use std::collections::HashMap;

use rag_protocol::{identity::DocumentId, ingest::Known};

use super::{Row, as_owner, chunks, drift, execute, execute_prepared, execute_returning, query, uuid};
use crate::{error::Error, indexing::StoredDocument};

/// By uri, the documents of a source that are indexed as `chunking` says.
pub fn unchanged_if_same(collection: &str, source: &str, chunking: &str) -> Result<HashMap<String, Known>, Error> {
    let found = as_owner(|| {
        query(
            "SELECT uri, raw_hash, validator FROM rag.documents
             WHERE collection = $1 AND source = $2 AND chunking = $3 AND status = 'active' AND raw_hash IS NOT NULL",
            &[collection.into(), source.into(), chunking.into()],
            |row| Ok((row.required(1)?, Known { raw_hash: row.required(2)?, validator: row.get(3)? })),
        )
    })?;
    Ok(found.into_iter().collect())
}

/// Of some documents, the hashes of those that are indexed as `chunking` says.
pub fn raw_hashes(ids: &[DocumentId], chunking: &str) -> Result<HashMap<DocumentId, String>, Error> {
    let ids: Vec<pgrx::Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    let found = as_owner(|| {
        query(
            "SELECT document_id, raw_hash FROM rag.documents
             WHERE document_id = ANY ($1) AND chunking = $2 AND status = 'active' AND raw_hash IS NOT NULL",
            &[ids.into(), chunking.into()],
            |row| Ok((document_id(&row)?, row.required(2)?)),
        )
    })?;
    Ok(found.into_iter().collect())
}

/// Uris of a source's documents that could not be indexed.
pub fn failed(collection: &str, source: &str) -> Result<Vec<String>, Error> {
    as_owner(|| {
        query(
            "SELECT uri FROM rag.documents WHERE collection = $1 AND source = $2 AND status = 'error'",
            &[collection.into(), source.into()],
            |row| row.required(1),
        )
    })
}

pub fn document_id(row: &Row<'_, '_>) -> Result<DocumentId, Error> {
    Ok(DocumentId(uuid::Uuid::from_bytes(*row.required::<pgrx::Uuid>(1)?.as_bytes())))
}

/// Notes what the source says now of versions that are the stored ones.
pub fn set_validators(validators: &[(DocumentId, String)]) -> Result<(), Error> {
    let ids: Vec<pgrx::Uuid> = validators.iter().map(|(id, _)| uuid(id.0)).collect();
    let validators: Vec<&str> = validators.iter().map(|(_, validator)| validator.as_str()).collect();
    as_owner(|| {
        execute(
            "UPDATE rag.documents d SET validator = v.validator
             FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) AS v (id, validator)
             WHERE d.document_id = v.id",
            &[ids.into(), validators.into()],
        )
    })?;
    Ok(())
}

/// Ids of all documents of a source: those that are stored, those included that others have stored since the statement began,
/// and those that runs have indexed and somebody has deleted.
pub fn of_source(collection: &str, source: &str) -> Result<Vec<DocumentId>, Error> {
    as_owner(|| {
        execute_returning(
            "SELECT document_id FROM rag.documents WHERE collection = $1 AND source = $2
             UNION SELECT document_id FROM rag.manifest WHERE collection = $1 AND source = $2",
            &[collection.into(), source.into()],
            |row| document_id(&row),
        )
    })
}

/// Ids of all documents of a source, as [`of_source`] has them, by collection; all collections but one.
pub fn by_collection(source: &str, except: Option<&str>) -> Result<HashMap<String, Vec<DocumentId>>, Error> {
    let found = as_owner(|| {
        execute_returning(
            "SELECT i.document_id, c.name
             FROM rag.collections c,
                  LATERAL (SELECT document_id FROM rag.documents WHERE collection = c.name AND source = $1
                           UNION SELECT document_id FROM rag.manifest WHERE collection = c.name AND source = $1) i
             WHERE c.name IS DISTINCT FROM $2",
            &[source.into(), except.into()],
            |row| Ok((document_id(&row)?, row.required::<String>(2)?)),
        )
    })?;
    let mut by_collection = HashMap::<_, Vec<_>>::new();
    for (id, collection) in found {
        by_collection.entry(collection).or_default().push(id);
    }
    Ok(by_collection)
}

/// Puts a document and its chunks in the place of what was stored under its id; whether it is new.
///
/// The document's row comes first: of two that replace a document at once the second waits there, and then sees, and
/// deletes, the chunks of the first.
pub fn replace(document: &StoredDocument<'_>) -> Result<bool, Error> {
    as_owner(|| {
        let inserted = execute_prepared(
            "INSERT INTO rag.documents AS d (document_id, collection, source, uri, title, knowledge_id, document_type,
                                        category, tags, status, content_hash, content, chunk_count, metadata, raw_hash, chunking,
                                        own_title, validator, fetched_at, indexed_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'active', $10, $11, $12, $13, $14, $15, $16, $17,
                     pg_catalog.now(), pg_catalog.now())
             ON CONFLICT (document_id) DO UPDATE SET
                 collection = excluded.collection, source = excluded.source, uri = excluded.uri, title = excluded.title, knowledge_id = excluded.knowledge_id, document_type = excluded.document_type,
                 category = excluded.category, tags = excluded.tags, status = 'active', error = NULL,
                 content_hash = excluded.content_hash, content = excluded.content, chunk_count = excluded.chunk_count,
                 metadata = excluded.metadata, raw_hash = excluded.raw_hash, chunking = excluded.chunking,
                 own_title = excluded.own_title, validator = excluded.validator, fetched_at = excluded.fetched_at, indexed_at = excluded.indexed_at
             RETURNING d.xmax = 0, CASE WHEN d.source IS NOT NULL THEN rag.document_digest(d) END",
            &[
                uuid(document.id.0).into(),
                document.collection.into(),
                document.source.into(),
                document.uri.into(),
                document.title.into(),
                document.attributes.knowledge_id.into(),
                document.document_type.into(),
                document.attributes.category.as_deref().into(),
                document.attributes.tags.clone().into(),
                document.content_hash.into(),
                document.text.into(),
                (document.chunks.len() as i32).into(),
                pgrx::JsonB(serde_json::Value::Object(document.metadata.clone())).into(),
                document.raw_hash.into(),
                document.chunking.into(),
                document.own_title.into(),
                document.validator.into(),
            ],
            |row| Ok((row.required(1)?, row.get(2)?)),
        )?;
        let (is_new, digest) = inserted.into_iter().next().unwrap_or((false, None));
        chunks::replace(document, digest)?;
        Ok(is_new)
    })
}

/// Notes that a document could not be indexed. What was indexed of it before stays; only status and error change.
/// `fetched`: whether it was there at all; what could never be fetched (a folder, say) becomes no document.
pub fn fail(
    id: DocumentId,
    collection: &str,
    source: Option<&str>,
    uri: &str,
    document_type: Option<&str>,
    error: &str,
    fetched: bool,
) -> Result<(), Error> {
    as_owner(|| {
        if !fetched {
            return execute(
                "UPDATE rag.documents SET status = 'error', error = $2 WHERE document_id = $1",
                &[uuid(id.0).into(), error.into()],
            );
        }
        let inserted = execute_returning(
            "INSERT INTO rag.documents AS d (document_id, collection, source, uri, document_type, status, error)
             VALUES ($1, $2, $3, $4, $5, 'error', $6)
             ON CONFLICT (document_id) DO UPDATE SET status = 'error', error = excluded.error
             RETURNING d.xmax = 0",
            &[uuid(id.0).into(), collection.into(), source.into(), uri.into(), document_type.into(), error.into()],
            |row| row.required::<bool>(1),
        )?;
        if source.is_some() && inserted.first() == Some(&true) {
            drift::note(collection, id)?;
        }
        Ok(inserted.len())
    })?;
    Ok(())
}

/// Deletes documents that their source no longer has, with their chunks, and forgets that they were indexed; how many there were.
pub fn delete_for_good(collection: &str, ids: &[DocumentId]) -> Result<usize, Error> {
    let deleted = delete(collection, ids)?;
    as_owner(|| drift::forget(ids))?;
    Ok(deleted)
}

/// Deletes documents with their chunks; how many there were. Rows first, as in [`replace`].
pub fn delete(collection: &str, ids: &[DocumentId]) -> Result<usize, Error> {
    as_owner(|| {
        let rows: Vec<pgrx::Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
        let deleted = execute("DELETE FROM rag.documents WHERE document_id = ANY ($1)", &[rows.into()])?;
        chunks::delete(collection, ids)?;
        Ok(deleted)
    })
}

/// The collection that a document is in.
pub fn collection_of(id: pgrx::Uuid) -> Result<Option<String>, Error> {
    let found = as_owner(|| {
        query("SELECT collection FROM rag.documents WHERE document_id = $1", &[id.into()], |row| row.required(1))
    })?;
    Ok(found.into_iter().next())
}
