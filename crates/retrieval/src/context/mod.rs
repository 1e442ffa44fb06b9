//! Puts found chunks together as the context of a language model: one text of quoted documents,
//! within a number of tokens.
//!
//! ```text
//! found chunks, best first ── pack ──▶ quoted documents, chunks in reading order ── render ──▶ text
//! ```
//!
//! A quoted document may contain anything, also text that imitates instructions or the end of the
//! quotation. So the lines around it have a boundary, which the author of a document cannot know:
//! it is a hash of everything that is quoted, and occurs in none of it.

mod join;
mod line;
mod pack;
mod quote;

pub use join::{GAP, JoinedText};
pub use line::{columns, columns_of, fitted, fitted_end, one_line};
pub use pack::{FoundChunks, Packing, pack};
pub use quote::{QuotedChunk, QuotedDocument, QuotedPiece, plain, render, render_pieces};
