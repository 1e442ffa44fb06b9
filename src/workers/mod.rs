//! Background workers.
//!
//! | worker | when | does |
//! |---|---|---|
//! | [`supervisor`] | one per cluster, on standbys too | keeps `rag-engine embed` running |
//! | [`launcher`] | one per cluster, on a primary | starts a scheduler in each database in which something is due |
//! | [`scheduler`] | few at a time, each for a moment | queues what is due and starts runners; checks for drift |
//! | [`runner`] | one per run, or check | syncs a source, or checks it for drift |
//!
//! [`hooks`] and [`shared`] are how they hear of what happens, [`slots`] how runs share what there
//! is, [`lock`] how nothing happens twice. Without `shared_preload_libraries = 'rag'` there are
//! only supervisor and runners, which sessions start when they need them, and a scheduler for the
//! first run of a new source.
#![allow(unsafe_code)] // signal handlers

pub mod drift;
pub mod hooks;
pub mod launcher;
pub mod lock;
pub mod runner;
pub mod scheduler;
pub mod shared;
pub mod slots;
pub mod supervisor;
pub mod transaction;

use std::ffi::CStr;

use pgrx::{PgLogLevel, pg_sys};

use crate::settings;

/// Registers the workers that start with the server, where the library is in
/// shared_preload_libraries.
pub fn register() {
    shared::request();
    hooks::install();
    // SAFETY: reads a variable of the postmaster.
    let is_upgraded = unsafe { pg_sys::IsBinaryUpgrade };
    // pg_upgrade reads and writes databases that nobody else may change
    if !is_upgraded {
        supervisor::register();
        launcher::register();
    }
}

/// Whether sources are synced by themselves, as far as the settings and the state of the server go.
pub fn are_scheduling() -> bool {
    // SAFETY: reads the server's state.
    shared::is_present() && settings::scheduler() && !unsafe { pg_sys::RecoveryInProgress() }
}

/// What keeps the sources of the present database from being synced by themselves; `None`: nothing.
/// A standby does not know.
pub fn why_idle() -> Option<&'static str> {
    // SAFETY: reads the server's state.
    if unsafe { pg_sys::RecoveryInProgress() } {
        None
    } else if !shared::is_present() {
        Some("rag is not in shared_preload_libraries")
    } else if !settings::scheduler() {
        Some("rag.scheduler is off")
    } else {
        shared::why_idle()
    }
}

/// For the views.
#[pgrx::pg_extern(sql = false)]
fn rag_why_idle() -> Option<&'static str> {
    why_idle()
}

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
fn end_on_sigterm() {
    // SAFETY: installs a handler.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(pg_sys::SIGTERM as i32, Some(on_sigterm));
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(pg_sys::SIGTERM as i32, Some(on_sigterm));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}
