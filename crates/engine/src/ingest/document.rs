//! One file of a source: from its bytes to the event that reports it. Files that hold others are
//! read by [`super::members`].

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rag_definition::DocumentType;
use rag_document::{DocumentError, DocumentErrorKind, TokenCounter};
use rag_protocol::{
    ingest::{Document, Event, Failure, FailureCause, KnownVersion, Splitting, Stage, Warning},
    skipped::SkippedFiles,
};
use rag_source::{ALIAS_URIS, FetchedContent, Filter, SourceItem};
use serde_json::{Map, Value};

use super::members::StoredMembers;
use crate::extraction::{self, Extractors};

/// The context for reading a document.
pub struct Reader<'a, T> {
    /// The stored documents, by uri.
    pub known: &'a HashMap<String, KnownVersion>,
    pub stored_members: StoredMembers<'a>,
    /// Which files of an archive are read.
    pub member_filter: Filter,
    /// Pictures are documents.
    pub reads_pictures: bool,
    /// Maximum size of a file, in bytes.
    pub max_file_bytes: u64,
    pub splitting: Splitting,
    pub tokens: &'a T,
    pub extractors: Extractors,
}

/// The result for an item.
#[derive(Debug)]
pub enum Outcome {
    /// An event and its payload.
    Report(Event, String),
    /// The item is not a document, by its name or its media type.
    Skipped,
    /// The item was read and is not a document: it is empty or binary, or has no text. A stored
    /// document is a former version. The warning says why its name suggests otherwise.
    NoDocument {
        uri: String,
        files: SkippedFiles,
        warning: Option<Warning>,
    },
    /// Files of an archive were left out.
    SkippedMembers(SkippedFiles),
}

impl Outcome {
    pub fn no_document(uri: &str, files: SkippedFiles, warning: Option<Warning>) -> Self {
        let uri = uri.to_owned();
        Self::NoDocument {
            uri,
            files,
            warning,
        }
    }
}

/// What is read: an item of the source, or a member of one.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    pub uri: &'a str,
    /// See [`SourceItem::name`].
    pub name: &'a str,
}

impl<'a> From<&'a SourceItem> for File<'a> {
    fn from(item: &'a SourceItem) -> Self {
        Self {
            uri: &item.uri,
            name: &item.name,
        }
    }
}

/// Metadata keys for the place that a document was fetched from. A document's own values under
/// these keys must not be found by searches for them.
const PROVENANCE: [&str; 9] = [
    "repository",
    "path",
    "commit",
    "branch",
    "blob",
    "final_url",
    "last_modified",
    ALIAS_URIS,
    PARENT_URI,
];
/// The metadata key with the uri of the file that holds the document.
pub const PARENT_URI: &str = "parent_uri";
/// Prefix of such a key for the document's own value.
const DECLARED: &str = "declared_";

