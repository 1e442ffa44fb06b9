//! Settings of libgit2 for the whole process.

// They are C globals that libgit2 reads without synchronization, and are written once, here, before
// any repository is opened. Nothing else in the process uses libgit2.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use git2::{ConfigLevel, opts};
use rag_protocol::{EngineError, ErrorKind};

use super::transport;

/// Bytes that are mapped of one pack, and of all packs: the address space of the process is
/// limited.
const WINDOW: usize = 32 << 20;
const MAPPED: usize = 512 << 20;

/// Limits memory, ignores the configuration of the user and the machine, and makes our clients of
/// HTTP and ssh the only ones. Repositories of any owner are opened: most on a database server do
/// not belong to `postgres`, and nothing in them is executed.
pub fn set_once() -> Result<(), EngineError> {
    static ONCE: OnceLock<Result<(), EngineError>> = OnceLock::new();
    ONCE.get_or_init(|| {
        let levels = [
            ConfigLevel::System,
            ConfigLevel::Global,
            ConfigLevel::XDG,
            ConfigLevel::ProgramData,
        ];
        // SAFETY: `OnceLock` runs this in one thread only, before anything else uses libgit2.
        let set = unsafe {
            levels
                .into_iter()
                .try_for_each(|level| opts::set_search_path(level, ""))
                .and_then(|()| opts::set_verify_owner_validation(false))
                .and_then(|()| opts::set_mwindow_size(WINDOW))
                .and_then(|()| opts::set_mwindow_mapped_limit(MAPPED))
                .and_then(|()| git2::transport::register("https", transport::create))
                .and_then(|()| git2::transport::register("http", transport::create))
                .and_then(|()| git2::transport::register("ssh", transport::create))
        };
        set.map_err(|e| {
            EngineError::new(ErrorKind::Internal, "could not initialize the git library")
                .detail(e.message())
        })
    })
    .clone()
}
