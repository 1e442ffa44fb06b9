//! `rag.run` and `rag.run_error`: what each execution of a source did.
//!
//! A run is Pending from when it is due or asked for ([`queue`]), Running as long as its process
//! ([`start`]), then Completed or Failed ([`finish`]). Of one source only one can be Pending or
//! Running. How a run ended is also written into the source's row: counts, conditions, and when a
//! failed one is tried again.
//!
//! Whoever changes a run's phase locks the source's row first, so that nobody waits crosswise.
//! Someone may have that row locked for long, in a transaction left open: workers never wait for it
//! ([`sources::lock_at_once`]), or it would hold up other sources.

use std::time::Duration;

use pgrx::{PgSqlErrorCode as Code, datum::TimestampWithTimeZone};
use rag_protocol::ingest::{Failure, Warning};
use serde_json::json;

use super::{
    as_owner,
    conditions::{Changes, Type},
    drift::Findings,
    execute, execute_returning, fresh, query,
    sources::{self, Source},
    sqlstate,
};
use crate::{at_commit::at_commit, error::Error, schedule, settings};

/// Why a run is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// Someone called rag_sync.
    Manual,
    /// It was due.
    Schedule,
    /// The last one failed.
    Retry,
    /// What is stored was not what was indexed.
    Drift,
    /// The source is new.
    Create,
    /// Its table was changed.
    Change,
}

impl Trigger {
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Schedule => "schedule",
            Self::Retry => "retry",
            Self::Drift => "drift",
            Self::Create => "create",
            Self::Change => "change",
        }
    }
}

/// What a run has done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub total: Option<i64>,
    pub added: i64,
    pub updated: i64,
    pub deleted: i64,
    pub unchanged: i64,
    pub failed: i64,
    /// Documents among the added and updated ones that lost something on the way.
    pub with_warnings: i64,
    pub skipped: i64,
    pub chunks_written: i64,
    pub chunks_embedded: i64,
    pub chunks_reused: i64,
    pub bytes_fetched: i64,
}

/// Where the time of a run has gone, in seconds. Stages go on at the same time, so that their sum
/// is not the run's duration.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Times {
    /// Listing and reading the source.
    pub fetch: f64,
    /// Extracting and splitting, summed over the engine's threads.
    pub extract: f64,
    /// Waiting for embeddings.
    pub embed: f64,
    /// Writing and deleting.
    pub store: f64,
}

impl Counts {
    pub fn done(&self) -> i64 {
        self.added + self.updated + self.unchanged + self.failed
    }
}

/// How a run stands, for whoever waits for it.
#[derive(Debug, Clone)]
pub struct Status {
    pub source: String,
    pub phase: String,
    pub counts: Counts,
    pub error: Option<Error>,
    /// What is remarkable about a run that completed.
    pub note: Option<String>,
    /// Queued by the present transaction: nobody else can see it, let alone begin it.
    pub uncommitted: bool,
}

impl Status {
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Completed" | "Failed")
    }
}

/// A run that is queued or under way.
#[derive(Debug, Clone)]
pub struct Active {
    pub run_id: i64,
    pub is_pending: bool,
    pub trigger: String,
}

/// Returns the next run's id. Ids are given out outside of transactions: a run that never starts
/// leaves a gap.
///
/// The sequence of a database that was copied (`CREATE DATABASE ... TEMPLATE`) may fall behind by
/// up to 32 in a crash: PostgreSQL logs its values ahead of time, in the database that was copied.
/// Ids that are taken are passed over.
pub fn next_id() -> Result<i64, Error> {
    const NEXT: &str =
        "SELECT next, next > coalesce((SELECT pg_catalog.max(run_id) FROM rag.run), 0)
                        FROM pg_catalog.nextval('rag.run_id') AS next";
    loop {
        let ids = as_owner(|| {
            query(NEXT, &[], |row| {
                Ok((row.required::<i64>(1)?, row.required::<bool>(2)?))
            })
        })?;
        match ids.first() {
            Some((id, true)) => return Ok(*id),
            Some(_) => {}
            None => return Err(Error::internal("no id for a run")),
        }
    }
}

/// The run of a source that is queued or under way, or was when its process ended unseen.
pub fn active(source: &str) -> Result<Option<Active>, Error> {
    let found = as_owner(|| {
        query(
            "SELECT run_id, phase = 'Pending', trigger FROM rag.run WHERE source = $1 AND phase IN ('Pending', 'Running')",
            &[source.into()],
            |row| {
                Ok(Active {
                    run_id: row.required(1)?,
                    is_pending: row.required(2)?,
                    trigger: row.required(3)?,
                })
            },
        )
    })?;
    Ok(found.into_iter().next())
}

