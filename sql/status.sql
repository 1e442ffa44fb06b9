-- rag_status(): current problems and their remedies.

CREATE FUNCTION rag_internal.is_preloaded() RETURNS boolean
    AS 'MODULE_PATHNAME', 'is_preloaded_wrapper' LANGUAGE c STABLE PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.is_preloaded() IS
    'true if shared_preload_libraries contained rag when the server started';
CREATE FUNCTION rag_internal.current_model() RETURNS text
    AS 'MODULE_PATHNAME', 'present_model_wrapper' LANGUAGE c STABLE PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.current_model() IS 'name of the model in rag.model_dir';

CREATE FUNCTION rag_internal.library_version() RETURNS text
    AS 'MODULE_PATHNAME', 'library_version_wrapper' LANGUAGE c STABLE PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.library_version() IS 'version of the library that is loaded';

CREATE FUNCTION rag_internal.failed_removals()
    RETURNS TABLE (collection text, retriever text, url text, error text)
    AS 'MODULE_PATHNAME', 'failed_removals_wrapper' LANGUAGE c STABLE;
COMMENT ON FUNCTION rag_internal.failed_removals() IS
    'what servers that collections had before could not delete';
CREATE FUNCTION rag_internal.explain_damage(problem text) RETURNS TABLE (object text, remedy text)
    AS 'MODULE_PATHNAME', 'explain_damage_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag_internal.explain_damage(text) IS
    'relation of the extension that an error message names, and what heals it';
REVOKE ALL ON FUNCTION rag_internal.explain_damage(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.explain_damage(text) TO rag_reader;

-- With zero_damaged_pages, values whose pages were damaged are missing, and VACUUM FULL fails at
-- their rows.
CREATE FUNCTION rag.delete_damaged_rows(damaged regclass) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    place tid;
    deleted bigint := 0;
BEGIN
    FOR place IN EXECUTE format('SELECT ctid FROM %s', damaged) LOOP
        BEGIN
            EXECUTE format('SELECT length(t::text) FROM %s t WHERE ctid = $1', damaged)
                USING place;
        EXCEPTION WHEN data_corrupted OR index_corrupted OR internal_error THEN
            EXECUTE format('DELETE FROM %s WHERE ctid = $1', damaged) USING place;
            deleted := deleted + 1;
        END;
    END LOOP;
    RETURN deleted;
END $$;
COMMENT ON FUNCTION rag.delete_damaged_rows(regclass) IS
    'deletes the rows of a table that cannot be read, and returns their number';
REVOKE ALL ON FUNCTION rag.delete_damaged_rows(regclass) FROM PUBLIC;

-- It reports only what the caller can see or monitor. The order of rows is damaged relations,
-- server, sources, runs, collections, secrets. A block that meets a damaged relation reports that,
-- and the others go on. With many sources, its statements would be compiled, which takes longer
-- than to run them.
CREATE FUNCTION @extschema@.rag_status()
    RETURNS TABLE (severity text, object text, problem text, remedy text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
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
END $$;
