//! Documents as JSON: an array of objects whose keys are the arguments of `rag_add_document`.

use std::collections::HashMap;

use rag_protocol::ingest::DocumentType;
use serde_json::{Map, Value};

use super::{
    Body, NewDocument, checked_labels, checked_metadata, checked_title, checked_uri, document_type,
};
use crate::{catalog::documents::DocumentAttributes, error::Error};

/// The maximum number of documents of one call.
const MAX_DOCUMENTS: usize = 10_000;
const KEYS: [&str; 8] = [
    "content",
    "uri",
    "title",
    "document_type",
    "category",
    "tags",
    "knowledge_id",
    "metadata",
];

/// Reads the documents.
///
/// # Errors
/// The first error, with its place.
pub fn read(documents: Value) -> Result<Vec<NewDocument>, Error> {
    let Value::Array(documents) = documents else {
        return Err(
            Error::invalid_parameter("documents must be an array of objects")
                .hint(r#"Write [{"content": "...", "uri": "..."}, ...]."#),
        );
    };
    if documents.len() > MAX_DOCUMENTS {
        return Err(Error::limit(format!(
            "there are {} documents, and the limit is {MAX_DOCUMENTS}",
            documents.len()
        ))
        .hint("Add them in several calls."));
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut read = Vec::with_capacity(documents.len());
    for (i, document) in documents.into_iter().enumerate() {
        let document = one(document).map_err(|(field, error)| {
            let dot = if field.is_empty() { "" } else { "." };
            Error {
                message: format!("documents[{i}]{dot}{field}: {}", error.message),
                ..error
            }
        })?;
        if let Some(first) = seen.insert(document.uri.clone(), i) {
            return Err(Error::invalid_parameter(format!(
                "documents[{i}].uri: documents[{first}] has the same uri"
            )));
        }
        read.push(document);
    }
    Ok(read)
}

/// A field and its error.
type FieldError = (String, Error);

fn one(document: Value) -> Result<NewDocument, FieldError> {
    let Value::Object(mut members) = document else {
        return Err((String::new(), Error::invalid_parameter("must be an object")));
    };
    if let Some(unknown) = members.keys().find(|key| !KEYS.contains(&key.as_str())) {
        let error = Error::invalid_parameter("is not a key of a document")
            .hint(format!("Keys: {}.", KEYS.join(", ")));
        return Err((unknown.clone(), error));
    }
    let at = |field: &'static str| move |error: Error| (field.to_string(), error);
    let (content, uri) = (
        required(&mut members, "content")?,
        required(&mut members, "uri")?,
    );
    let category = text(&mut members, "category")?;
    let tags = match take(&mut members, "tags") {
        None => None,
        Some(Value::Array(tags)) => {
            let tags = tags.into_iter().map(|tag| match tag {
                Value::String(tag) => Ok(tag),
                _ => Err(wrong("tags", "must be an array of texts")),
            });
            Some(tags.collect::<Result<Vec<_>, _>>()?)
        }
        Some(_) => return Err(wrong("tags", "must be an array of texts")),
    };
    let labels = checked_labels(category.as_deref(), tags.as_deref()).map_err(|error| {
        (
            if error.message.starts_with("a tag") {
                "tags"
            } else {
                "category"
            }
            .to_string(),
            error,
        )
    })?;
    let knowledge_id = match take(&mut members, "knowledge_id") {
        None => None,
        Some(value) => Some(
            value
                .as_i64()
                .ok_or_else(|| wrong("knowledge_id", "must be an integer"))?,
        ),
    };
    let document_type = match text(&mut members, "document_type")? {
        None => DocumentType::Markdown,
        Some(name) => document_type(&name).map_err(at("document_type"))?,
    };
    Ok(NewDocument {
        body: Body::Text(content),
        uri: checked_uri(&uri).map_err(at("uri"))?,
        title: text(&mut members, "title")?
            .map(|title| checked_title(&title))
            .transpose()
            .map_err(at("title"))?,
        document_type: Some(document_type),
        attributes: DocumentAttributes {
            knowledge_id,
            labels,
        },
        metadata: match take(&mut members, "metadata") {
            None => Map::new(),
            Some(metadata) => checked_metadata(metadata).map_err(at("metadata"))?,
        },
    })
}

fn wrong(field: &str, problem: &str) -> FieldError {
    (field.to_string(), Error::invalid_parameter(problem))
}

/// Removes and returns a member. A null counts as absent.
fn take(members: &mut Map<String, Value>, key: &str) -> Option<Value> {
    members.remove(key).filter(|value| !value.is_null())
}

fn text(members: &mut Map<String, Value>, key: &str) -> Result<Option<String>, FieldError> {
    match take(members, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong(key, "must be a text")),
    }
}

fn required(members: &mut Map<String, Value>, key: &str) -> Result<String, FieldError> {
    text(members, key)?.ok_or_else(|| wrong(key, "is missing"))
}
