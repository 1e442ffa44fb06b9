//! `rag_internal.run` and `rag_internal.run_error`: what each run of a source did.
//!
//! [`crate::run`] has the table of the phases that a run goes through, and the rules for locks.

use std::time::Duration;

use rag_definition::usage::{Spent, in_sql};
use rag_protocol::ingest::{Failure, Warning};
use serde_json::json;

use super::sources;
use crate::{
    error::Error,
    pg::{spi::OwnerRights, transaction},
    settings,
};

/// The phase of a run: the column `phase` of `rag_internal.run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Queued.
    Pending,
    /// Its process is working, or was lost.
    Running,
    Completed,
    Failed,
}

impl Phase {
    const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Completed, Self::Failed];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
        }
    }

    /// # Errors
    /// `text` is not a phase, which a CHECK constraint of the table excludes.
    fn parse(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|phase| phase.name() == text)
            .ok_or_else(|| Error::internal(format!("unknown phase \"{text}\" of a run")))
    }

    /// Returns true for the phases that are final.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// Why a run is carried out: the column `trigger` of `rag_internal.run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A call of rag_sync or rag_sync_all.
    Manual,
    /// The source was due by its schedule.
    Schedule,
    /// The last run failed.
    Retry,
    /// The stored documents differ from what was indexed.
    Drift,
    /// The source was created or altered.
    Create,
    /// The source's table was changed.
    Change,
}

impl Trigger {
    const ALL: [Self; 6] = [
        Self::Manual,
        Self::Schedule,
        Self::Retry,
        Self::Drift,
        Self::Create,
        Self::Change,
    ];

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

    /// # Errors
    /// `text` is not a trigger, which a CHECK constraint of the table excludes.
    fn parse(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|trigger| trigger.name() == text)
            .ok_or_else(|| Error::internal(format!("unknown trigger \"{text}\" of a run")))
    }
}

/// What a run has done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunCounts {
    pub total: Option<i64>,
    /// Documents that were found by a listing that tells how far it is, and addresses that wait.
    pub listed: Option<i64>,
    pub waiting: Option<i64>,
    pub added: i64,
    pub updated: i64,
    pub deleted: i64,
    pub unchanged: i64,
    pub failed: i64,
    /// Added and updated documents that were indexed incompletely.
    pub with_warnings: i64,
    pub skipped: i64,
    pub chunks_written: i64,
    pub chunks_embedded: i64,
    pub chunks_reused: i64,
    pub bytes_fetched: i64,
}

/// The time that each stage of a run took, in seconds. Stages overlap, so their sum is not the
/// run's duration.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StageTimes {
    /// Listing and reading the source.
    pub fetch: f64,
    /// Extracting and splitting, summed over the engine's threads.
    pub extract: f64,
    /// Waiting for embeddings.
    pub embed: f64,
    /// Writing and deleting.
    pub store: f64,
}

impl RunCounts {
    pub fn done(&self) -> i64 {
        self.added + self.updated + self.unchanged + self.failed
    }
}

/// The status of a run, for sessions that wait for it.
#[derive(Debug, Clone)]
pub struct RunStatus {
    pub source: String,
    pub phase: Phase,
    pub counts: RunCounts,
    pub error: Option<Error>,
    /// A note on a run that completed.
    pub note: Option<String>,
    /// Queued by the current transaction: no other process can see it or begin it.
    pub uncommitted: bool,
}

impl RunStatus {
    pub fn has_ended(&self) -> bool {
        self.phase.has_ended()
    }
}

/// A run that is Pending or Running.
#[derive(Debug, Clone, Copy)]
pub struct ActiveRun {
    pub run_id: i64,
    pub phase: Phase,
    pub trigger: Trigger,
}

impl ActiveRun {
    pub fn is_pending(&self) -> bool {
        self.phase == Phase::Pending
    }
}

