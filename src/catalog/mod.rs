//! The tables of schema `rag`: row types and statements, a file per table.
//!
//! Statements run with a safe `search_path` and, since nobody but the extension's functions may
//! write its tables, as the extension's owner ([`crate::pg::security::as_owner`]). The permissions
//! of the caller are checked before, in [`crate::api`].

pub mod access;
pub mod chunks;
pub mod collection_status;
pub mod collections;
pub mod conditions;
pub mod damage;
pub mod digests;
pub mod documents;
pub mod due;
pub mod embedding_index;
pub mod knowledge;
pub mod labels;
pub mod name;
pub mod notes;
pub mod retrievers;
pub mod runs;
pub mod secrets;
pub mod sources;
