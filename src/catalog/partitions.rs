//! The partitions of `rag.chunks`: each holds the chunks of one collection, or of several.
//!
//! `rag.chunks` is partitioned by the name of the partition, so that a collection can join one that
//! exists. `rag_internal.collection.partition` says which one a collection is in. It is NULL until
//! the first document is stored.
//!
//! A statement reads or writes only one partition if it has [`Partition::rows`] as its condition.
//! The room `collection` chooses the partition of a collection, and creates and drops partitions.
//!
//! **Locks.** A transaction that writes chunks locks the row of the collection FOR KEY SHARE before
//! it reads the name of the partition ([`of_writer`]). A transaction that moves a collection to
//! another partition must lock that row FOR UPDATE first: then no writer uses the former name.
//!
//! Nobody queues for such a row lock: there would always be another writer. And a writer that waits
//! for it may have read `rag.chunks`, or written documents, which the moving transaction waits for.
//! So each writer [joins the queue](join_writers) of another lock before that.

use std::ffi::CString;

use pgrx::{pg_sys, spi::quote_literal};
use rag_definition::collection::Layout;

use super::{
    collections::{DEFINITION_OF_CHUNKS, read_definition},
    retrievers, shards,
};
use crate::{
    error::Error,
    pg::{
        extension,
        lock::Lock,
        lookup,
        spi::{OwnerRights, as_owner},
    },
};

/// A partition of `rag.chunks`, by the name of its relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition(String);

impl Partition {
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    pub fn quoted_name(&self) -> String {
        pgrx::spi::quote_identifier(&self.0)
    }

    /// Returns the qualified and quoted name.
    pub fn qualified(&self) -> String {
        pgrx::spi::quote_qualified_identifier("rag_internal", &self.0)
    }

    /// Returns the relation, if it exists now.
    pub fn oid(&self) -> Option<pg_sys::Oid> {
        // the session may have waited for the row of the collection since it last read the catalogs
        lookup::accept_changes();
        extension::internal_relation(&CString::new(self.0.as_str()).ok()?)
    }

    /// Returns the condition that selects the rows of a collection. `alias` is the table's with a
    /// dot, or empty. Both names are literals: a plan that is kept is for one partition. With
    /// parameters it would be for all of them.
    pub fn rows(&self, collection: &str, alias: &str) -> String {
        format!(
            "{alias}partition = {} AND {alias}collection = {}",
            quote_literal(&self.0),
            quote_literal(collection)
        )
    }

    /// Returns the condition for a collection that may have no partition yet, and then no rows.
    pub fn rows_of(partition: Option<&Self>, collection: &str, alias: &str) -> String {
        match partition {
            Some(partition) => partition.rows(collection, alias),
            None => format!("{alias}partition = NULL::text"),
        }
    }
}

/// Returns the name, or one made from it, of which there is no relation. It has ASCII characters
/// only, and is shortened to the length of an identifier.
///
/// # Errors
/// A statement fails.
pub fn free_name(owner: &OwnerRights, name: &str) -> Result<Partition, Error> {
    let found = owner.query(
        "SELECT n.name FROM generate_series(0, 1000) AS i,
             LATERAL (SELECT CASE i WHEN 0 THEN left($1, 63) ELSE
                          left($1, 63 - 2 - length(i::text))
                          || '_r' || i END) AS n (name)
         WHERE to_regclass(format('rag_internal.%I', n.name)) IS NULL
         ORDER BY i LIMIT 1",
        &[name.into()],
        |row| row.required::<String>("name"),
    )?;
    let free = found.into_iter().next().map(Partition);
    free.ok_or_else(|| Error::internal("no name of a partition is free"))
}

/// Returns the partition of a collection as the current statement sees it.
pub fn of(collection: &str) -> Result<Option<Partition>, Error> {
    let found = as_owner(|owner| {
        owner.query_prepared(
            "SELECT partition FROM rag_internal.collection WHERE name = $1",
            &[collection.into()],
            |row| row.get::<String>("partition"),
        )
    })?;
    Ok(found.into_iter().flatten().next().map(Partition))
}

/// Waits until nobody moves a collection to another partition, and keeps it there until the
/// transaction ends. For transactions that are going to write.
pub fn join_writers(collection: &str) {
    Lock::writers(collection).acquire_shared_for_transaction();
}

