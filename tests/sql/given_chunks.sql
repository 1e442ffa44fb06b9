-- Chunks that an application splits itself: upsert, delete, plan and state of an index.
\set VERBOSITY default
\set SHOW_CONTEXT never
\set sqlstate '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

SELECT rag_create_collection('own', metadata_whitelist => '{team}');
CREATE FUNCTION unit(axis int) RETURNS jsonb LANGUAGE sql
    RETURN (SELECT jsonb_agg(CASE WHEN i = axis THEN 1 ELSE 0 END ORDER BY i)
            FROM generate_series(1, 384) i);
CREATE FUNCTION id(n int) RETURNS uuid LANGUAGE sql
    RETURN ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid;
-- The invariants of a document of chunks.
CREATE FUNCTION problems() RETURNS TABLE (uri text, problem text) LANGUAGE sql
BEGIN ATOMIC
    SELECT d.uri, 'chunk ' || c.chunk_index
    FROM rag.documents d JOIN rag.chunks c USING (collection, document_id)
    WHERE d.collection = 'own' AND d.chunking = 'given'
      AND (substr(d.content, c.start_index + 1, length(c.content)) <> c.content
           OR length(replace(left(d.content, c.start_index), E'\n', 'x'))
              - length(replace(left(d.content, c.start_index), E'\n', '')) <> c.start_line - 1)
    UNION ALL
    SELECT d.uri, 'counts'
    FROM rag.documents d
    WHERE d.collection = 'own' AND (
        d.chunk_count <> (SELECT count(*) FROM rag.chunks c
                          WHERE c.collection = 'own' AND c.document_id = d.document_id)
        OR d.status <> 'active'
        OR d.content_hash <> encode(sha256(convert_to(d.content, 'UTF8')), 'hex'));
END;

-- Known vectors: the order is by score, then by chunk_id.
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(3), 'uri', 'a', 'text', 'third', 'embedding', unit(2),
                       'title', 'Document A', 'category', 'ops', 'tags', '["x"]'::jsonb),
    jsonb_build_object('chunk_id', id(1), 'uri', 'a', 'text', E'first\nof two lines',
                       'embedding', unit(1), 'metadata', '{"team": "red", "other": 1}'::jsonb),
    jsonb_build_object('chunk_id', id(2), 'uri', 'b', 'text', 'second', 'embedding', unit(1),
                       'page', 7)), 'own');
SELECT rank, chunk_id, uri, title, category, tags, metadata, page, chunk_index, start_line,
       round(score::numeric, 3) AS score
FROM rag_search('x', 'own', mode => 'vector',
                query_embedding => unit(1)::text::rag_types.vector);
SELECT uri, title, content, chunk_count, status, document_type, chunking
FROM rag.documents WHERE collection = 'own' ORDER BY uri;
SELECT * FROM problems();
-- Chunks that exist stay as they are, or are replaced.
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(1), 'uri', 'a', 'text', 'changed', 'embedding', unit(3)),
    jsonb_build_object('chunk_id', id(4), 'uri', 'a', 'text', 'fourth', 'embedding', unit(4))),
        'own');
SELECT content FROM rag.documents WHERE collection = 'own' AND uri = 'a';
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(3), 'uri', 'a', 'text', E'third,\nlonger', 'embedding',
                       unit(3))), 'own', skip_existing => false);
SELECT content, chunk_count, category FROM rag.documents WHERE collection = 'own' AND uri = 'a';
SELECT * FROM problems();
-- A chunk before the others, and a place that is taken.
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(5), 'uri', 'c', 'text', 'last', 'chunk_index', 5),
    jsonb_build_object('chunk_id', id(6), 'uri', 'c', 'text', 'begin', 'chunk_index', 0)), 'own');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(7), 'uri', 'c', 'text', 'between', 'chunk_index', 2)), 'own');
SELECT content FROM rag.documents WHERE collection = 'own' AND uri = 'c';
SELECT * FROM problems();
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(8), 'uri', 'c', 'text', 'x', 'chunk_index', 2)),
        'own'); :sqlstate
