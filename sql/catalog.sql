-- Roles, the tables of the catalog, and the views that people read. Tables are written by the
-- extension's functions only, as the extension's owner; roles below may read them.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Roles are the cluster's, and may be there: of an installation in another database, or because
-- somebody who may create roles was first. Nobody but superusers may be able to hand them out.
DO $$
DECLARE
    role record;
    names text;
BEGIN
    FOR role IN
        SELECT * FROM (VALUES
            ('rag_reader'::name, 'may search the collections of the extension rag'),
            ('rag_admin', 'may create and manage collections and sources of the extension rag')) AS r (name, comment)
    LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role.name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role.name);
            EXECUTE format('COMMENT ON ROLE %I IS %L', role.name, role.comment);
            CONTINUE;
        END IF;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = role.name
                   AND (rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)) THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('role "%s" exists and is not one that the extension rag made', role.name),
                DETAIL = 'It can log in or has another attribute.',
                HINT = format('ALTER ROLE %I NOLOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS;', role.name);
        END IF;
        SELECT string_agg(quote_ident(m.rolname), ', ' ORDER BY m.rolname) INTO names
        FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
        WHERE a.roleid = (SELECT oid FROM pg_roles WHERE rolname = role.name) AND a.admin_option AND NOT m.rolsuper;
        IF names IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('role "%s" exists and can be granted by roles that are no superusers', role.name),
                DETAIL = format('ADMIN OPTION for it: %s. Whoever has that could make anybody a member, in every database.', names),
                HINT = format('REVOKE ADMIN OPTION FOR %I FROM %s;', role.name, names);
        END IF;
        SELECT string_agg(quote_ident(m.rolname), ', ' ORDER BY m.rolname) INTO names
        FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
        WHERE a.roleid = (SELECT oid FROM pg_roles WHERE rolname = role.name) AND m.rolname <> 'rag_admin';
        IF names IS NOT NULL THEN
            RAISE WARNING 'role "%" exists, and its members are members in this database too', role.name USING DETAIL = format('Members: %s.', names);
        END IF;
    END LOOP;
    GRANT rag_reader TO rag_admin;
END $$;

-- retrievers and collections
-- ------------------------------------------------------------------------------------------

