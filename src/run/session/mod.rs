//! Runs that sessions start, wait for and cancel.
//!
//! [`wait`] holds what a session does while it waits, [`turn`] how it gets a slot and a worker.

pub mod knowledge;
mod turn;
mod wait;

use std::{cell::RefCell, time::Duration};

use pgrx::bgworkers::BackgroundWorkerStatus;

use super::{
    end,
    process::{DynamicBackgroundWorker, Task, has_ended, source_dropped, start},
};
use crate::{
    catalog::{
        name::Name,
        runs::{self, Phase, RunStatus, Trigger},
        sources::{self, Source},
    },
    cluster::{
        lock::{self, Lock},
        slots,
    },
    error::{Cause, Error},
    pg::{
        process::{before_exit, signal},
        spi::as_owner,
        transaction::snapshot_is_fixed,
        wait::sleep,
    },
};

use self::{
    turn::{wait_for_slot, wait_for_worker},
    wait::{DeadlockCheck, ProgressReporter, SHORT_POLL_INTERVAL, read_now},
};

pub use self::wait::{MAX_WAIT_FOR_CHECK, wait_for, wait_while_checked};

/// Attempts to begin a run, over some ten seconds.
const MAX_ATTEMPTS: u32 = 30;
/// Attempts to begin a run without waiting for a slot, over 0.2 seconds.
const MAX_ATTEMPTS_TO_BEGIN: u32 = 4;
/// Interval between checks of a runner whose start and end wake the session anyway.
const RUNNER_POLL_INTERVAL: Duration = Duration::from_millis(500);

thread_local! {
    /// The runner that the session waits for.
    static WAITED_FOR: RefCell<Option<DynamicBackgroundWorker>> = const { RefCell::new(None) };
}

/// Cancels the run when the session stops waiting for it, after Ctrl-C or a timeout. It also does
/// so when the session ends, which does not unwind ([`before_exit`]).
struct CancelOnDrop;

impl CancelOnDrop {
    fn of(worker: DynamicBackgroundWorker) -> Self {
        before_exit(|| drop(CancelOnDrop));
        WAITED_FOR.set(Some(worker));
        Self
    }

    fn pid(&self) -> Option<i32> {
        WAITED_FOR.with_borrow(|worker| worker.as_ref()?.pid().ok())
    }

    fn has_ended(&self) -> bool {
        WAITED_FOR.with_borrow(|worker| worker.as_ref().is_none_or(has_ended))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(worker) = WAITED_FOR.take() else {
            return;
        };
        match worker.pid() {
            Ok(pid) => signal(pid, libc::SIGINT),
            // it would begin in a moment
            Err(BackgroundWorkerStatus::NotYetStarted) => {
                worker.terminate();
            }
            Err(_) => {}
        }
    }
}

/// A run that a session wants carried out.
#[derive(Debug, Clone, Copy)]
pub enum RequestedRun {
    /// A run that is queued.
    Queued(i64),
    /// A new run of this id, which is not queued.
    New(i64),
}

impl RequestedRun {
    fn id(self) -> i64 {
        let (Self::Queued(id) | Self::New(id)) = self;
        id
    }

    fn task(self) -> Task {
        match self {
            Self::Queued(id) => Task::Run(id),
            Self::New(id) => Task::NewRun(id),
        }
    }
}

/// What follows an attempt to carry out a run.
enum NextStep {
    /// The run has ended.
    Return(Box<RunStatus>),
    /// Another process carries out the run.
    WaitForOther,
    /// Request this run at once.
    Request(RequestedRun),
    /// Request this run when the source is no longer busy.
    RequestWhenFree(RequestedRun),
    /// Request this run after a short sleep.
    RequestLater(RequestedRun),
}

