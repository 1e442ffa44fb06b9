//! The end of a run: its row, its source's status and conditions, its retry, and a line of the log.

use pgrx::{PgSqlErrorCode as Code, datum::TimestampWithTimeZone};

use crate::{
    catalog::{
        conditions::{ConditionChanges, ConditionType},
        runs::{Phase, error_to_json, prune},
        sources::{self, Source},
    },
    drift::{self, DriftFindings},
    error::Error,
    pg::{
        security::as_owner,
        spi::{execute, execute_returning, query},
        transaction::{at_commit, with_latest_snapshot},
    },
};

use super::retry::{self, Retry};

/// How a run ended.
pub struct RunEnd<'a> {
    pub run_id: i64,
    /// The generation of the definition that it carried out.
    pub generation: i64,
    pub source: &'a Source,
    pub outcome: Result<(), &'a Error>,
    pub cause: EndCause,
    pub commit: Option<&'a str>,
    /// The whole source was listed.
    pub complete: bool,
    /// A note on a run that completed.
    pub note: Option<&'a str>,
    /// Number of documents that could not be indexed.
    pub failed: i64,
    /// Number of documents that were indexed incompletely.
    pub with_warnings: i64,
    /// What still differs from what was indexed, if drift was found before the run.
    pub drift: Option<&'a DriftFindings>,
}

impl<'a> RunEnd<'a> {
    /// Returns the end of a run that failed before it reported anything.
    pub fn failure(
        run_id: i64,
        generation: i64,
        source: &'a Source,
        error: &'a Error,
        cause: EndCause,
    ) -> Self {
        Self {
            run_id,
            generation,
            source,
            outcome: Err(error),
            cause,
            commit: None,
            complete: false,
            note: None,
            failed: 0,
            with_warnings: 0,
            drift: None,
        }
    }

