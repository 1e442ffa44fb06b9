-- Drift: differences between stored documents and what runs have indexed.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
\set check 'SELECT expected, actual, drifted, (SELECT jsonb_object_agg(key, value) FROM jsonb_each(detail) WHERE key <> ''counts'' AND value <> ''[]'') AS detail FROM rag_check_drift(:''source'')'
\set condition 'SELECT c ->> ''status'' AS status, c ->> ''reason'' AS reason, regexp_replace(c ->> ''message'', ''run \\d+'', ''run N'') AS message FROM rag.sources, jsonb_array_elements(conditions) AS c WHERE name = :''source'' AND c ->> ''type'' = ''AutoIndexerDriftDetected'''
\set did 'SELECT phase, documents_added AS added, documents_updated AS updated, documents_deleted AS deleted, documents_unchanged AS unchanged, documents_failed AS failed, chunks_embedded AS embedded FROM rag.runs WHERE source = :''source'' ORDER BY run_id DESC LIMIT 1'
SET client_min_messages = warning;

CREATE SCHEMA larder;
CREATE TABLE larder.recipes (id int PRIMARY KEY, title text, body text);
INSERT INTO larder.recipes VALUES (1, 'Bread', 'Bread is baked in the morning.'),
    (2, 'Rolls', 'Rolls are baked at noon.'),
    (3, 'Cake', 'Cake is baked in the evening.'), (4, 'Pie', 'Pie is baked at night.'),
    (5, 'Stew', E'Stew takes hours.\n\nIt is stirred every now and then.\n\nIt is served hot.');
SELECT rag_create_collection('larder', chunk_size => 40, chunk_overlap => 0);
\set source recipes
SELECT rag_create_source('recipes', 'table',
    '{"relation": "larder.recipes", "contentColumns": "body", "titleColumn": "title"}', 'larder');

-- no comparison before the first run
:check;
SELECT count(*) FROM rag.sources WHERE name = 'recipes' AND drift_checked_at IS NULL;

-- after a run
SELECT rag_sync('recipes') AS run \gset
SELECT * FROM rag_check_drift('recipes');
:condition;
SELECT count(*) FROM rag.sources WHERE name = 'recipes'
    AND drift_checked_at > now() - interval '1 hour';
SELECT m.uri, m.chunk_count, m.content_hash = d.content_hash AS hash, length(m.digest) AS digest
FROM rag_internal.document_digest m JOIN rag.documents d
    USING (document_id, collection, source, uri)
WHERE collection = 'larder' ORDER BY 1;

-- the digests of a collection are those of its sources and documents
SELECT count(*) AS documents, count(*) FILTER (WHERE s = d) AS of_source,
    count(*) FILTER (WHERE o = d) AS alone, sum(d.chunk_count) AS chunks
FROM rag_internal.compute_document_digests('larder') d
JOIN rag_internal.compute_document_digests('larder', 'recipes') s USING (document_id),
    LATERAL rag_internal.compute_document_digests('larder', of_document => d.document_id) o;
SELECT count(*) FROM rag_internal.compute_document_digests('larder', 'none');

-- only changes of documents change a digest
BEGIN;
SET LOCAL DateStyle = 'German'; SET LOCAL TimeZone = 'Asia/Kathmandu';
SET LOCAL extra_float_digits = -15; SET LOCAL bytea_output = 'escape';
SET LOCAL IntervalStyle = 'iso_8601'; SET LOCAL quote_all_identifiers = on;
SET LOCAL lc_numeric = 'C'; SET LOCAL client_encoding = 'LATIN1';
CREATE SCHEMA trap;
CREATE FUNCTION trap.cat(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'caught' $$;
CREATE OPERATOR trap.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.cat);
SET LOCAL search_path = trap, pg_catalog, public;
:check;
ROLLBACK;
-- columns for the next fetch are not part of a digest
BEGIN;
UPDATE rag.documents SET validator = 'v', raw_hash = NULL, chunking = 'other', status = 'error',
    error = 'trouble' WHERE source = 'recipes';
:check;
ROLLBACK;

-- each kind of manual change is detected and named
BEGIN; DELETE FROM rag.documents WHERE collection = 'larder' AND title = 'Bread'; :check;
:condition; ROLLBACK;
BEGIN; DELETE FROM rag.chunks c USING rag.documents d WHERE d.document_id = c.document_id
    AND d.collection = 'larder' AND d.title = 'Bread'; DELETE FROM rag.documents
    WHERE collection = 'larder' AND title = 'Bread'; :check; ROLLBACK;
BEGIN; UPDATE rag.documents SET content = content || '!' WHERE collection = 'larder'
    AND title = 'Bread'; :check; :condition; ROLLBACK;