/// Returns the next run's id. Ids come from a sequence: a run that never starts leaves a gap.
///
/// The sequence of a copied database (`CREATE DATABASE ... TEMPLATE`) may fall behind by up to 32
/// in a crash, because PostgreSQL logs its values ahead of time, in the original database. Ids that
/// are taken are skipped.
pub fn next_id(owner: &OwnerRights) -> Result<i64, Error> {
    const NEXT: &str =
        "SELECT next, next > coalesce((SELECT max(run_id) FROM rag_internal.run), 0) AS is_free
         FROM nextval('rag_internal.run_id') AS next";
    loop {
        let ids = owner.query(NEXT, &[], |row| {
            Ok((
                row.required::<i64>("next")?,
                row.required::<bool>("is_free")?,
            ))
        })?;
        match ids.first() {
            Some((id, true)) => return Ok(*id),
            Some(_) => {}
            None => return Err(Error::internal("no id for a run")),
        }
    }
}

/// Returns the run of a source that is Pending or Running. The process of a Running one may have
/// been lost.
pub fn active(owner: &OwnerRights, source: &str) -> Result<Option<ActiveRun>, Error> {
    let found = owner.query(
        "SELECT run_id, phase, trigger FROM rag_internal.run
         WHERE source = $1 AND phase IN ('Pending', 'Running')",
        &[source.into()],
        |row| {
            Ok(ActiveRun {
                run_id: row.required("run_id")?,
                phase: Phase::parse(&row.required::<String>("phase")?)?,
                trigger: Trigger::parse(&row.required::<String>("trigger")?)?,
            })
        },
    )?;
    Ok(found.into_iter().next())
}

/// Queues a run of a source, which the scheduler starts when a slot is free. Returns its id, or
/// `None` if a run is Pending or Running already. Retries of the last run are cancelled. If a run
/// is Pending already and the trigger is manual, that run becomes a manual one.
pub fn queue(owner: &OwnerRights, source: &str, trigger: Trigger) -> Result<Option<i64>, Error> {
    owner.execute_returning(
        "SELECT 1 FROM rag_internal.source WHERE name = $1 FOR NO KEY UPDATE",
        &[source.into()],
        |_| Ok(()),
    )?;
    sources::record_locked(source);
    let id = next_id(owner)?;
    let queued = owner.execute_returning(
        "INSERT INTO rag_internal.run (run_id, source, collection, trigger, attempt, generation,
            phase)
         SELECT $3, name, collection, $2,
                CASE WHEN $2 = 'retry' THEN attempt + throttled + 1 ELSE 1 END,
                generation, 'Pending'
         FROM rag_internal.source WHERE name = $1
         ON CONFLICT (source) WHERE phase IN ('Pending', 'Running') DO NOTHING
         RETURNING run_id",
        &[source.into(), trigger.name().into(), id.into()],
        |row| row.required::<i64>("run_id"),
    )?;
    let Some(run_id) = queued.into_iter().next() else {
        if trigger == Trigger::Manual {
            owner.execute(
                "WITH taken AS (
                     UPDATE rag_internal.run SET trigger = 'manual', attempt = 1
                     WHERE source = $1 AND phase = 'Pending' AND trigger <> 'manual'
                     RETURNING source)
                 UPDATE rag_internal.source s SET attempt = 0, throttled = 0
                 FROM taken WHERE s.name = taken.source",
                &[source.into()],
            )?;
        }
        return Ok(None);
    };
    owner.execute(
        "UPDATE rag_internal.source SET retry_at = NULL,
             attempt = CASE WHEN $2 THEN attempt ELSE 0 END,
             throttled = CASE WHEN $2 THEN throttled ELSE 0 END
         WHERE name = $1",
        &[source.into(), (trigger == Trigger::Retry).into()],
    )?;
    Ok(Some(run_id))
}

/// The message of a run that was stopped because its source was about to be dropped.
pub const STOPPED: &str = "the run was stopped because the source was about to be dropped";

