//! Storage on other servers: replicate what has changed.

use std::time::{Duration, Instant};

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use super::required;
use crate::{
    catalog::collections::{self, Collection},
    collection::rights::require_write,
    storage::{
        Storage,
        remote::{
            former,
            replication::{self, ReplicationReport},
        },
    },
};

/// The longest time that one call replicates, if no statement_timeout ends it before.
const MAX_TIME: Duration = Duration::from_secs(3600);

#[pg_extern(volatile)]
#[allow(clippy::type_complexity)] // the columns of the result
fn rag_sync_storage(
    collection: pgrx::default!(Option<&str>, "NULL"),
    complete: pgrx::default!(Option<bool>, "false"),
    forget: pgrx::default!(Option<bool>, "false"),
) -> Result<
    TableIterator<
        'static,
        (
            name!(collection, String),
            name!(documents_written, i64),
            name!(documents_pending, i64),
            name!(chunks, i64),
            name!(server_chunks, Option<i64>),
            name!(error, Option<String>),
        ),
    >,
    ErrorReport,
> {
    super::require_writer(c"rag_sync_storage()", "write to storage on another server")?;
    let complete = required("complete", complete)?;
    if required("forget", forget)? {
        former::forget(collection)?;
        if let Some(name) = collection
            && Collection::known_as(name)?
                .is_none_or(|found| Storage::of(&found).server().is_none())
        {
            return Ok(TableIterator::new(vec![]));
        }
    }
    let mut found = vec![];
    match collection {
        Some(name) => found.push(super::writable(Some(name))?),
        None => {
            for name in collections::with_server()? {
                let collection = Collection::get(&name)?;
                if require_write(&collection).is_ok() {
                    found.push(collection);
                }
            }
        }
    }
    let until = Instant::now() + MAX_TIME;
    let mut rows = vec![];
    for collection in &found {
        let ReplicationReport {
            documents,
            pending,
            chunks,
            server_chunks,
            error,
        } = replication::replicate_now(collection, complete, until)?;
        let name = collection.name.to_string();
        rows.push((name, documents, pending, chunks, server_chunks, error));
    }
    Ok(TableIterator::new(rows))
}
