//! Where `make install` puts what the extension needs beside `rag.so`.
//!
//! ```text
//! $(pg_config --pkglibdir)/rag/            rag-engine, libonnxruntime.so, libpdfium.so
//! $(pg_config --sharedir)/rag/models/      a folder per model
//! ```
#![allow(unsafe_code)] // reads two paths that the server holds as C strings

use std::{ffi::CStr, path::PathBuf};

use pgrx::pg_sys;

pub const DEFAULT_MODEL: &str = "all-MiniLM-L6-v2";

fn library_dir() -> PathBuf {
    // SAFETY: the server fills this NUL-terminated array before any extension is loaded and never
    // changes it.
    let path = unsafe { CStr::from_ptr((&raw const pg_sys::pkglib_path).cast()) };
    PathBuf::from(path.to_string_lossy().into_owned()).join("rag")
}

pub fn engine() -> PathBuf {
    library_dir().join("rag-engine")
}

pub fn onnxruntime() -> PathBuf {
    library_dir().join("libonnxruntime.so")
}

pub fn pdfium() -> PathBuf {
    library_dir().join("libpdfium.so")
}

pub fn models() -> PathBuf {
    let mut path = [0 as std::ffi::c_char; pg_sys::MAXPGPATH as usize];
    // SAFETY: get_share_path writes at most MAXPGPATH bytes, NUL included.
    let path = unsafe {
        pg_sys::get_share_path((&raw const pg_sys::my_exec_path).cast(), path.as_mut_ptr());
        CStr::from_ptr(path.as_ptr())
    };
    PathBuf::from(path.to_string_lossy().into_owned())
        .join("rag")
        .join("models")
}

/// Names of the installed models, sorted.
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
