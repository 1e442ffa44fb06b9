//! The metadata that chunks carry of their document, with its language.

use rag_language::{KEY, UNDETERMINED, of_document};
use rag_protocol::ingest::LINK_TARGETS;
use serde_json::{Map, Value};

use super::usual_language::UsualLanguage;
use crate::{catalog::collections::Collection, error::Error};

/// Adds the language to the metadata of a document if the collection detects it, and the document
/// does not say it itself. A text that is too short to tell has the language of most others.
///
/// # Errors
/// A statement fails.
pub fn note_language(
    metadata: &mut Map<String, Value>,
    collection: &Collection,
    (title, text): (&str, &str),
    usual: &UsualLanguage,
    source: Option<&str>,
) -> Result<(), Error> {
    if !collection.detects_language() || metadata.contains_key(KEY) {
        return Ok(());
    }
    let mut language = of_document(title, text, None);
    if language == UNDETERMINED {
        let usual = usual.get(collection, source)?;
        language = of_document(title, text, usual.as_deref());
    } else {
        usual.saw(&language);
    }
    metadata.insert(KEY.into(), language.into());
    Ok(())
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
            || (collection.detects_language() && key == KEY)
    };
    metadata
        .iter()
        .filter(|(key, _)| is_listed(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
