//! The tables of schema `rag`: row types and statements, a file per table.
//!
//! Statements run with a safe `search_path` as the extension's owner
//! ([`crate::pg::security::as_owner`]), since only the extension's functions may write its tables.
//! Callers check the permissions of the user first.

pub mod access;
pub mod bundled;
pub mod chunk_metadata;
pub mod chunks;
pub mod collection_status;
pub mod collections;
pub mod conditions;
pub mod corruption;
pub mod damage;
pub mod digests;
pub mod documents;
pub mod due;
pub mod given_chunks;
pub mod index_state;
pub mod kept_documents;
pub mod keyword_index;
pub mod knowledge;
pub mod knowledge_runs;
pub mod labels;
pub mod models;
pub mod name;
pub mod notes;
pub mod partitions;
pub mod placement;
pub mod quotas;
pub mod rebuilds;
pub mod renames;
pub mod retrievers;
pub mod runs;
pub mod secrets;
pub mod sources;
pub mod stalls;
pub mod storage_changes;
pub mod storage_removals;
pub mod wanted;
pub mod whitelist;
