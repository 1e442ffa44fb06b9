//! The work of a run: documents are fetched, extracted, split, embedded and stored.
//!
//! | file | contents |
//! |---|---|
//! | [`pipeline`] | a run: documents of a feed are embedded in batches and stored |
//! | [`ingest`], [`table`] | the feeds: `rag-engine ingest`, and the rows of a table |
//! | [`store`] | a document becomes rows |
//! | [`labels`] | category and tags of documents whose text is unchanged |
//! | [`report`] | the progress of a run |
//! | [`repair`] | a run of a source whose documents have drifted |
//! | [`document`] | documents that users add by SQL |
//! | [`given_chunks`] | chunks that applications split |
//! | [`knowledge`] | knowledge items |
//! | [`members`] | JSON objects that describe documents and chunks |
//! | [`rebuild`] | other chunks, embeddings, indexes or partitions from the stored texts |

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