/// Queues a run of a source, which the scheduler starts when there is room; its id, or `None` where
/// one is queued or under way already. A retry, and whatever is still to come of the last run's
/// failure, is off. A run that is queued already is asked for from then on, should someone ask.
pub fn queue(source: &str, trigger: Trigger) -> Result<Option<i64>, Error> {
    as_owner(|| {
        execute_returning(
            "SELECT 1 FROM rag.source WHERE name = $1 FOR NO KEY UPDATE",
            &[source.into()],
            |_| Ok(()),
        )?;
        sources::note_locked(source);
        let id = next_id()?;
        let queued = execute_returning(
            "INSERT INTO rag.run (run_id, source, collection, trigger, attempt, generation, phase)
             SELECT $3, name, collection, $2,
                    CASE WHEN $2 = 'retry' THEN attempt + throttled + 1 ELSE 1 END, generation, 'Pending'
             FROM rag.source WHERE name = $1
             ON CONFLICT (source) WHERE phase IN ('Pending', 'Running') DO NOTHING
             RETURNING run_id",
            &[source.into(), trigger.name().into(), id.into()],
            |row| row.required::<i64>(1),
        )?;
        let Some(run_id) = queued.into_iter().next() else {
            if trigger == Trigger::Manual {
                execute(
                    "WITH taken AS (
                         UPDATE rag.run SET trigger = 'manual', attempt = 1
                         WHERE source = $1 AND phase = 'Pending' AND trigger <> 'manual' RETURNING source)
                     UPDATE rag.source s SET attempt = 0, throttled = 0 FROM taken WHERE s.name = taken.source",
                    &[source.into()],
                )?;
            }
            return Ok(None);
        };
        execute(
            "UPDATE rag.source SET retry_at = NULL,
                 attempt = CASE WHEN $2 THEN attempt ELSE 0 END, throttled = CASE WHEN $2 THEN throttled ELSE 0 END
             WHERE name = $1",
            &[source.into(), (trigger == Trigger::Retry).into()],
        )?;
        Ok(Some(run_id))
    })
}

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

/// The message of a run that is stopped because its source is about to be dropped.
pub const STOPPED: &str = "the run was stopped because the source was about to be dropped";

/// Whether the last run of a source was stopped because the source is about to be dropped.
pub fn was_stopped(source: &str) -> Result<bool, Error> {
    let found = as_owner(|| {
        query(
            "SELECT coalesce(r.error ->> 'message' = $2, false)
             FROM rag.source s JOIN rag.run r ON r.run_id = s.last_run_id WHERE s.name = $1",
            &[source.into(), STOPPED.into()],
            |row| row.required::<bool>(1),
        )
    })?;
    Ok(found.first() == Some(&true))
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

fn describe(error: &Error) -> pgrx::JsonB {
    let mut json = json!({
        "sqlstate": sqlstate(error.code),
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
    });
    if let Some(wait) = error.retry_after {
        json["throttled"] = true.into();
        json["retry_after_seconds"] = wait.as_secs().into();
    }
    pgrx::JsonB(json)
}

/// Writes down how far a run is.
pub fn progress(
    run_id: i64,
    stage: &str,
    counts: &Counts,
    times: &Times,
    current_uri: Option<&str>,
) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.run SET updated_at = pg_catalog.clock_timestamp(), stage = $2, current_uri = $3, documents_total = $4,
                 documents_added = $5, documents_updated = $6, documents_deleted = $7, documents_unchanged = $8,
                 documents_failed = $9, files_skipped = $10, chunks_written = $11, chunks_embedded = $12, chunks_reused = $13,
                 bytes_fetched = $14, documents_with_warnings = $15, fetch_seconds = $16, extract_seconds = $17,
                 embed_seconds = $18, store_seconds = $19
             WHERE run_id = $1",
            &[
                run_id.into(),
                stage.into(),
                current_uri.into(),
                counts.total.into(),
                counts.added.into(),
                counts.updated.into(),
                counts.deleted.into(),
                counts.unchanged.into(),
                counts.failed.into(),
                counts.skipped.into(),
                counts.chunks_written.into(),
                counts.chunks_embedded.into(),
                counts.chunks_reused.into(),
                counts.bytes_fetched.into(),
                counts.with_warnings.into(),
                times.fetch.into(),
                times.extract.into(),
                times.embed.into(),
                times.store.into(),
            ],
        )
    })?;
    Ok(())
}

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
        Err(error) if run.cause != Cause::Cancelled => schedule::try_again(
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
        return super::sources::set_conditions(name, &changes);
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
        super::drift::looked_again(run.source, run.run_id, completed, findings)
    })
}

