//! The vocabulary shared by `rag.so` (inside Postgres) and `rag-engine` (outside it).
//!
//! * [`identity`]: the deterministic ids of documents and chunks;
//! * [`baseline`]: texts that show how similar a model finds unrelated ones;
//! * [`embed`]: requests to `rag-engine embed` and its replies, over a Unix socket;
//! * [`network`]: which hosts sources may connect to;
//! * [`ingest`]: the job of `rag-engine ingest` and the events that it sends, over pipes;
//! * [`call`]: a call of a remote model by `rag-engine call`, and the events that it sends;
//! * [`storage`]: a request of `rag-engine store` to a server that searches vectors;
//! * [`skipped`]: numbers of files that are no documents;
//! * [`frame`]: the framing of messages and its limits.
//!
//! Nothing here performs I/O beyond `std::io::{Read, Write}`, and nothing knows Postgres.

pub mod baseline;
pub mod call;
pub mod embed;
pub mod error;
pub mod file;
pub mod frame;
pub mod identity;
pub mod ingest;
pub mod network;
pub mod skipped;
pub mod storage;
pub mod uri;

pub use error::{EngineError, ErrorKind};
