-- Retrievers: create, alter, drop, list, test; and what their settings do.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SELECT rag_create_retriever('plain');
SELECT rag_create_retriever('words', '{"storageConfig": {"type": "flat"},
    "retrievalMethods": {"keyword": {"topK": 1}}}', display_name => 'Words only',
    description => 'for codes');
SELECT rag_create_retriever('team/plain',
    '{"retrievalMethods": {"vector": {"scoreThreshold": 0.2}}}');
SELECT name, namespace, display_name, description, storage_type, methods, collections,
       owner = current_user AS own
FROM rag.retrievers WHERE name <> 'default' ORDER BY namespace, name;
SELECT name, namespace, spec FROM rag.retrievers WHERE name IN ('words', 'team/plain') ORDER BY 1;
SELECT name FROM rag.retrievers WHERE namespace = 'team';
SELECT rag_get_manifest('Retriever', 'words') #- '{metadata,creationTimestamp}' AS manifest;

-- All problems at once, with the same check as for manifests.
SELECT rag_create_retriever('wrong', '{
    "storageConfig": {"type": "hsnw", "metric": "l2", "indexStrategy": {"mode": "fixed"}},
    "retrievalMethods": {"vector": {"enabled": false, "topK": "5"}, "keyword": {"enabled": false},
                         "hybrid": {"fusion": "sum"}},
    "embedding": {"model": "bge-m3"}, "color": "red"}'); :sqlstate
SELECT rag_create_retriever('wrong', '{"storageConfig": {"ext": {"m": 64}}}'); :sqlstate
SELECT rag_create_retriever('wrong', '{"retrievalMethods": {"vector": {"defaultWeight": 0.7},
    "keyword": {"defaultWeight": 0.7}, "hybrid": {}}}'); :sqlstate
SELECT rag_create_retriever('wrong', '{"embedding": {"model": "bge-m3"}}'); :sqlstate
SELECT rag_create_retriever('wrong', '[]'); :sqlstate
SELECT rag_create_retriever('wrong', NULL); :sqlstate
SELECT rag_create_retriever('Wrong'); :sqlstate
SELECT rag_create_retriever('Team/wrong'); :sqlstate
SELECT rag_create_retriever(NULL); :sqlstate
SELECT rag_create_retriever('plain'); :sqlstate
SELECT rag_alter_retriever('nowhere', '{}'); :sqlstate
SELECT rag_drop_retriever('nowhere'); :sqlstate
SELECT rag_drop_retriever('nowhere', if_exists => true);

-- What is enabled, and defaults of searches.
SELECT rag_create_collection('tools', retriever => 'words');
SELECT count(*) FROM (VALUES
    ('hammer', 'The hammer drives nails.'), ('saw', 'The saw cuts wood and nails.'))
    AS v (uri, t), LATERAL rag_add_document(t, uri, collection => 'tools');
SELECT uri, vector_score FROM rag_search('nails', 'tools') ORDER BY uri;
SELECT * FROM rag_search('nails', 'tools', mode => 'vector'); :sqlstate
-- A change acts on the next search.
SELECT rag_alter_retriever('words', '{"storageConfig": {"type": "flat"},
    "retrievalMethods": {"keyword": {"defaultWeight": 0.1}, "vector": {"topK": 2},
                         "hybrid": {}}}', description => 'both');
SELECT count(*) FROM rag_search('nails', 'tools');
SELECT detail FROM rag_explain_search('nails', 'tools') WHERE step IN ('request', 'fusion');
SELECT rag_alter_retriever('words', '{"storageConfig": {"type": "flat"},
    "retrievalMethods": {"vector": {}, "keyword": {}, "hybrid": {"fusion": "rrf"}}}');
SELECT detail FROM rag_explain_search('nails', 'tools') WHERE step = 'fusion';
SELECT display_name, description FROM rag.retrievers WHERE name = 'words';
SELECT rag_alter_retriever('words', display_name => '');
SELECT display_name, storage_type FROM rag.retrievers WHERE name = 'words';
SELECT rag_alter_retriever('plain', '{"storageConfig": {"ext": {"m": 8, "ef_construction": 40}}}');

-- Options of the vector index.
SELECT rag_create_collection('large', retriever => 'plain');
SELECT count(*) FROM rag_add_document('The first of many.', 'first', collection => 'large');
INSERT INTO rag_internal.rag_kb_large (collection, uri, title, document_id, document_type, chunk_id,
    chunk_index, start_index, content, metadata, embedding, embedding_key, fetched_at, indexed_at,
    start_line, end_line)
SELECT 'large', 'made:' || i, 'Title', md5('d' || i)::uuid, 'text', md5('c' || i)::uuid, 0, 0,
    'word' || i, '{}', (SELECT embedding FROM rag.chunks WHERE collection = 'large' LIMIT 1),
    md5('e' || i)::uuid, now(), now(), 1, 1
