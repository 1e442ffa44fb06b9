//! Knowledge items: `rag-engine ingest` fetches, extracts and splits them, as in a run. They are
//! embedded and stored in the caller's transaction, as with `rag_add_document`.
//!
//! ```text
//! item ──▶ SourceSpec ──▶ rag-engine ingest ──▶ each document: embed, store
//!      ──▶ documents that the item no longer has: delete
//! ```
//!
//! The caller's snapshot is held meanwhile. Use sources for large amounts of data.

use std::time::Duration;

use rag_protocol::{
    ErrorKind,
    embed::ModelInfo,
    identity::DocumentId,
    ingest::{Document, Event, Failure, FailureCause, Title},
    labels,
    spec::SourceSpec,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{document, ingest::IngestFeed, pipeline::Feed, store::PreparedDocument};
use crate::{
    catalog::{
        collections::Collection,
        corruption,
        documents::{self, DocumentAttributes},
        knowledge::{self, KnowledgeItem},
        quotas,
    },
    engine::client::with_client,
    error::Error,
    models::embedding::EmbeddingModel,
    pg::{
        lock::WriterLock,
        roles::{self, Owner},
    },
    source::rights,
    storage::index,
};

/// The maximum time for one item, if no statement_timeout ends it before.
const ITEM_TIMEOUT: Duration = Duration::from_secs(3600);

/// The message for a document without text. The interface of knowledge items defines it with a
/// capital letter.
const NO_CONTENT: &str = "No content to index";

const ITEM_TYPES: [&str; 3] = ["markdown", "website", "folder"];

/// The arguments that describe an item. None means not given.
#[derive(Debug, Default)]
pub struct KnowledgeArguments<'a> {
    pub title: Option<&'a str>,
    pub uri: Option<&'a str>,
    pub document_type: Option<&'a str>,
    pub category: Option<&'a str>,
    pub tags: Option<&'a str>,
}

impl KnowledgeArguments<'_> {
    /// Returns a new item.
    fn new_item(&self, id: i64) -> Result<KnowledgeItem, Error> {
        let uri = self.uri.ok_or_else(|| {
            Error::undefined(format!("knowledge item {id} does not exist")).hint(
                "The view rag.knowledge lists all items. Create one with \
                 rag_create_knowledge, or give a uri.",
            )
        })?;
        let item = KnowledgeItem {
            id,
            title: None,
            uri: uri.to_string(),
            kind: "markdown".into(),
            category: None,
            tags: None,
            owner: Owner::current()?,
        };
        self.apply_to(&item)
    }

    /// Returns an item with these changes. A caller that changes where the item comes from becomes
    /// its owner.
    fn apply_to(&self, item: &KnowledgeItem) -> Result<KnowledgeItem, Error> {
        let own = |given: Option<&str>| given.map(|text| text.trim().to_string());
        if let Some(kind) = self.document_type.filter(|kind| !ITEM_TYPES.contains(kind)) {
            return Err(
                Error::invalid_parameter(format!("unknown document_type \"{kind}\""))
                    .hint(format!("Types: {}.", ITEM_TYPES.join(", "))),
            );
        }
        let tags = self.tags.map(labels::split);
        document::checked_labels(self.category, tags.as_deref())?;
        let changes_origin = self.uri.is_some() || self.document_type.is_some();
        Ok(KnowledgeItem {
            id: item.id,
            title: own(self.title)
                .filter(|title| !title.is_empty())
                .or_else(|| item.title.clone()),
            uri: own(self.uri).unwrap_or_else(|| item.uri.clone()),
            kind: self.document_type.unwrap_or(&item.kind).to_string(),
            category: own(self.category).or_else(|| item.category.clone()),
            tags: tags
                .map(|tags| tags.join(","))
                .or_else(|| item.tags.clone()),
            owner: if changes_origin {
                Owner::current()?
            } else {
                item.owner.clone()
            },
        })
    }
}

