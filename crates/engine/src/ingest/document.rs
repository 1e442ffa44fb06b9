//! One item of a source: from its bytes to the event that reports it.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rag_document::{Nature, Problem, TokenCounter};
use rag_protocol::ingest::{Document, DocumentType, Event, Failure, Known, Splitting, Stage};
use rag_source::{Content, Item};
use serde_json::{Map, Value};

use crate::extraction::{self, Extractors};

/// What reading a document takes besides its bytes.
pub struct Reader<'a, T> {
    /// By uri, what is stored.
    pub known: &'a HashMap<String, Known>,
    pub splitting: Splitting,
    pub tokens: &'a T,
    pub extractors: Extractors,
}

/// What became of an item.
#[derive(Debug)]
pub enum Outcome {
    /// An event and its payload.
    Report(Event, String),
    /// It is no document, as its name or its media type says.
    Skipped,
    /// It was read, and is none: empty, or binary. What is stored of it is of a former version.
    NoDocument,
}

/// Keys of metadata that tell where a document was fetched from. What a document says of itself
/// under these names is not what a search should find when it asks for these.
const PROVENANCE: [&str; 7] = [
    "repository",
    "path",
    "commit",
    "branch",
    "blob",
    "final_url",
    "last_modified",
];
/// What comes before such a key where the document has it.
const DECLARED: &str = "declared_";

impl<T: TokenCounter> Reader<'_, T> {
    /// Never panics: whatever goes wrong with one document is that document's failure.
    pub fn read(&self, item: &Item, fetched: &Content) -> Outcome {
        catch_unwind(AssertUnwindSafe(|| self.read_or_fail(item, fetched)))
            .unwrap_or_else(|_| {
                Err(Problem::new(
                    Stage::Extract,
                    "the extractor failed on the document",
                ))
            })
            .unwrap_or_else(|problem| {
                let Problem {
                    stage,
                    message,
                    hint,
                    nature,
                } = problem;
                let is_told = || rag_document::is_told(&item.name, fetched.media_type.as_deref());
                if nature == Nature::Empty || (nature == Nature::Binary && !is_told()) {
                    return Outcome::NoDocument;
                }
                Outcome::Report(
                    Event::Failed(Failure::new(&*item.uri, stage, message, hint)),
                    String::new(),
                )
            })
    }

    fn read_or_fail(&self, item: &Item, fetched: &Content) -> Result<Outcome, Problem> {
        let (bytes, validator) = (&fetched.bytes, &fetched.validator);
        let raw_hash = blake3::hash(bytes).to_hex().to_string();
        if let Some(known) = self
            .known
            .get(&item.uri)
            .filter(|known| known.raw_hash == raw_hash)
        {
            return Ok(self.unchanged(
                item,
                validator
                    .clone()
                    .filter(|now| known.validator.as_ref() != Some(now)),
            ));
        }
        let media_type = fetched.media_type.as_deref();
        let Some(document_type) = rag_document::document_type(&item.name, media_type, bytes) else {
            return Ok(Outcome::NoDocument);
        };
        let name = name(item, fetched, document_type);
        let extracted = if extraction::needs_isolation(document_type) {
            self.extractors
                .extract(bytes, document_type, name, media_type)?
        } else {
            rag_document::extract(bytes, document_type, name, media_type)?
        };
        let mut content =
            rag_document::content(&extracted, document_type, &self.splitting, self.tokens)?;
        set_provenance(&mut content.metadata, &fetched.metadata);
        let (uri, validator, bytes) = (item.uri.clone(), validator.clone(), bytes.len() as u64);
        let document = Document {
            uri,
            raw_hash,
            bytes,
            validator,
            content,
        };
        Ok(Outcome::Report(
            Event::Document(Box::new(document)),
            extracted.text,
        ))
    }

    /// What is reported of an item that is the known version.
    pub fn unchanged(&self, item: &Item, validator: Option<String>) -> Outcome {
        Outcome::Report(
            Event::Unchanged {
                uri: item.uri.clone(),
                validator,
            },
            String::new(),
        )
    }
}

/// What an item is called: of a page of the web its address, which its links are relative to.
fn name<'a>(item: &'a Item, fetched: &'a Content, document_type: DocumentType) -> &'a str {
    if document_type != DocumentType::Html || fetched.media_type.is_none() {
        return &item.name;
    }
    fetched
        .metadata
        .get("final_url")
        .and_then(Value::as_str)
        .unwrap_or(&item.uri)
}

/// Adds what the fetch knows. The document's own values under the keys of [`PROVENANCE`] are kept
/// under other ones, also where the fetch knows nothing of that kind.
fn set_provenance(metadata: &mut Map<String, Value>, fetched: &Map<String, Value>) {
    for key in PROVENANCE {
        // keeps the order of the others
        if let Some(own) = metadata.shift_remove(key) {
            metadata.insert(format!("{DECLARED}{key}"), own);
        }
    }
    metadata.extend(
        fetched
            .iter()
            .map(|(key, value)| (key.clone(), value.clone())),
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn where_a_document_comes_from_is_for_the_fetch_to_say() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let mut metadata = map(
            json!({"author": "Ann", "path": "/etc/passwd", "commit": "deadbeef", "final_url": "https://x"}),
        );
        set_provenance(
            &mut metadata,
            &map(json!({"path": "docs/a.md", "commit": "0123", "blob": "4567"})),
        );
        let expected = json!({
            "author": "Ann", "declared_path": "/etc/passwd", "declared_commit": "deadbeef", "declared_final_url": "https://x",
            "path": "docs/a.md", "commit": "0123", "blob": "4567",
        });
        assert_eq!(Value::Object(metadata), expected);
    }
}
