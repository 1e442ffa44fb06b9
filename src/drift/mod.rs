//! Drift: whether the stored documents of a source still have the digests that its runs computed.
//!
//! ```text
//!  run ── stores a document ──▶ rag.documents, rag.chunks ── digest, same transaction ──▶ digests
//!                                        │                                                   │
//!                                        └───── rag_internal.drifted_documents compares ─────┘
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

use std::collections::BTreeMap;

pub use self::findings::DriftFindings;
use self::findings::ServerDifference;
pub use crate::catalog::drift::was_found;
use crate::{
    catalog::{
        collections::Collection,
        conditions::{ConditionChanges, ConditionType},
        drift as stored,
        runs::{self, Trigger},
        sources::{self, DriftPolicy, Source},
    },
    error::Error,
    pg::spi::{OwnerRights, as_owner},
    storage::remote::comparison,
};

/// Maximum number of documents of each kind that a check lists.
const MAX_LISTED: i64 = 100;

// -- checks

/// Compares the stored documents of a source with what its runs have indexed. The caller holds the
/// source's lock.
pub fn compare(source: &Source) -> Result<DriftFindings, Error> {
    let found = stored::compare(source, MAX_LISTED)?
        .ok_or_else(|| Source::missing(source.name.as_str()))?;
    let actual = found.actual;
    let Some(expected) = found.expected else {
        return Ok(DriftFindings::without_run(actual));
    };
    let documents = match found.documents {
        Some(found) => serde_json::from_value(found.0)
            .map_err(|e| Error::internal(format!("the findings cannot be read: {e}")))?,
        None => BTreeMap::new(),
    };
    let difference = comparison::difference(&Collection::get(source.collection.as_str())?)?;
    Ok(DriftFindings {
        expected: Some(expected),
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
    as_owner(|owner| stored::set_checked(owner, source, &changes))?;
    let is_repaired = is_scheduled && source.drift_policy == DriftPolicy::Auto && !source.suspend;
    if findings.has_drifted() && is_repaired {
        queue_repair(source)
    } else {
        Ok(FollowUp::Nothing)
    }
}

/// Queues a run, unless a retry is expected: queueing would restart its delays.
fn queue_repair(source: &Source) -> Result<FollowUp, Error> {
    let name = source.name.as_str();
    if as_owner(|owner| sources::is_retried(owner, name))? {
        return Ok(FollowUp::RunExpected);
    }
    let queued = as_owner(|owner| runs::queue(owner, name, Trigger::Drift))?;
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
    as_owner(|owner| stored::set_failed(owner, source, &changes))
}

/// Stores what a run that ends has left of the drift that was found before it. What counts are the
/// drifted documents, not others that could not be indexed. A run that completed counts its
/// documents itself. After a run that failed, the number of documents must be right too.
pub fn record_after_run(
    owner: &OwnerRights,
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
    stored::set_after_run(owner, source.name.as_str(), &changes)
}
