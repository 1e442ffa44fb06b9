//! Settings of collections that wait for a rebuild: `rag_internal.collection.wanted`.
//!
//! The columns of `rag_internal.collection` say how the stored chunks were made. Searches and
//! writes go by them, so they stay right. Other values that a user wants are in the column
//! `wanted`, by the names of the columns, until a rebuild has made chunks and indexes that they
//! describe.

use serde_json::{Map, Value};

use super::collections::Collection;
use crate::{
    error::Error,
    pg::{
        security::as_owner,
        spi::{execute, execute_returning, query},
    },
};

/// The columns that only a rebuild can change once there are chunks.
pub const COLUMNS: [&str; 8] = [
    "retriever",
    "chunk_size",
    "chunk_overlap",
    "chunk_unit",
    "metadata_whitelist",
    "text_config",
    "title_weight",
    "embedding_model",
];

/// The relation `c` with the rows of `rag_internal.collection` as they will be after a rebuild.
pub const RELATION: &str = "(SELECT w.* FROM rag_internal.collection k,
         LATERAL pg_catalog.jsonb_populate_record(k, coalesce(k.wanted, '{}')) AS w) AS c";

/// What became of changes of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Done,
    /// Some wait for a rebuild.
    Waiting,
}

/// Changes settings, by the names of their columns. Those of a collection with chunks wait for a
/// rebuild.
///
/// # Errors
/// A statement fails.
pub fn change(collection: &Collection, changes: Map<String, Value>) -> Result<Change, Error> {
    if changes.is_empty() {
        return Ok(match collection.has_wanted {
            true => Change::Waiting,
            false => Change::Done,
        });
    }
    if collection.model.is_none() {
        set(collection, changes)?;
        return Ok(Change::Done);
    }
    let waiting = as_owner(|| {
        // a value that the column has already is not wanted any more
        execute_returning(
            "UPDATE rag_internal.collection c
             SET wanted = (SELECT pg_catalog.jsonb_object_agg(e.key, e.value)
                           FROM pg_catalog.jsonb_each(coalesce(c.wanted, '{}') || $2) AS e
                           WHERE e.value <> pg_catalog.to_jsonb(c) -> e.key),
                 updated_at = pg_catalog.now()
             WHERE c.name = $1 RETURNING c.wanted IS NOT NULL",
            &[collection.name.as_str().into(), json(changes)],
            |row| row.required::<bool>(1),
        )
    })?;
    Ok(match waiting.first() {
        Some(true) => Change::Waiting,
        _ => Change::Done,
    })
}

/// Changes settings at once, and no longer wants others for them.
///
/// # Errors
/// A statement fails.
pub fn set(collection: &Collection, values: Map<String, Value>) -> Result<(), Error> {
    let names: Vec<String> = values.keys().cloned().collect();
    as_owner(|| {
        execute(
            &format!(
                "UPDATE rag_internal.collection c
                 SET ({columns}) = (SELECT {columns}
                                    FROM pg_catalog.jsonb_populate_record(c, $2) AS w),
                     wanted = nullif(c.wanted - $3, '{{}}'), updated_at = pg_catalog.now()
                 WHERE c.name = $1",
                columns = COLUMNS.join(", ")
            ),
            &[collection.name.as_str().into(), json(values), names.into()],
        )
    })?;
    Ok(())
}

/// Makes the wanted settings those of the collection. Runs as the extension's owner, in the
/// transaction that replaces the storage.
///
/// # Errors
/// A statement fails.
pub fn adopt(collection: &str) -> Result<(), Error> {
    execute(
        &format!(
            "UPDATE rag_internal.collection c
             SET ({columns}) = (SELECT {columns} FROM pg_catalog.jsonb_populate_record(
                                    c, coalesce(c.wanted, '{{}}')) AS w),
                 wanted = NULL, updated_at = pg_catalog.clock_timestamp()
             WHERE c.name = $1",
            columns = COLUMNS.join(", ")
        ),
        &[collection.into()],
    )?;
    Ok(())
}

fn json(values: Map<String, Value>) -> pgrx::datum::DatumWithOid<'static> {
    pgrx::JsonB(Value::Object(values)).into()
}

/// The sizes of chunks that a user wants. None: the default.
pub struct WantedSizes {
    pub size: Option<i32>,
    pub overlap: Option<i32>,
    pub unit: String,
}

/// Returns the wanted sizes of chunks of a collection.
///
/// # Errors
/// The collection does not exist.
pub fn sizes(collection: &str) -> Result<WantedSizes, Error> {
    let found = as_owner(|| {
        query(
            &format!(
                "SELECT c.chunk_size, c.chunk_overlap, c.chunk_unit FROM {RELATION}
              WHERE c.name = $1"
            ),
            &[collection.into()],
            |row| {
                Ok(WantedSizes {
                    size: row.get(1)?,
                    overlap: row.get(2)?,
                    unit: row.required(3)?,
                })
            },
        )
    })?;
    let found = found.into_iter().next();
    found.ok_or_else(|| Collection::missing(collection))
}