BEGIN; UPDATE rag.documents SET content = content || '!',
    content_hash = encode(sha256(convert_to(content || '!', 'UTF8')), 'hex')
    WHERE collection = 'larder' AND title = 'Bread'; :check; ROLLBACK;
BEGIN; UPDATE rag.documents SET content_hash = repeat('0', 64) WHERE collection = 'larder'
    AND title = 'Bread'; :check; ROLLBACK;
BEGIN; UPDATE rag.documents SET title = 'Toast' WHERE collection = 'larder' AND title = 'Bread';
:check; ROLLBACK;
BEGIN; UPDATE rag.documents SET metadata = '{"a": 1}' WHERE collection = 'larder'
    AND title = 'Bread'; :check; ROLLBACK;
BEGIN; UPDATE rag.documents SET uri = 'elsewhere' WHERE collection = 'larder' AND title = 'Bread';
:check; ROLLBACK;
BEGIN; UPDATE rag.documents SET source = NULL WHERE collection = 'larder' AND title = 'Bread';
:check; ROLLBACK;
BEGIN; UPDATE rag.chunks SET content = 'Bread is poisonous.' WHERE collection = 'larder'
    AND title = 'Bread'; :check; ROLLBACK;
BEGIN; UPDATE rag.chunks SET title = 'Toast' WHERE collection = 'larder' AND title = 'Bread';
:check; ROLLBACK;
BEGIN; UPDATE rag.chunks SET metadata = '{"a": 1}' WHERE collection = 'larder' AND title = 'Bread';
:check; ROLLBACK;
BEGIN; UPDATE rag.chunks SET embedding = (SELECT embedding FROM rag.chunks
    WHERE collection = 'larder' AND title = 'Pie') WHERE collection = 'larder' AND title = 'Bread';
    :check; ROLLBACK;
BEGIN; UPDATE rag.chunks SET embedding_key = gen_random_uuid() WHERE collection = 'larder'
    AND title = 'Bread'; :check; ROLLBACK;
BEGIN; UPDATE rag.chunks SET indexed_at = indexed_at - interval '1 microsecond'
    WHERE collection = 'larder' AND title = 'Bread'; :check; ROLLBACK;
BEGIN; UPDATE rag.chunks SET chunk_index = 2 - chunk_index WHERE collection = 'larder'
    AND title = 'Stew'; :check; ROLLBACK;
BEGIN; DELETE FROM rag.chunks WHERE collection = 'larder' AND title = 'Stew' AND chunk_index = 1;
:check; :condition; ROLLBACK;
BEGIN; DELETE FROM rag.chunks WHERE collection = 'larder' AND title IN ('Stew', 'Bread'); :check;
ROLLBACK;
BEGIN; TRUNCATE rag.chunks; :check; ROLLBACK;
-- data that no run indexed: a document, a chunk of a document, chunks without document
BEGIN; INSERT INTO rag.documents (document_id, collection, source, uri, status)
    VALUES (gen_random_uuid(), 'larder', 'recipes', 'planted', 'active'); :check; :condition;
    ROLLBACK;
BEGIN;
CREATE TEMP TABLE planted AS SELECT * FROM rag.chunks WHERE collection = 'larder'
    AND title = 'Bread';
UPDATE planted SET chunk_id = gen_random_uuid(), content = 'Bread is free.';
INSERT INTO rag.chunks SELECT * FROM planted;
:check;
UPDATE planted SET chunk_id = gen_random_uuid(), document_id = gen_random_uuid(), uri = 'planted';
INSERT INTO rag.chunks SELECT * FROM planted;
:check;
ROLLBACK;
-- a document deleted with its digest: only the count shows it
BEGIN;
DELETE FROM rag.chunks WHERE collection = 'larder' AND title = 'Bread';
DELETE FROM rag.documents WHERE collection = 'larder' AND title = 'Bread';
DELETE FROM rag_internal.document_digest m WHERE m.collection = 'larder' AND NOT EXISTS (SELECT
    FROM rag.documents d WHERE d.document_id = m.document_id);
:check;
:condition;
ROLLBACK;
-- at most 100 documents of each kind are named
BEGIN;
INSERT INTO rag.documents (document_id, collection, source, uri, status)
    SELECT gen_random_uuid(), 'larder', 'recipes', 'planted ' || n, 'active'
    FROM generate_series(1, 250) n;
SELECT expected, actual, drifted, jsonb_array_length(detail -> 'unexpected') AS named,
    detail -> 'counts' AS counts FROM rag_check_drift('recipes');
:condition;
ROLLBACK;
:check;

-- one of each kind, repaired by a sync: only drifted documents are embedded again
DELETE FROM rag.documents WHERE collection = 'larder' AND title = 'Bread';
UPDATE rag.chunks SET content = 'Rolls are poisonous.' WHERE collection = 'larder'
    AND title = 'Rolls';
