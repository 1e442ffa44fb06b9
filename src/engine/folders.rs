//! Folders from which `rag-engine embed` reads models. Its sandbox allows these folders only, and
//! is closed when the engine starts.
//!
//! Most folders are known then: the installed models, and `rag.model_dir` of the server's
//! configuration. A superuser can set `rag.model_dir` for a session, a role or a database. When
//! such a folder is first used, it is added to a file of the runtime folder, and the engine is
//! restarted. From then on the folder is known. It is removed from the file when its model is
//! dropped, or turns out to be none. A folder is resolved once: a link that later leads elsewhere
//! is not followed.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use super::RUNTIME_DIR;
use crate::{error::Error, pg::install, settings};

/// Returns the path of the file of added folders, one a line.
fn added_folders() -> PathBuf {
    Path::new(RUNTIME_DIR).join("model_folders")
}

/// The file that every folder of a model contains.
pub const MODEL_FILE: &str = "config.json";

/// The file that the folder of a tokenizer contains.
pub const TOKENIZER_FILE: &str = "tokenizer.json";

/// Returns the folders that are known now. Those that do not exist are left out.
pub fn known() -> Vec<PathBuf> {
    let noted = fs::read(added_folders()).unwrap_or_default();
    let noted = noted
        .split(|byte| *byte == b'\n')
        .map(|line| PathBuf::from(std::ffi::OsStr::from_bytes(line)))
        .filter(|folder| folder.canonicalize().is_ok_and(|now| now == *folder));
    let mut folders = vec![install::models()];
    folders.extend(settings::model_dir());
    folders.extend(noted);
    folders.retain(|folder| folder.is_dir() && !meets_data(folder));
    folders.sort();
    folders.dedup();
    folders
}

/// Adds a folder, which contains a file.
///
/// # Errors
/// It does not, or it cannot be stored.
pub fn add(folder: &Path, file: &str) -> Result<(), Error> {
    let file = folder.join(file);
    // only a regular file is opened
    rag_protocol::file::open(&file).map_err(|e| unusable(&file, &e))?;
    if meets_data(folder) {
        return Err(Error::invalid_parameter(format!(
            "\"{}\" cannot be the folder of a model because it is in the data directory, or \
             contains it",
            folder.display()
        )));
    }
    let line = line(folder).map_err(|e| unusable(folder, &e))?;
    if line.contains(&b'\n') {
        return Err(Error::invalid_parameter(
            "the name of a model's folder cannot contain a line break",
        ));
    }
    append(&line).map_err(|e| unusable(&added_folders(), &e))
}

/// Removes a folder. The next engine does not read it, unless a session adds it again.
pub fn forget(folder: &Path) {
    let forgotten = line(folder).and_then(|line| remove(&line));
    if let Err(e) = forgotten
        && e.kind() != io::ErrorKind::NotFound
    {
        pgrx::debug1!("rag: \"{}\": {e}", folder.display());
    }
}

/// Returns the place of a folder, without links.
fn line(folder: &Path) -> io::Result<Vec<u8>> {
    Ok(folder.canonicalize()?.into_os_string().into_vec())
}

fn remove(line: &[u8]) -> io::Result<()> {
    let mut file = File::options()
        .read(true)
        .write(true)
        .open(added_folders())?;
    file.lock()?;
    let mut before = vec![];
    file.read_to_end(&mut before)?;
    let mut kept: Vec<u8> = vec![];
    for other in before.split(|byte| *byte == b'\n') {
        if !other.is_empty() && other != line {
            kept.extend(other);
            kept.push(b'\n');
        }
    }
    if kept.len() < before.len() {
        file.rewind()?;
        file.write_all(&kept)?;
        file.set_len(kept.len() as u64)?;
    }
    Ok(())
}

fn append(line: &[u8]) -> io::Result<()> {
    super::create_runtime_dir()?;
    let mut file = File::options()
        .create(true)
        .read(true)
        .append(true)
        .open(added_folders())?;
    file.lock()?;
    let mut before = vec![];
    file.read_to_end(&mut before)?;
    if before
        .split(|byte| *byte == b'\n')
        .any(|other| other == line)
    {
        return Ok(());
    }
    // a line that a crash has cut short stays a line of its own
    let mut added = if before.last().is_none_or(|byte| *byte == b'\n') {
        vec![]
    } else {
        vec![b'\n']
    };
    added.extend(line);
    added.push(b'\n');
    file.write_all(&added)
}

/// Returns true if a folder contains the data directory, which is the working directory, or is in
/// it.
fn meets_data(folder: &Path) -> bool {
    match (folder.canonicalize(), Path::new(".").canonicalize()) {
        (Ok(folder), Ok(data)) => data.starts_with(&folder) || folder.starts_with(&data),
        _ => false,
    }
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::NotFound => pgrx::PgSqlErrorCode::ERRCODE_UNDEFINED_FILE,
        io::ErrorKind::PermissionDenied => pgrx::PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        _ => pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR,
    };
    Error::new(code, format!("could not use \"{}\"", path.display())).detail(error.to_string())
}
