//! Extracting and splitting documents.

mod extract;
mod pdfium;
mod split;
