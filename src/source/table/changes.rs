//! `rag.table_changes` and `rag.table_state`: what triggers have noted, and since when that is all
//! there is to know.

use std::collections::BTreeSet;

use pgrx::{PgSqlErrorCode, pg_sys};

use super::{
    relation::Relation,
    rows::Key,
    trigger::{self, Arguments},
};
use crate::{
    catalog::{name::Name, sources::Identity},
    error::Error,
    pg::{
        security::{as_owner, pinned},
        spi::{execute, query},
    },
};

/// The events with their triggers' names before the source's: an identifier has at most 63 bytes, a
/// source's short name 56.
const TRIGGERS: [(&str, &str, &str); 4] = [
    ("rag_i_", "INSERT", "REFERENCING NEW TABLE AS rag_new"),
    (
        "rag_u_",
        "UPDATE",
        "REFERENCING OLD TABLE AS rag_old NEW TABLE AS rag_new",
    ),
    ("rag_d_", "DELETE", "REFERENCING OLD TABLE AS rag_old"),
    ("rag_t_", "TRUNCATE", ""),
];

/// More bytes of queued keys are not looked up one by one.
const MAX_PENDING: i64 = 16 << 20;

/// # Errors
/// `owner` may not create triggers on the table.
pub fn check_may_create_triggers(relation: &Relation, owner: pg_sys::Oid) -> Result<(), Error> {
    let may = pinned(|| {
        query(
            "SELECT has_table_privilege($1, $2::oid, 'TRIGGER')",
            &[owner.into(), relation.oid.into()],
            |row| row.required(1),
        )
    })?;
    if may.first() == Some(&true) {
        return Ok(());
    }
    Err(Error::permission_denied(format!(
        "permission denied to create triggers on {}",
        relation.quoted()
    ))
    .hint("Become the table's owner, have TRIGGER on it granted, or use \"sync\": \"scan\"."))
}

/// Creates the triggers. Nobody else may execute their function, so they are made as the
/// extension's owner; [`check_may_create_triggers`] comes first.
///
/// # Errors
/// The name of the relation has come to mean another one meanwhile.
pub fn create_triggers(
    source: &Name,
    relation: &Relation,
    arguments: &Arguments,
) -> Result<(), Error> {
    relation.identity().hold()?;
    as_owner(|| {
        for (prefix, event, tables) in TRIGGERS {
            let name = pgrx::spi::quote_identifier(format!("{prefix}{}", source.short()));
            let statement = format!(
                "CREATE TRIGGER {name} AFTER {event} ON {} {tables} FOR EACH STATEMENT EXECUTE FUNCTION rag.table_changed({})",
                relation.quoted(),
                arguments.to_sql()
            );
            execute(&statement, &[])?;
        }
        Ok::<_, Error>(())
    })?;
    if triggers(source, relation.oid)?.len() == TRIGGERS.len() {
        return Ok(());
    }
    Err(Error::in_use(format!(
        "relation {} was renamed by another session meanwhile",
        relation.quoted()
    )))
}

/// Whether the relation has all triggers of the source, and they see every change: what logical
/// replication applies fires none of them.
pub fn has_triggers(
    source: &Name,
    relation: &Relation,
    arguments: &Arguments,
) -> Result<bool, Error> {
    let names = trigger_names(source);
    let found: Vec<i64> = pinned(|| {
        query(
            "SELECT count(*) FROM pg_trigger
             WHERE tgrelid = $1 AND tgfoid = 'rag.table_changed()'::regprocedure AND tgname = ANY ($2::name[])
               AND tgargs = $3 AND tgenabled IN ('O', 'A')
               AND NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = $1)",
            &[relation.oid.into(), names.into(), arguments.stored().into()],
            |row| row.required(1),
        )
    })?;
    Ok(found.first() == Some(&(TRIGGERS.len() as i64)))
}

fn trigger_names(source: &Name) -> Vec<String> {
    let short = source.short();
    TRIGGERS
        .iter()
        .map(|(prefix, ..)| format!("{prefix}{short}"))
        .collect()
}

/// The triggers on a relation that were made for a source, whatever they are called now. Those on
/// other relations may be called the same; they are none of its own.
fn triggers(source: &Name, relation: pg_sys::Oid) -> Result<Vec<pg_sys::Oid>, Error> {
    let argument = [source.as_str().as_bytes(), b"\0"].concat();
    pinned(|| {
        query(
            "SELECT oid FROM pg_trigger
             WHERE tgrelid = $1 AND tgfoid = 'rag.table_changed()'::regprocedure AND NOT tgisinternal
               AND substr(tgargs, 1, length($2)) = $2 ORDER BY oid",
            &[relation.into(), argument.into()],
            |row| row.required(1),
        )
    })
}

