//! Tables and views of the database as sources: their definition, reading their rows, and recording
//! their changes.
//!
//! ```text
//! rag_create_source ──▶ relation (kind, key of a row) ──▶ complete spec ──▶ changes: triggers
//! a writer's statement ──▶ trigger ──▶ rag_internal.table_change: keys of changed rows
//! a run ──▶ rows: pages of (key, hash), then the text of those that differ
//! ```
//!
//! [`reader`] decides with which rights rows are read: the functions of a view get no rights that
//! their authors lack, and rows that the source's owner may not see become no documents.
//! [`identity`] ensures that a statement reads only the relation that the source was created for.
//!
//! | file | contents |
//! |---|---|
//! | [`relation`], [`definition`] | the relation, and the definition of its source |
//! | [`identity`] | statements read that relation only |
//! | [`reader`] | with whose rights rows are read |
//! | [`rows`], [`row_sql`] | the statements that read rows |
//! | [`filter`] | conditions on columns |
//! | [`trigger`], [`changed_keys`], [`changes`] | changes of rows: recorded by triggers, and read by runs |

pub mod changed_keys;
pub mod changes;
pub mod definition;
pub mod filter;
pub mod identity;
pub mod reader;
pub mod relation;
pub mod row_sql;
pub mod rows;
pub mod trigger;
