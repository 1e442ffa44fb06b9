//! Extraction of documents in a process of its own.
//!
//! Reading a PDF, a page or source code is where memory, time and stack can be lost to a few
//! kilobytes of input. So it is done by a child, the same program as `rag-engine extract`, with
//! limits that make a bad file one failed document:
//!
//! | limit | value |
//! |---|---|
//! | address space | 1 GiB; for a session's large document 16 times its size more |
//! | processor time | 30 s a document |
//! | wall-clock time | 60 s a document |
//!
//! The child reads messages from its standard input (what the document is, and its bytes) and
//! answers each with one on its standard output (what was extracted, or the problem), until
//! standard input ends. A session's large document is split in such a child, too ([`split`]): it
//! can be ended at any time, and gives back all of its memory.
//!
//! Starting a process takes longer than reading a page. So a run keeps its children
//! ([`Extractors`]) for one document after another. One that died is replaced; one that is replaced
//! in any case after [`DOCUMENTS`] documents, or once a document was large, gives back what the
//! allocator kept. A session's single document gets a child of its own.

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

use rag_document::{Extracted, Problem};
use rag_protocol::{
    frame::{self, Frame},
    ingest::{Content, DocumentType, Splitting, Stage},
};
use serde::{Deserialize, Serialize};

use crate::{
    embed::tokens::ModelTokenizer,
    pdfs,
    process::{self, Limit},
    sandbox::{self, Mode, Reach},
};

const MEMORY: u64 = 1 << 30;
const CPU_SECONDS: u64 = 30;
const WALL: Duration = Duration::from_secs(60);
/// How often a parent that waits looks whether anybody still wants the result.
const TICK: Duration = Duration::from_millis(100);
/// Documents that one child reads.
const DOCUMENTS: usize = 500;
/// A document of so many bytes is the last of its child.
const LARGE: usize = 4 << 20;

/// What the child is to do with the bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Extract {
        document_type: DocumentType,
        name: String,
        media_type: Option<String>,
    },
    /// The bytes are `text_bytes` of text, which `extracted` is without, and the model's
    /// `tokenizer.json`.
    Split {
        document_type: DocumentType,
        extracted: Box<Extracted>,
        text_bytes: usize,
        splitting: Splitting,
        max_tokens: usize,
    },
}

/// What the child answers. The bytes are the text of what was extracted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Extracted(Extracted),
    Content(Content),
    Problem(Problem),
}

fn problem(message: impl Into<String>, hint: Option<String>) -> Problem {
    Problem {
        hint,
        ..Problem::new(Stage::Extract, message)
    }
}

/// Whether a type has a parser that should not run in the process which many documents or people
/// depend on.
pub fn needs_isolation(document_type: DocumentType) -> bool {
    !matches!(document_type, DocumentType::Markdown | DocumentType::Text)
}

/// Children that are kept between documents, by the thread that started them: the kernel ends a
/// child with that thread, so no other may rely on it.
#[derive(Debug, Default)]
pub struct Extractors {
    idle: Mutex<HashMap<ThreadId, Extractor>>,
}

impl Extractors {
    /// Extracts in a child, as many at a time as there are callers.
    ///
    /// # Errors
    /// What extraction says, or that the child crashed or reached a limit.
    pub fn extract(
        &self,
        bytes: &[u8],
        document_type: DocumentType,
        name: &str,
        media_type: Option<&str>,
    ) -> Result<Extracted, Problem> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().remove(&thread::current().id());
        let order = order(bytes, document_type, name, media_type)?;
        // A child that crashes may have been damaged by a document before: only a new one's word is
        // believed.
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
        if extractor.documents < DOCUMENTS && bytes.len() < LARGE {
            idle().insert(thread::current().id(), extractor);
        }
        outcome
    }
}

/// Extracts in a child of its own; gives up early where `abandoned` says that nobody waits any
/// more.
///
/// # Errors
/// What extraction says, or that the child crashed or reached a limit.
pub fn isolated(
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
    abandoned: &dyn Fn() -> bool,
) -> Result<Extracted, Problem> {
    let order = order(bytes, document_type, name, media_type)?;
    let answer = Extractor::start(memory_for(bytes.len()))?.ask(order, abandoned)?;
    answer
        .and_then(extracted)
        .inspect(|extracted| pdfs::log(name, extracted))
}

