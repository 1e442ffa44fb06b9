//! Storage on another server.
//!
//! ```text
//! write ── same transaction ──▶ the outbox ── after the commit ──▶ rag-engine store ──▶ server
//! search ──▶ rag-engine store ──▶ server: candidates ──▶ rows of this database: rights, filter, score
//!        └─▶ documents in the outbox: all of their chunks are candidates
//! ```
//!
//! Chunks and vectors stay in this database. The server has a copy of the vectors, with labels for
//! filters ([`rag_filter::labels`]) and without texts. So a search is right whatever the server
//! has: what it names and is no row that the caller may see is left out, and what it does not know
//! yet is read here. If it is unavailable, searches read this database alone.
//!
//! `rag_internal.storage_change` is the outbox: its rows are pending changes. [`replication`]
//! sends them. A row stays until the server has the points of this change. Only one process at a
//! time replicates a collection.

pub mod call;
pub mod comparison;
pub mod former;
pub mod replication;

use std::time::Duration;

use pgrx::PgSqlErrorCode;
use rag_definition::retriever::{ServerKind, StorageDefinition};
use rag_protocol::storage::{
    FoundPoint, IndexShape, Labelled, Place, StorageEvent, StorageRequest,
};

use self::call::{StoreCall, Target};
use super::outbox::changes;
use crate::{
    catalog::{
        collections::Collection,
        partitions,
        retrievers::{self, Retriever},
    },
    engine::unexpected,
    error::Error,
    pg::spi::as_owner,
};

/// The time limit of a search, after which this database alone answers.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of a test, and of a count.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The vectors of collections on a server of one kind.
#[derive(Clone, Copy)]
pub struct RemoteStorage(pub ServerKind);

/// The search for candidates at a server.
pub struct CandidateSearch<'a> {
    pub collection: &'a Collection,
    pub vector: &'a [f32],
    pub limit: usize,
    pub ef_search: usize,
    pub labels: Option<Labelled>,
}

impl RemoteStorage {
    /// Asks the server of a retriever what it is.
    ///
    /// # Errors
    /// It is unavailable.
    pub fn test(self, retriever: &Retriever) -> Result<String, Error> {
        let target = Target::of(retriever)?;
        match StoreCall::begin(&target, StorageRequest::Describe, TEST_TIMEOUT)?.wait()? {
            StorageEvent::Described { server } => Ok(format!(
                "storage \"{}\" is {server} at {}",
                self.0.name(),
                target.url()
            )),
            _ => Err(unexpected()),
        }
    }

    /// Asks the server for chunks that may be the nearest.
    ///
    /// # Errors
    /// It is unavailable, or has lost the index.
    pub fn candidates(self, search: &CandidateSearch<'_>) -> Result<Vec<FoundPoint>, Error> {
        let name = search.collection.name.as_str();
        let Some(place) = place(search.collection) else {
            return Ok(vec![]);
        };
        let request = StorageRequest::Search {
            place,
            vector: search.vector.to_vec(),
            limit: search.limit,
            ef_search: search.ef_search,
            labels: search.labels.clone(),
        };
        let target = Target::of_collection(search.collection)?;
        match StoreCall::begin(&target, request, SEARCH_TIMEOUT)?.wait()? {
            StorageEvent::Found { points } => Ok(points),
            // all documents are searched here until the first one is replicated
            StorageEvent::NoIndex if !changes::has_replica(name)? => Ok(vec![]),
            StorageEvent::NoIndex => Err(lost_index(search.collection)),
            _ => Err(unexpected()),
        }
    }

    /// Returns the number of chunks that the server has.
    ///
    /// # Errors
    /// It is unavailable.
    pub fn count(self, collection: &Collection) -> Result<i64, Error> {
        let Some(place) = place(collection) else {
            return Ok(0);
        };
        let target = Target::of_collection(collection)?;
        let request = StorageRequest::Count { place };
        match StoreCall::begin(&target, request, TEST_TIMEOUT)?.wait()? {
            StorageEvent::Counted { points } => i64::try_from(points).map_err(|_| unexpected()),
            _ => Err(unexpected()),
        }
    }

    /// Queues all documents of a collection that gets this storage.
    ///
    /// # Errors
    /// A statement fails.
    pub fn adopt(self, collection: &Collection) -> Result<(), Error> {
        if let Some(partition) = partitions::of(collection.name.as_str())? {
            as_owner(|owner| changes::watch(owner, &partition))?;
            changes::queue_all(collection.name.as_str())?;
        }
        Ok(())
    }

    /// Queues the deletion of what the server has of a collection.
    ///
    /// # Errors
    /// A statement fails.
    pub fn release(self, collection: &Collection) -> Result<(), Error> {
        changes::release(collection)
    }
}

/// Returns where the points of a collection are, if it has any.
pub fn place(collection: &Collection) -> Option<Place> {
    let partition = collection.partition.as_ref()?;
    Some(Place {
        index: changes::index_name(partition),
        collection: collection.name.to_string(),
    })
}

fn shape(settings: &StorageDefinition, dimensions: usize) -> IndexShape {
    IndexShape {
        dimensions,
        metric: settings.metric(),
        options: settings.options(),
    }
}

/// Returns the retriever of a collection.
fn retriever_of(collection: &Collection) -> Result<Retriever, Error> {
    let name = collection.definition.retriever.as_str();
    retrievers::find(name)?.ok_or_else(|| retrievers::missing(name))
}

/// Returns the error of a server that had the index of a collection once.
fn lost_index(collection: &Collection) -> Error {
    let name = collection.name.as_str();
    Error::new(
        PgSqlErrorCode::ERRCODE_CONNECTION_FAILURE,
        format!("the server has no index of collection \"{name}\" any more"),
    )
    .hint(format!(
        "Have all documents written again: SELECT * FROM rag_sync_storage({}, complete => true).",
        pgrx::spi::quote_literal(name)
    ))
}
