-- Embedding models of the registry: folders on the server, prefixes, collections that name a model,
-- what is refused, and rights. tests/t/126_embedding_models.pl has models on other servers.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SELECT setting || '/rag/models/all-MiniLM-L6-v2' AS folder
FROM pg_config WHERE name = 'SHAREDIR' \gset
SELECT rag_create_model('mini', 'embedding', 'local', jsonb_build_object('path', :'folder'));
SELECT rag_create_model('e5', 'embedding', 'local', jsonb_build_object('path', :'folder',
    'queryPrefix', 'query: ', 'passagePrefix', 'passage: '));
SELECT rag_create_model('first', 'embedding', 'local', jsonb_build_object('path', :'folder',
    'pooling', 'cls', 'normalize', false, 'maxTokens', 64));
SELECT rag_create_model('far', 'embedding', 'openai', '{"base_url": "https://llm.example.org/v1",
    "model": "small", "dimensions": 256, "batch": 16, "concurrency": 2, "maxTokens": 8191}');
SELECT name, kind, provider, model, base_url, path = :'folder' AS path, length(fingerprint) AS hash,
       dimensions, used_by
FROM rag.models ORDER BY name;
SELECT count(DISTINCT fingerprint) FROM rag.models;
SELECT name, success, message, t.dimensions FROM rag.models, rag_test_model(name) t
WHERE provider = 'local' ORDER BY name;

-- A model embeds as its folder says, with its prefixes.
SELECT rag_embed('hello', 'mini') = rag_embed('hello') AS plain,
       rag_embed('hello', 'e5') = rag_embed('query: hello') AS query,
       rag_embed('hello', 'e5', 'query') = rag_embed('hello', 'e5') AS default_purpose,
       rag_embed('hello', 'e5', purpose => 'passage') = rag_embed('passage: hello') AS passage,
       rag_embed(ARRAY['a', 'b'], 'e5', 'passage') = rag_embed(ARRAY['passage: a', 'passage: b'])
           AS several;
SELECT rag_embed('hello', 'first') <> rag_embed('hello') AS other_pooling,
       round(rag_functions.vector_norm(rag_embed('hello', 'mini'))::numeric, 4) AS normalized,
       round(rag_functions.vector_norm(rag_embed('hello', 'first'))::numeric, 4) <> 1
           AS as_it_is;
SELECT rag_embed('hello', 'e5', 'answer'); :sqlstate
SELECT rag_embed('hello', 'nowhere'); :sqlstate

-- Two collections with two models.
SELECT rag_create_collection('plain');
SELECT rag_create_collection('prefixed', model => 'e5');
SELECT rag_create_retriever('short', '{"embedding": {"model": "first"}}');
SELECT rag_create_collection('pooled', 'short');
SELECT rag_create_collection('own', 'short', model => 'default/mini');
SELECT action, chunks_indexed
FROM rag_add_document('Keys are rotated each month.', 'keys', collection => 'plain');
SELECT action, chunks_indexed
FROM rag_add_document('Keys are rotated each month.', 'keys', collection => 'prefixed');
SELECT action, chunks_indexed
FROM rag_add_document('Keys are rotated each month.', 'keys', collection => 'pooled');
SELECT action, chunks_indexed
FROM rag_add_document('Keys are rotated each month.', 'keys', collection => 'own');
SELECT name, embedding_model, retriever, model, embedding_dimension FROM rag.collections
WHERE name <> 'default' ORDER BY name;
SELECT c.collection, c.embedding = rag_embed(e.text, e.model) AS own_model
FROM (VALUES ('plain', NULL, 'Keys are rotated each month.'),
             ('prefixed', NULL, 'passage: Keys are rotated each month.'),
             ('pooled', 'first', 'Keys are rotated each month.'),
             ('own', 'mini', 'Keys are rotated each month.')) AS e (collection, model, text)
     JOIN rag.chunks c USING (collection)
ORDER BY 1;
SELECT collection, (SELECT round((1 - (q.question <=> c.embedding))::numeric, 4)) =
       (SELECT round(h.vector_score::numeric, 4)
        FROM rag_search('when do keys change?', c.collection, mode => 'vector') h) AS own_query
FROM rag.chunks c JOIN (VALUES
    ('plain', rag_embed('when do keys change?')),
    ('prefixed', rag_embed('query: when do keys change?')),
    ('pooled', rag_embed('when do keys change?', 'first'))) AS q (collection, question)
    USING (collection)
ORDER BY 1;
SELECT name, used_by FROM rag.models WHERE used_by <> '{}' ORDER BY name;
SELECT severity, object, problem FROM rag_status() WHERE problem LIKE '%model%';

-- Prefixes take room in chunks.
SELECT rag_create_model('wordy', 'embedding', 'local', jsonb_build_object('path', :'folder',
    'passagePrefix', repeat('so it is ', 40), 'maxTokens', 200));
SELECT rag_create_collection('narrow', chunk_size => 100, chunk_overlap => 0,
    chunk_unit => 'tokens', model => 'wordy');
SELECT action
FROM rag_add_document(repeat('a rather long text. ', 100), 'long', collection => 'narrow');
SELECT max(array_length(regexp_split_to_array(content, '[ .]+'), 1)) < 80 AS have_room
FROM rag.chunks WHERE collection = 'narrow';

-- What vectors depend on stays while embeddings of it are stored.
SELECT rag_alter_model('e5', jsonb_build_object('path', :'folder', 'queryPrefix', 'ask: ',
    'passagePrefix', 'passage: '));
