//! Replicates pending changes to servers.

use std::time::{Duration, Instant};

use pgrx::PgSqlErrorCode;
use rag_filter::{LabelledRow, labels};
use rag_protocol::storage::{Place, Point, StorageEvent, StorageRequest};
use serde_json::Value;
use uuid::Uuid;

use super::{
    RemoteStorage,
    call::{StoreCall, Target},
    place, shape,
};
use crate::{
    catalog::collections::Collection,
    engine::unexpected,
    error::{Cause, Error},
    pg::{
        lock::Lock,
        transaction::{snapshot_is_fixed, transaction, with_latest_snapshot},
    },
    storage::{
        Storage,
        outbox::{
            changes::{self as stored, ChunkPoint, DocumentChange},
            removals,
        },
    },
};

/// The time limit of a request, with all attempts.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest time that a run waits at its end.
const RUN_TIME: Duration = Duration::from_secs(600);
/// The number of documents in one request.
const BATCH_DOCUMENTS: usize = 100;
/// The number of chunks from which a request takes no more documents.
const BATCH_CHUNKS: i64 = 1000;

/// What one request replicates.
enum Batch {
    Changes(Vec<DocumentChange>),
    Removal(i64),
}

/// Some pending changes of a collection, on their way to its server. While this exists, no other
/// process replicates the collection.
pub struct Replication {
    collection: String,
    call: StoreCall,
    batch: Batch,
    /// The server has created the index for it.
    created_index: bool,
    /// Why the server does not accept the documents.
    refusal: Option<Error>,
    _lock: HeldLock,
}

struct HeldLock(Lock);

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Begins to replicate the next changes of a collection, in a transaction. Returns None if there
/// are none, or if another process replicates them.
///
/// # Errors
/// The collection's server cannot be asked.
pub fn begin(collection: &str) -> Result<Option<Replication>, Error> {
    let lock = Lock::storage(collection);
    if !lock.try_acquire() {
        return Ok(None);
    }
    let lock = HeldLock(lock);
    // the former holder of the lock may have replicated what an older snapshot has as pending
    with_latest_snapshot(|| begin_locked(collection, lock))
}

fn begin_locked(collection: &str, lock: HeldLock) -> Result<Option<Replication>, Error> {
    if removals::of(collection)?.iter().any(|one| one.blocks) {
        return Ok(None);
    }
    let Some(collection) = Collection::find(collection)? else {
        return Ok(None);
    };
    let mut changes = stored::committed(collection.name.as_str(), BATCH_DOCUMENTS)?;
    let (Some(place), Some(model)) = (place(&collection), &collection.model) else {
        return Ok(None);
    };
    if changes.is_empty() || Storage::of(&collection).server().is_none() {
        return Ok(None);
    }
    let mut documents: Vec<Uuid> = changes.iter().map(|change| change.document).collect();
    let kept = within_a_request(&collection, &documents)?;
    let kept = if changes[0].was_refused {
        1
    } else {
        kept.min(changes.iter().filter(|one| !one.was_refused).count())
    };
    changes.truncate(kept);
    documents.truncate(kept);
    let points = stored::points(&collection, &documents)?;
    let request = StorageRequest::Replace {
        place,
        shape: shape(collection.storage(), model.dimensions),
        documents,
        points: points.into_iter().map(point).collect(),
    };
    let target = Target::of_collection(&collection)?;
    let call = StoreCall::begin(&target, request, WRITE_TIMEOUT)?;
    let batch = Batch::Changes(changes);
    Ok(Some(Replication::new(
        collection.name.as_str(),
        call,
        batch,
        lock,
    )))
}

/// Begins to delete on a server what was of a collection, in a transaction. Returns None if it is
/// done, or if another process replicates the collection.
///
/// # Errors
/// The server cannot be asked.
pub fn begin_removal(collection: &str, removal: i64) -> Result<Option<Replication>, Error> {
    let lock = Lock::storage(collection);
    if !lock.try_acquire() {
        return Ok(None);
    }
    let lock = HeldLock(lock);
    let removals = with_latest_snapshot(|| removals::of(collection))?;
    let Some(found) = removals.into_iter().find(|one| one.removal == removal) else {
        return Ok(None);
    };
    let target = Target::of_removal(&found)?;
    let request = StorageRequest::Clear {
        place: Place {
            index: found.index,
            collection: found.collection,
        },
        is_whole: found.is_whole,
    };
    let call = StoreCall::begin(&target, request, WRITE_TIMEOUT)?;
    let batch = Batch::Removal(removal);
    Ok(Some(Replication::new(collection, call, batch, lock)))
}