/// Splits in a child of its own, as [`rag_document::content`] does; gives up early as [`isolated`]
/// does.
///
/// # Errors
/// What splitting says, or that the child crashed or reached a limit.
pub fn split(
    extracted: &mut Extracted,
    document_type: DocumentType,
    splitting: Splitting,
    tokens: &ModelTokenizer,
    abandoned: &dyn Fn() -> bool,
) -> Result<Content, Problem> {
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
        _ => Err(unable(&"it answered another question")),
    }
}

/// The child's address space for a document of so many bytes.
fn memory_for(bytes: usize) -> u64 {
    MEMORY + 16 * bytes as u64
}

fn order(
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
) -> Result<Vec<u8>, Problem> {
    encode(
        &Order::Extract {
            document_type,
            name: name.into(),
            media_type: media_type.map(str::to_owned),
        },
        bytes,
    )
}

fn encode(order: &Order, bytes: &[u8]) -> Result<Vec<u8>, Problem> {
    frame::encode(order, bytes).map_err(|e| {
        problem(
            format!("the document is too large to be extracted: {e}"),
            None,
        )
    })
}

fn extracted((outcome, text): (Outcome, Vec<u8>)) -> Result<Extracted, Problem> {
    let Outcome::Extracted(extracted) = outcome else {
        return Err(unable(&"it answered another question"));
    };
    String::from_utf8(text)
        .map(|text| Extracted { text, ..extracted })
        .map_err(|e| unable(&e))
}

fn unable(e: &dyn std::fmt::Display) -> Problem {
    problem(format!("the extractor could not be started: {e}"), None)
}

/// How a child came to its end.
struct End {
    problem: Problem,
    /// It was not ended, but broke.
    is_crash: bool,
}

impl From<End> for Problem {
    fn from(end: End) -> Self {
        end.problem
    }
}

/// A child that waits for documents. It ends when this is dropped.
#[derive(Debug)]
struct Extractor {
    child: Child,
    to: Option<ChildStdin>,
    /// Its answers; closed when it has ended.
    from: Receiver<Frame>,
    documents: usize,
}

impl Extractor {
    fn start(memory: u64) -> Result<Self, Problem> {
        // The file this process was started from, even where an upgrade has replaced or removed it
        // since.
        let mut child = Command::new("/proc/self/exe")
            .arg("extract")
            .args(["--memory-limit", &(memory >> 20).to_string()])
            .args(pdfs::options())
            .args(sandbox::option())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| unable(&e))?;
        let stdout = child.stdout.take();
        let (sender, from) = mpsc::channel();
        let extractor = Self {
            to: child.stdin.take(),
            child,
            from,
            documents: 0,
        };
        let mut answers = stdout.ok_or_else(|| unable(&"no pipes"))?;
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
            .map_err(|e| unable(&e))?;
        Ok(extractor)
    }

    /// What became of one document; an error where that was the end of the child.
    fn ask(
        &mut self,
        order: Vec<u8>,
        abandoned: &dyn Fn() -> bool,
    ) -> Result<Result<(Outcome, Vec<u8>), Problem>, End> {
        let answer = thread::scope(|scope| {
            let (child, from) = (&mut self.child, &self.from);
            let to = &mut self.to;
            scope.spawn(move || {
                // A child that dies early leaves a broken pipe; its status says more.
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
                        break Err(problem("nobody waits for the text any more", None));
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
            Some((Ok(Outcome::Problem(problem)), _)) => Ok(Err(problem)),
            Some((Ok(outcome), text)) => Ok(Ok((outcome, text))),
            Some((Err(_), _)) | None => {
                let _ = self.to.take();
                let status = self.child.wait().map_err(|e| End {
                    problem: unable(&e),
                    is_crash: false,
                })?;
                let is_crash = !matches!(status.signal(), Some(libc::SIGXCPU | libc::SIGKILL));
                Err(End {
                    problem: post_mortem(status),
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
                        Outcome::Extracted(Extracted {
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
                let tokens = ModelTokenizer::again(json, max_tokens)?;
                let extracted = Extracted {
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
            Err(problem) => frame::write(&mut output, &Outcome::Problem(problem), &[])?,
        }
    }
    Ok(())
}
