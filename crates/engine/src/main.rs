//! `rag-engine`: the part of `rag` that parses untrusted bytes, uses the network or runs a model.
//!
//! * [`embed`]: one process per cluster keeps models in memory and serves all backends over a
//!   socket;
//! * [`ingest`]: one process per run fetches, extracts and splits the documents of a source;
//! * [`extraction`]: a process that reads PDFs, pages, code and other parsed formats for these two;
//! * [`call`]: one process per call of a model on another server;
//! * [`store`]: one process per request to a server that searches vectors;
//! * [`query`]: a client for people;
//! * [`pdfs`]: the choice of the PDF reader.
//!
//! Each of the first five is in a [`sandbox`].
//!
//! It is an ordinary program that contains no Postgres code. If it crashes, one query or one run
//! fails. A crash in a process of Postgres would restart the whole cluster.

mod call;
mod embed;
mod extraction;
mod ingest;
mod log;
mod pdfs;
mod process;
mod query;
mod redaction;
mod request;
mod sandbox;
mod store;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use rag_definition::model::Precision;
use rag_protocol::{
    EngineError,
    call::Call,
    embed::{ModelOptions, ModelRef},
    storage::StorageCall,
};
use tracing::Level;

use self::sandbox::{Mode, Reach};

/// Embeds texts and ingests sources for rag, the PostgreSQL extension, which starts it
/// automatically.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Minimum level of log messages on standard error: error, warn, info or debug.
    #[arg(long, global = true, default_value = "info")]
    log: Level,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  an error, reported on standard error
  2  wrong usage
  3  the job on standard input is invalid (ingest, call, store)
  4  the job as a whole failed; the Fatal event has the reason (ingest)
  6  the parent is gone: it closed standard input or the other pipe
  7  the job exceeded its wall-clock time (ingest, call, store)
  8  a client needs folders of models that only a new process can read (embed)
A process that exceeds its processor time is killed by SIGXCPU, one that runs out of memory
aborts (SIGABRT).";

#[derive(Subcommand)]
enum Command {
    /// Keep models in memory and serve embeddings over a Unix socket, until killed.
    Embed {
        /// Path of the socket. Its folder is made private (mode 0700).
        #[arg(long)]
        socket: PathBuf,
        /// ONNX Runtime's shared library.
        #[arg(long, value_name = "PATH")]
        onnxruntime: PathBuf,
        /// OpenVINO's shared library, libopenvino_c.so, in the folder of its other libraries.
        #[arg(long, value_name = "PATH", default_value = "openvino/libopenvino_c.so")]
        openvino: PathBuf,
        /// Number of threads that work on one batch.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
        threads: u16,
        /// What computes a graph.
        #[arg(long, value_enum, default_value_t = embed::Provider::Auto)]
        execution_provider: embed::Provider,
        /// Maximum size of the models in memory, in MiB.
        #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
        model_memory: u32,
        /// Number of seconds after which an unused model is dropped.
        #[arg(long, default_value_t = 1800)]
        idle: u32,
        /// A folder that models are read from, including its subfolders; can be repeated.
        #[arg(long, value_name = "DIR")]
        model_dir: Vec<PathBuf>,
        /// Maximum memory of the process, in MiB: of its address space or, with the
        /// provider cuda, of its data. 0 means no limit.
        #[arg(long, default_value_t = 0)]
        memory_limit: u64,
        /// Exit when standard input ends, as it does when the parent dies.
        #[arg(long)]
        watch_stdin: bool,
        #[command(flatten)]
        pdfs: pdfs::Options,
        #[command(flatten)]
        sandbox: Sandbox,
    },
    /// Execute the run that standard input describes, and report its documents on standard output.
    Ingest {
        /// Read the job as plain JSON and print readable events; for debugging by hand.
        #[arg(long)]
        pretty: bool,
        #[command(flatten)]
        pdfs: pdfs::Options,
        #[command(flatten)]
        sandbox: Sandbox,
    },
    /// Call the model that standard input describes, and report its answer on standard output.
    Call {
        #[command(flatten)]
        sandbox: Sandbox,
    },
    /// Send the request on standard input to a server that searches vectors, and report its answer
    /// on standard output.
    Store {
        #[command(flatten)]
        sandbox: Sandbox,
    },
    /// Send texts to a running engine and print the first values of their embeddings; for debugging
    /// by hand.
    Query {
        #[arg(long)]
        socket: PathBuf,
        /// The model's folder, absolute or relative to the engine's.
        #[arg(long, value_name = "DIR")]
        model: PathBuf,
        /// fp32 or int8.
        #[arg(long, value_parser = precision, default_value = "int8")]
        precision: Precision,
        #[arg(required = true)]
        text: Vec<String>,
    },
    /// Extract documents (started by the other commands).
    #[command(hide = true)]
    Extract {
        /// Maximum address space of the process, in MiB.
        #[arg(long, default_value_t = 1024)]
        memory_limit: u64,
        #[command(flatten)]
        pdfs: pdfs::Options,
        /// Read pages that are pictures.
        #[arg(long)]
        recognize: bool,
        #[command(flatten)]
        sandbox: Sandbox,
    },
    /// Enter the sandbox of another command and print what is reachable from there.
    #[command(hide = true)]
    SandboxCheck {
        /// The command whose sandbox to enter. That of ingest is for the job on standard input, in
        /// plain JSON.
        process: Sandboxed,
        #[arg(long, default_value = "libonnxruntime.so")]
        onnxruntime: PathBuf,
        #[arg(long, default_value = "openvino/libopenvino_c.so")]
        openvino: PathBuf,
        #[arg(long, value_enum, default_value_t = embed::Provider::Auto)]
        execution_provider: embed::Provider,
        #[arg(long, value_name = "DIR")]
        model_dir: Vec<PathBuf>,
        #[command(flatten)]
        sandbox: Sandbox,
        /// Files to try.
        path: Vec<PathBuf>,
    },
}

