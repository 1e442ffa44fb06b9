//! What the extension's processes know of each other: a piece of shared memory, there with
//! `shared_preload_libraries = 'rag'`.
//!
//! ```text
//!  session ── news of a database (CREATE EXTENSION, a source was changed, ...) ──▶ Database::news ──▶ launcher ── starts ──▶ scheduler
//!                                                                                   Database::due ◀── leaves until then ──────┘
//! ```
//!
//! [`Database`] is what is known of a database with the extension: when something in it is due
//! next, and whether there is news of it. A scheduler leaves only where there is none
//! ([`leave_until`]), so that no news is lost. Slots for runs and who waits for them are in
//! [`slots`](super::slots).
//!
//! A process enters itself and leaves with its exit; one that is killed hard takes the whole of the
//! shared memory with it, because the postmaster then begins again. Waking is SIGUSR1, which sets
//! the latch.
#![allow(unsafe_code)] // shared memory and signals

use std::{
    cell::Cell,
    ffi::CStr,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use pgrx::{PGRXSharedMemory, PgLwLock, pg_guard, pg_shmem_init, pg_sys};

use super::slots::{self, Slots};
use crate::{pg::process::database, settings};

/// Workers that can be entered: schedulers and runners of all databases.
const WORKERS: usize = 256;
/// Databases that are remembered. Others are looked at from time to time, as if nothing was known
/// of them.
const DATABASES: usize = 1024;
/// Databases that sessions need emptied at the same time, and how many of them one session can
/// have.
const EVICTIONS: usize = 256;
const EVICTIONS_OF_SESSION: usize = 8;
/// Bytes of a time zone's name, as Postgres bounds it.
const ZONE: usize = 256;

/// A time that does not come, in microseconds as Postgres counts them.
pub const NEVER: i64 = i64::MAX;
/// Between two starts of a scheduler that keeps ending; doubled each time up to the second figure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

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

/// What is known of a database that has the extension, or that there is news of.
#[derive(Debug, Clone, Copy)]
pub struct Database {
    pub oid: u32,
    /// A scheduler has found the extension in it.
    pub has_extension: bool,
    /// Something has changed since a scheduler last looked.
    pub news: bool,
    /// When the next source is due; [`NEVER`]: none will be.
    pub due: i64,
    /// When the changes of tables that triggers have noted are to be synced; [`NEVER`]: none were
    /// noted since the last time.
    pub changes: i64,
    /// When a scheduler last looked.
    pub looked: i64,
    /// Schedulers that have ended in a row before they had come to an end.
    pub failures: u32,
    /// The generation of the settings that old runs were last deleted under.
    settings: u32,
    /// The server has no room for its scheduler, or for a runner that it wants to start.
    pub no_room: bool,
    /// When it last got a slot, as a counter, and whether a session got it.
    pub served: u64,
    pub served_session: bool,
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
            no_room: false,
            served: 0,
            served_session: false,
        }
    }
}

