-- A search of several collections: one ranking, as if the chunks were of one collection.
SET client_min_messages = notice;

CREATE TABLE texts AS SELECT * FROM (VALUES
    ('one', 'a', 'The pump X200 shows the error E-117 after the update.'),
    ('two', 'b', 'The brush of the robot is loud, and the customer wants another one.'),
    ('one', 'c', 'The garden of the hotel is watered in the morning.'),
    ('two', 'd', 'E-117: open the lid of the pump, and remove the filter.'),
    ('one', 'e', 'Invoices are sent on the first day of the month.'),
    ('two', 'f', 'The pump of the garden is loud in the morning.'),
    ('two', 'g', 'Invoices are sent on the first day of the month.'),
    ('one', 'h', 'How to clean a filter: water, no soap, and let it dry.')) t (part, uri, body);
SELECT rag_create_collection(name) FROM unnest(ARRAY['one', 'two', 'both', 'empty']) name;
SELECT count(*) FROM texts, LATERAL unnest(ARRAY[part, 'both']) name,
    LATERAL rag_add_document(body, uri, collection => name, metadata => '{"year": 2024}');

SELECT rank, collection, uri, also_at, round(score::numeric, 3) AS score
FROM rag_search('loud pump', ARRAY['one', 'two', 'empty'], 3);
SELECT rank, collection, uri, vector_rank, keyword_rank
FROM rag_search('E-117 pump', collection => ARRAY['two', 'one', 'two'], top_k => 3);

-- Scores and ranks are those of one collection. Where scores are equal, ids decide on the order,
-- and these are others.
CREATE FUNCTION differences(q text, k int, m text, s jsonb, f jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$
    WITH several AS (
        SELECT *, row_number() OVER (PARTITION BY content ORDER BY rank) AS copy
        FROM rag_search(q, ARRAY['one', 'two'], k, m, settings => s, filter => f)),
    one AS (
        SELECT *, row_number() OVER (PARTITION BY content ORDER BY rank) AS copy
        FROM rag_search(q, 'both', k, m, settings => s, filter => f))
    SELECT (SELECT count(*) FROM several a FULL JOIN one b USING (rank)
            WHERE abs(a.score - b.score) < 1e-9 IS NOT TRUE)
        + (SELECT count(*) FROM several a FULL JOIN one b USING (content, copy)
            WHERE k = 20 AND NOT s ? 'offset' AND (a.score, coalesce(a.vector_score, -1),
                    coalesce(a.keyword_score, -1)) IS DISTINCT FROM
                (b.score, coalesce(b.vector_score, -1), coalesce(b.keyword_score, -1)))
        + (SELECT count(*) FROM (SELECT vector_rank FROM several EXCEPT SELECT vector_rank FROM one)
            v WHERE k = 20)
        + (SELECT count(*) FROM (SELECT keyword_rank FROM several
            EXCEPT SELECT keyword_rank FROM one) v WHERE k = 20) $$;
SELECT m, count(*) AS searches, sum(differences(q, k, m, s)) AS differences
FROM unnest(ARRAY['loud pump', 'E-117', 'when are invoices sent?', '"the pump"', 'garden -loud',
        '+filter water', 'pum*', 'nothing of this xylophone']) q,
    unnest(ARRAY[1, 3, 20]) k, unnest(ARRAY['hybrid', 'vector', 'keyword']) m,
    unnest(ARRAY['{}', '{"offset": 2}', '{"score_threshold": 0.3}', '{"distinct_text": false}',
        '{"fusion": "rrf", "distinct_text": false}', '{"vector_weight": 0.5}']::jsonb[]) s
WHERE (m = 'hybrid' OR NOT s ?| ARRAY['fusion', 'vector_weight'])
    -- ranks of equal keyword scores depend on the ids, and so do scores that are made of ranks
    AND NOT (s ? 'fusion' AND q IN ('"the pump"', 'pum*'))
GROUP BY m ORDER BY m;
SELECT q, differences(q, 3, 'hybrid', '{"mmr_lambda": 0.5}') AS diverse,
    differences(q, 5, 'hybrid', NULL, '{"year": 2024}') AS filtered,
    differences(q, 5, 'hybrid', NULL, '{"year": 2023}') AS nothing
FROM unnest(ARRAY['loud pump', 'E-117']) q;

-- Every row has the documents of its own collection around it, and a document its number of chunks.
SELECT rag_create_collection('long', chunk_size => 60, chunk_overlap => 0);
SELECT success FROM rag_add_document('The lid opens. The pump stops here and the filter is '
    || 'removed. The pump starts again when the lid is closed and locked. Nothing else is done.',
    'l',
    collection => 'long');
SELECT rank, collection, uri, content FROM rag_search('the pump starts again', ARRAY['long', 'two'],
    3, settings => '{"neighbours": 1, "per_document": 1}');

-- Patterns stand for what the caller may read.
SELECT DISTINCT collection FROM rag_search('pump', '*o*', 20) ORDER BY collection;
SELECT DISTINCT collection FROM rag_search('pump', ARRAY['t*', 'long'], 20) ORDER BY collection;
CREATE ROLE regress_several;
GRANT rag_reader TO regress_several;
SELECT rag_grant_collection('one', 'regress_several', 'read');
CREATE ROLE regress_other;
SELECT rag_grant_collection('two', 'regress_other', 'read');
SET ROLE regress_several;
SELECT DISTINCT collection FROM rag_search('pump', '*', 20) ORDER BY collection;
SELECT count(*) FROM rag_search('pump', ARRAY['one', 'two']);
SELECT count(*) FROM rag_search('pump', 'tw*');
RESET ROLE;

-- A policy hides chunks of one collection, also from the other.
SELECT rag_grant_collection('two', 'regress_several', 'read');
CREATE POLICY no_f ON rag.chunks AS RESTRICTIVE TO regress_several USING (uri <> 'f');
SET ROLE regress_several;
SELECT rank, collection, uri FROM rag_search('loud pump in the morning', ARRAY['one', 'two'], 3);
RESET ROLE;
DROP POLICY no_f ON rag.chunks;

-- A collection in another language has its own words.
SELECT rag_create_collection('deutsch', text_config => 'german');
SELECT success FROM rag_add_document('Die Pumpen sind laut, sagt die Kundin.', 'x',
    collection => 'deutsch');
SELECT collection, uri, keyword_score > 0 AS has_words
FROM rag_search('laute Pumpe', ARRAY['one', 'deutsch'], 2);

-- A reranker sorts the rows of all collections.
SELECT rank, collection, uri
FROM rag_search('loud pump', ARRAY['one', 'two'], 2, rerank => 'late', settings => '{"offset": 1}');
SELECT rank, title, location FROM rag_find('loud pump', ARRAY['one', 'two'], 2);
SELECT rank, title FROM rag_find('loud pump', '*', 1);

-- what is refused
SELECT rag_search('pump', ARRAY[]::text[]);
SELECT rag_search('pump', NULL::text[]);
SELECT rag_search('pump', ARRAY['one', NULL]);
SELECT rag_search('pump', ARRAY['one', 'nowhere']);
SELECT rag_search('pump', 'none*');
SELECT rag_search('pump', '%');
SELECT rag_search(NULL, ARRAY['one', 'two']);
SELECT rag_search('pump', ARRAY['one', 'two'], mode => 'fast');
SELECT rag_search('pump', 5);

SELECT count(rag_drop_collection(name)) FROM unnest(ARRAY['one', 'two', 'both', 'empty', 'long',
    'deutsch']) name;
DROP TABLE texts;
DROP FUNCTION differences;
DROP ROLE regress_several, regress_other;
