-- Sources and their runs: tables, conditions, phases, notifications, and the runs in progress. The
-- views are in views.sql.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE rag_internal.source (
    name text PRIMARY KEY CHECK (rag_internal.is_qualified_name(name)),
    namespace text NOT NULL GENERATED ALWAYS AS (rag_internal.namespace_of(name)) STORED,
    uid uuid NOT NULL DEFAULT gen_random_uuid(),
    ids_from text,
    -- definition
    kind text NOT NULL,
    spec jsonb NOT NULL,
    document_labels jsonb,
    collection text NOT NULL,
    owner text NOT NULL,
    owner_id oid NOT NULL,
    relation_id oid,
    relation_owner_id oid,
    credentials text,
    credentials_key text,
    schedule text,
    max_retries integer NOT NULL DEFAULT 3 CHECK (max_retries BETWEEN 0 AND 100),
    timeout interval NOT NULL DEFAULT '1 hour',
    suspend boolean NOT NULL DEFAULT false,
    drift_policy text NOT NULL DEFAULT 'auto' CHECK (drift_policy IN ('auto', 'manual', 'ignore')),
    max_documents bigint CHECK (max_documents > 0),
    max_bytes bigint CHECK (max_bytes > 0),
    display_name text,
    labels jsonb NOT NULL DEFAULT '{}',
    annotations jsonb NOT NULL DEFAULT '{}',
    generation bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- next automatic runs
    next_run timestamptz,
    retry_at timestamptz,
    attempt integer NOT NULL DEFAULT 0,
    throttled integer NOT NULL DEFAULT 0,
    booted_at timestamptz,
    -- status
    observed_generation bigint,
    last_run_id bigint,
    last_commit text,
    last_indexed timestamptz,
    successful_run_count bigint NOT NULL DEFAULT 0,
    error_run_count bigint NOT NULL DEFAULT 0,
    documents bigint,
    drift_checked_at timestamptz,
    conditions jsonb NOT NULL DEFAULT '[]'
-- Each run updates its source several times: large values that do not change stay out of the row.
) WITH (toast_tuple_target = 512);
CREATE TRIGGER find_owner BEFORE INSERT ON rag_internal.source
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_owner();

-- Relations are identified by OID as well. pg_restore creates tables before it fills them.
CREATE FUNCTION rag_internal.find_relation() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF rag_internal.is_restoring() THEN
        SELECT c.oid, c.relowner INTO NEW.relation_id, NEW.relation_owner_id
        FROM pg_class c
        WHERE NEW.kind = 'table' AND c.oid = to_regclass(NEW.spec ->> 'relation')::oid;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag_internal.find_relation() IS
    'sets relation_id of a restored source to the relation that has the name now';
CREATE TRIGGER find_relation BEFORE INSERT ON rag_internal.source
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_relation();
COMMENT ON TABLE rag_internal.source
    IS 'definitions and status of sources; use rag.sources instead';
COMMENT ON COLUMN rag_internal.source.uid IS
    'identifies the source; a later source of the same name has another uid';
COMMENT ON COLUMN rag_internal.source.document_labels IS
    'category and tags of the definition that have been applied to all stored documents; NULL: '
    'not applied yet';
COMMENT ON COLUMN rag_internal.source.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag_internal.source.owner_id IS
    'role whose privileges are used by runs; 0: the role did not exist when a dump was restored';
COMMENT ON COLUMN rag_internal.source.relation_id IS
    'relation that a source of kind table reads; NULL: it did not exist when a dump was restored';
COMMENT ON COLUMN rag_internal.source.relation_owner_id IS
    'owner of that relation when the source was created; runs fail if the owner has changed';
COMMENT ON COLUMN rag_internal.source.credentials_key IS
    'key of the secret whose value is sent; NULL: token if it exists, otherwise password';
COMMENT ON COLUMN rag_internal.source.next_run
    IS 'time of the next run by schedule or after creation';
COMMENT ON COLUMN rag_internal.source.retry_at
    IS 'time at which the last run, which failed, is retried';
COMMENT ON COLUMN rag_internal.source.attempt IS
    'number of consecutive failed attempts, without throttled attempts';
COMMENT ON COLUMN rag_internal.source.throttled IS
    'number of consecutive attempts that the remote server asked to postpone';
COMMENT ON COLUMN rag_internal.source.booted_at IS
    'start time of the server for which the schedule @reboot has run';
