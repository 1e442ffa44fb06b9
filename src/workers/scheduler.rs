//! The worker that syncs the sources of one database when they are due.
//!
//! ```text
//!  due by schedule, creation or retry ──▶ queued (a row Pending in rag.run) ──▶ runner, where a slot is free
//!  rag_sync(wait => false), drift     ──────────────▲
//! ```
//!
//! All that it knows is in tables, so it can be ended and started again at any time: what was queued stays queued, a run whose
//! process is gone is ended as failed, a time that was missed is caught up with once. It sleeps until the next source is due, and
//! is woken when a source changes ([`hooks`](super::hooks)), a runner ends, or the settings are read anew. Each source is dealt with in a transaction of
//! its own: one that cannot be read does not stop the others.
#![allow(unsafe_code)] // the entry point that the postmaster calls

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use pgrx::{
    PgSqlErrorCode,
    bgworkers::{
        BackgroundWorker, BackgroundWorkerBuilder, BgWorkerStartTime, DynamicBackgroundWorker, SignalWakeFlags,
    },
    pg_guard, pg_sys,
};

use super::{
    drift::Checks,
    lock::{self, Lock},
    runner::{self, Task},
    shared, supervisor,
    transaction::transaction,
};
use crate::{
    catalog::{
        conditions::{Changes, Type},
        due::{self, Due, Queued},
        fresh,
        name::Name,
        runs::{self, Trigger},
        sources::{self, Source},
    },
    definition,
    engine::wait::wait,
    error::Error,
    schedule, settings,
};

/// Longest sleep: the clock may be set, and what a dump of INSERT commands brings comes without a word.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Until a queued run that found no room is tried again; whoever makes room wakes the scheduler before that.
const NO_SLOT: Duration = Duration::from_secs(1);
/// The same where it is the server that has no room for another worker.
const NO_WORKER: Duration = Duration::from_secs(3);
/// The same where its process ended before the run had begun; doubled each time up to [`LONGEST_PAUSE`].
const NOT_BEGUN: Duration = Duration::from_millis(100);
/// After something went wrong; doubled each time up to the second figure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Until a source whose row someone has locked is looked at again.
const LOCKED: Duration = Duration::from_secs(1);

/// Starts the scheduler of a database.
///
/// # Errors
/// The server has no room for another background worker.
pub fn start(database: u32) -> Result<DynamicBackgroundWorker, Error> {
    // SAFETY: reads a variable of the process.
    let pid = unsafe { pg_sys::MyProcPid };
    BackgroundWorkerBuilder::new("rag scheduler")
        .set_type("rag scheduler")
        .set_library("rag")
        .set_function("rag_scheduler_main")
        .set_extra(&database.to_string())
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(None)
        .set_notify_pid(pid)
        .load_dynamic()
        .map_err(|_| supervisor::no_worker())
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rag_scheduler_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    super::end_on_sigterm();
    let Ok(database) = BackgroundWorker::get_extra().parse::<u32>() else { return };
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    let has_extension = has_extension();
    // first: the launcher looks for the entry once it has heard
    if has_extension && !shared::enter(shared::Kind::Scheduler) {
        return;
    }
    shared::give_verdict(has_extension);
    if has_extension && Lock::scheduler().take() {
        do_not_wait_for_commits();
        Scheduler::default().work();
    }
}

/// What a scheduler writes follows from what is stored: if a crash takes the last of it, it is written again.
fn do_not_wait_for_commits() {
    // SAFETY: a setting that everyone may change.
    unsafe {
        pg_sys::SetConfigOption(
            c"synchronous_commit".as_ptr(),
            c"off".as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_OVERRIDE,
        );
    }
}

/// Whether the database has the extension, whole.
fn has_extension() -> bool {
    // SAFETY: look-ups.
    let look = || unsafe {
        pg_sys::get_extension_oid(c"rag".as_ptr(), true) != pg_sys::InvalidOid
            && pg_sys::get_namespace_oid(c"rag".as_ptr(), true) != pg_sys::InvalidOid
    };
    transaction(|| Ok(look())).unwrap_or(false)
}