/// Carries out a run of a source by a runner of this session, and waits for a slot first if none is
/// free. Returns the id of the run and its status. The id is that of another run if one was queued
/// meanwhile. Calls `report` from time to time with the progress.
///
/// # Errors
/// Another run of the source is in progress, the source was dropped, or the run cannot begin.
pub fn run(
    source: &Name,
    requested: RequestedRun,
    report: impl FnMut(&RunStatus),
) -> Result<(i64, RunStatus), Error> {
    let (mut progress, mut deadlocks) = (ProgressReporter::new(report), DeadlockCheck::new());
    let (mut requested, mut attempts) = (requested, 0);
    loop {
        let run_id = requested.id();
        carry_out(source, requested, &mut progress, &mut deadlocks)?;
        match next_step(source, requested)? {
            NextStep::Return(status) => return Ok((run_id, *status)),
            NextStep::WaitForOther => {
                let status = wait_for_other(source, run_id, progress)?;
                return Ok((run_id, status));
            }
            NextStep::Request(other) => requested = other,
            NextStep::RequestWhenFree(other) => {
                requested = other;
                wait_while_checked(source, None)?;
            }
            NextStep::RequestLater(other) => {
                requested = other;
                attempts += 1;
                if attempts == MAX_ATTEMPTS {
                    return Err(cannot_begin(source).hint(
                        "Another session may have changed the source without committing. \
                         Otherwise the server's log shows the reason.",
                    ));
                }
                sleep(SHORT_POLL_INTERVAL * attempts);
            }
        }
    }
}

/// Starts a runner for the run and waits until it ends. Does nothing if another process has begun
/// the run.
fn carry_out<F: FnMut(&RunStatus)>(
    source: &Name,
    requested: RequestedRun,
    progress: &mut ProgressReporter<F>,
    deadlocks: &mut DeadlockCheck,
) -> Result<(), Error> {
    let run_id = requested.id();
    if has_begun(run_id)? {
        return Ok(());
    }
    let Some(turn) = wait_for_slot(source, run_id)? else {
        return Ok(());
    };
    let Some(worker) = wait_for_worker(source, requested, &turn)? else {
        return Ok(());
    };
    let worker = CancelOnDrop::of(worker);
    // until the runner has adopted the slot
    while !worker.has_ended() && !has_begun(run_id)? {
        sleep(SHORT_POLL_INTERVAL);
        deadlocks.check(worker.pid())?;
    }
    drop(turn);
    while !worker.has_ended() {
        // the postmaster sets this session's latch when the runner starts or ends
        sleep(RUNNER_POLL_INTERVAL);
        progress.tick(run_id)?;
        deadlocks.check(worker.pid())?;
    }
    Ok(())
}

/// Decides what to do after an attempt to carry out a run.
///
/// # Errors
/// The source was dropped or is being dropped, the run has vanished, or another manual run is in
/// progress.
fn next_step(source: &Name, requested: RequestedRun) -> Result<NextStep, Error> {
    let status = read_now(|owner| runs::status(owner, requested.id()))?;
    let status = match status {
        Some(status) if status.has_ended() => return Ok(NextStep::Return(Box::new(status))),
        status => status,
    };
    check_exists(source)?;
    lock::check_not_being_dropped(source)?;
    match (status.map(|status| status.phase), requested) {
        // the scheduler began the queued run first, or the run's process was lost
        (Some(Phase::Running), _) => return Ok(NextStep::WaitForOther),
        // it was cancelled before it began, and its row was deleted since
        (None, RequestedRun::Queued(_)) => return Err(vanished()),
        _ => {}
    }
    let is_free = Lock::source_busy(source).is_free();
    let requested = match read_now(|owner| runs::active(owner, source.as_str()))? {
        Some(run) if run.is_pending() => RequestedRun::Queued(run.run_id),
        Some(run) if !is_free && run.trigger == Trigger::Manual => {
            return Err(busy_error(source, Some(run.run_id)));
        }
        // a run that the scheduler has begun since does what was requested
        Some(run) if !is_free => return Ok(NextStep::Request(RequestedRun::Queued(run.run_id))),
        _ => requested,
    };
    Ok(if is_free {
        // the scheduler is about to begin the queued run, another process was quicker to take the
        // last slot or the lock, or the source's row is locked
        NextStep::RequestLater(requested)
    } else {
        NextStep::RequestWhenFree(requested)
    })
}

/// Waits for a run that another process carries out.
fn wait_for_other<F: FnMut(&RunStatus)>(
    source: &Name,
    run_id: i64,
    progress: ProgressReporter<F>,
) -> Result<RunStatus, Error> {
    match wait_for(run_id, None, progress.report)? {
        Some(status) => Ok(status),
        None => {
            check_exists(source)?;
            Err(vanished())
        }
    }
}

