//! The worker that carries out one run of a source, or checks one for drift.
//!
//! A scheduler or a session starts it ([`crate::run::process::start`]). It acquires the source's
//! lock, which prevents a second run, and one of the slots that `rag.max_running_syncs` allows. It
//! marks the run as Running. `rag-engine ingest` reads the source, `rag-engine embed` computes the
//! embeddings that are not stored yet ([`pipeline`]), and the runner writes each document in a
//! transaction of its own. At the end it stores how the run ended. It holds nothing open while it
//! waits for the engine.
//!
//! SIGINT cancels the run, which is then Failed. SIGTERM ends the process at once. Then the
//! scheduler, a session that waits for the run, or the source's next run marks it as Failed.

use std::time::{Duration, Instant};

use pgrx::{PgSqlErrorCode, bgworkers::BackgroundWorker, pg_sys};

use crate::{
    catalog::{
        name::Name,
        runs,
        sources::{self, Source},
    },
    cluster::{
        self,
        lock::Lock,
        news,
        shared::{self, WorkerKind},
        slots::{self, RunnerSlot},
    },
    drift,
    error::{Cause, Error},
    pg::{
        calls::worker_main,
        compat, guc, process, roles,
        spi::{as_owner, owner_transaction},
        transaction::{roll_back_rest, transaction, with_latest_snapshot},
        wait::sleep,
    },
    run::{
        end::{self, EndCause, RunEnd},
        process::Task,
        start::start,
    },
    settings,
    sync::{pipeline, report::Report},
};

/// Longest wait for a locked row of a source, to begin a run; and to store how it ended before the
/// slot is released to others. Later attempts have this interval.
const MAX_WAIT_FOR_ROW: Duration = Duration::from_secs(2);
/// Interval between attempts to write while a source's row is locked.
const ROW_RETRY_INTERVAL: Duration = Duration::from_millis(20);

worker_main!(rag_runner_main, main);

fn main() {
    let extra = BackgroundWorker::get_extra();
    let mut words = extra.splitn(4, ' ');
    let (Some(database), Some(task), Some(ticket), Some(name)) = (
        words.next().and_then(|w| w.parse::<u32>().ok()),
        words.next().and_then(Task::decode),
        words.next().and_then(|w| w.parse::<u64>().ok()),
        words.next(),
    ) else {
        pgrx::warning!("rag: a runner was started without a run");
        return;
    };
    // the handler of SIGINT, which cancels, is set already
    process::end_on_sigterm();
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    if !shared::enter(WorkerKind::Runner) {
        return;
    }
    news::suppress();
    // a session that holds a lock for long must not keep this slot from others
    let lock_timeout = settings::lock_timeout().as_millis().to_string();
    guc::set_setting(c"lock_timeout", &lock_timeout);
    let carried_out = match owner_transaction(|owner| sources::by_short_name(owner, name)) {
        Ok(None) => return,
        Ok(Some(name)) => carry_out(task, ticket, &name),
        Err(error) => Err(error),
    };
    if let Err(error) = carried_out {
        pgrx::log!("rag: {task:?} of source \"{name}\" could not be carried out: {error}");
    }
}

/// Carries out the task. Errors are those that could not be stored in the run's row.
fn carry_out(task: Task, ticket: u64, name: &Name) -> Result<(), Error> {
    match task {
        Task::Run(run_id) => match try_acquire(name, ticket) {
            Err(error) if error.cause().is_in_input() => {
                transaction(|| end::fail_unreadable(run_id, name.as_str(), &error))?;
                Err(error)
            }
            acquired => run(run_id, acquired?, false),
        },
        Task::NewRun(run_id) => run(run_id, try_acquire(name, ticket)?, true),
        Task::Check => match try_acquire(name, ticket)? {
            Some((source, _slot)) => check(&source),
            None => Ok(()),
        },
        Task::EndLostRuns => when_unlocked(|| end::end_lost_runs_if_idle(name)).map(drop),
    }
}

/// A source whose lock this process holds, and its slot.
type Acquired = (Source, RunnerSlot);

/// Takes a slot and the source's lock. Returns `None` if the source is busy, is being dropped or
/// was dropped, or no slot is free. The process that started the runner notices that nothing has
/// begun.
fn try_acquire(name: &Name, ticket: u64) -> Result<Option<Acquired>, Error> {
    transaction(|| {
        // the slot first: without one the source must not look busy
        let Some(slot) = slots::adopt(ticket) else {
            return Ok(None);
        };
        if !Lock::source_being_dropped(name).is_free() || !Lock::source_busy(name).try_acquire() {
            return Ok(None);
        }
        let source = with_latest_snapshot(|| Source::find(name.as_str()))?;
        Ok(source.map(|source| (source, slot)))
    })
}

