-- The views on sources, their runs, and work in progress. monitored.sql says which rows they have.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE VIEW rag.runs WITH (security_barrier) AS
    SELECT run_id, source, collection, trigger, attempt,
           rag_internal.run_phase(phase, is_lost) AS phase,
           CASE WHEN phase <> 'Pending' THEN waiting
                WHEN trigger <> 'manual'
                     AND EXISTS (SELECT FROM rag_internal.source s WHERE s.name = source
                         AND s.suspend)
                    THEN 'the source is suspended'
                ELSE coalesce((SELECT rag_internal.why_waiting()), waiting) END AS waiting,
           queued_at, started_at, finished_at,
           documents_added, documents_updated, documents_deleted, documents_unchanged,
           documents_failed, documents_with_warnings, files_skipped,
           chunks_written, chunks_embedded, chunks_reused, bytes_fetched, commit,
           CASE WHEN is_visible THEN note END AS note,
           CASE WHEN started_at IS NOT NULL AND NOT is_lost
                    THEN coalesce(finished_at, clock_timestamp()) - started_at END AS duration,
           fetch_seconds, extract_seconds, embed_seconds, store_seconds, model_tokens, model_cost,
           CASE WHEN error IS NOT NULL AND is_visible THEN jsonb_build_array(error)
                WHEN error IS NOT NULL THEN jsonb_build_array(rag_internal.error_kind(error))
                WHEN is_lost THEN jsonb_build_array(rag_internal.lost_run_error())
                ELSE '[]'::jsonb END AS errors,
           generation, updated_at
    FROM (SELECT *, phase = 'Running' AND NOT rag_internal.is_syncing(source)
                    AND rag_internal.has_not_ended(run_id) AS is_lost
          FROM rag_internal.monitored_run) AS run;
COMMENT ON VIEW rag.runs IS 'runs of sources: what each run did and how it ended';
COMMENT ON COLUMN rag.runs.run_id IS 'identifier of the run, ascending; rag_sync returns it';
COMMENT ON COLUMN rag.runs.source IS 'source that is synced';
COMMENT ON COLUMN rag.runs.collection IS 'collection that the source is indexed into';
COMMENT ON COLUMN rag.runs.trigger IS
    'what started the run: manual (rag_sync), schedule, retry, drift, create or change (of the '
    'table)';
COMMENT ON COLUMN rag.runs.attempt IS '1 for the first attempt, higher for retries';
COMMENT ON COLUMN rag.runs.phase IS 'Pending (queued), Running, Completed or Failed';
COMMENT ON COLUMN rag.runs.waiting IS 'reason why a queued run has not started';
COMMENT ON COLUMN rag.runs.queued_at IS 'time when the run was queued';
COMMENT ON COLUMN rag.runs.updated_at IS
    'time when the run last showed that it works, at most once a second';
COMMENT ON COLUMN rag.runs.started_at IS 'time when the run started';
COMMENT ON COLUMN rag.runs.finished_at IS 'time when the run ended';
COMMENT ON COLUMN rag.runs.documents_added IS 'number of documents that were not stored before';
COMMENT ON COLUMN rag.runs.documents_updated IS
    'number of documents that replaced an earlier version';
COMMENT ON COLUMN rag.runs.documents_deleted IS
    'number of documents that were deleted because the source no longer had them';
COMMENT ON COLUMN rag.runs.documents_unchanged IS 'number of documents that had not changed';
COMMENT ON COLUMN rag.runs.documents_failed IS
    'number of documents that could not be indexed, see rag.run_errors';
COMMENT ON COLUMN rag.runs.documents_with_warnings IS
    'number of documents that were indexed with loss of content, see rag.run_errors';
COMMENT ON COLUMN rag.runs.files_skipped IS
    'number of files that are not documents: images, archives, empty and binary files, key files; '
    'of a website, addresses that are no documents: note tells why';
COMMENT ON COLUMN rag.runs.note IS
    'remark on a completed run, for example that it found no documents';
COMMENT ON COLUMN rag.runs.chunks_written IS 'number of chunks of added and updated documents';
COMMENT ON COLUMN rag.runs.chunks_embedded IS 'number of chunks whose embedding was computed';
COMMENT ON COLUMN rag.runs.chunks_reused IS 'number of chunks whose embedding was already stored';
COMMENT ON COLUMN rag.runs.bytes_fetched IS 'number of bytes read from the source';
COMMENT ON COLUMN rag.runs.commit IS 'commit that was read (git)';
COMMENT ON COLUMN rag.runs.duration IS
    'time from started_at to finished_at, or until now; NULL if the run has not started or its '
    'end is unknown';