/// Waits for all writers of a collection, and keeps others out until the transaction ends.
pub fn exclude_writers(owner: &OwnerRights, collection: &str) -> Result<(), Error> {
    Lock::writers(collection).acquire_for_transaction();
    owner.execute(
        "SELECT FROM rag_internal.collection WHERE name = $1 FOR UPDATE",
        &[collection.into()],
    )?;
    Ok(())
}

/// Returns the partition of a collection as it is now. It stays the same until the transaction
/// ends. For statements that write chunks.
pub fn of_writer(owner: &OwnerRights, collection: &str) -> Result<Option<Partition>, Error> {
    join_writers(collection);
    let found = owner.execute_prepared(
        "SELECT partition FROM rag_internal.collection WHERE name = $1 FOR KEY SHARE",
        &[collection.into()],
        |row| row.get::<String>("partition"),
    )?;
    let partition = found.into_iter().flatten().next().map(Partition);
    if let Some(partition) = &partition {
        shards::commit_together(owner, partition)?;
    }
    Ok(partition)
}

/// Returns the condition that selects the rows of a collection, for statements that write. See
/// [`of_writer`] and [`Partition::rows`].
pub fn rows_of_writer(owner: &OwnerRights, collection: &str, alias: &str) -> Result<String, Error> {
    let partition = of_writer(owner, collection)?;
    Ok(Partition::rows_of(partition.as_ref(), collection, alias))
}

/// Keeps out others that create, join or drop partitions, until the transaction ends. Searches and
/// writers of documents go on.
pub fn lock_all(owner: &OwnerRights) -> Result<(), Error> {
    // ONLY: a VACUUM of some partition does not matter
    owner.execute(
        "LOCK TABLE ONLY rag.chunks IN SHARE UPDATE EXCLUSIVE MODE",
        &[],
    )?;
    Ok(())
}

/// Returns the partition of a collection that has no chunks yet, as it is now. The row lock
/// serializes two first writers. They have locked the row FOR KEY SHARE before, so a stronger lock
/// would make them wait for each other.
pub fn of_first_writer(owner: &OwnerRights, collection: &str) -> Result<Option<Partition>, Error> {
    let found = owner.execute_prepared(
        "SELECT partition FROM rag_internal.collection WHERE name = $1 FOR NO KEY UPDATE",
        &[collection.into()],
        |row| row.get::<String>("partition"),
    )?;
    Ok(found.into_iter().flatten().next().map(Partition))
}

/// A collection among those of a partition, as far as its index is made of it.
pub struct Member {
    /// The mode of the strategy that chose the partition.
    pub mode: String,
    pub layout: Layout,
    pub dimensions: Option<i32>,
}

/// Returns what the other collections are like whose chunks are in a partition, each kind once.
pub fn others(
    owner: &OwnerRights,
    name: &str,
    partition: &Partition,
) -> Result<Vec<Member>, Error> {
    owner.execute_returning(
        &format!(
            "SELECT DISTINCT c.index_strategy, c.embedding_dimension, c.retriever, r.spec,
                             {} AS definition
             FROM rag_internal.collection c JOIN rag_internal.retriever r ON r.name = c.retriever
             WHERE c.partition = $1 AND c.name <> $2",
            *DEFINITION_OF_CHUNKS
        ),
        &[partition.name().into(), name.into()],
        |row| {
            let spec = row.required::<pgrx::JsonB>("spec")?.0;
            let retriever = retrievers::definition(&row.required::<String>("retriever")?, &spec)?;
            Ok(Member {
                mode: row.required("index_strategy")?,
                layout: read_definition(&row)?.layout(&retriever),
                dimensions: row.get("embedding_dimension")?,
            })
        },
    )
}

/// Records that a collection has no partition.
pub fn forget(owner: &OwnerRights, collection: &str) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.collection SET partition = NULL, index_strategy = NULL
         WHERE name = $1",
        &[collection.into()],
    )?;
    Ok(())
}

/// Records the partition of a collection, and the mode of the strategy that chose it.
pub fn set(
    owner: &OwnerRights,
    collection: &str,
    partition: &Partition,
    mode: &str,
) -> Result<(), Error> {
    owner.execute(
        "UPDATE rag_internal.collection
         SET partition = $2, index_strategy = $3, updated_at = now()
         WHERE name = $1 AND (partition, index_strategy) IS DISTINCT FROM ($2, $3)",
        &[collection.into(), partition.name().into(), mode.into()],
    )?;
    Ok(())
}
