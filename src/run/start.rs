//! The start of a run.

use crate::{
    catalog::{
        conditions::{ConditionChanges, ConditionType},
        run_phases,
        sources::{self, Source},
    },
    error::Error,
    pg::{spi::as_owner, transaction::with_latest_snapshot, version},
};

use super::end::end_lost_runs;

/// Begins a run: a queued one, or a new one for a session that waits. It carries out the source's
/// current definition. Returns `None` if the source was dropped, the run was cancelled before it
/// began, or another one is queued that a new one would overtake. The caller holds the source's
/// lock, so runs of the source that are still Running have lost their process.
///
/// # Errors
/// The source's row is locked, or the extension has another version than the library.
pub fn start(run_id: i64, source: &Source, is_new: bool) -> Result<Option<Source>, Error> {
    version::require_equal()?;
    as_owner(|owner| {
        if !sources::lock_at_once(owner, source.name.as_str())? {
            return Ok(None);
        }
        let Some(source) = with_latest_snapshot(|| Source::find(source.name.as_str()))? else {
            return Ok(None);
        };
        end_lost_runs(&source)?;
        if !run_phases::begin(owner, run_id, &source, is_new)? {
            return Ok(None);
        }
        let conditions = ConditionChanges::at(source.generation).set(
            ConditionType::Indexing,
            Some(true),
            "RunStarted",
            format!("run {run_id} is in progress"),
        );
        run_phases::begin_source(owner, source.name.as_str(), &conditions, is_new)?;
        Ok(Some(source))
    })
}