impl<T: TokenCounter> Reader<'_, T> {
    /// Reads a file, without those that it holds. Never panics: any error is a failure of that
    /// document.
    pub fn read(&self, file: File, fetched: &FetchedContent) -> Outcome {
        catch_unwind(AssertUnwindSafe(|| self.read_or_fail(file, fetched)))
            .unwrap_or_else(|_| {
                Err(DocumentError::new(
                    Stage::Extract,
                    "the extractor failed on the document",
                ))
            })
            .unwrap_or_else(|error| {
                let media_type = fetched.media_type.as_deref();
                let warning = |message: &str| {
                    Some(Warning {
                        stage: error.stage,
                        message: message.into(),
                    })
                };
                match error.kind {
                    DocumentErrorKind::Empty => {
                        return Outcome::no_document(
                            file.uri,
                            SkippedFiles::other(file.name),
                            None,
                        );
                    }
                    DocumentErrorKind::Binary => {
                        let is_type_known = rag_document::is_type_known(file.name, media_type);
                        let skipped = "the file was skipped because it is binary";
                        return Outcome::no_document(
                            file.uri,
                            SkippedFiles::other(file.name),
                            warning(skipped).filter(|_| is_type_known),
                        );
                    }
                    DocumentErrorKind::NoText
                        if rag_document::is_blank_page(file.name, media_type, &fetched.bytes) =>
                    {
                        let skipped = "the page was skipped because it has no text";
                        return Outcome::no_document(
                            file.uri,
                            SkippedFiles::other(file.name),
                            warning(skipped),
                        );
                    }
                    DocumentErrorKind::NoText
                    | DocumentErrorKind::Scan
                    | DocumentErrorKind::Unreadable => {}
                }
                let cause = if error.is_no_content() {
                    FailureCause::NoContent
                } else {
                    FailureCause::Other
                };
                let failure = Failure::new(file.uri, error.stage, error.message, error.hint)
                    .with_cause(cause);
                Outcome::Report(Event::Failed(failure), String::new())
            })
    }

    fn read_or_fail(&self, file: File, fetched: &FetchedContent) -> Result<Outcome, DocumentError> {
        let (bytes, validator) = (&fetched.bytes, &fetched.validator);
        let raw_hash = raw_hash(fetched);
        if let Some(known) = self
            .known
            .get(file.uri)
            .filter(|known| known.raw_hash == raw_hash)
        {
            return Ok(self.unchanged(
                file.uri,
                validator
                    .clone()
                    .filter(|now| known.validator.as_ref() != Some(now)),
            ));
        }
        let media_type = fetched.media_type.as_deref();
        let document_type = rag_document::document_type(file.name, media_type, bytes);
        let picture = || self.is_picture(file.name).then_some(DocumentType::Image);
        let Some(document_type) = document_type.or_else(picture) else {
            return Ok(Outcome::no_document(
                file.uri,
                SkippedFiles::other(file.name),
                None,
            ));
        };
        let name = name(file, fetched, document_type);
        let extracted = if extraction::needs_isolation(document_type) {
            self.extractors
                .extract(bytes, document_type, name, media_type)?
        } else {
            rag_document::extract(bytes, document_type, name, media_type)?
        };
        let mut content =
            rag_document::content(&extracted, document_type, &self.splitting, self.tokens)?;
        set_provenance(&mut content.metadata, &fetched.metadata);
        let (uri, validator, bytes) = (file.uri.to_owned(), validator.clone(), bytes.len() as u64);
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

    /// Returns true for a picture that is a document.
    pub fn is_picture(&self, name: &str) -> bool {
        self.reads_pictures && rag_document::is_picture(name)
    }

    /// Returns the report of a document that has not changed.
    pub fn unchanged(&self, uri: &str, validator: Option<String>) -> Outcome {
        Outcome::Report(
            Event::Unchanged {
                uri: uri.to_owned(),
                validator,
            },
            String::new(),
        )
    }
}

/// Returns the hash that tells versions apart: that of the bytes, and of other addresses.
fn raw_hash(fetched: &FetchedContent) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&fetched.bytes);
    if let Some(aliases) = fetched.metadata.get(ALIAS_URIS) {
        hasher.update(aliases.to_string().as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// Returns the name of an item. A web page has its address, which its links are relative to.
fn name<'a>(file: File<'a>, fetched: &'a FetchedContent, document_type: DocumentType) -> &'a str {
    if document_type != DocumentType::Html || fetched.media_type.is_none() {
        return file.name;
    }
    fetched
        .metadata
        .get("final_url")
        .and_then(Value::as_str)
        .unwrap_or(file.uri)
}

/// Adds the metadata of the fetch. The document's own values under the keys of [`PROVENANCE`] get
/// other keys, even if the fetch has no such value.
fn set_provenance(metadata: &mut Map<String, Value>, fetched: &Map<String, Value>) {
    for key in PROVENANCE {
        // Keeps the order of the other keys.
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
    fn other_addresses_are_another_version() {
        let fetched = |aliases: Option<Value>| FetchedContent {
            bytes: b"text".to_vec(),
            metadata: aliases
                .map(|urls| (ALIAS_URIS.into(), urls))
                .into_iter()
                .collect(),
            ..FetchedContent::default()
        };
        let plain = raw_hash(&fetched(None));
        assert_eq!(plain, blake3::hash(b"text").to_hex().to_string());
        let one = raw_hash(&fetched(Some(json!(["https://a.example/a/"]))));
        let two = raw_hash(&fetched(Some(json!([
            "https://a.example/a/",
            "https://a.example/b"
        ]))));
        assert!(plain != one && one != two);
    }

    #[test]
    fn the_fetch_determines_where_a_document_comes_from() {
        let map = |value: Value| value.as_object().cloned().unwrap_or_default();
        let mut metadata = map(
            json!({"author": "Ann", "path": "/etc/passwd", "commit": "deadbeef",
                "final_url": "https://x"}),
        );
        set_provenance(
            &mut metadata,
            &map(json!({"path": "docs/a.md", "commit": "0123", "blob": "4567"})),
        );
        let expected = json!({
            "author": "Ann", "declared_path": "/etc/passwd", "declared_commit": "deadbeef",
                "declared_final_url": "https://x",
            "path": "docs/a.md", "commit": "0123", "blob": "4567",
        });
        assert_eq!(Value::Object(metadata), expected);
    }
}
