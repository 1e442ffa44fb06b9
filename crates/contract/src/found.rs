use std::borrow::Cow;

use rag_protocol::uri::file_name;
use serde_json::{Map, Value, json};

/// A chunk that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundChunk {
    /// The name of the collection.
    pub collection: String,
    pub document_id: String,
    pub chunk_id: String,
    pub knowledge_id: Option<i64>,
    pub uri: String,
    pub title: Option<String>,
    pub source: Option<String>,
    pub document_type: String,
    pub category: Option<String>,
    pub tags: Vec<String>,
    /// The metadata of the document.
    pub metadata: Map<String, Value>,
    pub content: String,
    /// The position of the chunk in the document, from 0.
    pub chunk_index: i32,
    /// The first character of the chunk in the document, from 0.
    pub start_index: i32,
    /// The first and the last line of the chunk, from 1.
    pub lines: (i32, i32),
    pub page: Option<i32>,
    pub heading_path: Vec<String>,
    /// The place that addresses name after `#`.
    pub anchor: Option<String>,
    /// Times in ISO 8601.
    pub indexed_at: String,
    pub fetched_at: String,
    /// 0 to 1.
    pub score: f64,
    /// The cosine similarity, 0 to 1. None in mode keyword.
    pub vector_score: Option<f64>,
    /// The uris of other places with the same text.
    pub also_at: Vec<String>,
}

impl FoundChunk {
    /// Returns what follows the last `/` or `#` of the uri, decoded, as the key `source_file` of
    /// filters does, or the whole uri if nothing follows.
    pub fn source_file(&self) -> Cow<'_, str> {
        match file_name(&self.uri) {
            name if name.is_empty() => Cow::Borrowed(&self.uri),
            name => name,
        }
    }

    /// Returns the title, or the name of the file for a document without one.
    pub fn title(&self) -> Cow<'_, str> {
        self.stored_title()
            .map_or_else(|| self.source_file(), Cow::Borrowed)
    }

    /// Returns the metadata of the document with what is known of the chunk. Where both have a
    /// value, that of the chunk is under its key, and the document's own under `document`. What is
    /// not known of the chunk is the document's own, or null.
    pub fn all_metadata(&self) -> Value {
        let known = [
            ("document_id", json!(self.document_id)),
            ("chunk_id", json!(self.chunk_id)),
            ("uri", json!(self.uri)),
            ("title", json!(self.stored_title())),
            ("source", json!(self.source)),
            ("category", json!(self.category)),
            ("tags", json!(self.tags)),
            ("knowledge_id", json!(self.knowledge_id)),
            ("document_type", json!(self.document_type)),
            ("start_index", json!(self.start_index)),
            ("lines", json!([self.lines.0, self.lines.1])),
            ("page", json!(self.page)),
            ("heading_path", json!(self.heading_path)),
            ("indexed_at", json!(self.indexed_at)),
            ("fetched_at", json!(self.fetched_at)),
        ];
        let mut all = self.metadata.clone();
        let mut hidden = Map::new();
        for (key, value) in known {
            let own = all.entry(key).or_insert(Value::Null);
            if is_nothing(&value) && !own.is_null() || *own == value {
                continue;
            }
            let own = std::mem::replace(own, value);
            if !own.is_null() {
                hidden.insert(key.to_owned(), own);
            }
        }
        if all["title"].is_null() {
            all["title"] = json!(self.source_file());
        }
        if let Some(anchor) = &self.anchor {
            all.entry("anchor").or_insert(json!(anchor));
        }
        if !self.also_at.is_empty() {
            all.insert("also_at".to_owned(), json!(self.also_at));
        }
        if !hidden.is_empty() {
            if let Some(own) = all.remove(DOCUMENT) {
                hidden.insert(DOCUMENT.to_owned(), own);
            }
            all.insert(DOCUMENT.to_owned(), Value::Object(hidden));
        }
        Value::Object(all)
    }

    fn stored_title(&self) -> Option<&str> {
        let title = self.title.as_deref();
        title.filter(|title| !title.trim().is_empty())
    }
}

/// The key of metadata of the document that the chunk's hides.
const DOCUMENT: &str = "document";

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}
