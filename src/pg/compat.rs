//! Functions of the server that pgrx leaves out, and what differs between PostgreSQL versions.
//!
//! The declarations below were checked against the headers of PostgreSQL 15 to 18.
#![allow(unsafe_code)] // calls of C functions

use std::{
    ffi::{CStr, c_char, c_int},
    os::fd::RawFd,
    time::Duration,
};

use pgrx::pg_sys;

use super::wait::Until;

mod c {
    use super::*;

    unsafe extern "C" {
        // common/hashfn.h
        pub fn hash_bytes(bytes: *const u8, length: c_int) -> u32;
        // utils/datum.h
        pub fn datumIsEqual(
            a: pg_sys::Datum,
            b: pg_sys::Datum,
            by_value: bool,
            length: c_int,
        ) -> bool;
    }

    /// The beginning of `PQcommMethods` in libpq/libpq.h, the same in all versions.
    #[repr(C)]
    pub struct CommMethods {
        reset: Option<unsafe extern "C-unwind" fn()>,
        pub flush: Option<unsafe extern "C-unwind" fn() -> c_int>,
    }

    unsafe extern "C" {
        // libpq/libpq.h
        pub static PqCommMethods: *const CommMethods;
    }

    unsafe extern "C-unwind" {
        // utils/timeout.h
        pub fn enable_timeout_after(id: c_int, delay_ms: c_int);
        pub fn disable_timeout(id: c_int, keep_indicator: bool);
        // storage/predicate.h
        pub fn PredicateLockRelation(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot);
        // commands/sequence.h
        pub fn nextval_internal(sequence: pg_sys::Oid, check_permissions: bool) -> i64;

        // tcop/utility.h
        pub fn standard_ProcessUtility(
            statement: *mut pg_sys::PlannedStmt,
            query: *const c_char,
            read_only_tree: bool,
            context: pg_sys::ProcessUtilityContext::Type,
            params: pg_sys::ParamListInfo,
            environment: *mut pg_sys::QueryEnvironment,
            destination: *mut pg_sys::DestReceiver,
            completion: *mut pg_sys::QueryCompletion,
        );
    }
}

pub use c::standard_ProcessUtility;

/// Notes that a serializable transaction has read all of a relation. Does nothing in others.
///
/// # Safety
/// An open relation, and a registered snapshot.
pub unsafe fn lock_for_serializable(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot) {
    // SAFETY: the caller's promise. The guard catches the server's ERRORs.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| c::PredicateLockRelation(relation, snapshot));
    }
}

/// Returns the hash of a text that `hashtext()` computes under a deterministic collation.
pub fn hash_text(text: &str) -> u32 {
    // SAFETY: reads as many bytes as the text has.
    unsafe { c::hash_bytes(text.as_ptr(), text.len() as c_int) }
}

/// Returns true if two values of one type have the same bytes.
///
/// # Safety
/// Both are values of a type with this length and way of passing.
pub unsafe fn datums_are_equal(
    a: pg_sys::Datum,
    b: pg_sys::Datum,
    by_value: bool,
    length: i16,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { c::datumIsEqual(a, b, by_value, length.into()) }
}

/// Returns the next value of a sequence, whatever the caller's rights on it.
pub fn next_value(sequence: pg_sys::Oid) -> i64 {
    // SAFETY: raises an ERROR if the OID is not that of a sequence.
    unsafe { c::nextval_internal(sequence, false) }
}

/// Sends the client what the server has written for it so far. Without it, rows wait until a buffer
/// of 8 kB is full or the statement ends.
pub fn flush_to_client() {
    // SAFETY: variables of the process. Functions that return rows run between two messages, so the
    // buffer has whole ones. If the client is gone, the server notices that by itself.
    unsafe {
        let has_client = pg_sys::whereToSendOutput == pg_sys::CommandDest::DestRemote;
        if let Some(methods) = c::PqCommMethods.as_ref().filter(|_| has_client)
            && let Some(flush) = methods.flush
        {
            flush();
        }
    }
}

/// STATEMENT_TIMEOUT of utils/timeout.h: the fourth value of `enum TimeoutId` in all versions.
const STATEMENT_TIMEOUT: c_int = 3;

/// Cancels the process after a time, as `statement_timeout` does, wherever it waits then. The
/// process must be connected to a database, which registers this timeout.
pub fn start_statement_timeout(timeout: Duration) {
    let milliseconds = timeout
        .as_millis()
        .saturating_add(1)
        .try_into()
        .unwrap_or(i32::MAX);
    // SAFETY: InitPostgres has registered this timeout, as in every process with a database.
    unsafe { c::enable_timeout_after(STATEMENT_TIMEOUT, milliseconds) };
}

/// Ends what [`start_statement_timeout`] began.
pub fn stop_statement_timeout() {
    // SAFETY: an existing timeout.
    unsafe { c::disable_timeout(STATEMENT_TIMEOUT, false) };
}

/// Locks a row of a relation unless another session has it. Returns true if it is locked.
///
/// # Safety
/// The relation is open.
pub unsafe fn try_lock_tuple(
    relation: pg_sys::Relation,
    row: &mut pg_sys::ItemPointerData,
    mode: pg_sys::LOCKMODE,
) -> bool {
    // SAFETY: the caller's.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        return pg_sys::ConditionalLockTuple(relation, row, mode);
        #[cfg(feature = "pg18")]
        return pg_sys::ConditionalLockTuple(relation, row, mode, false);
    }
}

