//! The choice of the PDF reader: the value of `rag.pdf_reader`, and the path of PDFium's library.
//!
//! The process that reads loads the library before it enters its sandbox. Processes that start it
//! allow the library in their own sandboxes.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Once, OnceLock},
};

use clap::{Args, ValueEnum};
use rag_document::{ExtractedDocument, PdfReader};

#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// The PDF reader.
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    pdf_reader: Choice,
    /// PDFium's shared library.
    #[arg(long, value_name = "PATH")]
    pdfium: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// PDFium if its library can be loaded, else pdf-extract.
    #[default]
    Auto,
    Pdfium,
    PdfExtract,
}

/// The options that this process was started with.
static OPTIONS: OnceLock<Options> = OnceLock::new();

impl Options {
    /// Keeps the options for the processes that this one starts.
    pub fn keep(self) {
        let _ = OPTIONS.set(self);
    }

    /// Loads the library if it is needed.
    pub fn reader(&self) -> PdfReader {
        if self.pdf_reader == Choice::PdfExtract {
            return PdfReader::PDF_EXTRACT;
        }
        let library = self
            .pdfium
            .as_deref()
            .ok_or_else(|| "the path of PDFium's library is not set".to_owned());
        match library.and_then(PdfReader::pdfium) {
            Ok(reader) => reader,
            Err(_) if self.pdf_reader == Choice::Auto => PdfReader::PDF_EXTRACT,
            Err(why) => PdfReader::missing(why),
        }
    }
}

/// Returns the options for a process that this one starts.
pub fn options() -> Vec<OsString> {
    let Some(Options { pdf_reader, pdfium }) = OPTIONS.get() else {
        return vec![];
    };
    let choice = pdf_reader
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default();
    let mut options = vec!["--pdf-reader".into(), choice.into()];
    options.extend(
        pdfium
            .iter()
            .flat_map(|path| ["--pdfium".into(), path.into()]),
    );
    options
}

/// Returns the library that a child process may load.
pub fn library() -> Option<&'static Path> {
    let options = OPTIONS
        .get()
        .filter(|options| options.pdf_reader != Choice::PdfExtract)?;
    options.pdfium.as_deref()
}

/// Logs the reader of this process's first PDF, and that of each PDF at level debug.
pub fn log(name: &str, extracted: &ExtractedDocument) {
    static FIRST: Once = Once::new();
    let Some(reader) = extracted
        .metadata
        .get("pdf_reader")
        .and_then(|reader| reader.as_str())
    else {
        return;
    };
    let is_second_choice = reader == "pdf-extract" && library().is_some();
    FIRST.call_once(|| {
        if is_second_choice {
            tracing::warn!(
                "PDFs are read with pdf-extract: PDFium's library is missing or cannot be loaded"
            );
        } else {
            tracing::info!("PDFs are read with {reader}");
        }
    });
    tracing::debug!("{name} was read with {reader}");
}