/// Returns true if the last run of a source has the message [`STOPPED`].
pub fn was_stopped(owner: &OwnerRights, source: &str) -> Result<bool, Error> {
    let found = owner.query(
        "SELECT coalesce(r.error ->> 'message' = $2, false) AS was_stopped
         FROM rag_internal.source s JOIN rag_internal.run r ON r.run_id = s.last_run_id
             WHERE s.name = $1",
        &[source.into(), STOPPED.into()],
        |row| row.required::<bool>("was_stopped"),
    )?;
    Ok(found.first() == Some(&true))
}

/// Returns an error as the column `error` stores it.
pub fn error_to_json(error: &Error) -> pgrx::JsonB {
    let mut json = json!({
        "sqlstate": error.sqlstate(),
        "message": error.message,
        "detail": error.detail,
        "hint": error.hint,
    });
    if let Some(wait) = error.retry_after() {
        json["throttled"] = true.into();
        json["retry_after_seconds"] = wait.as_secs().into();
    }
    pgrx::JsonB(json)
}

/// Stores the progress of a run.
pub fn progress(
    owner: &OwnerRights,
    run_id: i64,
    stage: &str,
    counts: &RunCounts,
    times: &StageTimes,
    spent: Spent,
    current_uri: Option<&str>,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.run SET updated_at = clock_timestamp(), stage = $2,
             current_uri = $3, documents_total = $4, documents_added = $5,
             documents_updated = $6, documents_deleted = $7, documents_unchanged = $8,
             documents_failed = $9, files_skipped = $10, chunks_written = $11,
             chunks_embedded = $12, chunks_reused = $13, bytes_fetched = $14,
             documents_with_warnings = $15, fetch_seconds = $16, extract_seconds = $17,
             embed_seconds = $18, store_seconds = $19, model_tokens = $20,
             model_cost = trim_scale($21::bigint * 1e-9), documents_listed = $22,
             addresses_waiting = $23
         WHERE run_id = $1",
        &[
            run_id.into(),
            stage.into(),
            current_uri.into(),
            // an archive is one file with many documents
            counts.total.map(|total| total.max(counts.done())).into(),
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
            in_sql(spent.tokens).into(),
            spent.cost.map(in_sql).into(),
            counts.listed.into(),
            counts.waiting.into(),
        ],
    )?;
    Ok(())
}

/// Returns what calls of models have used in the run.
pub fn spent(owner: &OwnerRights, run_id: i64) -> Result<Spent, Error> {
    let found = owner.query(
        "SELECT model_tokens, (model_cost * 1e9)::bigint AS cost FROM rag_internal.run
         WHERE run_id = $1",
        &[run_id.into()],
        |row| {
            Ok(Spent {
                tokens: row.required::<i64>("model_tokens")? as u64,
                cost: row.get::<i64>("cost")?.map(|cost| cost as u64),
            })
        },
    )?;
    Ok(found.into_iter().next().unwrap_or_default())
}

/// Deletes the oldest ended runs of a source beyond the limits of the settings. The last run always
/// stays. Runs that another transaction is about to delete are skipped.
pub fn prune(owner: &OwnerRights, source: &str) -> Result<(), Error> {
    let (completed, failed) = settings::history_limits();
    for (phase, limit) in [(Phase::Completed, completed), (Phase::Failed, failed)] {
        owner.execute(
            "WITH old AS (
                 DELETE FROM rag_internal.run WHERE run_id IN (
                     SELECT run_id FROM rag_internal.run WHERE source = $1 AND phase = $2
                         AND run_id <= (SELECT run_id FROM rag_internal.run WHERE source = $1
                             AND phase = $2
                                        ORDER BY run_id DESC OFFSET $3 LIMIT 1)
                         AND run_id IS DISTINCT FROM
                             (SELECT last_run_id FROM rag_internal.source WHERE name = $1)
                     FOR UPDATE SKIP LOCKED)
                 RETURNING run_id)
             DELETE FROM rag_internal.run_error e USING old WHERE e.run_id = old.run_id",
            &[source.into(), phase.name().into(), limit.into()],
        )?;
    }
    Ok(())
}

