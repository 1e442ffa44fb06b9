//! Statements that change sources.

use pgrx::datum::{DatumWithOid, TimestampWithTimeZone};
use rag_definition::Notes;

use super::SourceDefinition;
use crate::{
    catalog::{conditions::ConditionChanges, name::Name, notes},
    error::Error,
    pg::spi::OwnerRights,
};

/// The columns of a definition, in the order of their [`parameters`], which begin with the name.
const COLUMNS: &str = "kind, spec, collection, owner, owner_id, relation_id,
    relation_owner_id, credentials, credentials_key, schedule, max_retries, timeout, suspend,
    drift_policy, max_documents, max_bytes";

fn parameters<'a>(name: &'a Name, definition: &'a SourceDefinition) -> Vec<DatumWithOid<'a>> {
    let credentials = definition.credentials.as_ref();
    vec![
        name.as_str().into(),
        definition.kind.as_str().into(),
        pgrx::JsonB(definition.spec.clone()).into(),
        definition.collection.as_str().into(),
        definition.owner.name.as_str().into(),
        definition.owner.id.into(),
        definition.relation.map(|relation| relation.relation).into(),
        definition.relation.map(|relation| relation.owner).into(),
        credentials
            .map(|credentials| credentials.name.as_str())
            .into(),
        credentials
            .and_then(|credentials| credentials.key.as_deref())
            .into(),
        definition.schedule.as_deref().into(),
        definition.max_retries.into(),
        definition.timeout.into(),
        definition.suspend.into(),
        definition.drift_policy.name().into(),
        definition.quota.max_documents.into(),
        definition.quota.max_bytes.into(),
    ]
}

/// Creates a source. Returns false if there is one of this name. A source that was renamed keeps
/// what its ids are made from, so one that gets the former name has something else.
pub fn create(
    owner: &OwnerRights,
    name: &Name,
    definition: &SourceDefinition,
    next_run: Option<TimestampWithTimeZone>,
    conditions: &ConditionChanges,
) -> Result<bool, Error> {
    let mut arguments = parameters(name, definition);
    arguments.extend([next_run.into(), conditions.to_json().into()]);
    let created = owner.execute(
        &format!(
            "INSERT INTO rag_internal.source (name, {COLUMNS}, next_run, conditions, booted_at,
                ids_from)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
                     $17, $18, rag_internal.merge_conditions('[]', $19),
                     pg_postmaster_start_time(),
                     CASE WHEN EXISTS (SELECT FROM rag_internal.source s WHERE s.ids_from = $1)
                          THEN $1 || ' ' || gen_random_uuid()::text END)
             ON CONFLICT DO NOTHING"
        ),
        &arguments,
    )?;
    Ok(created > 0)
}

/// Writes a new generation of a source. A retry that is due stays due, unless retries are now off.
///
/// With `restarts_reboot`, a schedule of @reboot counts from the next start of the server.
pub fn update(
    owner: &OwnerRights,
    name: &Name,
    definition: &SourceDefinition,
    next_run: Option<TimestampWithTimeZone>,
    conditions: &ConditionChanges,
    restarts_reboot: bool,
) -> Result<(), Error> {
    let mut arguments = parameters(name, definition);
    arguments.extend([
        next_run.into(),
        conditions.to_json().into(),
        restarts_reboot.into(),
    ]);
    owner.execute(
        &format!(
            "UPDATE rag_internal.source SET
                 ({COLUMNS}) = ROW ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
                     $15, $16, $17),
                 next_run = $18,
                 conditions = rag_internal.merge_conditions(conditions, $19),
                 booted_at = CASE WHEN $20 THEN pg_postmaster_start_time()
                     ELSE booted_at END,
                 retry_at = CASE WHEN $12 > 0 THEN retry_at END,
                 generation = generation + 1,
                 updated_at = now()
             WHERE name = $1"
        ),
        &arguments,
    )?;
    Ok(())
}

/// Suspends a source.
pub fn suspend(owner: &OwnerRights, name: &Name, changes: &ConditionChanges) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source
         SET suspend = true, conditions = rag_internal.merge_conditions(conditions,
         $2) WHERE name = $1",
        &[name.as_str().into(), changes.to_json().into()],
    )?;
    Ok(())
}

/// Resumes a source. A source without a schedule is due now if it was not synced since it was
/// created or altered.
pub fn resume(
    owner: &OwnerRights,
    name: &Name,
    has_schedule: bool,
    next_run: Option<TimestampWithTimeZone>,
    changes: &ConditionChanges,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source AS s SET suspend = false, conditions =
         rag_internal.merge_conditions(conditions, $4),
             next_run = CASE WHEN $2 THEN $3
                             WHEN next_run IS NOT NULL OR last_run_id IS NULL
                                  AND NOT EXISTS (SELECT FROM rag_internal.run r
                                      WHERE r.source = s.name) THEN now() END
         WHERE name = $1",
        &[
            name.as_str().into(),
            has_schedule.into(),
            next_run.into(),
            changes.to_json().into(),
        ],
    )?;
    Ok(())
}

/// Notifies rag_events that a source is about to be dropped.
pub fn announce_drop(owner: &OwnerRights, name: &str) -> Result<(), Error> {
    owner.query(
        "SELECT rag_internal.announce(jsonb_build_object('source', $1::text,
         'phase', 'Terminating'))::text",
        &[name.into()],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Deletes a source with its runs, and returns its uid. The caller deletes the documents.
pub fn drop(owner: &OwnerRights, name: &Name) -> Result<Option<pgrx::Uuid>, Error> {
    owner.execute(
        "DELETE FROM rag_internal.run_error WHERE source = $1",
        &[name.as_str().into()],
    )?;
    owner.execute(
        "DELETE FROM rag_internal.run WHERE source = $1",
        &[name.as_str().into()],
    )?;
    // the trigger on rag_internal.run has added these runs
    owner.execute(
        "DELETE FROM rag_internal.run_total WHERE source = $1",
        &[name.as_str().into()],
    )?;
    let deleted = owner.execute_returning(
        "DELETE FROM rag_internal.source WHERE name = $1 RETURNING uid",
        &[name.as_str().into()],
        |row| row.required("uid"),
    )?;
    Ok(deleted.into_iter().next())
}

/// Stores the notes in a manifest's metadata. Returns true if anything has changed.
pub fn put_notes(owner: &OwnerRights, name: &str, notes: &Notes) -> Result<bool, Error> {
    let mut parameters = vec![name.into()];
    parameters.extend(notes::parameters(notes));
    let changed = owner.execute(
        "UPDATE rag_internal.source SET display_name = $2, labels = $3, annotations = $4
         WHERE name = $1 AND (display_name, labels, annotations) IS DISTINCT FROM ($2, $3, $4)",
        &parameters,
    )?;
    Ok(changed > 0)
}

/// Stores changes of the conditions.
pub fn set_conditions(
    owner: &OwnerRights,
    name: &str,
    changes: &ConditionChanges,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.source SET conditions = rag_internal.merge_conditions(conditions, $2)
         WHERE name = $1",
        &[name.into(), changes.to_json().into()],
    )?;
    Ok(())
}
