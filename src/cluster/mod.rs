//! What the processes of the cluster know of each other: shared memory, slots for runs, locks, and
//! the news that a commit sends to the workers.
//!
//! | file | contents |
//! |---|---|
//! | [`shared`] | shared memory: databases, due times, signals to the launcher |
//! | [`slots`] | places for runs, shared between databases and owners |
//! | [`lock`] | locks that show what other processes do |
//! | [`news`] | what a commit tells the workers |
//! | [`search_stats`], [`operation_stats`], [`count_table`] | counts of searches and operations |
//! | [`backoff`] | delays between attempts |

pub mod backoff;
mod count_table;
pub mod lock;
pub mod news;
pub mod operation_stats;
pub mod search_stats;
pub mod shared;
pub mod slots;

use crate::{
    error::Error,
    pg::{process::is_in_recovery, transaction::at_commit},
    settings,
};

/// Returns true if the settings and the state of the server allow schedules to run.
pub fn are_scheduling() -> bool {
    shared::is_present() && settings::scheduler() && !is_in_recovery()
}

/// Returns what keeps the sources of the current database from being synced automatically, if
/// anything does. A standby does not know.
pub fn why_idle() -> Option<&'static str> {
    if is_in_recovery() {
        None
    } else if !shared::is_present() {
        Some("rag is not in shared_preload_libraries")
    } else if !settings::scheduler() {
        Some("rag.scheduler is off")
    } else {
        shared::why_idle()
    }
}

/// Returns the error for a server without a free background worker slot.
pub fn no_worker() -> Error {
    let hint = if shared::is_present() {
        "Raise max_worker_processes."
    } else {
        "Raise max_worker_processes, or add rag to shared_preload_libraries, which reserves slots \
         of its own."
    };
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        "could not start a background worker: all slots are in use",
    )
    .hint(hint)
}

/// Forgets what was counted of a collection when the transaction commits.
pub fn forget_statistics_at_commit(collection: &str) {
    let collection = collection.to_owned();
    at_commit(move || {
        search_stats::forget_collection(&collection);
        operation_stats::forget_collection(&collection);
    });
}
