//! Tables and views of the database as sources: what they are, how their rows are read, how their changes are noted.
//!
//! ```text
//! rag_create_source ──▶ relation (what is it, what identifies a row) ──▶ spec complete ──▶ changes: triggers
//! a writer's statement ──▶ trigger ──▶ rag.table_changes: the keys of the rows that it changed
//! a run ──▶ rows: pages of (key, hash), then the text of those that differ
//! ```
//!
//! [`rows`] reads with the rights of the source's owner and nothing more: grants and row-level security of that role
//! decide what becomes a document, and functions behind a view cannot act for anybody else.

pub mod changes;
pub mod filter;
pub mod relation;
pub mod rows;
pub mod trigger;
