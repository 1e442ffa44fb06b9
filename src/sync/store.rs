//! Stores a document: derives its ids, the texts to embed, and its rows.
//!
//! ```text
//! content + text --texts()--> embedding keys --known_embeddings / engine--> vectors
//!                --store()--> rag.documents, rag.chunks
//! ```
//!
//! The runner stores many documents. `rag_add_document` stores one, in its caller's transaction.

use std::collections::HashMap;

use rag_protocol::{
    embed::ModelInfo,
    identity::{ChunkId, DocumentId, EmbeddingKey},
    ingest::{Content, embedded_text},
    labels::Labels,
};

use crate::{
    catalog::{
        self,
        collections::Collection,
        corruption,
        documents::{DocumentAttributes, StoredChunk, StoredDocument},
    },
    engine::client::Client,
    error::Error,
    models::embedding::{
        EmbeddingModel,
        cache::{self, CachePlaces},
    },
    types::vector::OwnedVector,
};

/// A document that was extracted and split, and is not embedded yet.
#[derive(Debug, Clone)]
pub struct PreparedDocument {
    pub id: DocumentId,
    pub source: Option<String>,
    pub uri: String,
    pub raw_hash: Option<String>,
    pub validator: Option<String>,
    pub text: String,
    pub content: Content,
    pub attributes: DocumentAttributes,
}

/// The result of storing a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreResult {
    pub added: bool,
    pub chunks: usize,
}

/// Returns the embeddings of all texts of some documents. The engine computes those that are not
/// known.
///
/// # Errors
/// The engine is unavailable, or a statement fails.
pub fn embeddings<'a>(
    documents: impl IntoIterator<Item = &'a PreparedDocument>,
    client: &mut Client,
    embedder: &EmbeddingModel,
    model: &ModelInfo,
    collection: &Collection,
) -> Result<HashMap<EmbeddingKey, Vec<f32>>, Error> {
    let mut texts = vec![];
    for document in documents {
        texts.extend(document.texts(model)?);
    }
    embeddings_of(texts, client, embedder, model, collection)
}

/// Returns the embeddings of texts. The engine computes those that are not known.
///
/// # Errors
/// The engine is unavailable, or a statement fails.
pub fn embeddings_of(
    texts: Vec<(EmbeddingKey, String)>,
    client: &mut Client,
    embedder: &EmbeddingModel,
    model: &ModelInfo,
    collection: &Collection,
) -> Result<HashMap<EmbeddingKey, Vec<f32>>, Error> {
    find_embeddings(texts, client, embedder, model, collection).map(|found| found.vectors)
}

/// Embeddings of texts.
pub struct FoundEmbeddings {
    pub vectors: HashMap<EmbeddingKey, Vec<f32>>,
    /// The number of those that the engine has computed.
    pub computed: usize,
}

/// Returns the embeddings of texts, and counts them.
///
/// # Errors
/// See [`embeddings_of`].
pub fn find_embeddings(
    texts: Vec<(EmbeddingKey, String)>,
    client: &mut Client,
    embedder: &EmbeddingModel,
    model: &ModelInfo,
    collection: &Collection,
) -> Result<FoundEmbeddings, Error> {
    let keys: Vec<_> = texts.iter().map(|(key, _)| *key).collect();
    let known = known_embeddings(collection, model, &keys)?;
    complete(known, texts, client, embedder, model, collection)
}

/// Computes the embeddings of texts without the stored ones, which are damaged.
///
/// # Errors
/// The engine is unavailable.
pub fn embed_or_find_cached(
    texts: Vec<(EmbeddingKey, String)>,
    client: &mut Client,
    embedder: &EmbeddingModel,
    model: &ModelInfo,
    collection: &Collection,
) -> Result<FoundEmbeddings, Error> {
    let keys: Vec<_> = texts.iter().map(|(key, _)| *key).collect();
    let known = cache::find(collection, model, &keys).into_iter().collect();
    complete(known, texts, client, embedder, model, collection)
}

fn complete(
    mut vectors: HashMap<EmbeddingKey, Vec<f32>>,
    texts: Vec<(EmbeddingKey, String)>,
    client: &mut Client,
    embedder: &EmbeddingModel,
    model: &ModelInfo,
    collection: &Collection,
) -> Result<FoundEmbeddings, Error> {
    let mut missing = HashMap::new();
    for (key, text) in texts {
        if !vectors.contains_key(&key) {
            missing.insert(key, text);
        }
    }
    let computed = missing.len();
    if computed > 0 {
        let (keys, texts): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
        let places = CachePlaces::new(collection, model, &keys);
        let found = embedder.embed(client, texts, places)?;
        vectors.extend(keys.into_iter().zip(found));
    }
    Ok(FoundEmbeddings { vectors, computed })
}

