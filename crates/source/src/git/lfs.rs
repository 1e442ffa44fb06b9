//! Files of Git LFS: a pointer in the repository names the hash and size of a file on a server.
//!
//! ```text
//!  pointer ─▶ batch request ─▶ href, headers ─▶ download ─▶ size and SHA-256 as in the pointer?
//!              https: the repository's URL, with the source's credentials
//!              ssh:   the URL and headers that git-lfs-authenticate prints
//!  pointer ─▶ lfs/objects/ of a repository on this server
//! ```
//!
//! A pointer is never a document. If its file cannot be fetched, the document fails, and the
//! failure names Git LFS. After an error that concerns all files, the server is not asked again.

mod pointer;
mod server;

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use rag_definition::source::Repository;
use rag_protocol::{EngineError, ingest::Failure};
use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};

pub use self::pointer::{Pointer, is_pointer};
use self::server::{Connection, LfsServer};
use super::submodule::Access;
use crate::{fetch_failure, item_failure, too_large};

const HINT: &str = "\"lfs\": false in the spec skips the files of Git LFS.";

/// Where the files of a repository are.
pub struct Lfs {
    place: Place,
    max_bytes: u64,
}

enum Place {
    /// `lfs/objects` of a repository on this server.
    Folder(PathBuf),
    Server(Box<LfsServer>),
    /// The server cannot be used in this run.
    Broken(EngineError),
}

/// Why a file could not be fetched.
enum LfsError {
    /// It concerns this file.
    File(String),
    /// It concerns all files.
    Server(EngineError),
}

impl Lfs {
    /// `objects` is the folder of a repository on this server.
    pub fn new(access: &Access, objects: &Path) -> Self {
        let place = match &access.spec.repository {
            Repository::Local(_) => Place::Folder(objects.join("lfs/objects")),
            remote => Place::Server(Box::new(LfsServer::new(Connection {
                repository: remote.clone(),
                credentials: access.credentials.clone(),
                network: access.network.clone(),
            }))),
        };
        Self {
            place,
            max_bytes: access.max_file_bytes,
        }
    }

    /// Fetches the file of a pointer.
    ///
    /// # Errors
    /// It is larger than the limit, cannot be fetched, or is another file.
    pub fn fetch(&mut self, pointer: &[u8], uri: &str) -> Result<Vec<u8>, Failure> {
        let failed = |reason: &str| {
            fetch_failure(
                uri,
                format!("could not fetch it from Git LFS: {reason}"),
                Some(HINT),
            )
        };
        let pointer = Pointer::parse(pointer).map_err(|reason| failed(&reason))?;
        if pointer.size > self.max_bytes {
            return Err(too_large(uri, pointer.size, self.max_bytes));
        }
        let fetched = match &mut self.place {
            Place::Folder(folder) => read(folder, &pointer).map_err(LfsError::File),
            Place::Server(server) => server.fetch(&pointer),
            Place::Broken(error) => Err(LfsError::Server(error.clone())),
        };
        match fetched {
            Ok(bytes) if bytes.len() as u64 != pointer.size => {
                Err(failed("it has another size than its pointer says"))
            }
            Ok(bytes) if hex(&bytes) != pointer.oid => {
                Err(failed("it has another hash than its pointer says"))
            }
            Ok(bytes) => Ok(bytes),
            Err(LfsError::File(reason)) => Err(failed(&reason)),
            Err(LfsError::Server(error)) => {
                self.place = Place::Broken(error.clone());
                Err(item_failure(uri, error))
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes);
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file of a repository on this server. One byte more than its size is read.
fn read(folder: &Path, pointer: &Pointer) -> Result<Vec<u8>, String> {
    let oid = &pointer.oid;
    let path = folder.join(&oid[..2]).join(&oid[2..4]).join(oid);
    // a pipe would never end
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = rustix::fs::open(&path, flags, Mode::empty()).map_err(io::Error::from);
    let read = opened.and_then(|file| {
        let file = File::from(file);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = vec![];
        file.take(pointer.size.saturating_add(1))
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "the repository does not have it".into(),
        _ => error.to_string(),
    })
}
