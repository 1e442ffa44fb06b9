//! The worker that has the sources of one database synced when they are due.
//!
//! ```text
//!  due by schedule, creation, retry or change ──▶ queued (a row Pending in rag.run) ──▶ runner, where a slot is free
//!  rag_sync(wait => false), drift             ──────────────▲
//! ```
//!
//! The launcher starts it when a source is due or there is news, and it leaves when nothing is
//! near: when the next source is due is then in shared memory. It stays for a moment after work
//! ([`LINGER`]) and where the next source is due soon ([`NEAR`]), unless others wait for the worker
//! that it is. Whether runs are under way does not matter: their ends are news.
//!
//! All that it knows is in tables, so it can be ended and started again at any time: what was
//! queued stays queued, a run whose process is gone is ended as failed, a time that was missed is
//! caught up with once. Each source is dealt with in a transaction of its own: one that cannot be
//! read does not stop the others.
//!
//! Without `shared_preload_libraries = 'rag'` a session that makes a source starts one for its
//! first run ([`start_once`]), which keeps no schedules and leaves when nothing is queued.
#![allow(unsafe_code)] // the entry point that the postmaster calls

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use pgrx::{
    PgSqlErrorCode,
    bgworkers::{BackgroundWorker, DynamicBackgroundWorker, SignalWakeFlags},
    pg_guard, pg_sys,
};

use super::drift::Checks;
use crate::{
    catalog::{
        conditions::{Changes, Type},
        due::{self, Due, Queued},
        name::Name,
        runs::{self, Trigger},
        sources::{self, Source},
    },
    cluster::{
        lock::{self, Lock},
        news, no_worker,
        shared::{self, Told},
        slots::{self, Claim},
    },
    error::Error,
    pg::{
        process::activity,
        snapshot::fresh,
        transaction::transaction,
        wait::{sleep, wait},
    },
    run::{
        end,
        process::{self, Task},
        schedule,
    },
    settings,
    source::definition,
};

/// Longest sleep of one that stays.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// It stays where something is due within this time: another start would cost more.
const NEAR: Duration = Duration::from_secs(5);
/// It stays for so long after there was something to do.
const LINGER: Duration = Duration::from_secs(2);
/// Longest sleep of one that has no shared memory, through which it could be told anything.
const ALONE: Duration = Duration::from_secs(1);
/// Until a queued run that found no room is tried again; whoever makes room wakes the scheduler
/// before that.
const NO_SLOT: Duration = Duration::from_secs(1);
/// The same where it is the server that has no room for another worker.
const NO_WORKER: Duration = Duration::from_secs(3);
/// The same where its process ended before the run had begun; doubled each time up to
/// [`LONGEST_PAUSE`].
const NOT_BEGUN: Duration = Duration::from_millis(100);
/// Between two looks at whether a runner that was started has begun its run.
const BEGINNING: Duration = Duration::from_millis(200);
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
    news::scheduler_builder(database)
        .set_notify_pid(crate::pg::process::my_pid())
        .load_dynamic()
        .map_err(|_| no_worker())
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rag_scheduler_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    crate::pg::worker::end_on_sigterm();
    let Ok(database) = BackgroundWorker::get_extra().parse::<u32>() else {
        return;
    };
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    news::tell_nobody();
    // first: what comes after is news
    let told = shared::begin_look();
    if !has_extension() {
        shared::give_verdict(false);
        return;
    }
    if !take_lock() {
        // what this one was told is for the other one
        shared::wake_scheduler();
        return;
    }
    if !shared::enter(shared::Kind::Scheduler) {
        return;
    }
    shared::give_verdict(true);
    do_not_wait_for_commits();
    Scheduler::new(told).work();
}

/// Makes sure that the database has one scheduler. Without shared memory another one may be about
/// to leave, and not have seen what this one was started for.
fn take_lock() -> bool {
    loop {
        if Lock::scheduler().take() {
            return true;
        }
        if shared::is_present() || !transaction(due::has_new).unwrap_or(false) {
            return false;
        }
        sleep(NOT_BEGUN);
    }
}

/// What a scheduler writes follows from what is stored: if a crash takes the last of it, it is
/// written again.
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

struct Scheduler {
    /// Runners that were started and have not begun their runs.
    started: HashMap<i64, DynamicBackgroundWorker>,
    /// Their slots, as long as the runners have not adopted them.
    claims: HashMap<i64, Claim>,
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
    /// What it was told when it began.
    told: Option<Told>,
    /// When there was something to do last.
    active: Option<Instant>,
}

