//! `rag-engine`, the program that loads models and reads untrusted files outside Postgres.
//!
//! [`folders`] are the folders of models that it may read. [`process`] starts it with pipes.
//! [`request`] is a
//! process that is started for one request. [`starter`] starts the worker that keeps one running,
//! and [`client`] is a connection to that one, which serves embeddings. [`clones`] removes clones
//! of repositories that no source uses. All of them wait with [`crate::pg::wait`], which is always
//! interruptible.

pub mod client;
pub mod clones;
pub mod folders;
pub mod process;
pub mod request;
pub mod starter;

use std::path::PathBuf;

use crate::error::Error;

/// The folder of the engine's socket, locks and clones, relative to the data directory. That is the
/// working directory of every server process. A relative path stays within the 107 bytes that the
/// path of a socket may have.
pub const RUNTIME_DIR: &str = "pg_rag";

/// Returns the error of an engine that answered with another event than was asked for.
pub fn unexpected() -> Error {
    Error::internal("unexpected answer from rag-engine")
}

pub fn socket() -> PathBuf {
    PathBuf::from(RUNTIME_DIR).join("engine.sock")
}

/// Creates the runtime folder, accessible to the server's user only.
pub fn create_runtime_dir() -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(RUNTIME_DIR)
}
