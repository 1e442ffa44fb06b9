//! `rag.source`: where documents come from, when they are fetched, and how that went.

use std::{cell::RefCell, time::Duration};

use pgrx::{datum::TimestampWithTimeZone, pg_sys};
pub use rag_protocol::definition::DriftPolicy;
use rag_protocol::{labels::Labels, spec::SourceSpec};

use rag_manifest::Notes;

use super::{collections::Collection, conditions::Changes, name::Name, notes, secrets::Named};
use crate::{
    error::Error,
    pg::{
        roles::Owner,
        security::as_owner,
        spi::{Row, execute, execute_returning, query, query_as_caller},
    },
};

#[derive(Debug, Clone)]
pub struct Source {
    /// Tells it from a later source of the same name.
    pub uid: pgrx::Uuid,
    pub name: Name,
    pub spec: SourceSpec,
    /// What the spec says of all documents.
    pub document_labels: Labels,
    pub collection: String,
    /// Whose rights its runs have.
    pub owner: Owner,
    /// The relation that one of kind `table` was made for.
    pub relation: Option<Identity>,
    /// Name of the secret that its server is shown.
    pub credentials: Option<String>,
    /// Key of that secret whose value is shown as a token; `None`: its token, or username and
    /// password.
    pub credentials_key: Option<String>,
    /// Most time of one run.
    pub timeout: Duration,
    pub suspend: bool,
    pub drift_policy: DriftPolicy,
    /// Counts the changes of its definition.
    pub generation: i64,
    /// Made, changed or locked by the present, uncommitted transaction: nobody else can see it yet,
    /// or a run of it begin.
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
                        generation, xmin, credentials, credentials_key, suspend, drift_policy, uid, owner_id,
                        relation_id, relation_owner_id
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
        let name = Name::source(&row.required::<String>(1)?)?;
        let kind: String = row.required(2)?;
        let spec: pgrx::JsonB = row.required(3)?;
        let policy: String = row.required(12)?;
        let uncommitted = is_current_transaction(row.required(8)?) || is_locked(name.as_str());
        Ok(Self {
            spec: SourceSpec::parse(&kind, &spec.0).map_err(|problems| {
                Error::invalid_spec(&format!("source \"{name}\""), &problems)
            })?,
            document_labels: Labels::of_spec(&spec.0),
            name,
            collection: row.required(4)?,
            owner: Owner::stored(row.required(14)?, row.required(5)?),
            relation: Identity::stored(row.get(15)?, row.get(16)?),
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
    /// Sources whose rows transactions of this session have locked, and which: where others share a
    /// row's lock it does not say.
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
        locked
            .iter()
            .any(|(source, transaction)| source == name && is_current_transaction(*transaction))
    })
}

/// A source that is to be made.
pub struct NewSource<'a> {
    pub name: &'a Name,
    pub kind: &'a str,
    pub spec: pgrx::JsonB,
    pub collection: &'a str,
    pub owner: &'a Owner,
    pub relation: Option<Identity>,
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
                                     timeout, suspend, drift_policy, next_run, booted_at, conditions, owner_id,
                                     relation_id, relation_owner_id)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                     pg_catalog.pg_postmaster_start_time(), rag.merge_conditions('[]', $14), $15, $16, $17)
             ON CONFLICT DO NOTHING",
            &[
                new.name.as_str().into(),
                new.kind.into(),
                new.spec.into(),
                new.collection.into(),
                new.owner.name.as_str().into(),
                new.credentials.into(),
                new.credentials_key.into(),
                new.schedule.into(),
                new.max_retries.into(),
                new.timeout.into(),
                new.suspend.into(),
                new.drift_policy.name().into(),
                new.next_run.into(),
                new.conditions.to_json().into(),
                new.owner.id.into(),
                new.relation.map(|relation| relation.relation).into(),
                new.relation.map(|relation| relation.owner).into(),
            ],
        )
    })?;
    Ok(made > 0)
}

/// The error for a name that another source has.
pub fn taken(name: &Name) -> Error {
    Error::duplicate(format!("source \"{name}\" already exists"))
}

/// The source that a [short name](Name::short) stands for. One that is a name as a whole is not
/// looked up.
pub fn by_short_name(short: &str) -> Result<Option<Name>, Error> {
    let Some((_, hash)) = short.rsplit_once('~') else {
        return Name::source(short).map(Some);
    };
    let found = as_owner(|| {
        query(
            "SELECT name FROM rag.source
             WHERE pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(name, 'UTF8')), 'hex')
                   LIKE $1 || '%'",
            &[hash.into()],
            |row| row.required::<String>(1),
        )
    })?;
    let names = found.iter().map(|name| Name::source(name));
    let names: Vec<Name> = names.collect::<Result<_, _>>()?;
    Ok(names.into_iter().find(|name| name.short() == short))
}

