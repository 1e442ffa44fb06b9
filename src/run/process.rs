//! The process of a run: how it is started, and what it is told.

use pgrx::bgworkers::{BackgroundWorkerBuilder, BackgroundWorkerStatus, BgWorkerStartTime};

use crate::{
    catalog::name::Name,
    cluster::{no_worker, slots::Claim},
    error::Error,
    pg::process::{database, my_pid},
};

pub use pgrx::bgworkers::DynamicBackgroundWorker;

/// What a runner is to do with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Carry out the queued run of this id.
    Run(i64),
    /// The same with a run that nobody has queued.
    NewRun(i64),
    /// See whether what is stored is what was indexed.
    Check,
    /// Only end the runs that have lost their process.
    Reap,
}

impl Task {
    /// As the worker is told.
    fn encode(self) -> String {
        match self {
            Self::Run(id) => id.to_string(),
            Self::NewRun(id) => format!("new-{id}"),
            Self::Check => "check".to_string(),
            Self::Reap => "reap".to_string(),
        }
    }

    pub fn decode(text: &str) -> Option<Self> {
        match text {
            "check" => Some(Self::Check),
            "reap" => Some(Self::Reap),
            text => match text.strip_prefix("new-") {
                Some(id) => id.parse().ok().map(Self::NewRun),
                None => text.parse().ok().map(Self::Run),
            },
        }
    }
}

/// Starts a runner for `source` in the present database, which adopts the slot that was claimed for
/// it. Only one that ends runs without a process needs none.
///
/// # Errors
/// The server has no room for another background worker.
pub fn start(
    source: &Name,
    task: Task,
    claim: Option<&Claim>,
) -> Result<DynamicBackgroundWorker, Error> {
    let source = source.short();
    BackgroundWorkerBuilder::new(&format!("rag runner: {source}"))
        .set_type("rag runner")
        .set_library("rag")
        .set_function("rag_runner_main")
        .set_extra(&format!(
            "{} {} {} {source}",
            database().to_u32(),
            task.encode(),
            claim.map_or(0, Claim::ticket)
        ))
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(None)
        .set_notify_pid(my_pid())
        .load_dynamic()
        .map_err(|_| no_worker())
}

pub fn has_ended(worker: &DynamicBackgroundWorker) -> bool {
    !matches!(
        worker.pid(),
        Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted)
    )
}

pub fn source_gone(source: &Name) -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("source \"{source}\" was dropped during the run"),
    )
}

/// Whether an error says that someone has a row locked.
pub fn is_locked(error: &Error) -> bool {
    error.code == pgrx::PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE
}
