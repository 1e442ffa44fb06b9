//! The indexes of a collection's partition that it has once they pay: on the embeddings, and on
//! what filters ask for.

use std::ffi::CString;

use pgrx::{PgRelation, pg_sys};

use super::collections::Collection;
use crate::{
    error::Error,
    pg::{
        security::as_owner,
        snapshot::fresh,
        spi::{execute, query},
    },
};

/// Chunks from which on a collection is indexed: below, reading all of them takes about a
/// millisecond.
const INDEXED_FROM: i64 = 3_000;
/// Bytes of a partition that cannot hold as many: such are not counted.
const SMALL: i64 = INDEXED_FROM * 1500;

/// Who waits where the partition is being written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// This transaction, which has written nothing and so keeps nobody waiting.
    WaitFor,
    /// Nobody: this transaction may have written itself, and so may those it would wait for be
    /// waiting for it. The next one will do it.
    LeaveToNext,
}

/// Whether the collection has its index, as of this moment. Every search asks: it is looked up in
/// the relation cache, where planning a statement would take as long as a search.
#[allow(unsafe_code)]
pub fn exists(collection: &Collection) -> bool {
    let Ok(name) = CString::new(collection.partition_name()) else {
        return false;
    };
    // SAFETY: look-ups in the system caches; relations are opened under a lock, and closed.
    unsafe {
        let partition = pg_sys::get_relname_relid(name.as_ptr(), crate::pg::extension::schema());
        let method = pg_sys::get_am_oid(c"rag_hnsw".as_ptr(), true);
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        partition != pg_sys::InvalidOid
            && PgRelation::with_lock(partition, lock)
                .indices(lock)
                .any(|index| {
                    (*index.rd_rel).relam == method
                        && (*index.rd_index).indisvalid
                        && pg_sys::RelationGetIndexPredicate(index.as_ptr()).is_null()
                })
    }
}

/// Makes the indexes that the collection has not and that pay now that it has so many chunks: on
/// the embeddings if its retriever wants that, and on what filters ask for. They are built from all
/// that is there, which is several times faster than to keep them up from the first chunk.
///
/// # Errors
/// A statement fails.
pub fn make_if_it_pays(collection: &Collection, writers: Writers) -> Result<(), Error> {
    as_owner(|| {
        if missing(collection)?.is_empty() {
            return Ok(());
        }
        // Two that come to this at once must not both make one.
        if !lock(collection, writers)? {
            return Ok(());
        }
        let missing = fresh(|| missing(collection))?;
        for index in &missing {
            execute(
                &format!("CREATE INDEX ON {} {index}", collection.partition()),
                &[],
            )?;
        }
        if !missing.is_empty() {
            // without statistics the planner takes a filter, and the collection itself, for a few
            // rows, and sorts them
            execute(&format!("ANALYZE {}", collection.partition()), &[])?;
        }
        Ok(())
    })
}

/// What filters ask for by equality or containment, and the index that answers it. Rows without a
/// value are not in it: no such condition is true of them.
const FILTERED: [(&str, &str); 4] = [
    (
        "knowledge_id",
        "(knowledge_id) WHERE knowledge_id IS NOT NULL",
    ),
    ("category", "(category) WHERE category IS NOT NULL"),
    ("tags", "USING gin (tags) WHERE tags IS NOT NULL"),
    ("metadata", "USING gin (metadata jsonb_path_ops)"),
];

/// Returns what follows `CREATE INDEX ON ...` for each index that the collection should have and
/// has not.
fn missing(collection: &Collection) -> Result<Vec<String>, Error> {
    let found = query(
        "SELECT (SELECT pg_catalog.format('USING rag_hnsw (embedding %I.%I)', n.nspname, o.opcname)
                 FROM pg_catalog.pg_am AS a
                 JOIN pg_catalog.pg_opclass AS o ON o.opcmethod = a.oid AND o.opcname = 'vector_cosine_ops'
                 JOIN pg_catalog.pg_namespace AS n ON n.oid = o.opcnamespace
                 WHERE a.amname = 'rag_hnsw' AND coalesce(r.spec #>> '{storageConfig,type}', 'hnsw') = 'hnsw'),
                ARRAY(SELECT a.attname::pg_catalog.text
                      FROM pg_catalog.pg_index AS i
                      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                      WHERE i.indrelid = p.oid AND i.indisvalid)
         FROM rag.collections AS c
         JOIN rag.retrievers AS r ON r.name = c.retriever
         JOIN pg_catalog.pg_class AS p ON p.oid = pg_catalog.to_regclass($2)
         WHERE c.name = $1 AND pg_catalog.pg_relation_size(p.oid) >= $3",
        &[collection.name.as_str().into(), collection.partition().into(), SMALL.into()],
        |row| Ok((row.get::<String>(1)?, row.required::<Vec<String>>(2)?)),
    )?;
    let Some((of_embeddings, indexed)) = found.into_iter().next() else {
        return Ok(vec![]);
    };
    let mut missing: Vec<String> = of_embeddings
        .filter(|_| !exists(collection))
        .into_iter()
        .collect();
    let unindexed = FILTERED
        .iter()
        .filter(|(column, _)| !indexed.iter().any(|indexed| indexed == column));
    missing.extend(unindexed.map(|(_, index)| (*index).to_string()));
    if missing.is_empty() {
        return Ok(missing);
    }
    let enough = query(
        &format!("SELECT 1 FROM {} OFFSET $1 LIMIT 1", collection.partition()),
        &[(INDEXED_FROM - 1).into()],
        |_| Ok(()),
    )?;
    Ok(if enough.is_empty() { vec![] } else { missing })
}

/// Takes a lock on the partition that keeps out writers and others that would make the indexes.
/// Returns false if it could not.
#[allow(unsafe_code)] // there is no statement that tries without raising an error
fn lock(collection: &Collection, writers: Writers) -> Result<bool, Error> {
    let found = query(
        "SELECT pg_catalog.to_regclass($1)::oid",
        &[collection.partition().into()],
        |row| row.required::<pg_sys::Oid>(1),
    )?;
    let Some(partition) = found.into_iter().next() else {
        return Ok(false);
    };
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
