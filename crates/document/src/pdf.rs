//! The text of PDFs, page by page, a form feed between two pages.
//!
//! # What the parser can do to its process
//! PDFs are read with `pdf-extract`, which meets damaged and unusual files with panics: these are caught here, page by
//! page. What cannot be caught is a stack overflow (a page tree that contains itself), exhausted memory or an endless
//! loop, so a PDF should be read in a process of its own, under limits.
//!
//! That process's standard output stays clean: `pdf-extract` 0.12 and the crates below it print nothing to it (their
//! `println!`s are in tests and in macros that are compiled out); they log through the `log` crate. A caught panic
//! writes its message to standard error unless the process has replaced the panic hook.
//!
//! # What is done to what it reads
//! Before: widths of glyphs are spelt out (see [`widths`]). After: text drawn outside the page, which nobody sees, is
//! left out, and ligatures become letters.

mod widths;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{
    Dictionary, Document, Error, MediaBox, Object, OutputDev, OutputError, PlainTextOutput, Transform,
    decode_text_string, output_doc_page,
};
use rag_protocol::ingest::{Stage, Title};

use crate::{Extracted, Problem, Structure, title};

/// Between two pages there is one of these, and nowhere else.
pub const PAGE: char = '\u{C}';
/// It counts as the end of a paragraph.
const PAGE_BREAK: &str = "\n\u{C}\n";
/// The marker of a PDF; readers accept it anywhere in the first KiB.
const MAGIC: &[u8] = b"%PDF-";

pub fn extract(bytes: &[u8], name: &str) -> Result<Extracted, Problem> {
    if !bytes.iter().take(1024).collect::<Vec<_>>().windows(MAGIC.len()).any(|w| w.iter().copied().eq(MAGIC)) {
        return Err(malformed("it does not begin as one"));
    }
    let document = open(bytes)?;
    let pages = catch_unwind(AssertUnwindSafe(|| document.get_pages().into_keys().collect::<Vec<_>>()))
        .map_err(|_| malformed("its list of pages is damaged"))?;
    if pages.is_empty() {
        return Err(malformed("it has no pages"));
    }

    let mut texts = vec![];
    let mut unreadable = vec![];
    for &number in &pages {
        let (text, whole) = page(&document, number);
        texts.push(text);
        if !whole {
            unreadable.push(number);
        }
    }
    let text = texts.iter().map(|text| text.trim()).collect::<Vec<_>>().join(PAGE_BREAK);
    if text.trim().is_empty() {
        return Err(if unreadable.is_empty() { scanned(pages.len()) } else { malformed("its pages cannot be read") });
    }
    let title = info_title(&document).unwrap_or_else(|| title::from_name(name));
    let mut extracted = Extracted::new(text, title, Structure::Pages);
    if !unreadable.is_empty() {
        extracted.warn(Stage::Extract, unreadable_pages(&unreadable, pages.len()));
        extracted.metadata.insert("unreadable_pages".into(), unreadable.into());
    }
    Ok(extracted)
}

/// Names the pages, the first ten of them.
fn unreadable_pages(unreadable: &[u32], all: usize) -> String {
    const NAMED: usize = 10;
    let named: Vec<String> = unreadable.iter().take(NAMED).map(ToString::to_string).collect();
    let more = match unreadable.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let pages = if unreadable.len() == 1 { "page" } else { "pages" };
    format!("{pages} {}{more} of {all} could not be read, or not completely", named.join(", "))
}

fn scanned(pages: usize) -> Problem {
    let pages = if pages == 1 { "its only page".into() } else { format!("its {pages} pages") };
    Problem::new(Stage::Extract, format!("the PDF looks like a scan: there is no text on {pages}"))
        .hint("Run text recognition (OCR) over the file, and put the result in its place.")
}

