//! `rag`: retrieval-augmented generation inside PostgreSQL.
//!
//! This library is loaded by backends and background workers. It holds the SQL functions ([`api`]),
//! the catalog ([`catalog`]), the vector type ([`types`]) and its index ([`index`], on pages of
//! [`storage`]), search ([`retrieval`]) and the workers ([`workers`]). It has no network, parses no
//! untrusted file and runs no model: that is `rag-engine`'s, a program of its own ([`engine`]).
//! `docs/architecture.md` shows the processes and how data flows between them.

mod api;
mod catalog;
mod cluster;
mod drift;
mod engine;
mod error;
mod index;
mod pg;
mod run;
mod search;
mod secrets;
mod settings;
mod source;
mod sync;
mod types;
mod workers;

use pgrx::{extension_sql_file, pg_guard, pg_sys};

::pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/vector.sql", name = "vector", bootstrap);
extension_sql_file!("../sql/hnsw.sql", name = "hnsw", requires = ["vector"]);
extension_sql_file!(
    "../sql/secrets.sql",
    name = "secrets",
    requires = ["vector"]
);
extension_sql_file!("../sql/access.sql", name = "access", requires = ["vector"]);
extension_sql_file!(
    "../sql/catalog.sql",
    name = "catalog",
    requires = ["vector", "secrets", "access"]
);
extension_sql_file!("../sql/table.sql", name = "table", requires = ["catalog"]);
extension_sql_file!("../sql/search.sql", name = "search", requires = ["catalog"]);
extension_sql_file!(
    "../sql/knowledge.sql",
    name = "knowledge",
    requires = ["catalog"]
);
extension_sql_file!("../sql/drift.sql", name = "drift", requires = ["catalog"]);
extension_sql_file!(
    "../sql/policies.sql",
    name = "policies",
    requires = ["catalog", "knowledge"]
);
extension_sql_file!(
    "../sql/references.sql",
    name = "references",
    requires = ["secrets", "catalog", "knowledge", "policies"]
);
extension_sql_file!(
    "../sql/status.sql",
    name = "status",
    requires = ["references", "drift"]
);
extension_sql_file!(
    "../sql/collections.sql",
    name = "collections",
    requires = ["catalog", api::collection::rag_collection_status]
);
extension_sql_file!(
    "../sql/embed.sql",
    name = "embed",
    requires = [
        "vector",
        api::model::rag_embed_default,
        api::model::rag_embed_model,
        api::model::rag_embed_array
    ]
);
extension_sql_file!(
    "../sql/privileges.sql",
    name = "privileges",
    requires = [
        "status",
        "hnsw",
        "catalog",
        "table",
        "knowledge",
        "drift",
        "policies",
        "references",
        "search",
        "collections",
        "embed"
    ],
    finalize
);

#[pg_guard]
#[allow(unsafe_code)] // reads a variable of the postmaster's
pub extern "C-unwind" fn _PG_init() {
    pg::memory::watch();
    error::without_backtraces();
    settings::define();
    secrets::watch_log();
    source::table::identity::watch_statements();
    index::hnsw::define_options();
    // SAFETY: a plain variable.
    if unsafe { pg_sys::process_shared_preload_libraries_in_progress } {
        workers::register();
    }
}
