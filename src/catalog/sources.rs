//! `rag.source`: where documents come from, when they are fetched, and how that went.

use std::{cell::RefCell, time::Duration};

use pgrx::{datum::TimestampWithTimeZone, pg_sys};
pub use rag_protocol::definition::DriftPolicy;
use rag_protocol::spec::SourceSpec;

use super::{Row, as_owner, conditions::Changes, execute, execute_returning, name::Name, query, query_as_caller};
use crate::{error::Error, secrets::Named};

#[derive(Debug, Clone)]
pub struct Source {
    /// Tells it from a later source of the same name.
    pub uid: pgrx::Uuid,
    pub name: Name,
    pub spec: SourceSpec,
    pub collection: String,
    /// Whose rights its runs have.
    pub owner: String,
    /// Name of the secret that its server is shown.
    pub credentials: Option<String>,
    /// Key of that secret whose value is shown as a token; `None`: its token, or username and password.
    pub credentials_key: Option<String>,
    /// Most time of one run.
    pub timeout: Duration,
    pub suspend: bool,
    pub drift_policy: DriftPolicy,
    /// Counts the changes of its definition.
    pub generation: i64,
    /// Made, changed or locked by the present, uncommitted transaction: nobody else can see it yet, or a run of it begin.
    pub uncommitted: bool,
}

impl Source {
    /// # Errors
    /// There is no such source.
    pub fn get(name: &str) -> Result<Self, Error> {
        Self::find(name)?.ok_or_else(|| Self::missing(name))
    }

    /// The error for a source that does not exist.
    pub fn missing(name: &str) -> Error {
        Error::undefined(format!("source \"{name}\" does not exist"))
            .hint("rag.sources lists them; rag_create_source makes one.")
    }

    pub fn find(name: &str) -> Result<Option<Self>, Error> {
        let found = as_owner(|| {
            query(
                "SELECT name, kind, spec, collection, owner, extract(epoch FROM timeout)::pg_catalog.float8,
                        generation, xmin, credentials, credentials_key, suspend, drift_policy, uid
                 FROM rag.source WHERE name = $1",
                &[name.into()],
                |row| Self::read(&row),
            )
        })?;
        Ok(found.into_iter().next())
    }

    /// The same source as it is now, if it is still there.
    pub fn again(&self) -> Result<Option<Self>, Error> {
        Ok(Self::find(self.name.as_str())?.filter(|now| now.uid == self.uid))
    }

    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        let name = Name::parse("source", &row.required::<String>(1)?)?;
        let kind: String = row.required(2)?;
        let spec: pgrx::JsonB = row.required(3)?;
        let policy: String = row.required(12)?;
        let uncommitted = is_current_transaction(row.required(8)?) || is_locked(name.as_str());
        Ok(Self {
            spec: SourceSpec::parse(&kind, &spec.0)
                .map_err(|problems| Error::invalid_spec(&format!("source \"{name}\""), &problems))?,
            name,
            collection: row.required(4)?,
            owner: row.required(5)?,
            timeout: Duration::from_secs_f64(row.required::<f64>(6)?.max(0.0)),
            generation: row.required(7)?,
            uncommitted,
            credentials: row.get(9)?,
            credentials_key: row.get(10)?,
            suspend: row.required(11)?,
            drift_policy: DriftPolicy::parse(&policy)
                .ok_or_else(|| Error::internal(format!("\"{policy}\" is no drift policy")))?,
            uid: row.required(13)?,
        })
    }
}

#[allow(unsafe_code)]
pub(super) fn is_current_transaction(xmin: pg_sys::TransactionId) -> bool {
    // SAFETY: looks at the session's own transaction state.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(xmin) }
}

thread_local! {
    /// Sources whose rows transactions of this session have locked, and which: where others share a row's lock it does not say.
    static LOCKED: RefCell<Vec<(String, pg_sys::TransactionId)>> = const { RefCell::new(vec![]) };
}

/// Notes that the present transaction has locked a source's row.
#[allow(unsafe_code)]
pub(super) fn note_locked(name: &str) {
    // SAFETY: looks at the session's own transaction state.
    let transaction = unsafe { pg_sys::GetCurrentTransactionIdIfAny() };
    LOCKED.with_borrow_mut(|locked| {
        locked.retain(|(_, transaction)| is_current_transaction(*transaction));
        locked.push((name.to_string(), transaction));
    });
}

