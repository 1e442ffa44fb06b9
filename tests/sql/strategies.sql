-- Index strategies: which partition has the chunks of a collection, and what collections share.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SELECT rag_create_retriever('shared', '{"storageConfig": {"indexStrategy": {"mode": "fixed",
    "fixedName": "Shared-1"}}}');
SELECT rag_create_retriever('default-name', '{"storageConfig": {"indexStrategy":
    {"mode": "fixed"}}}');
SELECT rag_create_retriever('rolling', '{"storageConfig": {"indexStrategy": {"mode": "rolling",
    "rollingStep": 2, "prefix": "roll"}}}');
SELECT rag_create_retriever('own', '{"storageConfig": {"indexStrategy": {"mode": "per_dataset",
    "prefix": "legal"}}}');
SELECT rag_create_retriever('wrong', '{"storageConfig": {"indexStrategy": {"mode": "rolling",
    "rollingStep": 0, "fixedName": "x"}}}'); :sqlstate
SELECT rag_create_retriever('wrong', '{"storageConfig": {"indexStrategy":
    {"prefix": "x\"; DROP TABLE rag.chunks; --"}}}'); :sqlstate

-- per_dataset: names are quoted, and shortened if they are too long
SELECT rag_create_collection('Codes.v1', retriever => 'own');
SELECT index_strategy, partition FROM rag_collection_status('Codes.v1');
SELECT success FROM rag_add_document('Codes have numbers.', 'codes', collection => 'Codes.v1');
SELECT index_strategy, partition FROM rag_collection_status('Codes.v1');
SELECT rag_create_retriever('long', format('{"storageConfig": {"indexStrategy": {"prefix": "%s"}}}',
    repeat('p', 32))::jsonb);
SELECT rag_create_collection(repeat('c', 55) || i, retriever => 'long')
    FROM generate_series(1, 2) i;
SELECT success FROM generate_series(1, 2) i, LATERAL rag_add_document('Long.', 'long',
    collection => repeat('c', 55) || i);
SELECT partition, length(partition), index_strategy FROM rag.collections
    WHERE name LIKE 'ccc%' ORDER BY name;

-- fixed: one partition for all. A collection does not see the chunks of another one.
SELECT rag_create_collection(c, retriever => 'shared') FROM unnest('{red,blue,green}'::text[]) c;
SELECT count(*) FROM unnest('{red,blue,green}'::text[]) c,
    (VALUES ('bikes', 'Bicycles are kept in the cellar.'), ('cars', 'Cars are kept in the garage.'),
            ('boats', 'Boats are kept in the harbour.')) AS v (uri, t),
    LATERAL rag_add_document(t || ' The colour is ' || c || '.', uri, collection => c);
SELECT name, partition, index_strategy FROM rag.collections
    WHERE retriever = 'shared' ORDER BY serial;
SELECT count(*), count(DISTINCT partition), count(DISTINCT tableoid) FROM rag.chunks
    WHERE collection IN ('red', 'blue', 'green');
SELECT c, mode, array_agg(uri ORDER BY rank) AS uris, bool_and(content LIKE '%' || c || '%') AS own
FROM unnest('{red,blue,green}'::text[]) c, unnest('{vector,keyword,hybrid}'::text[]) AS mode,
    LATERAL rag_search('bicycles in the cellar', c, mode => mode)
GROUP BY c, mode ORDER BY c, mode;
SELECT count(*) FROM rag_search('red', 'blue', mode => 'keyword');
SELECT count(*) FROM rag_search('cars', 'blue', filter => '{"uri": "cars"}');
SELECT detail FROM rag_explain_search('bicycles', 'red') WHERE step = 'vector';
-- the same answers as from a partition of its own
SELECT rag_create_collection('red-alone');
SELECT count(*) FROM rag.documents d,
    LATERAL rag_add_document(d.content, d.uri, collection => 'red-alone')
    WHERE d.collection = 'red';
