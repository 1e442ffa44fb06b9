//! The start of a run.

use crate::{
    catalog::{
        conditions::{Changes, Type},
        sources::{self, Source},
    },
    error::Error,
    pg::{security::as_owner, snapshot::fresh, spi::execute},
};

use super::end::abandon;

/// Begins a run: one that was queued, or a new one that someone asks for. What it carries out is
/// the source's definition as it is now. `None`: the source is gone, the run was cancelled before
/// it began, or another one is queued that a new one would pass by. The caller holds the source's
/// lock, so that runs of the source that still say Running have lost their process.
///
/// # Errors
/// Someone has the source's row locked, for one.
pub fn start(run_id: i64, source: &Source, is_new: bool) -> Result<Option<Source>, Error> {
    if !sources::lock_at_once(source.name.as_str())? {
        return Ok(None);
    }
    let Some(source) = fresh(|| Source::find(source.name.as_str()))? else {
        return Ok(None);
    };
    abandon(&source)?;
    let name = source.name.as_str();
    as_owner(|| {
        let begun = if is_new {
            execute(
                "INSERT INTO rag.run (run_id, source, collection, trigger, generation, phase, started_at)
                 VALUES ($1, $2, $3, 'manual', $4, 'Running', pg_catalog.clock_timestamp())
                 ON CONFLICT (source) WHERE phase IN ('Pending', 'Running') DO NOTHING",
                &[run_id.into(), name.into(), source.collection.as_str().into(), source.generation.into()],
            )?
        } else {
            execute(
                "UPDATE rag.run SET phase = 'Running', started_at = pg_catalog.clock_timestamp(), waiting = NULL,
                     collection = $3, generation = $4
                 WHERE run_id = $1 AND source = $2 AND phase = 'Pending'",
                &[run_id.into(), name.into(), source.collection.as_str().into(), source.generation.into()],
            )?
        };
        if begun == 0 {
            return Ok(false);
        }
        let conditions = Changes::at(source.generation).set(
            Type::Indexing,
            Some(true),
            "RunStarted",
            format!("run {run_id} is under way"),
        );
        execute(
            "UPDATE rag.source SET retry_at = NULL,
                 attempt = CASE WHEN $3 THEN 0 ELSE attempt END, throttled = CASE WHEN $3 THEN 0 ELSE throttled END,
                 next_run = CASE WHEN schedule IS NOT NULL THEN next_run END,
                 conditions = rag.merge_conditions(conditions, $2)
             WHERE name = $1",
            &[name.into(), conditions.to_json().into(), is_new.into()],
        )?;
        Ok(true)
    })
    .map(|begun: bool| begun.then_some(source))
}
