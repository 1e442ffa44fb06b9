//! The worker that executes one run of a source, or checks one for drift.
//!
//! A scheduler or a session starts it ([`start`]; [`session`] is how sessions do and wait). It
//! takes the source's lock, which no second run of the source can have, and one of the slots that
//! `rag.max_running_syncs` allows; writes the run's row; has `rag-engine ingest` read the source
//! and `rag-engine embed` compute what is not stored yet ([`pipeline`]); writes each document in a
//! transaction of its own; and writes how it ended. Nothing is held open while it waits for the
//! engine. SIGINT cancels the run, which is then Failed; SIGTERM ends the process at once, and the
//! run's row is put right by the scheduler, by whoever waits for it, or by the source's next run.
#![allow(unsafe_code)] // the entry point that the postmaster calls, signals, timeouts

use std::{
    ffi::CString,
    time::{Duration, Instant},
};

use pgrx::{bgworkers::BackgroundWorker, pg_guard, pg_sys};

use crate::{
    catalog::{
        name::Name,
        runs,
        sources::{self, Source},
    },
    cluster::{
        lock::Lock,
        news, shared,
        slots::{self, Taken},
    },
    drift,
    error::Error,
    pg::{process::activity, roles, transaction::transaction, wait::sleep},
    run::{
        end::{self, Cause, Ended},
        process::{Task, is_locked},
        start::start as begin_run,
    },
    settings,
    sync::{pipeline, report},
};

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rag_runner_main(_argument: pg_sys::Datum) {
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
    crate::pg::worker::end_on_sigterm();
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    if !shared::enter(shared::Kind::Runner) {
        return;
    }
    news::tell_nobody();
    limit_waits();
    let carried_out = match transaction(|| sources::by_short_name(name)) {
        Ok(None) => return,
        Ok(Some(name)) => carry_out(task, ticket, &name),
        Err(error) => Err(error),
    };
    if let Err(error) = carried_out {
        pgrx::log!("rag: {task:?} of source \"{name}\" could not be carried out: {error}");
    }
}

unsafe extern "C" {
    // utils/timeout.h, which pgrx leaves out
    fn enable_timeout_after(id: std::ffi::c_int, delay_ms: std::ffi::c_int);
    fn disable_timeout(id: std::ffi::c_int, keep_indicator: bool);
}
const STATEMENT_TIMEOUT: std::ffi::c_int = 3;

/// Cancels the process when the time is up, as `statement_timeout` does it, whatever it is waiting
/// for then.
fn limit_time(timeout: Duration) {
    let milliseconds = timeout
        .as_millis()
        .saturating_add(1)
        .try_into()
        .unwrap_or(i32::MAX);
    // SAFETY: every process that is connected to a database has registered this timeout.
    unsafe { enable_timeout_after(STATEMENT_TIMEOUT, milliseconds) };
}

/// Has statements give up that wait for a lock for longer than `rag.lock_timeout`: whoever holds it
/// must not hold up the slot.
fn limit_waits() {
    let timeout =
        CString::new(settings::lock_timeout().as_millis().to_string()).unwrap_or_default();
    // SAFETY: a setting that everyone may change.
    unsafe {
        pg_sys::SetConfigOption(
            c"lock_timeout".as_ptr(),
            timeout.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        );
    }
}

/// From here on nothing cancels the process, so that how the run ended can be written down.
///
/// The signal is ignored, not held off: a regular expression, as in a CHECK of the source's row,
/// ends with an error as soon as a cancel is pending, held off or not.
fn write_down_undisturbed() {
    // SAFETY: ends what limit_time began; the process does nothing else after what it writes down
    // now.
    unsafe {
        disable_timeout(STATEMENT_TIMEOUT, false);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        // of a cancel that came before
        (&raw mut pg_sys::QueryCancelPending).write_volatile(0);
    }
}

/// Takes a slot and the source's lock. `None`: the source is at work or going, was dropped, or
/// there is no room for a run; whoever started the runner sees that nothing has begun.
fn take(name: &Name, task: Task, ticket: u64) -> Result<Option<(Source, Option<Taken>)>, Error> {
    transaction(|| {
        // the slot first: nobody is told that the source is at work where there is no room for it
        let slot = match task {
            Task::Reap => None,
            _ => match slots::adopt(ticket) {
                None => return Ok(None),
                slot => slot,
            },
        };
        if !Lock::source_going(name).is_free() || !Lock::source_at_work(name).take() {
            return Ok(None);
        }
        Ok(
            crate::pg::snapshot::fresh(|| Source::find(name.as_str()))?
                .map(|source| (source, slot)),
        )
    })
}

