-- Knowledge items: documents that users identify by a number and that are fetched from a uri
-- (rag_index_knowledge).

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE rag_internal.knowledge_item (
    collection text NOT NULL,
    knowledge_id bigint NOT NULL,
    title text,
    uri text NOT NULL,
    document_type text NOT NULL CHECK (document_type IN ('markdown', 'website', 'folder')),
    category text,
    tags text,
    paths text[] NOT NULL DEFAULT '{}',
    owner text NOT NULL,
    owner_id oid NOT NULL,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'active', 'error')),
    error text,
    content_hash text,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_fetched_at timestamptz,
    indexed_at timestamptz,
    PRIMARY KEY (collection, knowledge_id)
);
-- for items that are created without a number
CREATE SEQUENCE rag_internal.knowledge_number;
CREATE TRIGGER find_owner BEFORE INSERT ON rag_internal.knowledge_item
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_owner();
COMMENT ON TABLE rag_internal.knowledge_item IS 'knowledge items; use rag.knowledge instead';
COMMENT ON COLUMN rag_internal.knowledge_item.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag_internal.knowledge_item.owner_id IS
    'role that registered the uri, which is fetched only if both this role and the caller can '
    'read it; 0: the role did not exist when a dump was restored';

CREATE VIEW rag.knowledge WITH (security_barrier) AS
    SELECT k.collection, k.knowledge_id, k.title, k.uri, k.document_type, k.category, k.tags,
           k.paths,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = k.owner_id) AS owner,
           k.status, k.error, k.content_hash, k.created_at, k.last_fetched_at, k.indexed_at
    FROM rag_internal.knowledge_item k
    WHERE k.collection = ANY ((SELECT rag_internal.readable_collections())::text[])
      AND ((SELECT rag_internal.sees_all_chunks())
           OR rag_internal.sees_knowledge(k.collection, k.knowledge_id));
COMMENT ON VIEW rag.knowledge IS 'knowledge items: their definitions and their status';
COMMENT ON COLUMN rag.knowledge.collection IS 'collection that contains the item';
COMMENT ON COLUMN rag.knowledge.knowledge_id IS 'number of the item, chosen by the user';
COMMENT ON COLUMN rag.knowledge.title IS 'title of the item';
COMMENT ON COLUMN rag.knowledge.uri IS 'address that the item is fetched from';
COMMENT ON COLUMN rag.knowledge.document_type IS
    'markdown: one file; website: one page; folder: all files below it';
COMMENT ON COLUMN rag.knowledge.category IS 'category of the item';
COMMENT ON COLUMN rag.knowledge.tags IS 'tags, separated by commas';
COMMENT ON COLUMN rag.knowledge.paths IS
    'patterns of the files of a folder that belong to the item; empty: all files';
COMMENT ON COLUMN rag.knowledge.owner IS
    'role that registered the uri, which is fetched only if both this role and the caller can '
    'read it; NULL if it no longer exists';
COMMENT ON COLUMN rag.knowledge.status IS
    'pending: the current definition is not indexed; active: it is indexed; error: the last '
    'attempt failed, and previously indexed content is kept';
COMMENT ON COLUMN rag.knowledge.error IS 'error message, if status is error';
COMMENT ON COLUMN rag.knowledge.content_hash IS
    'SHA-256 of the text, in hexadecimal; for several documents, the hash of their hashes';
COMMENT ON COLUMN rag.knowledge.created_at IS 'time when the item was registered';
COMMENT ON COLUMN rag.knowledge.last_fetched_at IS 'time when the current text was fetched';
COMMENT ON COLUMN rag.knowledge.indexed_at IS 'time when the current text was indexed';

SELECT pg_catalog.pg_extension_config_dump('rag_internal.knowledge_item', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.knowledge_number', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
