//! Knowledge items: fetched, extracted and split by `rag-engine ingest`, as the runner has it, but embedded and stored in
//! the caller's transaction, as `rag_add_document` does.
//!
//! ```text
//! item ──▶ SourceSpec ──▶ rag-engine ingest ──▶ each document: embed, store ──▶ documents that the item no longer has: delete
//! ```
//!
//! The caller's snapshot is held meanwhile: for much there are sources.

use std::time::Duration;

use rag_protocol::{
    ErrorKind,
    embed::{ModelInfo, ModelRef},
    identity::DocumentId,
    ingest::{Document, Event, Failure, Title},
    spec::SourceSpec,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    catalog::{
        collections::Collection,
        documents,
        embedding_index::{self, Writers},
        knowledge::{self, Item},
        roles,
    },
    engine::client::with_client,
    error::Error,
    indexing::{Attributes, PreparedDocument},
    settings,
    workers::runner::{self, ingest::Ingest, pipeline::Feed},
};

/// Most time of one item, where no statement_timeout ends it before.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// What rag-engine says of a document without text; users of knowledge items know it with a capital.
const NO_CONTENT: &str = "No content to index";

/// What became of an item.
#[derive(Debug, Default)]
pub struct Indexed {
    /// Of an item that is one document.
    pub document: Option<DocumentId>,
    pub chunks: usize,
    pub content_hash: Option<String>,
    /// Why not all, or nothing, of it is indexed.
    pub error: Option<String>,
}

impl Indexed {
    pub fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    pub fn success(&self) -> bool {
        self.content_hash.is_some()
    }
}

/// Indexes an item and notes how it went. What is wrong with its content is an answer.
///
/// # Errors
/// The item makes no sense, the caller may not read it, or nothing can be indexed now.
pub fn index(item: &Item, collection: &Collection) -> Result<Indexed, Error> {
    let spec = spec(item)?;
    runner::rights::check(&spec, roles::current())?;
    let model_ref = settings::model(None)?;
    let model = with_client(|client| client.describe(&model_ref))?;
    collection.check_model(&model)?;
    let ingest =
        Ingest::begin(spec, None, Default::default(), collection.splitting, &model_ref, &work_name(), TIMEOUT)?;
    let indexed =
        Indexing { item, collection: collection.clone(), model_ref, model, documents: vec![], failures: vec![] }
            .take_all(ingest)?;
    let name = collection.name.as_str();
    match (&indexed.content_hash, &indexed.error) {
        (Some(hash), _) => knowledge::succeed(name, item.id, hash)?,
        (None, error) => knowledge::fail(name, item.id, error.as_deref().unwrap_or(NO_CONTENT))?,
    }
    Ok(indexed)
}

/// Removes an item and its documents; whether there was anything.
pub fn remove(collection: &str, id: i64) -> Result<bool, Error> {
    let ids: Vec<DocumentId> = knowledge::documents(collection, id)?.into_iter().map(|(id, _)| id).collect();
    let deleted = documents::delete(collection, &ids)?;
    Ok(knowledge::remove(collection, id)? || deleted > 0)
}

/// Where an item's documents come from.
fn spec(item: &Item) -> Result<SourceSpec, Error> {
    let uri = item.uri.as_str();
    let is_remote = uri.starts_with("http://") || uri.starts_with("https://");
    let (kind, spec) = match item.kind.as_str() {
        "markdown" if !is_remote => ("markdown", json!({ "uri": uri })),
        "folder" => ("folder", json!({ "path": uri.strip_prefix("file://").unwrap_or(uri) })),
        _ => ("static", json!({ "endpoints": [uri] })),
    };
    SourceSpec::parse(kind, &spec)
        .map_err(|problems| Error::invalid_spec(&format!("knowledge item {}", item.id), &problems))
}

/// A folder of the session's own; no source has a dot in its name.
#[allow(unsafe_code)]
fn work_name() -> String {
    // SAFETY: reads a variable of the session.
    format!("knowledge.{}", unsafe { pgrx::pg_sys::MyProcPid })
}

struct Indexing<'a> {
    item: &'a Item,
    collection: Collection,
    model_ref: ModelRef,
    model: ModelInfo,
    /// Those that are stored: uri, id, hash, chunks.
    documents: Vec<(String, DocumentId, String, usize)>,
    failures: Vec<Failure>,
}

