//! Transactions of a background worker.
#![allow(unsafe_code)] // the transaction commands

use pgrx::pg_sys;

use crate::error::Error;

/// Runs `f` in a transaction of its own: committed where it succeeds, rolled back where it fails or
/// raises.
///
/// # Errors
/// What `f` returned or raised, or what the commit raised.
pub fn transaction<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let result = crate::pg::subtransaction::catch(|| {
        // SAFETY: the sequence that every background worker with SPI runs; the worker is connected
        // to a database.
        unsafe {
            pg_sys::SetCurrentStatementStartTimestamp();
            pg_sys::StartTransactionCommand();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        }
        let result = f()?;
        // SAFETY: ends what was begun above.
        unsafe {
            pg_sys::PopActiveSnapshot();
            pg_sys::CommitTransactionCommand();
        }
        Ok(result)
    });
    if result.is_err() {
        // SAFETY: allowed in any state, also outside of a transaction.
        unsafe { pg_sys::AbortCurrentTransaction() };
    }
    result
}
