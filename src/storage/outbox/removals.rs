//! `rag_internal.storage_removal`: what servers have to delete.

use std::time::Duration;

use pgrx::{JsonB, pg_sys};
use serde_json::Value;

use super::changes::{BLOCKS, MAX_DELAY, index_name};
use crate::{catalog::partitions::Partition, error::Error, pg::spi::as_owner};

/// Records that a server could not delete what it has to delete. It is tried
/// again after a time that doubles.
pub fn delay(removal: i64, error: &str, asked: Option<Duration>) -> Result<(), Error> {
    let asked = asked.map_or(0.0, |asked| asked.as_secs_f64());
    as_owner(|owner| {
        owner.execute(
            "UPDATE rag_internal.storage_removal AS r SET
                 attempts = r.attempts + 1,
                 retry_at = clock_timestamp() + make_interval(secs =>
                     greatest($3, least($4, pow(2.0, least(r.attempts, 20))))),
                 error = $2
             WHERE r.removal = $1",
            &[removal.into(), error.into(), asked.into(), MAX_DELAY.into()],
        )?;
        Ok(())
    })
}

/// What a server has to delete.
pub struct Removal {
    pub removal: i64,
    pub retriever: String,
    pub spec: Value,
    pub owner: pg_sys::Oid,
    pub index: String,
    pub collection: String,
    /// No collection uses the index any more.
    pub is_whole: bool,
    /// It has to be done before changes of the collection are written.
    pub blocks: bool,
}

/// Returns what the server of a collection has to delete, of transactions that have committed.
pub fn of(collection: &str) -> Result<Vec<Removal>, Error> {
    as_owner(|owner| {
        owner.query(
            &format!(
                "SELECT removal, retriever, spec, owner_id, partition, collection,
                        NOT EXISTS (SELECT FROM rag_internal.collection c
                                    WHERE c.partition = r.partition) AS is_whole,
                        {BLOCKS} AS blocks
                 FROM rag_internal.storage_removal r
                 WHERE collection = $1
                   AND changed_by IS DISTINCT FROM pg_current_xact_id_if_assigned()
                 ORDER BY removal"
            ),
            &[collection.into()],
            |row| {
                Ok(Removal {
                    removal: row.required("removal")?,
                    retriever: row.required("retriever")?,
                    spec: row.required::<JsonB>("spec")?.0,
                    owner: row.required("owner_id")?,
                    index: index_name(&Partition::new(row.required::<String>("partition")?)),
                    collection: row.required("collection")?,
                    is_whole: row.required("is_whole")?,
                    blocks: row.required("blocks")?,
                })
            },
        )
    })
}

/// A server that could not delete what it has to delete.
pub struct FailedRemoval {
    pub removal: i64,
    pub collection: String,
    pub retriever: String,
    pub owner: pg_sys::Oid,
    pub url: String,
    pub error: String,
}

/// Returns what servers could not delete, of one collection or of all.
pub fn failed(collection: Option<&str>) -> Result<Vec<FailedRemoval>, Error> {
    as_owner(|owner| {
        owner.query(
            "SELECT removal, collection, retriever, owner_id,
                    server_url, error
             FROM rag_internal.storage_removal
             WHERE error IS NOT NULL AND ($1 IS NULL OR collection = $1) ORDER BY removal",
            &[collection.into()],
            |row| {
                Ok(FailedRemoval {
                    removal: row.required("removal")?,
                    collection: row.required("collection")?,
                    retriever: row.required("retriever")?,
                    owner: row.required("owner_id")?,
                    url: row.required("server_url")?,
                    error: row.required("error")?,
                })
            },
        )
    })
}

pub fn done(removal: i64) -> Result<(), Error> {
    as_owner(|owner| {
        owner.execute(
            "DELETE FROM rag_internal.storage_removal WHERE removal = $1",
            &[removal.into()],
        )
    })?;
    Ok(())
}
