//! The reader of PDFs: PDFium if its library can be loaded, else pdf-extract.
//!
//! The process that reads loads the library before it enters its sandbox. Processes that start it
//! allow the library in their own sandboxes.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Once, OnceLock},
};

use clap::Args;
use rag_document::{ExtractedDocument, PdfReader};

#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// PDFium's shared library.
    #[arg(long, value_name = "PATH")]
    pdfium: Option<PathBuf>,
}

/// The options that this process was started with.
static OPTIONS: OnceLock<Options> = OnceLock::new();

impl Options {
    /// Keeps the options for the processes that this one starts.
    pub fn keep(self) {
        let _ = OPTIONS.set(self);
    }

    /// Loads the library.
    pub fn reader(&self) -> PdfReader {
        let library = self.pdfium.as_deref();
        library
            .and_then(|path| PdfReader::pdfium(path).ok())
            .unwrap_or(PdfReader::PDF_EXTRACT)
    }
}

/// Returns the options for a process that this one starts.
pub fn options() -> Vec<OsString> {
    library().map_or(vec![], |path| vec!["--pdfium".into(), path.into()])
}

/// Returns the library that a child process may load.
pub fn library() -> Option<&'static Path> {
    OPTIONS.get()?.pdfium.as_deref()
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
