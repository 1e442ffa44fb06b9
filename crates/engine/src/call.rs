//! `rag-engine call`: one call of a model on another server.
//!
//! ```text
//!  stdin: Call ─> hide its secrets ─> sandbox ─> clock ─> rag_remote ─> stdout: events
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

use rag_protocol::{
    EngineError, ErrorKind,
    call::{Call, CallEvent},
    frame,
};
use serde_json::Value;

use crate::{
    process::{self, Limit},
    redaction,
    sandbox::{Mode, Reach},
};

/// Exit code for a call that could not be parsed.
const BAD_CALL: u8 = 3;
/// Address space, in bytes: many times of what the largest answer needs.
const MEMORY: u64 = 2 << 30;
const OPEN_FILES: u64 = 256;

/// Executes the call on standard input.
pub fn run(sandbox: Mode) -> ExitCode {
    let output = match process::take_stdout() {
        Ok(file) => Output(Arc::new(Mutex::new(file))),
        Err(e) => {
            tracing::error!("standard output cannot be used: {e}");
            return ExitCode::FAILURE;
        }
    };
    // before the call is read: it may contain a key
    let prepared = process::limit(process::NO_CORE_DUMP).map_err(|e| internal(&e));
    let call = match prepared.and_then(|()| read()) {
        Ok(call) => call,
        Err(error) => {
            output.fail(error);
            return ExitCode::from(BAD_CALL);
        }
    };
    if let Err(error) = prepare(&call, sandbox, &output) {
        output.fail(error);
        return ExitCode::FAILURE;
    }
    rag_remote::perform(&call, &mut |event| output.emit(&event));
    ExitCode::SUCCESS
}

fn read() -> Result<Call, EngineError> {
    let bad = |e: &dyn std::fmt::Display| {
        EngineError::new(
            ErrorKind::InvalidRequest,
            "the engine could not parse the call",
        )
        .detail(e.to_string())
    };
    let message = frame::read(&mut io::stdin().lock()).map_err(|e| bad(&e))?;
    let message = message.ok_or_else(|| bad(&"standard input is empty"))?;
    match message.header::<Call>() {
        Ok(call) => {
            redaction::hide(call.credentials.as_ref(), &call.network);
            Ok(call)
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

fn prepare(call: &Call, sandbox: Mode, output: &Output) -> Result<(), EngineError> {
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
    let (output, late) = (output.clone(), rag_remote::timeout(call));
    process::watch_clock(Duration::from_millis(call.timeout_ms), move || {
        output.emit(&CallEvent::Failed {
            error: late,
            was_sent: true,
        });
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
    fn fail(&self, error: EngineError) {
        self.emit(&CallEvent::Failed {
            error,
            was_sent: false,
        });
    }

    /// Writes an event. Errors lose the secrets of the call: servers echo what they receive.
    fn emit(&self, event: &CallEvent) {
        let redacted;
        let event = match event {
            CallEvent::Failed { error, was_sent } => {
                redacted = CallEvent::Failed {
                    error: redaction::redacted_error(error),
                    was_sent: *was_sent,
                };
                &redacted
            }
            other => other,
        };
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if frame::write(&mut *file, event, &[]).is_err() {
            std::process::exit(process::ORPHANED);
        }
    }
}
