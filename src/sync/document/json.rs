//! Documents as JSON: an array of objects whose keys are the arguments of `rag_add_document`.

use std::collections::HashMap;

use rag_definition::{DocumentType, FieldProblem, Fields};
use serde_json::{Map, Value};

use super::{
    super::members::{checked, invalid, labels},
    Body, NewDocument, checked_metadata, checked_title, checked_uri, document_type,
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
        let document = one(&format!("documents[{i}]"), &document).map_err(invalid)?;
        if let Some(first) = seen.insert(document.uri.clone(), i) {
            return Err(Error::invalid_parameter(format!(
                "documents[{i}].uri: documents[{first}] has the same uri"
            )));
        }
        read.push(document);
    }
    Ok(read)
}

fn one(path: &str, document: &Value) -> Result<NewDocument, FieldProblem> {
    Fields::parse(path, document, &KEYS, |fields| {
        let content = fields.required_any_text("content");
        let uri = fields.required_any_text("uri");
        let labels = labels(fields);
        let knowledge_id = fields.integer("knowledge_id", i64::MIN..=i64::MAX);
        let document_type = match fields.any_text("document_type") {
            None => Some(DocumentType::Markdown),
            Some(name) => checked(fields, "document_type", document_type(name)),
        };
        let uri = checked(fields, "uri", checked_uri(uri?));
        let title = fields.any_text("title").map(checked_title).transpose();
        let metadata = match fields.get("metadata") {
            None => Some(Map::new()),
            Some(metadata) => checked(fields, "metadata", checked_metadata(metadata.clone())),
        };
        Some(NewDocument {
            body: Body::Text(content?.to_owned()),
            uri: uri?,
            title: checked(fields, "title", title)?,
            document_type: Some(document_type?),
            attributes: DocumentAttributes {
                knowledge_id,
                labels: labels?,
            },
            metadata: metadata?,
        })
    })
}
