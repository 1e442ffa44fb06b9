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
mod error;
mod fields;
mod found;
mod knowledge;
mod retrieve;
mod retriever;
mod settings;
mod storage;

pub use dify::{DifyError, DifyRequest};
pub use error::RequestError;
pub use found::FoundChunk;
pub use knowledge::{DEFAULT_COLLECTION, KnowledgeRequest};
pub use retrieve::{KnowledgeBases, RetrieveRequest, RetrieverRef, SearchHints};
pub use retriever::{DEFAULT_WEIGHTS, Fusion, MethodSettings, RetrieverSettings};
pub use settings::{MAX_TOP_K, RetrievalMode, RetrievalSettings, SearchOutcome, Weights};
pub use storage::{RemoteStorage, SecretValueRef, StorageSettings, StorageType, VectorMetric};
