-- Models on other servers: create, alter, drop, grant; what they refuse; who sees and uses them.
-- tests/t/117_models.pl calls them.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SELECT rag_create_secret('llm', 'a-key-of-a-test');
SELECT rag_create_secret('named', 'another-key-of-a-test', 'api');
SELECT rag_create_model('small', 'chat', 'openai', '{"base_url": "https://llm.example.org/v1",
    "model": "small-1", "api_key": {"secretRef": {"name": "llm"}}, "timeout": null}');
SELECT rag_create_model('team/local', 'chat', 'ollama', '{"base_url": "http://llm.local:11434",
    "model": "tiny", "promptTemplate": "Only with this: {context}", "tokensPerDay": 1000}');
SELECT rag_create_model('ranks', 'rerank', 'tei', '{"base_url": "https://tei.example.org"}');
SELECT rag_create_model('cohere', 'rerank', 'cohere', '{"base_url": "https://api.example.org/v2",
    "model": "rerank-1", "api_key": {"secretRef": {"name": "named", "key": "api"}},
    "candidates": 20}');
SELECT name, namespace, kind, provider, model, base_url, owner = current_user AS own, may_use,
       granted_to, calls, tokens
FROM rag.models ORDER BY namespace, name;
SELECT spec FROM rag.models WHERE name = 'small';
SELECT name, prompt_template FROM rag.models WHERE kind = 'chat' ORDER BY name;
SELECT * FROM rag.model_usage;

-- All faults at once.
SELECT rag_create_model('wrong', 'chat', 'openai', '{"base_url": "https://key:secret@h/v1?a=b",
    "api_key": "sk-live-123", "temperature": 3, "max_tokens": 0, "timeout": "1 min",
    "promptTemplate": "no place", "parameters": {"messages": [], "top_p": 1}, "candidates": 3,
    "basurl": 1, "tokensPerDay": -1, "prices": {"input": 1, "requests": -1}}'); :sqlstate
SELECT rag_create_model('wrong', 'chat', 'openai', '{}'); :sqlstate
SELECT rag_create_model('wrong', 'chat', 'openai', '[]'); :sqlstate
SELECT rag_create_model('wrong', 'rerank', 'tei', '{"base_url": "https://h", "model": "m",
    "max_tokens": 1}'); :sqlstate
SELECT rag_create_model('wrong', 'chat', 'cohere', '{}'); :sqlstate
SELECT rag_create_model('wrong', 'speech', 'openai', '{}'); :sqlstate
SELECT rag_create_model('wrong', 'embedding', 'openai', '{}'); :sqlstate
SELECT rag_create_model('Wrong', 'chat', 'openai', '{}'); :sqlstate
SELECT rag_create_model(NULL, 'chat', 'openai', '{}'); :sqlstate
SELECT rag_create_model('wrong', 'chat', 'openai', NULL); :sqlstate
SELECT rag_create_model('small', 'chat', 'openai', '{"base_url": "https://h", "model": "m"}');
:sqlstate
-- secrets that do not exist, or not with this key, or in another namespace
SELECT rag_create_model('wrong', 'chat', 'openai', '{"base_url": "https://h", "model": "m",
    "api_key": {"secretRef": {"name": "nowhere"}}}'); :sqlstate
SELECT rag_create_model('wrong', 'chat', 'openai', '{"base_url": "https://h", "model": "m",
    "api_key": {"secretRef": {"name": "named"}}}'); :sqlstate
SELECT rag_create_model('team/wrong', 'chat', 'openai', '{"base_url": "https://h", "model": "m",
    "api_key": {"secretRef": {"name": "llm"}}}'); :sqlstate

-- A secret stays while a model uses it.
SELECT rag_drop_secret('llm'); :sqlstate
SELECT rag_create_secret('named', 'x-of-a-test');
SELECT rag_drop_secret('named', key => 'api'); :sqlstate
DELETE FROM rag_internal.secret WHERE name = 'llm'; :sqlstate

