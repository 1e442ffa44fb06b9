//! Chunks that an application splits, and perhaps embeds, itself.
//!
//! ```text
//! plan:    documents of the application ──▶ delete those that it no longer has or has changed
//! upsert:  chunks ──▶ which are stored? ──▶ embed the others ──▶ positions ──▶ write
//! ```
//!
//! Each call is one transaction's work: an error leaves everything as it was. After an error the
//! same plan and the same chunks lead to the same state.

mod json;
mod plan;
pub mod state;
mod stored;

use std::collections::{BTreeMap, HashMap, HashSet};

use rag_definition::labels::Labels;
use rag_protocol::{
    embed::ModelInfo,
    identity::{ChunkId, DocumentId, EmbeddingKey},
    ingest::Title,
};
use serde_json::{Map, Value};

use self::stored::{GivenDocument, GivenRow, LockedDocument, Position};
pub use self::{
    json::{chunk_id, chunks as read_chunks, plan as read_plan},
    plan::{PlannedDocument, apply_plan},
};
use super::{
    chunk_metadata,
    indexer::{Embeddings, Indexer, KeyedText},
};
use crate::{
    catalog::{collections::Collection, partitions},
    collection::{corruption, index, model, quotas},
    engine::client::{Client, with_client},
    error::Error,
    models::embedding::EmbeddingModel,
    pg::{
        lock::WriterLock,
        spi::{OwnerRights, as_owner},
    },
    types::vector::OwnedVector,
};

/// A chunk of an application.
#[derive(Debug)]
pub struct GivenChunk {
    pub id: ChunkId,
    pub document: DocumentId,
    /// The ids of the application, if they are no UUIDs.
    pub given_id: Option<String>,
    pub given_document_id: Option<String>,
    /// The uri, title and labels of the document if it is created.
    pub uri: String,
    pub title: Option<String>,
    pub labels: Labels,
    /// The place in the document. None: after the chunks that are stored and those before it.
    pub index: Option<i32>,
    pub page: Option<i32>,
    pub text: String,
    pub metadata: Map<String, Value>,
    /// None: the collection's model computes it.
    pub embedding: Option<OwnedVector>,
}

impl GivenChunk {
    fn shown_id(&self) -> String {
        let given = self.given_id.clone();
        given.unwrap_or_else(|| self.id.to_string())
    }
}

/// Writes chunks. Those that are stored are left alone if `skip_existing`, and else replaced.
/// Returns the number of chunks written.
///
/// # Errors
/// A chunk belongs to another document, an embedding has other dimensions than the collection's, or
/// the engine is unavailable.
pub fn upsert(
    collection: &Collection,
    chunks: &[GivenChunk],
    skip_existing: bool,
) -> Result<i64, Error> {
    if chunks.is_empty() {
        return Ok(0);
    }
    let embedder = EmbeddingModel::of_collection(collection)?;
    partitions::join_writers(collection.name.as_str());
    with_client(|client| {
        let upsert = Upsert {
            collection,
            indexer: Indexer::new(collection.clone(), embedder, client)?,
            skip_existing,
        };
        check_dimensions(chunks, &upsert.indexer.model)?;
        let written = corruption::write_with_repair(collection, || upsert.write(client, chunks))?;
        if written > 0 {
            quotas::check(collection)?;
            index::create_if_large_enough(collection, WriterLock::SkipIfBusy)?;
        }
        Ok(written as i64)
    })
}

fn check_dimensions(chunks: &[GivenChunk], model: &ModelInfo) -> Result<(), Error> {
    for (i, chunk) in chunks.iter().enumerate() {
        let given = chunk.embedding.as_ref();
        let dimensions = given.map_or(model.dimensions, |it| it.as_slice().len());
        if dimensions != model.dimensions {
            return Err(Error::data_exception(format!(
                "chunks[{i}].embedding: expected {} dimensions, not {dimensions}",
                model.dimensions
            ))
            .hint(format!(
                "The embeddings of the collection are from {}, as those of queries are.",
                model.name
            )));
        }
    }
    Ok(())
}