CREATE TABLE rag.retrievers (
    name text PRIMARY KEY CHECK (rag.is_qualified_name(name)),
    namespace text NOT NULL GENERATED ALWAYS AS
        (CASE WHEN pg_catalog.strpos(name, '/') > 0 THEN pg_catalog.split_part(name, '/', 1)
              ELSE 'default' END) STORED,
    spec jsonb NOT NULL,
    display_name text,
    labels jsonb NOT NULL DEFAULT '{}',
    annotations jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag.retrievers IS 'named settings of how collections are stored and searched';
COMMENT ON COLUMN rag.retrievers.name IS 'name, or namespace/name in another namespace than default';
COMMENT ON COLUMN rag.retrievers.namespace IS 'namespace of the name';
COMMENT ON COLUMN rag.retrievers.display_name IS 'metadata.displayName of its manifest';
COMMENT ON COLUMN rag.retrievers.labels IS 'metadata.labels of its manifest';
COMMENT ON COLUMN rag.retrievers.annotations IS 'metadata.annotations of its manifest';

CREATE TABLE rag.collections (
    name text PRIMARY KEY
        CHECK (name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND length(name) <= 56),
    external_id text UNIQUE CHECK (external_id <> ''),
    retriever text NOT NULL DEFAULT 'default',
    chunk_size integer CHECK (chunk_size BETWEEN 1 AND 1000000),
    chunk_overlap integer CHECK (chunk_overlap >= 0),
    chunk_unit text NOT NULL DEFAULT 'characters' CHECK (chunk_unit IN ('characters', 'tokens')),
    metadata_whitelist text[],
    description text,
    model text,
    model_fingerprint text,
    model_identity text,
    embedding_dimension integer,
    owner text NOT NULL DEFAULT current_user,
    owner_id oid NOT NULL DEFAULT pg_catalog.quote_ident(current_user)::pg_catalog.regrole,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag.collections IS 'sets of documents that are searched together';
COMMENT ON COLUMN rag.collections.external_id IS 'what an application calls it; functions that speak JSON take it in place of the name';
COMMENT ON COLUMN rag.collections.retriever IS 'settings of storage and search';
COMMENT ON COLUMN rag.collections.chunk_size IS 'most of a chunk, in units; NULL: 1000 characters or 200 tokens';
COMMENT ON COLUMN rag.collections.chunk_overlap IS 'most that neighbouring chunks share, in units; NULL: 200 characters or 40 tokens';
COMMENT ON COLUMN rag.collections.chunk_unit IS 'what chunks are measured in: characters, or tokens of the model';
COMMENT ON COLUMN rag.collections.metadata_whitelist IS 'metadata keys that chunks carry; NULL, or none: all';
COMMENT ON COLUMN rag.collections.model IS 'embedding model of the stored chunks; NULL until the first document';
COMMENT ON COLUMN rag.collections.model_fingerprint IS 'hash of that model''s graph, tokenizer and pooling';
COMMENT ON COLUMN rag.collections.model_identity IS 'hash of that model''s weights, tokenizer and pooling, the same for each precision';
COMMENT ON COLUMN rag.collections.embedding_dimension IS 'dimensions of the stored embeddings; NULL until the first document';
COMMENT ON COLUMN rag.collections.owner IS 'name that the owner had last; dumps know roles by it';
COMMENT ON COLUMN rag.collections.owner_id IS 'role whose members may do everything with the collection; 0: there was none of that name when a dump was restored';

INSERT INTO rag.retrievers (name, spec) VALUES ('default', '{
    "storageConfig": {"type": "hnsw", "indexStrategy": {"mode": "per_dataset"}},
    "retrievalMethods": {"vector": {"enabled": true, "defaultWeight": 0.7}},
    "description": "vector search, by an index where that pays"}');
INSERT INTO rag.collections (name, description) VALUES ('default', 'used where no collection is named');

-- What a dump brings comes by COPY or INSERT, with check_function_bodies off as pg_dump and
-- pg_restore set it, where sessions hardly do.
CREATE FUNCTION rag.is_restoring() RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_setting('check_function_bodies') = 'off' AND current_query() ~* '^\s*(copy|insert)\s'
$$;
COMMENT ON FUNCTION rag.is_restoring() IS 'whether the present statement is one of a dump that is being restored';

-- Owners are roles by OID. A dump holds their names as well, and where it is restored roles have
-- other OIDs.
CREATE FUNCTION rag.find_owner() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF rag.is_restoring() THEN
        NEW.owner_id := coalesce((SELECT oid FROM pg_roles WHERE rolname = NEW.owner), 0);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag.find_owner() IS 'gives a row of a restored dump the role that has its owner''s name now';
CREATE TRIGGER find_owner BEFORE INSERT ON rag.secret FOR EACH ROW EXECUTE FUNCTION rag.find_owner();

-- A restored dump brings its own rows of these names: they replace the ones that CREATE EXTENSION
-- has just made.
CREATE FUNCTION rag.replace_builtin() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.name = 'default' AND rag.is_restoring() THEN
        EXECUTE pg_catalog.format('UPDATE rag.%I AS t SET (%s) = ROW(%s) WHERE t.name = ($1).name', TG_TABLE_NAME,
            (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(attname), ', ' ORDER BY attnum)
             FROM pg_catalog.pg_attribute
             WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped AND attgenerated = ''),
            (SELECT pg_catalog.string_agg(pg_catalog.format('($1).%I', attname), ', ' ORDER BY attnum)
             FROM pg_catalog.pg_attribute
             WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped AND attgenerated = '')) USING NEW;
        IF EXISTS (SELECT FROM rag.collections c WHERE TG_TABLE_NAME = 'collections' AND c.name = NEW.name)
            OR EXISTS (SELECT FROM rag.retrievers r WHERE TG_TABLE_NAME = 'retrievers' AND r.name = NEW.name) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag.replace_builtin() IS 'lets a restored dump bring its own row named default';
CREATE TRIGGER replace_builtin BEFORE INSERT ON rag.retrievers FOR EACH ROW EXECUTE FUNCTION rag.replace_builtin();
CREATE TRIGGER replace_builtin BEFORE INSERT ON rag.collections FOR EACH ROW EXECUTE FUNCTION rag.replace_builtin();

-- sources and runs
-- ----------------------------------------------------------------------------------------------------

CREATE TABLE rag.source (
    name text PRIMARY KEY CHECK (rag.is_qualified_name(name)),
    namespace text NOT NULL GENERATED ALWAYS AS
        (CASE WHEN pg_catalog.strpos(name, '/') > 0 THEN pg_catalog.split_part(name, '/', 1)
              ELSE 'default' END) STORED,
    uid uuid NOT NULL DEFAULT gen_random_uuid(),
    -- what people define
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
    display_name text,
    labels jsonb NOT NULL DEFAULT '{}',
    annotations jsonb NOT NULL DEFAULT '{}',
    generation bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- when it is synced next
    next_run timestamptz,
    retry_at timestamptz,
    attempt integer NOT NULL DEFAULT 0,
    throttled integer NOT NULL DEFAULT 0,
    booted_at timestamptz,
    -- how it is
    observed_generation bigint,
    last_run_id bigint,
    last_commit text,
    last_indexed timestamptz,
    successful_run_count bigint NOT NULL DEFAULT 0,
    error_run_count bigint NOT NULL DEFAULT 0,
    documents bigint,
    drift_checked_at timestamptz,
    conditions jsonb NOT NULL DEFAULT '[]'
) WITH (toast_tuple_target = 512); -- a run updates its source some times: what stays the same stays out of the row
CREATE TRIGGER find_owner BEFORE INSERT ON rag.source FOR EACH ROW EXECUTE FUNCTION rag.find_owner();

-- So it is with the relations that sources read. pg_restore makes tables before it fills them.
CREATE FUNCTION rag.find_relation() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF rag.is_restoring() THEN
        SELECT c.oid, c.relowner INTO NEW.relation_id, NEW.relation_owner_id
        FROM pg_class c WHERE NEW.kind = 'table' AND c.oid = to_regclass(NEW.spec ->> 'relation')::oid;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag.find_relation() IS 'gives a source of a restored dump the relation that has its relation''s name now';
CREATE TRIGGER find_relation BEFORE INSERT ON rag.source FOR EACH ROW EXECUTE FUNCTION rag.find_relation();
COMMENT ON TABLE rag.source IS 'where documents come from; read rag.sources instead';
COMMENT ON COLUMN rag.source.uid IS 'tells a source from a later one of the same name';
COMMENT ON COLUMN rag.source.document_labels IS 'category and tags of the definition that all stored documents have followed; NULL: of none yet';
COMMENT ON COLUMN rag.source.owner IS 'name that the owner had last; dumps know roles by it';
COMMENT ON COLUMN rag.source.owner_id IS 'role whose rights its runs have; 0: there was none of that name when a dump was restored';
COMMENT ON COLUMN rag.source.relation_id IS 'relation that one of kind table was made for; NULL: there was none of its name when a dump was restored';
COMMENT ON COLUMN rag.source.relation_owner_id IS 'owner of that relation then: runs stop when it is another';
COMMENT ON COLUMN rag.source.credentials_key IS 'key of the secret whose value is shown; NULL: token, or else password';
COMMENT ON COLUMN rag.source.next_run IS 'when its schedule, or its creation, starts a run next';
COMMENT ON COLUMN rag.source.retry_at IS 'when the last run, which failed, is tried again';
COMMENT ON COLUMN rag.source.attempt IS 'tries that have failed in a row, those aside that the other side asked to put off';
COMMENT ON COLUMN rag.source.throttled IS 'tries in a row that the other side asked to put off';
COMMENT ON COLUMN rag.source.booted_at IS 'start of the server that @reboot has run for';
COMMENT ON COLUMN rag.source.last_run_id IS 'the last run that has ended; one that is queued or under way is found in rag.run';
COMMENT ON COLUMN rag.source.documents IS 'documents stored at the end of the last complete run';

CREATE SEQUENCE rag.run_id AS bigint;
CREATE TABLE rag.run (
    run_id bigint PRIMARY KEY,
    source text NOT NULL,
    collection text NOT NULL,
    trigger text NOT NULL CHECK (trigger IN ('manual', 'schedule', 'retry', 'drift', 'create', 'change')),
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
    commit text,
    current_uri text,
    note text,
    error jsonb
);
CREATE INDEX run_source ON rag.run (source, run_id);
-- never two of one source; also what a scheduler looks through
CREATE UNIQUE INDEX run_active ON rag.run (source) WHERE phase IN ('Pending', 'Running');
COMMENT ON TABLE rag.run IS 'executions of sources; read rag.runs and rag.progress instead';

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
COMMENT ON TABLE rag.run_error IS 'documents that a run could not index, or not without loss; read rag.run_errors instead';

-- Conditions as Kubernetes writes them: of each type one, whose lastTransitionTime is that of its
-- last change of status.
CREATE FUNCTION rag.merge_conditions(present jsonb, changes jsonb) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(
        CASE WHEN n.value IS NULL THEN o.value
             ELSE n.value || jsonb_build_object('lastTransitionTime',
                 CASE WHEN o.value ->> 'status' = n.value ->> 'status' THEN o.value ->> 'lastTransitionTime'
                      ELSE to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END)
        END ORDER BY array_position('{ResourceReady,AutoIndexerScheduled,AutoIndexerIndexing,AutoIndexerCompleted,AutoIndexerError,AutoIndexerDriftDetected}'::text[], coalesce(n.value, o.value) ->> 'type')), '[]')
    FROM jsonb_array_elements(present) o FULL JOIN jsonb_array_elements(changes) n ON n.value ->> 'type' = o.value ->> 'type'
