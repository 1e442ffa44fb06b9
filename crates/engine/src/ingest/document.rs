//! One item of a source: from its bytes to the event that reports it.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rag_document::{Problem, TokenCounter};
use rag_protocol::ingest::{Document, DocumentType, Event, Failure, Splitting, Stage};
use rag_source::Item;

use crate::extraction;

/// What reading a document takes besides its bytes.
pub struct Reader<'a, T> {
    /// `uri -> raw_hash` of what is stored.
    pub known: &'a HashMap<String, String>,
    pub splitting: Splitting,
    pub tokens: &'a T,
}

/// What became of an item.
#[derive(Debug)]
pub enum Outcome {
    /// An event and its payload.
    Report(Event, String),
    /// It is no document.
    Skipped,
}

impl<T: TokenCounter> Reader<'_, T> {
    /// Never panics: whatever goes wrong with one document is that document's failure.
    pub fn read(&self, item: &Item, bytes: &[u8]) -> Outcome {
        catch_unwind(AssertUnwindSafe(|| self.read_or_fail(item, bytes)))
            .unwrap_or_else(|_| {
                let message = "the extractor failed on the document".into();
                Err(Problem { stage: Stage::Extract, message, hint: None })
            })
            .unwrap_or_else(|problem| {
                let Problem { stage, message, hint } = problem;
                Outcome::Report(Event::Failed(Failure { uri: item.uri.clone(), stage, message, hint }), String::new())
            })
    }

    fn read_or_fail(&self, item: &Item, bytes: &[u8]) -> Result<Outcome, Problem> {
        let raw_hash = blake3::hash(bytes).to_hex().to_string();
        if self.known.get(&item.uri) == Some(&raw_hash) {
            return Ok(Outcome::Report(Event::Unchanged { uri: item.uri.clone() }, String::new()));
        }
        let Some(document_type) = rag_document::document_type(&item.name, bytes) else {
            return Ok(Outcome::Skipped);
        };
        let extracted = match document_type {
            DocumentType::Pdf => extraction::isolated(bytes, document_type, &item.name, &|| false)?,
            DocumentType::Markdown | DocumentType::Text | DocumentType::Html => {
                rag_document::extract(bytes, document_type, &item.name)?
            }
        };
        let content = rag_document::content(&extracted, document_type, &self.splitting, self.tokens)?;
        let document = Document { uri: item.uri.clone(), raw_hash, bytes: bytes.len() as u64, content };
        Ok(Outcome::Report(Event::Document(Box::new(document)), extracted.text))
    }
}