/// What is left of the queue.
struct Queue {
    /// Runs wait for a slot, or for a worker: nobody else is to take it.
    wants_room: bool,
    /// When to look again, where nobody wakes the scheduler before.
    rest: Option<Duration>,
}

#[derive(Default)]
struct Scheduler {
    /// Runners that were started, by their runs.
    started: HashMap<i64, DynamicBackgroundWorker>,
    checks: Checks,
    /// Runs whose process ended before they had begun: not before this time again.
    resting: HashMap<i64, (Instant, Duration)>,
    /// No worker could be had: not before this time again.
    no_worker: Option<Instant>,
    /// Whether the log says already that no worker can be had.
    complained: bool,
    /// Something went wrong: not before this time again.
    trouble: Option<Duration>,
    /// Whether all sources with the schedule @reboot have become due.
    has_booted: bool,
    /// Whether schedules that could not be kept may be kept now, for all that is known.
    may_reschedule: bool,
    /// The server's time zone, when that was looked at.
    zone: Option<String>,
}

impl Scheduler {
    /// Works until the extension is gone or the scheduler is switched off.
    fn work(&mut self) {
        self.begin();
        while settings::scheduler() && has_extension() {
            let sleep = self.look().unwrap_or_else(|error| self.pause_after(&error));
            self.show(sleep);
            wait(&[], Some(sleep));
            if BackgroundWorker::sighup_received() {
                // SAFETY: the reaction to SIGHUP of every worker.
                unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
                self.begin();
            }
        }
    }

    /// Does what follows from the settings.
    fn begin(&mut self) {
        self.may_reschedule = true;
        self.tolerate("old runs could not be deleted", transaction(runs::prune_all));
    }

    /// Has sources be synced by their schedules that could not be kept before, and may be now; whether some have their rows locked.
    fn reschedule(&mut self) -> Result<bool, Error> {
        // the launcher, which knows it, may hear of a change later than others
        let zone = shared::zone();
        if zone != self.zone {
            self.zone = zone;
            self.may_reschedule = true;
        }
        if !std::mem::take(&mut self.may_reschedule) {
            return Ok(false);
        }
        for name in transaction(sources::put_off)? {
            match transaction(|| definition::reschedule(&name)) {
                Err(error) if runner::is_locked(&error) => self.may_reschedule = true,
                // it waits on, as its status says
                Err(error) => pgrx::debug1!("rag: source \"{name}\" still cannot be scheduled: {error}"),
                Ok(()) => {}
            }
        }
        Ok(self.may_reschedule)
    }

    /// How long to rest after something went wrong, which is logged the first time.
    fn pause_after(&mut self, error: &Error) -> Duration {
        let pause = self.trouble.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        if self.trouble.replace(pause).is_none() {
            pgrx::warning!("rag: the scheduler cannot work: {error}");
        }
        pause
    }

    /// Starts what is due; how long there is nothing to do then.
    fn look(&mut self) -> Result<Duration, Error> {
        let mut is_locked = self.reap()?;
        self.has_booted = self.has_booted || transaction(due::boot)?;
        is_locked |= !self.has_booted;
        is_locked |= self.reschedule()?;
        let mut trouble = None;
        let was_restoring = transaction(due::is_restoring)?;
        // what becomes due while this goes on is looked at again
        let began = schedule::now();
        for due in transaction(|| due::due(None))? {
            match transaction(|| queue(&due.name)) {
                Ok(()) => {}
                Err(error) if runner::is_locked(&error) => is_locked = true,
                Err(error) if is_about_schedule(&error) => {
                    // or it would be due again at once
                    let put_off = transaction(|| put_off(&due, &error));
                    // it may be due as a retry, too
                    is_locked = true;
                    self.tolerate("a source that is due could not be put off", put_off);
                    pgrx::warning!("rag: source \"{}\" cannot be scheduled: {error}", due.name);
                }
                Err(error) => trouble = Some(error),
            }
            // the first ones do not wait until all are queued
            if lock::free_slots() > 0 {
                self.start_queued()?;
            }
        }
        let queue = self.start_queued()?;
        let check = if queue.wants_room { None } else { self.checks.look()? };
        // a little longer than until the time itself, so that it has come
        let next = transaction(|| due::until_next(began, was_restoring))?
            .map(|next| next.saturating_add(Duration::from_millis(1)));
        // whoever has a source's row locked may give it back without a word
        let locked = is_locked.then_some(LOCKED);
        let trouble = match trouble {
            Some(error) => Some(self.pause_after(&error)),
            None => {
                self.trouble = None;
                None
            }
        };
        Ok([queue.rest, check, next, locked, trouble]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(LONGEST_SLEEP)
            .min(LONGEST_SLEEP))
    }

