//! Extracts documents in a separate process.
//!
//! A few kilobytes of PDF, HTML or source code can cost much memory, time or stack. So a child
//! process reads them: the same program, as `rag-engine extract`. Its limits make a bad file one
//! failed document:
//!
//! | limit | value |
//! |---|---|
//! | address space | 1 GiB, plus 16 times the size of a session's large document |
//! | processor time | 30 s per document |
//! | wall-clock time | 60 s per document |
//!
//! The child reads messages from its standard input (the order, and the document's bytes). It
//! answers each with one on its standard output (the extracted document, or the error), until
//! standard input ends. A session's large document is split in such a child, too ([`split`]): it
//! can be stopped at any time, and returns all of its memory.
//!
//! Starting a process takes longer than reading a page. So a run keeps its children
//! ([`Extractors`]) for one document after another. A child that died is replaced. A child is also
//! replaced after [`DOCUMENTS`] documents and after a large document, to return the memory that the
//! allocator kept. A session's single document has its own child.

use std::{
    collections::HashMap,
    io::{self, Write},
    mem,
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use rag_definition::DocumentType;
use rag_document::{DocumentError, ExtractedDocument};
use rag_protocol::{
    frame::{self, Frame},
    ingest::{Content, Splitting, Stage},
};
use serde::{Deserialize, Serialize};

use crate::{
    embed::counter::ChunkCounter,
    pdfs,
    process::{self, Limit},
    sandbox::{self, Mode, Reach},
};

const MEMORY: u64 = 1 << 30;
const CPU_SECONDS: u64 = 30;
const WALL: Duration = Duration::from_secs(60);
/// Interval at which a waiting parent checks whether the result is still wanted.
const TICK: Duration = Duration::from_millis(100);
/// Number of documents that one child reads.
const DOCUMENTS: usize = 500;
/// Size in bytes from which a document is the last one of its child.
const LARGE_BYTES: usize = 4 << 20;

/// An order for the child about the bytes of the message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Extract {
        document_type: DocumentType,
        name: String,
        media_type: Option<String>,
    },
    /// The bytes are `text_bytes` of text, which `extracted` lacks, and a `tokenizer.json`. Without
    /// one the tokens are estimated.
    Split {
        document_type: DocumentType,
        extracted: Box<ExtractedDocument>,
        text_bytes: usize,
        splitting: Splitting,
        max_tokens: usize,
    },
}

/// The child's answer. The bytes are the extracted text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    ExtractedDocument(ExtractedDocument),
    Content(Content),
    Failed(DocumentError),
}

fn problem(message: impl Into<String>, hint: Option<String>) -> DocumentError {
    DocumentError {
        hint,
        ..DocumentError::new(Stage::Extract, message)
    }
}

/// Returns true if a type has a parser that should not run in a process that many documents or
/// sessions depend on.
pub fn needs_isolation(document_type: DocumentType) -> bool {
    !matches!(document_type, DocumentType::Markdown | DocumentType::Text)
}

/// Children that are kept between documents, by the thread that started them. The kernel ends a
/// child with that thread, so no other thread may use it.
#[derive(Debug, Default)]
pub struct Extractors {
    idle: Mutex<HashMap<ThreadId, Extractor>>,
}

impl Extractors {
    /// Extracts in a child. Each caller has its own.
    ///
    /// # Errors
    /// The error of the extraction, or that the child crashed or reached a limit.
    pub fn extract(
        &self,
        bytes: &[u8],
        document_type: DocumentType,
        name: &str,
        media_type: Option<&str>,
    ) -> Result<ExtractedDocument, DocumentError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().remove(&thread::current().id());
        let order = order(bytes, document_type, name, media_type)?;
        // An earlier document may have corrupted a child that crashes, so a new one tries again.
        let mut extractor = kept.map_or_else(|| Extractor::start(MEMORY), Ok)?;
        let answer = match extractor.ask(order.clone(), &|| false) {
            Err(end) if end.is_crash && extractor.documents > 0 => {
                extractor = Extractor::start(MEMORY)?;
                extractor.ask(order, &|| false)
            }
            answer => answer,
        }?;
        let outcome = answer
            .and_then(extracted)
            .inspect(|extracted| pdfs::log(name, extracted));
        extractor.documents += 1;
        if extractor.documents < DOCUMENTS && bytes.len() < LARGE_BYTES {
            idle().insert(thread::current().id(), extractor);
        }
        outcome
    }
}