fn outcome_conditions(run: &Ended<'_>, again: Option<&schedule::Again>) -> Changes {
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

/// Deletes the oldest of a source's ended runs, so that as many stay as the settings say; the last
/// one always does. Those that someone else is about to delete are left to them.
fn prune(source: &str) -> Result<(), Error> {
    let (completed, failed) = settings::history_limits();
    for (phase, limit) in [("Completed", completed), ("Failed", failed)] {
        execute(
            "WITH old AS (
                 DELETE FROM rag.run WHERE run_id IN (
                     SELECT run_id FROM rag.run WHERE source = $1 AND phase = $2
                         AND run_id <= (SELECT run_id FROM rag.run WHERE source = $1 AND phase = $2
                                        ORDER BY run_id DESC OFFSET $3 LIMIT 1)
                         AND run_id IS DISTINCT FROM (SELECT last_run_id FROM rag.source WHERE name = $1)
                     FOR UPDATE SKIP LOCKED)
                 RETURNING run_id)
             DELETE FROM rag.run_error e USING old WHERE e.run_id = old.run_id",
            &[source.into(), phase.into(), limit.into()],
        )?;
    }
    Ok(())
}

/// The same for all sources, after the settings have changed.
pub fn prune_all() -> Result<(), Error> {
    as_owner(|| {
        let sources: Vec<String> = query("SELECT DISTINCT source FROM rag.run", &[], |row| {
            row.required(1)
        })?;
        sources.iter().try_for_each(|source| prune(source))
    })
}

/// Notes a document that could not be indexed.
pub fn add_error(run_id: i64, source: &str, failure: &Failure) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "INSERT INTO rag.run_error (run_id, source, uri, stage, message, hint) VALUES ($1, $2, $3, $4, $5, $6)",
            &[
                run_id.into(),
                source.into(),
                failure.uri.as_str().into(),
                failure.stage.name().into(),
                failure.message.as_str().into(),
                failure.hint.as_deref().into(),
            ],
        )
    })?;
    Ok(())
}

/// Notes what was lost of a document that was indexed.
pub fn add_warning(run_id: i64, source: &str, uri: &str, warning: &Warning) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "INSERT INTO rag.run_error (run_id, source, uri, stage, severity, message) VALUES ($1, $2, $3, $4, 'warning', $5)",
            &[
                run_id.into(),
                source.into(),
                uri.into(),
                warning.stage.name().into(),
                warning.message.as_str().into(),
            ],
        )
    })?;
    Ok(())
}

/// How a run stands; `None` before its process has begun it. Call it under a fresh snapshot.
pub fn status(run_id: i64) -> Result<Option<Status>, Error> {
    let found = as_owner(|| {
        query(
            "SELECT phase, documents_total, documents_added, documents_updated, documents_deleted, documents_unchanged,
                    documents_failed, files_skipped, chunks_written, chunks_embedded, chunks_reused, bytes_fetched, error, source,
                    xmin, documents_with_warnings, note
             FROM rag.run WHERE run_id = $1",
            &[run_id.into()],
            |row| {
                Ok(Status {
                    phase: row.required(1)?,
                    counts: Counts {
                        total: row.get(2)?,
                        added: row.required(3)?,
                        updated: row.required(4)?,
                        deleted: row.required(5)?,
                        unchanged: row.required(6)?,
                        failed: row.required(7)?,
                        skipped: row.required(8)?,
                        chunks_written: row.required(9)?,
                        chunks_embedded: row.required(10)?,
                        chunks_reused: row.required(11)?,
                        bytes_fetched: row.required(12)?,
                        with_warnings: row.required(16)?,
                    },
                    note: row.get(17)?,
                    error: row.get::<pgrx::JsonB>(13)?.map(|json| read_error(&json.0)),
                    source: row.required(14)?,
                    uncommitted: sources::is_current_transaction(row.required(15)?),
                })
            },
        )
    })?;
    Ok(found.into_iter().next())
}

fn read_error(json: &serde_json::Value) -> Error {
    let text = |key: &str| json[key].as_str().map(String::from);
    let code = json["sqlstate"].as_str().map_or(0, |state| {
        state.bytes().rev().fold(0, |code, b| {
            (code << 6) + (i32::from(b.saturating_sub(b'0')) & 0x3f)
        })
    });
    Error {
        code: code.into(),
        message: text("message").unwrap_or_else(|| "the run failed".into()),
        detail: text("detail"),
        hint: text("hint"),
        retry_after: (json["throttled"] == true)
            .then(|| Duration::from_secs(json["retry_after_seconds"].as_u64().unwrap_or(0))),
        source_gone: false,
    }
}
