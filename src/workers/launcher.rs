//! The worker that starts a scheduler where there is something to do: one per cluster, on a
//! primary.
//!
//! It sleeps until a source of some database is due, or until [`shared`] memory has news: databases
//! or extensions were created or dropped, a source was changed, a run has ended. Like autovacuum's
//! launcher it keeps few workers busy at a time ([`MAX_SCHEDULERS`]), each of which leaves when
//! nothing is due soon. Only a process within a database can see whether it has the extension. So
//! the launcher starts a scheduler in each database that it knows nothing of. The scheduler reports
//! the answer and leaves at once if there is no extension. Templates are not visited; their copies
//! are. The launcher is connected to no database, so it blocks no command.
//!
//! Some changes send no notification, such as a prepared transaction of another version, or a row
//! that was written with triggers off. So the launcher visits one database after another, one every
//! [`ROUND_INTERVAL`]. It notices a change of the system clock because it knows when each database
//! is due and wakes every [`MAX_SLEEP`].

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use pgrx::bgworkers::{BackgroundWorker, DynamicBackgroundWorker, SignalWakeFlags};

use super::{reload_settings_if_asked, scheduler};
use crate::{
    cluster::{
        shared::{self, Database, NEVER, View},
        slots,
    },
    pg::{
        calls::worker_main,
        lookup,
        process::{self, now, uptime},
        transaction::transaction,
        wait::sleep,
        worker::{self, has_ended},
    },
    settings,
};

/// Maximum number of schedulers at the same time, so that few workers serve many databases.
const MAX_SCHEDULERS: usize = 2;
/// Longest sleep. It bounds the time until the launcher notices what no hook reports: ALTER
/// DATABASE ... ALLOW_CONNECTIONS, or a change of the system clock.
const MAX_SLEEP: Duration = Duration::from_secs(60);
/// Interval between visits to databases in which nothing is due.
const ROUND_INTERVAL: Duration = Duration::from_secs(120);
/// Delay before the next start of a scheduler that ended without a report.
const SILENT_SCHEDULER_DELAY: Duration = Duration::from_secs(2);
/// Delay before the next start of a worker after the server had no free slot for one.
const NO_WORKER_DELAY: Duration = Duration::from_secs(1);

/// Registers the launcher with the postmaster.
pub fn register() {
    worker::launcher().load();
}

/// A scheduler that has been started and has not reported yet.
struct Starting {
    database: u32,
    worker: DynamicBackgroundWorker,
    /// When a scheduler last looked at the database before, and how many have failed in a row.
    looked: i64,
    failures: u32,
}

struct Launcher {
    /// Databases without the extension.
    absent: HashSet<u32>,
    starting: Option<Starting>,
    /// No worker is started before this time: the server had no free slot.
    no_worker_until: Option<Instant>,
    /// The log already mentions that no background worker slot is free.
    is_shortage_logged: bool,
    /// When the next database is visited in which nothing is due.
    next_round: Instant,
}

worker_main!(rag_launcher_main, main);

fn main() {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    process::end_on_sigterm();
    BackgroundWorker::connect_worker_to_spi(None, None);
    shared::enter_launcher();
    shared::settings_reloaded();
    let mut launcher = Launcher {
        absent: HashSet::new(),
        starting: None,
        no_worker_until: None,
        is_shortage_logged: false,
        next_round: Instant::now() + ROUND_INTERVAL,
    };
    loop {
        if reload_settings_if_asked() {
            shared::settings_reloaded();
        }
        let next = launcher.launch();
        sleep(next);
    }
}

impl Launcher {
    /// Starts the schedulers that are missing. Returns how long the launcher can sleep then.
    fn launch(&mut self) -> Duration {
        let sleep = slots::rebalance().unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
        self.take_report();
        if !settings::scheduler() {
            shared::set_crowded(false);
            return sleep;
        }
        let (databases, view) = (connectable_databases(), shared::view());
        self.forget_dropped(&databases, &view);
        let is_free = |database: &u32| {
            !view.scheduled.contains(database)
                && !view.evicting_all
                && !view.evicted.contains(database)
        };
        let known = |database: u32| view.databases.iter().find(|known| known.oid == database);
        // when each database needs a scheduler; those that have waited longest come first
        let mut due: Vec<(i64, u32)> = databases
            .iter()
            .copied()
            .filter(is_free)
            .filter_map(|database| match known(database) {
                Some(known) => Some((due_time(known), database)),
                None => (!self.absent.contains(&database)).then_some((0, database)),
            })
            .collect();
        due.sort_unstable();
        let now = now();
        let mut wanting: Vec<u32> = due
            .iter()
            .filter(|(at, _)| *at <= now)
            .map(|(_, database)| *database)
            .collect();
        if wanting.is_empty() && self.next_round <= Instant::now() {
            self.next_round = Instant::now() + ROUND_INTERVAL;
            let quiet = view
                .databases
                .iter()
                .filter(|known| databases.contains(&known.oid) && is_free(&known.oid));
            wanting.extend(
                quiet
                    .min_by_key(|known| known.looked)
                    .map(|known| known.oid),
            );
        }
        let mut sleep = sleep.min(self.next_round.saturating_duration_since(Instant::now()));
        let next = due.iter().map(|(at, _)| *at).find(|at| *at > now);
        if let Some(next) = next.filter(|next| *next != NEVER) {
            // a little longer than until the time itself, so that it has come
            let until = Duration::from_micros((next - now).unsigned_abs());
            sleep = sleep.min(until + Duration::from_millis(1));
        }
        let next_start = self.start_first(&wanting, view.scheduled.len(), known);
        sleep.min(next_start.unwrap_or(MAX_SLEEP))
    }

