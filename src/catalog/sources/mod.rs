//! `rag_internal.source`: the definitions of sources, their schedules and their status.

mod view;
mod write;

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use pgrx::{
    datum::{Interval, TimestampWithTimeZone},
    pg_sys,
};
pub use rag_definition::source::DriftPolicy;
use rag_definition::{Quota, SecretRef, labels::Labels, source::SourceSpec};
use serde_json::Value;

pub use self::{
    view::{SourceView, by_collection, visible, visible_names},
    write::{announce_drop, create, drop, put_notes, resume, set_conditions, suspend, update},
};
use super::{name::Name, quotas};
use crate::{
    error::Error,
    pg::{
        roles::Owner,
        spi::{OwnerRights, Row, as_owner},
        transaction,
    },
};

/// The definition of a source by its user.
#[derive(Debug, Clone)]
pub struct SourceDefinition {
    pub kind: String,
    /// The spec as it is stored. [`SourceSpec`] is its meaning.
    pub spec: Value,
    pub collection: String,
    /// The role whose rights its runs have.
    pub owner: Owner,
    /// The relation that a source of kind `table` was created for.
    pub relation: Option<RelationIdentity>,
    /// The secret that is sent to its server.
    pub credentials: Option<SecretRef>,
    pub schedule: Option<String>,
    pub max_retries: i32,
    /// The timeout of a run.
    pub timeout: Interval,
    pub suspend: bool,
    pub drift_policy: DriftPolicy,
    pub quota: Quota,
}

impl SourceDefinition {
    /// The columns that [`SourceDefinition::read`] reads.
    const COLUMNS: &str = "kind, spec, collection, owner, owner_id, relation_id, relation_owner_id,
        credentials, credentials_key, schedule, max_retries, timeout, suspend, drift_policy,
        max_documents, max_bytes";

    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        let policy: String = row.required("drift_policy")?;
        let credentials: Option<String> = row.get("credentials")?;
        let key = row.get("credentials_key")?;
        Ok(Self {
            kind: row.required("kind")?,
            spec: row.required::<pgrx::JsonB>("spec")?.0,
            collection: row.required("collection")?,
            owner: Owner::stored(row.required("owner_id")?, row.required("owner")?),
            relation: RelationIdentity::stored(
                row.get("relation_id")?,
                row.get("relation_owner_id")?,
            ),
            credentials: credentials.map(|name| SecretRef { name, key }),
            schedule: row.get("schedule")?,
            max_retries: row.required("max_retries")?,
            timeout: row.required("timeout")?,
            suspend: row.required("suspend")?,
            drift_policy: DriftPolicy::parse(&policy)
                .ok_or_else(|| Error::internal(format!("\"{policy}\" is not a drift policy")))?,
            quota: quotas::read(row)?,
        })
    }

    /// Returns the meaning of the spec, or None where this version cannot read it.
    pub fn parsed(&self) -> Option<SourceSpec> {
        SourceSpec::parse(&self.kind, &self.spec).ok()
    }

    /// Returns true if another spec of the same kind has the same meaning.
    pub fn means(&self, spec: &SourceSpec, labels: &Labels) -> bool {
        self.parsed().as_ref() == Some(spec) && Labels::of_spec(&self.spec) == *labels
    }
}

/// A source whose spec this version can read, as a run needs it.
#[derive(Debug, Clone)]
pub struct Source {
    /// Distinguishes the source from a later one of the same name.
    pub uid: pgrx::Uuid,
    pub name: Name,
    /// What ids of documents are made from: the first name.
    pub ids_from: String,
    pub spec: SourceSpec,
    /// The labels that the spec gives to all documents.
    pub document_labels: Labels,
    pub collection: String,
    /// The role whose rights its runs have.
    pub owner: Owner,
    /// The relation that a source of kind `table` was created for.
    pub relation: Option<RelationIdentity>,
    /// The secret that is sent to its server.
    pub credentials: Option<SecretRef>,
    /// The timeout of a run.
    pub timeout: Duration,
    pub suspend: bool,
    pub drift_policy: DriftPolicy,
    pub quota: Quota,
    /// The number of changes of its definition, plus 1.
    pub generation: i64,
    /// The current transaction created, changed or locked the source, so that no other session can
    /// see the change or start a run.
    pub uncommitted: bool,
}

impl Source {
    /// # Errors
    /// The source does not exist.
    pub fn get(name: &str) -> Result<Self, Error> {
        Self::find(name)?.ok_or_else(|| Self::missing(name))
    }

    /// Returns the error for a source that does not exist.
    pub fn missing(name: &str) -> Error {
        Error::undefined(format!("source \"{name}\" does not exist"))
            .hint("The view rag.sources lists all sources. Create one with rag_create_source.")
    }

    pub fn find(name: &str) -> Result<Option<Self>, Error> {
        let found = as_owner(|owner| {
            owner.query(
                &format!(
                    "SELECT name, coalesce(ids_from, name) AS ids_from, uid, generation, xmin, {}
                     FROM rag_internal.source WHERE name = $1",
                    SourceDefinition::COLUMNS
                ),
                &[name.into()],
                |row| Self::read(&row),
            )
        })?;
        Ok(found.into_iter().next())
    }

