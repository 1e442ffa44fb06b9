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

-- fields: only documents with these titles and URIs are found, by words and by meaning
SELECT q, (SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag_search(q, 'fleet', mode => 'keyword'))
    AS words, (SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag_search(q, 'fleet')) AS both
FROM unnest(ARRAY['title:manual', 'title:manuals oil', 'title:"error codes"', 'title:"codes error"',
    'oil -title:codes', 'oil title:manual title:code', 'title:bus*', 'title:erorr~ oil',
    '-title:bus', 'title:the oil', '+title:Cleaning keys', 'oil uri:CODE', 'oil -uri:tru',
    'uri:bus', 'oil title:"new', 'oil title: manual', 'oil title:', 'std::title:bus']) q;
-- the text of the others is searched for as it is; mode vector takes all as a text
SELECT count(*) FROM rag_search('title:manual', 'fleet', mode => 'vector');
SELECT title, snippet FROM rag_find('oil title:manual', 'fleet');
SELECT * FROM rag_facets('oil -title:codes', 'fleet', '{title}');
SELECT jsonb_path_query_array(rag_retrieve('{"knowledge_id": "fleet", "query": "oil title:manual",
    "retrieval_setting": {"top_k": 2, "score_threshold": 0}}'), '$.**.title');
SELECT count(*) FROM rag_search('title:manual', 'fleet', filter => '{"uri": "bus"}');
-- what people type elsewhere; none of it is an error
SELECT q, (SELECT count(*) FROM rag_search(q, 'fleet', mode => 'keyword')) AS found
FROM unnest(ARRAY['GO:0006275', 'oai:arXiv.org:1503.06238', 'THIS: THAT', 'RE:SOLVE oil',
    '00:1b:63:84:45:e6', 'oil:', ':oil', ':', 'http://h.org:8080/a?b=oil', 'title:title:oil',
    'title:"', 'title:""', 'title:*', 'uri:', '-title:', '+uri:bus', 'title:(oil OR bus)',
    'title:[a TO b]', 'title:/bus/', 'title:bus^2', 'NOT title:bus', 'title:oil title:oil']) q;
SELECT rag_escape_query('title:bus -uri:x std::vector');
SELECT count(*) FROM rag_add_document('Kein Titel', 'none', collection => 'fleet');
SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag_search('titel -title:bus', 'fleet');
SELECT rag_drop_collection('fleet');
-- titles are read in the language of their documents
SELECT rag_create_collection('lands', text_config => 'auto');
SELECT count(*) FROM (VALUES
    ('Die Pumpen werden jeden Freitag gewartet und danach geprüft.', 'de', 'Wartung der Pumpen'),
    ('Pumps are serviced every Friday, and are checked after that.', 'en', 'Servicing pumps'))
    AS v (text, uri, title), LATERAL rag_add_document(text, uri, title, collection => 'lands');
SELECT q, (SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag_search(q, 'lands'))
FROM unnest(ARRAY['title:pumpe', 'title:pump', 'title:serviced', 'pump -title:serviced']) q;
SELECT rag_drop_collection('lands');
