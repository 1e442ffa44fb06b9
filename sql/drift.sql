-- Digests of documents as runs have indexed them, and functions that find differences between them
-- and the stored documents (src/drift).

SET LOCAL search_path = pg_catalog, pg_temp;

-- One row for each document of a source, written in the same transaction as the document. There is
-- no foreign key: the row must remain when somebody deletes the document by hand, so that a check
-- reports the loss.
CREATE TABLE rag.document_digests (
    document_id uuid PRIMARY KEY,
    collection text NOT NULL,
    source text NOT NULL,
    uri text NOT NULL,
    content_hash text,
    chunk_count integer NOT NULL,
    digest bytea NOT NULL
);
CREATE INDEX document_digests_source ON rag.document_digests (collection, source);
COMMENT ON TABLE rag.document_digests IS
    'digests of documents as runs have indexed them; rag_check_drift compares them with the '
    'stored documents';
COMMENT ON COLUMN rag.document_digests.content_hash IS
    'SHA-256 of the text, in hexadecimal; NULL: the document could not be indexed';
COMMENT ON COLUMN rag.document_digests.digest IS
    'SHA-256 of the document''s row, followed by the SHA-256 of its chunks';

-- A digest covers everything that a search returns, filters by or reuses, in a form that does not
-- depend on settings. It does not cover columns for the next fetch (status, error, raw_hash,
-- validator, chunking). A text that other values follow is preceded by its length, so that
-- different rows cannot have the same representation.
--
-- These are plain expressions and queries without SET, so that they are inlined. Callers pin the
-- search_path.
-- pgspot: off
CREATE FUNCTION rag.document_digest(d rag.documents) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.sha256(pg_catalog.convert_to(
        pg_catalog.json_build_array(
            d.collection, d.source, d.uri, d.title, d.own_title, d.knowledge_id, d.document_type,
            d.category, d.tags, d.metadata, d.content_hash, d.chunk_count, d.content IS NULL
        )::text || coalesce(d.content, ''),
        'UTF8'))
$$;
COMMENT ON FUNCTION rag.document_digest(rag.documents) IS 'SHA-256 of a document''s row';

CREATE FUNCTION rag.chunk_digest(c rag.chunks) RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.sha256(
        pg_catalog.convert_to(
            pg_catalog.json_build_array(
                c.chunk_id, c.chunk_index, c.start_index, c.start_line, c.end_line, c.page,
                c.heading_path, c.source, c.uri, c.title, c.knowledge_id, c.document_type,
                c.category, c.tags, c.metadata, c.embedding_key, pg_catalog.octet_length(c.content)
            )::text || c.content,
            'UTF8')
        || pg_catalog.timestamptz_send(c.fetched_at) || pg_catalog.timestamptz_send(c.indexed_at)
        || rag.vector_send(c.embedding))
$$;
COMMENT ON FUNCTION rag.chunk_digest(rag.chunks) IS 'SHA-256 of a chunk''s row';

-- The index finds the chunks of each document, independent of statistics. So the cost is
-- proportional to the number of chunks.
CREATE FUNCTION rag.compute_document_digests(of_collection text)
RETURNS TABLE (document_id uuid, source text, uri text, content_hash text, chunk_count integer,
    digest bytea)
LANGUAGE sql STABLE AS $$
    SELECT d.document_id, d.source, d.uri, d.content_hash, k.chunk_count,
           rag.document_digest(d) || k.digest
    FROM rag.documents d, LATERAL (
        SELECT pg_catalog.count(*)::integer AS chunk_count,
               pg_catalog.sha256(coalesce(pg_catalog.string_agg(
                   rag.chunk_digest(c), '' ORDER BY c.chunk_index, c.chunk_id), '')) AS digest
        FROM rag.chunks c WHERE c.collection = $1 AND c.document_id = d.document_id) k
    WHERE d.collection = $1
$$;
COMMENT ON FUNCTION rag.compute_document_digests(text) IS
    'digests of the documents of a collection as they are stored now';

