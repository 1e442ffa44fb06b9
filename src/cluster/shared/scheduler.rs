//! What schedulers read from the shared memory and write to it.

use super::{
    NEVER, SHARED, SHORTAGE_LOG_INTERVAL, after, exclusively, is_present, launcher::forget_in,
    set_crowded,
};
use crate::pg::process::{database, my_pid, signal, started_by, uptime};

/// What has happened in a database since a scheduler last looked at it.
pub struct DatabaseNews {
    /// Something has changed.
    pub news: bool,
    /// When to sync changes of tables, by [`uptime`], or [`NEVER`] if none were recorded.
    pub changes: i64,
    /// The settings have changed since old runs were last deleted.
    pub settings: bool,
    /// A session wants the metrics of the database.
    pub metrics: bool,
}

/// Takes the news of the current database, which is remembered from then on.
pub fn take_news() -> DatabaseNews {
    let mut news = DatabaseNews {
        news: false,
        changes: NEVER,
        settings: false,
        metrics: false,
    };
    if !is_present() {
        return news;
    }
    let mut shared = SHARED.exclusive();
    let settings = shared.settings;
    let Some(database) = shared.remember(database().to_u32()) else {
        news.news = true;
        return news;
    };
    news = DatabaseNews {
        news: database.news,
        changes: database.changes,
        settings: database.settings != settings,
        metrics: std::mem::take(&mut database.wants_metrics),
    };
    if news.metrics {
        database.metrics_written = uptime();
    }
    database.news = false;
    database.lacks_worker = false;
    database.settings = settings;
    if database.changes <= uptime() {
        database.changes = NEVER;
    }
    news
}

/// Schedules runs for the recorded changes of tables in the current database at `time`, by
/// [`uptime`], or earlier.
pub fn set_changes(time: i64) {
    if is_present()
        && let Some(database) = exclusively(|shared| shared.database(database().to_u32()).copied())
        && time < database.changes
    {
        exclusively(|shared| {
            shared
                .remember(database.oid)
                .map(|database| database.changes = time)
        });
    }
}

/// Records that no background worker slot is free for a runner of the current database.
pub fn set_no_worker() {
    if is_present() {
        set_crowded(true);
        exclusively(|shared| {
            shared
                .remember(database().to_u32())
                .map(|database| database.lacks_worker = true)
        });
    }
}

/// Returns true if the log should mention again that no background worker slot is free. Several
/// processes meet the same shortage, and schedulers come and go meanwhile.
pub fn may_log_shortage() -> bool {
    !is_present()
        || exclusively(|shared| {
            let is_due = after(shared.shortage_logged, SHORTAGE_LOG_INTERVAL) <= uptime();
            if is_due {
                shared.shortage_logged = uptime();
            }
            is_due
        })
}

/// Records if the extension in the current database has another version than the library. Returns
/// true if the log should tell it, as it has not yet.
pub fn note_versions(differ: bool) -> bool {
    if !is_present() {
        return differ;
    }
    exclusively(|shared| {
        let Some(database) = shared.remember(database().to_u32()) else {
            return differ;
        };
        let differed = std::mem::replace(&mut database.versions_differ, differ);
        differ && !differed
    })
}

/// Removes this scheduler, which is to be started again when something is due. Returns false if
/// there is news, which the scheduler must handle first.
pub fn leave_until(time: i64) -> bool {
    if !is_present() {
        return true;
    }
    let mut shared = SHARED.exclusive();
    match shared.remember(database().to_u32()) {
        Some(database) if database.news || database.wants_metrics => return false,
        Some(database) => {
            (database.due, database.looked, database.failures) = (time, uptime(), 0);
        }
        None => {}
    }
    shared.remove_worker(my_pid());
    let launcher = shared.launcher;
    drop(shared);
    // the postmaster tells the process that started this one when it has ended
    if started_by() != launcher {
        signal(launcher, libc::SIGUSR1);
    }
    true
}

/// Returns true if other databases or runs wait for a worker.
pub fn is_crowded() -> bool {
    is_present() && SHARED.share().crowded
}

/// Tells the launcher whether the database of this scheduler has the extension.
pub fn report_extension(is_installed: bool) {
    if !is_present() {
        return;
    }
    let mut shared = SHARED.exclusive();
    if !is_installed {
        let oid = database().to_u32();
        shared.absent = oid;
        match shared.database(oid) {
            // it has been created since
            Some(database) if database.news => database.has_extension = false,
            _ => forget_in(&mut shared, oid),
        }
        shared.remove_worker(my_pid());
    }
    let launcher = shared.launcher;
    drop(shared);
    signal(launcher, libc::SIGUSR1);
}