    fn phase(&self) -> Phase {
        match self.outcome {
            Ok(()) => Phase::Completed,
            Err(_) => Phase::Failed,
        }
    }
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCause {
    /// The run itself: it completed or failed.
    Finished,
    /// It was cancelled, so there is no retry.
    Cancelled,
    /// Its process was lost.
    Lost,
}

impl EndCause {
    /// Returns the outcome as the log shows it.
    fn outcome(self, completed: bool) -> &'static str {
        match self {
            Self::Finished if completed => "completed",
            Self::Finished => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

/// The part of a source's row that decides what follows a run.
struct SourceState {
    generation: i64,
    max_retries: u32,
    attempt: u32,
    throttled: u32,
}

/// Ends a run. The source's conditions change only if its definition is still the run's; the counts
/// of runs always change.
///
/// # Errors
/// The source's row is locked, for example.
pub fn finish(run: RunEnd<'_>) -> Result<(), Error> {
    as_owner(|| {
        if let Some(state) = lock_state(run.source)? {
            finish_source(&run, &state)?;
        }
        // after the source, whose row the trigger that announces this reads
        let ended = execute_returning(
            &format!(
                "UPDATE rag_internal.run SET phase = $2, finished_at = pg_catalog.clock_timestamp(),
                     updated_at = pg_catalog.clock_timestamp(), current_uri = NULL,
                     waiting = NULL, commit = $3, error = $4, note = $5
                 WHERE run_id = $1 RETURNING {LOGGED}"
            ),
            &[
                run.run_id.into(),
                run.phase().name().into(),
                run.commit.into(),
                run.outcome.err().map(error_to_json).into(),
                run.note.into(),
            ],
            |row| row.required::<String>(1),
        )?;
        if let Some(counts) = ended.first() {
            let outcome = run.cause.outcome(run.outcome.is_ok());
            let source = run.source.name.as_str();
            log_at_commit(run.run_id, source, outcome, counts, run.outcome.err());
        }
        prune(run.source.name.as_str())
    })
}

/// Locks the row of a source, without waiting, and reads the part that decides what follows a run.
fn lock_state(source: &Source) -> Result<Option<SourceState>, Error> {
    let found = execute_returning(
        "SELECT generation, max_retries, attempt, throttled FROM rag_internal.source
         WHERE name = $1 AND uid = $2
         FOR NO KEY UPDATE NOWAIT",
        &[source.name.as_str().into(), source.uid.into()],
        |row| {
            let count = |n| Ok::<_, Error>(u32::try_from(row.required::<i32>(n)?).unwrap_or(0));
            Ok(SourceState {
                generation: row.required(1)?,
                max_retries: count(2)?,
                attempt: count(3)?,
                throttled: count(4)?,
            })
        },
    )?;
    Ok(found.into_iter().next())
}

/// The part of a run's row that the log shows.
const LOGGED: &str = "pg_catalog.format(
    'trigger=%s attempt=%s added=%s updated=%s deleted=%s unchanged=%s failed=%s warnings=%s '
    'skipped=%s chunks_written=%s chunks_embedded=%s bytes_fetched=%s seconds=%s',
    trigger, attempt, documents_added, documents_updated, documents_deleted,
    documents_unchanged, documents_failed, documents_with_warnings, files_skipped,
    chunks_written, chunks_embedded, bytes_fetched,
    coalesce(pg_catalog.round(extract(epoch FROM finished_at - started_at)::pg_catalog.numeric, 3),
             0))";

/// Writes a line into the server's log once the transaction that ends the run has committed.
fn log_at_commit(run_id: i64, source: &str, outcome: &str, counts: &str, error: Option<&Error>) {
    let state = error.map_or_else(|| "00000".into(), Error::sqlstate);
    let mut line =
        format!("rag: source={source} run={run_id} outcome={outcome} sqlstate={state} {counts}");
    if let Some(error) = error {
        let why = [Some(error.message.as_str()), error.detail.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
        // on one line
        line.push_str(&format!(" error={:?}", why.join(": ")));
    }
    at_commit(move || pgrx::log!("{line}"));
}

fn finish_source(run: &RunEnd<'_>, state: &SourceState) -> Result<(), Error> {
    let name = run.source.name.as_str();
    let completed = run.outcome.is_ok();
    let retry = match run.outcome {
        Err(error) if run.cause != EndCause::Cancelled => {
            retry::next_retry(error, state.max_retries, state.attempt, state.throttled)
        }
        _ => None,
    };
    let (attempt, throttled) = retry
        .as_ref()
        .map_or((0, 0), |retry| (retry.attempt, retry.throttled));
    let retry_at: Option<TimestampWithTimeZone> = retry.as_ref().map(|retry| retry.at);
    execute(
        "UPDATE rag_internal.source SET
             successful_run_count = successful_run_count + CASE WHEN $2 THEN 1 ELSE 0 END,
             error_run_count = error_run_count + CASE WHEN $2 THEN 0 ELSE 1 END,
             attempt = $3, throttled = $4, retry_at = $5, last_run_id = $6
         WHERE name = $1",
        &[
            name.into(),
            completed.into(),
            (attempt as i32).into(),
            (throttled as i32).into(),
            retry_at.into(),
            run.run_id.into(),
        ],
    )?;
    if state.generation != run.generation {
        // no run has carried out the current definition: without a schedule the source is due
        execute(
            "UPDATE rag_internal.source SET next_run = pg_catalog.now()
             WHERE name = $1 AND schedule IS NULL",
            &[name.into()],
        )?;
        let message = format!(
            "run {} carried out generation {}, which is not the current one",
            run.run_id, run.generation
        );
        let changes = ConditionChanges::at(state.generation).set(
            ConditionType::Indexing,
            Some(false),
            "DefinitionChanged",
            message,
        );
        return sources::set_conditions(name, &changes);
    }
    execute(
        "UPDATE rag_internal.source AS s SET
             observed_generation = $2,
             last_indexed = CASE WHEN $3 THEN pg_catalog.clock_timestamp()
                                 ELSE s.last_indexed END,
             last_commit = CASE WHEN $3 AND $4 THEN $5 ELSE s.last_commit END,
             documents = CASE WHEN $3
                              THEN (SELECT pg_catalog.count(*) FROM rag.documents d
                                    WHERE d.collection = s.collection AND d.source = s.name)
                              ELSE s.documents END,
             conditions = rag_internal.merge_conditions(s.conditions, $6)
         WHERE s.name = $1",
        &[
            name.into(),
            run.generation.into(),
            completed.into(),
            run.complete.into(),
            run.commit.into(),
            outcome_conditions(run, retry.as_ref()).to_json().into(),
        ],
    )?;
    run.drift.map_or(Ok(()), |findings| {
        drift::record_after_run(run.source, run.run_id, completed, findings)
    })
}

fn outcome_conditions(run: &RunEnd<'_>, retry: Option<&Retry>) -> ConditionChanges {
    use ConditionType::{Completed, Error as Failure, Indexing, ResourceReady};
    let (changes, id) = (ConditionChanges::at(run.generation), run.run_id);
    match run.outcome {
        Ok(()) => {
            let ready = "the last run could read the source";
            let ended = format!("run {id} completed");
            let changes = changes
                .set(ResourceReady, Some(true), "Ready", ready)
                .set(Indexing, Some(false), "RunCompleted", ended)
                .set(
                    Completed,
                    Some(true),
                    "RunCompleted",
                    completed_message(run),
                );
            match run.failed {
                0 => changes.set(Failure, Some(false), "NoError", ""),
                n => {
                    let message = format!("{n} documents could not be indexed, see rag.run_errors");
                    changes.set(Failure, Some(true), "DocumentsFailed", message)
                }
            }
        }
        Err(error) => {
            let reason = reason(error, run.cause);
            let next = match retry {
                Some(retry) => format!("; the next attempt is {}", retry.after()),
                None => String::new(),
            };
            let message = format!("run {id}: {}{next}", error.message);
            let changes = if error.cause().is_in_named() {
                changes.set(ResourceReady, Some(false), reason, error.message.clone())
            } else {
                changes
            };
            let ended = format!("run {id} failed");
            changes
                .set(Indexing, Some(false), reason, ended.clone())
                .set(Completed, Some(false), reason, ended)
                .set(Failure, Some(true), reason, message)
        }
    }
}

/// Returns the message of a run that completed.
fn completed_message(run: &RunEnd<'_>) -> String {
    let note = run
        .note
        .map_or_else(String::new, |note| format!("; {note}"));
    let warnings = match run.with_warnings {
        0 => String::new(),
        n => format!("; {n} documents were indexed with warnings, see rag.run_errors"),
    };
    format!("run {} completed{note}{warnings}", run.run_id)
}

/// Returns why a run failed, as the reason of a condition.
fn reason(error: &Error, cause: EndCause) -> &'static str {
    match cause {
        EndCause::Cancelled => "Cancelled",
        _ => error.cause().reason(),
    }
}

/// Ends a queued run of a source whose definition cannot be read.
pub fn fail_unreadable(run_id: i64, source: &str, error: &Error) -> Result<(), Error> {
    if !sources::lock_at_once(source)? {
        return Ok(());
    }
    as_owner(|| {
        let failed = execute_returning(
            &format!(
                "UPDATE rag_internal.run
                 SET phase = 'Failed', finished_at = pg_catalog.clock_timestamp(),
                     error = $3, waiting = NULL
                 WHERE run_id = $1 AND source = $2 AND phase = 'Pending' RETURNING {LOGGED}"
            ),
            &[run_id.into(), source.into(), error_to_json(error).into()],
            |row| row.required::<String>(1),
        )?;
        let Some(counts) = failed.first() else {
            return Ok(());
        };
        execute(
            "UPDATE rag_internal.source SET last_run_id = $2, error_run_count = error_run_count + 1,
                 retry_at = NULL, attempt = 0, throttled = 0
             WHERE name = $1",
            &[source.into(), run_id.into()],
        )?;
        log_at_commit(run_id, source, "failed", counts, Some(error));
        prune(source)
    })
}

/// Ends the runs of a source whose process was lost. The caller holds the source's lock, so none of
/// the processes is alive. Returns true if there were any.
pub fn end_lost_runs(source: &Source) -> Result<bool, Error> {
    // a run that ended just before the lock was acquired has stored that
    let lost = with_latest_snapshot(|| {
        as_owner(|| {
            query(
                "SELECT run_id, generation FROM rag_internal.run WHERE source = $1
                     AND phase = 'Running'",
                &[source.name.as_str().into()],
                |row| Ok((row.required::<i64>(1)?, row.required::<i64>(2)?)),
            )
        })
    })?;
    for (run_id, generation) in &lost {
        let error = Error::new(
            Code::ERRCODE_ADMIN_SHUTDOWN,
            "the run's process ended before the run did",
        )
        .hint("The documents that it has stored stay. The next run processes the rest.");
        finish(RunEnd::failure(
            *run_id,
            *generation,
            source,
            &error,
            EndCause::Lost,
        ))?;
    }
    Ok(!lost.is_empty())
}

/// Queues a run again that has given its slot to another one. The documents that it has stored
/// stay.
///
/// # Errors
/// The source's row is locked, for example.
pub fn requeue(run_id: i64, source: &Source) -> Result<(), Error> {
    let name = source.name.as_str();
    if !sources::lock_at_once(name)? {
        return Ok(());
    }
    as_owner(|| {
        let requeued = execute(
            "UPDATE rag_internal.run
             SET phase = 'Pending', queued_at = pg_catalog.clock_timestamp(),
                 started_at = NULL, current_uri = NULL,
                 waiting = 'gave its slot to a run of another database or owner'
             WHERE run_id = $1 AND phase = 'Running'",
            &[run_id.into()],
        )?;
        if requeued == 0 {
            return Ok(());
        }
        let message = format!(
            "run {run_id} gave its slot to a run of another database or owner and is queued again"
        );
        let changes = ConditionChanges::at(source.generation).set(
            ConditionType::Indexing,
            Some(false),
            "GaveWay",
            message,
        );
        sources::set_conditions(name, &changes)
    })
}