    /// Ends the runs that have lost their process; whether there are some whose source's row someone has locked.
    fn reap(&mut self) -> Result<bool, Error> {
        let mut is_locked = false;
        for source in transaction(due::running)? {
            let result = transaction(|| {
                let name = Name::parse("source", &source)?;
                let lock = Lock::source_at_work(&name);
                if !lock.take_for_transaction() {
                    // whoever is about to drop the source may yet leave it, without a word
                    return lock::check_not_going(&name);
                }
                match Source::find(&source)? {
                    Some(source) => runs::abandon(&source).map(drop),
                    None => Ok(()),
                }
            });
            if result
                .as_ref()
                .is_err_and(|error| runner::is_locked(error) || error.code == PgSqlErrorCode::ERRCODE_OBJECT_IN_USE)
            {
                is_locked = true;
                continue;
            }
            self.tolerate(&format!("a run of source \"{source}\" that has ended could not be marked so"), result);
        }
        Ok(is_locked)
    }

    /// Starts queued runs where there is room.
    fn start_queued(&mut self) -> Result<Queue, Error> {
        let wants_room = |rest| Ok(Queue { wants_room: true, rest: Some(rest) });
        let ended: Vec<i64> =
            self.started.extract_if(|_, worker| runner::has_ended(worker)).map(|(run_id, _)| run_id).collect();
        let mut queued = transaction(due::queued)?;
        self.resting.retain(|run_id, _| queued.iter().any(|run| run.run_id == *run_id));
        for run in queued.iter().filter(|run| ended.contains(&run.run_id)) {
            // where there is no room now, another one was quicker to take it; no need to rest for that
            if lock::free_slots() == 0 {
                continue;
            }
            let pause = self.resting.get(&run.run_id).map_or(NOT_BEGUN, |(_, pause)| (*pause * 2).min(LONGEST_PAUSE));
            self.resting.insert(run.run_id, (Instant::now() + pause, pause));
            if pause >= FIRST_PAUSE {
                let why = "its process keeps ending before the run begins, see the server's log";
                transaction(|| due::set_waiting(&[run.run_id], why))?;
            }
        }
        if !ended.is_empty() {
            self.no_worker = None;
        }
        let all = queued.len();
        queued.retain(|run| !self.started.contains_key(&run.run_id));
        if queued.is_empty() {
            return Ok(Queue { wants_room: false, rest: None });
        }
        // those that were started and have not begun yet will
        let beginning = all - queued.len();
        if let Some(rest) = self.no_worker.map(time_until).filter(|rest| !rest.is_zero()) {
            return wants_room(rest);
        }
        // and the one that is free next may be a session's
        let kept = usize::from(!Lock::next_slot().is_free());
        let mut free = lock::free_slots().saturating_sub(beginning + kept);
        let mut sooner: Option<Duration> = None;
        for run in &queued {
            if free == 0 {
                let why = format!(
                    "as many runs are under way as rag.max_running_syncs allows ({})",
                    settings::max_running_syncs()
                );
                self.say_why(&queued, &why)?;
                return wants_room(NO_SLOT);
            }
            let rest = match self.resting.get(&run.run_id) {
                Some((until, _)) => time_until(*until),
                // a check for drift, or a run of a session's; its end wakes the scheduler
                None if is_at_work(&run.source)? => NO_SLOT,
                None => Duration::ZERO,
            };
            if !rest.is_zero() {
                sooner = Some(sooner.map_or(rest, |sooner| sooner.min(rest)));
                continue;
            }
            match runner::start(&Name::parse("source", &run.source)?, Task::Run(run.run_id)) {
                Ok(worker) => {
                    self.started.insert(run.run_id, worker);
                    free -= 1;
                }
                Err(error) => {
                    self.no_worker = Some(Instant::now() + NO_WORKER);
                    if !std::mem::replace(&mut self.complained, true) {
                        pgrx::warning!("rag: runs wait: {error}. {}", error.hint.as_deref().unwrap_or_default());
                    }
                    self.say_why(&queued, &format!("{error}: max_worker_processes"))?;
                    return wants_room(NO_WORKER);
                }
            }
        }
        self.complained = false;
        Ok(Queue { wants_room: false, rest: sooner })
    }

