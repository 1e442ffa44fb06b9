//! The hook with which the planner asks for further paths of a relation.
#![allow(unsafe_code)] // the planner's nodes

use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

/// Adds paths of a relation. It is called with nodes of the planner.
pub type AddPaths = unsafe fn(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
);

static ADD_PATHS: OnceLock<AddPaths> = OnceLock::new();
static NEXT: OnceLock<pg_sys::set_rel_pathlist_hook_type> = OnceLock::new();

/// Registers a callback for each relation that the planner has made paths for. Called while the
/// library is loaded.
pub fn watch_paths(callback: AddPaths) {
    // SAFETY: a variable of the process, set while the library is being loaded.
    unsafe {
        if ADD_PATHS.set(callback).is_ok() && NEXT.set(pg_sys::set_rel_pathlist_hook).is_ok() {
            pg_sys::set_rel_pathlist_hook = Some(paths_made);
        }
    }
}

/// An ERROR of the next hook leaps over this frame, which has nothing to drop.
unsafe extern "C-unwind" fn paths_made(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    number: pg_sys::Index,
    entry: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: as the planner calls it.
    unsafe {
        if let Some(Some(next)) = NEXT.get() {
            next(root, relation, number, entry);
        }
        add_paths(root, relation, entry);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn add_paths(
    root: *mut pg_sys::PlannerInfo,
    relation: *mut pg_sys::RelOptInfo,
    entry: *mut pg_sys::RangeTblEntry,
) {
    if let Some(callback) = ADD_PATHS.get() {
        // SAFETY: as the planner calls it.
        unsafe { callback(root, relation, entry) };
    }
}
