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
pub mod drop_extension;
pub mod hooks;
pub mod launcher;
pub mod runner;
pub mod scheduler;
pub mod supervisor;

use pgrx::pg_sys;

use crate::cluster::shared;

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
