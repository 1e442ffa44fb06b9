//! Turns the bytes of one file into the chunks of one document.
//!
//! ```text
//! bytes ──document_type──▶ DocumentType
//!       ──extract────────▶ ExtractedDocument { text, title, metadata, structure }
//!       ──split──────────▶ [Chunk { start_index, byte_start, byte_len, lines, page, heading_path }]
//! ```
//!
//! Every step takes a value and returns a value. Nothing here reads a file, opens a connection or
//! knows a model: the caller passes the tokenizer as a [`TokenCounter`]. The same input gives the
//! same output on every machine. The identities of documents and chunks depend on that, and with
//! them every stored embedding.
//!
//! The module `format` has a table of all types: how they are recognized, and what reads them.
//!
//! The title of a document without one is its file's name without the extension, and [`Title::own`]
//! is false. Such a title is shown but not embedded. For source code the model reads the file, the
//! functions and the types that a chunk is from (see [`rag_protocol::ingest::Chunk::context`]).
//!
//! A text holds no NUL characters, which PostgreSQL cannot store, and no invisible ones (see the
//! module `invisible`). It is never blank. Unreadable input is a [`DocumentError`], never a panic
//! and never a silently shortened text. Everything that was lost, guessed or repaired is in
//! [`ExtractedDocument::warnings`] and in the metadata:
//!
//! | key | value |
//! |---|---|
//! | `encoding` | the encoding the file was read in (types whose bytes are text) |
//! | `from`, `to`, `cc`, `date`, `message_id`, `attachments` | what the head of a message says |
//! | `warnings` | sentences on what may have been lost or misread |
//! | `author` | the author whom a document names: OpenDocument, text with markup, feeds |
//! | `language` | the language of source code |
//! | `link_targets` | the targets of an HTML page's links |
//! | `front_matter_error` | the reason why front matter stayed in the text |
//! | `pdf_reader` | the reader of a PDF: `pdfium` or `pdf-extract` |
//! | `picture_pages` | numbers of the pages of a PDF that are pictures without text |
//! | `recognized_pages`, `recognition_confidence` | numbers of the pages whose text was recognized in a picture, and how sure that is, in percent |
//! | `unreadable_pages` | numbers of the pages of a PDF that could not be read completely |

mod anchors;
mod blocks;
mod code;
mod compound;
mod container;
mod data_uri;
mod decode;
mod docx;
mod epub;
mod feed;
mod finish;
pub mod format;
mod formula;
mod front_matter;
mod html;
mod invisible;
mod kind;
mod language;
mod mail;
mod markdown;
mod markup;
mod notebook;
mod ocr;
mod odf;
mod package;
mod pdf;
mod picture;
mod records;
mod rtf;
mod slides;
mod split;
mod subtitles;
mod title;
mod words;
mod xml;
mod xml_file;

use rag_definition::DocumentType;
use rag_protocol::ingest::{Content, NamedPlace, Splitting, Stage, Title, Warning};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub use crate::{
    anchors::Anchor,
    code::{Boundary, Symbol, Syntax},
    container::{Container, Member, Unpacking, container, unpack},
    kind::{document_type, is_blank_page, is_picture, is_type_known},
    markdown::Heading,
    ocr::Recognizer,
    pdf::{PdfReader, wants_recognition},
    split::split,
    title::own as own_title,
};
use crate::{
    finish::finished,
    format::{Reader, TextReader},
};

/// Counts a model's tokens. The engine implements it with the model's own tokenizer.
pub trait TokenCounter {
    /// Returns the number of tokens of `text`, special tokens included, before any truncation.
    fn count(&self, text: &str) -> usize;
    /// Returns the maximum number of tokens of a text, special tokens included.
    fn limit(&self) -> usize;
    /// Returns the words of the text in order, if the tokens of a text are those of its words, and
    /// only spaces, tabs and line ends separate words. A piece that holds whole words then need not
    /// be counted again.
    fn words(&self, _text: &str) -> Option<Vec<CountedWord>> {
        None
    }
}

/// A word, and the number of tokens from the start of the text to its end, without special tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedWord {
    /// Byte offset in the text.
    pub start: u32,
    pub end: u32,
    pub tokens: u32,
}