COMMENT ON COLUMN rag.runs.fetch_seconds IS 'seconds spent on listing and reading the source';
COMMENT ON COLUMN rag.runs.extract_seconds IS
    'seconds spent on extracting and splitting documents, summed over threads';
COMMENT ON COLUMN rag.runs.embed_seconds IS 'seconds spent on waiting for embeddings';
COMMENT ON COLUMN rag.runs.store_seconds IS
    'seconds spent on writing and deleting documents and chunks';
COMMENT ON COLUMN rag.runs.model_tokens IS
    'tokens that calls of a model on another server used; 0 for models on this server';
COMMENT ON COLUMN rag.runs.model_cost IS
    'what these calls cost by the prices of the model; NULL if it has none';
COMMENT ON COLUMN rag.runs.errors IS
    'why the run failed: {sqlstate, message, detail, hint, throttled, retry_after_seconds}; '
    'without texts for members of pg_monitor that may not see the source; errors of single '
    'documents are in rag.run_errors';
COMMENT ON COLUMN rag.runs.generation IS 'generation of the source''s definition that the run used';

CREATE VIEW rag.run_errors WITH (security_barrier) AS
    SELECT run_id, source, uri, stage, severity, message, hint, occurred_at
    FROM rag_internal.run_error e
    WHERE EXISTS (
        SELECT FROM rag_internal.monitored_run r
        WHERE r.run_id = e.run_id AND r.is_visible
          AND ((SELECT rag_internal.sees_all_chunks())
              OR rag_internal.sees_uri(r.collection, e.source, e.uri)));
COMMENT ON VIEW rag.run_errors IS
    'documents that a run could not index, or indexed with loss of content';
COMMENT ON COLUMN rag.run_errors.run_id IS 'run that reported the error';
COMMENT ON COLUMN rag.run_errors.source IS 'source of the run';
COMMENT ON COLUMN rag.run_errors.uri IS 'address of the document';
COMMENT ON COLUMN rag.run_errors.stage IS
    'stage that failed: fetch, decode, extract, split, embed or store';
COMMENT ON COLUMN rag.run_errors.severity IS
    'error: the document was not indexed; warning: it was indexed, but some content was lost';
COMMENT ON COLUMN rag.run_errors.message IS 'error message';
COMMENT ON COLUMN rag.run_errors.hint IS 'suggestion how to solve the problem';
COMMENT ON COLUMN rag.run_errors.occurred_at IS 'time of the error';

