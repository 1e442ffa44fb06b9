-- What is noted of collections beside their documents and chunks, and the view of their sizes.

-- When the content of a collection has changed
-- ------------------------------------------------------------------------

-- The latest time of a collection's rows counts. A transaction that changes documents updates a row
-- that no other transaction has locked, or inserts one: writers never wait for each other here, and
-- the time never goes back.
CREATE TABLE rag.content_change (
    collection text NOT NULL,
    changed_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX content_change_collection ON rag.content_change (collection);
COMMENT ON TABLE rag.content_change IS 'when the content of each collection has changed; the latest row counts';

CREATE FUNCTION rag.note_content_change() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[];
    changed text;
    place tid;
BEGIN
    -- a dump brings the times, too
    IF rag.is_restoring() THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        names := ARRAY(SELECT DISTINCT collection FROM added);
    ELSIF TG_OP = 'DELETE' THEN
        names := ARRAY(SELECT DISTINCT collection FROM removed);
    ELSIF TG_OP = 'TRUNCATE' THEN
        names := ARRAY(SELECT name FROM rag.collections);
    ELSE
        -- what says how to fetch the document again (validator, raw_hash) is not content
        names := ARRAY(
            SELECT DISTINCT c.collection
            FROM added a JOIN removed r USING (document_id),
                 LATERAL (VALUES (a.collection), (r.collection)) AS c (collection)
            WHERE (a.collection, a.status, a.error, a.indexed_at, a.content_hash, a.title, a.category, a.tags, a.metadata)
                IS DISTINCT FROM
                  (r.collection, r.status, r.error, r.indexed_at, r.content_hash, r.title, r.category, r.tags, r.metadata));
    END IF;
    FOREACH changed IN ARRAY names
    LOOP
        place := NULL;
        -- to lock a row that another transaction has updated would fail under the other isolation
        -- levels
        IF current_setting('transaction_isolation') = 'read committed' THEN
            SELECT c.ctid INTO place FROM rag.content_change c WHERE c.collection = changed
            LIMIT 1 FOR UPDATE SKIP LOCKED;
        END IF;
        IF place IS NULL THEN
            INSERT INTO rag.content_change VALUES (changed, clock_timestamp());
        ELSE
            UPDATE rag.content_change c SET changed_at = greatest(c.changed_at, clock_timestamp()) WHERE c.ctid = place;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag.note_content_change() IS 'notes that the content of collections has changed';
REVOKE ALL ON FUNCTION rag.note_content_change() FROM PUBLIC;

CREATE TRIGGER note_added AFTER INSERT ON rag.documents REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION rag.note_content_change();
CREATE TRIGGER note_updated AFTER UPDATE ON rag.documents REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION rag.note_content_change();
CREATE TRIGGER note_removed AFTER DELETE ON rag.documents REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION rag.note_content_change();
CREATE TRIGGER note_truncated AFTER TRUNCATE ON rag.documents
    FOR EACH STATEMENT EXECUTE FUNCTION rag.note_content_change();

-- Where an embedding is stored
-- ----------------------------------------------------------------------------------------

-- For texts that another collection has embedded before. To look for them in every partition would
-- take the longer the more collections there are. A row is a hint: where it is missing, or its
-- chunk is gone, the text is embedded again.
CREATE TABLE rag.embedding_place (
    embedding_key uuid NOT NULL,
    collection text NOT NULL
);
CREATE INDEX embedding_place_key ON rag.embedding_place (embedding_key);
CREATE INDEX embedding_place_collection ON rag.embedding_place (collection);
COMMENT ON TABLE rag.embedding_place IS 'a collection that has the embedding of a text';

-- Damaged indexes
-- -----------------------------------------------------------------------------------------------------

-- Whatever rebuilds an index gives it another file, so that a row about its former file means
-- nothing any more.
CREATE TABLE rag.index_damage (
    collection text NOT NULL,
    index oid NOT NULL,
    filenode oid NOT NULL,
    problem text NOT NULL,
    noticed_at timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE rag.index_damage IS 'indexes of collections that a statement has found damaged';
COMMENT ON COLUMN rag.index_damage.filenode IS 'file of the index; another one means that the index was rebuilt';

-- Sizes
-- ---------------------------------------------------------------------------------------------------------------

-- The function has the reader's rights, which the view's own query would not have.
CREATE VIEW rag.collection_sizes AS
    SELECT name AS collection, document_count AS documents, chunk_count AS chunks, text_bytes, chunk_bytes,
           embedding_bytes, index_bytes, total_size_bytes AS total_bytes
    FROM @extschema@.rag_collection_status();
COMMENT ON VIEW rag.collection_sizes IS 'what collections take on disk';
COMMENT ON COLUMN rag.collection_sizes.collection IS 'name of the collection';
COMMENT ON COLUMN rag.collection_sizes.documents IS 'documents that are indexed';
COMMENT ON COLUMN rag.collection_sizes.chunks IS 'chunks of these documents';
COMMENT ON COLUMN rag.collection_sizes.text_bytes IS 'texts of the documents in rag.documents, compressed as they are stored';
COMMENT ON COLUMN rag.collection_sizes.chunk_bytes IS 'chunks without their embeddings';
COMMENT ON COLUMN rag.collection_sizes.embedding_bytes IS 'embeddings of the chunks';
COMMENT ON COLUMN rag.collection_sizes.index_bytes IS 'indexes on the chunks';
COMMENT ON COLUMN rag.collection_sizes.total_bytes IS 'all of these together';

SELECT pg_catalog.pg_extension_config_dump('rag.content_change', '');
SELECT pg_catalog.pg_extension_config_dump('rag.embedding_place', '');
