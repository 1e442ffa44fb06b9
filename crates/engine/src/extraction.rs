//! Extracts documents in a separate process.
//!
//! A few kilobytes of PDF, HTML or source code can cost much memory, time or stack. So a child
//! process reads them: the same program, as `rag-engine extract`. Its limits make a bad file one
//! failed document:
//!
//! | limit | value |
//! |---|---|
//! | address space | 1 GiB, plus 16 times the size of a session's large document |
//! | processor time | 30 s per document, plus the time for recognizing its text |
//! | wall-clock time | 60 s per document, plus the same |
//!
//! The child reads messages from its standard input (the order, and the document's bytes). It
//! answers each with one on its standard output (the extracted document, or the error), until
//! standard input ends. A session's large document is split in such a child, too ([`split`]): it
//! can be stopped at any time, and returns all of its memory.
//!
//! An archive or a mailbox is unpacked in a child as well ([`Extractors::unpack`]): it answers with
//! one file after another, as fast as they are read.
//!
//! A PDF with pages that are pictures is read again by a child that has loaded Tesseract.
//!
//! Starting a process takes longer than reading a page. So a run keeps its children
//! ([`Extractors`]) for one document after another. A child that died is replaced. A child is also
//! replaced after [`DOCUMENTS`] documents and after a large document, to return the memory that the
//! allocator kept. A session's single document has its own child.

mod child;
mod extractor;

use std::{
    collections::HashMap,
    mem,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
};

use rag_definition::DocumentType;
use rag_document::{
    Container, DocumentError, DocumentErrorKind, ExtractedDocument, Member, Unpacking,
};
use rag_protocol::{
    frame,
    ingest::{Content, Splitting, Stage},
    skipped::SkippedFiles,
};
use serde::{Deserialize, Serialize};

pub use self::child::child;
use self::extractor::Extractor;
use crate::{embed::counter::ChunkCounter, pdfs};

const MEMORY: u64 = 1 << 30;
const CPU_SECONDS: u64 = 30;
/// Address space that the recognition of text takes in addition.
const RECOGNITION_MEMORY: u64 = 1 << 30;
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
        /// Without the files that it holds.
        alone: bool,
    },
    /// The answers are the members, and then their end.
    Unpack {
        container: Container,
        name: String,
        unpacking: Unpacking,
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
    /// A file of a container. The bytes are its own.
    Member(Member),
    /// There are no more files. These were not unpacked.
    Unpacked(SkippedFiles),
    Failed(DocumentError),
    /// Text cannot be recognized, for this reason.
    NoRecognition(String),
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
    idle: Mutex<HashMap<(ThreadId, Kind), Extractor>>,
}

/// What a child can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Plain,
    /// With Tesseract.
    Recognizing,
    /// For unpacking: its members are extracted meanwhile.
    Unpacking,
}

/// True once it is known that text cannot be recognized.
static CANNOT_RECOGNIZE: AtomicBool = AtomicBool::new(false);

impl Kind {
    fn start(self, memory: u64) -> Result<Extractor, DocumentError> {
        match self {
            Self::Plain | Self::Unpacking => Extractor::start(memory, None),
            Self::Recognizing => {
                Extractor::start(memory + RECOGNITION_MEMORY, pdfs::recognition_time())
            }
        }
    }
}

