-- Digests of documents as runs have indexed them, and functions that find differences between them
-- and the stored documents (src/drift).

SET LOCAL search_path = pg_catalog, pg_temp;

-- One row for each document of a source, written in the same transaction as the document. There is
-- no foreign key: the row must remain when somebody deletes the document by hand, so that a check
-- reports the loss.
CREATE TABLE rag_internal.document_digest (
    document_id uuid NOT NULL,
    collection text NOT NULL,
    source text NOT NULL,
    uri text NOT NULL,
    content_hash text,
    chunk_count integer NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (collection, document_id)
);
CREATE INDEX document_digest_source ON rag_internal.document_digest (collection, source);
COMMENT ON TABLE rag_internal.document_digest IS
    'digests of documents as runs have indexed them; rag_check_drift compares them with the '
    'stored documents';
COMMENT ON COLUMN rag_internal.document_digest.content_hash IS
    'SHA-256 of the text, in hexadecimal; NULL: the document could not be indexed';
COMMENT ON COLUMN rag_internal.document_digest.digest IS
    'SHA-256 of the document''s row, followed by the SHA-256 of its chunks';

-- A digest covers everything that a search returns, filters by or reuses, in a form that does not
-- depend on settings. It does not cover columns for the next fetch (status, error, raw_hash,
-- validator, chunking). A text that other values follow is preceded by its length, so that
-- different rows cannot have the same representation.
--
-- Both functions are plain expressions without SET, so that they are inlined. Callers pin the
-- search_path.
-- pgspot: off
CREATE FUNCTION rag_internal.document_digest(d rag.documents) RETURNS bytea
    LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.sha256(pg_catalog.convert_to(
        pg_catalog.json_build_array(
            d.collection, d.source, d.uri, d.title, d.own_title, d.knowledge_id, d.document_type,
            d.category, d.tags, d.metadata, d.content_hash, d.chunk_count, d.content IS NULL
        )::text || coalesce(d.anchors::text, '') || coalesce(d.content, ''),
        'UTF8'))
$$;
COMMENT ON FUNCTION rag_internal.document_digest(rag.documents) IS 'SHA-256 of a document''s row';

-- The columns are arguments, because a row of rag.chunks would have another type on a server that
-- has a part of the table only.
CREATE FUNCTION rag_internal.chunk_digest(chunk_id uuid, chunk_index integer, start_index integer,
    head_length integer, start_line integer, end_line integer, page integer, heading_path text[],
    anchor text, source text, uri text, title text, knowledge_id bigint, document_type text,
    category text, tags text[], metadata jsonb, embedding_key uuid, content text,
    fetched_at timestamptz, indexed_at timestamptz, embedding rag_types.vector)
RETURNS bytea LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.sha256(
        pg_catalog.convert_to(
            pg_catalog.json_build_array(
                chunk_id, chunk_index, start_index, head_length, start_line, end_line, page,
                heading_path, source, uri, title, knowledge_id, document_type, category, tags,
                metadata, embedding_key, pg_catalog.octet_length(content)
            )::text || coalesce(pg_catalog.to_json(anchor)::text, '') || content,
            'UTF8')
        || pg_catalog.timestamptz_send(fetched_at) || pg_catalog.timestamptz_send(indexed_at)
        || rag_internal.vector_send(embedding))
$$;
COMMENT ON FUNCTION rag_internal.chunk_digest(uuid, integer, integer, integer, integer, integer,
    integer, text[], text, text, text, text, bigint, text, text, text[], jsonb, uuid, text,
    timestamptz, timestamptz, rag_types.vector) IS 'SHA-256 of a chunk''s row';
-- pgspot: on

-- The functions below read rag.chunks in queries of their own, which could run on other servers
-- than those that read rag.documents. Each is planned with the values of its parameters: for one
-- collection, and for the number of documents at hand. Tables that were just filled have no
-- statistics, so the joins and set operations are of kinds that have no plan with a quadratic cost.
-- A function that is STABLE runs all its queries with the snapshot of the statement that calls it.

-- Digests are computed before chunks are sorted, so that the sort does not move texts and
-- embeddings. The key of chunks finds those of a few documents. Those of many are found by a scan.
CREATE FUNCTION rag_internal.compute_document_digests(
    of_collection text, of_source text DEFAULT NULL, of_document uuid DEFAULT NULL)
RETURNS TABLE (document_id uuid, source text, uri text, content_hash text, chunk_count integer,
    digest bytea)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    of_partition CONSTANT text := (
        SELECT k.partition FROM rag_internal.collection k WHERE k.name = of_collection);
    of_documents CONSTANT uuid[] := ARRAY(
        SELECT d.document_id FROM rag.documents d
        WHERE d.collection = of_collection AND (of_source IS NULL OR d.source = of_source)
          AND (of_document IS NULL OR d.document_id = of_document));
