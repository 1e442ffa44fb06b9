//! Removal of clones of git repositories that no source uses.
//!
//! A clone is removed with the last source that uses it, when the transaction that drops the
//! source, its database or the extension has committed. If that did not happen (the server crashed
//! in between, or a database was dropped without preload), the next run of any source removes it.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use rag_clones::{User, release};
use rag_definition::source::{Repository, SourceSpec};

use super::RUNTIME_DIR;
use crate::{
    catalog::sources::{self, Source},
    error::Error,
    pg::{
        extension::databases,
        process::database,
        spi::as_owner,
        transaction::{at_commit, transaction},
    },
};

/// Returns the folder of the clones of all databases.
pub fn dir() -> PathBuf {
    Path::new(RUNTIME_DIR).join("clones")
}

/// Returns a source as a user of clones.
pub fn user(source: &Source) -> User {
    User {
        database: database().to_u32(),
        uid: source.uid.to_string(),
    }
}

/// Forgets a source that the current transaction drops.
pub fn forget_source_at_commit(uid: pgrx::Uuid) {
    let dropped = User {
        database: database().to_u32(),
        uid: uid.to_string(),
    };
    at_commit(move || release(&dir(), None, |user| *user == dropped));
}

/// Forgets a database that the current transaction drops, or in which it drops the extension.
pub fn forget_database_at_commit(database: u32) {
    at_commit(move || release(&dir(), None, |user| user.database == database));
}

/// Removes the clones of sources and databases that were dropped, and the clone of `source` if it
/// no longer needs one. Runs in transactions of its own.
pub fn remove_unused(source: &Source) -> Result<(), Error> {
    let users = rag_clones::users(&dir());
    if users.is_empty() {
        return Ok(());
    }
    // sources that exist now existed when the clones were listed, or were created since
    let mine = database().to_u32();
    let uids: Vec<pgrx::Uuid> = users
        .iter()
        .filter(|user| user.database == mine)
        .filter_map(parse_uid)
        .collect();
    let (databases, present) = transaction(|| {
        Ok((
            databases()?,
            as_owner(|owner| sources::existing(owner, &uids))?,
        ))
    })?;
    let present: HashSet<String> = present.iter().map(ToString::to_string).collect();
    let needs_none = match &source.spec {
        SourceSpec::Git(git) => matches!(git.repository, Repository::Local(_)),
        _ => true,
    };
    let own = user(source);
    release(&dir(), None, |user| {
        !databases.contains(&user.database)
            || user.database == mine && !present.contains(&user.uid)
            || needs_none && *user == own
    });
    Ok(())
}

fn parse_uid(user: &User) -> Option<pgrx::Uuid> {
    Some(crate::pg::spi::uuid(uuid::Uuid::parse_str(&user.uid).ok()?))
}
