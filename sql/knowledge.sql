-- Knowledge items: documents that users identify by a number and that are fetched from a uri
-- (rag_index_knowledge).

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE rag.knowledge (
    collection text NOT NULL,
    knowledge_id bigint NOT NULL,
    title text,
    uri text NOT NULL,
    document_type text NOT NULL CHECK (document_type IN ('markdown', 'website', 'folder')),
    category text,
    tags text,
    owner text NOT NULL,
    owner_id oid NOT NULL,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'active', 'error')),
    error text,
    content_hash text,
    created_at timestamptz NOT NULL DEFAULT now(),
    fetched_at timestamptz,
    indexed_at timestamptz,
    PRIMARY KEY (collection, knowledge_id)
);
-- for items that are created without a number
CREATE SEQUENCE rag.knowledge_number;
CREATE TRIGGER find_owner BEFORE INSERT ON rag.knowledge
    FOR EACH ROW EXECUTE FUNCTION rag.find_owner();
COMMENT ON TABLE rag.knowledge IS 'knowledge items: their definitions and their status';
COMMENT ON COLUMN rag.knowledge.collection IS 'collection that contains the item';
COMMENT ON COLUMN rag.knowledge.knowledge_id IS 'number of the item, chosen by the user';
COMMENT ON COLUMN rag.knowledge.title IS 'title of the item';
COMMENT ON COLUMN rag.knowledge.uri IS 'address that the item is fetched from';
COMMENT ON COLUMN rag.knowledge.document_type IS
    'markdown: one file; website: one page; folder: all files below it';
COMMENT ON COLUMN rag.knowledge.category IS 'category of the item';
COMMENT ON COLUMN rag.knowledge.tags IS 'tags, separated by commas';
COMMENT ON COLUMN rag.knowledge.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag.knowledge.owner_id IS
    'role that registered the uri, which is fetched only if both this role and the caller can '
    'read it; 0: the role did not exist when a dump was restored';
COMMENT ON COLUMN rag.knowledge.status IS
    'pending: the current definition is not indexed; active: it is indexed; error: the last '
    'attempt failed, and previously indexed content is kept';
COMMENT ON COLUMN rag.knowledge.error IS 'error message, if status is error';
COMMENT ON COLUMN rag.knowledge.content_hash IS
    'SHA-256 of the text, in hexadecimal; for several documents, the hash of their hashes';
COMMENT ON COLUMN rag.knowledge.created_at IS 'time when the item was registered';
COMMENT ON COLUMN rag.knowledge.fetched_at IS 'time when the current text was fetched';
COMMENT ON COLUMN rag.knowledge.indexed_at IS 'time when the current text was indexed';

CREATE FUNCTION rag.knowledge_to_index(status text, collection text) RETURNS bigint[]
    AS 'MODULE_PATHNAME', 'knowledge_to_index_wrapper' LANGUAGE c;
COMMENT ON FUNCTION rag.knowledge_to_index(text, text) IS
    'knowledge items of a collection that rag_index_all has to index';

CREATE FUNCTION rag.index_knowledge_item(
    knowledge_id bigint, collection text, place integer, items integer)
    RETURNS jsonb
    AS 'MODULE_PATHNAME', 'index_knowledge_item_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag.index_knowledge_item(bigint, text, integer, integer) IS
    'indexes one knowledge item for rag_index_all; returns a failure as a result';

CREATE FUNCTION rag.knowledge_summary(results jsonb[]) RETURNS jsonb
    AS 'MODULE_PATHNAME', 'knowledge_summary_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag.knowledge_summary(jsonb[]) IS 'result of rag_index_all';

-- A procedure, because a function cannot commit. It runs with the caller's search_path, so all
-- names in it are qualified.
CREATE PROCEDURE @extschema@.rag_index_all(
    status text DEFAULT NULL, collection text DEFAULT 'default', INOUT summary jsonb DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    items bigint[];
    results pg_catalog.jsonb[] := '{}';
BEGIN
    items := rag.knowledge_to_index(status, collection);
    -- if the caller does not allow COMMIT, fail before the work begins
    COMMIT;
    FOR i IN 1 .. pg_catalog.cardinality(items) LOOP
        results := pg_catalog.array_append(results, rag.index_knowledge_item(
            items[i], collection, i, pg_catalog.cardinality(items)));
        COMMIT;
    END LOOP;
    summary := rag.knowledge_summary(results);
END $$;

REVOKE ALL ON FUNCTION rag.knowledge_to_index(text, text),
    rag.index_knowledge_item(bigint, text, integer, integer),
    rag.knowledge_summary(jsonb[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.knowledge_to_index(text, text),
    rag.index_knowledge_item(bigint, text, integer, integer),
    rag.knowledge_summary(jsonb[]) TO rag_admin;

SELECT pg_catalog.pg_extension_config_dump('rag.knowledge', '');
SELECT pg_catalog.pg_extension_config_dump('rag.knowledge_number', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
