//! Who waits for whose locks.

use super::{security::pinned, spi::query};
use crate::error::Error;

/// Whether a process waits for a lock of this session's, or for someone who does.
pub fn waits_for_me(process: i32) -> Result<bool, Error> {
    let found = pinned(|| {
        query(
            "WITH RECURSIVE ahead (pid) AS (
                 SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids($1))
                 UNION SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids(pid)) FROM ahead)
             SELECT EXISTS (SELECT FROM ahead WHERE pid = pg_catalog.pg_backend_pid())",
            &[process.into()],
            |row| row.required(1),
        )
    })?;
    Ok(found.into_iter().any(|waits: bool| waits))
}
