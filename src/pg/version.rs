//! Versions: that of this library, and that of the extension in the current database.
//!
//! They differ between the installation of new files and `ALTER EXTENSION rag UPDATE`, and after a
//! step back to older files. Then statements run as far as they can. An error that one raises
//! because it knows other tables has a DETAIL with both versions, and a HINT with the remedy
//! ([`explained`]). Runs and workers wait for one version ([`require_equal`]).
#![allow(unsafe_code)] // reads a row of pg_extension

use std::{cell::Cell, panic::AssertUnwindSafe};

use pgrx::{FromDatum, PgSqlErrorCode, PgTryBuilder, pg_sys, pg_sys::panic::CaughtError};

use super::transaction::transaction_start;
use crate::error::{Cause, Error};

/// The version of this library.
pub const LIBRARY: &str = env!("CARGO_PKG_VERSION");

thread_local! {
    /// The start of the last transaction in which both versions were the same.
    static COMPARED: Cell<i64> = const { Cell::new(0) };
}

/// Checks that the library has the version of the extension in the current database.
///
/// # Errors
/// One of them is older. The HINT says what to do.
pub fn require_equal() -> Result<(), Error> {
    match other_version() {
        Some(extension) => Err(mismatch(&extension)),
        None => Ok(()),
    }
}

/// Checks that the library is not older than the extension, for install and upgrade scripts.
///
/// # Errors
/// The library is older: the server was not restarted, or the files are incomplete.
pub fn require_library() -> Result<(), Error> {
    match other_version() {
        Some(extension) if is_newer(&extension) => Err(mismatch(&extension)),
        _ => Ok(()),
    }
}

/// Runs `f`. If the versions differ, an ERROR of PostgreSQL about a missing table, column or
/// function tells that.
pub(super) fn explained<R>(f: impl FnOnce() -> R) -> R {
    let now = transaction_start();
    if COMPARED.get() == now {
        return f();
    }
    let Some(extension) = other_version() else {
        COMPARED.set(now);
        return f();
    };
    let mut f = Some(f);
    let run = AssertUnwindSafe(move || f.take().map(|f| f()));
    let result = PgTryBuilder::new(run)
        .catch_others(move |caught| -> Option<R> {
            if !is_about_tables(&caught) {
                caught.rethrow()
            }
            let error = Error::from(caught);
            let reason = mismatch(&extension);
            error
                .detail(reason.detail.unwrap_or_default())
                .maybe_hint(reason.hint)
                .raise()
        })
        .execute();
    match result {
        Some(result) => result,
        None => unreachable!("it runs once"),
    }
}

/// Returns true for an ERROR of PostgreSQL about a table, a column or a function, without a HINT.
fn is_about_tables(caught: &CaughtError) -> bool {
    let CaughtError::PostgresError(report) = caught else {
        return false;
    };
    let cause = Cause::of_state(report.sql_error_code());
    report.hint().is_none() && matches!(cause, Cause::Table | Cause::Column | Cause::Object)
}

/// The error of versions that differ.
fn mismatch(extension: &str) -> Error {
    let error = |message| {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            message,
        )
        .detail(format!(
            "The extension has version {extension} in this database. The loaded library has \
             version {LIBRARY}."
        ))
    };
    if is_newer(extension) {
        error("the library of extension \"rag\" is too old").hint(format!(
            "Install version {extension} of rag, and restart the server: it keeps the library that \
             it has loaded."
        ))
    } else {
        error("extension \"rag\" has not been updated in this database")
            .hint("Use ALTER EXTENSION rag UPDATE.")
    }
}

/// Returns true if a version is newer than the library.
fn is_newer(version: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        let parts = text.split(['.', '-']);
        parts.map(|part| part.parse().unwrap_or(0)).collect()
    };
    numbers(version) > numbers(LIBRARY)
}

/// Returns the version of the extension in the current database if it is another one than that of
/// the library.
fn other_version() -> Option<String> {
    extension_version().filter(|version| version != LIBRARY)
}

/// Returns the version of the extension in the current database.
fn extension_version() -> Option<String> {
    // SAFETY: reads a catalog by its index; the text is copied before the row is released.
    unsafe {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let table = pg_sys::table_open(pg_sys::ExtensionRelationId, lock);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &raw mut key,
            pg_sys::Anum_pg_extension_extname as _,
            pg_sys::BTEqualStrategyNumber as _,
            pg_sys::F_NAMEEQ.into(),
            c"rag".as_ptr().into(),
        );
        let (index, snapshot) = (pg_sys::ExtensionNameIndexId.into(), std::ptr::null_mut());
        let scan = pg_sys::systable_beginscan(table, index, true, snapshot, 1, &raw mut key);
        let row = pg_sys::systable_getnext(scan);
        let column = std::num::NonZeroUsize::new(pg_sys::Anum_pg_extension_extversion as usize);
        let version = column
            .filter(|_| !row.is_null())
            .and_then(|column| pgrx::htup::heap_getattr_raw(row, column, (*table).rd_att))
            .and_then(|datum| String::from_datum(datum, false));
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(table, lock);
        version
    }
}
