//! Attributes of documents in `rag.documents` that change without their texts, and in `rag.chunks`.

use rag_definition::labels::Labels;
use rag_protocol::identity::DocumentId;
use serde_json::{Map, Value};

use super::{
    chunk_metadata::chunk_metadata, collections::Collection, given_chunks::GIVEN, partitions,
};
use crate::{
    error::Error,
    pg::{
        security::as_owner,
        spi::{execute, execute_returning, uuid},
    },
};

/// New attributes of a stored document. None keeps the stored value.
#[derive(Debug, Default)]
pub struct DocumentUpdate {
    pub title: Option<String>,
    pub labels: Labels,
    pub metadata: Option<Map<String, Value>>,
}

/// Updates the attributes of a document and of its chunks, if they differ. Its text and embeddings
/// do not change, but adding the same text again stores a new version.
pub fn update(collection: &str, id: DocumentId, change: &DocumentUpdate) -> Result<(), Error> {
    let json = |metadata: Map<String, Value>| pgrx::JsonB(Value::Object(metadata));
    let given = |metadata: Option<pgrx::JsonB>| -> [pgrx::datum::DatumWithOid<'_>; 6] {
        [
            collection.into(),
            uuid(id.0).into(),
            change.title.as_deref().into(),
            change.labels.category.as_deref().into(),
            change.labels.tags.clone().into(),
            metadata.into(),
        ]
    };
    const SET: &str =
        "title = coalesce($3, title), category = coalesce($4, category), tags = coalesce($5, tags),
                       metadata = coalesce($6, metadata)";
    const DIFFERS: &str = "(coalesce($3, title) IS DISTINCT FROM title
          OR coalesce($4, category) IS DISTINCT FROM category
          OR coalesce($5, tags) IS DISTINCT FROM tags OR coalesce($6, metadata) <> metadata)";
    partitions::join_writers(collection);
    as_owner(|| {
        // a rebuild may have changed it since the statement began
        let settings = Collection::get(collection)?;
        let mut new = change.metadata.clone();
        if let (Some(new), true) = (&mut new, settings.detects_language())
            && !new.contains_key(rag_language::KEY)
            && let Some(language) = stored_language(collection, id)?
        {
            new.insert(rag_language::KEY.into(), language);
        }
        let changed = execute(
            &format!(
                "UPDATE rag.documents SET {SET},
                     own_title = own_title AND coalesce($3 = title, true),
                     raw_hash = CASE WHEN chunking = '{GIVEN}' THEN raw_hash END
                 WHERE collection = $1 AND document_id = $2 AND {DIFFERS}"
            ),
            &given(new.clone().map(json)),
        )?;
        if changed > 0 {
            let rows = partitions::rows_of_writer(collection, "")?;
            let of_chunks = new.map(|metadata| json(chunk_metadata(&metadata, &settings)));
            execute(
                &format!("UPDATE rag.chunks SET {SET} WHERE {rows} AND document_id = $2"),
                &given(of_chunks),
            )?;
        }
        Ok(())
    })
}

/// Returns the language in the metadata of a document.
fn stored_language(collection: &str, id: DocumentId) -> Result<Option<Value>, Error> {
    let found = execute_returning(
        "SELECT metadata OPERATOR(pg_catalog.->) $3 FROM rag.documents
         WHERE collection = $1 AND document_id = $2",
        &[
            collection.into(),
            uuid(id.0).into(),
            rag_language::KEY.into(),
        ],
        |row| row.get::<pgrx::JsonB>(1),
    )?;
    Ok(found.into_iter().flatten().next().map(|json| json.0))
}