SELECT mode, count(*), count(*) FILTER (WHERE s.uri = a.uri AND s.vector_score = a.vector_score)
FROM unnest('{vector,hybrid}'::text[]) AS mode,
    LATERAL rag_search('where is the harbour', 'red', mode => mode) s
    JOIN LATERAL rag_search('where is the harbour', 'red-alone', mode => mode) a USING (rank)
GROUP BY mode ORDER BY mode;
-- each has a part of the sizes
SELECT sum(chunk_bytes + embedding_bytes) BETWEEN pg_table_size('rag_internal."Shared-1"') - 3
        AND pg_table_size('rag_internal."Shared-1"') AS is_table,
    sum(index_bytes) BETWEEN pg_indexes_size('rag_internal."Shared-1"') - 9
        AND pg_indexes_size('rag_internal."Shared-1"') AS is_indexes,
    count(DISTINCT partition) AS partitions
FROM rag_collection_status() WHERE retriever = 'shared';
SELECT count(*) FROM rag_status() WHERE object LIKE 'collection%';
-- chunks of an application
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-4000-8000-000000000001", "uri": "given",
    "text": "Trains are kept in the depot."}]', c) FROM unnest('{red,blue}'::text[]) c;
SELECT rag_delete_chunks('{00000000-0000-4000-8000-000000000001}', 'red');
SELECT collection FROM rag.chunks WHERE uri = 'given';

-- Statements are planned over one partition: those that name it, and those that name a collection
-- that has it for itself.
SELECT name FROM rag.collections WHERE partition IS NOT NULL AND name <> 'default'
    ORDER BY serial;
EXPLAIN (COSTS OFF) SELECT uri FROM rag.chunks
    WHERE partition = 'Shared-1' AND collection = 'red' AND source = 'x';
CREATE FUNCTION planned(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || statement LOOP
        IF line ~ ' on ' AND line !~ 'Index Scan on' THEN
            RETURN NEXT substring(line FROM ' on (\S+)');
        END IF;
    END LOOP;
END $$;
SELECT planned($$SELECT uri FROM rag.chunks WHERE collection = 'red-alone'$$) AS scanned ORDER BY 1;
CREATE VIEW pg_temp.opened AS SELECT DISTINCT relation::regclass FROM pg_locks
    JOIN pg_inherits ON inhrelid = relation
    WHERE inhparent = 'rag.chunks'::regclass AND pid = pg_backend_pid();
BEGIN; SELECT count(*) FROM rag_search('boats', 'blue'); SELECT * FROM pg_temp.opened; COMMIT;
BEGIN; SELECT count(rag_delete_document(document_id)) FROM rag.documents
    WHERE uri = 'cars' AND collection = 'blue'; SELECT * FROM pg_temp.opened; COMMIT;
SELECT collection, count(*) FROM rag.chunks WHERE partition = 'Shared-1' GROUP BY 1 ORDER BY 1;

-- rolling: a partition for each two numbers. The partition of a collection stays.
SELECT count(rag_create_collection('roll-' || i, retriever => 'rolling'))
    FROM generate_series(1, 5) i;
SELECT bool_and(success) FROM generate_series(1, 4) i,
    LATERAL rag_add_document('Rolls are round.', 'rolls', collection => 'roll-' || i);
SELECT bool_and(partition = 'roll_index_' || (serial - 1) / 2 * 2) AS by_number,
    count(*) AS collections, count(DISTINCT partition) BETWEEN 2 AND 3 AS few
FROM rag.collections WHERE name LIKE 'roll-%' AND partition IS NOT NULL;
CREATE TEMP TABLE placed AS SELECT name, partition FROM rag.collections WHERE name LIKE 'roll-%';
SELECT rag_alter_retriever('rolling', '{"storageConfig": {"indexStrategy": {"mode": "rolling",
    "rollingStep": 5000, "prefix": "roll"}}}');
SELECT success FROM generate_series(1, 5) i,
    LATERAL rag_add_document('Rolls are long.', 'rolls2', collection => 'roll-' || i);
SELECT c.name, c.partition IS NOT DISTINCT FROM p.partition AS same,
    c.partition = 'roll_index_0' AS first
