//! Where `make install` puts what the extension needs beside `rag.so`.
//!
//! ```text
//! $(pg_config --pkglibdir)/rag/            rag-engine, libonnxruntime.so, libpdfium.so
//! $(pg_config --sharedir)/rag/models/      a folder per model
//! ```
//!
//! In Debian's packages both folders `rag` are links to /usr/lib/rag and /usr/share/rag, which all
//! versions of PostgreSQL share.

use std::path::PathBuf;

use super::process;

pub const DEFAULT_MODEL: &str = "all-MiniLM-L6-v2";

fn library_dir() -> PathBuf {
    process::library_dir().join("rag")
}

pub fn engine() -> PathBuf {
    library_dir().join("rag-engine")
}

pub fn onnxruntime() -> PathBuf {
    library_dir().join("libonnxruntime.so")
}

pub fn openvino() -> PathBuf {
    library_dir().join("openvino/libopenvino_c.so")
}

pub fn pdfium() -> PathBuf {
    library_dir().join("libpdfium.so")
}

pub fn models() -> PathBuf {
    process::share_dir().join("rag").join("models")
}

/// Returns the names of the installed models, sorted.
pub fn model_names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(models())
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
