//! Functions for `rag_status()` (`sql/status.sql`).

use pgrx::{pg_extern, pg_sys::panic::ErrorReport};

use crate::{
    cluster::{self, shared},
    settings,
};

#[pg_extern(sql = false)]
fn is_preloaded() -> bool {
    shared::is_present()
}

/// Returns the name of the current model's folder, as collections store it.
#[pg_extern(sql = false)]
fn present_model() -> Result<Option<String>, ErrorReport> {
    let dir = settings::model(None)?.dir;
    let dir = dir.canonicalize().unwrap_or(dir);
    Ok(dir
        .file_name()
        .map(|name| name.to_string_lossy().into_owned()))
}

/// Returns the reason that no scheduler runs, for the views.
#[pgrx::pg_extern(sql = false)]
fn rag_why_idle() -> Option<&'static str> {
    cluster::why_idle()
}