/// The role that owns a source and the collection that it fills, if there is such a source.
pub fn owner_and_collection(name: &str) -> Result<Option<(Owner, String)>, Error> {
    let found = as_owner(|| {
        query(
            "SELECT owner_id, owner, collection FROM rag.source WHERE name = $1",
            &[name.into()],
            |row| {
                Ok((
                    Owner::stored(row.required(1)?, row.required(2)?),
                    row.required(3)?,
                ))
            },
        )
    })?;
    Ok(found.into_iter().next())
}

/// Whether there is a source of this name.
pub fn has_name(name: &Name) -> Result<bool, Error> {
    Ok(owner_and_collection(name.as_str())?.is_some())
}

/// A source as its row has it, whether or not its spec can be read.
#[derive(Debug)]
pub struct Stored {
    pub name: Name,
    pub kind: String,
    pub spec: serde_json::Value,
    pub collection: String,
    pub owner: Owner,
    pub relation: Option<Identity>,
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

    /// Whether another spec of the same kind means the same.
    pub fn means(&self, spec: &SourceSpec, labels: &Labels) -> bool {
        self.parsed().as_ref() == Some(spec) && Labels::of_spec(&self.spec) == *labels
    }

    /// The secret that its server is shown.
    pub fn named(&self) -> Option<Named> {
        Some(Named {
            secret: self.credentials.clone()?,
            key: self.credentials_key.clone(),
        })
    }
}

