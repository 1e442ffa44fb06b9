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
    -- see rag_internal.run_durations
    duration_seconds double precision NOT NULL,
    duration_counts bigint[] NOT NULL,
    PRIMARY KEY (source, collection, phase)
);
COMMENT ON TABLE rag_internal.run_total IS
    'sums over runs that are no longer in rag.runs; use rag.metrics instead';
SELECT pg_catalog.pg_extension_config_dump('rag_internal.run_total', '');

-- The histogram of rag_run_duration_seconds.
CREATE FUNCTION rag_internal.run_duration_limits() RETURNS double precision[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '{1,5,15,60,300,900,3600,14400}'::double precision[]
$$;
COMMENT ON FUNCTION rag_internal.run_duration_limits() IS
    'upper limits of the histogram of durations of runs, in seconds';

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
               sum(model_tokens), sum(model_cost),
               coalesce(sum(extract(epoch FROM finished_at - started_at)), 0),
               (SELECT array_agg(c.counted ORDER BY c.limit_seconds) FROM (
                    SELECT l.limit_seconds, count(e.seconds) AS counted
                    FROM unnest(rag_internal.run_duration_limits()) AS l (limit_seconds)
                         LEFT JOIN unnest(array_agg(extract(epoch FROM finished_at - started_at)))
                             AS e (seconds) ON e.seconds <= l.limit_seconds
                    GROUP BY l.limit_seconds) AS c)
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
                              excluded.model_cost),
        duration_seconds = t.duration_seconds + excluded.duration_seconds,
        duration_counts = ARRAY(
            SELECT n.former + n.added
            FROM unnest(t.duration_counts, excluded.duration_counts) WITH ORDINALITY
                AS n (former, added, place) ORDER BY n.place);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.total_deleted_runs()
    IS 'adds deleted runs to rag_internal.run_total';
CREATE TRIGGER total_deleted_runs AFTER DELETE ON rag_internal.run
    REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
        EXECUTE FUNCTION rag_internal.total_deleted_runs();

-- A source that changed its collection has runs of both.
CREATE VIEW rag_internal.monitored_total WITH (security_barrier) AS
    SELECT t.* FROM rag_internal.run_total t
         JOIN rag_internal.monitored_source s ON s.name = t.source
    WHERE s.is_visible AND t.collection = s.collection
       OR s.is_visible AND t.collection = ANY (
              (SELECT rag_internal.overseen_collections())::text[])
       OR (SELECT rag_internal.is_monitor());
COMMENT ON VIEW rag_internal.monitored_total IS
    'sums over deleted runs of sources that the caller can see or monitor; use rag.metrics instead';

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
          FROM rag_internal.monitored_run r WHERE r.phase IN ('Completed', 'Failed')
          UNION ALL
          SELECT t.source, t.collection, t.phase, t.runs, t.documents_added,
                 t.documents_updated, t.documents_deleted, t.documents_unchanged,
                 t.documents_failed, t.chunks_written, t.chunks_embedded, t.chunks_reused,
                 t.bytes_fetched, t.fetch_seconds, t.extract_seconds, t.embed_seconds,
                 t.store_seconds, t.model_tokens, t.model_cost
          FROM rag_internal.monitored_total t) AS runs
    GROUP BY source, collection, phase;
COMMENT ON VIEW rag_internal.run_sums IS
    'sums over all runs of sources that the caller can see or monitor; use rag.metrics instead';

-- A run that was lost before it began has no duration.
CREATE VIEW rag_internal.run_durations WITH (security_barrier) AS
    SELECT source, collection, part, limit_seconds, sum(counted) AS value
    FROM (SELECT r.source, r.collection, m.part, m.limit_seconds, m.counted
          FROM (SELECT *, coalesce(extract(epoch FROM finished_at - started_at), 0)
                    ::double precision AS seconds
                FROM rag_internal.monitored_run WHERE phase IN ('Completed', 'Failed')) AS r,
               LATERAL (
                   SELECT 'bucket', l, (r.seconds <= l)::integer::double precision
                   FROM unnest(rag_internal.run_duration_limits()) AS l
                   UNION ALL VALUES
                       ('bucket', 'Infinity'::double precision, 1),
                       ('sum', NULL, r.seconds), ('count', NULL, 1))
                       AS m (part, limit_seconds, counted)
          UNION ALL
          SELECT t.source, t.collection, m.part, m.limit_seconds, m.counted
          FROM rag_internal.monitored_total t,
               LATERAL (
                   SELECT 'bucket', l.seconds, l.counted::double precision
                   FROM unnest(rag_internal.run_duration_limits(), t.duration_counts)
                       AS l (seconds, counted)
                   UNION ALL VALUES
                       ('bucket', 'Infinity'::double precision, t.runs),
                       ('sum', NULL, t.duration_seconds), ('count', NULL, t.runs))
                       AS m (part, limit_seconds, counted)) AS runs
    GROUP BY source, collection, part, limit_seconds;