#[derive(Clone, Copy)]
pub struct Shared {
    launcher: i32,
    workers: [Option<Worker>; WORKERS],
    databases: [Option<Database>; DATABASES],
    evictions: [Option<Eviction>; EVICTIONS],
    /// Sessions that have more evictions than there is room for: all databases are evicted then.
    evicting_all: u32,
    /// There is news of databases that there is no place for.
    news_of_all: bool,
    /// The last database in which a scheduler found no extension; 0: none.
    absent: u32,
    /// Other databases wait for a scheduler, or a run for a worker: whoever has nothing to do
    /// leaves.
    crowded: bool,
    /// When the log last said that the server has no room for a worker.
    complained: i64,
    /// Counts the times that the settings were read.
    settings: u32,
    /// The server's time zone, ending with the first 0.
    zone: [u8; ZONE],
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
        complained: 0,
        settings: 1,
        zone: [0; ZONE],
        slots: Slots::EMPTY,
    };

    pub fn database(&mut self, oid: u32) -> Option<&mut Database> {
        self.databases
            .iter_mut()
            .flatten()
            .find(|database| database.oid == oid)
    }

    /// The same; a place is taken for it where it has none and one is free.
    fn note(&mut self, oid: u32) -> Option<&mut Database> {
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

    /// The process id of the launcher; 0: there is none.
    pub fn launcher(&self) -> i32 {
        self.launcher
    }

    fn scheduler_of(&self, oid: u32) -> Option<i32> {
        let has_it = |worker: &&Worker| worker.kind == Kind::Scheduler && worker.database == oid;
        self.workers
            .iter()
            .flatten()
            .find(has_it)
            .map(|worker| worker.pid)
    }

    /// Notes news of a database; the process to be told.
    pub fn wake(&mut self, oid: u32) -> i32 {
        if let Some(database) = self.note(oid) {
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

// SAFETY: nobody else has a lock of this name.
static SHARED: PgLwLock<Shared> = unsafe { PgLwLock::new(c"rag workers") };
/// Whether the shared memory is there: set in the postmaster, whose children inherit it.
static PRESENT: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this session is one of `evicting_all`.
    static EVICTING_ALL: Cell<bool> = const { Cell::new(false) };
}

/// Asks for the shared memory; while the server loads its preloaded libraries.
pub fn request() {
    pg_shmem_init!(
        SHARED = Shared {
            zone: present_zone(),
            ..Shared::EMPTY
        }
    );
    PRESENT.store(true, Relaxed);
}

/// Whether the library was loaded with the server.
pub fn is_present() -> bool {
    PRESENT.load(Relaxed)
}

/// Runs `f` while nobody else reads or changes the shared memory, which is there.
pub fn exclusively<R>(f: impl FnOnce(&mut Shared) -> R) -> R {
    f(&mut SHARED.exclusive())
}

pub fn my_pid() -> i32 {
    // SAFETY: reads a variable of the process.
    unsafe { pg_sys::MyProcPid }
}

/// The server's clock, in microseconds as Postgres counts them.
pub fn now() -> i64 {
    // SAFETY: reads the clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// A time that is so long after another one.
pub fn after(time: i64, pause: Duration) -> i64 {
    time.saturating_add(pause.as_micros().try_into().unwrap_or(NEVER))
}

pub fn signal(pid: i32, signal: i32) {
    if pid > 0 {
        // SAFETY: a signal to a process of this server.
        unsafe { libc::kill(pid, signal) };
    }
}

// -- the server's time zone, which sessions do not see behind their clients'
// ------------------------------------------

/// The setting of this process: where it serves no database and no client, the server's.
fn present_zone() -> [u8; ZONE] {
    // SAFETY: a setting that exists; its text is read before anything changes it.
    let setting = unsafe {
        let setting = pg_sys::GetConfigOption(c"timezone".as_ptr(), true, false);
        if setting.is_null() {
            c""
        } else {
            CStr::from_ptr(setting)
        }
    };
    let mut zone = [0; ZONE];
    zone.iter_mut()
        .zip(setting.to_bytes())
        .for_each(|(to, from)| *to = *from);
    zone
}

/// The time zone that command line and configuration files give the server. `None` where the
/// library was not loaded with it.
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
// ---------------------------------------------------------------------------------------------

/// Enters this process as a worker of its database until it ends. False where a session needs the
/// database without it, or there are so many that nobody would know of this one.
pub fn enter(kind: Kind) -> bool {
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
    if kind == Kind::Scheduler
        && let Some(database) = shared.note(worker.database)
    {
        database.has_extension = true;
    }
    !shared.is_evicted(worker.database, worker.pid)
}

#[pg_guard]
unsafe extern "C-unwind" fn leave(_code: std::ffi::c_int, _argument: pg_sys::Datum) {
    let pid = my_pid();
    let mut shared = SHARED.exclusive();
    let mut told = slots::leave(&mut shared, pid);
    if shared.launcher == pid {
        shared.launcher = 0;
    }
    if EVICTING_ALL.replace(false) {
        shared.evicting_all = shared.evicting_all.saturating_sub(1);
    }
    let place = shared
        .workers
        .iter_mut()
        .find(|place| place.is_some_and(|worker| worker.pid == pid));
    if let Some(worker) = place.and_then(Option::take) {
        if worker.kind == Kind::Scheduler || shared.crowded {
            told.push(shared.launcher);
        }
        if worker.kind == Kind::Scheduler {
            // it has not come to its end
            if let Some(database) = shared.database(worker.database) {
                let pause = FIRST_PAUSE
                    .saturating_mul(1 << database.failures.min(6))
                    .min(LONGEST_PAUSE);
                database.failures += 1;
                database.due = after(now(), pause);
                database.news = false;
            }
        } else {
            told.push(shared.wake(worker.database));
        }
        if shared.crowded {
            let schedulers = shared
                .workers
                .iter()
                .flatten()
                .filter(|worker| worker.kind == Kind::Scheduler);
            told.extend(schedulers.map(|worker| worker.pid));
        }
    }
    drop(shared);
    told.into_iter().for_each(|pid| signal(pid, libc::SIGUSR1));
}

pub fn enter_launcher() {
    leave_at_exit();
    let mut shared = SHARED.exclusive();
    shared.launcher = my_pid();
    // meant for the launcher before this one
    shared.absent = 0;
}

/// Has the shared memory cleared of this process when it ends, once it has given back its locks:
/// whoever is told of its end takes them.
pub fn leave_at_exit() {
    static REGISTER: Once = Once::new();
    // SAFETY: the callback stays valid as long as the library, which is never unloaded.
    REGISTER.call_once(|| unsafe { pg_sys::on_shmem_exit(Some(leave), pg_sys::Datum::null()) });
}

// -- for schedulers
// ---------------------------------------------------------------------------------------------------

/// What a scheduler is told when it is about to look at its database.
pub struct Told {
    /// Something has changed since the last look.
    pub news: bool,
    /// When changes of tables are to be synced: in the past now, in the future later, [`NEVER`]
    /// where none were noted.
    pub changes: i64,
    /// The settings are other ones than when old runs were last deleted.
    pub settings: bool,
}

/// What there is to know before a look at the present database, which is then known.
pub fn begin_look() -> Told {
    if !is_present() {
        return Told {
            news: false,
            changes: NEVER,
            settings: false,
        };
    }
    let mut shared = SHARED.exclusive();
    let settings = shared.settings;
    let Some(database) = shared.note(database().to_u32()) else {
        return Told {
            news: true,
            changes: NEVER,
            settings: false,
        };
    };
    let told = Told {
        news: database.news,
        changes: database.changes,
        settings: database.settings != settings,
    };
    database.news = false;
    database.no_room = false;
    database.settings = settings;
    if database.changes <= now() {
        database.changes = NEVER;
    }
    told
}

/// Has the changes of tables that are noted in the present database synced at `time`.
pub fn set_changes(time: i64) {
    if is_present()
        && let Some(database) = exclusively(|shared| shared.database(database().to_u32()).copied())
        && time < database.changes
    {
        exclusively(|shared| {
            shared
                .note(database.oid)
                .map(|database| database.changes = time)
        });
    }
}

/// Notes that the server has no room for a runner that the present database needs.
pub fn set_no_room() {
    if is_present() {
        set_crowded(true);
        exclusively(|shared| {
            shared
                .note(database().to_u32())
                .map(|database| database.no_room = true)
        });
    }
}

/// Whether the log is to say again that the server has no room for a worker. Several processes meet
/// the same lack, and schedulers come and go meanwhile.
pub fn complain() -> bool {
    !is_present()
        || exclusively(|shared| {
            let is_due = after(shared.complained, LONGEST_PAUSE) <= now();
            if is_due {
                shared.complained = now();
            }
            is_due
        })
}

/// Leaves, to be started again when something is due; false where there is news, which must be
/// looked at first.
pub fn leave_until(time: i64) -> bool {
    if !is_present() {
        return true;
    }
    let pid = my_pid();
    let mut shared = SHARED.exclusive();
    match shared.note(database().to_u32()) {
        Some(database) if database.news => return false,
        Some(database) => {
            (database.due, database.looked, database.failures) = (time, now(), 0);
        }
        None => {}
    }
    if let Some(place) = shared
        .workers
        .iter_mut()
        .find(|place| place.is_some_and(|worker| worker.pid == pid))
    {
        *place = None;
    }
    let launcher = shared.launcher;
    drop(shared);
    // the postmaster wakes the launcher that has started this process when that has ended
    if started_by() != launcher {
        signal(launcher, libc::SIGUSR1);
    }
    true
}

/// The process that has started this worker.
fn started_by() -> i32 {
    // SAFETY: the worker's own entry, which it has as long as it runs.
    unsafe {
        pg_sys::MyBgworkerEntry
            .as_ref()
            .map_or(0, |entry| entry.bgw_notify_pid)
    }
}

/// Whether others wait for what this process has.
pub fn is_crowded() -> bool {
    is_present() && SHARED.share().crowded
}

/// A scheduler that has begun says whether its database has the extension.
pub fn give_verdict(has_extension: bool) {
    if !is_present() {
        return;
    }
    let mut shared = SHARED.exclusive();
    if !has_extension {
        let oid = database().to_u32();
        shared.absent = oid;
        match shared.database(oid) {
            // it has come since
            Some(database) if database.news => database.has_extension = false,
            _ => forget_in(&mut shared, oid),
        }
        let pid = my_pid();
        if let Some(place) = shared
            .workers
            .iter_mut()
            .find(|place| place.is_some_and(|worker| worker.pid == pid))
        {
            *place = None;
        }
    }
    let launcher = shared.launcher;
    drop(shared);
    signal(launcher, libc::SIGUSR1);
}

// -- waking
// -----------------------------------------------------------------------------------------------------------

/// Has a scheduler look at the present database.
pub fn wake_scheduler() {
    if is_present() {
        let told = SHARED.exclusive().wake(database().to_u32());
        signal(told, libc::SIGUSR1);
    }
}

/// Has the changes of tables that triggers have just noted in the present database synced in a
/// while. It is cheap: it is called at the end of each transaction that changes such a table.
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
    let at = after(now(), settings::trigger_delay());
    let mut shared = SHARED.exclusive();
    if let Some(database) = shared.note(oid) {
        database.changes = database.changes.min(at);
    }
    let told = shared.scheduler_of(oid).unwrap_or(shared.launcher);
    drop(shared);
    signal(told, libc::SIGUSR1);
}

/// Tells the launcher that databases have come or gone, and that `database`, if there is one, may
/// have got the extension or lost it.
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

// -- for the launcher
// -------------------------------------------------------------------------------------------------

/// What the launcher looks at.
pub struct View {
    pub databases: Vec<Database>,
    /// Databases with a scheduler.
    pub scheduled: Vec<u32>,
    /// There is news of databases that are not listed.
    pub news_of_all: bool,
    pub evicted: Vec<u32>,
    pub evicting_all: bool,
}

pub fn view() -> View {
    let mut shared = SHARED.exclusive();
    let schedulers = shared
        .workers
        .iter()
        .flatten()
        .filter(|worker| worker.kind == Kind::Scheduler);
    View {
        scheduled: schedulers.map(|worker| worker.database).collect(),
        databases: shared.databases.iter().flatten().copied().collect(),
        evicted: shared
            .evictions
            .iter()
            .flatten()
            .map(|eviction| eviction.database)
            .collect(),
        evicting_all: shared.evicting_all > 0,
        news_of_all: std::mem::take(&mut shared.news_of_all),
    }
}

/// Notes that the settings were read: each database is looked at under them.
pub fn note_settings() {
    let zone = present_zone();
    let mut shared = SHARED.exclusive();
    shared.zone = zone;
    shared.settings = shared.settings.wrapping_add(1);
    shared
        .databases
        .iter_mut()
        .flatten()
        .for_each(|database| database.news = true);
    let pids: Vec<i32> = shared
        .workers
        .iter()
        .flatten()
        .map(|worker| worker.pid)
        .collect();
    drop(shared);
    pids.into_iter().for_each(|pid| signal(pid, libc::SIGUSR1));
}

fn forget_in(shared: &mut Shared, oid: u32) {
    let place = shared
        .databases
        .iter_mut()
        .find(|place| place.is_some_and(|database| database.oid == oid));
    place.map(Option::take);
    slots::forget(shared, oid);
}

/// Forgets a database, in which no scheduler has anything to do.
pub fn forget(oid: u32) {
    forget_in(&mut SHARED.exclusive(), oid);
}

/// A scheduler of `oid` could not be started, or ended before it said anything: it is started again
/// at `time`.
pub fn put_off(oid: u32, time: i64, no_room: bool) {
    if let Some(database) = SHARED.exclusive().note(oid) {
        (database.due, database.no_room) = (time, no_room);
        if !no_room {
            database.news = false;
            database.failures += 1;
        }
    }
}

/// Says whether others wait for room; who has nothing to do leaves then.
pub fn set_crowded(crowded: bool) {
    let mut shared = SHARED.exclusive();
    let was_crowded = std::mem::replace(&mut shared.crowded, crowded);
    let schedulers: Vec<i32> = match crowded && !was_crowded {
        true => shared
            .workers
            .iter()
            .flatten()
            .filter(|worker| worker.kind == Kind::Scheduler)
            .map(|w| w.pid)
            .collect(),
        false => vec![],
    };
    drop(shared);
    schedulers
        .into_iter()
        .for_each(|pid| signal(pid, libc::SIGUSR1));
}

/// Ends the scheduler of a database that is to have none.
pub fn end_scheduler(oid: u32) {
    let scheduler = SHARED.share().scheduler_of(oid);
    signal(scheduler.unwrap_or(0), libc::SIGTERM);
}

/// Whether the scheduler of `database` has said that there is no extension.
pub fn take_absent(oid: u32) -> bool {
    let mut shared = SHARED.exclusive();
    let is_absent = shared.absent == oid;
    if is_absent {
        shared.absent = 0;
    }
    is_absent
}

/// What keeps the sources of the present database from being synced by themselves, as far as the
/// shared memory says.
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
        Some(known) if known.no_room => Some("no background worker is free: max_worker_processes"),
        Some(known) if known.has_extension => None,
        _ => Some("the worker \"rag launcher\" has not looked into this database yet"),
    }
}

