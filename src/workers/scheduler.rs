//! The worker that has the sources of one database synced when they are due.
//!
//! ```text
//!  due by schedule, creation, retry or change ──▶ queued (a row in rag_internal.run) ──▶ runner
//!  rag_sync(wait => false), drift             ──────────────▲
//! ```
//!
//! The launcher starts it when a source is due or there is news. It leaves when nothing is due
//! soon; the time when the next source is due is then in shared memory. It stays for a moment after
//! work ([`LINGER_TIME`]), and if the next source is due soon ([`NEAR_TIME`]), unless others wait
//! for a worker. Runs in progress do not keep it: their ends are news.
//!
//! It keeps no state but what is in tables, so it can be ended and started again at any time.
//! Queued runs stay queued, a run whose process was lost is ended as failed, and a missed time is
//! caught up with once. Each source is handled in a transaction of its own, so a source that cannot
//! be read does not stop the others.
//!
//! Without `shared_preload_libraries = 'rag'` a session that creates a source starts a scheduler
//! for the first run ([`start_scheduler_once`](crate::cluster::news::start_scheduler_once)). It
//! keeps no schedules and leaves when nothing is queued.

use std::time::{Duration, Instant};

use pgrx::{
    bgworkers::{BackgroundWorker, DynamicBackgroundWorker, SignalWakeFlags},
    pg_sys,
};

use super::{
    document_queue::QueueStarter, drift::Checks, due_source, metric_files, queue::Queue,
    reload_settings_if_asked, replication::Replicator, stalls,
};
use crate::{
    catalog::{document_queue, due, name::Name, runs, shards::is_worker, sources},
    cluster::{
        backoff::Backoff,
        lock::{self, Lock},
        news, no_worker,
        shared::{self, DatabaseNews, NEVER, WorkerKind},
        slots,
    },
    error::{Cause, Error},
    pg::{
        calls::worker_main,
        extension, guc,
        process::{self, now, uptime},
        spi::owner_transaction,
        transaction::transaction,
        version,
        wait::sleep,
        worker,
    },
    run::{end, schedule},
    settings,
    source::timing,
};

/// Longest sleep of a scheduler that stays.
const MAX_SLEEP: Duration = Duration::from_secs(60);
/// A scheduler stays if something is due within this time: another start would cost more.
const NEAR_TIME: Duration = Duration::from_secs(5);
/// Time that a scheduler stays after there was something to do.
const LINGER_TIME: Duration = Duration::from_secs(2);
/// Longest sleep without shared memory, through which others could wake the scheduler.
const MAX_SLEEP_WITHOUT_NEWS: Duration = Duration::from_secs(1);
/// Interval between attempts to become the only scheduler of a database.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Delays after errors.
const ERROR_DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// Interval between checks of whether the clock was set back.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Delay before a source whose row was locked is handled again.
const LOCKED_ROW_DELAY: Duration = Duration::from_secs(1);

/// Starts the scheduler of a database.
///
/// # Errors
/// No background worker slot is free.
pub fn start(database: u32) -> Result<DynamicBackgroundWorker, Error> {
    worker::start(worker::scheduler(database)).ok_or_else(no_worker)
}

worker_main!(rag_scheduler_main, main);

fn main() {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    process::end_on_sigterm();
    let Ok(database) = BackgroundWorker::get_extra().parse::<u32>() else {
        return;
    };
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(pg_sys::Oid::from(database)), None);
    news::suppress();
    // first: what happens later is news
    let database_news = shared::take_news();
    if !is_installed() {
        shared::report_extension(false);
        return;
    }
    if !try_lock_database() {
        // the other scheduler has to handle the news
        shared::wake_scheduler();
        return;
    }
    if !shared::enter(WorkerKind::Scheduler) {
        return;
    }
    shared::report_extension(true);
    // what a scheduler writes follows from what is stored: if a crash loses the last of it, it is
    // written again
    guc::set_setting(c"synchronous_commit", "off");
    Scheduler::new(database_news).work();
}

