//! Starting the worker that keeps `rag-engine embed` running.
#![allow(unsafe_code)] // flock

use std::{fs::File, io, os::fd::AsRawFd};

use pgrx::bgworkers::{
    BackgroundWorkerBuilder, BackgroundWorkerStatus, BgWorkerStartTime, DynamicBackgroundWorker,
};

use super::{RUNTIME_DIR, make_runtime_dir};
use crate::{cluster::no_worker, error::Error, pg::process::my_pid};

/// Files of the runtime folder: the lock of the one supervisor, and that of the session whose turn
/// it is to start it.
pub const SUPERVISING: &str = "engine.lock";
pub const STARTING: &str = "start.lock";

pub fn builder() -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new("rag engine supervisor")
        .set_type("rag engine supervisor")
        .set_library("rag")
        .set_function("rag_supervisor_main")
        .enable_shmem_access(None)
        .set_start_time(BgWorkerStartTime::ConsistentState)
}

/// Starts the worker from a session that waits for the engine. One session at a time does: many
/// that come at once would take all the server's slots for workers, to find that one of them is
/// enough.
#[derive(Default)]
pub struct Starter {
    turn: Option<File>,
    worker: Option<DynamicBackgroundWorker>,
}

impl Starter {
    /// Starts the worker unless it is another session's turn, or one was started and is there.
    ///
    /// # Errors
    /// There is no worker, and the server has no room for one, or the runtime folder cannot be
    /// used.
    pub fn see_to_it(&mut self) -> Result<(), Error> {
        if self.turn.is_none() {
            self.turn = take_lock(STARTING).map_err(|e| folder_unusable(&e))?;
        }
        if self.turn.is_some() && self.worker.as_ref().is_none_or(has_ended) {
            self.worker = builder()
                .set_notify_pid(my_pid())
                .set_restart_time(None)
                .load_dynamic()
                .ok();
            if self.worker.is_none()
                && take_lock(SUPERVISING)
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

/// Whether the worker has ended: another one, which holds the lock, may have been about to stop.
fn has_ended(worker: &DynamicBackgroundWorker) -> bool {
    matches!(worker.pid(), Err(BackgroundWorkerStatus::Stopped))
}

/// A lock that one process of the cluster has, by a file of the runtime folder; `None` where
/// another has it. It ends with the value, and with the process.
pub fn take_lock(name: &str) -> io::Result<Option<File>> {
    make_runtime_dir()?;
    let path = std::path::Path::new(RUNTIME_DIR).join(name);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    // SAFETY: flock on a descriptor that the file owns.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(Some(file));
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock {
        Ok(None)
    } else {
        Err(error)
    }
}
