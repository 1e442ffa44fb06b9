-- The query decides how much words and meaning count in mode hybrid.
\set VERBOSITY terse
SELECT rag_create_collection('tickets');
SELECT count(*) FROM (VALUES
    ('a', 'open', 'CleanBot R5: the display shows E-117 after the update. See net.retry.max.'),
    ('b', 'open', 'CleanBot R5: the brush is loud. The customer wants another one.'),
    ('c', 'closed', 'AquaPump X200: the display shows E-117. Customer 20417 waits.'),
    ('d', 'closed', 'The garden of the hotel is watered in the morning.')) AS v (uri, state, text),
    LATERAL rag_add_document(text, uri, category => state, collection => 'tickets');
CREATE FUNCTION pg_temp.fusion(query text, settings jsonb DEFAULT NULL, filter jsonb DEFAULT NULL)
RETURNS text LANGUAGE sql AS $$
    SELECT regexp_replace(detail, '; candidates.*', '')
    FROM rag_explain_search(query, 'tickets', settings => settings, filter => filter)
    WHERE step = 'fusion'
$$;

-- Prose has the weights of prose, however short it is.
SELECT q, pg_temp.fusion(q)
FROM unnest(ARRAY['which garden is watered?', 'brush', 'hotel garden']) AS q;
-- Codes count the more, the more of the words they are, if the best hit has these and the others.
SELECT q, pg_temp.fusion(q)
FROM unnest(ARRAY['E-117', 'e117 CleanBot', 'CleanBot R5 E117', 'net.retry.max', 'net-retry-max',
                  '20417', 'customer 20417', 'what does E-117 mean on the CleanBot R5?',
                  'the brush of the pump X200 is loud in the morning']) AS q;
-- So do words in quotes.
SELECT q, pg_temp.fusion(q)
FROM unnest(ARRAY['"brush is loud"', '"loud brush"', '"loud" brush', '5" brush']) AS q;
-- Codes that no chunk has are no reason. A text with the parts of a code does not have the code.
SELECT q, pg_temp.fusion(q)
FROM unnest(ARRAY['E-118 CleanBot', 'retry.net', 'XK-4711', '"xylophone"']) AS q;

-- The score of a row is the sum that the explanation shows.
SELECT bool_and(abs(score - (0.3 * vector_score + 0.7 * keyword_score)) < 1e-9) AS is_sum, count(*)
FROM rag_search('CleanBot E-117', 'tickets');
-- Weights that are given win, and so do those of a retriever.
SELECT s, pg_temp.fusion('CleanBot E-117', s)
FROM unnest(ARRAY['{"vector_weight": 0.75}', '{"keyword_weight": 0.25}', '{"fusion": "rrf"}',
                  '{"per_document": 1}', '{"mmr_lambda": 0.5}']::jsonb[]) AS s;
SELECT step, detail FROM rag_explain_search('CleanBot E-117', 'tickets',
    settings => '{"vector_weight": 0.75}') WHERE step = 'request';
SELECT step, detail FROM rag_explain_search('CleanBot E-117', 'tickets') WHERE step = 'request';
SELECT rag_create_retriever('even', '{"retrievalMethods": {"vector": {"defaultWeight": 0.5},
    "keyword": {}, "hybrid": {}}}');
SELECT rag_create_collection('even', retriever => 'even');
SELECT success FROM rag_add_document('CleanBot E-117', 'a', collection => 'even');
SELECT step, detail FROM rag_explain_search('CleanBot E-117', 'even')
WHERE step IN ('request', 'fusion');
-- A search for more rows, or past the filter's statement, has the same weights.
SELECT DISTINCT pg_temp.fusion('CleanBot E-117', jsonb_build_object('top_k', k))
FROM unnest(ARRAY[1, 5, 1000]) AS k;
SELECT pg_temp.fusion('CleanBot E-117', filter => '{"category": "open"}');
-- What a filter leaves decides: here it has no code.
SELECT pg_temp.fusion('brush E-117', filter => '{"uri": "b"}');

-- A policy is as a filter: chunks that it hides do not show in the weights.
CREATE ROLE regress_weights;
GRANT rag_reader TO regress_weights;
SELECT rag_grant_collection('tickets', 'regress_weights', 'read');
CREATE POLICY only_b ON rag.chunks AS RESTRICTIVE TO regress_weights USING (uri = 'b');
SET ROLE regress_weights;
SELECT q, detail FROM unnest(ARRAY['CleanBot E-117', 'CleanBot XK-4711', 'CleanBot brush E-117',
    'CleanBot brush XK-4711']) AS q, rag_explain_search(q, 'tickets') WHERE step = 'fusion';
RESET ROLE;
DROP POLICY only_b ON rag.chunks;

-- A collection of several languages
SELECT rag_create_collection('languages', text_config => 'auto');
SELECT count(*) FROM (VALUES
    ('en', 'The display of the pump shows the error E-117, and the customer has to wait for it.'),
    ('de', 'Die Anzeige der Pumpe meldet den Fehler E-117, und der Kunde muss darauf warten.'),
    ('fr', 'L''écran de la pompe affiche l''erreur E-118, et le client doit attendre longtemps.'))
    AS v (uri, text), LATERAL rag_add_document(text, uri, collection => 'languages');
SELECT q, regexp_replace(detail, '; candidates.*', '') AS fusion
FROM unnest(ARRAY['E-117 Pumpe', 'e118', 'la pompe affiche une erreur']) AS q,
     rag_explain_search(q, 'languages') WHERE step = 'fusion';
SELECT rag_drop_collection(c) FROM unnest(ARRAY['tickets', 'even', 'languages']) AS c;
SELECT rag_drop_retriever('even');
DROP ROLE regress_weights;
