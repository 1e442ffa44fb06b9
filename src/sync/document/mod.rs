//! Documents that users add directly: extracted, split, embedded and stored in the caller's
//! transaction.
//!
//! ```text
//! given ──▶ the same as stored? ──▶ nothing
//!               │ no
//!               ▼
//!           rag-engine: extract, split ──▶ some documents together: embed ──▶ store
//! ```

mod change;
mod json;
pub mod queue;

use rag_definition::{
    DocumentType,
    labels::{Labels, MAX_CHARS},
};
use rag_protocol::{identity::DocumentId, uri};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

pub use self::{
    change::update_attributes,
    change::{remove, update},
    json::read as read_json,
};
use super::indexer::{self, DocumentOrigin, ExtractedDocument, Indexer, PreparedDocument};
use crate::{
    catalog::{
        collections::Collection,
        documents::{self, DocumentAttributes, FailedDocument},
    },
    cluster::operation_stats::{CountedOperation, Operation},
    collection::{corruption, index, quotas},
    engine::client::{Client, DocumentInput, with_client},
    error::Error,
    models::embedding::EmbeddingModel,
    pg::{lock::WriterLock, spi::as_owner},
};

/// The number of chunks that are embedded together.
const BATCH_CHUNKS: usize = 128;
/// The maximum length of a uri in bytes. Every chunk and every hit of a search has it.
const MAX_URI_BYTES: usize = 8192;
/// The maximum length of a title in characters, as for titles found in documents: it is put before
/// every chunk.
const MAX_TITLE_CHARS: usize = 1000;

/// The content of a document.
pub enum Body {
    Text(String),
    /// The bytes of a file. Its name is the last part of the uri.
    File(Vec<u8>),
}

impl Body {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::File(bytes) => bytes,
        }
    }
}

/// A document to be added.
pub struct NewDocument {
    pub body: Body,
    pub uri: String,
    pub title: Option<String>,
    /// None: detected by the uri and the first bytes.
    pub document_type: Option<DocumentType>,
    pub attributes: DocumentAttributes,
    pub metadata: Map<String, Value>,
}

/// The result for a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddAction {
    Added,
    Updated,
    /// The same document was stored already; nothing was written.
    Unchanged,
    Failed,
}

impl AddAction {
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug)]
pub struct AddedDocument {
    pub id: DocumentId,
    pub uri: String,
    pub action: AddAction,
    pub chunks: i32,
    pub content_hash: Option<String>,
    pub error: Option<String>,
}

/// # Errors
/// The type is unknown.
pub fn document_type(name: &str) -> Result<DocumentType, Error> {
    DocumentType::parse(name).ok_or_else(|| {
        let names: Vec<_> = DocumentType::ALL.iter().map(|t| t.name()).collect();
        Error::invalid_parameter(format!("unknown document_type \"{name}\""))
            .hint(format!("Types: {}.", names.join(", ")))
    })
}

/// # Errors
/// The uri is blank or too long.
pub fn checked_uri(uri: &str) -> Result<String, Error> {
    if uri.trim().is_empty() {
        return Err(Error::invalid_parameter("uri must not be empty"));
    }
    if uri.len() > MAX_URI_BYTES {
        return Err(Error::invalid_parameter(format!(
            "uri must have at most {MAX_URI_BYTES} bytes, not {}",
            uri.len()
        ))
        .hint("uri is the address of the document. Its text is content."));
    }
    Ok(uri.to_string())
}

/// # Errors
/// The title is blank. One that is too long is cut.
pub fn checked_title(title: &str) -> Result<String, Error> {
    match title.trim() {
        "" => Err(Error::invalid_parameter("title must not be empty").hint("Leave it NULL.")),
        title => Ok(title.chars().take(MAX_TITLE_CHARS).collect()),
    }
}