/// Returns documents that exist, by their ids in ascending order, and locks them until the
/// transaction ends.
///
/// # Errors
/// The chunks of a document come from somewhere else.
fn lock(
    owner: &OwnerRights,
    collection: &Collection,
    ids: &[DocumentId],
) -> Result<Vec<LockedDocument>, Error> {
    let found = stored::lock(owner, collection, ids)?.into_iter();
    let checked = found.map(|(document, origin)| {
        let owner = match (origin.source, origin.knowledge_id) {
            (Some(source), _) => format!("source \"{source}\" fills it."),
            (_, Some(item)) => format!("It belongs to knowledge item {item}."),
            _ if !origin.is_given => "It was split by rag_add_document.".to_string(),
            _ => return Ok(document),
        };
        Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("document {} has chunks of another origin", document.id),
        )
        .detail(owner)
        .hint("Remove the document first, or use another uri."))
    });
    checked.collect()
}

/// How often documents are created that another session removes at once.
const MAX_TRIES: usize = 10;

struct Upsert<'a> {
    collection: &'a Collection,
    indexer: Indexer,
    skip_existing: bool,
}

impl Upsert<'_> {
    fn write(&self, client: &mut Client, chunks: &[GivenChunk]) -> Result<usize, Error> {
        let (documents, new, replaced) = as_owner(|owner| {
            model::prepare_for(owner, self.collection, &self.indexer.model)?;
            index::create_for_given_chunks(owner, self.collection)?;
            let documents = self.lock_documents(owner, chunks)?;
            let (new, replaced) = self.missing(owner, chunks)?;
            Ok::<_, Error>((documents, new, replaced))
        })?;
        let (keys, embeddings) = self.embeddings(client, &new, &documents)?;
        as_owner(|owner| self.store(owner, &new, &replaced, &keys, &embeddings))?;
        Ok(new.len())
    }

    /// Creates the missing documents, and locks all in the order of their ids, so that two sessions
    /// do not wait for each other.
    fn lock_documents(
        &self,
        owner: &OwnerRights,
        chunks: &[GivenChunk],
    ) -> Result<HashMap<DocumentId, LockedDocument>, Error> {
        let mut first = BTreeMap::new();
        for chunk in chunks {
            first.entry(chunk.document).or_insert(chunk);
        }
        let ids: Vec<DocumentId> = first.keys().copied().collect();
        for _ in 0..MAX_TRIES {
            for chunk in first.values() {
                let document = GivenDocument {
                    id: chunk.document,
                    given_id: chunk.given_document_id.as_deref(),
                    uri: &chunk.uri,
                    title: chunk.title.as_deref(),
                    labels: &chunk.labels,
                };
                stored::create(owner, self.collection, &document)?;
            }
            let locked = lock(owner, self.collection, &ids)?;
            // another session may have removed one in between
            if locked.len() == ids.len() {
                let by_id = locked.into_iter().map(|document| (document.id, document));
                return Ok(by_id.collect());
            }
        }
        Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            "other sessions remove the documents of the chunks",
        )
        .hint("Try again."))
    }

    /// Returns the chunks to write, and the ids of those that they replace.
    fn missing<'a>(
        &self,
        owner: &OwnerRights,
        chunks: &'a [GivenChunk],
    ) -> Result<(Vec<&'a GivenChunk>, Vec<ChunkId>), Error> {
        let ids: Vec<ChunkId> = chunks.iter().map(|chunk| chunk.id).collect();
        let existing = stored::documents_of(owner, self.collection, &ids)?;
        for (i, chunk) in chunks.iter().enumerate() {
            if existing
                .get(&chunk.id)
                .is_some_and(|document| *document != chunk.document)
            {
                return Err(Error::duplicate(format!(
                    "chunks[{i}].chunk_id: {} is in use",
                    chunk.shown_id()
                ))
                .detail("A chunk of another document of the collection has this id."));
            }
        }
        if self.skip_existing {
            let is_new = |chunk: &&GivenChunk| !existing.contains_key(&chunk.id);
            return Ok((chunks.iter().filter(is_new).collect(), vec![]));
        }
        Ok((chunks.iter().collect(), existing.into_keys().collect()))
    }

    /// Returns the key of each chunk, and the embeddings of those that bring none.
    fn embeddings(
        &self,
        client: &mut Client,
        chunks: &[&GivenChunk],
        documents: &HashMap<DocumentId, LockedDocument>,
    ) -> Result<(Vec<EmbeddingKey>, Embeddings), Error> {
        let mut texts = vec![];
        let keys = chunks.iter().map(|chunk| match &chunk.embedding {
            Some(embedding) => given_key(embedding.as_slice()),
            None => {
                let text = self.embedded_text(chunk, documents);
                let key = text.key;
                texts.push(text);
                key
            }
        });
        let keys: Vec<EmbeddingKey> = keys.collect();
        let wanted: Vec<EmbeddingKey> = texts.iter().map(|text| text.key).collect();
        let mut embeddings = self.indexer.known(&wanted)?;
        self.indexer.complete(client, texts, &mut embeddings)?;
        Ok((keys, embeddings))
    }

    fn embedded_text(
        &self,
        chunk: &GivenChunk,
        documents: &HashMap<DocumentId, LockedDocument>,
    ) -> KeyedText {
        let title = documents
            .get(&chunk.document)
            .and_then(|document| document.title.clone());
        let title = Title {
            own: title.is_some(),
            text: title.unwrap_or_default(),
        };
        self.indexer.text(&title, "", &chunk.text)
    }

    /// A chunk of an application has a language of its own. That of a short one is told by the
    /// chunks of its document that come with it, `around`.
    fn chunk_metadata(
        &self,
        chunk: &GivenChunk,
        around: &str,
    ) -> Result<Map<String, Value>, Error> {
        let mut metadata = chunk.metadata.clone();
        chunk_metadata::note_language(
            &mut metadata,
            self.collection,
            (around, &chunk.text),
            &self.indexer.usual_language,
            None,
        )?;
        Ok(chunk_metadata::chunk_metadata(&metadata, self.collection))
    }

    fn store(
        &self,
        owner: &OwnerRights,
        new: &[&GivenChunk],
        replaced: &[ChunkId],
        keys: &[EmbeddingKey],
        embeddings: &Embeddings,
    ) -> Result<(), Error> {
        let ids: HashSet<DocumentId> = new.iter().map(|chunk| chunk.document).collect();
        let ids: Vec<DocumentId> = ids.into_iter().collect();
        let before = stored::positions(owner, self.collection, &ids)?;
        stored::delete(owner, self.collection, replaced)?;
        let after = arrange(&with_new(&before, new)?)?;
        let unmoved: HashSet<Position> = before.into_iter().collect();
        let written: HashMap<ChunkId, &GivenChunk> =
            new.iter().map(|chunk| (chunk.id, *chunk)).collect();
        let moved = |p: &&Position| !written.contains_key(&p.id) && !unmoved.contains(*p);
        let moved: Vec<Position> = after.iter().filter(moved).copied().collect();
        stored::set_positions(owner, self.collection, &moved)?;

        let positions: HashMap<ChunkId, Position> = after.iter().map(|p| (p.id, *p)).collect();
        let texts = texts_of_documents(new);
        let rows = new.iter().zip(keys).map(|(chunk, key)| {
            let position = positions.get(&chunk.id).copied();
            Ok(GivenRow {
                position: position.ok_or_else(|| Error::internal("a chunk has no position"))?,
                given_id: chunk.given_id.as_deref(),
                page: chunk.page,
                content: &chunk.text,
                metadata: {
                    let around = texts.get(&chunk.document).map_or("", String::as_str);
                    Value::Object(self.chunk_metadata(chunk, around)?).to_string()
                },
                key: *key,
                embedding: match &chunk.embedding {
                    Some(embedding) => embedding,
                    None => embeddings.get(*key)?,
                },
            })
        });
        let rows = rows.collect::<Result<Vec<_>, Error>>()?;
        stored::insert(owner, self.collection, &rows)?;
        stored::finish(owner, self.collection, &ids)?;
        Ok(())
    }
}

