//! The vocabulary shared by `rag.so` (inside Postgres) and `rag-engine` (outside it).
//!
//! * [`identity`]: the deterministic ids of documents and chunks;
//! * [`spec`]: what a user may write in a source's `spec`, validated in one place; [`definition`]:
//!   what a source has beside it; [`name`]: what it may be called;
//! * [`embed`]: requests to `rag-engine embed` and its replies, over a Unix socket;
//! * [`ingest`]: the job given to `rag-engine ingest` and the events it streams back, over pipes;
//! * [`labels`]: category and tags of documents;
//! * [`frame`]: how one message is put on the wire, with its limits.
//!
//! Nothing here performs I/O beyond `std::io::{Read, Write}`, and nothing knows Postgres.

pub mod definition;
pub mod embed;
pub mod error;
pub mod frame;
pub mod identity;
pub mod ingest;
pub mod labels;
pub mod name;
pub mod spec;

pub use error::{EngineError, ErrorKind};
