//! Where the vectors of collections are searched.
//!
//! ```text
//! retriever ─▶ StorageDefinition ─▶ Storage ──▶ Index    an index on the partition  (hnsw, pgvector)
//!                                          ├──▶ Flat     none: every chunk is read
//!                                          └──▶ Server   an index on another server (remote)
//! ```
//!
//! Documents, chunks and vectors are always rows of this database, whatever the storage. So rights,
//! filters and exact scores come from here, and an index only says which chunks may be the nearest.
//! The room `collection` creates and drops the indexes of a partition.
//!
//! [`StorageType`] lists all types. What differs between indexes of this database is in
//! [`VectorIndex`]. What differs between servers is in `crates/remote/src/storage/`.

mod access_methods;
mod hnsw;
pub mod outbox;
mod pgvector;
pub mod remote;

use std::ffi::{CStr, CString};

use pgrx::pg_sys;
use rag_definition::retriever::{Metric, StorageDefinition, StorageType};

use self::remote::RemoteStorage;
use crate::{
    catalog::{collections::Collection, partitions::Partition, retrievers::Retriever},
    error::Error,
    pg::{lookup, spi::OwnerRights},
};

/// By what the vectors of a collection are searched.
#[derive(Clone, Copy)]
pub enum Storage {
    /// By no index: each search reads all chunks that pass the filter.
    Flat,
    Index(&'static dyn VectorIndex),
    Server(RemoteStorage),
}

/// What differs between indexes of this database.
pub trait VectorIndex: Sync {
    /// Checks that this database has what the index needs.
    ///
    /// # Errors
    /// It does not. The error says what to do.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the text after `CREATE INDEX ON ...`. `dimensions` are those of the vectors.
    ///
    /// # Errors
    /// See [`VectorIndex::check`].
    fn definition(&self, settings: &StorageDefinition, dimensions: usize) -> Result<String, Error>;

    /// Returns what the rows of a statement are ordered by, so that the index is used. `distance`
    /// is the column of the exact distances, `c` the alias of the table, and `$1` the query.
    ///
    /// # Errors
    /// See [`VectorIndex::check`].
    fn order(&self, settings: &StorageDefinition, dimensions: usize) -> Result<String, Error>;

    /// Returns the settings of the server for an index scan.
    fn scan_settings(&self, scan: IndexScan) -> Vec<(&'static CStr, CString)>;
}

/// How an index is searched.
#[derive(Debug, Clone, Copy)]
pub struct IndexScan {
    /// The number of candidates that the search keeps.
    pub ef_search: usize,
    /// Continues until enough rows have passed the filter and row-level security.
    pub is_complete: bool,
}

impl Storage {
    pub fn of(collection: &Collection) -> Self {
        Self::of_type(collection.storage().storage_type())
    }

    pub fn of_type(storage: StorageType) -> Self {
        match storage {
            StorageType::Hnsw => Self::Index(&hnsw::Hnsw),
            StorageType::Flat => Self::Flat,
            StorageType::PgVector => Self::Index(&pgvector::PgVector),
            StorageType::Server(kind) => Self::Server(RemoteStorage(kind)),
        }
    }

    /// Returns the index that this database can have.
    pub fn index(self) -> Option<&'static dyn VectorIndex> {
        match self {
            Self::Index(index) => Some(index),
            Self::Flat | Self::Server(_) => None,
        }
    }

    /// Returns the server that has the vectors, too.
    pub fn server(self) -> Option<RemoteStorage> {
        match self {
            Self::Server(server) => Some(server),
            Self::Flat | Self::Index(_) => None,
        }
    }

    /// Checks that this database has what the storage needs.
    ///
    /// # Errors
    /// It does not. The error says what to do.
    pub fn check(self) -> Result<(), Error> {
        match self {
            Self::Index(index) => index.check(),
            Self::Flat | Self::Server(_) => Ok(()),
        }
    }

    /// Prepares the partition that a collection gets with its first document.
    ///
    /// # Errors
    /// A statement fails.
    pub fn watch(self, owner: &OwnerRights, partition: &Partition) -> Result<(), Error> {
        match self {
            Self::Server(_) => outbox::changes::watch(owner, partition),
            Self::Flat | Self::Index(_) => Ok(()),
        }
    }

    /// Prepares the storage for a collection that has chunks already.
    ///
    /// # Errors
    /// A statement fails.
    pub fn adopt(self, collection: &Collection) -> Result<(), Error> {
        match self {
            Self::Server(server) => server.adopt(collection),
            Self::Flat | Self::Index(_) => Ok(()),
        }
    }

    /// Removes a collection from the storage. It moves to another one, or is dropped.
    ///
    /// # Errors
    /// A statement fails.
    pub fn release(self, collection: &Collection) -> Result<(), Error> {
        match self {
            Self::Server(server) => server.release(collection),
            Self::Flat | Self::Index(_) => Ok(()),
        }
    }
}

/// Tests if the storage of a retriever can be used. Returns what it is.
///
/// # Errors
/// It cannot be used.
pub fn test(retriever: &Retriever) -> Result<String, Error> {
    let storage_type = retriever.definition.storage().storage_type();
    let storage = Storage::of_type(storage_type);
    storage.check()?;
    if let Storage::Server(server) = storage {
        return server.test(retriever);
    }
    Ok(format!(
        "storage \"{}\" is in this database",
        storage_type.name()
    ))
}

/// Returns the valid index of a partition that searches by these settings can use. Every search
/// calls this, so it reads no tables.
pub fn built_index(settings: &StorageDefinition, partition: pg_sys::Oid) -> Option<pg_sys::Oid> {
    let method = settings.storage_type().access_method()?;
    lookup::whole_index_of(partition, method, operator_family(settings.metric()))
}

/// Returns the operator family of an index, which has the name of its operator class.
fn operator_family(metric: Metric) -> &'static CStr {
    match metric {
        Metric::Cosine => c"vector_cosine_ops",
        Metric::L2 => c"vector_l2_ops",
        Metric::InnerProduct => c"vector_ip_ops",
    }
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
    if given.is_empty() {
        String::new()
    } else {
        format!(" WITH ({})", given.join(", "))
    }
}

fn setting(name: &'static CStr, value: impl ToString) -> (&'static CStr, CString) {
    (name, CString::new(value.to_string()).unwrap_or_default())
}
