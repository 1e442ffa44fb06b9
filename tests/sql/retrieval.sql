-- rag_retrieve, rag_dify_retrieval and rag_knowledge_search: the requests of applications. The
-- rules of filters are tested in crates/filter, those of requests in crates/contract.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

SELECT rag_create_collection('manual', external_id => 'AAA-BBB-CCC');
SELECT count(*) FROM rag_add_documents('[
    {"uri": "docs/dify.md", "title": "Dify", "category": "tech", "tags": ["ai", "platform"],
     "content": "Dify is a platform for applications with language models.",
     "metadata": {"year": 2023, "title": "Own title", "release": "2023-05-15"}},
    {"uri": "docs/docker.md", "title": "Docker", "category": "tech",
     "tags": ["docker", "production"], "content": "Docker runs applications in containers.",
     "metadata": {"year": "2013", "lang": "en"}},
    {"uri": "docs/old.md", "title": "Mainframes", "category": "tech", "tags": ["production"],
     "content": "Mainframes run applications since 1952.", "metadata": {"year": 1952, "lang": ""}},
    {"uri": "docs/tea.txt", "content": "Tea is brewed with hot water.", "document_type": "text",
     "category": "kitchen"}]', 'manual') AS added WHERE success;

CREATE FUNCTION pg_temp.uris(answer jsonb) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(uri, ' ' ORDER BY uri COLLATE "C"), '-')
    FROM (SELECT coalesce(r ->> 'source_file', r ->> 'uri', r -> 'metadata' ->> 'uri') AS uri
          FROM jsonb_array_elements(coalesce(answer -> 'records', answer -> 'results')) AS r)
         AS u $$;

-- rag_retrieve ------------------------------------------------------------

-- the request of the Retriever's design
\set request '{"knowledge_id": "AAA-BBB-CCC", "query": "What is Dify?", "retrieval_setting": {"top_k": 5, "score_threshold": 0.5, "retrieval_mode": "hybrid", "vector_weight": 0.7, "keyword_weight": 0.3}, "metadata_condition": {"operator": "and", "conditions": [{"key": "category", "operator": "eq", "value": "tech"}, {"key": "year", "operator": "gte", "value": 2020}]}}'
CREATE TEMP TABLE answer AS SELECT rag_retrieve(:'request') AS answer;
SELECT answer - 'records' AS answer, jsonb_array_length(answer -> 'records') AS records FROM answer;
SELECT r - '{doc_ref,score,metadata}'::text[] AS record,
    (r ->> 'score')::float8 BETWEEN 0.5 AND 1 AS scored,
    r ->> 'doc_ref' = d.document_id::text AS doc_ref
FROM answer, jsonb_array_elements(answer -> 'records') AS r, rag.documents d
WHERE d.collection = 'manual' AND d.uri = 'docs/dify.md';
-- the document's own metadata, and what is known of the chunk, which wins
SELECT jsonb_pretty((r -> 'metadata')
    - '{document_id,chunk_id,indexed_at,fetched_at}'::text[]) AS metadata
FROM answer, jsonb_array_elements(answer -> 'records') AS r;
SELECT r -> 'metadata' ->> 'document_id' = c.document_id::text AS document_id,
    r -> 'metadata' ->> 'chunk_id' = c.chunk_id::text AS chunk_id,
    (r -> 'metadata' ->> 'indexed_at')::timestamptz = c.indexed_at AS indexed_at,
    (r -> 'metadata' ->> 'fetched_at')::timestamptz = c.fetched_at AS fetched_at
FROM answer, jsonb_array_elements(answer -> 'records') AS r, rag.chunks c
WHERE c.collection = 'manual' AND c.uri = 'docs/dify.md';
-- keys that a document lacks are there, too
SELECT (r -> 'metadata') - '{document_id,chunk_id,indexed_at,fetched_at}'::text[] AS metadata
FROM jsonb_array_elements(rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "retrieval_setting": {"top_k": 1}}') -> 'records') AS r;