/// Returns the embeddings that are stored or cached.
///
/// # Errors
/// A statement fails.
pub fn known_embeddings(
    collection: &Collection,
    model: &ModelInfo,
    keys: &[EmbeddingKey],
) -> Result<HashMap<EmbeddingKey, Vec<f32>>, Error> {
    let mut known = catalog::chunks::stored_embeddings(collection, keys)?;
    let missing = keys.iter().filter(|key| !known.contains_key(key));
    let missing: Vec<EmbeddingKey> = missing.copied().collect();
    if !missing.is_empty() {
        known.extend(cache::find(collection, model, &missing));
    }
    Ok(known)
}

impl PreparedDocument {
    /// Returns the text that is embedded for each chunk, with its key.
    pub fn texts(&self, model: &ModelInfo) -> Result<Vec<(EmbeddingKey, String)>, Error> {
        let chunks = self.content.chunks.iter().zip(self.chunk_texts());
        chunks
            .map(|(chunk, text)| {
                let text = embedded_text(&self.content.title, &chunk.context, text?);
                Ok((EmbeddingKey::derive(&model.fingerprint, &text), text))
            })
            .collect()
    }

    fn chunk_texts(&self) -> impl Iterator<Item = Result<&str, Error>> {
        self.content.chunks.iter().map(|chunk| {
            self.text
                .get(chunk.byte_start..chunk.byte_start + chunk.byte_len)
                .ok_or_else(|| {
                    Error::internal(format!("rag-engine split a character of {}", self.uri))
                })
        })
    }

    /// Embeds what is not stored yet and writes the document, in the current transaction. A
    /// corrupted index is rebuilt.
    ///
    /// # Errors
    /// The engine is unavailable, or a statement fails.
    pub fn embed_and_store(
        &self,
        client: &mut Client,
        embedder: &EmbeddingModel,
        model: &ModelInfo,
        collection: &Collection,
    ) -> Result<StoreResult, Error> {
        corruption::write_with_repair(collection, || {
            let embeddings = embeddings([self], client, embedder, model, collection)?;
            self.store(collection, model, &embeddings)
        })
    }

    /// Writes the document and its chunks, in the current transaction.
    ///
    /// # Errors
    /// `embeddings` lacks one of [`PreparedDocument::texts`]' keys, or a statement fails.
    pub fn store(
        &self,
        collection: &Collection,
        model: &ModelInfo,
        embeddings: &HashMap<EmbeddingKey, Vec<f32>>,
    ) -> Result<StoreResult, Error> {
        let chunking = collection.splitting.fingerprint(&model.fingerprint);
        let texts = self.texts(model)?;
        let mut chunks = Vec::with_capacity(texts.len());
        for (i, ((key, _), chunk)) in texts.into_iter().zip(self.chunk_texts()).enumerate() {
            let vector = embeddings
                .get(&key)
                .ok_or_else(|| Error::internal("a chunk has no embedding"))?;
            chunks.push(StoredChunk {
                id: ChunkId::derive(self.id, &self.content.content_hash, &chunking, i as u32),
                place: &self.content.chunks[i],
                content: chunk?,
                key,
                embedding: OwnedVector::new(vector.clone())?,
            });
        }
        let mut metadata = self.content.metadata.clone();
        let title = &self.content.title.text;
        catalog::chunk_metadata::note_language(&mut metadata, collection, title, &self.text);
        let chunk_metadata = catalog::chunk_metadata::chunk_metadata(&metadata, collection);
        let attributes = DocumentAttributes {
            knowledge_id: self.attributes.knowledge_id,
            labels: self.attributes.labels.or(Labels::of_metadata(&metadata)),
        };
        let count = chunks.len();
        crate::pg::security::as_owner(|| collection.prepare_for(model))?;
        let added = catalog::documents::replace(&StoredDocument {
            id: self.id,
            collection: collection.name.as_str(),
            source: self.source.as_deref(),
            uri: &self.uri,
            title: &self.content.title.text,
            own_title: self.content.title.own,
            document_type: self.content.document_type.name(),
            attributes: &attributes,
            content_hash: &self.content.content_hash,
            raw_hash: self.raw_hash.as_deref(),
            validator: self.validator.as_deref(),
            chunking: &chunking,
            text: &self.text,
            metadata,
            chunk_metadata,
            chunks,
        })?;
        Ok(StoreResult {
            added,
            chunks: count,
        })
    }
}
