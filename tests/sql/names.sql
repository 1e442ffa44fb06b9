-- Names of collections, sources, retrievers and secrets, and their namespaces.
\set sqlstate '\\echo :LAST_ERROR_SQLSTATE'
\set VERBOSITY default

-- collections: both cases, digits, dots, underscores and hyphens
SELECT rag_create_collection(name)
    FROM unnest(ARRAY['AAA-BBB-CCC', 'kb_123', 'knowledge_base', 'v1.2']) AS name;
SELECT success FROM rag_add_document('A text.', 'note:1', collection => 'AAA-BBB-CCC');
SELECT success FROM rag_add_document('A text.', 'note:1', collection => 'v1.2');
SELECT collection, content FROM rag.chunks WHERE collection IN ('AAA-BBB-CCC', 'v1.2') ORDER BY 1;
SELECT rag_create_collection('aaa-bbb-ccc');
SELECT rag_create_collection('_a');
SELECT rag_create_collection('a/b');

-- an external id of an application, instead of the name
SELECT rag_create_collection('library', external_id => 'Wissen: #17 / "b"');
SELECT rag_stats('Wissen: #17 / "b"') ->> 'collection_name' AS by_id,
    rag_stats('library') ->> 'collection_name' AS by_name;
SELECT rag_create_collection('other', external_id => 'Wissen: #17 / "b"');
SELECT rag_create_collection('other', external_id => ' ');
SELECT rag_stats('nowhere');
-- names and external ids are one name space, in both directions
SELECT rag_create_collection('other', external_id => 'library');
SELECT rag_alter_collection('v1.2', external_id => 'library');
SELECT rag_alter_collection('v1.2', external_id => 'KB-1');
SELECT rag_create_collection('KB-1');
\echo :LAST_ERROR_SQLSTATE
SELECT rag_create_collection('own-id', external_id => 'own-id');
SELECT rag_alter_collection('v1.2', external_id => '');
SELECT rag_create_collection('KB-1');
SELECT rag_drop_collection('KB-1'), rag_drop_collection('own-id');
-- where both exist already, there is no choice
UPDATE rag_internal.collection SET external_id = 'kb_123' WHERE name = 'v1.2';
SELECT rag_stats('kb_123');
SELECT rag_retrieve('{"knowledge_id": "kb_123", "query": "text"}');
UPDATE rag_internal.collection SET external_id = NULL WHERE name = 'v1.2';
-- all functions know both
SELECT success FROM rag_add_document('By id.', 'note:2', collection => 'Wissen: #17 / "b"');
SELECT content FROM rag_search('id', 'Wissen: #17 / "b"', 1);
SELECT name FROM rag_collection_status('Wissen: #17 / "b"');
SELECT rag_delete_document(document_id, 'Wissen: #17 / "b"') FROM rag.documents
WHERE uri = 'note:2';

-- sources of the same name in two namespaces, with retriever, secret and annotations
SELECT * FROM rag_apply_manifest($$
apiVersion: agent.wecode.io/v1
kind: Retriever
metadata: {name: exact, namespace: team-a, displayName: Exact, labels: {tier: gold}}
spec: {storageConfig: {type: flat}}
---
apiVersion: kaito.ai/v1alpha1
kind: AutoIndexer
metadata: {name: docs.example.com, namespace: team-a, displayName: The docs, labels: {app: docs},
annotations: {note: "7"}}
spec:
  ragEngineRef: {name: exact}
  indexName: team-a
  suspend: true
  dataSource: {type: Static, static: {endpoints: ["https://a.example.com/a.md"]}}
---
apiVersion: kaito.ai/v1alpha1
kind: AutoIndexer
metadata: {name: docs.example.com, namespace: team-b}
spec:
  ragEngineRef: {name: default, namespace: default}
  indexName: team-b
  suspend: true
  dataSource: {type: Static, static: {endpoints: ["https://b.example.com/b.md"]}}
$$);
SELECT name, namespace, collection, display_name, labels, annotations FROM rag.sources
    WHERE namespace LIKE 'team-%' ORDER BY 1;
