-- Fills a database for scripts/release.sh, which keeps a dump of it for tests of upgrades: rows in
-- every table that dumps contain, partitions, grants, both kinds of indexes.
SET client_min_messages = warning;
CREATE ROLE upgrade_reader;
GRANT rag_reader TO upgrade_reader;
CREATE ROLE upgrade_admin;
GRANT rag_admin TO upgrade_admin;

SELECT rag_create_secret('key', 'the value');
SELECT rag_create_model('small', 'chat', 'openai',
    '{"base_url": "https://llm.example.org/v1", "model": "small-1",
      "api_key": {"secretRef": {"name": "key"}}, "tokensPerDay": 500000}');
SELECT rag_grant_model('small', 'upgrade_admin');
SELECT rag_create_retriever('shared', '{"storageConfig": {"type": "hnsw", "metric": "l2",
    "indexStrategy": {"mode": "fixed"}}}');
SELECT rag_create_collection('first', retriever => 'shared', chunk_size => 300);
SELECT rag_create_collection('second', retriever => 'shared', external_id => 'kb-2');
SELECT rag_create_collection('third', text_config => 'simple');
SELECT rag_grant_collection('first', 'upgrade_reader', 'read');
SELECT rag_grant_collection('second', 'public', 'read');

CREATE TABLE article (id integer PRIMARY KEY, title text, body text, team text);
INSERT INTO article
SELECT i, 'Article ' || i, format('Word%s is baked on day %s. Nobody else does it.', i, i % 7),
    CASE WHEN i % 2 = 0 THEN 'bakers' ELSE 'millers' END
FROM generate_series(1, 12) i;
SELECT rag_create_source('articles', 'table',
    '{"relation": "article", "titleColumn": "title", "contentColumns": ["body"],
      "metadataColumns": ["team"], "sync": "trigger"}', schedule => '@yearly');
SELECT rag_create_source('folder', 'folder', '{"path": "/nonexistent/documents"}', 'first',
    schedule => '0 3 * * 1', suspend => true);
SELECT rag_sync('articles');

SELECT rag_add_document('Rolls are baked at noon.', 'rolls', 'Rolls', category => 'oven',
    tags => '{a,b}', metadata => '{"k": ["v"]}', collection => 'first');
SELECT rag_add_document('Cakes are baked at night.', 'cakes', collection => 'second');
SELECT rag_add_document('Milk is fetched in the evening.', 'milk', collection => 'third');
SELECT rag_create_knowledge(8, 'Nothing', '/nonexistent/file');
SELECT rag_enqueue_document('Tea is made at five.', 'tea', collection => 'second');
SELECT length(rag_create_api_key('website', role => 'upgrade_reader')) > 0 AS has_key;
SELECT count(*) FROM rag_search('rolls', 'first');

CREATE TABLE item (id integer, body text, vector rag_types.vector(3));
INSERT INTO item
SELECT i, 'text ' || i, ARRAY[sin(i), cos(i), 1]::real[] FROM generate_series(1, 300) i;
CREATE INDEX item_vector ON item USING rag_hnsw (vector vector_l2_ops);
CREATE INDEX item_body ON item USING rag_bm25 (body) WITH (text_config = 'english');
