//! A drift check that a session requests.

use crate::{
    catalog::{
        runs,
        sources::{self, Source},
    },
    cluster::{
        self,
        lock::{self, Lock},
        news,
    },
    drift::{self, DriftFindings, FollowUp},
    error::Error,
    pg::{
        spi::as_owner,
        transaction::{snapshot_is_fixed, with_latest_snapshot},
    },
    run::session,
};

/// Checks a source for drift and records the result. Queues a run if the policy of the source says
/// so.
///
/// # Errors
/// The source is busy, or was dropped in the meantime.
pub fn check(source: &Source) -> Result<(DriftFindings, FollowUp), Error> {
    let name = source.name.as_str();
    lock::check_not_being_dropped(&source.name)?;
    if !snapshot_is_fixed() {
        session::wait_while_checked(&source.name, Some(session::MAX_WAIT_FOR_CHECK))?;
    }
    if !Lock::source_busy(&source.name).try_acquire_for_transaction_briefly() {
        let run = with_latest_snapshot(|| as_owner(|owner| runs::active(owner, name)))?;
        return Err(session::busy_error(&source.name, run.map(|run| run.run_id)));
    }
    let findings = drift::compare(source)?;
    // the latest definition of the source decides what follows
    sources::lock(name)?;
    let source = with_latest_snapshot(|| source.reload())?.ok_or_else(|| Source::missing(name))?;
    let consequence = drift::record_findings(&source, &findings, cluster::are_scheduling())?;
    if let FollowUp::Run(_) = consequence {
        news::wake_scheduler_at_commit();
    }
    Ok((findings, consequence))
}
