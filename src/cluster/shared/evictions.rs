//! Databases that a session needs without workers in them.

use pgrx::pg_sys;

use super::{EVICTING_ALL, EVICTIONS, Eviction, SHARED, is_present, leave_at_exit};
use crate::pg::process::{database, my_pid, signal};

/// Maximum number of databases that one session can keep free of workers.
const EVICTIONS_OF_SESSION: usize = 8;

/// Ends the extension's workers in `database` and keeps others away until [`end_evictions`]. In one
/// session this applies to its first databases only. If very many sessions ask at once, all
/// databases are kept free of workers.
pub fn evict_workers(database: pg_sys::Oid) {
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

/// Returns true if another session needs the current database without workers.
pub fn is_being_evicted() -> bool {
    is_present() && SHARED.share().is_evicted(database().to_u32(), my_pid())
}

/// Ends all evictions of this session.
pub fn end_evictions() {
    let session = my_pid();
    let mut shared = SHARED.exclusive();
    for place in 0..EVICTIONS {
        if let Some(eviction) =
            shared.evictions[place].filter(|eviction| eviction.session == session)
        {
            shared.evictions[place] = None;
            // its scheduler was asked to end, so the next one need not wait
            if let Some(database) = shared.remember(eviction.database) {
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
