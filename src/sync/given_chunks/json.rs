//! Chunks and plans as JSON.

use std::collections::HashSet;

use rag_definition::{FieldProblem, Fields};
use rag_protocol::identity::{ChunkId, DocumentId};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    super::{
        document::{checked_metadata, checked_title, checked_uri},
        members::{checked, invalid, labels},
    },
    GivenChunk, PlannedDocument,
};
use crate::{catalog::collections::Collection, error::Error, types::vector::OwnedVector};

/// The maximum number of chunks of one call.
const MAX_CHUNKS: usize = 10_000;
const KEYS: [&str; 11] = [
    "chunk_id",
    "document_id",
    "uri",
    "text",
    "metadata",
    "embedding",
    "title",
    "category",
    "tags",
    "chunk_index",
    "page",
];

/// Reads the chunks of a collection.
///
/// # Errors
/// The first error, with its path.
pub fn chunks(collection: &Collection, chunks: Value) -> Result<Vec<GivenChunk>, Error> {
    let Value::Array(chunks) = chunks else {
        return Err(
            Error::invalid_parameter("chunks must be an array of objects")
                .hint(r#"Write [{"chunk_id": "...", "uri": "...", "text": "..."}, ...]."#),
        );
    };
    if chunks.len() > MAX_CHUNKS {
        return Err(Error::limit(format!(
            "there are {} chunks, and the limit is {MAX_CHUNKS}",
            chunks.len()
        ))
        .hint("Write them in several calls."));
    }
    let mut seen = HashSet::new();
    let mut read = Vec::with_capacity(chunks.len());
    for (i, value) in chunks.into_iter().enumerate() {
        let path = format!("chunks[{i}]");
        let chunk = chunk(collection, &path, &value).map_err(invalid)?;
        if !seen.insert(chunk.id) {
            let problem = FieldProblem::new(format!("{path}.chunk_id"), "occurs twice");
            return Err(invalid(problem));
        }
        read.push(chunk);
    }
    Ok(read)
}

fn chunk(collection: &Collection, path: &str, value: &Value) -> Result<GivenChunk, FieldProblem> {
    Fields::parse(path, value, &KEYS, |fields| {
        fields.has("chunk_id", None);
        let chunk_text = id(fields, "chunk_id")?;
        let uri = fields.any_text("uri").map(checked_uri).transpose();
        let uri = checked(fields, "uri", uri)?;
        let document_id = id(fields, "document_id");
        let (document, uri) = match (&document_id, uri) {
            (Some(id), Some(uri)) => (document_of(collection, id), uri),
            (Some(id), None) => {
                let document = document_of(collection, id);
                let is_uuid = Uuid::try_parse(id).is_ok();
                let uri = if is_uuid {
                    document.to_string()
                } else {
                    id.clone()
                };
                (document, uri)
            }
            (None, Some(uri)) => (document_of(collection, &uri), uri),
            (None, None) => {
                fields.problem("uri", "is missing, and so is document_id");
                return None;
            }
        };
        let content = fields.required_text("text")?;
        let title = fields.any_text("title").map(checked_title).transpose();
        let metadata = match fields.get("metadata") {
            None => Some(Map::new()),
            Some(metadata) => checked(fields, "metadata", checked_metadata(metadata.clone())),
        };
        Some(GivenChunk {
            id: chunk_id(&chunk_text),
            document,
            given_id: Some(chunk_text).filter(|id| !is_canonical(id)),
            given_document_id: document_id.filter(|id| !is_canonical(id)),
            uri,
            title: checked(fields, "title", title)?,
            labels: labels(fields)?,
            index: number(fields, "chunk_index", 0),
            page: number(fields, "page", 1),
            text: content.to_owned(),
            metadata: metadata?,
            embedding: embedding(fields),
        })
    })
}

/// Returns the id of the document with this uri or id. A uri that is an id stands for itself.
fn document_of(collection: &Collection, uri: &str) -> DocumentId {
    match Uuid::try_parse(uri) {
        Ok(id) => DocumentId(id),
        Err(_) => collection.document_id(None, uri),
    }
}

/// The maximum size of an id, in bytes.
const MAX_ID: usize = 255;

/// Returns the id of a chunk for one of an application: a UUID, or any other text.
pub fn chunk_id(id: &str) -> ChunkId {
    Uuid::try_parse(id).map_or_else(|_| ChunkId::of_given(id), ChunkId)
}

/// Returns true if an id is written as this server writes it.
fn is_canonical(id: &str) -> bool {
    Uuid::try_parse(id).is_ok_and(|uuid| uuid.to_string() == id)
}

fn id(fields: &Fields<'_>, name: &str) -> Option<String> {
    let id = fields.any_text(name)?;
    if id.trim().is_empty() || id.len() > MAX_ID {
        fields.problem(name, format!("must be a string of 1 to {MAX_ID} bytes"));
        return None;
    }
    Some(id.to_owned())
}

fn number(fields: &Fields<'_>, name: &str, least: i64) -> Option<i32> {
    let number = fields.integer(name, least..=i64::from(i32::MAX))?;
    i32::try_from(number).ok()
}

fn embedding(fields: &Fields<'_>) -> Option<OwnedVector> {
    const NAME: &str = "embedding";
    let elements = fields.get(NAME)?.as_array().map(|elements| elements.iter());
    let numbers = elements.and_then(|elements| {
        let numbers = elements.map(|element| element.as_f64().map(|number| number as f32));
        numbers.collect::<Option<Vec<f32>>>()
    });
    let Some(numbers) = numbers else {
        fields.problem(NAME, "must be an array of numbers");
        return None;
    };
    if numbers.iter().any(|x| !x.is_finite()) {
        fields.problem(NAME, "has a number that is out of range");
    }
    if numbers.iter().all(|x| *x == 0.0) {
        fields.problem(NAME, "must have an element that is not 0");
    }
    checked(fields, NAME, OwnedVector::new(numbers))
}

/// Reads the documents of a plan: `{uri: {content_hash, chunk_ids}}`, or `{uri: [hash, ids]}`.
///
/// # Errors
/// The first error, with its path.
pub fn plan(collection: &Collection, plan: Value) -> Result<Vec<PlannedDocument>, Error> {
    let Value::Object(documents) = plan else {
        return Err(Error::invalid_parameter("docs must be an object")
            .hint(r#"Write {"uri": {"content_hash": "...", "chunk_ids": ["...", ...]}, ...}."#));
    };
    let mut seen = HashSet::new();
    let mut read = Vec::with_capacity(documents.len());
    for (uri, value) in documents {
        let path = format!("docs[{uri:?}]");
        let id = document_of(collection, &uri);
        if uri.trim().is_empty() || !seen.insert(id) {
            let problem = "must be the uri or id of a document, once";
            return Err(invalid(FieldProblem::new(path, problem)));
        }
        read.push(planned(id, &path, value).map_err(invalid)?);
    }
    Ok(read)
}

fn planned(id: DocumentId, path: &str, value: Value) -> Result<PlannedDocument, FieldProblem> {
    let value = match value {
        Value::Array(pair) => {
            let [hash, ids]: [Value; 2] = pair.try_into().map_err(|_| {
                FieldProblem::new(path, "must be an object, or an array of a hash and ids")
            })?;
            json!({ "content_hash": hash, "chunk_ids": ids })
        }
        object => object,
    };
    Fields::parse(
        path,
        &value,
        &["content_hash", "chunk_ids", "uri"],
        |fields| {
            fields.any_text("uri"); // as rag_chunk_state returns it
            let hash = fields.required_any_text("content_hash");
            fields.has("chunk_ids", None);
            let ids = fields.any_texts("chunk_ids")?;
            if ids
                .iter()
                .any(|id| id.trim().is_empty() || id.len() > MAX_ID)
            {
                fields.problem("chunk_ids", "must be an array of ids");
            }
            Some(PlannedDocument {
                id,
                hash: hash?.to_owned(),
                chunks: ids.iter().map(|id| chunk_id(id)).collect(),
            })
        },
    )
}
