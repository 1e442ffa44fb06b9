-- The query language in searches of collections: by words, and by meaning at the same time.
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT rag_create_collection('fleet', text_config => 'english');
SELECT count(*) FROM (VALUES
    ('The gearbox of the truck needs new oil every 60,000 kilometres.', 'truck', 'Lorry manual'),
    ('Error code XK-4711 means that the oil pressure sensor has failed.', 'codes', 'Error codes'),
    ('Vehicles are washed on Fridays. The keys hang in the office.', 'wash', 'Cleaning'),
    ('A bus carries at most fifty passengers.', 'bus', 'Buses')) AS v (text, uri, title),
    LATERAL rag_add_document(text, uri, title, collection => 'fleet');

-- by words
SELECT q, (SELECT string_agg(uri, ' ' ORDER BY rank) FROM rag_search(q, 'fleet', mode => 'keyword'))
FROM unnest(ARRAY['oil', '"oil pressure"', '"pressure oil"', '"pressure oil"~2', 'oil -gearbox',
    '+oil keys', 'passenger* OR keys', 'kilometers~', '"new oil" OR "fifty passengers"',
    'oil -XK-4711', 'oil OR -keys']) q;
-- what is required and excluded also holds for what is found by meaning
SELECT q, (SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag_search(q, 'fleet'))
FROM unnest(ARRAY['oil', '"oil pressure"', 'vehicle -gearbox', '+oil vehicle', 'vehicle -oil -bus'])
    q;
-- the query is embedded without its signs
SELECT a.vector_score = b.vector_score AS same
FROM rag_search('"oil pressure" -gearbox', 'fleet') a, rag_search('oil pressure', 'fleet') b
WHERE a.uri = 'codes' AND b.uri = 'codes';
-- only exclusions find nothing
SELECT count(*) FROM rag_search('-oil', 'fleet');
-- words that no chunk has
SELECT uri FROM rag_search('the gearbx of a truck', 'fleet', mode => 'keyword');
SELECT uri FROM rag_search('passangers xylophone', 'fleet', mode => 'keyword');
SELECT rag_retrieve('{"knowledge_id": "fleet", "query": "passangers",
    "retrieval_setting": {"top_k": 2, "score_threshold": 0}}') -> 'warnings';
-- excluded words are not what a snippet shows
SELECT snippet FROM rag_find('truck -bus kilometres', 'fleet') WHERE title = 'Lorry manual';
SELECT step, detail FROM rag_explain_search('oil -gearbox press*', 'fleet', mode => 'keyword')
WHERE step = 'keyword';
SELECT count(*) FROM rag_search(rag_escape_query('oil -gearbox'), 'fleet', mode => 'keyword');
SELECT rag_drop_collection('fleet');
