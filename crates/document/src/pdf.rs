//! Extracts the text of PDFs, page by page, with a form feed between two pages.
//!
//! ```text
//!          PDFium ──[pdfium]── characters ──[layout]──┐
//! bytes ──┤     └── pictures ──[recognition]──────────┼── lines ──[pages]── text
//!          pdf-extract ──[plain]──────────────────────┘
//! ```
//!
//! Either reader can crash its process: PDFium is C++, and `pdf-extract` recurses. So a PDF should
//! be read in a separate process, under limits.

mod integrity;
mod layout;
mod pages;
mod pdfium;
mod plain;
pub mod recognition;

use std::{path::Path, sync::Arc};

use rag_protocol::ingest::{Stage, Title};

use self::{pages::Page, recognition::Recognition};
use crate::{
    DocumentError, DocumentErrorKind, ExtractedDocument, Structure, ocr::Recognizer, title,
};

/// Separates two pages, and occurs nowhere else.
pub const PAGE: char = '\u{C}';
/// The break counts as the end of a paragraph.
pub const PAGE_BREAK: &str = "\n\u{C}\n";
/// The marker of a PDF. Readers accept it anywhere in the first KiB.
const MAGIC: &[u8] = b"%PDF-";

/// The library that reads PDFs.
#[derive(Debug, Clone)]
pub struct PdfReader {
    reader: Reader,
    /// Reads pages that are pictures.
    recognizer: Option<Arc<Recognizer>>,
}

#[derive(Debug, Clone)]
enum Reader {
    Pdfium(pdfium::Pdfium),
    PdfExtract,
}

impl PdfReader {
    /// `pdf-extract`, which is always available and supports less than PDFium.
    pub const PDF_EXTRACT: Self = Self::new(Reader::PdfExtract);

    const fn new(reader: Reader) -> Self {
        Self {
            reader,
            recognizer: None,
        }
    }

    /// PDFium, the reader of Chromium, with the library at this path. A process loads one library,
    /// once.
    ///
    /// # Errors
    /// The reason why the library cannot be loaded.
    pub fn pdfium(library: &Path) -> Result<Self, String> {
        pdfium::Pdfium::load(library).map(|pdfium| Self::new(Reader::Pdfium(pdfium)))
    }

