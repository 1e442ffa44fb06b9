-- Metrics for monitoring systems, in the form that they scrape.

SET LOCAL search_path = pg_catalog, pg_temp;

-- What runs did whose rows are deleted, so that sums over all runs never decrease.
CREATE TABLE rag_internal.run_total (
    source text NOT NULL,
    collection text NOT NULL,
    phase text NOT NULL,
    runs bigint NOT NULL,
    documents_added bigint NOT NULL,
    documents_updated bigint NOT NULL,
    documents_deleted bigint NOT NULL,
    documents_unchanged bigint NOT NULL,
    documents_failed bigint NOT NULL,
    chunks_written bigint NOT NULL,
    chunks_embedded bigint NOT NULL,
    chunks_reused bigint NOT NULL,
    bytes_fetched bigint NOT NULL,
    fetch_seconds double precision NOT NULL,
    extract_seconds double precision NOT NULL,
    embed_seconds double precision NOT NULL,
    store_seconds double precision NOT NULL,
    model_tokens bigint NOT NULL,
    model_cost numeric,
    PRIMARY KEY (source, collection, phase)
);
COMMENT ON TABLE rag_internal.run_total IS
    'sums over runs that are no longer in rag.runs; use rag.metrics instead';
SELECT pg_catalog.pg_extension_config_dump('rag_internal.run_total', '');

-- Adds runs that are deleted to the sums.
CREATE FUNCTION rag_internal.total_deleted_runs() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO rag_internal.run_total AS t
        SELECT source, collection, phase, count(*),
               sum(documents_added), sum(documents_updated), sum(documents_deleted),
               sum(documents_unchanged), sum(documents_failed),
               sum(chunks_written), sum(chunks_embedded), sum(chunks_reused), sum(bytes_fetched),
               sum(fetch_seconds), sum(extract_seconds), sum(embed_seconds), sum(store_seconds),
               sum(model_tokens), sum(model_cost)
        FROM deleted WHERE phase IN ('Completed', 'Failed')
        GROUP BY source, collection, phase
    ON CONFLICT (source, collection, phase) DO UPDATE SET
        runs = t.runs + excluded.runs,
        documents_added = t.documents_added + excluded.documents_added,
        documents_updated = t.documents_updated + excluded.documents_updated,
        documents_deleted = t.documents_deleted + excluded.documents_deleted,
        documents_unchanged = t.documents_unchanged + excluded.documents_unchanged,
        documents_failed = t.documents_failed + excluded.documents_failed,
        chunks_written = t.chunks_written + excluded.chunks_written,
        chunks_embedded = t.chunks_embedded + excluded.chunks_embedded,
        chunks_reused = t.chunks_reused + excluded.chunks_reused,
        bytes_fetched = t.bytes_fetched + excluded.bytes_fetched,
        fetch_seconds = t.fetch_seconds + excluded.fetch_seconds,
        extract_seconds = t.extract_seconds + excluded.extract_seconds,
        embed_seconds = t.embed_seconds + excluded.embed_seconds,
        store_seconds = t.store_seconds + excluded.store_seconds,
        model_tokens = t.model_tokens + excluded.model_tokens,
        model_cost = coalesce(t.model_cost + excluded.model_cost, t.model_cost,
                              excluded.model_cost);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.total_deleted_runs()
    IS 'adds deleted runs to rag_internal.run_total';
CREATE TRIGGER total_deleted_runs AFTER DELETE ON rag_internal.run
    REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
        EXECUTE FUNCTION rag_internal.total_deleted_runs();

CREATE VIEW rag_internal.run_sums WITH (security_barrier) AS
    SELECT source, collection, phase, sum(runs) AS runs,
           sum(documents_added) AS documents_added, sum(documents_updated) AS documents_updated,
           sum(documents_deleted) AS documents_deleted,
           sum(documents_unchanged) AS documents_unchanged,
           sum(documents_failed) AS documents_failed, sum(chunks_written) AS chunks_written,
           sum(chunks_embedded) AS chunks_embedded, sum(chunks_reused) AS chunks_reused,
           sum(bytes_fetched) AS bytes_fetched, sum(fetch_seconds) AS fetch_seconds,
           sum(extract_seconds) AS extract_seconds,
           sum(embed_seconds) AS embed_seconds, sum(store_seconds) AS store_seconds,
           sum(model_tokens) AS model_tokens, sum(model_cost) AS model_cost
    FROM (SELECT r.source, r.collection, r.phase, 1::bigint AS runs, r.documents_added,
                 r.documents_updated, r.documents_deleted, r.documents_unchanged,
                 r.documents_failed, r.chunks_written, r.chunks_embedded, r.chunks_reused,
                 r.bytes_fetched, r.fetch_seconds, r.extract_seconds, r.embed_seconds,
                 r.store_seconds, r.model_tokens, r.model_cost
          FROM rag_internal.visible_run r WHERE r.phase IN ('Completed', 'Failed')
          UNION ALL
          SELECT t.* FROM rag_internal.run_total t JOIN rag_internal.visible_source s
              ON s.name = t.source
          WHERE t.collection = s.collection
             OR t.collection = ANY ((SELECT rag_internal.overseen_collections())::text[])) AS runs
    GROUP BY source, collection, phase;
COMMENT ON VIEW rag_internal.run_sums IS
    'sums over all runs of sources that the caller can see; use rag.metrics instead';

-- It leaves out collections that the current role may not read.
CREATE FUNCTION rag_internal.operation_statistics()
    RETURNS TABLE (operation text, collection text, successes bigint, failures bigint,
                   seconds double precision)
    AS 'MODULE_PATHNAME', 'operation_statistics_wrapper' LANGUAGE c STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.operation_statistics() IS
    'counts and times of operations on collections that the caller may read; '
    'use rag.metrics instead';

