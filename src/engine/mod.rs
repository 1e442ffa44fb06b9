//! Talking to `rag-engine`, the program that loads models and reads untrusted files outside of
//! Postgres.
//!
//! [`install`] says where its parts are and [`folders`] where models are; [`process`] starts it
//! with pipes; [`client`] is a connection to the one that serves embeddings; [`clones`] sees to
//! clones that nobody uses any more; [`wait`] is how each of them waits: always interruptible.

pub mod client;
pub mod clones;
pub mod folders;
pub mod process;
pub mod starter;

use std::path::PathBuf;

/// Folder of the engine's socket, lock and clones, relative to the data directory, which is every
/// server process's working directory: a relative path keeps within the 107 bytes that a socket's
/// path may have.
pub const RUNTIME_DIR: &str = "pg_rag";

pub fn socket() -> PathBuf {
    PathBuf::from(RUNTIME_DIR).join("engine.sock")
}

/// Makes the runtime folder, accessible to the server's user only.
pub fn make_runtime_dir() -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(RUNTIME_DIR)
}