-- A process holds this lock while it does the work (src/pg/lock.rs).
CREATE FUNCTION rag_internal.is_in_progress(collection text, work text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'object' AND granted AND mode = 'ExclusiveLock'
          AND objsubid = CASE work WHEN 'rebuild' THEN 0 WHEN 'knowledge' THEN 3 END
          AND classid = 'rag_internal.collection'::regclass
              AND objid::bigint = rag_internal.source_hash(collection)
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
$$;
COMMENT ON FUNCTION rag_internal.is_in_progress(text, text) IS
    'true if the collection is being rebuilt (work: rebuild), or if its knowledge items are being '
    'indexed (knowledge)';

CREATE VIEW rag.progress WITH (security_barrier) AS
    SELECT source, run_id, stage, done AS documents_done, documents_total,
           chunks_written AS chunks_done, bytes_fetched AS bytes_done,
           round((done / seconds)::numeric, 1) AS rate,
           CASE WHEN done > 0
                    THEN make_interval(secs => round((documents_total - done) * seconds / done))
               END AS eta,
           CASE WHEN NOT is_visible THEN NULL
                WHEN (SELECT rag_internal.sees_all_chunks())
                    OR rag_internal.sees_uri(collection, source, current_uri)
                    THEN current_uri END AS current_uri,
           collection, documents_listed, addresses_waiting, files_skipped
    FROM (SELECT *,
                 documents_added + documents_updated + documents_unchanged + documents_failed
                     AS done,
                 greatest(extract(epoch FROM clock_timestamp() - started_at), 0.001)
                     ::double precision AS seconds
          FROM rag_internal.monitored_run
          WHERE phase = 'Running' AND rag_internal.is_syncing(source)) AS running
    UNION ALL
    SELECT NULL, NULL, stage, done, documents_total, chunks_written, NULL,
           round((done / seconds)::numeric, 1),
           CASE WHEN done > 0
                    THEN make_interval(secs => round((documents_total - done) * seconds / done))
               END,
           CASE WHEN is_readable AND (SELECT rag_internal.sees_all_chunks())
               THEN current_uri END, collection,
           NULL, NULL, NULL
    FROM (SELECT b.*, c.is_readable,
                 (SELECT count(*) FROM rag_internal.rebuilt_document d
                     WHERE d.collection = b.collection)
                     AS done,
                 greatest(extract(epoch FROM clock_timestamp() - b.started_at), 0.001)
                     ::double precision AS seconds
          FROM rag_internal.rebuild b
               JOIN rag_internal.monitored_collection c ON c.name = b.collection
          WHERE rag_internal.is_in_progress(b.collection, 'rebuild')) AS rebuilding
    UNION ALL
    SELECT NULL, run_id, 'knowledge', items_done, items_total, chunks_written, NULL,
           round((items_done / seconds)::numeric, 1),
           CASE WHEN items_done > 0
                    THEN make_interval(
                        secs => round((items_total - items_done) * seconds / items_done))
               END,
           CASE WHEN is_readable AND (SELECT rag_internal.sees_all_chunks())
               THEN current_uri END, collection,
           NULL, NULL, NULL
    FROM (SELECT k.*, c.is_readable,
                 greatest(extract(epoch FROM clock_timestamp() - k.started_at), 0.001)
                     ::double precision AS seconds
          FROM rag_internal.knowledge_run k
               JOIN rag_internal.monitored_collection c ON c.name = k.collection
          WHERE k.summary IS NULL AND k.error IS NULL
            AND rag_internal.is_in_progress(k.collection, 'knowledge')) AS indexing;
COMMENT ON VIEW rag.progress IS 'progress of current runs and rebuilds';
COMMENT ON COLUMN rag.progress.source IS
    'source that is being synced; NULL for a rebuild and for knowledge items';
COMMENT ON COLUMN rag.progress.run_id IS 'current run; NULL for a rebuild';
COMMENT ON COLUMN rag.progress.stage IS
    'fetch, embed or store; of a rebuild: copy, index or swap; of rag_index_all_knowledge: '
    'knowledge';
COMMENT ON COLUMN rag.progress.collection IS
    'collection that is being indexed into, or that is being rebuilt';
COMMENT ON COLUMN rag.progress.documents_listed IS
    'number of documents that a crawl of a website has found so far; NULL for other sources';
COMMENT ON COLUMN rag.progress.addresses_waiting IS
    'number of addresses that the crawl has still to visit';
COMMENT ON COLUMN rag.progress.files_skipped IS
    'number of files or addresses so far that are no documents; the note of the run tells why';
COMMENT ON COLUMN rag.progress.documents_done IS
    'number of documents that were added, updated, unchanged or failed; of '
    'rag_index_all_knowledge, of items';
COMMENT ON COLUMN rag.progress.documents_total IS
    'number of documents of the source, NULL until they are listed; of rag_index_all_knowledge, '
    'of items';
COMMENT ON COLUMN rag.progress.chunks_done IS 'number of chunks written';
COMMENT ON COLUMN rag.progress.bytes_done IS 'number of bytes read from the source';
COMMENT ON COLUMN rag.progress.rate IS 'documents per second since the start';
COMMENT ON COLUMN rag.progress.eta IS 'estimated time left at that rate';
COMMENT ON COLUMN rag.progress.current_uri IS 'document that is being processed';

CREATE VIEW rag_internal.monitored_sources WITH (security_barrier) AS
    WITH locks AS MATERIALIZED (SELECT source_hash, purpose FROM rag_internal.source_locks())
    SELECT s.name, s.kind, s.collection, s.schedule, s.suspend,
           rag_internal.source_phase(
               is_being_dropped => EXISTS (
                   SELECT FROM locks
                   WHERE purpose = rag_internal.lock_purpose('drop') AND source_hash = s.hash),
               active_phase => c.active_phase, active_trigger => c.trigger,
               suspended => s.suspend, will_retry => s.retry_at IS NOT NULL,
               last_phase => rag_internal.run_phase(r.phase, c.is_lost)) AS phase,
           rag_internal.has_condition(s.conditions, 'ResourceReady') AS resource_ready,
           rag_internal.has_condition(s.conditions, 'AutoIndexerScheduled')
               AND (SELECT rag_internal.has_scheduler()) AS scheduled,
           coalesce(c.active_phase = 'Running', false) AS indexing,
           rag_internal.has_condition(s.conditions, 'AutoIndexerError')
               OR coalesce(c.is_lost, false) AS error,
           s.last_indexed, s.last_commit, s.successful_run_count, s.error_run_count,
           r.documents_added + r.documents_updated + r.documents_unchanged + r.documents_failed
               AS documents_processed,
           r.documents_with_warnings,
           CASE WHEN NOT s.suspend THEN s.next_run END AS next_scheduled_run,
           CASE WHEN NOT s.suspend THEN s.retry_at END AS next_retry,
           s.observed_generation, s.generation,
           CASE WHEN NOT c.is_lost THEN c.run_id END AS current_run_id,
           r.run_id AS last_run_id,
           extract(epoch FROM r.finished_at - r.started_at)::double precision
               AS last_run_duration_seconds,
           CASE WHEN r.error IS NOT NULL AND NOT s.is_visible
                    THEN ARRAY['SQLSTATE ' || (r.error ->> 'sqlstate')]
                WHEN r.error IS NOT NULL
                    THEN ARRAY[concat_ws(': ', r.error ->> 'message', r.error ->> 'detail')]
                WHEN c.is_lost THEN ARRAY[rag_internal.lost_run_error() ->> 'message']
                ELSE '{}' END
           || CASE WHEN r.documents_failed > 0 AND s.is_visible THEN
                  ARRAY(SELECT e.uri || ': ' || e.message FROM rag_internal.run_error e
                        WHERE e.run_id = r.run_id AND e.severity = 'error'
                          AND ((SELECT rag_internal.sees_all_chunks())
                               OR rag_internal.sees_uri(r.collection, s.name, e.uri))
                          -- the error of the run quotes a document if all of them failed
                          AND strpos(coalesce(r.error ->> 'detail', ''),
                                     e.uri || ': ' || e.message) = 0
                        ORDER BY e.occurred_at LIMIT 10)
              ELSE '{}' END
           || CASE WHEN r.documents_failed > 10
                       THEN ARRAY[format(
                           '%s documents could not be indexed; rag.run_errors has all',
                           r.documents_failed)]
              ELSE '{}' END AS errors,
           CASE WHEN NOT s.is_visible
                    THEN (SELECT jsonb_agg(c.condition - 'message')
                          FROM jsonb_array_elements(s.conditions) AS c (condition))
                WHEN (SELECT rag_internal.has_scheduler()) THEN s.conditions
                ELSE rag_internal.without_scheduler(s.conditions, (SELECT rag.why_idle()))
                    END AS conditions,
           s.created_at, now() - s.created_at AS age,
           CASE WHEN s.is_visible THEN s.spec END AS spec,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = s.owner_id) AS owner,
           CASE WHEN NOT s.is_visible THEN NULL
                WHEN s.namespace = 'default' THEN s.credentials
                ELSE split_part(s.credentials, '/', 2) END
           || coalesce('/' || s.credentials_key, '') AS credentials,
           s.max_retries, s.timeout, s.drift_policy, s.drift_checked_at, s.uid,
           s.namespace,
           CASE WHEN s.is_visible THEN s.display_name END AS display_name,
           CASE WHEN s.is_visible THEN s.labels END AS labels,
           CASE WHEN s.is_visible THEN s.annotations END AS annotations,
           s.max_documents, s.max_bytes,
           s.is_visible
    FROM (SELECT v.*, l.hash,
                 pg_is_in_recovery() OR EXISTS (
                     SELECT FROM locks
                     WHERE purpose = rag_internal.lock_purpose('sync') AND source_hash = l.hash)
                         AS is_busy
          FROM rag_internal.monitored_source v, LATERAL (SELECT rag_internal.source_hash(v.name))
              AS l (hash)) s
    LEFT JOIN LATERAL (
        SELECT a.run_id, a.trigger, a.is_lost,
               CASE WHEN NOT a.is_lost THEN a.phase END AS active_phase
        FROM (SELECT q.run_id, q.phase, q.trigger,
                     q.phase = 'Running' AND NOT s.is_busy AND rag_internal.has_not_ended(q.run_id)
                         AS is_lost
              FROM rag_internal.run q WHERE q.source = s.name AND q.phase IN ('Pending', 'Running'))
                  AS a
    ) AS c ON true
    -- a run whose process was lost counts as finished, although its row does not say so yet
    LEFT JOIN rag_internal.run AS r ON r.run_id = CASE WHEN c.is_lost THEN c.run_id
        ELSE s.last_run_id END;
