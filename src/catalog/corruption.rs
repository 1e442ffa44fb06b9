//! Corrupted indexes of collections: `rag.index_damage`.
//!
//! An index of a collection's partition can be rebuilt from the table. A search that finds a
//! corrupted index reads the table instead, and records the index. A write, or the next sync,
//! rebuilds it.
//!
//! ```text
//!  search ── XX001, XX002 ──▶ search without indexes ──▶ record ──▶ status "damaged"
//!  write ─── XX001, XX002 ──▶ repair ──▶ the write again               │
//!  sync ──── repair_recorded ◀─────────────────────────────────────────┘
//! ```

use pgrx::{PgSqlErrorCode, pg_sys};

use super::{collections::Collection, partitions::Partition};
use crate::{
    error::Error,
    pg::{
        lock::WriterLock,
        lookup::{self, try_lock_relation},
        process,
        security::as_owner,
        spi::{execute, query},
        transaction::{self, subtransaction, with_latest_snapshot},
    },
};

/// Returns true if an error reports corrupted data on disk: a checksum, a page, or a link of an
/// index.
pub fn is_corruption(error: &Error) -> bool {
    matches!(
        error.code,
        PgSqlErrorCode::ERRCODE_DATA_CORRUPTED | PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED
    )
}

/// An index of a collection's partition.
struct CollectionIndex {
    oid: pg_sys::Oid,
    filenode: pg_sys::Oid,
    name: String,
}

impl CollectionIndex {
    /// Returns true if an error names the index, or one of its files as in `base/16384/16827`.
    fn is_named_by(&self, error: &Error) -> bool {
        let texts = [Some(&error.message), error.detail.as_ref()];
        let filenode = format!("/{}", self.filenode.to_u32());
        texts.into_iter().flatten().any(|text| {
            let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_digit());
            text.contains(&format!("\"{}\"", self.name))
                || text
                    .match_indices(&filenode)
                    .any(|(at, found)| ends(&text[at + found.len()..]))
        })
    }
}

fn indexes(collection: &Collection) -> Result<Vec<CollectionIndex>, Error> {
    query(
        "SELECT c.oid, pg_catalog.pg_relation_filenode(c.oid), c.relname::pg_catalog.text
         FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
         WHERE i.indrelid = (SELECT pg_catalog.to_regclass(pg_catalog.format('rag.%I', k.partition))
                             FROM rag.collections k WHERE k.name = $1)",
        &[collection.name.as_str().into()],
        |row| {
            Ok(CollectionIndex {
                oid: row.required(1)?,
                filenode: row.required(2)?,
                name: row.required(3)?,
            })
        },
    )
}

/// Whether a search may read indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexUse {
    Allowed,
    /// One is corrupted.
    Forbidden,
}

/// Runs a search. If it finds a corrupted index, runs it again without indexes, raises a warning,
/// and records the index.
///
/// # Errors
/// The search fails. If the table itself is corrupted, the error names the collection.
pub fn search_with_fallback<R>(
    collection: &Collection,
    search: impl Fn(IndexUse) -> Result<R, Error>,
) -> Result<R, Error> {
    // parallel mode allows no subtransactions
    if transaction::is_parallel() {
        return search(IndexUse::Allowed).map_err(|error| with_remedy(collection, error));
    }
    let corruption = match subtransaction(|| search(IndexUse::Allowed)) {
        Err(error) if is_corruption(&error) => error,
        result => return result,
    };
    let found = subtransaction(|| without_indexes(collection, || search(IndexUse::Forbidden)))
        .map_err(|error| with_remedy(collection, error))?;
    warn(collection, &corruption);
    // the result is correct even if the index cannot be recorded
    drop(subtransaction(|| record(collection, &corruption)));
    Ok(found)
}

/// Runs `f` while the planner of this session sees no indexes on the collection's partition.
/// Planner settings are not enough: it would still read the first page of a corrupted index.
fn without_indexes<R>(
    collection: &Collection,
    f: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    match collection.partition_oid() {
        Some(partition) => lookup::without_indexes(partition, f),
        None => f(),
    }
}

fn warn(collection: &Collection, corruption: &Error) {
    let message = format!(
        "an index of collection \"{}\" is corrupted, so the search read the table instead",
        collection.name
    );
    pgrx::pg_sys::panic::ErrorReport::new(corruption.code, message, "rag")
        .set_detail(sentence(corruption))
        .set_hint(remedy(collection))
        .report(pgrx::PgLogLevel::WARNING);
}

fn sentence(error: &Error) -> String {
    let detail = error
        .detail
        .as_ref()
        .map(|detail| format!(" {detail}"))
        .unwrap_or_default();
    format!("{}.{detail}", error.message)
}

/// Returns the name of the partition for messages.
fn partition(collection: &Collection) -> String {
    let partition = collection.partition.as_ref();
    partition.map_or_else(|| "its partition".to_owned(), Partition::qualified)
}

fn remedy(collection: &Collection) -> String {
    format!(
        "Check the disk. The next sync rebuilds the index automatically. To rebuild it now, run \
         REINDEX TABLE {}.",
        partition(collection)
    )
}

