//! The reader of PDFs: PDFium if its library can be loaded, else pdf-extract. Pages that are
//! pictures are read by Tesseract, if it is installed.
//!
//! The process that reads loads the libraries before it enters its sandbox. Processes that start it
//! allow the libraries in their own sandboxes. Tesseract takes time and memory to load, so only a
//! process that is to recognize text has it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Once, OnceLock},
    time::Duration,
};

use clap::Args;
use rag_document::{ExtractedDocument, PdfReader, Recognizer};

#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// PDFium's shared library.
    #[arg(long, value_name = "PATH")]
    pdfium: Option<PathBuf>,

    /// Languages of text recognition, as Tesseract names them: eng+deu. Without them there is none.
    #[arg(long, value_name = "CODES")]
    ocr_languages: Option<String>,

    /// Recognizes the text of files that are pictures, too.
    #[arg(long)]
    ocr_pictures: bool,

    /// Maximum time of text recognition of a document, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    ocr_seconds: u64,
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

    /// Loads the library, and Tesseract.
    ///
    /// # Errors
    /// The reason why text cannot be recognized.
    pub fn recognizing_reader(&self) -> Result<PdfReader, String> {
        let languages = self.ocr_languages.as_deref().unwrap_or_default();
        let recognizer = Recognizer::load(languages, self.recognition_time())?;
        Ok(self.reader().with_recognizer(recognizer))
    }

    /// Returns how long the recognition of a document's text may take.
    pub fn recognition_time(&self) -> Duration {
        Duration::from_secs(self.ocr_seconds)
    }
}

/// Returns the options for a process that this one starts.
pub fn options() -> Vec<OsString> {
    let Some(options) = OPTIONS.get() else {
        return vec![];
    };
    let mut arguments: Vec<OsString> = vec![];
    if let Some(path) = &options.pdfium {
        arguments.extend(["--pdfium".into(), path.into()]);
    }
    if let Some(languages) = &options.ocr_languages {
        arguments.extend(["--ocr-languages".into(), languages.into()]);
        let seconds = options.ocr_seconds.to_string();
        arguments.extend(["--ocr-seconds".into(), seconds.into()]);
    }
    arguments
}

/// Returns how long a child process may recognize the text of a document. `None`: not at all.
pub fn recognition_time() -> Option<Duration> {
    let options = OPTIONS.get()?;
    options.ocr_languages.as_ref()?;
    Some(options.recognition_time()).filter(|time| !time.is_zero())
}

/// Returns true if pictures are documents.
pub fn reads_pictures() -> bool {
    OPTIONS.get().is_some_and(|options| options.ocr_pictures) && recognition_time().is_some()
}

/// Returns the folders in which Tesseract looks for the data of languages.
pub fn recognition_data() -> Vec<PathBuf> {
    const FOLDERS: [&str; 4] = [
        "/usr/share/tesseract-ocr",
        "/usr/share/tessdata",
        "/usr/local/share/tessdata",
        "/usr/local/share/tesseract-ocr",
    ];
    if recognition_time().is_none() {
        return vec![];
    }
    let named = std::env::var_os("TESSDATA_PREFIX").map(PathBuf::from);
    FOLDERS.iter().map(PathBuf::from).chain(named).collect()
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
