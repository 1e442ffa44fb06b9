//! News for the workers: what a transaction has changed that they must hear of, sent when it has
//! committed.
#![allow(unsafe_code)] // a transaction callback

use std::{cell::Cell, ffi::c_void, sync::Once};

use pgrx::{
    bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime},
    pg_guard, pg_sys,
};

use super::shared;
use crate::{pg::process::database, settings};

thread_local! {
    static NEWS: Cell<News> = const { Cell::new(News::NONE) };
}

/// What this transaction is to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    /// Extensions came or went.
    pub extensions: bool,
    /// Databases came or went.
    pub databases: bool,
    /// A source of this database was made, changed or asked for.
    pub sources: bool,
    /// A source was made that is due at once, and nobody looks after it but a worker that this
    /// session starts.
    pub new_sources: bool,
    /// Triggers have noted changes of tables that sources read.
    pub changes: bool,
    /// A database is kept empty for this session.
    pub evictions: bool,
}

impl News {
    const NONE: Self = Self {
        extensions: false,
        databases: false,
        sources: false,
        new_sources: false,
        changes: false,
        evictions: false,
    };
}

pub fn note(change: impl FnOnce(&mut News)) {
    static REGISTER: Once = Once::new();
    // SAFETY: the callback stays valid as long as the library, which is never unloaded.
    REGISTER
        .call_once(|| unsafe { pg_sys::RegisterXactCallback(Some(at_end), std::ptr::null_mut()) });
    NEWS.with(|news| {
        let mut noted = news.get();
        change(&mut noted);
        news.set(noted);
    });
}

thread_local! {
    /// Whether this process is a worker whose changes of sources are nobody's news.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Has nobody told of what this process changes: a scheduler knows, and the end of a runner is news
/// itself.
pub fn tell_nobody() {
    IS_WORKER.set(true);
}

/// A scheduler looks at the sources of this database once the present transaction has committed.
pub fn wake_scheduler_at_commit() {
    if shared::is_present() && !IS_WORKER.get() {
        note(|news| news.sources = true);
    }
}

/// Has sources that are due because they were made or altered synced once the present transaction
/// has committed, where no launcher would do that.
pub fn start_new_at_commit() {
    if !shared::is_present() && settings::scheduler() && !IS_WORKER.get() {
        note(|news| news.new_sources = true);
    }
}

/// Has the changes of tables that triggers have noted synced soon after the present transaction has
/// committed.
pub fn sync_changes_at_commit() {
    if shared::is_present() {
        note(|news| news.changes = true);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_rag_source_changed() -> &'static pg_sys::Pg_finfo_record {
    const V1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &V1
}

/// The trigger of `rag.source` that tells the scheduler of every change, whoever makes it: a dump
/// that is restored, say.
///
/// # Safety
/// Called by Postgres.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rag_source_changed(
    _call: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    wake_scheduler_at_commit();
    pg_sys::Datum::null()
}

#[pg_guard]
unsafe extern "C-unwind" fn at_end(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PREPARE};
    if !matches!(
        event,
        XACT_EVENT_COMMIT | XACT_EVENT_ABORT | XACT_EVENT_PREPARE
    ) {
        return;
    }
    let news = NEWS.replace(News::NONE);
    if news == News::NONE {
        return;
    }
    if news.evictions {
        shared::end_evictions();
    }
    if event != XACT_EVENT_COMMIT {
        return;
    }
    if news.extensions {
        shared::tell_launcher(Some(database()));
    } else if news.databases {
        shared::tell_launcher(None);
    }
    if news.extensions || news.sources {
        shared::wake_scheduler();
    }
    if news.changes {
        shared::note_changes();
    }
    if news.new_sources && !start_once() {
        pgrx::warning!(
            "new sources are not synced for now: all background workers of the server are in use (max_worker_processes); \
             call rag_sync"
        );
    }
}

/// Starts one in the present database that begins what is due because it was made or altered, where
/// nobody keeps schedules; whether there was room for it. Called at the end of a transaction: it
/// raises nothing.
pub fn start_once() -> bool {
    scheduler_builder(database().to_u32())
        .load_dynamic()
        .is_ok()
}

pub fn scheduler_builder(database: u32) -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new("rag scheduler")
        .set_type("rag scheduler")
        .set_library("rag")
        .set_function("rag_scheduler_main")
        .set_extra(&database.to_string())
        .enable_spi_access()
        .set_start_time(BgWorkerStartTime::RecoveryFinished)
        .set_restart_time(None)
}
