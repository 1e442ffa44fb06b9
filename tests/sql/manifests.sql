-- Manifests: sources and retrievers in the form of the upstream proposals, with tabs.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET client_min_messages = warning;

-- the retriever that the examples name ------------------------------------

SELECT * FROM rag_apply_manifest('{
  "apiVersion": "agent.wecode.io/v1",
  "kind": "Retriever",
  "metadata": {"name": "my-ragengine", "namespace": "default", "displayName": "My engine"},
  "spec": {
    "storageConfig": {"type": "flat", "indexStrategy": {"mode": "per_dataset", "prefix": "rag"}},
    "retrievalMethods": {
      "vector": {"enabled": true, "defaultWeight": 0.7},
      "keyword": {"enabled": true, "defaultWeight": 0.3},
      "hybrid": {"enabled": true}
    },
    "description": "exact search"
  }
}');
SELECT rag_get_manifest('retriever', 'my-ragengine') #- '{metadata,creationTimestamp}' AS retriever;
SELECT * FROM rag_apply_manifest(rag_get_manifest('Retriever', 'my-ragengine')::text);
-- the retriever of the proposal uses a storage that this version does not support
SELECT * FROM rag_apply_manifest('{
  "apiVersion": "agent.wecode.io/v1",
  "kind": "Retriever",
  "metadata": {
    "name": "my-es-retriever",
    "namespace": "default",
    "displayName": "My ES Retriever"
  },
  "spec": {
    "storageConfig": {
      "type": "elasticsearch",
      "url": "http://localhost:9200",
      "username": "elastic",
      "password": "changeme",
      "indexStrategy": {
        "mode": "per_dataset",
        "prefix": "rag"
      }
    },
    "retrievalMethods": {
      "vector": {"enabled": true, "defaultWeight": 0.7},
      "keyword": {"enabled": true, "defaultWeight": 0.3},
      "hybrid": {"enabled": true}
    },
    "description": "Elasticsearch retriever for production"
  }
}'); :sqlstate

-- the examples, verbatim --------------------------------------------------

SET client_min_messages = notice;
SELECT * FROM rag_apply_manifest($$
apiVersion: kaito.ai/v1alpha1
kind: AutoIndexer
metadata:
	name: static-files-indexer
spec:
	ragEngineRef:
		name: my-ragengine
		namespace: default
	indexName: my-static-index
	dataSource:
		type: Static
		static:
			endpoints:
				- https://example.com/docs/file1.pdf
				- https://example.com/docs/file2.txt
	schedule: "@daily"
$$);
SELECT $$
apiVersion: kaito.ai/v1alpha1
kind: AutoIndexer
metadata:
	name: github-indexer
spec:
	ragEngineRef:
		name: my-ragengine
		namespace: default
	indexName: my-git-index
	dataSource:
		type: Git
		git:
			repositoryURL: https://github.com/org/repo.git
			branch: main
			paths:
				- docs/
				- src/
			excludePaths:
				- test/
	schedule: "0 2 * * *" # every day at 2am
$$ AS github \gset
SELECT * FROM rag_apply_manifest(:'github');
SET client_min_messages = warning;
SELECT * FROM rag_apply_manifest($$
apiVersion: kaito.ai/v1alpha1
kind: AutoIndexer
metadata:
	name: github-single-commit-indexer
spec:
	ragEngineRef:
		name: my-ragengine
		namespace: default
	indexName: my-git-index
	dataSource:
		type: Git
		git:
			repositoryURL: https://github.com/org/repo.git
			branch: main
			commit: "abc123def456"
			paths:
				- docs/
$$);
SELECT name, kind, collection, spec, schedule, credentials, max_retries, timeout, suspend,
    drift_policy, generation, phase FROM rag.sources ORDER BY name \gx
SELECT name, retriever FROM rag.collections WHERE name LIKE 'my-%' ORDER BY name;

-- applied again: unchanged
SELECT * FROM rag_apply_manifest(:'github');
SELECT name, generation FROM rag.sources ORDER BY name;
-- with credentials that exist
SELECT $$	credentials:
		type: SecretRef
		secretRef:
			name: github-token
			key: token
