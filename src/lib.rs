//! `rag`: retrieval-augmented generation inside PostgreSQL.
//!
//! This library is loaded by backends and background workers. It holds the SQL functions ([`api`]), the catalog
//! ([`catalog`]), the vector type ([`types`]) and its index ([`index`], on pages of [`storage`]), search ([`retrieval`])
//! and the workers ([`workers`]). It has no network, parses no untrusted file and runs no model: that is `rag-engine`'s,
//! a program of its own ([`engine`]).
//! `docs/architecture.md` shows the processes and how data flows between them.

mod api;
mod catalog;
mod definition;
mod engine;
mod error;
mod index;
mod indexing;
mod knowledge;
mod manifest;
mod retrieval;
mod schedule;
mod secrets;
mod settings;
mod storage;
mod types;
mod workers;

use pgrx::{extension_sql_file, pg_guard, pg_sys};

::pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/vector.sql", name = "vector", bootstrap);
extension_sql_file!("../sql/hnsw.sql", name = "hnsw", requires = ["vector"]);
extension_sql_file!("../sql/secrets.sql", name = "secrets", requires = ["vector"]);
extension_sql_file!("../sql/catalog.sql", name = "catalog", requires = ["vector", "secrets"]);
extension_sql_file!("../sql/table.sql", name = "table", requires = ["catalog"]);
extension_sql_file!("../sql/knowledge.sql", name = "knowledge", requires = ["catalog"]);
extension_sql_file!("../sql/drift.sql", name = "drift", requires = ["catalog"]);
extension_sql_file!("../sql/references.sql", name = "references", requires = ["secrets", "catalog", "knowledge"]);
extension_sql_file!(
    "../sql/privileges.sql",
    name = "privileges",
    requires = ["hnsw", "catalog", "table", "knowledge", "drift", "references"],
    finalize
);

#[pg_guard]
#[allow(unsafe_code)] // reads a variable of the postmaster's
pub extern "C-unwind" fn _PG_init() {
    settings::define();
    secrets::watch_log();
    index::hnsw::define_options();
    // SAFETY: a plain variable.
    if unsafe { pg_sys::process_shared_preload_libraries_in_progress } {
        workers::register();
    }
}
