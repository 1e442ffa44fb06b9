//! What the extension's processes know of each other: a piece of shared memory, there with `shared_preload_libraries = 'rag'`.
//!
//! ```text
//!  session ── news of a database (CREATE EXTENSION, CREATE DATABASE, ...) ──▶ launcher ── starts ──▶ scheduler of the database
//!     │                                                                         ▲                        │  ▲
//!     │                                                                         └── has it the extension ┘  │
//!     └── a source was made, changed, asked for ──────────────────────────────────────── wakes ────────────┘
//! ```
//!
//! A process enters itself and leaves with its exit; one that is killed hard takes the whole of the shared memory with it, because
//! the postmaster then begins anew. Waking is SIGUSR1, which sets the latch.
#![allow(unsafe_code)] // shared memory and signals

use std::{
    ffi::CStr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use pgrx::{PGRXSharedMemory, PgLwLock, pg_guard, pg_shmem_init, pg_sys};

use super::lock::database;

/// Workers that can be entered: schedulers and runners of all databases.
const WORKERS: usize = 256;
/// Databases that sessions need emptied at the same time.
const EVICTIONS: usize = 32;
/// Databases that there is news of; more are as good as all.
const NEWS: usize = 64;
/// Bytes of a time zone's name, as Postgres bounds it.
const ZONE: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Scheduler,
    Runner,
}

#[derive(Clone, Copy)]
struct Worker {
    database: u32,
    pid: i32,
    kind: Kind,
}

/// A session that needs a database without other processes in it.
#[derive(Clone, Copy)]
struct Eviction {
    database: u32,
    session: i32,
}

#[derive(Clone, Copy)]
struct Shared {
    launcher: i32,
    workers: [Option<Worker>; WORKERS],
    evictions: [Option<Eviction>; EVICTIONS],
    news: [u32; NEWS],
    news_of_all: bool,
    /// The last database in which a scheduler found no extension when it began; 0: none.
    absent: u32,
    /// The server's time zone, ending with the first 0.
    zone: [u8; ZONE],
}

impl Shared {
    const EMPTY: Self = Self {
        launcher: 0,
        workers: [None; WORKERS],
        evictions: [None; EVICTIONS],
        news: [0; NEWS],
        news_of_all: false,
        absent: 0,
        zone: [0; ZONE],
    };

    fn note_news(&mut self, database: u32) {
        match self.news.iter_mut().find(|place| **place == 0 || **place == database) {
            Some(place) => *place = database,
            None => self.news_of_all = true,
        }
    }
}

// SAFETY: plain data without pointers.
unsafe impl PGRXSharedMemory for Shared {}

// SAFETY: nobody else has a lock of this name.
static SHARED: PgLwLock<Shared> = unsafe { PgLwLock::new(c"rag workers") };
/// Whether the shared memory is there: set in the postmaster, whose children inherit it.
static PRESENT: AtomicBool = AtomicBool::new(false);

/// Asks for the shared memory; while the server loads its preloaded libraries.
pub fn request() {
    pg_shmem_init!(SHARED = Shared { zone: present_zone(), ..Shared::EMPTY });
    PRESENT.store(true, Relaxed);
}

/// Whether the library was loaded with the server.
pub fn is_present() -> bool {
    PRESENT.load(Relaxed)
}

fn my_pid() -> i32 {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyProcPid }
}

fn signal(pid: i32, signal: i32) {
    if pid > 0 {
        // SAFETY: a signal to a process of this server.
        unsafe { libc::kill(pid, signal) };
    }
}

// -- the server's time zone, which sessions do not see behind their clients' ------------------------------------------------------------

/// The setting of this process: where it serves no database and no client, the server's.
fn present_zone() -> [u8; ZONE] {
    // SAFETY: a setting that exists; its text is read before anything changes it.
    let setting = unsafe {
        let setting = pg_sys::GetConfigOption(c"timezone".as_ptr(), true, false);
        if setting.is_null() { c"" } else { CStr::from_ptr(setting) }
    };
    let mut zone = [0; ZONE];
    zone.iter_mut().zip(setting.to_bytes()).for_each(|(to, from)| *to = *from);
    zone
}

/// Notes the server's time zone, for the launcher.
pub fn note_zone() {
    let zone = present_zone();
    let before = std::mem::replace(&mut SHARED.exclusive().zone, zone);
    if zone != before {
        wake_schedulers();
    }
}

/// The time zone that command line and configuration files give the server. `None` where the library was not loaded with it.
pub fn zone() -> Option<String> {
    if !is_present() {
        return None;
    }
    let zone = SHARED.share().zone;
    Some(zone.split(|byte| *byte == 0).next().map(String::from_utf8_lossy).unwrap_or_default().into_owned())
}

// -- entering and leaving ---------------------------------------------------------------------------------------------

/// Enters this process as a worker of its database until it ends; false where a session needs the database without it, or there are
/// so many that nobody would know of this one.
pub fn enter(kind: Kind) -> bool {
    if !is_present() {
        return true;
    }
    leave_at_exit();
    let worker = Worker { database: database().to_u32(), pid: my_pid(), kind };
    let mut shared = SHARED.exclusive();
    let Some(place) = shared.workers.iter_mut().find(|place| place.is_none()) else { return false };
    *place = Some(worker);
    !shared.evictions.iter().flatten().any(|eviction| eviction.database == worker.database)
}

