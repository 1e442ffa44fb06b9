//! `rag`: retrieval-augmented generation inside PostgreSQL.
//!
//! Backends and background workers load this library. It uses no network, parses no untrusted file
//! and runs no model: `rag-engine` does that, a program of its own ([`engine`]).
//! `docs/architecture.md` shows the processes and how data flows between them.
//!
//! The rooms, from the top down. Each uses only those below it (`scripts/rooms.py`):
//!
//! | room | contents |
//! |---|---|
//! | [`api`] | the functions that users call |
//! | [`workers`] | the background workers |
//! | [`bundle`] | collections as bundles of files |
//! | [`sync`] | the work of a run: read, embed, store |
//! | [`source`] | definitions of sources, and their kinds |
//! | [`run`] | the life of a run |
//! | [`drift`] | digests of documents, and their check |
//! | [`answers`] | answers of a chat model from what a search finds |
//! | [`search`] | search requests |
//! | [`collection`] | what a collection is: definition, partition, indexes, state |
//! | [`storage`] | where the vectors of collections are searched |
//! | [`models`] | models: definitions, calls, embeddings |
//! | [`index`] | the access methods `rag_hnsw` and `rag_bm25` |
//! | [`secrets`] | secrets, their key file, and keeping them out of logs |
//! | [`engine`] | `rag-engine`: process and client |
//! | [`cluster`] | what processes know of each other: shared memory, slots, locks |
//! | [`catalog`] | statements on the tables of the extension |
//! | [`types`] | the type `vector` |
//! | [`settings`] | the settings `rag.*` |
//! | [`pg`] | everything that calls functions of the server |
//! | [`error`] | errors |

mod answers;
mod api;
mod bundle;
mod catalog;
mod cluster;
mod collection;
mod drift;
mod engine;
mod error;
mod index;
mod models;
mod pg;
mod run;
mod search;
mod secrets;
mod settings;
mod source;
mod storage;
mod sync;
mod types;
mod workers;

use pgrx::{extension_sql_file, pg_guard};

::pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/vector.sql", name = "vector", bootstrap);
extension_sql_file!(
    "../sql/halfvec.sql",
    name = "halfvec",
    requires = ["vector"]
);
extension_sql_file!("../sql/bits.sql", name = "bits", requires = ["vector"]);
extension_sql_file!(
    "../sql/hnsw.sql",
    name = "hnsw",
    requires = ["halfvec", "bits"]
);
extension_sql_file!("../sql/bm25.sql", name = "bm25", requires = ["vector"]);
extension_sql_file!(
    "../sql/secrets.sql",
    name = "secrets",
    requires = ["vector"]
);
extension_sql_file!("../sql/access.sql", name = "access", requires = ["vector"]);
extension_sql_file!("../sql/roles.sql", name = "roles", requires = ["vector"]);
extension_sql_file!(
    "../sql/catalog.sql",
    name = "catalog",
    requires = ["secrets", "access", "roles"]
);
extension_sql_file!(
    "../sql/sources.sql",
    name = "sources",
    requires = ["catalog"]
);
extension_sql_file!(
    "../sql/monitored.sql",
    name = "monitored",
    requires = ["sources"]
);
extension_sql_file!("../sql/views.sql", name = "views", requires = ["monitored"]);
extension_sql_file!("../sql/table.sql", name = "table", requires = ["views"]);
extension_sql_file!("../sql/search.sql", name = "search", requires = ["views"]);
extension_sql_file!("../sql/shards.sql", name = "shards", requires = ["views"]);
extension_sql_file!(
    "../sql/distributable.sql",
    name = "distributable",
    requires = ["shards"]
);
extension_sql_file!(
    "../sql/distribute.sql",
    name = "distribute",
    requires = ["policies", "distributable"]
);
extension_sql_file!(
    "../sql/search_stats.sql",
    name = "search_stats",
    requires = ["views"]
);
extension_sql_file!(
    "../sql/retrieval.sql",
    name = "retrieval",
    requires = ["views"]
);
extension_sql_file!(
    "../sql/knowledge.sql",
    name = "knowledge",
    requires = ["views"]
);
extension_sql_file!(
    "../sql/document_queue.sql",
    name = "document_queue",
    requires = ["views"]
);
extension_sql_file!("../sql/drift.sql", name = "drift", requires = ["views"]);
extension_sql_file!("../sql/rebuild.sql", name = "rebuild", requires = ["views"]);
extension_sql_file!(
    "../sql/policies.sql",
    name = "policies",
    requires = ["views", "knowledge"]
);
extension_sql_file!(
    "../sql/models.sql",
    name = "models",
    requires = ["views", "policies"]
);
extension_sql_file!("../sql/storage.sql", name = "storage", requires = ["views"]);
extension_sql_file!(
    "../sql/references.sql",
    name = "references",
    requires = [
        "secrets",
        "views",
        "knowledge",
        "document_queue",
        "policies",
        "models"
    ]
);
extension_sql_file!(
    "../sql/status.sql",
    name = "status",
    requires = ["references", "drift", "collections"]
);
extension_sql_file!(
    "../sql/collections.sql",
    name = "collections",
    requires = ["views", api::collection::rag_collection_status]
);
extension_sql_file!(
    "../sql/metrics.sql",
    name = "metrics",
    requires = ["collections", "search_stats"]
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
    "../sql/gateway.sql",
    name = "gateway",
    requires = ["views", "policies"]
);
extension_sql_file!(
    "../sql/api.sql",
    name = "api",
    requires = [
        "gateway",
        "status",
        "metrics",
        "search",
        api::answer::rag_answer_stream
    ]
);
extension_sql_file!(
    "../sql/api_documents.sql",
    name = "api_documents",
    requires = ["api"]
);
extension_sql_file!(
    "../sql/api_openai.sql",
    name = "api_openai",
    requires = ["api"]
);
extension_sql_file!(
    "../sql/api_vector_stores.sql",
    name = "api_vector_stores",
    requires = ["api_openai"]
);
extension_sql_file!(
    "../sql/api_contracts.sql",
    name = "api_contracts",
    requires = ["api_documents", "retrieval", "knowledge"]
);
extension_sql_file!(
    "../sql/api_kaito.sql",
    name = "api_kaito",
    requires = ["api_vector_stores"]
);
extension_sql_file!(
    "../sql/api_mcp.sql",
    name = "api_mcp",
    requires = ["api_documents"]
);
extension_sql_file!(
    "../sql/api_console.sql",
    name = "api_console",
    requires = ["api_documents"]
);
extension_sql_file!(
    "../sql/api_comments.sql",
    name = "api_comments",
    requires = ["api_console", "api_contracts", "api_kaito", "api_mcp"]
);
extension_sql_file!("../sql/bundles.sql", name = "bundles", requires = ["views"]);
extension_sql_file!(
    "../sql/privileges.sql",
    name = "privileges",
    requires = [
        "status",
        "search_stats",
        "metrics",
        "hnsw",
        "bm25",
        "views",
        "table",
        "knowledge",
        "drift",
        "policies",
        "models",
        "storage",
        "references",
        "search",
        "shards",
        "distribute",
        "retrieval",
        "collections",
        "bundles",
        "rebuild",
        "embed",
        "api_comments"
    ],
    finalize
);

#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    pg::memory::remember_main_thread();
    pg::process::disable_backtraces();
    settings::define();
    secrets::install_log_hook();
    source::table::identity::watch_statements();
    index::define_options();
    index::offer_plans();
    if pg::process::is_preloading() {
        workers::register();
    }
}