/// From here on the process has the rights of the source's owner, where a statement does not say
/// whose it has.
fn become_owner(source: &Source) {
    if let Ok(owner) = source.owner.role() {
        // SAFETY: the process authenticated as a superuser; an existing role.
        unsafe { pg_sys::SetSessionAuthorization(owner, pg_sys::superuser_arg(owner)) };
    }
}

/// Most time of a run: the source's timeout, and where its owner is no superuser `rag.max_timeout`.
fn most_time(source: &Source) -> Result<Duration, Error> {
    transaction(|| match roles::is_superuser(source.owner.id) {
        true => Ok(source.timeout),
        false => Ok(source.timeout.min(settings::max_timeout())),
    })
}

/// The whole of it. An error here is one that could not be written into the run's row.
fn carry_out(task: Task, ticket: u64, name: &Name) -> Result<(), Error> {
    let (source, slot) = match take(name, task, ticket) {
        Ok(Some(taken)) => taken,
        Ok(None) => return Ok(()),
        Err(error) => {
            if let (Task::Run(run_id), true) = (task, is_about_definition(&error)) {
                transaction(|| end::refuse(run_id, name.as_str(), &error))?;
            }
            return Err(error);
        }
    };
    match task {
        Task::Run(run_id) => run(run_id, &source, false, slot),
        Task::NewRun(run_id) => run(run_id, &source, true, slot),
        Task::Check => check(&source),
        Task::Reap => when_unlocked(PATIENCE, || end::abandon(&source)).map(drop),
    }
}

/// Whether a source could not be read for what is in its row.
fn is_about_definition(error: &Error) -> bool {
    crate::pg::sqlstate::sqlstate(error.code).starts_with("22")
}

/// How long a runner tries to begin a run whose source's row someone has locked, and how long it
/// keeps its slot from others when it cannot write down how the run ended.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// Runs `f` in a transaction, once more as long as it fails because someone has the source's row
/// locked, for `patience`.
fn when_unlocked<R>(patience: Duration, f: impl Fn() -> Result<R, Error>) -> Result<R, Error> {
    let began = Instant::now();
    loop {
        match transaction(&f) {
            Err(error) if is_locked(&error) && began.elapsed() < patience => sleep(LOOK),
            result => return result,
        }
    }
}

/// Checks a source for drift. A check that fails is logged, and put off as one that was carried
/// out; one whose outcome cannot be written down, because someone has the source's row locked, is
/// begun anew by the scheduler in a while.
fn check(source: &Source) -> Result<(), Error> {
    if source.suspend {
        return Ok(());
    }
    activity(&format!("rag: checking {} for drift", source.name));
    transaction(|| {
        become_owner(source);
        Ok(())
    })?;
    limit_time(most_time(source)?);
    let name = source.name.as_str();
    let outcome = transaction(|| {
        let findings = drift::look(source)?;
        sources::lock_at_once(name)?;
        match crate::pg::snapshot::fresh(|| source.again())? {
            Some(source) => {
                drift::conclude(&source, &findings, crate::cluster::are_scheduling()).map(drop)
            }
            None => Ok(()),
        }
    });
    write_down_undisturbed();
    let error = match outcome {
        Err(error) if !is_locked(&error) && !slots::gives_way() => error,
        Err(error) => {
            pgrx::debug1!(
                "rag: what the check of source \"{name}\" found is not written down: {error}"
            );
            return Ok(());
        }
        Ok(()) => return Ok(()),
    };
    let noted = transaction(|| match sources::lock_at_once(name)? {
        true => drift::fail(source, &error),
        false => Ok(()),
    });
    match noted {
        Err(locked) if !is_locked(&locked) => Err(locked),
        _ => Err(error),
    }
}

