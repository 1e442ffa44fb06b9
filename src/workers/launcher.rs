//! The worker that sees to it that each database with the extension has a scheduler: one per cluster, on a primary.
//!
//! It sleeps until it is told ([`shared`]) that databases or extensions have come or gone, or that a scheduler has ended. Whether a
//! database has the extension can be seen only from within: the launcher starts the scheduler of a database it knows nothing of,
//! one at a time, and that one says, and leaves at once where there is none. Templates are left alone: their copies are looked at
//! when they are made. It is connected to no database, and so in nobody's way.
#![allow(unsafe_code)] // the entry point that the postmaster calls, a scan of a shared catalog

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use pgrx::{
    bgworkers::{
        BackgroundWorker, BackgroundWorkerBuilder, BackgroundWorkerStatus, BgWorkerStartTime, DynamicBackgroundWorker,
        SignalWakeFlags,
    },
    pg_guard, pg_sys,
};

use super::{
    scheduler,
    shared::{self, News},
};
use crate::{engine::wait::wait, settings};

/// Longest sleep: what no hook tells (ALTER DATABASE ... ALLOW_CONNECTIONS) is seen after so long.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Between two starts of a scheduler that keeps ending; doubled each time up to the second figure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Until a worker is asked for again where the server has no room for one.
const NO_ROOM: Duration = Duration::from_secs(3);
/// A scheduler that ran for so long is not one that keeps ending.
const HEALTHY: Duration = Duration::from_secs(30);

/// Has the postmaster start the launcher with the server, or with the standby's promotion, and again should it end.
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

/// What the launcher knows of a database.
enum Known {
    /// It has no extension.
    Absent,
    /// Its scheduler was there when last looked.
    Scheduled { since: Instant, pause: Duration },
    /// Its scheduler ended before it said anything.
    Resting { until: Instant, pause: Duration },
    /// The server has no room for its scheduler.
    NoRoom { until: Instant },
}

/// The database whose new scheduler has not said yet whether it stays.
struct Starting {
    database: u32,
    worker: DynamicBackgroundWorker,
    pause: Duration,
    /// There was news of the database meanwhile, which the scheduler may have begun too early for.
    outdated: bool,
}

#[derive(Default)]
struct Launcher {
    known: HashMap<u32, Known>,
    starting: Option<Starting>,
    /// Whether the log says already that there is no room for a worker.
    complained: bool,
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn rag_launcher_main(_argument: pg_sys::Datum) {
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    super::end_on_sigterm();
    BackgroundWorker::connect_worker_to_spi(None, None);
    shared::enter_launcher();
    shared::note_zone();
    let mut launcher = Launcher::default();
    loop {
        if BackgroundWorker::sighup_received() {
            // SAFETY: the reaction to SIGHUP of every worker.
            unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
            shared::note_zone();
        }
        let sleep = launcher.look();
        wait(&[], Some(sleep));
    }
}

impl Launcher {
    /// Starts what is missing; how long there is nothing to do then.
    fn look(&mut self) -> Duration {
        self.hear_verdict();
        self.hear_news();
        if !settings::scheduler() {
            return LONGEST_SLEEP;
        }
        let (databases, scheduled, evicted) = (databases(), shared::scheduled_databases(), shared::evicted_databases());
        self.known.retain(|database, _| databases.contains(database));
        for database in scheduled.iter().filter(|database| !databases.contains(database)) {
            shared::end_scheduler(*database);
        }
        let mut sleep = LONGEST_SLEEP;
        for database in databases {
            if scheduled.contains(&database) {
                self.known.entry(database).or_insert(Known::Scheduled { since: Instant::now(), pause: FIRST_PAUSE });
                continue;
            }
            if evicted.contains(&database) || self.starting.is_some() {
                // the end of either wakes the launcher
                continue;
            }
            let (until, pause) = match self.known.get(&database) {
                Some(Known::Absent) => continue,
                None => (None, FIRST_PAUSE),
                // it has ended: the extension was dropped, the worker killed, or something keeps it from running
                Some(Known::Scheduled { since, .. }) if since.elapsed() >= HEALTHY => (None, FIRST_PAUSE),
                Some(Known::Scheduled { since, pause }) => (Some(*since + *pause), (*pause * 2).min(LONGEST_PAUSE)),
                Some(Known::Resting { until, pause }) => (Some(*until), *pause),
                Some(Known::NoRoom { until }) => (Some(*until), FIRST_PAUSE),
            };
            match until.map(|until| until.saturating_duration_since(Instant::now())).filter(|rest| !rest.is_zero()) {
                Some(rest) => sleep = sleep.min(rest),
                None => self.start(database, pause, &mut sleep),
            }
        }
        self.complained &= self.known.values().any(|known| matches!(known, Known::NoRoom { .. }));
        sleep
    }

    /// Forgets what it knows of databases that there is news of.
    fn hear_news(&mut self) {
        let news = shared::take_news();
        let concerns = |database: &u32| match &news {
            News::Of(databases) => databases.contains(database),
            News::OfAll => true,
        };
        self.known.retain(|database, _| !concerns(database));
        if let Some(starting) = &mut self.starting {
            starting.outdated |= concerns(&starting.database);
        }
    }

    /// Takes in what the scheduler that is being started says of its database, or that it has ended without a word.
    fn hear_verdict(&mut self) {
        let Some(Starting { database, worker, pause, outdated }) = &self.starting else { return };
        // asked first: what it says it says before it ends
        let running = matches!(worker.pid(), Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted));
        let known = if shared::scheduled_databases().contains(database) {
            Some(Known::Scheduled { since: Instant::now(), pause: *pause })
        } else if shared::take_absent(*database) {
            (!outdated).then_some(Known::Absent)
        } else if running {
            return;
        } else {
            Some(Known::Resting { until: Instant::now() + *pause, pause: (*pause * 2).min(LONGEST_PAUSE) })
        };
        match known {
            Some(known) => self.known.insert(*database, known),
            None => self.known.remove(database),
        };
        self.starting = None;
    }

    fn start(&mut self, database: u32, pause: Duration, sleep: &mut Duration) {
        match scheduler::start(database) {
            Ok(worker) => {
                self.starting = Some(Starting { database, worker, pause, outdated: false });
            }
            Err(error) => {
                if !std::mem::replace(&mut self.complained, true) {
                    pgrx::warning!(
                        "rag: sources of a database are not synced for now: {error}. {}",
                        error.hint.as_deref().unwrap_or_default()
                    );
                }
                self.known.insert(database, Known::NoRoom { until: Instant::now() + NO_ROOM });
                *sleep = (*sleep).min(NO_ROOM);
            }
        }
    }
}

/// The databases that can have a scheduler.
fn databases() -> Vec<u32> {
    let mut found = vec![];
    // SAFETY: a scan of a shared catalog in a transaction, as autovacuum's launcher does it; each tuple is read before the next.
    unsafe {
        pg_sys::StartTransactionCommand();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let relation = pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::AccessShareLock as i32);
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
