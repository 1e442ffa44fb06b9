//! Brings documents into collections: for runs, sessions, knowledge items, applications with chunks
//! of their own, and rebuilds.
//!
//! ```text
//! text, content ──prepare──▶ chunks: texts, keys ──known──▶ embeddings that are stored or cached
//!                                   │                 │ others
//!                                   │                 └──complete──▶ the model computes them
//!                                   └──store──▶ rag.documents, rag.chunks
//! ```
//!
//! The texts are put together and hashed once, by [`Indexer::prepare`]. From then on the keys stand
//! for them. Vectors are not copied either, until they become parameters of a statement.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use rag_definition::labels::Labels;
use rag_protocol::{
    embed::ModelInfo,
    identity::{ChunkId, DocumentId, EmbeddingKey},
    ingest::{Chunk, Content, Title, embedded_text},
};
use serde_json::{Map, Value};

use super::{
    chunk_metadata::{chunk_metadata, note_language},
    usual_language::UsualLanguage,
};
use crate::{
    catalog::{
        chunks,
        collections::Collection,
        documents::DocumentAttributes,
        stored_documents::{self, StoredChunk, StoredDocument},
    },
    collection::{corruption, model},
    engine::client::Client,
    error::Error,
    models::embedding::{
        EmbeddingModel,
        cache::{self, CachePlaces},
    },
    pg::spi::as_owner,
    types::vector::OwnedVector,
};

/// A document that was extracted and split.
#[derive(Debug)]
pub struct ExtractedDocument {
    pub id: DocumentId,
    pub origin: DocumentOrigin,
    pub text: String,
    pub content: Content,
}

/// Where a document comes from, and what its user says of it.
#[derive(Debug, Default)]
pub struct DocumentOrigin {
    pub source: Option<String>,
    pub uri: String,
    pub raw_hash: Option<String>,
    pub validator: Option<String>,
    pub attributes: DocumentAttributes,
}

/// A document with all that its chunks are made of, but for their embeddings.
#[derive(Debug)]
pub struct PreparedDocument {
    pub id: DocumentId,
    pub origin: DocumentOrigin,
    pub text: String,
    /// Its metadata are in `metadata`.
    pub content: Content,
    /// The keys of the embeddings, in the order of the chunks.
    pub keys: Vec<EmbeddingKey>,
    /// The texts to embed, until they are taken.
    texts: Vec<String>,
    metadata: Map<String, Value>,
    /// What each chunk carries of the metadata.
    pub chunk_metadata: Map<String, Value>,
}

/// A text to embed.
#[derive(Debug)]
pub struct KeyedText {
    pub key: EmbeddingKey,
    pub text: String,
}

/// Embeddings of texts.
#[derive(Debug, Default)]
pub struct Embeddings(HashMap<EmbeddingKey, Rc<OwnedVector>>);

/// The result of storing a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreResult {
    pub added: bool,
    pub chunks: usize,
}

/// What indexes the documents of a collection.
pub struct Indexer {
    pub collection: Collection,
    pub embedder: EmbeddingModel,
    pub model: ModelInfo,
    pub usual_language: UsualLanguage,
}

impl Embeddings {
    pub fn has(&self, key: EmbeddingKey) -> bool {
        self.0.contains_key(&key)
    }

    /// # Errors
    /// There is no such embedding.
    pub fn get(&self, key: EmbeddingKey) -> Result<&OwnedVector, Error> {
        let found = self.0.get(&key).map(Rc::as_ref);
        found.ok_or_else(|| Error::internal("a chunk has no embedding"))
    }

    pub fn keys(&self) -> impl Iterator<Item = EmbeddingKey> {
        self.0.keys().copied()
    }

    pub fn insert(&mut self, key: EmbeddingKey, vector: OwnedVector) {
        self.0.insert(key, Rc::new(vector));
    }

    /// Adds the embeddings of others, which both have from now on.
    pub fn share(&mut self, others: &Self) {
        let others = others.0.iter();
        self.0.extend(others.map(|(key, it)| (*key, Rc::clone(it))));
    }
}

impl FromIterator<(EmbeddingKey, OwnedVector)> for Embeddings {
    fn from_iter<I: IntoIterator<Item = (EmbeddingKey, OwnedVector)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        Self(pairs.map(|(key, vector)| (key, Rc::new(vector))).collect())
    }
}

impl PreparedDocument {
    /// Returns the texts to embed, once.
    pub fn take_texts(&mut self) -> impl Iterator<Item = KeyedText> {
        let texts = std::mem::take(&mut self.texts);
        let keys = self.keys.iter();
        keys.zip(texts)
            .map(|(key, text)| KeyedText { key: *key, text })
    }

