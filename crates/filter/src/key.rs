//! What a key names: a column of `rag.chunks`, or a key of its `metadata`.

use crate::error::{FilterError, Result};
use crate::value;

/// What a condition looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Text(&'static str),
    Tags,
    KnowledgeId,
    Time(&'static str),
    /// A top-level key of `metadata`; dots in it have no meaning.
    Metadata(String),
}

impl Key {
    /// Columns come first; `metadata.` before a name means the metadata key of that name.
    pub(crate) fn parse(name: &str, path: &str) -> Result<Key> {
        value::check_text(name, path)?;
        let key = match name {
            "category" => Key::Text("category"),
            "document_type" => Key::Text("document_type"),
            "title" => Key::Text("title"),
            "uri" => Key::Text("uri"),
            "source" => Key::Text("source"),
            "tags" => Key::Tags,
            "knowledge_id" => Key::KnowledgeId,
            "indexed_at" => Key::Time("indexed_at"),
            "fetched_at" => Key::Time("fetched_at"),
            _ => Key::Metadata(name.strip_prefix("metadata.").unwrap_or(name).to_owned()),
        };
        if key == Key::Metadata(String::new()) {
            return Err(FilterError::new(path, "the key is empty", "Name a metadata key or a column."));
        }
        Ok(key)
    }
}
