-- Comments on the functions and privileges. Nothing is granted to PUBLIC except the vector type and
-- its operators.

SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
DECLARE
    what record;
BEGIN
    FOR what IN
        SELECT p.oid::regprocedure AS signature, c.comment, c.readers
        FROM (VALUES
            ('rag_create_collection', false,
             'creates a collection: a named set of documents that are searched together'),
            ('rag_rebuild_collection', false,
             'rebuilds a collection from the stored texts by its current settings and model; '
             'searches use the former chunks until the end'),
            ('rag_alter_collection', true,
             'changes settings or the owner of a collection; arguments that are NULL leave a '
             'value as it is'),
            ('rag_drop_collection', false, 'drops a collection and its documents'),
            ('rag_rename_collection', false,
             'renames a collection; ids of documents and grants stay'),
            ('rag_export_collection', false,
             'writes a collection as a bundle of files into a folder of the server'),
            ('rag_export_blocks', false,
             'returns the bundle of a collection as rows, for COPY'),
            ('rag_bundle_info', false,
             'returns what a bundle in a folder of the server is of, without an import'),
            ('rag_import_collection', false,
             'creates a collection from a bundle in a folder of the server'),
            ('rag_import_blocks', false,
             'creates a collection from a bundle in the rows of a table'),
            ('rag_distribute', false,
             'distributes the chunks of all collections over the nodes of a Citus cluster; returns '
             'their number'),
            ('rag_undistribute', false,
             'brings distributed chunks back to this server; returns their number'),
            ('rag_distribution', false,
             'returns the nodes that chunks are distributed over, with what each has'),
            ('rag_shard_indexes', false,
             'describes the vector indexes and keyword indexes of all shards'),
            ('rag_check_shards', false,
             'checks the vector indexes and keyword indexes of all shards; returns one row for '
             'each problem'),
            ('rag_grant_collection', true,
             'grants a role the privilege to read a collection or to write to it; public: all '
             'roles'),
            ('rag_revoke_collection', true,
             'revokes a privilege on a collection from a role; NULL: both privileges'),
            ('rag_collection_status', true,
             'returns content, size and state of a collection, or of all collections'),
            ('rag_stats', true, 'returns counts of a collection as JSON'),
            ('rag_create_retriever', false,
             'creates a retriever: settings of storage and search for collections'),
            ('rag_alter_retriever', false,
             'changes a retriever; arguments that are NULL leave a value as it is'),
            ('rag_drop_retriever', false, 'drops a retriever that no collection uses'),
            ('rag_test_retriever', true,
             'tests if collections with a retriever can be filled and searched'),
            ('rag_create_model', false,
             'creates a model: an embedding model, a reranker or a chat model'),
            ('rag_alter_model', false,
             'changes a model; arguments that are NULL leave a value as it is'),
            ('rag_drop_model', true, 'drops a model and its counts'),
            ('rag_grant_model', true, 'allows a role to use a model; public: all roles'),
            ('rag_revoke_model', true, 'no longer allows a role to use a model'),
            ('rag_test_model', true, 'sends a small request to a model'),
            ('rag_clear_embedding_cache', false,
             'empties the cache of embeddings; returns the number of those removed'),
            ('rag_create_source', false,
             'creates a source, from which documents of a collection are fetched'),
            ('rag_alter_source', true,
             'changes a source; arguments that are NULL leave a value as it is, and an empty '
             'schedule or credentials remove it'),
            ('rag_validate_source', false,
             'returns one row for each problem in the definition of a source; creates nothing'),
            ('rag_suspend', true,
             'suspends a source: no scheduled runs, retries or drift checks; a current run '
             'continues'),
            ('rag_resume', true,
             'resumes a suspended source; runs that were missed meanwhile are not made up for'),
            ('rag_next_runs', true, 'returns the next times of a schedule'),
            ('rag_rename_source', true, 'renames a source; ids of documents stay'),
            ('rag_drop_source', true,
             'drops a source; its documents are kept unless keep_documents is false'),
            ('rag_apply_manifest', true,
             'creates or changes the objects that a manifest describes (YAML or JSON, one or '
             'more documents)'),
            ('rag_get_manifest', true,
                'returns the manifest of a source or retriever with its status'),
            ('rag_delete_manifest', true,
             'drops the source or retriever of a manifest; returns false if it does not exist'),
            ('rag_create_secret', false,
             'stores a credential for the servers of sources; it can be replaced and dropped, '
             'but not read'),
            ('rag_drop_secret', false, 'drops a secret or one of its keys'),
            ('rag_rotate_secret_key', false,
             'adds a key to the key file and encrypts all secrets of the database with it'),
            ('rag_drop_secret_key', false,
             'removes a key from the key file if no value is encrypted with it'),
            ('rag_secret_keys', false,
             'returns the encryption keys in use and in the key file, without their values'),
            ('rag_sync', true,
             'runs a source: indexes what it contains now; returns the id of the run'),
            ('rag_sync_all', true,
             'queues runs of all sources of a collection, or of all sources, that the caller '
             'can sync'),
            ('rag_cancel_run', true,
             'cancels a queued or current run; returns false if it has already ended'),
            ('rag_wait', true,
             'waits until a run has ended or the timeout expires; returns the phase of the run'),
            ('rag_check_drift', true,
             'compares the stored documents of a source with what its runs have indexed'),
            ('rag_add_document', true,
             'indexes one document, given as text or as the content of a file; replaces the '
             'document with the same uri'),
            ('rag_add_documents', true,
             'indexes the documents of a JSON array; returns one row for each'),
            ('rag_enqueue_document', true,
             'queues one document, which a background worker indexes; returns its id'),
            ('rag_dequeue_document', true,
             'removes a document from the queue; returns false if it is not there, or is being '
             'indexed'),
            ('rag_update_document', true,
             'changes title, category, tags or metadata of a document; returns false if it '
             'does not exist'),
            ('rag_delete_document', true,
             'deletes a document; returns false if it does not exist'),
            ('rag_upsert_chunks', true,
             'writes chunks that an application has split itself; returns the number written'),
            ('rag_delete_chunks', true,
             'deletes chunks by their ids; returns the number deleted'),
            ('rag_get_chunks', true,
             'returns the chunks of a collection that have one of some ids, or pass a filter'),
            ('rag_apply_plan', true,
             'deletes documents of an application that a plan does not have, or has changed'),
            ('rag_chunk_state', true,
             'returns the documents of a collection with their hashes and chunks as JSON'),
            ('rag_create_knowledge', false,
             'registers a knowledge item, which is fetched when it is indexed; returns the item'),
            ('rag_alter_knowledge', false,
             'changes the definition of a knowledge item; arguments that are NULL leave a '
             'value as it is'),
            ('rag_index_knowledge', false,
             'fetches and indexes a knowledge item; replaces what was indexed before'),
            ('rag_index_all_knowledge', false,
             'indexes all knowledge items of a collection, or those with a status; returns a '
             'summary'),
            ('rag_unindex_knowledge', false,
             'removes the documents of a knowledge item and keeps the item; returns false if '
             'there are none'),
            ('rag_drop_knowledge', false,
             'drops a knowledge item and its documents; returns false if it does not exist'),
            ('rag_status', true,
             'returns current problems of the server, sources, runs, collections and secrets '
             'with remedies; no row if there are none'),
            ('rag_metrics_text', true,
             'returns metrics as text in the format OpenMetrics, or in that of Prometheus; for '
             'members of pg_monitor, those of all databases'),
            ('rag_split', true, 'shows how a text is split into chunks'),
            ('rag_extract', true, 'returns the text of a document, and tells what is left out'),
            ('rag_embed', true, 'returns the embedding of a text, or of each text of an array'),
            ('rag_search', true,
             'returns the chunks of a collection that match a query best, best first'),
            ('rag_highlight', true,
             'marks the words of a query in a text, or in the part that has most of them'),
            ('rag_find', true, 'shows what a search finds, in rows that fit into a terminal'),
            ('rag_duplicates', true,
             'lists chunks whose texts are equal or nearly equal'),
            ('rag_facets', true,
             'counts the values under some keys, of all chunks that match a search'),
            ('rag_context', true,
             'quotes what a search finds as the context of a language model, within a number of '
             'tokens'),
            ('rag_explain_search', true, 'runs a search and returns what each part of it did'),
            ('rag_evaluate', true,
             'measures searches with queries whose relevant documents are known, and compares two '
             'settings'),
            ('rag_evaluate_queries', true, 'measures the search of each query'),
            ('rag_reset_search_stats', false,
             'resets the statistics of searches in this database'),
            ('rag_rerank', true, 'scores texts for a query with a reranker, best first'),
            ('rag_answer', true,
             'has a chat model answer a question from what a search finds'),
            ('rag_answer_stream', true,
             'returns the answer of a chat model in pieces, as they arrive'),
            ('rag_escape_query', true,
             'returns a text that a search reads word by word, without phrases and other clauses'),
            ('rag_detect_language', true,
             'returns the language of a text as a code, und if it cannot be told'),
            ('rag_score_band', true,
             'returns how good a vector_score is, in words'),
            ('rag_retrieve', true,
             'answers a retrieval request in JSON with the chunks of a knowledge base'),
            ('rag_dify_retrieval', true,
             'answers a request of Dify''s API for external knowledge bases'),
            ('rag_knowledge_search', true,
             'answers a search request in JSON, or a query with a number of results and a '
             'category'),
            ('rag_check_index', true,
             'verifies a rag_hnsw or rag_bm25 index; returns one row for each problem'),
            ('rag_hnsw_info', true, 'returns parameters, counts and size of a rag_hnsw index'),
            ('rag_hnsw_recall', true,
             'measures recall and speed of a rag_hnsw index against exact search'),
            ('rag_bm25_query', true,
             'returns a query for the operators <@> and @@@ that names a rag_bm25 index'),
            ('rag_bm25_info', true, 'returns options, counts and size of a rag_bm25 index'),
            ('rag_bm25_merge', true,
             'merges a rag_bm25 index into one segment; for the owner of the table'),
            ('rag_bm25_search', true,
             'returns places and scores of the rows of a rag_bm25 index that match a query best'),
            ('rag_bm25_scores', true,
             'returns the scores of given rows for a query of a rag_bm25 index'),
            ('rag_sync_storage', false,
             'replicates pending changes to the servers that search the vectors of collections'),
            ('rag_create_api_key', false,
             'creates an API key of rag-gateway for a role; returns the key, which is shown once'),
            ('rag_drop_api_key', false, 'drops an API key of rag-gateway'),
            ('rag_list_api_keys', false,
             'returns the API keys of rag-gateway that the caller owns'),
            ('rag_pgvector_casts', false,
             'creates the casts between the types of rag_types and pgvector''s, and lets rag_hnsw '
             'index pgvector''s types; returns false if pgvector is not installed')
        ) AS c (name, readers, comment)
        JOIN pg_catalog.pg_proc p
            ON p.proname = c.name AND p.pronamespace = '@extschema@'::regnamespace
        JOIN pg_catalog.pg_depend d
            ON d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
        JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND e.extname = 'rag'
    LOOP
        EXECUTE format('COMMENT ON ROUTINE %s IS %L', what.signature, what.comment);
        EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', what.signature);
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', what.signature,
            CASE WHEN what.readers THEN 'rag_reader' ELSE 'rag_admin' END);
    END LOOP;
