//! Starting the worker that keeps `rag-engine embed` running.

use std::{
    fs::{File, TryLockError},
    io,
};

use pgrx::bgworkers::{BackgroundWorkerStatus, DynamicBackgroundWorker};

use super::{RUNTIME_DIR, create_runtime_dir};
use crate::{cluster::no_worker, error::Error, pg::worker};

/// A file of the runtime folder: the lock of the only supervisor.
pub const SUPERVISOR_LOCK: &str = "engine.lock";
/// A file of the runtime folder: the lock of the session whose turn it is to start the supervisor.
const STARTER_LOCK: &str = "start.lock";

/// Starts the worker from a session that waits for the engine. One session at a time does so: many
/// sessions at once would take all background worker slots for a worker of which one is enough.
#[derive(Default)]
pub struct SupervisorStarter {
    turn: Option<File>,
    worker: Option<DynamicBackgroundWorker>,
}

impl SupervisorStarter {
    /// Starts the worker unless it is another session's turn, or it was started and still runs.
    ///
    /// # Errors
    /// There is no worker and no background worker slot is free, or the runtime folder cannot be
    /// used.
    pub fn start_if_needed(&mut self) -> Result<(), Error> {
        if self.turn.is_none() {
            self.turn = try_lock(STARTER_LOCK).map_err(|e| folder_unusable(&e))?;
        }
        if self.turn.is_some() && self.worker.as_ref().is_none_or(has_ended) {
            self.worker = worker::start(worker::supervisor().set_restart_time(None));
            if self.worker.is_none()
                && try_lock(SUPERVISOR_LOCK)
                    .map_err(|e| folder_unusable(&e))?
                    .is_some()
            {
                return Err(no_worker());
            }
        }
        Ok(())
    }
}

fn folder_unusable(error: &io::Error) -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR,
        "could not start rag-engine",
    )
    .detail(format!("{} in the data directory: {error}", RUNTIME_DIR))
}

/// Returns true if the worker has ended. Another one that held the lock may have been about to
/// stop.
fn has_ended(worker: &DynamicBackgroundWorker) -> bool {
    matches!(worker.pid(), Err(BackgroundWorkerStatus::Stopped))
}

/// Acquires a lock that one process of the cluster can hold, by a file of the runtime folder.
/// Returns `None` if another process holds it. Dropping the file, or the end of the process,
/// releases it.
pub fn try_lock(name: &str) -> io::Result<Option<File>> {
    create_runtime_dir()?;
    let path = std::path::Path::new(RUNTIME_DIR).join(name);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
