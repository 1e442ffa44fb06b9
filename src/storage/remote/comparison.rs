//! Compares a collection with its copy on a server.

use super::replication::can_go_on;
use crate::{
    catalog::collections::Collection,
    error::Error,
    pg::transaction::with_latest_snapshot,
    storage::{Storage, outbox::changes as stored},
};

/// Returns the numbers of chunks here and at the server of a collection, if they differ although
/// no change is pending. Returns None if the server cannot be asked, too.
///
/// # Errors
/// A statement fails.
pub fn difference(collection: &Collection) -> Result<Option<(i64, i64)>, Error> {
    let Some(server) = Storage::of(collection).server() else {
        return Ok(None);
    };
    let mut found = None;
    // a change may have been replicated while both sides were counted
    for _ in 0..2 {
        let server_chunks = match server.count(collection) {
            Ok(count) => Some(count),
            Err(failure) if can_go_on(&failure) => None,
            Err(failure) => return Err(failure),
        };
        let (chunks, pending) = with_latest_snapshot(|| {
            let pending = stored::pending(collection.name.as_str())?;
            Ok::<_, Error>((stored::count_chunks(collection)?, pending))
        })?;
        found = server_chunks
            .filter(|server_chunks| pending == 0 && *server_chunks != chunks)
            .map(|server_chunks| (chunks, server_chunks));
        if found.is_none() {
            break;
        }
    }
    Ok(found)
}