/// Runs [`prune`] for all sources, after the settings have changed.
pub fn prune_all(owner: &OwnerRights) -> Result<(), Error> {
    let sources: Vec<String> = owner.query(
        "SELECT DISTINCT source
        FROM rag_internal.run",
        &[],
        |row| row.required("source"),
    )?;
    sources.iter().try_for_each(|source| prune(owner, source))
}

/// Stores that a document could not be indexed.
pub fn add_error(
    owner: &OwnerRights,
    run_id: i64,
    source: &str,
    failure: &Failure,
) -> Result<(), Error> {
    owner.execute(
        "INSERT INTO rag_internal.run_error (run_id, source, uri, stage, message, hint)
         VALUES ($1, $2, $3, $4, $5, $6)",
        &[
            run_id.into(),
            source.into(),
            failure.uri.as_str().into(),
            failure.stage.name().into(),
            failure.message.as_str().into(),
            failure.hint.as_deref().into(),
        ],
    )?;
    Ok(())
}

/// Stores that a document was indexed incompletely.
pub fn add_warning(
    owner: &OwnerRights,
    run_id: i64,
    source: &str,
    uri: &str,
    warning: &Warning,
) -> Result<(), Error> {
    owner.execute(
        "INSERT INTO rag_internal.run_error (run_id, source, uri, stage, severity, message)
         VALUES ($1, $2, $3, $4, 'warning', $5)",
        &[
            run_id.into(),
            source.into(),
            uri.into(),
            warning.stage.name().into(),
            warning.message.as_str().into(),
        ],
    )?;
    Ok(())
}

/// Returns the status of a run, or `None` if there is no such run (yet). Callers use the latest
/// snapshot.
pub fn status(owner: &OwnerRights, run_id: i64) -> Result<Option<RunStatus>, Error> {
    let found = owner.query(
        "SELECT phase, documents_total, documents_added, documents_updated,
                documents_deleted, documents_unchanged, documents_failed, files_skipped,
                chunks_written, chunks_embedded, chunks_reused, bytes_fetched, error, source,
                xmin, documents_with_warnings, note
         FROM rag_internal.run WHERE run_id = $1",
        &[run_id.into()],
        |row| {
            Ok(RunStatus {
                phase: Phase::parse(&row.required::<String>("phase")?)?,
                counts: RunCounts {
                    total: row.get("documents_total")?,
                    listed: None,
                    waiting: None,
                    added: row.required("documents_added")?,
                    updated: row.required("documents_updated")?,
                    deleted: row.required("documents_deleted")?,
                    unchanged: row.required("documents_unchanged")?,
                    failed: row.required("documents_failed")?,
                    skipped: row.required("files_skipped")?,
                    chunks_written: row.required("chunks_written")?,
                    chunks_embedded: row.required("chunks_embedded")?,
                    chunks_reused: row.required("chunks_reused")?,
                    bytes_fetched: row.required("bytes_fetched")?,
                    with_warnings: row.required("documents_with_warnings")?,
                },
                note: row.get("note")?,
                error: row
                    .get::<pgrx::JsonB>("error")?
                    .map(|json| read_error(&json.0)),
                source: row.required("source")?,
                uncommitted: transaction::is_current(row.required("xmin")?),
            })
        },
    )?;
    Ok(found.into_iter().next())
}

/// Reads an error that [`error_to_json`] has written.
pub(super) fn read_error(json: &serde_json::Value) -> Error {
    let text = |key: &str| json[key].as_str().map(String::from);
    let seconds = json["retry_after_seconds"].as_u64().unwrap_or(0);
    let mut error = Error::stored(
        json["sqlstate"].as_str().unwrap_or_default(),
        text("message").unwrap_or_else(|| "the run failed".into()),
        (json["throttled"] == true).then(|| Duration::from_secs(seconds)),
    );
    error.detail = text("detail");
    error.hint = text("hint");
    error
}
