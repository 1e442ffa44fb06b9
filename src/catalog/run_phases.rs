//! What changes in `rag_internal.run` and `rag_internal.source` when a run begins, ends, or is
//! queued again.
//!
//! [`crate::run`] decides what follows, and holds the source's lock.

use pgrx::datum::TimestampWithTimeZone;

use super::{
    conditions::ConditionChanges,
    runs::{Phase, error_to_json},
    sources::Source,
};
use crate::{
    error::Error,
    pg::spi::{OwnerRights, Row},
};

// -- the beginning

/// Begins a queued run, or a new one. Returns false if the run was cancelled, or another one is
/// queued that a new one would overtake.
pub fn begin(
    owner: &OwnerRights,
    run_id: i64,
    source: &Source,
    is_new: bool,
) -> Result<bool, Error> {
    let statement = match is_new {
        true => {
            "INSERT INTO rag_internal.run
                 (run_id, source, collection, trigger, generation, phase, started_at)
             VALUES ($1, $2, $3, 'manual', $4, 'Running', clock_timestamp())
             ON CONFLICT (source) WHERE phase IN ('Pending', 'Running') DO NOTHING"
        }
        false => {
            "UPDATE rag_internal.run SET phase = 'Running', started_at = clock_timestamp(),
                 waiting = NULL, collection = $3, generation = $4
             WHERE run_id = $1 AND source = $2 AND phase = 'Pending'"
        }
    };
    let begun = owner.execute(
        statement,
        &[
            run_id.into(),
            source.name.as_str().into(),
            source.collection.as_str().into(),
            source.generation.into(),
        ],
    )?;
    Ok(begun > 0)
}

/// Stores in a source that a run has begun. One that is new counts no attempts.
pub fn begin_source(
    owner: &OwnerRights,
    name: &str,
    changes: &ConditionChanges,
    is_new: bool,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET retry_at = NULL,
             attempt = CASE WHEN $3 THEN 0 ELSE attempt END,
             throttled = CASE WHEN $3 THEN 0 ELSE throttled END,
             next_run = CASE WHEN schedule IS NOT NULL THEN next_run END,
             conditions = rag_internal.merge_conditions(conditions, $2)
         WHERE name = $1",
        &[name.into(), changes.to_json().into(), is_new.into()],
    )?;
    Ok(())
}

/// Queues a run again that has given its slot to another one. Returns false if it is not Running.
pub fn requeue(owner: &OwnerRights, run_id: i64) -> Result<bool, Error> {
    let requeued = owner.execute(
        "UPDATE rag_internal.run SET phase = 'Pending', queued_at = clock_timestamp(),
             started_at = NULL, current_uri = NULL,
             waiting = 'gave its slot to a run of another database or owner'
         WHERE run_id = $1 AND phase = 'Running'",
        &[run_id.into()],
    )?;
    Ok(requeued > 0)
}

// -- the end

/// The part of a source's row that decides what follows a run.
pub struct SourceState {
    pub generation: i64,
    pub max_retries: u32,
    pub attempt: u32,
    pub throttled: u32,
}

/// Locks the row of a source, without waiting, and reads the part that decides what follows a run.
pub fn lock_state(owner: &OwnerRights, source: &Source) -> Result<Option<SourceState>, Error> {
    let found = owner.execute_returning(
        "SELECT generation, max_retries, attempt, throttled FROM rag_internal.source
         WHERE name = $1 AND uid = $2
         FOR NO KEY UPDATE NOWAIT",
        &[source.name.as_str().into(), source.uid.into()],
        |row| {
            let count = |row: &Row<'_, '_>, column: &str| {
                Ok::<_, Error>(u32::try_from(row.required::<i32>(column)?).unwrap_or(0))
            };
            Ok(SourceState {
                generation: row.required("generation")?,
                max_retries: count(&row, "max_retries")?,
                attempt: count(&row, "attempt")?,
                throttled: count(&row, "throttled")?,
            })
        },
    )?;
    Ok(found.into_iter().next())
}

/// The part of a run's row that the log shows.
const LOGGED: &str = "format(
    'trigger=%s attempt=%s added=%s updated=%s deleted=%s unchanged=%s failed=%s warnings=%s '
    'skipped=%s chunks_written=%s chunks_embedded=%s bytes_fetched=%s seconds=%s',
    trigger, attempt, documents_added, documents_updated, documents_deleted,
    documents_unchanged, documents_failed, documents_with_warnings, files_skipped,
    chunks_written, chunks_embedded, bytes_fetched,
    coalesce(round(extract(epoch FROM finished_at - started_at)::numeric, 3), 0)) AS logged";