    /// Returns the same source as it is now, or None if it was dropped.
    pub fn reload(&self) -> Result<Option<Self>, Error> {
        Ok(Self::find(self.name.as_str())?.filter(|now| now.uid == self.uid))
    }

    fn read(row: &Row<'_, '_>) -> Result<Self, Error> {
        let name = Name::source(&row.required::<String>("name")?)?;
        let definition = SourceDefinition::read(row)?;
        let uncommitted =
            transaction::is_current(row.required("xmin")?) || is_locked(name.as_str());
        let microseconds = u64::try_from(definition.timeout.as_micros()).unwrap_or(0);
        Ok(Self {
            spec: SourceSpec::parse(&definition.kind, &definition.spec).map_err(|problems| {
                Error::invalid_spec(&format!("source \"{name}\""), &problems)
            })?,
            document_labels: Labels::of_spec(&definition.spec),
            name,
            ids_from: row.required("ids_from")?,
            uid: row.required("uid")?,
            generation: row.required("generation")?,
            collection: definition.collection,
            owner: definition.owner,
            relation: definition.relation,
            credentials: definition.credentials,
            timeout: Duration::from_micros(microseconds),
            suspend: definition.suspend,
            drift_policy: definition.drift_policy,
            quota: definition.quota,
            uncommitted,
        })
    }
}

/// The row of a source. This version may be unable to read its spec.
#[derive(Debug)]
pub struct SourceRow {
    pub name: Name,
    pub definition: SourceDefinition,
    pub generation: i64,
    pub next_run: Option<TimestampWithTimeZone>,
    /// A run of the source was queued or started before.
    pub has_run: bool,
}

/// Returns a source's row, and locks it until the transaction ends.
pub fn lock(name: &str) -> Result<Option<SourceRow>, Error> {
    let found = as_owner(|owner| {
        owner.execute_returning(
            &format!(
                "SELECT name, generation, next_run,
                        last_run_id IS NOT NULL
                            OR EXISTS (SELECT FROM rag_internal.run r WHERE r.source = s.name)
                                AS has_run, {}
                 FROM rag_internal.source s WHERE name = $1 FOR NO KEY UPDATE",
                SourceDefinition::COLUMNS
            ),
            &[name.into()],
            |row| {
                Ok(SourceRow {
                    name: Name::source(&row.required::<String>("name")?)?,
                    definition: SourceDefinition::read(&row)?,
                    generation: row.required("generation")?,
                    next_run: row.get("next_run")?,
                    has_run: row.required("has_run")?,
                })
            },
        )
    })?;
    record_locked(name);
    Ok(found.into_iter().next())
}

/// Locks a source's row without waiting. Returns false if there is no such source.
///
/// # Errors
/// Another session has locked the row (`ERRCODE_LOCK_NOT_AVAILABLE`).
pub fn lock_at_once(owner: &OwnerRights, name: &str) -> Result<bool, Error> {
    let found = owner.execute_returning(
        "SELECT 1 FROM rag_internal.source WHERE name = $1 FOR NO KEY UPDATE NOWAIT",
        &[name.into()],
        |_| Ok(()),
    )?;
    Ok(!found.is_empty())
}

thread_local! {
    /// The sources whose rows this session has locked, with the transactions. The row itself does
    /// not show this if sessions share its lock.
    static LOCKED: RefCell<Vec<(String, pg_sys::TransactionId)>> = const { RefCell::new(vec![]) };
}

/// Records that the current transaction has locked a source's row.
pub(super) fn record_locked(name: &str) {
    LOCKED.with_borrow_mut(|locked| {
        locked.retain(|(_, id)| transaction::is_current(*id));
        locked.push((name.to_string(), transaction::id_if_any()));
    });
}

/// Returns true if the current transaction has locked a source's row and has not rolled that back.
fn is_locked(name: &str) -> bool {
    LOCKED.with_borrow(|locked| {
        locked
            .iter()
            .any(|(source, id)| source == name && transaction::is_current(*id))
    })
}

/// Returns the error for a name that another source has.
pub fn name_taken(name: &Name) -> Error {
    Error::duplicate(format!("source \"{name}\" already exists"))
}

/// Returns the source with a [short name](Name::short). A short name that is a whole name is not
/// looked up.
pub fn by_short_name(owner: &OwnerRights, short: &str) -> Result<Option<Name>, Error> {
    let Some((_, hash)) = short.rsplit_once('~') else {
        return Name::source(short).map(Some);
    };
    let found = owner.query(
        "SELECT name FROM rag_internal.source
         WHERE encode(sha256(convert_to(name, 'UTF8')), 'hex')
               LIKE $1 || '%'",
        &[hash.into()],
        |row| row.required::<String>("name"),
    )?;
    let names = found.iter().map(|name| Name::source(name));
    let names: Vec<Name> = names.collect::<Result<_, _>>()?;
    Ok(names.into_iter().find(|name| name.short() == short))
}

