//! How good a search is: the measures of information retrieval, as trec_eval defines them, and how
//! certain they are.
//!
//! ```text
//! ranking of a query + judgements ── measure ──▶ Measures ─┐ of all queries
//!                                                          ├─▶ estimate ──▶ mean, interval
//! the same with other settings ─────────────────▶ Measures ─┴─▶ compare ───▶ difference, p-value
//! ```
//!
//! | measure | of one query |
//! |---|---|
//! | recall@k | relevant documents among the first k, divided by all relevant documents |
//! | precision@k | relevant documents among the first k, divided by k |
//! | nDCG@k | the sum of relevance / log2(rank + 1) over the first k, divided by that of the best order |
//! | MRR | 1 / rank of the first relevant document, 0 without one |
//! | MAP | the sum of the precision at the rank of each relevant document, divided by their number |
//!
//! A document is relevant if its relevance is greater than 0. Relevant documents that the search
//! does not find count in all denominators. The means of the last two give them their names.

mod bootstrap;
mod judgements;
mod measures;

pub use bootstrap::{Comparison, Estimate, MAX_RESAMPLES, Resampling};
pub use judgements::{InvalidRelevance, Judgements};
pub use measures::{Measure, Measures, measure};