FROM generate_series(1, 3000) AS i;
SELECT count(*) FROM rag_add_document('The last of many.', 'last', collection => 'large');
SELECT c.reloptions FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'rag_hnsw' AND c.relname LIKE 'rag_kb_large%';
SELECT rag_alter_retriever('plain', '{"storageConfig": {"ext": {"m": 9}}}'); :sqlstate
SELECT * FROM rag_apply_manifest('{"apiVersion": "rag/v1", "kind": "Retriever",
    "metadata": {"name": "plain"}, "spec": {}}'); :sqlstate
-- Another type of storage acts on collections that have documents.
SELECT rag_alter_retriever('plain', '{"storageConfig": {"type": "flat"}}');
SELECT has_vector_index, index_type FROM rag_collection_status('large');
SELECT rag_alter_retriever('plain', '{"storageConfig": {"ext": {"m": 9}}}');
SELECT count(*) FROM rag_add_document('Later than the last.', 'later', collection => 'large');
SELECT c.reloptions FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'rag_hnsw' AND c.relname LIKE 'rag_kb_large%';

-- Tests.
SELECT success, message, storage_type, latency_ms > 0 AS latency
FROM rag_test_retriever('words');
SELECT success, message FROM rag_test_retriever('team/plain');
SELECT rag_create_collection('strange', retriever => 'team/plain');
UPDATE rag_internal.retriever SET spec = '{"embedding": {"model": "bge-m3"}}'
    WHERE name = 'team/plain';
SELECT success, message FROM rag_test_retriever('team/plain');
SELECT rag_create_collection('stranger', retriever => 'team/plain'); :sqlstate
SELECT * FROM rag_add_document('A text.', 'text', collection => 'strange'); :sqlstate
-- an upload names the retriever that it expects
SELECT action FROM rag_add_document('A text.', 'named', retriever => 'default/default');
SELECT action FROM rag_add_document('A text.', 'named', retriever => 'plain'); :sqlstate
SELECT action FROM rag_add_document('A text.'::bytea, 'named', retriever => 'nowhere'); :sqlstate
SELECT rag_delete_document(document_id) FROM rag.documents WHERE uri = 'named';
SELECT * FROM rag_test_retriever('nowhere'); :sqlstate

-- Owners.
CREATE ROLE regress_retriever_admin;
GRANT rag_admin TO regress_retriever_admin;
CREATE ROLE regress_retriever_reader;
GRANT rag_reader TO regress_retriever_reader;
SET ROLE regress_retriever_admin;
SELECT rag_create_retriever('own');
SELECT rag_alter_retriever('own', description => 'mine');
SELECT rag_alter_retriever('plain', description => 'not mine'); :sqlstate
SELECT rag_drop_retriever('plain'); :sqlstate
SELECT rag_delete_manifest('Retriever', 'plain'); :sqlstate
SELECT * FROM rag_apply_manifest('{"apiVersion": "rag/v1", "kind": "Retriever",
    "metadata": {"name": "default"}, "spec": {}}'); :sqlstate
SET ROLE regress_retriever_reader;
SELECT name, owner, collections FROM rag.retrievers
WHERE name IN ('own', 'words') ORDER BY 1;
SELECT rag_create_retriever('mine'); :sqlstate
SELECT rag_drop_retriever('own'); :sqlstate
SELECT success FROM rag_test_retriever('own');
SELECT success FROM rag_test_retriever('{}'::jsonb); :sqlstate
RESET ROLE;
-- settings that are not saved
SELECT success, storage_type FROM rag_test_retriever('{"storageConfig": {"type": "flat"}}'::jsonb);
SELECT success, message FROM rag_test_retriever('{"storageConfig": {"typ": "flat"}}'::jsonb);
SELECT success, message FROM rag_test_retriever('{"storageConfig": {"type": "qdrant",
    "url": "http://127.0.0.1:9"}}'::jsonb);
SELECT rag_test_retriever(NULL::jsonb); :sqlstate

-- A retriever in use stays.
SELECT rag_drop_retriever('words'); :sqlstate
SELECT rag_drop_retriever('default'); :sqlstate
SELECT rag_drop_collection(name) FROM unnest(ARRAY['tools', 'large', 'strange']) AS name;
SELECT rag_drop_retriever('words');
SELECT rag_drop_retriever('plain');
SELECT rag_drop_retriever('team/plain');
SELECT rag_drop_retriever('own');
SELECT name FROM rag.retrievers WHERE name IN ('words', 'plain', 'own');
DROP ROLE regress_retriever_admin, regress_retriever_reader;