    /// Forgets databases that were dropped, or accept no connections any more.
    fn forget_dropped(&mut self, databases: &[u32], view: &View) {
        if view.news_of_all {
            self.absent.clear();
        }
        self.absent.retain(|database| databases.contains(database));
        let is_dropped = |database: &u32| !databases.contains(database);
        let known = view.databases.iter().map(|known| known.oid);
        known.filter(is_dropped).for_each(shared::forget);
        let scheduled = view.scheduled.iter().copied();
        scheduled.filter(is_dropped).for_each(shared::end_scheduler);
    }

    /// Starts a scheduler in the first of these databases if a worker is available. Returns when to
    /// look again, if nothing wakes the launcher before.
    fn start_first<'a>(
        &mut self,
        wanting: &[u32],
        schedulers: usize,
        known: impl Fn(u32) -> Option<&'a Database>,
    ) -> Option<Duration> {
        let Some(database) = wanting.first().copied() else {
            (self.no_worker_until, self.is_shortage_logged) = (None, false);
            if self.starting.is_none() {
                shared::set_crowded(false);
            }
            return None;
        };
        if self.starting.is_some() {
            // its report, or its end, wakes the launcher
            return None;
        }
        if schedulers >= MAX_SCHEDULERS {
            shared::set_crowded(true);
            return Some(NO_WORKER_DELAY);
        }
        let left = self
            .no_worker_until
            .map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Some(left);
        }
        let started = if slots::may_schedule() {
            scheduler::start(database).map_err(Some)
        } else {
            Err(None)
        };
        match started {
            Ok(worker) => {
                let (looked, failures) =
                    known(database).map_or((0, 0), |known| (known.looked, known.failures));
                self.starting = Some(Starting {
                    database,
                    worker,
                    looked,
                    failures,
                });
                self.no_worker_until = None;
                None
            }
            Err(error) => {
                if let Some(error) = error
                    && !std::mem::replace(&mut self.is_shortage_logged, true)
                    && shared::may_log_shortage()
                {
                    pgrx::warning!(
                        "rag: sources of a database are not synced for now: {error}. {}",
                        error.hint.as_deref().unwrap_or_default()
                    );
                }
                shared::set_crowded(true);
                wanting
                    .iter()
                    .for_each(|database| shared::delay_scheduler(*database, 0, true));
                self.no_worker_until = Some(Instant::now() + NO_WORKER_DELAY);
                Some(NO_WORKER_DELAY)
            }
        }
    }

    /// Takes the report of the scheduler that is being started, or notices that it has ended
    /// without one.
    fn take_report(&mut self) {
        let Some(Starting {
            database,
            worker,
            looked,
            failures,
        }) = &self.starting
        else {
            return;
        };
        // checked first: a scheduler reports before it ends
        let is_running = !has_ended(worker);
        let view = shared::view();
        let known = view.databases.iter().find(|known| known.oid == *database);
        if shared::take_absent(*database) {
            // if there is news meanwhile, the database is visited again
            self.absent.insert(*database);
        } else if view.scheduled.contains(database)
            || known.is_some_and(|known| known.looked != *looked)
        {
        } else if is_running {
            return;
        } else if known.is_none_or(|known| known.failures == *failures)
            && !view.evicted.contains(database)
        {
            let next = shared::after(now(), SILENT_SCHEDULER_DELAY);
            shared::delay_scheduler(*database, next, false);
        }
        self.starting = None;
    }
}

/// Returns when a scheduler is needed in a database.
fn due_time(known: &Database) -> i64 {
    if known.news || known.wants_metrics {
        0
    } else {
        let changes = match known.changes {
            NEVER => NEVER,
            changes => now().saturating_add(changes - uptime()),
        };
        known.due.min(changes)
    }
}

/// Returns the databases that can have a scheduler.
fn connectable_databases() -> Vec<u32> {
    match transaction(|| Ok(lookup::connectable_databases())) {
        Ok(databases) => databases,
        Err(error) => error.raise(),
    }
}