/// Removes what a source has on the relation that it reads and in the queue.
#[allow(unsafe_code)]
pub fn forget(source: &Name, relation: Option<pg_sys::Oid>) -> Result<(), Error> {
    let triggers = relation.map_or(Ok(vec![]), |relation| triggers(source, relation))?;
    for oid in triggers {
        let trigger = pg_sys::ObjectAddress {
            classId: pg_sys::TriggerRelationId,
            objectId: oid,
            objectSubId: 0,
        };
        // who may drop the source may not own the table, and the table may be renamed at any time
        // SAFETY: DROP TRIGGER once its name is resolved and its rights are checked.
        unsafe {
            pg_sys::performDeletion(&raw const trigger, pg_sys::DropBehavior::DROP_RESTRICT, 0)
        };
    }
    as_owner(|| {
        execute(
            "DELETE FROM rag.table_changes WHERE source = $1",
            &[source.as_str().into()],
        )?;
        execute(
            "DELETE FROM rag.table_state WHERE source = $1",
            &[source.as_str().into()],
        )?;
        Ok(())
    })
}

/// What is in the queue for a source.
pub struct Pending {
    /// The rows of the queue, to be deleted once they are handled.
    pub ids: Vec<i64>,
    /// The keys they hold; `None` where the whole table must be read.
    pub keys: Option<BTreeSet<Key>>,
}

/// Reads what is committed in the queue now. Transactions that are still open are seen later, and
/// not deleted.
pub fn pending(source: &Name, key_parts: usize) -> Result<Pending, Error> {
    as_owner(|| {
        let source = source.as_str();
        let found = query(
            "SELECT change_id, keys IS NULL, coalesce(pg_catalog.octet_length(keys), 0)::pg_catalog.int8
             FROM rag.table_changes WHERE source = $1",
            &[source.into()],
            |row| Ok((row.required::<i64>(1)?, row.required::<bool>(2)?, row.required::<i64>(3)?)),
        )?;
        let ids: Vec<i64> = found.iter().map(|(id, ..)| *id).collect();
        if found.iter().any(|(_, everything, _)| *everything)
            || found.iter().map(|(.., bytes)| bytes).sum::<i64>() > MAX_PENDING
        {
            return Ok(Pending { ids, keys: None });
        }
        let mut keys = BTreeSet::new();
        query(
            "SELECT keys FROM rag.table_changes WHERE source = $1 AND change_id = ANY ($2)",
            &[source.into(), ids.clone().into()],
            |row| {
                keys.extend(trigger::decode(&row.required::<Vec<u8>>(1)?, key_parts)?);
                Ok(())
            },
        )?;
        Ok(Pending {
            ids,
            keys: Some(keys),
        })
    })
}

/// Takes what was handled out of the queue.
pub fn handled(source: &Name, ids: &[i64]) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "DELETE FROM rag.table_changes WHERE source = $1 AND change_id = ANY ($2)",
            &[source.as_str().into(), ids.to_vec().into()],
        )
    })?;
    Ok(())
}

/// Whether the source's table was read completely under this definition and nothing but runs has
/// touched its documents.
pub fn is_complete(source: &Name, collection: &str, definition: &str) -> Result<bool, Error> {
    let found = as_owner(|| {
        query(
            "SELECT 1 FROM rag.table_state s
             WHERE s.source = $1 AND s.definition = $3 AND s.documents =
                 (SELECT pg_catalog.count(*) FROM rag.documents d WHERE d.collection = $2 AND d.source = $1)",
            &[source.as_str().into(), collection.into(), definition.into()],
            |_| Ok(()),
        )
    })?;
    Ok(!found.is_empty())
}

/// Notes that the documents are those of the whole table.
pub fn set_complete(source: &Name, collection: &str, definition: &str) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "INSERT INTO rag.table_state (source, definition, documents)
             SELECT $1, $3, pg_catalog.count(*) FROM rag.documents d WHERE d.collection = $2 AND d.source = $1
             ON CONFLICT (source) DO UPDATE SET definition = excluded.definition, documents = excluded.documents",
            &[source.as_str().into(), collection.into(), definition.into()],
        )
    })?;
    Ok(())
}

/// Notes that the queue is not all there is to know.
pub fn set_incomplete(source: &Name) -> Result<(), Error> {
    as_owner(|| {
        execute(
            "DELETE FROM rag.table_state WHERE source = $1",
            &[source.as_str().into()],
        )
    })?;
    Ok(())
}

/// The error for a relation or column that is gone, with what can be done; any other error as it
/// is.
pub fn missing(stored: Option<Identity>, relation: &str, error: Error) -> Error {
    match error.code {
        PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE => {}
        PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN => {
            return error.hint(
                "It was dropped or renamed: name it back, or drop the source and create it with other columns; its documents can stay.",
            );
        }
        _ => return error,
    }
    let hint = match stored.map(|stored| stored.present_name()) {
        Some(Ok(Some(now))) => {
            format!(
                "The relation that it was made for is called {now} now: name it back, or alter the source."
            )
        }
        _ => "Documents that were stored stay. Bring the table back, or drop the source.".into(),
    };
    Error::new(
        error.code,
        format!("relation {relation}, which the source reads, does not exist"),
    )
    .hint(hint)
}
