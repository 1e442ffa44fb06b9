//! The families of the view `rag.metrics`. `sql/metrics.sql` computes their samples, and
//! `docs/reference/views.md` describes their labels.

use super::Family;

/// In the order in which texts have them.
pub const ALL: &[Family] = &[
    // searches
    Family::counter("rag_searches_total", "Searches."),
    Family::counter(
        "rag_search_errors_total",
        "Searches that failed or were cancelled.",
    ),
    Family::counter("rag_search_rows_total", "Results of all searches."),
    Family::counter("rag_search_empty_total", "Searches without results."),
    Family::counter(
        "rag_search_fewer_total",
        "Searches with fewer results than top_k.",
    ),
    Family::counter(
        "rag_search_degraded_total",
        "Searches for which another mode was used.",
    ),
    Family::counter(
        "rag_search_seconds_total",
        "Time of searches without error, by part.",
    ),
    Family::histogram(
        "rag_search_duration_seconds",
        "Time of a search without error.",
    ),
    // operations of applications
    Family::counter(
        "rag_operations_total",
        "Documents and chunks that applications gave, exports, imports and rebuilds.",
    ),
    Family::counter("rag_operation_seconds_total", "Time of these operations."),
    Family::gauge("rag_queued_documents", "Documents that wait to be indexed."),
    Family::gauge(
        "rag_oldest_queued_document_age_seconds",
        "Time since the first of them was queued, or 0.",
    ),
    // runs
    Family::counter("rag_runs_total", "Runs that have ended."),
    Family::counter(
        "rag_run_documents_total",
        "Documents in these runs, by result.",
    ),
    Family::counter("rag_run_chunks_total", "Chunks in these runs, by result."),
    Family::counter(
        "rag_run_fetched_bytes_total",
        "Bytes that these runs have fetched.",
    ),
    Family::counter(
        "rag_run_model_tokens_total",
        "Tokens that models on other servers used in these runs.",
    ),
    Family::counter("rag_run_model_cost_total", "Cost of these tokens."),
    Family::counter("rag_run_seconds_total", "Time of these runs, by stage."),
    Family::histogram(
        "rag_run_duration_seconds",
        "Time from the start of a run to its end.",
    ),
    Family::gauge(
        "rag_run_age_seconds",
        "Time since the start of a run in progress.",
    ),
    Family::gauge(
        "rag_run_idle_seconds",
        "Time since a run in progress last showed that it works.",
    ),
    Family::gauge(
        "rag_runs_stalled",
        "Runs that have made no progress for rag.stall_timeout.",
    ),
    Family::gauge("rag_runs_pending", "Runs that wait for their start."),
    Family::gauge(
        "rag_oldest_pending_run_age_seconds",
        "Time since the first of them was queued, or 0.",
    ),
    // sources
    Family::gauge(
        "rag_source_suspended",
        "1 if the source is suspended, else 0.",
    ),
    Family::gauge(
        "rag_source_failed",
        "1 if the last run of the source failed, else 0.",
    ),
    Family::gauge(
        "rag_source_last_success_timestamp_seconds",
        "End of the last complete run, as Unix time.",
    ),
    Family::gauge(
        "rag_source_schedule_lag_seconds",
        "Time since a scheduled run was due that has not begun, or 0.",
    ),
    Family::gauge(
        "rag_source_documents",
        "Documents of the source, by state: current, or failed.",
    ),
    Family::gauge(
        "rag_source_waiting_changes",
        "Statements that changed the table of the source since its last run.",
    ),
    Family::gauge(
        "rag_source_replication_age_seconds",
        "Time since the publisher of the table of the source was last heard of.",
    ),
    // collections
    Family::gauge("rag_documents", "Indexed documents."),
    Family::gauge(
        "rag_document_errors",
        "Documents that could not be indexed.",
    ),
    Family::gauge(
        "rag_collection_current_ratio",
        "Share of documents without error.",
    ),
    Family::gauge("rag_chunks", "Chunks."),
    Family::gauge(
        "rag_collection_damaged",
        "1 if an index is corrupted, else 0.",
    ),
    Family::gauge("rag_collection_bytes", "Size on disk, by part."),
    Family::gauge(
        "rag_index_bytes",
        "Size of the vector index and of the keyword index.",
    ),
    Family::gauge(
        "rag_database_bytes",
        "Size of all tables and indexes of the extension.",
    ),
    Family::gauge(
        "rag_damaged_relations",
        "Tables and indexes of the extension that are corrupted.",
    ),
    Family::gauge("rag_embedding_cache_entries", "Embeddings in the cache."),
    Family::gauge(
        "rag_embedding_cache_bytes",
        "Size of the cache of embeddings.",
    ),
    Family::gauge(
        "rag_metrics_timestamp_seconds",
        "When the values of the database were read, as Unix time.",
    ),
    // the server
    Family::gauge("rag_run_slots", "rag.max_running_syncs.").of_server(),
    Family::gauge("rag_run_slots_used", "Slots that runs have.").of_server(),
    Family::gauge("rag_engine_up", "1 if rag-engine is running, else 0.").of_server(),
    Family::counter("rag_engine_starts_total", "Starts of rag-engine.").of_server(),
    Family::gauge(
        "rag_engine_resident_memory_bytes",
        "Resident memory of rag-engine.",
    )
    .of_server(),
];

/// Returns the family of a sample.
pub fn of(sample: &str) -> Option<&'static Family> {
    ALL.iter().find(|family| family.has(sample))
}