/// Installs a handler for SIGTERM that ends the process, as sessions have it.
pub fn end_on_sigterm() {
    /// The process ends at its next safe point.
    unsafe extern "C-unwind" fn die(signal: c_int) {
        // SAFETY: called as a signal handler, which is what it is.
        unsafe { pg_sys::die(signal) };
    }
    // SAFETY: installs a handler that stays valid as long as the library.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(pg_sys::SIGTERM as c_int, Some(die));
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(pg_sys::SIGTERM as c_int, Some(die));
    }
}

/// Returns true if `role` can SET ROLE to `other`.
pub fn can_set_role(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    // SAFETY: system-cache look-ups.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::is_member_of_role(role, other);
        #[cfg(not(feature = "pg15"))]
        return pg_sys::member_can_set_role(role, other);
    }
}

/// Returns true if the current role owns an existing database.
pub fn owns_database(database: pg_sys::Oid) -> bool {
    // SAFETY: system-cache look-ups.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_database_ownercheck(database, pg_sys::GetUserId());
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(
            pg_sys::DatabaseRelationId,
            database,
            pg_sys::GetUserId(),
        );
    }
}

/// Returns true if the current role owns an existing extension.
pub fn owns_extension(extension: pg_sys::Oid) -> bool {
    // SAFETY: system-cache look-ups.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_extension_ownercheck(extension, pg_sys::GetUserId());
        #[cfg(not(feature = "pg15"))]
        return pg_sys::object_ownercheck(
            pg_sys::ExtensionRelationId,
            extension,
            pg_sys::GetUserId(),
        );
    }
}

/// Makes a misspelled setting `rag.*` an error.
pub fn reserve_setting_prefix() {
    // SAFETY: a static text.
    unsafe {
        pg_sys::MarkGUCPrefixReserved(c"rag".as_ptr());
    }
}

/// Returns the text of a name in a list of names.
///
/// # Safety
/// The node is a string that stays as long as `'a`.
pub unsafe fn name_text<'a>(name: *mut pg_sys::String) -> &'a CStr {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr((*name).sval) }
}

/// A set of events to wait for: the process's latch, the postmaster's death, and descriptors.
pub struct WaitSet {
    set: *mut pg_sys::WaitEventSet,
    free: usize,
}

impl WaitSet {
    /// Creates a set with room for some descriptors.
    pub fn new(descriptors: usize) -> Self {
        // SAFETY: the set has room for the two events; the first argument became a resource owner
        // (none here) in PostgreSQL 17.
        unsafe {
            let events = descriptors as c_int + 2;
            #[cfg(any(feature = "pg17", feature = "pg18"))]
            let set = pg_sys::CreateWaitEventSet(std::ptr::null_mut(), events);
            #[cfg(not(any(feature = "pg17", feature = "pg18")))]
            let set = pg_sys::CreateWaitEventSet(pg_sys::CurrentMemoryContext, events);
            let no_socket = pg_sys::PGINVALID_SOCKET;
            let (latch, none) = (pg_sys::MyLatch, std::ptr::null_mut());
            pg_sys::AddWaitEventToSet(set, pg_sys::WL_LATCH_SET, no_socket, latch, none);
            let none = std::ptr::null_mut();
            let death = pg_sys::WL_EXIT_ON_PM_DEATH;
            pg_sys::AddWaitEventToSet(set, death, no_socket, none, std::ptr::null_mut());
            Self {
                set,
                free: descriptors,
            }
        }
    }

    /// Adds a descriptor. Those that the set has no room for are left out.
    pub fn add(&mut self, fd: RawFd, until: Until) {
        let event = match until {
            Until::Readable => pg_sys::WL_SOCKET_READABLE,
            Until::Writable => pg_sys::WL_SOCKET_WRITEABLE,
            Until::ReadableOrWritable => pg_sys::WL_SOCKET_READABLE | pg_sys::WL_SOCKET_WRITEABLE,
        };
        if let Some(free) = self.free.checked_sub(1) {
            self.free = free;
            let none = std::ptr::null_mut();
            // SAFETY: the set has room; the server reports a bad descriptor as an ERROR.
            unsafe {
                pg_sys::AddWaitEventToSet(self.set, event, fd, none, std::ptr::null_mut());
            }
        }
    }

    /// Waits for one of the events or the timeout, and resets the latch.
    pub fn wait(&mut self, timeout: Option<Duration>) {
        let timeout = timeout.map_or(-1, |t| t.as_millis().try_into().unwrap_or(i64::MAX));
        // SAFETY: the set has not been freed; the event is written to by the call alone.
        unsafe {
            let mut event: pg_sys::WaitEvent = std::mem::zeroed();
            let extension = pg_sys::PG_WAIT_EXTENSION;
            pg_sys::WaitEventSetWait(self.set, timeout as _, &mut event, 1, extension);
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
    }
}

impl Drop for WaitSet {
    fn drop(&mut self) {
        // SAFETY: created in `new`, and freed only here.
        unsafe { pg_sys::FreeWaitEventSet(self.set) };
    }
}

/// Acquires a heavyweight lock. Returns false if `no_wait` is set and a lock conflicts.
pub fn acquire_lock(tag: &pg_sys::LOCKTAG, mode: u32, for_session: bool, no_wait: bool) -> bool {
    // SAFETY: a tag with any contents names a lock.
    let result = unsafe { pg_sys::LockAcquire(tag, mode as i32, for_session, no_wait) };
    result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// Releases a heavyweight lock. A lock that is not held causes a WARNING.
pub fn release_lock(tag: &pg_sys::LOCKTAG, mode: u32, for_session: bool) {
    // SAFETY: a tag with any contents names a lock.
    unsafe { pg_sys::LockRelease(tag, mode as i32, for_session) };
}
