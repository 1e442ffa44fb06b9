//! Documents put in directly: extracted, split, embedded and stored in the caller's transaction.
//!
//! ```text
//! given ──▶ the same as stored? ──▶ nothing
//!               │ no
//!               ▼
//!           rag-engine: extract, split ──▶ some documents together: embed ──▶ store
//! ```

mod json;

use rag_protocol::{
    embed::{ModelInfo, ModelRef},
    identity::DocumentId,
    ingest::DocumentType,
    labels::{Labels, MAX_CHARS},
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

pub use self::json::read as read_json;
use super::store::{self, PreparedDocument};
use crate::{
    catalog::{
        access::{self, Privilege},
        collections::Collection,
        damage,
        documents::{self, Attributes, Change},
        embedding_index::{self, Writers},
    },
    engine::client::{Client, Unprepared, with_client},
    error::Error,
    pg::spi::uuid,
    settings,
};

/// Chunks of documents whose texts are embedded together.
const TOGETHER: usize = 128;
/// Most characters of a title, as for those that are found in documents: it goes before every
/// chunk.
const MAX_TITLE: usize = 200;

/// What a document is made of.
pub enum Body {
    Text(String),
    /// The bytes of a file, whose name is the end of the uri.
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

/// A document that is to be added.
pub struct NewDocument {
    pub body: Body,
    pub uri: String,
    pub title: Option<String>,
    /// `None`: it is told by the uri and the first bytes.
    pub document_type: Option<DocumentType>,
    pub attributes: Attributes,
    pub metadata: Map<String, Value>,
}

/// What became of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Added,
    Updated,
    /// It was stored just so already; nothing was written.
    Unchanged,
    Failed,
}

impl Action {
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
pub struct Added {
    pub id: DocumentId,
    pub uri: String,
    pub action: Action,
    pub chunks: i32,
    pub content_hash: Option<String>,
    pub error: Option<String>,
}

/// # Errors
/// There is no such type.
pub fn document_type(name: &str) -> Result<DocumentType, Error> {
    DocumentType::parse(name).ok_or_else(|| {
        let names: Vec<_> = DocumentType::ALL.iter().map(|t| t.name()).collect();
        Error::invalid_parameter(format!("unknown document_type \"{name}\""))
            .hint(format!("Types: {}.", names.join(", ")))
    })
}

/// # Errors
/// It is blank.
pub fn checked_uri(uri: &str) -> Result<String, Error> {
    if uri.trim().is_empty() {
        return Err(Error::invalid_parameter("uri must not be empty"));
    }
    Ok(uri.to_string())
}

/// # Errors
/// It is blank or too long.
pub fn checked_title(title: &str) -> Result<String, Error> {
    match title.trim() {
        "" => Err(Error::invalid_parameter("title must not be empty").hint("Leave it NULL.")),
        title if title.chars().count() > MAX_TITLE => Err(Error::invalid_parameter(format!(
            "title must have at most {MAX_TITLE} characters"
        ))),
        title => Ok(title.to_string()),
    }
}

/// # Errors
/// One of them is too long.
pub fn checked_labels(category: Option<&str>, tags: Option<&[String]>) -> Result<Labels, Error> {
    Labels::new(category, tags).map_err(|field| {
        let what = if field == "tags" { "a tag" } else { field };
        Error::invalid_parameter(format!("{what} must have at most {MAX_CHARS} characters"))
    })
}

/// # Errors
/// It is no object.
pub fn checked_metadata(metadata: Value) -> Result<Map<String, Value>, Error> {
    match metadata {
        Value::Object(map) => Ok(map),
        _ => Err(Error::invalid_parameter("metadata must be a JSON object")),
    }
}

/// Adds documents to a collection, each in the place of what was stored under its uri. What cannot
/// be indexed is an answer.
///
/// # Errors
/// Nothing can be indexed now, or a statement fails.
pub fn add(documents: Vec<NewDocument>, collection: Collection) -> Result<Vec<Added>, Error> {
    let model_ref = settings::model(None)?;
    with_client(|client| {
        let model = client.describe(&model_ref)?;
        collection.check_model(&model)?;
        let chunking = collection.splitting.fingerprint(&model.fingerprint);
        let (waiting, added) = (vec![], vec![]);
        let mut adding = Adding {
            client,
            model_ref,
            model,
            chunking,
            collection,
            waiting,
            chunks: 0,
            added,
        };
        for document in documents {
            adding.take(document)?;
        }
        adding.finish()
    })
}

struct Adding<'a> {
    client: &'a mut Client,
    model_ref: ModelRef,
    model: ModelInfo,
    chunking: String,
    collection: Collection,
    /// Documents without embeddings, with their places in `added`.
    waiting: Vec<(usize, PreparedDocument)>,
    /// Theirs.
    chunks: usize,
    added: Vec<Added>,
}

impl Adding<'_> {
    fn take(&mut self, document: NewDocument) -> Result<(), Error> {
        pgrx::check_for_interrupts!();
        let collection = self.collection.name.as_str();
        let id = DocumentId::derive(collection, None, &document.uri);
        let raw_hash = document.hash(&self.collection);
        let uri = document.uri.clone();
        let same = damage::healing(&self.collection, || documents::version(collection, id))?
            .filter(|stored| stored.raw_hash == raw_hash && stored.chunking == self.chunking);
        if let Some(stored) = same {
            let (chunks, content_hash) = (stored.chunks, Some(stored.content_hash));
            self.added.push(Added {
                id,
                uri,
                action: Action::Unchanged,
                chunks,
                content_hash,
                error: None,
            });
            return Ok(());
        }
        let named_type = document.document_type;
        match document.prepare(self.client, &self.model_ref, &self.collection, id, raw_hash) {
            Ok(prepared) => {
                let content_hash = Some(prepared.content.content_hash.clone());
                self.chunks += prepared.content.chunks.len();
                self.waiting.push((self.added.len(), prepared));
                self.added.push(Added {
                    id,
                    uri,
                    action: Action::Added,
                    chunks: 0,
                    content_hash,
                    error: None,
                });
            }
            Err(error) if is_about_content(&error) => {
                let document_type = named_type.map(DocumentType::name);
                documents::fail(
                    id,
                    collection,
                    None,
                    &uri,
                    document_type,
                    &error.message,
                    true,
                )?;
                let error = Some(error.message);
                self.added.push(Added {
                    id,
                    uri,
                    action: Action::Failed,
                    chunks: 0,
                    content_hash: None,
                    error,
                });
            }
            Err(error) => return Err(error),
        }
        if self.chunks >= TOGETHER {
            self.store()
        } else {
            Ok(())
        }
    }

    fn store(&mut self) -> Result<(), Error> {
        let waiting = std::mem::take(&mut self.waiting);
        self.chunks = 0;
        let embeddings = damage::healing(&self.collection, || {
            let all = waiting.iter().map(|(_, document)| document);
            store::embeddings(
                all,
                self.client,
                &self.model_ref,
                &self.model,
                &self.collection,
            )
        })?;
        for (place, document) in waiting {
            let stored = damage::healing(&self.collection, || {
                document.store(&self.collection, &self.model, &embeddings)
            })?;
            if self.collection.model.is_none() {
                // the partition exists now
                self.collection = Collection::get(self.collection.name.as_str())?;
            }
            let added = &mut self.added[place];
            added.action = if stored.added {
                Action::Added
            } else {
                Action::Updated
            };
            added.chunks = stored.chunks as i32;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Added>, Error> {
        self.store()?;
        if self
            .added
            .iter()
            .any(|added| matches!(added.action, Action::Added | Action::Updated))
        {
            embedding_index::make_if_it_pays(&self.collection, Writers::LeaveToNext)?;
        }
        Ok(self.added)
    }
}

impl NewDocument {
    /// A hash of all that is given, and of what the collection does with it: the same again is
    /// stored just so already.
    fn hash(&self, collection: &Collection) -> String {
        let Attributes {
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
            collection.metadata_whitelist,
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
        model_ref: &ModelRef,
        collection: &Collection,
        id: DocumentId,
        raw_hash: String,
    ) -> Result<PreparedDocument, Error> {
        let is_file = matches!(self.body, Body::File(_));
        let unprepared = Unprepared {
            bytes: self.body.bytes(),
            document_type: self.document_type,
            name: is_file.then_some(&self.uri),
            title: self.title.as_deref(),
        };
        let (_, mut content, text) =
            client.prepare(model_ref, collection.splitting, &unprepared)?;
        if !content.title.own && !is_file {
            content.title.text = last_part(&self.uri).to_string();
        }
        content.metadata.extend(self.metadata);
        Ok(PreparedDocument {
            id,
            source: None,
            uri: self.uri,
            raw_hash: Some(raw_hash),
            validator: None,
            text,
            content,
            attributes: self.attributes,
        })
    }
}

/// What a document is called that does not say it itself: the end of its uri.
fn last_part(uri: &str) -> &str {
    uri.rsplit(['/', '#', ':'])
        .find(|part| !part.trim().is_empty())
        .unwrap_or(uri)
}

/// Whether an error says that this content cannot be indexed, rather than that nothing can be now.
fn is_about_content(error: &Error) -> bool {
    use pgrx::PgSqlErrorCode::{ERRCODE_INVALID_PARAMETER_VALUE, ERRCODE_PROGRAM_LIMIT_EXCEEDED};
    matches!(
        error.code,
        ERRCODE_INVALID_PARAMETER_VALUE | ERRCODE_PROGRAM_LIMIT_EXCEEDED
    )
}

/// Changes what is said of a document, and not its text; whether there is such a document.
///
/// # Errors
/// The caller may not, or the document belongs to a source or a knowledge item, which would set it
/// back.
pub fn update(id: DocumentId, change: &Change) -> Result<bool, Error> {
    let Some(name) = documents::collection_of(uuid(id.0))? else {
        return Ok(false);
    };
    let collection = Collection::get(&name)?;
    if !access::may(&collection, Privilege::Read) {
        // that there is such a document is not for every role to know
        return Ok(false);
    }
    access::require_write(&collection)?;
    let Some(document) = documents::lock(id)? else {
        return Ok(false);
    };
    let set_back = |what: String, hint: &str| {
        Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("document {id} belongs to {what}"),
        )
        .detail("What is changed here would be set back when it is indexed again.")
        .hint(hint)
    };
    if let Some(source) = &document.source {
        return Err(set_back(
            format!("source \"{source}\""),
            "Change it where it comes from, or give the source a category and tags: rag_alter_source(name, spec => ...).",
        ));
    }
    if let Some(item) = document.knowledge_id
        && super::knowledge::document_id(&document.collection, item, &document.uri) == id
    {
        return Err(set_back(
            format!("knowledge item {item}"),
            "Change the item: rag_alter_knowledge(knowledge_id, ...).",
        ));
    }
    let whitelist = collection.metadata_whitelist.as_deref();
    damage::healing(&collection, || {
        documents::change(&document.collection, id, change, whitelist)
    })?;
    Ok(true)
}
