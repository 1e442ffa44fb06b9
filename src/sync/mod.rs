//! The work of a run: documents are fetched, extracted, split, embedded and stored.

pub mod document;
pub mod given_chunks;
pub mod ingest;
pub mod knowledge;
pub mod labels;
mod members;
pub mod pipeline;
pub mod rebuild;
pub mod repair;
pub mod report;
pub mod store;
pub mod table;
