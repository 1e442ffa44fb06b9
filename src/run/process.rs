//! The process of a run: how it is started, and what it is told to do.

use crate::{
    catalog::name::Name,
    cluster::{no_worker, slots::Claim},
    error::Error,
    pg::worker,
};

pub use crate::pg::worker::has_ended;
pub use pgrx::bgworkers::DynamicBackgroundWorker;

/// What a runner does with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Carry out the queued run of this id.
    Run(i64),
    /// Carry out a run of this id that was not queued.
    NewRun(i64),
    /// Check the source for drift.
    Check,
    /// Only end the runs whose process was lost.
    EndLostRuns,
}

impl Task {
    /// Returns the task as a word of the worker's arguments.
    fn encode(self) -> String {
        match self {
            Self::Run(id) => id.to_string(),
            Self::NewRun(id) => format!("new-{id}"),
            Self::Check => "check".to_string(),
            Self::EndLostRuns => "end-lost-runs".to_string(),
        }
    }

    pub fn decode(text: &str) -> Option<Self> {
        match text {
            "check" => Some(Self::Check),
            "end-lost-runs" => Some(Self::EndLostRuns),
            text => match text.strip_prefix("new-") {
                Some(id) => id.parse().ok().map(Self::NewRun),
                None => text.parse().ok().map(Self::Run),
            },
        }
    }
}

/// Starts a runner for `source` in the current database. The runner adopts the slot that was
/// claimed for it. Only [`Task::EndLostRuns`] needs no slot.
///
/// # Errors
/// No background worker slot is free.
pub fn start(
    source: &Name,
    task: Task,
    claim: Option<&Claim>,
) -> Result<DynamicBackgroundWorker, Error> {
    let arguments = format!("{} {}", task.encode(), claim.map_or(0, Claim::ticket));
    worker::start(worker::runner(&source.short(), &arguments)).ok_or_else(no_worker)
}

pub fn source_dropped(source: &Name) -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("source \"{source}\" was dropped during the run"),
    )
}
