//! Which databases write their metrics for sessions in others.

use std::time::Duration;

use super::{SHARED, after, is_present};
use crate::pg::process::{database, signal, uptime};

/// Metrics that are younger than this are not read again.
const MAX_AGE: Duration = Duration::from_secs(30);

/// Asks for the metrics of the other databases with the extension, unless schedulers have just
/// written them. Returns these databases.
pub fn want_metrics() -> Vec<u32> {
    if !is_present() {
        return vec![];
    }
    let (own, now) = (database().to_u32(), uptime());
    let mut shared = SHARED.exclusive();
    let others = |place: &&mut super::Database| place.has_extension && place.oid != own;
    let (mut found, mut asked) = (vec![], vec![]);
    for database in shared.databases.iter_mut().flatten().filter(others) {
        found.push(database.oid);
        if after(database.metrics_written, MAX_AGE) <= now {
            database.wants_metrics = true;
            asked.push(database.oid);
        }
    }
    let launcher = shared.launcher;
    let mut to_wake: Vec<i32> = asked
        .into_iter()
        .map(|oid| shared.scheduler_of(oid).unwrap_or(launcher))
        .collect();
    drop(shared);
    to_wake.sort_unstable();
    to_wake.dedup();
    to_wake
        .into_iter()
        .for_each(|pid| signal(pid, libc::SIGUSR1));
    found
}