/// Extracts in a separate child. Stops early if `abandoned` returns true.
///
/// # Errors
/// The error of the extraction, or that the child crashed or reached a limit.
pub fn isolated(
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
    abandoned: &dyn Fn() -> bool,
) -> Result<ExtractedDocument, DocumentError> {
    let order = order(bytes, document_type, name, media_type)?;
    let answer = Extractor::start(memory_for(bytes.len()))?.ask(order, abandoned)?;
    answer
        .and_then(extracted)
        .inspect(|extracted| pdfs::log(name, extracted))
}

/// Splits in a separate child, as [`rag_document::content`] does. Stops early if `abandoned`
/// returns true.
///
/// # Errors
/// The error of the splitter, or that the child crashed or reached a limit.
pub fn split(
    extracted: &mut ExtractedDocument,
    document_type: DocumentType,
    splitting: Splitting,
    tokens: &ChunkCounter,
    abandoned: &dyn Fn() -> bool,
) -> Result<Content, DocumentError> {
    let (json, max_tokens) = tokens.recipe();
    let text = mem::take(&mut extracted.text);
    let order = Order::Split {
        document_type,
        extracted: Box::new(extracted.clone()),
        text_bytes: text.len(),
        splitting,
        max_tokens,
    };
    let order = encode(&order, &[text.as_bytes(), &json].concat());
    let memory = memory_for(text.len());
    extracted.text = text;
    match Extractor::start(memory)?.ask(order?, abandoned)?? {
        (Outcome::Content(content), _) => Ok(content),
        _ => Err(extractor_failed(&"it sent an unexpected answer")),
    }
}

/// Returns the child's address space for a document of this size.
fn memory_for(bytes: usize) -> u64 {
    MEMORY + 16 * bytes as u64
}

fn order(
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
) -> Result<Vec<u8>, DocumentError> {
    encode(
        &Order::Extract {
            document_type,
            name: name.into(),
            media_type: media_type.map(str::to_owned),
        },
        bytes,
    )
}

fn encode(order: &Order, bytes: &[u8]) -> Result<Vec<u8>, DocumentError> {
    frame::encode(order, bytes).map_err(|e| {
        problem(
            format!("the document is too large to be extracted: {e}"),
            None,
        )
    })
}

fn extracted((outcome, text): (Outcome, Vec<u8>)) -> Result<ExtractedDocument, DocumentError> {
    let Outcome::ExtractedDocument(extracted) = outcome else {
        return Err(extractor_failed(&"it sent an unexpected answer"));
    };
    String::from_utf8(text)
        .map(|text| ExtractedDocument { text, ..extracted })
        .map_err(|e| extractor_failed(&e))
}

fn extractor_failed(e: &dyn std::fmt::Display) -> DocumentError {
    problem(format!("the extractor failed: {e}"), None)
}

/// Why a child ended.
struct End {
    problem: DocumentError,
    /// The child was not stopped, but crashed.
    is_crash: bool,
}

impl From<End> for DocumentError {
    fn from(end: End) -> Self {
        end.problem
    }
}

/// A child that waits for documents. It ends when this is dropped.
#[derive(Debug)]
struct Extractor {
    child: Child,
    to: Option<ChildStdin>,
    /// The child's answers; closed when it has ended.
    from: Receiver<Frame>,
    documents: usize,
}