/// A document without its uri.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtractedDocument {
    pub text: String,
    pub title: Title,
    /// Front matter, and what the extractor adds.
    pub metadata: Map<String, Value>,
    pub structure: Structure,
    /// Number of lines of the file before the text: front matter and empty lines.
    #[serde(default)]
    pub lines_before: u32,
    /// Places that an address can name, in order.
    #[serde(default)]
    pub anchors: Vec<Anchor>,
    /// The place of a source file in its project. The model reads it with each chunk.
    #[serde(default)]
    pub place: String,
    /// What was lost on the way, or may have been misread.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// It shows something that is not in the text, and that text recognition may read.
    #[serde(default)]
    pub may_show_more: bool,
}

impl ExtractedDocument {
    /// A document without metadata and warnings.
    pub fn new(text: String, title: Title, structure: Structure) -> Self {
        Self {
            text,
            title,
            metadata: Map::new(),
            structure,
            lines_before: 0,
            anchors: vec![],
            place: String::new(),
            warnings: vec![],
            may_show_more: false,
        }
    }

    /// A document in Markdown without metadata and warnings. Its title is the one that it gives
    /// itself, else that of its first heading, else its file's name.
    fn in_markdown(text: String, title: Option<Title>, name: &str) -> Self {
        let structure = markdown::structure(&text);
        let title = title
            .or_else(|| markdown::heading(&structure))
            .unwrap_or_else(|| title::from_name(name));
        Self::new(text, title, structure)
    }

    /// Adds the places of a text that was extracted before: those that were stored with it, or for
    /// Markdown those of its headings.
    pub fn restore_anchors(&mut self, stored: &[NamedPlace], document_type: DocumentType) {
        self.anchors = match document_type {
            DocumentType::Markdown => anchors::of_headings(&self.structure),
            _ => anchors::restored(stored, &self.text),
        };
    }

    fn warn(&mut self, stage: Stage, message: String) {
        self.warnings.push(Warning { stage, message });
    }

    /// Adds the metadata key `author`.
    fn set_author(&mut self, author: Option<&str>) {
        if let Some(author) = author.and_then(title::own) {
            self.metadata.insert("author".into(), author.text.into());
        }
    }

    /// Warns of what is not in the text: "2 hidden slides were left out".
    fn lost(&mut self, count: usize, one: &str, many: &str, what: &str) {
        match count {
            0 => {}
            1 => self.warn(Stage::Extract, format!("1 {one} was {what}")),
            count => self.warn(Stage::Extract, format!("{count} {many} were {what}")),
        }
    }
}

/// The structure of a text, as far as the splitter uses it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// Paragraphs and sentences.
    Prose,
    /// Prose with a form feed between two pages.
    Pages,
    /// Markdown.
    Sections {
        /// In order.
        headings: Vec<Heading>,
        /// Byte ranges of code blocks, in order. Empty lines in them do not end a paragraph.
        code: Vec<(usize, usize)>,
    },
    /// Source code. Without boundaries it is split at lines.
    Code(Syntax),
    /// An empty line between two records.
    Records,
}

impl Structure {
    /// The structure of a Markdown text.
    pub fn of_markdown(text: &str) -> Self {
        markdown::structure(text)
    }

    /// Returns the structure of a text that was extracted from a document of a type. For source
    /// code it is that without a grammar: [`extract`] parses it again.
    pub fn of_extracted(text: &str, document_type: DocumentType) -> Self {
        format::of(document_type).shape.of(text)
    }
}

/// Why a document was not read. The caller adds the uri.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentError {
    pub stage: Stage,
    /// One sentence, lower case, without a full stop.
    pub message: String,
    pub hint: Option<String>,
    #[serde(default)]
    pub kind: DocumentErrorKind,
}

/// What an error says of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentErrorKind {
    /// The document cannot be read.
    #[default]
    Unreadable,
    /// The document has no text, or none that is shown.
    NoText,
    /// The file has nothing but white space and is not a document.
    Empty,
    /// The document shows something, which text recognition may read.
    Scan,
    /// The file is not text. Its name says whether it should be.
    Binary,
}

