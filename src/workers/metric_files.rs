//! The metrics of a database as a file, which sessions in other databases read. A scheduler writes
//! it when such a session has asked for it.

use std::{fs, io::Write, os::unix::fs::OpenOptionsExt, path::PathBuf};

use crate::{
    catalog::metrics,
    engine::RUNTIME_DIR,
    error::Error,
    pg::{process::database, spi::owner_transaction},
};

fn folder() -> PathBuf {
    PathBuf::from(RUNTIME_DIR).join("metrics")
}

/// Writes the metrics of the current database.
///
/// # Errors
/// A statement fails, or the file cannot be written.
pub fn write() -> Result<(), Error> {
    let rows = owner_transaction(|owner| metrics::rows(owner))?;
    let path = folder().join(database().to_u32().to_string());
    let new = path.with_extension("new");
    let write = || {
        fs::create_dir_all(folder())?;
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&new)?.write_all(rows.as_bytes())?;
        fs::rename(&new, &path)
    };
    write().map_err(|e: std::io::Error| {
        Error::internal(format!("could not write \"{}\": {e}", path.display()))
    })
}

/// Returns what [`write`] wrote of a database, unless it is older than [`MAX_AGE`].
pub fn read(database: u32) -> Option<String> {
    let path = folder().join(database.to_string());
    let age = fs::metadata(&path).ok()?.modified().ok()?.elapsed();
    if age.is_ok_and(|age| age > MAX_AGE) {
        return None;
    }
    fs::read_to_string(path).ok()
}

/// Values that are older are none: what wrote them does not run any more.
const MAX_AGE: std::time::Duration = std::time::Duration::from_secs(300);