impl Extractor {
    fn start(memory: u64) -> Result<Self, DocumentError> {
        // The file that this process was started from, even if an upgrade has replaced or removed
        // it.
        let mut child = Command::new("/proc/self/exe")
            .arg("extract")
            .args(["--memory-limit", &(memory >> 20).to_string()])
            .args(pdfs::options())
            .args(sandbox::option())
            // `lopdf` would start a thread per processor, and each reserves address space.
            .env("RAYON_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| extractor_failed(&e))?;
        let stdout = child.stdout.take();
        let (sender, from) = mpsc::channel();
        let extractor = Self {
            to: child.stdin.take(),
            child,
            from,
            documents: 0,
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
    fn ask(
        &mut self,
        order: Vec<u8>,
        abandoned: &dyn Fn() -> bool,
    ) -> Result<Result<(Outcome, Vec<u8>), DocumentError>, End> {
        let answer = thread::scope(|scope| {
            let (child, from) = (&mut self.child, &self.from);
            let to = &mut self.to;
            scope.spawn(move || {
                // A child that dies early leaves a broken pipe. Its exit status tells more.
                let _ = to
                    .as_mut()
                    .map(|to| to.write_all(&order).and_then(|()| to.flush()));
            });
            let deadline = Instant::now() + WALL;
            let answer = loop {
                match from.recv_timeout(TICK) {
                    Ok(answer) => break Ok(Some(answer)),
                    Err(RecvTimeoutError::Disconnected) => break Ok(None),
                    Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                        break Err(problem(
                            "extracting the text took too long",
                            Some(format!("A document may take {} seconds.", WALL.as_secs())),
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
        });
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

/// The child's side: `rag-engine extract`.
pub fn child(memory: u64, pdfs: &pdfs::Options, sandbox: Mode) -> ExitCode {
    match serve(memory, pdfs, sandbox) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("extract: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve(
    memory: u64,
    pdfs: &pdfs::Options,
    sandbox: Mode,
) -> Result<(), Box<dyn std::error::Error>> {
    process::limit(Limit::AddressSpace(memory))?;
    process::limit(Limit::FileSize(0))?;
    process::limit(Limit::OpenFiles(32))?;
    process::limit(process::NO_CORE_DUMP)?;
    let mut output = process::take_stdout()?;
    let reader = pdfs.reader();
    Reach::nothing().enter(sandbox)?;
    let mut input = io::stdin().lock();
    while let Some(message) = frame::read(&mut input)? {
        process::limit_cpu_from_now(CPU_SECONDS)?;
        let done = match message.header()? {
            Order::Extract {
                document_type,
                name,
                media_type,
            } => {
                let media_type = media_type.as_deref();
                rag_document::extract_with(
                    &reader,
                    &message.payload,
                    document_type,
                    &name,
                    media_type,
                )
                .map(|extracted| {
                    let text = extracted.text;
                    (
                        Outcome::ExtractedDocument(ExtractedDocument {
                            text: String::new(),
                            ..extracted
                        }),
                        text,
                    )
                })
            }
            Order::Split {
                document_type,
                extracted,
                text_bytes,
                splitting,
                max_tokens,
            } => {
                let (text, json) = message
                    .payload
                    .split_at_checked(text_bytes)
                    .ok_or("a text is missing")?;
                let tokens = ChunkCounter::rebuilt(json, max_tokens)?;
                let extracted = ExtractedDocument {
                    text: str::from_utf8(text)?.into(),
                    ..*extracted
                };
                drop(message);
                rag_document::content(&extracted, document_type, &splitting, &tokens)
                    .map(|content| (Outcome::Content(content), String::new()))
            }
        };
        match done {
            Ok((outcome, text)) => frame::write(&mut output, &outcome, text.as_bytes())?,
            Err(problem) => frame::write(&mut output, &Outcome::Failed(problem), &[])?,
        }
    }
    Ok(())
}
