//! From the bytes of one file to the chunks of one document.
//!
//! ```text
//! bytes ──document_type──▶ Markdown | Text | Html | Pdf | Code | Csv | Tsv | Json | Jsonl | Docx
//!       ──extract────────▶ Extracted { text, title, metadata, structure }
//!       ──split──────────▶ [Chunk { start_index, byte_start, byte_len, lines, page, heading_path }]
//! ```
//!
//! Every step takes a value and returns a value: nothing here reads a file, opens a connection or
//! knows a model (the tokenizer comes in as a [`TokenCounter`]). The same input gives the same
//! output on every machine; the identities of documents and chunks, and with them every stored
//! embedding, hang on that.
//!
//! | type | text | title | cut at |
//! |---|---|---|---|
//! | Markdown | as written, without the front matter | front matter, else the first heading of level 1, else the first heading | headings |
//! | HTML | the page's content, converted to Markdown | `<title>`, else the first `<h1>` | headings |
//! | docx | converted to Markdown | its properties', else the first heading | headings |
//! | PDF | pages, a form feed between them | the Info dictionary's, where it is one | paragraphs, sentences |
//! | text | as written | – | paragraphs, sentences |
//! | code | as written | its file's name with the extension | functions, types, statements; else lines |
//! | CSV, TSV, JSON, JSONL | records as lines of `name: value`, an empty line between two | – | records |
//!
//! Where a document does not say what it is called, its title is its file's name without the
//! extension, and [`Title::own`] is false: such a title is shown but not embedded. Instead the
//! model is told of each piece of source code in which file and in which functions and types it is
//! (see [`rag_protocol::ingest::Chunk::context`]).
//!
//! A text holds no NUL characters (PostgreSQL cannot store them) and none that nobody sees (see the
//! module `invisible`), and is never blank. What cannot be read is a [`Problem`], never a panic and
//! never a silently shortened text. What was lost, guessed or mended on the way is among
//! [`Extracted::warnings`], and told in the metadata:
//!
//! | key | what |
//! |---|---|
//! | `encoding` | the encoding the file was read in (all types but PDF and docx) |
//! | `warnings` | sentences on what may have been lost or misread |
//! | `language` | of code |
//! | `link_targets` | of HTML: what its links lead to |
//! | `front_matter_error` | why front matter was left in the text |
//! | `pdf_reader` | what read a PDF: `pdfium` or `pdf-extract` |
//! | `unreadable_pages` | numbers of pages of a PDF of which something is missing |

mod code;
mod decode;
mod docx;
mod front_matter;
mod html;
mod invisible;
mod kind;
mod language;
mod markdown;
mod pdf;
mod records;
mod split;
mod title;
mod words;

use rag_protocol::ingest::{Content, DocumentType, Splitting, Stage, Title, Warning};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

pub use crate::{
    code::{Boundary, Symbol, Syntax},
    kind::{document_type, is_told},
    markdown::Heading,
    pdf::PdfReader,
    split::split,
    title::own as own_title,
};

/// Counts a model's tokens, special tokens included; the engine implements it with the model's own
/// tokenizer.
pub trait TokenCounter {
    /// Tokens of `text`, special tokens included, before any truncation.
    fn count(&self, text: &str) -> usize;
    /// The most tokens a text may have, special tokens included.
    fn limit(&self) -> usize;
    /// Where the tokens of a text are those of its words, which no more than spaces, tabs and line
    /// ends separate: the words of the text, in order. Then a piece of it that holds whole words
    /// need not be counted again.
    fn words(&self, _text: &str) -> Option<Vec<CountedWord>> {
        None
    }
}

/// A word, and how many tokens the text has up to its end, without special tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedWord {
    /// Bytes of the text.
    pub start: u32,
    pub end: u32,
    pub tokens: u32,
}

