//! Vacuum: removes dead rows from the index, and repairs the graph if there are many of them.

use rag_ann::hnsw::{self, Counts};
use rag_pages::Tid;

use super::{cache, index_error};
use crate::{
    error::Error,
    index::am::{BulkDeletion, callbacks::Vacuum},
};

/// Fraction of slots without rows (tombstones) above which the graph is repaired around all of
/// them. Below it they serve as steps of a search, unless they lie together. At 10 % recall is as
/// good as before, and a repair already has to change nine in ten lists of links.
pub const MAX_TOMBSTONES: f64 = 0.15;

fn has_too_many_tombstones(counts: Counts) -> bool {
    counts.tombstones as f64 > MAX_TOMBSTONES * (counts.nodes + counts.tombstones) as f64
}

/// Removes dead rows. Changes nothing if there are none.
pub fn bulk_delete(
    vacuum: &Vacuum<'_>,
    is_dead: &mut dyn FnMut(Tid) -> bool,
) -> Result<BulkDeletion, Error> {
    let index = vacuum.index();
    let opened = cache::open(index)?;
    let (pages, ordered) = opened.vacuum_pages(vacuum);
    let removal = hnsw::remove(&opened.graph, &ordered, &pages, is_dead)
        .map_err(|e| index_error(*index, e))?;
    Ok(BulkDeletion {
        removed: removal.removed,
        remaining: removal.remaining,
    })
}

/// Repairs the graph if many rows were removed since the last repair. The vacuum that removed them
/// may have been an earlier one, which was stopped. A repair also forgets the dimensions of vectors
/// that were rolled back before they were written.
pub fn cleanup(vacuum: &Vacuum<'_>) -> Result<(), Error> {
    let index = vacuum.index();
    let opened = cache::open(index)?;
    let (pages, ordered) = opened.vacuum_pages(vacuum);
    let counts = hnsw::counts(&pages).map_err(|e| index_error(*index, e))?;
    if counts.repair_due || counts.lacks_vectors || has_too_many_tombstones(counts) {
        hnsw::repair(&opened.graph, &ordered, &pages, MAX_TOMBSTONES)
            .map_err(|e| index_error(*index, e))?;
    }
    Ok(())
}