#[derive(Args)]
struct Sandbox {
    /// How far the process restricts itself to what it needs.
    #[arg(long, value_enum, default_value_t = Mode::On)]
    sandbox: Mode,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sandboxed {
    Call,
    Embed,
    Extract,
    Ingest,
}

fn precision(text: &str) -> Result<Precision, String> {
    match text {
        "fp32" => Ok(Precision::Fp32),
        "int8" => Ok(Precision::Int8),
        _ => Err("must be fp32 or int8".into()),
    }
}

fn main() -> ExitCode {
    let Arguments {
        command,
        log: level,
    } = Arguments::parse();
    log::start(level);
    // `query` is for a terminal and has no parent to watch.
    if !matches!(command, Command::Query { .. })
        && let Err(e) = process::begin()
    {
        tracing::error!("could not prepare the process: {e}");
        return ExitCode::FAILURE;
    }
    match command {
        Command::Embed {
            socket,
            onnxruntime,
            openvino,
            threads,
            execution_provider,
            model_memory,
            idle,
            model_dir,
            memory_limit,
            watch_stdin,
            pdfs,
            sandbox: Sandbox { sandbox },
        } => {
            pdfs.keep();
            finish(embed::run(embed::Options {
                socket,
                libraries: embed::Libraries {
                    onnxruntime,
                    openvino,
                },
                threads: threads.into(),
                provider: execution_provider,
                model_memory: u64::from(model_memory) << 20,
                idle: Duration::from_secs(idle.into()),
                models: model_dir,
                memory: (memory_limit > 0).then(|| memory_limit.saturating_mul(1 << 20)),
                watch_stdin,
                sandbox,
            }))
        }
        Command::Ingest {
            pretty,
            pdfs,
            sandbox,
        } => {
            pdfs.keep();
            ingest::run(
                if pretty {
                    ingest::Form::Pretty
                } else {
                    ingest::Form::Frames
                },
                sandbox.sandbox,
            )
        }
        Command::Call { sandbox } => request::run::<Call>(sandbox.sandbox),
        Command::Store { sandbox } => request::run::<StorageCall>(sandbox.sandbox),
        Command::Query {
            socket,
            model,
            precision,
            text,
        } => finish(query::run(
            &socket,
            ModelRef {
                dir: model,
                precision,
                options: ModelOptions::default(),
            },
            text,
        )),
        Command::Extract {
            memory_limit,
            pdfs,
            sandbox,
            recognize,
        } => extraction::child(
            memory_limit.saturating_mul(1 << 20),
            &pdfs,
            recognize,
            sandbox.sandbox,
        ),
        Command::SandboxCheck {
            process,
            onnxruntime,
            openvino,
            execution_provider,
            model_dir,
            sandbox: Sandbox { sandbox },
            path,
        } => {
            let reach = match process {
                Sandboxed::Call => Ok(Reach::of_call()),
                Sandboxed::Embed => Ok(Reach::of_embed(
                    &onnxruntime,
                    &openvino,
                    &model_dir,
                    execution_provider,
                )),
                Sandboxed::Extract => Ok(Reach::nothing()),
                Sandboxed::Ingest => ingest::reach_of_job(),
            };
            finish(reach.and_then(|reach| sandbox::check(&reach, sandbox, &path)))
        }
    }
}

fn finish(result: Result<(), EngineError>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    tracing::error!(
        detail = error.detail.as_deref(),
        hint = error.hint.as_deref(),
        "{error}"
    );
    ExitCode::FAILURE
}
