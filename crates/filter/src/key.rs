//! Keys: a column of `rag.chunks`, or a key of its `metadata`.

use crate::error::{FilterError, Result};
use crate::value;

/// The column or metadata key that a condition tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Text(&'static str),
    /// A text column with a fixed set of values.
    DocumentType,
    /// The whole uri, or its last part.
    SourceFile,
    /// A column of several texts.
    Texts(&'static str),
    Integer(&'static str),
    Uuid(&'static str),
    Time(&'static str),
    /// A top-level key of `metadata`; dots in it have no meaning.
    Metadata(String),
}

/// The names of columns, and their types.
const COLUMNS: [(&str, Key); 18] = [
    ("category", Key::Text("category")),
    ("document_type", Key::DocumentType),
    ("title", Key::Text("title")),
    ("uri", Key::Text("uri")),
    ("source", Key::Text("source")),
    ("former_source", Key::Text("former_source")),
    ("source_file", Key::SourceFile),
    ("tags", Key::Texts("tags")),
    ("heading", Key::Texts("heading_path")),
    ("knowledge_id", Key::Integer("knowledge_id")),
    ("knowledge_ids", Key::Integer("knowledge_id")),
    ("chunk_index", Key::Integer("chunk_index")),
    ("page", Key::Integer("page")),
    ("document_id", Key::Uuid("document_id")),
    ("doc_ref", Key::Uuid("document_id")),
    ("chunk_id", Key::Uuid("chunk_id")),
    ("indexed_at", Key::Time("indexed_at")),
    ("fetched_at", Key::Time("fetched_at")),
];

impl Key {
    /// Columns take precedence; `metadata.` before a name selects the metadata key of that name.
    pub(crate) fn parse(name: &str, path: &str) -> Result<Key> {
        value::check_text(name, path)?;
        if let Some((_, key)) = COLUMNS.iter().find(|(column, _)| *column == name) {
            return Ok(key.clone());
        }
        match name.strip_prefix("metadata.").unwrap_or(name) {
            "" => Err(FilterError::new(
                path,
                "the key is empty",
                "Name a metadata key or a column.",
            )),
            name => Ok(Key::Metadata(name.to_owned())),
        }
    }
}

/// Returns the keys that are columns.
pub fn columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|(name, _)| *name)
}
