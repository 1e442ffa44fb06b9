//! The worker that starts a scheduler where there is something to do: one per cluster, on a
//! primary.
//!
//! It sleeps until a source of some database is due, or it is told ([`shared`]) of news: databases
//! or extensions have come or gone, a source was changed, a run has ended. As the launcher of
//! autovacuum it has few workers at work at a time ([`SCHEDULERS`]), each of which leaves when
//! nothing is near. Whether a database has the extension can be seen only from within: the launcher
//! starts the scheduler of a database it knows nothing of, and that one says, and leaves at once
//! where there is none. Templates are left alone: their copies are looked at when they are made.
//! The launcher is connected to no database, and so in nobody's way.
//!
//! Some things come without a word (a prepared transaction of another version, a row that was
//! written by hand with triggers off): one database after another is looked at, one every
//! [`ROUND`]. A clock that is set is noticed by the launcher itself, which knows when each database
//! is due and wakes every [`LONGEST_SLEEP`].
#![allow(unsafe_code)] // the entry point that the postmaster calls, a scan of a shared catalog

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use pgrx::{
    bgworkers::{
        BackgroundWorker, BackgroundWorkerBuilder, BackgroundWorkerStatus, BgWorkerStartTime,
        DynamicBackgroundWorker, SignalWakeFlags,
    },
    pg_guard, pg_sys,
};

use super::scheduler;
use crate::{
    cluster::{
        shared::{self, Database, NEVER},
        slots,
    },
    pg::wait::wait,
    settings,
};

/// Schedulers that are at work at the same time, so that few workers are enough for many databases.
const SCHEDULERS: usize = 2;
/// Longest sleep: what no hook tells (ALTER DATABASE ... ALLOW_CONNECTIONS, a clock that is set) is
/// seen after so long.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Between two looks at databases in which nothing is due.
const ROUND: Duration = Duration::from_secs(120);
/// Between two starts of a scheduler that cannot say anything.
const PAUSE: Duration = Duration::from_secs(2);
/// Until a worker is asked for again where the server has no room for one.
const NO_ROOM: Duration = Duration::from_secs(1);

/// Has the postmaster start the launcher with the server, or with the standby's promotion, and
/// again should it end.
pub fn register() {
    BackgroundWorkerBuilder::new("rag launcher")
        .set_type("rag launcher")
        .set_library("rag")
        .set_function("rag_launcher_main")
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(Some(Duration::from_secs(1)))
        .load();
}

/// The database whose new scheduler has not said yet whether it stays.
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
    /// The server had no room for a worker: not before this time again.
    no_room: Option<Instant>,
    /// Whether the log says already that there is no room for a worker.
    complained: bool,
    /// When the next database is looked at in which nothing is due.
    round: Instant,
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rag_launcher_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    crate::pg::worker::end_on_sigterm();
    BackgroundWorker::connect_worker_to_spi(None, None);
    shared::enter_launcher();
    shared::note_settings();
    let round = Instant::now() + ROUND;
    let mut launcher = Launcher {
        absent: HashSet::new(),
        starting: None,
        no_room: None,
        complained: false,
        round,
    };
    loop {
        if BackgroundWorker::sighup_received() {
            // SAFETY: the reaction to SIGHUP of every worker.
            unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
            shared::note_settings();
        }
        let sleep = launcher.look();
        wait(&[], Some(sleep));
    }
}

