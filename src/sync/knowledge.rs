//! Knowledge items: fetched, extracted and split by `rag-engine ingest`, as the runner has it, but
//! embedded and stored in the caller's transaction, as `rag_add_document` does.
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
    labels,
    spec::SourceSpec,
};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{document, ingest::Ingest, pipeline::Feed, store::PreparedDocument};
use crate::{
    catalog::{
        collections::Collection,
        damage,
        documents::{self, Attributes},
        embedding_index::{self, Writers},
        knowledge::{self, Item},
    },
    engine::client::with_client,
    error::Error,
    pg::roles::{self, Owner},
    settings,
    source::rights,
};

/// Most time of one item, where no statement_timeout ends it before.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// What rag-engine says of a document without text; users of knowledge items know it with a
/// capital.
const NO_CONTENT: &str = "No content to index";

const TYPES: [&str; 3] = ["markdown", "website", "folder"];

/// What is said of an item; `None` where nothing is.
#[derive(Debug, Default)]
pub struct Given<'a> {
    pub title: Option<&'a str>,
    pub uri: Option<&'a str>,
    pub document_type: Option<&'a str>,
    pub category: Option<&'a str>,
    pub tags: Option<&'a str>,
}

impl Given<'_> {
    /// An item that is not registered yet.
    fn new_item(&self, id: i64) -> Result<Item, Error> {
        let uri = self.uri.ok_or_else(|| {
            Error::undefined(format!("knowledge item {id} does not exist"))
                .hint("rag.knowledge lists them; rag_create_knowledge registers one, and so does a uri given here.")
        })?;
        let item = Item {
            id,
            title: None,
            uri: uri.to_string(),
            kind: "markdown".into(),
            category: None,
            tags: None,
            owner: Owner::current()?,
        };
        self.applied_to(&item)
    }

    /// An item with what is said of it. Who says what is fetched becomes its owner.
    fn applied_to(&self, item: &Item) -> Result<Item, Error> {
        let own = |given: Option<&str>| given.map(|text| text.trim().to_string());
        if let Some(kind) = self.document_type.filter(|kind| !TYPES.contains(kind)) {
            return Err(
                Error::invalid_parameter(format!("unknown document_type \"{kind}\""))
                    .hint(format!("Types: {}.", TYPES.join(", "))),
            );
        }
        let tags = self.tags.map(labels::split);
        document::checked_labels(self.category, tags.as_deref())?;
        let says_what = self.uri.is_some() || self.document_type.is_some();
        Ok(Item {
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
            owner: if says_what {
                Owner::current()?
            } else {
                item.owner.clone()
            },
        })
    }
}

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
/// Its number is taken, it makes no sense, or the caller may not read it.
pub fn create(collection: &Collection, id: i64, given: &Given<'_>) -> Result<(), Error> {
    let item = given.new_item(id)?;
    check_rights(&item)?;
    if knowledge::create(collection.name.as_str(), &item)? {
        return Ok(());
    }
    Err(
        Error::duplicate(format!("knowledge item {id} already exists"))
            .hint("rag_alter_knowledge changes it; rag_index_knowledge indexes it."),
    )
}

/// Changes what is said of an item. Title, category and tags go into its documents at once; where
/// it comes from takes effect when it is indexed next.
///
/// # Errors
/// There is no such item, what is said makes no sense, or the caller may not read what it names.
pub fn alter(collection: &Collection, id: i64, given: &Given<'_>) -> Result<(), Error> {
    let name = collection.name.as_str();
    let stored = knowledge::lock(name, id)?.ok_or_else(|| missing(id))?;
    let item = given.applied_to(&stored)?;
    if item == stored {
        return Ok(());
    }
    if item.owner != stored.owner || item.uri != stored.uri || item.kind != stored.kind {
        check_rights(&item)?;
    }
    knowledge::change(
        name,
        &item,
        item.uri != stored.uri || item.kind != stored.kind,
    )?;
    let tags = given.tags.map(labels::split);
    let change = documents::Change {
        title: item
            .title
            .clone()
            .filter(|_| item.kind != "folder" && item.title != stored.title),
        labels: document::checked_labels(given.category, tags.as_deref())?,
        metadata: None,
    };
    for (document, uri) in knowledge::documents(name, id)? {
        if document_id(name, id, &uri) == document {
            damage::healing(collection, || {
                documents::change(name, document, &change, None)
            })?;
        }
    }
    Ok(())
}

