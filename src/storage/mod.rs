//! Where the vectors of collections are searched: one trait, and a file for each type of storage.
//!
//! ```text
//! retriever ─▶ StorageDefinition ──▶ backend(type) ──▶ index on the partition   (hnsw, pgvector)
//!                                                ├──▶ no index, every chunk is read      (flat)
//!                                                └──▶ an index on another server         (remote)
//! ```
//!
//! Documents, chunks and vectors are always rows of this database, whatever the type. So rights,
//! filters and exact scores come from here, and a backend only says which chunks may be the
//! nearest. The room `collection` creates and drops the indexes of a partition.
//!
//! # A new backend
//!
//! A value of [`StorageType`] and its settings in `crates/definition/src/retriever/storage.rs`, a
//! file here with `impl Backend`, a line in [`backend`], and its name in `tests/t/128_backends.pl`,
//! which tests all backends in the same way.

mod flat;
mod hnsw;
mod pgvector;
pub mod remote;

use std::ffi::{CStr, CString};

use pgrx::pg_sys;
use rag_definition::retriever::{ServerKind, StorageDefinition, StorageType};
use rag_protocol::storage::FoundPoint;

use self::remote::{CandidateSearch, Remote};
use crate::{
    catalog::{collections::Collection, retrievers::Retriever},
    error::Error,
};

/// What differs between types of storage.
pub trait Backend: Sync {
    /// Checks that this database has what the storage needs.
    ///
    /// # Errors
    /// It does not. The error says what to do.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the text after `CREATE INDEX ON ...` for the index that collections should have, if
    /// they should have one. `dimensions` are those of the vectors.
    ///
    /// # Errors
    /// See [`Backend::check`].
    fn wanted_index(
        &self,
        settings: &StorageDefinition,
        dimensions: usize,
    ) -> Result<Option<String>, Error>;

    /// Returns the valid index of a partition that searches by these settings can use. Every search
    /// calls this, so it reads no tables.
    fn built_index(
        &self,
        settings: &StorageDefinition,
        partition: pg_sys::Oid,
    ) -> Option<pg_sys::Oid>;

    /// Returns what the rows of a statement are ordered by, so that the index is used. `distance`
    /// is the column of the exact distances, `c` the alias of the table, and `$1` the query.
    ///
    /// # Errors
    /// See [`Backend::check`].
    fn order(&self, _settings: &StorageDefinition, _dimensions: usize) -> Result<String, Error> {
        Ok("distance".into())
    }

    /// Tests if the storage of a retriever can be used. Returns what it is.
    ///
    /// # Errors
    /// It cannot be used.
    fn test(&self, retriever: &Retriever) -> Result<String, Error> {
        let storage = retriever.definition.storage().storage_type();
        self.check()?;
        Ok(format!(
            "storage \"{}\" is in this database",
            storage.name()
        ))
    }

    /// Asks another server for chunks that may be the nearest. Only for storage on another server.
    ///
    /// # Errors
    /// The server is unavailable.
    fn candidates(&self, _search: &CandidateSearch<'_>) -> Result<Vec<FoundPoint>, Error> {
        Ok(vec![])
    }

    /// Returns the number of chunks that another server has.
    ///
    /// # Errors
    /// The server is unavailable.
    fn count(&self, _collection: &Collection) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// Prepares the storage for a collection that has chunks already.
    ///
    /// # Errors
    /// A statement fails.
    fn adopt(&self, _collection: &Collection) -> Result<(), Error> {
        Ok(())
    }

    /// Removes a collection from the storage. It moves to another one, or is dropped.
    ///
    /// # Errors
    /// A statement fails.
    fn release(&self, _collection: &Collection) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the settings of the server for an index scan.
    fn scan_settings(&self, _scan: IndexScan) -> Vec<(&'static CStr, CString)> {
        vec![]
    }
}

/// How an index is searched.
#[derive(Debug, Clone, Copy)]
pub struct IndexScan {
    /// The number of candidates that the search keeps.
    pub ef_search: usize,
    /// Continues until enough rows have passed the filter and row-level security.
    pub is_complete: bool,
}

/// Returns the backend of a type of storage.
pub fn backend(storage: StorageType) -> &'static dyn Backend {
    match storage {
        StorageType::Hnsw => &hnsw::Hnsw,
        StorageType::Flat => &flat::Flat,
        StorageType::PgVector => &pgvector::PgVector,
        StorageType::Server(ServerKind::Qdrant) => &Remote(ServerKind::Qdrant),
        StorageType::Server(ServerKind::Elasticsearch) => &Remote(ServerKind::Elasticsearch),
    }
}

/// Returns the backend of a collection.
pub fn of(collection: &Collection) -> &'static dyn Backend {
    backend(collection.storage().storage_type())
}

/// Returns `WITH (...)` for the options of a graph.
fn graph_options(settings: &StorageDefinition) -> String {
    let options = settings.options();
    let options = [
        ("m", options.m),
        ("ef_construction", options.ef_construction),
    ];
    let given: Vec<String> = options
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} = {}", value?)))
        .collect();
    match given.is_empty() {
        true => String::new(),
        false => format!(" WITH ({})", given.join(", ")),
    }
}

fn setting(name: &'static CStr, value: impl ToString) -> (&'static CStr, CString) {
    (name, CString::new(value.to_string()).unwrap_or_default())
}
