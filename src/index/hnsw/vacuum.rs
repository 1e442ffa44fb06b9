//! Vacuum: rows that are dead leave the index, and the graph is repaired where many have.

use std::ffi::c_void;

use pgrx::{pg_guard, pg_sys};
use rag_ann::hnsw::{self, Counts, Tid};

use super::{cache, damaged, pointer_to};

/// Share of slots whose rows are dead from which on the graph is repaired around all of them. Until
/// then they serve as steps on the way, unless they lie together: at 10 % recall is as good as
/// before, and a repair already has to touch nine in ten lists of links.
pub const MANY_TOMBSTONES: f64 = 0.15;

fn are_many(counts: Counts) -> bool {
    counts.tombstones as f64 > MANY_TOMBSTONES * (counts.nodes + counts.tombstones) as f64
}

/// `ambulkdelete`: takes out the rows that `callback` says are dead. Where none can be (CREATE
/// INDEX CONCURRENTLY asks in this way which rows are indexed) nothing is changed.
#[pg_guard]
pub unsafe extern "C-unwind" fn bulk_delete(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    callback: pg_sys::IndexBulkDeleteCallback,
    callback_state: *mut c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: Postgres's promises; the callback may raise an ERROR, as it may have to write what it
    // is told into a file.
    unsafe {
        let index = (*info).index;
        let file = cache::open(index).unwrap_or_else(|error| error.raise());
        let (pages, ordered) = file.pages_of_vacuum(index, (*info).strategy);
        let stats = or_new(stats);
        let Some(callback) = callback else {
            return stats;
        };
        let mut is_dead = |tid: Tid| {
            let mut pointer = pointer_to(tid);
            pg_sys::ffi::pg_guard_ffi_boundary(|| callback(&mut pointer, callback_state))
        };
        let removal = hnsw::remove(&file.index, &ordered, &pages, &mut is_dead);
        let removal = removal.unwrap_or_else(|damage| damaged(index, damage).raise());
        (*stats).estimated_count = false;
        (*stats).num_index_tuples = removal.remaining as f64;
        (*stats).tuples_removed += removal.removed as f64;
        stats
    }
}

/// `amvacuumcleanup`: repairs the graph if rows were taken out.
#[pg_guard]
pub unsafe extern "C-unwind" fn cleanup(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    // SAFETY: Postgres's promises.
    unsafe {
        if (*info).analyze_only {
            return stats;
        }
        let index = (*info).index;
        let file = cache::open(index).unwrap_or_else(|error| error.raise());
        let (pages, ordered) = file.pages_of_vacuum(index, (*info).strategy);
        // As noted by the last vacuum that took rows out, which need not be this one: it may have
        // been stopped.
        let counts = hnsw::counts(&pages).unwrap_or_else(|damage| damaged(index, damage).raise());
        if counts.repair_due || are_many(counts) {
            let repaired = hnsw::repair(&file.index, &ordered, &pages, MANY_TOMBSTONES);
            repaired.unwrap_or_else(|damage| damaged(index, damage).raise());
        }
        if stats.is_null() {
            return stats; // no row was taken out
        }
        (*stats).num_pages = rag_pages::ReadPages::block_count(&pages);
        stats
    }
}

/// # Safety
/// Null or Postgres's.
unsafe fn or_new(stats: *mut pg_sys::IndexBulkDeleteResult) -> *mut pg_sys::IndexBulkDeleteResult {
    if !stats.is_null() {
        return stats;
    }
    // SAFETY: zeros are a valid value.
    unsafe { pg_sys::palloc0(size_of::<pg_sys::IndexBulkDeleteResult>()).cast() }
}