/// Whether the present transaction has locked a source's row, as far as it was not rolled back.
fn is_locked(name: &str) -> bool {
    LOCKED.with_borrow(|locked| {
        locked.iter().any(|(source, transaction)| source == name && is_current_transaction(*transaction))
    })
}

/// A source that is to be made.
pub struct NewSource<'a> {
    pub name: &'a Name,
    pub kind: &'a str,
    pub spec: pgrx::JsonB,
    pub collection: &'a str,
    pub owner: &'a str,
    pub credentials: Option<&'a str>,
    pub credentials_key: Option<&'a str>,
    pub schedule: Option<&'a str>,
    pub max_retries: i32,
    pub timeout: pgrx::datum::Interval,
    pub suspend: bool,
    pub drift_policy: DriftPolicy,
    /// When it is synced for the first time.
    pub next_run: Option<TimestampWithTimeZone>,
    pub conditions: Changes,
}

/// Makes a source unless there is one of this name; whether it did.
pub fn create(new: NewSource<'_>) -> Result<bool, Error> {
    let made = as_owner(|| {
        execute(
            "INSERT INTO rag.source (name, kind, spec, collection, owner, credentials, credentials_key, schedule, max_retries,
                                     timeout, suspend, drift_policy, next_run, booted_at, conditions)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                     pg_catalog.pg_postmaster_start_time(), rag.merge_conditions('[]', $14))
             ON CONFLICT DO NOTHING",
            &[
                new.name.as_str().into(),
                new.kind.into(),
                new.spec.into(),
                new.collection.into(),
                new.owner.into(),
                new.credentials.into(),
                new.credentials_key.into(),
                new.schedule.into(),
                new.max_retries.into(),
                new.timeout.into(),
                new.suspend.into(),
                new.drift_policy.name().into(),
                new.next_run.into(),
                new.conditions.to_json().into(),
            ],
        )
    })?;
    Ok(made > 0)
}

/// The error for a name that another source has.
pub fn taken(name: &Name) -> Error {
    Error::duplicate(format!("source \"{name}\" already exists"))
}

/// The role that owns a source, if there is such a source.
pub fn owner(name: &str) -> Result<Option<String>, Error> {
    let found =
        as_owner(|| query("SELECT owner FROM rag.source WHERE name = $1", &[name.into()], |row| row.required(1)))?;
    Ok(found.into_iter().next())
}

/// Whether there is a source of this name.
pub fn has_name(name: &Name) -> Result<bool, Error> {
    Ok(owner(name.as_str())?.is_some())
}

/// A source as its row has it, whether or not its spec can be read.
#[derive(Debug)]
pub struct Stored {
    pub name: Name,
    pub kind: String,
    pub spec: serde_json::Value,
    pub collection: String,
    pub owner: String,
    credentials: Option<String>,
    credentials_key: Option<String>,
    pub schedule: Option<String>,
    pub max_retries: i32,
    pub timeout_microseconds: i64,
    pub suspend: bool,
    pub drift_policy: String,
    pub generation: i64,
    pub next_run: Option<TimestampWithTimeZone>,
    /// Whether a run of it was ever queued or begun.
    pub has_run: bool,
}

impl Stored {
    /// What its spec means.
    pub fn parsed(&self) -> Option<SourceSpec> {
        SourceSpec::parse(&self.kind, &self.spec).ok()
    }

    /// The secret that its server is shown.
    pub fn named(&self) -> Option<Named> {
        Some(Named { secret: self.credentials.clone()?, key: self.credentials_key.clone() })
    }
}

/// A source's row, which nobody else can change until the transaction ends.
pub fn lock(name: &str) -> Result<Option<Stored>, Error> {
    let found = as_owner(|| {
        execute_returning(
            "SELECT name, kind, spec, collection, owner, credentials, credentials_key, schedule, max_retries,
                    (extract(epoch FROM timeout) * 1000000)::pg_catalog.int8, suspend, drift_policy, generation, next_run,
                    last_run_id IS NOT NULL
             FROM rag.source WHERE name = $1 FOR NO KEY UPDATE",
            &[name.into()],
            |row| {
                Ok(Stored {
                    name: Name::parse("source", &row.required::<String>(1)?)?,
                    kind: row.required(2)?,
                    spec: row.required::<pgrx::JsonB>(3)?.0,
                    collection: row.required(4)?,
                    owner: row.required(5)?,
                    credentials: row.get(6)?,
                    credentials_key: row.get(7)?,
                    schedule: row.get(8)?,
                    max_retries: row.required(9)?,
                    timeout_microseconds: row.required(10)?,
                    suspend: row.required(11)?,
                    drift_policy: row.required(12)?,
                    generation: row.required(13)?,
                    next_run: row.get(14)?,
                    has_run: row.required(15)?,
                })
            },
        )
    })?;
    note_locked(name);
    Ok(found.into_iter().next())
}

