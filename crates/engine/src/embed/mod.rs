//! `rag-engine embed`: one process per cluster that keeps models in memory and serves every
//! backend.
//!
//! ```text
//!  backend ─┐             ┌ client: reads, tokenizes ─┐                        ┌> client: writes ─> backend
//!  backend ─┼─> server ──>┼ client: reads, tokenizes ─┼─> scheduler ─> inference ─> client: writes ─> backend
//!  worker ──┘             └ client: extracts, splits ─┘                        └> ...
//! ```
//!
//! * [`server`]: the socket;
//! * [`client`]: a connection, with its [`replies`] and with [`prepare`] for documents;
//! * [`models`]: the loaded models, each a [`model`] with [`tokens`], [`pooling`],
//!   [`token_vectors`], [`options`], its [`fingerprint`], its [`footprint`] and its [`baseline`];
//!   [`counter`] counts tokens for the splitter;
//! * [`computation`]: a [`graph`] over the [`runtime`], by a [`provider`], or [`openvino`], whose
//!   results are compared in [`comparison`]; each is a [`library`];
//! * [`admission`]: the limit on work in progress;
//! * [`scheduler`]: the order of tasks, by [`rounds`]; [`inference`]: the thread that executes
//!   them.
//!
//! The inference thread never waits for a client, and a client's mistake affects no other client: a
//! malformed message ends its own connection, and a panic becomes a reply.
//!
//! **Fairness.** A large request stays in its socket until there is room ([`admission`]). Texts are
//! tokenized in pieces, up to what the model reads ([`tokens`]). Large documents are split by a
//! child process. Turns go round databases and roles ([`scheduler`], [`rounds`]).
//!
//! **Threads.** All threads compute a query together. Of several texts each thread computes one, on
//! its own copy of the graph ([`computation`]): threads that share a text wait for each other after
//! each operator. A slice of texts ends as soon as a query waits.
//!
//! **One text a run.** A graph in 8 bits scales activations by the largest value of a whole run. So
//! a run has one text, whose vector never depends on others, and the graph needs no mask of padding
//! (`bert.rs` of `crates/model`). Graphs for long texts have no mask either: then ONNX Runtime
//! computes attention in blocks, and needs no matrix of all pairs of tokens. Layers with local
//! attention are cut into blocks by the graph itself (`window.rs` there).
//!
//! **Libraries.** ONNX Runtime or OpenVINO computes a graph, behind the trait
//! [`Graph`](graph::Graph). ONNX Runtime always loads it first, and tells what its inputs and
//! outputs are. OpenVINO replaces it if it computes the same embeddings of a few texts
//! ([`comparison`]). So the fingerprint does not depend on the library.
//!
//! **Memory.** Loaded models share a limit ([`models`]). The size of a model is estimated from its
//! files before it is loaded ([`footprint`]). Models that score pairs of a query and a document are
//! loaded and run in the same way, and their work waits in the same queue.

mod admission;
mod baseline;
mod client;
mod comparison;
mod computation;
pub mod counter;
mod fingerprint;
mod footprint;
mod graph;
mod inference;
mod library;
mod model;
mod models;
mod openvino;
mod options;
mod pooling;
mod prepare;
mod provider;
mod replies;
mod rounds;
mod runtime;
mod scheduler;
mod server;
mod token_vectors;
pub mod tokens;

pub use self::{provider::Provider, runtime::Libraries};

use std::{
    os::unix::net::UnixListener,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use rag_protocol::{EngineError, ErrorKind};

use crate::{
    process,
    sandbox::{Mode, Reach},
};

use self::{
    admission::Admission, counter::Counters, inference::EmbedTask, models::Models,
    runtime::Runtime, scheduler::Scheduler,
};

/// State that all connections share.
#[derive(Debug)]
pub struct Engine {
    models: Models,
    counters: Counters,
    scheduler: Scheduler<EmbedTask>,
    admission: Admission,
    listener: UnixListener,
    /// Set before the listener is closed.
    is_leaving: AtomicBool,
    /// The error that answers every request if the process cannot work with its settings.
    refusal: Option<EngineError>,
}

/// Settings of the process.
#[derive(Debug)]
pub struct Options {
    pub socket: PathBuf,
    pub libraries: Libraries,
    /// Number of threads that work on one slice of texts.
    pub threads: usize,
    /// What computes a graph.
    pub provider: Provider,
    /// Maximum size of the models in memory, in bytes.
    pub model_memory: u64,
    /// Time after which an unused model is dropped.
    pub idle: Duration,
    /// Folders that models are read from.
    pub models: Vec<PathBuf>,
    /// Maximum memory, in bytes: of address space, or of data and of a graphics processor.
    pub memory: Option<u64>,
    /// True if the process ends when its standard input does.
    pub watch_stdin: bool,
    pub sandbox: Mode,
}

/// Serves until the process is killed.
///
/// # Errors
/// The process cannot start: the socket cannot be opened.
pub fn run(options: Options) -> Result<(), EngineError> {
    let Options {
        socket,
        libraries,
        threads,
        provider,
        model_memory,
        idle,
        models,
        memory,
        watch_stdin,
        sandbox,
    } = options;
    let internal = |what: &str, e: std::io::Error| {
        EngineError::new(ErrorKind::Internal, what).detail(e.to_string())
    };
    if let Some(bytes) = memory {
        process::limit(provider.limit(bytes))
            .map_err(|e| internal("could not limit the memory", e))?;
    }
    process::give_back_large_blocks();
    let listener = server::listen(&socket)?;
    // After the last file is created, and before the first thread starts.
    let reach = Reach::of_embed(
        &libraries.onnxruntime,
        &libraries.openvino,
        &models,
        provider,
    );
    let refusal = match reach.enter(sandbox) {
        Ok(missing) => {
            // Once for all processes: they run on the same kernel.
            missing
                .iter()
                .for_each(|missing| tracing::warn!("{missing}"));
            None
        }
        // The server waits for a process that listens, so requests report the error.
        Err(error) => {
            tracing::error!(detail = error.detail.as_deref(), "{error}");
            Some(error)
        }
    };
    if watch_stdin {
        process::watch_stdin().map_err(|e| internal("could not watch the parent", e))?;
    }
    let engine = Arc::new(Engine {
        models: Models::new(
            Runtime::new(libraries, threads, provider, memory),
            model_memory,
            idle,
        ),
        counters: Counters::default(),
        scheduler: Scheduler::default(),
        admission: Admission::default(),
        listener,
        is_leaving: AtomicBool::new(false),
        refusal,
    });
    let served = Arc::clone(&engine);
    thread::Builder::new()
        .name("inference".into())
        .spawn(move || inference::serve(&served.scheduler))
        .map_err(|e| internal("could not start a thread", e))?;
    let watched = Arc::clone(&engine);
    thread::Builder::new()
        .name("idle models".into())
        .spawn(move || {
            loop {
                thread::sleep(watched.models.drop_idle());
            }
        })
        .map_err(|e| internal("could not start a thread", e))?;
    tracing::info!(socket = %socket.display(), threads, "ready");
    server::accept(&engine)
}
