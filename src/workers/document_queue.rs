//! The worker that indexes queued documents ([`queue`]), and when a scheduler starts it.
//!
//! A database has one at a time. It has the rights of the role whose document is due first, and
//! leaves when another role's is. Its end wakes the scheduler. Without `shared_preload_libraries =
//! 'rag'` sessions start it when they commit, and it starts the next one.

use std::time::{Duration, Instant};

use pgrx::{bgworkers::BackgroundWorker, pg_sys};

use crate::{
    catalog::document_queue,
    cluster::{
        backoff::Backoff,
        lock::Lock,
        news,
        shared::{self, WorkerKind},
    },
    error::Error,
    pg::{
        calls::worker_main,
        guc, process,
        spi::owner_transaction,
        transaction::{roll_back_rest, transaction},
        wait::sleep,
        worker,
    },
    settings,
    sync::document::queue,
};

/// Delays before the next starts while the same document stays due.
const START_DELAYS: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(60));
/// Delay before the next start after the server had no free worker slot.
const NO_WORKER_DELAY: Duration = Duration::from_secs(3);
/// Delay before another look at a worker that a session may have started.
const BUSY_DELAY: Duration = Duration::from_secs(1);
/// Interval between attempts to become the only worker, and their number.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(50);
const LOCK_RETRIES: usize = 40;

/// Starts the worker when a document is due.
#[derive(Default)]
pub struct QueueStarter {
    /// The document that the last worker was started for, no other start before this time, and the
    /// delay.
    last: Option<(i64, Instant, Duration)>,
}

impl QueueStarter {
    /// Starts a worker if a document is due. Returns when to look again, if nothing wakes the
    /// scheduler before.
    ///
    /// # Errors
    /// The queue cannot be read.
    pub fn start_due(&mut self) -> Result<Option<Duration>, Error> {
        let Some(next) = owner_transaction(document_queue::next)? else {
            self.last = None;
            return owner_transaction(document_queue::until_next);
        };
        if !transaction(|| Ok(Lock::document_queue().is_free()))? {
            return Ok(Some(BUSY_DELAY));
        }
        let last = self.last.filter(|(id, ..)| *id == next.id);
        let left = last.map(|(_, until, _)| until.saturating_duration_since(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Ok(Some(left));
        }
        let delay = START_DELAYS.after(last.map(|(.., delay)| delay));
        self.last = Some((next.id, Instant::now() + delay, delay));
        if worker::start(worker::document_queue()).is_none() {
            return Ok(Some(NO_WORKER_DELAY));
        }
        Ok(Some(delay))
    }
}

worker_main!(rag_document_queue_main, main);

fn main() {
    let Ok(database) = BackgroundWorker::get_extra().parse::<u32>() else {
        return;
    };
    process::end_on_sigterm();
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    if !shared::enter(WorkerKind::Runner) || !try_lock() {
        return;
    }
    let lock_timeout = settings::lock_timeout().as_millis().to_string();
    guc::set_setting(c"lock_timeout", &lock_timeout);
    process::report_activity("rag: indexing queued documents");
    if let Err(error) = roll_back_rest(work) {
        pgrx::log!("rag: queued documents could not be indexed: {error}");
    } else if !shared::is_present() && is_due() {
        Lock::document_queue().release();
        news::start_document_queue();
    }
}

/// Ensures that the database has one worker. Another one may be about to leave.
fn try_lock() -> bool {
    for _ in 0..LOCK_RETRIES {
        if transaction(|| Ok(Lock::document_queue().try_acquire())).unwrap_or(false) {
            return true;
        }
        if !is_due() {
            return false;
        }
        sleep(LOCK_RETRY_INTERVAL);
    }
    false
}

fn is_due() -> bool {
    owner_transaction(document_queue::next).is_ok_and(|next| next.is_some())
}

fn work() -> Result<(), Error> {
    let Some(role) = queue::next_role()? else {
        return Ok(());
    };
    transaction(|| {
        process::become_session_user(role);
        Ok(())
    })?;
    while queue::index_some()? {}
    Ok(())
}
