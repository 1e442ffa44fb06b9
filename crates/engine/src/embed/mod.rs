//! `rag-engine embed`: one process per cluster that keeps models in memory and serves every backend.
//!
//! ```text
//!  backend ─┐             ┌ client: reads, tokenizes ─┐                        ┌> client: writes ─> backend
//!  backend ─┼─> server ──>┼ client: reads, tokenizes ─┼─> scheduler ─> inference ─> client: writes ─> backend
//!  worker ──┘             └ client: extracts, splits ─┘                        └> ...
//! ```
//!
//! * [`server`]: the socket;
//! * [`client`]: a connection, with [`replies`] on their way back and [`prepare`] for documents;
//! * [`models`]: what is loaded, each a [`model`] over the [`runtime`], with its [`tokens`] and [`pooling`];
//! * [`scheduler`]: whose turn it is; [`inference`]: the thread that takes turns.
//!
//! The inference thread never waits for a client, and no client's mistake is another's: a malformed message ends its own
//! connection, a panic is a reply.

mod client;
mod inference;
mod model;
mod models;
mod pooling;
mod prepare;
mod replies;
mod runtime;
mod scheduler;
mod server;
pub mod tokens;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use rag_protocol::{EngineError, ErrorKind};

use self::{inference::EmbedTask, models::Models, runtime::Runtime, scheduler::Scheduler};

/// What all connections share.
#[derive(Debug)]
pub struct Engine {
    models: Models,
    scheduler: Scheduler<EmbedTask>,
}

/// Serves until the process is killed.
///
/// # Errors
/// Only where it cannot start: the socket cannot be opened.
pub fn run(socket: &Path, library: PathBuf, threads: usize, max_models: usize) -> Result<(), EngineError> {
    let engine = Arc::new(Engine {
        models: Models::new(Runtime::new(library, threads), max_models),
        scheduler: Scheduler::default(),
    });
    let listener = server::listen(socket)?;
    let served = Arc::clone(&engine);
    thread::Builder::new()
        .name("inference".into())
        .spawn(move || inference::serve(&served.scheduler))
        .map_err(|e| EngineError::new(ErrorKind::Internal, "could not start a thread").detail(e.to_string()))?;
    tracing::info!(socket = %socket.display(), threads, "ready");
    server::accept(&listener, &engine)
}
