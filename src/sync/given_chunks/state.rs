//! The state of a collection's index, as `rag_chunk_state` returns it.

use std::collections::HashMap;

use rag_definition::model::Provider;
use serde_json::{Map, Value, json};

use crate::{
    catalog::{chunks::query_chunks, collections::Collection, documents::GIVEN, models},
    error::Error,
    pg::spi::as_caller,
};

/// Returns the state of a collection's index as JSON: the documents that the caller may see, with
/// their hashes and chunks, and the model.
pub fn of(collection: &Collection) -> Result<Value, Error> {
    let documents = as_caller(|caller| {
        caller.query(
            "SELECT d.document_id, coalesce(d.given_id, d.document_id::text) AS id, d.uri,
                    CASE WHEN d.source IS NULL AND d.chunking = $2
                         THEN coalesce(d.raw_hash, d.content_hash) ELSE d.content_hash END AS hash
             FROM rag.documents d WHERE d.collection = $1",
            &[collection.name.as_str().into(), GIVEN.into()],
            |row| {
                Ok((
                    row.required::<pgrx::Uuid>("document_id")?,
                    row.required::<String>("id")?,
                    row.required::<String>("uri")?,
                    row.get::<String>("hash")?,
                ))
            },
        )
    })?;
    let mut chunks = chunk_ids(collection)?;
    let documents = documents.into_iter().map(|(document, id, uri, hash)| {
        let chunk_ids = chunks.remove(document.as_bytes()).unwrap_or_default();
        let state = json!({"uri": uri, "content_hash": hash, "chunk_ids": chunk_ids});
        (id, state)
    });
    let documents: Map<String, Value> = documents.collect();
    let embed = match &collection.model {
        None => Value::Null,
        Some(model) => {
            let registered = models::find(&model.name)?;
            let provider = registered.map_or(Provider::Local, |model| model.provider);
            let provider = if model.is_given() {
                "none"
            } else {
                provider.name()
            };
            json!({"provider": provider, "model": model.name, "dim": model.dimensions})
        }
    };
    Ok(json!({"docs": documents, "embed": embed}))
}

/// Returns the ids of the chunks that the caller may see, by their documents.
fn chunk_ids(collection: &Collection) -> Result<HashMap<[u8; 16], Vec<String>>, Error> {
    let statement = format!(
        "SELECT c.document_id, array_agg(coalesce(c.given_id, c.chunk_id::text)
                                         ORDER BY c.chunk_index, c.chunk_id) AS ids
         FROM rag.chunks c WHERE {} GROUP BY c.document_id",
        collection.rows("c.")
    );
    let found = query_chunks(collection, &statement, &[], |row| {
        let document: pgrx::Uuid = row.required("document_id")?;
        Ok((*document.as_bytes(), row.required::<Vec<String>>("ids")?))
    })?;
    Ok(found.into_iter().collect())
}