#[pg_guard]
unsafe extern "C-unwind" fn leave(_code: std::ffi::c_int, _argument: pg_sys::Datum) {
    let pid = my_pid();
    let mut shared = SHARED.exclusive();
    if shared.launcher == pid {
        shared.launcher = 0;
        return;
    }
    let Some(place) = shared.workers.iter_mut().find(|place| place.is_some_and(|worker| worker.pid == pid)) else {
        return;
    };
    let worker = place.take();
    let launcher = shared.launcher;
    drop(shared);
    match worker.map(|worker| worker.kind) {
        Some(Kind::Scheduler) => signal(launcher, libc::SIGUSR1),
        Some(Kind::Runner) => wake_schedulers(),
        None => {}
    }
}

pub fn enter_launcher() {
    leave_at_exit();
    let mut shared = SHARED.exclusive();
    shared.launcher = my_pid();
    // meant for the launcher before this one
    shared.absent = 0;
}

/// Once the process has given back its locks: whoever is told of its end takes them.
fn leave_at_exit() {
    // SAFETY: the callback stays valid as long as the library, which is never unloaded.
    unsafe { pg_sys::on_shmem_exit(Some(leave), pg_sys::Datum::null()) };
}

// -- waking -----------------------------------------------------------------------------------------------------------

/// Wakes the scheduler of the present database.
pub fn wake_scheduler() {
    wake(|worker| worker.kind == Kind::Scheduler && worker.database == database().to_u32());
}

/// Wakes the schedulers of all databases: there may be room for a run.
pub fn wake_schedulers() {
    wake(|worker| worker.kind == Kind::Scheduler);
}

fn wake(whom: impl Fn(&Worker) -> bool) {
    if !is_present() {
        return;
    }
    let workers = SHARED.share().workers;
    for worker in workers.iter().flatten().filter(|worker| whom(worker)) {
        signal(worker.pid, libc::SIGUSR1);
    }
}

/// Tells the launcher that databases have come or gone, and that `database`, if there is one, may have got the extension or lost it.
pub fn tell_launcher(database: Option<pg_sys::Oid>) {
    if !is_present() {
        return;
    }
    let mut shared = SHARED.exclusive();
    if let Some(database) = database {
        shared.note_news(database.to_u32());
    }
    let launcher = shared.launcher;
    drop(shared);
    signal(launcher, libc::SIGUSR1);
}

// -- for the launcher -------------------------------------------------------------------------------------------------

/// Which databases there is news of.
pub enum News {
    Of(Vec<u32>),
    OfAll,
}

pub fn take_news() -> News {
    let mut shared = SHARED.exclusive();
    let news = shared.news.iter().copied().filter(|database| *database != 0).collect();
    let of_all = shared.news_of_all;
    shared.news = [0; NEWS];
    shared.news_of_all = false;
    if of_all { News::OfAll } else { News::Of(news) }
}

/// Databases that have a scheduler.
pub fn scheduled_databases() -> Vec<u32> {
    let workers = SHARED.share().workers;
    workers.iter().flatten().filter(|worker| worker.kind == Kind::Scheduler).map(|worker| worker.database).collect()
}

/// Ends the scheduler of a database that is to have none.
pub fn end_scheduler(database: u32) {
    let workers = SHARED.share().workers;
    let has_it = |worker: &&Worker| worker.kind == Kind::Scheduler && worker.database == database;
    for worker in workers.iter().flatten().filter(has_it) {
        signal(worker.pid, libc::SIGTERM);
    }
}

/// Databases that sessions need emptied.
pub fn evicted_databases() -> Vec<u32> {
    let evictions = SHARED.share().evictions;
    evictions.iter().flatten().map(|eviction| eviction.database).collect()
}

/// A scheduler that has begun says whether its database has the extension; where it has, it has entered itself.
pub fn give_verdict(has_extension: bool) {
    let mut shared = SHARED.exclusive();
    if !has_extension {
        shared.absent = database().to_u32();
    }
    let launcher = shared.launcher;
    drop(shared);
    signal(launcher, libc::SIGUSR1);
}

/// Whether the scheduler of `database` has said that there is no extension.
pub fn take_absent(database: u32) -> bool {
    let mut shared = SHARED.exclusive();
    let is_absent = shared.absent == database;
    if is_absent {
        shared.absent = 0;
    }
    is_absent
}

// -- databases that must be empty -------------------------------------------------------------------------------------

/// Ends the extension's workers in `database`, and keeps others away until [`end_evictions`].
pub fn evict(database: pg_sys::Oid) {
    if !is_present() {
        return;
    }
    let database = database.to_u32();
    let mut shared = SHARED.exclusive();
    if let Some(place) = shared.evictions.iter_mut().find(|place| place.is_none()) {
        *place = Some(Eviction { database, session: my_pid() });
    }
    let workers = shared.workers;
    drop(shared);
    for worker in workers.iter().flatten().filter(|worker| worker.database == database) {
        signal(worker.pid, libc::SIGTERM);
    }
}

/// Whether another session needs the present database emptied.
pub fn is_being_emptied() -> bool {
    let (database, session) = (database().to_u32(), my_pid());
    let is_this = |eviction: &Eviction| eviction.database == database && eviction.session != session;
    is_present() && SHARED.share().evictions.iter().flatten().any(is_this)
}

/// This session needs no database emptied any more.
pub fn end_evictions() {
    let session = my_pid();
    let mut shared = SHARED.exclusive();
    for place in 0..EVICTIONS {
        if let Some(eviction) = shared.evictions[place].filter(|eviction| eviction.session == session) {
            shared.evictions[place] = None;
            // its scheduler ended because it was asked to: it need not wait to be started again
            shared.note_news(eviction.database);
        }
    }
    let launcher = shared.launcher;
    drop(shared);
    signal(launcher, libc::SIGUSR1);
}