$$;
COMMENT ON FUNCTION rag.merge_conditions(jsonb, jsonb) IS 'puts changed conditions in the place of those of the same type';

CREATE FUNCTION rag.has_condition(conditions jsonb, type text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.jsonb_path_exists($1, '$[*] ? (@.type == $type && @.status == "True")', pg_catalog.jsonb_build_object('type', $2))
$$;
COMMENT ON FUNCTION rag.has_condition(jsonb, text) IS 'whether a condition of this type is True';

-- Notifications of rag_events, one for each change of phase: of a run, and of a source none of
-- whose runs is queued or under way.
CREATE FUNCTION rag.announce(event jsonb) RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_notify('rag_events', (event || jsonb_build_object('at', clock_timestamp()))::text)
$$;
COMMENT ON FUNCTION rag.announce(jsonb) IS 'notifies rag_events';

CREATE FUNCTION rag.announce_run() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    suspended boolean;
    retries boolean;
BEGIN
    SELECT s.suspend, s.last_run_id = NEW.run_id AND s.retry_at IS NOT NULL INTO suspended, retries FROM rag.source s WHERE s.name = NEW.source;
    -- a run that is stopped because its source is being dropped is not tried again
    retries := NEW.phase = 'Failed' AND retries AND NOT suspended AND NOT rag.is_going(NEW.source);
    PERFORM rag.announce(jsonb_build_object('source', NEW.source, 'run_id', NEW.run_id, 'trigger', NEW.trigger, 'attempt', NEW.attempt,
        'phase', CASE WHEN retries THEN 'Retrying' ELSE NEW.phase END));
    IF suspended AND NEW.phase IN ('Completed', 'Failed') THEN
        PERFORM rag.announce(jsonb_build_object('source', NEW.source, 'phase', 'Suspended'));
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag.announce_run() IS 'notifies rag_events of the phases of runs';

CREATE FUNCTION rag.announce_source() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    active record;
    last_phase text;
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM rag.announce(jsonb_build_object('source', OLD.name, 'phase', 'Deleted'));
        RETURN NULL;
    END IF;
    SELECT r.phase, r.trigger INTO active FROM rag.run r WHERE r.source = NEW.name AND r.phase IN ('Pending', 'Running');
    -- one that is suspended during a run is Suspended when that has ended; a run takes the place of
    -- a retry without a word of the source
    IF active.phase = 'Running' OR active.phase = 'Pending' AND TG_OP = 'UPDATE' AND OLD.suspend = NEW.suspend THEN
        RETURN NULL;
    END IF;
    SELECT r.phase INTO last_phase FROM rag.run r WHERE r.run_id = NEW.last_run_id;
    PERFORM rag.announce(jsonb_build_object('source', NEW.name, 'phase',
        CASE WHEN active.phase = 'Pending' AND active.trigger = 'manual' THEN 'Pending'
             WHEN NEW.suspend THEN 'Suspended'
             WHEN active.phase = 'Pending' THEN 'Pending'
             WHEN NEW.retry_at IS NOT NULL THEN 'Retrying'
             ELSE coalesce(last_phase, 'Pending') END));
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag.announce_source() IS 'notifies rag_events of the phases of sources';

CREATE TRIGGER announce_queued AFTER INSERT ON rag.run FOR EACH ROW WHEN (NEW.phase IN ('Pending', 'Running'))
    EXECUTE FUNCTION rag.announce_run();
CREATE TRIGGER announce_phase AFTER UPDATE OF phase ON rag.run FOR EACH ROW WHEN (OLD.phase <> NEW.phase)
    EXECUTE FUNCTION rag.announce_run();
CREATE TRIGGER announce_created AFTER INSERT ON rag.source FOR EACH ROW EXECUTE FUNCTION rag.announce_source();
-- suspended or resumed; or a retry that was to come is not, without a run in its place
CREATE TRIGGER announce_altered AFTER UPDATE OF suspend, retry_at ON rag.source FOR EACH ROW
    WHEN (OLD.suspend <> NEW.suspend OR OLD.retry_at IS NOT NULL AND NEW.retry_at IS NULL AND OLD.last_run_id = NEW.last_run_id)
    EXECUTE FUNCTION rag.announce_source();
CREATE TRIGGER announce_dropped AFTER DELETE ON rag.source FOR EACH ROW EXECUTE FUNCTION rag.announce_source();

-- Schedulers are told of every change of a source, whoever makes it: a dump that is restored, say.
CREATE FUNCTION rag.source_changed() RETURNS trigger
    AS 'MODULE_PATHNAME', 'rag_source_changed' LANGUAGE c;
COMMENT ON FUNCTION rag.source_changed() IS 'has a scheduler look at the sources';
CREATE TRIGGER source_changed AFTER INSERT OR UPDATE OR DELETE ON rag.source FOR EACH STATEMENT
    EXECUTE FUNCTION rag.source_changed();

-- documents and chunks
-- ------------------------------------------------------------------------------------------------

CREATE TABLE rag.documents (
    document_id uuid PRIMARY KEY,
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
    indexed_at timestamptz
);
CREATE INDEX documents_source ON rag.documents (collection, source);
COMMENT ON TABLE rag.documents IS 'documents, with their extracted text';
COMMENT ON COLUMN rag.documents.document_id IS 'hash of collection, source and uri: the same on every machine';
COMMENT ON COLUMN rag.documents.source IS 'source it is of; NULL: rag_add_document, or its source was dropped';
COMMENT ON COLUMN rag.documents.former_source IS 'source that brought it and was dropped since';
COMMENT ON COLUMN rag.documents.status IS 'pending, active or error';
COMMENT ON COLUMN rag.documents.error IS 'why it could not be indexed, where status is error; what was indexed before stays';
COMMENT ON COLUMN rag.documents.content_hash IS 'SHA-256 of the extracted text, hex';
COMMENT ON COLUMN rag.documents.content IS 'extracted text';
COMMENT ON COLUMN rag.documents.raw_hash IS 'hash of what was fetched or given, hex: tells an unchanged document';
COMMENT ON COLUMN rag.documents.chunking IS 'how the text was cut and embedded: other settings index it anew';
COMMENT ON COLUMN rag.documents.own_title IS 'whether the title is in the document itself; only then it is embedded with the chunks';
COMMENT ON COLUMN rag.documents.validator IS 'what the source said of the present version (time and size, ETag, blob): the same again need not be fetched';
COMMENT ON COLUMN rag.documents.fetched_at IS 'when the present text was fetched';
COMMENT ON COLUMN rag.documents.indexed_at IS 'when the present text was indexed';

-- One partition a collection, rag_kb_<collection>, made with the collection's first document. Keys
-- and indexes are each partition's own (src/catalog/collections.rs): those of a parent that CREATE
-- EXTENSION makes would be there twice when a dump is restored.
CREATE TABLE rag.chunks (
    collection text NOT NULL,
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
    heading_path text[]
) PARTITION BY LIST (collection);
-- In the row as far as it fits: reading it from a side table for every comparison would be several
-- times slower.
ALTER TABLE rag.chunks ALTER COLUMN embedding SET STORAGE MAIN;
COMMENT ON TABLE rag.chunks IS 'pieces of documents with their embeddings';
COMMENT ON COLUMN rag.chunks.source IS 'source it came from, also where that was dropped and has left the document';
COMMENT ON COLUMN rag.chunks.chunk_id IS 'hash of document, text, chunking and position: the same on every machine';
COMMENT ON COLUMN rag.chunks.chunk_index IS 'position in the document, from 0';
COMMENT ON COLUMN rag.chunks.start_index IS 'first character in the document''s content, from 0: substr(content, start_index + 1, length)';
COMMENT ON COLUMN rag.chunks.start_line IS 'line of the file that the first character is on, from 1; front matter counts';
COMMENT ON COLUMN rag.chunks.end_line IS 'line that the last character is on';
COMMENT ON COLUMN rag.chunks.page IS 'page that the first character is on, from 1; NULL where the document has no pages';
COMMENT ON COLUMN rag.chunks.heading_path IS 'headings that the chunk is under, of source code the functions and types that it is in, outermost first; NULL where there are none';
COMMENT ON COLUMN rag.chunks.embedding_key IS 'hash of model and embedded text: equal keys have equal embeddings';

-- Locks on sources, which last as long as the process that has them (src/workers/lock.rs): one that
-- a run, or a check for drift, holds (0), and one of a session that is about to drop the source
-- (1). Whoever just looks whether one is free has it in another mode for that moment. A standby
-- does not see the primary's.
CREATE FUNCTION rag.source_locks() RETURNS TABLE (source_hash bigint, purpose smallint, pid integer)
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT objid::bigint, objsubid, pid FROM pg_locks
    WHERE locktype = 'object' AND granted AND mode = 'ExclusiveLock' AND classid = 'rag.source'::regclass
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;
COMMENT ON FUNCTION rag.source_locks() IS 'sources, by hashtext of their names, that processes are at work on';

CREATE FUNCTION rag.is_syncing(source text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_is_in_recovery() OR EXISTS (
        SELECT FROM rag.source_locks() WHERE purpose = 0 AND source_hash = hashtext(source)::bigint & 4294967295)
$$;
COMMENT ON FUNCTION rag.is_syncing(text) IS 'whether a run of the source is under way';

CREATE FUNCTION rag.is_going(source text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM rag.source_locks() WHERE purpose = 1 AND source_hash = hashtext(source)::bigint & 4294967295)
$$;
COMMENT ON FUNCTION rag.is_going(text) IS 'whether a session is about to drop the source';

-- VOLATILE: it sees what was committed after the query that asks had begun. The last of a run is
-- its row, then its lock goes: who finds the lock free and then the row as it was knows that the
-- process has gone without a word.
CREATE FUNCTION rag.has_not_ended(run_id bigint) RETURNS boolean LANGUAGE sql VOLATILE PARALLEL RESTRICTED SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM rag.run r WHERE r.run_id = $1 AND r.phase = 'Running')
$$;
COMMENT ON FUNCTION rag.has_not_ended(bigint) IS 'whether a run is, by its row as it is now, not at an end';

-- Why the sources of this database are not synced by themselves; NULL: they are. A standby does not
-- know.
CREATE FUNCTION rag.why_idle() RETURNS text
    AS 'MODULE_PATHNAME', 'rag_why_idle_wrapper' LANGUAGE c STABLE PARALLEL SAFE;
COMMENT ON FUNCTION rag.why_idle() IS 'why the sources of this database are not synced by themselves; NULL: they are';

CREATE FUNCTION rag.has_scheduler() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT rag.why_idle() IS NULL
$$;
COMMENT ON FUNCTION rag.has_scheduler() IS 'whether the sources of this database are synced by themselves';

-- Why queued runs do not begin. A scheduler that was started for them alone does what is queued,
-- and no more.
CREATE FUNCTION rag.why_waiting() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT rag.why_idle() WHERE NOT EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND objsubid = 3 AND classid::bigint = x'72616774'::bigint
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
$$;
COMMENT ON FUNCTION rag.why_waiting() IS 'why queued runs do not begin; NULL: they do, as far as there is room';

-- What nobody does is not scheduled, whatever is written down, and a source that waits for its
-- first run says why: nobody notes when that begins and ends.
CREATE FUNCTION rag.without_scheduler(conditions jsonb, why text) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(CASE WHEN c ->> 'type' = 'AutoIndexerScheduled' AND c ->> 'status' = 'True'
                          THEN c || jsonb_build_object('status', 'False', 'reason', 'NoScheduler', 'lastTransitionTime', NULL,
                                                       'message', 'it is not synced by itself: ' || why)
                          WHEN c ->> 'type' = 'AutoIndexerIndexing' AND c ->> 'reason' = 'NotRun'
                          THEN c || jsonb_build_object('message', (c ->> 'message') || ': ' || why)
                          ELSE c END ORDER BY n)
    FROM jsonb_array_elements(conditions) WITH ORDINALITY AS x (c, n)
$$;
COMMENT ON FUNCTION rag.without_scheduler(jsonb, text) IS 'conditions of a source as they are where nothing syncs it by itself, and why';

-- views
-- ---------------------------------------------------------------------------------------------------------------

-- What people see of sources and runs: what their roles own; members of rag_admin also those of
-- collections that they may read. Counts and messages of a source are about all its documents:
-- where policies of an administrator's hide chunks, only those who may write to the collection see
-- them.
CREATE VIEW rag.visible_source WITH (security_barrier) AS
    SELECT * FROM rag.source
    WHERE owner_id IN (SELECT oid FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(oid, 'USAGE'))
       OR EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rag_admin' AND pg_catalog.pg_has_role(oid, 'USAGE'))
          AND collection = ANY ((SELECT rag.overseen_collections())::text[]);
COMMENT ON VIEW rag.visible_source IS 'sources that the caller may see; read rag.sources instead';

-- Of a source that has filled another collection before, those who may not see that one do not see
-- the runs of then.
CREATE VIEW rag.visible_run WITH (security_barrier) AS
    SELECT r.* FROM rag.run r JOIN rag.visible_source s ON s.name = r.source
    WHERE r.collection = s.collection OR r.collection = ANY ((SELECT rag.overseen_collections())::text[]);
COMMENT ON VIEW rag.visible_run IS 'runs that the caller may see; read rag.runs instead';

CREATE VIEW rag.runs WITH (security_barrier) AS
    SELECT run_id, source, collection, trigger, attempt,
           CASE WHEN is_lost THEN 'Failed' ELSE phase END AS phase,
           CASE WHEN phase <> 'Pending' THEN waiting
                WHEN trigger <> 'manual' AND EXISTS (SELECT FROM rag.source s WHERE s.name = source AND s.suspend)
                    THEN 'the source is suspended'
                ELSE coalesce((SELECT rag.why_waiting()), waiting) END AS waiting,
           queued_at, started_at, finished_at,
           documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed,
           documents_with_warnings, files_skipped, chunks_written, chunks_embedded, chunks_reused, bytes_fetched, commit, note,
           CASE WHEN started_at IS NOT NULL AND NOT is_lost THEN coalesce(finished_at, clock_timestamp()) - started_at END AS duration,
           fetch_seconds, extract_seconds, embed_seconds, store_seconds,
           CASE WHEN error IS NOT NULL THEN jsonb_build_array(error)
                WHEN is_lost THEN '[{"sqlstate": "57P01", "message": "the run''s process ended before the run did"}]'::jsonb
                ELSE '[]'::jsonb END AS errors,
           generation
    FROM (SELECT *, phase = 'Running' AND NOT rag.is_syncing(source) AND rag.has_not_ended(run_id) AS is_lost
          FROM rag.visible_run) AS run;
COMMENT ON VIEW rag.runs IS 'executions of sources: what each did and how it ended';
COMMENT ON COLUMN rag.runs.run_id IS 'ascending; what rag_sync returns';
COMMENT ON COLUMN rag.runs.source IS 'source that was synced';
COMMENT ON COLUMN rag.runs.collection IS 'collection that it was synced into';
COMMENT ON COLUMN rag.runs.trigger IS 'manual (rag_sync), schedule, retry, drift, create or change (of the table)';
COMMENT ON COLUMN rag.runs.attempt IS '1, or that of the retry';
COMMENT ON COLUMN rag.runs.phase IS 'Pending (queued), Running, Completed or Failed';
COMMENT ON COLUMN rag.runs.waiting IS 'why a queued run has not begun';
COMMENT ON COLUMN rag.runs.queued_at IS 'when it was queued';
COMMENT ON COLUMN rag.runs.started_at IS 'when its process began';
COMMENT ON COLUMN rag.runs.finished_at IS 'when it ended';
COMMENT ON COLUMN rag.runs.documents_added IS 'documents that were not stored before';
COMMENT ON COLUMN rag.runs.documents_updated IS 'documents that took the place of an earlier version';
COMMENT ON COLUMN rag.runs.documents_deleted IS 'documents that the source no longer had';
COMMENT ON COLUMN rag.runs.documents_unchanged IS 'documents that were left as they are';
COMMENT ON COLUMN rag.runs.documents_failed IS 'documents that could not be indexed, see rag.run_errors';
COMMENT ON COLUMN rag.runs.documents_with_warnings IS 'documents that were indexed and lost something on the way, see rag.run_errors';
COMMENT ON COLUMN rag.runs.files_skipped IS 'files that are no documents: pictures, archives, empty and binary files, keys';
COMMENT ON COLUMN rag.runs.note IS 'what is remarkable about a run that completed: it found nothing, for example';
COMMENT ON COLUMN rag.runs.chunks_written IS 'chunks of the added and updated documents';
COMMENT ON COLUMN rag.runs.chunks_embedded IS 'chunks whose embedding was computed';
COMMENT ON COLUMN rag.runs.chunks_reused IS 'chunks whose embedding was stored already';
COMMENT ON COLUMN rag.runs.bytes_fetched IS 'bytes that were read from the source';
COMMENT ON COLUMN rag.runs.commit IS 'commit that was read (git)';
COMMENT ON COLUMN rag.runs.duration IS 'from started_at to finished_at, or until now; NULL: it has not begun, or it is not known when it ended';
COMMENT ON COLUMN rag.runs.fetch_seconds IS 'seconds in which the source was listed and read';
COMMENT ON COLUMN rag.runs.extract_seconds IS 'seconds in which documents were extracted and split, summed over threads';
COMMENT ON COLUMN rag.runs.embed_seconds IS 'seconds in which the run waited for embeddings';
COMMENT ON COLUMN rag.runs.store_seconds IS 'seconds in which documents and chunks were written and deleted';
COMMENT ON COLUMN rag.runs.errors IS 'why the run failed, {sqlstate, message, detail, hint, throttled, retry_after_seconds}; single documents are in rag.run_errors';
COMMENT ON COLUMN rag.runs.generation IS 'generation of the source''s definition that it carried out';

CREATE VIEW rag.run_errors WITH (security_barrier) AS
    SELECT run_id, source, uri, stage, severity, message, hint, occurred_at
    FROM rag.run_error e
    WHERE EXISTS (SELECT FROM rag.visible_run r WHERE r.run_id = e.run_id
                  AND ((SELECT rag.sees_all_chunks()) OR rag.sees_uri(r.collection, e.source, e.uri)));
COMMENT ON VIEW rag.run_errors IS 'documents that a run could not index, or not without loss, and why';
COMMENT ON COLUMN rag.run_errors.run_id IS 'the run';
COMMENT ON COLUMN rag.run_errors.source IS 'its source';
COMMENT ON COLUMN rag.run_errors.uri IS 'the document';
COMMENT ON COLUMN rag.run_errors.stage IS 'where it failed: fetch, decode, extract, split, embed or store';
COMMENT ON COLUMN rag.run_errors.severity IS 'error: the document was not indexed; warning: it was, and something of it was lost';
COMMENT ON COLUMN rag.run_errors.message IS 'what was wrong';
COMMENT ON COLUMN rag.run_errors.hint IS 'what may be done about it';
COMMENT ON COLUMN rag.run_errors.occurred_at IS 'when';

CREATE VIEW rag.progress WITH (security_barrier) AS
    SELECT source, run_id, stage, done AS documents_done, documents_total,
           chunks_written AS chunks_done, bytes_fetched AS bytes_done,
           round((done / seconds)::numeric, 1) AS rate,
           CASE WHEN done > 0 THEN make_interval(secs => round((documents_total - done) * seconds / done)) END AS eta,
           CASE WHEN (SELECT rag.sees_all_chunks()) OR rag.sees_uri(collection, source, current_uri) THEN current_uri END AS current_uri
    FROM (SELECT *, documents_added + documents_updated + documents_unchanged + documents_failed AS done,
                 greatest(extract(epoch FROM clock_timestamp() - started_at), 0.001)::double precision AS seconds
          FROM rag.visible_run
          WHERE phase = 'Running' AND rag.is_syncing(source)) AS running;
COMMENT ON VIEW rag.progress IS 'runs under way';
COMMENT ON COLUMN rag.progress.source IS 'source that is being synced';
COMMENT ON COLUMN rag.progress.run_id IS 'the run';
COMMENT ON COLUMN rag.progress.stage IS 'fetch, embed or store';
COMMENT ON COLUMN rag.progress.documents_done IS 'documents added, updated, left as they are, or failed';
COMMENT ON COLUMN rag.progress.documents_total IS 'documents of the source; NULL until they are listed';
COMMENT ON COLUMN rag.progress.chunks_done IS 'chunks written';
COMMENT ON COLUMN rag.progress.bytes_done IS 'bytes read from the source';
COMMENT ON COLUMN rag.progress.rate IS 'documents per second since the start';
COMMENT ON COLUMN rag.progress.eta IS 'time left at that rate';
COMMENT ON COLUMN rag.progress.current_uri IS 'document at work';

CREATE VIEW rag.sources WITH (security_barrier) AS
    WITH locks AS MATERIALIZED (SELECT source_hash, purpose FROM rag.source_locks())
    SELECT s.name, s.kind, s.collection, s.schedule, s.suspend,
           CASE WHEN EXISTS (SELECT FROM locks WHERE purpose = 1 AND source_hash = s.hash) THEN 'Terminating'
                WHEN c.phase = 'Running' AND NOT c.is_lost THEN 'Running'
                WHEN c.phase = 'Pending' AND (c.trigger = 'manual' OR NOT s.suspend) THEN 'Pending'
                WHEN s.suspend THEN 'Suspended'
                WHEN s.retry_at IS NOT NULL THEN 'Retrying'
                WHEN c.is_lost THEN 'Failed'
                ELSE coalesce(r.phase, 'Pending') END AS phase,
           rag.has_condition(s.conditions, 'ResourceReady') AS resource_ready,
           rag.has_condition(s.conditions, 'AutoIndexerScheduled') AND (SELECT rag.has_scheduler()) AS scheduled,
           coalesce(c.phase = 'Running' AND NOT c.is_lost, false) AS indexing,
           rag.has_condition(s.conditions, 'AutoIndexerError') OR coalesce(c.is_lost, false) AS error,
           s.last_indexed, s.last_commit, s.successful_run_count, s.error_run_count,
           r.documents_added + r.documents_updated + r.documents_unchanged + r.documents_failed AS documents_processed,
           CASE WHEN NOT s.suspend THEN s.next_run END AS next_scheduled_run,
           CASE WHEN NOT s.suspend THEN s.retry_at END AS next_retry,
           s.observed_generation, s.generation,
           CASE WHEN NOT c.is_lost THEN c.run_id END AS current_run_id,
           r.run_id AS last_run_id,
           extract(epoch FROM r.finished_at - r.started_at)::double precision AS last_run_duration_seconds,
           CASE WHEN r.error IS NOT NULL
                    THEN ARRAY[concat_ws(': ', r.error ->> 'message', r.error ->> 'detail')]
                WHEN c.is_lost THEN ARRAY['the run''s process ended before the run did']
                ELSE '{}' END
           || CASE WHEN r.documents_failed > 0 THEN
                  ARRAY(SELECT e.uri || ': ' || e.message FROM rag.run_error e
                        WHERE e.run_id = r.run_id AND e.severity = 'error'
                          AND ((SELECT rag.sees_all_chunks()) OR rag.sees_uri(r.collection, s.name, e.uri))
                        ORDER BY e.occurred_at LIMIT 10)
              ELSE '{}' END AS errors,
           CASE WHEN (SELECT rag.why_idle()) IS NULL THEN s.conditions
                ELSE rag.without_scheduler(s.conditions, (SELECT rag.why_idle())) END AS conditions,
           s.created_at, now() - s.created_at AS age,
           s.spec,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = s.owner_id) AS owner,
           CASE WHEN s.namespace = 'default' THEN s.credentials ELSE split_part(s.credentials, '/', 2) END
           || coalesce('/' || s.credentials_key, '') AS credentials,
           s.max_retries, s.timeout, s.drift_policy, s.drift_checked_at, s.uid,
           s.namespace, s.display_name, s.labels, s.annotations
    FROM (SELECT v.*, l.hash, pg_is_in_recovery() OR EXISTS (SELECT FROM locks WHERE purpose = 0 AND source_hash = l.hash) AS running
          FROM rag.visible_source v, LATERAL (SELECT hashtext(v.name)::bigint & 4294967295) AS l (hash)) s
    LEFT JOIN LATERAL (SELECT a.run_id, a.phase, a.trigger, a.phase = 'Running' AND NOT s.running AND rag.has_not_ended(a.run_id) AS is_lost
                       FROM rag.run a WHERE a.source = s.name AND a.phase IN ('Pending', 'Running')) AS c ON true
    -- a run that has lost its process has ended, though its row does not say so yet
    LEFT JOIN rag.run AS r ON r.run_id = CASE WHEN c.is_lost THEN c.run_id ELSE s.last_run_id END;
