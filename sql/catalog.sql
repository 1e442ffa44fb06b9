-- Roles, the tables of the catalog, and the views on sources and runs. Only functions of the
-- extension write to the tables, with the rights of the extension's owner.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Roles belong to the cluster. A role may already exist, from an installation in another database
-- or created by a user with CREATEROLE. Only superusers may be able to grant it.
DO $$
DECLARE
    role record;
    names text;
BEGIN
    FOR role IN
        SELECT * FROM (VALUES
            ('rag_reader'::name, 'can search collections of the extension rag'),
            ('rag_admin', 'can create and manage collections and sources of the extension rag')
        ) AS r (name, comment)
    LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role.name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role.name);
            EXECUTE format('COMMENT ON ROLE %I IS %L', role.name, role.comment);
            CONTINUE;
        END IF;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = role.name
                   AND (rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication
                        OR rolbypassrls)) THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('role "%s" already exists with unexpected attributes', role.name),
                DETAIL = 'The role can log in or has another attribute that the extension does not'
                         ' give it.',
                HINT = format('ALTER ROLE %I NOLOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB'
                              ' NOREPLICATION NOBYPASSRLS;', role.name);
        END IF;
        SELECT string_agg(quote_ident(m.rolname), ', ' ORDER BY m.rolname) INTO names
        FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
        WHERE a.roleid = (SELECT oid FROM pg_roles WHERE rolname = role.name)
          AND a.admin_option AND NOT m.rolsuper;
        IF names IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('role "%s" already exists and can be granted by roles that are not'
                                 ' superusers', role.name),
                DETAIL = format('Roles with ADMIN OPTION: %s. They could add members to the role in'
                                ' every database.', names),
                HINT = format('REVOKE ADMIN OPTION FOR %I FROM %s;', role.name, names);
        END IF;
        SELECT string_agg(quote_ident(m.rolname), ', ' ORDER BY m.rolname) INTO names
        FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
        WHERE a.roleid = (SELECT oid FROM pg_roles WHERE rolname = role.name)
          AND m.rolname <> 'rag_admin';
        IF names IS NOT NULL THEN
            RAISE WARNING USING
                MESSAGE = format('role "%s" already exists and has members', role.name),
                DETAIL = format('They have its privileges in this database, too: %s.', names);
        END IF;
    END LOOP;
    GRANT rag_reader TO rag_admin;
END $$;

-- retrievers and collections
-- ----------------------------------------

