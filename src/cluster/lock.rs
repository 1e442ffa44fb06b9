//! Locks that tell processes what others are at, each given back by itself when its process ends,
//! however it ends.
//!
//! | lock | held by | means |
//! |---|---|---|
//! | source at work | runner | a run of the source, or a check for drift, is under way: there is never a second one |
//! | source going | session in rag_drop_source | nothing may begin with the source |
//! | database | scheduler | this database has its scheduler |
//! | slot 0, 1, ... | runner | one of the runs that `rag.max_running_syncs` allows in the whole cluster |
//! | next slot | session in rag_sync | the next slot that is free is for this session |
//!
//! The last two are for servers without `shared_preload_libraries = 'rag'`; with it,
//! [`slots`](super::slots) are in shared memory.
//!
//! They are session locks of the lock method that advisory locks have: those of the other one are
//! left behind when a process ends. `rag.source_locks()` shows the first two, `pg_locks` all of
//! them.
#![allow(unsafe_code)] // heavyweight locks

use std::time::Duration;

use pgrx::pg_sys;

use crate::{catalog::name::Name, error::Error, pg::wait::sleep, settings};

/// A lock as Postgres names it.
pub struct Lock(pg_sys::LOCKTAG);

/// First key of the slots, which are advisory locks of no database: nobody else can have such.
/// "rags".
const SLOTS: u32 = 0x7261_6773;
/// First key of the schedulers' locks. "ragt".
const SCHEDULERS: u32 = 0x7261_6774;
/// First key of the lock on the next slot, which is of no database either. "ragu".
const NEXT_SLOT: u32 = 0x7261_6775;

unsafe extern "C" {
    // common/hashfn.h, which pgrx leaves out
    fn hash_bytes(bytes: *const u8, length: std::ffi::c_int) -> u32;
}

/// The present database.
pub fn database() -> pg_sys::Oid {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyDatabaseId }
}

impl Lock {
    /// A run or a check of the source is under way.
    pub fn source_at_work(source: &Name) -> Self {
        Self::source(source, 0)
    }

    /// The source is about to be dropped.
    pub fn source_going(source: &Name) -> Self {
        Self::source(source, 1)
    }

    /// The source is named by a hash, that of hashtext, which `rag.source_locks` shows: sources
    /// that collide merely take turns. Where the extension was dropped meanwhile it is a lock that
    /// nobody has.
    fn source(source: &Name, purpose: u16) -> Self {
        // SAFETY: look-ups of catalog OIDs; and reads as many bytes as the name has.
        let (relation, hash) = unsafe {
            let schema = pg_sys::get_namespace_oid(c"rag".as_ptr(), true);
            let relation = pg_sys::get_relname_relid(c"source".as_ptr(), schema);
            (
                relation,
                hash_bytes(source.as_str().as_ptr(), source.as_str().len() as i32),
            )
        };
        Self::new(
            pg_sys::LockTagType::LOCKTAG_OBJECT,
            [database().to_u32(), relation.to_u32(), hash],
            purpose,
        )
    }

    /// The scheduler of the present database.
    pub fn scheduler() -> Self {
        Self::new(
            pg_sys::LockTagType::LOCKTAG_ADVISORY,
            [database().to_u32(), SCHEDULERS, 0],
            3,
        )
    }

    /// The slot that is free next.
    pub fn next_slot() -> Self {
        Self::new(pg_sys::LockTagType::LOCKTAG_ADVISORY, [0, NEXT_SLOT, 0], 3)
    }

    fn slot(number: u32) -> Self {
        Self::new(pg_sys::LockTagType::LOCKTAG_ADVISORY, [0, SLOTS, number], 3)
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

    /// Takes the lock if it is free; whether it was. False also if another process is just looking
    /// ([`Lock::is_free`]).
    pub fn take(&self) -> bool {
        self.acquire(pg_sys::ExclusiveLock, true)
    }

    /// Acquires the lock in a mode if nobody has it in one that conflicts, for the session or for
    /// the transaction; whether it did.
    fn acquire(&self, mode: u32, for_session: bool) -> bool {
        // SAFETY: a well-formed tag.
        let result = unsafe { pg_sys::LockAcquire(&self.0, mode as i32, for_session, true) };
        result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    }

    /// Gives back what [`Lock::take`] took.
    pub fn give_back(&self) {
        // SAFETY: as above.
        unsafe { pg_sys::LockRelease(&self.0, pg_sys::ExclusiveLock as i32, true) };
    }

    /// Gives back what [`Lock::take_for_transaction`] took, before the transaction's end.
    pub fn give_back_in_transaction(&self) {
        // SAFETY: as above.
        unsafe { pg_sys::LockRelease(&self.0, pg_sys::ExclusiveLock as i32, false) };
    }

    /// Whether no other process has it. Two processes can look at once.
    pub fn is_free(&self) -> bool {
        let free = self.acquire(pg_sys::ShareLock, true);
        if free {
            // SAFETY: gives back what has just been acquired.
            unsafe { pg_sys::LockRelease(&self.0, pg_sys::ShareLock as i32, true) };
        }
        free
    }

    /// Takes the lock until the transaction ends, waiting for whoever has it. The wait can be
    /// cancelled, and takes part in the detection of deadlocks.
    pub fn wait_and_take_for_transaction(&self) {
        // SAFETY: a well-formed tag.
        unsafe { pg_sys::LockAcquire(&self.0, pg_sys::ExclusiveLock as i32, false, false) };
    }

    /// Takes the lock until the transaction ends, if it is free; whether it was.
    pub fn take_for_transaction(&self) -> bool {
        self.acquire(pg_sys::ExclusiveLock, false)
    }

    /// The same, where it is nothing that someone else is just looking ([`Lock::is_free`]) and has
    /// it for that moment.
    pub fn take_for_transaction_patiently(&self) -> bool {
        self.take_for_transaction()
            || (0..40).any(|_| {
                sleep(Duration::from_millis(5));
                self.take_for_transaction()
            })
    }
}

/// Takes one of the slots for runs; `None` where none is free.
pub fn take_slot() -> Option<Lock> {
    (0..settings::max_running_syncs())
        .map(Lock::slot)
        .find(Lock::take)
}

/// How many slots are free now.
pub fn free_slots() -> usize {
    (0..settings::max_running_syncs())
        .filter(|number| Lock::slot(*number).is_free())
        .count()
}

/// # Errors
/// Another session is about to drop the source.
pub fn check_not_going(source: &Name) -> Result<(), Error> {
    if Lock::source_going(source).is_free() {
        return Ok(());
    }
    Err(Error::in_use(format!(
        "source \"{source}\" is being dropped by another session"
    )))
}
