//! What the launcher reads from the shared memory and writes to it.

use super::{Database, SHARED, Shared, current_zone, leave_at_exit, slots, wake_all};
use crate::pg::process::{my_pid, signal};

/// Enters this process as the launcher.
pub fn enter_launcher() {
    leave_at_exit();
    let mut shared = SHARED.exclusive();
    shared.launcher = my_pid();
    // this was meant for the launcher before
    shared.absent = 0;
}

/// What the launcher decides by.
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
    View {
        scheduled: shared.schedulers().map(|worker| worker.database).collect(),
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

/// Records that the settings were read again: each database is visited under them.
pub fn settings_reloaded() {
    let zone = current_zone();
    let mut shared = SHARED.exclusive();
    shared.zone = zone;
    shared.settings = shared.settings.wrapping_add(1);
    shared
        .databases
        .iter_mut()
        .flatten()
        .for_each(|database| database.news = true);
    let workers: Vec<i32> = shared
        .workers
        .iter()
        .flatten()
        .map(|worker| worker.pid)
        .collect();
    drop(shared);
    wake_all(workers);
}

pub(super) fn forget_in(shared: &mut Shared, oid: u32) {
    let place = shared
        .databases
        .iter_mut()
        .find(|place| place.is_some_and(|database| database.oid == oid));
    place.map(Option::take);
    slots::forget_database(shared, oid);
}

/// Forgets a database in which schedulers have nothing to do.
pub fn forget(oid: u32) {
    forget_in(&mut SHARED.exclusive(), oid);
}

/// Delays the next start of a scheduler until `time`: it could not be started for lack of a
/// background worker slot, or ended before it reported anything.
pub fn delay_scheduler(oid: u32, time: i64, lacks_worker: bool) {
    if let Some(database) = SHARED.exclusive().remember(oid) {
        (database.due, database.lacks_worker) = (time, lacks_worker);
        if !lacks_worker {
            database.news = false;
            database.failures += 1;
        }
    }
}

/// Sets whether others wait for a worker. Idle schedulers leave then.
pub fn set_crowded(crowded: bool) {
    let mut shared = SHARED.exclusive();
    let was_crowded = std::mem::replace(&mut shared.crowded, crowded);
    let schedulers: Vec<i32> = if crowded && !was_crowded {
        shared.schedulers().map(|worker| worker.pid).collect()
    } else {
        vec![]
    };
    drop(shared);
    wake_all(schedulers);
}

/// Ends the scheduler of a database that must have none.
pub fn end_scheduler(oid: u32) {
    let scheduler = SHARED.share().scheduler_of(oid);
    signal(scheduler.unwrap_or(0), libc::SIGTERM);
}

/// Returns true if the scheduler of a database has reported that it has no extension.
pub fn take_absent(oid: u32) -> bool {
    let mut shared = SHARED.exclusive();
    let is_absent = shared.absent == oid;
    if is_absent {
        shared.absent = 0;
    }
    is_absent
}
