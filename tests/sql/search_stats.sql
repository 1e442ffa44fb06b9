-- rag.search_stats: what searches have done, by collection and mode.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SELECT rag_create_collection('counted');
SELECT count(*) FROM (VALUES
    ('The tide is high at noon.', 'tide'),
    ('The harbour closes at night.', 'harbour')) AS v (t, uri),
    LATERAL rag_add_document(t, uri, collection => 'counted');
SELECT rag_reset_search_stats();
SELECT count(*) FROM rag.search_stats;

SELECT count(*) FROM rag_search('when is the tide high?', 'counted');
SELECT count(*) FROM rag_search('tide', 'counted', top_k => 2);
SELECT count(*) FROM rag_search('is it the?', 'counted', top_k => 2);
SELECT count(*) FROM rag_search('tide', 'counted', mode => 'keyword', top_k => 1);
SELECT count(*) FROM rag_search('whale', 'counted', mode => 'keyword', top_k => 1);
SELECT rag_retrieve('{"knowledge_id": "counted", "query": "tide",
    "retrieval_setting": {"retrieval_mode": "vector", "top_k": 1}}') ->> 'total' AS total;
SELECT * FROM rag_search(NULL, 'counted', query_embedding => '[1,2,3]'); :sqlstate
SELECT collection, mode, calls, errors, rows, empty, fewer, degraded
FROM rag.search_stats ORDER BY 1, 2;
-- Times are those of the parts that a mode has.
SELECT mode, total_ms > 0 AND max_ms <= total_ms AS total,
       abs(mean_ms * (calls - errors) - total_ms) < 0.001 AS mean,
       embedding_total_ms > 0 AS embedding, vector_total_ms > 0 AS vector,
       keyword_total_ms > 0 AS keyword, fusion_total_ms > 0 AS fusion
FROM rag.search_stats ORDER BY 1;

-- Readers see the collections that they may read, and reset nothing.
CREATE ROLE regress_stats_reader;
GRANT rag_reader TO regress_stats_reader;
SET ROLE regress_stats_reader;
SELECT count(*) FROM rag.search_stats;
SELECT rag_reset_search_stats(); :sqlstate
RESET ROLE;
SELECT rag_grant_collection('counted', 'regress_stats_reader', 'read');
SET ROLE regress_stats_reader;
SELECT count(*) FROM rag.search_stats;
RESET ROLE;
SELECT rag_drop_collection('counted');
SELECT count(*) FROM rag.search_stats WHERE collection = 'counted';
DROP ROLE regress_stats_reader;
SELECT rag_reset_search_stats();