COMMENT ON VIEW rag_internal.monitored_sources IS
    'sources that the caller can see or monitor, with their status; use rag.sources instead';

CREATE VIEW rag.sources WITH (security_barrier) AS
    SELECT name, kind, collection, schedule, suspend, phase, resource_ready, scheduled, indexing,
           error, last_indexed, last_commit, successful_run_count, error_run_count,
           documents_processed, documents_with_warnings, next_scheduled_run, next_retry,
           observed_generation, generation, current_run_id, last_run_id,
           last_run_duration_seconds, errors, conditions, created_at, age, spec, owner,
           credentials, max_retries, timeout, drift_policy, drift_checked_at, uid, namespace,
           display_name, labels, annotations, max_documents, max_bytes
    FROM rag_internal.monitored_sources WHERE is_visible;
COMMENT ON VIEW rag.sources IS 'sources with their status';
COMMENT ON COLUMN rag.sources.name IS
    'name of the source; namespace/name if the namespace is not default';
COMMENT ON COLUMN rag.sources.namespace IS 'namespace, taken from the name';
COMMENT ON COLUMN rag.sources.display_name IS 'metadata.displayName of the manifest';
COMMENT ON COLUMN rag.sources.labels IS 'metadata.labels of the manifest';
COMMENT ON COLUMN rag.sources.annotations IS 'metadata.annotations of the manifest';
-- The kinds are those of the registry (crates/definition/src/source).
CREATE FUNCTION rag_internal.source_kinds_comment() RETURNS text
    AS 'MODULE_PATHNAME', 'source_kinds_comment_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
