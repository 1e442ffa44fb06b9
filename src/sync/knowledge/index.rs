//! Indexing one item: its documents are embedded and stored in the present transaction.

use std::{collections::HashMap, ops::ControlFlow, time::Duration};

use rag_definition::{labels, source::SourceSpec};
use rag_protocol::{
    EngineError, ErrorKind,
    identity::DocumentId,
    ingest::{Document, Failure, FailureCause, Title},
};
use sha2::{Digest, Sha256};

use super::{KnowledgeArguments, check_rights, document_id, spec};
use crate::{
    catalog::{
        collections::Collection,
        documents::{self, DocumentAttributes, FailedDocument},
        knowledge::{self, KnowledgeItem, KnowledgeKind},
    },
    collection::{index, quotas},
    engine::client::with_client,
    error::Error,
    models::embedding::EmbeddingModel,
    pg::{lock::WriterLock, spi::as_owner},
    sync::{
        document,
        feed::{self, Feed, Flow, Listing, Reader},
        indexer::{DocumentOrigin, ExtractedDocument, Indexer},
        ingest::{IngestFeed, IngestJob},
    },
};

/// The maximum time for one item, if no statement_timeout ends it before.
pub(super) const ITEM_TIMEOUT: Duration = Duration::from_secs(3600);

/// The message for a document without text. The interface of knowledge items defines it with a
/// capital letter.
const NO_CONTENT: &str = "No content to index";

/// The result of indexing an item.
#[derive(Debug, Default)]
pub struct KnowledgeResult {
    /// The document, if the item is a single one.
    pub document: Option<DocumentId>,
    pub chunks: usize,
    pub content_hash: Option<String>,
    /// The reason why some or all of the item is not indexed.
    pub error: Option<String>,
    /// A server limits the rate of requests. The item may be indexed after this time.
    pub retry_after: Option<Duration>,
}

impl KnowledgeResult {
    pub fn failed(error: String) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }

    pub fn success(&self) -> bool {
        self.content_hash.is_some()
    }
}

/// Indexes an item with the given changes, and records the result. An error in its content is part
/// of the result; then the changes to an existing item are not stored.
///
/// # Errors
/// The item does not exist and no uri is given, an argument is invalid, the caller or the item's
/// owner may not read it, or indexing is unavailable.
pub fn index(
    collection: &Collection,
    id: i64,
    arguments: &KnowledgeArguments<'_>,
) -> Result<KnowledgeResult, Error> {
    let name = collection.name.as_str();
    let stored = as_owner(|owner| knowledge::lock(owner, name, id))?;
    let item = match &stored {
        Some(stored) => arguments.apply_to(stored)?,
        None => arguments.new_item(id)?,
    };
    check_rights(&item)?;
    if stored.is_none() && !as_owner(|owner| knowledge::create(owner, name, &item))? {
        return Err(Error::duplicate(format!(
            "knowledge item {id} was registered by another session"
        ))
        .hint("Try again."));
    }
    let indexed = fetch(&item, collection)?;
    if indexed.success() {
        as_owner(|owner| knowledge::update(owner, name, &item, false))?;
    }
    record(name, id, &indexed)?;
    Ok(indexed)
}

/// Records the result of indexing an item.
pub(super) fn record(collection: &str, id: i64, result: &KnowledgeResult) -> Result<(), Error> {
    as_owner(|owner| match (&result.content_hash, &result.error) {
        (Some(hash), _) => knowledge::record_success(owner, collection, id, hash),
        (None, error) => {
            let error = error.as_deref().unwrap_or(NO_CONTENT);
            knowledge::record_failure(owner, collection, id, error)
        }
    })
}

fn fetch(item: &KnowledgeItem, collection: &Collection) -> Result<KnowledgeResult, Error> {
    let embedder = EmbeddingModel::of_collection(collection)?;
    let mut indexer = with_client(|client| Indexer::new(collection.clone(), embedder, client))?;
    let label = format!("knowledge={}", item.id);
    let mut feed = begin(label, vec![spec(item)?], &indexer)?;
    KnowledgeIndexer::new(item, &mut indexer).take_item(&mut feed)
}

/// Starts the engine on the specs of some items.
pub(super) fn begin(
    label: String,
    specs: Vec<SourceSpec>,
    indexer: &Indexer,
) -> Result<IngestFeed, Error> {
    let timeout = ITEM_TIMEOUT * u32::try_from(specs.len()).unwrap_or(u32::MAX);
    IngestFeed::begin(IngestJob {
        label,
        specs,
        credentials: None,
        known: HashMap::new(),
        splitting: indexer.collection.splitting(),
        embedder: &indexer.embedder,
        folder: work_name(),
        timeout,
        user_of_clone: None,
    })
}

/// Returns how long a server asks to wait, if it limits the rate of requests.
fn retry_after(failure: &Failure) -> Option<Duration> {
    match failure.cause {
        FailureCause::Throttled {
            retry_after_seconds,
        } => Some(Duration::from_secs(retry_after_seconds.unwrap_or_default())),
        FailureCause::Other | FailureCause::NoContent => None,
    }
}

/// Returns the name of a folder for this session. No source has a dot in its name.
fn work_name() -> String {
    format!("knowledge.{}", crate::pg::process::my_pid())
}

/// What indexes an item.
pub(super) struct KnowledgeIndexer<'a> {
    item: &'a KnowledgeItem,
    indexer: &'a mut Indexer,
    documents: Vec<IndexedDocument>,
    failures: Vec<Failure>,
}

/// A document of an item that is stored.
struct IndexedDocument {
    id: DocumentId,
    hash: String,
    chunks: usize,
}

impl<'a> KnowledgeIndexer<'a> {
    pub(super) fn new(item: &'a KnowledgeItem, indexer: &'a mut Indexer) -> Self {
        Self {
            item,
            indexer,
            documents: vec![],
            failures: vec![],
        }
    }