-- the same chunks with the same scores as rag_search, in the same order
SELECT (SELECT jsonb_agg(jsonb_build_object(
            'id', r -> 'metadata' ->> 'chunk_id', 'score', r -> 'score'))
        FROM jsonb_array_elements(rag_retrieve(
            '{"knowledge_id": "manual", "query": "containers"}') -> 'records') AS r)
    = (SELECT jsonb_agg(jsonb_build_object('id', chunk_id, 'score', score))
       FROM rag_search('containers', 'manual')) AS same;

-- by name; without settings; the mode that was asked for is not degraded
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea"}') - 'records' AS answer;
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea", "retriever_ref": null,
    "retrieval_setting": {"retrieval_mode": "vector", "top_k": 1, "vector_weight": 0.2},
    "metadata_condition": null}') - 'records' AS answer;
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "retrieval_setting": {"retrieval_mode": "keyword"}}') - 'records' AS answer;
-- nothing found
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "retrieval_setting": {"score_threshold": 1}}') AS answer;
SELECT rag_create_collection('empty');
SELECT rag_retrieve('{"knowledge_id": "empty", "query": "tea"}') AS answer;

-- any filter
SELECT pg_temp.uris(rag_retrieve('{"knowledge_id": "manual", "query": "a",
    "metadata_condition": {"category": "kitchen"}}')) AS containment,
    pg_temp.uris(rag_retrieve('{"knowledge_id": "manual", "query": "a",
    "metadata_condition": {"key": "year", "operator": "lt", "value": 2020}}')) AS condition,
    pg_temp.uris(rag_retrieve('{"knowledge_id": "manual", "query": "a", "metadata_condition":
    {"logical_operator": "or", "conditions": [
        {"name": ["tags"], "comparison_operator": "contains", "value": "docker"},
        {"key": "category", "operator": "NE", "value": "tech"}]}}')) AS groups;

-- the retriever of the knowledge base may be named
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea", "retriever_ref":
    {"name": "default", "namespace": "default"}}') ->> 'total' AS total;
SELECT action FROM rag_apply_manifest('{"apiVersion": "agent.wecode.io/v1", "kind": "Retriever",
    "metadata": {"name": "my-retriever", "namespace": "team-a"}, "spec": {}}');
SELECT rag_create_collection('theirs', retriever => 'team-a/my-retriever');
SELECT rag_retrieve('{"knowledge_id": "theirs", "query": "tea", "retriever_ref":
    {"name": "my-retriever", "namespace": "team-a"}}') ->> 'total' AS total;
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea", "retriever_ref":
    {"name": "my-retriever", "namespace": "team-a"}}'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea", "retriever_ref":
    {"name": "my-retriever"}}'); :sqlstate

-- mistakes
SELECT rag_retrieve(NULL); :sqlstate
SELECT rag_retrieve('[]'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "nowhere", "query": "tea"}'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "manual", "query": " "}'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea", "top_k": 5}'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "retrieval_setting": {"topk": 5}}'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "retrieval_setting": {"vector_weight": 0.9, "keyword_weight": 0.9}}'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "retrieval_setting": {"retrieval_mode": "semantic"}}'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea", "metadata_condition":
    {"conditions": [{"key": "year", "operator": "over", "value": 1}]}}'); :sqlstate
-- JSON that only PostgreSQL can hold
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "retrieval_setting": {"top_k": 1e400}}'); :sqlstate
SELECT rag_retrieve((repeat('[', 300) || repeat(']', 300))::jsonb); :sqlstate
-- if nothing is found, types are compared with those of the documents
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "metadata_condition": {"lang": true}}'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "metadata_condition": {"yaer": 2023}}') -> 'total' AS total;

-- a group without conditions restricts nothing, and a slip is named
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "metadata_condition": {"operator": "and", "conditions": []}}') ->> 'total' AS total;
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea",
    "metadata_condition": {"operator": "and", "condition": []}}'); :sqlstate
