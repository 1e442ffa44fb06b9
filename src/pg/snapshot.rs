//! Snapshots: what a statement sees.
#![allow(unsafe_code)] // the stack of snapshots

use pgrx::pg_sys;

use crate::error::Error;

/// Runs `f` under a snapshot that sees what others have committed by now, though the command, or
/// the transaction of a worker, began before: what is read after a lock was taken must be read so.
pub fn fresh<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: an ERROR in between aborts the transaction, which pops the snapshot.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        let result = f();
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// Whether the transaction sees the database as it was at its start: REPEATABLE READ or
/// SERIALIZABLE.
pub fn snapshot_is_fixed() -> bool {
    // SAFETY: reads a variable of the session.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}
