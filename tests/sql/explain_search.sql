-- rag_explain_search: what the parts of a search did.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SELECT rag_create_collection('explained');
SELECT count(*) FROM (VALUES
    ('tide', 'sea', 'The tide is high at noon.'),
    ('harbour', 'sea', 'The harbour closes at night.'),
    ('bread', 'food', 'Bread is baked at night.')) AS v (uri, category, t),
    LATERAL rag_add_document(t, uri, category => category, collection => 'explained');
\set step 'step, detail, rows, pages > 0 AS pages, milliseconds >= 0 AS time'
SELECT :step FROM rag_explain_search('harbour at night', 'explained');
SELECT :step FROM rag_explain_search('harbour at night', 'explained', mode => 'vector', top_k => 1);
SELECT :step FROM rag_explain_search('harbour night', 'explained', mode => 'keyword',
    settings => '{"score_threshold": 0.9, "per_document": 1, "neighbours": 2}');
SELECT :step FROM rag_explain_search('night', 'explained', filter => '{"category": "sea"}',
    settings => '{"fusion": "rrf", "mmr_lambda": 0.5}');
SELECT :step FROM rag_explain_search('is it the', 'explained',
    query_embedding => (SELECT embedding FROM rag.chunks
                        WHERE collection = 'explained' AND uri = 'tide'));
-- It finds as many rows as the search, and is not counted.
SELECT rag_reset_search_stats();
SELECT e.rows, (SELECT count(*) FROM rag_search('night', 'explained'))
FROM rag_explain_search('night', 'explained') AS e WHERE step = 'total';
SELECT mode, calls FROM rag.search_stats WHERE collection = 'explained';

-- A role from which a policy hides chunks does not learn which words these have.
CREATE ROLE regress_explain;
GRANT rag_reader TO regress_explain;
SELECT rag_grant_collection('explained', 'regress_explain', 'read');
CREATE POLICY only_food ON rag.chunks AS RESTRICTIVE TO regress_explain
    USING (category = 'food');
SET ROLE regress_explain;
SELECT step, detail, rows FROM rag_explain_search('harbour', 'explained') WHERE step <> 'embedding';
SELECT step, detail, rows FROM rag_explain_search('harbour', 'explained', mode => 'keyword');
RESET ROLE;
DROP POLICY only_food ON rag.chunks;
SELECT rag_revoke_collection('explained', 'regress_explain', NULL);
SET ROLE regress_explain;
SELECT * FROM rag_explain_search('harbour', 'explained'); :sqlstate
RESET ROLE;
DROP ROLE regress_explain;
-- Mistakes.
SELECT * FROM rag_explain_search('harbour', 'explained', top_k => 0); :sqlstate
SELECT * FROM rag_explain_search('harbour', 'explained', mode => 'magic'); :sqlstate
SELECT rag_drop_collection('explained');
