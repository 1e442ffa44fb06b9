-- Documents that wait to be indexed by a background worker (rag_enqueue_document).

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE SEQUENCE rag_internal.queued_document_id;
CREATE TABLE rag_internal.queued_document (
    id bigint PRIMARY KEY DEFAULT nextval('rag_internal.queued_document_id'),
    collection text NOT NULL,
    owner text NOT NULL,
    owner_id oid NOT NULL,
    uri text NOT NULL,
    title text,
    document_type text,
    category text,
    tags text[],
    knowledge_id bigint,
    metadata jsonb,
    is_file boolean NOT NULL,
    content bytea,
    status text NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'indexed', 'failed', 'superseded')),
    attempts integer NOT NULL DEFAULT 0,
    throttled integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz DEFAULT now(),
    error text,
    error_detail text,
    error_hint text,
    document_id uuid,
    action text,
    chunks integer,
    queued_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    CHECK ((status = 'queued') = (next_attempt_at IS NOT NULL)),
    CHECK ((status = 'queued') = (content IS NOT NULL)),
    CHECK ((status = 'queued') = (ended_at IS NULL))
);
CREATE INDEX queued_document_order ON rag_internal.queued_document (id)
    WHERE status = 'queued';
CREATE INDEX queued_document_due ON rag_internal.queued_document (next_attempt_at)
    WHERE status = 'queued';
CREATE INDEX queued_document_uri ON rag_internal.queued_document (collection, md5(uri), id);
CREATE INDEX queued_document_ended ON rag_internal.queued_document (ended_at)
    WHERE ended_at IS NOT NULL;
CREATE TRIGGER find_owner BEFORE INSERT ON rag_internal.queued_document
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_owner();
COMMENT ON TABLE rag_internal.queued_document IS
    'documents that wait to be indexed; use rag.queued_documents instead';
COMMENT ON COLUMN rag_internal.queued_document.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag_internal.queued_document.owner_id IS
    'role that queued the document, with whose rights it is indexed; 0: the role did not exist '
    'when a dump was restored';

CREATE VIEW rag.queued_documents WITH (security_barrier) AS
    SELECT q.id, q.collection, q.uri, q.status, q.attempts, q.error, q.error_detail,
           q.error_hint, q.document_id, q.action, q.chunks AS chunks_indexed, q.queued_at,
           CASE WHEN q.attempts > 0 THEN q.next_attempt_at END AS retry_at, q.ended_at,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = q.owner_id) AS owner
    FROM rag_internal.queued_document q
    WHERE pg_catalog.pg_has_role(q.owner_id, 'USAGE')
       OR q.collection = ANY ((SELECT rag_internal.writable_collections())::text[]);
COMMENT ON VIEW rag.queued_documents IS
    'documents that rag_enqueue_document has queued, and what became of them';
COMMENT ON COLUMN rag.queued_documents.id IS 'id that rag_enqueue_document returned';
COMMENT ON COLUMN rag.queued_documents.collection IS 'collection of the document';
COMMENT ON COLUMN rag.queued_documents.uri IS 'address of the document';
COMMENT ON COLUMN rag.queued_documents.status IS
    'queued; indexed; failed; superseded: a document with the same uri was queued later';
COMMENT ON COLUMN rag.queued_documents.attempts IS 'number of attempts that have begun';
COMMENT ON COLUMN rag.queued_documents.error IS 'why the last attempt failed';
COMMENT ON COLUMN rag.queued_documents.error_detail IS 'details of the error';
COMMENT ON COLUMN rag.queued_documents.error_hint IS 'suggestion how to solve the problem';
COMMENT ON COLUMN rag.queued_documents.document_id IS 'document, once it is indexed';
COMMENT ON COLUMN rag.queued_documents.action IS 'added, updated or unchanged, once it is indexed';
COMMENT ON COLUMN rag.queued_documents.chunks_indexed IS 'number of chunks, once it is indexed';
COMMENT ON COLUMN rag.queued_documents.queued_at IS 'time when the document was queued';
COMMENT ON COLUMN rag.queued_documents.retry_at IS 'time of the next attempt after a failure';
COMMENT ON COLUMN rag.queued_documents.ended_at IS
    'time when the document was indexed, or failed for good';
COMMENT ON COLUMN rag.queued_documents.owner IS
    'role that queued the document, with whose rights it is indexed; NULL if it no longer exists';

SELECT pg_catalog.pg_extension_config_dump('rag_internal.queued_document', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.queued_document_id', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
