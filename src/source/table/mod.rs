//! Tables and views of the database as sources: what they are, how their rows are read, how their
//! changes are noted.
//!
//! ```text
//! rag_create_source ──▶ relation (what is it, what identifies a row) ──▶ spec complete ──▶ changes: triggers
//! a writer's statement ──▶ trigger ──▶ rag.table_changes: the keys of the rows that it changed
//! a run ──▶ rows: pages of (key, hash), then the text of those that differ
//! ```
//!
//! [`reader`] says with whose rights rows are read: functions behind a view act for nobody but
//! their authors, and what the source's owner may not see is no document. [`identity`] keeps each
//! statement to the relation that the source was made for.

pub mod changes;
pub mod definition;
pub mod filter;
pub mod identity;
pub mod reader;
pub mod relation;
pub mod rows;
pub mod trigger;