END $$;

-- for the extension only
REVOKE ALL ON FUNCTION
    rag_internal.announce(jsonb), rag_internal.announce_run(),
    rag_internal.announce_source(), rag_internal.before_drop(),
    rag_internal.condition_types(), rag_internal.find_grantee(),
    rag_internal.find_owner(), rag_internal.find_relation(),
    rag_internal.is_being_dropped(text), rag_internal.is_restoring(),
    rag_internal.merge_conditions(jsonb, jsonb), rag_internal.replace_builtin(),
    rag_internal.replace_builtin_grants(), rag_internal.source_changed(),
    rag_internal.total_deleted_runs() FROM PUBLIC;
-- for the views as well: they read tables with their owner's rights, but call functions with the
-- reader's
DO $$
DECLARE
    signature regprocedure;
BEGIN
    FOREACH signature IN ARRAY ARRAY[
        'rag_internal.has_condition(jsonb, text)',
        'rag_internal.error_kind(jsonb)',
        'rag_internal.has_not_ended(bigint)', 'rag_internal.has_scheduler()',
        'rag_internal.is_in_progress(text, text)', 'rag_internal.is_preloaded()',
        'rag_internal.is_monitor()', 'rag_internal.is_stalled(timestamptz)',
        'rag_internal.is_syncing(text)', 'rag_internal.library_version()',
        'rag_internal.lock_purpose(text)', 'rag_internal.lost_run_error()',
        'rag_internal.current_model()', 'rag_internal.default_prompt_template()',
        'rag_internal.embedding_cache_size()',
        'rag_internal.enabled_methods(jsonb)', 'rag_internal.metric_limit(double precision)',
        'rag_internal.model_counts()', 'rag_internal.monitored_collection_status()',
        'rag_internal.usable_models()', 'rag_internal.visible_models()',
        'rag_internal.chunk_matches(text, text, text, text, jsonb, rag_types.vector)',
        'rag_internal.chunk_snippet(text, text, text, text, jsonb, rag_types.vector)',
        'rag_internal.search_chunks(text, text[], integer, text, jsonb, text, jsonb, '
            'rag_types.vector)',
        'rag_internal.run_duration_limits()', 'rag_internal.run_phase(text, boolean)',
        'rag_internal.server_metrics()',
        'rag_internal.operation_statistics()', 'rag_internal.search_statistics()',
        'rag_internal.search_durations()',
        'rag_internal.scheduler_lock_key()', 'rag_internal.source_hash(text)',
        'rag_internal.source_locks()',
        'rag_internal.source_phase(boolean, text, text, boolean, boolean, text)',
        'rag.why_idle()', 'rag_internal.why_waiting()',
        'rag_internal.without_scheduler(jsonb, text)']::regprocedure[]
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO rag_reader', signature);
    END LOOP;
