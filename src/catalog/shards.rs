//! Where `rag.chunks` is distributed over servers by Citus: by what, over how many shards, and
//! whether this server is the coordinator. Citus has that in its catalog. Without Citus nothing is
//! read.

use std::cell::Cell;

use pgrx::{PgSqlErrorCode, pg_sys, spi::quote_literal};

use super::partitions::Partition;
use crate::{
    error::Error,
    pg::{
        lookup,
        process::with_settings,
        spi::{OwnerRights, as_owner},
        transaction::transaction_start,
    },
};

/// What says which shard a chunk is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Each collection is on all nodes.
    ByDocument,
    /// Each collection is on one node.
    ByCollection,
}

impl Distribution {
    const ALL: [Self; 2] = [Self::ByDocument, Self::ByCollection];

    fn of(column: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.column() == column)
    }

    /// Returns the column of `rag.chunks`.
    pub fn column(self) -> &'static str {
        match self {
            Self::ByDocument => "document_id",
            Self::ByCollection => "collection",
        }
    }
}

/// Returns true if the database has the catalog of Citus.
pub fn has_citus() -> bool {
    let catalog = pg_sys::Oid::from(pg_sys::PG_CATALOG_NAMESPACE);
    lookup::relation(c"pg_dist_partition", catalog).is_some()
}

/// Returns by what `rag.chunks` is distributed, or `None` if it is not.
///
/// # Errors
/// A statement fails.
pub fn distribution() -> Result<Option<Distribution>, Error> {
    if !has_citus() {
        return Ok(None);
    }
    let found = as_owner(|owner| {
        owner.query_prepared(
            "SELECT column_to_column_name(logicalrelid, partkey) AS by_column
             FROM pg_dist_partition WHERE logicalrelid = 'rag.chunks'::regclass",
            &[],
            |row| row.get::<String>("by_column"),
        )
    })?;
    let column = found.into_iter().flatten().next();
    Ok(column.and_then(|column| Distribution::of(&column)))
}

/// Returns true if chunks are distributed.
///
/// # Errors
/// A statement fails.
pub fn is_distributed() -> Result<bool, Error> {
    Ok(distribution()?.is_some())
}

/// Returns true if the rows of a table of this server are on shards.
///
/// # Errors
/// A statement fails.
pub fn is_distributed_relation(table: pg_sys::Oid) -> Result<bool, Error> {
    if !has_citus() {
        return Ok(false);
    }
    let found = as_owner(|owner| {
        owner.query_prepared(
            "SELECT FROM pg_dist_partition WHERE logicalrelid = $1",
            &[table.into()],
            |_| Ok(()),
        )
    })?;
    Ok(!found.is_empty())
}

/// Returns true on a server that has shards for another one, the coordinator.
///
/// # Errors
/// A statement fails.
pub fn is_worker() -> Result<bool, Error> {
    if !has_citus() {
        return Ok(false);
    }
    let found = as_owner(|owner| {
        owner.query_prepared(
            "SELECT groupid <> 0 AS is_worker FROM pg_dist_local_group",
            &[],
            |row| row.required::<bool>("is_worker"),
        )
    })?;
    Ok(found.contains(&true) && is_distributed()?)
}

/// # Errors
/// This server is a worker, which has chunks only.
pub fn require_coordinator() -> Result<(), Error> {
    if !is_worker()? {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "this server has a part of the chunks only",
    )
    .detail("Collections, documents and sources are on the coordinator of its Citus cluster.")
    .hint(
        "Connect to the coordinator. Where Citus itself has sent the statement to a worker, \
         because a subquery reads rag.chunks, write that subquery as WITH q AS MATERIALIZED (...).",
    ))
}

/// What tells whether the same shards may have chunks of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardsOfPartition {
    pub distribution: Distribution,
    /// Number of shards of `rag.chunks`.
    shards: usize,
    /// Number of collections of the partition.
    collections: usize,
}

impl ShardsOfPartition {
    /// Returns how many of the shards may have chunks, at most.
    pub fn most(self) -> usize {
        match self.distribution {
            Distribution::ByDocument => self.shards,
            Distribution::ByCollection => self.shards.min(self.collections),
        }
    }
}

