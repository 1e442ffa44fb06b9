//! What sources and collections store, for their quotas.

use std::collections::HashMap;

use rag_definition::Quota;
use rag_protocol::identity::DocumentId;

use super::documents::document_id;
use crate::{
    error::Error,
    pg::spi::{Row, as_owner},
};

/// Reads the columns `max_documents` and `max_bytes`.
pub fn read(row: &Row<'_, '_>) -> Result<Quota, Error> {
    Ok(Quota {
        max_documents: row.get("max_documents")?,
        max_bytes: row.get("max_bytes")?,
    })
}

/// What documents of a collection take.
#[derive(Default)]
pub struct StoredTexts {
    /// The number of documents, apart from those of the source.
    pub documents: i64,
    /// The size of their texts.
    pub bytes: i64,
    /// The sizes of the documents of the source.
    pub of_source: HashMap<DocumentId, i64>,
}

/// Returns what documents of a collection take, with those of a source apart.
pub fn stored_texts(collection: &str, source: Option<&str>) -> Result<StoredTexts, Error> {
    as_owner(|owner| {
        let others = owner.execute_returning(
            "SELECT count(*) AS documents,
                    coalesce(sum(octet_length(content)), 0)::int8 AS bytes
             FROM rag.documents
             WHERE collection = $1 AND content IS NOT NULL
               AND ($2 IS NULL OR source IS DISTINCT FROM $2)",
            &[collection.into(), source.into()],
            |row| {
                Ok(StoredTexts {
                    documents: row.required("documents")?,
                    bytes: row.required("bytes")?,
                    ..Default::default()
                })
            },
        )?;
        let own = owner.execute_returning(
            "SELECT document_id, octet_length(content)::int8 AS bytes FROM rag.documents
             WHERE collection = $1 AND source = $2 AND content IS NOT NULL",
            &[collection.into(), source.into()],
            |row| Ok((document_id(&row)?, row.required("bytes")?)),
        )?;
        Ok(StoredTexts {
            of_source: own.into_iter().collect(),
            ..others.into_iter().next().unwrap_or_default()
        })
    })
}
