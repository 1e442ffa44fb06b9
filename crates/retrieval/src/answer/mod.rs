//! Answers of a language model from found chunks, without the database and without the model.
//!
//! ```text
//! query, context of an agent ──▶ words to search for
//! template + quoted chunks ─┐
//! conversation ─────────────┼──▶ messages ──▶ model ──▶ answer ──▶ check of its citations
//! query ────────────────────┘
//! ```

mod citations;
mod conversation;
mod prompt;
mod question;

pub use citations::{CitationCheck, CitedNumbers};
pub use conversation::{MAX_BYTES, MAX_MESSAGES, conversation};
pub use prompt::fill;
pub use question::{Entities, snippet};