FROM rag.collections c JOIN placed p USING (name) ORDER BY 1;
SELECT count(*) FROM rag_search('rolls', 'roll-1');

-- Collections of a partition agree in what its indexes are made of.
\set VERBOSITY default
SELECT rag_create_collection('german', retriever => 'shared', text_config => 'german'); :sqlstate
SELECT rag_create_collection('weighty', retriever => 'shared', title_weight => 5); :sqlstate
SELECT rag_create_retriever('other-options', '{"storageConfig": {"ext": {"m": 24}, "indexStrategy":
    {"mode": "fixed", "fixedName": "Shared-1"}}}');
SELECT rag_create_collection('other', retriever => 'other-options'); :sqlstate
SELECT rag_create_retriever('flat', '{"storageConfig": {"type": "flat", "indexStrategy":
    {"mode": "fixed", "fixedName": "Shared-1"}}}');
SELECT rag_create_collection('other', retriever => 'flat'); :sqlstate
SELECT rag_create_retriever('words', '{"retrievalMethods": {"vector": {}}, "storageConfig":
    {"indexStrategy": {"mode": "fixed", "fixedName": "Shared-1"}}}');
SELECT rag_create_collection('other', retriever => 'words'); :sqlstate
SELECT rag_alter_collection('red', retriever => 'other-options'); :sqlstate
-- a retriever of several collections changes with all of them, if no other retriever is concerned
SELECT rag_alter_retriever('shared', '{"storageConfig": {"type": "flat", "indexStrategy":
    {"mode": "fixed", "fixedName": "Shared-1"}}}');
SELECT rag_alter_collection('green', retriever => 'flat');
SELECT rag_alter_retriever('shared', '{"storageConfig": {"indexStrategy":
    {"mode": "fixed", "fixedName": "Shared-1"}}}'); :sqlstate
-- what two empty collections disagree in is found when the second gets a document
SELECT rag_create_collection('first', retriever => 'default-name');
SELECT rag_create_collection('second', retriever => 'default-name', text_config => 'german');
SELECT success FROM rag_add_document('First.', 'first', collection => 'first');
SELECT * FROM rag_add_document('Second.', 'second', collection => 'second'); :sqlstate
SELECT name, partition FROM rag.collections WHERE name IN ('first', 'second') ORDER BY 1;

-- Names that are in use.
SELECT rag_create_retriever('taken', '{"storageConfig": {"indexStrategy": {"mode": "fixed",
    "fixedName": "source"}}}');
SELECT rag_create_collection('taken', retriever => 'taken'); :sqlstate
-- Names that the partition of another collection or retriever could need.
SELECT rag_alter_retriever('taken', '{"storageConfig": {"indexStrategy": {"mode": "fixed",
    "fixedName": "rag_kb_red-alone"}}}'); :sqlstate
SELECT rag_alter_retriever('taken', '{"storageConfig": {"indexStrategy": {"mode": "fixed",
    "fixedName": "roll_index_0"}}}'); :sqlstate
SELECT rag_alter_retriever('taken', '{"storageConfig": {"indexStrategy":
    {"prefix": "rag_kb_red"}}}'); :sqlstate
SELECT rag_alter_retriever('own', '{"storageConfig": {"indexStrategy": {"prefix": "a_kb"}}}');
SELECT rag_alter_retriever('taken', '{"storageConfig": {"indexStrategy": {"mode": "fixed",
    "fixedName": "kb_index_x"}}}');

-- A role that may read one of two collections in a partition.
SET client_min_messages = warning;
DROP ROLE IF EXISTS regress_strategy_reader;
RESET client_min_messages;
CREATE ROLE regress_strategy_reader;
GRANT rag_reader TO regress_strategy_reader;
SELECT rag_grant_collection('red', 'regress_strategy_reader', 'read');
SET ROLE regress_strategy_reader;
SELECT DISTINCT collection FROM rag.chunks WHERE partition = 'Shared-1';
SELECT count(*) FROM rag_search('boats', 'red');
SELECT count(*) FROM rag_search('boats', 'blue'); :sqlstate
SELECT count(*) FROM rag_internal."Shared-1"; :sqlstate
-- how frequent words are in the other collections is not told
SELECT detail FROM rag_explain_search('boats', 'red') WHERE step = 'keyword';
RESET ROLE;
SELECT detail FROM rag_explain_search('boats', 'red') WHERE step = 'keyword';
SELECT rag_revoke_collection('red', 'regress_strategy_reader', 'read');
DROP ROLE regress_strategy_reader;

