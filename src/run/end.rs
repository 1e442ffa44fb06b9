//! The end of a run: its row, its source's status and conditions, its retry, and a line of the log.

use pgrx::{PgSqlErrorCode as Code, datum::TimestampWithTimeZone};

use crate::{
    catalog::{
        conditions::{Changes, Type},
        runs::{describe, prune},
        sources::{self, Source},
    },
    drift::{self, Findings},
    error::Error,
    pg::{
        commit::at_commit,
        security::as_owner,
        snapshot::fresh,
        spi::{execute, execute_returning, query},
        sqlstate::sqlstate,
    },
};

use super::retry::{self, Again};

/// How a run ended.
pub struct Ended<'a> {
    pub run_id: i64,
    /// That of the definition which it carried out.
    pub generation: i64,
    pub source: &'a Source,
    pub outcome: Result<(), &'a Error>,
    pub cause: Cause,
    pub commit: Option<&'a str>,
    /// All of the source was listed.
    pub complete: bool,
    /// What is remarkable about a run that completed.
    pub note: Option<&'a str>,
    /// Documents that could not be indexed.
    pub failed: i64,
    /// Documents that lost something on the way.
    pub with_warnings: i64,
    /// What still differs from what was indexed, where drift had been found before the run.
    pub drift: Option<&'a Findings>,
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It went as far as it could.
    Itself,
    /// Someone cancelled it: it is not tried again.
    Cancelled,
    /// Its process ended before it did.
    Lost,
}

