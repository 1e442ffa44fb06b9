//! Damaged indexes of collections: `rag.index_damage`.
//!
//! Only the table of a collection has to be sound. What an index of its partition says can be found
//! out without it, and it can be rebuilt. So a search that meets a damaged index reads the table,
//! and notes the index; a write, or the next sync, rebuilds it.
//!
//! ```text
//!  search ── XX001, XX002 ──▶ the same statement without indexes ──▶ note ──▶ status "damaged"
//!  write ─── XX001, XX002 ──▶ repair ──▶ the write again                          │
//!  sync ──── repair_known ◀───────────────────────────────────────────────────────┘
//! ```
#![allow(unsafe_code)] // the relation cache, locks, and what kind of transaction this is

use std::ffi::CString;

use pgrx::{PgRelation, PgSqlErrorCode, pg_sys};

use super::{collections::Collection, embedding_index::Writers};
use crate::{
    error::Error,
    pg::{
        extension::schema,
        security::as_owner,
        snapshot::fresh,
        spi::{execute, query},
        subtransaction::subtransaction,
    },
};

/// Returns true if an error says that what is on disk is not what was written: a checksum, a page,
/// a link of an index.
pub fn is_corruption(error: &Error) -> bool {
    matches!(
        error.code,
        PgSqlErrorCode::ERRCODE_DATA_CORRUPTED | PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED
    )
}

/// An index of a collection's partition.
struct Index {
    oid: pg_sys::Oid,
    filenode: pg_sys::Oid,
    name: String,
}