/// Returns the owner and the collection of a source, or None if there is no such source.
pub fn owner_and_collection(
    owner: &OwnerRights,
    name: &str,
) -> Result<Option<(Owner, String)>, Error> {
    let found = owner.query(
        "SELECT owner_id, owner, collection FROM rag_internal.source WHERE name = $1",
        &[name.into()],
        |row| {
            Ok((
                Owner::stored(row.required("owner_id")?, row.required("owner")?),
                row.required("collection")?,
            ))
        },
    )?;
    Ok(found.into_iter().next())
}

/// Returns what ids of documents of a source are made from. The source may have been dropped.
pub fn ids_from(owner: &OwnerRights, name: &str) -> Result<String, Error> {
    let found = owner.query(
        "SELECT coalesce(ids_from, name) AS ids_from FROM rag_internal.source WHERE name = $1",
        &[name.into()],
        |row| row.required("ids_from"),
    )?;
    Ok(found.into_iter().next().unwrap_or_else(|| name.to_owned()))
}

/// Returns what ids of documents are made from, for those sources of a collection whose name is
/// another one.
pub fn renamed(owner: &OwnerRights, collection: &str) -> Result<BTreeMap<String, String>, Error> {
    let found = owner.query(
        "SELECT name, ids_from FROM rag_internal.source
         WHERE collection = $1 AND ids_from IS NOT NULL AND ids_from <> name",
        &[collection.into()],
        |row| Ok((row.required("name")?, row.required("ids_from")?)),
    )?;
    Ok(found.into_iter().collect())
}

/// Returns true if the last run of a source failed and will be retried.
pub fn is_retried(owner: &OwnerRights, name: &str) -> Result<bool, Error> {
    let found = owner.query(
        "SELECT 1 FROM rag_internal.source WHERE name = $1 AND retry_at IS NOT NULL",
        &[name.into()],
        |_| Ok(()),
    )?;
    Ok(!found.is_empty())
}

/// Sets what ids of documents are made from. None: the name.
pub fn set_ids_from(owner: &OwnerRights, name: &str, ids_from: Option<&str>) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET ids_from = $2 WHERE name = $1",
        &[name.into(), ids_from.into()],
    )?;
    Ok(())
}

/// Returns true if a source of this name exists.
pub fn has_name(name: &Name) -> Result<bool, Error> {
    Ok(as_owner(|owner| owner_and_collection(owner, name.as_str()))?.is_some())
}

/// Returns those of the uids whose sources exist in the current database.
pub fn existing(owner: &OwnerRights, uids: &[pgrx::Uuid]) -> Result<Vec<pgrx::Uuid>, Error> {
    owner.query(
        "SELECT uid FROM rag_internal.source WHERE uid = ANY ($1)",
        &[uids.to_vec().into()],
        |row| row.required("uid"),
    )
}

/// Returns true if the source that a run started with still exists.
///
/// A session that drops the source waits for the current transaction, and sees what it stored.
pub fn exists(owner: &OwnerRights, source: &Source) -> Result<bool, Error> {
    let found = owner.execute_prepared(
        "SELECT 1 FROM rag_internal.source WHERE name = $1 AND uid = $2 FOR KEY SHARE",
        &[source.name.as_str().into(), source.uid.into()],
        |_| Ok(()),
    )?;
    Ok(!found.is_empty())
}

/// Returns the sources whose schedule was invalid when they were due.
pub fn with_invalid_schedule(owner: &OwnerRights) -> Result<Vec<String>, Error> {
    owner.query(
        r#"SELECT name FROM rag_internal.source
           WHERE NOT suspend AND conditions @>
               '[{"type": "AutoIndexerScheduled", "reason": "InvalidSchedule"}]'
                   ORDER BY name"#,
        &[],
        |row| row.required("name"),
    )
}

/// Returns the process id of the runner that syncs or checks a source.
pub fn runner_pid(owner: &OwnerRights, name: &Name) -> Result<Option<i32>, Error> {
    let found = owner.query(
        "SELECT pid FROM rag_internal.source_locks()
         WHERE purpose = 0 AND source_hash = hashtext($1)::int8 & 4294967295
           AND pid IN (SELECT pid FROM pg_stat_activity
               WHERE backend_type = 'rag runner')",
        &[name.as_str().into()],
        |row| row.required("pid"),
    )?;
    Ok(found.into_iter().next())
}

/// Returns the names of the sources of a collection, or of all sources.
pub fn names_of(owner: &OwnerRights, collection: Option<&str>) -> Result<Vec<String>, Error> {
    owner.query(
        "SELECT name FROM rag_internal.source WHERE collection = coalesce($1, collection)
         ORDER BY name",
        &[collection.into()],
        |row| row.required("name"),
    )
}

/// A relation as it was when a source was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelationIdentity {
    pub relation: pg_sys::Oid,
    pub owner: pg_sys::Oid,
}

impl RelationIdentity {
    /// Returns the identity in the columns `relation_id` and `relation_owner_id` of a source's row.
    pub fn stored(relation: Option<pg_sys::Oid>, owner: Option<pg_sys::Oid>) -> Option<Self> {
        Some(Self {
            relation: relation?,
            owner: owner?,
        })
    }
}
