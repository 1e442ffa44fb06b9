//! Search requests of applications, and the answers to them, as JSON.
//!
//! | request | answer | form of |
//! |---|---|---|
//! | [`RetrieveRequest`] | [`RetrieveRequest::answer`] | Wegent's Retriever |
//! | [`DifyRequest`] | [`dify::answer`], [`DifyError`] | Dify's external knowledge API |
//! | [`KnowledgeRequest`] | [`KnowledgeRequest::answer`] | agent_core's RAG service |
//!
//! A request is parsed completely before anything is searched. What it does not know is an error
//! that names the place: `retrieval_setting.topk`. An answer is made of [`FoundChunk`]s.

pub mod dify;
mod found;
mod highlight;
mod knowledge;
mod request;
mod retrieve;
mod settings;

pub use dify::{DifyError, DifyRequest};
pub use found::FoundChunk;
pub use highlight::HighlightSettings;
pub use knowledge::{DEFAULT_COLLECTION, KnowledgeRequest};
pub use request::unreadable;
pub use retrieve::{KnowledgeBases, RetrieveRequest, RetrieverRef, SearchHints};
pub use settings::{RetrievalSettings, SearchOutcome};