-- Without embeddings, the model of the collection computes them. With them, no other chunk gets
-- them for its text.
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(9), 'uri', 'd', 'text', 'Boats leave at high tide.'),
    jsonb_build_object('chunk_id', id(10), 'uri', 'e', 'text', 'Lunch is at noon.', 'embedding',
                       unit(9))), 'own');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(11), 'uri', 'f', 'text', 'Lunch is at noon.')), 'own');
SELECT uri FROM rag_search('when do the ships go?', 'own', 1, 'vector');
SELECT uri FROM rag_search('lunch', 'own', 2, settings => '{"distinct_text": false}') ORDER BY rank;
-- Ids of documents instead of uris.
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(12), 'document_id', id(100), 'text', 'by id')), 'own');
SELECT uri = document_id::text AS uri_is_id FROM rag.documents
WHERE collection = 'own' AND document_id = id(100);

-- The state, and plans.
SELECT rag_chunk_state('own') -> 'embed' AS embed;
SELECT d ->> 'uri' AS uri, d -> 'chunk_ids' AS chunk_ids,
       d ->> 'content_hash' ~ '^[0-9a-f]{64}$' AS hash
FROM jsonb_each(rag_chunk_state('own') -> 'docs') AS e (id, d) ORDER BY 1;
SELECT * FROM rag_apply_plan(rag_chunk_state('own') -> 'docs', 'own');
-- the same as pairs of hash and ids
SELECT p.* FROM (SELECT jsonb_object_agg(key,
        jsonb_build_array(value -> 'content_hash', value -> 'chunk_ids')) AS docs
    FROM jsonb_each(rag_chunk_state('own') -> 'docs')) AS s, rag_apply_plan(docs, 'own') AS p;
SELECT * FROM rag_apply_plan('{"a": ["hash"]}', 'own'); :sqlstate
SELECT * FROM rag_apply_plan(rag_chunk_state('own') -> 'docs', 'own');
-- Document a is changed, b stays, the others are gone; g is new.
CREATE TABLE plan AS SELECT jsonb_build_object(
    'a', jsonb_build_object('content_hash', 'v2', 'chunk_ids', jsonb_build_array(id(20), id(21))),
    'b', jsonb_build_object('content_hash', (SELECT content_hash FROM rag.documents
                                             WHERE collection = 'own' AND uri = 'b'),
                            'chunk_ids', jsonb_build_array(id(2))),
    'g', jsonb_build_object('content_hash', 'v1', 'chunk_ids', jsonb_build_array(id(22)))) AS docs;
SELECT r.* FROM plan, rag_apply_plan(docs, 'own') AS r;
SELECT uri FROM rag.documents WHERE collection = 'own' ORDER BY 1;
-- A failed upsert changes nothing, and a second one converges.
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(20), 'uri', 'a', 'text', 'version 2', 'embedding', unit(1)),
    jsonb_build_object('chunk_id', id(21), 'uri', 'a', 'text', 'part 2', 'embedding',
                       '[1, 2]'::jsonb)), 'own'); :sqlstate
SELECT uri FROM rag.documents WHERE collection = 'own' ORDER BY 1;
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(20), 'uri', 'a', 'text', 'version 2',
        'embedding', unit(1))), 'own');
SELECT r.* FROM plan, rag_apply_plan(docs, 'own') AS r;
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(20), 'uri', 'a', 'text', 'version 2', 'embedding', unit(1)),
    jsonb_build_object('chunk_id', id(21), 'uri', 'a', 'text', 'part 2', 'embedding', unit(2)),
    jsonb_build_object('chunk_id', id(22), 'uri', 'g', 'text', 'new', 'embedding', unit(5))),
        'own');
SELECT r.* FROM plan, rag_apply_plan(docs, 'own') AS r;
SELECT * FROM problems();
SELECT count(*) FILTER (WHERE value -> 'content_hash' = '"v2"') AS with_hash
FROM jsonb_each(rag_chunk_state('own') -> 'docs');

-- Deletes are idempotent. A document without chunks is gone.
SELECT rag_delete_chunks(ARRAY[id(20), id(22), id(777), NULL]::text[], 'own');
SELECT rag_delete_chunks(ARRAY[id(20), id(22)]::text[], 'own');
SELECT uri, content, chunk_count FROM rag.documents WHERE collection = 'own' ORDER BY 1;
SELECT * FROM problems();

