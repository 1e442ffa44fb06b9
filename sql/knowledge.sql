-- Knowledge items: documents that are named by a number of the user's and fetched from a uri
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
CREATE TRIGGER find_owner BEFORE INSERT ON rag.knowledge FOR EACH ROW EXECUTE FUNCTION rag.find_owner();
COMMENT ON TABLE rag.knowledge IS 'knowledge items: what they were registered as, and what became of them';
COMMENT ON COLUMN rag.knowledge.document_type IS 'markdown: one file; website: one page; folder: all files below it';
COMMENT ON COLUMN rag.knowledge.tags IS 'tags with commas between them';
COMMENT ON COLUMN rag.knowledge.owner IS 'name that the owner had last; dumps know roles by it';
COMMENT ON COLUMN rag.knowledge.owner_id IS 'role that gave the uri: it is fetched only where this role and the caller may read it; 0: there was none of that name when a dump was restored';
COMMENT ON COLUMN rag.knowledge.status IS 'pending: not indexed as it is registered; active; error: the last attempt failed, what was indexed before stays';
COMMENT ON COLUMN rag.knowledge.content_hash IS 'SHA-256 of the text, hex; of several documents, that of their hashes';

CREATE FUNCTION rag.knowledge_to_index(status text, collection text) RETURNS bigint[]
    AS 'MODULE_PATHNAME', 'knowledge_to_index_wrapper' LANGUAGE c;
COMMENT ON FUNCTION rag.knowledge_to_index(text, text) IS 'items of a collection that rag_index_all is to index';

CREATE FUNCTION rag.index_knowledge_item(knowledge_id bigint, collection text, place integer, items integer) RETURNS jsonb
    AS 'MODULE_PATHNAME', 'index_knowledge_item_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag.index_knowledge_item(bigint, text, integer, integer) IS 'indexes one of the items of rag_index_all, whose failure is an answer';

CREATE FUNCTION rag.knowledge_summary(results jsonb[]) RETURNS jsonb
    AS 'MODULE_PATHNAME', 'knowledge_summary_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag.knowledge_summary(jsonb[]) IS 'what rag_index_all answers';

-- A procedure, because no function can commit. It runs with the caller's search_path: nothing in it
-- is looked up by that.
CREATE PROCEDURE @extschema@.rag_index_all(status text DEFAULT NULL, collection text DEFAULT 'default', INOUT summary jsonb DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    items bigint[];
    results pg_catalog.jsonb[] := '{}';
BEGIN
    items := rag.knowledge_to_index(status, collection);
    -- fails at once where it cannot be done
    COMMIT;
    FOR i IN 1 .. pg_catalog.cardinality(items) LOOP
        results := pg_catalog.array_append(results, rag.index_knowledge_item(items[i], collection, i, pg_catalog.cardinality(items)));
        COMMIT;
    END LOOP;
    summary := rag.knowledge_summary(results);
END $$;

REVOKE ALL ON FUNCTION rag.knowledge_to_index(text, text), rag.index_knowledge_item(bigint, text, integer, integer), rag.knowledge_summary(jsonb[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.knowledge_to_index(text, text), rag.index_knowledge_item(bigint, text, integer, integer), rag.knowledge_summary(jsonb[]) TO rag_admin;

SELECT pg_catalog.pg_extension_config_dump('rag.knowledge', '');

-- where the functions that follow are made
SET LOCAL search_path = @extschema@, pg_temp;
