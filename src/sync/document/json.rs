//! Documents as JSON: an array of objects whose keys are the arguments of `rag_add_document`.

use std::collections::HashMap;

use rag_definition::DocumentType;
use serde_json::{Map, Value};

use super::{
    super::members::{self, MemberError, at, required, take, text, wrong},
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
        let document = one(document).map_err(|error| error.of_element("documents", i))?;
        if let Some(first) = seen.insert(document.uri.clone(), i) {
            return Err(Error::invalid_parameter(format!(
                "documents[{i}].uri: documents[{first}] has the same uri"
            )));
        }
        read.push(document);
    }
    Ok(read)
}

fn one(document: Value) -> Result<NewDocument, MemberError> {
    let mut members = members::of_object(document, "a document", &KEYS)?;
    let (content, uri) = (
        required(&mut members, "content")?,
        required(&mut members, "uri")?,
    );
    let labels = members::labels(&mut members)?;
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
