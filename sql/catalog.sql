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
    retriever text NOT NULL DEFAULT 'default' REFERENCES rag.retrievers (name),
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

-- A restored dump brings its own rows of these names: they replace the ones that CREATE EXTENSION has just made.
CREATE FUNCTION rag.replace_builtin() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.name = 'default' THEN
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
    kind text NOT NULL,
    spec jsonb NOT NULL,
    collection text NOT NULL REFERENCES rag.collections (name),
    owner text NOT NULL,
    credentials text REFERENCES rag.secret (name),
    timeout interval NOT NULL DEFAULT '1 hour',
    generation bigint NOT NULL DEFAULT 1,
    observed_generation bigint,
    last_commit text,
    last_indexed timestamptz,
    successful_run_count bigint NOT NULL DEFAULT 0,
    error_run_count bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag.source IS 'where documents come from; read rag.sources instead';

CREATE SEQUENCE rag.run_id AS bigint;
CREATE TABLE rag.run (
    run_id bigint PRIMARY KEY,
    source text NOT NULL,
    collection text NOT NULL,
    trigger text NOT NULL CHECK (trigger IN ('manual', 'schedule', 'retry', 'drift', 'create')),
    attempt integer NOT NULL DEFAULT 1,
    generation bigint NOT NULL,
    phase text NOT NULL CHECK (phase IN ('Running', 'Completed', 'Failed')),
    stage text NOT NULL DEFAULT 'fetch',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
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
COMMENT ON TABLE rag.run IS 'executions of sources; read rag.runs and rag.progress instead';

CREATE TABLE rag.run_errors (
    run_id bigint NOT NULL,
    source text NOT NULL,
    uri text NOT NULL,
    stage text NOT NULL CHECK (stage IN ('fetch', 'decode', 'extract', 'split', 'embed', 'store')),
    message text NOT NULL,
    hint text,
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX run_errors_run_id ON rag.run_errors (run_id);
COMMENT ON TABLE rag.run_errors IS 'documents that a run could not index, and why';
COMMENT ON COLUMN rag.run_errors.stage IS 'where it failed: fetch, decode, extract, split, embed or store';
COMMENT ON COLUMN rag.run_errors.hint IS 'what may be done about it';

-- documents and chunks ------------------------------------------------------------------------------------------------

CREATE TABLE rag.documents (
    document_id uuid PRIMARY KEY,
    collection text NOT NULL REFERENCES rag.collections (name),
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

-- Whether a run of the source is alive: its process holds this lock (src/workers/runner) as long as it lives. A standby
-- does not see the primary's locks.
CREATE FUNCTION rag.is_syncing(source text) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_is_in_recovery() OR EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'object' AND granted AND classid = 'rag.source'::regclass
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND objid = (hashtext(source)::bigint & 4294967295)::oid)
$$;
COMMENT ON FUNCTION rag.is_syncing(text) IS 'whether a run of the source is under way';

-- views ---------------------------------------------------------------------------------------------------------------

CREATE VIEW rag.runs AS
    SELECT run_id, source, collection, trigger, attempt,
           CASE WHEN phase = 'Running' AND NOT rag.is_syncing(source) THEN 'Failed' ELSE phase END AS phase,
           started_at, finished_at,
           documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed, files_skipped,
           chunks_written, chunks_embedded, chunks_reused, bytes_fetched, commit,
           CASE WHEN error IS NOT NULL THEN jsonb_build_array(error)
                WHEN phase = 'Running' AND NOT rag.is_syncing(source)
                    THEN '[{"sqlstate": "57P01", "message": "the run''s process ended before the run did"}]'::jsonb
                ELSE '[]'::jsonb END AS errors
    FROM rag.run;
COMMENT ON VIEW rag.runs IS 'executions of sources: what each did and how it ended';
COMMENT ON COLUMN rag.runs.phase IS 'Running, Completed or Failed';
COMMENT ON COLUMN rag.runs.chunks_embedded IS 'chunks whose embedding was computed';
COMMENT ON COLUMN rag.runs.chunks_reused IS 'chunks whose embedding was stored already';
COMMENT ON COLUMN rag.runs.errors IS 'why the run failed, {sqlstate, message, detail, hint}; single documents are in rag.run_errors';

CREATE VIEW rag.progress AS
    SELECT source, run_id, stage, done AS documents_done, documents_total,
           chunks_written AS chunks_done, bytes_fetched AS bytes_done,
           round((done / seconds)::numeric, 1) AS rate,
           CASE WHEN done > 0 THEN make_interval(secs => round((documents_total - done) * seconds / done)) END AS eta,
           current_uri
    FROM (SELECT *, documents_added + documents_updated + documents_unchanged + documents_failed AS done,
                 greatest(extract(epoch FROM clock_timestamp() - started_at), 0.001)::double precision AS seconds
          FROM rag.run WHERE phase = 'Running' AND rag.is_syncing(source)) AS running;
COMMENT ON VIEW rag.progress IS 'runs under way';
COMMENT ON COLUMN rag.progress.rate IS 'documents per second since the start';
COMMENT ON COLUMN rag.progress.eta IS 'time left at that rate';

CREATE VIEW rag.sources AS
    SELECT s.name, s.kind, s.collection, s.spec, s.owner, s.credentials, s.timeout,
           CASE WHEN r.phase IS NULL THEN 'Pending' ELSE r.phase END AS phase,
           coalesce(r.phase = 'Running', false) AS indexing, r.errors -> 0 ->> 'message' AS error,
           s.last_indexed, s.last_commit, s.successful_run_count, s.error_run_count,
           (SELECT count(*) FROM rag.documents d WHERE d.collection = s.collection AND d.source = s.name) AS documents_processed,
           s.generation, s.observed_generation, r.run_id AS last_run_id,
           extract(epoch FROM r.finished_at - r.started_at)::double precision AS last_run_duration_seconds,
           now() - s.created_at AS age
    FROM rag.source s
    LEFT JOIN LATERAL (SELECT * FROM rag.runs r WHERE r.source = s.name ORDER BY run_id DESC LIMIT 1) r ON true;
COMMENT ON VIEW rag.sources IS 'sources and how they are';
COMMENT ON COLUMN rag.sources.credentials IS 'secret that the source''s server is shown';
COMMENT ON COLUMN rag.sources.phase IS 'Pending (never run), Running, Completed or Failed';
COMMENT ON COLUMN rag.sources.error IS 'why the last run failed';
COMMENT ON COLUMN rag.sources.last_indexed IS 'when the last successful run ended';
COMMENT ON COLUMN rag.sources.last_commit IS 'commit that is indexed (git)';
COMMENT ON COLUMN rag.sources.documents_processed IS 'documents stored from this source';

-- dumps ---------------------------------------------------------------------------------------------------------------

SELECT pg_catalog.pg_extension_config_dump('rag.retrievers', '');
SELECT pg_catalog.pg_extension_config_dump('rag.collections', '');
SELECT pg_catalog.pg_extension_config_dump('rag.source', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run_id', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run', '');
SELECT pg_catalog.pg_extension_config_dump('rag.run_errors', '');
SELECT pg_catalog.pg_extension_config_dump('rag.documents', '');