    /// The name in the metadata of documents.
    pub fn name(&self) -> &'static str {
        match self.reader {
            Reader::Pdfium(_) => "pdfium",
            Reader::PdfExtract => "pdf-extract",
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<FileContents, OpenError> {
        match &self.reader {
            Reader::Pdfium(pdfium) => pdfium.read(bytes),
            Reader::PdfExtract => plain::read(bytes),
        }
    }
}

/// The contents of a file, as the reader sees them.
struct FileContents {
    pages: Vec<Page>,
    /// The title in the Info dictionary.
    title: Option<String>,
}

/// Why a reader cannot open a file.
enum OpenError {
    Locked,
    UnknownSecurity,
    Malformed(String),
}

pub fn extract(
    bytes: &[u8],
    name: &str,
    reader: &PdfReader,
) -> Result<ExtractedDocument, DocumentError> {
    if !bytes
        .iter()
        .take(1024)
        .collect::<Vec<_>>()
        .windows(MAGIC.len())
        .any(|w| w.iter().copied().eq(MAGIC))
    {
        return Err(malformed("it has no PDF header"));
    }
    let FileContents { mut pages, title } = reader.read(bytes).map_err(problem)?;
    if pages.is_empty() {
        return Err(malformed("it has no pages"));
    }
    let damaged = integrity::damaged_pages(bytes, pages.len());
    for page in damaged.into_iter().flatten() {
        pages[page].is_whole = false;
    }
    let to_recognize = numbers(&pages, Page::may_show_more);
    let recognition = reader.recognize(bytes, &to_recognize, &mut pages);
    let unreadable = numbers(&pages, |page| !page.is_whole || page.is_garbled());
    let pictures = numbers(&pages, Page::is_picture);
    let all = pages.len();
    let texts = pages::texts(pages);
    let text = texts
        .iter()
        .map(|text| readable(text.trim()))
        .collect::<Vec<_>>()
        .join(PAGE_BREAK);
    if text.trim().is_empty() {
        let error = if !recognition.late.is_empty() {
            DocumentError::new(
                Stage::Extract,
                "recognizing the text of the PDF took too long",
            )
            .hint("Raise rag.ocr_timeout.")
        } else if !unreadable.is_empty() {
            malformed("none of its pages can be read")
        } else if pictures.is_empty() {
            blank(all)
        } else {
            scanned(all, reader.recognizer.is_some())
        };
        return Err(match to_recognize.as_slice() {
            [] => error,
            _ => DocumentError {
                kind: DocumentErrorKind::Scan,
                ..error
            },
        });
    }
    let title = title
        .as_deref()
        .and_then(own_title)
        .unwrap_or_else(|| title::from_name(name));
    let mut extracted = ExtractedDocument::new(text, title, Structure::Pages);
    extracted.may_show_more = !to_recognize.is_empty();
    extracted
        .metadata
        .insert("pdf_reader".into(), reader.name().into());
    if !unreadable.is_empty() {
        let named = named(&unreadable);
        extracted.warn(
            Stage::Extract,
            format!("{named} of {all} could not be read completely"),
        );
        extracted
            .metadata
            .insert("unreadable_pages".into(), unreadable.into());
    }
    extracted.note_recognition(&recognition, all);
    if !pictures.is_empty() {
        let (named, verb) = (
            named(&pictures),
            if pictures.len() == 1 { "looks" } else { "look" },
        );
        extracted.warn(
            Stage::Extract,
            format!("{named} of {all} {verb} like a scan: there is a picture and no text"),
        );
        extracted
            .metadata
            .insert("picture_pages".into(), pictures.into());
    }
    Ok(extracted)
}

/// Returns the numbers of pages, from 1.
fn numbers(pages: &[Page], is: impl Fn(&Page) -> bool) -> Vec<usize> {
    let numbered = (1..).zip(pages).filter(|(_, page)| is(page));
    numbered.map(|(number, _)| number).collect()
}

/// Returns true if text recognition may find more in a document than was read without it.
pub fn wants_recognition(read: &Result<ExtractedDocument, DocumentError>) -> bool {
    match read {
        Ok(extracted) => extracted.may_show_more,
        Err(error) => error.kind == DocumentErrorKind::Scan,
    }
}

impl ExtractedDocument {
    pub fn note_recognition(&mut self, recognition: &Recognition, all: usize) {
        if !recognition.doubtful.is_empty() {
            let named = named(&recognition.doubtful);
            self.warn(
                Stage::Extract,
                format!("the text recognition is not sure of {named} of {all}"),
            );
        }
        if !recognition.late.is_empty() {
            let named = named(&recognition.late);
            self.warn(
                Stage::Extract,
                format!("no time was left to recognize the text of {named} of {all}"),
            );
        }
        if recognition.read.is_empty() {
            return;
        }
        self.metadata
            .insert("recognized_pages".into(), recognition.read.clone().into());
        self.metadata.insert(
            "recognition_confidence".into(),
            recognition.confidence().into(),
        );
    }
}

/// Returns the numbers of the first ten pages as text.
fn named(numbers: &[usize]) -> String {
    const MAX_NAMED: usize = 10;
    let named: Vec<String> = numbers
        .iter()
        .take(MAX_NAMED)
        .map(ToString::to_string)
        .collect();
    let more = match numbers.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let pages = if numbers.len() == 1 { "page" } else { "pages" };
    format!("{pages} {}{more}", named.join(", "))
}

fn on_pages(count: usize) -> String {
    if count == 1 {
        "its only page".into()
    } else {
        format!("its {count} pages")
    }
}

/// What makes the text of pages known that they show and do not have.
pub const RECOGNIZE: &str = "Install Tesseract on the database server and set rag.ocr = auto, or \
                         replace the file with one that has a text layer.";

fn scanned(pages: usize, is_recognized: bool) -> DocumentError {
    let on = on_pages(pages);
    if is_recognized {
        let message = format!("text recognition has found no text in the PDF on {on}");
        DocumentError::new(Stage::Extract, message)
    } else {
        let message = format!("the PDF looks like a scan: there is no text on {on}");
        DocumentError::new(Stage::Extract, message).hint(RECOGNIZE)
    }
}

fn blank(pages: usize) -> DocumentError {
    let on = on_pages(pages);
    DocumentError::new(
        Stage::Extract,
        format!("the PDF has neither text nor pictures on {on}"),
    )
    .hint(format!(
        "If the file shows text, the letters are drawn as lines. {RECOGNIZE}"
    ))
}

fn malformed(why: &str) -> DocumentError {
    DocumentError::new(
        Stage::Extract,
        format!("the PDF is malformed: {}", why.replace('\0', "\u{FFFD}")),
    )
    .hint("Open the file with a PDF viewer, save it again, and replace the file with the result.")
}

fn problem(refusal: OpenError) -> DocumentError {
    match refusal {
        OpenError::Locked => DocumentError::new(
            Stage::Extract,
            "the PDF is encrypted and cannot be opened without a password",
        )
        .hint("Replace the file with a copy without a password."),
        OpenError::UnknownSecurity => {
            DocumentError::new(Stage::Extract, "the PDF uses an unsupported encryption")
                .hint("Replace the file with a copy without encryption.")
        }
        OpenError::Malformed(why) => malformed(&why),
    }
}

/// Returns the text without NUL characters, which fonts with a wrong table leave behind, and
/// without form feeds. Ligatures become letters, so that a search for "file" finds "ﬁle".
fn readable(text: &str) -> String {
    let mut readable = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' | PAGE => {}
            '\u{FB00}' => readable.push_str("ff"),
            '\u{FB01}' => readable.push_str("fi"),
            '\u{FB02}' => readable.push_str("fl"),
            '\u{FB03}' => readable.push_str("ffi"),
            '\u{FB04}' => readable.push_str("ffl"),
            '\u{FB05}' | '\u{FB06}' => readable.push_str("st"),
            _ => readable.push(c),
        }
    }
    readable
}