/// Runs `f` in a transaction, and again while the source's row is locked, for
/// [`MAX_WAIT_FOR_ROW`].
fn when_unlocked<R>(f: impl Fn() -> Result<R, Error>) -> Result<R, Error> {
    let began = Instant::now();
    loop {
        match transaction(&f) {
            Err(error) if error.is(Cause::Locked) && began.elapsed() < MAX_WAIT_FOR_ROW => {
                sleep(ROW_RETRY_INTERVAL);
            }
            result => return result,
        }
    }
}

/// Gives the process the rights of the source's owner, for statements that do not set others.
fn become_owner(source: &Source) -> Result<(), Error> {
    transaction(|| {
        if let Ok(owner) = source.owner.role() {
            process::become_session_user(owner);
        }
        Ok(())
    })
}

/// Returns the time limit of a run: the source's timeout, and at most `rag.max_timeout` unless its
/// owner is a superuser. Must be called in a transaction.
fn time_limit(source: &Source) -> Duration {
    if roles::is_superuser(source.owner.id) {
        source.timeout
    } else {
        source.timeout.min(settings::max_timeout())
    }
}

/// Lets nothing cancel the process from here on, so that the end of the run can be stored.
fn ignore_cancels() {
    compat::stop_statement_timeout();
    process::ignore_cancels();
}

// -- checks

/// Checks a source for drift. A check that fails is logged, and counts as carried out for the next
/// one. If its outcome cannot be stored because the source's row is locked, the scheduler starts
/// another check later.
fn check(source: &Source) -> Result<(), Error> {
    if source.suspend {
        return Ok(());
    }
    process::report_activity(&format!("rag: checking {} for drift", source.name));
    become_owner(source)?;
    compat::start_statement_timeout(transaction(|| Ok(time_limit(source)))?);
    let name = source.name.as_str();
    let outcome = transaction(|| {
        let findings = drift::compare(source)?;
        as_owner(|owner| sources::lock_at_once(owner, name))?;
        match with_latest_snapshot(|| source.reload())? {
            Some(source) => {
                drift::record_findings(&source, &findings, cluster::are_scheduling()).map(drop)
            }
            None => Ok(()),
        }
    });
    ignore_cancels();
    let error = match outcome {
        Err(error) if !error.is(Cause::Locked) && !slots::must_give_way() => error,
        Err(error) => {
            pgrx::debug1!("rag: findings of the check of source \"{name}\" not stored: {error}");
            return Ok(());
        }
        Ok(()) => return Ok(()),
    };
    let recorded = owner_transaction(|owner| {
        if sources::lock_at_once(owner, name)? {
            drift::record_failure(source, &error)
        } else {
            Ok(())
        }
    });
    match recorded {
        Err(locked) if !locked.is(Cause::Locked) => Err(locked),
        _ => Err(error),
    }
}

// -- runs

/// What has interrupted a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    /// The time limit.
    Timeout,
    /// Another run gets the slot.
    GivesWay,
    /// The source is being dropped.
    SourceDropped,
    /// A cancel.
    Cancel,
}

/// Begins a run. Returns its source, time limit and report. All of them are read before the
/// transaction ends, because a cancel that stops the process after it would leave the run without
/// an end.
fn begin(
    run_id: i64,
    source: &Source,
    is_new: bool,
) -> Result<Option<(Source, Duration, Report)>, Error> {
    let Some(source) = start(run_id, source, is_new)? else {
        return Ok(None);
    };
    let (limit, report) = (time_limit(&source), Report::new(run_id, &source)?);
    Ok(Some((source, limit, report)))
}