/// Locks a source's row for whoever must not wait for it; whether there is such a source.
///
/// # Errors
/// Someone else has it locked (`ERRCODE_LOCK_NOT_AVAILABLE`).
pub fn lock_at_once(name: &str) -> Result<bool, Error> {
    let found = as_owner(|| {
        execute_returning("SELECT 1 FROM rag.source WHERE name = $1 FOR NO KEY UPDATE NOWAIT", &[name.into()], |_| {
            Ok(())
        })
    })?;
    Ok(!found.is_empty())
}

/// A source's new definition, as a whole.
pub struct Altered<'a> {
    pub name: &'a Name,
    pub kind: &'a str,
    pub spec: pgrx::JsonB,
    pub collection: &'a str,
    pub owner: &'a str,
    pub credentials: Option<&'a str>,
    pub credentials_key: Option<&'a str>,
    pub schedule: Option<&'a str>,
    pub max_retries: i32,
    /// `None`: the one it has.
    pub timeout: Option<pgrx::datum::Interval>,
    pub suspend: bool,
    pub drift_policy: &'a str,
    pub next_run: Option<TimestampWithTimeZone>,
    /// A schedule of @reboot counts from the next start of the server.
    pub reboots_anew: bool,
    pub conditions: Changes,
}

/// Writes down a new generation of a source. A retry that is due stays so, unless there shall be none.
pub fn alter(new: Altered<'_>) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.source SET
                 kind = $2, spec = $3, collection = $4, owner = $5, credentials = $6, credentials_key = $7, schedule = $8,
                 max_retries = $9, timeout = coalesce($10, timeout), suspend = $11, drift_policy = $12, next_run = $13,
                 booted_at = CASE WHEN $14 THEN pg_catalog.pg_postmaster_start_time() ELSE booted_at END,
                 retry_at = CASE WHEN $9 > 0 THEN retry_at END,
                 conditions = rag.merge_conditions(conditions, $15), generation = generation + 1, updated_at = pg_catalog.now()
             WHERE name = $1",
            &[
                new.name.as_str().into(),
                new.kind.into(),
                new.spec.into(),
                new.collection.into(),
                new.owner.into(),
                new.credentials.into(),
                new.credentials_key.into(),
                new.schedule.into(),
                new.max_retries.into(),
                new.timeout.into(),
                new.suspend.into(),
                new.drift_policy.into(),
                new.next_run.into(),
                new.reboots_anew.into(),
                new.conditions.to_json().into(),
            ],
        )
    })?;
    Ok(())
}

/// Has a source rest.
pub fn suspend(name: &Name, changes: &Changes) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.source SET suspend = true, conditions = rag.merge_conditions(conditions, $2) WHERE name = $1",
            &[name.as_str().into(), changes.to_json().into()],
        )
    })?;
    Ok(())
}

/// Ends the rest of a source. One without a schedule that has not been synced yet, or not since it was altered, is due now.
pub fn resume(
    name: &Name,
    has_schedule: bool,
    next_run: Option<TimestampWithTimeZone>,
    changes: &Changes,
) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.source SET suspend = false, conditions = rag.merge_conditions(conditions, $4),
                 next_run = CASE WHEN $2 THEN $3
                                 WHEN next_run IS NOT NULL OR last_run_id IS NULL THEN pg_catalog.now() END
             WHERE name = $1",
            &[name.as_str().into(), has_schedule.into(), next_run.into(), changes.to_json().into()],
        )
    })?;
    Ok(())
}

/// Deletes a source with its runs; its documents are the caller's business.
pub fn drop(name: &Name) -> Result<(), Error> {
    as_owner(|| {
        for statement in [
            "DELETE FROM rag.run_error WHERE source = $1",
            "DELETE FROM rag.run WHERE source = $1",
            "DELETE FROM rag.source WHERE name = $1",
        ] {
            execute(statement, &[name.as_str().into()])?;
        }
        Ok(())
    })
}

/// Whether the source that a run started with is still there.
///
/// Whoever drops it waits until the present transaction is through, and sees what it stored.
pub fn exists(source: &Source) -> Result<bool, Error> {
    let found = as_owner(|| {
        execute_returning(
            "SELECT 1 FROM rag.source WHERE name = $1 AND uid = $2 FOR KEY SHARE",
            &[source.name.as_str().into(), source.uid.into()],
            |_| Ok(()),
        )
    })?;
    Ok(!found.is_empty())
}

