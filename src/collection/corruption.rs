//! Corrupted indexes of collections: what searches and writes do about them.
//!
//! An index can be rebuilt from its table. A search that finds a corrupted index reads the table
//! instead, and marks the index ([`damage`](super::damage)). A write, or the next sync, rebuilds
//! it. A table of chunks is rebuilt from the texts in `rag.documents`, by the next sync or by
//! `rag_rebuild_collection`.
//!
//! ```text
//!  search ── XX001, XX002 ──▶ search without indexes ──▶ mark ───▶ status "damaged"
//!  write ─── XX001, XX002 ──▶ repair ──▶ the write again               │
//!  sync ──── repair_marked ◀───────────────────────────────────────────┘
//! ```

use pgrx::pg_sys;

use super::damage::{self, sentence};
use crate::{
    catalog::{collections::Collection, damaged_relations::DamagedRelation, partitions::Partition},
    error::{Cause, Error},
    index::am::collected::write_collected,
    pg::{
        lock::WriterLock,
        lookup::{self, try_lock_relation},
        spi::{OwnerRights, as_owner},
        transaction::{self, subtransaction, with_latest_snapshot},
    },
};

/// What a search may do with indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexUse {
    Allowed,
    /// One is corrupted.
    Forbidden,
}

/// Runs a search. If it finds a corrupted index, runs it again without indexes, raises a warning,
/// and marks the index.
///
/// # Errors
/// The search fails. If the table itself is corrupted, the error names the collection.
pub fn search_with_fallback<R>(
    collection: &Collection,
    search: impl Fn(IndexUse) -> Result<R, Error>,
) -> Result<R, Error> {
    // parallel mode allows no subtransactions
    if transaction::is_parallel() {
        return search(IndexUse::Allowed);
    }
    let corruption = match subtransaction(|| search(IndexUse::Allowed)) {
        Err(error) if error.is(Cause::Corrupt) => error,
        result => return result,
    };
    let found = subtransaction(|| without_indexes(collection, || search(IndexUse::Forbidden)))
        .map_err(damage::explain)?;
    warn(collection, &corruption);
    // the result is correct even if the index cannot be marked
    damage::mark(&corruption);
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
    corruption
        .like(message)
        .detail(sentence(corruption))
        .hint(remedy(collection))
        .report(pgrx::PgLogLevel::WARNING);
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

/// Runs a write in a subtransaction, and writes to the indexes what it has inserted. If it finds a
/// corrupted index, rebuilds the index and runs the write again.
///
/// # Errors
/// The write fails. If an index could not be rebuilt, the error names the collection.
pub fn write_with_repair<R>(
    collection: &Collection,
    mut write: impl FnMut() -> Result<R, Error>,
) -> Result<R, Error> {
    let written = subtransaction(|| {
        let written = write()?;
        write_collected()?;
        Ok(written)
    });
    match written {
        Err(error) if error.is(Cause::Corrupt) => {
            let repaired = subtransaction(|| repair(collection, &error, WriterLock::SkipIfBusy))
                .unwrap_or(false);
            if repaired {
                write()
            } else {
                Err(damage::explain(error))
            }
        }
        result => result,
    }
}

/// Rebuilds the indexes that an error names: those of a collection, and those of tables that all
/// collections share. Returns false if it names none, or if one is in use.
///
/// # Errors
/// An index cannot be rebuilt because the table is corrupted, too.
pub fn repair(
    collection: &Collection,
    corruption: &Error,
    writers: WriterLock,
) -> Result<bool, Error> {
    as_owner(|owner| {
        let mut indexes = with_latest_snapshot(|| damage::named_by(corruption))?;
        indexes.retain(|index| index.is_index && is_used_by(index, collection));
        let repaired = rebuild(owner, &indexes, writers)?;
        Ok(repaired && !indexes.is_empty())
    })
}

/// Returns true if a relation has chunks of a collection, or no chunks at all.
fn is_used_by(relation: &DamagedRelation, collection: &Collection) -> bool {
    !relation.is_of_chunks() || Some(relation.table) == collection.partition_oid()
}

/// Rebuilds the indexes that are marked: those of a collection, and those of tables that all
/// collections share. It waits for writers, so the transaction must not have written anything.
///
/// # Errors
/// An index cannot be rebuilt.
pub fn repair_marked(collection: &Collection) -> Result<(), Error> {
    let marks = damage::marks()?;
    let indexes: Vec<DamagedRelation> = marks
        .into_iter()
        .map(|mark| mark.relation)
        .filter(|relation| relation.is_index && is_used_by(relation, collection))
        .collect();
    as_owner(|owner| rebuild(owner, &indexes, WriterLock::Wait))?;
    Ok(())
}

/// Rebuilds indexes. Returns false if one is in use and `writers` says not to wait.
fn rebuild(
    owner: &OwnerRights,
    indexes: &[DamagedRelation],
    writers: WriterLock,
) -> Result<bool, Error> {
    for index in indexes {
        // the table is locked first, as everywhere
        let free = writers == WriterLock::Wait
            || lookup::table_of_index(index.oid)
                .is_some_and(|table| try_lock_relation(table, pg_sys::ShareLock))
                && try_lock_relation(index.oid, pg_sys::AccessExclusiveLock);
        if !free {
            return Ok(false);
        }
        owner.execute(&format!("REINDEX INDEX {}", index.name), &[])?;
    }
    Ok(true)
}
