//! What the planner calls for the access methods, beside the functions that each of them has.
#![allow(unsafe_code)] // the planner's nodes

use pgrx::pg_sys;

use super::{
    am::{collected, order},
    bm25::{self, Bm25},
    hnsw::{self, Hnsw},
};
use crate::pg::{executor, planner};

/// Registers the functions of this file. Called while the library is loaded.
pub fn offer() {
    bm25::filtered::register();
    bm25::counted::register();
    hnsw::adaptive::register();
    planner::watch_statements(bm25::condition::prepare);
    planner::watch_relations(relation_read);
    planner::watch_paths(paths_made);
    planner::watch_groups(bm25::counted::add_path);
    executor::watch_parallel_statements(collected::write_collected);
}

/// Called for each relation whose indexes the planner has read.
///
/// # Safety
/// The planner's state, and such a relation.
unsafe fn relation_read(root: *mut pg_sys::PlannerInfo, relation: *mut pg_sys::RelOptInfo) {
    // SAFETY: the caller's promise.
    unsafe {
        if !order::is_ordered(root) {
            for index in order::ordering_indexes::<Hnsw>(relation) {
                (*index).amcanorderbyop = false;
            }
        }
        bm25::condition::complete(root, relation);
    }
}

/// Called for each relation that the planner has made paths for.
///
/// # Safety
/// The planner's state, a relation, and its entry of the range table.
unsafe fn paths_made(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: the caller's promise. The last is added to what the others have added.
    unsafe {
        order::add_prefix_paths::<Hnsw>(root, relation);
        order::add_prefix_paths::<Bm25>(root, relation);
        bm25::descending::add_paths(root, relation);
        bm25::bitmap::add_paths(root, relation);
        bm25::filtered::add_path(root, relation, entry);
        hnsw::adaptive::add_paths(root, relation, entry);
    }
}