impl Launcher {
    /// Starts what is missing; how long there is nothing to do then.
    fn look(&mut self) -> Duration {
        let settled = slots::settle().unwrap_or(LONGEST_SLEEP);
        self.hear_verdict();
        if !settings::scheduler() {
            shared::set_crowded(false);
            return settled.min(LONGEST_SLEEP);
        }
        let (databases, view) = (databases(), shared::view());
        if view.news_of_all {
            self.absent.clear();
        }
        self.absent.retain(|database| databases.contains(database));
        for known in view
            .databases
            .iter()
            .filter(|known| !databases.contains(&known.oid))
        {
            shared::forget(known.oid);
        }
        for database in view
            .scheduled
            .iter()
            .filter(|database| !databases.contains(database))
        {
            shared::end_scheduler(*database);
        }
        let is_free = |database: &u32| {
            !view.scheduled.contains(database)
                && !view.evicting_all
                && !view.evicted.contains(database)
        };
        let known = |database: u32| view.databases.iter().find(|known| known.oid == database);
        // when a scheduler is to be started where, those first that have waited longest
        let mut due: Vec<(i64, u32)> = databases
            .iter()
            .copied()
            .filter(is_free)
            .filter_map(|database| match known(database) {
                Some(known) => Some((when(known), database)),
                None => (!self.absent.contains(&database)).then_some((0, database)),
            })
            .collect();
        due.sort_unstable();
        let now = crate::pg::process::now();
        let mut wanting: Vec<u32> = due
            .iter()
            .filter(|(at, _)| *at <= now)
            .map(|(_, database)| *database)
            .collect();
        let next = due.iter().map(|(at, _)| *at).find(|at| *at > now);
        if wanting.is_empty() && self.round <= Instant::now() {
            self.round = Instant::now() + ROUND;
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
        let mut sleep = settled
            .min(LONGEST_SLEEP)
            .min(self.round.saturating_duration_since(Instant::now()));
        if let Some(next) = next.filter(|next| *next != NEVER) {
            // a little longer than until the time itself, so that it has come
            sleep = sleep
                .min(Duration::from_micros((next - now).unsigned_abs()) + Duration::from_millis(1));
        }
        let rest = self.start_first(&wanting, view.scheduled.len(), known);
        sleep.min(rest.unwrap_or(LONGEST_SLEEP))
    }

    /// Starts a scheduler in the first of these databases, where there is room. When to look again,
    /// where nobody wakes the launcher before.
    fn start_first<'a>(
        &mut self,
        wanting: &[u32],
        schedulers: usize,
        known: impl Fn(u32) -> Option<&'a Database>,
    ) -> Option<Duration> {
        let Some(database) = wanting.first().copied() else {
            (self.no_room, self.complained) = (None, false);
            if self.starting.is_none() {
                shared::set_crowded(false);
            }
            return None;
        };
        if self.starting.is_some() {
            // its verdict, or its end, wakes the launcher
            return None;
        }
        if schedulers >= SCHEDULERS {
            shared::set_crowded(true);
            return Some(NO_ROOM);
        }
        let rest = self
            .no_room
            .map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            return Some(rest);
        }
        let started = match slots::may_schedule() {
            true => scheduler::start(database).map_err(Some),
            false => Err(None),
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
                self.no_room = None;
                None
            }
            Err(error) => {
                if let Some(error) = error
                    && !std::mem::replace(&mut self.complained, true)
                    && shared::complain()
                {
                    pgrx::warning!(
                        "rag: sources of a database are not synced for now: {error}. {}",
                        error.hint.as_deref().unwrap_or_default()
                    );
                }
                shared::set_crowded(true);
                wanting
                    .iter()
                    .for_each(|database| shared::put_off(*database, 0, true));
                self.no_room = Some(Instant::now() + NO_ROOM);
                Some(NO_ROOM)
            }
        }
    }

    /// Takes in what the scheduler that is being started says of its database, or that it has ended
    /// without a word.
    fn hear_verdict(&mut self) {
        let Some(Starting {
            database,
            worker,
            looked,
            failures,
        }) = &self.starting
        else {
            return;
        };
        // asked first: what it says it says before it ends
        let running = matches!(
            worker.pid(),
            Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted)
        );
        let view = shared::view();
        let known = view.databases.iter().find(|known| known.oid == *database);
        if shared::take_absent(*database) {
            // where there is news meanwhile it is looked at again
            self.absent.insert(*database);
        } else if view.scheduled.contains(database)
            || known.is_some_and(|known| known.looked != *looked)
        {
        } else if running {
            return;
        } else if known.is_none_or(|known| known.failures == *failures)
            && !view.evicted.contains(database)
        {
            shared::put_off(
                *database,
                shared::after(crate::pg::process::now(), PAUSE),
                false,
            );
        }
        self.starting = None;
    }
}

/// When a scheduler is to be started in a database that is known.
fn when(known: &Database) -> i64 {
    if known.news {
        0
    } else {
        known.due.min(known.changes)
    }
}

/// The databases that can have a scheduler.
fn databases() -> Vec<u32> {
    let mut found = vec![];
    // SAFETY: a scan of a shared catalog in a transaction, as autovacuum's launcher does it; each
    // tuple is read before the next.
    unsafe {
        pg_sys::StartTransactionCommand();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let relation =
            pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::AccessShareLock as i32);
        let scan = pg_sys::table_beginscan_catalog(relation, 0, std::ptr::null_mut());
        loop {
            let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if tuple.is_null() {
                break;
            }
            let row = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
            // -2: a DROP DATABASE that did not come to its end
            if row.datallowconn && !row.datistemplate && row.datconnlimit != -2 {
                found.push(row.oid.to_u32());
            }
        }
        pg_sys::heap_endscan(scan);
        pg_sys::table_close(relation, pg_sys::AccessShareLock as i32);
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
    }
    found
}
