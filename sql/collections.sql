-- What is stored about collections besides their documents and chunks, and the view of their sizes.

-- Time of the last change of a collection's content
-- ----------------------------------------

-- A collection can have several rows; the latest time counts. A transaction that changes documents
-- updates a row that no other transaction has locked, or inserts one. So writers never wait for
-- each other here, and the time never decreases.
CREATE TABLE rag_internal.content_change (
    collection text NOT NULL,
    changed_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX content_change_collection ON rag_internal.content_change (collection);
COMMENT ON TABLE rag_internal.content_change IS
    'time of the last change of each collection''s content; the latest row counts';

CREATE FUNCTION rag_internal.note_content_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[];
    changed text;
    place tid;
BEGIN
    -- a dump contains the times, too
    IF rag_internal.is_restoring() THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        names := ARRAY(SELECT DISTINCT collection FROM added);
    ELSIF TG_OP = 'DELETE' THEN
        names := ARRAY(SELECT DISTINCT collection FROM removed);
    ELSIF TG_OP = 'TRUNCATE' THEN
        names := ARRAY(SELECT name FROM rag_internal.collection);
    ELSE
        -- validator and raw_hash, which are for the next fetch, are not content
        names := ARRAY(
            SELECT DISTINCT collection
            FROM added a FULL JOIN removed r USING (collection, document_id)
            WHERE (a.collection, a.status, a.error, a.indexed_at, a.content_hash, a.title,
                   a.category, a.tags, a.metadata)
                IS DISTINCT FROM
                  (r.collection, r.status, r.error, r.indexed_at, r.content_hash, r.title,
                   r.category, r.tags, r.metadata));
    END IF;
    FOREACH changed IN ARRAY names
    LOOP
        place := NULL;
        -- under the other isolation levels, locking a row that another transaction has updated
        -- would fail
        IF current_setting('transaction_isolation') = 'read committed' THEN
            SELECT c.ctid INTO place FROM rag_internal.content_change c WHERE c.collection = changed
            LIMIT 1 FOR UPDATE SKIP LOCKED;
        END IF;
        IF place IS NULL THEN
            INSERT INTO rag_internal.content_change VALUES (changed, clock_timestamp());
        ELSE
            UPDATE rag_internal.content_change c
                SET changed_at = greatest(c.changed_at, clock_timestamp())
            WHERE c.ctid = place;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.note_content_change() IS
    'records that the content of collections has changed';
REVOKE ALL ON FUNCTION rag_internal.note_content_change() FROM PUBLIC;

CREATE TRIGGER note_added AFTER INSERT ON rag.documents REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.note_content_change();
CREATE TRIGGER note_updated AFTER UPDATE ON rag.documents
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.note_content_change();
CREATE TRIGGER note_removed AFTER DELETE ON rag.documents REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.note_content_change();
CREATE TRIGGER note_truncated AFTER TRUNCATE ON rag.documents
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.note_content_change();

-- Partitions of a dump of data alone
-- ----------------------------------------

-- A dump of everything creates the partitions before it restores rows. A dump of data alone
-- restores rows in the order of the names of tables: those of rag_internal.collection before those
-- of partitions.
CREATE FUNCTION rag_internal.create_restored_partition(name text) RETURNS void
    AS 'MODULE_PATHNAME', 'create_restored_partition_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag_internal.create_restored_partition(text) IS
    'creates the partition of a collection that comes from a dump of data';
CREATE FUNCTION rag_internal.restore_partition() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.partition IS NOT NULL AND rag_internal.is_restoring()
        AND to_regclass(format('rag_internal.%I', NEW.partition)) IS NULL THEN
        PERFORM rag_internal.create_restored_partition(NEW.name);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.restore_partition() IS
    'creates the partition of a collection that is restored from a dump of data';
REVOKE ALL ON FUNCTION rag_internal.create_restored_partition(text),
    rag_internal.restore_partition() FROM PUBLIC;
CREATE TRIGGER restore_partition AFTER INSERT OR UPDATE ON rag_internal.collection
    FOR EACH ROW EXECUTE FUNCTION rag_internal.restore_partition();

-- Where an embedding is stored
-- ----------------------------------------

-- For texts that another collection has already embedded. Searching every partition would take time
-- in proportion to the number of collections. A row is a hint: if it is missing, or its chunk no
-- longer exists, the text is embedded again.
CREATE TABLE rag_internal.embedding_place (
    embedding_key uuid NOT NULL,
    collection text NOT NULL
);
CREATE INDEX embedding_place_key ON rag_internal.embedding_place (embedding_key);
CREATE INDEX embedding_place_collection ON rag_internal.embedding_place (collection);
COMMENT ON TABLE rag_internal.embedding_place IS 'collection that contains the embedding of a text';

-- Damaged relations
-- ----------------------------------------

-- Marks are files in the data directory, because a statement that meets damage is rolled back.
CREATE FUNCTION rag_internal.damaged_relations()
    RETURNS TABLE (relation text, kind text, table_id oid, relation_id oid, problem text,
                   remedy text, noticed_at timestamptz)
    AS 'MODULE_PATHNAME', 'damaged_relations_wrapper' LANGUAGE c;
COMMENT ON FUNCTION rag_internal.damaged_relations() IS
    'relations of the extension that a statement has found corrupted, and what heals each';
REVOKE ALL ON FUNCTION rag_internal.damaged_relations() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.damaged_relations() TO rag_reader;

CREATE VIEW rag.damage AS
    SELECT d.relation, d.kind, d.problem, d.remedy, d.noticed_at
        FROM rag_internal.damaged_relations() d;
COMMENT ON VIEW rag.damage IS
    'tables and indexes of the extension that a statement has found corrupted';
COMMENT ON COLUMN rag.damage.relation IS 'name of the table or index, with its schema';
COMMENT ON COLUMN rag.damage.kind IS 'table, index, or TOAST table: the long values of a table';
COMMENT ON COLUMN rag.damage.problem IS 'error message of the statement that met it first';
COMMENT ON COLUMN rag.damage.remedy IS 'statements that heal it';
COMMENT ON COLUMN rag.damage.noticed_at IS 'time when a statement met it first';

-- Sizes
-- ----------------------------------------

CREATE FUNCTION rag_internal.monitored_collection_status()
    RETURNS TABLE (name text, document_count bigint, error_count bigint, chunk_count bigint,
                   total_size_bytes bigint, text_bytes bigint, chunk_bytes bigint,
                   embedding_bytes bigint, index_bytes bigint, state text, detail text,
                   vector_index_bytes bigint, keyword_index_bytes bigint)
    AS 'MODULE_PATHNAME', 'monitored_collection_status_wrapper' LANGUAGE c STABLE;
COMMENT ON FUNCTION rag_internal.monitored_collection_status() IS
    'content, size and state of collections that the caller may read or monitor, without details '
    'of those that it may not read; use rag_collection_status instead';

-- The function runs with the reader's rights; a query of the view would run with the owner's.
CREATE VIEW rag.collection_sizes AS
    SELECT name AS collection, document_count AS documents, chunk_count AS chunks,
           text_bytes, chunk_bytes, embedding_bytes, index_bytes, total_size_bytes AS total_bytes
    FROM rag_internal.monitored_collection_status();
COMMENT ON VIEW rag.collection_sizes IS 'disk space used by collections';
COMMENT ON COLUMN rag.collection_sizes.collection IS 'name of the collection';
COMMENT ON COLUMN rag.collection_sizes.documents IS 'number of indexed documents';
COMMENT ON COLUMN rag.collection_sizes.chunks IS 'number of chunks of these documents';
COMMENT ON COLUMN rag.collection_sizes.text_bytes IS
    'size of the texts in rag.documents, compressed as stored';
COMMENT ON COLUMN rag.collection_sizes.chunk_bytes IS 'size of the chunks without their embeddings';
COMMENT ON COLUMN rag.collection_sizes.embedding_bytes IS 'size of the embeddings';
COMMENT ON COLUMN rag.collection_sizes.index_bytes IS 'size of the indexes on the chunks';
COMMENT ON COLUMN rag.collection_sizes.total_bytes IS
    'sum of these sizes; rag.relation_sizes has what else the extension occupies';

SELECT pg_catalog.pg_extension_config_dump('rag_internal.content_change', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.embedding_place', '');
