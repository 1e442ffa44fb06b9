//! What a scheduler looks for: sources that are due, runs that are queued, runs that have lost
//! their process.
//!
//! Sources are left alone while a dump is being restored: pg_restore makes the keys of tables last,
//! and sets sequences after it has filled the tables; a run before that would write rows which the
//! dump brings as well, or take the number of a run of the dump's.

use std::time::Duration;

use pgrx::datum::TimestampWithTimeZone;

use crate::{
    error::Error,
    pg::{
        security::as_owner,
        spi::{execute, query},
    },
};

/// Why a source is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub name: String,
    pub schedule: Option<String>,
    /// By its schedule, or its creation.
    pub run: bool,
    /// As another try of a run that failed.
    pub retry: bool,
}

/// A run that is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    pub run_id: i64,
    pub source: String,
    /// The OID of the role that owns the source; 0 where there is none.
    pub owner: u32,
}

/// No dump is being restored.
pub const RESTORED: &str = "NOT EXISTS (
    SELECT FROM pg_catalog.pg_class c
    WHERE c.relnamespace = 'rag'::pg_catalog.regnamespace AND c.relname LIKE 'rag\\_kb\\_%' AND c.relkind = 'r'
      AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
    AND ((SELECT is_called FROM rag.run_id) OR NOT EXISTS (SELECT FROM rag.run))";

/// Between two looks at whether the dump that is being restored is.
const RESTORING: f64 = 1.0;

/// When sources are due. One without a schedule is so because it was made or altered: not before
/// the run that may be under way has ended, or nothing would ever carry out the new definition.
const TIMES: &str =
    "SELECT name, schedule, CASE WHEN schedule IS NOT NULL OR NOT active THEN next_run END AS next_run,
            CASE WHEN NOT active THEN retry_at END AS retry_at
     FROM (SELECT *, EXISTS (SELECT FROM rag.run r WHERE r.source = s.name AND r.phase IN ('Pending', 'Running')) AS active
           FROM rag.source s WHERE NOT suspend AND (next_run IS NOT NULL OR retry_at IS NOT NULL)) AS awake";

/// The sources that are due now, in the order in which they became so; of all, or whether this one
/// is.
pub fn due(source: Option<&str>) -> Result<Vec<Due>, Error> {
    as_owner(|| {
        query(
            &format!(
                "SELECT name, schedule, coalesce(next_run <= pg_catalog.now(), false), coalesce(retry_at <= pg_catalog.now(), false)
                 FROM ({TIMES}) AS t
                 WHERE (next_run <= pg_catalog.now() OR retry_at <= pg_catalog.now()) AND {RESTORED}
                       AND name = coalesce($1, name)
                 ORDER BY least(next_run, retry_at), name"
            ),
            &[source.into()],
            |row| {
                Ok(Due { name: row.required(1)?, schedule: row.get(2)?, run: row.required(3)?, retry: row.required(4)? })
            },
        )
    })
}

/// Sources whose triggers have noted changes of their tables that no run has handled. Without
/// `retry` those are left out whose last run has failed: it is tried again at another time, or with
/// the next change.
pub fn changed(retry: bool) -> Result<Vec<String>, Error> {
    as_owner(|| {
        query(
            &format!(
                "SELECT name FROM rag.source s
                 WHERE NOT suspend AND kind = 'table' AND (spec ->> 'sync') = 'trigger' AND retry_at IS NULL
                   AND EXISTS (SELECT FROM rag.table_changes c WHERE c.source = s.name)
                   AND NOT EXISTS (SELECT FROM rag.run r WHERE r.source = s.name AND r.phase IN ('Pending', 'Running'))
                   AND ($1 OR NOT EXISTS (SELECT FROM rag.run r WHERE r.run_id = s.last_run_id AND r.phase = 'Failed'))
                   AND s.last_run_id IS NOT NULL AND {RESTORED}
                 ORDER BY name"
            ),
            &[retry.into()],
            |row| row.required(1),
        )
    })
}

/// Whether a source is due because it was made or altered, and no run of it is queued or under way.
pub fn has_new() -> Result<bool, Error> {
    let due = due(None)?;
    Ok(due.iter().any(|due| due.run && due.schedule.is_none()))
}