UPDATE rag.documents SET source = NULL, title = 'Tart' WHERE collection = 'larder'
    AND title = 'Pie';
DELETE FROM rag.chunks WHERE collection = 'larder' AND title = 'Stew' AND chunk_index = 1;
UPDATE rag.chunks SET document_id = gen_random_uuid() WHERE collection = 'larder' AND title = 'Stew'
    AND chunk_index = 0;
INSERT INTO rag.documents (document_id, collection, source, uri, status)
    VALUES (gen_random_uuid(), 'larder', 'recipes', 'planted', 'active');
-- rag_sync alone trusts the stored documents
SELECT rag_sync('recipes') AS run \gset
:did;
:check;
:condition;
SELECT rag_sync('recipes') AS run \gset
:did;
:condition;
:check;
:condition;
SELECT d.title, c.chunk_index, c.content FROM rag.documents d JOIN rag.chunks c USING (document_id)
    WHERE d.source = 'recipes' ORDER BY 1, 2;
SELECT count(*) FROM rag.chunks WHERE collection = 'larder';
-- changed embeddings are not reused
UPDATE rag.chunks SET embedding = (SELECT embedding FROM rag.chunks WHERE collection = 'larder'
    AND title = 'Pie') WHERE collection = 'larder' AND title = 'Bread';
SELECT title = 'Bread' AS found
FROM rag_search('when is bread baked?', 'larder', top_k => 1, mode => 'vector');
:check;
SELECT rag_sync('recipes') AS run \gset
:did;
:check;
SELECT title FROM rag_search('when is bread baked?', 'larder', top_k => 1);

-- changes and deletions in the source, or a failed run, are not drift
UPDATE larder.recipes SET body = 'Bread is baked at dawn.' WHERE id = 1;
DELETE FROM larder.recipes WHERE id = 2;
INSERT INTO larder.recipes VALUES (6, 'Soup', 'Soup is cooked on Friday.');
:check;
SELECT rag_sync('recipes') AS run \gset
:did;
:check;
ALTER TABLE larder.recipes RENAME TO gone;
\set VERBOSITY terse
SELECT rag_sync('recipes');
\set VERBOSITY default
:check;
ALTER TABLE larder.gone RENAME TO recipes;
SELECT rag_sync('recipes') AS run \gset
:check;
SELECT count(*) FROM rag_internal.document_digest WHERE source = 'recipes';

-- documents that cannot be indexed: earlier content is kept, and documents that never could be
-- indexed are known
\set folder `mktemp -d`
\setenv folder :folder
\! printf 'Beans are soaked.\n' >$folder/beans.md; echo '%PDF-1.7 broken' >$folder/broken.pdf
\set source files
SELECT rag_create_source('files', 'folder', jsonb_build_object('path', :'folder'), 'larder');
SELECT rag_sync('files') AS run \gset
:did;
SELECT expected, actual, drifted FROM rag_check_drift('files');
\! chmod 000 $folder/beans.md
SELECT rag_sync('files') AS run \gset
:did;
SELECT status, content FROM rag.documents WHERE source = 'files' AND uri LIKE '%/beans.md';
SELECT expected, actual, drifted FROM rag_check_drift('files');
BEGIN;
DELETE FROM rag.documents WHERE source = 'files' AND uri LIKE '%/broken.pdf';
SELECT expected, actual, drifted, detail -> 'counts' AS counts FROM rag_check_drift('files');
ROLLBACK;
\! chmod 600 $folder/beans.md; printf 'Beans are boiled.\n' >$folder/beans.md; rm $folder/broken.pdf
SELECT rag_sync('files') AS run \gset
:did;
SELECT expected, actual, drifted FROM rag_check_drift('files');

-- two sources in one collection are checked for their own documents only
SELECT success FROM rag_add_document('Tea is drunk at five.', 'tea', collection => 'larder');
SELECT success FROM rag_index_knowledge(7, 'larder', title => 'Beans',
    uri => :'folder' || '/beans.md');
SELECT name, d.* FROM rag.sources, rag_check_drift(name) AS d WHERE collection = 'larder'
    ORDER BY name;
SELECT count(*) FROM rag_internal.document_digest WHERE collection = 'larder';
UPDATE rag.chunks SET content = 'Tea is poisonous.' WHERE collection = 'larder' AND uri = 'tea';
UPDATE rag.documents SET content = 'Beans are raw.' WHERE source = 'files';
SELECT name, expected, actual, drifted, detail -> 'counts' AS counts
    FROM rag.sources, rag_check_drift(name) AS d WHERE collection = 'larder' ORDER BY name;