impl Extractors {
    /// Extracts in a child, without the files that a document holds. Each caller has its own child.
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
        let ask = |kind| {
            let order = order(bytes, document_type, name, media_type, true)?;
            self.ask(kind, order, bytes.len() < LARGE_BYTES)
        };
        recognized(ask(Kind::Plain), || ask(Kind::Recognizing))
            .inspect(|extracted| pdfs::log(name, extracted))
    }

    /// Unpacks a container in a child, and calls `visit` with each of its members. Returns the
    /// numbers of the files that are no documents by their names.
    ///
    /// # Errors
    /// Those of [`rag_document::unpack`], or that the child crashed or reached a limit. Members
    /// before that were visited.
    pub fn unpack(
        &self,
        bytes: &[u8],
        container: Container,
        name: &str,
        unpacking: Unpacking,
        mut visit: impl FnMut(Member),
    ) -> Result<SkippedFiles, DocumentError> {
        let name = name.into();
        let order = Order::Unpack {
            container,
            name,
            unpacking,
        };
        let order = encode(&order, bytes)?;
        let kept = self.kept(Kind::Unpacking);
        let mut extractor = kept.map_or_else(
            || Kind::Unpacking.start(memory_for(bytes.len()) + 3 * unpacking.member),
            Ok,
        )?;
        let mut answer = extractor.ask(order, &|| false)?;
        loop {
            match answer? {
                (Outcome::Member(member), bytes) => visit(Member { bytes, ..member }),
                (Outcome::Unpacked(skipped), _) => {
                    self.keep(Kind::Unpacking, extractor, bytes.len() < LARGE_BYTES);
                    return Ok(skipped);
                }
                _ => return Err(unexpected()),
            }
            answer = extractor.next(&|| false)?;
        }
    }

    /// Takes the child of this thread that is kept for the next document.
    fn kept(&self, kind: Kind) -> Option<Extractor> {
        self.idle().remove(&(thread::current().id(), kind))
    }

    /// Keeps a child, unless it has read a large document or many.
    fn keep(&self, kind: Kind, mut extractor: Extractor, is_kept: bool) {
        extractor.documents += 1;
        if extractor.documents < DOCUMENTS && is_kept && !CANNOT_RECOGNIZE.load(Ordering::Relaxed) {
            self.idle()
                .insert((thread::current().id(), kind), extractor);
        }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<(ThreadId, Kind), Extractor>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(
        &self,
        kind: Kind,
        order: Vec<u8>,
        is_kept: bool,
    ) -> Result<ExtractedDocument, DocumentError> {
        // An earlier document may have corrupted a child that crashes, so a new one tries again.
        let mut extractor = self.kept(kind).map_or_else(|| kind.start(MEMORY), Ok)?;
        let answer = match extractor.ask(order.clone(), &|| false) {
            Err(end) if end.is_crash && extractor.documents > 0 => {
                extractor = kind.start(MEMORY)?;
                extractor.ask(order, &|| false)
            }
            answer => answer,
        }?;
        self.keep(kind, extractor, is_kept);
        answer.and_then(extracted)
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
    let ask = |kind: Kind| {
        let order = order(bytes, document_type, name, media_type, false)?;
        let answer = kind.start(memory_for(bytes.len()))?.ask(order, abandoned)?;
        answer.and_then(extracted)
    };
    recognized(ask(Kind::Plain), || ask(Kind::Recognizing))
        .inspect(|extracted| pdfs::log(name, extracted))
}

/// Returns what text recognition has read of a document, if it has pages that are pictures. What
/// was read without it stays if it cannot be carried out.
fn recognized(
    plain: Result<ExtractedDocument, DocumentError>,
    recognize: impl FnOnce() -> Result<ExtractedDocument, DocumentError>,
) -> Result<ExtractedDocument, DocumentError> {
    if pdfs::recognition_time().is_none()
        || CANNOT_RECOGNIZE.load(Ordering::Relaxed)
        || !rag_document::wants_recognition(&plain)
    {
        return plain;
    }
    match recognize() {
        // A picture may be found to have no text.
        Err(DocumentError {
            kind: DocumentErrorKind::Unreadable,
            message,
            ..
        }) => {
            tracing::warn!("text could not be recognized: {message}");
            plain
        }
        recognized => recognized,
    }
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
    match Kind::Plain.start(memory)?.ask(order?, abandoned)?? {
        (Outcome::Content(content), _) => Ok(content),
        _ => Err(unexpected()),
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
    alone: bool,
) -> Result<Vec<u8>, DocumentError> {
    encode(
        &Order::Extract {
            document_type,
            name: name.into(),
            media_type: media_type.map(str::to_owned),
            alone,
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
    match outcome {
        Outcome::ExtractedDocument(extracted) => String::from_utf8(text)
            .map(|text| ExtractedDocument { text, ..extracted })
            .map_err(|e| extractor_failed(&e)),
        Outcome::NoRecognition(reason) => {
            CANNOT_RECOGNIZE.store(true, Ordering::Relaxed);
            Err(problem(reason, None))
        }
        _ => Err(unexpected()),
    }
}

fn unexpected() -> DocumentError {
    extractor_failed(&"it sent an unexpected answer")
}

fn extractor_failed(e: &dyn std::fmt::Display) -> DocumentError {
    problem(format!("the extractor failed: {e}"), None)
}
