//! Chunks and plans as JSON.

use std::collections::HashSet;

use rag_protocol::identity::{ChunkId, DocumentId};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    super::{
        document::{checked_metadata, checked_title, checked_uri},
        members::{self, MemberError, at, required, take, text, wrong},
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
        let chunk = chunk(collection, value)
            .and_then(|chunk| match seen.insert(chunk.id) {
                true => Ok(chunk),
                false => Err(wrong("chunk_id", "occurs twice")),
            })
            .map_err(|error| error.of_element("chunks", i))?;
        read.push(chunk);
    }
    Ok(read)
}

fn chunk(collection: &Collection, value: Value) -> Result<GivenChunk, MemberError> {
    let mut members = members::of_object(value, "a chunk", &KEYS)?;
    let chunk_text =
        id(&mut members, "chunk_id")?.ok_or_else(|| wrong("chunk_id", "is missing"))?;
    let uri = text(&mut members, "uri")?
        .map(|uri| checked_uri(&uri))
        .transpose()
        .map_err(at("uri"))?;
    let document_id = id(&mut members, "document_id")?;
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
        (None, None) => return Err(wrong("uri", "is missing, and so is document_id")),
    };
    let content = required(&mut members, "text")?;
    if content.trim().is_empty() {
        return Err(wrong("text", "must not be empty"));
    }
    Ok(GivenChunk {
        id: chunk_id(&chunk_text),
        document,
        given_id: Some(chunk_text).filter(|id| !is_canonical(id)),
        given_document_id: document_id.filter(|id| !is_canonical(id)),
        uri,
        title: text(&mut members, "title")?
            .map(|title| checked_title(&title))
            .transpose()
            .map_err(at("title"))?,
        labels: members::labels(&mut members)?,
        index: number(&mut members, "chunk_index", 0)?,
        page: number(&mut members, "page", 1)?,
        text: content,
        metadata: match take(&mut members, "metadata") {
            None => Map::new(),
            Some(metadata) => checked_metadata(metadata).map_err(at("metadata"))?,
        },
        embedding: take(&mut members, "embedding").map(embedding).transpose()?,
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

fn id(members: &mut Map<String, Value>, key: &str) -> Result<Option<String>, MemberError> {
    text(members, key)?
        .map(|id| checked_id(id, key))
        .transpose()
}

fn checked_id(id: String, key: &str) -> Result<String, MemberError> {
    match id.trim().is_empty() || id.len() > MAX_ID {
        true => Err(wrong(
            key,
            &format!("must be a text of 1 to {MAX_ID} bytes"),
        )),
        false => Ok(id),
    }
}

fn number(
    members: &mut Map<String, Value>,
    key: &str,
    least: i32,
) -> Result<Option<i32>, MemberError> {
    let Some(value) = take(members, key) else {
        return Ok(None);
    };
    let number = value.as_i64().and_then(|n| i32::try_from(n).ok());
    match number.filter(|n| *n >= least) {
        Some(n) => Ok(Some(n)),
        None => Err(wrong(key, &format!("must be an integer from {least} on"))),
    }
}

fn embedding(value: Value) -> Result<OwnedVector, MemberError> {
    let elements = match value {
        Value::Array(elements) => elements,
        _ => return Err(wrong("embedding", "must be an array of numbers")),
    };
    let numbers: Option<Vec<f32>> = elements
        .iter()
        .map(|element| element.as_f64().map(|x| x as f32))
        .collect();
    let numbers = numbers.ok_or_else(|| wrong("embedding", "must be an array of numbers"))?;
    if numbers.iter().any(|x| !x.is_finite()) {
        return Err(wrong("embedding", "has a number that is out of range"));
    }
    if numbers.iter().all(|x| *x == 0.0) {
        return Err(wrong("embedding", "must have an element that is not 0"));
    }
    OwnedVector::new(numbers).map_err(at("embedding"))
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
        let at_uri = |error: MemberError| error.of_member("docs", &uri);
        let id = document_of(collection, &uri);
        if uri.trim().is_empty() || !seen.insert(id) {
            return Err(at_uri(wrong(
                "",
                "must be the uri or id of a document, once",
            )));
        }
        read.push(planned(id, value).map_err(at_uri)?);
    }
    Ok(read)
}

fn planned(id: DocumentId, value: Value) -> Result<PlannedDocument, MemberError> {
    let value = match value {
        Value::Array(pair) => {
            let [hash, ids]: [Value; 2] = pair
                .try_into()
                .map_err(|_| wrong("", "must be an object, or an array of a hash and ids"))?;
            json!({ "content_hash": hash, "chunk_ids": ids })
        }
        object => object,
    };
    let mut members = members::of_object(
        value,
        "a document of a plan",
        &["content_hash", "chunk_ids", "uri"],
    )?;
    text(&mut members, "uri")?; // as rag_index_state returns it
    let hash = required(&mut members, "content_hash")?;
    let Some(Value::Array(ids)) = take(&mut members, "chunk_ids") else {
        return Err(wrong("chunk_ids", "must be an array of ids"));
    };
    let is_id = |id: &&str| !id.trim().is_empty() && id.len() <= MAX_ID;
    let ids: Option<HashSet<ChunkId>> = ids
        .iter()
        .map(|id| id.as_str().filter(is_id).map(chunk_id))
        .collect();
    Ok(PlannedDocument {
        id,
        hash,
        chunks: ids.ok_or_else(|| wrong("chunk_ids", "must be an array of ids"))?,
    })
}