/// Ends a run. Returns what the log shows of it, or `None` if there is no such run.
pub fn end(
    owner: &OwnerRights,
    run_id: i64,
    phase: Phase,
    commit: Option<&str>,
    error: Option<&Error>,
    note: Option<&str>,
) -> Result<Option<String>, Error> {
    let ended = owner.execute_returning(
        &format!(
            "UPDATE rag_internal.run SET phase = $2, finished_at = clock_timestamp(),
                 updated_at = clock_timestamp(), current_uri = NULL,
                 waiting = NULL, commit = $3, error = $4, note = $5
             WHERE run_id = $1 RETURNING {LOGGED}"
        ),
        &[
            run_id.into(),
            phase.name().into(),
            commit.into(),
            error.map(error_to_json).into(),
            note.into(),
        ],
        |row| row.required("logged"),
    )?;
    Ok(ended.into_iter().next())
}

/// Ends a queued run. Returns what the log shows of it, or `None` if it is not queued.
pub fn fail_queued(
    owner: &OwnerRights,
    run_id: i64,
    source: &str,
    error: &Error,
) -> Result<Option<String>, Error> {
    let failed = owner.execute_returning(
        &format!(
            "UPDATE rag_internal.run SET phase = 'Failed', finished_at = clock_timestamp(),
                 error = $3, waiting = NULL
             WHERE run_id = $1 AND source = $2 AND phase = 'Pending' RETURNING {LOGGED}"
        ),
        &[run_id.into(), source.into(), error_to_json(error).into()],
        |row| row.required("logged"),
    )?;
    Ok(failed.into_iter().next())
}

/// Stores in a source that a queued run has failed. There is no retry.
pub fn count_failed(owner: &OwnerRights, run_id: i64, source: &str) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET last_run_id = $2, error_run_count = error_run_count + 1,
             retry_at = NULL, attempt = 0, throttled = 0
         WHERE name = $1",
        &[source.into(), run_id.into()],
    )?;
    Ok(())
}

/// What a run that has ended leaves in its source, whatever its definition is now.
pub struct CountedRun {
    pub run_id: i64,
    pub completed: bool,
    pub attempt: u32,
    pub throttled: u32,
    pub retry_at: Option<TimestampWithTimeZone>,
}

/// Counts a run of a source, and stores when it is retried.
pub fn count(owner: &OwnerRights, source: &str, run: &CountedRun) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET
             successful_run_count = successful_run_count + CASE WHEN $2 THEN 1 ELSE 0 END,
             error_run_count = error_run_count + CASE WHEN $2 THEN 0 ELSE 1 END,
             attempt = $3, throttled = $4, retry_at = $5, last_run_id = $6
         WHERE name = $1",
        &[
            source.into(),
            run.completed.into(),
            (run.attempt as i32).into(),
            (run.throttled as i32).into(),
            run.retry_at.into(),
            run.run_id.into(),
        ],
    )?;
    Ok(())
}

/// Makes a source without a schedule due.
pub fn make_due(owner: &OwnerRights, source: &str) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET next_run = now() WHERE name = $1 AND schedule IS NULL",
        &[source.into()],
    )?;
    Ok(())
}

/// What a run leaves in its source, whose definition it has carried out.
pub struct IndexedSource<'a> {
    pub generation: i64,
    pub completed: bool,
    /// The whole source was listed.
    pub complete: bool,
    pub commit: Option<&'a str>,
    pub changes: ConditionChanges,
}

/// Stores what a run has indexed.
pub fn set_indexed(
    owner: &OwnerRights,
    source: &str,
    indexed: &IndexedSource<'_>,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source AS s SET
             observed_generation = $2,
             last_indexed = CASE WHEN $3 THEN clock_timestamp() ELSE s.last_indexed END,
             last_commit = CASE WHEN $3 AND $4 THEN $5 ELSE s.last_commit END,
             documents = CASE WHEN $3
                              THEN (SELECT count(*) FROM rag.documents d
                                    WHERE d.collection = s.collection AND d.source = s.name)
                              ELSE s.documents END,
             conditions = rag_internal.merge_conditions(s.conditions, $6)
         WHERE s.name = $1",
        &[
            source.into(),
            indexed.generation.into(),
            indexed.completed.into(),
            indexed.complete.into(),
            indexed.commit.into(),
            indexed.changes.to_json().into(),
        ],
    )?;
    Ok(())
}

/// Returns the runs of a source that are Running, with the generations that they carry out.
pub fn running(owner: &OwnerRights, source: &str) -> Result<Vec<(i64, i64)>, Error> {
    owner.query(
        "SELECT run_id, generation FROM rag_internal.run WHERE source = $1 AND phase = 'Running'",
        &[source.into()],
        |row| Ok((row.required("run_id")?, row.required("generation")?)),
    )
}