/// Writes down when a source is due next.
pub fn set_next_run(name: &str, next: Option<TimestampWithTimeZone>) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.source SET next_run = $2 WHERE name = $1",
            &[name.into(), next.into()],
        )
    })?;
    Ok(())
}

/// The queued runs, in the order in which they were queued. Those of a source that was suspended
/// meanwhile wait, unless someone has asked for them.
pub fn queued() -> Result<Vec<Queued>, Error> {
    as_owner(|| {
        query(
            &format!(
                "SELECT run_id, source, s.owner_id
                 FROM rag.run r JOIN rag.source s ON s.name = r.source
                 WHERE phase = 'Pending' AND (NOT s.suspend OR r.trigger = 'manual') AND {RESTORED} ORDER BY queued_at, run_id"
            ),
            &[],
            |row| {
                let owner: pgrx::pg_sys::Oid = row.required(3)?;
                Ok(Queued { run_id: row.required(1)?, source: row.required(2)?, owner: owner.to_u32() })
            },
        )
    })
}

/// Sources with a run that is said to be under way.
pub fn running() -> Result<Vec<String>, Error> {
    as_owner(|| {
        query(
            "SELECT source FROM rag.run WHERE phase = 'Running'",
            &[],
            |row| row.required(1),
        )
    })
}

/// Says of queued runs why they have not begun; not of those that someone is about to change.
pub fn set_waiting(runs: &[i64], why: &str) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "WITH silent AS MATERIALIZED (
                 SELECT run_id FROM rag.run WHERE run_id = ANY ($1) AND phase = 'Pending' AND waiting IS DISTINCT FROM $2
                 FOR NO KEY UPDATE SKIP LOCKED)
             UPDATE rag.run r SET waiting = $2 FROM silent WHERE r.run_id = silent.run_id",
            &[runs.to_vec().into(), why.into()],
        )
    })?;
    Ok(())
}

/// Whether a dump is being restored.
pub fn is_restoring() -> Result<bool, Error> {
    let found = as_owner(|| {
        query(&format!("SELECT NOT ({RESTORED})"), &[], |row| {
            row.required::<bool>(1)
        })
    })?;
    Ok(found == [true])
}

/// Time until the next source becomes due after `since`; `None`: none will. `was_restoring`: what
/// was due then was left alone.
pub fn until_next(
    since: TimestampWithTimeZone,
    was_restoring: bool,
) -> Result<Option<Duration>, Error> {
    let found = as_owner(|| {
        query(
            &format!(
                "SELECT CASE WHEN pg_catalog.bool_or(at <= $1) AND ($2 OR NOT ({RESTORED})) THEN $3
                        ELSE pg_catalog.date_part('epoch', pg_catalog.min(at) FILTER (WHERE at > $1) - pg_catalog.clock_timestamp()) END
                 FROM ({TIMES}) AS t, LATERAL (VALUES (next_run), (retry_at)) AS times (at)"
            ),
            &[since.into(), was_restoring.into(), RESTORING.into()],
            |row| row.get::<f64>(1),
        )
    })?;
    let seconds = found.into_iter().next().flatten();
    // times may be infinite
    Ok(seconds
        .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)))
}

/// Makes the sources due whose schedule is @reboot, unless they have been since the server was
/// started; whether that is all of them, or someone has the row of one locked.
pub fn boot() -> Result<bool, Error> {
    const TO_BOOT: &str = "SELECT name FROM rag.source
        WHERE schedule ~ '@reboot\\s*$' AND booted_at IS DISTINCT FROM pg_catalog.pg_postmaster_start_time()";
    as_owner(|| {
        let all = query(TO_BOOT, &[], |_| Ok(()))?.len();
        if all == 0 {
            return Ok(true);
        }
        let booted = execute(
            &format!(
                "WITH unlocked AS MATERIALIZED ({TO_BOOT} FOR NO KEY UPDATE SKIP LOCKED)
                 UPDATE rag.source s SET next_run = pg_catalog.now(), booted_at = pg_catalog.pg_postmaster_start_time()
                 FROM unlocked WHERE s.name = unlocked.name"
            ),
            &[],
        )?;
        Ok(booted == all)
    })
}