/// The result of indexing an item.
#[derive(Debug, Default)]
pub struct KnowledgeResult {
    /// The document, if the item is a single one.
    pub document: Option<DocumentId>,
    pub chunks: usize,
    pub content_hash: Option<String>,
    /// The reason why some or all of the item is not indexed.
    pub error: Option<String>,
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

/// Registers an item.
///
/// # Errors
/// The id is taken, an argument is invalid, or the caller may not read the item.
pub fn create(
    collection: &Collection,
    id: i64,
    arguments: &KnowledgeArguments<'_>,
) -> Result<(), Error> {
    let item = arguments.new_item(id)?;
    check_rights(&item)?;
    if knowledge::create(collection.name.as_str(), &item)? {
        return Ok(());
    }
    Err(
        Error::duplicate(format!("knowledge item {id} already exists"))
            .hint("Change it with rag_alter_knowledge, or index it with rag_index_knowledge."),
    )
}

/// Changes an item. A new title, category or tags apply to its documents at once. A new uri or type
/// applies when the item is indexed next.
///
/// # Errors
/// The item does not exist, an argument is invalid, or the caller may not read the item's uri.
pub fn alter(
    collection: &Collection,
    id: i64,
    arguments: &KnowledgeArguments<'_>,
) -> Result<(), Error> {
    let name = collection.name.as_str();
    let stored = knowledge::lock(name, id)?.ok_or_else(|| missing(id))?;
    let item = arguments.apply_to(&stored)?;
    if item == stored {
        return Ok(());
    }
    if item.owner != stored.owner || item.uri != stored.uri || item.kind != stored.kind {
        check_rights(&item)?;
    }
    knowledge::update(
        name,
        &item,
        item.uri != stored.uri || item.kind != stored.kind,
    )?;
    let tags = arguments.tags.map(labels::split);
    let change = documents::DocumentUpdate {
        title: item
            .title
            .clone()
            .filter(|_| item.kind != "folder" && item.title != stored.title),
        labels: document::checked_labels(arguments.category, tags.as_deref())?,
        metadata: None,
    };
    for (document, uri) in knowledge::documents(name, id)? {
        if document_id(name, id, &uri) == document {
            corruption::write_with_repair(collection, || {
                documents::update(name, document, &change)
            })?;
        }
    }
    Ok(())
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
    let stored = knowledge::lock(name, id)?;
    let item = match &stored {
        Some(stored) => arguments.apply_to(stored)?,
        None => arguments.new_item(id)?,
    };
    check_rights(&item)?;
    if stored.is_none() && !knowledge::create(name, &item)? {
        return Err(Error::duplicate(format!(
            "knowledge item {id} was registered by another session"
        ))
        .hint("Try again."));
    }
    let indexed = fetch(&item, collection)?;
    match (&indexed.content_hash, &indexed.error) {
        (Some(hash), _) => {
            knowledge::update(name, &item, false)?;
            knowledge::record_success(name, id, hash)?;
        }
        (None, error) => {
            knowledge::record_failure(name, id, error.as_deref().unwrap_or(NO_CONTENT))?
        }
    }
    Ok(indexed)
}

fn missing(id: i64) -> Error {
    Error::undefined(format!("knowledge item {id} does not exist"))
        .hint("The view rag.knowledge lists all items. Create one with rag_create_knowledge.")
}

/// Checks that both the caller and the item's owner may read its uri, so that neither can read it
/// with the other's rights.
///
/// # Errors
/// One of them has no permission, or the owner does not exist.
fn check_rights(item: &KnowledgeItem) -> Result<(), Error> {
    let spec = spec(item)?;
    rights::check(&spec, roles::current())?;
    if item.owner.id == roles::current() {
        return Ok(());
    }
    let again = format!(
        "A role that may read the uri can give it again: rag_alter_knowledge({}, uri => ...).",
        item.id
    );
    if roles::name_of(item.owner.id).is_none() {
        let message = format!(
            "role \"{}\", which owns knowledge item {}, does not exist",
            item.owner.name, item.id
        );
        return Err(Error::undefined(message).hint(again));
    }
    let owned = format!(
        "Knowledge item {} is owned by role \"{}\", which needs the same permission.",
        item.id, item.owner.name
    );
    if !roles::has_privileges_of(item.owner.id, roles::ADMIN) {
        return Err(
            Error::permission_denied("permission denied to index knowledge")
                .detail(owned)
                .hint(again),
        );
    }
    rights::check(&spec, item.owner.id).map_err(|error| error.detail(owned).hint(again))
}

/// Returns the id of a document of an item. It differs from the ids of other items and of
/// `rag_add_document` with the same uri, because no source's name contains a space. `collection` is
/// what ids of the collection are made from.
pub fn document_id(collection: &str, item: i64, uri: &str) -> DocumentId {
    DocumentId::derive(collection, Some(&format!("knowledge {item}")), uri)
}

fn fetch(item: &KnowledgeItem, collection: &Collection) -> Result<KnowledgeResult, Error> {
    let embedder = EmbeddingModel::of_collection(collection)?;
    let model = with_client(|client| embedder.describe(client))?;
    collection.check_model(&model)?;
    let label = format!("knowledge={}", item.id);
    let ingest = IngestFeed::begin(
        label,
        spec(item)?,
        None,
        Default::default(),
        collection.splitting,
        &embedder,
        &work_name(),
        ITEM_TIMEOUT,
        None,
    )?;
    KnowledgeIndexer {
        item,
        collection: collection.clone(),
        embedder,
        model,
        documents: vec![],
        failures: vec![],
    }
    .take_all(ingest)
}

/// Deletes the documents of an item. Returns true if there were any.
///
/// # Errors
/// There is neither an item nor a document with the number.
pub fn unindex(collection: &str, id: i64) -> Result<bool, Error> {
    let deleted = delete_documents(collection, id)?;
    match deleted || knowledge::exists(collection, id)? {
        true => Ok(deleted),
        false => Err(missing(id)),
    }
}

fn delete_documents(collection: &str, id: i64) -> Result<bool, Error> {
    let ids: Vec<DocumentId> = knowledge::documents(collection, id)?
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let deleted = documents::delete(collection, &ids)?;
    knowledge::reset_to_pending(collection, id)?;
    Ok(deleted > 0)
}

/// Deletes an item and its documents. Returns true if either existed.
pub fn remove(collection: &str, id: i64) -> Result<bool, Error> {
    let had_documents = delete_documents(collection, id)?;
    Ok(knowledge::remove(collection, id)? || had_documents)
}

/// Returns the spec by which an item's documents are fetched.
fn spec(item: &KnowledgeItem) -> Result<SourceSpec, Error> {
    let uri = item.uri.as_str();
    let is_remote = uri.starts_with("http://") || uri.starts_with("https://");
    let (kind, spec) = match item.kind.as_str() {
        "markdown" if !is_remote => ("markdown", json!({ "uri": uri })),
        "folder" => (
            "folder",
            json!({ "path": uri.strip_prefix("file://").unwrap_or(uri) }),
        ),
        _ => ("static", json!({ "endpoints": [uri] })),
    };
    SourceSpec::parse(kind, &spec)
        .map_err(|problems| Error::invalid_spec(&format!("knowledge item {}", item.id), &problems))
}

/// Returns the name of a folder for this session. No source has a dot in its name.
fn work_name() -> String {
    format!("knowledge.{}", crate::pg::process::my_pid())
}

struct KnowledgeIndexer<'a> {
    item: &'a KnowledgeItem,
    collection: Collection,
    embedder: EmbeddingModel,
    model: ModelInfo,
    /// The stored documents: uri, id, hash, number of chunks.
    documents: Vec<(String, DocumentId, String, usize)>,
    failures: Vec<Failure>,
}

