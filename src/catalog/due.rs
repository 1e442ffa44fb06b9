//! What schedulers look for: sources that are due, runs that are queued, runs whose process was
//! lost.
//!
//! No source is due while a dump is being restored. pg_restore creates the keys of tables last, and
//! sets sequences after it has filled the tables. A run before that would write rows that the dump
//! contains as well, or take the id of one of its runs.

use std::time::Duration;

use pgrx::datum::TimestampWithTimeZone;

use crate::{error::Error, pg::spi::OwnerRights};

/// A source that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSource {
    pub name: String,
    pub schedule: Option<String>,
    /// It is due by its schedule, or because it was created or altered.
    pub run: bool,
    /// It is due because a run failed.
    pub retry: bool,
}

/// A run that is Pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRun {
    pub run_id: i64,
    pub source: String,
    /// The OID of the role that owns the source, or 0 if there is none.
    pub owner: u32,
}

/// A condition: no dump is being restored. A dump creates the keys of partitions after their rows,
/// and other indexes later. An index that a run created meanwhile would have the name of one in the
/// dump.
pub const NOT_RESTORING: &str = "NOT EXISTS (
    SELECT FROM pg_class c
    WHERE c.relnamespace = 'rag_internal'::regnamespace AND c.relkind = 'r'
      AND (c.relname LIKE 'rag\\_kb\\_%'
           OR EXISTS (SELECT FROM pg_inherits p
                      WHERE p.inhrelid = c.oid AND p.inhparent = 'rag.chunks'::regclass))
      AND (NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
           OR NOT EXISTS (
               SELECT FROM pg_index i
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
               WHERE i.indrelid = c.oid AND a.attname = 'embedding_key')
           OR EXISTS (
               SELECT FROM pg_locks l JOIN pg_stat_activity s ON s.pid = l.pid
               WHERE l.relation = c.oid AND l.mode = 'ShareLock'
                 AND s.datname = current_database()
                 AND s.query ~* '^\\s*create\\s+index')))
    AND ((SELECT is_called FROM rag_internal.run_id) OR NOT EXISTS (SELECT FROM rag_internal.run))";

/// Interval in seconds between checks of whether a dump is still being restored.
const RESTORE_CHECK_SECONDS: f64 = 1.0;

/// When sources are due. A source without a schedule is due because it was created or altered, but
/// not before an active run has ended. Otherwise no run would carry out the new definition.
const DUE_TIMES: &str = "SELECT name, schedule,
            CASE WHEN schedule IS NOT NULL OR NOT active THEN next_run END AS next_run,
            CASE WHEN NOT active THEN retry_at END AS retry_at
     FROM (SELECT *, EXISTS (SELECT FROM rag_internal.run r
                             WHERE r.source = s.name
                               AND r.phase IN ('Pending', 'Running')) AS active
           FROM rag_internal.source s
           WHERE NOT suspend AND (next_run IS NOT NULL OR retry_at IS NOT NULL)) AS awake";

/// Returns the sources that are due now, in the order in which they became due: all, or only the
/// given one.
pub fn due(owner: &OwnerRights, source: Option<&str>) -> Result<Vec<DueSource>, Error> {
    owner.query(
        &format!(
            "SELECT name, schedule, coalesce(next_run <= now(), false) AS run,
                    coalesce(retry_at <= now(), false) AS retry
             FROM ({DUE_TIMES}) AS t
             WHERE (next_run <= now() OR retry_at <= now())
                   AND {NOT_RESTORING} AND name = coalesce($1, name)
             ORDER BY least(next_run, retry_at), name"
        ),
        &[source.into()],
        |row| {
            Ok(DueSource {
                name: row.required("name")?,
                schedule: row.get("schedule")?,
                run: row.required("run")?,
                retry: row.required("retry")?,
            })
        },
    )
}

/// Returns the sources whose triggers have recorded changes that no run has handled. Without
/// `retry`, sources whose last run failed are left out: they are retried later, or with the next
/// change.
pub fn changed(owner: &OwnerRights, retry: bool) -> Result<Vec<String>, Error> {
    owner.query(
        &format!(
            "SELECT name FROM rag_internal.source s
             WHERE NOT suspend AND kind = 'table' AND (spec ->> 'sync') = 'trigger'
               AND retry_at IS NULL
               AND EXISTS (SELECT FROM rag_internal.table_change c WHERE c.source = s.name)
               AND NOT EXISTS (SELECT FROM rag_internal.run r
                               WHERE r.source = s.name AND r.phase IN ('Pending', 'Running'))
               AND ($1 OR NOT EXISTS (SELECT FROM rag_internal.run r
                                      WHERE r.run_id = s.last_run_id AND r.phase = 'Failed'))
               AND s.last_run_id IS NOT NULL AND {NOT_RESTORING}
             ORDER BY name"
        ),
        &[retry.into()],
        |row| row.required("name"),
    )
}

/// Returns true if a source without an active run is due because it was created or altered.
pub fn has_new(owner: &OwnerRights) -> Result<bool, Error> {
    let due = due(owner, None)?;
    Ok(due.iter().any(|due| due.run && due.schedule.is_none()))
}

/// A source that waits for a time.
pub struct PlannedSource {
    pub name: String,
    pub schedule: String,
    pub next_run: TimestampWithTimeZone,
}

