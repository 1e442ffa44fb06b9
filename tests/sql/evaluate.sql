-- rag_evaluate: how good searches are, with queries whose relevant documents are known.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SELECT rag_create_collection('judged');
SELECT count(*) FROM (VALUES
    ('Bread is baked in the morning.', 'kitchen/bread.md'),
    ('Tea is brewed with boiling water.', 'kitchen/tea.md'),
    ('The engine needs oil of type XK-4711.', 'garage/oil.md'),
    ('Tyres are changed in October.', 'garage/tyres.md')) AS v (t, uri),
    LATERAL rag_add_document(t, uri, collection => 'judged');
\set queries '{"q1": "at what time do rolls come out of the oven?", "q2": "XK-4711", "q3": "how hot is the water for tea?", "q4": "not judged"}'
-- documents are named by uri, file name or id
SELECT jsonb_build_object('q1', '{"kitchen/bread.md": 2}'::jsonb,
    'q2', '{"oil.md": 1, "tea.md": 0}'::jsonb, 'q3', jsonb_build_object(document_id, 1)) AS qrels
FROM rag.documents WHERE uri = 'kitchen/tea.md' \gset

SELECT measure, value, low, high, other, queries
FROM rag_evaluate(:'queries', 'judged', :'qrels', top_k => 2);
SELECT query_id, query, recall, precision, ndcg, reciprocal_rank, average_precision, found,
       first_relevant
FROM rag_evaluate_queries(:'queries', 'judged', :'qrels', top_k => 2);

-- Two settings are compared by a paired bootstrap, whose numbers are always the same.
SELECT measure, round(value::numeric, 3) AS value, round(other::numeric, 3) AS other,
       round(difference::numeric, 3) AS difference, p_value BETWEEN 0 AND 1 AS has_p,
       difference_low <= difference AND difference <= difference_high AS has_interval
FROM rag_evaluate(:'queries', 'judged', :'qrels', '{"mode": "hybrid"}',
                  compare => '{"mode": "keyword", "top_k": 1}', top_k => 1, resamples => 100);
SELECT count(DISTINCT r) AS is_reproducible
FROM generate_series(1, 2) AS n, LATERAL (SELECT array_agg(e) AS r FROM rag_evaluate(:'queries',
    'judged', :'qrels', '{"mode": "vector"}', CASE WHEN n > 0 THEN '{}' END::jsonb) AS e) AS e;

-- mistakes
\set VERBOSITY terse
SELECT * FROM rag_evaluate('[]', 'judged', '{}'); :sqlstate
SELECT * FROM rag_evaluate('{"q": 5}', 'judged', '{"q": {"a": 1}}');
SELECT * FROM rag_evaluate('{"q": "a"}', 'judged', '{"p": {"a": 1}}');
SELECT * FROM rag_evaluate('{"q": "a"}', 'judged', '{"q": {"a": -1}}');
SELECT * FROM rag_evaluate('{"q": "a"}', 'judged', '{"q": {"a": "b"}}');
SELECT * FROM rag_evaluate('{"q": "a"}', 'judged', '{"q": {"a": 0}}');
SELECT * FROM rag_evaluate('{"q": "a"}', 'judged', '{"q": {"a": 1e400}}');
SELECT * FROM rag_evaluate(NULL, 'judged', '{}'); :sqlstate
SELECT * FROM rag_evaluate(:'queries', 'judged', :'qrels', '{"modus": "vector"}');
SELECT * FROM rag_evaluate(:'queries', 'judged', :'qrels', '{"mode": "magic"}');
SELECT * FROM rag_evaluate(:'queries', 'judged', :'qrels', top_k => 0);
SELECT * FROM rag_evaluate(:'queries', 'judged', :'qrels', resamples => 0);
SELECT * FROM rag_evaluate(:'queries', 'nowhere', :'qrels'); :sqlstate
SELECT rag_drop_collection('judged');