/// What a document is, without its uri.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extracted {
    pub text: String,
    pub title: Title,
    /// Front matter, and what the extractor has to say.
    pub metadata: Map<String, Value>,
    pub structure: Structure,
    /// How many lines of the file are before the text: those of front matter, and empty ones.
    #[serde(default)]
    pub lines_before: u32,
    /// Where in a project a file of source code is; the model is told so with each chunk.
    #[serde(default)]
    pub place: String,
    /// What was lost on the way, or may have been misread.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

impl Extracted {
    /// A document of which nothing more is known.
    pub fn new(text: String, title: Title, structure: Structure) -> Self {
        Self {
            text,
            title,
            metadata: Map::new(),
            structure,
            lines_before: 0,
            place: String::new(),
            warnings: vec![],
        }
    }

    fn warn(&mut self, stage: Stage, message: String) {
        self.warnings.push(Warning { stage, message });
    }
}

/// What a text is made of, as far as it matters where it is cut.
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
        /// Byte ranges of code blocks, in order: empty lines in them end no paragraph.
        code: Vec<(usize, usize)>,
    },
    /// Source code; without boundaries it is cut at lines.
    Code(Syntax),
    /// An empty line between two records.
    Records,
}

impl Structure {
    /// That of a Markdown text.
    pub fn of_markdown(text: &str) -> Self {
        markdown::structure(text)
    }
}

/// A failure at one stage; the caller adds the uri.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub stage: Stage,
    /// One sentence, lower case, no final stop.
    pub message: String,
    pub hint: Option<String>,
    #[serde(default)]
    pub nature: Nature,
}

/// What a problem says of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// It is a document that cannot be read.
    #[default]
    Unreadable,
    /// It is no document: there is nothing in it but white space.
    Empty,
    /// It is not text. Whether it should be, its name says.
    Binary,
}

