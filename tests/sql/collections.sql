-- Collections: named sets of documents that are searched together.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

-- one collection exists from the start
SELECT name, retriever, chunk_size, chunk_overlap, description FROM rag.collections;
SELECT rag_stats();

SELECT rag_create_collection('laws', chunk_size => 500, chunk_overlap => 50,
    metadata_whitelist => ARRAY['year'], description => 'what holds');
SELECT name, retriever, chunk_size, chunk_overlap, metadata_whitelist, description
    FROM rag.collections ORDER BY name;

-- an empty collection
\x on
SELECT name, has_index, document_count, error_count, chunk_count, embedding_dimension,
    has_vector_index, index_type, total_size_bytes, text_bytes,
    chunk_bytes, embedding_bytes, index_bytes, state, detail, updated_at = created_at AS is_new
FROM rag_collection_status('laws');
SELECT rag_stats('laws');
\x off
SELECT * FROM rag_search('anything', 'laws');

-- names
SELECT rag_create_collection('a'), rag_create_collection('2026-q3'),
    rag_create_collection(repeat('x', 56));
SELECT rag_create_collection(''); :sqlstate
SELECT rag_create_collection('_Laws'); :sqlstate
SELECT rag_create_collection('-laws'); :sqlstate
SELECT rag_create_collection('laws-'); :sqlstate
SELECT rag_create_collection('our laws'); :sqlstate
SELECT rag_create_collection('our/laws'); :sqlstate
SELECT rag_create_collection('lösung'); :sqlstate
SELECT rag_create_collection(repeat('x', 57)); :sqlstate
SELECT rag_create_collection('laws'); :sqlstate
SELECT rag_create_collection('default'); :sqlstate
\set VERBOSITY sqlstate
SELECT rag_create_collection(NULL);
\set VERBOSITY default

-- settings
SELECT rag_create_collection('other', retriever => 'nobody'); :sqlstate
SELECT rag_create_collection('other', chunk_size => 0); :sqlstate
-- all that is wrong is reported together
SELECT rag_create_collection('o ther', chunk_size => 0, metadata_whitelist => '{a,a}',
    text_config => 'nowhere', title_weight => 11, max_bytes => -1); :sqlstate
SELECT rag_create_collection('other', chunk_size => 1000001); :sqlstate
SELECT rag_create_collection('other', chunk_overlap => -1); :sqlstate
SELECT rag_create_collection('other', chunk_size => 100, chunk_overlap => 100); :sqlstate
SELECT rag_create_collection('other', chunk_overlap => 1000); :sqlstate
-- a small chunk_size does not contradict the default overlap
SELECT rag_create_collection('small', chunk_size => 50);

-- rejected statements have created nothing
SELECT name FROM rag.collections ORDER BY name COLLATE "C";

-- collections that do not exist
SELECT rag_drop_collection('nowhere'); :sqlstate
SELECT rag_drop_collection('nowhere', if_exists => true);
SELECT rag_collection_status('nowhere'); :sqlstate
SELECT rag_stats('nowhere'); :sqlstate

-- with a document
SELECT success, chunks_indexed FROM rag_add_document('No vehicles in the park.', 'laws/park',
    collection => 'laws');
\x on
SELECT has_index, document_count, error_count, chunk_count, embedding_dimension, has_vector_index,
    index_type, state, detail,
    text_bytes > 20 AS has_text, chunk_bytes > 0 AS has_chunks, embedding_bytes,
    index_bytes > 0 AS has_indexes,
    total_size_bytes = text_bytes + chunk_bytes + embedding_bytes + index_bytes AS is_the_sum
FROM rag_collection_status('laws');
SELECT wanted_index_type, vector_index_bytes, keyword_index_bytes > 0 AS has_keywords,
    vector_index_bytes + keyword_index_bytes < index_bytes AS has_others, model,
    length(model_fingerprint) AS fingerprint, model_precision, model_max_tokens, retriever,
    namespace, external_id, index_strategy,
    partition, partition::regclass = 'rag_internal.rag_kb_laws'::regclass AS is_partition, sources
FROM rag_collection_status('laws');
SELECT rag_stats('laws');
\x off
-- a document of other settings
BEGIN;
SELECT success FROM rag_add_document('No carts either.', 'laws/carts', collection => 'laws');
UPDATE rag.documents SET chunking = 'other' WHERE uri = 'laws/carts';
SELECT state, detail FROM rag_collection_status('laws');
ROLLBACK;
-- failed documents are counted separately; a document whose new version failed is still indexed
SELECT success FROM rag_add_document('', 'laws/empty', collection => 'laws');
SELECT has_index, document_count, error_count, chunk_count, state, detail
    FROM rag_collection_status('laws');
SELECT success FROM rag_add_document('', 'laws/park', collection => 'laws');
SELECT has_index, document_count, error_count, chunk_count, state, detail
    FROM rag_collection_status('laws');

-- updated_at increases with every change, including removals, and never decreases
CREATE TEMP TABLE seen (step serial, what text, updated_at timestamptz);
CREATE PROCEDURE pg_temp.look(what text) LANGUAGE sql AS $$
    INSERT INTO seen (what, updated_at) SELECT what, updated_at FROM rag_collection_status('laws')
$$;
CALL pg_temp.look('before');
SELECT success FROM rag_add_document('No dogs either.', 'laws/dogs', collection => 'laws');
CALL pg_temp.look('added');
SELECT success FROM rag_add_document('No cats either.', 'laws/dogs', collection => 'laws');
CALL pg_temp.look('replaced');
SELECT success FROM rag_add_document('', 'laws/dogs', collection => 'laws');
CALL pg_temp.look('failed');
UPDATE rag.documents SET validator = 'v2' WHERE uri = 'laws/dogs';
CALL pg_temp.look('a validator');
SELECT rag_delete_document(document_id) FROM rag.documents WHERE uri = 'laws/dogs'
    AND collection = 'laws';