/// Indexes an item with what is said of it now, and notes how it went. What is wrong with its
/// content is an answer; then what is said of an item that is there is forgotten.
///
/// # Errors
/// There is no such item and no uri is given, it makes no sense, the caller or its owner may not
/// read it, or nothing can be indexed now.
pub fn index(collection: &Collection, id: i64, given: &Given<'_>) -> Result<Indexed, Error> {
    let name = collection.name.as_str();
    let stored = knowledge::lock(name, id)?;
    let item = match &stored {
        Some(stored) => given.applied_to(stored)?,
        None => given.new_item(id)?,
    };
    check_rights(&item)?;
    if stored.is_none() && !knowledge::create(name, &item)? {
        return Err(Error::duplicate(format!(
            "knowledge item {id} was registered at the same time"
        ))
        .hint("Try again."));
    }
    let indexed = fetch(&item, collection)?;
    match (&indexed.content_hash, &indexed.error) {
        (Some(hash), _) => {
            knowledge::change(name, &item, false)?;
            knowledge::succeed(name, id, hash)?;
        }
        (None, error) => knowledge::fail(name, id, error.as_deref().unwrap_or(NO_CONTENT))?,
    }
    Ok(indexed)
}

fn missing(id: i64) -> Error {
    Error::undefined(format!("knowledge item {id} does not exist"))
        .hint("rag.knowledge lists them; rag_create_knowledge registers one.")
}

/// An item is fetched where both the caller and its owner may read what it names: neither gets the
/// other to read for it.
///
/// # Errors
/// One of them may not, or the owner does not exist.
fn check_rights(item: &Item) -> Result<(), Error> {
    let spec = spec(item)?;
    rights::check(&spec, roles::current())?;
    if item.owner.id == roles::current() {
        return Ok(());
    }
    let again = format!(
        "Who may read it can give its uri again: rag_alter_knowledge({}, uri => ...).",
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
        "Knowledge item {} is owned by role \"{}\", which must have the right, too.",
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

/// The id of a document of an item. It is apart from those of other items and of `rag_add_document`
/// with the same uri: no source's name has a space in it.
pub fn document_id(collection: &str, item: i64, uri: &str) -> DocumentId {
    DocumentId::derive(collection, Some(&format!("knowledge {item}")), uri)
}

fn fetch(item: &Item, collection: &Collection) -> Result<Indexed, Error> {
    let model_ref = settings::model(None)?;
    let model = with_client(|client| client.describe(&model_ref))?;
    collection.check_model(&model)?;
    let label = format!("knowledge={}", item.id);
    let ingest = Ingest::begin(
        label,
        spec(item)?,
        None,
        Default::default(),
        collection.splitting,
        &model_ref,
        &work_name(),
        TIMEOUT,
        None,
    )?;
    Indexing {
        item,
        collection: collection.clone(),
        model_ref,
        model,
        documents: vec![],
        failures: vec![],
    }
    .take_all(ingest)
}

/// Removes the documents of an item; whether there were any.
pub fn unindex(collection: &str, id: i64) -> Result<bool, Error> {
    let ids: Vec<DocumentId> = knowledge::documents(collection, id)?
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let deleted = documents::delete(collection, &ids)?;
    knowledge::forget_indexed(collection, id)?;
    Ok(deleted > 0)
}

/// Removes an item and its documents; whether there was anything.
pub fn remove(collection: &str, id: i64) -> Result<bool, Error> {
    let had_documents = unindex(collection, id)?;
    Ok(knowledge::remove(collection, id)? || had_documents)
}

/// Where an item's documents come from.
fn spec(item: &Item) -> Result<SourceSpec, Error> {
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
                let hashes: Vec<&str> = several
                    .iter()
                    .map(|(_, _, hash, _)| hash.as_str())
                    .collect();
                (None, hex::encode(Sha256::digest(hashes.join("\n"))))
            }
        };
        Ok(Indexed {
            document,
            chunks,
            content_hash: Some(content_hash),
            error,
        })
    }

    fn describe(&self, first: &Failure) -> String {
        let message = if first.message == "no content to index" {
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
        document_id(self.collection.name.as_str(), self.item.id, uri)
    }

    fn store(&mut self, document: Document, payload: Vec<u8>) -> Result<(), Error> {
        let id = self.id(&document.uri);
        let text = String::from_utf8(payload)
            .map_err(|_| Error::internal("rag-engine sent a text that is not UTF-8"))?;
        let mut content = document.content;
        // shown, not embedded: the text was cut without it
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
            attributes: Attributes {
                knowledge_id: Some(self.item.id),
                labels,
            },
        };
        let stored = with_client(|client| {
            prepared.embed_and_store(client, &self.model_ref, &self.model, &self.collection)
        })?;
        if self.collection.model.is_none() {
            // the partition exists now
            self.collection = Collection::get(self.collection.name.as_str())?;
        }
        self.documents.push((prepared.uri, id, hash, stored.chunks));
        Ok(())
    }

    /// Deletes what the item had and has no more. Documents that were given its number otherwise
    /// stay.
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
