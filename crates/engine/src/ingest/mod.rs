//! `rag-engine ingest`: one run of one source, from its listing to chunks that wait for embeddings.
//!
//! ```text
//!  stdin: Job ─> limits ─> source: list ─> fetch ─> hash ─┬─ as before ─> Unchanged ─┐
//!                                                         └─> extract ─> split ──────┴─> stdout: events, in order
//! ```
//!
//! * [`job`]: reading the job, and the one `Fatal` event where it cannot be done;
//! * [`limits`]: what bounds the process;
//! * [`document`]: one item of the source, from its bytes to its event;
//! * [`pipeline`]: several of them at once, reported in order and never collected;
//! * [`output`]: events as frames, or as lines for people.
//!
//! A document that fails is one `Failed` event and the run goes on. What would take the process
//! with it (a PDF that recurses without end) runs in a child (see [`crate::extraction`]).

mod document;
mod job;
mod limits;
mod output;
mod pipeline;

use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt, process::ExitCode};

use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Event, Job},
};

pub use self::output::Form;
use self::output::Output;
use crate::{
    process,
    sandbox::{Mode, Reach},
};

/// Exit codes beside 0, those of [`process`] and clap's 2.
pub const BAD_JOB: u8 = 3;
pub const FATAL: u8 = 4;

/// Runs the job on standard input.
pub fn run(form: Form, sandbox: Mode) -> ExitCode {
    let output = match process::take_stdout() {
        Ok(file) => Output::new(file, form),
        Err(e) => {
            tracing::error!("standard output cannot be used: {e}");
            return ExitCode::FAILURE;
        }
    };
    // before the job is read: it may hold credentials
    if let Err(e) = process::limit(process::NO_CORE_DUMP) {
        return fatal(
            &output,
            internal("could not set the limits of the process", &e),
            FATAL,
        );
    }
    let job = match job::read(form) {
        Ok(job) => job,
        Err(error) => return fatal(&output, error, BAD_JOB),
    };
    if let Err(error) = enter(&job, sandbox) {
        return fatal(&output, error, FATAL);
    }
    if form == Form::Frames
        && let Err(e) = process::watch_stdin()
    {
        return fatal(&output, internal("could not watch the parent", &e), FATAL);
    }
    if let Err(e) = limits::apply(&job.limits, &output) {
        return fatal(
            &output,
            internal("could not set the limits of the process", &e),
            FATAL,
        );
    }
    match job::perform(&job, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fatal(&output, error, FATAL),
    }
}

/// Enters the sandbox of a job.
fn enter(job: &Job, sandbox: Mode) -> Result<(), EngineError> {
    // it can be reached only if it is there
    let make = |folder| DirBuilder::new().recursive(true).mode(0o700).create(folder);
    make(&job.clones.dir)
        .and_then(|()| make(&job.work_dir))
        .map_err(|e| internal("could not make the folders of the run", &e))?;
    for missing in Reach::of_ingest(job).enter(sandbox)? {
        // `embed` warns of it
        tracing::debug!("{missing}");
    }
    Ok(())
}

/// What a run of the job on standard input can reach.
///
/// # Errors
/// `InvalidRequest`.
pub fn reach_of_job() -> Result<Reach, EngineError> {
    job::read(Form::Pretty).map(|job| Reach::of_ingest(&job))
}

fn fatal(output: &Output, error: EngineError, code: u8) -> ExitCode {
    tracing::error!(detail = error.detail.as_deref(), "{error}");
    output.emit(&Event::Fatal { error }, "");
    ExitCode::from(code)
}

fn internal(what: &str, e: &std::io::Error) -> EngineError {
    EngineError::new(ErrorKind::Internal, what).detail(e.to_string())
}