COMMENT ON VIEW rag_internal.run_durations IS
    'histogram of the durations of ended runs; use rag.metrics instead';

-- It leaves out collections that the current role may neither read nor monitor.
CREATE FUNCTION rag_internal.operation_statistics()
    RETURNS TABLE (operation text, collection text, successes bigint, failures bigint,
                   seconds double precision)
    AS 'MODULE_PATHNAME', 'operation_statistics_wrapper' LANGUAGE c STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.operation_statistics() IS
    'counts and times of operations on collections that the caller may read or monitor; '
    'use rag.metrics instead';

CREATE FUNCTION rag_internal.server_metrics()
    RETURNS TABLE (name text, value double precision)
    AS 'MODULE_PATHNAME', 'server_metrics_wrapper' LANGUAGE c VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.server_metrics() IS
    'slots and engine of the server, for members of rag_admin and pg_monitor; '
    'use rag.metrics instead';

-- Its queue is for those that may write to the collection. Monitors learn its length.
CREATE VIEW rag_internal.monitored_queue WITH (security_barrier) AS
    SELECT q.collection, q.queued_at FROM rag_internal.queued_document q
    WHERE q.status = 'queued'
      AND (pg_catalog.pg_has_role(q.owner_id, 'USAGE')
           OR q.collection = ANY ((SELECT rag_internal.writable_collections())::text[])
           OR (SELECT rag_internal.is_monitor()));
COMMENT ON VIEW rag_internal.monitored_queue IS
    'documents that wait to be indexed, as far as the caller can see or monitor them; '
    'use rag.metrics instead';

-- The documents of each source that the caller can see or monitor, the changes of its table that
-- wait for a run, and the age of the last message of the table's publisher.
CREATE VIEW rag_internal.source_coverage WITH (security_barrier) AS
    SELECT s.name AS source, s.collection, coalesce(d.current, 0) AS current,
           coalesce(d.failed, 0) AS failed,
           (SELECT count(*) FROM rag_internal.table_change c WHERE c.source = s.name) AS waiting,
           (SELECT extract(epoch FROM clock_timestamp() - max(p.latest_end_time))
            FROM pg_catalog.pg_subscription_rel r
                 JOIN pg_catalog.pg_stat_subscription p ON p.subid = r.srsubid
            WHERE r.srrelid = s.relation_id) AS replication_age
    FROM rag_internal.monitored_source s
    LEFT JOIN (SELECT collection, source, count(*) FILTER (WHERE status <> 'error') AS current,
                      count(*) FILTER (WHERE status = 'error') AS failed
               FROM rag.documents WHERE source IS NOT NULL GROUP BY collection, source) AS d
        ON d.collection = s.collection AND d.source = s.name;
COMMENT ON VIEW rag_internal.source_coverage IS
    'documents and waiting changes of sources that the caller can see or monitor; '
    'use rag.metrics instead';

-- Limits of histograms have a fraction, as OpenMetrics wants it.
CREATE FUNCTION rag_internal.metric_limit(seconds double precision) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN seconds = 'Infinity' THEN '+Inf'
                WHEN seconds::text ~ '[.]' THEN seconds::text
                ELSE seconds::text || '.0' END
$$;
COMMENT ON FUNCTION rag_internal.metric_limit(double precision) IS
    'a limit of a histogram, as text';