impl KnowledgeIndexer<'_> {
    fn take_all(mut self, mut ingest: IngestFeed) -> Result<KnowledgeResult, Error> {
        let complete = loop {
            let Some((event, payload)) = ingest.next_event()? else {
                continue;
            };
            match event {
                Event::Started { .. }
                | Event::Unchanged { .. }
                | Event::Removed { .. }
                | Event::Worked { .. } => {}
                Event::Document(document) => self.store(*document, payload)?,
                Event::Failed(failure) => self.failures.push(failure),
                Event::Finished { complete, .. } => break complete,
                Event::Fatal { error } if error.kind == ErrorKind::FileNotFound => {
                    let path = self
                        .item
                        .uri
                        .strip_prefix("file://")
                        .unwrap_or(&self.item.uri);
                    return Ok(KnowledgeResult::failed(format!("File not found: {path}")));
                }
                Event::Fatal { error } => return Ok(KnowledgeResult::failed(error.message)),
            }
        };
        for failure in &self.failures {
            let id = self.id(&failure.uri);
            let name = self.collection.name.as_str();
            documents::record_failure(id, name, None, &failure.uri, None, &failure.message, false)?;
        }
        let error = self.failures.first().map(|first| self.describe(first));
        if self.documents.is_empty() {
            return Ok(KnowledgeResult::failed(
                error.unwrap_or_else(|| NO_CONTENT.into()),
            ));
        }
        if complete {
            self.remove_vanished()?;
        }
        index::create_if_large_enough(&self.collection, WriterLock::SkipIfBusy)?;
        let chunks = self.documents.iter().map(|(.., chunks)| chunks).sum();
        let (document, content_hash) = match self.documents.as_slice() {
            [(_, id, hash, _)] => (Some(*id), hash.clone()),
            several => {
                let hashes: Vec<&str> = several
                    .iter()
                    .map(|(_, _, hash, _)| hash.as_str())
                    .collect();
                (None, hex::encode(Sha256::digest(hashes.join("\n"))))
            }
        };
        Ok(KnowledgeResult {
            document,
            chunks,
            content_hash: Some(content_hash),
            error,
        })
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
        document_id(&self.collection.ids_from, self.item.id, uri)
    }

    fn store(&mut self, document: Document, payload: Vec<u8>) -> Result<(), Error> {
        let id = self.id(&document.uri);
        let text = String::from_utf8(payload)
            .map_err(|_| Error::internal("rag-engine sent a text that is not UTF-8"))?;
        let mut content = document.content;
        // the title is shown, not embedded: the text was split without it
        if let Some(title) = &self.item.title
            && self.item.kind != "folder"
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
        let prepared = PreparedDocument {
            id,
            source: None,
            uri: document.uri,
            raw_hash: Some(document.raw_hash),
            validator: document.validator,
            text,
            content,
            attributes: DocumentAttributes {
                knowledge_id: Some(self.item.id),
                labels,
            },
        };
        let stored = with_client(|client| {
            prepared.embed_and_store(client, &self.embedder, &self.model, &self.collection)
        })?;
        quotas::check(&self.collection)?;
        if self.collection.model.is_none() {
            // the partition exists now
            self.collection = Collection::get(self.collection.name.as_str())?;
        }
        self.documents.push((prepared.uri, id, hash, stored.chunks));
        Ok(())
    }

    /// Deletes the documents that the item no longer has. Documents that were added with its number
    /// by other means are kept.
    fn remove_vanished(&self) -> Result<(), Error> {
        let name = self.collection.name.as_str();
        let kept: Vec<DocumentId> = self.documents.iter().map(|(_, id, ..)| *id).collect();
        let failed: Vec<DocumentId> = self
            .failures
            .iter()
            .map(|failure| self.id(&failure.uri))
            .collect();
        let gone: Vec<DocumentId> = knowledge::documents(name, self.item.id)?
            .into_iter()
            .filter(|(id, uri)| self.id(uri) == *id && !kept.contains(id) && !failed.contains(id))
            .map(|(id, _)| id)
            .collect();
        documents::delete(name, &gone)?;
        Ok(())
    }
}