-- what is a NOTICE of rag_search is a warning of an answer
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea", "metadata_condition":
    {"yeer": 2023, "lang": "EN", "source": "web"}}') -> 'warnings' AS warnings;
SELECT success FROM rag_add_document('Own keys are about tea.', 'own',
    collection => 'manual',
    document_type => 'text',
    metadata => '{"source": "web", "page": 7, "lines": "x", "document_id": "mine"}');
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "own keys", "metadata_condition":
    {"source": "web"}}') -> 'warnings' AS warnings;
SELECT count(*) FROM rag_search('own keys', 'manual', filter => '{"source": "web"}');
SELECT count(*) FROM rag_search('own keys', 'manual', filter => '{"lang": "EN"}');
SELECT pg_temp.uris(rag_dify_retrieval('{"knowledge_id": "manual", "query": "own keys",
    "metadata_condition": {"conditions": [{"id": "1", "name": ["document_id"],
        "comparison_operator": "is", "value": "mine"}]}}')) AS own_id;
SELECT r #> '{metadata,source}' AS source, r #> '{metadata,page}' AS page,
    r #> '{metadata,lines}' AS lines, r #> '{metadata,document}' AS document
FROM jsonb_array_elements(rag_retrieve('{"knowledge_id": "manual", "query": "own keys",
    "metadata_condition": {"metadata.source": "web"}}') -> 'records') AS r;

-- several knowledge bases, and a text that is in both
SELECT rag_create_collection('second');
SELECT success FROM rag_add_document('Coffee is brewed with hot water.', 'coffee',
    collection => 'second', document_type => 'text');
SELECT success FROM rag_add_document('Tea is brewed with hot water.', 'copy',
    collection => 'second', document_type => 'text');
SELECT r ->> 'collection' AS collection, r ->> 'source_file' AS file,
    r #> '{metadata,also_at}' AS also_at
FROM jsonb_array_elements(rag_retrieve('{"knowledge_ids": ["manual", "second"],
    "query": "brewed with hot water", "retrieval_setting": {"top_k": 2}}') -> 'records') AS r
ORDER BY file;
SELECT rag_retrieve('{"knowledge_ids": ["manual", "nowhere"], "query": "tea"}'); :sqlstate

-- other texts for vectors and for words
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "x", "search_hints":
    {"keywords": ["mainframes"]}, "retrieval_setting": {"retrieval_mode": "keyword"}}')
    #>> '{records,0,source_file}' AS by_words;
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "mainframes", "search_hints":
    {"dense_query": "a hot drink"}, "retrieval_setting": {"retrieval_mode": "vector"}}')
    #>> '{records,0,source_file}' AS by_vector;

-- equal texts are one result, which names the other places
SELECT success FROM rag_add_document('Tea is brewed with hot water.', 'a/tea.txt',
    collection => 'manual', document_type => 'text', title => 'Copy');
SELECT uri, also_at FROM rag_search('hot water', 'manual', top_k => 2) ORDER BY rank LIMIT 1;
SELECT count(*) FROM rag_search('hot water', 'manual', top_k => 3);
SELECT array_agg(uri ORDER BY uri) FROM rag_search('hot water', 'manual', top_k => 2,
    settings => '{"distinct_text": false}');
SELECT rag_delete_document(document_id) FROM rag.documents
    WHERE collection = 'manual' AND uri IN ('a/tea.txt', 'own');
SELECT rag_drop_collection('second');

-- rag_dify_retrieval ------------------------------------------------------

-- as Dify's client sends it
\set request '{"retrieval_setting": {"top_k": 2, "score_threshold": 0.0}, "query": "What is Dify?", "knowledge_id": "AAA-BBB-CCC", "metadata_condition": null}'
CREATE TEMP TABLE dify AS SELECT rag_dify_retrieval(:'request') AS answer;
SELECT array_agg(k) AS members FROM dify, jsonb_object_keys(answer) AS k;
SELECT r - '{score,metadata}'::text[] AS record, jsonb_typeof(r -> 'score') AS score,
    r -> 'metadata' ? 'document_id' AS has_document_id
FROM dify, jsonb_array_elements(answer -> 'records') AS r;
-- no number of results, and a document without a title
SELECT jsonb_array_length(answer -> 'records') AS records, answer #>> '{records,0,title}' AS title,
    jsonb_typeof(answer #> '{records,0,metadata}') AS metadata
FROM rag_dify_retrieval('{"retrieval_setting": {"top_k": null, "score_threshold": 0.0},
    "query": "tea with hot water", "knowledge_id": "manual",
    "metadata_condition": {"logical_operator": "and", "conditions": null}}') AS answer;

CREATE FUNCTION pg_temp.found(name jsonb, operator text, value jsonb) RETURNS text
LANGUAGE sql AS $$
    SELECT CASE WHEN answer ? 'records' THEN pg_temp.uris(answer) ELSE answer::text END
    FROM rag_dify_retrieval(jsonb_build_object('knowledge_id', 'manual', 'query', 'a',
        'retrieval_setting', '{"top_k": 10, "score_threshold": 0.0}'::jsonb,
        'metadata_condition', jsonb_build_object('logical_operator', 'and', 'conditions',
            jsonb_build_array(jsonb_build_object(
                'name', name, 'comparison_operator', operator, 'value', value))))) AS answer $$;
-- every operator; a condition without a value is skipped
SELECT name, operator, value, pg_temp.found(name, operator, value) AS found
FROM jsonb_array_elements($$[
    ["category", "contains", "ech"], ["category", "not contains", "ech"],
    ["title", "start with", "D"], [["uri"], "end with", ".txt"],
    ["year", "is", "2013"], ["year", "is", "2013.0"], ["year", "is not", "2013"],
    ["year", "in", ["2013", 1952]], ["year", "in", "2013, 2023"], ["year", "not in", "2013,2023"],
    ["lang", "empty", null], ["lang", "not empty", null],
    ["year", "=", "2013"], ["year", "=", 2013.0], ["year", "≠", 2013],
    ["year", ">", "2000"], ["year", "<", 2013], ["year", "≥", 2013], ["year", "≤", "2013"],
    ["year", ">=", 2013], ["year", "<=", 2013],
    ["release", "before", "2023-06-01"], ["release", "after", "2023-06-01"],
    ["year", "before", 2000], ["year", "is", null],
    ["tags", "contains", "docker"], ["tags", "in", "ai,docker"]]$$) WITH ORDINALITY AS v (v, n),
    LATERAL (SELECT v -> 0 AS name, v ->> 1 AS operator, v -> 2 AS value) AS c ORDER BY n;
SELECT pg_temp.uris(rag_dify_retrieval('{"knowledge_id": "manual", "query": "a",
    "metadata_condition": {"logical_operator": "or", "conditions": [
        {"name": "year", "comparison_operator": "is", "value": null},
        {"name": ["category"], "comparison_operator": "is", "value": "kitchen"},
        {"name": ["lang"], "comparison_operator": "is", "value": "en"}]}}')) AS one_is_skipped;

-- mistakes are answers with a status, which ends with the transaction
BEGIN;
SELECT rag_dify_retrieval('{"knowledge_id": "nowhere", "query": "tea"}');
SELECT current_setting('response.status') AS status;
SELECT rag_dify_retrieval('{"knowledge_id": "manual"}');
SELECT current_setting('response.status') AS status;
COMMIT;
SELECT current_setting('response.status', true) AS status;
BEGIN READ ONLY;
SELECT rag_dify_retrieval(NULL);
SELECT current_setting('response.status') AS status;
ROLLBACK;
SELECT rag_dify_retrieval('{"knowledge_id": "manual", "query": "  "}');
SELECT rag_dify_retrieval('{"knowledge_id": "manual", "query": 1e400}');
SELECT rag_dify_retrieval('{"knowledge_id": "manual", "query": "tea", "retrieval_setting":
    {"top_k": 0}}');
SELECT rag_dify_retrieval('{"knowledge_id": "manual", "query": "tea", "retrieval_setting":
    {"top_k": 5, "retrieval_mode": "hybrid"}}');
SELECT rag_dify_retrieval('{"knowledge_id": "manual", "query": "tea", "metadata_condition":
    {"conditions": [{"name": "year", "comparison_operator": "gte", "value": 1}]}}');
SELECT rag_dify_retrieval('{"knowledge_id": "manual", "query": "tea", "metadata_condition":
    {"conditions": [{"name": "year", "comparison_operator": "before", "value": "soon"}]}}');
-- nothing found is an empty list, whatever the types
SELECT rag_dify_retrieval('{"knowledge_id": "manual", "query": "tea", "metadata_condition":
    {"conditions": [{"name": "lang", "comparison_operator": ">", "value": 1}]}}');

-- rag_knowledge_search ----------------------------------------------------

SELECT knowledge_id FROM rag_create_knowledge(1, 'Docker', 'https://example.org/docker',
    collection => 'default');
SELECT count(*) FROM rag_add_documents('[
    {"uri": "/docs/config.md", "title": "Configuration Guide",
     "content": "Database configuration is managed via environment variables.",
     "category": "Engineering", "tags": ["docker"], "knowledge_id": 3},
    {"uri": "/docs/deploy.md", "title": "Deployment",
     "content": "Deployment steps: build, push, restart.", "category": "Engineering/Operations",
     "tags": ["docker", "production"], "knowledge_id": 7},
    {"uri": "/docs/notes.md", "content": "Authentication of errors.", "document_type": "text",
     "category": "Engineering/Security"}]') AS added WHERE success;
-- the requests of agent_core
SELECT answer - 'results' AS answer, r - 'score' AS result,
    (r ->> 'score')::float8 BETWEEN 0 AND 1 AS scored
FROM rag_knowledge_search('{"query": "How to configure the database connection?", "n_results": 5,
    "category": "Engineering"}'::jsonb) AS answer, jsonb_array_elements(answer -> 'results') AS r;
SELECT pg_temp.uris(rag_knowledge_search('{"query": "authentication",
    "category": "Engineering/Security"}'::jsonb)) AS category,
    pg_temp.uris(rag_knowledge_search('{"query": "deployment steps",
    "tags": ["docker", "production"]}'::jsonb)) AS tags,
    pg_temp.uris(rag_knowledge_search('{"query": "deployment steps",
    "tags": ["docker", "production"], "tags_match": "any"}'::jsonb)) AS any_tag,
    pg_temp.uris(rag_knowledge_search('{"query": "error handling",
    "knowledge_ids": [1, 3, 7]}'::jsonb)) AS items,
    pg_temp.uris(rag_knowledge_search('{"query": "error handling",
    "knowledge_ids": []}'::jsonb)) AS no_items;
SELECT pg_temp.uris(rag_knowledge_search('{"query": "tea", "n_results": 1,
    "collection": "AAA-BBB-CCC"}'::jsonb)) AS collection,
    pg_temp.uris(rag_knowledge_search('{"query": "tea", "score_threshold": 0.3, "n_results": 20,
    "collection": "manual"}'::jsonb)) AS threshold;
-- a document without a title or an item
SELECT r - '{score,content}'::text[] AS result
FROM jsonb_array_elements(rag_knowledge_search('{"query": "authentication", "n_results": 1}'::jsonb)
    -> 'results') AS r;

-- with arguments
SELECT pg_temp.uris(rag_knowledge_search(q => 'database configuration', n => 5,
    category => 'Engineering')) AS all_arguments,
    rag_knowledge_search('database configuration', 1) ->> 'total_results' AS one,
    rag_knowledge_search('database configuration', NULL)
        = rag_knowledge_search('database configuration', 5) AS five_by_default;
-- a literal without a type is a query, not a request
SELECT rag_knowledge_search('{"query": "tea"}') ->> 'query' AS query;

-- mistakes
SELECT rag_knowledge_search(NULL::jsonb); :sqlstate
SELECT rag_knowledge_search('{"query": ""}'::jsonb); :sqlstate
SELECT rag_knowledge_search('{"query": "tea", "top_k": 5}'::jsonb); :sqlstate
SELECT rag_knowledge_search('{"query": "tea", "n_results": 21}'::jsonb); :sqlstate
SELECT rag_knowledge_search('{"query": "tea", "tags": "docker"}'::jsonb); :sqlstate
SELECT rag_knowledge_search('{"query": "tea", "tags_match": "some"}'::jsonb); :sqlstate
SELECT rag_knowledge_search('{"query": "tea", "knowledge_ids": ["x"]}'::jsonb); :sqlstate
SELECT rag_knowledge_search('{"query": "tea", "collection": "nowhere"}'::jsonb); :sqlstate
SELECT rag_knowledge_search(NULL::text); :sqlstate
SELECT rag_knowledge_search(' '::text); :sqlstate
SELECT rag_knowledge_search('tea', 0); :sqlstate

-- rights ------------------------------------------------------------------

-- a collection that the caller may not read is unknown, by name and by external id
CREATE ROLE regress_rag_app IN ROLE rag_reader;
SET ROLE regress_rag_app;
SELECT rag_retrieve('{"knowledge_id": "manual", "query": "tea"}'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "AAA-BBB-CCC", "query": "tea"}'); :sqlstate
SELECT rag_dify_retrieval('{"knowledge_id": "manual", "query": "tea"}') AS hidden,
    rag_dify_retrieval('{"knowledge_id": "nowhere", "query": "tea"}') AS unknown;
SELECT rag_knowledge_search('{"query": "tea", "collection": "manual"}'::jsonb); :sqlstate
RESET ROLE;
SELECT rag_grant_collection('manual', 'regress_rag_app', 'read');
-- nobody else can answer for a collection, by a name that is its external id
SELECT rag_create_collection('AAA-BBB-CCC');
-- policies hide rows before the best are chosen
CREATE POLICY regress_kitchen ON rag.chunks AS RESTRICTIVE FOR SELECT TO rag_reader
    USING (category = 'kitchen');
SET ROLE regress_rag_app;
SELECT pg_temp.uris(rag_retrieve('{"knowledge_id": "manual", "query": "What is Dify?",
    "retrieval_setting": {"top_k": 1}}')) AS retrieve,
    pg_temp.uris(rag_dify_retrieval('{"knowledge_id": "manual",
    "query": "What is Dify?"}')) AS dify,
    pg_temp.uris(rag_knowledge_search('{"query": "What is Dify?",
    "collection": "manual"}'::jsonb)) AS search;
RESET ROLE;
DROP POLICY regress_kitchen ON rag.chunks;
SELECT rag_revoke_collection('manual', 'regress_rag_app');
DROP ROLE regress_rag_app;

-- the score of rag_knowledge_search is the cosine similarity, whatever the order is by
SELECT (r ->> 'score')::float8 = s.vector_score AS same
FROM jsonb_array_elements(rag_knowledge_search(
         '{"query": "what is tea", "collection": "manual", "n_results": 1}'::jsonb) -> 'results')
         AS r,
     rag_search('what is tea', 'manual', top_k => 1) AS s;
SELECT rag_knowledge_search('{"query": "what is tea", "collection": "manual",
    "score_threshold": 1}'::jsonb) ->> 'total_results' AS none_is_equal;
SELECT rag_knowledge_search('{"query": "tea", "collection": "manual", "mode": "keyword"}'::jsonb)
    ->> 'total_results' AS by_words;
SELECT rag_knowledge_search('tea', category => '', collection => 'manual')
    #>> '{results,0,uri}' AS by_arguments;

SELECT rag_delete_document(document_id) FROM rag.documents
    WHERE collection = 'default' AND uri LIKE '/docs/%';
SELECT rag_drop_knowledge(1);
SELECT rag_drop_collection(name) FROM unnest(ARRAY['manual', 'empty', 'theirs']) AS name;
SELECT rag_delete_manifest('Retriever', 'team-a/my-retriever');