/// Ensures that the database has one scheduler. Without shared memory another one may be about to
/// leave without having seen what this one was started for.
fn try_lock_database() -> bool {
    loop {
        if Lock::scheduler().try_acquire() {
            return true;
        }
        if shared::is_present() || !owner_transaction(due::has_new).unwrap_or(false) {
            return false;
        }
        sleep(LOCK_RETRY_INTERVAL);
    }
}

/// Returns true if the database has the whole extension, and not only chunks for another server.
fn is_installed() -> bool {
    transaction(|| Ok(extension::is_installed() && !is_worker()?)).unwrap_or(false)
}

/// Returns true if the extension has the library's version. Otherwise nothing is synced in the
/// database until one of them is updated, which is news.
fn has_one_version() -> bool {
    let compared = transaction(version::require_equal);
    let may_log = shared::note_versions(compared.is_err());
    if let Err(error) = &compared
        && may_log
    {
        let detail = error.detail.as_deref().unwrap_or_default();
        let hint = error.hint.as_deref().unwrap_or_default();
        pgrx::log!("rag: sources are not synced: {error}. {detail} {hint}");
    }
    compared.is_ok()
}

struct Scheduler {
    queue: Queue,
    documents: QueueStarter,
    checks: Checks,
    replicator: Replicator,
    /// The delay after the last error, until something succeeds.
    error_delay: Option<Duration>,
    /// All sources with the schedule @reboot have become due.
    has_booted: bool,
    /// Schedules that were invalid may be valid now.
    may_reschedule: bool,
    /// The server's time zone when it was last checked.
    zone: Option<String>,
    /// The news that the scheduler found when it started.
    first_news: Option<DatabaseNews>,
    /// When there was last something to do.
    active: Option<Instant>,
    /// When it was last checked that no time lies too far in the future.
    clock_checked: Option<Instant>,
}

impl Scheduler {
    fn new(first_news: DatabaseNews) -> Self {
        Self {
            queue: Queue::default(),
            documents: QueueStarter::default(),
            checks: Checks::default(),
            replicator: Replicator::default(),
            error_delay: None,
            has_booted: false,
            may_reschedule: true,
            zone: None,
            first_news: Some(first_news),
            active: None,
            clock_checked: None,
        }
    }

    /// Works until nothing is due soon, the extension is dropped or the scheduler is switched off.
    fn work(&mut self) {
        loop {
            if !is_installed() {
                shared::report_extension(false);
                return;
            }
            if !has_one_version() {
                slots::set_waiting_owners(&[]);
                // changes of many transactions are one start
                sleep(LINGER_TIME);
                shared::take_news();
                if !has_one_version() && shared::leave_until(NEVER) {
                    return;
                }
                continue;
            }
            if !settings::scheduler() {
                slots::set_waiting_owners(&[]);
                if shared::leave_until(NEVER) {
                    return;
                }
                shared::take_news();
                continue;
            }
            let next = self
                .handle_due()
                .unwrap_or_else(|error| Some(self.delay_after(&error)));
            if self.may_leave(next) {
                let due = next.map_or(NEVER, |next| shared::after(now(), next));
                if shared::leave_until(due) {
                    return;
                }
                continue;
            }
            let lingering = self
                .active
                .map(|active| LINGER_TIME.saturating_sub(active.elapsed()))
                .filter(|left| !left.is_zero());
            let without_news = (!shared::is_present()).then_some(MAX_SLEEP_WITHOUT_NEWS);
            let time = [next, lingering, without_news]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(MAX_SLEEP)
                .min(MAX_SLEEP);
            self.report_activity(time);
            sleep(time);
            if reload_settings_if_asked() {
                self.may_reschedule = true;
            }
        }
    }

    /// Returns true if nothing is due soon, so that the worker is better left to others until
    /// `next`.
    fn may_leave(&self, next: Option<Duration>) -> bool {
        if self.queue.starting() > 0 {
            return false;
        }
        if shared::is_crowded() {
            return true;
        }
        !self.checks.are_running()
            && !self.replicator.is_busy()
            && next.is_none_or(|next| next >= NEAR_TIME)
            && self
                .active
                .is_none_or(|active| active.elapsed() >= LINGER_TIME)
    }

