//! Checks that there is room for what is about to be written.

use std::path::Path;

use pgrx::PgSqlErrorCode;

use crate::error::Error;

/// Returns the number of bytes that the file system of a folder has for new files, or None if the
/// system does not tell. The folder may be relative to the data directory.
fn available_bytes(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Checks that the file system of the data directory has room. `to_do` says what for, as in
/// "import a bundle". A tablespace elsewhere is not considered.
///
/// # Errors
/// It has not.
pub fn require_in_data_directory(needed: u64, to_do: &str) -> Result<(), Error> {
    require_in(Path::new("."), needed, to_do)
}

/// Checks that the file system of a folder has room, if the system tells.
///
/// # Errors
/// It has not.
pub fn require_in(folder: &Path, needed: u64, to_do: &str) -> Result<(), Error> {
    match available_bytes(folder) {
        Some(available) => require(needed, available, to_do),
        None => Ok(()),
    }
}

/// Checks that `needed` bytes are available.
///
/// # Errors
/// They are not.
pub fn require(needed: u64, available: u64, to_do: &str) -> Result<(), Error> {
    if needed <= available {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_DISK_FULL,
        format!("not enough disk space to {to_do}"),
    )
    .detail(format!(
        "About {needed} bytes are needed, and {available} bytes are available."
    ))
    .hint("Free disk space and try again."))
}