CREATE VIEW rag.metrics AS
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object(
               'collection', s.collection, 'mode', s.mode, 'part', m.part)) AS labels,
           m.value::double precision AS value
    FROM rag.search_stats s, LATERAL (VALUES
        ('rag_searches_total', NULL, s.calls),
        ('rag_search_errors_total', NULL, s.errors),
        ('rag_search_rows_total', NULL, s.rows),
        ('rag_search_empty_total', NULL, s.empty),
        ('rag_search_fewer_total', NULL, s.fewer),
        ('rag_search_degraded_total', NULL, s.degraded),
        ('rag_search_seconds_total', 'embedding', s.embedding_total_ms / 1000),
        ('rag_search_seconds_total', 'vector', s.vector_total_ms / 1000),
        ('rag_search_seconds_total', 'keyword', s.keyword_total_ms / 1000),
        ('rag_search_seconds_total', 'fusion', s.fusion_total_ms / 1000),
        ('rag_search_seconds_total', 'all', s.total_ms / 1000)) AS m (name, part, value)
    UNION ALL
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object(
               'operation', o.operation, 'collection', o.collection, 'result', m.result)),
           m.value::double precision
    FROM rag_internal.operation_statistics() o, LATERAL (VALUES
        ('rag_operations_total', 'success', o.successes),
        ('rag_operations_total', 'failure', o.failures),
        ('rag_operation_seconds_total', NULL, o.seconds)) AS m (name, result, value)
    UNION ALL
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object(
               'source', r.source, 'collection', r.collection, 'phase', r.phase,
               m.label, m.of)), m.value::double precision
    FROM rag_internal.run_sums r, LATERAL (VALUES
        ('rag_runs_total', 'of', NULL, r.runs),
        ('rag_run_documents_total', 'result', 'added', r.documents_added),
        ('rag_run_documents_total', 'result', 'updated', r.documents_updated),
        ('rag_run_documents_total', 'result', 'deleted', r.documents_deleted),
        ('rag_run_documents_total', 'result', 'unchanged', r.documents_unchanged),
        ('rag_run_documents_total', 'result', 'failed', r.documents_failed),
        ('rag_run_chunks_total', 'result', 'written', r.chunks_written),
        ('rag_run_chunks_total', 'result', 'embedded', r.chunks_embedded),
        ('rag_run_chunks_total', 'result', 'reused', r.chunks_reused),
        ('rag_run_fetched_bytes_total', 'of', NULL, r.bytes_fetched),
        ('rag_run_model_tokens_total', 'of', NULL, r.model_tokens),
        ('rag_run_model_cost_total', 'of', NULL, coalesce(r.model_cost, 0)),
        ('rag_run_seconds_total', 'stage', 'fetch', r.fetch_seconds),
        ('rag_run_seconds_total', 'stage', 'extract', r.extract_seconds),
        ('rag_run_seconds_total', 'stage', 'embed', r.embed_seconds),
        ('rag_run_seconds_total', 'stage', 'store', r.store_seconds)) AS m (name, label, of, value)
    UNION ALL
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object(
               'collection', c.name, m.label, m.of)), m.value::double precision
    FROM @extschema@.rag_collection_status() c, LATERAL (VALUES
        ('rag_documents', 'of', NULL, c.document_count),
        ('rag_document_errors', 'of', NULL, c.error_count),
        ('rag_chunks', 'of', NULL, c.chunk_count),
        ('rag_collection_damaged', 'of', NULL, (c.state = 'damaged')::integer),
        ('rag_collection_bytes', 'part', 'texts', c.text_bytes),
        ('rag_collection_bytes', 'part', 'chunks', c.chunk_bytes),
        ('rag_collection_bytes', 'part', 'embeddings', c.embedding_bytes),
        ('rag_collection_bytes', 'part', 'indexes', c.index_bytes),
        ('rag_index_bytes', 'index', 'vector', c.vector_index_bytes),
        ('rag_index_bytes', 'index', 'keyword', c.keyword_index_bytes))
        AS m (name, label, of, value)
    UNION ALL
    SELECT m.name, '{}'::jsonb, m.value::double precision
    FROM rag.embedding_cache e, LATERAL (VALUES
        ('rag_embedding_cache_entries', e.entries),
        ('rag_embedding_cache_bytes', e.bytes)) AS m (name, value)
    UNION ALL
    SELECT 'rag_damaged_relations', '{}'::jsonb, count(*)::double precision
    FROM rag_internal.damaged_relations()
    UNION ALL
    SELECT 'rag_runs_stalled', '{}'::jsonb, count(*)::double precision
    FROM rag_internal.visible_run r WHERE r.phase = 'Running'
        AND rag_internal.is_stalled(r.updated_at)
    UNION ALL
    SELECT 'rag_source_suspended',
           jsonb_build_object('source', s.name, 'collection', s.collection),
           s.suspend::integer::double precision
    FROM rag_internal.visible_source s
    UNION ALL
    SELECT 'rag_source_last_success_seconds',
           jsonb_build_object('source', r.source, 'collection', r.collection),
           extract(epoch FROM max(r.finished_at))::double precision
    FROM rag_internal.visible_run r WHERE r.phase = 'Completed'
    GROUP BY r.source, r.collection;
COMMENT ON VIEW rag.metrics IS 'metrics for monitoring systems, one value a row';
COMMENT ON COLUMN rag.metrics.name IS
    'name of the metric; names that end with _total are of counters, which only increase';
COMMENT ON COLUMN rag.metrics.labels IS 'what the value is of, as an object of texts';
COMMENT ON COLUMN rag.metrics.value IS 'value, in the unit that the name ends with';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
