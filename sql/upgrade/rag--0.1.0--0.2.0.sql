-- 0.1.0 to 0.2.0.
\echo Use "ALTER EXTENSION rag UPDATE TO '0.2.0'" to load this file. \quit
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT rag_internal.require_library();
CREATE OR REPLACE FUNCTION rag_internal.is_monitor()
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
    SELECT pg_has_role('pg_monitor', 'USAGE')
$function$;
CREATE OR REPLACE FUNCTION rag_internal.error_kind(error jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
    SELECT error - ARRAY['message', 'detail', 'hint']
$function$;
CREATE OR REPLACE FUNCTION rag_internal.search_durations()
 RETURNS TABLE(collection text, mode text, limits double precision[], counts bigint[], count bigint, sum double precision)
 LANGUAGE c
 STABLE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', $function$search_durations_wrapper$function$;
CREATE OR REPLACE FUNCTION rag_internal.monitored_collection_status()
 RETURNS TABLE(name text, document_count bigint, error_count bigint, chunk_count bigint, total_size_bytes bigint, text_bytes bigint, chunk_bytes bigint, embedding_bytes bigint, index_bytes bigint, state text, detail text, vector_index_bytes bigint, keyword_index_bytes bigint)
 LANGUAGE c
 STABLE
AS 'MODULE_PATHNAME', $function$monitored_collection_status_wrapper$function$;
CREATE OR REPLACE FUNCTION @extschema@.rag_status()
 RETURNS TABLE(severity text, object text, problem text, remedy text)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
DECLARE
    is_scheduled CONSTANT boolean := rag_internal.has_scheduler();
    library CONSTANT text := rag_internal.library_version();
    extension CONSTANT text := (SELECT extversion FROM pg_extension WHERE extname = 'rag');
    -- a run that starts later than this is reported
    max_delay CONSTANT interval := '1 minute';
BEGIN
    RETURN QUERY
        SELECT 'error', d.kind || ' ' || d.relation, d.problem, d.remedy
        FROM rag_internal.damaged_relations() d ORDER BY 2;

    BEGIN
        IF extension <> library THEN
            RETURN QUERY SELECT 'error', 'server',
                format('the extension has version %s in this database, and the loaded library has'
                       ' version %s: sources are not synced', extension, library),
                CASE WHEN string_to_array(extension, '.')::integer[]
                          < string_to_array(library, '.')::integer[]
                         THEN 'ALTER EXTENSION rag UPDATE;'
                     ELSE format('Install version %s of rag and restart the server.', extension)
                     END;
        ELSIF NOT is_scheduled AND EXISTS (
            SELECT FROM rag_internal.monitored_sources s WHERE NOT s.suspend) THEN
            RETURN QUERY SELECT 'warning', 'server',
                CASE WHEN NOT rag_internal.is_preloaded()
                    THEN 'rag is not in shared_preload_libraries'
                     WHEN NOT current_setting('rag.scheduler')::boolean THEN 'rag.scheduler is off'
                     ELSE 'no scheduler is running in this database' END
                || ': sources are not synced, retried or checked for drift automatically',
                CASE WHEN NOT rag_internal.is_preloaded()
                         THEN 'Add rag to shared_preload_libraries and restart the server. Until'
                              ' then, call rag_sync.'
                     WHEN NOT current_setting('rag.scheduler')::boolean
                         THEN 'ALTER SYSTEM SET rag.scheduler = on; SELECT pg_reload_conf();'
                     ELSE format('Increase max_worker_processes (currently %s) and restart the'
                                 ' server. The server log contains the reason.',
                         current_setting('max_worker_processes')) END;
        END IF;
    EXCEPTION WHEN data_corrupted OR index_corrupted THEN
        RETURN QUERY SELECT 'error', e.object, SQLERRM, e.remedy
            FROM rag_internal.explain_damage(SQLERRM) e;
    END;

    BEGIN
        RETURN QUERY
            SELECT 'error', 'source ' || s.name,
                   'the last run failed: ' || s.errors[1]
                   || coalesce('; the next retry is at ' || date_trunc('second', s.next_retry), ''),
                   coalesce(r.errors -> 0 ->> 'hint',
                       format('Fix the reported problem, then SELECT rag_sync(%L);', s.name))
            FROM rag_internal.monitored_sources s JOIN rag.runs r ON r.run_id = s.last_run_id
            WHERE s.error AND r.phase = 'Failed'
            UNION ALL
            SELECT 'warning', 'source ' || s.name,
                   CASE r.documents_failed WHEN 1 THEN '1 document'
                        ELSE r.documents_failed || ' documents' END
                   || ' could not be indexed by the last run' || coalesce(': ' || s.errors[1], ''),
                   format('SELECT uri, message, hint FROM rag.run_errors WHERE run_id = %s;',
                       r.run_id)
            FROM rag_internal.monitored_sources s JOIN rag.runs r ON r.run_id = s.last_run_id
            WHERE r.phase = 'Completed' AND r.documents_failed > 0
            UNION ALL
            SELECT CASE c.type WHEN 'AutoIndexerDriftDetected' THEN 'warning' ELSE 'error' END,
                   'source ' || s.name,
                   CASE c.type
                       WHEN 'ResourceReady'
                           THEN 'a resource of the definition is unavailable'
                       WHEN 'AutoIndexerScheduled' THEN 'the schedule is invalid'
                       ELSE 'stored documents differ from what was indexed' END
                   || coalesce(': ' || c.message, ''),
                   CASE c.type
                       WHEN 'ResourceReady'
                           THEN format('Restore it, or SELECT rag_alter_source(%L, ...);', s.name)
                       WHEN 'AutoIndexerScheduled'
                           THEN format('SELECT rag_alter_source(%L, schedule => ...);', s.name)
                       ELSE format('SELECT rag_sync(%L);', s.name) END
            FROM rag_internal.monitored_sources s,
                 jsonb_to_recordset(s.conditions)
                     AS c (type text, status text, reason text, message text)
            WHERE c.type = 'ResourceReady' AND c.status = 'False' AND NOT s.error
               OR c.type = 'AutoIndexerScheduled' AND c.reason = 'InvalidSchedule'
               OR c.type = 'AutoIndexerDriftDetected' AND c.status = 'True'
            UNION ALL
            SELECT 'notice', 'source ' || s.name,
                   'the source is suspended: it is synced only by rag_sync',
                   format('SELECT rag_resume(%L);', s.name)
            FROM rag_internal.monitored_sources s WHERE s.suspend
            UNION ALL
            SELECT 'warning', 'source ' || s.name,
                   CASE WHEN s.next_scheduled_run < now() - max_delay
                            THEN format('a run was due at %s and has not started',
                                date_trunc('second', s.next_scheduled_run))
                        WHEN s.last_run_id IS NULL
                            THEN 'the source has never been synced, and no run is scheduled'
                        ELSE 'the definition has changed since the last run, and no run is'
                             ' scheduled' END,
                   format('SELECT rag_sync(%L);', s.name)
            FROM rag_internal.monitored_sources s
            WHERE NOT s.suspend AND s.current_run_id IS NULL AND s.next_retry IS NULL
              AND (s.next_scheduled_run < now() - max_delay
                   OR (s.next_scheduled_run IS NULL OR NOT is_scheduled)
                      AND (s.last_run_id IS NULL OR s.generation > s.observed_generation))
            ORDER BY 2, 1, 3;
    EXCEPTION WHEN data_corrupted OR index_corrupted THEN
        RETURN QUERY SELECT 'error', e.object, SQLERRM, e.remedy
            FROM rag_internal.explain_damage(SQLERRM) e;
    END;

    BEGIN
        RETURN QUERY
            SELECT 'notice', 'source ' || s.name,
                   format('%s indexed by the last run with warnings',
                       CASE r.documents_with_warnings WHEN 1 THEN '1 document was'
                            ELSE r.documents_with_warnings || ' documents were' END),
                   format('SELECT uri, message FROM rag.run_errors WHERE run_id = %s;', r.run_id)
            FROM rag_internal.monitored_sources s JOIN rag.runs r ON r.run_id = s.last_run_id
            WHERE r.phase = 'Completed' AND r.documents_with_warnings > 0
            UNION ALL
            SELECT 'notice', 'source ' || s.name,
                   format('the source has never been synced; the first run is at %s',
                       date_trunc('second', s.next_scheduled_run)),
                   format('SELECT rag_sync(%L);', s.name)
            FROM rag_internal.monitored_sources s
            WHERE s.schedule IS NOT NULL AND s.last_run_id IS NULL AND s.current_run_id IS NULL
              AND NOT s.suspend AND s.next_scheduled_run >= now() AND is_scheduled
            UNION ALL
            SELECT 'warning', format('run %s of source %s', r.run_id, r.source),
                   format('the run has made no progress since %s',
                       date_trunc('second', r.updated_at)),
                   format('SELECT rag_cancel_run(%s);', r.run_id)
            FROM rag.runs r
            WHERE r.phase = 'Running' AND rag_internal.is_stalled(r.updated_at)
            UNION ALL
            -- a session that has reported it holds this lock (src/pg/lock.rs)
            SELECT 'warning', format('session %s', l.objid),
                   'the session waits for rag-engine, which does not answer',
                   format('SELECT pg_cancel_backend(%s);', l.objid)
            FROM pg_locks l
            WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 3
              AND l.classid::bigint = x'72616765'::bigint
              AND l.database = (SELECT d.oid FROM pg_database d
                                WHERE d.datname = current_database())
            UNION ALL
            SELECT 'notice', 'server',
                   'the clock was set back: runs have begun in the future',
                   'Check the clock. Times of schedules are computed again automatically.'
            WHERE EXISTS (SELECT FROM rag.runs r WHERE r.queued_at > now() + max_delay)
            ORDER BY 2, 1, 3;
    EXCEPTION WHEN data_corrupted OR index_corrupted THEN
        RETURN QUERY SELECT 'error', e.object, SQLERRM, e.remedy
            FROM rag_internal.explain_damage(SQLERRM) e;
    END;

    BEGIN
        RETURN QUERY
            SELECT CASE WHEN r.waiting LIKE '%max_worker_processes%' THEN 'warning'
                        ELSE 'notice' END,
                   format('run %s of source %s', r.run_id, r.source),
                   'the run is waiting: ' || r.waiting,
                   CASE WHEN r.waiting LIKE '%max_worker_processes%'
                            THEN 'Increase max_worker_processes and restart the server.'
                        ELSE 'Wait, or increase rag.max_running_syncs.' END
            FROM rag.runs r JOIN rag_internal.monitored_sources s ON s.name = r.source
            WHERE r.phase = 'Pending' AND r.waiting IS NOT NULL AND is_scheduled
              AND (r.trigger = 'manual' OR NOT s.suspend)
            ORDER BY r.run_id;
    EXCEPTION WHEN data_corrupted OR index_corrupted THEN
        RETURN QUERY SELECT 'error', e.object, SQLERRM, e.remedy
            FROM rag_internal.explain_damage(SQLERRM) e;
    END;

    BEGIN
        RETURN QUERY
            SELECT CASE WHEN s.state IN ('building', 'syncing') THEN 'notice'
                        WHEN s.state = 'damaged' THEN 'error' ELSE 'warning' END,
                   'collection ' || s.name,
                   coalesce(s.detail, s.state),
                   CASE s.state
                       WHEN 'building' THEN 'Wait until it has ended.'
                       WHEN 'syncing'
                           THEN format('SELECT * FROM rag_sync_storage(%L);', s.name)
                       WHEN 'mixed' THEN 'Sync its sources.'
                       WHEN 'degraded'
                           THEN format('SELECT uri, error FROM rag.documents'
                                       ' WHERE collection = %L AND status = ''error'';', s.name)
                       ELSE format('CALL rag_rebuild_collection(%L);', s.name) END
            FROM rag_internal.monitored_collection_status() s
            WHERE s.state NOT IN ('ready', 'empty')
            UNION ALL
            SELECT 'error', 'collection ' || c.name,
                   format('the collection was embedded with model %s, but the current model is %s:'
                          ' it cannot be searched or written to', c.model,
                              rag_internal.current_model()),
                   format('Restore rag.model_dir, or embed it with the current model:'
                          ' CALL rag_rebuild_collection(%L);', c.name)
            FROM rag_internal.monitored_collection c
            WHERE c.model <> rag_internal.current_model() AND c.named_model IS NULL
            UNION ALL
            SELECT 'warning', 'collection ' || c.name,
                   format('the retriever %s does not exist any more: default settings are used',
                          c.retriever),
                   format('Create it again: SELECT rag_create_retriever(%L, SETTINGS);',
                          c.retriever)
            FROM rag_internal.monitored_collection c
            WHERE NOT c.has_retriever
            UNION ALL
            -- the condition of src/catalog/due.rs
            SELECT 'error', 'table ' || h.inhrelid::regclass,
                   format('it has no index on %s, as while a dump is restored: nothing is synced in'
                          ' this database', k.key),
                   format('If no dump is being restored: ' || k.remedy, h.inhrelid::regclass)
            FROM pg_inherits h, (VALUES
                ('document_id', 'ALTER TABLE %s ADD PRIMARY KEY (document_id, chunk_id);'),
                ('embedding_key', 'CREATE INDEX ON %s (embedding_key);')) AS k (key, remedy)
            WHERE h.inhparent = 'rag.chunks'::regclass AND NOT EXISTS (
                SELECT FROM pg_index i JOIN pg_attribute a
                    ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                WHERE i.indrelid = h.inhrelid AND a.attname = k.key)
            UNION ALL
            SELECT 'error', 'index ' || i.indexrelid::regclass,
                   'the index is invalid and is not used',
                   -- what an interrupted REINDEX CONCURRENTLY has left has another one beside it
                   format(CASE WHEN x.relname ~ '_cc(new|old)[0-9]*$' THEN 'DROP INDEX %s;'
                               ELSE 'REINDEX INDEX %s;' END, i.indexrelid::regclass)
            FROM pg_inherits h JOIN pg_index i ON i.indrelid = h.inhrelid
                 JOIN pg_class x ON x.oid = i.indexrelid
            WHERE h.inhparent = 'rag.chunks'::regclass AND NOT i.indisvalid
              -- another session that creates or rebuilds it concurrently locks its table
              AND NOT EXISTS (SELECT FROM pg_locks l
                              WHERE l.database = (SELECT d.oid FROM pg_database d
                                                  WHERE d.datname = current_database())
                                AND l.relation = i.indrelid AND l.granted
                                AND l.mode = 'ShareUpdateExclusiveLock')
            UNION ALL
            SELECT 'warning', 'retriever ' || f.retriever,
                   format('a former server, %s, could not delete what it has of collection "%s":'
                          ' %s',
                          f.url, f.collection, f.error),
                   format('Start the server, or give it up: SELECT * FROM rag_sync_storage(%L,'
                          ' forget => true);', f.collection)
            FROM rag_internal.failed_removals() f
            ORDER BY 2, 1;
    EXCEPTION WHEN data_corrupted OR index_corrupted THEN
        RETURN QUERY SELECT 'error', e.object, SQLERRM, e.remedy
            FROM rag_internal.explain_damage(SQLERRM) e;
    END;

    -- only superusers can see the keys
    IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM rag_internal.secret_value) THEN
        RETURN QUERY
            SELECT CASE WHEN k.in_file THEN 'warning' ELSE 'error' END,
                   'encryption key ' || k.key_id,
                   CASE WHEN k.in_file THEN 'the key is old; number of values encrypted with it: '
                        ELSE 'the key is not in the key file; number of values encrypted with it: '
                        END
                   || k.encrypted_values,
                   CASE WHEN k.in_file THEN 'SELECT rag_rotate_secret_key(add_key => false);'
                        ELSE 'Restore the key file from a backup, or store the secrets again with'
                             ' rag_create_secret.' END
            FROM @extschema@.rag_secret_keys() k
            WHERE NOT k.is_current AND k.encrypted_values > 0
            ORDER BY 2;
    END IF;
