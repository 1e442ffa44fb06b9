-- Renaming sources and collections: ids, grants, schedules and references stay, nothing doubles,
-- and nothing is embedded again.
\getenv files RAG_TEST_FILES
\set VERBOSITY default
\set sqlstate '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT format('{"path": "%s/handbook"}', :'files') AS spec \gset
CREATE ROLE regress_rename IN ROLE rag_admin;
CREATE TABLE notes (id int PRIMARY KEY, body text);
INSERT INTO notes SELECT i, 'Note number ' || i FROM generate_series(1, 3) i;
SELECT rag_create_collection('red', external_id => 'kb-red');
SELECT rag_grant_collection('red', 'regress_rename', 'read');
SELECT rag_create_source('docs', 'folder', :'spec', collection => 'red', schedule => '@daily');
SELECT rag_create_source('notes', 'table', '{"relation": "notes", "idColumns": "id",
    "contentColumns": "body", "sync": "trigger"}', collection => 'red');
-- without notices of progress, which a slow machine shows
SET client_min_messages = warning;
SELECT rag_sync('docs') > 0 AS docs, rag_sync('notes') > 0 AS notes;
RESET client_min_messages;
SELECT success FROM rag_add_document('Added by hand.', 'hand', collection => 'red');
SELECT knowledge_id FROM rag_create_knowledge(1, 'Labels', :'files' || '/labels', 'folder',
    collection => 'red');
SELECT success FROM rag_index_knowledge(1, collection => 'red');
CREATE TABLE ids AS SELECT document_id, uri, source FROM rag.documents WHERE collection = 'red';
CREATE VIEW differences AS
    SELECT d.uri, d.source FROM rag.documents d LEFT JOIN ids USING (document_id, uri)
    WHERE ids.uri IS NULL
    UNION ALL
    SELECT ids.uri, 'missing' FROM ids LEFT JOIN rag.documents d USING (document_id, uri)
    WHERE d.uri IS NULL;

-- a source
SELECT rag_rename_source('docs', 'guides');
SELECT name, schedule, last_indexed IS NOT NULL AS indexed FROM rag.sources ORDER BY 1;
SELECT source, count(*) > 0 AS runs FROM rag.runs GROUP BY 1 ORDER BY 1;
SELECT count(*) AS differences FROM differences;
SELECT DISTINCT d.source, c.source FROM rag.documents d JOIN rag.chunks c
    USING (collection, document_id) WHERE d.collection = 'red' ORDER BY 1, 2;
SELECT drifted FROM rag_check_drift('guides');
SELECT rag_sync('guides') > 0 AS synced;
-- with triggers
SELECT rag_rename_source('notes', 'remarks');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'notes'::regclass ORDER BY 1;
SELECT rag_sync('remarks') > 0 AS synced;
UPDATE notes SET body = 'A new remark' WHERE id = 2;
SELECT rag_sync('remarks') > 0 AS synced;
SELECT count(*) AS differences FROM differences;
-- a new source of the former name has ids of its own
SELECT rag_create_source('docs', 'folder', :'spec', collection => 'red');
SELECT rag_sync('docs') > 0 AS synced;
SELECT count(*) AS ids, count(DISTINCT uri) AS uris FROM rag.documents
WHERE source IN ('docs', 'guides');
SELECT rag_drop_source('docs', keep_documents => false);
SELECT count(*) AS differences FROM differences;
-- drift stays drift
UPDATE rag.chunks SET title = 'Drifted' WHERE collection = 'red' AND uri LIKE '%backup%';
SELECT drifted FROM rag_check_drift('guides');
SELECT rag_rename_source('guides', 'docs');
SELECT drifted FROM rag_check_drift('docs');

-- a collection
SELECT rag_rename_collection('red', 'blue');
SELECT name, external_id, partition, serial = (SELECT max(serial) FROM rag.collections) AS last
FROM rag.collections WHERE name IN ('red', 'blue');
SELECT collection, role, privilege FROM rag.collection_grants WHERE role = 'regress_rename';
SELECT name, collection FROM rag.sources ORDER BY 1;
SELECT count(*) AS differences FROM differences;
SELECT drifted FROM rag_check_drift('docs');
SELECT drifted FROM rag_check_drift('remarks');
SELECT rag_sync('docs') > 0 AS docs, rag_sync('remarks') > 0 AS remarks;
SELECT action FROM rag_add_document('Added by hand.', 'hand', collection => 'blue');
SELECT success FROM rag_index_knowledge(1, collection => 'kb-red');
SELECT count(*) AS differences FROM differences;
SET ROLE regress_rename;
SELECT count(*) > 0 AS found FROM rag_search('note', 'blue');
SELECT rag_rename_collection('blue', 'mine'); :sqlstate
RESET ROLE;
SELECT count(*) AS left FROM rag.chunks WHERE collection = 'red';
SELECT count(*) FROM rag.documents WHERE collection = 'red';
-- another collection of the former name, with the same ids
SELECT rag_create_collection('red');
SELECT action FROM rag_add_document('Another text.', 'hand', collection => 'red');
SELECT collection, content FROM rag.documents WHERE uri = 'hand' ORDER BY 1;
SELECT name, partition FROM rag.collections WHERE name IN ('red', 'blue') ORDER BY 1;
CALL rag_rebuild_collection('blue');
SELECT count(*) AS differences FROM differences WHERE uri <> 'hand';

-- a bundle of what was renamed
CREATE TABLE blocks AS SELECT * FROM rag_export_blocks('blue');
CREATE TABLE digests AS SELECT * FROM rag_internal.document_digest WHERE collection = 'blue';
SELECT rag_drop_collection('blue', with_sources => true);
SELECT collection FROM rag_import_blocks('blocks', with_sources => true);
SELECT count(*) AS differences FROM differences WHERE uri <> 'hand';
SELECT count(*) FROM digests JOIN rag_internal.document_digest d USING (document_id, digest)
    HAVING count(*) <> (SELECT count(*) FROM digests);
SELECT rag_sync('docs') > 0 AS docs;
SELECT count(*) AS differences FROM differences WHERE uri <> 'hand';

-- mistakes
SELECT rag_rename_source('nowhere', 'x'); :sqlstate
SELECT rag_rename_source('docs', 'remarks'); :sqlstate
SELECT rag_rename_source('docs', 'not a name'); :sqlstate
SELECT rag_rename_source('docs', NULL); :sqlstate
SELECT rag_rename_collection('blue', 'red'); :sqlstate
SELECT rag_rename_collection('red', 'kb-red'); :sqlstate
SELECT rag_rename_collection('default', 'x'); :sqlstate
SELECT rag_rename_collection('nowhere', 'x'); :sqlstate
SELECT rag_rename_collection('red', 'not a name'); :sqlstate
SELECT rag_drop_collection('red'), rag_drop_collection('blue', with_sources => true);
DROP VIEW differences;
DROP TABLE ids, notes, blocks, digests;
DROP ROLE regress_rename;