/// # Errors
/// The category or a tag is too long.
pub fn checked_labels(category: Option<&str>, tags: Option<&[String]>) -> Result<Labels, Error> {
    Labels::new(category, tags).map_err(|field| {
        let what = if field == "tags" { "a tag" } else { field };
        Error::invalid_parameter(format!("{what} must have at most {MAX_CHARS} characters"))
    })
}

/// # Errors
/// The metadata are not an object.
pub fn checked_metadata(metadata: Value) -> Result<Map<String, Value>, Error> {
    match metadata {
        Value::Object(map) => Ok(map),
        _ => Err(Error::invalid_parameter("metadata must be a JSON object")),
    }
}

/// Adds documents to a collection. Each replaces the document with the same uri. A document that
/// cannot be indexed is part of the result.
///
/// # Errors
/// Indexing is unavailable, or a statement fails.
pub fn add(
    documents: Vec<NewDocument>,
    collection: Collection,
) -> Result<Vec<AddedDocument>, Error> {
    let name = collection.name.as_str();
    let counted = CountedOperation::begin(Operation::AddDocument, name, documents.len());
    let added = add_uncounted(documents, collection)?;
    let is_failed = |added: &&AddedDocument| added.action == AddAction::Failed;
    let failures = added.iter().filter(is_failed).count();
    counted.end((added.len() - failures) as u64, failures as u64);
    Ok(added)
}

fn add_uncounted(
    documents: Vec<NewDocument>,
    collection: Collection,
) -> Result<Vec<AddedDocument>, Error> {
    let embedder = EmbeddingModel::of_collection(&collection)?;
    with_client(|client| {
        let mut adding = DocumentAdder {
            indexer: Indexer::new(collection, embedder, client)?,
            client,
            waiting: vec![],
            chunks: 0,
            added: vec![],
        };
        for document in documents {
            adding.take(document)?;
        }
        adding.finish()
    })
}

struct DocumentAdder<'a> {
    indexer: Indexer,
    client: &'a mut Client,
    /// The documents that are not embedded yet, with their places in `added`.
    waiting: Vec<(usize, PreparedDocument)>,
    /// The number of chunks of these documents.
    chunks: usize,
    added: Vec<AddedDocument>,
}