fn run(run_id: i64, acquired: Option<Acquired>, is_new: bool) -> Result<(), Error> {
    let Some((source, slot)) = acquired else {
        return Ok(());
    };
    process::report_activity(&format!("rag: syncing {}", source.name));
    let (source, limit, mut report) = match when_unlocked(|| begin(run_id, &source, is_new)) {
        Ok(Some(begun)) => begun,
        Ok(None) => return Ok(()),
        Err(error) if error.is(Cause::Locked) => {
            pgrx::debug1!("rag: run {run_id} has not begun: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let (source, started) = (&source, Instant::now());
    compat::start_statement_timeout(limit);
    // what cancels the process from here on is the outcome of the run
    let outcome = roll_back_rest(|| {
        become_owner(source)?;
        pipeline::execute(source, &mut report)
    });
    let drift = compare_again(source, &outcome);
    ignore_cancels();

    let interrupt = match &outcome {
        Err(error) if error.is(Cause::Cancelled) => {
            Some(interrupt(source, started.elapsed() >= limit))
        }
        _ => None,
    };
    if interrupt == Some(Interrupt::GivesWay) {
        return store_end(slot, &source.name, || {
            report.write()?;
            end::requeue(run_id, source)
        });
    }
    let outcome = outcome.map_err(|error| explain(error, interrupt, source, limit));
    if interrupt.is_some() && is_being_dropped(source) {
        // in a transaction of its own, before the run's end becomes known
        owner_transaction(|owner| sources::announce_drop(owner, source.name.as_str()))?;
    }
    let cause = match interrupt {
        Some(Interrupt::Cancel) => EndCause::Cancelled,
        _ => EndCause::Finished,
    };
    store_end(slot, &source.name, || {
        report.write()?;
        end::finish(RunEnd {
            run_id,
            generation: source.generation,
            source,
            outcome: outcome.as_ref().map(drop),
            cause,
            commit: report.commit.as_deref(),
            complete: report.complete,
            note: report.note.as_deref(),
            failed: report.counts.failed,
            with_warnings: report.counts.with_warnings,
            drift: drift.as_ref(),
        })
    })
}

/// Returns what has interrupted a run that was cancelled.
fn interrupt(source: &Source, is_timed_out: bool) -> Interrupt {
    if is_timed_out {
        return Interrupt::Timeout;
    }
    if slots::must_give_way() {
        return Interrupt::GivesWay;
    }
    if is_being_dropped(source) {
        Interrupt::SourceDropped
    } else {
        Interrupt::Cancel
    }
}

fn is_being_dropped(source: &Source) -> bool {
    transaction(|| Ok(!Lock::source_being_dropped(&source.name).is_free())).unwrap_or(false)
}

/// Returns the error with which a run fails.
fn explain(error: Error, interrupt: Option<Interrupt>, source: &Source, limit: Duration) -> Error {
    match interrupt {
        Some(Interrupt::Timeout) => {
            let seconds = limit.as_secs();
            let message = if limit < source.timeout {
                format!("the run took longer than rag.max_timeout ({seconds} s)")
            } else {
                format!("the run took longer than the source's timeout of {seconds} s")
            };
            error.message(message).hint(
                "The documents that it has stored stay. Raise the source's timeout, or sync again \
                 for the rest.",
            )
        }
        // if the source is not dropped in the end, the run is retried
        Some(Interrupt::SourceDropped) => {
            Error::new(PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN, runs::STOPPED)
        }
        Some(Interrupt::Cancel | Interrupt::GivesWay) => error.message("the run was cancelled"),
        None if error.is(Cause::Locked) => error
            .message(format!(
                "the run waited for a lock for longer than rag.lock_timeout, {} ms",
                settings::lock_timeout().as_millis()
            ))
            .hint(
                "Another session has locked a table or row. End its transaction, or raise \
                 rag.lock_timeout.",
            ),
        None => error,
    }
}

/// Compares the documents again if drift was found before the run, within the run's time limit. If
/// that fails, the next check does it.
fn compare_again(source: &Source, outcome: &Result<(), Error>) -> Option<drift::DriftFindings> {
    if outcome
        .as_ref()
        .is_err_and(|error| error.is(Cause::Cancelled))
    {
        return None;
    }
    transaction(|| {
        if as_owner(|owner| drift::was_found(owner, source))? {
            drift::compare(source).map(Some)
        } else {
            Ok(None)
        }
    })
    .unwrap_or_else(|error| {
        pgrx::debug1!(
            "rag: drifted documents of source \"{}\" were not compared again: {error}",
            source.name
        );
        None
    })
}

/// Stores how a run ended, and tries again while the source's row is locked. It gives up if a
/// session waits for this process to end in order to drop the source: another process corrects the
/// run's row then.
fn store_end(
    slot: RunnerSlot,
    source: &Name,
    f: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let (began, mut slot) = (Instant::now(), Some(slot));
    loop {
        match transaction(&f) {
            Err(error)
                if error.is(Cause::Locked)
                    && transaction(|| Ok(Lock::source_being_dropped(source).is_free()))? => {}
            result => return result,
        }
        if began.elapsed() >= MAX_WAIT_FOR_ROW
            && let Some(slot) = slot.take()
        {
            slot.release();
        }
        sleep(if slot.is_some() {
            ROW_RETRY_INTERVAL
        } else {
            MAX_WAIT_FOR_ROW
        });
    }
}
