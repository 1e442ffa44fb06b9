//! Space on disks, compared with what a command needs before it begins.

use std::path::Path;

use pgrx::PgSqlErrorCode;

use crate::error::Error;

/// Returns the number of bytes that the server can still write below a folder.
///
/// # Errors
/// The folder does not exist, or cannot be read.
pub fn available(folder: &Path) -> Result<u64, Error> {
    let disk = rustix::fs::statvfs(folder).map_err(|e| {
        Error::new(
            PgSqlErrorCode::ERRCODE_IO_ERROR,
            format!(
                "could not read the free space of \"{}\": {e}",
                folder.display()
            ),
        )
    })?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Checks that `needed` bytes can be written below a folder. `purpose` completes "not enough disk
/// space to ...".
///
/// # Errors
/// The disk has less space. The DETAIL names both sizes.
pub fn require(folder: &Path, needed: u64, purpose: &str) -> Result<(), Error> {
    let available = available(folder)?;
    if available >= needed {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_DISK_FULL,
        format!("not enough disk space to {purpose}"),
    )
    .detail(format!(
        "{needed} bytes are needed in \"{}\", and {available} are available.",
        folder.display()
    ))
    .hint("Free space on this disk, and run the command again."))
}
