//! Heavyweight locks: all lock tags of the extension, and locks on relations.
//!
//! | tag (type, fields 1 to 4) | lock |
//! |---|---|
//! | object: database, `rag_internal.source`, hash of the source's name, 0 | the source is busy |
//! | object: database, `rag_internal.source`, hash of the source's name, 1 | the source is being dropped |
//! | object: database, `rag_internal.collection`, hash of the collection's name, 0 | the collection is being rebuilt |
//! | object: database, `rag_internal.collection`, hash of the collection's name, 1 | who writes to the collection |
//! | object: database, `rag_internal.collection`, hash of a name or external id, 2 | who gives it to a collection |
//! | object: database, `rag_internal.collection`, hash of the collection's name, 3 | its knowledge items are being indexed |
//! | advisory: database, "ragt", 0, 3 | the scheduler of the database |
//! | advisory: database, "ragd", 0, 3 | the worker that indexes queued documents |
//! | advisory: database, "ragw", hash of the collection's name, 3 | who replicates a collection to a server |
//! | advisory: database, "rage", process id, 3 | the process waits for an engine that does not answer |
//! | advisory: 0, "rags", number, 3 | a slot for a run |
//! | advisory: 0, "ragu", 0, 3 | the next free slot |
//! | advisory: 0, "rag", 1, 0 | the key file of the secrets |
//!
//! All of them have the lock method of advisory locks: session locks of the other method would be
//! left behind when a process ends. No SQL function can ask for an advisory lock of database 0, or
//! for one whose fourth field is 3.

use std::time::Duration;

use pgrx::pg_sys;

use super::{
    compat::{self, hash_text},
    lookup,
    process::{database, my_pid},
    spi::as_caller,
    wait::sleep,
};
use crate::error::Error;

/// "rag" in ASCII.
const KEY_FILE: u32 = 0x0072_6167;
/// "ragd" in ASCII.
const DOCUMENT_QUEUE: u32 = 0x7261_6764;
/// "rage" in ASCII; `rag_status` looks for it.
const ENGINE_WAITS: u32 = 0x7261_6765;
/// "rags" in ASCII.
const SLOTS: u32 = 0x7261_6773;
/// "ragt" in ASCII; `rag_internal.source_locks` and the views of sources look for it.
const SCHEDULERS: u32 = 0x7261_6774;
/// "ragu" in ASCII.
const NEXT_SLOT: u32 = 0x7261_6775;

/// "ragw" in ASCII.
const STORAGE: u32 = 0x7261_6777;

/// What a lock on a source is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceLock {
    Busy = 0,
    BeingDropped = 1,
}

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Share,
    /// Excludes all other modes, as `Exclusive` does, but is not in `rag_internal.source_locks`.
    Unlisted,
    Exclusive,
}

/// A lock of the extension. The process's end releases it.
pub struct Lock(pg_sys::LOCKTAG);

impl Lock {
    /// A source is identified by a hash of its name, as `rag_internal.source_locks` does. Sources
    /// whose hashes collide exclude each other. If the extension was dropped, the lock is one that
    /// nobody holds.
    pub fn of_source(name: &str, purpose: SourceLock) -> Self {
        let relation = lookup::source_table();
        Self::new(
            pg_sys::LockTagType::LOCKTAG_OBJECT,
            [database().to_u32(), relation.to_u32(), hash_text(name)],
            purpose as u16,
        )
    }

    /// A collection that is being rebuilt, by a hash of its name, as `rag_internal.is_in_progress`
    /// does.
    pub fn rebuild(collection: &str) -> Self {
        Self::of_collection(collection, 0)
    }

    /// Those who write to a collection. They share the lock.
    pub fn writers(collection: &str) -> Self {
        Self::of_collection(collection, 1)
    }

    /// A name or an external id that a collection is given. Both are one name space.
    pub fn collection_name(name_or_id: &str) -> Self {
        Self::of_collection(name_or_id, 2)
    }

    /// A collection whose knowledge items are being indexed, by a hash of its name, as
    /// `rag_internal.is_in_progress` does.
    pub fn knowledge(collection: &str) -> Self {
        Self::of_collection(collection, 3)
    }

    fn of_collection(name: &str, purpose: u16) -> Self {
        let relation = lookup::collections_table().to_u32();
        Self::new(
            pg_sys::LockTagType::LOCKTAG_OBJECT,
            [database().to_u32(), relation, hash_text(name)],
            purpose,
        )
    }

    /// The scheduler of the current database.
    pub fn scheduler() -> Self {
        Self::advisory([database().to_u32(), SCHEDULERS, 0], 3)
    }

    /// The worker that indexes the queued documents of the current database.
    pub fn document_queue() -> Self {
        Self::advisory([database().to_u32(), DOCUMENT_QUEUE, 0], 3)
    }

    /// The replication of a collection to another server. Collections whose hashes collide exclude
    /// each other.
    pub fn storage(collection: &str) -> Self {
        Self::advisory([database().to_u32(), STORAGE, hash_text(collection)], 3)
    }

