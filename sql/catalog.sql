-- Tables of retrievers, collections, documents and chunks. Only functions of the extension write to
-- the tables of the catalog, with the rights of the extension's owner.

SET LOCAL search_path = pg_catalog, pg_temp;

-- retrievers and collections
-- ----------------------------------------

CREATE TABLE rag_internal.retriever (
    name text PRIMARY KEY CHECK (rag_internal.is_qualified_name(name)),
    namespace text NOT NULL GENERATED ALWAYS AS (rag_internal.namespace_of(name)) STORED,
    spec jsonb NOT NULL,
    -- What statements need of the spec. Nothing else looks into it but crates/definition.
    storage_type text NOT NULL
        GENERATED ALWAYS AS (coalesce(spec #>> '{storageConfig,type}', 'hnsw')) STORED,
    index_mode text NOT NULL GENERATED ALWAYS AS (
        coalesce(spec #>> '{storageConfig,indexStrategy,mode}', 'per_dataset')) STORED,
    index_options jsonb GENERATED ALWAYS AS (spec #> '{storageConfig,ext}') STORED,
    server_url text GENERATED ALWAYS AS (
        pg_catalog.rtrim(spec #>> '{storageConfig,url}', '/')) STORED,
    model text GENERATED ALWAYS AS (spec #>> '{embedding,model}') STORED,
    description text GENERATED ALWAYS AS (spec ->> 'description') STORED,
    display_name text,
    labels jsonb NOT NULL DEFAULT '{}',
    annotations jsonb NOT NULL DEFAULT '{}',
    owner text NOT NULL DEFAULT current_user,
    owner_id oid NOT NULL DEFAULT pg_catalog.quote_ident(current_user)::pg_catalog.regrole,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag_internal.retriever IS 'retrievers; use rag.retrievers instead';
COMMENT ON COLUMN rag_internal.retriever.index_mode
    IS 'mode of the index strategy, taken from the spec';
COMMENT ON COLUMN rag_internal.retriever.index_options IS
    'options of the vector index, taken from the spec; NULL: none';
COMMENT ON COLUMN rag_internal.retriever.owner IS
    'name of the role that owns the retriever, when it was created';
COMMENT ON COLUMN rag_internal.retriever.owner_id IS
    'role whose members may change and drop the retriever';

-- Stands for the configuration of each text's language: see src/index/bm25/languages.rs. As a
-- configuration of its own it makes words as simple does.
CREATE TEXT SEARCH CONFIGURATION rag.auto (COPY = pg_catalog.simple);
COMMENT ON TEXT SEARCH CONFIGURATION rag.auto IS
    'for rag_bm25 indexes: the configuration of each text''s language';

-- With wal_level minimal, a crash would set a sequence back that the creating transaction has used.
-- So the collection default gets its number without it.
CREATE SEQUENCE rag_internal.collection_serial START 2;
CREATE TABLE rag_internal.collection (
    name text PRIMARY KEY
        CHECK (rag_internal.is_collection_name(name)),
    external_id text UNIQUE CHECK (external_id <> ''),
    ids_from text,
    serial bigint NOT NULL DEFAULT pg_catalog.nextval('rag_internal.collection_serial'),
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
COMMENT ON TABLE rag_internal.collection IS 'collections; use rag.collections instead';
COMMENT ON COLUMN rag_internal.collection.ids_from IS
    'former name, which ids of documents are made from; NULL: the name';
COMMENT ON COLUMN rag_internal.collection.model_fingerprint IS
    'hash of the model''s graph, tokenizer and pooling';
COMMENT ON COLUMN rag_internal.collection.model_identity IS
    'hash of the model''s weights, tokenizer and pooling; the same for each precision';
COMMENT ON COLUMN rag_internal.collection.rebuilds IS
    'number of rebuilds that changed the chunks; writers that began before one fail';
COMMENT ON COLUMN rag_internal.collection.imported IS
    'the chunks come from a bundle, so other collections do not reuse their embeddings';
COMMENT ON COLUMN rag_internal.collection.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag_internal.collection.owner_id IS
    'role whose members can do everything with the collection; 0: the role did not exist when a '
    'dump was restored';

INSERT INTO rag_internal.retriever (name, spec) VALUES ('default', '{
    "storageConfig": {"type": "hnsw", "indexStrategy": {"mode": "per_dataset"}},
    "retrievalMethods": {"vector": {"enabled": true}, "keyword": {"enabled": true},
                         "hybrid": {"enabled": true}},
    "description": "vector and keyword search, with an index for large collections"}');
INSERT INTO rag_internal.collection (name, serial, description)
    VALUES ('default', 1, 'used by functions that are called without a collection');

-- Rows of a dump are restored by COPY or INSERT. pg_dump and pg_restore turn
-- check_function_bodies off; other sessions rarely do.
CREATE FUNCTION rag_internal.is_restoring() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_setting('check_function_bodies') = 'off'
        AND current_query() ~* '^\s*(copy|insert)\s'
$$;
COMMENT ON FUNCTION rag_internal.is_restoring()
    IS 'true if the current statement restores rows from a dump';

-- Owners are identified by OID. A role may have another OID where a dump is restored, so the dump
-- contains its name, too.
CREATE FUNCTION rag_internal.find_owner() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF rag_internal.is_restoring() THEN
        NEW.owner_id := coalesce((SELECT oid FROM pg_roles WHERE rolname = NEW.owner), 0);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag_internal.find_owner() IS
    'sets owner_id of a restored row to the role that has the owner''s name now';
CREATE TRIGGER find_owner BEFORE INSERT ON rag_internal.secret
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_owner();
CREATE TRIGGER find_owner BEFORE INSERT ON rag_internal.retriever
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_owner();

-- A restored dump contains its own rows of these names. They replace the rows that CREATE EXTENSION
-- has just inserted.
CREATE FUNCTION rag_internal.replace_builtin() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.name = 'default' AND rag_internal.is_restoring() THEN
        EXECUTE pg_catalog.format(
            'UPDATE rag_internal.%I AS t SET (%s) = ROW(%s)
                WHERE t.name = ($1).name', TG_TABLE_NAME,
            (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(attname), ', ' ORDER BY attnum)
             FROM pg_catalog.pg_attribute
             WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped AND attgenerated = ''),
            (SELECT pg_catalog.string_agg(
                 pg_catalog.format('($1).%I', attname), ', ' ORDER BY attnum)
             FROM pg_catalog.pg_attribute
             WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped AND attgenerated = '')
        ) USING NEW;
        IF EXISTS (SELECT FROM rag_internal.collection c
                   WHERE TG_TABLE_NAME = 'collection' AND c.name = NEW.name)
            OR EXISTS (SELECT FROM rag_internal.retriever r
                       WHERE TG_TABLE_NAME = 'retriever' AND r.name = NEW.name) THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag_internal.replace_builtin() IS
    'replaces the row named default by the row of a restored dump';
CREATE TRIGGER replace_builtin BEFORE INSERT ON rag_internal.retriever
    FOR EACH ROW EXECUTE FUNCTION rag_internal.replace_builtin();
CREATE TRIGGER replace_builtin BEFORE INSERT ON rag_internal.collection
    FOR EACH ROW EXECUTE FUNCTION rag_internal.replace_builtin();

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
    anchors jsonb,
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
    'internal: hash of the document before extraction, to detect unchanged documents';
COMMENT ON COLUMN rag.documents.chunking IS
    'internal: settings that the text was split and embedded with';
COMMENT ON COLUMN rag.documents.own_title IS
    'internal: true if the document itself contains the title; only then is the title embedded '
    'with the chunks';
COMMENT ON COLUMN rag.documents.validator IS
    'version reported by the source (time and size, ETag, blob); the document is not fetched '
    'again while it is the same';
COMMENT ON COLUMN rag.documents.anchors IS
    'internal: places of the content that an address can name, such as headings with ids, as pairs '
    'of position and name; NULL: none, or the text itself tells them';
COMMENT ON COLUMN rag.documents.created_at IS 'time when the document was first stored';
COMMENT ON COLUMN rag.documents.fetched_at IS 'time when the current text was fetched';
COMMENT ON COLUMN rag.documents.indexed_at IS 'time when the current text was indexed';

-- A plan announces what the chunks that are written next belong to. So its hash is that of the
-- document which they create, and not of what is stored when the plan is made.
CREATE TABLE rag_internal.planned_hash (
    collection text NOT NULL,
    document_id uuid NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (collection, document_id)
);
COMMENT ON TABLE rag_internal.planned_hash IS
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
    anchor text,
    former_source text,
    given_id text,
    head_length integer NOT NULL DEFAULT 0
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
    'first character in the document''s content, from 0: substr(content, start_index + 1, length); '
    'a repeated head of a table is before it';
COMMENT ON COLUMN rag.chunks.content IS 'text of the chunk';
COMMENT ON COLUMN rag.chunks.head_length IS
    'number of characters at the start of content that repeat the head of the table which the '
    'chunk continues; 0 if it continues none';
COMMENT ON COLUMN rag.chunks.metadata IS
    'metadata of the document, limited to metadata_whitelist of the collection';
COMMENT ON COLUMN rag.chunks.embedding IS 'embedding of the chunk';
COMMENT ON COLUMN rag.chunks.embedding_key IS
    'internal: hash of model and embedded text; equal keys have equal embeddings';
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
COMMENT ON COLUMN rag.chunks.anchor IS
    'place of the document that the chunk belongs to, as addresses name it after #: the id of its '
    'section; NULL: none is known';

CREATE FUNCTION rag_internal.document_language(title text, content text) RETURNS text
    AS 'MODULE_PATHNAME', 'document_language_wrapper' LANGUAGE c IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION rag_internal.document_language(text, text) IS
    'language of a document that does not say it itself';

-- work on collections that is in progress
-- ----------------------------------------

-- A row exists from the beginning of a rebuild until its storage replaces the former one. The row
-- of a rebuild that was interrupted stays, so that the next one goes on from there.
CREATE TABLE rag_internal.rebuild (
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
COMMENT ON TABLE rag_internal.rebuild
    IS 'rebuilds of collections that have not ended; see rag.progress';
COMMENT ON COLUMN rag_internal.rebuild.target IS
    'settings and model that the new storage is for; with others it is built from the beginning';
COMMENT ON COLUMN rag_internal.rebuild.relation
    IS 'relation in schema rag_internal that is being filled';
COMMENT ON COLUMN rag_internal.rebuild.stage IS
    'copy: documents; index: indexes; swap: what has changed meanwhile, and the replacement';

-- The version of a document is the transaction that wrote its row. Each change of chunks writes
-- the row of their document, so a document of another version is copied again.
CREATE TABLE rag_internal.rebuilt_document (
    collection text NOT NULL,
    document_id uuid NOT NULL,
    version text NOT NULL,
    chunking text,
    chunk_count integer NOT NULL,
    digest bytea,
    language text,
    PRIMARY KEY (collection, document_id)
);
COMMENT ON TABLE rag_internal.rebuilt_document IS 'documents that a rebuild has copied';
COMMENT ON COLUMN rag_internal.rebuilt_document.version IS 'xmin of the row in rag.documents';
COMMENT ON COLUMN rag_internal.rebuilt_document.chunking IS
    'new value of rag.documents.chunking; NULL: it does not change';
COMMENT ON COLUMN rag_internal.rebuilt_document.digest IS
    'SHA-256 of the new chunks; NULL: the chunks do not change, or the document has no digest';
COMMENT ON COLUMN rag_internal.rebuilt_document.language
    IS 'language in the metadata of its new chunks';

-- The last run of each collection that has indexed its knowledge items.
CREATE TABLE rag_internal.knowledge_run (
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
COMMENT ON TABLE rag_internal.knowledge_run IS
    'the last run of rag_index_all_knowledge in each collection; see rag.progress';
COMMENT ON COLUMN rag_internal.knowledge_run.summary IS
    'what rag_index_all_knowledge returns, once all items are done';
COMMENT ON COLUMN rag_internal.knowledge_run.error
    IS 'why the run ended before: {sqlstate, message, ...}';

-- dumps
-- ----------------------------------------

SELECT pg_catalog.pg_extension_config_dump('rag_internal.retriever', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.collection_serial', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.collection', '');
SELECT pg_catalog.pg_extension_config_dump('rag.documents', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.planned_hash', '');

-- DROP EXTENSION
-- ----------------------------------------

-- DROP EXTENSION drops partitions together with rag.chunks and does not report them. While they
-- contain documents the command needs CASCADE (src/workers/drop_extension.rs).
CREATE FUNCTION rag_internal.before_drop() RETURNS event_trigger
    AS 'MODULE_PATHNAME', 'rag_before_drop' LANGUAGE c;
COMMENT ON FUNCTION rag_internal.before_drop() IS
    'rejects DROP EXTENSION without CASCADE while collections contain documents';
CREATE EVENT TRIGGER rag_before_drop
    ON ddl_command_start WHEN TAG IN ('DROP EXTENSION', 'DROP OWNED')
    EXECUTE FUNCTION rag_internal.before_drop();
COMMENT ON EVENT TRIGGER rag_before_drop IS
    'rejects DROP EXTENSION rag without CASCADE while collections contain documents';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
