//! Reads pages with `pdf-extract`, which is pure Rust, if PDFium's library is missing.
//!
//! `pdf-extract` panics on damaged and unusual files. These panics are caught here, page by page. A
//! stack overflow (a page tree that contains itself), exhausted memory and an endless loop cannot
//! be caught.
//!
//! Standard output stays clean: `pdf-extract` 0.12 and the crates below it print nothing to it.
//! Their `println!`s are in tests and in macros that are compiled out, and they log through the
//! `log` crate. A caught panic writes its message to standard error unless the process has replaced
//! the panic hook.
//!
//! Before reading, widths of glyphs are rewritten (see [`widths`]). Text drawn outside the page is
//! dropped.

mod forms;
mod widths;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{
    Dictionary, Document, Error, MediaBox, Object, OutputDev, OutputError, PlainTextOutput,
    Transform, decode_text_string, output_doc_page,
};

use super::{
    FileContents, OpenError,
    pages::{Drawn, Line, Page},
};

/// Reads all pages.
///
/// # Errors
/// The reason why the file cannot be opened.
pub fn read(bytes: &[u8]) -> Result<FileContents, OpenError> {
    let document = open(bytes)?;
    let pages = catch_unwind(AssertUnwindSafe(|| {
        document.get_pages().into_keys().collect::<Vec<_>>()
    }))
    .map_err(|_| OpenError::Malformed("its list of pages is damaged".into()))?;
    Ok(FileContents {
        pages: pages
            .into_iter()
            .map(|number| page(&document, number))
            .collect(),
        title: title(&document),
    })
}

/// Opens the file, with the empty password if it is encrypted.
fn open(bytes: &[u8]) -> Result<Document, OpenError> {
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let mut document = Document::load_mem(bytes)?;
        if document.is_encrypted() {
            document.decrypt("")?;
        }
        widths::spell_out(&mut document);
        Ok(document)
    }));
    match opened {
        Ok(Ok(document)) if document.is_encrypted() && !has_known_security(bytes) => {
            Err(OpenError::UnknownSecurity)
        }
        Ok(Ok(document)) => Ok(document),
        Ok(Err(Error::Decryption(_) | Error::InvalidPassword)) if has_known_security(bytes) => {
            Err(OpenError::Locked)
        }
        Ok(Err(Error::Decryption(_))) => Err(OpenError::UnknownSecurity),
        Ok(Err(error)) => Err(OpenError::Malformed(error.to_string())),
        Err(_) => Err(OpenError::Malformed("its structure is damaged".into())),
    }
}

/// Returns true if the file uses the encryption that the format defines. The dictionary that names
/// it is never compressed.
fn has_known_security(bytes: &[u8]) -> bool {
    const HANDLER: &[u8] = b"/Standard";
    bytes.windows(HANDLER.len()).any(|window| window == HANDLER)
}

/// Reads one page as far as possible.
fn page(document: &Document, number: u32) -> Page {
    let mut text = String::new();
    let read = catch_unwind(AssertUnwindSafe(|| {
        let mut output = VisibleOutput {
            output: PlainTextOutput::new(&mut text),
            page: None,
        };
        output_doc_page(document, &mut output, number).is_ok()
    }));
    let typed = catch_unwind(AssertUnwindSafe(|| forms::texts(document, number)));
    Page {
        lines: lines(&text, typed.unwrap_or_default()),
        is_whole: matches!(read, Ok(true)),
        drawn: Drawn {
            has_image: has_image(document, number),
            ..Drawn::default()
        },
        unmapped: 0,
    }
}

/// Returns the lines of a text, then those of fields.
fn lines(text: &str, fields: Vec<String>) -> Vec<Line> {
    let mut lines: Vec<Line> = vec![];
    let mut begins = false;
    let fields = fields.iter().flat_map(|field| ["", field]);
    for (i, line) in text.lines().chain(fields).enumerate() {
        if line.trim().is_empty() {
            begins = !lines.is_empty();
            continue;
        }
        let level = Some(-10.0 * i as f32); // the place in the text stands for that on the page
        lines.push(Line {
            text: line.to_owned(),
            level,
            begins: std::mem::take(&mut begins),
        });
    }
    lines
}

fn has_image(document: &Document, number: u32) -> bool {
    let images = || {
        let id = *document.get_pages().get(&number)?;
        document
            .get_page_images(id)
            .ok()
            .map(|images| !images.is_empty())
    };
    catch_unwind(AssertUnwindSafe(images))
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// Passes on what is drawn on the page and drops what is drawn outside it.
struct VisibleOutput<'a> {
    output: PlainTextOutput<&'a mut String>,
    page: Option<MediaBox>,
}

impl OutputDev for VisibleOutput<'_> {
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
        /// How far outside the page a character may begin and still count as on it, in points.
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

fn title(document: &Document) -> Option<String> {
    let info = match document.trailer.get(b"Info").ok()? {
        Object::Reference(id) => document.get_dictionary(*id).ok()?,
        Object::Dictionary(info) => info,
        _ => return None,
    };
    catch_unwind(AssertUnwindSafe(|| declared_title(info))).ok()?
}

fn declared_title(info: &Dictionary) -> Option<String> {
    decode_text_string(info.get(b"Title").ok()?).ok()
}