    /// Schedules the sources whose schedules were invalid before and may be valid now. Returns true
    /// if the rows of some are locked.
    fn reschedule(&mut self) -> Result<bool, Error> {
        // the launcher, which knows the zone, may learn of a change later than others
        let zone = shared::zone();
        if zone != self.zone {
            self.zone = zone;
            self.may_reschedule = true;
        }
        if !std::mem::take(&mut self.may_reschedule) {
            return Ok(false);
        }
        for name in owner_transaction(sources::with_invalid_schedule)? {
            match transaction(|| timing::reschedule(&name)) {
                Err(error) if error.is(Cause::Locked) => self.may_reschedule = true,
                // its status still shows the error
                Err(error) => {
                    pgrx::debug1!("rag: source \"{name}\" still cannot be scheduled: {error}")
                }
                Ok(()) => {}
            }
        }
        Ok(self.may_reschedule)
    }

    /// Computes the times again that only a clock which was set back since can have put so far into
    /// the future.
    fn follow_clock(&mut self) -> Result<(), Error> {
        if self
            .clock_checked
            .is_some_and(|checked| checked.elapsed() < CLOCK_CHECK_INTERVAL)
        {
            return Ok(());
        }
        self.clock_checked = Some(Instant::now());
        for planned in owner_transaction(due::planned)? {
            let moved = owner_transaction(|owner| due_source::move_back(owner, &planned));
            log_failure(
                &format!(
                    "the next run of source \"{}\" could not be planned",
                    planned.name
                ),
                moved,
            );
        }
        let retries = owner_transaction(due::make_stranded_retries_due)?;
        if retries > 0 {
            pgrx::log!("rag: the clock was set back: retries that are due now: {retries}");
        }
        let documents = owner_transaction(document_queue::make_stranded_due)?;
        if documents > 0 {
            pgrx::log!("rag: the clock was set back: documents that are due now: {documents}");
        }
        Ok(())
    }

    /// Returns how long to wait after an error, which is logged the first time.
    fn delay_after(&mut self, error: &Error) -> Duration {
        let delay = ERROR_DELAYS.after(self.error_delay);
        if self.error_delay.replace(delay).is_none() {
            pgrx::warning!("rag: the scheduler cannot work: {error}");
        }
        delay
    }

    /// Starts what is due. Returns how long there is nothing to do then.
    fn handle_due(&mut self) -> Result<Option<Duration>, Error> {
        let news = self.first_news.take().unwrap_or_else(shared::take_news);
        if news.settings {
            log_failure(
                "old runs could not be deleted",
                owner_transaction(runs::prune_all),
            );
        }
        if news.metrics {
            log_failure("metrics could not be written", metric_files::write());
        }
        if news.news {
            self.active = Some(Instant::now());
        }
        let mut has_locked_rows = self.end_lost_runs()?;
        if shared::is_present() {
            self.has_booted = self.has_booted || owner_transaction(due::make_reboot_schedules_due)?;
            has_locked_rows |= !self.has_booted;
            has_locked_rows |= self.reschedule()?;
            self.follow_clock()?;
        }
        let was_restoring = owner_transaction(due::is_restoring)?;
        // what becomes due from now on is handled the next time
        let began = schedule::now();
        let (has_locked, failure) = self.queue_due()?;
        has_locked_rows |= has_locked;
        let changes = self.queue_changed(&news)?;
        let queue = self.queue.start()?;
        let documents = if shared::is_present() {
            self.documents.start_due()?
        } else {
            None
        };
        let may_check = shared::is_present() && !queue.wants_room;
        let check = if may_check {
            self.checks.start_due()?
        } else {
            None
        };
        let replication = if shared::is_present() && !was_restoring {
            self.replicator.advance()?
        } else {
            None
        };
        let stalled = if shared::is_present() {
            stalls::log_new()?
        } else {
            None
        };
        // without shared memory no schedules are kept
        let next = if shared::is_present() {
            owner_transaction(|owner| due::until_next(owner, began, was_restoring))?
        } else {
            None
        };
        // a little longer than until the time itself, so that it has come
        let next = next.map(|next| next.saturating_add(Duration::from_millis(1)));
        // the end of a lock on a source's row sends no notification
        let locked = has_locked_rows.then_some(LOCKED_ROW_DELAY);
        let delay = match failure {
            Some(error) => Some(self.delay_after(&error)),
            None => {
                self.error_delay = None;
                None
            }
        };
        Ok([
            queue.next,
            documents,
            changes,
            check,
            next,
            locked,
            delay,
            replication,
            stalled,
        ]
        .into_iter()
        .flatten()
        .min())
    }