BEGIN
    RETURN QUERY
        SELECT d.document_id, d.source, d.uri, d.content_hash, coalesce(k.chunk_count, 0),
               d.digest || sha256(coalesce(k.digests, ''))
        FROM (SELECT d.document_id, d.source, d.uri, d.content_hash,
                     rag_internal.document_digest(d) AS digest
              FROM rag.documents d
              WHERE d.collection = of_collection AND (of_source IS NULL OR d.source = of_source)
                AND (of_document IS NULL OR d.document_id = of_document)) d
        -- each k has its d: a LEFT JOIN could be planned as a nested loop
        FULL JOIN (
            SELECT c.document_id, count(*)::integer AS chunk_count,
                   string_agg(c.digest, '' ORDER BY c.chunk_index, c.chunk_id) AS digests
            FROM (SELECT c.document_id, c.chunk_index, c.chunk_id,
                         rag_internal.chunk_digest(
                             c.chunk_id, c.chunk_index, c.start_index, c.head_length,
                             c.start_line, c.end_line, c.page, c.heading_path, c.anchor,
                             c.source, c.uri,
                             c.title, c.knowledge_id, c.document_type, c.category, c.tags,
                             c.metadata, c.embedding_key, c.content, c.fetched_at, c.indexed_at,
                             c.embedding) AS digest
                  FROM rag.chunks c
                  WHERE c.partition = of_partition AND c.collection = of_collection
                    AND c.document_id = ANY (of_documents)
                  ORDER BY c.document_id, c.chunk_index, c.chunk_id) c
            GROUP BY c.document_id) k ON k.document_id = d.document_id;
END $$;
COMMENT ON FUNCTION rag_internal.compute_document_digests(text, text, uuid) IS
    'digests of the documents of a collection as they are stored now, or of those of a source, or '
    'of one';

-- kind is missing, changed, lost_chunks or unexpected. entry is the element that rag_check_drift
-- returns. is_stored is true if the document has a row in rag.documents. Chunks without such a row
-- count as documents that nobody indexed.
CREATE FUNCTION rag_internal.drifted_documents(of_collection text, of_source text)
RETURNS TABLE (document_id uuid, uri text, kind text, entry jsonb, is_stored boolean)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    of_partition CONSTANT text := (
        SELECT k.partition FROM rag_internal.collection k WHERE k.name = of_collection);
    strays uuid[];
BEGIN
    RETURN QUERY
        WITH compared AS (
            SELECT coalesce(i.document_id, s.document_id) AS document_id,
                   coalesce(i.uri, s.uri) AS uri,
                   CASE WHEN s.document_id IS NULL THEN 'missing'
                        WHEN i.document_id IS NULL THEN 'unexpected'
                        WHEN s.chunk_count < i.chunk_count THEN 'lost_chunks'
                        ELSE 'changed' END AS kind,
                   i.content_hash AS indexed_hash, s.content_hash AS stored_hash,
                   i.chunk_count AS indexed_chunks, s.chunk_count AS stored_chunks,
                   i.digest AS indexed_digest, s.digest AS stored_digest
            FROM (SELECT * FROM rag_internal.document_digest i
                  WHERE i.collection = of_collection AND i.source = of_source) i
            FULL JOIN rag_internal.compute_document_digests(of_collection, of_source) s
                ON s.document_id = i.document_id
            WHERE i.digest IS DISTINCT FROM s.digest)
        SELECT c.document_id, c.uri, c.kind,
               CASE c.kind
                   WHEN 'lost_chunks' THEN jsonb_build_object(
                       'uri', c.uri, 'stored', c.stored_chunks, 'indexed', c.indexed_chunks)
                   WHEN 'changed' THEN jsonb_build_object('uri', c.uri, 'what', array_remove(ARRAY[
                       CASE WHEN substr(c.stored_digest, 1, 32) = substr(c.indexed_digest, 1, 32)
                                THEN NULL
                            WHEN c.stored_hash IS DISTINCT FROM c.indexed_hash
                                 OR c.stored_hash IS DISTINCT FROM (
                                     SELECT encode(sha256(convert_to(d.content, 'UTF8')), 'hex')
                                     FROM rag.documents d
                                     WHERE d.collection = of_collection
                                       AND d.document_id = c.document_id)
                                THEN 'text'
                            ELSE 'document' END,
                       CASE WHEN c.stored_chunks > c.indexed_chunks THEN 'extra chunks'
                            WHEN substr(c.stored_digest, 33) <> substr(c.indexed_digest, 33)
                                THEN 'chunks' END], NULL))
                   ELSE to_jsonb(c.uri) END,
               c.stored_digest IS NOT NULL
        FROM compared c;

    WITH found AS MATERIALIZED (
        SELECT c.document_id FROM rag.chunks c
        WHERE c.partition = of_partition AND c.collection = of_collection
          AND c.source = of_source
        GROUP BY c.document_id)
    SELECT ARRAY(
        SELECT f.document_id FROM found f
        EXCEPT (SELECT d.document_id FROM rag.documents d
                WHERE d.collection = of_collection AND d.source = of_source
                UNION ALL SELECT i.document_id FROM rag_internal.document_digest i
                          WHERE i.collection = of_collection AND i.source = of_source))
    INTO strays;
    IF strays <> '{}' THEN
        RETURN QUERY
            SELECT c.document_id, min(c.uri), 'unexpected', to_jsonb(min(c.uri)), false
            FROM unnest(strays) n (document_id)
            JOIN rag.chunks c ON c.document_id = n.document_id
            WHERE c.partition = of_partition AND c.collection = of_collection
            GROUP BY c.document_id;
    END IF;
END $$;
COMMENT ON FUNCTION rag_internal.drifted_documents(text, text) IS
    'documents of a source that differ from what its runs have indexed';

REVOKE ALL ON FUNCTION rag_internal.document_digest(rag.documents),
    rag_internal.chunk_digest(uuid, integer, integer, integer, integer, integer, integer, text[],
        text, text, text, text, bigint, text, text, text[], jsonb, uuid, text, timestamptz,
        timestamptz, rag_types.vector),
    rag_internal.compute_document_digests(text, text, uuid),
    rag_internal.drifted_documents(text, text) FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('rag_internal.document_digest', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