/// Returns the shards of a partition.
///
/// # Errors
/// Chunks are not distributed, or a statement fails.
pub fn of_partition(partition: &Partition) -> Result<ShardsOfPartition, Error> {
    let found = as_owner(|owner| {
        owner.query_prepared(
            "SELECT column_to_column_name(p.logicalrelid, p.partkey) AS by_column,
                    (SELECT count(*) FROM pg_dist_shard s
                     WHERE s.logicalrelid = p.logicalrelid) AS shards,
                    (SELECT count(*) FROM rag_internal.collection k
                     WHERE k.partition = $1) AS collections
             FROM pg_dist_partition p WHERE p.logicalrelid = 'rag.chunks'::regclass",
            &[partition.name().into()],
            |row| {
                let column: Option<String> = row.get("by_column")?;
                let shards: i64 = row.required("shards")?;
                let collections: i64 = row.required("collections")?;
                let distribution = column.and_then(|column| Distribution::of(&column));
                Ok(distribution.map(|distribution| ShardsOfPartition {
                    distribution,
                    shards: shards as usize,
                    collections: collections as usize,
                }))
            },
        )
    })?;
    let found = found.into_iter().flatten().next();
    found.ok_or_else(|| Error::internal("chunks are not distributed any more"))
}

thread_local! {
    /// The start of the last transaction that all servers commit together.
    static TOGETHER: Cell<i64> = const { Cell::new(0) };
}

/// Number of values among which two of different shards are looked for.
const CANDIDATES: i64 = 40;

/// Makes this server and those with shards commit the transaction together, or not at all.
///
/// Citus does that for statements that write to several shards. What is written to one shard it
/// commits before this server has committed: if that fails, there would be chunks without a
/// document. So a statement names two shards, in which it finds nothing.
///
/// # Errors
/// A statement fails.
pub fn commit_together(owner: &OwnerRights, partition: &Partition) -> Result<(), Error> {
    let started = transaction_start();
    if TOGETHER.get() == started || !has_citus() || partition.oid().is_none() {
        return Ok(());
    }
    let Some(distribution) = distribution()? else {
        return Ok(());
    };
    let (key, column) = match distribution {
        Distribution::ByDocument => ("md5(i::text)::uuid", "document_id"),
        Distribution::ByCollection => ("' ' || i", "collection"),
    };
    let keys = owner.query(
        &format!(
            "SELECT min(k.key::text) AS key FROM (
                 SELECT {key} AS key FROM generate_series(1, $1) AS i) AS k
             CROSS JOIN LATERAL
                 get_shard_id_for_distribution_column('rag.chunks', k.key) AS s (shard)
             GROUP BY s.shard LIMIT 2"
        ),
        &[CANDIDATES.into()],
        |row| row.required::<String>("key").map(|key| quote_literal(&key)),
    )?;
    // the statement writes nothing that others could wait for in another order
    let settings = [(c"citus.enable_deadlock_prevention", c"off")];
    with_settings(&settings, || {
        owner.execute(
            &format!(
                "DELETE FROM {} WHERE {column} IN ({})
                     AND chunk_id = '00000000-0000-0000-0000-000000000000'",
                partition.qualified(),
                keys.join(", ")
            ),
            &[],
        )
    })?;
    TOGETHER.set(started);
    Ok(())
}

/// Returns the hosts and ports of the other servers.
///
/// # Errors
/// A statement fails.
pub fn workers() -> Result<Vec<(String, i32)>, Error> {
    as_owner(|owner| {
        owner.query(
            "SELECT nodename, nodeport FROM pg_dist_node
             WHERE noderole = 'primary' AND isactive AND groupid <> 0 ORDER BY nodeid",
            &[],
            |row| Ok((row.required("nodename")?, row.required("nodeport")?)),
        )
    })
}

/// Runs a statement on each of some servers, at the same time. It returns one text, or the error.
///
/// # Errors
/// Citus fails.
pub fn run_on_workers(
    hosts: Vec<&str>,
    ports: Vec<i32>,
    statements: Vec<String>,
) -> Result<Vec<Result<String, String>>, Error> {
    as_owner(|owner| {
        owner.execute_returning(
            "SELECT success, result FROM master_run_on_worker($1, $2, $3, true)",
            &[hosts.into(), ports.into(), statements.into()],
            |row| {
                let result: String = row.get("result")?.unwrap_or_default();
                let success: bool = row.required("success")?;
                Ok(if success { Ok(result) } else { Err(result) })
            },
        )
    })
}