-- A pipeline whose chunk ids stay the same when the text changes. Each change is noticed, also the
-- first one, and two in a row.
CREATE FUNCTION pipeline(hash text, content text) RETURNS TABLE (planned text, written bigint)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT p::text INTO planned FROM rag_apply_plan(jsonb_build_object('doc',
        jsonb_build_object('content_hash', hash, 'chunk_ids', jsonb_build_array(id(1)))),
            'positions') AS p;
    written := rag_upsert_chunks(jsonb_build_array(jsonb_build_object(
        'chunk_id', id(1), 'uri', 'doc', 'text', content, 'embedding', unit(1))), 'positions');
    RETURN NEXT;
END $$;
SELECT rag_create_collection('positions');
SELECT * FROM pipeline('h1', 'price 1');
SELECT * FROM pipeline('h1', 'price 1');
SELECT * FROM pipeline('h2', 'price 2');
SELECT * FROM pipeline('h3', 'price 3');
SELECT * FROM pipeline('h3', 'price 3');
SELECT content, raw_hash FROM rag.documents WHERE collection = 'positions';
-- A plan that nobody carries out says nothing about a later text.
SELECT * FROM rag_apply_plan('{"new": {"content_hash": "n1", "chunk_ids": []}}', 'positions');
SELECT * FROM rag_apply_plan('{}', 'positions');
SELECT rag_upsert_chunks(jsonb_build_array(jsonb_build_object(
    'chunk_id', id(2), 'uri', 'new', 'text', 'unplanned', 'embedding', unit(1))), 'positions');
SELECT raw_hash FROM rag.documents WHERE collection = 'positions';
-- The hash stays when the title changes.
SELECT pipeline('t1', 'text');
SELECT rag_update_document(document_id, title => 'A title') FROM rag.documents
WHERE collection = 'positions';
SELECT pipeline('t1', 'text');
SELECT rag_drop_collection('positions');
SELECT count(*) FROM rag_internal.planned_hash;

-- Ids of an application are any texts, and are kept. A document_id may stand for the uri in plans.
SELECT rag_create_collection('texts');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', 'c1', 'document_id', 'doc_123', 'text', 'one', 'embedding',
                       unit(1)),
    jsonb_build_object('chunk_id', 'c2', 'document_id', 'doc_123', 'text', 'two', 'embedding',
                       unit(2)),
    jsonb_build_object('chunk_id', repeat('0f', 32), 'document_id', 'doc/4', 'uri', 'a/file',
                       'text', 'three', 'embedding', unit(3)),
    jsonb_build_object('chunk_id', upper(id(11)::text) || '', 'uri', 'b', 'text', 'four',
                       'embedding', unit(4)),
    jsonb_build_object('chunk_id', id(12), 'uri', 'b', 'text', 'five', 'embedding', unit(5))),
        'texts');
SELECT document_id, d ->> 'uri' AS uri, d -> 'chunk_ids' AS chunk_ids
FROM jsonb_each(rag_chunk_state('texts') -> 'docs') AS e (document_id, d) ORDER BY 2;
SELECT * FROM rag_apply_plan(rag_chunk_state('texts') -> 'docs', 'texts');
SELECT * FROM rag_apply_plan(jsonb_set(rag_chunk_state('texts') -> 'docs',
                                                '{doc_123,content_hash}', '"v2"'), 'texts');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', 'c1', 'document_id', 'doc_123', 'text', 'uno', 'embedding',
                       unit(1)),
    jsonb_build_object('chunk_id', 'c2', 'document_id', 'doc_123', 'text', 'due', 'embedding',
                       unit(2))), 'texts');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', 'c1', 'document_id', 'other', 'text', 'x')), 'texts'); :sqlstate
SELECT given_id, uri, raw_hash, content FROM rag.documents WHERE collection = 'texts' ORDER BY uri;
CREATE TABLE blocks AS SELECT * FROM rag_export_blocks('texts');
SELECT collection FROM rag_import_blocks('blocks', 'texts-2');
SELECT count(*) FROM jsonb_each(rag_chunk_state('texts') -> 'docs') AS a
    JOIN jsonb_each(rag_chunk_state('texts-2') -> 'docs') AS b
    ON a.value -> 'chunk_ids' = b.value -> 'chunk_ids' AND a.value -> 'uri' = b.value -> 'uri';