    /// This process, which waits for an engine that does not answer.
    pub fn engine_wait() -> Self {
        let process = my_pid().unsigned_abs();
        Self::advisory([database().to_u32(), ENGINE_WAITS, process], 3)
    }

    /// The slot that becomes free next.
    pub fn next_slot() -> Self {
        Self::advisory([0, NEXT_SLOT, 0], 3)
    }

    /// A slot for a run.
    pub fn slot(number: u32) -> Self {
        Self::advisory([0, SLOTS, number], 3)
    }

    /// The key file of the secrets.
    pub fn key_file() -> Self {
        Self::advisory([0, KEY_FILE, 1], 0)
    }

    fn advisory(fields: [u32; 3], last: u16) -> Self {
        Self::new(pg_sys::LockTagType::LOCKTAG_ADVISORY, fields, last)
    }

    fn new(kind: pg_sys::LockTagType::Type, fields: [u32; 3], last: u16) -> Self {
        Self(pg_sys::LOCKTAG {
            locktag_field1: fields[0],
            locktag_field2: fields[1],
            locktag_field3: fields[2],
            locktag_field4: last,
            locktag_type: kind as u8,
            locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
        })
    }

    /// Acquires the lock, for the session or for the transaction. Returns false if it would have to
    /// wait and must not.
    fn acquire(&self, mode: Mode, for_session: bool, wait: bool) -> bool {
        compat::acquire_lock(&self.0, level(mode), for_session, !wait)
    }

    fn release_as(&self, mode: Mode, for_session: bool) {
        compat::release_lock(&self.0, level(mode), for_session);
    }

    /// Acquires the lock for the session if it is free. Returns false if it is not, or if another
    /// process checks it at this moment ([`Lock::is_free`]).
    pub fn try_acquire(&self) -> bool {
        self.acquire(Mode::Exclusive, true, false)
    }

    /// Releases what [`Lock::try_acquire`] acquired.
    pub fn release(&self) {
        self.release_as(Mode::Exclusive, true);
    }

    /// Returns true if no other process holds the lock. Several processes can check at once.
    pub fn is_free(&self) -> bool {
        let is_free = self.acquire(Mode::Share, true, false);
        if is_free {
            self.release_as(Mode::Share, true);
        }
        is_free
    }

    /// Waits for the lock and holds it until the transaction ends. The wait can be cancelled and
    /// takes part in deadlock detection.
    pub fn acquire_for_transaction(&self) {
        self.acquire(Mode::Exclusive, false, true);
    }

    /// Acquires the lock for the transaction in share mode: several transactions can hold it.
    pub fn acquire_shared_for_transaction(&self) {
        self.acquire(Mode::Share, false, true);
    }

    /// Acquires the lock until the transaction ends if it is free. Returns false if it is not.
    pub fn try_acquire_for_transaction(&self) -> bool {
        self.acquire(Mode::Exclusive, false, false)
    }

    /// Acquires the lock of a source until the transaction ends if it is free, as
    /// [`Lock::try_acquire_for_transaction`] does, but `rag_internal.source_locks` does not show
    /// it: a view does not take this process for a run of the source.
    pub fn try_acquire_unlisted_for_transaction(&self) -> bool {
        self.acquire(Mode::Unlisted, false, false)
    }

    /// Tries to acquire the lock for the transaction, for 0.2 seconds: another process may only
    /// check the lock ([`Lock::is_free`]).
    pub fn try_acquire_for_transaction_briefly(&self) -> bool {
        self.try_acquire_for_transaction()
            || (0..40).any(|_| {
                sleep(Duration::from_millis(5));
                self.try_acquire_for_transaction()
            })
    }

    /// Releases a lock that was acquired for the transaction before the transaction ends.
    pub fn release_in_transaction(&self) {
        self.release_as(Mode::Exclusive, false);
    }
}

fn level(mode: Mode) -> u32 {
    match mode {
        Mode::Share => pg_sys::ShareLock,
        Mode::Unlisted => pg_sys::ShareRowExclusiveLock,
        Mode::Exclusive => pg_sys::ExclusiveLock,
    }
}

// -- relations

/// How to lock a table that other transactions are writing to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterLock {
    /// Wait for them. This transaction must not have written anything that others wait for.
    Wait,
    /// Do not wait, and leave the work to the next transaction. This transaction may have written
    /// something that the others wait for.
    SkipIfBusy,
}

// -- who blocks whom

/// Returns true if a process waits for a lock of this session, or for a process that does.
pub fn is_blocked_by_me(process: i32) -> Result<bool, Error> {
    let found = as_caller(|caller| {
        caller.query(
            "WITH RECURSIVE ahead (pid) AS (
                 SELECT unnest(pg_blocking_pids($1))
                 UNION SELECT unnest(pg_blocking_pids(pid)) FROM ahead)
             SELECT EXISTS (SELECT FROM ahead WHERE pid = pg_backend_pid())",
            &[process.into()],
            |row| row.required("exists"),
        )
    })?;
    Ok(found.into_iter().any(|waits: bool| waits))
}