/// Opens the file, with the empty password if it is locked.
fn open(bytes: &[u8]) -> Result<Document, Problem> {
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut document = Document::load_mem(bytes)?;
        if document.is_encrypted() {
            document.decrypt("")?;
        }
        widths::spell_out(&mut document);
        Ok(document)
    }));
    match opened {
        Ok(Ok(document)) => Ok(document),
        Ok(Err(Error::Decryption(_) | Error::InvalidPassword)) => {
            Err(Problem::new(Stage::Extract, "the PDF is encrypted and cannot be opened without a password")
                .hint("Save a copy without a password, and put it in its place."))
        }
        Ok(Err(error)) => Err(malformed(&error.to_string())),
        Err(_) => Err(malformed("its structure is damaged")),
    }
}

fn malformed(why: &str) -> Problem {
    Problem::new(Stage::Extract, format!("the PDF is malformed: {}", why.replace('\0', "\u{FFFD}")))
        .hint("Open the file with a PDF viewer and save it anew, and put the result in its place.")
}

/// The text of one page, as far as it can be read, and whether that is all of it.
fn page(document: &Document, number: u32) -> (String, bool) {
    let mut text = String::new();
    let read = catch_unwind(AssertUnwindSafe(|| {
        let mut output = Visible { output: PlainTextOutput::new(&mut text), page: None };
        output_doc_page(document, &mut output, number).is_ok()
    }));
    (readable(&text), matches!(read, Ok(true)))
}

/// Without NUL characters, which fonts with a wrong table leave behind, without form feeds, and with ligatures as letters: nobody searches
/// for "ﬁle".
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

/// Passes on what is drawn on the page and drops what is drawn beside it.
struct Visible<'a> {
    output: PlainTextOutput<&'a mut String>,
    page: Option<MediaBox>,
}

impl OutputDev for Visible<'_> {
    fn begin_page(
        &mut self,
        number: u32,
        page: &MediaBox,
        art: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        self.page = Some(*page);
        self.output.begin_page(number, page, art)
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        self.output.end_page()
    }

    fn output_character(
        &mut self,
        at: &Transform,
        width: f64,
        spacing: f64,
        size: f64,
        c: &str,
    ) -> Result<(), OutputError> {
        /// How far beyond the page a character may begin and still be on it, in points.
        const MARGIN: f64 = 1.0;
        let within = |x: f64, a: f64, b: f64| x >= a.min(b) - MARGIN && x <= a.max(b) + MARGIN;
        let beside = |p: &MediaBox| !within(at.m31, p.llx, p.urx) || !within(at.m32, p.lly, p.ury);
        if self.page.as_ref().is_some_and(beside) {
            return Ok(());
        }
        self.output.output_character(at, width, spacing, size, c)
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.output.begin_word()
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        self.output.end_word()
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        self.output.end_line()
    }
}

fn info_title(document: &Document) -> Option<Title> {
    let info = match document.trailer.get(b"Info").ok()? {
        Object::Reference(id) => document.get_dictionary(*id).ok()?,
        Object::Dictionary(info) => info,
        _ => return None,
    };
    let text = catch_unwind(AssertUnwindSafe(|| declared_title(info))).ok()??;
    is_sensible(&text).then(|| title::own(&text)).flatten()
}

fn declared_title(info: &Dictionary) -> Option<String> {
    let text = decode_text_string(info.get(b"Title").ok()?).ok()?;
    let text = text.trim_start_matches('\u{FEFF}').trim();
    Some(text.strip_prefix("Microsoft Word - ").unwrap_or(text).to_owned())
}

/// Whether a person may have written it: programs fill in file names and placeholders.
fn is_sensible(text: &str) -> bool {
    const FILES: [&str; 14] = [
        ".doc", ".docx", ".dvi", ".fm", ".html", ".indd", ".odt", ".pdf", ".ppt", ".pptx", ".ps", ".qxd", ".rtf",
        ".tex",
    ];
    const PLACEHOLDERS: [&str; 6] =
        ["untitled", "title", "document", "(anonymous)", "powerpoint presentation", "slide 1"];
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
    fn what_programs_fill_in_is_no_title() {
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
