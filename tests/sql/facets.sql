-- rag_facets, and pages of results by the setting offset.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

SELECT rag_create_collection('tickets');
SELECT count(*) FROM (VALUES
    ('t1', 'The pump leaks. Error E-117.', 'pump', ARRAY['urgent', 'water'],
    '{"product": "CleanBot", "status": "open", "rooms": ["A", "B", "A"], "year": 2026}'::jsonb),
    ('t2', 'A leak at the hose. Error E-117.', 'hose', ARRAY['water'],
    '{"product": "CleanBot", "status": "closed", "rooms": ["B"], "year": "2026"}'),
    ('t3', 'The hose is loose and leaks.', 'hose', NULL,
    '{"product": "AquaJet", "status": "open", "rooms": null, "year": 2025.0}'),
    ('t4', 'The battery is empty.', NULL, ARRAY['power'],
    '{"product": "CleanBot", "status": "open", "owner": {"name": "Ada"}, "rooms": []}'),
    ('t5', '', NULL, NULL, '{"product": "AquaJet"}'))
    AS v (uri, content, category, tags, metadata),
    LATERAL rag_add_document(content, uri, document_type => 'text', category => category,
                             tags => tags, metadata => metadata, collection => 'tickets') AS added
WHERE added.success;
-- a document of several chunks
SELECT success FROM rag_add_document(
    repeat('The pump leaks again and again. ', 200), 't6', document_type => 'text',
    metadata => '{"product": "MegaJet"}', collection => 'tickets');
SELECT count(*) > 1 AS has_several FROM rag.chunks WHERE uri = 't6' AND collection = 'tickets';

-- all documents, those with words, those that pass a filter
SELECT key, value, documents FROM rag_facets(NULL, 'tickets');
SELECT key, value, documents, chunks = documents AS one_chunk
    FROM rag_facets('leak', 'tickets', '{product,status}');
SELECT key, value, documents FROM rag_facets('E-117 CleanBot', 'tickets', '{category}');
SELECT key, value, documents FROM rag_facets(
    'leak', 'tickets', '{product,tags}', '{"status": "open"}');
SELECT count(*) FROM rag_facets('zeppelin', 'tickets');
SELECT * FROM rag_facets('the', 'tickets');

-- counts are those of the rows that match
SELECT f.value, f.chunks = (
    SELECT count(*) FROM rag_search('leak', 'tickets', 1000, 'keyword', jsonb_build_object(
        'product', f.value), settings => '{"distinct_text": false}')) AS same
    FROM rag_facets('leak', 'tickets', '{product}') AS f;

-- values: elements of arrays once for each document, numbers and objects as texts, no null
SELECT value, documents FROM rag_facets(NULL, 'tickets', '{rooms}');
SELECT value, documents FROM rag_facets(NULL, 'tickets', '{year}');
SELECT value, documents FROM rag_facets(NULL, 'tickets', '{owner}');
SELECT count(*) FROM rag_facets(NULL, 'tickets', '{nothing}');
-- keys are those of filters; one that is named twice counts once
SELECT key, value, documents FROM rag_facets(
    NULL, 'tickets', string_to_array('metadata.status status document_type source_file heading '
                                     'knowledge_id category category', ' '),
    '{"key": "category", "operator": "not empty"}', 2);
-- the most frequent values
SELECT value FROM rag_facets(NULL, 'tickets', '{product}', top => 1);

-- a role counts what it may see
CREATE ROLE facets_reader;
GRANT rag_reader TO facets_reader;
SELECT rag_grant_collection('tickets', 'facets_reader', 'read');
CREATE POLICY not_closed ON rag.chunks FOR SELECT TO facets_reader
    USING (metadata ->> 'status' IS DISTINCT FROM 'closed');
SET ROLE facets_reader;
SELECT key, value, documents FROM rag_facets('leak', 'tickets', '{product,status}');
SELECT key, value, documents FROM rag_facets(NULL, 'tickets', '{status}');
RESET ROLE;
DROP POLICY not_closed ON rag.chunks;
SELECT rag_revoke_collection('tickets', 'facets_reader', 'read');
SET ROLE facets_reader;
SELECT * FROM rag_facets(NULL, 'tickets', '{status}');
:sqlstate
RESET ROLE;
DROP ROLE facets_reader;

-- names on the search_path
CREATE FUNCTION public.count(anyelement) RETURNS bigint LANGUAGE sql AS 'SELECT 666::bigint';
CREATE FUNCTION public.unnest(text[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT ''evil''';
SET search_path = public, pg_catalog;
SELECT value, documents FROM rag_facets('leak', 'tickets', '{tags}');
RESET search_path;
DROP FUNCTION public.count, public.unnest;

-- what is refused
SELECT * FROM rag_facets('leak', 'nowhere');
SELECT * FROM rag_facets('leak', 'tickets', '{}');
:sqlstate
SELECT * FROM rag_facets('leak', 'tickets', '{product,NULL}');
:sqlstate
SELECT * FROM rag_facets('leak', 'tickets', '{product,""}');
:sqlstate
SELECT * FROM rag_facets('leak', 'tickets', array_fill('a'::text, '{21}'));
SELECT * FROM rag_facets('leak', 'tickets', top => 0);
:sqlstate
SELECT * FROM rag_facets('leak', 'tickets', top => NULL);
SELECT * FROM rag_facets('leak', 'tickets', filter => '{"operator": "xor", "conditions": []}');
SELECT count(*) FROM rag_facets('" OR 1=1 --', 'tickets', ARRAY['product''); DROP TABLE x; --']);

-- pages
CREATE FUNCTION pg_temp.page(mode text, size int, skipped int) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(rank || ' ' || chunk_id, ', ' ORDER BY rank)
    FROM rag_search('leaking pump', 'tickets', size, mode, settings => jsonb_build_object(
        'offset', skipped, 'distinct_text', false)) $$;
SELECT mode, pg_temp.page(mode, 7, 0) = concat_ws(', ', pg_temp.page(mode, 3, 0),
                                                  pg_temp.page(mode, 3, 3),
                                                  pg_temp.page(mode, 1, 6)) AS same
    FROM unnest('{vector,keyword,hybrid}'::text[]) AS mode;
SELECT array_agg(rank ORDER BY rank) AS ranks
    FROM rag_search('leaking pump', 'tickets', 2, settings => '{"offset": 1}');
SELECT count(*) FROM rag_search('leaking pump', 'tickets', 10, settings => '{"offset": 9000}');
SELECT array_agg(rank ORDER BY rank) AS ranks
    FROM rag_search('leaking pump', 'tickets', 2, rerank => 'late', settings => '{"offset": 1}');
SELECT detail FROM rag_explain_search('leak', 'tickets', 2, settings => '{"offset": 2}')
    WHERE step = 'request';
SELECT count(*) FROM rag_search('leak', 'tickets', settings => '{"offset": -1}');
SELECT count(*) FROM rag_search('leak', 'tickets', 10, settings => '{"offset": 9991}');
:sqlstate
SELECT rag_drop_collection('tickets');