COMMENT ON VIEW rag.sources IS 'sources and how they are';
COMMENT ON COLUMN rag.sources.name IS 'name of the source, or namespace/name in another namespace than default';
COMMENT ON COLUMN rag.sources.namespace IS 'namespace of the name';
COMMENT ON COLUMN rag.sources.display_name IS 'metadata.displayName of its manifest';
COMMENT ON COLUMN rag.sources.labels IS 'metadata.labels of its manifest';
COMMENT ON COLUMN rag.sources.annotations IS 'metadata.annotations of its manifest';
COMMENT ON COLUMN rag.sources.kind IS 'git, static, website, folder, markdown or table';
COMMENT ON COLUMN rag.sources.collection IS 'collection that it is indexed into';
COMMENT ON COLUMN rag.sources.schedule IS 'when it is synced by itself; NULL: once, when it is made or altered';
COMMENT ON COLUMN rag.sources.suspend IS 'whether schedule, retries and drift checks rest';
COMMENT ON COLUMN rag.sources.phase IS 'Pending (has not run, or is queued), Running, Completed, Failed, Retrying (failed and will be tried again), Suspended or Terminating';
COMMENT ON COLUMN rag.sources.resource_ready IS 'whether what the definition names is there: condition ResourceReady';
COMMENT ON COLUMN rag.sources.scheduled IS 'whether it is synced by itself: condition AutoIndexerScheduled';
COMMENT ON COLUMN rag.sources.indexing IS 'whether a run is under way';
COMMENT ON COLUMN rag.sources.error IS 'whether the last run that has ended had an error, see errors: condition AutoIndexerError';
COMMENT ON COLUMN rag.sources.last_indexed IS 'when the last successful run ended';
COMMENT ON COLUMN rag.sources.last_commit IS 'commit that is indexed (git): that of the last run that completed and listed all of it';
COMMENT ON COLUMN rag.sources.successful_run_count IS 'runs that completed, since the source was made';
COMMENT ON COLUMN rag.sources.error_run_count IS 'runs that failed';
COMMENT ON COLUMN rag.sources.documents_processed IS 'documents that the last run that has ended added, updated, left as they are, or could not index';
COMMENT ON COLUMN rag.sources.next_scheduled_run IS 'when it is synced next; NULL: not by itself, or it is suspended';
COMMENT ON COLUMN rag.sources.next_retry IS 'when the last run, which failed, is tried again';
COMMENT ON COLUMN rag.sources.observed_generation IS 'generation that the status speaks of';
COMMENT ON COLUMN rag.sources.generation IS 'counts the changes of the definition, from 1';
COMMENT ON COLUMN rag.sources.current_run_id IS 'the run that is queued or under way, in rag.runs; NULL: none is';
COMMENT ON COLUMN rag.sources.last_run_id IS 'the last run that has ended, in rag.runs';
COMMENT ON COLUMN rag.sources.last_run_duration_seconds IS 'how long that run took';
COMMENT ON COLUMN rag.sources.errors IS 'why that run failed, and documents that it could not index (10 at most; all are in rag.run_errors)';
COMMENT ON COLUMN rag.sources.conditions IS 'as in Kubernetes: type, status, reason, message, lastTransitionTime, observedGeneration';
COMMENT ON COLUMN rag.sources.created_at IS 'when the source was made';
COMMENT ON COLUMN rag.sources.age IS 'time since the source was made';
COMMENT ON COLUMN rag.sources.spec IS 'what is read, in terms of the kind';
COMMENT ON COLUMN rag.sources.owner IS 'role whose rights its runs have; NULL: it does not exist any more';
COMMENT ON COLUMN rag.sources.credentials IS 'secret of the same namespace that the source''s server is shown, or secret/key';
COMMENT ON COLUMN rag.sources.max_retries IS 'how often a run that failed is tried again';
COMMENT ON COLUMN rag.sources.timeout IS 'most time of one run';
COMMENT ON COLUMN rag.sources.drift_policy IS 'what follows when stored documents differ from what was indexed: auto, manual or ignore';
COMMENT ON COLUMN rag.sources.drift_checked_at IS 'when that was looked at last';
COMMENT ON COLUMN rag.sources.uid IS 'tells a source from a later one of the same name';

