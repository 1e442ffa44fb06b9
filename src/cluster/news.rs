//! News for the workers: what a transaction has changed that concerns them, sent once it has
//! committed.

use std::cell::Cell;

use super::shared;
use crate::{
    pg::{
        calls::{c_function, handle_trigger},
        process::database,
        transaction::{self, TransactionEnd},
        worker,
    },
    settings,
};

thread_local! {
    static NEWS: Cell<News> = const { Cell::new(News::NONE) };
    /// True in workers whose changes of sources are no news.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// What this transaction has to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    /// Extensions were created or dropped.
    pub extensions: bool,
    /// Databases were created, dropped or altered.
    pub databases: bool,
    /// A source of this database was created, changed or queued.
    pub sources: bool,
    /// A source was created that is due at once. Only a worker that this session starts syncs it.
    pub new_sources: bool,
    /// Triggers have recorded changes of tables that sources read.
    pub changes: bool,
    /// Documents were queued. Only a worker that this session starts indexes them.
    pub queued_documents: bool,
    /// Databases are kept free of workers for this session.
    pub evictions: bool,
}

impl News {
    const NONE: Self = Self {
        extensions: false,
        databases: false,
        sources: false,
        new_sources: false,
        changes: false,
        queued_documents: false,
        evictions: false,
    };
}

/// Adds to the news of the current transaction.
pub fn add(change: impl FnOnce(&mut News)) {
    transaction::on_end(send);
    NEWS.with(|news| {
        let mut added = news.get();
        change(&mut added);
        news.set(added);
    });
}

/// Suppresses news of changes of sources by this process. A scheduler knows its own changes, and
/// the end of a runner is news itself.
pub fn suppress() {
    IS_WORKER.set(true);
}

/// Wakes the scheduler of this database when the current transaction commits.
pub fn wake_scheduler_at_commit() {
    if shared::is_present() && !IS_WORKER.get() {
        add(|news| news.sources = true);
    }
}

/// Starts the first runs of new and altered sources when the current transaction commits, on
/// servers without a launcher.
pub fn start_new_at_commit() {
    if !shared::is_present() && settings::scheduler() && !IS_WORKER.get() {
        add(|news| news.new_sources = true);
    }
}

/// Starts the indexing of queued documents when the current transaction commits.
pub fn index_queued_at_commit() {
    if shared::is_present() {
        add(|news| news.sources = true);
    } else if settings::scheduler() {
        add(|news| news.queued_documents = true);
    }
}

/// Schedules runs for the changes of tables that triggers have recorded, soon after the current
/// transaction commits.
pub fn sync_changes_at_commit() {
    if shared::is_present() {
        add(|news| news.changes = true);
    }
}

// The trigger of `rag_internal.source` that reports every change to the scheduler, also that of a
// dump that is being restored.
c_function!(
    rag_source_changed,
    pg_finfo_rag_source_changed,
    handle_trigger,
    wake_scheduler_at_commit
);

fn send(end: TransactionEnd) {
    let news = NEWS.replace(News::NONE);
    if news == News::NONE {
        return;
    }
    if news.evictions {
        shared::end_evictions();
    }
    if end != TransactionEnd::Commit {
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
    if news.queued_documents && !start_document_queue() {
        pgrx::warning!(
            "queued documents are not indexed for now: all background worker slots are in use \
             (max_worker_processes)"
        );
    }
    if news.new_sources && !start_scheduler_once() {
        pgrx::warning!(
            "new sources are not synced for now: all background worker slots are in use \
             (max_worker_processes); call rag_sync"
        );
    }
}

/// Starts the worker that indexes queued documents, on servers without schedules. Returns false if
/// no background worker slot is free. It raises nothing.
pub fn start_document_queue() -> bool {
    worker::document_queue().load_dynamic().is_ok()
}

/// Starts a scheduler in the current database for the first runs of new sources, on servers without
/// schedules. Returns false if no background worker slot is free. It runs at the end of a
/// transaction and raises nothing.
pub fn start_scheduler_once() -> bool {
    worker::scheduler(database().to_u32())
        .load_dynamic()
        .is_ok()
}
