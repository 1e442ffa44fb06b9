//! The background workers of the extension: how each is described to the postmaster.

use std::time::Duration;

use pgrx::bgworkers::{
    BackgroundWorkerBuilder, BackgroundWorkerStatus, BgWorkerStartTime, DynamicBackgroundWorker,
};

use super::process::{database, my_pid};

/// Describes the launcher, which starts with the server or with a standby's promotion, and again if
/// it ends.
pub fn launcher() -> BackgroundWorkerBuilder {
    connected("rag launcher", "rag launcher", "rag_launcher_main")
        .set_restart_time(Some(Duration::from_secs(1)))
}

/// Describes the scheduler of a database.
pub fn scheduler(database: u32) -> BackgroundWorkerBuilder {
    connected("rag scheduler", "rag scheduler", "rag_scheduler_main")
        .set_extra(&database.to_string())
        .set_restart_time(None)
}

/// Describes the runner of a source in the current database. `arguments` say what it does.
pub fn runner(source: &str, arguments: &str) -> BackgroundWorkerBuilder {
    connected(
        &format!("rag runner: {source}"),
        "rag runner",
        "rag_runner_main",
    )
    .set_extra(&format!("{} {arguments} {source}", database().to_u32()))
    .set_restart_time(None)
}

/// Describes the worker that indexes knowledge items of the current database. `arguments` say
/// which ones.
pub fn indexer(arguments: &str) -> BackgroundWorkerBuilder {
    connected("rag indexer", "rag indexer", "rag_indexer_main")
        .set_extra(&format!("{} {arguments}", database().to_u32()))
        .set_restart_time(None)
}

/// Describes the worker that indexes the queued documents of the current database.
pub fn document_queue() -> BackgroundWorkerBuilder {
    connected(
        "rag document queue",
        "rag document queue",
        "rag_document_queue_main",
    )
    .set_extra(&database().to_u32().to_string())
    .set_restart_time(None)
}

/// Describes the supervisor of `rag-engine`, which has no database connection and also runs on
/// standbys.
pub fn supervisor() -> BackgroundWorkerBuilder {
    described(
        "rag engine supervisor",
        "rag engine supervisor",
        "rag_supervisor_main",
    )
    .enable_shmem_access(None)
    .set_start_time(BgWorkerStartTime::ConsistentState)
}

fn described(name: &str, kind: &str, function: &str) -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new(name)
        .set_type(kind)
        .set_library("rag")
        .set_function(function)
}

fn connected(name: &str, kind: &str, function: &str) -> BackgroundWorkerBuilder {
    described(name, kind, function)
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
}

/// Starts a worker now and has the postmaster tell this process when it starts and ends. Returns
/// `None` if the server has no free background worker slot.
pub fn start(worker: BackgroundWorkerBuilder) -> Option<DynamicBackgroundWorker> {
    worker.set_notify_pid(my_pid()).load_dynamic().ok()
}

/// Returns true if a worker has ended, or could not be started. One that the postmaster has yet to
/// start has not.
pub fn has_ended(worker: &DynamicBackgroundWorker) -> bool {
    !matches!(
        worker.pid(),
        Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted)
    )
}
