//! The start of a run.

use crate::{
    catalog::{
        conditions::{ConditionChanges, ConditionType},
        sources::{self, Source},
    },
    error::Error,
    pg::{security::as_owner, spi::execute, transaction::with_latest_snapshot},
};

use super::end::end_lost_runs;

/// Begins a run: a queued one, or a new one for a session that waits. It carries out the source's
/// current definition. Returns `None` if the source was dropped, the run was cancelled before it
/// began, or another one is queued that a new one would overtake. The caller holds the source's
/// lock, so runs of the source that are still Running have lost their process.
///
/// # Errors
/// The source's row is locked, for example.
pub fn start(run_id: i64, source: &Source, is_new: bool) -> Result<Option<Source>, Error> {
    if !sources::lock_at_once(source.name.as_str())? {
        return Ok(None);
    }
    let Some(source) = with_latest_snapshot(|| Source::find(source.name.as_str()))? else {
        return Ok(None);
    };
    end_lost_runs(&source)?;
    let name = source.name.as_str();
    let arguments = [
        run_id.into(),
        name.into(),
        source.collection.as_str().into(),
        source.generation.into(),
    ];
    as_owner(|| {
        let begun = if is_new {
            execute(
                "INSERT INTO rag_internal.run
                     (run_id, source, collection, trigger, generation, phase, started_at)
                 VALUES ($1, $2, $3, 'manual', $4, 'Running', pg_catalog.clock_timestamp())
                 ON CONFLICT (source) WHERE phase IN ('Pending', 'Running') DO NOTHING",
                &arguments,
            )?
        } else {
            execute(
                "UPDATE rag_internal.run
                 SET phase = 'Running', started_at = pg_catalog.clock_timestamp(),
                     waiting = NULL, collection = $3, generation = $4
                 WHERE run_id = $1 AND source = $2 AND phase = 'Pending'",
                &arguments,
            )?
        };
        if begun == 0 {
            return Ok(false);
        }
        let conditions = ConditionChanges::at(source.generation).set(
            ConditionType::Indexing,
            Some(true),
            "RunStarted",
            format!("run {run_id} is in progress"),
        );
        execute(
            "UPDATE rag_internal.source SET retry_at = NULL,
                 attempt = CASE WHEN $3 THEN 0 ELSE attempt END,
                 throttled = CASE WHEN $3 THEN 0 ELSE throttled END,
                 next_run = CASE WHEN schedule IS NOT NULL THEN next_run END,
                 conditions = rag_internal.merge_conditions(conditions, $2)
             WHERE name = $1",
            &[name.into(), conditions.to_json().into(), is_new.into()],
        )?;
        Ok(true)
    })
    .map(|begun: bool| begun.then_some(source))
}
