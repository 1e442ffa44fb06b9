//! What users define, as types that cannot be wrong: sources, retrievers, models and collections.
//! Text and JSON are parsed here, once, and all problems of a definition are reported together.
//!
//! | module | what it has |
//! |---|---|
//! | [`source`] | the kinds of sources and their specs, a file each; the other fields of a source |
//! | [`retriever`] | the settings of a retriever: methods, storage, index strategy |
//! | [`collection`] | what a user says of a collection, and what its indexes are made of |
//! | [`model`] | the settings of a model |
//! | [`usage`] | counts and limits of calls of models |
//! | [`name`] | names of objects |
//! | [`labels`] | category and tags of documents |
//! | [`spelling`] | hints for misspelled names |
//! | `quota`, `splitting`, `notes`, `document_type` | limits, sizes of chunks, metadata, types of documents |
//! | `fields`, `problem` | the reader of JSON, and what it reports |
//!
//! Nothing here knows Postgres, and nothing performs I/O.

pub mod collection;
mod document_type;
pub mod fields;
pub mod labels;
pub mod model;
pub mod name;
mod notes;
mod problem;
mod quota;
pub mod retriever;
mod secret;
pub mod source;
pub mod spelling;
mod splitting;
mod url;
pub mod usage;

pub use self::{
    document_type::DocumentType,
    fields::Fields,
    notes::Notes,
    problem::{FieldProblem, Problems},
    quota::Quota,
    secret::SecretRef,
    splitting::{Splitting, Unit},
};