DO $$
BEGIN
    EXECUTE format('COMMENT ON COLUMN rag.sources.kind IS %L', rag_internal.source_kinds_comment());
END
$$;
DROP FUNCTION rag_internal.source_kinds_comment();
COMMENT ON COLUMN rag.sources.collection IS 'collection that the source is indexed into';
COMMENT ON COLUMN rag.sources.schedule IS
    'schedule of automatic runs; NULL: one run after the source is created or altered';
COMMENT ON COLUMN rag.sources.suspend IS
    'true if scheduled runs, retries and drift checks are suspended';
COMMENT ON COLUMN rag.sources.phase IS
    'Pending (has not run, or is queued), Running, Completed, Failed, Retrying (failed and will '
    'be retried), Suspended or Terminating';
COMMENT ON COLUMN rag.sources.resource_ready IS
    'true if everything that the definition refers to exists: condition ResourceReady';
COMMENT ON COLUMN rag.sources.scheduled IS
    'true if the source is synced automatically: condition AutoIndexerScheduled';
COMMENT ON COLUMN rag.sources.indexing IS 'true if a run is in progress';
COMMENT ON COLUMN rag.sources.error IS
    'true if the last finished run had an error, see errors: condition AutoIndexerError';
COMMENT ON COLUMN rag.sources.last_indexed IS 'end of the last successful run';
COMMENT ON COLUMN rag.sources.last_commit IS
    'indexed commit (git): the commit of the last completed run that listed all files';
COMMENT ON COLUMN rag.sources.successful_run_count IS
    'number of completed runs since the source was created';
COMMENT ON COLUMN rag.sources.error_run_count IS 'number of failed runs';
COMMENT ON COLUMN rag.sources.documents_with_warnings IS
    'number of documents that the last run indexed with loss of content, see rag.run_errors';
COMMENT ON COLUMN rag.sources.documents_processed IS
    'number of documents that the last finished run added, updated, found unchanged or could not '
    'index';
COMMENT ON COLUMN rag.sources.next_scheduled_run IS
    'time of the next automatic run; NULL if none is scheduled or the source is suspended';
COMMENT ON COLUMN rag.sources.next_retry IS 'time at which the last run, which failed, is retried';
COMMENT ON COLUMN rag.sources.observed_generation IS
    'generation of the definition that the status refers to';