SELECT rag_delete_chunks('{c2,nothing}', 'texts');
SELECT rag_chunk_state('texts') #> '{docs,doc_123,chunk_ids}' AS chunk_ids,
    rag_chunk_state('texts') -> 'embed' AS embed;
SELECT rag_drop_collection('texts'), rag_drop_collection('texts-2');
DROP TABLE blocks;

-- A collection without a model: chunks and queries bring their vectors, and texts are words.
SELECT rag_create_collection('vectors', dimensions => 3);
SELECT rag_upsert_chunks('[
    {"chunk_id": "a", "uri": "doc", "text": "Boats leave at noon.", "embedding": [1, 0, 0]},
    {"chunk_id": "b", "uri": "doc", "text": "Trains leave at night.", "embedding": [0, 1, 0]}]',
        'vectors');
SELECT content FROM rag_search('', 'vectors', 1, 'vector', query_embedding => '[0,2,0]');
SELECT content, vector_score IS NULL AS words_only FROM rag_search('boats', 'vectors');
SELECT count(*) FROM rag_search('of the', 'vectors');
SELECT content FROM rag_search('boats', 'vectors', 1, query_embedding => '[0,2,0]');
SELECT * FROM rag_search('boats', 'vectors', mode => 'vector'); :sqlstate
SELECT rag_upsert_chunks('[{"chunk_id": "c", "uri": "doc", "text": "x"}]', 'vectors'); :sqlstate
SELECT rag_upsert_chunks('[{"chunk_id": "c", "uri": "doc", "text": "x",
    "embedding": [1, 0]}]', 'vectors'); :sqlstate
SELECT * FROM rag_add_document('A text.', 'text', collection => 'vectors'); :sqlstate
SELECT rag_chunk_state('vectors') -> 'embed' AS embed;
CALL rag_rebuild_collection('vectors');
CREATE TABLE blocks AS SELECT * FROM rag_export_blocks('vectors');
SELECT collection, chunks FROM rag_import_blocks('blocks', 'vectors-2');
SELECT count(*) FROM rag_search('boats', 'vectors-2');
SELECT rag_create_collection('x', dimensions => 0); :sqlstate
SELECT rag_create_collection('x', dimensions => 16001); :sqlstate
SELECT rag_create_collection('x', dimensions => 3, model => 'm'); :sqlstate
SELECT rag_drop_collection('vectors'), rag_drop_collection('vectors-2');
DROP TABLE blocks;

-- Documents of other origins are not touched by plans.
SELECT chunks_indexed FROM rag_add_document('# T' || E'\n\nwritten by rag', 'mine',
                                            collection => 'own');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(30), 'uri', 'mine', 'text', 'x')), 'own'); :sqlstate
SELECT * FROM rag_apply_plan('{"mine": {"content_hash": "x", "chunk_ids": []}}', 'own'); :sqlstate
SELECT * FROM rag_apply_plan('{}', 'own');
SELECT uri FROM rag.documents WHERE collection = 'own' ORDER BY 1;
-- Its chunks can be deleted all the same. Adding it again brings them back.
SELECT rag_delete_chunks((SELECT array_agg(chunk_id::text) FROM rag.chunks
                                 WHERE collection = 'own'), 'own');
SELECT uri, chunk_count, content IS NOT NULL AS content FROM rag.documents
WHERE collection = 'own';
SELECT chunks_indexed, action FROM rag_add_document('# T' || E'\n\nwritten by rag', 'mine',
                                                    collection => 'own');
-- rag_add_document replaces a document of chunks.
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(40), 'uri', 'both', 'text', 'x', 'embedding', unit(1))),
        'own');
SELECT action FROM rag_add_document('y', 'both', collection => 'own');
SELECT content, chunking = 'given' AS given FROM rag.documents
WHERE collection = 'own' AND uri = 'both';