/// Number of bytes of a document's text that tell the language of its short chunks.
const TEXT_AROUND: usize = 1 << 10;

/// Returns the beginnings of the texts of documents, as far as some chunks have them.
fn texts_of_documents(chunks: &[&GivenChunk]) -> HashMap<DocumentId, String> {
    let mut texts: HashMap<DocumentId, String> = HashMap::new();
    for chunk in chunks {
        let text = texts.entry(chunk.document).or_default();
        if text.len() < TEXT_AROUND {
            text.push_str(&chunk.text[..chunk.text.floor_char_boundary(TEXT_AROUND)]);
            text.push('\n');
        }
    }
    texts
}

/// Returns the key of an embedding that an application has computed. It differs from those of
/// computed ones, so that no other chunk gets this embedding for its text.
fn given_key(embedding: &[f32]) -> EmbeddingKey {
    let digits: Vec<String> = embedding
        .iter()
        .map(|x| format!("{:08x}", x.to_bits()))
        .collect();
    EmbeddingKey::derive("given", &digits.concat())
}

/// Returns the stored chunks and the new ones, which replace those of the same id. A new chunk
/// without an index keeps that of the one that it replaces, or comes after all others.
fn with_new(before: &[Position], new: &[&GivenChunk]) -> Result<Vec<Position>, Error> {
    let mut all: HashMap<ChunkId, Position> = before.iter().map(|p| (p.id, *p)).collect();
    let mut next = HashMap::<DocumentId, i32>::new();
    let used = before.iter().map(|p| (p.document, p.index));
    let given = new
        .iter()
        .filter_map(|chunk| Some((chunk.document, chunk.index?)));
    for (document, index) in used.chain(given) {
        let next = next.entry(document).or_default();
        *next = (*next).max(index.saturating_add(1));
    }
    for chunk in new {
        let index = chunk.index.or_else(|| all.get(&chunk.id).map(|p| p.index));
        let index = index.unwrap_or_else(|| {
            let next = next.entry(chunk.document).or_default();
            *next = next.saturating_add(1);
            *next - 1
        });
        let size = |n: usize| i32::try_from(n).map_err(|_| too_large(chunk.document));
        let position = Position {
            document: chunk.document,
            id: chunk.id,
            index,
            chars: size(chunk.text.chars().count())?,
            line_ends: size(chunk.text.matches('\n').count())?,
            start: 0,
            line: 0,
        };
        all.insert(chunk.id, position);
    }
    Ok(all.into_values().collect())
}