-- Change and drop.
SELECT rag_alter_model('small', '{"base_url": "https://llm.example.org/v2", "model": "small-2"}');
SELECT model, base_url, spec ? 'api_key' AS has_key FROM rag.models WHERE name = 'small';
SELECT rag_drop_secret('llm');
SELECT rag_alter_model('small', '{"model": "small-2"}'); :sqlstate
SELECT rag_alter_model('nowhere', '{}'); :sqlstate
SELECT rag_drop_model('nowhere'); :sqlstate
SELECT rag_drop_model('nowhere', if_exists => true);
SELECT rag_drop_model('default/ranks');
SELECT count(*) FROM rag.models WHERE name = 'ranks';
SELECT rag_test_model('nowhere'); :sqlstate

-- Rights.
CREATE ROLE regress_model_owner IN ROLE rag_admin;
CREATE ROLE regress_model_admin IN ROLE rag_admin;
CREATE ROLE regress_model_reader IN ROLE rag_reader;
SET ROLE regress_model_owner;
SELECT rag_create_secret('mine', 'my-key-of-a-test');
SELECT rag_create_model('mine', 'chat', 'openai', '{"base_url": "https://h.example.org",
    "model": "m", "api_key": {"secretRef": {"name": "mine"}}}');
-- a secret of somebody else
SELECT rag_create_model('theirs', 'chat', 'openai', '{"base_url": "https://h.example.org",
    "model": "m", "api_key": {"secretRef": {"name": "named", "key": "api"}}}'); :sqlstate
SET ROLE regress_model_admin;
SELECT name, may_use FROM rag.models ORDER BY name;
SELECT rag_alter_model('mine', '{"base_url": "https://evil.example.org", "model": "m",
    "api_key": {"secretRef": {"name": "mine"}}}'); :sqlstate
SELECT rag_drop_model('mine'); :sqlstate
SELECT rag_grant_model('mine', 'regress_model_admin'); :sqlstate
SELECT rag_test_model('mine'); :sqlstate
SELECT rag_create_model('thief', 'chat', 'openai', '{"base_url": "https://evil.example.org",
    "model": "m", "api_key": {"secretRef": {"name": "mine"}}}'); :sqlstate
SET ROLE regress_model_reader;
SELECT name, may_use FROM rag.models;
SELECT rag_test_model('mine'); :sqlstate
SELECT rag_create_model('mine2', 'chat', 'openai', '{}'); :sqlstate
SELECT * FROM rag_internal.model; :sqlstate
SELECT * FROM rag_internal.model_grant; :sqlstate
SET ROLE regress_model_owner;
SELECT rag_grant_model('mine', 'regress_model_reader');
SELECT rag_grant_model('mine', 'regress_model_reader');
SELECT rag_grant_model('mine', 'regress_nobody'); :sqlstate
SET ROLE regress_model_reader;
SELECT name, may_use, granted_to FROM rag.models;
SELECT rag_alter_model('mine', '{}'); :sqlstate
SELECT rag_drop_model('mine'); :sqlstate
SET ROLE regress_model_owner;
SELECT rag_revoke_model('mine', 'regress_model_reader');
SELECT rag_grant_model('mine', 'public');
SELECT granted_to FROM rag.models WHERE name = 'mine';
SET ROLE regress_model_reader;
SELECT name, may_use FROM rag.models;
RESET ROLE;
-- another owner needs the secret
SELECT rag_alter_model('mine', owner => 'regress_model_admin'); :sqlstate
SELECT rag_alter_model('mine', '{"base_url": "https://h.example.org", "model": "m"}',
    owner => 'regress_model_admin');
SELECT owner FROM rag.models WHERE name = 'mine';
SET ROLE regress_model_owner;
SELECT rag_alter_model('mine', owner => 'regress_model_owner'); :sqlstate
RESET ROLE;
SELECT rag_drop_model(name) FROM rag.models ORDER BY name;
SELECT (SELECT count(*) FROM rag_internal.model) AS models, (SELECT count(*)
    FROM rag_internal.model_grant) AS grants;
SELECT rag_drop_secret('named'), rag_drop_secret('mine');
DROP ROLE regress_model_owner, regress_model_admin, regress_model_reader;
