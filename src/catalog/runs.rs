//! `rag.run` and `rag.run_errors`: what each execution of a source did.

use std::time::Duration;

use rag_protocol::ingest::Failure;
use serde_json::json;

use super::{as_owner, execute, query, sources::Source, sqlstate};
use crate::error::Error;

/// What a run has done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub total: Option<i64>,
    pub added: i64,
    pub updated: i64,
    pub deleted: i64,
    pub unchanged: i64,
    pub failed: i64,
    pub skipped: i64,
    pub chunks_written: i64,
    pub chunks_embedded: i64,
    pub chunks_reused: i64,
    pub bytes_fetched: i64,
}

impl Counts {
    pub fn done(&self) -> i64 {
        self.added + self.updated + self.unchanged + self.failed
    }
}

/// How a run stands, for whoever waits for it.
#[derive(Debug, Clone)]
pub struct Status {
    pub phase: String,
    pub counts: Counts,
    pub error: Option<Error>,
}

/// The next run's id. Ids are given out outside of transactions: a run that never starts leaves a gap.
pub fn next_id() -> Result<i64, Error> {
    let ids = as_owner(|| query("SELECT pg_catalog.nextval('rag.run_id')", &[], |row| row.required(1)))?;
    ids.into_iter().next().ok_or_else(|| Error::internal("no id for a run"))
}

/// Begins a run. Runs of the source that still say Running have lost their process: the caller holds the source's lock.
pub fn start(run_id: i64, source: &Source) -> Result<(), Error> {
    abandon(source.name.as_str())?;
    as_owner(|| {
        execute(
            "INSERT INTO rag.run (run_id, source, collection, trigger, generation, phase) VALUES ($1, $2, $3, 'manual', $4, 'Running')",
            &[run_id.into(), source.name.as_str().into(), source.collection.as_str().into(), source.generation.into()],
        )
    })?;
    Ok(())
}

/// Marks the runs of a source that lost their process as failed: the caller holds the source's lock, so none is alive.
pub fn abandon(source: &str) -> Result<(), Error> {
    let error = Error::new(pgrx::PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN, "the run's process ended before the run did")
        .hint("Documents that it had stored stay; the next run does the rest.");
    as_owner(|| {
        execute(
            "WITH lost AS (
                 UPDATE rag.run SET phase = 'Failed', finished_at = pg_catalog.clock_timestamp(), error = $2
                 WHERE source = $1 AND phase = 'Running' RETURNING 1)
             UPDATE rag.source SET error_run_count = error_run_count + (SELECT pg_catalog.count(*) FROM lost)
             WHERE name = $1 AND EXISTS (SELECT FROM lost)",
            &[source.into(), describe(&error).into()],
        )
    })?;
    Ok(())
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
pub fn progress(run_id: i64, stage: &str, counts: &Counts, current_uri: Option<&str>) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.run SET updated_at = pg_catalog.clock_timestamp(), stage = $2, current_uri = $3, documents_total = $4,
                 documents_added = $5, documents_updated = $6, documents_deleted = $7, documents_unchanged = $8,
                 documents_failed = $9, files_skipped = $10, chunks_written = $11, chunks_embedded = $12, chunks_reused = $13,
                 bytes_fetched = $14
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
            ],
        )
    })?;
    Ok(())
}

/// Ends a run. The source's own status is touched only where its definition is still the run's.
pub fn finish(
    run_id: i64,
    source: &Source,
    outcome: Result<(), &Error>,
    commit: Option<&str>,
    clean: bool,
) -> Result<(), Error> {
    let phase = if outcome.is_ok() { "Completed" } else { "Failed" };
    as_owner(|| {
        execute(
            "UPDATE rag.run SET phase = $2, finished_at = pg_catalog.clock_timestamp(), updated_at = pg_catalog.clock_timestamp(),
                 current_uri = NULL, commit = $3, error = $4 WHERE run_id = $1",
            &[run_id.into(), phase.into(), commit.into(), outcome.err().map(describe).into()],
        )?;
        execute(
            "UPDATE rag.source SET
                 successful_run_count = successful_run_count + CASE WHEN $3 THEN 1 ELSE 0 END,
                 error_run_count = error_run_count + CASE WHEN $3 THEN 0 ELSE 1 END,
                 last_indexed = CASE WHEN $3 THEN pg_catalog.clock_timestamp() ELSE last_indexed END,
                 last_commit = CASE WHEN $3 AND $4 AND generation = $2 THEN coalesce($5, last_commit) ELSE last_commit END,
                 observed_generation = greatest(observed_generation, $2)
             WHERE name = $1",
            &[
                source.name.as_str().into(),
                source.generation.into(),
                outcome.is_ok().into(),
                clean.into(),
                commit.into(),
            ],
        )?;
        Ok(())
    })
}

/// Notes a document that could not be indexed.
pub fn add_error(run_id: i64, source: &str, failure: &Failure) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "INSERT INTO rag.run_errors (run_id, source, uri, stage, message, hint) VALUES ($1, $2, $3, $4, $5, $6)",
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

/// How a run stands; `None` before its process has begun it. Call it under a fresh snapshot.
pub fn status(run_id: i64) -> Result<Option<Status>, Error> {
    let found = as_owner(|| {
        query(
            "SELECT phase, documents_total, documents_added, documents_updated, documents_deleted, documents_unchanged,
                    documents_failed, files_skipped, chunks_written, chunks_embedded, chunks_reused, bytes_fetched, error
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
                    },
                    error: row.get::<pgrx::JsonB>(13)?.map(|json| read_error(&json.0)),
                })
            },
        )
    })?;
    Ok(found.into_iter().next())
}

fn read_error(json: &serde_json::Value) -> Error {
    let text = |key: &str| json[key].as_str().map(String::from);
    let code = json["sqlstate"].as_str().map_or(0, |state| {
        state.bytes().rev().fold(0, |code, b| (code << 6) + (i32::from(b.saturating_sub(b'0')) & 0x3f))
    });
    Error {
        code: code.into(),
        message: text("message").unwrap_or_else(|| "the run failed".into()),
        detail: text("detail"),
        hint: text("hint"),
        retry_after: (json["throttled"] == true)
            .then(|| Duration::from_secs(json["retry_after_seconds"].as_u64().unwrap_or(0))),
    }
}
