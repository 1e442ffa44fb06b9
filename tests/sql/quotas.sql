-- Quotas of sources and collections, and rag_alter_collection.
\set sqlstate '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
\set did 'SELECT phase, documents_added AS added, documents_updated AS updated, documents_deleted AS deleted, error ->> ''sqlstate'' AS sqlstate, error ->> ''message'' AS message FROM rag.runs, jsonb_array_elements(CASE errors WHEN ''[]'' THEN ''[null]'' ELSE errors END) AS error WHERE source = :''source'' ORDER BY run_id DESC LIMIT 1'
\set stored 'SELECT count(*) AS documents, sum(octet_length(content)) AS bytes FROM rag.documents WHERE collection = ''full'''
\set why 'SELECT s.phase, s.next_retry, c ->> ''reason'' AS reason, c ->> ''message'' ~ ''may have at most'' AS message FROM rag.sources s, jsonb_array_elements(conditions) AS c WHERE s.name = :''source'' AND c ->> ''type'' = ''AutoIndexerError'''
SELECT rag_create_collection('full');
CREATE TABLE notes (id int PRIMARY KEY, body text);
INSERT INTO notes SELECT i, 'Note number ' || i FROM generate_series(1, 10) i;

-- a source with too many documents: what came first is stored, and nothing is retried
\set source notes
SELECT rag_create_source('notes', 'table', '{"relation": "notes"}', 'full', schedule => '@yearly',
                         max_documents => 4);
\set VERBOSITY terse
SELECT rag_sync('notes') IS NULL;
\set VERBOSITY default
:sqlstate
:did;
:stored;
:why;
-- the next run meets it as well, and indexes nothing again
\set VERBOSITY terse
SELECT rag_sync('notes') IS NULL;
\set VERBOSITY default
:did;
:stored;
-- fewer rows: the run completes
DELETE FROM notes WHERE id > 3;
SELECT rag_sync('notes') > 0 AS done;
:did;
:stored;
-- Rows that are replaced by as many others do not meet it: those that vanish do not count.
UPDATE notes SET id = id + 100;
SELECT rag_sync('notes') > 0 AS done;
:did;
-- more, and no limit
INSERT INTO notes SELECT i, 'Note number ' || i FROM generate_series(1, 10) i;
SELECT rag_alter_source('notes', max_documents => 0);
SELECT rag_sync('notes') > 0 AS done;
:did;
SELECT max_documents, max_bytes, generation FROM rag.sources WHERE name = 'notes';
-- a limit below what is stored
SELECT rag_alter_source('notes', max_bytes => 100);
\set VERBOSITY terse
SELECT rag_sync('notes') IS NULL;
\set VERBOSITY default
:did;
:stored;
SELECT rag_alter_source('notes', max_bytes => 1000);
SELECT rag_sync('notes') > 0 AS done;

-- a collection counts the documents of all origins
SELECT rag_alter_collection('full', max_documents => 15, description => 'with a limit');
SELECT description, max_documents, max_bytes FROM rag.collections WHERE name = 'full';
SELECT action FROM rag_add_documents('[{"uri": "a", "content": "A"}, {"uri": "b", "content": "B"}]',
                                     'full');
SELECT action FROM rag_add_documents('[{"uri": "a", "content": "AA"},
                                       {"uri": "c", "content": "C"}]', 'full'); :sqlstate
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-0000-0000-000000000001",
                                    "uri": "d", "text": "D"}]', 'full'); :sqlstate
SELECT action FROM rag_add_document('AA', 'a', collection => 'full');
:stored;
INSERT INTO notes VALUES (200, 'one more');
\set VERBOSITY terse
SELECT rag_sync('notes') IS NULL;
\set VERBOSITY default
:did;
:why;
-- sizes
SELECT rag_alter_collection('full', max_documents => 0, max_bytes => 300);
SELECT action FROM rag_add_document(repeat('word ', 100), 'long', collection => 'full'); :sqlstate
SELECT rag_sync('notes') > 0 AS done;
:did;

