-- A collection gets an index on its embeddings when it has enough chunks, and keeps it.
\pset format unaligned
SELECT rag_create_collection('big');
SELECT success, chunks_indexed FROM rag_add_document('How to rotate the signing keys.', 'note:keys',
    collection => 'big');
SELECT has_vector_index, index_type FROM rag_collection_status('big');

-- as many chunks as a sync of some hundred pages would add
SELECT setseed(0.5);
INSERT INTO rag_internal.rag_kb_big
SELECT c.collection, c.partition, c.source, 'made:' || i, c.title, gen_random_uuid(), i,
c.document_type, CASE WHEN i % 1000 = 0 THEN 'rare' ELSE 'usual' END, c.tags,
       gen_random_uuid(), 0, 0, 'made ' || i, jsonb_build_object('number', i),
       array(SELECT random() - 0.5 + 0 * i FROM generate_series(1, 384))::rag_types.vector,
       gen_random_uuid(), now(), now(), 1, 1
FROM rag_internal.rag_kb_big AS c, generate_series(1, 3500) AS i;
SELECT has_vector_index FROM rag_collection_status('big');

SELECT success FROM rag_add_document('Backups are taken every night.', 'note:backups',
    collection => 'big');
SELECT has_vector_index, index_type, index_bytes > 1000000 AS has_size
    FROM rag_collection_status('big');
SELECT indexdef FROM pg_indexes WHERE tablename = 'rag_kb_big' ORDER BY indexname COLLATE "C";
SELECT * FROM rag_check_index('rag_internal.rag_kb_big_embedding_idx');
SELECT success FROM rag_add_document('Laptops are encrypted.', 'note:laptops', collection => 'big');
SELECT count(*) FROM pg_indexes WHERE tablename = 'rag_kb_big' AND indexdef LIKE '%rag_hnsw%';

-- the statement of rag_search uses the index
ANALYZE rag_internal.rag_kb_big;
CREATE FUNCTION plan_of(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
        IF line ~ 'Scan' THEN RETURN NEXT regexp_replace(line, '^[ >-]*', ''); END IF;
    END LOOP;
END $$;
SELECT plan_of($$SELECT chunk_id, embedding <=> rag_embed('keys') AS distance FROM rag.chunks
    WHERE collection = 'big' ORDER BY 2 FETCH FIRST 5 ROWS WITH TIES$$);

-- chunks are found by the key of the partition: those of results, and those of a document
SELECT plan_of(format('SELECT c.content FROM ROWS FROM (unnest(%L::uuid[]), unnest(%L::uuid[]))
        AS wanted (document_id, chunk_id)
    JOIN rag.chunks AS c ON c.collection = ''big'' AND c.document_id = wanted.document_id
        AND c.chunk_id = wanted.chunk_id', array_agg(document_id), array_agg(chunk_id)))
FROM (SELECT document_id, chunk_id FROM rag.chunks WHERE collection = 'big' LIMIT 100) AS found;
SELECT plan_of(format('SELECT content FROM rag.chunks WHERE collection = ''big''
    AND document_id = %L', document_id)) FROM rag.documents WHERE uri = 'note:keys';

-- few matching rows are found by the indexes for filters
UPDATE rag_internal.rag_kb_big SET tags = ARRAY['even'], metadata = metadata || '{"kind": "rare"}'
    WHERE knowledge_id % 500 = 0;
ANALYZE rag_internal.rag_kb_big;
CREATE FUNCTION filter_plan(condition text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT plan_of(format('SELECT chunk_id, embedding <=> %L AS distance FROM rag.chunks c
        WHERE c.collection = ''big'' AND (%s) ORDER BY 2, 1 LIMIT 5', (SELECT embedding
        FROM rag.chunks WHERE uri = 'note:keys'), condition))
$$;
SELECT filter_plan($$c.category = 'rare'::text$$);
SELECT filter_plan($$c.knowledge_id = 7::bigint$$);
SELECT filter_plan($$c.knowledge_id = ANY ('{7,8}'::bigint[])$$);
SELECT filter_plan($$c.tags @> '{even}'::text[]$$);
SELECT filter_plan($$c.tags && '{even,odd}'::text[]$$);
SELECT filter_plan($$c.metadata @> '{"kind": "rare"}'::jsonb$$);
DROP FUNCTION filter_plan;

-- rows inserted after the build are found, and equal scores are in order
SELECT rank, uri FROM rag_search('rotating keys', 'big', top_k => 1);
SELECT rank, uri FROM rag_search('is my laptop encrypted?', 'big', top_k => 1);

-- all matching rows are returned, whatever the session has set for its own scans
SET rag.iterative_scan = off;
SET rag.max_scan_tuples = 1;
SET rag.ef_search = 1;
SELECT count(*), bool_and(metadata ->> 'number' LIKE '%000')
    FROM rag_search('keys', 'big', top_k => 10, filter => '{"category": "rare"}');
SELECT count(*), count(DISTINCT chunk_id), max(rank) FROM rag_search('keys', 'big', top_k => 4000);
SHOW rag.iterative_scan;
RESET rag.iterative_scan;
RESET rag.max_scan_tuples;
RESET rag.ef_search;
SELECT bool_and(score >= next) AS in_order
FROM (SELECT score, lead(score) OVER (ORDER BY rank) AS next
FROM rag_search('keys', 'big', top_k => 500)) s;

-- for many equal texts, the ids decide which are returned
INSERT INTO rag_internal.rag_kb_big
SELECT c.collection, c.partition, c.source, 'again:' || i, c.title, gen_random_uuid(), i,
c.document_type, c.category, c.tags,
       md5(i::text)::uuid, 0, 0, c.content, c.metadata, c.embedding, c.embedding_key, now(), now(),
       1, 1
FROM rag_internal.rag_kb_big AS c, generate_series(1, 30) AS i WHERE c.uri = 'note:backups';
SELECT array_agg(chunk_id ORDER BY rank) = (SELECT array_agg(chunk_id ORDER BY chunk_id) FROM (
           SELECT chunk_id FROM rag.chunks WHERE content LIKE 'Backups%' ORDER BY chunk_id
           LIMIT 7) AS first) AS first_by_id
FROM rag_search('Backups are taken every night.', 'big', top_k => 7,
    settings => '{"distinct_text": false}');

-- a removed document is not found
SELECT rag_delete_document(document_id) FROM rag.documents WHERE uri = 'note:laptops';
SELECT count(*) FROM rag_search('is my laptop encrypted?', 'big', top_k => 5)
    WHERE uri = 'note:laptops';

-- a retriever without an index
INSERT INTO rag_internal.retriever (name, spec)
    VALUES ('exact', '{"storageConfig": {"type": "flat"}}');
UPDATE rag_internal.collection SET retriever = 'exact' WHERE name = 'big';
DROP INDEX rag_internal.rag_kb_big_embedding_idx;
SELECT success FROM rag_add_document('Printers are on the second floor.', 'note:printers',
    collection => 'big');
SELECT has_vector_index, index_type FROM rag_collection_status('big');

SELECT rag_drop_collection('big');
DELETE FROM rag_internal.retriever WHERE name = 'exact';