COMMENT ON COLUMN rag.sources.generation IS
    'number of the definition''s current version, from 1; each change increments it';
COMMENT ON COLUMN rag.sources.current_run_id IS
    'queued or current run, in rag.runs; NULL if there is none';
COMMENT ON COLUMN rag.sources.last_run_id IS 'last finished run, in rag.runs';
COMMENT ON COLUMN rag.sources.last_run_duration_seconds IS 'duration of the last finished run';
COMMENT ON COLUMN rag.sources.errors IS
    'why the last finished run failed, and documents that it could not index: at most 10, and '
    'then their number; rag.run_errors has all of them';
COMMENT ON COLUMN rag.sources.conditions IS
    'conditions as in Kubernetes: type, status, reason, message, lastTransitionTime, '
    'observedGeneration';
COMMENT ON COLUMN rag.sources.created_at IS 'time when the source was created';
COMMENT ON COLUMN rag.sources.age IS 'time since the source was created';
COMMENT ON COLUMN rag.sources.spec IS 'settings of this kind of source';
COMMENT ON COLUMN rag.sources.owner IS
    'role whose privileges are used by runs; NULL if the role no longer exists';
COMMENT ON COLUMN rag.sources.credentials IS
    'secret in the same namespace that is sent to the source''s server, or secret/key';
COMMENT ON COLUMN rag.sources.max_retries IS 'maximum number of retries of a failed run';
COMMENT ON COLUMN rag.sources.timeout IS 'maximum duration of a run';
COMMENT ON COLUMN rag.sources.drift_policy IS
    'action when stored documents differ from what was indexed: auto, manual or ignore';
COMMENT ON COLUMN rag.sources.max_documents IS
    'maximum number of documents of the source; NULL: no limit';
COMMENT ON COLUMN rag.sources.max_bytes IS
    'maximum size of the texts of its documents, in bytes; NULL: no limit';
COMMENT ON COLUMN rag.sources.drift_checked_at IS 'time of the last drift check';
COMMENT ON COLUMN rag.sources.uid IS
    'identifies the source; a later source of the same name has another uid';

CREATE VIEW rag.collections WITH (security_barrier) AS
    SELECT c.name, c.external_id, c.description, c.retriever, c.partition, c.index_strategy,
           c.serial, c.chunk_size, c.chunk_overlap, c.chunk_unit, c.metadata_whitelist,
           c.text_config, c.title_weight, c.embedding_model, c.model, c.model_precision,
           c.model_max_tokens, c.embedding_dimension, c.embedding_baseline, c.wanted,
           c.max_documents, c.max_bytes,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = c.owner_id) AS owner,
           c.created_at, c.updated_at
    FROM rag_internal.collection c
    WHERE c.name = ANY ((SELECT rag_internal.readable_collections())::text[]);
COMMENT ON VIEW rag.collections IS 'sets of documents that are searched together';
COMMENT ON COLUMN rag.collections.name IS 'name of the collection';
COMMENT ON COLUMN rag.collections.external_id IS
    'name that an application uses for the collection; functions that take and return JSON accept '
    'it instead of the name';
COMMENT ON COLUMN rag.collections.description IS 'description of the collection';
COMMENT ON COLUMN rag.collections.retriever IS 'retriever that defines storage and search';
COMMENT ON COLUMN rag.collections.partition IS
    'partition of rag.chunks that contains the chunks; NULL until the first document is stored';
COMMENT ON COLUMN rag.collections.index_strategy IS
    'strategy that chose the partition: per_dataset, fixed or rolling';
COMMENT ON COLUMN rag.collections.serial IS
    'number of the collection in the order of creation; never used again';
COMMENT ON COLUMN rag.collections.chunk_size IS
    'maximum size of a chunk, in chunk_unit; NULL: 1000 characters or 200 tokens';
COMMENT ON COLUMN rag.collections.chunk_overlap IS
    'maximum overlap of adjacent chunks, in chunk_unit; NULL: 200 characters or 40 tokens';
COMMENT ON COLUMN rag.collections.chunk_unit IS
    'unit of chunk_size and chunk_overlap: characters, or tokens of the model';
COMMENT ON COLUMN rag.collections.metadata_whitelist IS
    'metadata keys that are copied to chunks; NULL or empty: all keys';