impl Scheduler {
    fn new(told: Told) -> Self {
        Self {
            started: HashMap::new(),
            claims: HashMap::new(),
            checks: Checks::default(),
            resting: HashMap::new(),
            no_worker: None,
            complained: false,
            trouble: None,
            has_booted: false,
            may_reschedule: true,
            zone: None,
            told: Some(told),
            active: None,
        }
    }

    /// Works until nothing is near, the extension is gone or the scheduler is switched off.
    fn work(&mut self) {
        loop {
            if !has_extension() {
                shared::give_verdict(false);
                return;
            }
            if !settings::scheduler() {
                slots::set_waiting(&[]);
                if shared::leave_until(shared::NEVER) {
                    return;
                }
                shared::begin_look();
                continue;
            }
            let next = self
                .look()
                .unwrap_or_else(|error| Some(self.pause_after(&error)));
            if self.may_leave(next) {
                let due = next.map_or(shared::NEVER, |next| {
                    shared::after(crate::pg::process::now(), next)
                });
                if shared::leave_until(due) {
                    return;
                }
                continue;
            }
            let lingering = self
                .active
                .map(|active| LINGER.saturating_sub(active.elapsed()));
            let alone = (!shared::is_present()).then_some(ALONE);
            let sleep = [next, lingering.filter(|rest| !rest.is_zero()), alone];
            let sleep = sleep
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(LONGEST_SLEEP)
                .min(LONGEST_SLEEP);
            self.show(sleep);
            wait(&[], Some(sleep));
            if BackgroundWorker::sighup_received() {
                // SAFETY: the reaction to SIGHUP of every worker.
                unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
                self.may_reschedule = true;
            }
        }
    }

    /// Whether nothing is near, so that the worker is better left to others until `next`.
    fn may_leave(&self, next: Option<Duration>) -> bool {
        if !self.started.is_empty() {
            return false;
        }
        if shared::is_crowded() {
            return true;
        }
        !self.checks.are_running()
            && next.is_none_or(|next| next >= NEAR)
            && self.active.is_none_or(|active| active.elapsed() >= LINGER)
    }

