//! Drift: whether the stored documents of a source still have the digests that its runs computed.
//!
//! ```text
//!  run ── stores a document ──▶ rag.documents, rag.chunks ── digest, same transaction ──▶ rag_internal.document_digest
//!                                        │                                                    │
//!                                        └───────── rag_internal.drifted_documents compares ───────────┘
//!                                                               │
//!  next run ◀── forgets drifted documents, to fetch them again ─┴── check ──▶ condition
//! ```
//!
//! A check ([`compare`], [`record_findings`]) changes only the source's status, and with the policy
//! auto it also queues a run. If drift was found, every run of the source compares again at its
//! beginning (`sync::repair`). It fetches, embeds and stores again what has drifted. So a failed
//! run or another change in between does no harm. One SQL function computes the digests for writing
//! and for checking (`sql/drift.sql`).

mod findings;

use std::{collections::BTreeMap, time::Duration};

pub use self::findings::DriftFindings;
use self::findings::ServerDifference;
use crate::{
    catalog::{
        collections::Collection,
        conditions::{ConditionChanges, ConditionType},
        due::NOT_RESTORING,
        runs::{self, Trigger},
        sources::{DriftPolicy, Source},
    },
    error::Error,
    pg::{
        guc::with_settings,
        security::as_owner,
        spi::{execute, execute_returning, query},
    },
    storage::remote::comparison,
};

/// Maximum number of documents of each kind that a check lists.
const MAX_LISTED: i64 = 100;

// -- checks

/// Runs `f`, which compares, as the extension's owner and without JIT: compiling its statement
/// would take longer than running it.
pub fn without_jit<R>(f: impl FnOnce() -> R) -> R {
    as_owner(|| with_settings(&[(c"jit", c"off")], f))
}

/// Compares the stored documents of a source with what its runs have indexed. The caller holds the
/// source's lock.
pub fn compare(source: &Source) -> Result<DriftFindings, Error> {
    // The collection is a parameter, so that the plan reads its partition only. If a run has
    // failed, or was of another definition, since the documents were last counted, only the digests
    // show their number.
    let found = without_jit(|| {
        execute_returning(
            "SELECT CASE WHEN s.last_indexed IS NULL THEN NULL
                         WHEN r.phase = 'Completed' AND r.collection = s.collection
                              AND r.started_at <= s.last_indexed THEN s.documents
                         ELSE (SELECT pg_catalog.count(*) FROM rag_internal.document_digest m
                               WHERE m.collection = s.collection AND m.source = s.name)
                    END,
                    (SELECT pg_catalog.count(*) FROM rag.documents d
                     WHERE d.collection = s.collection AND d.source = s.name),
                    (SELECT pg_catalog.jsonb_object_agg(
                                k.kind,
                                pg_catalog.jsonb_build_object('count', k.count, 'named', k.named))
                     FROM (SELECT n.kind, pg_catalog.count(*),
                                  pg_catalog.jsonb_agg(n.entry ORDER BY n.place)
                                      FILTER (WHERE n.place <= $2) AS named
                           FROM (SELECT d.kind, d.entry,
                                        pg_catalog.row_number() OVER
                                            (PARTITION BY d.kind
                                             ORDER BY d.uri COLLATE \"C\") AS place
                                 FROM rag_internal.drifted_documents($3, s.name) d) n
                           GROUP BY n.kind) k
                     WHERE s.last_indexed IS NOT NULL)
             FROM rag_internal.source s LEFT JOIN rag_internal.run r ON r.run_id = s.last_run_id
             WHERE s.name = $1",
            &[
                source.name.as_str().into(),
                MAX_LISTED.into(),
                source.collection.as_str().into(),
            ],
            |row| {
                Ok((
                    row.get::<i64>(1)?,
                    row.required::<i64>(2)?,
                    row.get::<pgrx::JsonB>(3)?,
                ))
            },
        )
    })?;
    let (expected, actual, found) = found
        .into_iter()
        .next()
        .ok_or_else(|| Source::missing(source.name.as_str()))?;
    if expected.is_none() {
        return Ok(DriftFindings::without_run(actual));
    }
    let documents = match found {
        Some(found) => serde_json::from_value(found.0)
            .map_err(|e| Error::internal(format!("the findings cannot be read: {e}")))?,
        None => BTreeMap::new(),
    };
    let difference = comparison::difference(&Collection::get(source.collection.as_str())?)?;
    Ok(DriftFindings {
        expected,
        actual,
        documents,
        server: difference.map(|(chunks, server_chunks)| ServerDifference {
            chunks,
            server_chunks,
        }),
    })
}

/// What follows a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowUp {
    /// This run was queued.
    Run(i64),
    /// A run is already queued, or a failed one will be retried.
    RunExpected,
    /// Nothing: there is no drift, the policy is not auto, the source is suspended, or there is no
    /// scheduler.
    Nothing,
}

/// Stores the findings of [`compare`], and queues a run if the policy is auto and a scheduler would
/// start the run.
pub fn record_findings(
    source: &Source,
    findings: &DriftFindings,
    is_scheduled: bool,
) -> Result<FollowUp, Error> {
    if findings.expected.is_none() {
        return Ok(FollowUp::Nothing);
    }
    let changes = ConditionChanges::at(source.generation);
    let changes = if findings.has_drifted() {
        changes.set(
            ConditionType::DriftDetected,
            Some(true),
            "DriftDetected",
            findings.message(),
        )
    } else {
        changes.set(
            ConditionType::DriftDetected,
            Some(false),
            "NoDrift",
            "the stored documents are those that were indexed",
        )
    };
    as_owner(|| {
        execute(
            "UPDATE rag_internal.source SET drift_checked_at = pg_catalog.clock_timestamp(),
                 conditions = rag_internal.merge_conditions(conditions, $3)
             WHERE name = $1 AND uid = $2",
            &[
                source.name.as_str().into(),
                source.uid.into(),
                changes.to_json().into(),
            ],
        )
    })?;
    let is_repaired = is_scheduled && source.drift_policy == DriftPolicy::Auto && !source.suspend;
    if findings.has_drifted() && is_repaired {
        queue_repair(source)
    } else {
        Ok(FollowUp::Nothing)
    }
}