-- An id of a document is one of its collection. That of a chunk is of one document there.
SELECT rag_create_collection('other');
SELECT action FROM rag_add_document('y', 'before', collection => 'other');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(50), 'document_id', id(200), 'text', 'x')), 'own');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(51), 'document_id', id(200), 'text', 'x')), 'other');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(50), 'uri', 'elsewhere', 'text', 'x')), 'own'); :sqlstate
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(50), 'uri', 'elsewhere', 'text', 'x')), 'other');

-- Mistakes.
CREATE FUNCTION wrong(members jsonb) RETURNS bigint LANGUAGE sql
    RETURN (SELECT rag_upsert_chunks(jsonb_build_array(
        jsonb_build_object('chunk_id', id(60), 'uri', 'a', 'text', 'x') || members), 'own'));
SELECT rag_upsert_chunks('{}', 'own'); :sqlstate
SELECT rag_upsert_chunks('[]', 'own');
SELECT rag_upsert_chunks('[1]', 'own'); :sqlstate
SELECT rag_upsert_chunks('[{"uri": "a", "text": "x"}]', 'own'); :sqlstate
SELECT rag_upsert_chunks('[{"chunk_id": "", "uri": "a", "text": "x"}]', 'own'); :sqlstate
SELECT rag_upsert_chunks(jsonb_build_array(jsonb_build_object(
    'chunk_id', repeat('x', 256), 'uri', 'a', 'text', 'x')), 'own'); :sqlstate
SELECT wrong('{"uri": null}'); :sqlstate
SELECT wrong('{"text": " "}'); :sqlstate
SELECT wrong('{"vector": []}'); :sqlstate
SELECT wrong('{"embedding": [1, "2"]}'); :sqlstate
SELECT wrong('{"embedding": [1e300]}'); :sqlstate
SELECT wrong('{"embedding": [1e400]}'); :sqlstate
SELECT wrong('{"embedding": [0, 0]}'); :sqlstate
SELECT wrong('{"chunk_index": -1}'); :sqlstate
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('chunk_id', id(60), 'uri', 'a', 'text', 'x'),
    jsonb_build_object('chunk_id', id(60), 'uri', 'a', 'text', 'y')), 'own'); :sqlstate
SELECT rag_upsert_chunks('[]', 'no such collection'); :sqlstate
SELECT rag_upsert_chunks(NULL, 'own'); :sqlstate
SELECT rag_delete_chunks(NULL, 'own'); :sqlstate
SELECT rag_apply_plan('[]', 'own'); :sqlstate
SELECT rag_apply_plan('{"a": {"chunk_ids": []}}', 'own'); :sqlstate
SELECT rag_apply_plan('{"a": {"content_hash": "x", "chunk_ids": [1]}}', 'own'); :sqlstate
SELECT rag_apply_plan('{"a": {"content_hash": "x", "chunk_ids": [], "b": 1}}', 'own'); :sqlstate
SELECT rag_chunk_state('no such collection'); :sqlstate
-- Rights.
CREATE ROLE regress_chunks;
GRANT rag_reader TO regress_chunks;
SET ROLE regress_chunks;
SELECT rag_upsert_chunks('[]', 'own'); :sqlstate
SELECT rag_chunk_state('own'); :sqlstate
RESET ROLE;
GRANT rag_admin TO regress_chunks;
SET ROLE regress_chunks;
SELECT rag_upsert_chunks('[]', 'own'); :sqlstate
SELECT rag_delete_chunks('{}', 'own'); :sqlstate
SELECT rag_apply_plan('{}', 'own'); :sqlstate
RESET ROLE;
SELECT rag_grant_collection('own', 'regress_chunks', 'read');
-- A policy hides chunks and documents from the state.
CREATE POLICY regress_chunks ON rag.chunks FOR SELECT TO regress_chunks USING (uri = 'both');
SET ROLE regress_chunks;
SELECT d ->> 'uri' AS uri FROM jsonb_each(rag_chunk_state('own') -> 'docs') AS e (id, d);
RESET ROLE;
DROP POLICY regress_chunks ON rag.chunks;
SELECT rag_drop_collection('own');
SELECT rag_drop_collection('other');
DROP ROLE regress_chunks;
DROP TABLE plan;
DROP FUNCTION problems, wrong, pipeline, id, unit;
