//! Clones of git repositories that outlive a run: the folders that they are in, and the sources
//! that use each.
//!
//! ```text
//! clones/                     mode 0700, shared by the jobs of all databases
//!   3f1c…9a/                  one for each URL and branch (or pinned commit); flock()ed by the job that uses it
//!     repository.git/         bare and shallow
//!     state                   the clone is whole: bytes it had when it was fetched anew; its mtime is the last use
//!     users/16384-<uid>       an empty file for each source that uses the clone: its database and its uid
//! ```
//!
//! A job [`claim`]s the clone for its source while it has the folder locked. Whoever knows that a
//! source does not use a clone any more (it was dropped, or names another repository; its database
//! or the extension was dropped) takes its name away with [`release`], and the clone goes with the
//! last of them. The jobs run in `rag-engine`, and sources are dropped in server processes: both
//! look at the folders through this crate.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Hexadecimal digits of a folder's name.
pub const KEY_DIGITS: usize = 32;

/// A source that uses a clone, as the name of its file says it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct User {
    /// OID of the source's database.
    pub database: u32,
    /// What tells the source from every other one of that database.
    pub uid: String,
}

impl User {
    /// The user that a file's name means; `None` where it is none of this crate's.
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

/// The file that says that the clone in a folder is whole.
pub fn state(folder: &Path) -> PathBuf {
    folder.join("state")
}

/// Makes a folder that only its owner can look into.
///
/// # Errors
/// It cannot be made.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// The folders of all clones.
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

/// Locks a folder; `None` where another job has it, or has just removed it. The lock goes with the
/// file that is returned.
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

/// Removes the folder of a clone, so that it is never taken for whole. Returns true if it was
/// removed.
pub fn remove(folder: &Path) -> bool {
    let _ = fs::remove_file(state(folder));
    fs::remove_dir_all(folder).is_ok()
}

/// Says that `user` uses the clone in `folder`, which the caller has locked.
///
/// # Errors
/// The file cannot be made.
pub fn claim(folder: &Path, user: &User) -> io::Result<()> {
    let users = folder.join("users");
    make(&users)?;
    File::create(users.join(user.to_string())).map(drop)
}

/// The sources that use the clone in a folder, each with its file.
fn users_of(folder: &Path) -> Vec<(User, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder.join("users")) else {
        return vec![];
    };
    entries
        .flatten()
        .filter_map(|entry| Some((User::parse(entry.file_name().to_str()?)?, entry.path())))
        .collect()
}

/// The sources that use clones.
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

/// Takes the users away that `is_gone` is true of, and removes the clones that nobody uses any
/// more; not that in the folder `except`. A clone that a job has at work is left to the next call;
/// so is what cannot be removed.
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
        // a job claims its clone while it has the lock: nobody can come in between
        if users_of(&folder).is_empty()
            && let Ok(Some(_lock)) = lock(&folder)
            && users_of(&folder).is_empty()
        {
            remove(&folder);
        }
    }
}