/// Returns how many of some documents fit into a request, at least one.
fn within_a_request(collection: &Collection, documents: &[Uuid]) -> Result<usize, Error> {
    let counts = stored::chunk_counts(collection, documents)?;
    let mut chunks = 0;
    let fit = counts.iter().take_while(|count| {
        chunks += **count;
        chunks <= BATCH_CHUNKS
    });
    Ok(fit.count().max(1))
}

fn point(chunk: ChunkPoint) -> Point {
    let metadata = serde_json::from_str::<Value>(&chunk.metadata).ok();
    let document_id = chunk.document.to_string();
    let labels = labels(&LabelledRow {
        document_id: &document_id,
        source: chunk.source.as_deref(),
        document_type: &chunk.document_type,
        category: chunk.category.as_deref(),
        tags: &chunk.tags,
        knowledge_id: chunk.knowledge_id,
        metadata: metadata.as_ref(),
    });
    Point {
        chunk: chunk.chunk,
        document: chunk.document,
        vector: chunk.vector,
        labels,
    }
}

impl Replication {
    fn new(collection: &str, call: StoreCall, batch: Batch, lock: HeldLock) -> Self {
        Self {
            collection: collection.to_owned(),
            call,
            batch,
            created_index: false,
            refusal: None,
            _lock: lock,
        }
    }

    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Returns the removal that is replicated.
    pub fn removal(&self) -> Option<i64> {
        match self.batch {
            Batch::Changes(_) => None,
            Batch::Removal(removal) => Some(removal),
        }
    }

    /// Returns true if the server has answered.
    ///
    /// # Errors
    /// The server or the engine has failed.
    pub fn poll(&mut self) -> Result<bool, Error> {
        match self.call.poll()? {
            None => Ok(false),
            Some(event) => self.take(event).map(|()| true),
        }
    }

    /// Waits for the answer of the server.
    ///
    /// # Errors
    /// See [`Replication::poll`].
    fn wait(&mut self) -> Result<(), Error> {
        let event = self.call.wait()?;
        self.take(event)
    }

    fn take(&mut self, event: StorageEvent) -> Result<(), Error> {
        match event {
            StorageEvent::Done { created } => self.created_index = created,
            StorageEvent::Refused { created, error } => {
                self.created_index = created;
                self.refusal = Some(error.into());
            }
            _ => return Err(unexpected()),
        }
        Ok(())
    }

    /// Deletes from the outbox what the server has now, or records that it does not accept it, in a
    /// transaction. Returns the number of documents that the server has now.
    ///
    /// # Errors
    /// A statement fails.
    pub fn record(&self) -> Result<usize, Error> {
        match &self.batch {
            Batch::Changes(changes) => {
                if self.created_index {
                    queue_lost(&self.collection)?;
                }
                if let Some(error) = &self.refusal {
                    stored::refused(&self.collection, changes, &described(error))?;
                    return Ok(0);
                }
                stored::replicated(&self.collection, changes)?;
                Ok(changes.len())
            }
            Batch::Removal(removal) => {
                removals::done(*removal)?;
                Ok(0)
            }
        }
    }
}

/// Queues the documents again that a server has lost with the index of a collection. Other
/// collections may have been in the index.
fn queue_lost(collection: &str) -> Result<(), Error> {
    let Some(partition) = Collection::find(collection)?.and_then(|found| found.partition) else {
        return Ok(());
    };
    for lost in Collection::of_partition(partition.name())? {
        let name = lost.name.as_str();
        if Storage::of(&lost).server().is_some() && stored::has_replica(name)? {
            stored::queue_all(name)?;
        }
    }
    Ok(())
}

/// Records that the changes of a collection, or a removal, could not be replicated, in a
/// transaction of its own.
///
/// # Errors
/// A statement fails.
pub fn delay(collection: &str, removal: Option<i64>, error: &Error) -> Result<(), Error> {
    pgrx::log!("rag: storage of collection \"{collection}\" could not be written: {error}");
    let (text, asked) = (described(error), error.retry_after());
    transaction(|| match removal {
        Some(removal) => removals::delay(removal, &text, asked),
        None => stored::delay(collection, &text, asked),
    })
}

/// Returns an error in one line.
fn described(error: &Error) -> String {
    [Some(&error.message), error.detail.as_ref()]
        .into_iter()
        .flatten()
        .cloned()
        .collect::<Vec<_>>()
        .join(": ")
}

/// Says that an error is about the server that a collection had before.
fn of_former(error: &str) -> String {
    format!("former server: {error}")
}