impl Indexing<'_> {
    fn take_all(mut self, mut ingest: Ingest) -> Result<Indexed, Error> {
        let complete = loop {
            let Some((event, payload)) = ingest.next_event()? else { continue };
            match event {
                Event::Started { .. } | Event::Unchanged { .. } | Event::Removed { .. } => {}
                Event::Document(document) => self.store(*document, payload)?,
                Event::Failed(failure) => self.failures.push(failure),
                Event::Finished { complete, .. } => break complete,
                Event::Fatal { error } if error.kind == ErrorKind::FileNotFound => {
                    let path = self.item.uri.strip_prefix("file://").unwrap_or(&self.item.uri);
                    return Ok(Indexed::failed(format!("File not found: {path}")));
                }
                Event::Fatal { error } => return Ok(Indexed::failed(error.message)),
            }
        };
        for failure in &self.failures {
            let id = self.id(&failure.uri);
            let name = self.collection.name.as_str();
            documents::fail(id, name, None, &failure.uri, None, &failure.message, false)?;
        }
        let error = self.failures.first().map(|first| self.describe(first));
        if self.documents.is_empty() {
            return Ok(Indexed::failed(error.unwrap_or_else(|| NO_CONTENT.into())));
        }
        if complete {
            self.remove_vanished()?;
        }
        embedding_index::make_if_it_pays(&self.collection, Writers::LeaveToNext)?;
        let chunks = self.documents.iter().map(|(.., chunks)| chunks).sum();
        let (document, content_hash) = match self.documents.as_slice() {
            [(_, id, hash, _)] => (Some(*id), hash.clone()),
            several => {
                let hashes: Vec<&str> = several.iter().map(|(_, _, hash, _)| hash.as_str()).collect();
                (None, hex::encode(Sha256::digest(hashes.join("\n"))))
            }
        };
        Ok(Indexed { document, chunks, content_hash: Some(content_hash), error })
    }

    fn describe(&self, first: &Failure) -> String {
        let message = if first.message == "no content to index" { NO_CONTENT } else { &first.message };
        let failed = self.failures.len();
        if failed == 1 && self.documents.is_empty() {
            return message.to_string();
        }
        let all = failed + self.documents.len();
        format!("{failed} of {all} documents could not be indexed, the first of them {}: {message}", first.uri)
    }

    /// Its documents are apart from those of other items and of `rag_add_document` with the same uri: no source's name has
    /// a space in it.
    fn id(&self, uri: &str) -> DocumentId {
        DocumentId::derive(self.collection.name.as_str(), Some(&format!("knowledge {}", self.item.id)), uri)
    }

    fn store(&mut self, document: Document, payload: Vec<u8>) -> Result<(), Error> {
        let id = self.id(&document.uri);
        let text =
            String::from_utf8(payload).map_err(|_| Error::internal("rag-engine sent a text that is not UTF-8"))?;
        let mut content = document.content;
        // shown, not embedded: the text was cut without it
        if let Some(title) = &self.item.title
            && self.item.kind != "folder"
            && content.title.text != *title
        {
            content.title = Title { text: title.clone(), own: false };
        }
        let tags = self.item.tags.as_ref().map(|tags| {
            tags.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(String::from).collect::<Vec<_>>()
        });
        let hash = content.content_hash.clone();
        let prepared = PreparedDocument {
            id,
            source: None,
            uri: document.uri,
            raw_hash: Some(document.raw_hash),
            validator: document.validator,
            text,
            content,
            attributes: Attributes { knowledge_id: Some(self.item.id), category: self.item.category.clone(), tags },
        };
        let stored =
            with_client(|client| prepared.embed_and_store(client, &self.model_ref, &self.model, &self.collection))?;
        if self.collection.model.is_none() {
            // the partition exists now
            self.collection = Collection::get(self.collection.name.as_str())?;
        }
        self.documents.push((prepared.uri, id, hash, stored.chunks));
        Ok(())
    }

    /// Deletes what the item had and has no more. Documents that were given its number otherwise stay.
    fn remove_vanished(&self) -> Result<(), Error> {
        let name = self.collection.name.as_str();
        let kept: Vec<DocumentId> = self.documents.iter().map(|(_, id, ..)| *id).collect();
        let failed: Vec<DocumentId> = self.failures.iter().map(|failure| self.id(&failure.uri)).collect();
        let gone: Vec<DocumentId> = knowledge::documents(name, self.item.id)?
            .into_iter()
            .filter(|(id, uri)| self.id(uri) == *id && !kept.contains(id) && !failed.contains(id))
            .map(|(id, _)| id)
            .collect();
        documents::delete(name, &gone)?;
        Ok(())
    }
}
