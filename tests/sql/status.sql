-- rag_status(), and conditions that are cleared when their problem is solved.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
\set drift 'SELECT c ->> ''status'' AS status, c ->> ''reason'' AS reason FROM rag.sources, jsonb_array_elements(conditions) AS c WHERE name = ''larder'' AND c ->> ''type'' = ''AutoIndexerDriftDetected'''
SET client_min_messages = error;
-- run ids vary, and other tests may have left sources
\set status 'SELECT severity, object, regexp_replace(problem, ''run \\d+'', ''run N'') AS problem, regexp_replace(remedy, ''run_id = \\d+'', ''run_id = N'') AS remedy FROM rag_status() WHERE object ~ ''larder'''

-- no problems
:status;

-- a table with a row without key: only that row fails
CREATE SCHEMA larder;
CREATE TABLE larder.stock (id int, body text);
INSERT INTO larder.stock VALUES (1, 'Bread is baked in the morning.'),
    (2, 'Rolls are baked at noon.'), (3, 'Cake is baked in the evening.'),
    (NULL, 'Tea has no key.');
SELECT rag_create_collection('larder');
SELECT rag_create_source('larder', 'table',
    '{"relation": "larder.stock", "contentColumns": "body", "idColumns": ["id"]}', 'larder',
    max_retries => 0);
-- no scheduler is running here
SELECT * FROM rag_status() WHERE object = 'server';
:status;
SELECT rag_sync('larder') AS run \gset
:status;

-- repaired drift is cleared, although another document fails
SELECT rag_delete_document(document_id) FROM rag.documents WHERE collection = 'larder'
    AND uri LIKE '%/2';
SELECT drifted FROM rag_check_drift('larder');
:drift;
:status;
SELECT rag_sync('larder') AS run \gset
SELECT documents_added, documents_failed FROM rag.runs WHERE run_id = :run;
:drift;
SELECT drifted FROM rag_check_drift('larder');
-- also if the drift was repaired by hand and the run has nothing to do
CREATE TABLE kept_document AS SELECT * FROM rag.documents WHERE collection = 'larder'
    AND uri LIKE '%/2';
DELETE FROM rag.documents WHERE collection = 'larder' AND uri LIKE '%/2';
SELECT drifted FROM rag_check_drift('larder');
INSERT INTO rag.documents SELECT * FROM kept_document;
:drift;
SELECT rag_sync('larder') AS run \gset
:drift;

-- the row has a key: the source has no problem
DELETE FROM larder.stock WHERE id IS NULL;
SELECT rag_sync('larder') AS run \gset
:status;

-- a failed run
ALTER TABLE larder.stock RENAME TO gone;
DO $$
DECLARE
    hint text;
BEGIN
    PERFORM rag_sync('larder');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RAISE INFO '%: % / HINT: %', SQLSTATE, SQLERRM, regexp_replace(hint, '\d+', 'N', 'g');
END $$;
SELECT severity, object, problem ~ '^the last run failed: .*larder.stock' AS problem,
    remedy <> '' AS remedy FROM rag_status() WHERE object = 'source larder';
ALTER TABLE larder.gone RENAME TO stock;

-- a suspended source and an altered source
SELECT rag_suspend('larder');
:status;
SELECT rag_resume('larder');
SELECT rag_sync('larder') AS run \gset
UPDATE rag_internal.source SET next_run = NULL WHERE name = 'larder';
SELECT rag_alter_source('larder',
    spec => '{"relation": "larder.stock", "contentColumns": "body", "idColumns": ["id"],
    "metadataColumns": ["id"]}');
UPDATE rag_internal.source SET next_run = NULL WHERE name = 'larder';
:status;
UPDATE rag_internal.source SET next_run = now() - interval '1 day' WHERE name = 'larder';
SELECT severity, object, problem ~ '^a run was due at .* and has not started$' AS problem, remedy
    FROM rag_status() WHERE object = 'source larder';
SELECT rag_sync('larder') AS run \gset

-- a collection that was embedded with another model
UPDATE rag_internal.collection SET model = 'some-other-model' WHERE name = 'larder';
SELECT severity, object, problem, remedy FROM rag_status() WHERE object = 'collection larder';
UPDATE rag_internal.collection c SET model = d.model FROM rag_internal.collection d
    WHERE c.name = 'larder'
    AND d.model IS NOT NULL AND d.name <> 'larder';
UPDATE rag_internal.collection SET model = rag_internal.current_model() WHERE name = 'larder';

-- visibility
CREATE ROLE status_reader IN ROLE rag_reader;
CREATE ROLE status_nobody;
SELECT rag_suspend('larder');
SET ROLE status_reader;
SELECT severity, object FROM rag_status() WHERE object = 'source larder';
SET ROLE status_nobody;
SELECT * FROM rag_status(); :sqlstate
RESET ROLE;
SELECT rag_drop_source('larder', keep_documents => false);
SELECT rag_drop_collection('larder');
:status;
DROP SCHEMA larder CASCADE;
DROP TABLE kept_document;
DROP ROLE status_reader;
DROP ROLE status_nobody;

-- a retriever whose row was lost with a damaged page
SELECT rag_create_retriever('lost');
SELECT rag_create_collection('bowl', retriever => 'lost');
SET session_replication_role = replica;
DELETE FROM rag_internal.retriever WHERE name = 'lost';
RESET session_replication_role;
SELECT name, state, index_strategy FROM rag_collection_status('bowl');
SELECT * FROM rag_status() WHERE object = 'collection bowl';
SELECT rag_create_retriever('lost');
SELECT count(*) FROM rag_status() WHERE object = 'collection bowl';
SELECT rag_drop_collection('bowl');
SELECT rag_drop_retriever('lost');

-- an index of a partition that somebody has dropped
SELECT rag_create_collection('plate', dimensions => 2);
SELECT rag_upsert_chunks('[{"chunk_id": "a", "document_id": "d", "text": "x", "chunk_index": 0,
    "embedding": [1, 2]}]', 'plate');
DROP INDEX rag_internal.rag_kb_plate_embedding_key_idx;
ALTER TABLE rag_internal.rag_kb_plate DROP CONSTRAINT rag_kb_plate_pkey;
SELECT * FROM rag_status() WHERE object LIKE 'table%';
CREATE INDEX ON rag_internal.rag_kb_plate (embedding_key);
ALTER TABLE rag_internal.rag_kb_plate ADD PRIMARY KEY (document_id, chunk_id);
SELECT count(*) FROM rag_status() WHERE object LIKE 'table%';
SELECT rag_drop_collection('plate');