/// Replicates the pending changes of a collection at the end of a run, in transactions of its own.
/// What cannot be replicated stays in the outbox.
///
/// # Errors
/// The run was cancelled, or a statement fails.
pub fn replicate_after_run(collection: &Collection) -> Result<(), Error> {
    if Storage::of(collection).server().is_none() {
        return Ok(());
    }
    let name = collection.name.as_str();
    let until = Instant::now() + RUN_TIME;
    let replicate = |begin: &dyn Fn() -> Result<Option<Replication>, Error>| {
        let Some(mut in_flight) = transaction(begin)? else {
            return Ok(None);
        };
        in_flight.wait()?;
        transaction(|| in_flight.record()).map(Some)
    };
    for removal in transaction(|| removals::of(name))? {
        let removal = removal.removal;
        match replicate(&|| begin_removal(name, removal)) {
            Err(error) if error.is(Cause::Cancelled) => return Err(error),
            Err(error) => delay(name, Some(removal), &error)?,
            Ok(_) => {}
        }
    }
    while Instant::now() < until {
        match replicate(&|| begin(name)) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) if error.is(Cause::Cancelled) => return Err(error),
            Err(error) => return delay(name, None, &error),
        }
    }
    Ok(())
}

/// What [`replicate_now`] did.
pub struct ReplicationReport {
    /// The number of documents that were replicated.
    pub documents: i64,
    /// The number of documents that are still pending.
    pub pending: i64,
    pub chunks: i64,
    /// The number of chunks at the server.
    pub server_chunks: Option<i64>,
    pub error: Option<String>,
}

/// Replicates the pending changes of a collection in the current transaction, but not the changes
/// of this transaction. `complete`: replicates all documents again.
///
/// # Errors
/// The collection has no server, or a statement fails. Errors of the server are in the result.
pub fn replicate_now(
    collection: &Collection,
    complete: bool,
    until: Instant,
) -> Result<ReplicationReport, Error> {
    let server = server_of(collection)?;
    let name = collection.name.as_str();
    if snapshot_is_fixed() {
        // the server would get documents as they were
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
            "cannot write to storage on another server in a transaction with a fixed snapshot",
        )
        .detail("The server would not get what others have written meanwhile.")
        .hint("Use isolation level READ COMMITTED."));
    }
    if complete {
        queue_again(collection)?;
    }
    let (mut documents, mut server_chunks) = (0, None);
    let (mut of_removal, mut error, mut is_failing) = (None, None, false);
    let replicate = |begun: Result<Option<Replication>, Error>| {
        let Some(mut in_flight) = begun? else {
            return Ok(None);
        };
        in_flight.wait()?;
        in_flight.record().map(Some)
    };
    for removal in removals::of(name)? {
        match replicate(begin_removal(name, removal.removal)) {
            Err(failure) if can_go_on(&failure) => of_removal = Some(described(&failure)),
            Err(failure) => return Err(failure),
            Ok(_) => {}
        }
    }
    while Instant::now() < until {
        match replicate(begin(name)) {
            Ok(Some(replicated)) => documents += replicated as i64,
            Ok(None) => break,
            Err(failure) if can_go_on(&failure) => {
                error = Some(failure);
                is_failing = true;
                break;
            }
            Err(failure) => return Err(failure),
        }
    }
    if of_removal.is_none() {
        // another process may be replicating it
        of_removal = removals::failed(Some(name))?
            .into_iter()
            .next()
            .map(|failed| failed.error);
    }
    if !is_failing {
        match server.count(collection) {
            Ok(count) => server_chunks = Some(count),
            Err(failure) if can_go_on(&failure) => error = error.or(Some(failure)),
            Err(failure) => return Err(failure),
        }
    }
    let error = match error {
        Some(error) => Some(described(&error)),
        None => stored::refusal(name)?.or_else(|| of_removal.as_deref().map(of_former)),
    };
    Ok(ReplicationReport {
        documents,
        pending: stored::pending(name)?,
        chunks: stored::count_chunks(collection)?,
        server_chunks,
        error,
    })
}

/// Queues all documents of a collection again, and before them the deletion of what the server has.
///
/// # Errors
/// A statement fails.
pub fn queue_again(collection: &Collection) -> Result<(), Error> {
    stored::release(collection)?;
    Storage::of(collection).adopt(collection)
}

/// Returns true if the server or its secrets are to blame, and this transaction can go on.
pub(super) fn can_go_on(error: &Error) -> bool {
    matches!(
        error.cause(),
        Cause::Request
            | Cause::Document
            | Cause::Object
            | Cause::Right
            | Cause::State
            | Cause::Setup
            | Cause::Engine
            | Cause::Server
            | Cause::Throttled(_)
    )
}

/// Returns the server of a collection.
fn server_of(collection: &Collection) -> Result<RemoteStorage, Error> {
    Storage::of(collection).server().ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!(
                "storage \"{}\" of collection \"{}\" is in this database",
                collection.storage().storage_type().name(),
                collection.name
            ),
        )
        .hint("Only changes of collections with storage on another server are replicated.")
    })
}