END $function$;
CREATE OR REPLACE FUNCTION rag_internal.run_duration_limits()
 RETURNS double precision[]
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
    SELECT '{1,5,15,60,300,900,3600,14400}'::double precision[]
$function$;
CREATE OR REPLACE FUNCTION rag_internal.total_deleted_runs()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
END $function$;
CREATE OR REPLACE FUNCTION rag_internal.server_metrics()
 RETURNS TABLE(name text, value double precision)
 LANGUAGE c
 PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', $function$server_metrics_wrapper$function$;
CREATE OR REPLACE FUNCTION rag_internal.metric_limit(seconds double precision)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
    SELECT CASE WHEN seconds = 'Infinity' THEN '+Inf'
                WHEN seconds::text ~ '[.]' THEN seconds::text
                ELSE seconds::text || '.0' END
$function$;
CREATE OR REPLACE FUNCTION rag_api.metrics(request jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    RETURN jsonb_build_object('text', @extschema@.rag_metrics_text(
        coalesce((request ->> 'openmetrics')::boolean, false)));
END $function$;
CREATE OR REPLACE FUNCTION @extschema@.rag_metrics_text(openmetrics boolean DEFAULT true)
 RETURNS text
 LANGUAGE c
 STRICT
AS 'MODULE_PATHNAME', $function$rag_metrics_text_wrapper$function$;
-- Durations of runs that were deleted before are not known.
ALTER TABLE rag_internal.run_total
    ADD COLUMN duration_seconds double precision NOT NULL DEFAULT 0,
    ADD COLUMN duration_counts bigint[] NOT NULL DEFAULT '{0,0,0,0,0,0,0,0}';
ALTER TABLE rag_internal.run_total
    ALTER COLUMN duration_seconds DROP DEFAULT, ALTER COLUMN duration_counts DROP DEFAULT;
CREATE OR REPLACE VIEW rag_internal.monitored_source WITH (security_barrier=true) AS
 SELECT source.name,
    source.namespace,
    source.uid,
    source.ids_from,
    source.kind,
    source.spec,
    source.document_labels,
    source.collection,
    source.owner,
    source.owner_id,
    source.relation_id,
    source.relation_owner_id,
    source.credentials,
    source.credentials_key,
    source.schedule,
    source.max_retries,
    source.timeout,
    source.suspend,
    source.drift_policy,
    source.max_documents,
    source.max_bytes,
    source.display_name,
    source.labels,
    source.annotations,
    source.generation,
    source.created_at,
    source.updated_at,
    source.next_run,
    source.retry_at,
    source.attempt,
    source.throttled,
    source.booted_at,
    source.observed_generation,
    source.last_run_id,
    source.last_commit,
    source.last_indexed,
    source.successful_run_count,
    source.error_run_count,
    source.documents,
    source.drift_checked_at,
    source.conditions,
    source.is_visible
   FROM ( SELECT s.name,
            s.namespace,
            s.uid,
            s.ids_from,
            s.kind,
            s.spec,
            s.document_labels,
            s.collection,
            s.owner,
            s.owner_id,
            s.relation_id,
            s.relation_owner_id,
            s.credentials,
            s.credentials_key,
            s.schedule,
            s.max_retries,
            s.timeout,
            s.suspend,
            s.drift_policy,
            s.max_documents,
            s.max_bytes,
            s.display_name,
            s.labels,
            s.annotations,
            s.generation,
            s.created_at,
            s.updated_at,
            s.next_run,
            s.retry_at,
            s.attempt,
            s.throttled,
            s.booted_at,
            s.observed_generation,
            s.last_run_id,
            s.last_commit,
            s.last_indexed,
            s.successful_run_count,
            s.error_run_count,
            s.documents,
            s.drift_checked_at,
            s.conditions,
            ((s.owner_id IN ( SELECT pg_roles.oid
                   FROM pg_roles
                  WHERE pg_has_role(pg_roles.oid, 'USAGE'::text))) OR ((EXISTS ( SELECT
                   FROM pg_roles
                  WHERE ((pg_roles.rolname = 'rag_admin'::name) AND pg_has_role(pg_roles.oid, 'USAGE'::text)))) AND (s.collection = ANY (( SELECT rag_internal.overseen_collections() AS overseen_collections)::text[])))) AS is_visible
           FROM rag_internal.source s) source
  WHERE (source.is_visible OR ( SELECT rag_internal.is_monitor() AS is_monitor));
CREATE OR REPLACE VIEW rag_internal.monitored_run WITH (security_barrier=true) AS
 SELECT run.run_id,
    run.source,
    run.collection,
    run.trigger,
    run.attempt,
    run.generation,
    run.phase,
    run.waiting,
    run.stage,
    run.queued_at,
    run.started_at,
    run.updated_at,
    run.finished_at,
    run.documents_total,
    run.documents_listed,
    run.addresses_waiting,
    run.documents_added,
    run.documents_updated,
    run.documents_deleted,
    run.documents_unchanged,
    run.documents_failed,
    run.documents_with_warnings,
    run.files_skipped,
    run.chunks_written,
    run.chunks_embedded,
    run.chunks_reused,
    run.bytes_fetched,
    run.fetch_seconds,
    run.extract_seconds,
    run.embed_seconds,
    run.store_seconds,
    run.model_tokens,
    run.model_cost,
    run.commit,
    run.current_uri,
    run.note,
    run.error,
    run.stall_logged,
    run.is_visible
   FROM ( SELECT r.run_id,
            r.source,
            r.collection,
            r.trigger,
            r.attempt,
            r.generation,
            r.phase,
            r.waiting,
            r.stage,
            r.queued_at,
            r.started_at,
            r.updated_at,
            r.finished_at,
            r.documents_total,
            r.documents_listed,
            r.addresses_waiting,
            r.documents_added,
            r.documents_updated,
            r.documents_deleted,
            r.documents_unchanged,
            r.documents_failed,
            r.documents_with_warnings,
            r.files_skipped,
            r.chunks_written,
            r.chunks_embedded,
            r.chunks_reused,
            r.bytes_fetched,
            r.fetch_seconds,
            r.extract_seconds,
            r.embed_seconds,
            r.store_seconds,
            r.model_tokens,
            r.model_cost,
            r.commit,
            r.current_uri,
            r.note,
            r.error,
            r.stall_logged,
            (s.is_visible AND ((r.collection = s.collection) OR (r.collection = ANY (( SELECT rag_internal.overseen_collections() AS overseen_collections)::text[])))) AS is_visible
           FROM (rag_internal.run r
             JOIN rag_internal.monitored_source s ON ((s.name = r.source)))) run
  WHERE (run.is_visible OR ( SELECT rag_internal.is_monitor() AS is_monitor));
CREATE OR REPLACE VIEW rag_internal.monitored_collection WITH (security_barrier=true) AS
 SELECT collection.name,
    collection.retriever,
    collection.model,
    collection.named_model,
    collection.has_retriever,
    collection.is_readable
   FROM ( SELECT c.name,
            c.retriever,
            c.model,
            COALESCE(c.embedding_model, t.model) AS named_model,
            (t.name IS NOT NULL) AS has_retriever,
            (c.name = ANY (( SELECT rag_internal.readable_collections() AS readable_collections)::text[])) AS is_readable
           FROM (rag_internal.collection c
             LEFT JOIN rag_internal.retriever t ON ((t.name = c.retriever)))) collection
  WHERE (collection.is_readable OR ( SELECT rag_internal.is_monitor() AS is_monitor));
CREATE OR REPLACE VIEW rag.runs WITH (security_barrier=true) AS
 SELECT run.run_id,
    run.source,
    run.collection,
    run.trigger,
    run.attempt,
    rag_internal.run_phase(run.phase, run.is_lost) AS phase,
        CASE
            WHEN (run.phase <> 'Pending'::text) THEN run.waiting
            WHEN ((run.trigger <> 'manual'::text) AND (EXISTS ( SELECT
               FROM rag_internal.source s
              WHERE ((s.name = run.source) AND s.suspend)))) THEN 'the source is suspended'::text
            ELSE COALESCE(( SELECT rag_internal.why_waiting() AS why_waiting), run.waiting)
        END AS waiting,
    run.queued_at,
    run.started_at,
    run.finished_at,
    run.documents_added,
    run.documents_updated,
    run.documents_deleted,
    run.documents_unchanged,
    run.documents_failed,
    run.documents_with_warnings,
    run.files_skipped,
    run.chunks_written,
    run.chunks_embedded,
    run.chunks_reused,
    run.bytes_fetched,
    run.commit,
        CASE
            WHEN run.is_visible THEN run.note
            ELSE NULL::text
        END AS note,
        CASE
            WHEN ((run.started_at IS NOT NULL) AND (NOT run.is_lost)) THEN (COALESCE(run.finished_at, clock_timestamp()) - run.started_at)
            ELSE NULL::interval
        END AS duration,
    run.fetch_seconds,
    run.extract_seconds,
    run.embed_seconds,
    run.store_seconds,
    run.model_tokens,
    run.model_cost,
        CASE
            WHEN ((run.error IS NOT NULL) AND run.is_visible) THEN jsonb_build_array(run.error)
            WHEN (run.error IS NOT NULL) THEN jsonb_build_array(rag_internal.error_kind(run.error))
            WHEN run.is_lost THEN jsonb_build_array(rag_internal.lost_run_error())
            ELSE '[]'::jsonb
        END AS errors,
    run.generation,
    run.updated_at
   FROM ( SELECT monitored_run.run_id,
            monitored_run.source,
            monitored_run.collection,
            monitored_run.trigger,
            monitored_run.attempt,
            monitored_run.generation,
            monitored_run.phase,
            monitored_run.waiting,
            monitored_run.stage,
            monitored_run.queued_at,
            monitored_run.started_at,
            monitored_run.updated_at,
            monitored_run.finished_at,
            monitored_run.documents_total,
            monitored_run.documents_listed,
            monitored_run.addresses_waiting,
            monitored_run.documents_added,
            monitored_run.documents_updated,
            monitored_run.documents_deleted,
            monitored_run.documents_unchanged,
            monitored_run.documents_failed,
            monitored_run.documents_with_warnings,
            monitored_run.files_skipped,
            monitored_run.chunks_written,
            monitored_run.chunks_embedded,
            monitored_run.chunks_reused,
            monitored_run.bytes_fetched,
            monitored_run.fetch_seconds,
            monitored_run.extract_seconds,
            monitored_run.embed_seconds,
            monitored_run.store_seconds,
            monitored_run.model_tokens,
            monitored_run.model_cost,
            monitored_run.commit,
            monitored_run.current_uri,
            monitored_run.note,
            monitored_run.error,
            monitored_run.stall_logged,
            monitored_run.is_visible,
            ((monitored_run.phase = 'Running'::text) AND (NOT rag_internal.is_syncing(monitored_run.source)) AND rag_internal.has_not_ended(monitored_run.run_id)) AS is_lost
           FROM rag_internal.monitored_run) run;
CREATE OR REPLACE VIEW rag.run_errors WITH (security_barrier=true) AS
 SELECT e.run_id,
    e.source,
    e.uri,
    e.stage,
    e.severity,
    e.message,
    e.hint,
    e.occurred_at
   FROM rag_internal.run_error e
  WHERE (EXISTS ( SELECT
           FROM rag_internal.monitored_run r
          WHERE ((r.run_id = e.run_id) AND r.is_visible AND (( SELECT rag_internal.sees_all_chunks() AS sees_all_chunks) OR rag_internal.sees_uri(r.collection, e.source, e.uri)))));
CREATE OR REPLACE VIEW rag.progress WITH (security_barrier=true) AS
 SELECT running.source,
    running.run_id,
    running.stage,
    running.done AS documents_done,
    running.documents_total,
    running.chunks_written AS chunks_done,
    running.bytes_fetched AS bytes_done,
    round((((running.done)::double precision / running.seconds))::numeric, 1) AS rate,
        CASE
            WHEN (running.done > 0) THEN make_interval(secs => round(((((running.documents_total - running.done))::double precision * running.seconds) / (running.done)::double precision)))
            ELSE NULL::interval
        END AS eta,
        CASE
            WHEN (NOT running.is_visible) THEN NULL::text
            WHEN (( SELECT rag_internal.sees_all_chunks() AS sees_all_chunks) OR rag_internal.sees_uri(running.collection, running.source, running.current_uri)) THEN running.current_uri
            ELSE NULL::text
        END AS current_uri,
    running.collection,
    running.documents_listed,
    running.addresses_waiting,
    running.files_skipped
   FROM ( SELECT monitored_run.run_id,
            monitored_run.source,
            monitored_run.collection,
            monitored_run.trigger,
            monitored_run.attempt,
            monitored_run.generation,
            monitored_run.phase,
            monitored_run.waiting,
            monitored_run.stage,
            monitored_run.queued_at,
            monitored_run.started_at,
            monitored_run.updated_at,
            monitored_run.finished_at,
            monitored_run.documents_total,
            monitored_run.documents_listed,
            monitored_run.addresses_waiting,
            monitored_run.documents_added,
            monitored_run.documents_updated,
            monitored_run.documents_deleted,
            monitored_run.documents_unchanged,
            monitored_run.documents_failed,
            monitored_run.documents_with_warnings,
            monitored_run.files_skipped,
            monitored_run.chunks_written,
            monitored_run.chunks_embedded,
            monitored_run.chunks_reused,
            monitored_run.bytes_fetched,
            monitored_run.fetch_seconds,
            monitored_run.extract_seconds,
            monitored_run.embed_seconds,
            monitored_run.store_seconds,
            monitored_run.model_tokens,
            monitored_run.model_cost,
            monitored_run.commit,
            monitored_run.current_uri,
            monitored_run.note,
            monitored_run.error,
            monitored_run.stall_logged,
            monitored_run.is_visible,
            (((monitored_run.documents_added + monitored_run.documents_updated) + monitored_run.documents_unchanged) + monitored_run.documents_failed) AS done,
            (GREATEST(EXTRACT(epoch FROM (clock_timestamp() - monitored_run.started_at)), 0.001))::double precision AS seconds
           FROM rag_internal.monitored_run
          WHERE ((monitored_run.phase = 'Running'::text) AND rag_internal.is_syncing(monitored_run.source))) running
UNION ALL
 SELECT NULL::text AS source,
    NULL::bigint AS run_id,
    rebuilding.stage,
    rebuilding.done AS documents_done,
    rebuilding.documents_total,
    rebuilding.chunks_written AS chunks_done,
    NULL::bigint AS bytes_done,
    round((((rebuilding.done)::double precision / rebuilding.seconds))::numeric, 1) AS rate,
        CASE
            WHEN (rebuilding.done > 0) THEN make_interval(secs => round(((((rebuilding.documents_total - rebuilding.done))::double precision * rebuilding.seconds) / (rebuilding.done)::double precision)))
            ELSE NULL::interval
        END AS eta,
        CASE
            WHEN (rebuilding.is_readable AND ( SELECT rag_internal.sees_all_chunks() AS sees_all_chunks)) THEN rebuilding.current_uri
            ELSE NULL::text
        END AS current_uri,
    rebuilding.collection,
    NULL::bigint AS documents_listed,
    NULL::bigint AS addresses_waiting,
    NULL::bigint AS files_skipped
   FROM ( SELECT b.collection,
            b.target,
            b.relation,
            b.stage,
            b.started_at,
            b.documents_total,
            b.chunks_written,
            b.chunks_embedded,
            b.current_uri,
            c.is_readable,
            ( SELECT count(*) AS count
                   FROM rag_internal.rebuilt_document d
                  WHERE (d.collection = b.collection)) AS done,
            (GREATEST(EXTRACT(epoch FROM (clock_timestamp() - b.started_at)), 0.001))::double precision AS seconds
           FROM (rag_internal.rebuild b
             JOIN rag_internal.monitored_collection c ON ((c.name = b.collection)))
          WHERE rag_internal.is_in_progress(b.collection, 'rebuild'::text)) rebuilding
UNION ALL
 SELECT NULL::text AS source,
    indexing.run_id,
    'knowledge'::text AS stage,
    indexing.items_done AS documents_done,
    indexing.items_total AS documents_total,
    indexing.chunks_written AS chunks_done,
    NULL::bigint AS bytes_done,
    round((((indexing.items_done)::double precision / indexing.seconds))::numeric, 1) AS rate,
        CASE
            WHEN (indexing.items_done > 0) THEN make_interval(secs => round(((((indexing.items_total - indexing.items_done))::double precision * indexing.seconds) / (indexing.items_done)::double precision)))
            ELSE NULL::interval
        END AS eta,
        CASE
            WHEN (indexing.is_readable AND ( SELECT rag_internal.sees_all_chunks() AS sees_all_chunks)) THEN indexing.current_uri
            ELSE NULL::text
        END AS current_uri,
    indexing.collection,
    NULL::bigint AS documents_listed,
    NULL::bigint AS addresses_waiting,
    NULL::bigint AS files_skipped
   FROM ( SELECT k.collection,
            k.run_id,
            k.started_at,
            k.items_total,
            k.items_done,
            k.chunks_written,
            k.current_uri,
            k.summary,
            k.error,
            c.is_readable,
            (GREATEST(EXTRACT(epoch FROM (clock_timestamp() - k.started_at)), 0.001))::double precision AS seconds
           FROM (rag_internal.knowledge_run k
             JOIN rag_internal.monitored_collection c ON ((c.name = k.collection)))
          WHERE ((k.summary IS NULL) AND (k.error IS NULL) AND rag_internal.is_in_progress(k.collection, 'knowledge'::text))) indexing;
CREATE OR REPLACE VIEW rag_internal.monitored_sources WITH (security_barrier=true) AS
 WITH locks AS MATERIALIZED (
         SELECT source_locks.source_hash,
            source_locks.purpose
           FROM rag_internal.source_locks() source_locks(source_hash, purpose, pid)
        )
 SELECT s.name,
    s.kind,
    s.collection,
    s.schedule,
    s.suspend,
    rag_internal.source_phase(is_being_dropped => (EXISTS ( SELECT
           FROM locks
          WHERE ((locks.purpose = rag_internal.lock_purpose('drop'::text)) AND (locks.source_hash = s.hash)))), active_phase => c.active_phase, active_trigger => c.trigger, suspended => s.suspend, will_retry => (s.retry_at IS NOT NULL), last_phase => rag_internal.run_phase(r.phase, c.is_lost)) AS phase,
    rag_internal.has_condition(s.conditions, 'ResourceReady'::text) AS resource_ready,
    (rag_internal.has_condition(s.conditions, 'AutoIndexerScheduled'::text) AND ( SELECT rag_internal.has_scheduler() AS has_scheduler)) AS scheduled,
    COALESCE((c.active_phase = 'Running'::text), false) AS indexing,
    (rag_internal.has_condition(s.conditions, 'AutoIndexerError'::text) OR COALESCE(c.is_lost, false)) AS error,
    s.last_indexed,
    s.last_commit,
    s.successful_run_count,
    s.error_run_count,
    (((r.documents_added + r.documents_updated) + r.documents_unchanged) + r.documents_failed) AS documents_processed,
    r.documents_with_warnings,
        CASE
            WHEN (NOT s.suspend) THEN s.next_run
            ELSE NULL::timestamp with time zone
        END AS next_scheduled_run,
        CASE
            WHEN (NOT s.suspend) THEN s.retry_at
            ELSE NULL::timestamp with time zone
        END AS next_retry,
    s.observed_generation,
    s.generation,
        CASE
            WHEN (NOT c.is_lost) THEN c.run_id
            ELSE NULL::bigint
        END AS current_run_id,
    r.run_id AS last_run_id,
    (EXTRACT(epoch FROM (r.finished_at - r.started_at)))::double precision AS last_run_duration_seconds,
    ((
        CASE
            WHEN ((r.error IS NOT NULL) AND (NOT s.is_visible)) THEN ARRAY[('SQLSTATE '::text || (r.error ->> 'sqlstate'::text))]
            WHEN (r.error IS NOT NULL) THEN ARRAY[concat_ws(': '::text, (r.error ->> 'message'::text), (r.error ->> 'detail'::text))]
            WHEN c.is_lost THEN ARRAY[(rag_internal.lost_run_error() ->> 'message'::text)]
            ELSE '{}'::text[]
        END ||
        CASE
            WHEN ((r.documents_failed > 0) AND s.is_visible) THEN ARRAY( SELECT ((e.uri || ': '::text) || e.message)
               FROM rag_internal.run_error e
              WHERE ((e.run_id = r.run_id) AND (e.severity = 'error'::text) AND (( SELECT rag_internal.sees_all_chunks() AS sees_all_chunks) OR rag_internal.sees_uri(r.collection, s.name, e.uri)) AND (strpos(COALESCE((r.error ->> 'detail'::text), ''::text), ((e.uri || ': '::text) || e.message)) = 0))
              ORDER BY e.occurred_at
             LIMIT 10)
            ELSE '{}'::text[]
        END) ||
        CASE
            WHEN (r.documents_failed > 10) THEN ARRAY[format('%s documents could not be indexed; rag.run_errors has all'::text, r.documents_failed)]
            ELSE '{}'::text[]
        END) AS errors,
        CASE
            WHEN (NOT s.is_visible) THEN ( SELECT jsonb_agg((c_1.condition - 'message'::text)) AS jsonb_agg
               FROM jsonb_array_elements(s.conditions) c_1(condition))
            WHEN ( SELECT rag_internal.has_scheduler() AS has_scheduler) THEN s.conditions
            ELSE rag_internal.without_scheduler(s.conditions, ( SELECT rag.why_idle() AS why_idle))
        END AS conditions,
    s.created_at,
    (now() - s.created_at) AS age,
        CASE
            WHEN s.is_visible THEN s.spec
            ELSE NULL::jsonb
        END AS spec,
    ( SELECT (r_1.rolname)::text AS rolname
           FROM pg_roles r_1
          WHERE (r_1.oid = s.owner_id)) AS owner,
    (
        CASE
            WHEN (NOT s.is_visible) THEN NULL::text
            WHEN (s.namespace = 'default'::text) THEN s.credentials
            ELSE split_part(s.credentials, '/'::text, 2)
        END || COALESCE(('/'::text || s.credentials_key), ''::text)) AS credentials,
    s.max_retries,
    s.timeout,
    s.drift_policy,
    s.drift_checked_at,
    s.uid,
    s.namespace,
        CASE
            WHEN s.is_visible THEN s.display_name
            ELSE NULL::text
        END AS display_name,
        CASE
            WHEN s.is_visible THEN s.labels
            ELSE NULL::jsonb
        END AS labels,
        CASE
            WHEN s.is_visible THEN s.annotations
            ELSE NULL::jsonb
        END AS annotations,
    s.max_documents,
    s.max_bytes,
    s.is_visible
   FROM ((( SELECT v.name,
            v.namespace,
            v.uid,
            v.ids_from,
            v.kind,
            v.spec,
            v.document_labels,
            v.collection,
            v.owner,
            v.owner_id,
            v.relation_id,
            v.relation_owner_id,
            v.credentials,
            v.credentials_key,
            v.schedule,
            v.max_retries,
            v.timeout,
            v.suspend,
            v.drift_policy,
            v.max_documents,
            v.max_bytes,
            v.display_name,
            v.labels,
            v.annotations,
            v.generation,
            v.created_at,
            v.updated_at,
            v.next_run,
            v.retry_at,
            v.attempt,
            v.throttled,
            v.booted_at,
            v.observed_generation,
            v.last_run_id,
            v.last_commit,
            v.last_indexed,
            v.successful_run_count,
            v.error_run_count,
            v.documents,
            v.drift_checked_at,
            v.conditions,
            v.is_visible,
            l.hash,
            (pg_is_in_recovery() OR (EXISTS ( SELECT
                   FROM locks
                  WHERE ((locks.purpose = rag_internal.lock_purpose('sync'::text)) AND (locks.source_hash = l.hash))))) AS is_busy
           FROM rag_internal.monitored_source v,
            LATERAL ( SELECT rag_internal.source_hash(v.name) AS source_hash) l(hash)) s
     LEFT JOIN LATERAL ( SELECT a.run_id,
            a.trigger,
            a.is_lost,
                CASE
                    WHEN (NOT a.is_lost) THEN a.phase
                    ELSE NULL::text
                END AS active_phase
           FROM ( SELECT q.run_id,
                    q.phase,
                    q.trigger,
                    ((q.phase = 'Running'::text) AND (NOT s.is_busy) AND rag_internal.has_not_ended(q.run_id)) AS is_lost
                   FROM rag_internal.run q
                  WHERE ((q.source = s.name) AND (q.phase = ANY (ARRAY['Pending'::text, 'Running'::text])))) a) c ON (true))
     LEFT JOIN rag_internal.run r ON ((r.run_id =
        CASE
            WHEN c.is_lost THEN c.run_id
            ELSE s.last_run_id
        END)));
CREATE OR REPLACE VIEW rag.sources WITH (security_barrier=true) AS
 SELECT monitored_sources.name,
    monitored_sources.kind,
    monitored_sources.collection,
    monitored_sources.schedule,
    monitored_sources.suspend,
    monitored_sources.phase,
    monitored_sources.resource_ready,
    monitored_sources.scheduled,
    monitored_sources.indexing,
    monitored_sources.error,
    monitored_sources.last_indexed,
    monitored_sources.last_commit,
    monitored_sources.successful_run_count,
    monitored_sources.error_run_count,
    monitored_sources.documents_processed,
    monitored_sources.documents_with_warnings,
    monitored_sources.next_scheduled_run,
    monitored_sources.next_retry,
    monitored_sources.observed_generation,
    monitored_sources.generation,
    monitored_sources.current_run_id,
    monitored_sources.last_run_id,
    monitored_sources.last_run_duration_seconds,
    monitored_sources.errors,
    monitored_sources.conditions,
    monitored_sources.created_at,
    monitored_sources.age,
    monitored_sources.spec,
    monitored_sources.owner,
    monitored_sources.credentials,
    monitored_sources.max_retries,
    monitored_sources.timeout,
    monitored_sources.drift_policy,
    monitored_sources.drift_checked_at,
    monitored_sources.uid,
    monitored_sources.namespace,
    monitored_sources.display_name,
    monitored_sources.labels,
    monitored_sources.annotations,
    monitored_sources.max_documents,
    monitored_sources.max_bytes
   FROM rag_internal.monitored_sources
  WHERE monitored_sources.is_visible;
CREATE OR REPLACE VIEW rag.collection_sizes AS
 SELECT monitored_collection_status.name AS collection,
    monitored_collection_status.document_count AS documents,
    monitored_collection_status.chunk_count AS chunks,
    monitored_collection_status.text_bytes,
    monitored_collection_status.chunk_bytes,
    monitored_collection_status.embedding_bytes,
    monitored_collection_status.index_bytes,
    monitored_collection_status.total_size_bytes AS total_bytes
   FROM rag_internal.monitored_collection_status() monitored_collection_status(name, document_count, error_count, chunk_count, total_size_bytes, text_bytes, chunk_bytes, embedding_bytes, index_bytes, state, detail, vector_index_bytes, keyword_index_bytes);
CREATE OR REPLACE VIEW rag_internal.monitored_total WITH (security_barrier=true) AS
 SELECT t.source,
    t.collection,
    t.phase,
    t.runs,
    t.documents_added,
    t.documents_updated,
    t.documents_deleted,
    t.documents_unchanged,
    t.documents_failed,
    t.chunks_written,
    t.chunks_embedded,
    t.chunks_reused,
    t.bytes_fetched,
    t.fetch_seconds,
    t.extract_seconds,
    t.embed_seconds,
    t.store_seconds,
    t.model_tokens,
    t.model_cost,
    t.duration_seconds,
    t.duration_counts
   FROM (rag_internal.run_total t
     JOIN rag_internal.monitored_source s ON ((s.name = t.source)))
  WHERE ((s.is_visible AND (t.collection = s.collection)) OR (s.is_visible AND (t.collection = ANY (( SELECT rag_internal.overseen_collections() AS overseen_collections)::text[]))) OR ( SELECT rag_internal.is_monitor() AS is_monitor));
CREATE OR REPLACE VIEW rag_internal.run_sums WITH (security_barrier=true) AS
 SELECT runs.source,
    runs.collection,
    runs.phase,
    sum(runs.runs) AS runs,
    sum(runs.documents_added) AS documents_added,
    sum(runs.documents_updated) AS documents_updated,
    sum(runs.documents_deleted) AS documents_deleted,
    sum(runs.documents_unchanged) AS documents_unchanged,
    sum(runs.documents_failed) AS documents_failed,
    sum(runs.chunks_written) AS chunks_written,
    sum(runs.chunks_embedded) AS chunks_embedded,
    sum(runs.chunks_reused) AS chunks_reused,
    sum(runs.bytes_fetched) AS bytes_fetched,
    sum(runs.fetch_seconds) AS fetch_seconds,
    sum(runs.extract_seconds) AS extract_seconds,
    sum(runs.embed_seconds) AS embed_seconds,
    sum(runs.store_seconds) AS store_seconds,
    sum(runs.model_tokens) AS model_tokens,
    sum(runs.model_cost) AS model_cost
   FROM ( SELECT r.source,
            r.collection,
            r.phase,
            (1)::bigint AS runs,
            r.documents_added,
            r.documents_updated,
            r.documents_deleted,
            r.documents_unchanged,
            r.documents_failed,
            r.chunks_written,
            r.chunks_embedded,
            r.chunks_reused,
            r.bytes_fetched,
            r.fetch_seconds,
            r.extract_seconds,
            r.embed_seconds,
            r.store_seconds,
            r.model_tokens,
            r.model_cost
           FROM rag_internal.monitored_run r
          WHERE (r.phase = ANY (ARRAY['Completed'::text, 'Failed'::text]))
        UNION ALL
         SELECT t.source,
            t.collection,
            t.phase,
            t.runs,
            t.documents_added,
            t.documents_updated,
            t.documents_deleted,
            t.documents_unchanged,
            t.documents_failed,
            t.chunks_written,
            t.chunks_embedded,
            t.chunks_reused,
            t.bytes_fetched,
            t.fetch_seconds,
            t.extract_seconds,
            t.embed_seconds,
            t.store_seconds,
            t.model_tokens,
            t.model_cost
           FROM rag_internal.monitored_total t) runs
  GROUP BY runs.source, runs.collection, runs.phase;
CREATE OR REPLACE VIEW rag_internal.run_durations WITH (security_barrier=true) AS
 SELECT runs.source,
    runs.collection,
    runs.part,
    runs.limit_seconds,
    sum(runs.counted) AS value
   FROM ( SELECT r.source,
            r.collection,
            m.part,
            m.limit_seconds,
            m.counted
           FROM ( SELECT monitored_run.run_id,
                    monitored_run.source,
                    monitored_run.collection,
                    monitored_run.trigger,
                    monitored_run.attempt,
                    monitored_run.generation,
                    monitored_run.phase,
                    monitored_run.waiting,
                    monitored_run.stage,
                    monitored_run.queued_at,
                    monitored_run.started_at,
                    monitored_run.updated_at,
                    monitored_run.finished_at,
                    monitored_run.documents_total,
                    monitored_run.documents_listed,
                    monitored_run.addresses_waiting,
                    monitored_run.documents_added,
                    monitored_run.documents_updated,
                    monitored_run.documents_deleted,
                    monitored_run.documents_unchanged,
                    monitored_run.documents_failed,
                    monitored_run.documents_with_warnings,
                    monitored_run.files_skipped,
                    monitored_run.chunks_written,
                    monitored_run.chunks_embedded,
                    monitored_run.chunks_reused,
                    monitored_run.bytes_fetched,
                    monitored_run.fetch_seconds,
                    monitored_run.extract_seconds,
                    monitored_run.embed_seconds,
                    monitored_run.store_seconds,
                    monitored_run.model_tokens,
                    monitored_run.model_cost,
                    monitored_run.commit,
                    monitored_run.current_uri,
                    monitored_run.note,
                    monitored_run.error,
                    monitored_run.stall_logged,
                    monitored_run.is_visible,
                    (COALESCE(EXTRACT(epoch FROM (monitored_run.finished_at - monitored_run.started_at)), (0)::numeric))::double precision AS seconds
                   FROM rag_internal.monitored_run
                  WHERE (monitored_run.phase = ANY (ARRAY['Completed'::text, 'Failed'::text]))) r,
            LATERAL ( SELECT 'bucket'::text AS "?column?",
                    l.l,
                    (((r.seconds <= l.l))::integer)::double precision AS float8
                   FROM unnest(rag_internal.run_duration_limits()) l(l)
                UNION ALL
                 VALUES ('bucket'::text,'Infinity'::double precision,1), ('sum'::text,NULL::double precision,r.seconds), ('count'::text,NULL::double precision,1)) m(part, limit_seconds, counted)
        UNION ALL
         SELECT t.source,
            t.collection,
            m.part,
            m.limit_seconds,
            m.counted
           FROM rag_internal.monitored_total t,
            LATERAL ( SELECT 'bucket'::text AS "?column?",
                    l.seconds,
                    (l.counted)::double precision AS counted
                   FROM UNNEST(rag_internal.run_duration_limits(), t.duration_counts) l(seconds, counted)
                UNION ALL
                 VALUES ('bucket'::text,'Infinity'::double precision,t.runs), ('sum'::text,NULL::double precision,t.duration_seconds), ('count'::text,NULL::double precision,t.runs)) m(part, limit_seconds, counted)) runs
  GROUP BY runs.source, runs.collection, runs.part, runs.limit_seconds;
CREATE OR REPLACE VIEW rag_internal.monitored_queue WITH (security_barrier=true) AS
 SELECT q.collection,
    q.queued_at
   FROM rag_internal.queued_document q
  WHERE ((q.status = 'queued'::text) AND (pg_has_role(q.owner_id, 'USAGE'::text) OR (q.collection = ANY (( SELECT rag_internal.writable_collections() AS writable_collections)::text[])) OR ( SELECT rag_internal.is_monitor() AS is_monitor)));
CREATE OR REPLACE VIEW rag_internal.source_coverage WITH (security_barrier=true) AS
 SELECT s.name AS source,
    s.collection,
    COALESCE(d.current, (0)::bigint) AS current,
    COALESCE(d.failed, (0)::bigint) AS failed,
    ( SELECT count(*) AS count
           FROM rag_internal.table_change c
          WHERE (c.source = s.name)) AS waiting,
    ( SELECT EXTRACT(epoch FROM (clock_timestamp() - max(p.latest_end_time))) AS "extract"
           FROM (pg_subscription_rel r
             JOIN pg_stat_subscription p ON ((p.subid = r.srsubid)))
          WHERE (r.srrelid = s.relation_id)) AS replication_age
   FROM (rag_internal.monitored_source s
     LEFT JOIN ( SELECT documents.collection,
            documents.source,
            count(*) FILTER (WHERE (documents.status <> 'error'::text)) AS current,
            count(*) FILTER (WHERE (documents.status = 'error'::text)) AS failed
           FROM rag.documents
          WHERE (documents.source IS NOT NULL)
          GROUP BY documents.collection, documents.source) d ON (((d.collection = s.collection) AND (d.source = s.name))));
CREATE OR REPLACE VIEW rag.relation_sizes AS
 SELECT format('%I.%I'::text, n.nspname, r.relname) AS relation,
    r.collections,
    r.main AS table_bytes,
    ((r.total - r.main) - r.indexes) AS toast_bytes,
    r.indexes AS index_bytes,
    r.total AS total_bytes
   FROM (( SELECT c.oid,
            c.relname,
            c.relnamespace,
            pg_total_relation_size((c.oid)::regclass) AS total,
            pg_indexes_size((c.oid)::regclass) AS indexes,
            ( SELECT (sum(pg_relation_size((c.oid)::regclass, f.f)))::bigint AS sum
                   FROM unnest('{main,fsm,vm,init}'::text[]) f(f)) AS main,
            ( SELECT array_agg(k.name ORDER BY k.name) AS array_agg
                   FROM rag_internal.collection k
                  WHERE (((k.partition)::name = c.relname) AND (c.relnamespace = ('rag_internal'::regnamespace)::oid) AND ((k.name = ANY (( SELECT rag_internal.readable_collections() AS readable_collections)::text[])) OR ( SELECT rag_internal.is_monitor() AS is_monitor)))) AS collections
           FROM pg_class c
          WHERE ((c.relkind = ANY (ARRAY['r'::"char", 'm'::"char", 'S'::"char"])) AND ((EXISTS ( SELECT
                   FROM (pg_depend d
                     JOIN pg_extension e ON ((e.oid = d.refobjid)))
                  WHERE ((d.classid = ('pg_class'::regclass)::oid) AND (d.objid = c.oid) AND (d.refclassid = ('pg_extension'::regclass)::oid) AND (d.deptype = 'e'::"char") AND (e.extname = 'rag'::name)))) OR (EXISTS ( SELECT
                   FROM pg_inherits i
                  WHERE ((i.inhrelid = c.oid) AND (i.inhparent = to_regclass('rag.chunks'::text)))))))) r
     JOIN pg_namespace n ON ((n.oid = r.relnamespace)));
CREATE OR REPLACE VIEW rag.metrics AS
 SELECT m.name,
    jsonb_strip_nulls(jsonb_build_object('collection', s.collection, 'mode', s.mode, 'part', m.part)) AS labels,
    m.value
   FROM rag.search_stats s,
    LATERAL ( VALUES ('rag_searches_total'::text,NULL::text,s.calls), ('rag_search_errors_total'::text,NULL::text,s.errors), ('rag_search_rows_total'::text,NULL::text,s.rows), ('rag_search_empty_total'::text,NULL::text,s.empty), ('rag_search_fewer_total'::text,NULL::text,s.fewer), ('rag_search_degraded_total'::text,NULL::text,s.degraded), ('rag_search_seconds_total'::text,'embedding'::text,(s.embedding_total_ms / (1000)::double precision)), ('rag_search_seconds_total'::text,'vector'::text,(s.vector_total_ms / (1000)::double precision)), ('rag_search_seconds_total'::text,'keyword'::text,(s.keyword_total_ms / (1000)::double precision)), ('rag_search_seconds_total'::text,'fusion'::text,(s.fusion_total_ms / (1000)::double precision)), ('rag_search_seconds_total'::text,'all'::text,(s.total_ms / (1000)::double precision))) m(name, part, value)
UNION ALL
 SELECT m.name,
    jsonb_strip_nulls(jsonb_build_object('collection', s.collection, 'mode', s.mode, 'le', m.le)) AS labels,
    m.value
   FROM rag_internal.search_durations() s(collection, mode, limits, counts, count, sum),
    LATERAL ( SELECT 'rag_search_duration_seconds_bucket'::text AS "?column?",
            rag_internal.metric_limit(b.le) AS metric_limit,
            b.counted
           FROM UNNEST(s.limits, s.counts) b(le, counted)
        UNION ALL
         VALUES ('rag_search_duration_seconds_bucket'::text,'+Inf'::text,s.count), ('rag_search_duration_seconds_sum'::text,NULL::text,s.sum), ('rag_search_duration_seconds_count'::text,NULL::text,s.count)) m(name, le, value)
UNION ALL
 SELECT m.name,
    jsonb_strip_nulls(jsonb_build_object('operation', o.operation, 'collection', o.collection, 'result', m.result)) AS labels,
    m.value
   FROM rag_internal.operation_statistics() o(operation, collection, successes, failures, seconds),
    LATERAL ( VALUES ('rag_operations_total'::text,'success'::text,o.successes), ('rag_operations_total'::text,'failure'::text,o.failures), ('rag_operation_seconds_total'::text,NULL::text,o.seconds)) m(name, result, value)
UNION ALL
 SELECT m.name,
    jsonb_strip_nulls(jsonb_build_object('source', r.source, 'collection', r.collection, 'phase', r.phase, m.label, m.of)) AS labels,
    m.value
   FROM rag_internal.run_sums r,
    LATERAL ( VALUES ('rag_runs_total'::text,'of'::text,NULL::text,r.runs), ('rag_run_documents_total'::text,'result'::text,'added'::text,r.documents_added), ('rag_run_documents_total'::text,'result'::text,'updated'::text,r.documents_updated), ('rag_run_documents_total'::text,'result'::text,'deleted'::text,r.documents_deleted), ('rag_run_documents_total'::text,'result'::text,'unchanged'::text,r.documents_unchanged), ('rag_run_documents_total'::text,'result'::text,'failed'::text,r.documents_failed), ('rag_run_chunks_total'::text,'result'::text,'written'::text,r.chunks_written), ('rag_run_chunks_total'::text,'result'::text,'embedded'::text,r.chunks_embedded), ('rag_run_chunks_total'::text,'result'::text,'reused'::text,r.chunks_reused), ('rag_run_fetched_bytes_total'::text,'of'::text,NULL::text,r.bytes_fetched), ('rag_run_model_tokens_total'::text,'of'::text,NULL::text,r.model_tokens), ('rag_run_model_cost_total'::text,'of'::text,NULL::text,COALESCE(r.model_cost, (0)::numeric)), ('rag_run_seconds_total'::text,'stage'::text,'fetch'::text,r.fetch_seconds), ('rag_run_seconds_total'::text,'stage'::text,'extract'::text,r.extract_seconds), ('rag_run_seconds_total'::text,'stage'::text,'embed'::text,r.embed_seconds), ('rag_run_seconds_total'::text,'stage'::text,'store'::text,r.store_seconds)) m(name, label, of, value)
UNION ALL
 SELECT
        CASE d.part
            WHEN 'bucket'::text THEN 'rag_run_duration_seconds_bucket'::text
            WHEN 'sum'::text THEN 'rag_run_duration_seconds_sum'::text
            ELSE 'rag_run_duration_seconds_count'::text
        END AS name,
    jsonb_strip_nulls(jsonb_build_object('source', d.source, 'collection', d.collection, 'le', rag_internal.metric_limit(d.limit_seconds))) AS labels,
    d.value
   FROM rag_internal.run_durations d
UNION ALL
 SELECT m.name,
    jsonb_build_object('source', r.source, 'collection', r.collection) AS labels,
    (EXTRACT(epoch FROM m.age))::double precision AS value
   FROM rag_internal.monitored_run r,
    LATERAL ( VALUES ('rag_run_age_seconds'::text,(clock_timestamp() - r.started_at)), ('rag_run_idle_seconds'::text,(clock_timestamp() - r.updated_at))) m(name, age)
  WHERE (r.phase = 'Running'::text)
UNION ALL
 SELECT m.name,
    '{}'::jsonb AS labels,
    m.value
   FROM ( SELECT count(*) AS waiting,
            COALESCE(EXTRACT(epoch FROM (clock_timestamp() - min(monitored_run.queued_at))), (0)::numeric) AS age
           FROM rag_internal.monitored_run
          WHERE (monitored_run.phase = 'Pending'::text)) q,
    LATERAL ( VALUES ('rag_runs_pending'::text,(q.waiting)::double precision), ('rag_oldest_pending_run_age_seconds'::text,(q.age)::double precision)) m(name, value)
UNION ALL
 SELECT m.name,
    '{}'::jsonb AS labels,
    m.value
   FROM ( SELECT count(*) AS waiting,
            COALESCE(EXTRACT(epoch FROM (clock_timestamp() - min(monitored_queue.queued_at))), (0)::numeric) AS age
           FROM rag_internal.monitored_queue) q,
    LATERAL ( VALUES ('rag_queued_documents'::text,(q.waiting)::double precision), ('rag_oldest_queued_document_age_seconds'::text,(q.age)::double precision)) m(name, value)
UNION ALL
 SELECT m.name,
    jsonb_strip_nulls(jsonb_build_object('source', c.source, 'collection', c.collection, 'state', m.state)) AS labels,
    m.value
   FROM rag_internal.source_coverage c,
    LATERAL ( VALUES ('rag_source_documents'::text,'current'::text,(c.current)::double precision), ('rag_source_documents'::text,'failed'::text,(c.failed)::double precision), ('rag_source_waiting_changes'::text,NULL::text,(c.waiting)::double precision), ('rag_source_replication_age_seconds'::text,NULL::text,(c.replication_age)::double precision)) m(name, state, value)
  WHERE (m.value IS NOT NULL)
UNION ALL
 SELECT m.name,
    jsonb_strip_nulls(jsonb_build_object('collection', c.name, m.label, m.of)) AS labels,
    m.value
   FROM rag_internal.monitored_collection_status() c(name, document_count, error_count, chunk_count, total_size_bytes, text_bytes, chunk_bytes, embedding_bytes, index_bytes, state, detail, vector_index_bytes, keyword_index_bytes),
    LATERAL ( VALUES ('rag_documents'::text,'of'::text,NULL::text,c.document_count), ('rag_document_errors'::text,'of'::text,NULL::text,c.error_count), ('rag_collection_current_ratio'::text,'of'::text,NULL::text,((c.document_count)::double precision / (NULLIF((c.document_count + c.error_count), 0))::double precision)), ('rag_chunks'::text,'of'::text,NULL::text,c.chunk_count), ('rag_collection_damaged'::text,'of'::text,NULL::text,((c.state = 'damaged'::text))::integer), ('rag_collection_bytes'::text,'part'::text,'texts'::text,c.text_bytes), ('rag_collection_bytes'::text,'part'::text,'chunks'::text,c.chunk_bytes), ('rag_collection_bytes'::text,'part'::text,'embeddings'::text,c.embedding_bytes), ('rag_collection_bytes'::text,'part'::text,'indexes'::text,c.index_bytes), ('rag_index_bytes'::text,'index'::text,'vector'::text,c.vector_index_bytes), ('rag_index_bytes'::text,'index'::text,'keyword'::text,c.keyword_index_bytes)) m(name, label, of, value)
  WHERE (m.value IS NOT NULL)
UNION ALL
 SELECT m.name,
    '{}'::jsonb AS labels,
    (m.value)::double precision AS value
   FROM rag.embedding_cache e,
    LATERAL ( VALUES ('rag_embedding_cache_entries'::text,e.entries), ('rag_embedding_cache_bytes'::text,e.bytes)) m(name, value)
UNION ALL
 SELECT 'rag_damaged_relations'::text AS name,
    '{}'::jsonb AS labels,
    (count(*))::double precision AS value
   FROM rag_internal.damaged_relations() damaged_relations(relation, kind, table_id, relation_id, problem, remedy, noticed_at)
UNION ALL
 SELECT 'rag_runs_stalled'::text AS name,
    '{}'::jsonb AS labels,
    (count(*))::double precision AS value
   FROM rag_internal.monitored_run r
  WHERE ((r.phase = 'Running'::text) AND rag_internal.is_stalled(r.updated_at))
UNION ALL
 SELECT m.name,
    jsonb_build_object('source', s.name, 'collection', s.collection) AS labels,
    m.value
   FROM (rag_internal.monitored_sources s
     LEFT JOIN rag.runs r ON ((r.run_id = s.last_run_id))),
    LATERAL ( VALUES ('rag_source_suspended'::text,((s.suspend)::integer)::double precision), ('rag_source_failed'::text,((COALESCE((r.phase = 'Failed'::text), false))::integer)::double precision), ('rag_source_last_success_timestamp_seconds'::text,(EXTRACT(epoch FROM s.last_indexed))::double precision), ('rag_source_schedule_lag_seconds'::text,(
                CASE
                    WHEN ((s.current_run_id IS NULL) AND isfinite(s.next_scheduled_run)) THEN GREATEST(EXTRACT(epoch FROM (clock_timestamp() - s.next_scheduled_run)), (0)::numeric)
                    ELSE (0)::numeric
                END)::double precision)) m(name, value)
  WHERE (m.value IS NOT NULL)
UNION ALL
 SELECT 'rag_database_bytes'::text AS name,
    '{}'::jsonb AS labels,
    (sum(z.total_bytes))::double precision AS value
   FROM rag.relation_sizes z
UNION ALL
 SELECT 'rag_metrics_timestamp_seconds'::text AS name,
    '{}'::jsonb AS labels,
    (EXTRACT(epoch FROM clock_timestamp()))::double precision AS value
UNION ALL
 SELECT m.name,
    '{}'::jsonb AS labels,
    m.value
   FROM rag_internal.server_metrics() m(name, value);
DROP VIEW rag_internal.visible_run;
DROP VIEW rag_internal.visible_source;
COMMENT ON COLUMN rag.collection_sizes.total_bytes IS 'sum of these sizes; rag.relation_sizes has what else the extension occupies';
COMMENT ON COLUMN rag.relation_sizes.collections IS 'collections whose chunks it has; NULL: it has something of all collections';
COMMENT ON COLUMN rag.relation_sizes.index_bytes IS 'size of the indexes';
COMMENT ON COLUMN rag.relation_sizes.relation IS 'name of the table or sequence, with its schema';
COMMENT ON COLUMN rag.relation_sizes.table_bytes IS 'size of the rows';
COMMENT ON COLUMN rag.relation_sizes.toast_bytes IS 'size of long values of the rows, which PostgreSQL keeps apart';
COMMENT ON COLUMN rag.relation_sizes.total_bytes IS 'sum of these sizes';
COMMENT ON COLUMN rag.runs.errors IS 'why the run failed: {sqlstate, message, detail, hint, throttled, retry_after_seconds}; without texts for members of pg_monitor that may not see the source; errors of single documents are in rag.run_errors';
COMMENT ON FUNCTION @extschema@.rag_metrics_text(boolean) IS 'returns metrics as text in the format OpenMetrics, or in that of Prometheus; for members of pg_monitor, those of all databases';
COMMENT ON FUNCTION rag_api.metrics(pg_catalog.jsonb) IS 'metrics in Prometheus'' text format or OpenMetrics; with a key also those that rag_metrics_text() returns';
COMMENT ON FUNCTION rag_internal.embedding_cache_size() IS 'size of the cache of embeddings, for members of rag_admin and pg_monitor; use rag.embedding_cache instead';
COMMENT ON FUNCTION rag_internal.error_kind(pg_catalog.jsonb) IS 'an error of a run without its texts';
COMMENT ON FUNCTION rag_internal.is_monitor() IS 'true if the current role has the privileges of pg_monitor';
COMMENT ON FUNCTION rag_internal.metric_limit(double precision) IS 'a limit of a histogram, as text';
COMMENT ON FUNCTION rag_internal.monitored_collection_status() IS 'content, size and state of collections that the caller may read or monitor, without details of those that it may not read; use rag_collection_status instead';
COMMENT ON FUNCTION rag_internal.operation_statistics() IS 'counts and times of operations on collections that the caller may read or monitor; use rag.metrics instead';
COMMENT ON FUNCTION rag_internal.run_duration_limits() IS 'upper limits of the histogram of durations of runs, in seconds';
COMMENT ON FUNCTION rag_internal.search_durations() IS 'histogram of the times of searches in collections that the caller may read or monitor, in seconds; use rag.metrics instead';
COMMENT ON FUNCTION rag_internal.search_statistics() IS 'counts and times of searches in collections that the caller may read or monitor; use rag.search_stats instead';
COMMENT ON FUNCTION rag_internal.server_metrics() IS 'slots and engine of the server, for members of rag_admin and pg_monitor; use rag.metrics instead';
COMMENT ON VIEW rag.relation_sizes IS 'disk space of each table and sequence of the extension in this database';
COMMENT ON VIEW rag_internal.monitored_collection IS 'collections that the caller can read or monitor; use rag.collections instead';
COMMENT ON VIEW rag_internal.monitored_queue IS 'documents that wait to be indexed, as far as the caller can see or monitor them; use rag.metrics instead';
COMMENT ON VIEW rag_internal.monitored_run IS 'runs that the caller can see or monitor; use rag.runs instead';
COMMENT ON VIEW rag_internal.monitored_source IS 'sources that the caller can see or monitor; use rag.sources instead';
COMMENT ON VIEW rag_internal.monitored_sources IS 'sources that the caller can see or monitor, with their status; use rag.sources instead';
COMMENT ON VIEW rag_internal.monitored_total IS 'sums over deleted runs of sources that the caller can see or monitor; use rag.metrics instead';
COMMENT ON VIEW rag_internal.run_durations IS 'histogram of the durations of ended runs; use rag.metrics instead';
COMMENT ON VIEW rag_internal.run_sums IS 'sums over all runs of sources that the caller can see or monitor; use rag.metrics instead';
COMMENT ON VIEW rag_internal.source_coverage IS 'documents and waiting changes of sources that the caller can see or monitor; use rag.metrics instead';
REVOKE ALL ON FUNCTION @extschema@.rag_metrics_text(boolean) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION @extschema@.rag_metrics_text(boolean) TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.rag_metrics_text(boolean) TO rag_reader;
REVOKE ALL ON FUNCTION @extschema@.rag_status() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION @extschema@.rag_status() TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.rag_status() TO rag_reader;
REVOKE ALL ON FUNCTION rag.why_idle() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag.why_idle() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag.why_idle() TO rag_reader;
REVOKE ALL ON FUNCTION rag_api.metrics(pg_catalog.jsonb) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_api.metrics(pg_catalog.jsonb) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_api.metrics(pg_catalog.jsonb) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.current_model() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.current_model() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.current_model() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.damaged_relations() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.damaged_relations() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.damaged_relations() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.embedding_cache_size() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.embedding_cache_size() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.embedding_cache_size() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.error_kind(pg_catalog.jsonb) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.error_kind(pg_catalog.jsonb) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.error_kind(pg_catalog.jsonb) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.explain_damage(pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.explain_damage(pg_catalog.text) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.explain_damage(pg_catalog.text) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.failed_removals() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.failed_removals() TO PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.failed_removals() TO pg_monitor;
REVOKE ALL ON FUNCTION rag_internal.has_condition(pg_catalog.jsonb,pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.has_condition(pg_catalog.jsonb,pg_catalog.text) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.has_condition(pg_catalog.jsonb,pg_catalog.text) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.has_not_ended(bigint) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.has_not_ended(bigint) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.has_not_ended(bigint) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.has_scheduler() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.has_scheduler() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.has_scheduler() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.is_in_progress(pg_catalog.text,pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.is_in_progress(pg_catalog.text,pg_catalog.text) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.is_in_progress(pg_catalog.text,pg_catalog.text) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.is_monitor() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.is_monitor() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.is_monitor() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.is_preloaded() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.is_preloaded() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.is_preloaded() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.is_stalled(timestamp with time zone) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.is_stalled(timestamp with time zone) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.is_stalled(timestamp with time zone) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.is_syncing(pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.is_syncing(pg_catalog.text) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.is_syncing(pg_catalog.text) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.library_version() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.library_version() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.library_version() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.lock_purpose(pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.lock_purpose(pg_catalog.text) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.lock_purpose(pg_catalog.text) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.lost_run_error() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.lost_run_error() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.lost_run_error() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.metric_limit(double precision) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.metric_limit(double precision) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.metric_limit(double precision) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.monitored_collection_status() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.monitored_collection_status() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.monitored_collection_status() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.operation_statistics() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.operation_statistics() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.operation_statistics() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.overseen_collections() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.overseen_collections() TO PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.overseen_collections() TO pg_monitor;
REVOKE ALL ON FUNCTION rag_internal.readable_collections() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.readable_collections() TO PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.readable_collections() TO pg_monitor;
REVOKE ALL ON FUNCTION rag_internal.run_duration_limits() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.run_duration_limits() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.run_duration_limits() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.run_phase(pg_catalog.text,boolean) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.run_phase(pg_catalog.text,boolean) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.run_phase(pg_catalog.text,boolean) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.scheduler_lock_key() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.scheduler_lock_key() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.scheduler_lock_key() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.search_durations() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.search_durations() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.search_durations() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.search_statistics() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.search_statistics() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.search_statistics() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.sees_all_chunks() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.sees_all_chunks() TO PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.sees_all_chunks() TO pg_monitor;
REVOKE ALL ON FUNCTION rag_internal.sees_uri(pg_catalog.text,pg_catalog.text,pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.sees_uri(pg_catalog.text,pg_catalog.text,pg_catalog.text) TO PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.sees_uri(pg_catalog.text,pg_catalog.text,pg_catalog.text) TO pg_monitor;
REVOKE ALL ON FUNCTION rag_internal.server_metrics() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.server_metrics() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.server_metrics() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.source_hash(pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.source_hash(pg_catalog.text) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.source_hash(pg_catalog.text) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.source_locks() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.source_locks() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.source_locks() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.source_phase(boolean,pg_catalog.text,pg_catalog.text,boolean,boolean,pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.source_phase(boolean,pg_catalog.text,pg_catalog.text,boolean,boolean,pg_catalog.text) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.source_phase(boolean,pg_catalog.text,pg_catalog.text,boolean,boolean,pg_catalog.text) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.why_waiting() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.why_waiting() TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.why_waiting() TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.without_scheduler(pg_catalog.jsonb,pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.without_scheduler(pg_catalog.jsonb,pg_catalog.text) TO pg_monitor;
GRANT EXECUTE ON FUNCTION rag_internal.without_scheduler(pg_catalog.jsonb,pg_catalog.text) TO rag_reader;
REVOKE ALL ON FUNCTION rag_internal.writable_collections() FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.writable_collections() TO PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.writable_collections() TO pg_monitor;
REVOKE ALL ON SCHEMA rag_api FROM PUBLIC, rag_reader, rag_admin;
GRANT USAGE ON SCHEMA rag_api TO pg_monitor;
GRANT USAGE ON SCHEMA rag_api TO rag_gateway;
GRANT USAGE ON SCHEMA rag_api TO rag_reader;
REVOKE ALL ON TABLE rag.collection_sizes FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag.collection_sizes TO pg_monitor;
GRANT SELECT ON TABLE rag.collection_sizes TO rag_reader;
REVOKE ALL ON TABLE rag.damage FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag.damage TO pg_monitor;
GRANT SELECT ON TABLE rag.damage TO rag_reader;
REVOKE ALL ON TABLE rag.embedding_cache FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag.embedding_cache TO pg_monitor;
GRANT SELECT ON TABLE rag.embedding_cache TO rag_reader;
REVOKE ALL ON TABLE rag.metrics FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag.metrics TO pg_monitor;
GRANT SELECT ON TABLE rag.metrics TO rag_reader;
REVOKE ALL ON TABLE rag.progress FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag.progress TO pg_monitor;
GRANT SELECT ON TABLE rag.progress TO rag_reader;
REVOKE ALL ON TABLE rag.relation_sizes FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag.relation_sizes TO pg_monitor;
GRANT SELECT ON TABLE rag.relation_sizes TO rag_reader;
REVOKE ALL ON TABLE rag.runs FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag.runs TO pg_monitor;
GRANT SELECT ON TABLE rag.runs TO rag_reader;
REVOKE ALL ON TABLE rag.search_stats FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag.search_stats TO pg_monitor;
GRANT SELECT ON TABLE rag.search_stats TO rag_reader;
REVOKE ALL ON TABLE rag_internal.monitored_collection FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag_internal.monitored_collection TO pg_monitor;
GRANT SELECT ON TABLE rag_internal.monitored_collection TO rag_reader;
REVOKE ALL ON TABLE rag_internal.monitored_queue FROM PUBLIC, rag_reader, rag_admin;
REVOKE ALL ON TABLE rag_internal.monitored_run FROM PUBLIC, rag_reader, rag_admin;
REVOKE ALL ON TABLE rag_internal.monitored_source FROM PUBLIC, rag_reader, rag_admin;
REVOKE ALL ON TABLE rag_internal.monitored_sources FROM PUBLIC, rag_reader, rag_admin;
GRANT SELECT ON TABLE rag_internal.monitored_sources TO pg_monitor;
GRANT SELECT ON TABLE rag_internal.monitored_sources TO rag_reader;
REVOKE ALL ON TABLE rag_internal.monitored_total FROM PUBLIC, rag_reader, rag_admin;
REVOKE ALL ON TABLE rag_internal.run_durations FROM PUBLIC, rag_reader, rag_admin;
REVOKE ALL ON TABLE rag_internal.source_coverage FROM PUBLIC, rag_reader, rag_admin;

-- Sources with triggers get those for rows that are replicated, and read their tables once more.
-- Without these triggers, each run reads the whole table.
DO $$
DECLARE
    source record;
BEGIN
    FOR source IN
        SELECT s.name, s.spec FROM rag_internal.source s
        WHERE s.kind = 'table' AND s.spec ->> 'sync' = 'trigger' ORDER BY s.name
    LOOP
        BEGIN
            PERFORM @extschema@.rag_alter_source(source.name,
                spec => source.spec || '{"sync": "scan"}');
            PERFORM @extschema@.rag_alter_source(source.name, spec => source.spec);
        EXCEPTION WHEN others THEN
            RAISE WARNING 'source "%" keeps its triggers: %', source.name, SQLERRM
                USING HINT = 'Alter it to "sync": "scan" and back to "trigger" later.';
        END;
    END LOOP;
END $$;

-- A literal without a type remains a vector, now that functions also take halfvec. ALTER TYPE cannot
-- say so.
UPDATE pg_catalog.pg_type SET typispreferred = true
WHERE oid = 'rag_types.vector'::pg_catalog.regtype;
COMMENT ON SCHEMA rag_types IS 'the types of vectors of the extension rag';
COMMENT ON SCHEMA rag_functions IS
    'functions and operators of the extension rag that have the names of those of pgvector';

-- The type halfvec: vectors of 16-bit floats, with its functions, operators, casts and aggregates.
-- Names, signatures and behaviour are those of pgvector; only the schema of the type differs.

-- type
-- ----------------------------------------

CREATE TYPE rag_types.halfvec;

CREATE FUNCTION rag_internal.halfvec_in(cstring, oid, integer) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_in_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_out(rag_types.halfvec) RETURNS cstring
    AS 'MODULE_PATHNAME', 'halfvec_out_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_recv(internal, oid, integer) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_recv_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_send(rag_types.halfvec) RETURNS bytea
    AS 'MODULE_PATHNAME', 'halfvec_send_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_typmod_in(cstring[]) RETURNS integer
    AS 'MODULE_PATHNAME', 'halfvec_typmod_in_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE rag_types.halfvec (
    INPUT = rag_internal.halfvec_in,
    OUTPUT = rag_internal.halfvec_out,
    RECEIVE = rag_internal.halfvec_recv,
    SEND = rag_internal.halfvec_send,
    TYPMOD_IN = rag_internal.halfvec_typmod_in,
    STORAGE = external
);
COMMENT ON TYPE rag_types.halfvec IS
    'array of 16-bit floats with a fixed number of dimensions (1 to 16000); text form [1,2,3]';

-- functions
-- ----------------------------------------

CREATE FUNCTION rag_functions.l2_distance(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_l2_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_l2_squared_distance(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_l2_squared_distance_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.inner_product(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_inner_product_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_negative_inner_product(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_negative_inner_product_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.cosine_distance(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_cosine_distance_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.l1_distance(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_l1_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_dims(rag_types.halfvec) RETURNS integer
    AS 'MODULE_PATHNAME', 'halfvec_dims_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.l2_norm(rag_types.halfvec) RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_l2_norm_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.l2_normalize(rag_types.halfvec) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_l2_normalize_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.subvector(rag_types.halfvec, integer, integer)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_subvector_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.binary_quantize(rag_types.halfvec) RETURNS bit
    AS 'MODULE_PATHNAME', 'halfvec_binary_quantize_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_add(rag_types.halfvec, rag_types.halfvec)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_add_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_sub(rag_types.halfvec, rag_types.halfvec)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_sub_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_mul(rag_types.halfvec, rag_types.halfvec)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_mul_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_concat(rag_types.halfvec, rag_types.halfvec)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_concat_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_lt(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_lt_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_le(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_le_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_eq(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_eq_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_ne(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_ne_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_ge(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_ge_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_gt(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_gt_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_cmp(rag_types.halfvec, rag_types.halfvec) RETURNS integer
    AS 'MODULE_PATHNAME', 'halfvec_cmp_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION rag_functions.l2_distance(rag_types.halfvec, rag_types.halfvec) IS
    'Euclidean distance, also available as operator <->';
COMMENT ON FUNCTION rag_functions.halfvec_l2_squared_distance(
    rag_types.halfvec, rag_types.halfvec) IS
    'square of the Euclidean distance';
COMMENT ON FUNCTION rag_functions.inner_product(rag_types.halfvec, rag_types.halfvec) IS
    'inner product';
COMMENT ON FUNCTION rag_functions.halfvec_negative_inner_product(
    rag_types.halfvec, rag_types.halfvec) IS
    'negative inner product, also available as operator <#>';
COMMENT ON FUNCTION rag_functions.cosine_distance(rag_types.halfvec, rag_types.halfvec) IS
    '1 - cosine similarity (0 to 2), also available as operator <=>';
COMMENT ON FUNCTION rag_functions.l1_distance(rag_types.halfvec, rag_types.halfvec) IS
    'taxicab distance, also available as operator <+>';
COMMENT ON FUNCTION rag_functions.vector_dims(rag_types.halfvec) IS
    'number of dimensions';
COMMENT ON FUNCTION rag_functions.l2_norm(rag_types.halfvec) IS
    'Euclidean length';
COMMENT ON FUNCTION rag_functions.l2_normalize(rag_types.halfvec) IS
    'vector of length 1 with the same direction';
COMMENT ON FUNCTION rag_functions.subvector(rag_types.halfvec, integer, integer) IS
    'elements of a vector: position of the first, from 1, and their number';
COMMENT ON FUNCTION rag_functions.binary_quantize(rag_types.halfvec) IS
    'one bit for each element, 1 if the element is greater than zero';
COMMENT ON FUNCTION rag_functions.halfvec_add(rag_types.halfvec, rag_types.halfvec) IS
    'element-wise sum, also available as operator +';
COMMENT ON FUNCTION rag_functions.halfvec_sub(rag_types.halfvec, rag_types.halfvec) IS
    'element-wise difference, also available as operator -';
COMMENT ON FUNCTION rag_functions.halfvec_mul(rag_types.halfvec, rag_types.halfvec) IS
    'element-wise product, also available as operator *';
COMMENT ON FUNCTION rag_functions.halfvec_concat(rag_types.halfvec, rag_types.halfvec) IS
    'concatenation, also available as operator ||';
COMMENT ON FUNCTION rag_functions.halfvec_lt(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of < operator';
COMMENT ON FUNCTION rag_functions.halfvec_le(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of <= operator';
COMMENT ON FUNCTION rag_functions.halfvec_eq(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of = operator';
COMMENT ON FUNCTION rag_functions.halfvec_ne(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of <> operator';
COMMENT ON FUNCTION rag_functions.halfvec_ge(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of >= operator';
COMMENT ON FUNCTION rag_functions.halfvec_gt(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of > operator';
COMMENT ON FUNCTION rag_functions.halfvec_cmp(rag_types.halfvec, rag_types.halfvec) IS
    'less-equal-greater';

-- casts
-- ----------------------------------------

CREATE FUNCTION rag_internal.halfvec(rag_types.halfvec, integer, boolean) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_typmod_cast_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_halfvec(real[], integer, boolean) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'array_to_halfvec_real_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_halfvec(double precision[], integer, boolean)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'array_to_halfvec_double_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_halfvec(integer[], integer, boolean) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'array_to_halfvec_integer_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_halfvec(numeric[], integer, boolean) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'array_to_halfvec_numeric_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_to_float4(rag_types.halfvec, integer, boolean) RETURNS real[]
    AS 'MODULE_PATHNAME', 'halfvec_to_float4_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_to_vector(rag_types.halfvec, integer, boolean)
    RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'halfvec_to_vector_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.vector_to_halfvec(rag_types.vector, integer, boolean)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'vector_to_halfvec_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (rag_types.halfvec AS rag_types.halfvec)
    WITH FUNCTION rag_internal.halfvec(rag_types.halfvec, integer, boolean) AS IMPLICIT;
CREATE CAST (rag_types.halfvec AS rag_types.vector)
    WITH FUNCTION rag_internal.halfvec_to_vector(rag_types.halfvec, integer, boolean) AS ASSIGNMENT;
CREATE CAST (rag_types.vector AS rag_types.halfvec)
    WITH FUNCTION rag_internal.vector_to_halfvec(rag_types.vector, integer, boolean) AS IMPLICIT;
CREATE CAST (rag_types.halfvec AS real[])
    WITH FUNCTION rag_internal.halfvec_to_float4(rag_types.halfvec, integer, boolean) AS ASSIGNMENT;
CREATE CAST (real[] AS rag_types.halfvec)
    WITH FUNCTION rag_internal.array_to_halfvec(real[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (double precision[] AS rag_types.halfvec)
    WITH FUNCTION rag_internal.array_to_halfvec(double precision[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (integer[] AS rag_types.halfvec)
    WITH FUNCTION rag_internal.array_to_halfvec(integer[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (numeric[] AS rag_types.halfvec)
    WITH FUNCTION rag_internal.array_to_halfvec(numeric[], integer, boolean) AS ASSIGNMENT;

-- operators
-- ----------------------------------------

CREATE OPERATOR @extschema@.<-> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.l2_distance, COMMUTATOR = OPERATOR(@extschema@.<->));
CREATE OPERATOR @extschema@.<#> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_negative_inner_product,
    COMMUTATOR = OPERATOR(@extschema@.<#>));
CREATE OPERATOR @extschema@.<=> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.cosine_distance, COMMUTATOR = OPERATOR(@extschema@.<=>));
CREATE OPERATOR @extschema@.<+> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.l1_distance, COMMUTATOR = OPERATOR(@extschema@.<+>));
CREATE OPERATOR @extschema@.+ (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_add, COMMUTATOR = OPERATOR(@extschema@.+));
CREATE OPERATOR @extschema@.- (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_sub);
CREATE OPERATOR @extschema@.* (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_mul, COMMUTATOR = OPERATOR(@extschema@.*));
CREATE OPERATOR @extschema@.|| (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_concat);

CREATE OPERATOR @extschema@.< (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_lt,
    COMMUTATOR = OPERATOR(@extschema@.>), NEGATOR = OPERATOR(@extschema@.>=),
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
CREATE OPERATOR @extschema@.<= (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_le,
    COMMUTATOR = OPERATOR(@extschema@.>=), NEGATOR = OPERATOR(@extschema@.>),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
CREATE OPERATOR @extschema@.= (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_eq,
    COMMUTATOR = OPERATOR(@extschema@.=), NEGATOR = OPERATOR(@extschema@.<>),
    RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR @extschema@.<> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_ne,
    COMMUTATOR = OPERATOR(@extschema@.<>), NEGATOR = OPERATOR(@extschema@.=),
    RESTRICT = neqsel, JOIN = neqjoinsel);
CREATE OPERATOR @extschema@.>= (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_ge,
    COMMUTATOR = OPERATOR(@extschema@.<=), NEGATOR = OPERATOR(@extschema@.<),
    RESTRICT = scalargesel, JOIN = scalargejoinsel);
CREATE OPERATOR @extschema@.> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_gt,
    COMMUTATOR = OPERATOR(@extschema@.<), NEGATOR = OPERATOR(@extschema@.<=),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel);

-- In the schema rag, because pgvector's class of the same name may be in the extension's schema.
CREATE OPERATOR CLASS rag.halfvec_ops DEFAULT FOR TYPE rag_types.halfvec USING btree AS
    OPERATOR 1 @extschema@.<, OPERATOR 2 @extschema@.<=, OPERATOR 3 @extschema@.=,
    OPERATOR 4 @extschema@.>=, OPERATOR 5 @extschema@.>,
    FUNCTION 1 rag_functions.halfvec_cmp(rag_types.halfvec, rag_types.halfvec);

-- aggregates
-- ----------------------------------------

CREATE FUNCTION rag_internal.halfvec_accum(double precision[], rag_types.halfvec)
    RETURNS double precision[]
    AS 'MODULE_PATHNAME', 'halfvec_accum_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_avg(double precision[]) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_avg_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE AGGREGATE @extschema@.avg(rag_types.halfvec) (
    SFUNC = rag_internal.halfvec_accum, STYPE = double precision[],
    FINALFUNC = rag_internal.halfvec_avg,
    COMBINEFUNC = rag_internal.vector_combine, INITCOND = '{0}', PARALLEL = SAFE
);
CREATE AGGREGATE @extschema@.sum(rag_types.halfvec) (
    SFUNC = rag_functions.halfvec_add, STYPE = rag_types.halfvec,
    COMBINEFUNC = rag_functions.halfvec_add, PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.avg(rag_types.halfvec) IS 'element-wise mean';
COMMENT ON AGGREGATE @extschema@.sum(rag_types.halfvec) IS 'element-wise sum';

-- Distances of PostgreSQL's type bit. Names, signatures and behaviour are those of pgvector.

CREATE FUNCTION rag_functions.hamming_distance(bit, bit) RETURNS double precision
    AS 'MODULE_PATHNAME', 'hamming_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.jaccard_distance(bit, bit) RETURNS double precision
    AS 'MODULE_PATHNAME', 'jaccard_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.bits_to_vector(bit) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'bits_to_vector_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_functions.hamming_distance(bit, bit) IS
    'number of bits that differ, also available as operator <~>';
COMMENT ON FUNCTION rag_functions.jaccard_distance(bit, bit) IS
    '1 - the share of common bits (0 to 1), also available as operator <%>';
COMMENT ON FUNCTION rag_internal.bits_to_vector(bit) IS
    'returns a vector with an element for each bit: 0 or 1';

-- Not in the schema of the extension, because pgvector's operators may be there: they have the same
-- names and types.
CREATE OPERATOR rag_functions.<~> (
    LEFTARG = bit, RIGHTARG = bit,
    FUNCTION = rag_functions.hamming_distance, COMMUTATOR = OPERATOR(rag_functions.<~>));
CREATE OPERATOR rag_functions.<%> (
    LEFTARG = bit, RIGHTARG = bit,
    FUNCTION = rag_functions.jaccard_distance, COMMUTATOR = OPERATOR(rag_functions.<%>));

CREATE FUNCTION rag_internal.hnsw_metric_hamming() RETURNS integer
    AS 'MODULE_PATHNAME', 'hnsw_metric_hamming_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.hnsw_metric_jaccard() RETURNS integer
    AS 'MODULE_PATHNAME', 'hnsw_metric_jaccard_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.hnsw_metric_hamming() IS
    'identifies operator classes of rag_hnsw that order by Hamming distance';
COMMENT ON FUNCTION rag_internal.hnsw_metric_jaccard() IS
    'identifies operator classes of rag_hnsw that order by Jaccard distance';
COMMENT ON FUNCTION rag_internal.hnsw_metric_l1() IS
    'identifies operator classes of rag_hnsw that order by taxicab distance';
COMMENT ON FUNCTION rag_internal.hnsw_metric_l2() IS
    'identifies operator classes of rag_hnsw that order by Euclidean distance';
COMMENT ON FUNCTION rag_internal.hnsw_metric_inner_product() IS
    'identifies operator classes of rag_hnsw that order by negative inner product';
COMMENT ON FUNCTION rag_internal.hnsw_metric_cosine() IS
    'identifies operator classes of rag_hnsw that order by cosine distance';

CREATE OPERATOR CLASS @extschema@.halfvec_l2_ops FOR TYPE rag_types.halfvec USING rag_hnsw AS
    OPERATOR 1 @extschema@.<-> (rag_types.halfvec, rag_types.halfvec) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_l2();
CREATE OPERATOR CLASS @extschema@.halfvec_ip_ops FOR TYPE rag_types.halfvec USING rag_hnsw AS
    OPERATOR 1 @extschema@.<#> (rag_types.halfvec, rag_types.halfvec) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_inner_product();
CREATE OPERATOR CLASS @extschema@.halfvec_cosine_ops FOR TYPE rag_types.halfvec USING rag_hnsw AS
    OPERATOR 1 @extschema@.<=> (rag_types.halfvec, rag_types.halfvec) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_cosine();
CREATE OPERATOR CLASS @extschema@.halfvec_l1_ops FOR TYPE rag_types.halfvec USING rag_hnsw AS
    OPERATOR 1 @extschema@.<+> (rag_types.halfvec, rag_types.halfvec) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_l1();
COMMENT ON OPERATOR CLASS @extschema@.halfvec_l1_ops USING rag_hnsw IS
    'ORDER BY a <+> b, taxicab distance';
COMMENT ON OPERATOR CLASS @extschema@.halfvec_l2_ops USING rag_hnsw IS
    'ORDER BY a <-> b, Euclidean distance';
COMMENT ON OPERATOR CLASS @extschema@.halfvec_ip_ops USING rag_hnsw IS
    'ORDER BY a <#> b, negative inner product';
COMMENT ON OPERATOR CLASS @extschema@.halfvec_cosine_ops USING rag_hnsw IS
    'ORDER BY a <=> b, cosine distance';

CREATE OPERATOR CLASS @extschema@.bit_hamming_ops FOR TYPE bit USING rag_hnsw AS
    OPERATOR 1 rag_functions.<~> (bit, bit) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_hamming();
COMMENT ON OPERATOR CLASS @extschema@.bit_hamming_ops USING rag_hnsw IS
    'ORDER BY a <~> b, Hamming distance';
CREATE OPERATOR CLASS @extschema@.bit_jaccard_ops FOR TYPE bit USING rag_hnsw AS
    OPERATOR 1 rag_functions.<%> (bit, bit) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_jaccard();
COMMENT ON OPERATOR CLASS @extschema@.bit_jaccard_ops USING rag_hnsw IS
    'ORDER BY a <%> b, Jaccard distance';

-- pgvector's types
DROP FUNCTION rag_internal.add_pgvector_operators(oid);
-- Returns the types of pgvector that this extension has, too, each with the own type. Returns no
-- rows if pgvector is not installed.
CREATE OR REPLACE FUNCTION rag_internal.pgvector_types() RETURNS TABLE (theirs oid, ours oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.oid, o.oid
    FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_depend d
        ON d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.refobjid = e.oid
       AND d.classid = 'pg_catalog.pg_type'::regclass AND d.deptype = 'e'
    JOIN pg_catalog.pg_type t ON t.oid = d.objid AND t.typname IN ('vector', 'halfvec')
    JOIN pg_catalog.pg_type o ON o.typname = t.typname
    JOIN pg_catalog.pg_namespace n ON n.oid = o.typnamespace AND n.nspname = 'rag_types'
    WHERE e.extname = 'vector'
$$;
COMMENT ON FUNCTION rag_internal.pgvector_types() IS
    'returns the types vector and halfvec of pgvector, with the own ones';

CREATE OR REPLACE FUNCTION rag_internal.create_pgvector_cast(source oid, target oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- pgvector's vectors are accepted as those of rag_types, but not the other way round. So an
    -- operator between both types has one meaning.
    EXECUTE pg_catalog.format('CREATE CAST (%s AS %s) WITHOUT FUNCTION AS %s',
        source::regtype, target::regtype,
        CASE WHEN (SELECT n.nspname FROM pg_catalog.pg_type t
                   JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
                   WHERE t.oid = target) = 'rag_types' THEN 'IMPLICIT' ELSE 'ASSIGNMENT' END);
END $$;
REVOKE ALL ON FUNCTION rag_internal.create_pgvector_cast(oid, oid) FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.create_pgvector_cast(oid, oid) IS
    'creates a cast between a type of rag_types and that of pgvector';

CREATE OR REPLACE FUNCTION rag_internal.keep_pgvector_cast(source oid, target oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    cast_oid oid;
    extension oid;
BEGIN
    SELECT c.oid INTO cast_oid
    FROM pg_catalog.pg_cast c WHERE c.castsource = source AND c.casttarget = target;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- A cast that CREATE EXTENSION creates is a member of the extension. pgvector could not be
    -- dropped without this extension.
    IF EXISTS (SELECT FROM pg_catalog.pg_depend d
               WHERE d.classid = 'pg_catalog.pg_cast'::regclass AND d.objid = cast_oid
                 AND d.deptype = 'e') THEN
        EXECUTE pg_catalog.format('ALTER EXTENSION rag DROP CAST (%s AS %s)',
                                  source::regtype, target::regtype);
    END IF;
    FOR extension IN
        SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname IN ('rag', 'vector')
    LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                       WHERE d.classid = 'pg_catalog.pg_cast'::regclass AND d.objid = cast_oid
                         AND d.refclassid = 'pg_catalog.pg_extension'::regclass
                         AND d.refobjid = extension) THEN
            PERFORM rag_internal.cast_goes_with(cast_oid, extension);
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION rag_internal.keep_pgvector_cast(oid, oid) FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.keep_pgvector_cast(oid, oid) IS
    'makes a cast between a type of rag_types and that of pgvector depend on both extensions';

-- An operator on PostgreSQL's type bit has another strategy than the own one on that type.
CREATE OR REPLACE FUNCTION rag_internal.add_pgvector_operators() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT pg_catalog.format('ALTER OPERATOR FAMILY %I.%I USING rag_hnsw ADD OPERATOR %s '
                   '%I.%s (%s, %s) FOR ORDER BY pg_catalog.float_ops',
                   fn.nspname, f.opfname, m.strategy, n.nspname, o.oprname,
                   o.oprleft::regtype, o.oprright::regtype)
        FROM (SELECT t.typname || c.family AS family, c.name, t.oid AS type, 1 AS strategy
              FROM rag_internal.pgvector_types() p
              JOIN pg_catalog.pg_type t ON t.oid = p.theirs,
                  (VALUES ('_l2_ops', '<->'), ('_ip_ops', '<#>'), ('_cosine_ops', '<=>'),
                          ('_l1_ops', '<+>')) AS c (family, name)
              UNION ALL
              VALUES ('bit_hamming_ops', '<~>', 'bit'::regtype::oid, 2),
                     ('bit_jaccard_ops', '<%>', 'bit'::regtype::oid, 2)) AS m
        JOIN pg_catalog.pg_am a ON a.amname = 'rag_hnsw'
        JOIN pg_catalog.pg_opfamily f ON f.opfmethod = a.oid AND f.opfname = m.family
        JOIN pg_catalog.pg_namespace fn
            ON fn.oid = f.opfnamespace AND fn.oid = '@extschema@'::regnamespace
        JOIN pg_catalog.pg_operator o
            ON o.oprname = m.name AND o.oprleft = m.type AND o.oprright = m.type
        JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
        JOIN pg_catalog.pg_depend d
            ON d.classid = 'pg_catalog.pg_operator'::regclass AND d.objid = o.oid
           AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.deptype = 'e'
        JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND e.extname = 'vector'
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_amop p
                          WHERE p.amopfamily = f.oid AND p.amopopr = o.oid)
    LOOP
        EXECUTE statement;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION rag_internal.add_pgvector_operators() FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.add_pgvector_operators() IS
    'adds the operators of pgvector to the operator families of rag_hnsw';

CREATE OR REPLACE FUNCTION @extschema@.rag_pgvector_casts() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    types oid[];
    is_installed boolean := false;
BEGIN
    FOR types IN
        SELECT ARRAY[p.theirs, p.ours] FROM rag_internal.pgvector_types() p
        UNION ALL SELECT ARRAY[p.ours, p.theirs] FROM rag_internal.pgvector_types() p
    LOOP
        is_installed := true;
        IF NOT (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user) THEN
            RAISE EXCEPTION 'permission denied to create casts for the type of pgvector'
                USING ERRCODE = 'insufficient_privilege', HINT = 'Must be superuser.';
        END IF;
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_cast
                       WHERE castsource = types[1] AND casttarget = types[2]) THEN
            PERFORM rag_internal.create_pgvector_cast(types[1], types[2]);
        END IF;
        PERFORM rag_internal.keep_pgvector_cast(types[1], types[2]);
    END LOOP;
    IF is_installed THEN
        PERFORM rag_internal.add_pgvector_operators();
    END IF;
    RETURN is_installed;
END $$;
COMMENT ON FUNCTION @extschema@.rag_pgvector_casts() IS
    'creates the casts between the types of rag_types and pgvector''s, and lets rag_hnsw index '
    'pgvector''s types; returns false if pgvector is not installed';

-- Does the same after CREATE EXTENSION vector. A restore creates the casts itself, then or later.
-- pg_dump and pg_restore switch check_function_bodies off for all that they restore.
CREATE OR REPLACE FUNCTION rag_internal.after_create() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_restored CONSTANT boolean :=
        NOT pg_catalog.current_setting('check_function_bodies')::boolean;
BEGIN
    IF tg_tag = 'CREATE CAST' THEN
        IF is_restored THEN
            PERFORM rag_internal.keep_pgvector_cast(p.theirs, p.ours),
                rag_internal.keep_pgvector_cast(p.ours, p.theirs)
            FROM rag_internal.pgvector_types() p;
        END IF;
    ELSIF EXISTS (SELECT FROM pg_catalog.pg_event_trigger_ddl_commands() c
                  JOIN pg_catalog.pg_extension e ON e.oid = c.objid AND e.extname = 'vector'
                  WHERE c.classid = 'pg_catalog.pg_extension'::regclass) THEN
        IF is_restored THEN
            PERFORM rag_internal.add_pgvector_operators();
        ELSE
            PERFORM @extschema@.rag_pgvector_casts();
        END IF;
    END IF;
END $$;
REVOKE ALL ON FUNCTION rag_internal.after_create() FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.after_create() IS
    'lets rag_hnsw index the types of pgvector after CREATE EXTENSION vector';
DROP FUNCTION rag_internal.pgvector_type();
COMMENT ON EVENT TRIGGER rag_after_create IS
    'lets rag_hnsw index the types of pgvector after CREATE EXTENSION vector';
DO $$ BEGIN PERFORM @extschema@.rag_pgvector_casts(); END $$;
CREATE OR REPLACE FUNCTION rag_internal.bm25_title_matches(title text, query text, config text)
 RETURNS boolean
 LANGUAGE c
 STABLE PARALLEL RESTRICTED STRICT COST 1000
AS 'MODULE_PATHNAME', $function$bm25_title_matches_wrapper$function$;
COMMENT ON FUNCTION rag_internal.bm25_title_matches(pg_catalog.text,pg_catalog.text,pg_catalog.text) IS 'whether a title has what a field of a query requires';
REVOKE ALL ON FUNCTION rag_internal.bm25_title_matches(pg_catalog.text,pg_catalog.text,pg_catalog.text) FROM PUBLIC, rag_reader, rag_admin;
GRANT EXECUTE ON FUNCTION rag_internal.bm25_title_matches(pg_catalog.text,pg_catalog.text,pg_catalog.text) TO PUBLIC;