/// Queues a run, unless a retry is expected: queueing would restart its delays.
fn queue_repair(source: &Source) -> Result<FollowUp, Error> {
    let retrying = as_owner(|| {
        query(
            "SELECT retry_at IS NOT NULL FROM rag_internal.source WHERE name = $1",
            &[source.name.as_str().into()],
            |row| row.required::<bool>(1),
        )
    })?;
    if retrying.first() == Some(&true) {
        return Ok(FollowUp::RunExpected);
    }
    let queued = runs::queue(source.name.as_str(), Trigger::Drift)?;
    Ok(queued.map_or(FollowUp::RunExpected, FollowUp::Run))
}

/// Stores that a check failed, so that the next one is due after the usual interval. Drift that was
/// found before stays recorded.
pub fn record_failure(source: &Source, error: &Error) -> Result<(), Error> {
    let changes = ConditionChanges::at(source.generation).set(
        ConditionType::DriftDetected,
        None,
        "CheckFailed",
        error.message.clone(),
    );
    as_owner(|| {
        execute(
            "UPDATE rag_internal.source SET drift_checked_at = pg_catalog.clock_timestamp(),
                 conditions = CASE
                     WHEN rag_internal.has_condition(conditions, 'AutoIndexerDriftDetected')
                         THEN conditions
                     ELSE rag_internal.merge_conditions(conditions, $3) END
             WHERE name = $1 AND uid = $2",
            &[
                source.name.as_str().into(),
                source.uid.into(),
                changes.to_json().into(),
            ],
        )
    })?;
    Ok(())
}

/// Returns true if the source's status shows drift that has not been repaired.
pub fn was_found(source: &Source) -> Result<bool, Error> {
    let found = as_owner(|| {
        query(
            "SELECT rag_internal.has_condition(conditions, 'AutoIndexerDriftDetected')
             FROM rag_internal.source WHERE name = $1 AND uid = $2",
            &[source.name.as_str().into(), source.uid.into()],
            |row| row.required::<bool>(1),
        )
    })?;
    Ok(found.first() == Some(&true))
}

/// Stores what a run that ends has left of the drift that was found before it. What counts are the
/// drifted documents, not others that could not be indexed. A run that completed counts its
/// documents itself. After a run that failed, the number of documents must be right too.
pub fn record_after_run(
    source: &Source,
    run_id: i64,
    completed: bool,
    findings: &DriftFindings,
) -> Result<(), Error> {
    let changes = ConditionChanges::at(source.generation);
    let has_drifted = if completed {
        findings.has_differences()
    } else {
        findings.has_drifted()
    };
    let changes = if has_drifted {
        changes.set(
            ConditionType::DriftDetected,
            Some(true),
            "DriftDetected",
            findings.message(),
        )
    } else {
        let message = format!("run {run_id} restored the drifted documents");
        changes.set(
            ConditionType::DriftDetected,
            Some(false),
            "Reindexed",
            message,
        )
    };
    as_owner(|| {
        execute(
            "UPDATE rag_internal.source
          SET conditions = rag_internal.merge_conditions(conditions, $2)
             WHERE name = $1
                 AND rag_internal.has_condition(conditions, 'AutoIndexerDriftDetected')",
            &[source.name.as_str().into(), changes.to_json().into()],
        )
    })?;
    Ok(())
}

// -- when checks are due

/// Returns the condition for sources `s` that may be checked now.
fn checkable() -> String {
    format!(
        "NOT s.suspend AND s.drift_policy <> 'ignore' AND s.last_indexed IS NOT NULL
         AND NOT EXISTS (SELECT FROM rag_internal.run r
                         WHERE r.source = s.name AND r.phase IN ('Pending', 'Running'))
         AND {NOT_RESTORING}"
    )
}

const DUE_AT: &str =
    "(coalesce(s.drift_checked_at, s.last_indexed) + pg_catalog.make_interval(secs => $1))";

/// Returns the sources whose check is due. Those that have waited longest come first.
pub fn due(interval: Duration) -> Result<Vec<String>, Error> {
    as_owner(|| {
        query(
            &format!(
                "SELECT s.name FROM rag_internal.source s WHERE {DUE_AT} <= pg_catalog.now() AND {}
                 ORDER BY {DUE_AT}, s.name",
                checkable()
            ),
            &[interval.as_secs_f64().into()],
            |row| row.required(1),
        )
    })
}

/// Returns the time until the next check that is not due yet, if there is one.
pub fn until_next(interval: Duration) -> Result<Option<Duration>, Error> {
    let found = as_owner(|| {
        query(
            &format!(
                "SELECT pg_catalog.date_part('epoch', pg_catalog.min({DUE_AT})
                                                      - pg_catalog.clock_timestamp())
                 FROM rag_internal.source s WHERE {DUE_AT} > pg_catalog.now() AND {}",
                checkable()
            ),
            &[interval.as_secs_f64().into()],
            |row| row.get::<f64>(1),
        )
    })?;
    let seconds = found.into_iter().next().flatten();
    Ok(seconds
        .map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)))
}
