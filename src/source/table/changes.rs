//! `rag_internal.table_change`, the keys that triggers have recorded, and
//! `rag_internal.table_state`, the sources for which these keys cover all changes since the last
//! run.

use std::collections::BTreeSet;

use pgrx::pg_sys;

use super::{changed_keys, relation::SourceRelation, rows::RowKey, trigger::TriggerArguments};
use crate::{
    catalog::{name::Name, sources::RelationIdentity},
    error::{Cause, Error},
    pg::{
        lookup,
        spi::{as_caller, as_owner},
    },
};

/// The prefix of a trigger's name, its events, its transition tables and its level. An identifier
/// has at most 63 bytes, and the short name of a source at most 56.
const TRIGGER_EVENTS: [(&str, &str, &str); 5] = [
    (
        "rag_i_",
        "INSERT",
        "REFERENCING NEW TABLE AS rag_new FOR EACH STATEMENT",
    ),
    (
        "rag_u_",
        "UPDATE",
        "REFERENCING OLD TABLE AS rag_old NEW TABLE AS rag_new FOR EACH STATEMENT",
    ),
    (
        "rag_d_",
        "DELETE",
        "REFERENCING OLD TABLE AS rag_old FOR EACH STATEMENT",
    ),
    (TRUNCATE, "TRUNCATE", "FOR EACH STATEMENT"),
    (REPLICA, "INSERT OR UPDATE OR DELETE", "FOR EACH ROW"),
];
/// Fires for sessions and for what logical replication applies.
const TRUNCATE: &str = "rag_t_";
/// Fires for what logical replication applies, which has rows but no statements.
pub(super) const REPLICA: &str = "rag_r_";

/// The maximum size of queued keys. With more, a run reads the whole table.
const MAX_PENDING_BYTES: i64 = 16 << 20;

/// # Errors
/// `owner` has no permission to create triggers on the table.
pub fn check_may_create_triggers(
    relation: &SourceRelation,
    owner: pg_sys::Oid,
) -> Result<(), Error> {
    let may = as_caller(|caller| {
        caller.query(
            "SELECT has_table_privilege($1, $2::oid, 'TRIGGER') AS may",
            &[owner.into(), relation.oid.into()],
            |row| row.required("may"),
        )
    })?;
    if may.first() == Some(&true) {
        return Ok(());
    }
    Err(Error::permission_denied(format!(
        "permission denied to create triggers on {}",
        relation.quoted()
    ))
    .hint("Grant TRIGGER on the table to the source's owner, or use \"sync\": \"scan\"."))
}

/// Creates the triggers as the extension's owner, because no other role may execute their function.
/// The caller has checked [`check_may_create_triggers`].
///
/// # Errors
/// The name of the relation now means another relation.
pub fn create_triggers(
    source: &Name,
    relation: &SourceRelation,
    arguments: &TriggerArguments,
) -> Result<(), Error> {
    relation.identity().hold()?;
    as_owner(|owner| {
        for (prefix, event, level) in TRIGGER_EVENTS {
            let name = pgrx::spi::quote_identifier(format!("{prefix}{}", source.short()));
            let statement = format!(
                "CREATE TRIGGER {name} AFTER {event} ON {} {level} \
                 EXECUTE FUNCTION rag_internal.table_changed({})",
                relation.quoted(),
                arguments.to_sql()
            );
            owner.execute(&statement, &[])?;
            let when = match prefix {
                TRUNCATE => "ALWAYS",
                REPLICA => "REPLICA",
                _ => continue,
            };
            let statement = format!(
                "ALTER TABLE {} ENABLE {when} TRIGGER {name}",
                relation.quoted()
            );
            owner.execute(&statement, &[])?;
        }
        Ok::<_, Error>(())
    })?;
    if trigger_oids(source, relation.oid)?.len() == TRIGGER_EVENTS.len() {
        return Ok(());
    }
    Err(Error::in_use(format!(
        "relation {} was renamed by another session",
        relation.quoted()
    )))
}

/// Returns true if the relation has all triggers of the source and they see every change. ENABLE
/// TRIGGER ALL has those for replication fire for sessions: they are then not there for a
/// subscription.
pub fn has_triggers(
    source: &Name,
    relation: &SourceRelation,
    arguments: &TriggerArguments,
) -> Result<bool, Error> {
    let names = trigger_names(source);
    let found: Vec<i64> = as_caller(|caller| {
        caller.query(
            "SELECT count(*) FROM pg_trigger
             WHERE tgrelid = $1 AND tgfoid = 'rag_internal.table_changed()'::regprocedure
               AND tgname = ANY ($2::name[]) AND tgargs = $3
               AND (tgenabled = 'A' OR tgenabled = 'R' AND left(tgname, 6) = $4
                    OR tgenabled = 'O'
                       AND (left(tgname, 6) NOT IN ($4, $5)
                            OR NOT EXISTS (SELECT FROM pg_subscription_rel
                                           WHERE srrelid = $1)))",
            &[
                relation.oid.into(),
                names.into(),
                arguments.stored().into(),
                REPLICA.into(),
                TRUNCATE.into(),
            ],
            |row| row.required("count"),
        )
    })?;
    Ok(found.first() == Some(&(TRIGGER_EVENTS.len() as i64)))
}

fn trigger_names(source: &Name) -> Vec<String> {
    let short = source.short();
    TRIGGER_EVENTS
        .iter()
        .map(|(prefix, ..)| format!("{prefix}{short}"))
        .collect()
}