    /// Has sources be synced by their schedules that could not be kept before, and may be now;
    /// whether some have their rows locked.
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
                Err(error) if process::is_locked(&error) => self.may_reschedule = true,
                // it waits on, as its status says
                Err(error) => {
                    pgrx::debug1!("rag: source \"{name}\" still cannot be scheduled: {error}")
                }
                Ok(()) => {}
            }
        }
        Ok(self.may_reschedule)
    }

    /// How long to rest after something went wrong, which is logged the first time.
    fn pause_after(&mut self, error: &Error) -> Duration {
        let pause = self
            .trouble
            .map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        if self.trouble.replace(pause).is_none() {
            pgrx::warning!("rag: the scheduler cannot work: {error}");
        }
        pause
    }

    /// Starts what is due; how long there is nothing to do then.
    fn look(&mut self) -> Result<Option<Duration>, Error> {
        let told = self.told.take().unwrap_or_else(shared::begin_look);
        if told.settings {
            self.tolerate(
                "old runs could not be deleted",
                transaction(runs::prune_all),
            );
        }
        if told.news {
            self.active = Some(Instant::now());
        }
        let mut is_locked = self.reap()?;
        if shared::is_present() {
            self.has_booted = self.has_booted || transaction(due::boot)?;
            is_locked |= !self.has_booted;
            is_locked |= self.reschedule()?;
        }
        let mut trouble = None;
        let was_restoring = transaction(due::is_restoring)?;
        // what becomes due while this goes on is looked at again
        let began = schedule::now();
        for due in transaction(|| due::due(None))? {
            if !shared::is_present() && due.schedule.is_some() {
                continue;
            }
            self.active = Some(Instant::now());
            match transaction(|| queue(&due.name)) {
                Ok(()) => {}
                Err(error) if process::is_locked(&error) => is_locked = true,
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
            if !slots::are_taken() {
                self.start_queued()?;
            }
        }
        let changes = self.queue_changed(&told)?;
        let queue = self.start_queued()?;
        let may_check = shared::is_present() && !queue.wants_room;
        let check = if may_check { self.checks.look()? } else { None };
        // a little longer than until the time itself, so that it has come; without shared memory
        // nobody keeps schedules
        let next = match shared::is_present() {
            true => transaction(|| due::until_next(began, was_restoring))?,
            false => None,
        };
        let next = next.map(|next| next.saturating_add(Duration::from_millis(1)));
        // whoever has a source's row locked may give it back without a word
        let locked = is_locked.then_some(LOCKED);
        let trouble = match trouble {
            Some(error) => Some(self.pause_after(&error)),
            None => {
                self.trouble = None;
                None
            }
        };
        Ok([queue.rest, changes, check, next, locked, trouble]
            .into_iter()
            .flatten()
            .min())
    }

    /// Queues runs of the sources whose tables were changed, once it is time; how long until then.
    fn queue_changed(&mut self, told: &Told) -> Result<Option<Duration>, Error> {
        let now = crate::pg::process::now();
        if told.changes != shared::NEVER && told.changes > now {
            return Ok(Some(
                Duration::from_micros((told.changes - now).unsigned_abs())
                    + Duration::from_millis(1),
            ));
        }
        let mut rest = None;
        for source in transaction(|| due::changed(told.changes != shared::NEVER))? {
            self.active = Some(Instant::now());
            match transaction(|| queue_changed(&source)) {
                Err(error) if process::is_locked(&error) => {
                    shared::set_changes(now);
                    rest = Some(LOCKED);
                }
                queued => {
                    self.tolerate(&format!("source \"{source}\" could not be queued"), queued)
                }
            }
        }
        Ok(rest)
    }

    /// Ends the runs that have lost their process; whether there are some whose source's row
    /// someone has locked.
    fn reap(&mut self) -> Result<bool, Error> {
        let mut is_locked = false;
        for source in transaction(due::running)? {
            let result = transaction(|| {
                let name = Name::source(&source)?;
                let lock = Lock::source_at_work(&name);
                if !lock.take_for_transaction() {
                    // whoever is about to drop the source may yet leave it, without a word
                    return lock::check_not_going(&name);
                }
                match Source::find(&source)? {
                    Some(source) => end::abandon(&source).map(drop),
                    None => Ok(()),
                }
            });
            if result.as_ref().is_err_and(|error| {
                process::is_locked(error) || error.code == PgSqlErrorCode::ERRCODE_OBJECT_IN_USE
            }) {
                is_locked = true;
                continue;
            }
            self.tolerate(
                &format!("a run of source \"{source}\" that has ended could not be marked so"),
                result,
            );
        }
        Ok(is_locked)
    }

    /// Starts queued runs where there is room.
    fn start_queued(&mut self) -> Result<Queue, Error> {
        let wants_room = |rest| {
            Ok(Queue {
                wants_room: true,
                rest: Some(rest),
            })
        };
        let ended: Vec<i64> = self
            .started
            .extract_if(|_, worker| process::has_ended(worker))
            .map(|(run_id, _)| run_id)
            .collect();
        self.claims
            .retain(|run_id, _| self.started.contains_key(run_id));
        let mut queued = transaction(due::queued)?;
        self.resting
            .retain(|run_id, _| queued.iter().any(|run| run.run_id == *run_id));
        for run in queued.iter().filter(|run| ended.contains(&run.run_id)) {
            // where there is no room now, another one was quicker to take it; no need to rest for
            // that
            if !shared::is_present() && lock::free_slots() == 0 {
                continue;
            }
            let pause = self
                .resting
                .get(&run.run_id)
                .map_or(NOT_BEGUN, |(_, pause)| (*pause * 2).min(LONGEST_PAUSE));
            self.resting
                .insert(run.run_id, (Instant::now() + pause, pause));
            if pause >= FIRST_PAUSE {
                let why = "its process keeps ending before the run begins, see the server's log";
                transaction(|| due::set_waiting(&[run.run_id], why))?;
            }
        }
        if !ended.is_empty() {
            self.no_worker = None;
        }
        // those that have begun are others' business
        self.started
            .retain(|run_id, _| queued.iter().any(|run| run.run_id == *run_id));
        self.claims
            .retain(|run_id, _| self.started.contains_key(run_id));
        queued.retain(|run| !self.started.contains_key(&run.run_id));
        if queued.is_empty() {
            slots::set_waiting(&[]);
            let beginning = (!self.started.is_empty()).then_some(BEGINNING);
            return Ok(Queue {
                wants_room: false,
                rest: beginning,
            });
        }
        if let Some(rest) = self
            .no_worker
            .map(time_until)
            .filter(|rest| !rest.is_zero())
        {
            return wants_room(rest);
        }
        let (mut denied, mut waiting): (Vec<u32>, Vec<Queued>) = (vec![], vec![]);
        let mut sooner: Option<Duration> = (!self.started.is_empty()).then_some(BEGINNING);
        for run in &queued {
            if denied.contains(&run.owner) {
                waiting.push(run.clone());
                continue;
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
            let name = Name::source(&run.source)?;
            let Some(claim) = slots::claim(run.owner, false, self.started.len()) else {
                denied.push(run.owner);
                waiting.push(run.clone());
                continue;
            };
            let started = match slots::may_schedule() {
                true => process::start(&name, Task::Run(run.run_id), Some(&claim)),
                false => Err(no_worker()),
            };
            match started {
                Ok(worker) => {
                    self.started.insert(run.run_id, worker);
                    self.claims.insert(run.run_id, claim);
                    sooner = Some(sooner.map_or(BEGINNING, |sooner| sooner.min(BEGINNING)));
                }
                Err(error) => {
                    drop(claim);
                    shared::set_no_room();
                    self.no_worker = Some(Instant::now() + NO_WORKER);
                    if !std::mem::replace(&mut self.complained, true) && shared::complain() {
                        pgrx::warning!(
                            "rag: runs wait: {error}. {}",
                            error.hint.as_deref().unwrap_or_default()
                        );
                    }
                    self.say_why(&queued, &format!("{error}: max_worker_processes"))?;
                    slots::set_waiting(&[]);
                    return wants_room(NO_WORKER);
                }
            }
        }
        self.complained = false;
        slots::set_waiting(&denied);
        if waiting.is_empty() {
            return Ok(Queue {
                wants_room: false,
                rest: sooner,
            });
        }
        let most = settings::max_running_syncs();
        self.say_why(
            &waiting,
            &format!("as many runs are under way as rag.max_running_syncs allows ({most})"),
        )?;
        // who gets a slot is told, if there is a way
        let rest = (!shared::is_present()).then_some(NO_SLOT);
        Ok(Queue {
            wants_room: true,
            rest: [sooner, rest].into_iter().flatten().min(),
        })
    }

    /// Says of those of `queued` that were not started why that is so.
    fn say_why(&self, queued: &[Queued], why: &str) -> Result<(), Error> {
        let waiting = queued
            .iter()
            .map(|run| run.run_id)
            .filter(|run| !self.started.contains_key(run));
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
        activity(&format!(
            "rag: runs under way: {running}; looks again within {} s",
            sleep.as_secs().max(1)
        ));
    }
}

fn time_until(time: Instant) -> Duration {
    time.saturating_duration_since(Instant::now())
}

/// Whether a source could not be queued because its schedule cannot be kept.
fn is_about_schedule(error: &Error) -> bool {
    matches!(
        error.code,
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE
            | PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED
    )
}

/// Whether a process is at work on a source.
fn is_at_work(source: &str) -> Result<bool, Error> {
    let source = Name::source(source)?;
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
    let Some(due) = lock_due(name)? else {
        return Ok(());
    };
    if due.run {
        let schedule = due.schedule.as_deref().map(schedule::parse).transpose();
        let schedule = schedule.map_err(|problem| {
            Error::invalid_spec(&format!("source \"{}\"", due.name), &[problem])
        })?;
        due::set_next_run(&due.name, schedule::next_run(schedule.as_ref(), true)?)?;
        let trigger = if schedule.is_some() {
            Trigger::Schedule
        } else {
            Trigger::Create
        };
        // where a run is queued or under way this one is left out
        runs::queue(&due.name, trigger)?;
    } else if due.retry {
        runs::queue(&due.name, Trigger::Retry)?;
    }
    Ok(())
}

/// Queues the run of a source whose table was changed.
fn queue_changed(name: &str) -> Result<(), Error> {
    if sources::lock_at_once(name)? {
        runs::queue(name, Trigger::Change)?;
    }
    Ok(())
}

/// Has a source that cannot be scheduled wait for its definition to be changed.
fn put_off(due: &Due, error: &Error) -> Result<(), Error> {
    if lock_due(&due.name)?.is_none_or(|now| now != *due) {
        return Ok(());
    }
    due::set_next_run(&due.name, None)?;
    let Some(source) = sources::lock(&due.name)? else {
        return Ok(());
    };
    let why = error.detail.as_deref().unwrap_or(&error.message);
    let changes =
        Changes::at(source.generation).set(Type::Scheduled, Some(false), "InvalidSchedule", why);
    sources::set_conditions(&due.name, &changes)
}
