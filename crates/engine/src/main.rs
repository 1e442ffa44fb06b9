//! `rag-engine`: everything of `rag` that parses untrusted bytes, speaks to the network or runs a
//! model.
//!
//! * [`embed`]: one process per cluster keeps models in memory and serves all backends over a
//!   socket;
//! * [`ingest`]: one process per run fetches, extracts and splits the documents of a source;
//! * [`extraction`]: a process reads PDFs, pages, code and all else that is parsed, for either of
//!   the two;
//! * [`query`]: a client for people;
//! * [`pdfs`]: what PDFs are read with.
//!
//! Each of the first three is in a [`sandbox`].
//!
//! It is an ordinary program without any Postgres in it. When it crashes, one query or one run gets
//! an error; a crash in a process of Postgres restarts the whole cluster.

mod embed;
mod extraction;
mod ingest;
mod log;
mod pdfs;
mod process;
mod query;
mod redaction;
mod sandbox;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};
use rag_protocol::{
    EngineError,
    embed::{ModelRef, Precision},
};
use tracing::Level;

use self::sandbox::{Mode, Reach};

/// Embeds texts and ingests sources for rag, the PostgreSQL extension, which starts it by itself.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// What to log to standard error: error, warn, info or debug.
    #[arg(long, global = true, default_value = "info")]
    log: Level,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  an error, told on standard error
  2  wrong usage
  3  the job on standard input makes no sense (ingest)
  4  the job as a whole could not be done; the Fatal event says why (ingest)
  6  the parent closed standard input or the other pipe: it is gone
  7  the job's wall-clock time was up (ingest)
  8  a client has asked for folders of models that can be read by a new process alone (embed)
A process that exceeds its processor time is killed by SIGXCPU; one that cannot have more memory aborts (SIGABRT).";

#[derive(Subcommand)]
enum Command {
    /// Keep models in memory and serve embeddings over a Unix socket, until killed.
    Embed {
        /// Where to put the socket. Its folder is made private (mode 0700).
        #[arg(long)]
        socket: PathBuf,
        /// ONNX Runtime's shared library.
        #[arg(long, value_name = "PATH")]
        onnxruntime: PathBuf,
        /// Threads that work on one batch.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
        threads: u16,
        /// Models that are kept in memory at a time.
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
        max_models: u16,
        /// A folder that models are read from, with all below it; any number of times.
        #[arg(long, value_name = "DIR")]
        model_dir: Vec<PathBuf>,
        /// MiB of address space that the process may have; 0: no limit.
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
    /// Do the run that standard input describes, and report its documents on standard output.
    Ingest {
        /// Take the job as plain JSON and print the events for people; for debugging by hand.
        #[arg(long)]
        pretty: bool,
        #[command(flatten)]
        pdfs: pdfs::Options,
        #[command(flatten)]
        sandbox: Sandbox,
    },
    /// Ask a running engine for embeddings and print their first values; for debugging by hand.
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
        /// MiB of address space that the process may have.
        #[arg(long, default_value_t = 1024)]
        memory_limit: u64,
        #[command(flatten)]
        pdfs: pdfs::Options,
        #[command(flatten)]
        sandbox: Sandbox,
    },
    /// Enter the sandbox of another command and print what can be reached from there.
    #[command(hide = true)]
    SandboxCheck {
        /// Whose sandbox. That of ingest is for the job on standard input, in plain JSON.
        process: Sandboxed,
        #[arg(long, default_value = "libonnxruntime.so")]
        onnxruntime: PathBuf,
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
    /// Whether the process keeps itself from all that it does not need.
    #[arg(long, value_enum, default_value_t = Mode::On)]
    sandbox: Mode,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sandboxed {
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
    // Those who debug by hand want a process that listens to their terminal, not to its parent.
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
            threads,
            max_models,
            model_dir,
            memory_limit,
            watch_stdin,
            pdfs,
            sandbox: Sandbox { sandbox },
        } => {
            pdfs.keep();
            finish(embed::run(embed::Options {
                socket,
                onnxruntime,
                threads: threads.into(),
                max_models: max_models.into(),
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
            },
            text,
        )),
        Command::Extract {
            memory_limit,
            pdfs,
            sandbox,
        } => extraction::child(memory_limit.saturating_mul(1 << 20), &pdfs, sandbox.sandbox),
        Command::SandboxCheck {
            process,
            onnxruntime,
            model_dir,
            sandbox: Sandbox { sandbox },
            path,
        } => {
            let reach = match process {
                Sandboxed::Embed => Ok(Reach::of_embed(&onnxruntime, &model_dir)),
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
