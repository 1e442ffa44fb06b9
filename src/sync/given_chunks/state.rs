//! The state of a collection's index, as `rag_chunk_state` returns it.

use rag_definition::model::Provider;
use serde_json::{Map, Value, json};

use crate::{
    catalog::{collections::Collection, documents::GIVEN, models},
    error::Error,
    pg::spi::as_caller,
};

/// Returns the state of a collection's index as JSON: the documents that the caller may see, with
/// their hashes and chunks, and the model.
pub fn of(collection: &Collection) -> Result<Value, Error> {
    let documents = as_caller(|caller| {
        caller.query(
            &format!(
                "SELECT coalesce(d.given_id, d.document_id::text) AS id, d.uri,
                CASE WHEN d.source IS NULL AND d.chunking = $2
                     THEN coalesce(d.raw_hash, d.content_hash) ELSE d.content_hash END AS hash,
                coalesce(k.ids, '{{}}') AS chunk_ids
         FROM rag.documents d
         LEFT JOIN (SELECT c.document_id,
                           array_agg(coalesce(c.given_id, c.chunk_id::text)
                                     ORDER BY c.chunk_index, c.chunk_id) AS ids
                    FROM rag.chunks c WHERE {} GROUP BY c.document_id) AS k
             USING (document_id)
         WHERE d.collection = $1",
                collection.rows("c.")
            ),
            &[collection.name.as_str().into(), GIVEN.into()],
            |row| {
                let document = json!({
                    "uri": row.required::<String>("uri")?,
                    "content_hash": row.get::<String>("hash")?,
                    "chunk_ids": row.required::<Vec<String>>("chunk_ids")?,
                });
                Ok((row.required::<String>("id")?, document))
            },
        )
    })?;
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
    let documents: Map<String, Value> = documents.into_iter().collect();
    Ok(json!({"docs": documents, "embed": embed}))
}