/// Returns the triggers on a relation that were created for a source, under any name. Triggers with
/// the same names on other relations do not belong to it.
fn trigger_oids(source: &Name, relation: pg_sys::Oid) -> Result<Vec<pg_sys::Oid>, Error> {
    let argument = [source.as_str().as_bytes(), b"\0"].concat();
    as_caller(|caller| {
        caller.query(
            "SELECT oid FROM pg_trigger
             WHERE tgrelid = $1 AND tgfoid = 'rag_internal.table_changed()'::regprocedure
                 AND NOT tgisinternal
               AND substr(tgargs, 1, length($2)) = $2 ORDER BY oid",
            &[relation.into(), argument.into()],
            |row| row.required("oid"),
        )
    })
}

/// Drops the triggers of a source, and deletes its rows of the queue and of
/// `rag_internal.table_state`.
pub fn remove_tracking(source: &Name, relation: Option<pg_sys::Oid>) -> Result<(), Error> {
    let triggers = relation.map_or(Ok(vec![]), |relation| trigger_oids(source, relation))?;
    for oid in triggers {
        // a role that drops the source may not own the table, and the table may be renamed at any
        // time
        lookup::drop_trigger(oid);
    }
    as_owner(|owner| {
        owner.execute(
            "DELETE FROM rag_internal.table_change WHERE source = $1",
            &[source.as_str().into()],
        )?;
        owner.execute(
            "DELETE FROM rag_internal.table_state WHERE source = $1",
            &[source.as_str().into()],
        )?;
        Ok(())
    })
}

/// The changes in the queue of a source.
pub struct PendingChanges {
    /// The rows of the queue, which are deleted at the end of the run.
    pub ids: Vec<i64>,
    /// The keys in these rows, or None if the whole table must be read.
    pub keys: Option<BTreeSet<RowKey>>,
}

/// Reads the committed rows of the queue. Rows of open transactions stay in the queue for a later
/// run.
pub fn read_pending(source: &Name, key_parts: usize) -> Result<PendingChanges, Error> {
    as_owner(|owner| {
        let source = source.as_str();
        let found = owner.query(
            "SELECT change_id, keys IS NULL AS is_everything,
                    coalesce(octet_length(keys), 0)::int8 AS bytes
             FROM rag_internal.table_change WHERE source = $1",
            &[source.into()],
            |row| {
                Ok((
                    row.required::<i64>("change_id")?,
                    row.required::<bool>("is_everything")?,
                    row.required::<i64>("bytes")?,
                ))
            },
        )?;
        let ids: Vec<i64> = found.iter().map(|(id, ..)| *id).collect();
        if found.iter().any(|(_, everything, _)| *everything)
            || found.iter().map(|(.., bytes)| bytes).sum::<i64>() > MAX_PENDING_BYTES
        {
            return Ok(PendingChanges { ids, keys: None });
        }
        let mut keys = BTreeSet::new();
        owner.query(
            "SELECT keys FROM rag_internal.table_change WHERE source = $1 AND change_id = ANY ($2)",
            &[source.into(), ids.clone().into()],
            |row| {
                keys.extend(changed_keys::decode(
                    &row.required::<Vec<u8>>("keys")?,
                    key_parts,
                )?);
                Ok(())
            },
        )?;
        Ok(PendingChanges {
            ids,
            keys: Some(keys),
        })
    })
}

/// Deletes handled rows from the queue.
pub fn delete_handled(source: &Name, ids: &[i64]) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "DELETE FROM rag_internal.table_change WHERE source = $1 AND change_id = ANY ($2)",
            &[source.as_str().into(), ids.to_vec().into()],
        )
    })?;
    Ok(())
}

/// Returns true if the table was read completely under this definition and only runs have changed
/// the documents since.
pub fn is_complete(source: &Name, collection: &str, definition: &str) -> Result<bool, Error> {
    let found = as_owner(|owner| {
        owner.query(
            "SELECT 1 FROM rag_internal.table_state s
             WHERE s.source = $1 AND s.definition = $3 AND s.documents =
                 (SELECT count(*) FROM rag.documents d WHERE d.collection = $2
                     AND d.source = $1)",
            &[source.as_str().into(), collection.into(), definition.into()],
            |_| Ok(()),
        )
    })?;
    Ok(!found.is_empty())
}

/// Records that the documents cover the whole table.
pub fn set_complete(source: &Name, collection: &str, definition: &str) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "INSERT INTO rag_internal.table_state (source, definition, documents)
             SELECT $1, $3, count(*) FROM rag.documents d WHERE d.collection = $2
                 AND d.source = $1
             ON CONFLICT (source) DO UPDATE SET definition = excluded.definition,
                 documents = excluded.documents",
            &[source.as_str().into(), collection.into(), definition.into()],
        )
    })?;
    Ok(())
}

/// Records that the next run must read the whole table.
pub fn set_incomplete(source: &Name) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "DELETE FROM rag_internal.table_state WHERE source = $1",
            &[source.as_str().into()],
        )
    })?;
    Ok(())
}

/// Adds a hint to the error for a relation or column that does not exist. Returns any other error
/// unchanged.
pub fn explain_missing(stored: Option<RelationIdentity>, relation: &str, error: Error) -> Error {
    match error.cause() {
        Cause::Table => {}
        Cause::Column => {
            return error.hint(
                "If the column was renamed, rename it back. Otherwise drop the source and create \
                 it with other columns; its documents can be kept.",
            );
        }
        _ => return error,
    }
    let hint = match stored.map(|stored| stored.current_name()) {
        Some(Ok(Some(now))) => {
            format!(
                "The relation that the source was created for is now named {now}. Rename it back, \
                 or alter the source."
            )
        }
        _ => "The stored documents are kept. Create the table again, or drop the source.".into(),
    };
    error
        .like(format!(
            "relation {relation}, which the source reads, does not exist"
        ))
        .hint(hint)
}
