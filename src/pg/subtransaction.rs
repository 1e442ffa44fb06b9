//! Subtransactions, and ERRORs as values.
#![allow(unsafe_code)] // the subtransaction commands

use pgrx::{PgSqlErrorCode, pg_sys};

use super::snapshot::fresh;
use crate::error::Error;

/// Turns an ERROR that Postgres raises inside `f` into a value. The transaction must be aborted
/// afterwards.
pub fn catch<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let f = std::panic::AssertUnwindSafe(f);
    pgrx::PgTryBuilder::new(f)
        .catch_others(|error| Err(error.into()))
        .execute()
}

/// Runs `f` so that an ERROR in it undoes what it did and nothing else.
///
/// # Errors
/// What `f` returned or raised; but the end of the statement or session as a whole is raised.
pub fn subtransaction<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    within_subtransaction(true, f)
}

/// Reads as [`fresh`] does, and leaves no lock on what it has read: nobody who wants the tables for
/// himself, as DROP EXTENSION does, has to wait for a session that waits.
///
/// # Errors
/// As those of [`subtransaction`].
pub fn glance<R>(f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    within_subtransaction(false, || fresh(f))
}

fn within_subtransaction<R>(keep: bool, f: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    // SAFETY: the sequence of PL/pgSQL's exception blocks.
    unsafe {
        let (context, owner) = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
        let result = catch(f);
        if keep && result.is_ok() {
            pg_sys::ReleaseCurrentSubTransaction();
        } else {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
        match result {
            Err(error) if is_the_end(error.code) => error.raise(),
            result => result,
        }
    }
}

fn is_the_end(code: PgSqlErrorCode) -> bool {
    matches!(
        code,
        PgSqlErrorCode::ERRCODE_QUERY_CANCELED
            | PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN
            | PgSqlErrorCode::ERRCODE_CRASH_SHUTDOWN
    )
}