// -- databases that must be empty
// -------------------------------------------------------------------------------------

/// Ends the extension's workers in `database`, and keeps others away until [`end_evictions`]. A
/// session that needs very many emptied gets that for the first ones only; if very many sessions
/// do, all databases are kept empty.
pub fn evict(database: pg_sys::Oid) {
    if !is_present() {
        return;
    }
    leave_at_exit();
    let eviction = Eviction {
        database: database.to_u32(),
        session: my_pid(),
    };
    let mut shared = SHARED.exclusive();
    let mine: Vec<u32> = shared
        .evictions
        .iter()
        .flatten()
        .filter(|other| other.session == eviction.session)
        .map(|other| other.database)
        .collect();
    if !mine.contains(&eviction.database) && mine.len() < EVICTIONS_OF_SESSION {
        match shared.evictions.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(eviction),
            None if !EVICTING_ALL.replace(true) => shared.evicting_all += 1,
            None => {}
        }
    }
    let workers = shared.workers;
    drop(shared);
    for worker in workers
        .iter()
        .flatten()
        .filter(|worker| worker.database == eviction.database)
    {
        signal(worker.pid, libc::SIGTERM);
    }
}

/// Whether another session needs the present database emptied.
pub fn is_being_emptied() -> bool {
    is_present() && SHARED.share().is_evicted(database().to_u32(), my_pid())
}

/// This session needs no database emptied any more.
pub fn end_evictions() {
    let session = my_pid();
    let mut shared = SHARED.exclusive();
    for place in 0..EVICTIONS {
        if let Some(eviction) =
            shared.evictions[place].filter(|eviction| eviction.session == session)
        {
            shared.evictions[place] = None;
            // its scheduler ended because it was asked to: it need not wait to be started again
            if let Some(database) = shared.note(eviction.database) {
                (database.news, database.failures) = (true, 0);
            }
        }
    }
    if EVICTING_ALL.replace(false) {
        shared.evicting_all = shared.evicting_all.saturating_sub(1);
        shared
            .databases
            .iter_mut()
            .flatten()
            .for_each(|database| database.news = true);
    }
    let launcher = shared.launcher;
    drop(shared);
    signal(launcher, libc::SIGUSR1);
}