impl DocumentAdder<'_> {
    fn take(&mut self, document: NewDocument) -> Result<(), Error> {
        pgrx::check_for_interrupts!();
        let (collection, chunking) = (&self.indexer.collection, self.indexer.chunking());
        let id = collection.document_id(None, &document.uri);
        let raw_hash = document.hash(collection);
        let uri = document.uri.clone();
        let same = corruption::write_with_repair(collection, || {
            as_owner(|owner| documents::indexed_version(owner, collection.name.as_str(), id))
        })?
        .filter(|stored| stored.raw_hash == raw_hash && stored.chunking == chunking);
        if let Some(stored) = same {
            let (chunks, content_hash) = (stored.chunks, Some(stored.content_hash));
            self.added.push(AddedDocument {
                id,
                uri,
                action: AddAction::Unchanged,
                chunks,
                content_hash,
                error: None,
            });
            return Ok(());
        }
        let named_type = document.document_type;
        match document.prepare(self.client, &self.indexer, id, raw_hash) {
            Ok(prepared) => {
                let content_hash = Some(prepared.content.content_hash.clone());
                self.chunks += prepared.content.chunks.len();
                self.waiting.push((self.added.len(), prepared));
                self.added.push(AddedDocument {
                    id,
                    uri,
                    action: AddAction::Added,
                    chunks: 0,
                    content_hash,
                    error: None,
                });
            }
            Err(error) if error.cause().is_in_input() => {
                let document_type = named_type.map(DocumentType::name);
                let failed = FailedDocument {
                    id,
                    collection: collection.name.as_str(),
                    source: None,
                    uri: &uri,
                    document_type,
                    error: &error.message,
                    fetched: true,
                };
                as_owner(|owner| documents::record_failure(owner, &failed))?;
                let error = Some(error.message);
                self.added.push(AddedDocument {
                    id,
                    uri,
                    action: AddAction::Failed,
                    chunks: 0,
                    content_hash: None,
                    error,
                });
            }
            Err(error) => return Err(error),
        }
        if self.chunks >= BATCH_CHUNKS {
            self.store()
        } else {
            Ok(())
        }
    }

    fn store(&mut self) -> Result<(), Error> {
        let waiting = std::mem::take(&mut self.waiting);
        self.chunks = 0;
        let (places, mut documents): (Vec<usize>, Vec<PreparedDocument>) =
            waiting.into_iter().unzip();
        let embeddings = self.indexer.embed(self.client, &mut documents)?;
        let mut places = places.into_iter();
        for group in indexer::groups(&documents) {
            let stored = self.indexer.store_with_repair(group, &embeddings)?;
            for (place, stored) in places.by_ref().zip(stored) {
                let added = &mut self.added[place];
                added.action = if stored.added {
                    AddAction::Added
                } else {
                    AddAction::Updated
                };
                added.chunks = stored.chunks as i32;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<AddedDocument>, Error> {
        self.store()?;
        if self
            .added
            .iter()
            .any(|added| matches!(added.action, AddAction::Added | AddAction::Updated))
        {
            let collection = &self.indexer.collection;
            quotas::check(collection)?;
            index::create_if_large_enough(collection, WriterLock::SkipIfBusy)?;
        }
        Ok(self.added)
    }
}

impl NewDocument {
    /// Returns a hash of everything that the caller gave and of the collection's settings. With the
    /// same hash, the document is stored already.
    fn hash(&self, collection: &Collection) -> String {
        let DocumentAttributes {
            knowledge_id,
            labels,
        } = &self.attributes;
        let given = json!([
            matches!(self.body, Body::File(_)),
            self.document_type.map(DocumentType::name),
            self.title,
            knowledge_id,
            labels.category,
            labels.tags,
            self.metadata,
            collection.definition.metadata_whitelist,
        ]);
        let hash = Sha256::new()
            .chain_update(given.to_string())
            .chain_update([0])
            .chain_update(self.body.bytes());
        hex::encode(hash.finalize())
    }

    fn prepare(
        self,
        client: &mut Client,
        indexer: &Indexer,
        id: DocumentId,
        raw_hash: String,
    ) -> Result<PreparedDocument, Error> {
        let is_file = matches!(self.body, Body::File(_));
        let unprepared = DocumentInput {
            bytes: self.body.bytes(),
            document_type: self.document_type,
            name: is_file.then_some(&self.uri),
            title: self.title.as_deref(),
        };
        let (tokens, splitting) = (
            indexer.embedder.token_source(),
            indexer.collection.splitting(),
        );
        let (mut content, text) = client.prepare(&tokens, splitting, &unprepared)?;
        if !content.title.own && !is_file {
            content.title.text = title_of(&self.uri);
        }
        content.metadata.extend(self.metadata);
        indexer.prepare(ExtractedDocument {
            id,
            origin: DocumentOrigin {
                source: None,
                uri: self.uri,
                raw_hash: Some(raw_hash),
                validator: None,
                attributes: self.attributes,
            },
            text,
            content,
        })
    }
}

/// Returns the title of a document that has none: the last part of its uri, after the one before it
/// for names that a file of each folder may have.
fn title_of(uri: &str) -> String {
    let mut parts = uri
        .rsplit(['/', '#', ':'])
        .filter(|part| !part.trim().is_empty());
    let last = uri::decoded(uri, parts.next().unwrap_or(uri));
    let stem = last.rsplit_once('.').map_or(&*last, |(stem, _)| stem);
    match parts.next().filter(|_| uri::is_common_name(stem)) {
        Some(folder) => format!("{}/{last}", uri::decoded(uri, folder)),
        None => last.into_owned(),
    }
}
