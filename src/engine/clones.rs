//! Clones of git repositories that no source uses any more.
//!
//! A clone goes with the last source that uses it, when the transaction has committed that drops
//! the source, its database or the extension. Where nobody was there to see to it (the server
//! crashed in between, or a database was dropped without preload) the next run of any source does.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use rag_clones::{User, release};
use rag_protocol::spec::{GitSpec, Repository, SourceSpec};

use super::RUNTIME_DIR;
use crate::{
    catalog::sources::{self, Source},
    error::Error,
    pg::{commit::at_commit, extension::databases, process::database, transaction::transaction},
};

/// The folder of the clones of all databases.
pub fn dir() -> PathBuf {
    Path::new(RUNTIME_DIR).join("clones")
}

/// A source as a user of clones.
pub fn user(source: &Source) -> User {
    User {
        database: database().to_u32(),
        uid: source.uid.to_string(),
    }
}

/// A source is dropped by the present transaction.
pub fn forget_source_at_commit(uid: pgrx::Uuid) {
    let gone = User {
        database: database().to_u32(),
        uid: uid.to_string(),
    };
    at_commit(move || release(&dir(), None, |user| *user == gone));
}

/// A database, or the extension in it, is dropped by the present transaction.
pub fn forget_database_at_commit(database: u32) {
    at_commit(move || release(&dir(), None, |user| user.database == database));
}

/// Removes what was left by sources and databases that are gone, and, where it needs none, the
/// clone of a source whose run begins. Runs in transactions of its own.
pub fn tidy(source: &Source) -> Result<(), Error> {
    let users = rag_clones::users(&dir());
    if users.is_empty() {
        return Ok(());
    }
    // what is there now was there when the clones were looked at, or has come since
    let mine = database().to_u32();
    let uids: Vec<pgrx::Uuid> = users
        .iter()
        .filter(|user| user.database == mine)
        .filter_map(parse_uid)
        .collect();
    let (databases, present) = transaction(|| Ok((databases()?, sources::present(&uids)?)))?;
    let present: HashSet<String> = present.iter().map(ToString::to_string).collect();
    let needs_none = !matches!(
        &source.spec,
        SourceSpec::Git(GitSpec {
            repository: Repository::Https(_),
            ..
        })
    );
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
