//! Functions for `rag_status()` (`sql/status.sql`).

use pgrx::{iter::TableIterator, name, pg_extern, pg_sys::panic::ErrorReport};

use crate::{
    cluster::{self, shared},
    pg::{process, roles, version},
    settings,
    storage::outbox::removals,
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
fn rag_why_idle() -> Option<String> {
    if let Err(error) = version::require_equal() {
        return Some(error.message);
    }
    if process::is_in_recovery() {
        Some("the server is a standby: sources are synced on its primary".to_string())
    } else {
        cluster::why_idle().map(String::from)
    }
}

/// What former servers could not delete, for `rag_status()`.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)] // the columns of the result
fn failed_removals() -> Result<
    TableIterator<
        'static,
        (
            name!(collection, String),
            name!(retriever, String),
            name!(url, String),
            name!(error, String),
        ),
    >,
    ErrorReport,
> {
    let mut found = removals::failed(None)?;
    found.retain(|failed| roles::may_act_for(roles::current(), failed.owner));
    let rows = found.into_iter();
    Ok(TableIterator::new(rows.map(|one| {
        (one.collection, one.retriever, one.url, one.error)
    })))
}
