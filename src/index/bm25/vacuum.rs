//! Vacuum: marks the documents of dead rows, and rewrites segments that have many of them.

use rag_pages::Tid;

use super::{cache, index_error};
use crate::{
    error::Error,
    index::am::{BulkDeletion, callbacks::Vacuum},
};

/// Marks the documents of dead rows.
pub fn bulk_delete(
    vacuum: &Vacuum<'_>,
    is_dead: &mut dyn FnMut(Tid) -> bool,
) -> Result<BulkDeletion, Error> {
    let index = vacuum.index();
    let opened = cache::open(index)?;
    let removal = rag_bm25::remove(&opened.vacuum_pages(index), is_dead)
        .map_err(|e| index_error(*index, e))?;
    Ok(BulkDeletion {
        removed: removal.removed,
        remaining: removal.remaining,
    })
}

/// Makes a segment of many pending documents, and merges segments.
pub fn cleanup(vacuum: &Vacuum<'_>) -> Result<(), Error> {
    let index = vacuum.index();
    let opened = cache::open(index)?;
    rag_bm25::cleanup(&opened.vacuum_pages(index)).map_err(|e| index_error(*index, e))
}
