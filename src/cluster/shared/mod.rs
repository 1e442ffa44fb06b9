//! Shared memory of the extension's processes. It exists with `shared_preload_libraries = 'rag'`.
//!
//! ```text
//!  session ── news of a database ──▶ Database::news ──▶ launcher ── starts ──▶ scheduler
//!                                    Database::due  ◀── leaves until then ──────┘
//! ```
//!
//! News are CREATE EXTENSION, a changed source and the like. [`Database`] holds what is known of a
//! database with the extension: when something in it is due next, and whether there is news of it.
//! A scheduler leaves only if there is none ([`leave_until`]), so no news is lost. Slots for runs,
//! and what waits for them, are in [`slots`](super::slots).
//!
//! A process enters itself and leaves when it exits. If a process is killed hard, the postmaster
//! restarts the others and initializes the shared memory again. Processes are woken by SIGUSR1,
//! which sets the latch.
//!
//! [`scheduler`], [`launcher`] and [`evictions`] hold the functions that schedulers, the launcher
//! and sessions which need a database for themselves call. [`metrics`] and [`engine`] are for those
//! that monitor the server.
#![allow(unsafe_code)] // the declaration of the shared memory

mod engine;
mod evictions;
mod launcher;
mod metrics;
mod scheduler;

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use pgrx::{PGRXSharedMemory, PgLwLock, pg_guard, pg_shmem_init, pg_sys};

use super::{
    backoff::Backoff,
    slots::{self, Slots},
};
use crate::{
    pg::{
        guc,
        process::{at_exit, database, my_pid, now, signal, uptime},
    },
    settings,
};

pub use engine::{engine, engine_ended, engine_started};
pub use evictions::{end_evictions, evict_workers, is_being_evicted};
pub use launcher::{
    View, delay_scheduler, end_scheduler, enter_launcher, forget, set_crowded, settings_reloaded,
    take_absent, view,
};
pub use metrics::want_metrics;
pub use scheduler::{
    DatabaseNews, is_crowded, leave_until, may_log_shortage, note_versions, report_extension,
    set_changes, set_no_worker, take_news,
};

/// Maximum number of workers that can be entered: schedulers and runners of all databases.
const WORKERS: usize = 256;
/// Maximum number of databases that are remembered. Others are visited from time to time, as if
/// nothing was known of them.
const DATABASES: usize = 1024;
/// Maximum number of databases that sessions keep free of workers at the same time.
const EVICTIONS: usize = 256;
/// Maximum number of bytes of a time zone's name in Postgres.
const ZONE: usize = 256;

/// A time that never comes, of whatever clock.
///
/// What shall happen at a time of day is planned by the server's clock, [`now`]. What shall happen
/// after a delay is planned by [`uptime`], so that nothing waits for weeks if the server's clock
/// was weeks ahead.
pub const NEVER: i64 = i64::MAX;
const LONG_AGO: i64 = i64::MIN;
/// Delays between starts of a scheduler that keeps failing.
const SCHEDULER_RESTARTS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// Interval between log messages about missing background worker slots.
const SHORTAGE_LOG_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerKind {
    Scheduler,
    Runner,
}

#[derive(Clone, Copy)]
struct Worker {
    database: u32,
    pid: i32,
    kind: WorkerKind,
}

/// A session that needs a database without other processes in it.
#[derive(Clone, Copy)]
struct Eviction {
    database: u32,
    session: i32,
}

/// What is known of a database that has the extension, or of which there is news.
#[derive(Debug, Clone, Copy)]
pub struct Database {
    pub oid: u32,
    /// A scheduler has found the extension in it.
    pub has_extension: bool,
    /// Something has changed since a scheduler last looked.
    pub news: bool,
    /// When the next source is due, by the server's clock, or [`NEVER`].
    pub due: i64,
    /// When to sync the changes of tables that triggers have recorded, by [`uptime`], or [`NEVER`]
    /// if none were recorded since the last time.
    pub changes: i64,
    /// When a scheduler last looked, by [`uptime`].
    pub looked: i64,
    /// Number of schedulers in a row that have failed.
    pub failures: u32,
    /// The generation of the settings under which old runs were last deleted.
    settings: u32,
    /// No background worker slot is free for its scheduler, or for a runner that it wants to start.
    pub lacks_worker: bool,
    /// When it last got a slot, as a counter, and whether a session got it.
    pub served: u64,
    pub served_session: bool,
    /// The log has told that the extension in it has another version than the library.
    versions_differ: bool,
    /// A session has asked for the metrics of the database.
    pub wants_metrics: bool,
    /// When a scheduler last wrote them, by [`uptime`], or [`LONG_AGO`].
    metrics_written: i64,
}