fn run(run_id: i64, source: &Source, is_new: bool, slot: Option<Taken>) -> Result<(), Error> {
    activity(&format!("rag: syncing {}", source.name));
    let source = match when_unlocked(PATIENCE, || begin_run(run_id, source, is_new)) {
        Ok(Some(source)) => source,
        Ok(None) => return Ok(()),
        Err(error) if is_locked(&error) => {
            pgrx::debug1!("rag: run {run_id} has not begun: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let source = &source;

    let (started, timeout) = (Instant::now(), most_time(source)?);
    limit_time(timeout);
    let mut report = report::Report::new(run_id, source);
    let outcome = crate::pg::subtransaction::catch(|| {
        transaction(|| {
            become_owner(source);
            Ok(())
        })?;
        pipeline::execute(source, &mut report)
    });
    // SAFETY: allowed in any state: an ERROR may have come inside or outside of a transaction.
    unsafe { pg_sys::AbortCurrentTransaction() };
    let drift = look_again(source, &outcome);
    write_down_undisturbed();

    let interrupted = matches!(&outcome, Err(error) if error.code == pgrx::PgSqlErrorCode::ERRCODE_QUERY_CANCELED);
    let timed_out = interrupted && started.elapsed() >= timeout;
    if interrupted && !timed_out && slots::gives_way() {
        return write_down(slot, &source.name, || {
            report.write()?;
            end::put_back(run_id, source)
        });
    }
    let is_going = interrupted
        && transaction(|| Ok(!Lock::source_going(&source.name).is_free())).unwrap_or(false);
    let outcome = outcome.map_err(|error| match interrupted {
        true if timed_out => Error {
            message: match timeout < source.timeout {
                true => format!("the run took longer than rag.max_timeout allows, {} s", timeout.as_secs()),
                false => format!("the run took longer than the source's timeout of {} s", timeout.as_secs()),
            },
            ..error
        }
        .hint("Documents that it had stored stay. Raise the source's timeout, or sync again for the rest."),
        // should it not be dropped in the end, the run is tried again
        true if is_going => {
            Error { code: pgrx::PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN, message: runs::STOPPED.into(), ..error }
        }
        true => Error { message: "the run was cancelled".into(), ..error },
        false if is_locked(&error) => Error {
            message: format!(
                "the run waited for a lock for longer than rag.lock_timeout, {} ms",
                settings::lock_timeout().as_millis()
            ),
            ..error
        }
        .hint("Another session has a table or row locked: end its transaction, or raise rag.lock_timeout."),
        false => error,
    });
    if is_going {
        // in a transaction of its own, before the run's end is heard of
        transaction(|| sources::announce_going(source.name.as_str()))?;
    }
    write_down(slot, &source.name, || {
        report.write()?;
        end::finish(Ended {
            run_id,
            generation: source.generation,
            source,
            outcome: outcome.as_ref().map(drop),
            cause: if interrupted && !timed_out && !is_going {
                Cause::Cancelled
            } else {
                Cause::Itself
            },
            commit: report.commit.as_deref(),
            complete: report.complete,
            note: report.note.as_deref(),
            failed: report.counts.failed,
            with_warnings: report.counts.with_warnings,
            drift: drift.as_ref(),
        })
    })
}

/// Looks at what had drifted before the run once more, where drift had been found, within the run's
/// time. What cannot be looked at now is for the next check.
fn look_again(source: &Source, outcome: &Result<(), Error>) -> Option<drift::Findings> {
    if matches!(outcome, Err(error) if error.code == pgrx::PgSqlErrorCode::ERRCODE_QUERY_CANCELED) {
        return None;
    }
    transaction(|| match drift::was_found(source)? {
        true => drift::look(source).map(Some),
        false => Ok(None),
    })
    .unwrap_or_else(|error| {
        pgrx::debug1!(
            "rag: what drifted of source \"{}\" was not looked at again: {error}",
            source.name
        );
        None
    })
}

/// Writes down how a run ended. As long as someone has the source's row locked that has to wait; a
/// session that waits for this process to leave, to drop the source, is given way: the run's row is
/// put right without it.
fn write_down(
    slot: Option<Taken>,
    source: &Name,
    f: impl Fn() -> Result<(), Error>,
) -> Result<(), Error> {
    let (began, mut slot) = (Instant::now(), slot);
    loop {
        match transaction(&f) {
            Err(error)
                if is_locked(&error)
                    && transaction(|| Ok(Lock::source_going(source).is_free()))? => {}
            result => return result,
        }
        if began.elapsed() >= PATIENCE
            && let Some(slot) = slot.take()
        {
            slot.give_back();
        }
        sleep(if slot.is_some() { LOOK } else { PATIENCE });
    }
}