END $$;
-- The functions of rag-gateway's routes, and what they call. What they do needs the rights of the
-- public functions that they call.
DO $$
DECLARE
    signature regprocedure;
BEGIN
    FOR signature IN
        SELECT p.oid FROM pg_catalog.pg_proc p
             JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = 'rag_api'
           OR n.nspname = 'rag_internal' AND p.proname IN (
               'add_document', 'apply_retriever', 'asked_collection', 'asked_collections',
               'attach_file', 'chat_arguments', 'check_metadata', 'collection_is_free',
               'collection_indexes', 'collection_json', 'content_text', 'document_id',
               'file_json', 'found_or_missing',
               'instance_json', 'instance_status', 'is_collection_name', 'kaito_add',
               'kaito_document',
               'kaito_documents', 'openai_attributes', 'openai_file_id', 'openai_filter',
               'openai_models', 'openai_page', 'resource_uri', 'retriever_name', 'source_json',
               'source_nodes', 'store_file', 'store_file_json', 'text_array', 'unix_time',
               'vector_store_json', 'visible_collection')
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO rag_reader', signature);
    END LOOP;
END $$;
GRANT SELECT ON rag.secrets, rag.api_keys TO rag_admin;
GRANT SELECT ON rag.chunks, rag.documents, rag.collections, rag.retrievers, rag.run_errors,
    rag.knowledge, rag.collection_grants, rag.sources, rag.runs, rag.progress,
    rag.collection_sizes, rag.search_stats, rag.metrics, rag.models, rag.model_usage,
    rag.embedding_cache, rag.damage, rag.queued_documents, rag.relation_sizes,
    rag_internal.monitored_sources, rag_internal.monitored_collection TO rag_reader;

