//! The index on the embeddings of a collection, which its partition has once that pays.

use std::ffi::CString;

use pgrx::{PgRelation, pg_sys};

use super::{as_owner, collections::Collection, execute, query};
use crate::error::Error;

/// Chunks from which on a collection is indexed: below, reading all of them takes about a millisecond.
const INDEXED_FROM: i64 = 3_000;
/// Bytes of a partition that cannot hold as many: such are not counted.
const SMALL: i64 = INDEXED_FROM * 1500;

/// Who waits where the partition is being written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// This transaction, which has written nothing and so keeps nobody waiting.
    WaitFor,
    /// Nobody: this transaction may have written itself, and so may those it would wait for be waiting for it. The next
    /// one will do it.
    LeaveToNext,
}

/// Whether the collection has its index, as of this moment. Every search asks: it is looked up in the relation cache, where
/// planning a statement would take as long as a search.
#[allow(unsafe_code)]
pub fn exists(collection: &Collection) -> bool {
    let Ok(name) = CString::new(collection.partition_name()) else { return false };
    // SAFETY: look-ups in the system caches; relations are opened under a lock, and closed.
    unsafe {
        let partition = pg_sys::get_relname_relid(name.as_ptr(), super::schema());
        let method = pg_sys::get_am_oid(c"rag_hnsw".as_ptr(), true);
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        partition != pg_sys::InvalidOid
            && PgRelation::with_lock(partition, lock).indices(lock).any(|index| {
                (*index.rd_rel).relam == method
                    && (*index.rd_index).indisvalid
                    && pg_sys::RelationGetIndexPredicate(index.as_ptr()).is_null()
            })
    }
}

/// Makes the index if the collection has none, its retriever wants one, and it has enough chunks for that to pay. It is
/// built from all that is there, which is several times faster than to keep one up from the first chunk.
///
/// # Errors
/// A statement fails.
pub fn make_if_it_pays(collection: &Collection, writers: Writers) -> Result<(), Error> {
    as_owner(|| {
        let Some(operators) = wanted(collection)? else { return Ok(()) };
        // Two that come to this at once must not both make one.
        if !lock(collection, writers)? || exists(collection) {
            return Ok(());
        }
        execute(&format!("CREATE INDEX ON {} USING rag_hnsw (embedding {operators})", collection.partition()), &[])?;
        Ok(())
    })
}

/// The operator class of the index that the collection should have and has not.
fn wanted(collection: &Collection) -> Result<Option<String>, Error> {
    let found: Vec<String> = query(
        "SELECT pg_catalog.format('%I.%I', n.nspname, o.opcname)
         FROM rag.collections AS c
         JOIN rag.retrievers AS r ON r.name = c.retriever
         JOIN pg_catalog.pg_am AS a ON a.amname = 'rag_hnsw'
         JOIN pg_catalog.pg_opclass AS o ON o.opcmethod = a.oid AND o.opcname = 'vector_cosine_ops'
         JOIN pg_catalog.pg_namespace AS n ON n.oid = o.opcnamespace
         WHERE c.name = $1 AND coalesce(r.spec #>> '{storageConfig,type}', 'hnsw') = 'hnsw'
             AND pg_catalog.pg_relation_size(pg_catalog.to_regclass($2)) >= $3",
        &[collection.name.as_str().into(), collection.partition().into(), SMALL.into()],
        |row| row.required(1),
    )?;
    let Some(operators) = found.into_iter().next() else { return Ok(None) };
    if exists(collection) {
        return Ok(None);
    }
    let enough = query(
        &format!("SELECT 1 FROM {} OFFSET $1 LIMIT 1", collection.partition()),
        &[(INDEXED_FROM - 1).into()],
        |_| Ok(()),
    )?;
    Ok((!enough.is_empty()).then_some(operators))
}

/// Takes a lock on the partition that keeps out writers and others that would make the index; whether it could.
#[allow(unsafe_code)] // there is no statement that tries without raising an error
fn lock(collection: &Collection, writers: Writers) -> Result<bool, Error> {
    let found = query("SELECT pg_catalog.to_regclass($1)::oid", &[collection.partition().into()], |row| {
        row.required::<pg_sys::Oid>(1)
    })?;
    let Some(partition) = found.into_iter().next() else { return Ok(false) };
    let mode = pg_sys::ShareRowExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: a relation's OID; the lock is held until the transaction ends.
    unsafe {
        match writers {
            Writers::WaitFor => {
                pg_sys::LockRelationOid(partition, mode);
                Ok(true)
            }
            Writers::LeaveToNext => Ok(pg_sys::ConditionalLockRelationOid(partition, mode)),
        }
    }
}