impl Database {
    const fn new(oid: u32) -> Self {
        Self {
            oid,
            has_extension: false,
            news: false,
            due: NEVER,
            changes: NEVER,
            looked: 0,
            failures: 0,
            settings: 0,
            lacks_worker: false,
            served: 0,
            served_session: false,
            versions_differ: false,
            wants_metrics: false,
            metrics_written: LONG_AGO,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Shared {
    launcher: i32,
    workers: [Option<Worker>; WORKERS],
    databases: [Option<Database>; DATABASES],
    evictions: [Option<Eviction>; EVICTIONS],
    /// Number of sessions with more evictions than there is room for. They keep all databases free
    /// of workers.
    evicting_all: u32,
    /// There is news of databases that are not remembered.
    news_of_all: bool,
    /// The last database in which a scheduler found no extension, or 0.
    absent: u32,
    /// Other databases wait for a scheduler, or a run for a worker: idle schedulers leave.
    crowded: bool,
    /// When the log last mentioned that no background worker slot is free, by [`uptime`].
    shortage_logged: i64,
    /// Counts how often the settings were read.
    settings: u32,
    /// The server's time zone, up to the first 0.
    zone: [u8; ZONE],
    /// The process id of `rag-engine`, or 0.
    engine: i32,
    engine_starts: u64,
    pub slots: Slots,
}

impl Shared {
    const EMPTY: Self = Self {
        launcher: 0,
        workers: [None; WORKERS],
        databases: [None; DATABASES],
        evictions: [None; EVICTIONS],
        evicting_all: 0,
        news_of_all: false,
        absent: 0,
        crowded: false,
        shortage_logged: LONG_AGO,
        settings: 1,
        zone: [0; ZONE],
        engine: 0,
        engine_starts: 0,
        slots: Slots::EMPTY,
    };

    pub fn database(&mut self, oid: u32) -> Option<&mut Database> {
        self.databases
            .iter_mut()
            .flatten()
            .find(|database| database.oid == oid)
    }

    /// Returns what is known of a database, which is remembered from now on if there is room.
    fn remember(&mut self, oid: u32) -> Option<&mut Database> {
        let place = self
            .databases
            .iter()
            .position(|place| place.is_some_and(|database| database.oid == oid))
            .or_else(|| self.databases.iter().position(Option::is_none));
        let Some(place) = place else {
            self.news_of_all = true;
            return None;
        };
        Some(self.databases[place].get_or_insert(Database::new(oid)))
    }

    /// Returns the process id of the launcher, or 0.
    pub fn launcher(&self) -> i32 {
        self.launcher
    }

    fn schedulers(&self) -> impl Iterator<Item = &Worker> {
        self.workers
            .iter()
            .flatten()
            .filter(|worker| worker.kind == WorkerKind::Scheduler)
    }

    fn scheduler_of(&self, oid: u32) -> Option<i32> {
        self.schedulers()
            .find(|worker| worker.database == oid)
            .map(|worker| worker.pid)
    }

    /// Removes a process from the workers.
    fn remove_worker(&mut self, pid: i32) -> Option<Worker> {
        self.workers
            .iter_mut()
            .find(|place| place.is_some_and(|worker| worker.pid == pid))
            .and_then(Option::take)
    }

    /// Records news of a database. Returns the process to wake.
    pub fn wake(&mut self, oid: u32) -> i32 {
        if let Some(database) = self.remember(oid) {
            database.news = true;
        }
        self.scheduler_of(oid).unwrap_or(self.launcher)
    }

    fn is_evicted(&self, oid: u32, by_others_than: i32) -> bool {
        let is_it =
            |eviction: &Eviction| eviction.database == oid && eviction.session != by_others_than;
        self.evictions.iter().flatten().any(is_it)
            || self.evicting_all > u32::from(EVICTING_ALL.get())
    }
}

// SAFETY: plain data without pointers.
unsafe impl PGRXSharedMemory for Shared {}

// SAFETY: no other lock has this name.
static SHARED: PgLwLock<Shared> = unsafe { PgLwLock::new(c"rag workers") };
/// True if the shared memory exists. The postmaster sets it, and its children inherit it.
static PRESENT: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// True if this session is one of `evicting_all`.
    static EVICTING_ALL: Cell<bool> = const { Cell::new(false) };
}

/// Requests the shared memory. Called while the server loads its preloaded libraries.
pub fn request() {
    pg_shmem_init!(
        SHARED = Shared {
            zone: current_zone(),
            ..Shared::EMPTY
        }
    );
    PRESENT.store(true, Relaxed);
}

/// Returns true if the library was loaded with the server, so that the shared memory exists.
pub fn is_present() -> bool {
    PRESENT.load(Relaxed)
}

/// Runs `f` while no other process reads or changes the shared memory, which exists.
pub fn exclusively<R>(f: impl FnOnce(&mut Shared) -> R) -> R {
    f(&mut SHARED.exclusive())
}

/// Returns a time plus a duration.
pub fn after(time: i64, duration: Duration) -> i64 {
    time.saturating_add(duration.as_micros().try_into().unwrap_or(NEVER))
}

fn wake_all(pids: impl IntoIterator<Item = i32>) {
    pids.into_iter().for_each(|pid| signal(pid, libc::SIGUSR1));
}

// -- the server's time zone, which sessions do not see if their clients set another one

/// Returns the setting of this process. In a process without database and client it is the
/// server's.
fn current_zone() -> [u8; ZONE] {
    let mut zone = [0; ZONE];
    zone.iter_mut()
        .zip(guc::setting(c"timezone").bytes())
        .for_each(|(to, from)| *to = from);
    zone
}

/// Returns the time zone that the command line and the configuration files give the server, or
/// `None` if the library was not loaded with it.
pub fn zone() -> Option<String> {
    if !is_present() {
        return None;
    }
    let zone = SHARED.share().zone;
    Some(
        zone.split(|byte| *byte == 0)
            .next()
            .map(String::from_utf8_lossy)
            .unwrap_or_default()
            .into_owned(),
    )
}

// -- entering and leaving

/// Enters this process as a worker of its database until it exits. Returns false if a session needs
/// the database without it, or there is no room for another entry.
pub fn enter(kind: WorkerKind) -> bool {
    if !is_present() {
        return true;
    }
    leave_at_exit();
    let worker = Worker {
        database: database().to_u32(),
        pid: my_pid(),
        kind,
    };
    let mut shared = SHARED.exclusive();
    let Some(place) = shared.workers.iter_mut().find(|place| place.is_none()) else {
        return false;
    };
    *place = Some(worker);
    if kind == WorkerKind::Scheduler
        && let Some(database) = shared.remember(worker.database)
    {
        database.has_extension = true;
    }
    !shared.is_evicted(worker.database, worker.pid)
}

/// Removes this process from shared memory when it exits, after it has released its locks: the
/// processes that are woken then acquire them.
pub fn leave_at_exit() {
    at_exit(leave);
}

fn leave() {
    let pid = my_pid();
    let mut shared = SHARED.exclusive();
    let mut to_wake = slots::leave(&mut shared, pid);
    if shared.launcher == pid {
        shared.launcher = 0;
    }
    if EVICTING_ALL.replace(false) {
        shared.evicting_all = shared.evicting_all.saturating_sub(1);
    }
    if let Some(worker) = shared.remove_worker(pid) {
        let is_scheduler = worker.kind == WorkerKind::Scheduler;
        if is_scheduler || shared.crowded {
            to_wake.push(shared.launcher);
        }
        if !is_scheduler {
            to_wake.push(shared.wake(worker.database));
        } else if let Some(database) = shared.database(worker.database) {
            // one that leaves on purpose has removed itself before
            let delay = SCHEDULER_RESTARTS.nth(database.failures);
            database.failures += 1;
            database.due = after(now(), delay);
            database.news = false;
        }
        if shared.crowded {
            to_wake.extend(shared.schedulers().map(|worker| worker.pid));
        }
    }
    drop(shared);
    wake_all(to_wake);
}

// -- waking

/// Wakes the scheduler of the current database, or asks the launcher to start it.
pub fn wake_scheduler() {
    if is_present() {
        let pid = SHARED.exclusive().wake(database().to_u32());
        signal(pid, libc::SIGUSR1);
    }
}

/// Schedules runs after `rag.trigger_delay`, for changes of tables that triggers have just recorded
/// in the current database. It is cheap: it is called at the end of each transaction that changes
/// such a table.
pub fn note_changes() {
    if !is_present() {
        return;
    }
    let oid = database().to_u32();
    let is_noted = |place: &Option<Database>| {
        place.is_some_and(|known| known.oid == oid && known.changes != NEVER)
    };
    if SHARED.share().databases.iter().any(is_noted) {
        return;
    }
    let at = after(uptime(), settings::trigger_delay());
    let mut shared = SHARED.exclusive();
    if let Some(database) = shared.remember(oid) {
        database.changes = database.changes.min(at);
    }
    let pid = shared.scheduler_of(oid).unwrap_or(shared.launcher);
    drop(shared);
    signal(pid, libc::SIGUSR1);
}

/// Tells the launcher that databases were created or dropped, and that `database` may have got the
/// extension or lost it.
pub fn tell_launcher(database: Option<pg_sys::Oid>) {
    if !is_present() {
        return;
    }
    let mut shared = SHARED.exclusive();
    if let Some(database) = database {
        shared.wake(database.to_u32());
    }
    let launcher = shared.launcher;
    drop(shared);
    signal(launcher, libc::SIGUSR1);
}

/// Returns what keeps the sources of the current database from being synced automatically, as far
/// as the shared memory shows it.
pub fn why_idle() -> Option<&'static str> {
    let shared = SHARED.share();
    let oid = database().to_u32();
    let known = shared
        .databases
        .iter()
        .flatten()
        .find(|known| known.oid == oid);
    if shared.launcher == 0 {
        return Some("the worker \"rag launcher\" is not running");
    }
    match known {
        Some(known) if known.lacks_worker => {
            Some("no background worker slot is free (max_worker_processes)")
        }
        Some(known) if known.has_extension => None,
        _ => Some("the worker \"rag launcher\" has not visited this database yet"),
    }
}
