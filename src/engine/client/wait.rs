//! Waits for the engine. A wait of `rag.stall_timeout` without any progress is told in the log, and
//! by `rag_status()`, which looks for a lock.

use std::{
    os::fd::RawFd,
    time::{Duration, Instant},
};

use crate::{
    pg::{
        lock::Lock,
        wait::{Until, wait},
    },
    settings,
};

/// A wait until the engine takes or sends anything, which ends when it is dropped.
pub struct EngineWait {
    since: Instant,
    is_reported: bool,
    lock: Option<Lock>,
}

impl EngineWait {
    pub fn begin() -> Self {
        Self {
            since: Instant::now(),
            is_reported: false,
            lock: None,
        }
    }

    /// Waits until the engine is ready, the process's latch is set, or `limit` has passed.
    pub fn wait(&mut self, engine: RawFd, until: Until, limit: Option<Duration>) {
        let stall_timeout = settings::stall_timeout().filter(|_| !self.is_reported);
        let until_stalled =
            stall_timeout.map(|timeout| timeout.saturating_sub(self.since.elapsed()));
        wait(
            &[(engine, until)],
            limit.into_iter().chain(until_stalled).min(),
        );
        if stall_timeout.is_some_and(|timeout| self.since.elapsed() >= timeout) {
            self.report();
        }
    }

    fn report(&mut self) {
        self.is_reported = true;
        pgrx::warning!(
            "rag-engine has not answered for {} seconds",
            self.since.elapsed().as_secs()
        );
        let lock = Lock::engine_wait();
        self.lock = lock.try_acquire().then_some(lock);
    }
}

impl Drop for EngineWait {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            lock.release();
        }
    }
}
