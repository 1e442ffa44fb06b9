-- Category and tags from documents, sources and callers.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET client_min_messages = warning;
\set files `echo "$RAG_TEST_FILES"`
\set spec '{"path": "' :files '/labels"}'
\set labels 'SELECT regexp_replace(d.uri, ''^.*/'', '''') AS document, d.category, d.tags, bool_and((c.category, c.tags) IS NOT DISTINCT FROM (d.category, d.tags)) AS chunks FROM rag.documents d JOIN rag.chunks c USING (document_id) WHERE d.collection = ''labels'' GROUP BY d.uri, d.category, d.tags ORDER BY d.uri COLLATE "C"'
\set did 'SELECT phase, documents_updated AS updated, documents_unchanged AS unchanged, chunks_embedded AS embedded FROM rag.runs WHERE source = :''source'' ORDER BY run_id DESC LIMIT 1'
\set drifted 'SELECT drifted FROM rag_check_drift(:''source'')'
SELECT rag_create_collection('labels');

-- front matter sets the columns, and a filter finds the document
\set source notes
SELECT rag_create_source('notes', 'folder', :'spec', 'labels');
SELECT rag_sync('notes') AS run \gset
:labels;
SELECT title, metadata -> 'category' AS category, metadata -> 'tags' AS tags
    FROM rag_search('tea', 'labels', filter =>
    '{"operator": "and", "conditions": [{"key": "category", "operator": "eq", "value": "tech"},
    {"key": "year", "operator": "gte", "value": 2020}]}');
SELECT title FROM rag_search('tea', 'labels', filter => '{"tags": ["docker"]}');
:drifted;

-- values of the source take precedence, without fetching or embedding again
SELECT rag_alter_source('notes',
    spec => :'spec'::jsonb || '{"category": "kitchen", "tags": ["b", " a ", "b"]}');
SELECT rag_sync('notes') AS run \gset
:labels;
:did;
:drifted;
SELECT spec -> 'category' AS category, spec -> 'tags' AS tags FROM rag.sources WHERE name = 'notes';
SELECT rag_alter_source('notes', spec => :'spec'::jsonb || '{"category": "kitchen"}');
SELECT rag_sync('notes') AS run \gset
:labels;
SELECT rag_alter_source('notes', spec => :'spec'::jsonb);
SELECT rag_sync('notes') AS run \gset
:labels;
:did;
:drifted;

-- Documents of an earlier version get their labels with the next run. Documents that were changed
-- by hand are not repaired by that.
BEGIN;
UPDATE rag.documents SET category = NULL, tags = NULL WHERE source = 'notes';
UPDATE rag.chunks SET category = NULL, tags = NULL WHERE collection = 'labels';
UPDATE rag_internal.document_digest m SET digest = d.digest
    FROM rag_internal.compute_document_digests('labels') d
    WHERE d.document_id = m.document_id;
UPDATE rag.chunks SET content = 'Changed.' WHERE collection = 'labels' AND title = 'Tea';
COMMIT;
SELECT rag_alter_source('notes', spec => :'spec'::jsonb || '{"category": "old"}');
SELECT rag_sync('notes') AS run \gset
:labels;
SELECT drifted, detail -> 'counts' -> 'changed' AS changed FROM rag_check_drift('notes');
SELECT rag_sync('notes') AS run \gset
:labels;
:drifted;

-- columns of a table with these names, and values of the source for all rows
CREATE SCHEMA pantry;
CREATE TABLE pantry.jars (id int PRIMARY KEY, body text, category text, tags text[]);
INSERT INTO pantry.jars VALUES (1, 'Jam is sweet.', 'fruit', '{sweet,red}'),
    (2, 'Pickles are sour.', NULL, NULL);
\set source jars
SELECT rag_create_source('jars', 'table',
    '{"relation": "pantry.jars", "contentColumns": "body", "metadataColumns": ["category", "tags"],
    "tags": ["jar"]}', 'labels');
SELECT rag_sync('jars') AS run \gset
SELECT uri, category, tags FROM rag.documents WHERE source = 'jars' ORDER BY uri;
SELECT spec -> 'tags' AS tags FROM rag.sources WHERE name = 'jars';
UPDATE pantry.jars SET category = 'salt' WHERE id = 2;
SELECT rag_sync('jars') AS run \gset
SELECT uri, category, tags FROM rag.documents WHERE source = 'jars' ORDER BY uri;
:did;
:drifted;

-- values of the caller take precedence over those of the document
SELECT action FROM rag_add_document(E'---\ncategory: own\ntags: a, b\n---\nText.', 'own',
    collection => 'labels');
SELECT action FROM rag_add_document(E'---\ncategory: own\ntags: a, b\n---\nText.', 'given',
    category => ' given ', tags => ARRAY[' x', 'x', ''], collection => 'labels');
SELECT action FROM rag_add_document(E'---\ncategory: own\ntags: a, b\n---\nText.', 'none',
    category => '', tags => '{}', collection => 'labels');
SELECT action
    FROM rag_add_document('Text.', 'metadata', metadata => '{"category": 7, "tags": ["x", 2024]}',
    collection => 'labels');
SELECT uri, category, tags FROM rag.documents WHERE collection = 'labels' AND source IS NULL
    ORDER BY uri;

-- a manifest has them in the data source
SELECT action
    FROM rag_apply_manifest(format('{"apiVersion": "kaito.ai/v1alpha1", "kind": "AutoIndexer",
    "metadata": {"name": "notes"}, "spec": {"ragEngineRef": {"name": "default"},
    "indexName": "labels", "dataSource": {"type": "Folder", "folder": {"path": %s,
    "category": "manifest"}}}}', to_json(:'files' || '/labels')));
SELECT rag_get_manifest('AutoIndexer',
    'notes') -> 'spec' -> 'dataSource' -> 'folder' -> 'category' AS category;

-- invalid values
SELECT field, problem, hint
    FROM rag_validate_source('website',
    '{"url": "https://example.org", "category": 1, "tags": "a", "tag": "b"}');
SELECT rag_add_document('Text.', 'a', category => repeat('x', 201),
    collection => 'labels'); :sqlstate
SELECT rag_add_document('Text.', 'a', tags => ARRAY[repeat('x', 201)],
    collection => 'labels'); :sqlstate

SELECT rag_drop_source('notes', keep_documents => false),
    rag_drop_source('jars', keep_documents => false);
SELECT rag_drop_collection('labels');
DROP SCHEMA pantry CASCADE;
