//! What the workers must learn: the extension is created or dropped, databases come and go, and
//! sources change.
//!
//! The hooks record it, and [`news`] sends it when the transaction has committed. Before a command
//! that needs a database for itself (DROP, RENAME, SET TABLESPACE, a database as template) the
//! workers in that database are asked to leave, and kept away until the transaction ends. The same
//! happens before DROP EXTENSION, which could end in a deadlock with them. The hooks are installed
//! with `shared_preload_libraries = 'rag'` only.

use std::ffi::CStr;

use crate::{
    cluster::{news, shared},
    engine::clones,
    models,
    pg::{
        compat,
        hooks::{self, Command, ObjectChange},
        lookup,
        process::database,
        transaction,
    },
};

/// Installs the hooks, while the server loads its preloaded libraries.
pub fn install() {
    hooks::watch_commands(before_command, on_object);
}

fn on_object(change: ObjectChange) {
    match change {
        ObjectChange::Extension => news::add(|news| news.extensions = true),
        ObjectChange::DatabaseCreated => news::add(|news| news.databases = true),
        ObjectChange::DatabaseDropped(database) => {
            news::add(|news| news.databases = true);
            clones::forget_database_at_commit(database);
            models::forget_database_at_commit(database);
        }
    }
}

fn before_command(command: Command<'_>) {
    match command {
        Command::DropDatabase(name)
        | Command::RenameDatabase(name)
        | Command::CopyDatabase(name) => evict_workers(name),
        Command::AlterDatabase {
            name,
            moves_tablespace,
        } => {
            // workers may have to enter it now, or to leave it
            news::add(|news| news.databases = true);
            if moves_tablespace {
                evict_workers(name);
            }
        }
        Command::DropExtension => {
            news::add(|news| news.evictions = true);
            shared::evict_workers(database());
        }
        // what another session prepared becomes visible with the end of this transaction
        Command::CommitPrepared => {
            news::add(|news| (news.extensions, news.sources) = (true, true));
        }
    }
}

/// Ends the extension's workers in a database that the session owns.
fn evict_workers(name: &CStr) {
    if !transaction::is_active() {
        return;
    }
    let target = lookup::database(name)
        .filter(|target| *target != database() && compat::owns_database(*target));
    if let Some(target) = target {
        news::add(|news| news.evictions = true);
        shared::evict_workers(target);
    }
}