/// Starts a runner, and waits until the run has begun. The session does not wait for its end.
///
/// # Errors
/// It has not begun: another run is in progress, no slot or worker is free, or the source's row is
/// locked.
pub fn begin(source: &Name, requested: RequestedRun) -> Result<i64, Error> {
    let (run_id, mut deadlocks) = (requested.id(), DeadlockCheck::new());
    for attempt in 1..=MAX_ATTEMPTS_TO_BEGIN {
        let Some(claim) = slots::claim(0, true, 0) else {
            slots::withdraw();
            return Err(no_free_slot());
        };
        let worker = start(source, requested.task(), Some(&claim))?;
        // with a fixed snapshot the session cannot see what others do
        if snapshot_is_fixed() {
            while !claim.is_adopted() && !has_ended(&worker) {
                sleep(SHORT_POLL_INTERVAL);
            }
            return Ok(run_id);
        }
        loop {
            let has_ended = has_ended(&worker);
            if has_begun(run_id)? {
                return Ok(run_id);
            }
            if has_ended {
                break;
            }
            sleep(SHORT_POLL_INTERVAL);
            deadlocks.check(worker.pid().ok())?;
        }
        if !Lock::source_busy(source).is_free() {
            let active = read_now(|owner| runs::active(owner, source.as_str()))?;
            return Err(busy_error(source, active.map(|run| run.run_id)));
        }
        // the obstacle may be gone by now: the last slot was taken
        sleep(SHORT_POLL_INTERVAL * attempt);
    }
    Err(cannot_begin(source).hint(
        "Another session may have changed the source without committing. Try again in a moment.",
    ))
}

fn has_begun(run_id: i64) -> Result<bool, Error> {
    Ok(read_now(|owner| runs::status(owner, run_id))?
        .is_some_and(|status| status.phase != Phase::Pending))
}

/// Starts a process that ends the runs whose process was lost, unless the source's row is locked.
/// The session cannot do it itself: the error that it will raise undoes what it has done.
fn end_lost_runs(source: &Name) -> Result<(), Error> {
    let worker = start(source, Task::EndLostRuns, None)?;
    let mut deadlocks = DeadlockCheck::new();
    while !has_ended(&worker) {
        sleep(Duration::from_millis(100));
        deadlocks.check(worker.pid().ok())?;
    }
    Ok(())
}

/// # Errors
/// What keeps processes from storing that a run has ended, a full disk for example. A locked row is
/// no error, as the lock will be released.
fn check_end_can_be_stored(source: &Name) -> Result<(), Error> {
    match read_now(|_| end::end_lost_runs_if_idle(source)) {
        Err(error) if !error.is(Cause::Locked) => {
            let message = format!(
                "could not store how the run of source \"{source}\" ended: {}",
                error.message
            );
            Err(error.message(message).hint(
                "The run has ended, and the documents that it stored stay. Fix the cause, then \
                 sync again.",
            ))
        }
        _ => Ok(()),
    }
}

/// Asks the process that is working on a source to stop. Returns true if there was one.
pub fn cancel(source: &Name) -> Result<bool, Error> {
    let process = as_owner(|owner| sources::runner_pid(owner, source))?;
    if let Some(pid) = process {
        signal(pid, libc::SIGINT);
    }
    Ok(process.is_some())
}

// -- errors

/// # Errors
/// The source was dropped.
fn check_exists(source: &Name) -> Result<(), Error> {
    match read_now(|_| Source::find(source.as_str()))? {
        Some(_) => Ok(()),
        None => Err(source_dropped(source)),
    }
}

fn vanished() -> Error {
    Error::internal("the run's row has vanished")
}

fn cannot_begin(source: &Name) -> Error {
    Error::in_use(format!("a run of source \"{source}\" could not begin"))
}

/// Returns the error for a session that does not wait for a slot.
pub fn no_free_slot() -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        "too many runs in progress",
    )
    .detail(format!(
        "The setting rag.max_running_syncs is {}.",
        crate::settings::max_running_syncs()
    ))
    .hint(
        "Wait for one of the runs, or add rag to shared_preload_libraries, so that runs are \
         queued.",
    )
}

/// Returns the error for a source that is busy: with the run `run_id`, or else with something that
/// [`wait_while_checked`] waits for.
pub fn busy_error(source: &Name, run_id: Option<i64>) -> Error {
    let hint = match run_id {
        Some(run_id) => format!(
            "The view rag.progress shows the progress. SELECT rag_wait({run_id}) waits for the run."
        ),
        None => "The source is being checked for drift, or a run is just beginning or ending. \
                 Try again in a moment."
            .to_string(),
    };
    Error::in_use(format!(
        "source \"{source}\" is being synced by another session"
    ))
    .hint(hint)
}
