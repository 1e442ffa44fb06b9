//! How a session waits for a run: it reports progress, looks for deadlocks, and notices a run whose
//! process was lost.

use std::time::{Duration, Instant};

use super::{check_end_can_be_stored, end_lost_runs};
use crate::{
    catalog::{
        name::Name,
        runs::{self, Phase, RunStatus},
        sources,
    },
    cluster::{backoff::Backoff, lock::Lock, shared},
    error::{Cause, Error},
    pg::{
        lock::is_blocked_by_me,
        spi::{OwnerRights, as_owner},
        transaction::read_without_keeping_locks,
        wait::sleep,
    },
};

/// Intervals between progress reports. They are short at first, when people watch.
const FIRST_REPORT_INTERVAL: Duration = Duration::from_secs(2);
const LONGEST_REPORT_INTERVAL: Duration = Duration::from_secs(20);
/// Interval between reads of the status of a run of another process, which does not wake the
/// session.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The interval for what takes only moments.
pub(super) const SHORT_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Intervals between reads of the status of a run that may end soon.
const STATUS_POLLS: Backoff = Backoff::new(Duration::from_millis(10), POLL_INTERVAL);
/// Intervals between checks of whether a source is still busy.
const BUSY_POLLS: Backoff = Backoff::new(SHORT_POLL_INTERVAL, POLL_INTERVAL);
/// Interval between checks for deadlocks.
const DEADLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for a drift check, or for a run that is just beginning or ending, of a caller that
/// must not wait forever. The other process may itself wait for this transaction.
pub const MAX_WAIT_FOR_CHECK: Duration = Duration::from_secs(5);
/// Number of processes that try to store how a lost run ended before the waiting session reports
/// that none can.
const MAX_END_ATTEMPTS: u32 = 5;

/// Reports the progress of a run from time to time.
pub(super) struct ProgressReporter<F> {
    pub(super) report: F,
    reported: Instant,
    interval: Duration,
}

impl<F: FnMut(&RunStatus)> ProgressReporter<F> {
    pub(super) fn new(report: F) -> Self {
        Self {
            report,
            reported: Instant::now(),
            interval: FIRST_REPORT_INTERVAL,
        }
    }

    /// Reports if the interval has passed.
    pub(super) fn tick(&mut self, run_id: i64) -> Result<(), Error> {
        if self.reported.elapsed() >= self.interval {
            self.reported = Instant::now();
            self.interval = (self.interval * 3 / 2).min(LONGEST_REPORT_INTERVAL);
            if let Some(status) = read_now(|owner| runs::status(owner, run_id))? {
                (self.report)(&status);
            }
        }
        Ok(())
    }
}

/// Detects that the process that this session waits for waits itself for this session: for a lock
/// that the transaction acquired before, or for another process that waits for such a lock. The
/// server's deadlock detection knows nothing of a session that sleeps.
pub(super) struct DeadlockCheck {
    checked: Instant,
}

impl DeadlockCheck {
    pub(super) fn new() -> Self {
        Self {
            checked: Instant::now(),
        }
    }

    fn is_due(&self) -> bool {
        self.checked.elapsed() >= DEADLOCK_CHECK_INTERVAL
    }

    /// # Errors
    /// `process` waits for this session.
    pub(super) fn check(&mut self, process: Option<i32>) -> Result<(), Error> {
        let Some(process) = process.filter(|_| self.is_due()) else {
            return Ok(());
        };
        self.checked = Instant::now();
        if !is_blocked_by_me(process)? {
            return Ok(());
        }
        Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_T_R_DEADLOCK_DETECTED,
            "deadlock detected between this transaction and the run that it waits for",
        )
        .detail(
            "The process of the run waits for a lock that this transaction holds, or for a \
             process that waits for this transaction.",
        )
        .hint("COMMIT before syncing the source, or try again."))
    }
}

/// Reads what has been committed by now, as the extension's owner.
///
/// # Errors
/// It cannot be read, because the extension was dropped, for example.
pub(super) fn read_now<R>(f: impl FnOnce(&OwnerRights) -> Result<R, Error>) -> Result<R, Error> {
    use pgrx::PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
    if shared::is_being_evicted() {
        return Err(Error::new(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "another session needs the database without running syncs",
        )
        .detail(
            "The runs are cancelled because that session drops the extension, or alters or \
             copies the database.",
        ));
    }
    read_without_keeping_locks(|| as_owner(f)).map_err(|error| match error.cause() {
        Cause::Table => Error::new(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "extension rag was dropped while the session waited for a run",
        ),
        _ => error,
    })
}

/// Waits until a run has ended, or until `timeout` has passed. Returns its status, or `None` if
/// there is no such run (any more).
///
/// # Errors
/// The status cannot be read, or the run has ended and no process can store that.
pub fn wait_for(
    run_id: i64,
    timeout: Option<Duration>,
    report: impl FnMut(&RunStatus),
) -> Result<Option<RunStatus>, Error> {
    let (mut progress, mut deadlocks) = (ProgressReporter::new(report), DeadlockCheck::new());
    let (began, mut interval, mut end_attempts) = (Instant::now(), None, 0);
    loop {
        let Some(status) = read_now(|owner| runs::status(owner, run_id))? else {
            return Ok(None);
        };
        let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        if status.has_ended() || left == Some(Duration::ZERO) {
            return Ok(Some(status));
        }
        if status.phase == Phase::Running {
            let source = Name::source(&status.source)?;
            if deadlocks.is_due() {
                let process = read_now(|owner| sources::runner_pid(owner, &source))?;
                deadlocks.check(process)?;
            }
            if Lock::source_busy(&source).is_free() {
                match read_after_lock(run_id, &source, &mut end_attempts)? {
                    Some(status) if !status.has_ended() => {}
                    ended => return Ok(ended),
                }
            }
        }
        let next = STATUS_POLLS.after(interval);
        interval = Some(next);
        sleep(left.map_or(next, |left| left.min(next)));
        progress.tick(run_id)?;
    }
}

/// Reads the status of a Running run whose process has released the source's lock. If the run has
/// not ended, its process was lost, and another process ends it.
fn read_after_lock(
    run_id: i64,
    source: &Name,
    end_attempts: &mut u32,
) -> Result<Option<RunStatus>, Error> {
    // a run stores how it ended before it releases the lock
    let status = read_now(|owner| runs::status(owner, run_id))?;
    if status.as_ref().is_none_or(RunStatus::has_ended) {
        return Ok(status);
    }
    end_lost_runs(source)?;
    *end_attempts += 1;
    let status = read_now(|owner| runs::status(owner, run_id))?;
    if status.as_ref().is_some_and(|status| !status.has_ended())
        && *end_attempts >= MAX_END_ATTEMPTS
    {
        check_end_can_be_stored(source)?;
    }
    Ok(status)
}

/// Waits while a source is busy without a run in progress: with a drift check, or a run that is
/// just beginning or ending. Waits no longer than `timeout`.
pub fn wait_while_checked(source: &Name, timeout: Option<Duration>) -> Result<(), Error> {
    let (began, mut interval) = (Instant::now(), None);
    while !Lock::source_busy(source).is_free()
        && read_now(|owner| runs::active(owner, source.as_str()))?
            .is_none_or(|run| run.is_pending())
        && timeout.is_none_or(|timeout| began.elapsed() < timeout)
    {
        let next = BUSY_POLLS.after(interval);
        interval = Some(next);
        sleep(next);
    }
    Ok(())
}