impl Problem {
    pub fn new(stage: Stage, message: impl Into<String>) -> Self {
        Self {
            stage,
            message: message.into(),
            hint: None,
            nature: Nature::default(),
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn no_content() -> Self {
        Self::new(Stage::Extract, "no content to index")
            .hint("There is no text in it, or none that is shown.")
    }

    fn empty() -> Self {
        let problem = Self {
            nature: Nature::Empty,
            ..Self::no_content()
        };
        problem.hint("It is empty, or all white space.")
    }
}

/// Reads a document, as [`extract_with`] does; PDFs with the reader that is always there.
///
/// # Errors
/// Those of [`extract_with`].
pub fn extract(
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
) -> Result<Extracted, Problem> {
    extract_with(
        &PdfReader::PDF_EXTRACT,
        bytes,
        document_type,
        name,
        media_type,
    )
}

/// Reads a document. `name` is the file's name, path or address, from which the title is taken
/// where the document has none; `media_type` what it was served as, whose charset is believed where
/// the bytes allow.
///
/// All but Markdown and text should be read in a process of its own: see the modules `pdf` and
/// `code` for what a parser can do to its process.
///
/// # Errors
/// [`Stage::Decode`] where the bytes are not text, [`Stage::Extract`] where the format is damaged,
/// locked or has nothing in it.
pub fn extract_with(
    pdfs: &PdfReader,
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
) -> Result<Extracted, Problem> {
    if bytes.trim_ascii().is_empty() {
        return Err(Problem::empty());
    }
    let mut extracted = match document_type {
        DocumentType::Pdf => pdf::extract(bytes, name, pdfs)?,
        DocumentType::Docx => docx::extract(bytes, name)?,
        _ => extract_text(bytes, document_type, name, media_type)?,
    };
    // Formats with escapes have other ways to write NUL than the byte.
    if let Some(text) = decode::without_nul(&extracted.text) {
        extracted.warn(
            Stage::Decode,
            decode::nul_warning(extracted.text.len() - text.len()),
        );
        extracted.replace(text);
    }
    if let Some((text, count)) = invisible::removed(&extracted.text) {
        extracted.invisible(count);
        extracted.replace(text);
    }
    extracted.clean_names();
    if extracted.text.trim().is_empty() {
        // of Markdown there may be front matter and nothing to read
        return Err(if document_type == DocumentType::Markdown {
            Problem::empty()
        } else {
            Problem::no_content()
        });
    }
    if let Some(warning) = words::warning(&extracted.text, document_type) {
        extracted.warn(Stage::Extract, warning);
    }
    // a document's own key of that name gives way
    if !extracted.warnings.is_empty() {
        let messages: Vec<Value> = extracted
            .warnings
            .iter()
            .map(|warning| warning.message.clone().into())
            .collect();
        extracted
            .metadata
            .insert("warnings".into(), messages.into());
    }
    Ok(extracted)
}

impl Extracted {
    /// Puts in a text from which characters were removed.
    fn replace(&mut self, text: String) {
        self.text = text;
        if let Structure::Sections { .. } = self.structure {
            self.structure = markdown::structure(&self.text);
        }
    }

    fn invisible(&mut self, count: usize) {
        let characters = if count == 1 {
            "1 invisible character was".into()
        } else {
            format!("{count} invisible characters were")
        };
        self.warn(
            Stage::Extract,
            format!("{characters} removed (tags, bidirectional or zero-width controls)"),
        );
    }

    /// Removes what nobody sees from the title and the metadata, too.
    fn clean_names(&mut self) {
        if let Some((title, _)) = invisible::removed(&self.title.text) {
            self.title = title::own(&title).map_or_else(
                || Title {
                    text: "untitled".into(),
                    own: false,
                },
                |cleaned| Title {
                    own: self.title.own,
                    ..cleaned
                },
            );
        }
        self.metadata.values_mut().for_each(clean_value);
    }
}

fn clean_value(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((cleaned, _)) = invisible::removed(text) {
                *text = cleaned;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(clean_value),
        Value::Object(values) => values.values_mut().for_each(clean_value),
        _ => {}
    }
}

/// The types that are text themselves.
fn extract_text(
    bytes: &[u8],
    document_type: DocumentType,
    name: &str,
    media_type: Option<&str>,
) -> Result<Extracted, Problem> {
    let served_as = media_type.and_then(decode::charset).map(str::to_owned);
    let declared = match document_type {
        DocumentType::Html => served_as.or_else(|| decode::html_charset(bytes)),
        _ => served_as,
    };
    let decode::Decoded {
        text,
        encoding,
        warnings,
    } = decode::text(bytes, declared.as_deref())?;
    if text.trim().is_empty() {
        return Err(Problem::empty());
    }
    // before the text is parsed: what a parser finds has its place in the text
    let (text, invisible) = match invisible::removed(&text) {
        Some((cleaned, count)) => (cleaned.into(), count),
        None => (text, 0),
    };
    let mut extracted = match document_type {
        DocumentType::Markdown => markdown::extract(&text, name),
        DocumentType::Html => html::extract(&text, name)?,
        DocumentType::Code => code::extract(&text, name),
        DocumentType::Csv => records::csv::extract(&text, name, None),
        DocumentType::Tsv => records::csv::extract(&text, name, Some(b'\t')),
        DocumentType::Json => records::json::extract(&text, name),
        DocumentType::Jsonl => records::json::extract_lines(&text, name),
        DocumentType::Text | DocumentType::Pdf | DocumentType::Docx => {
            Extracted::new(text.into_owned(), title::from_name(name), Structure::Prose)
        }
    };
    extracted
        .metadata
        .insert("encoding".into(), encoding.into());
    let warnings = warnings.into_iter().map(|message| Warning {
        stage: Stage::Decode,
        message,
    });
    extracted.warnings.splice(0..0, warnings);
    if invisible > 0 {
        extracted.invisible(invisible);
    }
    Ok(extracted)
}

/// Hashes and splits what was extracted: what the protocol calls the content of a document. The
/// text stays where it is.
///
/// # Errors
/// Those of [`split`].
pub fn content(
    extracted: &Extracted,
    document_type: DocumentType,
    splitting: &Splitting,
    tokens: &dyn TokenCounter,
) -> Result<Content, Problem> {
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
        chunks,
        warnings: extracted.warnings.clone(),
    })
}
