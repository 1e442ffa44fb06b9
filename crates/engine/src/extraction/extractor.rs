//! A child that extracts documents, as its parent sees it.

use std::{
    io::Write,
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rag_document::DocumentError;
use rag_protocol::frame::{self, Frame};

use super::{CPU_SECONDS, MEMORY, Outcome, extractor_failed, problem};
use crate::{pdfs, sandbox};

/// Maximum wall-clock time of a document, without the time for the recognition of its text.
const WALL: Duration = Duration::from_secs(60);
/// Interval at which a waiting parent checks whether the result is still wanted.
const TICK: Duration = Duration::from_millis(100);

/// Why a child ended.
pub struct End {
    pub problem: DocumentError,
    /// The child was not stopped, but crashed.
    pub is_crash: bool,
}

impl From<End> for DocumentError {
    fn from(end: End) -> Self {
        end.problem
    }
}

/// A child that waits for documents. It ends when this is dropped.
#[derive(Debug)]
pub struct Extractor {
    child: Child,
    to: Option<ChildStdin>,
    /// The child's answers; closed when it has ended.
    from: Receiver<Frame>,
    /// The number of documents that it has read.
    pub documents: usize,
    wall: Duration,
}

impl Extractor {
    /// Starts a child, with text recognition if `recognizes` says how long that may take.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(memory: u64, recognizes: Option<Duration>) -> Result<Self, DocumentError> {
        // The file that this process was started from, even if an upgrade has replaced or removed
        // it.
        let mut child = Command::new("/proc/self/exe")
            .arg("extract")
            .args(["--memory-limit", &(memory >> 20).to_string()])
            .args(pdfs::options())
            .args(recognizes.map(|_| "--recognize"))
            .args(sandbox::option())
            // `lopdf` would start a thread per processor, and each reserves address space.
            .env("RAYON_NUM_THREADS", "1")
            // Tesseract, too
            .env("OMP_THREAD_LIMIT", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| extractor_failed(&e))?;
        let stdout = child.stdout.take();
        // A child that unpacks waits until its last answer is taken.
        let (sender, from) = mpsc::sync_channel(1);
        let extractor = Self {
            to: child.stdin.take(),
            child,
            from,
            documents: 0,
            wall: WALL + recognizes.unwrap_or_default(),
        };
        let mut answers = stdout.ok_or_else(|| extractor_failed(&"no pipes"))?;
        let read = move || {
            while let Ok(Some(answer)) = frame::read(&mut answers) {
                if sender.send(answer).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new()
            .name("extractor".into())
            .spawn(read)
            .map_err(|e| extractor_failed(&e))?;
        Ok(extractor)
    }

    /// Returns the result for one document, or an error if the child ended.
    ///
    /// # Errors
    /// Why the child ended.
    pub fn ask(
        &mut self,
        order: Vec<u8>,
        abandoned: &dyn Fn() -> bool,
    ) -> Result<Result<(Outcome, Vec<u8>), DocumentError>, End> {
        let (child, from, to) = (&mut self.child, &self.from, &mut self.to);
        let wall = self.wall;
        let answer = thread::scope(|scope| {
            scope.spawn(move || {
                // A child that dies early leaves a broken pipe. Its exit status tells more.
                let _ = to
                    .as_mut()
                    .map(|to| to.write_all(&order).and_then(|()| to.flush()));
            });
            wait(child, from, wall, abandoned)
        });
        self.understood(answer)
    }

    /// Returns the next answer to an order that has several.
    ///
    /// # Errors
    /// Why the child ended.
    pub fn next(
        &mut self,
        abandoned: &dyn Fn() -> bool,
    ) -> Result<Result<(Outcome, Vec<u8>), DocumentError>, End> {
        let answer = wait(&mut self.child, &self.from, self.wall, abandoned);
        self.understood(answer)
    }

    fn understood(
        &mut self,
        answer: Result<Option<Frame>, DocumentError>,
    ) -> Result<Result<(Outcome, Vec<u8>), DocumentError>, End> {
        let answer = answer.map_err(|problem| End {
            problem,
            is_crash: false,
        })?;
        match answer.map(|message: Frame| (message.header::<Outcome>(), message.payload)) {
            Some((Ok(Outcome::Failed(problem)), _)) => Ok(Err(problem)),
            Some((Ok(outcome), text)) => Ok(Ok((outcome, text))),
            Some((Err(_), _)) | None => {
                let _ = self.to.take();
                let status = self.child.wait().map_err(|e| End {
                    problem: extractor_failed(&e),
                    is_crash: false,
                })?;
                let is_crash = !matches!(status.signal(), Some(libc::SIGXCPU | libc::SIGKILL));
                Err(End {
                    problem: error_of_exit(status),
                    is_crash,
                })
            }
        }
    }
}

/// Waits for an answer. Returns `None` if the child has ended. Kills a child that takes too long.
fn wait(
    child: &mut Child,
    from: &Receiver<Frame>,
    wall: Duration,
    abandoned: &dyn Fn() -> bool,
) -> Result<Option<Frame>, DocumentError> {
    let deadline = Instant::now() + wall;
    let answer = loop {
        match from.recv_timeout(TICK) {
            Ok(answer) => break Ok(Some(answer)),
            Err(RecvTimeoutError::Disconnected) => break Ok(None),
            Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                break Err(problem(
                    "extracting the text took too long",
                    Some(format!("A document may take {} seconds.", wall.as_secs())),
                ));
            }
            Err(RecvTimeoutError::Timeout) if abandoned() => {
                break Err(problem("the request was canceled", None));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    if answer.is_err() {
        let _ = child.kill(); // ends the thread that writes
    }
    answer
}

impl Drop for Extractor {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the meaning of a child's end without an answer.
fn error_of_exit(status: ExitStatus) -> DocumentError {
    match status.signal() {
        Some(libc::SIGXCPU | libc::SIGKILL) => problem(
            "extracting the text took too much processor time",
            Some(format!("A document may take {CPU_SECONDS} seconds.")),
        ),
        // Rust aborts if an allocation fails.
        Some(libc::SIGABRT) => problem(
            "extracting the text needs too much memory",
            Some(format!(
                "A document may take {} MiB; the file may be damaged.",
                MEMORY >> 20
            )),
        ),
        Some(signal) => problem(
            format!("the extractor crashed on the document (signal {signal})"),
            None,
        ),
        None => problem(
            format!("the extractor failed on the document ({status})"),
            None,
        ),
    }
}
