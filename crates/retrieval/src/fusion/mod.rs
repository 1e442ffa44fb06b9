//! Combines what vector search and keyword search have found.
//!
//! ```text
//! vector search ──┐
//!                 ├─▶ Candidates ── rank ──▶ Ranked, best first ── choose ──▶ the results
//! keyword search ─┘
//! ```
//!
//! The default is a weighted sum of both scores, which are exact for every candidate: `0.7 cosine +
//! 0.3 BM25 / best BM25`. On eleven collections it was better than reciprocal rank fusion by .02
//! nDCG@10, and better than either search alone by .06. Other ways of scaling the scores (min-max,
//! z-score, DBSF) were significantly worse. Those are the weights of prose: [`weights`] gives words
//! more for a query of codes.

mod candidates;
mod choose;
mod codes;
mod rank;
mod weights;

pub use candidates::{Candidate, Candidates, ChunkKey};
pub use choose::{Chosen, Limits, choose};
pub use codes::{MAX_WORDS, WrittenWord, written_words};
pub use rank::{Method, Part, Ranked, rank};
pub use weights::{FoundWords, weights};