/// A source's row, which nobody else can change until the transaction ends.
pub fn lock(name: &str) -> Result<Option<Stored>, Error> {
    let found = as_owner(|| {
        execute_returning(
            "SELECT name, kind, spec, collection, owner, credentials, credentials_key, schedule, max_retries,
                    (extract(epoch FROM timeout) * 1000000)::pg_catalog.int8, suspend, drift_policy, generation, next_run,
                    last_run_id IS NOT NULL OR EXISTS (SELECT FROM rag.run r WHERE r.source = s.name), owner_id,
                    relation_id, relation_owner_id
             FROM rag.source s WHERE name = $1 FOR NO KEY UPDATE",
            &[name.into()],
            |row| {
                Ok(Stored {
                    name: Name::source(&row.required::<String>(1)?)?,
                    kind: row.required(2)?,
                    spec: row.required::<pgrx::JsonB>(3)?.0,
                    collection: row.required(4)?,
                    owner: Owner::stored(row.required(16)?, row.required(5)?),
                    relation: Identity::stored(row.get(17)?, row.get(18)?),
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
        execute_returning(
            "SELECT 1 FROM rag.source WHERE name = $1 FOR NO KEY UPDATE NOWAIT",
            &[name.into()],
            |_| Ok(()),
        )
    })?;
    Ok(!found.is_empty())
}

/// A source's new definition, as a whole.
pub struct Altered<'a> {
    pub name: &'a Name,
    pub kind: &'a str,
    pub spec: pgrx::JsonB,
    pub collection: &'a str,
    pub owner: &'a Owner,
    pub relation: Option<Identity>,
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

/// Writes down a new generation of a source. A retry that is due stays so, unless there shall be
/// none.
pub fn alter(new: Altered<'_>) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.source SET
                 kind = $2, spec = $3, collection = $4, owner = $5, owner_id = $16, relation_id = $17,
                 relation_owner_id = $18, credentials = $6, credentials_key = $7, schedule = $8,
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
                new.owner.name.as_str().into(),
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
                new.owner.id.into(),
                new.relation.map(|relation| relation.relation).into(),
                new.relation.map(|relation| relation.owner).into(),
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

/// Ends the rest of a source. One without a schedule that has not been synced yet, or not since it
/// was altered, is due now.
pub fn resume(
    name: &Name,
    has_schedule: bool,
    next_run: Option<TimestampWithTimeZone>,
    changes: &Changes,
) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "UPDATE rag.source AS s SET suspend = false, conditions = rag.merge_conditions(conditions, $4),
                 next_run = CASE WHEN $2 THEN $3
                                 WHEN next_run IS NOT NULL OR last_run_id IS NULL
                                      AND NOT EXISTS (SELECT FROM rag.run r WHERE r.source = s.name) THEN pg_catalog.now() END
             WHERE name = $1",
            &[name.as_str().into(), has_schedule.into(), next_run.into(), changes.to_json().into()],
        )
    })?;
    Ok(())
}

/// Notifies rag_events that a source is about to be dropped.
pub fn announce_going(name: &str) -> Result<(), Error> {
    as_owner(|| {
        query(
            "SELECT rag.announce(pg_catalog.jsonb_build_object('source', $1::pg_catalog.text, 'phase', 'Terminating'))::pg_catalog.text",
            &[name.into()],
            |_| Ok(()),
        )
    })?;
    Ok(())
}

/// Deletes a source with its runs, and gives its uid; its documents are the caller's business.
pub fn drop(name: &Name) -> Result<Option<pgrx::Uuid>, Error> {
    as_owner(|| {
        execute(
            "DELETE FROM rag.run_error WHERE source = $1",
            &[name.as_str().into()],
        )?;
        execute(
            "DELETE FROM rag.run WHERE source = $1",
            &[name.as_str().into()],
        )?;
        let deleted = execute_returning(
            "DELETE FROM rag.source WHERE name = $1 RETURNING uid",
            &[name.as_str().into()],
            |row| row.required(1),
        )?;
        Ok(deleted.into_iter().next())
    })
}

/// Those of some sources of the present database, by uid, that are there.
pub fn present(uids: &[pgrx::Uuid]) -> Result<Vec<pgrx::Uuid>, Error> {
    as_owner(|| {
        query(
            "SELECT uid FROM rag.source WHERE uid = ANY ($1)",
            &[uids.to_vec().into()],
            |row| row.required(1),
        )
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

/// Stores what a manifest's metadata note on a source. Returns true if anything is different.
pub fn put_notes(name: &str, notes: &Notes) -> Result<bool, Error> {
    let mut parameters = vec![name.into()];
    parameters.extend(notes::parameters(notes));
    let changed = as_owner(|| {
        execute(
            "UPDATE rag.source SET display_name = $2, labels = $3, annotations = $4
             WHERE name = $1 AND (display_name, labels, annotations) IS DISTINCT FROM ($2, $3, $4)",
            &parameters,
        )
    })?;
    Ok(changed > 0)
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
    pub notes: Notes,
    /// In the names of a manifest.
    pub status: serde_json::Value,
}

/// The source of this name, if the caller may see it.
pub fn visible(name: &str) -> Result<Option<Visible>, Error> {
    const TIME: &str = "'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'";
    let found = query_as_caller(
        &format!(
            "SELECT s.name, s.uid::text, s.kind, s.spec, s.collection, s.credentials, s.schedule, s.max_retries,
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
                        'currentRunID', s.current_run_id,
                        'lastRunID', s.last_run_id,
                        'lastRunDurationSeconds', s.last_run_duration_seconds,
                        'errors', to_jsonb(s.errors))) || jsonb_build_object('conditions', s.conditions),
                    s.display_name, s.labels, s.annotations
             FROM rag.sources s WHERE s.name = $1"
        ),
        &[name.into()],
        |row| {
            Ok(Visible {
                name: row.required(1)?,
                uid: row.required(2)?,
                kind: row.required(3)?,
                spec: row.required::<pgrx::JsonB>(4)?.0,
                collection: row.required(5)?,
                retriever: String::new(),
                credentials: row.get(6)?,
                schedule: row.get(7)?,
                max_retries: row.required(8)?,
                timeout_microseconds: row.required(9)?,
                suspend: row.required(10)?,
                drift_policy: row.required(11)?,
                generation: row.required(12)?,
                created_at: row.required(13)?,
                status: row.required::<pgrx::JsonB>(14)?.0,
                notes: notes::read(&row, 15)?,
            })
        },
    )?;
    let Some(mut source) = found.into_iter().next() else {
        return Ok(None);
    };
    // a source's owner sees it even where the owner may not read the collection any more
    source.retriever = Collection::get(&source.collection)?.retriever;
    Ok(Some(source))
}

/// A relation as it was when a source was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub relation: pg_sys::Oid,
    pub owner: pg_sys::Oid,
}

impl Identity {
    /// The columns `relation_id` and `relation_owner_id` of a source's row.
    pub fn stored(relation: Option<pg_sys::Oid>, owner: Option<pg_sys::Oid>) -> Option<Self> {
        Some(Self {
            relation: relation?,
            owner: owner?,
        })
    }
}
