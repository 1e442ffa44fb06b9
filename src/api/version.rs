//! The version of the library, for `rag_status()` and for install and upgrade scripts.

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};

use crate::pg::version;

#[pg_extern(sql = false)]
fn library_version() -> &'static str {
    version::LIBRARY
}

/// Refuses a script of a newer version than the loaded library.
#[pg_extern(sql = false)]
fn require_library() -> Result<(), ErrorReport> {
    Ok(version::require_library()?)
}