COMMENT ON COLUMN rag.collections.text_config IS
    'text search configuration of the keyword index, with its schema; rag.auto: that of each '
    'document''s language';
COMMENT ON COLUMN rag.collections.title_weight IS
    'how often the title counts in the keyword index, compared with the text';
COMMENT ON COLUMN rag.collections.embedding_model IS
    'embedding model that the collection names; NULL: the one that its retriever names, or else '
    'the one of rag.model_dir';
COMMENT ON COLUMN rag.collections.model IS
    'embedding model of the stored chunks; NULL until the first document is stored';
COMMENT ON COLUMN rag.collections.model_precision IS
    'precision of the model: fp32 or int8; NULL: the model is on another server';
COMMENT ON COLUMN rag.collections.model_max_tokens IS
    'tokens of a chunk that the model reads; it ignores the rest';
COMMENT ON COLUMN rag.collections.embedding_dimension IS
    'dimensions of the stored embeddings; NULL until the first document is stored';
COMMENT ON COLUMN rag.collections.embedding_baseline IS
    'mean cosine similarity that the model gives texts that have nothing to do with each other';
COMMENT ON COLUMN rag.collections.wanted IS
    'values of other columns that take effect with the next rebuild; NULL: there are none';
COMMENT ON COLUMN rag.collections.max_documents IS 'maximum number of documents; NULL: no limit';
COMMENT ON COLUMN rag.collections.max_bytes IS
    'maximum size of the texts of all documents, in bytes; NULL: no limit';
COMMENT ON COLUMN rag.collections.owner IS
    'role whose members can do everything with the collection; NULL if it no longer exists';
COMMENT ON COLUMN rag.collections.created_at IS 'time when the collection was created';
COMMENT ON COLUMN rag.collections.updated_at IS 'time of the last change';

CREATE FUNCTION rag_internal.enabled_methods(spec jsonb) RETURNS text[]
    AS 'MODULE_PATHNAME', 'enabled_methods_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.enabled_methods(jsonb) IS
    'methods of search that the spec of a retriever enables';
CREATE VIEW rag.retrievers WITH (security_barrier) AS
    SELECT t.name, t.namespace, t.display_name, t.description,
           t.storage_type, rag_internal.enabled_methods(t.spec) AS methods, t.server_url, t.model,
           t.spec, t.labels, t.annotations,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = t.owner_id) AS owner,
           ARRAY(SELECT c.name FROM rag_internal.collection c
                 WHERE c.retriever = t.name
                   AND c.name = ANY ((SELECT rag_internal.readable_collections())::text[])
                 ORDER BY 1) AS collections,
           t.created_at, t.updated_at
    FROM rag_internal.retriever t;
COMMENT ON VIEW rag.retrievers IS
    'named settings that define how collections are stored and searched';
COMMENT ON COLUMN rag.retrievers.name IS 'name; namespace/name if the namespace is not default';
COMMENT ON COLUMN rag.retrievers.namespace IS 'namespace, taken from the name';
COMMENT ON COLUMN rag.retrievers.display_name IS 'metadata.displayName of the manifest';
COMMENT ON COLUMN rag.retrievers.description IS 'description, taken from the spec';
COMMENT ON COLUMN rag.retrievers.storage_type IS 'type of storage, taken from the spec';
COMMENT ON COLUMN rag.retrievers.methods IS 'methods of search that the retriever enables';
COMMENT ON COLUMN rag.retrievers.server_url IS
    'address of the server that searches vectors, taken from the spec; NULL: this database';
COMMENT ON COLUMN rag.retrievers.model IS
    'embedding model, taken from the spec; NULL: that of the collection or of the settings';
COMMENT ON COLUMN rag.retrievers.spec IS 'storage and search settings, as in the manifest';
COMMENT ON COLUMN rag.retrievers.labels IS 'metadata.labels of the manifest';
COMMENT ON COLUMN rag.retrievers.annotations IS 'metadata.annotations of the manifest';
COMMENT ON COLUMN rag.retrievers.owner IS
    'role whose members may change and drop the retriever; NULL if it no longer exists';
COMMENT ON COLUMN rag.retrievers.collections IS
    'collections of the retriever, as far as the current role can read them';
COMMENT ON COLUMN rag.retrievers.created_at IS 'time when the retriever was created';
COMMENT ON COLUMN rag.retrievers.updated_at IS 'time of the last change';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