impl DocumentError {
    pub fn new(stage: Stage, message: impl Into<String>) -> Self {
        Self {
            stage,
            message: message.into(),
            hint: None,
            kind: DocumentErrorKind::default(),
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns true where the document has no content, rather than content that cannot be read.
    pub fn is_no_content(&self) -> bool {
        matches!(
            self.kind,
            DocumentErrorKind::NoText | DocumentErrorKind::Empty
        )
    }

    fn no_content(kind: DocumentErrorKind) -> Self {
        let error = Self::new(Stage::Extract, "no content to index");
        Self { kind, ..error }
    }

    fn no_text() -> Self {
        Self::no_content(DocumentErrorKind::NoText)
            .hint("The document has no text, or none that is shown.")
    }

    fn empty() -> Self {
        Self::no_content(DocumentErrorKind::Empty)
            .hint("The document is empty or contains only white space.")
    }
}

/// Reads a document as [`extract_with`] does, PDFs with `pdf-extract`.
///
/// # Errors
/// Those of [`extract_with`].
pub fn extract(
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
) -> Result<ExtractedDocument, DocumentError> {
    extract_with(
        &PdfReader::PDF_EXTRACT,
        bytes,
        document_type,
        name,
        media_type,
    )
}

/// Reads a document. `name` is the file's name, path or address, and gives the title if the
/// document has none. `media_type` is the type that a server declared; its charset is used if the
/// bytes allow it.
///
/// All types but Markdown and text should be read in a separate process: see the modules `pdf` and
/// `code` for what a parser can do to its process.
///
/// # Errors
/// [`Stage::Decode`] if the bytes are not text, [`Stage::Extract`] if the format is damaged, locked
/// or empty.
pub fn extract_with(
    pdfs: &PdfReader,
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
) -> Result<ExtractedDocument, DocumentError> {
    if bytes.trim_ascii().is_empty() {
        return Err(DocumentError::empty());
    }
    let format = format::of(document_type);
    let extracted = match format.reader {
        Reader::WithPdfs(read) => read(bytes, name, pdfs)?,
        Reader::Bytes(read) => read(bytes, name)?,
        Reader::Text(read) => extract_text(bytes, document_type, read, name, media_type)?,
    };
    finished(extracted, document_type)
}

/// Reads a document as [`extract_with`] does, but without the files that it holds, which are
/// documents of their own ([`unpack`]).
///
/// # Errors
/// Those of [`extract_with`].
pub fn extract_alone(
    pdfs: &PdfReader,
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
) -> Result<ExtractedDocument, DocumentError> {
    let is_message =
        document_type == DocumentType::Mail && container(name, media_type) == Some(Container::Mail);
    if !is_message || mail::is_mailbox(bytes) {
        return extract_with(pdfs, bytes, document_type, name, media_type);
    }
    if bytes.trim_ascii().is_empty() {
        return Err(DocumentError::empty());
    }
    finished(mail::extract_alone(bytes, name)?, document_type)
}

/// Reads types that are text themselves.
fn extract_text(
    bytes: &[u8],
    document_type: DocumentType,
    read: TextReader,
    name: &str,
    media_type: Option<&str>,
) -> Result<ExtractedDocument, DocumentError> {
    let served_as = media_type.and_then(decode::charset).map(str::to_owned);
    let declared = match document_type {
        DocumentType::Html => served_as.or_else(|| decode::html_charset(bytes)),
        _ => served_as,
    };
    let decode::DecodedText {
        text,
        encoding,
        warnings,
    } = decode::text(bytes, declared.as_deref())?;
    if text.trim().is_empty() {
        return Err(DocumentError::empty());
    }
    // Before parsing: the parser's results refer to places in the text.
    let (text, invisible) = match invisible::removed(&text) {
        Some((cleaned, count)) => (cleaned.into(), count),
        None => (text, 0),
    };
    let text = data_uri::shortened(&text).map_or(text, Into::into);
    let mut extracted = read(&text, name)?;
    extracted
        .metadata
        .insert("encoding".into(), encoding.into());
    let warnings = warnings.into_iter().map(|message| Warning {
        stage: Stage::Decode,
        message,
    });
    extracted.warnings.splice(0..0, warnings);
    extracted.invisible(invisible);
    Ok(extracted)
}

/// Hashes and splits an extracted document. Returns its content as the protocol defines it; the
/// text stays in `extracted`.
///
/// # Errors
/// Those of [`split`].
pub fn content(
    extracted: &ExtractedDocument,
    document_type: DocumentType,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
) -> Result<Content, DocumentError> {
    let chunks = split(extracted, splitting, tokens)?;
    let content_hash = Sha256::digest(&extracted.text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(Content {
        document_type,
        title: extracted.title.clone(),
        metadata: extracted.metadata.clone(),
        content_hash,
        anchors: match document_type {
            // its headings have them
            DocumentType::Markdown => vec![],
            _ => anchors::stored(&extracted.anchors, &extracted.text),
        },
        chunks,
        warnings: extracted.warnings.clone(),
    })
}
