//! One item of a source: from its bytes to the event that reports it.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rag_document::{Problem, TokenCounter};
use rag_protocol::ingest::{Document, Event, Failure, Known, Splitting, Stage};
use rag_source::{Content, Item};

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
    /// It is no document.
    Skipped,
}

impl<T: TokenCounter> Reader<'_, T> {
    /// Never panics: whatever goes wrong with one document is that document's failure.
    pub fn read(&self, item: &Item, fetched: &Content) -> Outcome {
        catch_unwind(AssertUnwindSafe(|| self.read_or_fail(item, fetched)))
            .unwrap_or_else(|_| {
                let message = "the extractor failed on the document".into();
                Err(Problem { stage: Stage::Extract, message, hint: None })
            })
            .unwrap_or_else(|problem| {
                let Problem { stage, message, hint } = problem;
                Outcome::Report(Event::Failed(Failure::new(&*item.uri, stage, message, hint)), String::new())
            })
    }

    fn read_or_fail(&self, item: &Item, fetched: &Content) -> Result<Outcome, Problem> {
        let (bytes, validator) = (&fetched.bytes, &fetched.validator);
        let raw_hash = blake3::hash(bytes).to_hex().to_string();
        if let Some(known) = self.known.get(&item.uri).filter(|known| known.raw_hash == raw_hash) {
            return Ok(self.unchanged(item, validator.clone().filter(|now| known.validator.as_ref() != Some(now))));
        }
        let media_type = fetched.media_type.as_deref();
        let Some(document_type) = rag_document::document_type(&item.name, media_type, bytes) else {
            return Ok(Outcome::Skipped);
        };
        let extracted = if extraction::needs_isolation(document_type) {
            self.extractors.extract(bytes, document_type, &item.name, media_type)?
        } else {
            rag_document::extract(bytes, document_type, &item.name, media_type)?
        };
        let mut content = rag_document::content(&extracted, document_type, &self.splitting, self.tokens)?;
        for (key, value) in &fetched.metadata {
            content.metadata.entry(key.as_str()).or_insert_with(|| value.clone());
        }
        let (uri, validator, bytes) = (item.uri.clone(), validator.clone(), bytes.len() as u64);
        let document = Document { uri, raw_hash, bytes, validator, content };
        Ok(Outcome::Report(Event::Document(Box::new(document)), extracted.text))
    }

    /// What is reported of an item that is the known version.
    pub fn unchanged(&self, item: &Item, validator: Option<String>) -> Outcome {
        Outcome::Report(Event::Unchanged { uri: item.uri.clone(), validator }, String::new())
    }
}
