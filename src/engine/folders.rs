//! Folders that `rag-engine embed` reads models from. Its sandbox is closed around them when it
//! starts, so they must be known by then.
//!
//! Most are: the installed models, and `rag.model_dir` of the server's configuration. A superuser
//! can set the latter for a session, a role or a database. Such a folder is noted in a file of the
//! runtime folder when it is first used, and the engine is started again; from then on it is known.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use super::RUNTIME_DIR;
use crate::{error::Error, pg::install, settings};

/// The file: a path a line.
fn noted() -> PathBuf {
    Path::new(RUNTIME_DIR).join("model_folders")
}

/// The file that makes a folder a model's.
const OF_A_MODEL: &str = "config.json";

/// The folders that are known now. Those that are gone are left out.
pub fn known() -> Vec<PathBuf> {
    let noted = fs::read(noted()).unwrap_or_default();
    let noted = noted
        .split(|byte| *byte == b'\n')
        .map(|line| PathBuf::from(std::ffi::OsStr::from_bytes(line)));
    let mut folders = vec![install::models()];
    folders.extend(settings::model_dir());
    folders.extend(noted);
    folders.retain(|folder| folder.is_dir() && !contains_data(folder));
    folders.sort();
    folders.dedup();
    folders
}

/// Notes a folder.
///
/// # Errors
/// It is no model's folder, or it cannot be noted.
pub fn note(folder: &Path) -> Result<(), Error> {
    let file = folder.join(OF_A_MODEL);
    if !File::open(&file)
        .and_then(|file| file.metadata())
        .map_err(|e| unusable(&file, &e))?
        .is_file()
    {
        return Err(Error::invalid_parameter(format!(
            "\"{}\" is not a file",
            file.display()
        )));
    }
    if contains_data(folder) {
        return Err(Error::invalid_parameter(format!(
            "\"{}\" cannot be the folder of a model: the data directory is in it",
            folder.display()
        )));
    }
    let path = std::path::absolute(folder).map_err(|e| unusable(folder, &e))?;
    let line = path.into_os_string().into_vec();
    if line.contains(&b'\n') {
        return Err(Error::invalid_parameter(
            "the name of a model's folder cannot contain a line break",
        ));
    }
    add(&line).map_err(|e| unusable(&noted(), &e))
}

fn add(line: &[u8]) -> io::Result<()> {
    super::make_runtime_dir()?;
    let mut file = File::options()
        .create(true)
        .read(true)
        .append(true)
        .open(noted())?;
    file.lock()?;
    let mut before = vec![];
    file.read_to_end(&mut before)?;
    if before
        .split(|byte| *byte == b'\n')
        .any(|other| other == line)
    {
        return Ok(());
    }
    // what a crash has cut short is a line of its own
    let mut added = if before.last().is_none_or(|byte| *byte == b'\n') {
        vec![]
    } else {
        vec![b'\n']
    };
    added.extend(line);
    added.push(b'\n');
    file.write_all(&added)
}

/// Whether the data directory, which is the working directory, is in a folder.
fn contains_data(folder: &Path) -> bool {
    match (folder.canonicalize(), Path::new(".").canonicalize()) {
        (Ok(folder), Ok(data)) => data.starts_with(folder),
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