/// Returns the sources whose next run by schedule is in the future.
pub fn planned(owner: &OwnerRights) -> Result<Vec<PlannedSource>, Error> {
    owner.query(
        "SELECT name, schedule, next_run FROM rag_internal.source
         WHERE schedule IS NOT NULL AND NOT suspend AND next_run > now()
           AND isfinite(next_run)",
        &[],
        |row| {
            Ok(PlannedSource {
                name: row.required("name")?,
                schedule: row.required("schedule")?,
                next_run: row.required("next_run")?,
            })
        },
    )
}

/// Makes retries due that lie farther in the future than any delay is long: the clock was set back
/// since. Rows that others have locked are skipped. Returns the number of these sources.
pub fn make_stranded_retries_due(owner: &OwnerRights) -> Result<usize, Error> {
    owner.execute(
        "WITH stranded AS MATERIALIZED (
             SELECT name FROM rag_internal.source
             WHERE retry_at > now() + CASE throttled
                       WHEN 0 THEN interval '61 minutes' ELSE interval '25 hours' END
             FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE rag_internal.source s SET retry_at = now()
         FROM stranded WHERE s.name = stranded.name",
        &[],
    )
}

/// Stores when a source is due next.
pub fn set_next_run(
    owner: &OwnerRights,
    name: &str,
    next: Option<TimestampWithTimeZone>,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET next_run = $2 WHERE name = $1",
        &[name.into(), next.into()],
    )?;
    Ok(())
}

/// Returns the queued runs, in the order in which they were queued. Runs of a source that was
/// suspended meanwhile wait, unless they are manual.
pub fn queued(owner: &OwnerRights) -> Result<Vec<QueuedRun>, Error> {
    owner.query(
        &format!(
            "SELECT run_id, source, s.owner_id
             FROM rag_internal.run r JOIN rag_internal.source s ON s.name = r.source
             WHERE phase = 'Pending' AND (NOT s.suspend OR r.trigger = 'manual')
                   AND {NOT_RESTORING}
             ORDER BY queued_at, run_id"
        ),
        &[],
        |row| {
            let owner: pgrx::pg_sys::Oid = row.required("owner_id")?;
            Ok(QueuedRun {
                run_id: row.required("run_id")?,
                source: row.required("source")?,
                owner: owner.to_u32(),
            })
        },
    )
}

/// Returns the sources with a run in phase Running.
pub fn running(owner: &OwnerRights) -> Result<Vec<String>, Error> {
    owner.query(
        "SELECT source FROM rag_internal.run WHERE phase = 'Running'",
        &[],
        |row| row.required("source"),
    )
}

/// Stores why queued runs have not begun. Rows that another transaction has locked are skipped.
pub fn set_waiting(owner: &OwnerRights, runs: &[i64], why: &str) -> Result<(), Error> {
    owner.execute(
        "WITH silent AS MATERIALIZED (
             SELECT run_id FROM rag_internal.run
             WHERE run_id = ANY ($1) AND phase = 'Pending' AND waiting IS DISTINCT FROM $2
             FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE rag_internal.run r SET waiting = $2 FROM silent WHERE r.run_id = silent.run_id",
        &[runs.to_vec().into(), why.into()],
    )?;
    Ok(())
}

/// Returns true if a dump is being restored.
pub fn is_restoring(owner: &OwnerRights) -> Result<bool, Error> {
    let found = owner.query(
        &format!("SELECT NOT ({NOT_RESTORING}) AS restores"),
        &[],
        |row| row.required::<bool>("restores"),
    )?;
    Ok(found == [true])
}

/// Returns the time until the next source becomes due after `since`, if one will. `was_restoring`
/// says that a dump was being restored then, so that nothing was done about sources that were due.
pub fn until_next(
    owner: &OwnerRights,
    since: TimestampWithTimeZone,
    was_restoring: bool,
) -> Result<Option<Duration>, Error> {
    let found = owner.query(
        &format!(
            "SELECT CASE WHEN bool_or(at <= $1) AND ($2 OR NOT ({NOT_RESTORING})) THEN $3
                    ELSE date_part('epoch', min(at) FILTER (WHERE at > $1)
                                            - clock_timestamp()) END AS seconds
             FROM ({DUE_TIMES}) AS t, LATERAL (VALUES (next_run), (retry_at)) AS times (at)"
        ),
        &[
            since.into(),
            was_restoring.into(),
            RESTORE_CHECK_SECONDS.into(),
        ],
        |row| row.get::<f64>("seconds"),
    )?;
    let seconds = found.into_iter().next().flatten();
    // times may be infinite
    Ok(seconds
        .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)))
}

/// Makes the sources with the schedule @reboot due, once after each start of the server. Returns
/// false if the rows of some are locked, so that they are not due yet.
pub fn make_reboot_schedules_due(owner: &OwnerRights) -> Result<bool, Error> {
    const TO_BOOT: &str = "SELECT name FROM rag_internal.source
        WHERE schedule ~ '@reboot\\s*$'
          AND booted_at IS DISTINCT FROM pg_postmaster_start_time()";
    let all = owner.query(TO_BOOT, &[], |_| Ok(()))?.len();
    if all == 0 {
        return Ok(true);
    }
    let booted = owner.execute(
        &format!(
            "WITH unlocked AS MATERIALIZED ({TO_BOOT} FOR NO KEY UPDATE SKIP LOCKED)
             UPDATE rag_internal.source s
             SET next_run = now(), booted_at = pg_postmaster_start_time()
             FROM unlocked WHERE s.name = unlocked.name"
        ),
        &[],
    )?;
    Ok(booted == all)
}
