//! Tells servers what has changed.

use std::time::{Duration, Instant};

use pgrx::PgSqlErrorCode;
use rag_filter::{LabelledRow, labels};
use rag_protocol::storage::{Place, Point, StorageEvent, StorageRequest};
use serde_json::Value;
use uuid::Uuid;

use super::{
    call::{StoreCall, Target},
    place, shape,
};
use crate::{
    catalog::{
        collections::Collection,
        storage_changes::{self as stored, ChunkPoint, DocumentChange},
        storage_removals as removals,
    },
    engine::unexpected,
    error::{Cause, Error},
    pg::{
        lock::Lock,
        transaction::{snapshot_is_fixed, transaction, with_latest_snapshot},
    },
    storage,
};

/// The time limit of a request, with all attempts.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest time that a run waits at its end.
const RUN_TIME: Duration = Duration::from_secs(600);
/// The number of documents in one request.
const BATCH_DOCUMENTS: usize = 100;
/// The number of chunks from which a request takes no more documents.
const BATCH_CHUNKS: i64 = 1000;

/// What a server is told.
enum Request {
    Changes(Vec<DocumentChange>),
    Removal(i64),
}

/// A part of the changes of a collection, on its way to the server. While it exists, no other
/// process tells the changes of the collection.
pub struct ChangesInFlight {
    collection: String,
    call: StoreCall,
    request: Request,
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

/// Begins to tell the next changes of a collection, in a transaction. Returns None if there are
/// none, or if another process tells them.
///
/// # Errors
/// The collection's server cannot be asked.
pub fn begin(collection: &str) -> Result<Option<ChangesInFlight>, Error> {
    let lock = Lock::storage(collection);
    if !lock.try_acquire() {
        return Ok(None);
    }
    let lock = HeldLock(lock);
    // what the former holder of the lock has told is not told again as it was before
    with_latest_snapshot(|| begin_locked(collection, lock))
}

fn begin_locked(collection: &str, lock: HeldLock) -> Result<Option<ChangesInFlight>, Error> {
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
    if changes.is_empty() || collection.storage().server().is_none() {
        return Ok(None);
    }
    let mut documents: Vec<Uuid> = changes.iter().map(|change| change.document).collect();
    let kept = within_a_request(&collection, &documents)?;
    let kept = match changes[0].was_refused {
        true => 1,
        false => kept.min(changes.iter().filter(|one| !one.was_refused).count()),
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
    let request = Request::Changes(changes);
    Ok(Some(ChangesInFlight::new(
        collection.name.as_str(),
        call,
        request,
        lock,
    )))
}

/// Begins to have a server delete what was of a collection, in a transaction. Returns None if it is
/// done, or if another process tells the server.
///
/// # Errors
/// The server cannot be asked.
pub fn begin_removal(collection: &str, removal: i64) -> Result<Option<ChangesInFlight>, Error> {
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
    let request = Request::Removal(removal);
    Ok(Some(ChangesInFlight::new(collection, call, request, lock)))
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

impl ChangesInFlight {
    fn new(collection: &str, call: StoreCall, request: Request, lock: HeldLock) -> Self {
        Self {
            collection: collection.to_owned(),
            call,
            request,
            created_index: false,
            refusal: None,
            _lock: lock,
        }
    }

    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Returns the removal that the server was told.
    pub fn removal(&self) -> Option<i64> {
        match self.request {
            Request::Changes(_) => None,
            Request::Removal(removal) => Some(removal),
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
    /// See [`ChangesInFlight::poll`].
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

    /// Records what the server has been told, or does not accept, in a transaction. Returns the
    /// number of documents that it has been told.
    ///
    /// # Errors
    /// A statement fails.
    pub fn record(&self) -> Result<usize, Error> {
        match &self.request {
            Request::Changes(changes) => {
                if self.created_index {
                    queue_lost(&self.collection)?;
                }
                if let Some(error) = &self.refusal {
                    stored::refused(&self.collection, changes, &described(error))?;
                    return Ok(0);
                }
                stored::written(&self.collection, changes)?;
                Ok(changes.len())
            }
            Request::Removal(removal) => {
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
        if lost.storage().server().is_some() && stored::was_told(name)? {
            stored::queue_all(name)?;
        }
    }
    Ok(())
}

/// Records that a server could not be told the changes of a collection, or a removal, in a
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

/// Tells the server of a collection its changes at the end of a run, in transactions of its own.
/// What the server cannot be told stays recorded.
///
/// # Errors
/// The run was cancelled, or a statement fails.
pub fn tell_after_run(collection: &Collection) -> Result<(), Error> {
    if collection.storage().server().is_none() {
        return Ok(());
    }
    let name = collection.name.as_str();
    let until = Instant::now() + RUN_TIME;
    // what was told
    let tell = |begin: &dyn Fn() -> Result<Option<ChangesInFlight>, Error>| {
        let Some(mut in_flight) = transaction(begin)? else {
            return Ok(None);
        };
        in_flight.wait()?;
        transaction(|| in_flight.record()).map(Some)
    };
    for removal in transaction(|| removals::of(name))? {
        let removal = removal.removal;
        match tell(&|| begin_removal(name, removal)) {
            Err(error) if error.is(Cause::Cancelled) => {
                return Err(error);
            }
            Err(error) => delay(name, Some(removal), &error)?,
            Ok(_) => {}
        }
    }
    while Instant::now() < until {
        match tell(&|| begin(name)) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(()),
            Err(error) if error.is(Cause::Cancelled) => {
                return Err(error);
            }
            Err(error) => return delay(name, None, &error),
        }
    }
    Ok(())
}

/// What [`tell_now`] did.
pub struct Told {
    /// The number of documents that the server was told.
    pub documents: i64,
    /// The number of documents that it was not told.
    pub pending: i64,
    pub chunks: i64,
    /// The number of chunks at the server.
    pub server_chunks: Option<i64>,
    pub error: Option<String>,
}

/// Tells the server of a collection its changes in the current transaction, but not the changes of
/// this transaction. `complete`: has all documents told again.
///
/// # Errors
/// A statement fails. Errors of the server are in the result.
pub fn tell_now(collection: &Collection, complete: bool, until: Instant) -> Result<Told, Error> {
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
    let tell = |begun: Result<Option<ChangesInFlight>, Error>| {
        let Some(mut in_flight) = begun? else {
            return Ok(None);
        };
        in_flight.wait()?;
        in_flight.record().map(Some)
    };
    for removal in removals::of(name)? {
        match tell(begin_removal(name, removal.removal)) {
            Err(failure) if can_go_on(&failure) => of_removal = Some(described(&failure)),
            Err(failure) => return Err(failure),
            Ok(_) => {}
        }
    }
    while Instant::now() < until {
        match tell(begin(name)) {
            Ok(Some(told)) => documents += told as i64,
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
        // another process may be telling it
        of_removal = removals::failed(Some(name))?
            .into_iter()
            .next()
            .map(|failed| failed.error);
    }
    if !is_failing {
        match storage::of(collection).count(collection) {
            Ok(count) => server_chunks = count.and_then(|count| i64::try_from(count).ok()),
            Err(failure) if can_go_on(&failure) => error = error.or(Some(failure)),
            Err(failure) => return Err(failure),
        }
    }
    let error = match error {
        Some(error) => Some(described(&error)),
        None => stored::refusal(name)?.or_else(|| of_removal.as_deref().map(of_former)),
    };
    Ok(Told {
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
    storage::of(collection).adopt(collection)
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

/// # Errors
/// The storage of a collection is not on another server.
pub fn require_server(collection: &Collection) -> Result<(), Error> {
    if collection.storage().server().is_some() {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
        format!(
            "storage \"{}\" of collection \"{}\" is in this database",
            collection.storage().storage_type().name(),
            collection.name
        ),
    )
    .hint("Only storage on another server has to be told of changes."))
}