COMMENT ON COLUMN rag_internal.source.ids_from IS
    'what ids of documents are made from: the first name; NULL: the name';
COMMENT ON COLUMN rag_internal.source.last_run_id IS
    'last run that has ended; the queued or current run is in rag_internal.run';
COMMENT ON COLUMN rag_internal.source.documents IS
    'number of documents stored at the end of the last complete run';

CREATE SEQUENCE rag_internal.run_id AS bigint;
CREATE TABLE rag_internal.run (
    run_id bigint PRIMARY KEY,
    source text NOT NULL,
    collection text NOT NULL,
    trigger text NOT NULL
        CHECK (trigger IN ('manual', 'schedule', 'retry', 'drift', 'create', 'change')),
    attempt integer NOT NULL DEFAULT 1,
    generation bigint NOT NULL,
    phase text NOT NULL CHECK (phase IN ('Pending', 'Running', 'Completed', 'Failed')),
    waiting text,
    stage text NOT NULL DEFAULT 'fetch',
    queued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    documents_total bigint,
    documents_listed bigint,
    addresses_waiting bigint,
    documents_added bigint NOT NULL DEFAULT 0,
    documents_updated bigint NOT NULL DEFAULT 0,
    documents_deleted bigint NOT NULL DEFAULT 0,
    documents_unchanged bigint NOT NULL DEFAULT 0,
    documents_failed bigint NOT NULL DEFAULT 0,
    documents_with_warnings bigint NOT NULL DEFAULT 0,
    files_skipped bigint NOT NULL DEFAULT 0,
    chunks_written bigint NOT NULL DEFAULT 0,
    chunks_embedded bigint NOT NULL DEFAULT 0,
    chunks_reused bigint NOT NULL DEFAULT 0,
    bytes_fetched bigint NOT NULL DEFAULT 0,
    fetch_seconds double precision NOT NULL DEFAULT 0,
    extract_seconds double precision NOT NULL DEFAULT 0,
    embed_seconds double precision NOT NULL DEFAULT 0,
    store_seconds double precision NOT NULL DEFAULT 0,
    model_tokens bigint NOT NULL DEFAULT 0,
    model_cost numeric,
    commit text,
    current_uri text,
    note text,
    error jsonb,
    -- the log has a line that the run makes no progress
    stall_logged boolean NOT NULL DEFAULT false
);
CREATE INDEX run_source ON rag_internal.run (source, run_id);
-- At most one active run for each source. Schedulers also scan this index.
CREATE UNIQUE INDEX run_active ON rag_internal.run (source) WHERE phase IN ('Pending', 'Running');
COMMENT ON TABLE rag_internal.run IS 'runs of sources; use rag.runs and rag.progress instead';

