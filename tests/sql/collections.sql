-- Collections: named sets of documents that are searched together.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

-- one is there from the start
SELECT name, retriever, chunk_size, chunk_overlap, description FROM rag.collections;
SELECT rag_stats();

SELECT rag_create_collection('laws', chunk_size => 500, chunk_overlap => 50, metadata_whitelist => ARRAY['year'], description => 'what holds');
SELECT name, retriever, chunk_size, chunk_overlap, metadata_whitelist, description FROM rag.collections ORDER BY name;

-- an empty one
\x on
SELECT has_index, document_count, chunk_count, embedding_dimension, index_type, total_size_bytes, table_bytes, index_bytes, state, detail
FROM rag_collection_status('laws');
SELECT rag_stats('laws');
\x off
SELECT * FROM rag_search('anything', 'laws');

-- names
SELECT rag_create_collection('a'), rag_create_collection('2026-q3'), rag_create_collection(repeat('x', 56));
SELECT rag_create_collection(''); :sqlstate
SELECT rag_create_collection('Laws'); :sqlstate
SELECT rag_create_collection('-laws'); :sqlstate
SELECT rag_create_collection('laws-'); :sqlstate
SELECT rag_create_collection('our laws'); :sqlstate
SELECT rag_create_collection('our_laws'); :sqlstate
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
SELECT rag_create_collection('other', chunk_size => 1000001); :sqlstate
SELECT rag_create_collection('other', chunk_overlap => -1); :sqlstate
SELECT rag_create_collection('other', chunk_size => 100, chunk_overlap => 100); :sqlstate
SELECT rag_create_collection('other', chunk_overlap => 1000); :sqlstate
-- a small chunk_size alone does not contradict the default overlap
SELECT rag_create_collection('small', chunk_size => 50);

-- none of the mistakes left anything behind
SELECT name FROM rag.collections ORDER BY name COLLATE "C";

-- what is not there
SELECT rag_drop_collection('nowhere'); :sqlstate
SELECT rag_drop_collection('nowhere', if_exists => true);
SELECT rag_collection_status('nowhere'); :sqlstate
SELECT rag_stats('nowhere'); :sqlstate

-- dropping takes the documents along
SELECT success, chunks_indexed FROM rag_add_document('No vehicles in the park.', 'laws/park', collection => 'laws');
\x on
SELECT has_index, document_count, chunk_count, embedding_dimension, index_type, total_size_bytes > 0 AS has_size, state, detail FROM rag_collection_status('laws');
SELECT rag_stats('laws');
\x off
SELECT relname FROM pg_class WHERE relnamespace = 'rag'::regnamespace AND relname LIKE 'rag_kb_%' AND relkind = 'r' ORDER BY 1;
SELECT rag_drop_collection('laws');
SELECT relname FROM pg_class WHERE relnamespace = 'rag'::regnamespace AND relname LIKE 'rag_kb_laws%';
SELECT count(*) FROM rag.documents WHERE collection = 'laws';

-- not while a source fills it
SELECT rag_create_source('statutes', 'folder', '{"path": "/"}', collection => 'small');
SELECT rag_drop_collection('small'); :sqlstate
SELECT rag_drop_source('statutes');
SELECT rag_drop_collection(name) FROM (SELECT name FROM rag.collections WHERE name <> 'default') AS c;
