-- Knowledge items: documents that are named by a number of the user's and fetched from a uri (rag_index_knowledge).

CREATE TABLE rag.knowledge (
    collection text NOT NULL,
    knowledge_id bigint NOT NULL,
    title text,
    uri text NOT NULL,
    document_type text NOT NULL CHECK (document_type IN ('markdown', 'website', 'folder')),
    category text,
    tags text,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'active', 'error')),
    error text,
    content_hash text,
    created_at timestamptz NOT NULL DEFAULT now(),
    fetched_at timestamptz,
    indexed_at timestamptz,
    PRIMARY KEY (collection, knowledge_id)
);
COMMENT ON TABLE rag.knowledge IS 'knowledge items: what rag_index_knowledge was given, and what became of it';
COMMENT ON COLUMN rag.knowledge.document_type IS 'markdown: one file; website: one page; folder: all files below it';
COMMENT ON COLUMN rag.knowledge.tags IS 'tags with commas between them';
COMMENT ON COLUMN rag.knowledge.status IS 'pending: not indexed yet; active; error: the last attempt failed, what was indexed before stays';
COMMENT ON COLUMN rag.knowledge.content_hash IS 'SHA-256 of the text, hex; of several documents, that of their hashes';

SELECT pg_catalog.pg_extension_config_dump('rag.knowledge', '');