CREATE TABLE rag_internal.run_error (
    run_id bigint NOT NULL,
    source text NOT NULL,
    uri text NOT NULL,
    stage text NOT NULL CHECK (stage IN ('fetch', 'decode', 'extract', 'split', 'embed', 'store')),
    severity text NOT NULL DEFAULT 'error' CHECK (severity IN ('error', 'warning')),
    message text NOT NULL,
    hint text,
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX run_error_run_id ON rag_internal.run_error (run_id);
COMMENT ON TABLE rag_internal.run_error IS
    'documents that a run could not index completely; use rag.run_errors instead';

-- The types of conditions, in the order in which rag.sources shows them. catalog::conditions has
-- the same list.
CREATE FUNCTION rag_internal.condition_types() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '{ResourceReady,AutoIndexerScheduled,AutoIndexerIndexing,AutoIndexerCompleted,'
           'AutoIndexerError,AutoIndexerDriftDetected}'::text[]
$$;
COMMENT ON FUNCTION rag_internal.condition_types()
    IS 'types of conditions, in the order of rag.sources';

-- Conditions have the form of Kubernetes: one for each type, with the time of the last change of
-- its status as lastTransitionTime.
CREATE FUNCTION rag_internal.merge_conditions(present jsonb, changes jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(
        CASE WHEN n.value IS NULL THEN o.value
             ELSE n.value || jsonb_build_object('lastTransitionTime',
                 CASE WHEN o.value ->> 'status' = n.value ->> 'status'
                          THEN o.value ->> 'lastTransitionTime'
                      ELSE to_char(clock_timestamp() AT TIME ZONE 'UTC',
                                   'YYYY-MM-DD"T"HH24:MI:SS"Z"') END)
        END ORDER BY array_position(rag_internal.condition_types(),
                                    coalesce(n.value, o.value) ->> 'type')), '[]')
    FROM jsonb_array_elements(present) o
    FULL JOIN jsonb_array_elements(changes) n ON n.value ->> 'type' = o.value ->> 'type'
$$;
COMMENT ON FUNCTION rag_internal.merge_conditions(jsonb, jsonb) IS
    'replaces conditions by changed conditions of the same type';

CREATE FUNCTION rag_internal.has_condition(conditions jsonb, type text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.jsonb_path_exists(
        $1, '$[*] ? (@.type == $type && @.status == "True")',
        pg_catalog.jsonb_build_object('type', $2))
$$;
COMMENT ON FUNCTION rag_internal.has_condition(jsonb, text) IS
    'true if the condition of this type has the status True';

-- Phases, for the views and the notifications. These are plain expressions without SET, so that
-- they are inlined into the views. All names in them are qualified.
CREATE FUNCTION rag_internal.run_phase(phase text, is_lost boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN is_lost THEN 'Failed' ELSE phase END
$$;
COMMENT ON FUNCTION rag_internal.run_phase(text, boolean) IS
    'phase of a run; is_lost: its process ended before the run did';

CREATE FUNCTION rag_internal.source_phase(
    is_being_dropped boolean, active_phase text, active_trigger text,
    suspended boolean, will_retry boolean, last_phase text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN is_being_dropped THEN 'Terminating'
                WHEN active_phase OPERATOR(pg_catalog.=) 'Running' THEN 'Running'
                WHEN active_phase OPERATOR(pg_catalog.=) 'Pending'
                     AND (active_trigger OPERATOR(pg_catalog.=) 'manual' OR NOT suspended)
                    THEN 'Pending'
                WHEN suspended THEN 'Suspended'
                WHEN will_retry THEN 'Retrying'
                ELSE coalesce(last_phase, 'Pending') END
$$;
COMMENT ON FUNCTION rag_internal.source_phase(boolean, text, text, boolean, boolean, text) IS
    'phase of a source, from its queued or current run (active) and its last finished run (last)';

-- The error of a run whose process ended before the run did. run::end::end_lost_runs stores the
-- same error when a scheduler finds the run.
CREATE FUNCTION rag_internal.lost_run_error() RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '{"sqlstate": "57P01", "message": "the run''s process ended before the run did"}'::jsonb
$$;
COMMENT ON FUNCTION rag_internal.lost_run_error()
    IS 'error of a run whose process ended before the run did';

-- Notifications on rag_events. Each change of a run's phase sends one. Each change of a source's
-- phase sends one if none of its runs is queued or in progress.
CREATE FUNCTION rag_internal.announce(event jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notify('rag_events', (event || jsonb_build_object('at', clock_timestamp()))::text)
$$;
COMMENT ON FUNCTION rag_internal.announce(jsonb)
    IS 'sends a notification on the channel rag_events';

CREATE FUNCTION rag_internal.announce_run() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    suspended boolean;
    will_retry boolean;
BEGIN
    SELECT s.suspend, s.last_run_id = NEW.run_id AND s.retry_at IS NOT NULL
    INTO suspended, will_retry
    FROM rag_internal.source s WHERE s.name = NEW.source;
    -- a run that was stopped because its source is being dropped is not retried
    will_retry := NEW.phase = 'Failed' AND will_retry AND NOT suspended
                  AND NOT rag_internal.is_being_dropped(NEW.source);
    PERFORM rag_internal.announce(jsonb_build_object(
        'source', NEW.source, 'run_id', NEW.run_id, 'trigger', NEW.trigger, 'attempt', NEW.attempt,
        'phase', rag_internal.source_phase(is_being_dropped => false, active_phase => NULL,
                                  active_trigger => NULL, suspended => false,
                                  will_retry => will_retry, last_phase => NEW.phase)));
    IF suspended AND NEW.phase IN ('Completed', 'Failed') THEN
        PERFORM rag_internal.announce(jsonb_build_object(
            'source', NEW.source, 'phase', 'Suspended'));
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.announce_run() IS
    'sends a notification on rag_events for each phase of a run';

CREATE FUNCTION rag_internal.announce_source() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    active record;
    last_phase text;
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM rag_internal.announce(jsonb_build_object('source', OLD.name, 'phase', 'Deleted'));
        RETURN NULL;
    END IF;
    SELECT r.phase, r.trigger INTO active
    FROM rag_internal.run r WHERE r.source = NEW.name AND r.phase IN ('Pending', 'Running');
    -- A source that is suspended during a run becomes Suspended when the run ends. A run that
    -- replaces a retry sends its own notification.
    IF active.phase = 'Running'
       OR active.phase = 'Pending' AND TG_OP = 'UPDATE' AND OLD.suspend = NEW.suspend THEN
        RETURN NULL;
    END IF;
    SELECT r.phase INTO last_phase FROM rag_internal.run r WHERE r.run_id = NEW.last_run_id;
    PERFORM rag_internal.announce(jsonb_build_object(
        'source', NEW.name,
        'phase', rag_internal.source_phase(is_being_dropped => false, active_phase => active.phase,
                                  active_trigger => active.trigger, suspended => NEW.suspend,
                                  will_retry => NEW.retry_at IS NOT NULL,
                                  last_phase => last_phase)));
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.announce_source() IS
    'sends a notification on rag_events for phases of a source that no run announces';

CREATE TRIGGER announce_queued AFTER INSERT ON rag_internal.run
    FOR EACH ROW WHEN (NEW.phase IN ('Pending', 'Running'))
    EXECUTE FUNCTION rag_internal.announce_run();
CREATE TRIGGER announce_phase AFTER UPDATE OF phase ON rag_internal.run
    FOR EACH ROW WHEN (OLD.phase <> NEW.phase)
    EXECUTE FUNCTION rag_internal.announce_run();
CREATE TRIGGER announce_created AFTER INSERT ON rag_internal.source
    FOR EACH ROW EXECUTE FUNCTION rag_internal.announce_source();
-- suspended or resumed, or a retry was cancelled without a run in its place
CREATE TRIGGER announce_altered AFTER UPDATE OF suspend, retry_at ON rag_internal.source
    FOR EACH ROW
    WHEN (OLD.suspend <> NEW.suspend
          OR OLD.retry_at IS NOT NULL AND NEW.retry_at IS NULL
             AND OLD.last_run_id = NEW.last_run_id)
    EXECUTE FUNCTION rag_internal.announce_source();
CREATE TRIGGER announce_dropped AFTER DELETE ON rag_internal.source
    FOR EACH ROW EXECUTE FUNCTION rag_internal.announce_source();

-- Schedulers learn of every change of a source, also of those by a dump that is restored.
CREATE FUNCTION rag_internal.source_changed() RETURNS trigger
    AS 'MODULE_PATHNAME', 'rag_source_changed' LANGUAGE c;
COMMENT ON FUNCTION rag_internal.source_changed()
    IS 'wakes the scheduler after a change of a source';
CREATE TRIGGER source_changed AFTER INSERT OR UPDATE OR DELETE ON rag_internal.source
    FOR EACH STATEMENT
    EXECUTE FUNCTION rag_internal.source_changed();

-- runs in progress
-- ----------------------------------------

-- Locks on sources (src/cluster/lock.rs), which last until the process that holds them releases
-- them or ends. A run or a drift check holds the lock for the purpose sync. A session that is about
-- to drop the source holds the lock for the purpose drop. A process that only tests a lock takes it
-- in another mode for a moment. A standby does not see the locks of the primary.
CREATE FUNCTION rag_internal.lock_purpose(purpose text) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE purpose WHEN 'sync' THEN 0 WHEN 'drop' THEN 1 END::smallint
$$;
COMMENT ON FUNCTION rag_internal.lock_purpose(text) IS
    'column purpose of rag_internal.source_locks: 0 for sync (a run or drift check), 1 for drop';

-- The four bytes of hashtext as an unsigned number; inlined into rag.sources, so without SET.
CREATE FUNCTION rag_internal.source_hash(source text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.hashtext($1)::pg_catalog.int8 OPERATOR(pg_catalog.&) 4294967295
$$;
COMMENT ON FUNCTION rag_internal.source_hash(text)
    IS 'hash that identifies a source in rag_internal.source_locks';

CREATE FUNCTION rag_internal.source_locks()
    RETURNS TABLE (source_hash bigint, purpose smallint, pid integer)
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT objid::bigint, objsubid, pid FROM pg_locks
    WHERE locktype = 'object' AND granted AND mode = 'ExclusiveLock'
      AND classid = 'rag_internal.source'::regclass
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;
COMMENT ON FUNCTION rag_internal.source_locks() IS
    'locks on sources that processes of this database hold; see rag_internal.source_hash and '
    'rag_internal.lock_purpose';

CREATE FUNCTION rag_internal.is_syncing(source text) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_is_in_recovery() OR EXISTS (
        SELECT FROM rag_internal.source_locks()
        WHERE purpose = rag_internal.lock_purpose('sync')
            AND source_hash = rag_internal.source_hash(source))
$$;
COMMENT ON FUNCTION rag_internal.is_syncing(text) IS
    'true if a run or drift check of the source is in progress';

CREATE FUNCTION rag_internal.is_being_dropped(source text) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM rag_internal.source_locks()
        WHERE purpose = rag_internal.lock_purpose('drop')
            AND source_hash = rag_internal.source_hash(source))
$$;
COMMENT ON FUNCTION rag_internal.is_being_dropped(text)
    IS 'true if a session is about to drop the source';

-- VOLATILE, so that it sees rows that were committed after the calling query began. A run updates
-- its row before it releases its lock. If the lock is free and the row is unchanged after that, the
-- process has ended without finishing the run.
CREATE FUNCTION rag_internal.has_not_ended(run_id bigint) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL RESTRICTED SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM rag_internal.run r WHERE r.run_id = $1 AND r.phase = 'Running')
$$;
COMMENT ON FUNCTION rag_internal.has_not_ended(bigint) IS
    'true if the latest committed version of a run''s row is not finished';

CREATE FUNCTION rag.why_idle() RETURNS text
    AS 'MODULE_PATHNAME', 'rag_why_idle_wrapper' LANGUAGE c STABLE PARALLEL SAFE;
COMMENT ON FUNCTION rag.why_idle() IS
    'reason why the sources of this database are not synced automatically; NULL if they are';

CREATE FUNCTION rag_internal.has_scheduler() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    -- a standby does not know
    SELECT pg_is_in_recovery() OR rag.why_idle() IS NULL
$$;
COMMENT ON FUNCTION rag_internal.has_scheduler() IS
    'true if the sources of this database are synced automatically';

CREATE FUNCTION rag_internal.is_stalled(updated_at timestamptz) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    -- the setting is unknown until the library is loaded
    SELECT coalesce(updated_at < now() - current_setting('rag.stall_timeout', true)::interval
                    AND current_setting('rag.stall_timeout', true) <> '0', false)
$$;
COMMENT ON FUNCTION rag_internal.is_stalled(timestamptz) IS
    'true if a run that was last updated then has made no progress for rag.stall_timeout';

CREATE FUNCTION rag_internal.scheduler_lock_key() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT x'72616774'::bigint
$$;
COMMENT ON FUNCTION rag_internal.scheduler_lock_key() IS
    'first key of the advisory lock that the scheduler of a database holds';

-- If scheduling is off, a scheduler that was started for queued runs runs these and no others.
CREATE FUNCTION rag_internal.why_waiting() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT rag.why_idle() WHERE NOT pg_is_in_recovery() AND NOT EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND objsubid = 3
          AND classid::bigint = rag_internal.scheduler_lock_key()
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
$$;
COMMENT ON FUNCTION rag_internal.why_waiting() IS
    'reason why no queued run can start; NULL if they start as slots become free';

-- Without a scheduler no source is scheduled, whatever the stored conditions say, and a source that
-- waits for its first run reports the reason. The conditions are changed on reading, because no
-- process could store when this state begins and ends.
CREATE FUNCTION rag_internal.without_scheduler(conditions jsonb, why text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(CASE WHEN c ->> 'type' = 'AutoIndexerScheduled' AND c ->> 'status' = 'True'
                          THEN c || jsonb_build_object(
                              'status', 'False', 'reason', 'NoScheduler',
                              'lastTransitionTime', NULL,
                              'message', 'the source is not synced automatically: ' || why)
                          WHEN c ->> 'type' = 'AutoIndexerIndexing' AND c ->> 'reason' = 'NotRun'
                          THEN c || jsonb_build_object('message', (c ->> 'message') || ': ' || why)
                          ELSE c END ORDER BY n)
    FROM jsonb_array_elements(conditions) WITH ORDINALITY AS x (c, n)
$$;
COMMENT ON FUNCTION rag_internal.without_scheduler(jsonb, text) IS
    'conditions of a source while no scheduler runs, with the reason why';

SELECT pg_catalog.pg_extension_config_dump('rag_internal.source', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.run_id', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.run', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.run_error', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