$$ AS credentials \gset
SELECT * FROM rag_apply_manifest(:'github' || :'credentials'); :sqlstate
SELECT rag_create_secret('github-token', 'ghp_1234', 'tokn');
SELECT * FROM rag_apply_manifest(:'github' || :'credentials'); :sqlstate
SELECT rag_create_secret('github-token', 'ghp_1234');
SELECT * FROM rag_apply_manifest(:'github' || :'credentials');
SELECT name, credentials, generation FROM rag.sources WHERE name = 'github-indexer';
SELECT * FROM rag_apply_manifest(:'github' || :'credentials');
-- without credentials
SELECT * FROM rag_apply_manifest(:'github');
SELECT name, credentials, generation FROM rag.sources WHERE name = 'github-indexer';

-- what is there, as a manifest --------------------------------------------

SELECT jsonb_pretty(rag_get_manifest('AutoIndexer',
    'github-indexer') #- '{metadata,uid}' #- '{metadata,creationTimestamp}'
    #- '{status,nextScheduledRun}' #- '{status,conditions}') AS manifest;
SELECT m #>> '{metadata,uid}' = s.uid::text AS uid,
    (m #>> '{metadata,creationTimestamp}')::timestamptz <= now() AS created,
    (m #>> '{status,nextScheduledRun}')::timestamptz = s.next_scheduled_run AS next_run,
    m #> '{status,conditions}' = s.conditions AS conditions
FROM rag.sources s, rag_get_manifest('autoindexer', s.name) AS m WHERE s.name = 'github-indexer';
SELECT a.* FROM rag.sources s, rag_apply_manifest(
    rag_get_manifest('AUTOINDEXER', s.name)::text) a ORDER BY s.name;
SELECT rag_get_manifest('AutoIndexer', 'nowhere'); :sqlstate
SELECT rag_get_manifest('Retriever', 'nowhere'); :sqlstate
SELECT rag_get_manifest('Pod', 'nowhere'); :sqlstate
-- a source that was created by functions, with a secret without key
SELECT rag_create_source('made', 'git', '{"repositoryURL": "https://example.org/a.git"}',
    credentials => 'github-token', timeout => '90 s', drift_policy => 'manual',
    suspend => true);
SELECT rag_get_manifest('AutoIndexer', 'made') -> 'spec' AS spec;
SELECT * FROM rag_apply_manifest(rag_get_manifest('AutoIndexer', 'made')::text);
SELECT credentials, generation FROM rag.sources WHERE name = 'made';

-- lists -------------------------------------------------------------------

SELECT m ->> 'kind' AS kind, jsonb_path_query_array(m, '$.items[*].metadata.name') AS names
    FROM rag_get_manifest('AutoIndexer') AS m;
SELECT * FROM rag_apply_manifest(rag_get_manifest('AutoIndexer')::text);
SELECT * FROM rag_apply_manifest(rag_get_manifest('Retriever')::text) WHERE action <> 'unchanged';
SELECT rag_get_manifest(NULL); :sqlstate
SELECT * FROM rag_apply_manifest('{"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "rag/v1", "kind": "Retriever", "metadata": {"name": "twice"}, "spec": {}},
    {"apiVersion": "rag/v1", "kind": "Retriever", "metadata": {"name": "twice"}, "spec": {}},
    {"apiVersion": "rag/v1", "kind": "Retrieve", "metadata": {"name": "other"}}, 1]}'); :sqlstate
SELECT * FROM rag_apply_manifest('{kind: List, items: {}}'); :sqlstate
SELECT * FROM rag_apply_manifest('{kind: List}'); :sqlstate
SELECT * FROM rag_apply_manifest('{kind: List, items: []}');

-- several documents: all or none, retrievers first ------------------------

\set handbook `echo "$RAG_TEST_FILES/handbook"`
CREATE FUNCTION many(path text) RETURNS text LANGUAGE sql AS $function$ SELECT format($yaml$
# a source before its retriever
apiVersion: rag/v1
kind: AutoIndexer
metadata: {name: handbook}
spec:
  ragEngineRef: {name: exact}
  indexName: books
  dataSource:
    type: Folder
    folder:
      path: %s
      paths: [guides/]
  driftRemediationPolicy: {strategy: Manual}
  timeout: 90s
  retryPolicy: {maxRetries: 7}
---
---
{"apiVersion": "rag/v1", "kind": "Retriever", "metadata": {"name": "exact"},
    "spec": {"storageConfig": {"type": "flat"}}}
---
apiVersion: rag/v1
kind: AutoIndexer
metadata: {name: classes}
spec:
  ragEngineRef: {name: exact}
  indexName: books
  dataSource: {type: Table, table: {relation: notes}}
  suspend: true
$yaml$, path) $function$;
CREATE TABLE notes (id int PRIMARY KEY, body text NOT NULL);
SET client_min_messages = notice;
SELECT * FROM rag_apply_manifest(many(:'handbook'));
SELECT * FROM rag_apply_manifest(many(:'handbook'));
SELECT * FROM rag_apply_manifest(replace(many(:'handbook'), 'timeout: 90s', 'timeout: 91s'));
SET client_min_messages = warning;
SELECT name, kind, collection, max_retries, timeout, suspend, drift_policy, generation
    FROM rag.sources WHERE collection = 'books' ORDER BY name;
-- flat: no index is created for any size
SELECT rag_sync('handbook') > 0 AS ran;
SELECT rag_get_manifest('AutoIndexer',
    'handbook') #> '{status}' #- '{lastIndexed}' #- '{lastRunDurationSeconds}'
    #- '{lastRunID}' #- '{conditions}' AS status;
INSERT INTO rag.chunks SELECT c.collection, c.partition, c.source, c.uri, c.title, c.document_id,
    c.knowledge_id, c.document_type, c.category, c.tags, gen_random_uuid(),
    c.chunk_index, c.start_index, c.content, c.metadata, c.embedding, c.embedding_key, c.fetched_at,
    c.indexed_at, c.start_line, c.end_line, c.page, c.heading_path
FROM (SELECT * FROM rag.chunks WHERE collection = 'books' LIMIT 1) c, generate_series(1, 4000);
SELECT success FROM rag_add_document('One more.', 'one', collection => 'books');
SELECT has_vector_index FROM rag_collection_status('books');
-- without a type there is an index, as for the retriever default
SELECT * FROM rag_apply_manifest('{"apiVersion": "rag/v1", "kind": "Retriever",
    "metadata": {"name": "exact"}, "spec": {}}');
SELECT success FROM rag_add_document('Another one.', 'two', collection => 'books');
SELECT has_vector_index FROM rag_collection_status('books');

-- errors are reported with their paths, all at once, and nothing is applied

SELECT * FROM rag_apply_manifest($$
apiVersion: kaito.ai/v1alpha1
kind: AutoIndexer
metadata:
	name: Github_Indexer
spec:
	ragEngineRef:
		name: my-ragengine
	indexName: my-git-index
	dataSource:
		type: Git
		git:
			repositoryURL: github.com/org/repo.git
			branch: -main
			brunch: main
		static:
			endpoints: []
	schedule: "0 2 * * *"
	retryPolicy:
		maxRetries: -1
	suspended: true
$$); :sqlstate
CREATE FUNCTION one(change jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT jsonb_set('{"apiVersion": "rag/v1", "kind": "AutoIndexer", "metadata": {"name": "one"},
    "spec": {}}',
    '{spec}', '{"ragEngineRef": {"name": "exact"}, "indexName": "one",
    "dataSource": {"type": "Folder", "folder": {"path": "/srv"}}}'::jsonb || change)::text $$;
SELECT * FROM rag_apply_manifest(one('{"schedule": "0 25 * * *"}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"ragEngineRef": {"name": "nowhere"}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"indexName": "default"}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"timeout": "720h"}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"credentials": {"type": "SecretRef",
    "secretRef": {"name": "github-token", "key": "token"}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"dataSource": {"type": "Table",
    "table": {"relation": "nowhere"}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"dataSource": {"type": "Table",
    "table": {"relation": "notes",
    "contentColumns": ["body", "boddy"]}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"dataSource": {"type": "Table",
    "table": {"relation": "notes",
    "idColumns": "idd"}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"dataSource": {"type": "Table",
    "table": {"relation": "notes",
    "titleColumn": "heading"}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"dataSource": {"type": "Table",
    "table": {"relation": "notes",
    "metadataColumns": ["author"]}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"dataSource": {"type": "Table",
    "table": {"relation": "notes",
    "filter": {"author": 7}}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"dataSource": {"type": "Table",
    "table": {"relation": "rag.sources"}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"dataSource": {"type": "Table",
    "table": {"relation": "rag.sources",
    "idColumns": ["name"], "contentColumns": ["phase"], "sync": "trigger"}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"dataSource": {"type": "Git",
    "git": {"repositoryURL": "http://example.org/a.git"}}}')); :sqlstate
SELECT * FROM rag_apply_manifest(one('{"schedule": "@dialy"}') || E'\n---\n'
    || replace(one('{"ragEngineRef": {"name": "nowhere"}}'), '"one"', '"two"')
    || E'\n---\n' || replace(one('{}'), '"one"', '"three"')); :sqlstate
SELECT count(*) FROM rag.sources WHERE name IN ('one', 'two', 'three');
SELECT count(*) FROM rag.collections WHERE name IN ('one', 'two', 'three');
-- errors in the manifest of an existing source
SELECT * FROM rag_apply_manifest(replace(many(:'handbook'), 'relation: notes',
    'relation: nowhere')); :sqlstate
SELECT name, generation FROM rag.sources WHERE collection = 'books' ORDER BY name;
-- the retriever that always exists
SELECT created_at AS made FROM rag.retrievers WHERE name = 'default' \gset
SELECT action FROM rag_get_manifest('Retriever', 'default') m,
rag_apply_manifest(jsonb_set(m, '{spec}', m -> 'spec' || '{"description": "told"}')::text);
SELECT created_at = :'made' AS is_same, spec ->> 'description' AS description FROM rag.retrievers
    WHERE name = 'default';
SELECT action FROM rag_apply_manifest(rag_get_manifest('Retriever', 'default')::text);
SELECT action FROM rag_get_manifest('Retriever', 'default') m,
    rag_apply_manifest((m #- '{spec,description}')::text);
-- invalid manifests
SELECT * FROM rag_apply_manifest(NULL); :sqlstate
SELECT * FROM rag_apply_manifest(''); :sqlstate
SELECT * FROM rag_apply_manifest('kind: [AutoIndexer'); :sqlstate
SELECT * FROM rag_apply_manifest('{"apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "a"}}'); :sqlstate
SELECT * FROM rag_apply_manifest(repeat('[', 100000)); :sqlstate
SELECT * FROM rag_apply_manifest(repeat('#', 1048577)); :sqlstate
SELECT * FROM rag_apply_manifest(many(:'handbook') || E'\n---\n' || many(:'handbook')); :sqlstate

-- deleted -----------------------------------------------------------------

SELECT rag_delete_manifest('Retriever', 'exact'); :sqlstate
SELECT rag_delete_manifest('retriever', 'default'); :sqlstate
SELECT rag_delete_manifest('Retriever', 'nowhere');
SELECT rag_delete_manifest('AutoIndexer', 'nowhere');
SELECT rag_delete_manifest('Pod', 'nowhere'); :sqlstate
SELECT rag_delete_manifest('autoindexer', 'handbook'), rag_delete_manifest('AutoIndexer',
    'handbook');
SELECT count(*) > 0 AS kept FROM rag.documents WHERE former_source = 'handbook' AND source IS NULL;
SELECT rag_delete_manifest('AutoIndexer', name) FROM rag.sources;
SELECT rag_drop_collection(name) FROM rag.collections WHERE name <> 'default';
SELECT rag_delete_manifest('Retriever', 'exact'), rag_delete_manifest('RETRIEVER', 'my-ragengine');
SELECT name FROM rag.retrievers;
SELECT rag_drop_secret('github-token');
DROP TABLE notes;
DROP FUNCTION many, one;
