//! Extracting and splitting documents.

mod extract;
mod guide;
mod pdfium;
mod round_trip;
mod split;