-- A partition that is large enough gets its indexes, and searches of a small collection are exact.
SELECT rag_alter_collection('green', retriever => 'shared');
SELECT rag_alter_retriever('shared', '{"storageConfig": {"indexStrategy":
    {"mode": "fixed", "fixedName": "Shared-1"}}}');
INSERT INTO rag_internal."Shared-1" (collection, uri, title, document_id, document_type, chunk_id,
    chunk_index, start_index, content, metadata, embedding, embedding_key, fetched_at, indexed_at,
    start_line, end_line)
SELECT 'green', 'made:' || i, 'Title', md5('d' || i)::uuid, 'text', md5('c' || i)::uuid, 0, 0,
    'Boats in the harbour ' || i, '{}',
    array(SELECT sin(i * 7 + n * n) FROM generate_series(1, 384) n)::rag_types.vector,
    md5('e' || i)::uuid, now(), now(), 1, 1
FROM generate_series(1, 3500) AS i;
SELECT success FROM rag_add_document('Planes are kept in the hangar.', 'planes',
    collection => 'red');
SELECT name, has_vector_index, vector_index_bytes > 0 AS has_bytes FROM rag_collection_status()
    WHERE retriever = 'shared' ORDER BY 1;
SELECT mode, array_agg(uri ORDER BY rank) FROM unnest('{vector,keyword,hybrid}'::text[]) AS mode,
    LATERAL rag_search('boats in the harbour', 'red', mode => mode) GROUP BY mode ORDER BY mode;
SELECT mode, count(*) FROM unnest('{vector,keyword,hybrid}'::text[]) AS mode,
    LATERAL rag_search('boats in the harbour', 'green', mode => mode, top_k => 150)
GROUP BY mode ORDER BY mode;
-- all chunks, in the order of their exact distances, with ties by id
SET rag.ef_search = 10;
SELECT count(*) AS all_of, bool_and(s.chunk_id = e.chunk_id) AS exact
FROM rag_search('boats', 'red', mode => 'vector', top_k => 100) s
FULL JOIN (SELECT chunk_id, row_number() OVER (ORDER BY embedding <=> rag_embed('boats'), chunk_id)
           AS rank FROM rag.chunks WHERE collection = 'red') e USING (rank);
RESET rag.ef_search;

-- The partition is dropped with its last collection.
SELECT rag_drop_collection('blue');
SELECT collection, count(*) FROM rag.chunks WHERE partition = 'Shared-1' AND collection <> 'green'
    GROUP BY 1;
SELECT count(*) FROM rag.documents WHERE collection = 'blue';
SELECT rag_drop_collection('red');
SELECT to_regclass('rag_internal."Shared-1"') IS NOT NULL AS exists;
SELECT rag_drop_collection('green');
SELECT to_regclass('rag_internal."Shared-1"') IS NOT NULL AS exists;
-- a number is never used again
CREATE TEMP TABLE numbers AS SELECT max(serial) AS last FROM rag.collections;
SELECT rag_create_collection('once');
SELECT rag_drop_collection('once');
SELECT rag_create_collection('again');
SELECT c.serial > n.last + 1 AS is_new FROM rag.collections c, numbers n WHERE c.name = 'again';
SELECT count(rag_drop_collection(name)) FROM rag.collections WHERE name <> 'default';
SELECT count(*) FROM pg_inherits
    WHERE inhparent = 'rag.chunks'::regclass
        AND inhrelid::regclass::text <> 'rag_internal.rag_kb_default';
SELECT count(rag_drop_retriever(name)) FROM rag.retrievers WHERE name <> 'default';