    /// Returns the chunks as they are stored.
    ///
    /// # Errors
    /// An embedding is missing.
    pub fn chunks<'a>(
        &'a self,
        chunking: &str,
        embeddings: &'a Embeddings,
    ) -> Result<Vec<StoredChunk<'a>>, Error> {
        let hash = &self.content.content_hash;
        let chunks = self.content.chunks.iter().zip(&self.keys).enumerate();
        chunks
            .map(|(i, (place, key))| {
                Ok(StoredChunk {
                    id: ChunkId::derive(self.id, hash, chunking, i as u32),
                    place,
                    content: place.content(piece(place, &self.text, &self.origin.uri)?),
                    key: *key,
                    embedding: embeddings.get(*key)?,
                })
            })
            .collect()
    }

    /// Returns the document as it is stored.
    fn stored<'a>(
        &'a self,
        chunking: &'a str,
        embeddings: &'a Embeddings,
    ) -> Result<StoredDocument<'a>, Error> {
        let origin = &self.origin;
        let labels = Labels::of_metadata(&self.metadata);
        Ok(StoredDocument {
            id: self.id,
            source: origin.source.as_deref(),
            uri: &origin.uri,
            title: &self.content.title.text,
            own_title: self.content.title.own,
            document_type: self.content.document_type.name(),
            attributes: DocumentAttributes {
                knowledge_id: origin.attributes.knowledge_id,
                labels: origin.attributes.labels.or(labels),
            },
            content_hash: &self.content.content_hash,
            raw_hash: origin.raw_hash.as_deref(),
            validator: origin.validator.as_deref(),
            chunking,
            text: &self.text,
            metadata: &self.metadata,
            anchors: &self.content.anchors,
            chunk_metadata: &self.chunk_metadata,
            chunks: self.chunks(chunking, embeddings)?,
        })
    }
}

/// Divides documents into groups that are stored together: with different ids, and with texts of a
/// limited size, unless a document alone exceeds it.
pub fn groups(mut documents: &[PreparedDocument]) -> impl Iterator<Item = &[PreparedDocument]> {
    const DOCUMENTS: usize = 256;
    const TEXT_BYTES: usize = 2 << 20;
    std::iter::from_fn(move || {
        let (mut ids, mut bytes) = (HashSet::new(), 0);
        let fitting = documents.iter().take(DOCUMENTS).take_while(|document| {
            bytes += document.text.len();
            ids.insert(document.id) && (ids.len() == 1 || bytes <= TEXT_BYTES)
        });
        let (group, rest) = documents.split_at(fitting.count());
        documents = rest;
        (!group.is_empty()).then_some(group)
    })
}

fn piece<'a>(chunk: &Chunk, text: &'a str, uri: &str) -> Result<&'a str, Error> {
    chunk
        .piece(text)
        .ok_or_else(|| Error::internal(format!("rag-engine split a character of {uri}")))
}

impl Indexer {
    /// Returns the indexer of a collection.
    ///
    /// # Errors
    /// The model is unavailable, or the collection was embedded with another one.
    pub fn new(
        collection: Collection,
        embedder: EmbeddingModel,
        client: &mut Client,
    ) -> Result<Self, Error> {
        let model = embedder.describe(client)?;
        model::check(&collection, &model)?;
        Ok(Self {
            collection,
            embedder,
            model,
            usual_language: UsualLanguage::default(),
        })
    }

    /// Returns the fingerprint of the settings that chunks are made by.
    pub fn chunking(&self) -> String {
        self.collection
            .splitting()
            .fingerprint(&self.model.fingerprint)
    }

    /// Returns what the model reads of a piece of a document.
    pub fn text(&self, title: &Title, context: &str, piece: &str) -> KeyedText {
        let text = embedded_text(title, context, piece);
        KeyedText {
            key: EmbeddingKey::derive(&self.model.fingerprint, &text),
            text,
        }
    }

    /// Derives the chunks of a document.
    ///
    /// # Errors
    /// The engine has split a character, or a statement fails.
    pub fn prepare(&self, document: ExtractedDocument) -> Result<PreparedDocument, Error> {
        let ExtractedDocument {
            id,
            origin,
            text,
            mut content,
        } = document;
        let (mut keys, mut texts) = (vec![], vec![]);
        for chunk in &content.chunks {
            let piece = piece(chunk, &text, &origin.uri)?;
            let embedded = self.text(&content.title, &chunk.context, piece);
            keys.push(embedded.key);
            texts.push(embedded.text);
        }
        let mut metadata = std::mem::take(&mut content.metadata);
        note_language(
            &mut metadata,
            &self.collection,
            (&content.title.text, &text),
            &self.usual_language,
            origin.source.as_deref(),
        )?;
        Ok(PreparedDocument {
            id,
            origin,
            chunk_metadata: chunk_metadata(&metadata, &self.collection),
            text,
            content,
            keys,
            texts,
            metadata,
        })
    }

