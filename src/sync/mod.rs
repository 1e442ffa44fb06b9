//! How documents get into collections: by a run, by SQL, or by a rebuild.
//!
//! | file | contents |
//! |---|---|
//! | [`feed`] | what sends documents, and what reads their events |
//! | [`indexer`] | prepares documents, and stores them with their chunks |
//! | [`ingest`] | `rag-engine ingest` as a feed |
//! | [`table`] | the rows of a table as a feed |
//! | [`pipeline`] | the work of a run: reading, embedding and storing at the same time |
//! | [`report`] | the progress of a run |
//! | [`chunk_metadata`] | the metadata that chunks carry of their document, with its language |
//! | [`usual_language`] | the language of short texts, from the documents around them |
//! | [`labels`] | category and tags of documents whose text has not changed |
//! | [`repair`] | documents that drifted, made new to the run |
//! | [`document`] | documents that users add by SQL |
//! | [`knowledge`] | knowledge items |
//! | [`given_chunks`] | chunks that an application has split |
//! | [`members`] | members of JSON objects that users write, with their paths |
//! | [`rebuild`] | other chunks, embeddings or storage, from the stored texts |

mod chunk_metadata;
pub mod document;
pub mod feed;
pub mod given_chunks;
pub mod indexer;
pub mod ingest;
pub mod knowledge;
pub mod labels;
mod members;
pub mod pipeline;
pub mod rebuild;
pub mod repair;
pub mod report;
pub mod table;
mod usual_language;