SELECT rag_sync('files') AS run \gset
:did;
-- a chunk that was moved to another document
CREATE TEMP TABLE hung AS SELECT * FROM rag.chunks WHERE collection = 'larder' AND uri = 'tea';
UPDATE hung SET chunk_id = gen_random_uuid(), source = 'files', content = 'Tea is free.';
INSERT INTO rag.chunks SELECT * FROM hung;
\set source files
:check;
SELECT rag_sync('files') AS run \gset
:did;
:check;
SELECT content FROM rag.chunks WHERE collection = 'larder' AND uri = 'tea';

-- changed settings of the collection: the next run splits and embeds again, without drift in
-- between
UPDATE rag_internal.collection SET chunk_size = 20 WHERE name = 'larder';
\set source recipes
:check;
SELECT rag_sync('recipes') AS run \gset
:did;
:check;

-- a removed document is missing until the next run
SELECT rag_delete_document(document_id) FROM rag.documents WHERE source = 'recipes'
    AND title = 'Cake';
:check;
SELECT rag_sync('recipes') AS run \gset
:did;
:check;

-- with triggers, a run reads only recorded rows, except after drift
CREATE TABLE larder.notes (id int PRIMARY KEY, body text);
INSERT INTO larder.notes SELECT n, 'Note ' || n || ' is short.' FROM generate_series(1, 5) n;
\set source notes
SELECT rag_create_source('notes', 'table', '{"relation": "larder.notes", "sync": "trigger"}',
    'larder');
SELECT rag_sync('notes') AS run \gset
SELECT rag_sync('notes') AS run \gset
:did;
:check;
UPDATE rag.documents SET content = 'Note 3 is long.' WHERE source = 'notes' AND uri LIKE '%/3';
DELETE FROM rag.chunks WHERE collection = 'larder' AND uri LIKE '%notes/4';
:check;
SELECT rag_sync('notes') AS run \gset
:did;
:check;
SELECT rag_sync('notes') AS run \gset
:did;

-- messages depend on the drift policy; no scheduler starts runs here
SET client_min_messages = notice;
UPDATE rag.documents SET title = 'x' WHERE source = 'notes' AND uri LIKE '%/3';
SELECT drift_policy FROM rag.sources WHERE name = 'notes';
SELECT drifted FROM rag_check_drift('notes');
UPDATE rag_internal.source SET drift_policy = 'manual' WHERE name = 'notes';
SELECT drifted FROM rag_check_drift('notes');
UPDATE rag_internal.source SET drift_policy = 'ignore' WHERE name = 'notes';
SELECT drifted FROM rag_check_drift('notes');
SELECT count(*) FROM rag.runs WHERE trigger = 'drift';
SET client_min_messages = warning;

-- permissions
SELECT * FROM rag_check_drift('nowhere'); :sqlstate
CREATE ROLE drift_reader IN ROLE rag_reader;
CREATE ROLE drift_nobody;
SET ROLE drift_reader;
SELECT * FROM rag_check_drift('notes'); :sqlstate
SELECT * FROM rag_internal.document_digest; :sqlstate
SELECT * FROM rag_internal.drifted_documents('larder', 'notes'); :sqlstate
SET ROLE drift_nobody;
SELECT * FROM rag_check_drift('notes'); :sqlstate
RESET ROLE;
DROP ROLE drift_reader;
DROP ROLE drift_nobody;

-- kept documents have no source until a later source of the same name indexes them; others are
-- forgotten
SELECT rag_drop_source('files');
SELECT count(*) FROM rag_internal.document_digest WHERE source = 'files';
SELECT rag_create_source('files', 'folder', jsonb_build_object('path', :'folder'), 'larder');
\set source files
:check;
SELECT rag_sync('files') AS run \gset
:did;
SELECT expected, actual, drifted FROM rag_check_drift('files');
-- digests of documents deleted by hand are removed by a run into another collection and with the
-- source
DELETE FROM rag.documents WHERE source IN ('files', 'recipes')
    AND (title = 'Pie' OR uri LIKE '%/beans.md');
SELECT m.source, count(*) FROM rag_internal.document_digest m LEFT JOIN rag.documents d
    USING (document_id)
    WHERE m.collection = 'larder' AND d IS NULL GROUP BY 1 ORDER BY 1;
SELECT rag_create_collection('pantry');
SELECT rag_alter_source('files', collection => 'pantry');
SELECT rag_sync('files') AS run \gset
:did;
SELECT collection, count(*) FROM rag_internal.document_digest WHERE source = 'files' GROUP BY 1;
SELECT rag_alter_source('files', collection => 'larder');
SELECT rag_drop_source(name, keep_documents => false) FROM rag.sources WHERE collection = 'larder'
    ORDER BY name;
SELECT count(*) FROM rag_internal.document_digest WHERE collection IN ('larder', 'pantry');
SELECT rag_drop_collection('larder'), rag_drop_collection('pantry');
\! rm -r $folder
DROP SCHEMA larder CASCADE;