CREATE TABLE rag.retrievers (
    name text PRIMARY KEY CHECK (rag.is_qualified_name(name)),
    namespace text NOT NULL GENERATED ALWAYS AS (rag.namespace_of(name)) STORED,
    spec jsonb NOT NULL,
    display_name text,
    labels jsonb NOT NULL DEFAULT '{}',
    annotations jsonb NOT NULL DEFAULT '{}',
    owner text NOT NULL DEFAULT current_user,
    owner_id oid NOT NULL DEFAULT pg_catalog.quote_ident(current_user)::pg_catalog.regrole,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag.retrievers IS
    'named settings that define how collections are stored and searched';
COMMENT ON COLUMN rag.retrievers.name IS 'name; namespace/name if the namespace is not default';
COMMENT ON COLUMN rag.retrievers.namespace IS 'namespace, taken from the name';
COMMENT ON COLUMN rag.retrievers.spec IS 'storage and search settings, as in the manifest';
COMMENT ON COLUMN rag.retrievers.display_name IS 'metadata.displayName of the manifest';
COMMENT ON COLUMN rag.retrievers.labels IS 'metadata.labels of the manifest';
COMMENT ON COLUMN rag.retrievers.annotations IS 'metadata.annotations of the manifest';
COMMENT ON COLUMN rag.retrievers.owner IS
    'name of the role that owns the retriever, when it was created';
COMMENT ON COLUMN rag.retrievers.owner_id IS
    'role whose members may change and drop the retriever';
COMMENT ON COLUMN rag.retrievers.created_at IS 'time when the retriever was created';
COMMENT ON COLUMN rag.retrievers.updated_at IS 'time of the last change';

-- Stands for the configuration of each text's language: see src/index/bm25/languages.rs. As a
-- configuration of its own it makes words as simple does.
CREATE TEXT SEARCH CONFIGURATION rag.auto (COPY = pg_catalog.simple);
COMMENT ON TEXT SEARCH CONFIGURATION rag.auto IS
    'for rag_bm25 indexes: the configuration of each text''s language';

-- With wal_level minimal, a crash would set a sequence back that the creating transaction has used.
-- So the collection default gets its number without it.
CREATE SEQUENCE rag.collection_serial START 2;
CREATE TABLE rag.collections (
    name text PRIMARY KEY
        CHECK (rag.is_collection_name(name)),
    external_id text UNIQUE CHECK (external_id <> ''),
    ids_from text,
    serial bigint NOT NULL DEFAULT pg_catalog.nextval('rag.collection_serial'),
    retriever text NOT NULL DEFAULT 'default',
    partition text,
    index_strategy text CHECK (index_strategy IN ('per_dataset', 'fixed', 'rolling')),
    chunk_size integer CHECK (chunk_size BETWEEN 1 AND 1000000),
    chunk_overlap integer CHECK (chunk_overlap >= 0),
    chunk_unit text NOT NULL DEFAULT 'characters' CHECK (chunk_unit IN ('characters', 'tokens')),
    metadata_whitelist text[],
    description text,
    embedding_model text,
    model text,
    model_fingerprint text,
    model_identity text,
    model_precision text CHECK (model_precision IN ('fp32', 'int8')),
    model_max_tokens integer CHECK (model_max_tokens > 0),
    embedding_dimension integer,
    embedding_baseline real CHECK (embedding_baseline BETWEEN 0 AND 1),
    text_config text NOT NULL DEFAULT 'pg_catalog.english',
    title_weight integer NOT NULL DEFAULT 2 CHECK (title_weight BETWEEN 0 AND 10),
    wanted jsonb,
    rebuilds bigint NOT NULL DEFAULT 0,
    imported boolean NOT NULL DEFAULT false,
    max_documents bigint CHECK (max_documents > 0),
    max_bytes bigint CHECK (max_bytes > 0),
    owner text NOT NULL DEFAULT current_user,
    owner_id oid NOT NULL DEFAULT pg_catalog.quote_ident(current_user)::pg_catalog.regrole,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag.collections IS 'sets of documents that are searched together';
COMMENT ON COLUMN rag.collections.name IS 'name of the collection';
COMMENT ON COLUMN rag.collections.external_id IS
    'name that an application uses for the collection; functions that take and return JSON accept '
    'it instead of the name';
COMMENT ON COLUMN rag.collections.ids_from IS
    'former name, which ids of documents are made from; NULL: the name';
COMMENT ON COLUMN rag.collections.serial IS
    'number of the collection in the order of creation; never used again';
COMMENT ON COLUMN rag.collections.retriever IS 'retriever that defines storage and search';
COMMENT ON COLUMN rag.collections.partition IS
    'partition of rag.chunks that contains the chunks; NULL until the first document is stored';
COMMENT ON COLUMN rag.collections.index_strategy IS
    'strategy that chose the partition: per_dataset, fixed or rolling';
COMMENT ON COLUMN rag.collections.chunk_size IS
    'maximum size of a chunk, in chunk_unit; NULL: 1000 characters or 200 tokens';
COMMENT ON COLUMN rag.collections.chunk_overlap IS
    'maximum overlap of adjacent chunks, in chunk_unit; NULL: 200 characters or 40 tokens';
COMMENT ON COLUMN rag.collections.chunk_unit IS
    'unit of chunk_size and chunk_overlap: characters, or tokens of the model';
COMMENT ON COLUMN rag.collections.metadata_whitelist IS
    'metadata keys that are copied to chunks; NULL or empty: all keys';
COMMENT ON COLUMN rag.collections.description IS 'description of the collection';
COMMENT ON COLUMN rag.collections.embedding_model IS
    'embedding model that the collection names; NULL: the one that its retriever names, or else '
    'the one of rag.model_dir';
COMMENT ON COLUMN rag.collections.model IS
    'embedding model of the stored chunks; NULL until the first document is stored';
COMMENT ON COLUMN rag.collections.model_fingerprint IS
    'hash of the model''s graph, tokenizer and pooling';
COMMENT ON COLUMN rag.collections.model_identity IS
    'hash of the model''s weights, tokenizer and pooling; the same for each precision';
COMMENT ON COLUMN rag.collections.model_precision IS
    'precision of the model: fp32 or int8; NULL: the model is on another server';
COMMENT ON COLUMN rag.collections.model_max_tokens IS
    'tokens of a chunk that the model reads; it ignores the rest';
COMMENT ON COLUMN rag.collections.embedding_dimension IS
    'dimensions of the stored embeddings; NULL until the first document is stored';
COMMENT ON COLUMN rag.collections.embedding_baseline IS
    'mean cosine similarity that the model gives texts that have nothing to do with each other';
COMMENT ON COLUMN rag.collections.text_config IS
    'text search configuration of the keyword index, with its schema; rag.auto: that of each '
    'document''s language';
COMMENT ON COLUMN rag.collections.title_weight IS
    'how often the title counts in the keyword index, compared with the text';
COMMENT ON COLUMN rag.collections.wanted IS
    'values of other columns that take effect with the next rebuild; NULL: there are none';
COMMENT ON COLUMN rag.collections.rebuilds IS
    'number of rebuilds that changed the chunks; writers that began before one fail';
COMMENT ON COLUMN rag.collections.imported IS
    'the chunks come from a bundle, so other collections do not reuse their embeddings';
COMMENT ON COLUMN rag.collections.max_documents IS
    'maximum number of documents; NULL: no limit';
COMMENT ON COLUMN rag.collections.max_bytes IS
    'maximum size of the texts of all documents, in bytes; NULL: no limit';
COMMENT ON COLUMN rag.collections.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag.collections.owner_id IS
    'role whose members can do everything with the collection; 0: the role did not exist when a '
    'dump was restored';
COMMENT ON COLUMN rag.collections.created_at IS 'time when the collection was created';
COMMENT ON COLUMN rag.collections.updated_at IS 'time of the last change';

INSERT INTO rag.retrievers (name, spec) VALUES ('default', '{
    "storageConfig": {"type": "hnsw", "indexStrategy": {"mode": "per_dataset"}},
    "retrievalMethods": {"vector": {"enabled": true, "defaultWeight": 0.7},
                         "keyword": {"enabled": true, "defaultWeight": 0.3},
                         "hybrid": {"enabled": true}},
    "description": "vector and keyword search, with an index for large collections"}');
INSERT INTO rag.collections (name, serial, description)
    VALUES ('default', 1, 'used by functions that are called without a collection');

-- Rows of a dump are restored by COPY or INSERT. pg_dump and pg_restore turn
-- check_function_bodies off; other sessions rarely do.
CREATE FUNCTION rag.is_restoring() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_setting('check_function_bodies') = 'off'
        AND current_query() ~* '^\s*(copy|insert)\s'
$$;
COMMENT ON FUNCTION rag.is_restoring() IS 'true if the current statement restores rows from a dump';

-- Owners are identified by OID. A role may have another OID where a dump is restored, so the dump
-- contains its name, too.
CREATE FUNCTION rag.find_owner() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF rag.is_restoring() THEN
        NEW.owner_id := coalesce((SELECT oid FROM pg_roles WHERE rolname = NEW.owner), 0);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag.find_owner() IS
    'sets owner_id of a restored row to the role that has the owner''s name now';
CREATE TRIGGER find_owner BEFORE INSERT ON rag.secret
    FOR EACH ROW EXECUTE FUNCTION rag.find_owner();
CREATE TRIGGER find_owner BEFORE INSERT ON rag.retrievers
    FOR EACH ROW EXECUTE FUNCTION rag.find_owner();

-- A restored dump contains its own rows of these names. They replace the rows that CREATE EXTENSION
-- has just inserted.
CREATE FUNCTION rag.replace_builtin() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.name = 'default' AND rag.is_restoring() THEN
        EXECUTE pg_catalog.format(
            'UPDATE rag.%I AS t SET (%s) = ROW(%s) WHERE t.name = ($1).name', TG_TABLE_NAME,
            (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(attname), ', ' ORDER BY attnum)
             FROM pg_catalog.pg_attribute
             WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped AND attgenerated = ''),
            (SELECT pg_catalog.string_agg(
                 pg_catalog.format('($1).%I', attname), ', ' ORDER BY attnum)
             FROM pg_catalog.pg_attribute
             WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped AND attgenerated = '')
        ) USING NEW;
        IF EXISTS (SELECT FROM rag.collections c
                   WHERE TG_TABLE_NAME = 'collections' AND c.name = NEW.name)
            OR EXISTS (SELECT FROM rag.retrievers r
                       WHERE TG_TABLE_NAME = 'retrievers' AND r.name = NEW.name) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag.replace_builtin() IS
    'replaces the row named default by the row of a restored dump';
CREATE TRIGGER replace_builtin BEFORE INSERT ON rag.retrievers
    FOR EACH ROW EXECUTE FUNCTION rag.replace_builtin();
CREATE TRIGGER replace_builtin BEFORE INSERT ON rag.collections
    FOR EACH ROW EXECUTE FUNCTION rag.replace_builtin();

-- sources and runs
-- ----------------------------------------

CREATE TABLE rag.source (
    name text PRIMARY KEY CHECK (rag.is_qualified_name(name)),
    namespace text NOT NULL GENERATED ALWAYS AS (rag.namespace_of(name)) STORED,
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
CREATE TRIGGER find_owner BEFORE INSERT ON rag.source
    FOR EACH ROW EXECUTE FUNCTION rag.find_owner();

-- Relations are identified by OID as well. pg_restore creates tables before it fills them.
CREATE FUNCTION rag.find_relation() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF rag.is_restoring() THEN
        SELECT c.oid, c.relowner INTO NEW.relation_id, NEW.relation_owner_id
        FROM pg_class c
        WHERE NEW.kind = 'table' AND c.oid = to_regclass(NEW.spec ->> 'relation')::oid;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag.find_relation() IS
    'sets relation_id of a restored source to the relation that has the name now';
CREATE TRIGGER find_relation BEFORE INSERT ON rag.source
    FOR EACH ROW EXECUTE FUNCTION rag.find_relation();
COMMENT ON TABLE rag.source IS 'definitions and status of sources; use rag.sources instead';
COMMENT ON COLUMN rag.source.uid IS
    'identifies the source; a later source of the same name has another uid';
COMMENT ON COLUMN rag.source.document_labels IS
    'category and tags of the definition that have been applied to all stored documents; NULL: '
    'not applied yet';
COMMENT ON COLUMN rag.source.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag.source.owner_id IS
    'role whose privileges are used by runs; 0: the role did not exist when a dump was restored';
COMMENT ON COLUMN rag.source.relation_id IS
    'relation that a source of kind table reads; NULL: it did not exist when a dump was restored';
COMMENT ON COLUMN rag.source.relation_owner_id IS
    'owner of that relation when the source was created; runs fail if the owner has changed';
COMMENT ON COLUMN rag.source.credentials_key IS
    'key of the secret whose value is sent; NULL: token if it exists, otherwise password';
COMMENT ON COLUMN rag.source.next_run IS 'time of the next run by schedule or after creation';
COMMENT ON COLUMN rag.source.retry_at IS 'time at which the last run, which failed, is retried';
COMMENT ON COLUMN rag.source.attempt IS
    'number of consecutive failed attempts, without throttled attempts';
COMMENT ON COLUMN rag.source.throttled IS
    'number of consecutive attempts that the remote server asked to postpone';
COMMENT ON COLUMN rag.source.booted_at IS
    'start time of the server for which the schedule @reboot has run';
COMMENT ON COLUMN rag.source.ids_from IS
    'what ids of documents are made from: the first name; NULL: the name';
COMMENT ON COLUMN rag.source.last_run_id IS
    'last run that has ended; the queued or current run is in rag.run';
COMMENT ON COLUMN rag.source.documents IS
    'number of documents stored at the end of the last complete run';

CREATE SEQUENCE rag.run_id AS bigint;
CREATE TABLE rag.run (
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
CREATE INDEX run_source ON rag.run (source, run_id);
-- At most one active run for each source. Schedulers also scan this index.
CREATE UNIQUE INDEX run_active ON rag.run (source) WHERE phase IN ('Pending', 'Running');
COMMENT ON TABLE rag.run IS 'runs of sources; use rag.runs and rag.progress instead';

CREATE TABLE rag.run_error (
    run_id bigint NOT NULL,
    source text NOT NULL,
    uri text NOT NULL,
    stage text NOT NULL CHECK (stage IN ('fetch', 'decode', 'extract', 'split', 'embed', 'store')),
    severity text NOT NULL DEFAULT 'error' CHECK (severity IN ('error', 'warning')),
    message text NOT NULL,
    hint text,
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX run_error_run_id ON rag.run_error (run_id);
COMMENT ON TABLE rag.run_error IS
    'documents that a run could not index completely; use rag.run_errors instead';

-- The types of conditions, in the order in which rag.sources shows them. catalog::conditions has
-- the same list.
CREATE FUNCTION rag.condition_types() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '{ResourceReady,AutoIndexerScheduled,AutoIndexerIndexing,AutoIndexerCompleted,'
           'AutoIndexerError,AutoIndexerDriftDetected}'::text[]
$$;
COMMENT ON FUNCTION rag.condition_types() IS 'types of conditions, in the order of rag.sources';

-- Conditions have the form of Kubernetes: one for each type, with the time of the last change of
-- its status as lastTransitionTime.
CREATE FUNCTION rag.merge_conditions(present jsonb, changes jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(
        CASE WHEN n.value IS NULL THEN o.value
             ELSE n.value || jsonb_build_object('lastTransitionTime',
                 CASE WHEN o.value ->> 'status' = n.value ->> 'status'
                          THEN o.value ->> 'lastTransitionTime'
                      ELSE to_char(clock_timestamp() AT TIME ZONE 'UTC',
                                   'YYYY-MM-DD"T"HH24:MI:SS"Z"') END)
        END ORDER BY array_position(rag.condition_types(),
                                    coalesce(n.value, o.value) ->> 'type')), '[]')
    FROM jsonb_array_elements(present) o
    FULL JOIN jsonb_array_elements(changes) n ON n.value ->> 'type' = o.value ->> 'type'
$$;
COMMENT ON FUNCTION rag.merge_conditions(jsonb, jsonb) IS
    'replaces conditions by changed conditions of the same type';

CREATE FUNCTION rag.has_condition(conditions jsonb, type text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.jsonb_path_exists(
        $1, '$[*] ? (@.type == $type && @.status == "True")',
        pg_catalog.jsonb_build_object('type', $2))
$$;
COMMENT ON FUNCTION rag.has_condition(jsonb, text) IS
    'true if the condition of this type has the status True';

-- Phases, for the views and the notifications. These are plain expressions without SET, so that
-- they are inlined into the views. All names in them are qualified.
CREATE FUNCTION rag.run_phase(phase text, is_lost boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN is_lost THEN 'Failed' ELSE phase END
$$;
COMMENT ON FUNCTION rag.run_phase(text, boolean) IS
    'phase of a run; is_lost: its process ended before the run did';

CREATE FUNCTION rag.source_phase(
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
COMMENT ON FUNCTION rag.source_phase(boolean, text, text, boolean, boolean, text) IS
    'phase of a source, from its queued or current run (active) and its last finished run (last)';

-- The error of a run whose process ended before the run did. run::end::end_lost_runs stores the
-- same error when a scheduler finds the run.
CREATE FUNCTION rag.lost_run_error() RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '{"sqlstate": "57P01", "message": "the run''s process ended before the run did"}'::jsonb
$$;
COMMENT ON FUNCTION rag.lost_run_error() IS 'error of a run whose process ended before the run did';

-- Notifications on rag_events. Each change of a run's phase sends one. Each change of a source's
-- phase sends one if none of its runs is queued or in progress.
CREATE FUNCTION rag.announce(event jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notify('rag_events', (event || jsonb_build_object('at', clock_timestamp()))::text)
$$;
COMMENT ON FUNCTION rag.announce(jsonb) IS 'sends a notification on the channel rag_events';

CREATE FUNCTION rag.announce_run() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    suspended boolean;
    will_retry boolean;
BEGIN
    SELECT s.suspend, s.last_run_id = NEW.run_id AND s.retry_at IS NOT NULL
    INTO suspended, will_retry
    FROM rag.source s WHERE s.name = NEW.source;
    -- a run that was stopped because its source is being dropped is not retried
    will_retry := NEW.phase = 'Failed' AND will_retry AND NOT suspended
                  AND NOT rag.is_being_dropped(NEW.source);
    PERFORM rag.announce(jsonb_build_object(
        'source', NEW.source, 'run_id', NEW.run_id, 'trigger', NEW.trigger, 'attempt', NEW.attempt,
        'phase', rag.source_phase(is_being_dropped => false, active_phase => NULL,
                                  active_trigger => NULL, suspended => false,
                                  will_retry => will_retry, last_phase => NEW.phase)));
    IF suspended AND NEW.phase IN ('Completed', 'Failed') THEN
        PERFORM rag.announce(jsonb_build_object('source', NEW.source, 'phase', 'Suspended'));
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag.announce_run() IS
    'sends a notification on rag_events for each phase of a run';

CREATE FUNCTION rag.announce_source() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    active record;
    last_phase text;
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM rag.announce(jsonb_build_object('source', OLD.name, 'phase', 'Deleted'));
        RETURN NULL;
    END IF;
    SELECT r.phase, r.trigger INTO active
    FROM rag.run r WHERE r.source = NEW.name AND r.phase IN ('Pending', 'Running');
    -- A source that is suspended during a run becomes Suspended when the run ends. A run that
    -- replaces a retry sends its own notification.
    IF active.phase = 'Running'
       OR active.phase = 'Pending' AND TG_OP = 'UPDATE' AND OLD.suspend = NEW.suspend THEN
        RETURN NULL;
    END IF;
    SELECT r.phase INTO last_phase FROM rag.run r WHERE r.run_id = NEW.last_run_id;
    PERFORM rag.announce(jsonb_build_object(
        'source', NEW.name,
        'phase', rag.source_phase(is_being_dropped => false, active_phase => active.phase,
                                  active_trigger => active.trigger, suspended => NEW.suspend,
                                  will_retry => NEW.retry_at IS NOT NULL,
                                  last_phase => last_phase)));
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag.announce_source() IS
    'sends a notification on rag_events for phases of a source that no run announces';

CREATE TRIGGER announce_queued AFTER INSERT ON rag.run
    FOR EACH ROW WHEN (NEW.phase IN ('Pending', 'Running'))
    EXECUTE FUNCTION rag.announce_run();
CREATE TRIGGER announce_phase AFTER UPDATE OF phase ON rag.run
    FOR EACH ROW WHEN (OLD.phase <> NEW.phase)
    EXECUTE FUNCTION rag.announce_run();
CREATE TRIGGER announce_created AFTER INSERT ON rag.source
    FOR EACH ROW EXECUTE FUNCTION rag.announce_source();
-- suspended or resumed, or a retry was cancelled without a run in its place
CREATE TRIGGER announce_altered AFTER UPDATE OF suspend, retry_at ON rag.source FOR EACH ROW
    WHEN (OLD.suspend <> NEW.suspend
          OR OLD.retry_at IS NOT NULL AND NEW.retry_at IS NULL
             AND OLD.last_run_id = NEW.last_run_id)
    EXECUTE FUNCTION rag.announce_source();
CREATE TRIGGER announce_dropped AFTER DELETE ON rag.source
    FOR EACH ROW EXECUTE FUNCTION rag.announce_source();

-- Schedulers learn of every change of a source, also of those by a dump that is restored.
CREATE FUNCTION rag.source_changed() RETURNS trigger
    AS 'MODULE_PATHNAME', 'rag_source_changed' LANGUAGE c;
COMMENT ON FUNCTION rag.source_changed() IS 'wakes the scheduler after a change of a source';
CREATE TRIGGER source_changed AFTER INSERT OR UPDATE OR DELETE ON rag.source FOR EACH STATEMENT
    EXECUTE FUNCTION rag.source_changed();

-- documents and chunks
-- ----------------------------------------

-- Ids are predictable, and applications choose them. So they say nothing outside of their
-- collection: each statement on these rows names it.
CREATE TABLE rag.documents (
    document_id uuid NOT NULL,
    collection text NOT NULL,
    source text,
    former_source text,
    uri text NOT NULL,
    title text,
    knowledge_id bigint,
    document_type text,
    category text,
    tags text[],
    status text NOT NULL CHECK (status IN ('pending', 'active', 'error')),
    error text,
    content_hash text,
    content text,
    chunk_count integer NOT NULL DEFAULT 0,
    metadata jsonb NOT NULL DEFAULT '{}',
    raw_hash text,
    chunking text,
    own_title boolean NOT NULL DEFAULT true,
    validator text,
    created_at timestamptz NOT NULL DEFAULT now(),
    fetched_at timestamptz,
    indexed_at timestamptz,
    given_id text,
    PRIMARY KEY (collection, document_id)
);
CREATE INDEX documents_source ON rag.documents (collection, source);
-- a uri may be longer than a key
CREATE INDEX documents_kept ON rag.documents (collection, pg_catalog.md5(uri))
    WHERE source IS NULL AND former_source IS NOT NULL;
COMMENT ON TABLE rag.documents IS 'documents with their extracted text';
COMMENT ON COLUMN rag.documents.document_id IS
    'hash of collection, source and uri; the same on every machine; unique in its collection';
COMMENT ON COLUMN rag.documents.given_id IS
    'id that an application gave the document, if it is no UUID';
COMMENT ON COLUMN rag.documents.collection IS 'collection that contains the document';
COMMENT ON COLUMN rag.documents.source IS
    'source of the document; NULL: it was added by rag_add_document, or its source was dropped';
COMMENT ON COLUMN rag.documents.former_source IS 'dropped source that added the document';
COMMENT ON COLUMN rag.documents.uri IS 'address of the document';
COMMENT ON COLUMN rag.documents.title IS 'title of the document';
COMMENT ON COLUMN rag.documents.knowledge_id IS 'knowledge item that the document belongs to';
COMMENT ON COLUMN rag.documents.document_type IS 'type of the document';
COMMENT ON COLUMN rag.documents.category IS 'category of the document';
COMMENT ON COLUMN rag.documents.tags IS 'tags of the document';
COMMENT ON COLUMN rag.documents.status IS 'pending, active or error';
COMMENT ON COLUMN rag.documents.error IS
    'reason why the document could not be indexed, if status is error; previously indexed content '
    'is kept';
COMMENT ON COLUMN rag.documents.content_hash IS 'SHA-256 of the extracted text, in hexadecimal';
COMMENT ON COLUMN rag.documents.content IS 'extracted text';
COMMENT ON COLUMN rag.documents.chunk_count IS 'number of chunks';
COMMENT ON COLUMN rag.documents.metadata IS 'metadata of the document';
COMMENT ON COLUMN rag.documents.raw_hash IS
    'hash of the document before extraction, in hexadecimal; used to detect unchanged documents';
COMMENT ON COLUMN rag.documents.chunking IS
    'settings that the text was split and embedded with; the document is indexed again if they '
    'change';
COMMENT ON COLUMN rag.documents.own_title IS
    'true if the document itself contains the title; only then is the title embedded with the '
    'chunks';
COMMENT ON COLUMN rag.documents.validator IS
    'version reported by the source (time and size, ETag, blob); the document is not fetched '
    'again while it is the same';
COMMENT ON COLUMN rag.documents.created_at IS 'time when the document was first stored';
COMMENT ON COLUMN rag.documents.fetched_at IS 'time when the current text was fetched';
COMMENT ON COLUMN rag.documents.indexed_at IS 'time when the current text was indexed';

-- A plan announces what the chunks that are written next belong to. So its hash is that of the
-- document which they create, and not of what is stored when the plan is made.
CREATE TABLE rag.planned_hash (
    collection text NOT NULL,
    document_id uuid NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (collection, document_id)
);
COMMENT ON TABLE rag.planned_hash IS
    'hashes that rag_apply_plan has announced of documents without chunks';

-- Partitions are named by their own names, so that a collection can join one that exists. They are
-- created with the first document, and keys and indexes with them (src/catalog/partitions.rs). If
-- CREATE EXTENSION created those on this table, they would exist twice after a dump is restored.
CREATE TABLE rag.chunks (
    collection text NOT NULL,
    partition text NOT NULL,
    source text,
    uri text NOT NULL,
    title text,
    document_id uuid NOT NULL,
    knowledge_id bigint,
    document_type text NOT NULL,
    category text,
    tags text[],
    chunk_id uuid NOT NULL,
    chunk_index integer NOT NULL,
    start_index integer NOT NULL,
    content text NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    embedding rag_types.vector NOT NULL,
    embedding_key uuid NOT NULL,
    fetched_at timestamptz NOT NULL,
    indexed_at timestamptz NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    page integer,
    heading_path text[],
    former_source text,
    given_id text
) PARTITION BY LIST (partition);
-- Stored in the row if it fits: fetching it from the TOAST table for every comparison would be
-- several times slower.
ALTER TABLE rag.chunks ALTER COLUMN embedding SET STORAGE MAIN;
COMMENT ON TABLE rag.chunks IS 'parts of documents with their embeddings';
COMMENT ON COLUMN rag.chunks.collection IS 'collection that contains the chunk';
COMMENT ON COLUMN rag.chunks.partition IS
    'name of the partition that contains the row: that of the collection in rag.collections';
COMMENT ON COLUMN rag.chunks.source IS
    'source of the document; NULL: it has none, or its source was dropped';
COMMENT ON COLUMN rag.chunks.former_source IS 'dropped source that added the document';
COMMENT ON COLUMN rag.chunks.uri IS 'address of the document';
COMMENT ON COLUMN rag.chunks.title IS 'title of the document';
COMMENT ON COLUMN rag.chunks.document_id IS 'document that contains the chunk';
COMMENT ON COLUMN rag.chunks.knowledge_id IS 'knowledge item that the document belongs to';
COMMENT ON COLUMN rag.chunks.document_type IS 'type of the document';
COMMENT ON COLUMN rag.chunks.category IS 'category of the document';
COMMENT ON COLUMN rag.chunks.tags IS 'tags of the document';
COMMENT ON COLUMN rag.chunks.chunk_id IS
    'hash of document, text, chunking and position; the same on every machine';
COMMENT ON COLUMN rag.chunks.given_id IS
    'id that an application gave the chunk, if it is no UUID';
COMMENT ON COLUMN rag.chunks.chunk_index IS 'position in the document, from 0';
COMMENT ON COLUMN rag.chunks.start_index IS
    'first character in the document''s content, from 0: substr(content, start_index + 1, length)';
COMMENT ON COLUMN rag.chunks.content IS 'text of the chunk';
COMMENT ON COLUMN rag.chunks.metadata IS
    'metadata of the document, limited to metadata_whitelist of the collection';
COMMENT ON COLUMN rag.chunks.embedding IS 'embedding of the chunk';
COMMENT ON COLUMN rag.chunks.embedding_key IS
    'hash of model and embedded text; equal keys have equal embeddings';
COMMENT ON COLUMN rag.chunks.fetched_at IS 'time when the text was fetched';
COMMENT ON COLUMN rag.chunks.indexed_at IS 'time when the text was indexed';
COMMENT ON COLUMN rag.chunks.start_line IS
    'line of the file that contains the first character, from 1; front matter is counted';
COMMENT ON COLUMN rag.chunks.end_line IS 'line of the file that contains the last character';
COMMENT ON COLUMN rag.chunks.page IS
    'page that contains the first character, from 1; NULL if the document has no pages';
COMMENT ON COLUMN rag.chunks.heading_path IS
    'headings above the chunk, outermost first; for source code, the enclosing types and '
    'functions; NULL if there are none';

-- Locks on sources (src/cluster/lock.rs), which last until the process that holds them releases
-- them or ends. A run or a drift check holds the lock for the purpose sync. A session that is about
-- to drop the source holds the lock for the purpose drop. A process that only tests a lock takes it
-- in another mode for a moment. A standby does not see the locks of the primary.
CREATE FUNCTION rag.lock_purpose(purpose text) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE purpose WHEN 'sync' THEN 0 WHEN 'drop' THEN 1 END::smallint
$$;
COMMENT ON FUNCTION rag.lock_purpose(text) IS
    'column purpose of rag.source_locks: 0 for sync (a run or drift check), 1 for drop';

-- The four bytes of hashtext as an unsigned number; inlined into rag.sources, so without SET.
CREATE FUNCTION rag.source_hash(source text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.hashtext($1)::pg_catalog.int8 OPERATOR(pg_catalog.&) 4294967295
$$;
COMMENT ON FUNCTION rag.source_hash(text) IS 'hash that identifies a source in rag.source_locks';

CREATE FUNCTION rag.source_locks() RETURNS TABLE (source_hash bigint, purpose smallint, pid integer)
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT objid::bigint, objsubid, pid FROM pg_locks
    WHERE locktype = 'object' AND granted AND mode = 'ExclusiveLock'
      AND classid = 'rag.source'::regclass
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;
COMMENT ON FUNCTION rag.source_locks() IS
    'locks on sources that processes of this database hold; see rag.source_hash and '
    'rag.lock_purpose';

CREATE FUNCTION rag.is_syncing(source text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_is_in_recovery() OR EXISTS (
        SELECT FROM rag.source_locks()
        WHERE purpose = rag.lock_purpose('sync') AND source_hash = rag.source_hash(source))
$$;
COMMENT ON FUNCTION rag.is_syncing(text) IS
    'true if a run or drift check of the source is in progress';

CREATE FUNCTION rag.is_being_dropped(source text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM rag.source_locks()
        WHERE purpose = rag.lock_purpose('drop') AND source_hash = rag.source_hash(source))
$$;
COMMENT ON FUNCTION rag.is_being_dropped(text) IS 'true if a session is about to drop the source';

-- VOLATILE, so that it sees rows that were committed after the calling query began. A run updates
-- its row before it releases its lock. If the lock is free and the row is unchanged after that, the
-- process has ended without finishing the run.
CREATE FUNCTION rag.has_not_ended(run_id bigint) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL RESTRICTED SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM rag.run r WHERE r.run_id = $1 AND r.phase = 'Running')
$$;
COMMENT ON FUNCTION rag.has_not_ended(bigint) IS
    'true if the latest committed version of a run''s row is not finished';

CREATE FUNCTION rag.why_idle() RETURNS text
    AS 'MODULE_PATHNAME', 'rag_why_idle_wrapper' LANGUAGE c STABLE PARALLEL SAFE;
COMMENT ON FUNCTION rag.why_idle() IS
    'reason why the sources of this database are not synced automatically; NULL if they are';

CREATE FUNCTION rag.has_scheduler() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    -- a standby does not know
    SELECT pg_is_in_recovery() OR rag.why_idle() IS NULL
$$;
COMMENT ON FUNCTION rag.has_scheduler() IS
    'true if the sources of this database are synced automatically';

CREATE FUNCTION rag.is_stalled(updated_at timestamptz) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    -- the setting is unknown until the library is loaded
    SELECT coalesce(updated_at < now() - current_setting('rag.stall_timeout', true)::interval
                    AND current_setting('rag.stall_timeout', true) <> '0', false)
$$;
COMMENT ON FUNCTION rag.is_stalled(timestamptz) IS
    'true if a run that was last updated then has made no progress for rag.stall_timeout';

CREATE FUNCTION rag.scheduler_lock_key() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT x'72616774'::bigint
$$;
COMMENT ON FUNCTION rag.scheduler_lock_key() IS
    'first key of the advisory lock that the scheduler of a database holds';

-- If scheduling is off, a scheduler that was started for queued runs runs these and no others.
CREATE FUNCTION rag.why_waiting() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT rag.why_idle() WHERE NOT pg_is_in_recovery() AND NOT EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND objsubid = 3
          AND classid::bigint = rag.scheduler_lock_key()
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
$$;
COMMENT ON FUNCTION rag.why_waiting() IS
    'reason why no queued run can start; NULL if they start as slots become free';

-- Without a scheduler no source is scheduled, whatever the stored conditions say, and a source that
-- waits for its first run reports the reason. The conditions are changed on reading, because no
-- process could store when this state begins and ends.
CREATE FUNCTION rag.without_scheduler(conditions jsonb, why text) RETURNS jsonb
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
COMMENT ON FUNCTION rag.without_scheduler(jsonb, text) IS
    'conditions of a source while no scheduler runs, with the reason why';

-- views
-- ----------------------------------------

-- Everybody sees the sources that their roles own, and the runs of these. Members of rag_admin also
-- see those of the collections that they can read. Counts and messages of a source cover all of its
-- documents. If added policies hide chunks, only roles that can write to the collection see them.
CREATE VIEW rag.visible_source WITH (security_barrier) AS
    SELECT * FROM rag.source
    WHERE owner_id IN (SELECT oid FROM pg_catalog.pg_roles
                       WHERE pg_catalog.pg_has_role(oid, 'USAGE'))
       OR EXISTS (SELECT FROM pg_catalog.pg_roles
                  WHERE rolname = 'rag_admin' AND pg_catalog.pg_has_role(oid, 'USAGE'))
          AND collection = ANY ((SELECT rag.overseen_collections())::text[]);
COMMENT ON VIEW rag.visible_source IS 'sources that the caller can see; use rag.sources instead';

-- Earlier runs of a source may belong to another collection. Only roles that can see that
-- collection see these runs.
CREATE VIEW rag.visible_run WITH (security_barrier) AS
    SELECT r.* FROM rag.run r JOIN rag.visible_source s ON s.name = r.source
    WHERE r.collection = s.collection
       OR r.collection = ANY ((SELECT rag.overseen_collections())::text[]);
COMMENT ON VIEW rag.visible_run IS 'runs that the caller can see; use rag.runs instead';

CREATE VIEW rag.runs WITH (security_barrier) AS
    SELECT run_id, source, collection, trigger, attempt,
           rag.run_phase(phase, is_lost) AS phase,
           CASE WHEN phase <> 'Pending' THEN waiting
                WHEN trigger <> 'manual'
                     AND EXISTS (SELECT FROM rag.source s WHERE s.name = source AND s.suspend)
                    THEN 'the source is suspended'
                ELSE coalesce((SELECT rag.why_waiting()), waiting) END AS waiting,
           queued_at, started_at, finished_at,
           documents_added, documents_updated, documents_deleted, documents_unchanged,
           documents_failed, documents_with_warnings, files_skipped,
           chunks_written, chunks_embedded, chunks_reused, bytes_fetched, commit, note,
           CASE WHEN started_at IS NOT NULL AND NOT is_lost
                    THEN coalesce(finished_at, clock_timestamp()) - started_at END AS duration,
           fetch_seconds, extract_seconds, embed_seconds, store_seconds, model_tokens, model_cost,
           CASE WHEN error IS NOT NULL THEN jsonb_build_array(error)
                WHEN is_lost THEN jsonb_build_array(rag.lost_run_error())
                ELSE '[]'::jsonb END AS errors,
           generation, updated_at
    FROM (SELECT *, phase = 'Running' AND NOT rag.is_syncing(source)
                    AND rag.has_not_ended(run_id) AS is_lost
          FROM rag.visible_run) AS run;
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
    'number of files that are not documents: images, archives, empty and binary files, key files';
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
    'errors of single documents are in rag.run_errors';
COMMENT ON COLUMN rag.runs.generation IS 'generation of the source''s definition that the run used';

CREATE VIEW rag.run_errors WITH (security_barrier) AS
    SELECT run_id, source, uri, stage, severity, message, hint, occurred_at
    FROM rag.run_error e
    WHERE EXISTS (
        SELECT FROM rag.visible_run r
        WHERE r.run_id = e.run_id
          AND ((SELECT rag.sees_all_chunks()) OR rag.sees_uri(r.collection, e.source, e.uri)));
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

-- A row exists from the beginning of a rebuild until its storage replaces the former one. The row
-- of a rebuild that was interrupted stays, so that the next one goes on from there.
CREATE TABLE rag.rebuild (
    collection text PRIMARY KEY,
    target jsonb NOT NULL,
    relation text NOT NULL,
    stage text NOT NULL DEFAULT 'copy' CHECK (stage IN ('copy', 'index', 'swap')),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    documents_total bigint NOT NULL DEFAULT 0,
    chunks_written bigint NOT NULL DEFAULT 0,
    chunks_embedded bigint NOT NULL DEFAULT 0,
    current_uri text
);
COMMENT ON TABLE rag.rebuild IS 'rebuilds of collections that have not ended; see rag.progress';
COMMENT ON COLUMN rag.rebuild.target IS
    'settings and model that the new storage is for; with others it is built from the beginning';
COMMENT ON COLUMN rag.rebuild.relation IS 'relation in schema rag that is being filled';
COMMENT ON COLUMN rag.rebuild.stage IS
    'copy: documents; index: indexes; swap: what has changed meanwhile, and the replacement';

-- The version of a document is the transaction that wrote its row. Each change of chunks writes
-- the row of their document, so a document of another version is copied again.
CREATE TABLE rag.rebuilt_document (
    collection text NOT NULL,
    document_id uuid NOT NULL,
    version text NOT NULL,
    chunking text,
    chunk_count integer NOT NULL,
    digest bytea,
    language text,
    PRIMARY KEY (collection, document_id)
);
COMMENT ON TABLE rag.rebuilt_document IS 'documents that a rebuild has copied';
COMMENT ON COLUMN rag.rebuilt_document.version IS 'xmin of the row in rag.documents';
COMMENT ON COLUMN rag.rebuilt_document.chunking IS
    'new value of rag.documents.chunking; NULL: it does not change';
COMMENT ON COLUMN rag.rebuilt_document.digest IS
    'SHA-256 of the new chunks; NULL: the chunks do not change, or the document has no digest';
COMMENT ON COLUMN rag.rebuilt_document.language IS 'language in the metadata of its new chunks';

CREATE FUNCTION rag.document_language(title text, content text) RETURNS text
    AS 'MODULE_PATHNAME', 'document_language_wrapper' LANGUAGE c IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION rag.document_language(text, text) IS
    'language of a document that does not say it itself';

-- The last run of each collection that has indexed its knowledge items.
CREATE TABLE rag.knowledge_run (
    collection text PRIMARY KEY,
    run_id bigint NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    items_total bigint NOT NULL,
    items_done bigint NOT NULL DEFAULT 0,
    chunks_written bigint NOT NULL DEFAULT 0,
    current_uri text,
    summary jsonb,
    error jsonb
);
COMMENT ON TABLE rag.knowledge_run IS
    'the last run of rag_index_all in each collection; see rag.progress';
COMMENT ON COLUMN rag.knowledge_run.summary IS
    'what rag_index_all returns, once all items are done';
COMMENT ON COLUMN rag.knowledge_run.error IS 'why the run ended before: {sqlstate, message, ...}';

-- A process holds this lock while it indexes the knowledge items of a collection
-- (src/pg/lock.rs).
CREATE FUNCTION rag.is_indexing_knowledge(collection text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'object' AND granted AND mode = 'ExclusiveLock' AND objsubid = 3
          AND classid = 'rag.collections'::regclass AND objid::bigint = rag.source_hash(collection)
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
$$;
COMMENT ON FUNCTION rag.is_indexing_knowledge(text) IS
    'true if the knowledge items of the collection are being indexed';

-- The collection is being rebuilt if a session holds this lock (src/pg/lock.rs).
CREATE FUNCTION rag.is_rebuilding(collection text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'object' AND granted AND mode = 'ExclusiveLock' AND objsubid = 0
          AND classid = 'rag.collections'::regclass AND objid::bigint = rag.source_hash(collection)
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
$$;
COMMENT ON FUNCTION rag.is_rebuilding(text) IS 'true if a rebuild of the collection is in progress';

CREATE VIEW rag.progress WITH (security_barrier) AS
    SELECT source, run_id, stage, done AS documents_done, documents_total,
           chunks_written AS chunks_done, bytes_fetched AS bytes_done,
           round((done / seconds)::numeric, 1) AS rate,
           CASE WHEN done > 0
                    THEN make_interval(secs => round((documents_total - done) * seconds / done))
               END AS eta,
           CASE WHEN (SELECT rag.sees_all_chunks()) OR rag.sees_uri(collection, source, current_uri)
                    THEN current_uri END AS current_uri,
           collection
    FROM (SELECT *,
                 documents_added + documents_updated + documents_unchanged + documents_failed
                     AS done,
                 greatest(extract(epoch FROM clock_timestamp() - started_at), 0.001)
                     ::double precision AS seconds
          FROM rag.visible_run
          WHERE phase = 'Running' AND rag.is_syncing(source)) AS running
    UNION ALL
    SELECT NULL, NULL, stage, done, documents_total, chunks_written, NULL,
           round((done / seconds)::numeric, 1),
           CASE WHEN done > 0
                    THEN make_interval(secs => round((documents_total - done) * seconds / done))
               END,
           CASE WHEN (SELECT rag.sees_all_chunks()) THEN current_uri END, collection
    FROM (SELECT b.*,
                 (SELECT count(*) FROM rag.rebuilt_document d WHERE d.collection = b.collection)
                     AS done,
                 greatest(extract(epoch FROM clock_timestamp() - b.started_at), 0.001)
                     ::double precision AS seconds
          FROM rag.rebuild b
          WHERE b.collection = ANY ((SELECT rag.readable_collections())::text[])
            AND rag.is_rebuilding(b.collection)) AS rebuilding
    UNION ALL
    SELECT NULL, run_id, 'knowledge', items_done, items_total, chunks_written, NULL,
           round((items_done / seconds)::numeric, 1),
           CASE WHEN items_done > 0
                    THEN make_interval(
                        secs => round((items_total - items_done) * seconds / items_done))
               END,
           CASE WHEN (SELECT rag.sees_all_chunks()) THEN current_uri END, collection
    FROM (SELECT k.*,
                 greatest(extract(epoch FROM clock_timestamp() - k.started_at), 0.001)
                     ::double precision AS seconds
          FROM rag.knowledge_run k
          WHERE k.collection = ANY ((SELECT rag.readable_collections())::text[])
            AND k.summary IS NULL AND k.error IS NULL
            AND rag.is_indexing_knowledge(k.collection)) AS indexing;
COMMENT ON VIEW rag.progress IS 'progress of current runs and rebuilds';
COMMENT ON COLUMN rag.progress.source IS
    'source that is being synced; NULL for a rebuild and for knowledge items';
COMMENT ON COLUMN rag.progress.run_id IS 'current run; NULL for a rebuild';
COMMENT ON COLUMN rag.progress.stage IS
    'fetch, embed or store; of a rebuild: copy, index or swap; of rag_index_all: knowledge';
COMMENT ON COLUMN rag.progress.collection IS
    'collection that is being indexed into, or that is being rebuilt';
COMMENT ON COLUMN rag.progress.documents_done IS
    'number of documents that were added, updated, unchanged or failed; of rag_index_all, of items';
COMMENT ON COLUMN rag.progress.documents_total IS
    'number of documents of the source, NULL until they are listed; of rag_index_all, of items';
COMMENT ON COLUMN rag.progress.chunks_done IS 'number of chunks written';
COMMENT ON COLUMN rag.progress.bytes_done IS 'number of bytes read from the source';
COMMENT ON COLUMN rag.progress.rate IS 'documents per second since the start';
COMMENT ON COLUMN rag.progress.eta IS 'estimated time left at that rate';
COMMENT ON COLUMN rag.progress.current_uri IS 'document that is being processed';

CREATE VIEW rag.sources WITH (security_barrier) AS
    WITH locks AS MATERIALIZED (SELECT source_hash, purpose FROM rag.source_locks())
    SELECT s.name, s.kind, s.collection, s.schedule, s.suspend,
           rag.source_phase(
               is_being_dropped => EXISTS (
                   SELECT FROM locks
                   WHERE purpose = rag.lock_purpose('drop') AND source_hash = s.hash),
               active_phase => c.active_phase, active_trigger => c.trigger,
               suspended => s.suspend, will_retry => s.retry_at IS NOT NULL,
               last_phase => rag.run_phase(r.phase, c.is_lost)) AS phase,
           rag.has_condition(s.conditions, 'ResourceReady') AS resource_ready,
           rag.has_condition(s.conditions, 'AutoIndexerScheduled')
               AND (SELECT rag.has_scheduler()) AS scheduled,
           coalesce(c.active_phase = 'Running', false) AS indexing,
           rag.has_condition(s.conditions, 'AutoIndexerError')
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
           CASE WHEN r.error IS NOT NULL
                    THEN ARRAY[concat_ws(': ', r.error ->> 'message', r.error ->> 'detail')]
                WHEN c.is_lost THEN ARRAY[rag.lost_run_error() ->> 'message']
                ELSE '{}' END
           || CASE WHEN r.documents_failed > 0 THEN
                  ARRAY(SELECT e.uri || ': ' || e.message FROM rag.run_error e
                        WHERE e.run_id = r.run_id AND e.severity = 'error'
                          AND ((SELECT rag.sees_all_chunks())
                               OR rag.sees_uri(r.collection, s.name, e.uri))
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
           CASE WHEN (SELECT rag.has_scheduler()) THEN s.conditions
                ELSE rag.without_scheduler(s.conditions, (SELECT rag.why_idle())) END AS conditions,
           s.created_at, now() - s.created_at AS age,
           s.spec,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = s.owner_id) AS owner,
           CASE WHEN s.namespace = 'default' THEN s.credentials
                ELSE split_part(s.credentials, '/', 2) END
           || coalesce('/' || s.credentials_key, '') AS credentials,
           s.max_retries, s.timeout, s.drift_policy, s.drift_checked_at, s.uid,
           s.namespace, s.display_name, s.labels, s.annotations, s.max_documents, s.max_bytes
    FROM (SELECT v.*, l.hash,
                 pg_is_in_recovery() OR EXISTS (
                     SELECT FROM locks
                     WHERE purpose = rag.lock_purpose('sync') AND source_hash = l.hash) AS is_busy
          FROM rag.visible_source v, LATERAL (SELECT rag.source_hash(v.name)) AS l (hash)) s
    LEFT JOIN LATERAL (
        SELECT a.run_id, a.trigger, a.is_lost,
               CASE WHEN NOT a.is_lost THEN a.phase END AS active_phase
        FROM (SELECT q.run_id, q.phase, q.trigger,
                     q.phase = 'Running' AND NOT s.is_busy AND rag.has_not_ended(q.run_id)
                         AS is_lost
              FROM rag.run q WHERE q.source = s.name AND q.phase IN ('Pending', 'Running')) AS a
    ) AS c ON true
    -- a run whose process was lost counts as finished, although its row does not say so yet
    LEFT JOIN rag.run AS r ON r.run_id = CASE WHEN c.is_lost THEN c.run_id ELSE s.last_run_id END;
COMMENT ON VIEW rag.sources IS 'sources with their status';
COMMENT ON COLUMN rag.sources.name IS
    'name of the source; namespace/name if the namespace is not default';
COMMENT ON COLUMN rag.sources.namespace IS 'namespace, taken from the name';
COMMENT ON COLUMN rag.sources.display_name IS 'metadata.displayName of the manifest';
COMMENT ON COLUMN rag.sources.labels IS 'metadata.labels of the manifest';
COMMENT ON COLUMN rag.sources.annotations IS 'metadata.annotations of the manifest';
-- The kinds are those of the registry (crates/protocol/src/spec).
CREATE FUNCTION rag.source_kinds_comment() RETURNS text
    AS 'MODULE_PATHNAME', 'source_kinds_comment_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
DO $$
BEGIN
    EXECUTE format('COMMENT ON COLUMN rag.sources.kind IS %L', rag.source_kinds_comment());
END
$$;
DROP FUNCTION rag.source_kinds_comment();
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

-- dumps
-- ----------------------------------------

SELECT pg_catalog.pg_extension_config_dump('rag.retrievers', '');
SELECT pg_catalog.pg_extension_config_dump('rag.collection_serial', '');
SELECT pg_catalog.pg_extension_config_dump('rag.collections', '');
SELECT pg_catalog.pg_extension_config_dump('rag.source', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run_id', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run_error', '');
SELECT pg_catalog.pg_extension_config_dump('rag.documents', '');
SELECT pg_catalog.pg_extension_config_dump('rag.planned_hash', '');

-- DROP EXTENSION
-- ----------------------------------------

-- DROP EXTENSION drops partitions together with rag.chunks and does not report them. While they
-- contain documents the command needs CASCADE (src/workers/drop_extension.rs).
CREATE FUNCTION rag.before_drop() RETURNS event_trigger
    AS 'MODULE_PATHNAME', 'rag_before_drop' LANGUAGE c;
COMMENT ON FUNCTION rag.before_drop() IS
    'rejects DROP EXTENSION without CASCADE while collections contain documents';
CREATE EVENT TRIGGER rag_before_drop
    ON ddl_command_start WHEN TAG IN ('DROP EXTENSION', 'DROP OWNED')
    EXECUTE FUNCTION rag.before_drop();
COMMENT ON EVENT TRIGGER rag_before_drop IS
    'rejects DROP EXTENSION rag without CASCADE while collections contain documents';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
