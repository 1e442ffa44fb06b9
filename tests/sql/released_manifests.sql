-- Manifests of KAITO's releases: another API group, and ragEngine, git.repository, static.urls.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET client_min_messages = warning;

SELECT * FROM rag_apply_manifest('{apiVersion: agent.wecode.io/v1, kind: Retriever,
    metadata: {name: ragengine}, spec: {storageConfig: {type: flat}}}');

-- the forms of the shipped examples: a repository with a schedule, some of its files, a list of
-- files with and without one
SELECT $yaml$
apiVersion: autoindexer.kaito.sh/v1alpha1
kind: AutoIndexer
metadata:
  name: released-git
spec:
  ragEngine: ragengine
  indexName: released-git
  schedule: "*/5 * * * *" # Every 5 minutes
  suspend: true
  dataSource:
    type: Git
    git:
      repository: "https://git.example.org/guide.git"
      branch: "main"
---
apiVersion: autoindexer.kaito.sh/v1alpha1
kind: AutoIndexer
metadata:
  name: released-code
spec:
  ragEngine: ragengine
  indexName: released-code
  schedule: "0 * * * * " # Every hour
  suspend: true
  dataSource:
    type: Git
    git:
      repository: "https://git.example.org/guide.git"
      branch: "main"
      paths:
        - "*.go"
        - "*.py"
---
apiVersion: autoindexer.kaito.sh/v1alpha1
kind: AutoIndexer
metadata:
  name: released-static
spec:
  ragEngine: ragengine
  indexName: released-static
  suspend: true
  dataSource:
    type: Static
    static:
      urls:
        - "https://files.example.org/a.pdf"
        - "https://files.example.org/b.pdf"
---
apiVersion: autoindexer.kaito.sh/v1alpha1
kind: AutoIndexer
metadata:
  name: released-static-cron
spec:
  ragEngine: ragengine
  indexName: released-static
  schedule: "* * * * *" # Every minute
  suspend: true
  dataSource:
    type: Static
    static:
      urls:
        - "https://files.example.org/c.pdf"
$yaml$ AS manifests \gset
SELECT * FROM rag_apply_manifest(:'manifests');
SELECT * FROM rag_apply_manifest(:'manifests');
SELECT name, kind, schedule, collection, spec FROM rag.sources WHERE name LIKE 'released-%'
    ORDER BY name;
-- rag_get_manifest returns the form of the proposal, which means the same
SELECT rag_get_manifest('AutoIndexer', 'released-code') #> '{spec,ragEngineRef}' AS engine,
       rag_get_manifest('AutoIndexer', 'released-code') #> '{spec,dataSource}' AS source;
SELECT * FROM rag_apply_manifest(rag_get_manifest('AutoIndexer', 'released-code')::text);

-- an error names the field that the manifest has
SELECT * FROM rag_apply_manifest(replace(:'manifests', 'https://git', 'ssh://git'));
:sqlstate
SELECT * FROM rag_apply_manifest(replace(:'manifests', 'ragEngine: ragengine',
    'ragEngine: nothing'));
:sqlstate
SELECT * FROM rag_apply_manifest('
{apiVersion: autoindexer.kaito.sh/v1alpha1, kind: AutoIndexer, metadata: {name: both},
  spec: {ragEngine: a, ragEngineRef: {name: a}, indexName: a,
 credentials: {type: WorkloadIdentity, workloadIdentityRef: {clientID: x}},
 dataSource: {type: Database, database: {language: Kusto, initialQuery: T}}}}');
:sqlstate
-- a pattern that matches nothing
SELECT * FROM rag_apply_manifest(replace(:'manifests', '*.go', 'docs//api'));
:sqlstate

SELECT bool_and(rag_delete_manifest('AutoIndexer', name))
    FROM rag.sources WHERE name LIKE 'released-%';
SELECT rag_drop_collection('released-git'), rag_drop_collection('released-code'),
    rag_drop_collection('released-static');
SELECT rag_delete_manifest('Retriever', 'ragengine');
