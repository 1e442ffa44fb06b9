//! Runs that make no progress: rows of `rag_internal.run` that were not updated for
//! `rag.stall_timeout`.

use std::time::Duration;

use crate::{error::Error, pg::spi::OwnerRights};

/// A run that makes no progress.
pub struct StalledRun {
    pub run_id: i64,
    pub source: String,
    /// When it last showed that it works.
    pub since: String,
}

/// Returns the runs that make no progress, each once. Rows that others have locked are skipped.
pub fn take_new(owner: &OwnerRights) -> Result<Vec<StalledRun>, Error> {
    owner.execute_returning(
        "WITH stalled AS MATERIALIZED (
             SELECT run_id FROM rag_internal.run
             WHERE phase = 'Running' AND NOT stall_logged AND rag_internal.is_stalled(updated_at)
             FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE rag_internal.run r SET stall_logged = true
         FROM stalled WHERE r.run_id = stalled.run_id
         RETURNING r.run_id, r.source,
             date_trunc('second', r.updated_at)::text AS since",
        &[],
        |row| {
            Ok(StalledRun {
                run_id: row.required("run_id")?,
                source: row.required("source")?,
                since: row.required("since")?,
            })
        },
    )
}

/// Returns the time until the first run may have made no progress for `timeout`.
pub fn until_next(owner: &OwnerRights, timeout: Duration) -> Result<Option<Duration>, Error> {
    let found = owner.query(
        "SELECT extract(epoch FROM min(updated_at) - clock_timestamp())::float8 AS since
         FROM rag_internal.run WHERE phase = 'Running' AND NOT stall_logged",
        &[],
        |row| row.get::<f64>("since"),
    )?;
    let since_update = found.into_iter().next().flatten();
    Ok(since_update.map(|seconds| {
        let left = Duration::try_from_secs_f64((timeout.as_secs_f64() + seconds).max(0.0));
        left.unwrap_or(timeout).max(Duration::from_secs(1))
    }))
}