SELECT name, namespace, display_name, labels FROM rag.retrievers WHERE namespace <> 'default';
SELECT jsonb_pretty((rag_get_manifest('AutoIndexer',
    'team-a/docs.example.com') -> 'metadata') - '{uid,creationTimestamp}'::text[]) AS metadata,
    rag_get_manifest('AutoIndexer', 'team-a/docs.example.com') #> '{spec,ragEngineRef}'
        AS retriever;
SELECT (rag_get_manifest('Retriever', 'team-a/exact') -> 'metadata') - 'creationTimestamp'
    AS metadata;
-- rag_get_manifest returns what rag_apply_manifest accepts
SELECT action FROM rag_apply_manifest(rag_get_manifest('AutoIndexer',
    'team-a/docs.example.com')::text);
SELECT action
    FROM rag_apply_manifest(jsonb_set(rag_get_manifest('AutoIndexer', 'team-a/docs.example.com'),
        '{metadata,labels}',
    '{"app": "other"}')::text);
SELECT labels, generation FROM rag.sources WHERE name = 'team-a/docs.example.com';

-- sources can use only secrets of their own namespace
SELECT rag_create_secret('team-a/git.host', 'hidden', 'GITHUB_TOKEN'),
    rag_create_secret('git.host', 'hidden', 'tls.crt');
SELECT rag_alter_source('team-a/docs.example.com', credentials => 'git.host/GITHUB_TOKEN');
SELECT credentials FROM rag.sources WHERE name = 'team-a/docs.example.com';
SELECT rag_get_manifest('AutoIndexer',
    'team-a/docs.example.com') #> '{spec,credentials,secretRef}' AS secret;
SELECT rag_alter_source('team-b/docs.example.com', credentials => 'git.host/GITHUB_TOKEN');
SELECT name, namespace, key FROM rag.secrets WHERE name LIKE '%git.host' ORDER BY 1;
SELECT rag_drop_secret('team-a/git.host');
SELECT rag_create_secret('git.host', 'hidden', 'a key');

-- the namespace default can be written, but is not stored
SELECT rag_create_source('default/plain', 'static', '{"endpoints": ["https://a.example.com/a.md"]}',
    suspend => true);
SELECT name, namespace FROM rag.sources WHERE name = 'plain';
SELECT rag_alter_source('default/plain', max_retries => 1), rag_suspend('default/plain');
SELECT rag_drop_source('default/plain');
SELECT rag_create_source('Team/plain', 'static', '{"endpoints": ["https://a.example.com/a.md"]}');
SELECT rag_create_source('a/b/c', 'static', '{"endpoints": ["https://a.example.com/a.md"]}');
SELECT rag_create_source(repeat('n', 254), 'static',
    '{"endpoints": ["https://a.example.com/a.md"]}');

-- a table source with the longest possible name records changes and is synced
CREATE TABLE noted (id int PRIMARY KEY, body text);
INSERT INTO noted VALUES (1, 'one'), (2, 'two');
SET client_min_messages = warning;
\set longest 'repeat(''a'', 60) || ''/'' || repeat(''b'', 250) || ''.c'''
SELECT rag_create_source(:longest, 'table', '{"relation": "noted", "sync": "trigger"}', 'kb_123');
SELECT length(rag_sync(:longest)::text) > 0 AS synced;
UPDATE noted SET body = 'three' WHERE id = 2;
SELECT length(rag_sync(:longest)::text) > 0 AS synced;
SELECT content FROM rag.documents WHERE source = :longest ORDER BY uri;
SELECT count(*) AS triggers FROM pg_trigger WHERE tgrelid = 'noted'::regclass;
SELECT rag_drop_source(:longest, keep_documents => false);
SELECT count(*) AS triggers FROM pg_trigger WHERE tgrelid = 'noted'::regclass;
DROP TABLE noted;
RESET client_min_messages;

-- the collection default cannot be dropped, because functions use it
SELECT rag_drop_collection('default'); :sqlstate

SELECT rag_drop_source('team-a/docs.example.com'), rag_drop_source('team-b/docs.example.com');
SELECT rag_drop_secret('git.host'), rag_drop_secret('team-a/git.host');
SELECT rag_drop_collection(name) FROM rag.collections WHERE name <> 'default' ORDER BY name;
SELECT rag_delete_manifest('Retriever', 'team-a/exact');