SELECT rag_embed('hello', 'e5') = rag_embed('ask: hello') AS changed;
SELECT rag_alter_model('e5', jsonb_build_object('path', :'folder')); :sqlstate
SELECT rag_drop_model('e5'); :sqlstate
SELECT rag_drop_model('first'); :sqlstate
SELECT rag_drop_collection('pooled'), rag_drop_collection('prefixed'), rag_drop_collection('own');
SELECT rag_drop_model('first'); :sqlstate
SELECT rag_drop_retriever('short');
SELECT rag_drop_model('first'), rag_drop_model('e5');

-- Wrong definitions.
SELECT rag_create_model('wrong', 'embedding', 'local', '{"path": "models", "pooling": "max",
    "dimensions": -1, "batch": 3, "base_url": "https://h", "normalize": "yes", "maxTokens": 4,
    "queryPrefix": 7}'); :sqlstate
SELECT rag_create_model('wrong', 'embedding', 'local', '{}'); :sqlstate
SELECT rag_create_model('wrong', 'embedding', 'openai', '{"pooling": "cls", "batch": 0,
    "concurrency": 100, "tokenizer": "here", "timeout": 0}'); :sqlstate
SELECT rag_create_model('wrong', 'embedding', 'local', '{"path": "/nowhere/at/all"}'); :sqlstate
SELECT rag_create_model('wrong', 'embedding', 'local', jsonb_build_object('path', :'folder',
    'dimensions', 128)); :sqlstate
SELECT rag_create_model('wrong', 'embedding', 'local', jsonb_build_object('path', :'folder',
    'dimensions', 1000)); :sqlstate
SELECT rag_create_model('wrong', 'embedding', 'local', jsonb_build_object('path', :'folder',
    'maxTokens', 1000)); :sqlstate
SELECT rag_create_model('all-minilm-l6-v2', 'embedding', 'local',
    jsonb_build_object('path', :'folder'));
SELECT rag_drop_model('all-minilm-l6-v2');
SELECT rag_create_model('talk', 'chat', 'openai', '{"base_url": "https://h", "model": "m"}');
SELECT rag_create_collection('wrong', model => 'talk'); :sqlstate
SELECT rag_create_collection('wrong', model => 'nowhere'); :sqlstate
SELECT rag_create_retriever('wrong', '{"embedding": {"model": "talk"}}'); :sqlstate
SELECT rag_create_retriever('wrong', '{"embedding": {"model": "nowhere"}}'); :sqlstate
SELECT rag_embed('hello', 'talk'); :sqlstate
SELECT count(*) FROM rag.models WHERE name = 'wrong';

-- Rights: a folder needs the right to read files of the server. A collection needs the right to use
-- its model when it is created, and nobody else needs it afterwards.
CREATE ROLE regress_embed_admin IN ROLE rag_admin;
CREATE ROLE regress_embed_writer IN ROLE rag_admin;
CREATE ROLE regress_embed_reader IN ROLE rag_reader;
SET ROLE regress_embed_admin;
SELECT rag_create_model('theirs', 'embedding', 'local', jsonb_build_object('path', :'folder'));
:sqlstate
SELECT rag_create_model('theirs', 'embedding', 'openai', '{"base_url": "https://h.example.org",
    "model": "m", "tokenizer": "/srv"}'); :sqlstate
SET ROLE regress_embed_writer;
SELECT rag_create_collection('work', model => 'mini'); :sqlstate
SELECT rag_embed('hello', 'mini'); :sqlstate
-- A manifest creates the collection that it names, with the same right.
RESET ROLE;
SELECT rag_create_retriever('minis', '{"embedding": {"model": "mini"}}');
SET ROLE regress_embed_writer;
SELECT * FROM rag_apply_manifest('{"apiVersion": "kaito.ai/v1alpha1", "kind": "AutoIndexer",
    "metadata": {"name": "crept"}, "spec": {"ragEngineRef": {"name": "minis"},
    "indexName": "crept", "dataSource": {"type": "Static",
    "static": {"endpoints": ["https://example.org/a.md"]}}}}'); :sqlstate
SELECT count(*) FROM rag.collections WHERE name = 'crept';
RESET ROLE;
SELECT rag_drop_retriever('minis');
SELECT rag_grant_model('mini', 'regress_embed_writer');
SET ROLE regress_embed_writer;
SELECT rag_create_collection('work', model => 'mini');
SELECT name, used_by FROM rag.models;
RESET ROLE;
SELECT rag_revoke_model('mini', 'regress_embed_writer');
SET ROLE regress_embed_writer;
SELECT action FROM rag_add_document('Bread is baked.', 'bread', collection => 'work');
SELECT rag_grant_collection('work', 'regress_embed_reader', 'read');
SELECT rag_embed('hello', 'mini'); :sqlstate
SET ROLE regress_embed_reader;
SELECT content FROM rag_search('how is bread made?', 'work', mode => 'vector');
SELECT name FROM rag.models;
RESET ROLE;
SELECT rag_alter_model('mini', owner => 'regress_embed_admin'); :sqlstate
SELECT rag_drop_collection('work'), rag_drop_collection('narrow'), rag_drop_collection('plain');
SELECT rag_drop_model(name) FROM rag.models ORDER BY name;
DROP ROLE regress_embed_admin, regress_embed_writer, regress_embed_reader;