impl Cause {
    /// How a run has ended, as the log says it.
    fn outcome(self, completed: bool) -> &'static str {
        match self {
            Self::Itself if completed => "completed",
            Self::Itself => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

/// The part of a source's row that decides what follows a run.
struct Present {
    generation: i64,
    max_retries: u32,
    attempt: u32,
    throttled: u32,
}

/// Ends a run. The source's status is touched only where its definition is still the run's; what
/// counts runs, always.
///
/// # Errors
/// Someone has the source's row locked, for one.
pub fn finish(run: Ended<'_>) -> Result<(), Error> {
    as_owner(|| {
        let present = execute_returning(
            "SELECT generation, max_retries, attempt, throttled FROM rag.source WHERE name = $1 AND uid = $2
             FOR NO KEY UPDATE NOWAIT",
            &[run.source.name.as_str().into(), run.source.uid.into()],
            |row| {
                let count = |n| Ok::<_, Error>(u32::try_from(row.required::<i32>(n)?).unwrap_or(0));
                Ok(Present {
                    generation: row.required(1)?,
                    max_retries: count(2)?,
                    attempt: count(3)?,
                    throttled: count(4)?,
                })
            },
        )?;
        if let Some(present) = present.first() {
            finish_source(&run, present)?;
        }
        let phase = if run.outcome.is_ok() {
            "Completed"
        } else {
            "Failed"
        };
        // after the source, whose row the trigger that announces this looks at
        let ended = execute_returning(
            &format!(
                "UPDATE rag.run SET phase = $2, finished_at = pg_catalog.clock_timestamp(),
                     updated_at = pg_catalog.clock_timestamp(), current_uri = NULL, waiting = NULL, commit = $3, error = $4,
                     note = $5
                 WHERE run_id = $1 RETURNING {LOGGED}"
            ),
            &[
                run.run_id.into(),
                phase.into(),
                run.commit.into(),
                run.outcome.err().map(describe).into(),
                run.note.into(),
            ],
            |row| row.required::<String>(1),
        )?;
        if let Some(did) = ended.first() {
            let outcome = run.cause.outcome(run.outcome.is_ok());
            log_at_commit(
                run.run_id,
                run.source.name.as_str(),
                outcome,
                did,
                run.outcome.err(),
            );
        }
        prune(run.source.name.as_str())
    })
}

/// What the log says of a run's row.
const LOGGED: &str = "pg_catalog.format(
    'trigger=%s attempt=%s added=%s updated=%s deleted=%s unchanged=%s failed=%s warnings=%s skipped=%s '
    'chunks_written=%s chunks_embedded=%s bytes_fetched=%s seconds=%s',
    trigger, attempt, documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed,
    documents_with_warnings, files_skipped, chunks_written, chunks_embedded, bytes_fetched,
    coalesce(pg_catalog.round(extract(epoch FROM finished_at - started_at)::pg_catalog.numeric, 3), 0))";

/// Writes a line into the server's log, once the transaction that ends the run has committed: also
/// of runs that nobody waits for.
fn log_at_commit(run_id: i64, source: &str, outcome: &str, did: &str, error: Option<&Error>) {
    let state = error.map_or_else(|| "00000".into(), |error| sqlstate(error.code));
    let mut line =
        format!("rag: source={source} run={run_id} outcome={outcome} sqlstate={state} {did}");
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

fn finish_source(run: &Ended<'_>, present: &Present) -> Result<(), Error> {
    let name = run.source.name.as_str();
    let completed = run.outcome.is_ok();
    let again = match run.outcome {
        Err(error) if run.cause != Cause::Cancelled => retry::try_again(
            error,
            present.max_retries,
            present.attempt,
            present.throttled,
        ),
        _ => None,
    };
    let (attempt, throttled) = again
        .as_ref()
        .map_or((0, 0), |again| (again.attempt, again.throttled));
    let retry_at: Option<TimestampWithTimeZone> = again.as_ref().map(|again| again.at);
    execute(
        "UPDATE rag.source SET
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
    if present.generation != run.generation {
        // the present definition has been carried out by nobody: where it has no schedule that
        // comes to it, it is due
        execute(
            "UPDATE rag.source SET next_run = pg_catalog.now() WHERE name = $1 AND schedule IS NULL",
            &[name.into()],
        )?;
        let message = format!(
            "run {} carried out generation {}, which is not the present one",
            run.run_id, run.generation
        );
        let changes = Changes::at(present.generation).set(
            Type::Indexing,
            Some(false),
            "DefinitionChanged",
            message,
        );
        return sources::set_conditions(name, &changes);
    }
    execute(
        "UPDATE rag.source AS s SET
             observed_generation = $2,
             last_indexed = CASE WHEN $3 THEN pg_catalog.clock_timestamp() ELSE s.last_indexed END,
             last_commit = CASE WHEN $3 AND $4 THEN $5 ELSE s.last_commit END,
             documents = CASE WHEN $3 THEN (SELECT pg_catalog.count(*) FROM rag.documents d
                                            WHERE d.collection = s.collection AND d.source = s.name) ELSE s.documents END,
             conditions = rag.merge_conditions(s.conditions, $6)
         WHERE s.name = $1",
        &[
            name.into(),
            run.generation.into(),
            completed.into(),
            run.complete.into(),
            run.commit.into(),
            outcome_conditions(run, again.as_ref()).to_json().into(),
        ],
    )?;
    run.drift.map_or(Ok(()), |findings| {
        drift::looked_again(run.source, run.run_id, completed, findings)
    })
}

fn outcome_conditions(run: &Ended<'_>, again: Option<&Again>) -> Changes {
    let changes = Changes::at(run.generation);
    match run.outcome {
        Ok(()) => {
            let changes = changes
                .set(
                    Type::ResourceReady,
                    Some(true),
                    "Ready",
                    "the last run found what the definition names",
                )
                .set(
                    Type::Indexing,
                    Some(false),
                    "RunCompleted",
                    format!("run {} completed", run.run_id),
                )
                .set(Type::Completed, Some(true), "RunCompleted", completed(run));
            match run.failed {
                0 => changes.set(Type::Error, Some(false), "NoError", ""),
                n => {
                    let message = format!("{n} documents could not be indexed, see rag.run_errors");
                    changes.set(Type::Error, Some(true), "DocumentsFailed", message)
                }
            }
        }
        Err(error) => {
            let reason = reason(error, run.cause);
            let follows = match again {
                Some(again) => format!("; it is tried again {}", again.after()),
                None => String::new(),
            };
            let message = format!("run {}: {}{follows}", run.run_id, error.message);
            let changes = match concerns_definition(error) {
                true => changes.set(
                    Type::ResourceReady,
                    Some(false),
                    reason,
                    error.message.clone(),
                ),
                false => changes,
            };
            changes
                .set(
                    Type::Indexing,
                    Some(false),
                    reason,
                    format!("run {} failed", run.run_id),
                )
                .set(
                    Type::Completed,
                    Some(false),
                    reason,
                    format!("run {} failed", run.run_id),
                )
                .set(Type::Error, Some(true), reason, message)
        }
    }
}

/// Returns the message of a run that completed.
fn completed(run: &Ended<'_>) -> String {
    let note = run
        .note
        .map_or_else(String::new, |note| format!("; {note}"));
    let warnings = match run.with_warnings {
        0 => String::new(),
        n => format!("; {n} documents were indexed with warnings, see rag.run_errors"),
    };
    format!("run {} completed{note}{warnings}", run.run_id)
}

/// Why a run failed, in one word.
fn reason(error: &Error, cause: Cause) -> &'static str {
    match error.code {
        _ if cause == Cause::Cancelled => "Cancelled",
        _ if error.retry_after.is_some() => "Throttled",
        Code::ERRCODE_QUERY_CANCELED => "Timeout",
        Code::ERRCODE_ADMIN_SHUTDOWN => "Interrupted",
        _ if concerns_definition(error) => "NotReady",
        _ => "RunFailed",
    }
}

/// Whether the trouble is with what the definition names: a role, a secret, a table, rights; or a
/// folder, repository or server that is gone.
fn concerns_definition(error: &Error) -> bool {
    error.source_gone || sqlstate(error.code).starts_with("42")
}

/// Ends a queued run of a source whose definition cannot be read.
pub fn refuse(run_id: i64, source: &str, error: &Error) -> Result<(), Error> {
    if !sources::lock_at_once(source)? {
        return Ok(());
    }
    as_owner(|| {
        let refused = execute_returning(
            &format!(
                "UPDATE rag.run SET phase = 'Failed', finished_at = pg_catalog.clock_timestamp(), error = $3, waiting = NULL
                 WHERE run_id = $1 AND source = $2 AND phase = 'Pending' RETURNING {LOGGED}"
            ),
            &[run_id.into(), source.into(), describe(error).into()],
            |row| row.required::<String>(1),
        )?;
        let Some(did) = refused.first() else {
            return Ok(());
        };
        execute(
            "UPDATE rag.source SET last_run_id = $2, error_run_count = error_run_count + 1, retry_at = NULL, attempt = 0,
                 throttled = 0
             WHERE name = $1",
            &[source.into(), run_id.into()],
        )?;
        log_at_commit(run_id, source, "failed", did, Some(error));
        prune(source)
    })
}

/// Ends the runs of a source that lost their process: the caller holds the source's lock, so none
/// is alive. Whether there were any.
pub fn abandon(source: &Source) -> Result<bool, Error> {
    // a run that ended just before the lock was taken has written so
    let lost = fresh(|| {
        as_owner(|| {
            query(
                "SELECT run_id, generation FROM rag.run WHERE source = $1 AND phase = 'Running'",
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
        .hint("Documents that it had stored stay; the next run does the rest.");
        finish(Ended {
            run_id: *run_id,
            generation: *generation,
            source,
            outcome: Err(&error),
            cause: Cause::Lost,
            commit: None,
            complete: false,
            note: None,
            failed: 0,
            with_warnings: 0,
            drift: None,
        })?;
    }
    Ok(!lost.is_empty())
}

/// Queues a run again that was under way and gave its slot to another one. What it has stored
/// stays.
///
/// # Errors
/// Someone has the source's row locked, for one.
pub fn put_back(run_id: i64, source: &Source) -> Result<(), Error> {
    let name = source.name.as_str();
    if !sources::lock_at_once(name)? {
        return Ok(());
    }
    as_owner(|| {
        let put_back = execute(
            "UPDATE rag.run SET phase = 'Pending', queued_at = pg_catalog.clock_timestamp(), started_at = NULL,
                 current_uri = NULL, waiting = 'it gave its slot to a run of another database or owner'
             WHERE run_id = $1 AND phase = 'Running'",
            &[run_id.into()],
        )?;
        if put_back == 0 {
            return Ok(());
        }
        let message = format!(
            "run {run_id} gave its slot to a run of another database or owner and is queued again"
        );
        let changes =
            Changes::at(source.generation).set(Type::Indexing, Some(false), "GaveWay", message);
        sources::set_conditions(name, &changes)
    })
}