    /// Stores what a feed has of the item, up to its last event.
    pub(super) fn take_item(mut self, feed: &mut dyn Feed) -> Result<KnowledgeResult, Error> {
        feed::read(feed, &mut self)
    }

    /// Returns the result of an item that was read.
    fn result(&self) -> KnowledgeResult {
        let error = self.failures.first().map(|first| self.describe(first));
        let retry_after = self.failures.iter().filter_map(retry_after).max();
        if self.documents.is_empty() {
            return KnowledgeResult {
                retry_after,
                ..KnowledgeResult::failed(error.unwrap_or_else(|| NO_CONTENT.into()))
            };
        }
        let (document, content_hash) = match self.documents.as_slice() {
            [only] => (Some(only.id), only.hash.clone()),
            several => {
                let hashes: Vec<&str> = several.iter().map(|it| it.hash.as_str()).collect();
                (None, hex::encode(Sha256::digest(hashes.join("\n"))))
            }
        };
        KnowledgeResult {
            document,
            chunks: self.documents.iter().map(|document| document.chunks).sum(),
            content_hash: Some(content_hash),
            error,
            retry_after,
        }
    }

    fn describe(&self, first: &Failure) -> String {
        let message = if first.cause == FailureCause::NoContent {
            NO_CONTENT
        } else {
            &first.message
        };
        let failed = self.failures.len();
        if failed == 1 && self.documents.is_empty() {
            return message.to_string();
        }
        let all = failed + self.documents.len();
        format!(
            "{failed} of {all} documents could not be indexed, the first of them {}: {message}",
            first.uri
        )
    }

    fn id(&self, uri: &str) -> DocumentId {
        document_id(&self.indexer.collection.ids_from, self.item.id, uri)
    }

    /// Deletes the documents that the item no longer has. Documents that were added with its number
    /// by other means are kept.
    fn remove_vanished(&self) -> Result<(), Error> {
        let name = self.indexer.collection.name.as_str();
        let kept: Vec<DocumentId> = self.documents.iter().map(|document| document.id).collect();
        let failed: Vec<DocumentId> = self
            .failures
            .iter()
            .map(|failure| self.id(&failure.uri))
            .collect();
        let gone: Vec<DocumentId> =
            as_owner(|owner| knowledge::documents(owner, name, self.item.id))?
                .into_iter()
                .filter(|(id, uri)| {
                    self.id(uri) == *id && !kept.contains(id) && !failed.contains(id)
                })
                .map(|(id, _)| id)
                .collect();
        as_owner(|owner| documents::delete(owner, name, &gone))?;
        Ok(())
    }
}

impl Reader for KnowledgeIndexer<'_> {
    type End = KnowledgeResult;

    fn document(&mut self, document: Document, text: String) -> Flow<KnowledgeResult> {
        let id = self.id(&document.uri);
        let mut content = document.content;
        // the title is shown, not embedded: the text was split without it
        if let Some(title) = &self.item.title
            && self.item.kind != KnowledgeKind::Folder
            && content.title.text != *title
        {
            content.title = Title {
                text: title.clone(),
                own: false,
            };
        }
        let tags = self.item.tags.as_deref().map(labels::split);
        let labels = document::checked_labels(self.item.category.as_deref(), tags.as_deref())?;
        let hash = content.content_hash.clone();
        let origin = DocumentOrigin {
            source: None,
            uri: document.uri,
            raw_hash: Some(document.raw_hash),
            validator: document.validator,
            attributes: DocumentAttributes {
                knowledge_id: Some(self.item.id),
                labels,
            },
        };
        let mut prepared = [self.indexer.prepare(ExtractedDocument {
            id,
            origin,
            text,
            content,
        })?];
        let embeddings = with_client(|client| self.indexer.embed(client, &mut prepared))?;
        let stored = self.indexer.store_with_repair(&prepared, &embeddings)?;
        quotas::check(&self.indexer.collection)?;
        self.documents.push(IndexedDocument {
            id,
            hash,
            chunks: stored.iter().map(|stored| stored.chunks).sum(),
        });
        Ok(ControlFlow::Continue(()))
    }

    fn failed(&mut self, failure: Failure) -> Flow<KnowledgeResult> {
        self.failures.push(failure);
        Ok(ControlFlow::Continue(()))
    }

    fn finished(&mut self, listing: Listing) -> Result<KnowledgeResult, Error> {
        let name = self.indexer.collection.name.as_str();
        for failure in &self.failures {
            let id = self.id(&failure.uri);
            let failed = FailedDocument {
                id,
                collection: name,
                source: None,
                uri: &failure.uri,
                document_type: None,
                error: &failure.message,
                fetched: false,
            };
            as_owner(|owner| documents::record_failure(owner, &failed))?;
        }
        if !self.documents.is_empty() {
            if listing.is_complete {
                self.remove_vanished()?;
            }
            index::create_if_large_enough(&self.indexer.collection, WriterLock::SkipIfBusy)?;
        }
        Ok(self.result())
    }

    fn fatal(&mut self, error: EngineError) -> Result<KnowledgeResult, Error> {
        if error.kind == ErrorKind::FileNotFound {
            let uri = &self.item.uri;
            let path = uri.strip_prefix("file://").unwrap_or(uri);
            return Ok(KnowledgeResult::failed(format!("File not found: {path}")));
        }
        let is_throttled = error.kind == ErrorKind::Throttled;
        let seconds = error.retry_after_seconds.unwrap_or_default();
        Ok(KnowledgeResult {
            retry_after: is_throttled.then(|| Duration::from_secs(seconds)),
            ..KnowledgeResult::failed(error.message)
        })
    }
}
