//! From the bytes of one file to the chunks of one document.
//!
//! ```text
//! bytes ──document_type──▶ Markdown | Text | Html | Pdf
//!       ──extract────────▶ Extracted { text, title, metadata }
//!       ──split──────────▶ [Chunk { start_index, byte_start, byte_len }]
//! ```
//!
//! Every step takes a value and returns a value: nothing here reads a file, opens a connection or knows a model (the
//! tokenizer comes in as a [`TokenCounter`]). The same input gives the same output on every machine; the identities of
//! documents and chunks, and with them every stored embedding, hang on that.
//!
//! | type | text | title |
//! |---|---|---|
//! | Markdown | as written, without the front matter | front matter, else the first heading of level 1, else the first heading |
//! | HTML | converted to Markdown | `<title>`, else the first `<h1>` |
//! | PDF | pages, a form feed between them | the Info dictionary's, where it is one |
//! | text | as written | – |
//!
//! Where a document does not say what it is called, its title is its file's name without the extension, and
//! [`Title::own`] is false: such a title is shown but not embedded.
//!
//! A text holds no NUL characters (PostgreSQL cannot store them) and is never blank. What cannot be read is a
//! [`Problem`], never a panic and never a silently shortened text.

mod decode;
mod front_matter;
mod html;
mod kind;
mod markdown;
mod pdf;
mod split;
mod title;

use rag_protocol::ingest::{Content, DocumentType, Splitting, Stage, Title};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub use crate::{kind::document_type, split::split, title::own as own_title};

/// Counts a model's tokens, special tokens included; the engine implements it with the model's own tokenizer.
pub trait TokenCounter {
    /// Tokens of `text`, special tokens included, before any truncation.
    fn count(&self, text: &str) -> usize;
    /// The most tokens a text may have, special tokens included.
    fn limit(&self) -> usize;
}

/// What a document is, without its uri.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extracted {
    pub text: String,
    pub title: Title,
    /// Front matter, and what the extractor has to say: `front_matter_error`, `unreadable_pages`.
    pub metadata: Map<String, Value>,
}

/// A failure at one stage; the caller adds the uri.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub stage: Stage,
    /// One sentence, lower case, no final stop.
    pub message: String,
    pub hint: Option<String>,
}

impl Problem {
    fn new(stage: Stage, message: impl Into<String>) -> Self {
        Self { stage, message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn no_content() -> Self {
        Self::new(Stage::Extract, "no content to index").hint("It is empty, or all white space.")
    }
}

/// Reads a document. `name` is the file's name or path, from which the title is taken where the document has none.
///
/// PDFs should be read in a process of their own: see the module `pdf` for what their parser can do to its process.
///
/// # Errors
/// [`Stage::Decode`] where the bytes are not text that can be stored, [`Stage::Extract`] where the format is damaged,
/// locked or has nothing in it.
pub fn extract(bytes: &[u8], document_type: DocumentType, name: &str) -> Result<Extracted, Problem> {
    let text = || decode::text(bytes);
    let extracted = match document_type {
        DocumentType::Text => {
            Extracted { text: text()?.to_owned(), title: title::from_name(name), metadata: Map::new() }
        }
        DocumentType::Markdown => markdown::extract(text()?, name),
        DocumentType::Html => html::extract(text()?, name)?,
        DocumentType::Pdf => pdf::extract(bytes, name)?,
    };
    if extracted.text.trim().is_empty() {
        return Err(Problem::no_content());
    }
    Ok(extracted)
}

/// Hashes and splits what was extracted: what the protocol calls the content of a document. The text stays where it is.
///
/// # Errors
/// Those of [`split`].
pub fn content(
    extracted: &Extracted,
    document_type: DocumentType,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
) -> Result<Content, Problem> {
    let chunks = split(&extracted.text, &extracted.title, splitting, tokens)?;
    let content_hash = Sha256::digest(&extracted.text).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Content {
        document_type,
        title: extracted.title.clone(),
        metadata: extracted.metadata.clone(),
        content_hash,
        chunks,
    })
}
