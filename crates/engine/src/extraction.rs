//! Extraction of one document in a process of its own.
//!
//! Reading a PDF is where memory, time and stack can be lost to a few kilobytes of input. So it is done by a child, the
//! same program as `rag-engine extract`, with limits that make a bad file one failed document:
//!
//! | limit | value |
//! |---|---|
//! | address space | 1 GiB |
//! | processor time | 30 s |
//! | wall-clock time | 60 s |
//!
//! The child reads one message from its standard input (what the document is, and its bytes) and writes one to its
//! standard output (what was extracted, or the problem).

use std::{
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rag_document::{Extracted, Problem};
use rag_protocol::{
    frame::{self, Frame},
    ingest::{DocumentType, Stage},
};
use serde::{Deserialize, Serialize};

use crate::process::{self, Limit};

const MEMORY: u64 = 1 << 30;
const CPU_SECONDS: u64 = 30;
const WALL: Duration = Duration::from_secs(60);
/// How often a parent that waits looks whether anybody still wants the result.
const TICK: Duration = Duration::from_millis(100);

/// What the child is told besides the bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    document_type: DocumentType,
    name: String,
}

/// What the child answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Extracted(Extracted),
    Problem(Problem),
}

fn problem(message: impl Into<String>, hint: Option<String>) -> Problem {
    Problem { stage: Stage::Extract, message: message.into(), hint }
}

/// Extracts in a child; gives up early where `abandoned` says that nobody waits any more.
///
/// # Errors
/// What extraction says, or that the child crashed or reached a limit.
pub fn isolated(
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    abandoned: &dyn Fn() -> bool,
) -> Result<Extracted, Problem> {
    let unable = |e: &dyn std::fmt::Display| problem(format!("the extractor could not be started: {e}"), None);
    let order = frame::encode(&Order { document_type, name: name.into() }, bytes)
        .map_err(|e| problem(format!("the document is too large to be extracted: {e}"), None))?;
    // The file this process was started from, even where an upgrade has replaced or removed it since.
    let mut child = Command::new("/proc/self/exe")
        .arg("extract")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| unable(&e))?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (mut to, mut from) = pipes.ok_or_else(|| unable(&"no pipes"))?;

    let answer = thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || {
            // A child that dies early leaves a broken pipe; its status says more.
            let _ = to.write_all(&order);
        });
        scope.spawn(move || drop(sender.send(frame::read(&mut from).ok().flatten())));
        let deadline = Instant::now() + WALL;
        let answer = loop {
            match receiver.recv_timeout(TICK) {
                Ok(answer) => break Ok(answer),
                Err(RecvTimeoutError::Disconnected) => break Ok(None),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    break Err(problem(
                        "extracting the text took too long",
                        Some(format!("A document may take {} seconds.", WALL.as_secs())),
                    ));
                }
                Err(RecvTimeoutError::Timeout) if abandoned() => {
                    break Err(problem("nobody waits for the text any more", None));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        if answer.is_err() {
            let _ = child.kill(); // ends both threads
        }
        answer
    });
    let status = child.wait();
    let message: Option<Frame> = answer?;
    match (message.map(|m| m.header::<Outcome>()), status) {
        (Some(Ok(Outcome::Extracted(extracted))), _) => Ok(extracted),
        (Some(Ok(Outcome::Problem(problem))), _) => Err(problem),
        (_, Ok(status)) => Err(post_mortem(status)),
        (_, Err(e)) => Err(unable(&e)),
    }
}

/// What a child's end without an answer means.
fn post_mortem(status: ExitStatus) -> Problem {
    match status.signal() {
        Some(libc::SIGXCPU | libc::SIGKILL) => problem(
            "extracting the text took too much processor time",
            Some(format!("A document may take {CPU_SECONDS} seconds.")),
        ),
        // Rust aborts where memory cannot be had.
        Some(libc::SIGABRT) => problem(
            "extracting the text needs too much memory",
            Some(format!("A document may take {} MiB; the file may be damaged.", MEMORY >> 20)),
        ),
        Some(signal) => problem(format!("the extractor crashed on the document (signal {signal})"), None),
        None => problem(format!("the extractor failed on the document ({status})"), None),
    }
}

/// The child's side: `rag-engine extract`.
pub fn child() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("extract: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    process::limit(Limit::AddressSpace(MEMORY))?;
    process::limit(Limit::CpuSeconds(CPU_SECONDS))?;
    process::limit(Limit::FileSize(0))?;
    process::limit(Limit::OpenFiles(32))?;
    process::limit(process::NO_CORE_DUMP)?;
    let mut output = process::take_stdout()?;
    let message = frame::read(&mut io::stdin().lock())?.ok_or("there is nothing to extract")?;
    let order: Order = message.header()?;
    let outcome = match rag_document::extract(&message.payload, order.document_type, &order.name) {
        Ok(extracted) => Outcome::Extracted(extracted),
        Err(problem) => Outcome::Problem(problem),
    };
    frame::write(&mut output, &outcome, &[])?;
    Ok(())
}