/// Writes down changes of the conditions.
pub fn set_conditions(name: &str, changes: &Changes) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.source SET conditions = rag.merge_conditions(conditions, $2) WHERE name = $1",
            &[name.into(), changes.to_json().into()],
        )
    })?;
    Ok(())
}

/// Sources whose schedule could not be kept when they were due.
pub fn put_off() -> Result<Vec<String>, Error> {
    as_owner(|| {
        query(
            r#"SELECT name FROM rag.source
               WHERE NOT suspend AND conditions @> '[{"type": "AutoIndexerScheduled", "reason": "InvalidSchedule"}]' ORDER BY name"#,
            &[],
            |row| row.required(1),
        )
    })
}

/// The process that carries out a run of the source, or checks it.
pub fn process_at_work(name: &Name) -> Result<Option<i32>, Error> {
    let found = as_owner(|| {
        query(
            "SELECT pid FROM rag.source_locks()
             WHERE purpose = 0 AND source_hash = pg_catalog.hashtext($1)::pg_catalog.int8 & 4294967295
               AND pid IN (SELECT pid FROM pg_catalog.pg_stat_activity WHERE backend_type = 'rag runner')",
            &[name.as_str().into()],
            |row| row.required(1),
        )
    })?;
    Ok(found.into_iter().next())
}

/// Names of the sources of a collection, or of all.
pub fn names_of(collection: Option<&str>) -> Result<Vec<String>, Error> {
    as_owner(|| {
        query(
            "SELECT name FROM rag.source WHERE collection = coalesce($1, collection) ORDER BY name",
            &[collection.into()],
            |row| row.required(1),
        )
    })
}

/// A source as its row in `rag.sources` shows it to the caller.
pub struct Visible {
    pub name: String,
    pub uid: String,
    pub kind: String,
    pub spec: serde_json::Value,
    pub collection: String,
    pub retriever: String,
    pub credentials: Option<String>,
    pub schedule: Option<String>,
    pub max_retries: i32,
    pub timeout_microseconds: i64,
    pub suspend: bool,
    pub drift_policy: String,
    pub generation: i64,
    pub created_at: String,
    /// In the names of a manifest.
    pub status: serde_json::Value,
}

/// The source of this name, if the caller may see it.
pub fn visible(name: &str) -> Result<Option<Visible>, Error> {
    const TIME: &str = "'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'";
    let found = query_as_caller(
        &format!(
            "SELECT s.name, s.uid::text, s.kind, s.spec, s.collection, c.retriever, s.credentials, s.schedule, s.max_retries,
                    (extract(epoch FROM s.timeout) * 1000000)::int8, s.suspend, s.drift_policy, s.generation,
                    to_char(s.created_at AT TIME ZONE 'UTC', {TIME}),
                    jsonb_strip_nulls(jsonb_build_object(
                        'phase', s.phase,
                        'lastIndexed', to_char(s.last_indexed AT TIME ZONE 'UTC', {TIME}),
                        'lastCommit', s.last_commit,
                        'successfulRunCount', s.successful_run_count,
                        'errorRunCount', s.error_run_count,
                        'documentsProcessed', s.documents_processed,
                        'nextScheduledRun', to_char(s.next_scheduled_run AT TIME ZONE 'UTC', {TIME}),
                        'observedGeneration', s.observed_generation,
                        'lastRunID', s.last_run_id,
                        'lastRunDurationSeconds', s.last_run_duration_seconds,
                        'errors', to_jsonb(s.errors))) || jsonb_build_object('conditions', s.conditions)
             FROM rag.sources s JOIN rag.collections c ON c.name = s.collection WHERE s.name = $1"
        ),
        &[name.into()],
        |row| {
            Ok(Visible {
                name: row.required(1)?,
                uid: row.required(2)?,
                kind: row.required(3)?,
                spec: row.required::<pgrx::JsonB>(4)?.0,
                collection: row.required(5)?,
                retriever: row.required(6)?,
                credentials: row.get(7)?,
                schedule: row.get(8)?,
                max_retries: row.required(9)?,
                timeout_microseconds: row.required(10)?,
                suspend: row.required(11)?,
                drift_policy: row.required(12)?,
                generation: row.required(13)?,
                created_at: row.required(14)?,
                status: row.required::<pgrx::JsonB>(15)?.0,
            })
        },
    )?;
    Ok(found.into_iter().next())
}