    /// Returns the embeddings that are stored or cached.
    ///
    /// # Errors
    /// A statement fails.
    pub fn known(&self, keys: &[EmbeddingKey]) -> Result<Embeddings, Error> {
        let stored = chunks::stored_embeddings(&self.collection, keys)?;
        let mut known: Embeddings = stored.into_iter().collect();
        let missing = keys.iter().copied().filter(|key| !known.has(*key));
        let missing: Vec<EmbeddingKey> = missing.collect();
        if !missing.is_empty() {
            known.share(&self.cached(&missing));
        }
        Ok(known)
    }

    /// Returns the embeddings that are cached.
    pub fn cached(&self, keys: &[EmbeddingKey]) -> Embeddings {
        let found = cache::find(&self.collection, &self.model, keys).into_iter();
        let vectors = found.map(|(key, vector)| (key, OwnedVector::new(vector)));
        vectors
            .filter_map(|(key, vector)| Some((key, vector.ok()?)))
            .collect()
    }

    /// Returns where the embeddings of some texts are cached.
    pub fn places(&self, keys: &[EmbeddingKey]) -> CachePlaces {
        CachePlaces::new(&self.collection, &self.model, keys)
    }

    /// Computes the embeddings that are not among `known`, and adds them. Returns their number.
    ///
    /// # Errors
    /// The engine is unavailable, or a server refuses a text.
    pub fn complete(
        &self,
        client: &mut Client,
        texts: impl IntoIterator<Item = KeyedText>,
        known: &mut Embeddings,
    ) -> Result<usize, Error> {
        let missing: HashMap<EmbeddingKey, String> = texts
            .into_iter()
            .filter(|text| !known.has(text.key))
            .map(|text| (text.key, text.text))
            .collect();
        if missing.is_empty() {
            return Ok(0);
        }
        let (keys, texts): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
        let places = self.places(&keys);
        let computed = self.embedder.embed(client, texts, places)?;
        for (key, vector) in keys.iter().zip(computed) {
            known.insert(*key, OwnedVector::new(vector)?);
        }
        Ok(keys.len())
    }

    /// Returns the embeddings of all texts of some documents. If a corrupted index hides those that
    /// are stored, rebuilds it.
    ///
    /// # Errors
    /// The engine is unavailable, or a statement fails.
    pub fn embed<'a>(
        &self,
        client: &mut Client,
        documents: impl IntoIterator<Item = &'a mut PreparedDocument>,
    ) -> Result<Embeddings, Error> {
        let documents = documents.into_iter();
        let texts: Vec<KeyedText> = documents.flat_map(PreparedDocument::take_texts).collect();
        let keys: Vec<EmbeddingKey> = texts.iter().map(|text| text.key).collect();
        let mut found = corruption::write_with_repair(&self.collection, || self.known(&keys))?;
        self.complete(client, texts, &mut found)?;
        Ok(found)
    }

    /// Writes documents, which are a [group](groups), and their chunks, in the current transaction.
    ///
    /// # Errors
    /// An embedding is missing, or a statement fails.
    pub fn store(
        &self,
        documents: &[PreparedDocument],
        embeddings: &Embeddings,
    ) -> Result<Vec<StoreResult>, Error> {
        let chunking = self.chunking();
        let stored = documents.iter();
        let stored = stored.map(|document| document.stored(&chunking, embeddings));
        let stored: Vec<StoredDocument<'_>> = stored.collect::<Result<_, _>>()?;
        let added = as_owner(|owner| {
            model::prepare_for(owner, &self.collection, &self.model)?;
            stored_documents::replace(owner, self.collection.name.as_str(), &stored)
        })?;
        let results = added.into_iter().zip(&stored);
        let result = |(added, document): (bool, &StoredDocument<'_>)| StoreResult {
            added,
            chunks: document.chunks.len(),
        };
        Ok(results.map(result).collect())
    }

    /// Writes documents, which are a [group](groups), for a session. A corrupted index is rebuilt.
    ///
    /// # Errors
    /// An embedding is missing, or a statement fails.
    pub fn store_with_repair(
        &mut self,
        documents: &[PreparedDocument],
        embeddings: &Embeddings,
    ) -> Result<Vec<StoreResult>, Error> {
        let stored =
            corruption::write_with_repair(&self.collection, || self.store(documents, embeddings))?;
        if self.collection.model.is_none() {
            // the partition exists now
            self.collection = Collection::get(self.collection.name.as_str())?;
        }
        Ok(stored)
    }
}