/// Adds the collection and a remedy to an error that reports corruption.
fn with_remedy(collection: &Collection, error: Error) -> Error {
    if !is_corruption(&error) {
        return error;
    }
    let name = &collection.name;
    Error::new(
        error.code,
        format!("data of collection \"{name}\" is corrupted"),
    )
    .detail(sentence(&error))
    .hint(format!(
        "Check the disk, then run REINDEX TABLE {}. If the error persists, the table is \
             corrupted. Restore it from a backup, or drop the collection and index its documents \
             again.",
        partition(collection)
    ))
}

/// Records the indexes that an error names, or all indexes if it names none.
fn record(collection: &Collection, corruption: &Error) -> Result<(), Error> {
    if process::is_in_recovery() || transaction::is_read_only() {
        return Ok(());
    }
    as_owner(|| {
        let mut indexes = indexes(collection)?;
        if indexes.iter().any(|index| index.is_named_by(corruption)) {
            indexes.retain(|index| index.is_named_by(corruption));
        }
        let (oids, filenodes): (Vec<_>, Vec<_>) = indexes
            .iter()
            .map(|index| (index.oid, index.filenode))
            .unzip();
        execute(
            "INSERT INTO rag.index_damage (collection, index, filenode, problem)
             SELECT $1, n.index, n.filenode, $4
             FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3)) AS n (index, filenode)
             WHERE NOT EXISTS (SELECT FROM rag.index_damage d
                               WHERE d.index = n.index AND d.filenode = n.filenode)",
            &[
                collection.name.as_str().into(),
                oids.into(),
                filenodes.into(),
                corruption.message.as_str().into(),
            ],
        )?;
        Ok(())
    })
}

/// Runs a write in a subtransaction. If it finds a corrupted index, rebuilds the index and runs the
/// write again.
///
/// # Errors
/// The write fails. If an index could not be rebuilt, the error names the collection.
pub fn write_with_repair<R>(
    collection: &Collection,
    mut write: impl FnMut() -> Result<R, Error>,
) -> Result<R, Error> {
    match subtransaction(&mut write) {
        Err(error) if is_corruption(&error) => {
            let repaired = subtransaction(|| repair(collection, &error, WriterLock::SkipIfBusy))
                .unwrap_or(false);
            if repaired {
                write()
            } else {
                Err(with_remedy(collection, error))
            }
        }
        result => result,
    }
}

/// Rebuilds the indexes that an error names. Returns false if it names none, or if one is in use.
///
/// # Errors
/// An index cannot be rebuilt because the table is corrupted, too.
pub fn repair(
    collection: &Collection,
    corruption: &Error,
    writers: WriterLock,
) -> Result<bool, Error> {
    as_owner(|| {
        let mut indexes = with_latest_snapshot(|| indexes(collection))?;
        indexes.retain(|index| index.is_named_by(corruption));
        let repaired = rebuild(&indexes, writers)?;
        Ok(repaired && !indexes.is_empty())
    })
}

/// Rebuilds the indexes of a collection that searches have recorded. It waits for writers, so the
/// transaction must not have written anything.
///
/// # Errors
/// An index cannot be rebuilt.
pub fn repair_recorded(collection: &Collection) -> Result<(), Error> {
    as_owner(|| {
        let noted = query(
            "SELECT d.index, d.filenode FROM rag.index_damage d
             WHERE d.collection = $1 OR d.index IN (
                 SELECT i.indexrelid FROM rag.collections k JOIN pg_catalog.pg_index i
                     ON i.indrelid = pg_catalog.to_regclass(
                            pg_catalog.format('rag.%I', k.partition))
                 WHERE k.name = $1)",
            &[collection.name.as_str().into()],
            |row| {
                Ok((
                    row.required::<pg_sys::Oid>(1)?,
                    row.required::<pg_sys::Oid>(2)?,
                ))
            },
        )?;
        if noted.is_empty() {
            return Ok(());
        }
        let mut indexes = indexes(collection)?;
        indexes.retain(|index| noted.contains(&(index.oid, index.filenode)));
        rebuild(&indexes, WriterLock::Wait)?;
        let noted: Vec<pg_sys::Oid> = noted.into_iter().map(|(index, _)| index).collect();
        execute(
            "DELETE FROM rag.index_damage WHERE index = ANY ($1)",
            &[noted.into()],
        )?;
        Ok(())
    })
}

/// Rebuilds indexes. Returns false if one is in use and `writers` says not to wait.
fn rebuild(indexes: &[CollectionIndex], writers: WriterLock) -> Result<bool, Error> {
    for index in indexes {
        // the table is locked first, as everywhere
        let free = writers == WriterLock::Wait
            || lookup::table_of_index(index.oid)
                .is_some_and(|table| try_lock_relation(table, pg_sys::ShareLock))
                && try_lock_relation(index.oid, pg_sys::AccessExclusiveLock);
        if !free {
            return Ok(false);
        }
        execute(
            &format!(
                "REINDEX INDEX {}",
                pgrx::spi::quote_qualified_identifier("rag", &index.name)
            ),
            &[],
        )?;
    }
    Ok(true)
}