-- dumps
-- ---------------------------------------------------------------------------------------------------------------

SELECT pg_catalog.pg_extension_config_dump('rag.retrievers', '');
SELECT pg_catalog.pg_extension_config_dump('rag.collections', '');
SELECT pg_catalog.pg_extension_config_dump('rag.source', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run_id', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run_error', '');
SELECT pg_catalog.pg_extension_config_dump('rag.documents', '');

-- DROP EXTENSION
-- -------------------------------------------------------------------------------------------------------

-- Partitions go with the extension's table rag.chunks without a word. While they hold documents the
-- command needs CASCADE (src/drop_extension.rs).
CREATE FUNCTION rag.before_drop() RETURNS event_trigger AS 'MODULE_PATHNAME', 'rag_before_drop' LANGUAGE c;
COMMENT ON FUNCTION rag.before_drop() IS 'refuses to drop the extension without CASCADE while collections contain documents';
CREATE EVENT TRIGGER rag_before_drop ON ddl_command_start WHEN TAG IN ('DROP EXTENSION', 'DROP OWNED')
    EXECUTE FUNCTION rag.before_drop();
COMMENT ON EVENT TRIGGER rag_before_drop IS 'refuses to drop the extension rag without CASCADE while collections contain documents';

-- where the functions that follow are made
SET LOCAL search_path = @extschema@, pg_temp;