impl Index {
    /// Returns true if an error names the index, or a file of it as in `base/16384/16827`.
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

fn indexes(collection: &Collection) -> Result<Vec<Index>, Error> {
    query(
        "SELECT c.oid, pg_catalog.pg_relation_filenode(c.oid), c.relname::pg_catalog.text
         FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
         WHERE i.indrelid = pg_catalog.to_regclass($1)",
        &[collection.partition().into()],
        |row| {
            Ok(Index {
                oid: row.required(1)?,
                filenode: row.required(2)?,
                name: row.required(3)?,
            })
        },
    )
}

/// Runs a search. Where it meets a damaged index, runs it again as if there were no indexes, warns,
/// and notes the index.
///
/// # Errors
/// What the search returned; that of damage in the table itself names the collection.
pub fn searching<R>(
    collection: &Collection,
    search: impl Fn() -> Result<R, Error>,
) -> Result<R, Error> {
    // there are no subtransactions beside parallel workers
    // SAFETY: reads a variable of the session.
    if unsafe { pg_sys::IsInParallelMode() } {
        return search().map_err(|error| explained(collection, error));
    }
    let damage = match subtransaction(&search) {
        Err(error) if is_corruption(&error) => error,
        result => return result,
    };
    let found = subtransaction(|| without_indexes(collection, &search))
        .map_err(|error| explained(collection, error))?;
    warn(collection, &damage);
    // whatever is in the way of the note, the answer is right
    drop(subtransaction(|| note(collection, &damage)));
    Ok(found)
}

/// Runs `f` while this session takes the collection's partition for a table without indexes. The
/// planner would read the first page of a damaged index, whatever its settings say.
fn without_indexes<R>(
    collection: &Collection,
    f: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    let Ok(name) = CString::new(collection.partition_name()) else {
        return f();
    };
    // SAFETY: the relation stays open, so that its entry stays in the cache; `catch` lets no ERROR
    // pass by its end. The field is read by the planner alone, and set again by whatever reloads
    // the entry.
    unsafe {
        let partition = pg_sys::get_relname_relid(name.as_ptr(), schema());
        if partition == pg_sys::InvalidOid {
            return f();
        }
        let partition =
            PgRelation::with_lock(partition, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
        let entry = (*partition.as_ptr()).rd_rel;
        (*entry).relhasindex = false;
        let result = crate::pg::subtransaction::catch(f);
        (*entry).relhasindex = true;
        result
    }
}

fn warn(collection: &Collection, damage: &Error) {
    let message = format!(
        "an index of collection \"{}\" is damaged; the search has read the table instead",
        collection.name
    );
    pgrx::pg_sys::panic::ErrorReport::new(damage.code, message, "rag")
        .set_detail(sentence(damage))
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

fn remedy(collection: &Collection) -> String {
    format!(
        "The next sync into it rebuilds the index, as REINDEX TABLE {} does. Have the disk checked.",
        collection.partition()
    )
}

/// Returns the error with the collection and the remedy, if it is of damage.
fn explained(collection: &Collection, error: Error) -> Error {
    if !is_corruption(&error) {
        return error;
    }
    let name = &collection.name;
    Error::new(error.code, format!("the data of collection \"{name}\" are damaged"))
        .detail(sentence(&error))
        .hint(format!(
            "If REINDEX TABLE {} does not help, the table is damaged: restore it from a backup, or drop the collection and \
             index its documents again. Have the disk checked.",
            collection.partition()
        ))
}

/// Notes which indexes an error is of; where it names none, that may be any.
fn note(collection: &Collection, damage: &Error) -> Result<(), Error> {
    // SAFETY: reads variables of the session.
    if unsafe { pg_sys::RecoveryInProgress() || pg_sys::XactReadOnly } {
        return Ok(());
    }
    as_owner(|| {
        let mut indexes = indexes(collection)?;
        if indexes.iter().any(|index| index.is_named_by(damage)) {
            indexes.retain(|index| index.is_named_by(damage));
        }
        let (oids, filenodes): (Vec<_>, Vec<_>) = indexes
            .iter()
            .map(|index| (index.oid, index.filenode))
            .unzip();
        execute(
            "INSERT INTO rag.index_damage (collection, index, filenode, problem)
             SELECT $1, n.index, n.filenode, $4
             FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3)) AS n (index, filenode)
             WHERE NOT EXISTS (SELECT FROM rag.index_damage d WHERE d.index = n.index AND d.filenode = n.filenode)",
            &[collection.name.as_str().into(), oids.into(), filenodes.into(), damage.message.as_str().into()],
        )?;
        Ok(())
    })
}

/// Runs a write in a subtransaction. Where it meets a damaged index, rebuilds that and runs it
/// again.
///
/// # Errors
/// What the write returned; that of damage which could not be repaired names the collection.
pub fn healing<R>(
    collection: &Collection,
    mut write: impl FnMut() -> Result<R, Error>,
) -> Result<R, Error> {
    match subtransaction(&mut write) {
        Err(error) if is_corruption(&error) => {
            let repaired = subtransaction(|| repair(collection, &error, Writers::LeaveToNext))
                .unwrap_or(false);
            if repaired {
                write()
            } else {
                Err(explained(collection, error))
            }
        }
        result => result,
    }
}

/// Rebuilds the indexes that an error names. Returns false if there are none, or they are in use.
///
/// # Errors
/// An index cannot be rebuilt: the table is damaged, too.
pub fn repair(collection: &Collection, damage: &Error, writers: Writers) -> Result<bool, Error> {
    as_owner(|| {
        let mut indexes = fresh(|| indexes(collection))?;
        indexes.retain(|index| index.is_named_by(damage));
        let repaired = rebuild(&indexes, writers)?;
        Ok(repaired && !indexes.is_empty())
    })
}

/// Rebuilds the indexes of a collection that statements have found damaged. It waits for writers,
/// and so is for a transaction that has written nothing.
///
/// # Errors
/// An index cannot be rebuilt.
pub fn repair_known(collection: &Collection) -> Result<(), Error> {
    as_owner(|| {
        let noted = query(
            "SELECT index, filenode FROM rag.index_damage WHERE collection = $1",
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
        rebuild(&indexes, Writers::WaitFor)?;
        execute(
            "DELETE FROM rag.index_damage WHERE collection = $1",
            &[collection.name.as_str().into()],
        )?;
        Ok(())
    })
}

/// Returns false if one of them is in use, and nobody is to be waited for.
fn rebuild(indexes: &[Index], writers: Writers) -> Result<bool, Error> {
    for index in indexes {
        // SAFETY: OIDs of relations; locks are held until the transaction ends. The table comes
        // first, as everywhere.
        let free = writers == Writers::WaitFor
            || unsafe {
                let table = pg_sys::IndexGetRelation(index.oid, true);
                pg_sys::ConditionalLockRelationOid(table, pg_sys::ShareLock as pg_sys::LOCKMODE)
                    && pg_sys::ConditionalLockRelationOid(
                        index.oid,
                        pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE,
                    )
            };
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
