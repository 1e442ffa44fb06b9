-- Roles, the tables of the catalog, and the views that people read.
-- Tables are written by the extension's functions only, as the extension's owner; roles below may read them.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rag_reader') THEN
        CREATE ROLE rag_reader NOLOGIN;
        COMMENT ON ROLE rag_reader IS 'may search the collections of the extension rag';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rag_admin') THEN
        CREATE ROLE rag_admin NOLOGIN;
        COMMENT ON ROLE rag_admin IS 'may create and manage collections and sources of the extension rag';
    END IF;
    GRANT rag_reader TO rag_admin;
END $$;

-- retrievers and collections ------------------------------------------------------------------------------------------

CREATE TABLE rag.retrievers (
    name text PRIMARY KEY,
    spec jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag.retrievers IS 'named settings of how collections are stored and searched';

CREATE TABLE rag.collections (
    name text PRIMARY KEY CHECK (name ~ '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$' AND length(name) <= 56),
    retriever text NOT NULL DEFAULT 'default',
    chunk_size integer CHECK (chunk_size BETWEEN 1 AND 1000000),
    chunk_overlap integer CHECK (chunk_overlap >= 0),
    chunk_unit text NOT NULL DEFAULT 'characters' CHECK (chunk_unit IN ('characters', 'tokens')),
    metadata_whitelist text[],
    description text,
    model text,
    model_fingerprint text,
    embedding_dimension integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag.collections IS 'sets of documents that are searched together';
COMMENT ON COLUMN rag.collections.retriever IS 'settings of storage and search';
COMMENT ON COLUMN rag.collections.chunk_size IS 'most of a chunk, in units; NULL: 1000 characters or 200 tokens';
COMMENT ON COLUMN rag.collections.chunk_overlap IS 'most that neighbouring chunks share, in units; NULL: 200 characters or 40 tokens';
COMMENT ON COLUMN rag.collections.chunk_unit IS 'what chunks are measured in: characters, or tokens of the model';
COMMENT ON COLUMN rag.collections.metadata_whitelist IS 'metadata keys that chunks carry; NULL: all';
COMMENT ON COLUMN rag.collections.model IS 'embedding model of the stored chunks; NULL until the first document';
COMMENT ON COLUMN rag.collections.model_fingerprint IS 'hash of that model''s graph, tokenizer and pooling';
COMMENT ON COLUMN rag.collections.embedding_dimension IS 'dimensions of the stored embeddings; NULL until the first document';

INSERT INTO rag.retrievers (name, spec) VALUES ('default', '{
    "storageConfig": {"type": "hnsw", "indexStrategy": {"mode": "per_dataset"}},
    "retrievalMethods": {"vector": {"enabled": true, "defaultWeight": 0.7}},
    "description": "vector search, by an index where that pays"}');
INSERT INTO rag.collections (name, description) VALUES ('default', 'used where no collection is named');

-- What a dump brings comes by COPY or INSERT, with check_function_bodies off as pg_dump and pg_restore set it, where sessions hardly do.
CREATE FUNCTION rag.is_restoring() RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_setting('check_function_bodies') = 'off' AND current_query() ~* '^\s*(copy|insert)\s'
$$;
COMMENT ON FUNCTION rag.is_restoring() IS 'whether the present statement is one of a dump that is being restored';

-- A restored dump brings its own rows of these names: they replace the ones that CREATE EXTENSION has just made.
CREATE FUNCTION rag.replace_builtin() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.name = 'default' AND rag.is_restoring() THEN
        EXECUTE pg_catalog.format('UPDATE rag.%I AS t SET (%s) = ROW($1.*) WHERE t.name = $1.name', TG_TABLE_NAME,
            (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(attname), ', ' ORDER BY attnum)
             FROM pg_catalog.pg_attribute WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped)) USING NEW;
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

-- sources and runs ----------------------------------------------------------------------------------------------------

CREATE TABLE rag.source (
    name text PRIMARY KEY CHECK (name ~ '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$' AND length(name) <= 56),
    uid uuid NOT NULL DEFAULT gen_random_uuid(),
    -- what people define
    kind text NOT NULL,
    spec jsonb NOT NULL,
    collection text NOT NULL,
    owner text NOT NULL,
    credentials text,
    credentials_key text,
    schedule text,
    max_retries integer NOT NULL DEFAULT 3 CHECK (max_retries BETWEEN 0 AND 100),
    timeout interval NOT NULL DEFAULT '1 hour',
    suspend boolean NOT NULL DEFAULT false,
    drift_policy text NOT NULL DEFAULT 'auto' CHECK (drift_policy IN ('auto', 'manual', 'ignore')),
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
);
COMMENT ON TABLE rag.source IS 'where documents come from; read rag.sources instead';
COMMENT ON COLUMN rag.source.uid IS 'tells a source from a later one of the same name';
COMMENT ON COLUMN rag.source.credentials_key IS 'key of the secret whose value is shown; NULL: token, or else password';
COMMENT ON COLUMN rag.source.next_run IS 'when its schedule, or its creation, starts a run next';
COMMENT ON COLUMN rag.source.retry_at IS 'when the last run, which failed, is tried again';
COMMENT ON COLUMN rag.source.attempt IS 'tries that have failed in a row, those aside that the other side asked to put off';
COMMENT ON COLUMN rag.source.throttled IS 'tries in a row that the other side asked to put off';
COMMENT ON COLUMN rag.source.booted_at IS 'start of the server that @reboot has run for';
COMMENT ON COLUMN rag.source.documents IS 'documents stored at the end of the last complete run';

CREATE SEQUENCE rag.run_id AS bigint;
CREATE TABLE rag.run (
    run_id bigint PRIMARY KEY,
    source text NOT NULL,
    collection text NOT NULL,
    trigger text NOT NULL CHECK (trigger IN ('manual', 'schedule', 'retry', 'drift', 'create')),
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
    files_skipped bigint NOT NULL DEFAULT 0,
    chunks_written bigint NOT NULL DEFAULT 0,
    chunks_embedded bigint NOT NULL DEFAULT 0,
    chunks_reused bigint NOT NULL DEFAULT 0,
    bytes_fetched bigint NOT NULL DEFAULT 0,
    commit text,
    current_uri text,
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
    message text NOT NULL,
    hint text,
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX run_error_run_id ON rag.run_error (run_id);
COMMENT ON TABLE rag.run_error IS 'documents that a run could not index; read rag.run_errors instead';

-- Conditions as Kubernetes writes them: of each type one, whose lastTransitionTime is that of its last change of status.
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

-- A word to whoever listens, with each change of phase: of a run, and of a source none of whose runs is queued or under way.
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
    PERFORM rag.announce(jsonb_build_object('source', NEW.source, 'run_id', NEW.run_id, 'trigger', NEW.trigger, 'attempt', NEW.attempt,
        'phase', CASE WHEN NEW.phase = 'Failed' AND retries AND NOT suspended THEN 'Retrying' ELSE NEW.phase END));
    IF suspended AND NEW.phase IN ('Completed', 'Failed') THEN
        PERFORM rag.announce(jsonb_build_object('source', NEW.source, 'phase', 'Suspended'));
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag.announce_run() IS 'notifies rag_events of the phases of runs';

CREATE FUNCTION rag.announce_source() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run record;
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM rag.announce(jsonb_build_object('source', OLD.name, 'phase', 'Terminating'));
        RETURN NULL;
    END IF;
    SELECT r.phase, r.trigger INTO run FROM rag.run r WHERE r.run_id = NEW.last_run_id;
    -- one that is suspended during a run is Suspended when that has ended
    IF run.phase IS DISTINCT FROM 'Running' THEN
        PERFORM rag.announce(jsonb_build_object('source', NEW.name, 'phase',
            CASE WHEN run.phase = 'Pending' AND run.trigger = 'manual' THEN 'Pending'
                 WHEN NEW.suspend THEN 'Suspended'
                 WHEN NEW.retry_at IS NOT NULL THEN 'Retrying'
                 ELSE coalesce(run.phase, 'Pending') END));
    END IF;
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

-- documents and chunks ------------------------------------------------------------------------------------------------

CREATE TABLE rag.documents (
    document_id uuid PRIMARY KEY,
    collection text NOT NULL,
    source text,
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
COMMENT ON COLUMN rag.documents.source IS 'source it came from; NULL: rag_add_document';
COMMENT ON COLUMN rag.documents.status IS 'pending, active or error';
COMMENT ON COLUMN rag.documents.error IS 'why it could not be indexed, where status is error; what was indexed before stays';
COMMENT ON COLUMN rag.documents.content_hash IS 'SHA-256 of the extracted text, hex';
COMMENT ON COLUMN rag.documents.content IS 'extracted text';
COMMENT ON COLUMN rag.documents.raw_hash IS 'BLAKE3 of the bytes as fetched, hex: tells an unchanged file';
COMMENT ON COLUMN rag.documents.chunking IS 'how the text was cut and embedded: other settings index it anew';
COMMENT ON COLUMN rag.documents.own_title IS 'whether the title is in the document itself; only then it is embedded with the chunks';
COMMENT ON COLUMN rag.documents.validator IS 'what the source said of the present version (time and size, ETag, blob): the same again need not be fetched';
COMMENT ON COLUMN rag.documents.fetched_at IS 'when the present text was fetched';
COMMENT ON COLUMN rag.documents.indexed_at IS 'when the present text was indexed';

-- One partition a collection, rag_kb_<collection>, made with the collection's first document. Keys and indexes are each
-- partition's own (src/catalog/collections.rs): those of a parent that CREATE EXTENSION makes would be there twice when a
-- dump is restored.
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
    embedding rag.vector NOT NULL,
    embedding_key uuid NOT NULL,
    fetched_at timestamptz NOT NULL,
    indexed_at timestamptz NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    page integer,
    heading_path text[]
) PARTITION BY LIST (collection);
-- In the row as far as it fits: reading it from a side table for every comparison would be several times slower.
ALTER TABLE rag.chunks ALTER COLUMN embedding SET STORAGE MAIN;
COMMENT ON TABLE rag.chunks IS 'pieces of documents with their embeddings';
COMMENT ON COLUMN rag.chunks.chunk_id IS 'hash of document, text, chunking and position: the same on every machine';
COMMENT ON COLUMN rag.chunks.chunk_index IS 'position in the document, from 0';
COMMENT ON COLUMN rag.chunks.start_index IS 'first character in the document''s content, from 0: substr(content, start_index + 1, length)';
COMMENT ON COLUMN rag.chunks.start_line IS 'line of the document''s content that the first character is on, from 1';
COMMENT ON COLUMN rag.chunks.end_line IS 'line that the last character is on';
COMMENT ON COLUMN rag.chunks.page IS 'page that the first character is on, from 1; NULL where the document has no pages';
COMMENT ON COLUMN rag.chunks.heading_path IS 'headings that the chunk is under, outermost first; NULL where there are none';
COMMENT ON COLUMN rag.chunks.embedding_key IS 'hash of model and embedded text: equal keys have equal embeddings';

-- Locks on sources, which last as long as the process that has them (src/workers/lock.rs): one that a run, or a check for
-- drift, holds (0), and one of a session that is about to drop the source (1). Whoever just looks whether one is free has it in
-- another mode for that moment. A standby does not see the primary's.
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

-- VOLATILE: it sees what was committed after the query that asks had begun. The last of a run is its row, then its lock goes: who finds
-- the lock free and then the row as it was knows that the process has gone without a word.
CREATE FUNCTION rag.has_not_ended(run_id bigint) RETURNS boolean LANGUAGE sql VOLATILE PARALLEL RESTRICTED SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM rag.run r WHERE r.run_id = $1 AND r.phase = 'Running')
$$;
COMMENT ON FUNCTION rag.has_not_ended(bigint) IS 'whether a run is, by its row as it is now, not at an end';

CREATE FUNCTION rag.has_scheduler() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_is_in_recovery() OR EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND objsubid = 3 AND classid::bigint = x'72616774'::bigint
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
$$;
COMMENT ON FUNCTION rag.has_scheduler() IS 'whether a scheduler is at work in the database';

-- What nobody keeps is not scheduled, whatever is written down: schedulers come and go without a word, and it is not known when.
CREATE FUNCTION rag.without_scheduler(conditions jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(CASE WHEN c ->> 'type' = 'AutoIndexerScheduled' AND c ->> 'status' = 'True'
                          THEN c || '{"status": "False", "reason": "NoScheduler", "lastTransitionTime": null,
                                      "message": "no scheduler is at work: rag.scheduler, shared_preload_libraries or max_worker_processes"}'
                          ELSE c END ORDER BY n)
    FROM jsonb_array_elements(conditions) WITH ORDINALITY AS x (c, n)
$$;
COMMENT ON FUNCTION rag.without_scheduler(jsonb) IS 'conditions of a source as they are where no scheduler is at work';

-- views ---------------------------------------------------------------------------------------------------------------

-- What people see of sources and runs: members of rag_admin all, others what their roles own.
CREATE VIEW rag.visible_source WITH (security_barrier) AS
    SELECT * FROM rag.source
    WHERE owner IN (SELECT rolname FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(oid, 'USAGE'))
       OR EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rag_admin' AND pg_catalog.pg_has_role(oid, 'USAGE'));
COMMENT ON VIEW rag.visible_source IS 'sources that the caller may see; read rag.sources instead';

CREATE VIEW rag.runs WITH (security_barrier) AS
    SELECT run_id, source, collection, trigger, attempt,
           CASE WHEN is_lost THEN 'Failed' ELSE phase END AS phase,
           CASE WHEN phase <> 'Pending' THEN waiting
                WHEN trigger <> 'manual' AND EXISTS (SELECT FROM rag.source s WHERE s.name = source AND s.suspend)
                    THEN 'the source is suspended'
                WHEN NOT (SELECT rag.has_scheduler()) THEN 'no scheduler is at work: rag.scheduler, shared_preload_libraries or max_worker_processes'
                ELSE waiting END AS waiting,
           queued_at, started_at, finished_at,
           documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed, files_skipped,
           chunks_written, chunks_embedded, chunks_reused, bytes_fetched, commit,
           CASE WHEN error IS NOT NULL THEN jsonb_build_array(error)
                WHEN is_lost THEN '[{"sqlstate": "57P01", "message": "the run''s process ended before the run did"}]'::jsonb
                ELSE '[]'::jsonb END AS errors,
           generation
    FROM (SELECT *, phase = 'Running' AND NOT rag.is_syncing(source) AND rag.has_not_ended(run_id) AS is_lost
          FROM rag.run WHERE source IN (SELECT name FROM rag.visible_source)) AS run;
COMMENT ON VIEW rag.runs IS 'executions of sources: what each did and how it ended';
COMMENT ON COLUMN rag.runs.run_id IS 'ascending; what rag_sync returns';
COMMENT ON COLUMN rag.runs.source IS 'source that was synced';
COMMENT ON COLUMN rag.runs.collection IS 'collection that it was synced into';
COMMENT ON COLUMN rag.runs.trigger IS 'manual (rag_sync), schedule, retry, drift or create';
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
COMMENT ON COLUMN rag.runs.files_skipped IS 'files that are no documents';
COMMENT ON COLUMN rag.runs.chunks_written IS 'chunks of the added and updated documents';
COMMENT ON COLUMN rag.runs.chunks_embedded IS 'chunks whose embedding was computed';
COMMENT ON COLUMN rag.runs.chunks_reused IS 'chunks whose embedding was stored already';
COMMENT ON COLUMN rag.runs.bytes_fetched IS 'bytes that were read from the source';
COMMENT ON COLUMN rag.runs.commit IS 'commit that was read (git)';
COMMENT ON COLUMN rag.runs.errors IS 'why the run failed, {sqlstate, message, detail, hint, throttled, retry_after_seconds}; single documents are in rag.run_errors';
COMMENT ON COLUMN rag.runs.generation IS 'generation of the source''s definition that it carried out';

CREATE VIEW rag.run_errors WITH (security_barrier) AS
    SELECT run_id, source, uri, stage, message, hint, occurred_at
    FROM rag.run_error WHERE source IN (SELECT name FROM rag.visible_source);
COMMENT ON VIEW rag.run_errors IS 'documents that a run could not index, and why';
COMMENT ON COLUMN rag.run_errors.run_id IS 'the run';
COMMENT ON COLUMN rag.run_errors.source IS 'its source';
COMMENT ON COLUMN rag.run_errors.uri IS 'the document';
COMMENT ON COLUMN rag.run_errors.stage IS 'where it failed: fetch, decode, extract, split, embed or store';
COMMENT ON COLUMN rag.run_errors.message IS 'what was wrong';
COMMENT ON COLUMN rag.run_errors.hint IS 'what may be done about it';
COMMENT ON COLUMN rag.run_errors.occurred_at IS 'when';

CREATE VIEW rag.progress WITH (security_barrier) AS
    SELECT source, run_id, stage, done AS documents_done, documents_total,
           chunks_written AS chunks_done, bytes_fetched AS bytes_done,
           round((done / seconds)::numeric, 1) AS rate,
           CASE WHEN done > 0 THEN make_interval(secs => round((documents_total - done) * seconds / done)) END AS eta,
           current_uri
    FROM (SELECT *, documents_added + documents_updated + documents_unchanged + documents_failed AS done,
                 greatest(extract(epoch FROM clock_timestamp() - started_at), 0.001)::double precision AS seconds
          FROM rag.run
          WHERE phase = 'Running' AND rag.is_syncing(source) AND source IN (SELECT name FROM rag.visible_source)) AS running;
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
                WHEN r.phase = 'Running' AND NOT r.is_lost THEN 'Running'
                WHEN r.phase = 'Pending' AND (r.trigger = 'manual' OR NOT s.suspend) THEN 'Pending'
                WHEN s.suspend THEN 'Suspended'
                WHEN s.retry_at IS NOT NULL THEN 'Retrying'
                WHEN r.phase IS NULL THEN 'Pending'
                WHEN r.phase = 'Running' THEN 'Failed'
                ELSE r.phase END AS phase,
           rag.has_condition(s.conditions, 'ResourceReady') AS resource_ready,
           rag.has_condition(s.conditions, 'AutoIndexerScheduled') AND (SELECT rag.has_scheduler()) AS scheduled,
           coalesce(r.phase = 'Running' AND NOT r.is_lost, false) AS indexing,
           rag.has_condition(s.conditions, 'AutoIndexerError') OR coalesce(r.is_lost, false) AS error,
           s.last_indexed, s.last_commit, s.successful_run_count, s.error_run_count,
           r.documents_added + r.documents_updated + r.documents_unchanged + r.documents_failed AS documents_processed,
           CASE WHEN NOT s.suspend THEN s.next_run END AS next_scheduled_run,
           CASE WHEN NOT s.suspend THEN s.retry_at END AS next_retry,
           s.observed_generation, s.generation, s.last_run_id,
           extract(epoch FROM r.finished_at - r.started_at)::double precision AS last_run_duration_seconds,
           CASE WHEN r.error IS NOT NULL THEN ARRAY[r.error ->> 'message']
                WHEN r.is_lost THEN ARRAY['the run''s process ended before the run did']
                ELSE '{}' END
           || CASE WHEN r.documents_failed > 0 THEN
                  ARRAY(SELECT e.uri || ': ' || e.message FROM rag.run_error e WHERE e.run_id = r.run_id ORDER BY e.occurred_at LIMIT 10)
              ELSE '{}' END AS errors,
           CASE WHEN (SELECT rag.has_scheduler()) THEN s.conditions ELSE rag.without_scheduler(s.conditions) END AS conditions,
           s.created_at, now() - s.created_at AS age,
           s.spec, s.owner, s.credentials || coalesce('/' || s.credentials_key, '') AS credentials, s.max_retries, s.timeout, s.drift_policy, s.drift_checked_at, s.uid
    FROM (SELECT v.*, l.hash, pg_is_in_recovery() OR EXISTS (SELECT FROM locks WHERE purpose = 0 AND source_hash = l.hash) AS running
          FROM rag.visible_source v, LATERAL (SELECT hashtext(v.name)::bigint & 4294967295) AS l (hash)) s
    LEFT JOIN LATERAL (SELECT *, phase = 'Running' AND NOT s.running AND rag.has_not_ended(run_id) AS is_lost
                       FROM rag.run WHERE run_id = s.last_run_id) AS r ON true;
COMMENT ON VIEW rag.sources IS 'sources and how they are';
COMMENT ON COLUMN rag.sources.name IS 'name of the source';
COMMENT ON COLUMN rag.sources.kind IS 'git, static, website, folder, markdown or table';
COMMENT ON COLUMN rag.sources.collection IS 'collection that it is indexed into';
COMMENT ON COLUMN rag.sources.schedule IS 'when it is synced by itself; NULL: once, when it is made or altered';
COMMENT ON COLUMN rag.sources.suspend IS 'whether schedule, retries and drift checks rest';
COMMENT ON COLUMN rag.sources.phase IS 'Pending (has not run, or is queued), Running, Completed, Failed, Retrying (failed and will be tried again), Suspended or Terminating';
COMMENT ON COLUMN rag.sources.resource_ready IS 'whether what the definition names is there: condition ResourceReady';
COMMENT ON COLUMN rag.sources.scheduled IS 'whether it is synced by itself: condition AutoIndexerScheduled';
COMMENT ON COLUMN rag.sources.indexing IS 'whether a run is under way';
COMMENT ON COLUMN rag.sources.error IS 'whether the last run had an error, see errors: condition AutoIndexerError';
COMMENT ON COLUMN rag.sources.last_indexed IS 'when the last successful run ended';
COMMENT ON COLUMN rag.sources.last_commit IS 'commit that is indexed (git): that of the last complete run without failed documents';
COMMENT ON COLUMN rag.sources.successful_run_count IS 'runs that completed, since the source was made';
COMMENT ON COLUMN rag.sources.error_run_count IS 'runs that failed';
COMMENT ON COLUMN rag.sources.documents_processed IS 'documents that the last run added, updated, left as they are, or could not index';
COMMENT ON COLUMN rag.sources.next_scheduled_run IS 'when it is synced next; NULL: not by itself, or it is suspended';
COMMENT ON COLUMN rag.sources.next_retry IS 'when the last run, which failed, is tried again';
COMMENT ON COLUMN rag.sources.observed_generation IS 'generation that the status speaks of';
COMMENT ON COLUMN rag.sources.generation IS 'counts the changes of the definition, from 1';
COMMENT ON COLUMN rag.sources.last_run_id IS 'the last run, queued ones included, in rag.runs';
COMMENT ON COLUMN rag.sources.last_run_duration_seconds IS 'how long it took';
COMMENT ON COLUMN rag.sources.errors IS 'why the last run failed, and documents that it could not index (10 at most; all are in rag.run_errors)';
COMMENT ON COLUMN rag.sources.conditions IS 'as in Kubernetes: type, status, reason, message, lastTransitionTime, observedGeneration';
COMMENT ON COLUMN rag.sources.created_at IS 'when the source was made';
COMMENT ON COLUMN rag.sources.age IS 'time since the source was made';
COMMENT ON COLUMN rag.sources.spec IS 'what is read, in terms of the kind';
COMMENT ON COLUMN rag.sources.owner IS 'role whose rights its runs have';
COMMENT ON COLUMN rag.sources.credentials IS 'secret that the source''s server is shown, or secret/key';
COMMENT ON COLUMN rag.sources.max_retries IS 'how often a run that failed is tried again';
COMMENT ON COLUMN rag.sources.timeout IS 'most time of one run';
COMMENT ON COLUMN rag.sources.drift_policy IS 'what follows when stored documents differ from what was indexed: auto, manual or ignore';
COMMENT ON COLUMN rag.sources.drift_checked_at IS 'when that was looked at last';
COMMENT ON COLUMN rag.sources.uid IS 'tells a source from a later one of the same name';

-- dumps ---------------------------------------------------------------------------------------------------------------

SELECT pg_catalog.pg_extension_config_dump('rag.retrievers', '');
SELECT pg_catalog.pg_extension_config_dump('rag.collections', '');
SELECT pg_catalog.pg_extension_config_dump('rag.source', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run_id', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run_error', '');
SELECT pg_catalog.pg_extension_config_dump('rag.documents', '');