    /// Says of those of `queued` that were not started why that is so.
    fn say_why(&self, queued: &[Queued], why: &str) -> Result<(), Error> {
        let waiting = queued.iter().map(|run| run.run_id).filter(|run| !self.started.contains_key(run));
        transaction(|| due::set_waiting(&waiting.collect::<Vec<_>>(), why))
    }

    /// Goes on after something that concerns one source, or nothing that cannot wait.
    fn tolerate(&self, what: &str, result: Result<(), Error>) {
        if let Err(error) = result {
            pgrx::warning!("rag: {what}: {error}");
        }
    }

    fn show(&self, sleep: Duration) {
        let running = self.started.len();
        runner::activity(&format!("rag: runs under way: {running}; looks again within {} s", sleep.as_secs().max(1)));
    }
}

fn time_until(time: Instant) -> Duration {
    time.saturating_duration_since(Instant::now())
}

/// Whether a source could not be queued because its schedule cannot be kept.
fn is_about_schedule(error: &Error) -> bool {
    matches!(
        error.code,
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE | PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED
    )
}

/// Whether a process is at work on a source.
fn is_at_work(source: &str) -> Result<bool, Error> {
    let source = Name::parse("source", source)?;
    transaction(|| Ok(!Lock::source_at_work(&source).is_free()))
}

/// Locks the row of a source that was due, which may have been changed since; how it is due now.
fn lock_due(name: &str) -> Result<Option<Due>, Error> {
    if !sources::lock_at_once(name)? {
        return Ok(None);
    }
    Ok(fresh(|| due::due(Some(name)))?.into_iter().next())
}

/// Queues the run of a source that is due, and writes down when it is due next.
fn queue(name: &str) -> Result<(), Error> {
    let Some(due) = lock_due(name)? else { return Ok(()) };
    if due.run {
        let schedule = due.schedule.as_deref().map(schedule::parse).transpose();
        let schedule =
            schedule.map_err(|problem| Error::invalid_spec(&format!("source \"{}\"", due.name), &[problem]))?;
        due::set_next_run(&due.name, schedule::next_run(schedule.as_ref(), true)?)?;
        let trigger = if schedule.is_some() { Trigger::Schedule } else { Trigger::Create };
        // where a run is queued or under way this one is left out
        runs::queue(&due.name, trigger)?;
    } else if due.retry {
        runs::queue(&due.name, Trigger::Retry)?;
    }
    Ok(())
}

/// Has a source that cannot be scheduled wait for its definition to be changed.
fn put_off(due: &Due, error: &Error) -> Result<(), Error> {
    if lock_due(&due.name)?.is_none_or(|now| now != *due) {
        return Ok(());
    }
    due::set_next_run(&due.name, None)?;
    let Some(source) = sources::lock(&due.name)? else { return Ok(()) };
    let why = error.detail.as_deref().unwrap_or(&error.message);
    let changes = Changes::at(source.generation).set(Type::Scheduled, Some(false), "InvalidSchedule", why);
    sources::set_conditions(&due.name, &changes)
}
