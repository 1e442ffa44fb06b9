-- Storage on other servers: the outbox with pending changes, and the state of replication.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE SEQUENCE rag_internal.storage_change_number;

-- The outbox: a document whose points on the other server may be out of date. Every change of its
-- chunks writes the row in the same transaction. It is deleted once the server has the points of
-- this change. The searches of the documents in here read this database alone.
CREATE TABLE rag_internal.storage_change (
    collection text NOT NULL,
    document_id uuid NOT NULL,
    change bigint NOT NULL DEFAULT pg_catalog.nextval('rag_internal.storage_change_number'),
    changed_by xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    changed_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    refusals integer NOT NULL DEFAULT 0,
    retry_at timestamptz,
    error text,
    PRIMARY KEY (collection, document_id)
);
COMMENT ON TABLE rag_internal.storage_change IS
    'documents whose vectors another server does not have yet';
COMMENT ON COLUMN rag_internal.storage_change.change IS 'another number after each change';
COMMENT ON COLUMN rag_internal.storage_change.changed_by IS
    'transaction of the change, which may still be in progress';
COMMENT ON COLUMN rag_internal.storage_change.refusals IS
    'number of times that the server has refused the document, alone or with others';
COMMENT ON COLUMN rag_internal.storage_change.retry_at IS
    'when the document is tried again; NULL: at once';
COMMENT ON COLUMN rag_internal.storage_change.error IS 'why the server has refused the document';

-- What a server has to delete: a collection that was dropped or moved to other storage. It is not
-- part of dumps: the server has the points of the cluster that was dumped.
CREATE TABLE rag_internal.storage_removal (
    removal bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    retriever text NOT NULL,
    spec jsonb NOT NULL,
    server_url text NOT NULL,
    owner_id oid NOT NULL,
    partition text NOT NULL,
    collection text NOT NULL,
    changed_by xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    attempts integer NOT NULL DEFAULT 0,
    retry_at timestamptz,
    error text
);
COMMENT ON TABLE rag_internal.storage_removal IS
    'collections whose vectors another server has to delete';

-- Collections whose last replication failed, and when it is tried again.
CREATE TABLE rag_internal.storage_delay (
    collection text PRIMARY KEY,
    attempts integer NOT NULL,
    retry_at timestamptz NOT NULL,
    error text NOT NULL
);
COMMENT ON TABLE rag_internal.storage_delay IS
    'collections whose replication failed, and when it is tried again';

-- Row triggers of the partitions of collections whose storage is on another server.
CREATE FUNCTION rag_internal.note_storage_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed record := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    -- others may be in the same partition
    IF NOT rag_internal.is_restoring() AND EXISTS (
        SELECT FROM rag_internal.collection c JOIN rag_internal.retriever r ON r.name = c.retriever
        WHERE c.name = changed.collection
          AND r.server_url IS NOT NULL)
    THEN
        INSERT INTO rag_internal.storage_change (collection, document_id)
        VALUES (changed.collection, changed.document_id)
        ON CONFLICT (collection, document_id) DO UPDATE
            SET change = excluded.change, changed_by = excluded.changed_by,
                changed_at = excluded.changed_at, refusals = 0, retry_at = NULL, error = NULL
            WHERE storage_change.changed_by <> excluded.changed_by;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.note_storage_change() IS
    'records that the vectors of a document on another server are out of date';
REVOKE ALL ON FUNCTION rag_internal.note_storage_change() FROM PUBLIC;

CREATE TRIGGER wake AFTER INSERT OR UPDATE ON rag_internal.storage_change
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.source_changed();
CREATE TRIGGER wake AFTER INSERT ON rag_internal.storage_removal
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.source_changed();

SELECT pg_catalog.pg_extension_config_dump('rag_internal.storage_change', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.storage_change_number', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.storage_delay', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