fn own_title(declared: &str) -> Option<Title> {
    let text = declared.trim_start_matches('\u{FEFF}').trim();
    let text = text.strip_prefix("Microsoft Word - ").unwrap_or(text);
    is_sensible(text).then(|| title::own(text)).flatten()
}

/// Returns true if a person may have written the title. Programs fill in file names and
/// placeholders.
fn is_sensible(text: &str) -> bool {
    const FILES: [&str; 14] = [
        ".doc", ".docx", ".dvi", ".fm", ".html", ".indd", ".odt", ".pdf", ".ppt", ".pptx", ".ps",
        ".qxd", ".rtf", ".tex",
    ];
    const PLACEHOLDERS: [&str; 6] = [
        "untitled",
        "title",
        "document",
        "(anonymous)",
        "powerpoint presentation",
        "slide 1",
    ];
    let lower = text.to_lowercase();
    let is_identifier = !text.contains(' ') && text == lower && text.contains(['-', '_', '/']);
    text.chars().filter(|c| c.is_alphanumeric()).count() >= 2
        && !is_identifier
        && !text.contains('\u{FFFD}')
        && !FILES.iter().any(|extension| lower.ends_with(extension))
        && !PLACEHOLDERS.contains(&lower.as_str())
        && !lower.starts_with("untitled-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_that_programs_fill_in_are_ignored() {
        for text in [
            "",
            "Untitled",
            "paper.tex",
            "untitled-1",
            "(anonymous)",
            "\u{FFFD}\u{FFFD}ab",
            "-",
            "Report.DOCX",
            "scan_0017",
        ] {
            assert!(!is_sensible(text), "{text}");
        }
        for text in ["On the Electrodynamics of Moving Bodies", "年次報告", "C4"] {
            assert!(is_sensible(text), "{text}");
        }
    }
}