-- Everything that the extension stores in the database is in a relation that belongs to it, or in a
-- partition of one.
CREATE VIEW rag.relation_sizes AS
    SELECT format('%I.%I', n.nspname, r.relname) AS relation, r.collections,
           r.main AS table_bytes, r.total - r.main - r.indexes AS toast_bytes,
           r.indexes AS index_bytes, r.total AS total_bytes
    FROM (SELECT c.oid, c.relname, c.relnamespace,
                 pg_total_relation_size(c.oid) AS total, pg_indexes_size(c.oid) AS indexes,
                 (SELECT sum(pg_relation_size(c.oid, f))::bigint
                  FROM unnest('{main,fsm,vm,init}'::text[]) AS f) AS main,
                 (SELECT array_agg(k.name ORDER BY k.name)
                  FROM rag_internal.collection k
                  WHERE k.partition::name = c.relname
                    AND c.relnamespace = 'rag_internal'::regnamespace
                    AND (k.name = ANY ((SELECT rag_internal.readable_collections())::text[])
                         OR (SELECT rag_internal.is_monitor()))) AS collections
          FROM pg_catalog.pg_class c
          WHERE c.relkind IN ('r', 'm', 'S')
            AND (EXISTS (SELECT FROM pg_catalog.pg_depend d
                         JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
                         WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
                           AND d.refclassid = 'pg_catalog.pg_extension'::regclass
                           AND d.deptype = 'e' AND e.extname = 'rag')
                 -- a view of an extension that depends on the table would keep it distributed
                 OR EXISTS (SELECT FROM pg_catalog.pg_inherits i
                            WHERE i.inhrelid = c.oid AND i.inhparent = to_regclass('rag.chunks')))
         ) AS r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace;
COMMENT ON VIEW rag.relation_sizes IS
    'disk space of each table and sequence of the extension in this database';
COMMENT ON COLUMN rag.relation_sizes.relation IS 'name of the table or sequence, with its schema';
COMMENT ON COLUMN rag.relation_sizes.collections IS
    'collections whose chunks it has; NULL: it has something of all collections';
COMMENT ON COLUMN rag.relation_sizes.table_bytes IS 'size of the rows';
COMMENT ON COLUMN rag.relation_sizes.toast_bytes IS
    'size of long values of the rows, which PostgreSQL keeps apart';
