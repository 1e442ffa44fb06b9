//! One request to a server, read from standard input and answered on standard output: what `call`
//! and `store` have in common.
//!
//! ```text
//!  stdin: request ─> hide its secrets ─> sandbox ─> clock ─> rag_remote ─> stdout: events
//! ```
//!
//! The sandbox allows the network, the resolver's settings and certificates. There are no files to
//! read and none to write.

use std::{
    fs::File,
    io,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rag_protocol::{EngineError, ErrorKind, frame};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    process::{self, Limit},
    redaction,
    sandbox::{Mode, Reach},
};

/// Exit code for a request that could not be parsed.
const BAD_REQUEST: u8 = 3;
/// Address space, in bytes: many times of what the largest answer needs.
const MEMORY: u64 = 2 << 30;
const OPEN_FILES: u64 = 256;

/// A request to a server.
pub trait Request: DeserializeOwned {
    type Event: Serialize;

    /// Starts to hide the secrets of the request.
    fn hide_secrets(&self);

    fn timeout_ms(&self) -> u64;

    /// Returns the event for a request that has taken too long.
    fn timed_out(&self) -> Self::Event;

    /// Returns the event for a request that was not sent.
    fn not_sent(error: EngineError) -> Self::Event;

    /// Returns an event without secrets: servers echo what they receive.
    fn redacted(event: Self::Event) -> Self::Event;

    /// Returns the payload of an event.
    fn payload(_event: &Self::Event) -> Vec<u8> {
        vec![]
    }

    /// Executes the request.
    fn perform(&self, emit: &mut dyn FnMut(Self::Event));
}

/// Executes the request on standard input.
pub fn run<R: Request>(sandbox: Mode) -> ExitCode
where
    R::Event: Send + 'static,
{
    let output = match process::take_stdout() {
        Ok(file) => Output(Arc::new(Mutex::new(file))),
        Err(e) => {
            tracing::error!("standard output cannot be used: {e}");
            return ExitCode::FAILURE;
        }
    };
    // before the request is read: it may contain a key
    let prepared = process::limit(process::NO_CORE_DUMP).map_err(|e| internal(&e));
    let request = match prepared.and_then(|()| read::<R>()) {
        Ok(request) => request,
        Err(error) => {
            output.emit::<R>(R::not_sent(error));
            return ExitCode::from(BAD_REQUEST);
        }
    };
    if let Err(error) = prepare(&request, sandbox, &output) {
        output.emit::<R>(R::not_sent(error));
        return ExitCode::FAILURE;
    }
    request.perform(&mut |event| output.emit::<R>(event));
    ExitCode::SUCCESS
}

fn read<R: Request>() -> Result<R, EngineError> {
    let bad = |e: &dyn std::fmt::Display| {
        EngineError::new(
            ErrorKind::InvalidRequest,
            "the engine could not parse the call",
        )
        .detail(e.to_string())
    };
    let message = frame::read(&mut io::stdin().lock()).map_err(|e| bad(&e))?;
    let message = message.ok_or_else(|| bad(&"standard input is empty"))?;
    match message.header::<R>() {
        Ok(request) => {
            request.hide_secrets();
            Ok(request)
        }
        Err(e) => {
            // the error may quote a secret
            if let Ok(anything) = message.header::<Value>() {
                redaction::hide_all_of(&anything);
            }
            Err(bad(&redaction::redacted(&e.to_string())))
        }
    }
}

fn prepare<R: Request>(request: &R, sandbox: Mode, output: &Output) -> Result<(), EngineError>
where
    R::Event: Send + 'static,
{
    for missing in Reach::of_call().enter(sandbox)? {
        // `embed` warns of it
        tracing::debug!("{missing}");
    }
    process::share_heaps();
    process::limit(Limit::OpenFiles(OPEN_FILES))
        .and_then(|()| process::limit(Limit::AddressSpace(MEMORY)))
        .and_then(|()| process::watch_stdin())
        .map_err(|e| internal(&e))?;
    // the client checks its time between reads
    let (output, late) = (output.clone(), request.timed_out());
    process::watch_clock(Duration::from_millis(request.timeout_ms()), move || {
        output.emit::<R>(late);
    })
    .map_err(|e| internal(&e))
}

fn internal(e: &io::Error) -> EngineError {
    EngineError::new(ErrorKind::Internal, "could not prepare the process").detail(e.to_string())
}

/// Standard output, shared with the clock, which may send the last event.
#[derive(Clone)]
struct Output(Arc<Mutex<File>>);

impl Output {
    fn emit<R: Request>(&self, event: R::Event) {
        let event = R::redacted(event);
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if frame::write(&mut *file, &event, &R::payload(&event)).is_err() {
            std::process::exit(process::ORPHANED);
        }
    }
}
