//! Background workers.
#![allow(unsafe_code)] // the process's own entry, signal handlers

use std::ffi::CStr;

use pgrx::{PgLogLevel, pg_sys};

/// Keeps out of the log that a worker of the extension was asked to end, which is no fault: because
/// the server stops, the extension or its database is dropped, or nobody may connect to the
/// database any more. The postmaster notes its exit.
///
/// # Safety
/// `error` is one that is about to be logged.
pub unsafe fn keep_end_quiet(error: &mut pg_sys::ErrorData) {
    use pgrx::PgSqlErrorCode::{
        ERRCODE_ADMIN_SHUTDOWN, ERRCODE_INVALID_CATALOG_NAME,
        ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    };
    // SAFETY: reads a variable of the process.
    let is_connecting = unsafe { pg_sys::Mode == pg_sys::ProcessingMode::InitProcessing };
    let code = error.sqlerrcode;
    let is_end = code == ERRCODE_ADMIN_SHUTDOWN as i32
        || is_connecting
            && [
                ERRCODE_INVALID_CATALOG_NAME as i32,
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE as i32,
            ]
            .contains(&code);
    // SAFETY: the worker's own entry, where the process is one, whose names end with 0.
    let is_ours = unsafe {
        pg_sys::MyBgworkerEntry
            .as_ref()
            .is_some_and(|entry| CStr::from_ptr(entry.bgw_library_name.as_ptr()) == c"rag")
    };
    if is_end && is_ours && error.elevel == PgLogLevel::FATAL as i32 {
        error.output_to_server = false;
    }
}

/// The handler that sessions have: the process ends at its next safe point.
unsafe extern "C-unwind" fn on_sigterm(signal: std::ffi::c_int) {
    // SAFETY: called as a signal handler, which is what it is.
    unsafe { pg_sys::die(signal) };
}

/// Has SIGTERM end the process wherever it waits, and lets signals in.
pub fn end_on_sigterm() {
    // SAFETY: installs a handler.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(pg_sys::SIGTERM as i32, Some(on_sigterm));
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(pg_sys::SIGTERM as i32, Some(on_sigterm));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}