-- kind is missing, changed, lost_chunks or unexpected. entry is the element that rag_check_drift
-- returns. is_stored is true if the document has a row in rag.documents. Chunks without such a row
-- count as documents that nobody indexed. Tables that were just filled have no statistics, so the
-- joins and set operations here are of kinds that have no plan with a quadratic cost.
CREATE FUNCTION rag.drifted_documents(of_collection text, of_source text)
RETURNS TABLE (document_id uuid, uri text, kind text, entry jsonb, is_stored boolean)
LANGUAGE sql STABLE AS $$
    WITH indexed AS (
        SELECT * FROM rag.document_digests i WHERE i.collection = $1 AND i.source = $2),
    stored AS MATERIALIZED (
        SELECT * FROM rag.compute_document_digests($1) d WHERE d.source = $2),
    compared AS (
        SELECT coalesce(i.document_id, s.document_id) AS document_id,
               coalesce(i.uri, s.uri) AS uri,
               CASE WHEN s.document_id IS NULL THEN 'missing'
                    WHEN i.document_id IS NULL THEN 'unexpected'
                    WHEN s.chunk_count < i.chunk_count THEN 'lost_chunks'
                    ELSE 'changed' END AS kind,
               i.content_hash AS indexed_hash, s.content_hash AS stored_hash,
               i.chunk_count AS indexed_chunks, s.chunk_count AS stored_chunks,
               i.digest AS indexed_digest, s.digest AS stored_digest
        FROM indexed i FULL JOIN stored s ON s.document_id = i.document_id
        WHERE i.digest IS DISTINCT FROM s.digest)
    SELECT c.document_id, c.uri, c.kind,
           CASE c.kind
               WHEN 'lost_chunks' THEN pg_catalog.jsonb_build_object(
                   'uri', c.uri, 'stored', c.stored_chunks, 'indexed', c.indexed_chunks)
               WHEN 'changed' THEN pg_catalog.jsonb_build_object(
                   'uri', c.uri, 'what', pg_catalog.array_remove(ARRAY[
                   CASE WHEN pg_catalog.substr(c.stored_digest, 1, 32)
                             = pg_catalog.substr(c.indexed_digest, 1, 32) THEN NULL
                        WHEN c.stored_hash IS DISTINCT FROM c.indexed_hash
                             OR c.stored_hash IS DISTINCT FROM (
                                 SELECT pg_catalog.encode(pg_catalog.sha256(
                                     pg_catalog.convert_to(d.content, 'UTF8')), 'hex')
                                 FROM rag.documents d WHERE d.document_id = c.document_id)
                            THEN 'text'
                        ELSE 'document' END,
                   CASE WHEN c.stored_chunks > c.indexed_chunks THEN 'extra chunks'
                        WHEN pg_catalog.substr(c.stored_digest, 33)
                             <> pg_catalog.substr(c.indexed_digest, 33) THEN 'chunks' END], NULL))
               ELSE pg_catalog.to_jsonb(c.uri) END,
           c.stored_digest IS NOT NULL
    FROM compared c
    UNION ALL
    SELECT n.document_id, k.uri, 'unexpected', pg_catalog.to_jsonb(k.uri), false
    FROM (SELECT c.document_id FROM rag.chunks c WHERE c.collection = $1 AND c.source = $2
          EXCEPT (SELECT s.document_id FROM stored s
                  UNION ALL SELECT i.document_id FROM indexed i
                  -- documents that a dropped source of the same name has left
                  UNION ALL SELECT d.document_id FROM rag.documents d
                            WHERE d.collection = $1 AND d.former_source = $2)) n,
        LATERAL (SELECT pg_catalog.min(c.uri) AS uri FROM rag.chunks c
                 WHERE c.collection = $1 AND c.document_id = n.document_id) k
$$;
COMMENT ON FUNCTION rag.drifted_documents(text, text) IS
    'documents of a source that differ from what its runs have indexed';
-- pgspot: on

REVOKE ALL ON FUNCTION rag.document_digest(rag.documents), rag.chunk_digest(rag.chunks),
    rag.compute_document_digests(text), rag.drifted_documents(text, text) FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('rag.document_digests', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
