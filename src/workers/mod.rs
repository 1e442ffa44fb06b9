//! Background workers.
//!
//! | worker | number | task |
//! |---|---|---|
//! | [`supervisor`] | one per cluster, on standbys too | keeps `rag-engine embed` running |
//! | [`launcher`] | one per cluster, on a primary | starts a scheduler in each database where something is due |
//! | [`scheduler`] | few at a time, each for a moment | queues what is due, starts runners, checks for drift, replicates changes to servers that search vectors |
//! | [`runner`] | one per run or check | syncs a source, or checks it for drift |
//! | [`indexer`] | one per call of `rag_index_all_knowledge` | indexes the knowledge items of a collection |
//! | [`document_queue`] | one per database with queued documents | indexes them |
//!
//! | file | contents |
//! |---|---|
//! | [`due_source`], [`queue`] | a scheduler queues the runs of sources that are due, and starts queued runs |
//! | [`drift`], [`replication`], [`stalls`] | what else a scheduler does: drift checks, changes of servers that search vectors, lines of the log |
//! | [`metric_files`] | metrics, for sessions in other databases |
//! | [`hooks`], [`drop_extension`] | commands that the workers must know of |
//!
//! [`hooks`] and [`shared`] tell them what happens, [`slots`](crate::cluster::slots) share the
//! capacity among runs, and [`lock`](crate::cluster::lock) keeps anything from happening twice.
//! Without `shared_preload_libraries = 'rag'` there are only supervisor and runners, which sessions
//! start when they need them, and a scheduler for the first run of a new source.

mod document_queue;
pub mod drift;
pub mod drop_extension;
mod due_source;
pub mod hooks;
mod indexer;
pub mod launcher;
pub mod metric_files;
mod queue;
mod replication;
pub mod runner;
pub mod scheduler;
mod stalls;
pub mod supervisor;

use pgrx::bgworkers::BackgroundWorker;

use crate::{
    cluster::{operation_stats, search_stats, shared},
    pg::{guc, hooks::watch_starts, process},
    sync::ingest::remove_work_of_dead_runs,
};

/// Registers the workers that start with the server. Called while the server loads its preloaded
/// libraries.
pub fn register() {
    shared::request();
    search_stats::request();
    operation_stats::request();
    hooks::install();
    watch_starts(remove_work_of_dead_runs);
    // pg_upgrade reads and writes databases that nothing else may change
    if !process::is_binary_upgrade() {
        supervisor::register();
        launcher::register();
    }
}

/// Reads the configuration files again if SIGHUP has come. Returns true if it has.
fn reload_settings_if_asked() -> bool {
    let is_asked = BackgroundWorker::sighup_received();
    if is_asked {
        guc::reload_settings();
    }
    is_asked
}
