//! Attributes of documents in `rag.documents` that change without their texts, and in `rag.chunks`.
//! All functions run as the extension's owner.

use rag_definition::labels::Labels;
use rag_protocol::identity::DocumentId;
use serde_json::{Map, Value};

use super::{documents::GIVEN, partitions};
use crate::{
    error::Error,
    pg::spi::{OwnerRights, uuid},
};

/// New attributes of a stored document. None keeps the stored value.
#[derive(Debug, Clone, Default)]
pub struct DocumentUpdate {
    pub title: Option<String>,
    pub labels: Labels,
    pub metadata: Option<Map<String, Value>>,
}

/// Updates the attributes of a document and of its chunks, if they differ. Its text and embeddings
/// do not change, but adding the same text again stores a new version.
pub fn update(
    owner: &OwnerRights,
    collection: &str,
    id: DocumentId,
    change: &DocumentUpdate,
    chunk_metadata: Option<Map<String, Value>>,
) -> Result<(), Error> {
    let given = |metadata: Option<Map<String, Value>>| -> [pgrx::datum::DatumWithOid<'_>; 6] {
        [
            collection.into(),
            uuid(id.0).into(),
            change.title.as_deref().into(),
            change.labels.category.as_deref().into(),
            change.labels.tags.clone().into(),
            metadata.map(|it| pgrx::JsonB(Value::Object(it))).into(),
        ]
    };
    const SET: &str =
        "title = coalesce($3, title), category = coalesce($4, category), tags = coalesce($5, tags),
                       metadata = coalesce($6, metadata)";
    const DIFFERS: &str = "(coalesce($3, title) IS DISTINCT FROM title
          OR coalesce($4, category) IS DISTINCT FROM category
          OR coalesce($5, tags) IS DISTINCT FROM tags OR coalesce($6, metadata) <> metadata)";
    let changed = owner.execute(
        &format!(
            "UPDATE rag.documents SET {SET},
                 own_title = own_title AND coalesce($3 = title, true),
                 raw_hash = CASE WHEN chunking = '{GIVEN}' THEN raw_hash END
             WHERE collection = $1 AND document_id = $2 AND {DIFFERS}"
        ),
        &given(change.metadata.clone()),
    )?;
    if changed > 0 {
        let rows = partitions::rows_of_writer(owner, collection, "")?;
        owner.execute(
            &format!("UPDATE rag.chunks SET {SET} WHERE {rows} AND document_id = $2"),
            &given(chunk_metadata),
        )?;
    }
    Ok(())
}

/// Returns a member of the metadata of a document.
pub fn stored_member(
    owner: &OwnerRights,
    collection: &str,
    id: DocumentId,
    key: &str,
) -> Result<Option<Value>, Error> {
    let found = owner.execute_returning(
        "SELECT metadata -> $3 AS member FROM rag.documents
         WHERE collection = $1 AND document_id = $2",
        &[collection.into(), uuid(id.0).into(), key.into()],
        |row| row.get::<pgrx::JsonB>("member"),
    )?;
    Ok(found.into_iter().flatten().next().map(|json| json.0))
}