-- What a monitoring system reads: states, times, counts and sizes. The views show members of
-- pg_monitor no text of documents or queries, no definition and no secret.
GRANT SELECT ON rag.metrics, rag.runs, rag.progress, rag.search_stats, rag.collection_sizes,
    rag.relation_sizes, rag.embedding_cache, rag.damage, rag_internal.monitored_sources,
    rag_internal.monitored_collection TO pg_monitor;
GRANT USAGE ON SCHEMA rag_api TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.rag_status(), @extschema@.rag_metrics_text(boolean),
    rag_api.metrics(jsonb), rag.why_idle(), rag_internal.current_model(),
    rag_internal.damaged_relations(), rag_internal.embedding_cache_size(),
    rag_internal.error_kind(jsonb), rag_internal.explain_damage(text),
    rag_internal.failed_removals(), rag_internal.has_condition(jsonb, text),
    rag_internal.has_not_ended(bigint), rag_internal.has_scheduler(),
    rag_internal.is_in_progress(text, text), rag_internal.is_monitor(),
    rag_internal.is_preloaded(), rag_internal.is_stalled(timestamptz),
    rag_internal.is_syncing(text), rag_internal.library_version(),
    rag_internal.lock_purpose(text), rag_internal.lost_run_error(),
    rag_internal.metric_limit(double precision),
    rag_internal.monitored_collection_status(), rag_internal.operation_statistics(),
    rag_internal.overseen_collections(), rag_internal.readable_collections(),
    rag_internal.run_duration_limits(), rag_internal.run_phase(text, boolean),
    rag_internal.scheduler_lock_key(), rag_internal.search_statistics(),
    rag_internal.search_durations(),
    rag_internal.sees_all_chunks(), rag_internal.sees_uri(text, text, text),
    rag_internal.server_metrics(), rag_internal.source_hash(text), rag_internal.source_locks(),
    rag_internal.source_phase(boolean, text, text, boolean, boolean, text),
    rag_internal.why_waiting(), rag_internal.without_scheduler(jsonb, text),
    rag_internal.writable_collections() TO pg_monitor;
