//! What PDFs are read with: what `rag.pdf_reader` says, and where PDFium's library is.
//!
//! The process that reads loads the library before it enters its sandbox. Those that start it let
//! it through theirs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Once, OnceLock},
};

use clap::{Args, ValueEnum};
use rag_document::{Extracted, PdfReader};

#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// What PDFs are read with.
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    pdf_reader: Choice,
    /// PDFium's shared library.
    #[arg(long, value_name = "PATH")]
    pdfium: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// PDFium where its library can be loaded, else pdf-extract.
    #[default]
    Auto,
    Pdfium,
    PdfExtract,
}

/// Those that this process was started with.
static OPTIONS: OnceLock<Options> = OnceLock::new();

impl Options {
    /// Keeps them for the processes that this one starts.
    pub fn keep(self) {
        let _ = OPTIONS.set(self);
    }

    /// Loads what is to be loaded.
    pub fn reader(&self) -> PdfReader {
        if self.pdf_reader == Choice::PdfExtract {
            return PdfReader::PDF_EXTRACT;
        }
        let library = self
            .pdfium
            .as_deref()
            .ok_or_else(|| "nobody says where PDFium's library is".to_owned());
        match library.and_then(PdfReader::pdfium) {
            Ok(reader) => reader,
            Err(_) if self.pdf_reader == Choice::Auto => PdfReader::PDF_EXTRACT,
            Err(why) => PdfReader::missing(why),
        }
    }
}

/// The options for a process that this one starts.
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

/// The library that a process which this one starts may load.
pub fn library() -> Option<&'static Path> {
    let options = OPTIONS
        .get()
        .filter(|options| options.pdf_reader != Choice::PdfExtract)?;
    options.pdfium.as_deref()
}

/// Logs what the first PDF of this process was read with, and each for those who debug.
pub fn log(name: &str, extracted: &Extracted) {
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
