//! Folders of the clones of git repositories, and the sources that use each clone.
//!
//! ```text
//! clones/                     mode 0700, shared by the jobs of all databases
//!   3f1c…9a/                  for one URL and branch or pinned commit; locked by its job (flock)
//!     repository.git/         bare and shallow
//!     submodules/7b02…e1.git/ the same for each submodule
//!     state                   marks a complete clone: its first size; mtime: last use
//!     users/16384-<uid>       an empty file for each source that uses the clone: database and uid
//! ```
//!
//! A job locks the folder and [`claim`]s the clone for its source. [`release`] removes a source
//! that no longer uses a clone: it was dropped, its repository was changed, or its database or the
//! extension was dropped. A clone without users is removed. Jobs run in `rag-engine`, and sources
//! are dropped in server processes: both access the folders through this crate.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Number of hexadecimal digits in a folder's name.
pub const KEY_DIGITS: usize = 32;

/// A source that uses a clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct User {
    /// OID of the source's database.
    pub database: u32,
    /// Identifies the source in its database.
    pub uid: String,
}

impl User {
    /// Parses the name of a file in `users`. Returns `None` for other names.
    pub fn parse(name: &str) -> Option<Self> {
        let (database, uid) = name.split_once('-')?;
        let is_uid = !uid.is_empty() && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        Some(Self {
            database: database.parse().ok()?,
            uid: is_uid.then(|| uid.to_string())?,
        })
    }
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.database, self.uid)
    }
}

/// Returns the path of the file that marks a complete clone.
pub fn state(folder: &Path) -> PathBuf {
    folder.join("state")
}

/// Creates a folder that only its owner can access.
///
/// # Errors
/// It could not be created.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Returns the folders of all clones.
pub fn folders(clones: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(clones) else {
        return vec![];
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().len() == KEY_DIGITS)
        .map(|entry| entry.path())
        .collect()
}

/// Locks a folder. Returns `None` if another job has locked it, or has just removed it. The lock is
/// released when the returned file is closed.
///
/// # Errors
/// The folder cannot be opened.
pub fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = match File::open(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(e)) => return Err(e),
        Ok(()) => {}
    }
    let is_there = fs::metadata(folder).is_ok_and(|now| {
        file.metadata()
            .is_ok_and(|locked| now.ino() == locked.ino())
    });
    Ok(is_there.then_some(file))
}

/// Removes the folder of a clone, `state` first. Returns true if it was removed.
pub fn remove(folder: &Path) -> bool {
    let _ = fs::remove_file(state(folder));
    fs::remove_dir_all(folder).is_ok()
}

/// Adds a user to the clone in `folder`, which the caller has locked.
///
/// # Errors
/// The file could not be created.
pub fn claim(folder: &Path, user: &User) -> io::Result<()> {
    let users = folder.join("users");
    make(&users)?;
    File::create(users.join(user.to_string())).map(drop)
}

/// Returns the users of the clone in a folder, with their files.
fn users_of(folder: &Path) -> Vec<(User, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder.join("users")) else {
        return vec![];
    };
    entries
        .flatten()
        .filter_map(|entry| Some((User::parse(entry.file_name().to_str()?)?, entry.path())))
        .collect()
}

/// Returns the users of all clones.
pub fn users(clones: &Path) -> Vec<User> {
    let mut users: Vec<User> = folders(clones)
        .iter()
        .flat_map(|folder| users_of(folder))
        .map(|(user, _)| user)
        .collect();
    users.sort_unstable();
    users.dedup();
    users
}

/// Removes the users for which `is_gone` returns true, and then the clones without users, except
/// the one in the folder `except`. A locked clone is left to the next call. Errors are ignored.
pub fn release(clones: &Path, except: Option<&Path>, is_gone: impl Fn(&User) -> bool) {
    for folder in folders(clones) {
        if except == Some(&*folder) {
            continue;
        }
        for (user, file) in users_of(&folder) {
            if is_gone(&user) {
                let _ = fs::remove_file(file);
            }
        }
        // jobs claim clones while they hold the lock, so no user can be added in between
        if users_of(&folder).is_empty()
            && let Ok(Some(_lock)) = lock(&folder)
            && users_of(&folder).is_empty()
        {
            remove(&folder);
        }
    }
}