COMMENT ON COLUMN rag.relation_sizes.index_bytes IS 'size of the indexes';
COMMENT ON COLUMN rag.relation_sizes.total_bytes IS 'sum of these sizes';

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
               'collection', s.collection, 'mode', s.mode, 'le', m.le)),
           m.value::double precision
    FROM rag_internal.search_durations() s, LATERAL (
        SELECT 'rag_search_duration_seconds_bucket', rag_internal.metric_limit(b.le), b.counted
        FROM unnest(s.limits, s.counts) AS b (le, counted)
        UNION ALL VALUES
            ('rag_search_duration_seconds_bucket', '+Inf', s.count),
            ('rag_search_duration_seconds_sum', NULL, s.sum),
            ('rag_search_duration_seconds_count', NULL, s.count))
        AS m (name, le, value)
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
    SELECT CASE d.part WHEN 'bucket' THEN 'rag_run_duration_seconds_bucket'
                       WHEN 'sum' THEN 'rag_run_duration_seconds_sum'
                       ELSE 'rag_run_duration_seconds_count' END,
           jsonb_strip_nulls(jsonb_build_object(
               'source', d.source, 'collection', d.collection,
               'le', rag_internal.metric_limit(d.limit_seconds))), d.value
    FROM rag_internal.run_durations d
    UNION ALL
    SELECT m.name, jsonb_build_object('source', r.source, 'collection', r.collection),
           extract(epoch FROM m.age)::double precision
    FROM rag_internal.monitored_run r, LATERAL (VALUES
        ('rag_run_age_seconds', clock_timestamp() - r.started_at),
        ('rag_run_idle_seconds', clock_timestamp() - r.updated_at)) AS m (name, age)
    WHERE r.phase = 'Running'
    UNION ALL
    SELECT m.name, '{}', m.value
    FROM (SELECT count(*) AS waiting,
                 coalesce(extract(epoch FROM clock_timestamp() - min(queued_at)), 0) AS age
          FROM rag_internal.monitored_run WHERE phase = 'Pending') AS q, LATERAL (VALUES
        ('rag_runs_pending', q.waiting::double precision),
        ('rag_oldest_pending_run_age_seconds', q.age::double precision)) AS m (name, value)
    UNION ALL
    SELECT m.name, '{}', m.value
    FROM (SELECT count(*) AS waiting,
                 coalesce(extract(epoch FROM clock_timestamp() - min(queued_at)), 0) AS age
          FROM rag_internal.monitored_queue) AS q, LATERAL (VALUES
        ('rag_queued_documents', q.waiting::double precision),
        ('rag_oldest_queued_document_age_seconds', q.age::double precision)) AS m (name, value)
    UNION ALL
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object(
               'source', c.source, 'collection', c.collection, 'state', m.state)), m.value
    FROM rag_internal.source_coverage c, LATERAL (VALUES
        ('rag_source_documents', 'current', c.current::double precision),
        ('rag_source_documents', 'failed', c.failed::double precision),
        ('rag_source_waiting_changes', NULL, c.waiting::double precision),
        ('rag_source_replication_age_seconds', NULL, c.replication_age::double precision))
        AS m (name, state, value)
    WHERE m.value IS NOT NULL
    UNION ALL
    SELECT m.name, jsonb_strip_nulls(jsonb_build_object(
               'collection', c.name, m.label, m.of)), m.value::double precision
    FROM rag_internal.monitored_collection_status() c, LATERAL (VALUES
        ('rag_documents', 'of', NULL, c.document_count),
        ('rag_document_errors', 'of', NULL, c.error_count),
        ('rag_collection_current_ratio', 'of', NULL,
            c.document_count / nullif(c.document_count + c.error_count, 0)::double precision),
        ('rag_chunks', 'of', NULL, c.chunk_count),
        ('rag_collection_damaged', 'of', NULL, (c.state = 'damaged')::integer),
        ('rag_collection_bytes', 'part', 'texts', c.text_bytes),
        ('rag_collection_bytes', 'part', 'chunks', c.chunk_bytes),
        ('rag_collection_bytes', 'part', 'embeddings', c.embedding_bytes),
        ('rag_collection_bytes', 'part', 'indexes', c.index_bytes),
        ('rag_index_bytes', 'index', 'vector', c.vector_index_bytes),
        ('rag_index_bytes', 'index', 'keyword', c.keyword_index_bytes))
        AS m (name, label, of, value)
    WHERE m.value IS NOT NULL
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
    FROM rag_internal.monitored_run r WHERE r.phase = 'Running'
        AND rag_internal.is_stalled(r.updated_at)
    UNION ALL
    SELECT m.name, jsonb_build_object('source', s.name, 'collection', s.collection), m.value
    FROM rag_internal.monitored_sources s LEFT JOIN rag.runs r ON r.run_id = s.last_run_id,
         LATERAL (VALUES
        ('rag_source_suspended', s.suspend::integer::double precision),
        ('rag_source_failed', coalesce(r.phase = 'Failed', false)::integer::double precision),
        ('rag_source_last_success_timestamp_seconds',
            extract(epoch FROM s.last_indexed)::double precision),
        ('rag_source_schedule_lag_seconds',
            CASE WHEN s.current_run_id IS NULL AND isfinite(s.next_scheduled_run)
                THEN greatest(extract(epoch FROM clock_timestamp() - s.next_scheduled_run), 0)
                ELSE 0 END::double precision))
        AS m (name, value)
    WHERE m.value IS NOT NULL
    UNION ALL
    SELECT 'rag_database_bytes', '{}', sum(z.total_bytes)::double precision
    FROM rag.relation_sizes z
    UNION ALL
    SELECT 'rag_metrics_timestamp_seconds', '{}',
           extract(epoch FROM clock_timestamp())::double precision
    UNION ALL
    SELECT m.name, '{}', m.value FROM rag_internal.server_metrics() m;
COMMENT ON VIEW rag.metrics IS 'metrics for monitoring systems, one value a row';
COMMENT ON COLUMN rag.metrics.name IS
    'name of the metric; names that end with _total are of counters, which only increase';
COMMENT ON COLUMN rag.metrics.labels IS 'what the value is of, as an object of texts';
COMMENT ON COLUMN rag.metrics.value IS 'value, in the unit that the name ends with';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
