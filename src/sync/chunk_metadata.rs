//! The metadata that chunks carry of their document, with its language.

use rag_protocol::ingest::LINK_TARGETS;
use serde_json::{Map, Value};

use crate::catalog::collections::Collection;

/// Adds the language to the metadata of a document if the collection detects it, and the document
/// does not say it itself.
pub fn note_language(
    metadata: &mut Map<String, Value>,
    collection: &Collection,
    title: &str,
    text: &str,
) {
    if collection.detects_language() && !metadata.contains_key(rag_language::KEY) {
        metadata.insert(
            rag_language::KEY.into(),
            rag_language::of_document(title, text).into(),
        );
    }
}

/// Returns the metadata that chunks carry: the keys of the whitelist, or without one all keys
/// except the links of a page. The keyword index reads the language from them.
pub fn chunk_metadata(
    metadata: &Map<String, Value>,
    collection: &Collection,
) -> Map<String, Value> {
    let whitelist = collection.definition.metadata_whitelist.as_deref();
    let is_listed = |key: &String| {
        whitelist.map_or(key != LINK_TARGETS, |keys| keys.contains(key))
            || (collection.detects_language() && key == rag_language::KEY)
    };
    metadata
        .iter()
        .filter(|(key, _)| is_listed(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