/// Computes where in the contents of their documents chunks begin.
///
/// # Errors
/// Two chunks of a document have the same index.
fn arrange(chunks: &[Position]) -> Result<Vec<Position>, Error> {
    let mut chunks = chunks.to_vec();
    chunks.sort_unstable_by_key(|p| (p.document, p.index, p.id));
    let mut last: Option<Position> = None;
    for chunk in &mut chunks {
        (chunk.start, chunk.line) = match last.filter(|last| last.document == chunk.document) {
            None => (0, 1),
            Some(last) if last.index == chunk.index => {
                return Err(Error::invalid_parameter(format!(
                    "two chunks of document {} have chunk_index {}",
                    chunk.document, chunk.index
                ))
                .detail(format!("Chunks: {}, {}.", last.id, chunk.id)));
            }
            Some(last) => {
                let start = last.start.checked_add(last.chars);
                let start = start.and_then(|end| end.checked_add(stored::SEPARATOR));
                let start = start.ok_or_else(|| too_large(chunk.document))?;
                (start, last.line + last.line_ends + stored::SEPARATOR)
            }
        };
        last = Some(*chunk);
    }
    Ok(chunks)
}

fn too_large(document: DocumentId) -> Error {
    Error::limit(format!("document {document} has too many characters"))
}

/// Deletes chunks. Those that do not exist are ignored. Returns the number of chunks deleted.
///
/// A document of the application that has no chunk left is deleted, too.
///
/// # Errors
/// A statement fails.
pub fn delete(collection: &Collection, ids: &[ChunkId]) -> Result<i64, Error> {
    if collection.partition.is_none() {
        return Ok(0);
    }
    corruption::write_with_repair(collection, || {
        as_owner(|owner| {
            let found = stored::documents_of(owner, collection, ids)?;
            let documents: HashSet<DocumentId> = found.into_values().collect();
            let documents: Vec<DocumentId> = documents.into_iter().collect();
            let given = stored::lock_among(owner, collection, &documents)?;
            let before = stored::positions(owner, collection, &given)?;
            let deleted = stored::delete(owner, collection, ids)?;
            let of_given: HashSet<&DocumentId> = given.iter().collect();
            let others = documents.iter().filter(|id| !of_given.contains(id));
            stored::count_chunks(owner, collection, &others.copied().collect::<Vec<_>>())?;

            let gone: HashSet<&ChunkId> = ids.iter().collect();
            let left = before.iter().filter(|p| !gone.contains(&p.id)).copied();
            let mut moved = arrange(&left.collect::<Vec<_>>())?;
            let unmoved: HashSet<Position> = before.into_iter().collect();
            moved.retain(|p| !unmoved.contains(p));
            stored::set_positions(owner, collection, &moved)?;
            stored::finish(owner, collection, &given)?;
            Ok(deleted as i64)
        })
    })
}
