//! `rag-engine ingest`: one run of one source, from its listing to chunks that are ready to be
//! embedded.
//!
//! ```text
//!  stdin: Job ─> limits ─> source: list ─> fetch ─> hash ─┬─ as before ─> Unchanged ─┐
//!                                                         └─> extract ─> split ──────┴─> stdout: events, in order
//! ```
//!
//! * [`job`]: reads the job, and sends the one `Fatal` event if it fails;
//! * [`limits`]: the limits of the process;
//! * [`document`]: one file of the source, from its bytes to its event;
//! * [`members`]: the files in archives and mailboxes;
//! * [`pipeline`]: reads several of them at once and reports them in order, without collecting
//!   them;
//! * [`turns`]: the items of several servers, some at once;
//! * [`output`]: events as frames, or as readable lines.
//!
//! A document that fails is one `Failed` event and the run continues. Anything that could end the
//! process (a PDF that recurses without end) runs in a child (see [`crate::extraction`]).

mod document;
mod job;
mod limits;
mod members;
mod output;
mod pipeline;
mod turns;

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

/// Exit codes besides 0, those of [`process`] and clap's 2.
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
    // Before the job is read: it may contain credentials.
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
    // A folder must exist to be reachable.
    let make = |folder| DirBuilder::new().recursive(true).mode(0o700).create(folder);
    make(&job.clones.dir)
        .and_then(|()| make(&job.work_dir))
        .map_err(|e| internal("could not create the folders of the run", &e))?;
    for missing in Reach::of_ingest(job).enter(sandbox)? {
        // `embed` warns of it.
        tracing::debug!("{missing}");
    }
    Ok(())
}

/// Returns what a run of the job on standard input can reach.
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