-- triggers: rows that have not changed count as well
\set source tracked
CREATE TABLE tracked (id int PRIMARY KEY, body text);
INSERT INTO tracked SELECT i, 'Tracked note ' || i FROM generate_series(1, 3) i;
SELECT rag_create_collection('tracked');
SELECT rag_create_source('tracked', 'table', '{"relation": "tracked", "sync": "trigger"}',
                         'tracked', max_documents => 3);
SELECT rag_sync('tracked') > 0 AS done;
INSERT INTO tracked VALUES (4, 'Tracked note 4');
\set VERBOSITY terse
SELECT rag_sync('tracked') IS NULL;
\set VERBOSITY default
:did;
DELETE FROM tracked WHERE id = 1;
SELECT rag_sync('tracked') > 0 AS done;
:did;
-- a row makes room for one that comes before it
DELETE FROM tracked WHERE id = 4;
INSERT INTO tracked VALUES (1, 'Tracked note 1');
SELECT rag_sync('tracked') > 0 AS done;
:did;
SELECT uri FROM rag.documents WHERE collection = 'tracked' ORDER BY uri;

-- manifests
SELECT * FROM rag_apply_manifest($$
apiVersion: kaito.ai/v1alpha1
kind: AutoIndexer
metadata: {name: limited}
spec:
  ragEngineRef: {name: default}
  indexName: full
  suspend: true
  dataSource: {type: Table, table: {relation: notes}}
  quota: {maxDocuments: 5, maxBytes: 100000}
$$);
SELECT max_documents, max_bytes FROM rag.sources WHERE name = 'limited';
SELECT rag_get_manifest('AutoIndexer', 'limited') #> '{spec,quota}' AS quota;
SELECT * FROM rag_apply_manifest($$
apiVersion: kaito.ai/v1alpha1
kind: AutoIndexer
metadata: {name: limited}
spec:
  ragEngineRef: {name: default}
  indexName: full
  suspend: true
  dataSource: {type: Table, table: {relation: notes}}
$$);
SELECT max_documents, max_bytes FROM rag.sources WHERE name = 'limited';
SELECT * FROM rag_apply_manifest($$
apiVersion: kaito.ai/v1alpha1
kind: AutoIndexer
metadata: {name: limited}
spec:
  ragEngineRef: {name: default}
  indexName: full
  dataSource: {type: Table, table: {relation: notes}}
  quota: {maxDocuments: 0, maxFiles: 1}
$$); :sqlstate

-- the other changes of a collection
SELECT rag_create_retriever('exact', '{"storageConfig": {"type": "flat"}}');
SELECT rag_alter_collection('full', retriever => 'exact', external_id => 'kb-7');
SELECT retriever, external_id, description FROM rag.collections WHERE name = 'full';
SELECT rag_alter_collection('full', external_id => '', description => '');
SELECT retriever, external_id, description FROM rag.collections WHERE name = 'full';
-- mistakes
SELECT rag_alter_collection('full', max_documents => -1); :sqlstate
SELECT rag_alter_source('notes', max_bytes => -1); :sqlstate
SELECT rag_create_source('x', 'table', '{"relation": "notes"}', max_documents => -5); :sqlstate
SELECT rag_alter_collection('full', retriever => 'missing'); :sqlstate
SELECT rag_alter_collection('missing', max_documents => 1); :sqlstate
SELECT rag_alter_collection(NULL); :sqlstate
SELECT rag_alter_collection('tracked', external_id => 'kb-7');
SELECT rag_alter_collection('full', external_id => 'kb-7'); :sqlstate
CREATE ROLE regress_quota;
GRANT rag_admin TO regress_quota;
SET ROLE regress_quota;
SELECT rag_alter_collection('full', max_documents => 1); :sqlstate
RESET ROLE;
DROP ROLE regress_quota;
SELECT rag_drop_source('notes', keep_documents => false);
SELECT rag_drop_source('tracked', keep_documents => false);
SELECT rag_drop_source('limited', keep_documents => false);
SELECT rag_drop_collection('full');
SELECT rag_drop_collection('tracked');
SELECT rag_drop_retriever('exact');
DROP TABLE notes, tracked;
