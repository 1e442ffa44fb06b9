//! The cache of embeddings: a file for each database, outside of transactions. It outlives chunks,
//! collections, runs that fail and transactions that are rolled back.
//!
//! Nobody reads it by SQL. A collection finds what collections of the same owner had embedded. So a
//! role that stores a text does not learn if others had it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use pgrx::pg_sys;
use rag_cache::{CacheSize, EmbeddingCache, Key};
use rag_protocol::{embed::ModelInfo, identity::EmbeddingKey};

use crate::{
    catalog::collections::Collection,
    engine::RUNTIME_DIR,
    error::Error,
    pg::{process::database, transaction::at_commit},
    settings,
};

fn folder() -> PathBuf {
    Path::new(RUNTIME_DIR).join("embeddings")
}

fn cache(database: u32) -> EmbeddingCache {
    let path = folder().join(format!("{database}.cache"));
    EmbeddingCache::new(&path, settings::embedding_cache_bytes())
}

/// Returns the cached embeddings of some keys by a model. Without a cache, removes what was cached
/// under an earlier setting.
pub fn find(
    collection: &Collection,
    model: &ModelInfo,
    keys: &[EmbeddingKey],
) -> HashMap<EmbeddingKey, Vec<f32>> {
    let cache = cache(database().to_u32());
    if cache.is_off() {
        log("removed", cache.clear().map(drop));
        return HashMap::new();
    }
    let wanted = cached_keys(collection, keys);
    let mut found = cache.get(&wanted).unwrap_or_else(|error| {
        pgrx::log!("cached embeddings could not be read: {error}");
        HashMap::new()
    });
    // the server of a model may have had another model before
    found.retain(|_, vector| vector.len() == model.dimensions);
    let pairs = keys.iter().zip(&wanted);
    pairs
        .filter_map(|(key, cached)| Some((*key, found.remove(cached)?)))
        .collect()
}

/// Where the embeddings of some texts are cached.
pub struct CachePlaces {
    fingerprint: String,
    keys: Vec<Key>,
}

impl CachePlaces {
    /// `keys` are those of the texts, which `model` embeds.
    pub fn new(collection: &Collection, model: &ModelInfo, keys: &[EmbeddingKey]) -> Self {
        Self {
            fingerprint: model.fingerprint.clone(),
            keys: cached_keys(collection, keys),
        }
    }

    /// Caches vectors of the texts from one of them on, if the model still has the fingerprint that
    /// the keys were made from. Failures are logged: nothing depends on it.
    pub fn keep(&self, tag: u64, fingerprint: &str, first: usize, vectors: &[Vec<f32>]) {
        if self.fingerprint != fingerprint {
            return;
        }
        let keys = self.keys.iter().skip(first);
        let entries: Vec<(Key, &[f32])> = keys
            .zip(vectors)
            .map(|(key, vector)| (*key, vector.as_slice()))
            .collect();
        log("written", cache(database().to_u32()).put(tag, &entries));
    }
}

/// Returns no key if the collection has no owner: nobody knows who may find its texts.
fn cached_keys(collection: &Collection, keys: &[EmbeddingKey]) -> Vec<Key> {
    let owner = collection.rights.owner;
    let keys = keys.iter().filter(|_| owner != pg_sys::InvalidOid);
    keys.map(|key| rag_cache::key(owner.to_u32(), key.0.into_bytes()))
        .collect()
}

/// Returns the mark of a model's entries. Folders that are not in the registry have none of their
/// own.
pub fn tag(uid: Option<pgrx::Uuid>) -> u64 {
    let bytes = uid.map_or([0; 16], |uid| *uid.as_bytes());
    bytes[..8]
        .iter()
        .fold(0, |tag, byte| tag << 8 | u64::from(*byte))
}

/// # Errors
/// The file cannot be read.
pub fn size() -> Result<CacheSize, Error> {
    cache(database().to_u32()).size().map_err(|e| unusable(&e))
}

/// Empties the cache. Returns what it had.
///
/// # Errors
/// The file cannot be written.
pub fn clear() -> Result<CacheSize, Error> {
    cache(database().to_u32()).clear().map_err(|e| unusable(&e))
}

fn unusable(error: &std::io::Error) -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR,
        "could not use the cache of embeddings",
    )
    .detail(format!("{}: {error}", folder().display()))
}

/// Deletes the embeddings of a model that the current transaction drops.
pub fn forget_model_at_commit(uid: pgrx::Uuid) {
    at_commit(move || log("removed", cache(database().to_u32()).forget(tag(Some(uid)))));
}

/// Deletes the cache of a database that the current transaction drops, or in which it drops the
/// extension.
pub fn forget_database_at_commit(database: u32) {
    at_commit(move || log("removed", cache(database).remove()));
}

fn log(what: &str, result: std::io::Result<()>) {
    if let Err(error) = result {
        pgrx::log!("cached embeddings could not be {what}: {error}");
    }
}