    /// Queues runs of the sources that are due. Returns true if the rows of some are locked, and
    /// the last error.
    fn queue_due(&mut self) -> Result<(bool, Option<Error>), Error> {
        let (mut has_locked_rows, mut failure) = (false, None);
        for due in owner_transaction(|owner| due::due(owner, None))? {
            if !shared::is_present() && due.schedule.is_some() {
                continue;
            }
            self.active = Some(Instant::now());
            match owner_transaction(|owner| due_source::queue(owner, &due.name)) {
                Ok(()) => {}
                Err(error) if error.is(Cause::Locked) => has_locked_rows = true,
                Err(error) if error.cause().is_in_input() => {
                    // without this it would be due again at once
                    let suspended = owner_transaction(|owner| {
                        due_source::set_invalid_schedule(owner, &due, &error)
                    });
                    // it may also be due as a retry
                    has_locked_rows = true;
                    log_failure("a source that is due could not be delayed", suspended);
                    pgrx::warning!("rag: source \"{}\" cannot be scheduled: {error}", due.name);
                }
                Err(error) => failure = Some(error),
            }
            // the first runs do not wait until all are queued
            if !slots::are_all_taken() {
                self.queue.start()?;
            }
        }
        Ok((has_locked_rows, failure))
    }

    /// Queues runs of the sources whose tables were changed, once their delay has passed. Returns
    /// the time until then.
    fn queue_changed(&mut self, news: &DatabaseNews) -> Result<Option<Duration>, Error> {
        let now = uptime();
        if news.changes != NEVER && news.changes > now {
            let until = Duration::from_micros((news.changes - now).unsigned_abs());
            return Ok(Some(until + Duration::from_millis(1)));
        }
        let mut next = None;
        for source in owner_transaction(|owner| due::changed(owner, news.changes != NEVER))? {
            self.active = Some(Instant::now());
            match owner_transaction(|owner| due_source::queue_changed(owner, &source)) {
                Err(error) if error.is(Cause::Locked) => {
                    shared::set_changes(now);
                    next = Some(LOCKED_ROW_DELAY);
                }
                queued => log_failure(&format!("source \"{source}\" could not be queued"), queued),
            }
        }
        Ok(next)
    }

    /// Ends the runs whose process was lost. Returns true if the rows of some sources are locked.
    fn end_lost_runs(&mut self) -> Result<bool, Error> {
        let mut has_locked_rows = false;
        for source in owner_transaction(due::running)? {
            let result = transaction(|| {
                let name = Name::source(&source)?;
                if end::end_lost_runs_if_idle(&name)? {
                    return Ok(());
                }
                // a session that is about to drop the source may yet roll back
                lock::check_not_being_dropped(&name)
            });
            if result
                .as_ref()
                .is_err_and(|error| matches!(error.cause(), Cause::Locked | Cause::InUse))
            {
                has_locked_rows = true;
                continue;
            }
            log_failure(
                &format!("a lost run of source \"{source}\" could not be marked as failed"),
                result,
            );
        }
        Ok(has_locked_rows)
    }

    fn report_activity(&self, sleep: Duration) {
        process::report_activity(&format!(
            "rag: runs starting: {}; sleeps for at most {} s",
            self.queue.starting(),
            sleep.as_secs().max(1)
        ));
    }
}

/// Logs an error that concerns one source, or nothing urgent.
fn log_failure(what: &str, result: Result<(), Error>) {
    if let Err(error) = result {
        pgrx::warning!("rag: {what}: {error}");
    }
}