CALL pg_temp.look('removed');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT rag_delete_document(document_id) FROM rag.documents WHERE uri = 'laws/empty'
    AND collection = 'laws';
COMMIT;
CALL pg_temp.look('removed by REPEATABLE READ');
BEGIN; DELETE FROM rag.documents WHERE collection = 'laws'; ROLLBACK;
CALL pg_temp.look('rolled back');
SELECT what, updated_at - lag(updated_at) OVER (ORDER BY step) > interval '0' AS moved
    FROM seen ORDER BY step;

-- a collection rejects embeddings with other dimensions from every role
\set VERBOSITY terse
INSERT INTO rag.chunks (collection, partition, uri, document_id, document_type, chunk_id,
    chunk_index, start_index, content, embedding, embedding_key,
    fetched_at, indexed_at, start_line, end_line)
VALUES ('laws', 'rag_kb_laws', 'x', gen_random_uuid(), 'markdown', gen_random_uuid(), 0, 0, 'x',
'[1,2,3]', gen_random_uuid(), now(), now(), 1, 1); :sqlstate
\set VERBOSITY default

-- all collections and their sizes
SELECT name, state, has_index FROM rag_collection_status() ORDER BY name COLLATE "C";
SELECT s.collection, s.documents, s.chunks, s.total_bytes = c.total_size_bytes AS same_size
FROM rag.collection_sizes s JOIN rag_collection_status() c ON c.name = s.collection
WHERE s.documents > 0;
SELECT c.name, s.document_count FROM rag.collections c, rag_collection_status(c.name) s
    WHERE s.document_count > 0;

-- Statements about one of many collections open only its partition, as their locks show.
SELECT count(rag_create_collection('many-' || i)) FROM generate_series(1, 12) i;
SELECT bool_and(success) FROM generate_series(1, 12) i,
    LATERAL rag_add_document('Ships keep to the right.', 'ships', collection => 'many-' || i);
CREATE VIEW pg_temp.opened AS SELECT DISTINCT relation::regclass FROM pg_locks
    JOIN pg_inherits ON inhrelid = relation
    WHERE inhparent = 'rag.chunks'::regclass AND pid = pg_backend_pid();
BEGIN; SELECT success FROM rag_add_document('A text that is nowhere else.', 'other',
    collection => 'many-3'); SELECT * FROM pg_temp.opened; COMMIT;
BEGIN; SELECT success FROM rag_add_document('A text that is nowhere else, changed.', 'other',
    collection => 'many-3'); SELECT * FROM pg_temp.opened; COMMIT;
BEGIN; SELECT count(rag_delete_document(document_id)) FROM rag.documents WHERE uri = 'other';
SELECT * FROM pg_temp.opened; COMMIT;
BEGIN; SELECT uri FROM rag_search('ships', 'many-5'); SELECT * FROM pg_temp.opened; COMMIT;
BEGIN; SELECT count(*) FROM rag_collection_status();
SELECT count(*) FROM rag.collections c, rag_collection_status(c.name);
SELECT count(*) FROM rag.collection_sizes;
SELECT count(*) FROM pg_temp.opened; COMMIT;
-- a text that another collection has embedded is not embedded again
SELECT DISTINCT k.collection FROM rag_internal.embedding_place k JOIN rag.chunks c
    USING (embedding_key)
    WHERE c.collection = 'many-12';
BEGIN; SELECT success FROM rag_add_document('Ships keep to the right.', 'ships',
    collection => 'laws'); SELECT * FROM pg_temp.opened ORDER BY relation::text; COMMIT;
-- places of embeddings are deleted with the embeddings
SELECT count(rag_drop_collection(name)) FROM rag.collections WHERE name LIKE 'many-%';
SELECT count(*) FROM rag_internal.embedding_place WHERE collection LIKE 'many-%';
SELECT success FROM rag_add_document('Ships keep to the left.', 'ships', collection => 'laws');
SELECT count(*) FROM rag_internal.embedding_place p WHERE NOT EXISTS (SELECT FROM rag.chunks c
    WHERE c.collection = p.collection AND c.embedding_key = p.embedding_key);

-- rag_drop_collection drops the documents
SELECT relname FROM pg_class WHERE relnamespace = 'rag_internal'::regnamespace
    AND relname LIKE 'rag_kb_%'
    AND relkind = 'r' ORDER BY 1;
SELECT rag_drop_collection('laws');
SELECT relname FROM pg_class WHERE relnamespace = 'rag_internal'::regnamespace
    AND relname LIKE 'rag_kb_laws%';
SELECT count(*) FROM rag.documents WHERE collection = 'laws';
SELECT count(*) FROM rag_internal.content_change WHERE collection = 'laws';

-- a collection cannot be dropped while a source uses it
SELECT rag_create_source('statutes', 'folder', '{"path": "/"}', collection => 'small');
SELECT rag_drop_collection('small'); :sqlstate
-- unless they are dropped together, which their owner may
CREATE ROLE regress_dropper;
GRANT rag_admin TO regress_dropper;
SELECT rag_alter_collection('small', owner => 'regress_dropper');
SELECT rag_drop_collection('default', with_sources => true); :sqlstate
SET ROLE regress_dropper;
SELECT rag_drop_collection('small', with_sources => true);
RESET ROLE;
SELECT count(*) FROM rag.sources WHERE name = 'statutes';
DROP ROLE regress_dropper;
SELECT rag_drop_collection(name) FROM (SELECT name FROM rag.collections
    WHERE name <> 'default') AS c;
