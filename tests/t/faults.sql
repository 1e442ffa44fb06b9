-- What the fault campaign (RagFaults.pm) has on its servers beside the extension.
CREATE SCHEMA faults;
GRANT USAGE ON SCHEMA faults TO PUBLIC;

CREATE FUNCTION faults.parts(version bigint) RETURNS int IMMUTABLE LANGUAGE sql AS $$
    SELECT 2 + (version % 3)::int
$$;
CREATE FUNCTION faults.part_of(name text, version bigint, part int) RETURNS text
IMMUTABLE LANGUAGE sql AS $$
    SELECT format('Part %s of %s of version %s of %s: the tide is high at the pier, mark m%s.',
        part, faults.parts(version), version, name, translate(
            substr(md5(name || ' ' || version || ' ' || part), 1, 7), '0123456789', 'ghijklmnop'))
$$;
-- The text of a version of a document: each paragraph is a chunk, and names both.
CREATE FUNCTION faults.text_of(name text, version bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$
    SELECT string_agg(faults.part_of(name, version, i), E'\n\n' ORDER BY i)
    FROM generate_series(1, faults.parts(version)) AS i
$$;
CREATE FUNCTION faults.vector_of(name text, version bigint) RETURNS rag_types.vector
IMMUTABLE LANGUAGE sql AS $$
    SELECT ('[' || string_agg((get_byte(decode(md5(name || version), 'hex'), i)
        - 128)::text, ',') || ']')::rag_types.vector FROM generate_series(0, 15) AS i
$$;

CREATE TABLE faults.item (id int PRIMARY KEY, version bigint NOT NULL, body text,
    v rag_types.vector);
CREATE INDEX item_body ON faults.item USING rag_bm25 (body) WITH (text_config = 'simple');
CREATE INDEX item_v ON faults.item USING rag_hnsw (v vector_l2_ops);
CREATE TABLE faults.article (id int PRIMARY KEY, version bigint NOT NULL, body text);

-- Writes a version of a row of faults.item.
CREATE FUNCTION faults.put(id int, version bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO faults.item VALUES (id, version, faults.text_of('row-' || id, version),
        faults.vector_of('row-' || id, version))
    ON CONFLICT ON CONSTRAINT item_pkey DO UPDATE
        SET version = excluded.version, body = excluded.body, v = excluded.v
$$;

-- Documents of a collection that are not whole, or whose chunks are not theirs.
CREATE FUNCTION faults.half(name text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT d.uri || ': ' || concat_ws(', ', d.content, 'chunks: ' || d.chunk_count,
        array_to_string(c.texts, '|'))
    FROM rag.documents AS d LEFT JOIN LATERAL (
        SELECT array_agg(c.content ORDER BY c.chunk_index) AS texts FROM rag.chunks AS c
        WHERE c.collection = name AND c.document_id = d.document_id) AS c ON true
    WHERE d.collection = name AND d.content IS NOT NULL AND d.content LIKE 'Part %'
        AND (d.chunk_count IS DISTINCT FROM cardinality(c.texts)
             OR array_to_string(c.texts, E'\n\n') IS DISTINCT FROM rtrim(d.content, E'\n'))
    UNION ALL
    SELECT 'chunk of no document: ' || c.content FROM rag.chunks AS c
    WHERE c.collection = name AND NOT EXISTS (
        SELECT FROM rag.documents AS d
        WHERE d.collection = name AND d.document_id = c.document_id)
$$;

-- The documents of a collection as "uri=version".
CREATE FUNCTION faults.documents(name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(uri || '=' || substring(content FROM 'version (\d+)'), ' ' ORDER BY uri)
    FROM rag.documents WHERE collection = name AND content IS NOT NULL AND content LIKE 'Part %'
$$;

-- What a search of a collection finds, as "uri=version:chunks:parts".
CREATE FUNCTION faults.found(name text, mode text, filter jsonb DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT string_agg(format('%s=%s:%s:%s', uri, versions, chunks, parts), ' ' ORDER BY uri)
    FROM (SELECT uri, string_agg(DISTINCT substring(content FROM 'version (\d+)'), '+') AS versions,
                 count(*) AS chunks,
                 string_agg(DISTINCT substring(content FROM 'Part \d+ of (\d+)'), '+') AS parts
          FROM rag_search('tide at the pier', name, top_k => 1000, mode => mode, filter => filter,
                          settings => '{"distinct_text": false}')
          WHERE content LIKE 'Part %' GROUP BY uri) AS s
$$;

-- What is wrong with the rows that the indexes of faults.item return.
CREATE FUNCTION faults.wrong_rows() RETURNS SETOF text STABLE LANGUAGE plpgsql
SET enable_sort = off SET enable_seqscan = off AS $$
DECLARE
    all_rows int[] := ARRAY(SELECT id FROM faults.item ORDER BY id);
    found int[];
    sought record;
BEGIN
    PERFORM set_config('enable_seqscan', 'off', true);
    found := ARRAY(SELECT id FROM (SELECT id FROM faults.item
        ORDER BY v <-> faults.vector_of('any', 1)) AS s ORDER BY id);
    IF found <> all_rows THEN
        RETURN NEXT format('item_v returns %s instead of %s', found, all_rows);
    END IF;
    found := ARRAY(SELECT id FROM (SELECT id FROM faults.item ORDER BY body <@> 'tide') AS s
        ORDER BY id);
    IF found <> all_rows THEN
        RETURN NEXT format('item_body returns %s instead of %s', found, all_rows);
    END IF;
    FOR sought IN SELECT id, version, v, substring(body FROM 'mark (m\w+)') AS mark
        FROM faults.item ORDER BY md5(id::text || version) LIMIT 5
    LOOP
        found := ARRAY(SELECT id FROM faults.item WHERE body @@@ sought.mark);
        IF found <> ARRAY[sought.id] THEN
            RETURN NEXT format('item_body returns %s for row %s', found, sought.id);
        END IF;
        found := ARRAY(SELECT id FROM faults.item ORDER BY v <-> sought.v LIMIT 1);
        IF found <> ARRAY[sought.id] THEN
            RETURN NEXT format('item_v returns %s for row %s', found, sought.id);
        END IF;
    END LOOP;
    RETURN QUERY SELECT format('row %s has not the contents of version %s', id, version)
        FROM faults.item WHERE body <> faults.text_of('row-' || id, version)
            OR v::text <> faults.vector_of('row-' || id, version)::text;
END $$;

-- Problems of all indexes of the extension's access methods.
CREATE FUNCTION faults.broken_indexes() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT i.indexrelid::regclass || ': ' || p
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        JOIN pg_am AS a ON a.oid = c.relam,
        LATERAL rag_check_index(i.indexrelid) AS p
    WHERE a.amname IN ('rag_hnsw', 'rag_bm25') AND i.indisvalid AND c.relkind = 'i'
$$;
