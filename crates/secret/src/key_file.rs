//! The file of the key ring.
//!
//! The file must belong to the server's user and be inaccessible to others: a key that others may
//! have read protects nothing. [`create`] creates a complete file; if several processes try, one
//! succeeds and the others read its keys. [`replace`] replaces the file atomically. Both write the
//! file to disk before they return, so that values can be decrypted after a crash.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use zeroize::Zeroizing;

use crate::{InvalidKeyRing, KeyRing};

/// More than any reasonable number of keys.
const MAX_BYTES: u64 = 1 << 20;

/// An error without the name of the file, which not every user may see.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("it does not exist")]
    Missing,
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is owned by another operating system user")]
    Owner,
    #[error("other operating system users have access to it (mode {0:04o})")]
    Mode(u32),
    #[error(transparent)]
    Invalid(#[from] InvalidKeyRing),
    #[error("it could not be {action}: {error}")]
    Io {
        action: &'static str,
        error: io::Error,
    },
}

fn io_error(action: &'static str) -> impl FnOnce(io::Error) -> KeyFileError {
    move |error| KeyFileError::Io { action, error }
}

/// Reads the file.
///
/// # Errors
/// It does not exist, is accessible to others, or has no keys.
pub fn read(path: &Path) -> Result<KeyRing, KeyFileError> {
    let file = crate::open_to_read(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => KeyFileError::Missing,
        _ => KeyFileError::Io {
            action: "opened",
            error: e,
        },
    })?;
    let metadata = file.metadata().map_err(io_error("examined"))?;
    if !metadata.is_file() {
        return Err(KeyFileError::NotAFile);
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(KeyFileError::Owner);
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(KeyFileError::Mode(metadata.mode() & 0o7777));
    }
    let length = usize::try_from(metadata.len().min(MAX_BYTES)).unwrap_or(0);
    let mut bytes = Zeroizing::new(Vec::with_capacity(length + 1));
    file.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(io_error("read"))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| InvalidKeyRing::Line(1))?;
    Ok(KeyRing::parse(text)?)
}

/// Creates the file, and its folder if that does not exist. If another process has created it
/// meanwhile, returns the keys of that file.
///
/// # Errors
/// It could not be created or written to disk.
pub fn create(path: &Path, keys: &KeyRing) -> Result<KeyRing, KeyFileError> {
    let folder = folder_of(path);
    if let Err(e) = DirBuilder::new().mode(0o700).create(folder)
        && e.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(KeyFileError::Io {
            action: "created",
            error: e,
        });
    }
    let draft = Draft::write(path, keys)?;
    match fs::hard_link(&draft.0, path) {
        Ok(()) => {
            sync(folder)?;
            Ok(keys.clone())
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            // the other process may not have done so yet
            sync(folder)?;
            read(path)
        }
        Err(e) => Err(KeyFileError::Io {
            action: "created",
            error: e,
        }),
    }
}

/// Replaces the keys in an existing file. The caller must prevent concurrent calls.
///
/// # Errors
/// It could not be written to disk. The old keys are kept.
pub fn replace(path: &Path, keys: &KeyRing) -> Result<(), KeyFileError> {
    // a symbolic link is kept, and its target replaced
    let path = fs::canonicalize(path).map_err(io_error("found"))?;
    let draft = Draft::write(&path, keys)?;
    fs::rename(&draft.0, &path).map_err(io_error("replaced"))?;
    sync(folder_of(&path))
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn sync(folder: &Path) -> Result<(), KeyFileError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error("written to disk"))
}

/// A temporary file beside the final one. Removed when dropped.
struct Draft(PathBuf);

impl Draft {
    fn write(path: &Path, keys: &KeyRing) -> Result<Self, KeyFileError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(
            ".{}-{}.tmp",
            std::process::id(),
            COUNT.fetch_add(1, Relaxed)
        ));
        let path = path.with_file_name(name);
        // left by a process of the same id that was killed
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let mut file = file.map_err(io_error("created"))?;
        let draft = Self(path);
        file.write_all(keys.to_text().as_bytes())
            .map_err(io_error("written"))?;
        file.sync_all().map_err(io_error("written to disk"))?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // does not exist if it was renamed
        let _ = fs::remove_file(&self.0);
    }
}
