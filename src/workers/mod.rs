//! Background workers.
//!
//! | worker | when | does |
//! |---|---|---|
//! | [`supervisor`] | one per cluster, on standbys too | keeps `rag-engine embed` running |
//! | [`launcher`] | one per cluster, on a primary | sees to it that each database with the extension has a scheduler |
//! | [`scheduler`] | one per such database | starts runs that are due, were asked for, or are tried again; checks for drift |
//! | [`runner`] | one per run, or check | syncs a source, or checks it for drift |
//!
//! [`hooks`] and [`shared`] are how they hear of what happens, [`lock`] how nothing happens twice. Without
//! `shared_preload_libraries = 'rag'` there are only supervisor and runners, which sessions start when they need them.
#![allow(unsafe_code)] // signal handlers

pub mod drift;
pub mod hooks;
pub mod launcher;
pub mod lock;
pub mod runner;
pub mod scheduler;
pub mod shared;
pub mod supervisor;
pub mod transaction;

use pgrx::pg_sys;

use crate::settings;

/// Registers the workers that start with the server, where the library is in shared_preload_libraries.
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
