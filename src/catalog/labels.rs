//! Category and tags of stored documents. They change without indexing the text again.

use rag_definition::labels::Labels;
use rag_protocol::identity::DocumentId;
use serde_json::{Map, Value, json};

use super::{documents::document_id, partitions, sources::Source};
use crate::{
    error::Error,
    pg::spi::{OwnerRights, uuid},
};

/// The version of the rules that derive labels from a source and a document. A new version makes
/// the next run label all documents again.
const VERSION: &str = "labels v1";

/// A document with its metadata and labels.
pub struct LabeledDocument {
    pub id: DocumentId,
    pub metadata: Map<String, Value>,
    pub labels: Labels,
}

fn definition(labels: &Labels) -> pgrx::JsonB {
    pgrx::JsonB(json!([VERSION, labels.category, labels.tags]))
}

/// Returns true if all documents of a source have the labels of its current definition.
pub fn are_current(owner: &OwnerRights, source: &Source) -> Result<bool, Error> {
    let found = owner.query(
        "SELECT document_labels IS NOT DISTINCT FROM $2 AS is_current
         FROM rag_internal.source WHERE name = $1",
        &[
            source.name.as_str().into(),
            definition(&source.document_labels).into(),
        ],
        |row| row.required("is_current"),
    )?;
    Ok(found.first() == Some(&true))
}

/// Records that all documents of a source have the labels of its current definition.
pub fn set_current(owner: &OwnerRights, source: &Source) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET document_labels = $3 WHERE name = $1 AND uid = $2",
        &[
            source.name.as_str().into(),
            source.uid.into(),
            definition(&source.document_labels).into(),
        ],
    )?;
    Ok(())
}

/// Returns up to `max` documents of a source in the order of their ids, after the document `after`.
pub fn next_documents(
    owner: &OwnerRights,
    source: &Source,
    after: Option<DocumentId>,
    max: i64,
) -> Result<Vec<LabeledDocument>, Error> {
    owner.query(
        "SELECT document_id, metadata, category, tags FROM rag.documents
         WHERE collection = $1 AND source = $2 AND ($3 IS NULL OR document_id > $3)
         ORDER BY document_id LIMIT $4",
        &[
            source.collection.as_str().into(),
            source.name.as_str().into(),
            after.map(|id| uuid(id.0)).into(),
            max.into(),
        ],
        |row| {
            let metadata = match row.required::<pgrx::JsonB>("metadata")?.0 {
                Value::Object(metadata) => metadata,
                _ => Map::new(),
            };
            let labels = Labels {
                category: row.get("category")?,
                tags: row.get("tags")?,
            };
            Ok(LabeledDocument {
                id: document_id(&row)?,
                metadata,
                labels,
            })
        },
    )
}

/// Changes the labels of a document of a source, and of its chunks. Does nothing if the document
/// has drifted: the next run indexes it again.
pub fn update_if_intact(
    owner: &OwnerRights,
    collection: &str,
    id: DocumentId,
    labels: &Labels,
) -> Result<(), Error> {
    let intact = owner.execute_returning(
        "SELECT 1 FROM rag_internal.compute_document_digests($1, of_document => $2) d
             JOIN rag_internal.document_digest m ON m.collection = $1
                 AND m.document_id = d.document_id
         WHERE m.digest = d.digest",
        &[collection.into(), uuid(id.0).into()],
        |_| Ok(()),
    )?;
    if intact.is_empty() {
        return Ok(());
    }
    set(owner, collection, id, labels)?;
    super::digests::record(owner, collection, id)
}

/// Writes the labels of a document and of its chunks.
pub fn set(
    owner: &OwnerRights,
    collection: &str,
    id: DocumentId,
    labels: &Labels,
) -> Result<(), Error> {
    let given = || -> [pgrx::datum::DatumWithOid<'_>; 4] {
        [
            collection.into(),
            uuid(id.0).into(),
            labels.category.as_deref().into(),
            labels.tags.clone().into(),
        ]
    };
    let of_chunks = partitions::rows_of_writer(owner, collection, "")?;
    for (table, rows) in [
        ("rag.documents", "collection = $1"),
        ("rag.chunks", of_chunks.as_str()),
    ] {
        owner.execute(
            &format!(
                "UPDATE {table} SET category = $3, tags = $4 WHERE {rows} AND document_id = $2"
            ),
            &given(),
        )?;
    }
    Ok(())
}
