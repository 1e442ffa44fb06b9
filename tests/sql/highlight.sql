-- rag_highlight, and the columns snippet and matches of rag_search: a word is marked if the keyword
-- search takes it for a word of the query.
\set VERBOSITY default
\set SHOW_CONTEXT never
\set sqlstate '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SET default_text_search_config = 'pg_catalog.english';

-- marks in short
CREATE FUNCTION marked(content text, query text, text_config text DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT rag_highlight(content, query, text_config,
                         settings => '{"start": "[", "stop": "]", "escape_html": false}') $$;

-- stems, stop words, compounds and their parts
SELECT q AS query, marked(t, q) FROM (VALUES
    ('leak', 'The pump is leaking. It leaks; a leak.'),
    ('the pump', 'The pump'),
    ('E-117', 'E-117, e117, E_117, (e 117) and E-118; 117'),
    ('e117', 'Code E-117.'),
    ('session', 'db.sessionMaker of sessions in lib/session_lock.py'),
    ('db.sessionMaker', 'a sessionMaker, db_session_maker and dbSessionMaker'),
    ('lock.py', 'see lib/lock.py:12'),
    ('2.11', 'v2.11.3, 2.110 and 2.11'),
    ('1234', '1,234 pieces'),
    ('C++', 'C++ and C and C#'),
    ('commit()', 'db.session.commit()'),
    ('nothing', 'of all that')) AS v (q, t);
-- scripts without blanks, accents, forms of Unicode
SELECT q AS query, marked(t, q) FROM (VALUES
    ('水漏れ', 'AquaPump X200で水漏れ、E-105が表示されます。漏水と水漏り'),
    ('水', '水漏れと水'),
    ('漏れ警報', '水漏れ警報'),
    ('누수', '세탁기누수가 발생, 누수'),
    ('ความร้อน', 'เครื่องทำความร้อนไม่ทำงาน'),
    ('größe', E'Gro\u0308\u00dfe und Größe, GRÖSSE'),
    ('rückgabe', E'Die R\u00fcck\u00adgabe\u00ad ist Rückgabe'),
    ('find', 'ﬁnd'),
    ('abc12', 'ＡＢＣ１２ und ABC-12'),
    ('m2', '10⁶ m² groß'),
    ('café', 'cafe und café'),
    ('рука', 'руки рука')) AS v (q, t);
-- one of each script
SELECT string_agg(marked('x ' || word || ', y', word, 'simple'), ' ') FROM unnest(ARRAY[
    'latin', 'кириллица', 'ελληνικά', 'עברית', 'العربية', 'हिन्दी', 'বাংলা', 'தமிழ்', 'ไทย', '中文',
    'ひらがな', '한국어', 'ქართული', 'հայերեն', 'አማርኛ']) word;

-- phrases, nearness, prefixes, typos, exclusions, OR
SELECT q AS query,
    marked('Write ahead, then log. The write-ahead log, ahead of the logs written.', q)
FROM unnest(ARRAY['write ahead', '"write ahead"', '"ahead log"', '"write-ahead log"', '"log then"',
    '"write log"~2', '"ahead of the log"', '"the"', '"" log', 'writ*', 'wri*', 'aheda~', 'aheda',
    'log -ahead', '-log ahead', 'log -"ahead log"', '+log -writ*', '"write ahead" OR "no such"',
    '"no such" OR log', '-log', '']) q;
SELECT q AS query, marked('Error E-117 error; 117 error, E-117 errors', q)
FROM unnest(ARRAY['"E-117 error"', '"117 error"', '"E-117"', 'E-11*', '11*', '+E-117 -error',
    'error -E-117', 'error -"117 error"']) q;
SELECT marked('水漏れと漏水', '"水漏れ"'), marked('水漏れと漏水', '水漏れ -漏水');
SELECT marked('log', repeat('"write log" ', 1000)), length(marked('log', repeat('log ', 100000)));

-- as an index reads texts
CREATE TABLE said (id int PRIMARY KEY, body text);
INSERT INTO said VALUES
    (1, 'Write ahead, then log. The write-ahead log is archived.'),
    (2, 'The log of the archive was written ahead of time.'),
    (3, 'Configure the database before you commit.'),
    (4, 'Configuration of databases, a config file and a conflict.'),
    (5, 'Error E-117 after update 2.11.3 of AquaPump X200, order SO-25532'),
    (6, 'ERR_AUTH_TIMEOUT in lib/session/lock.py, called by db.session.commit()'),
    (7, 'The timeout is too short, and the pump stops with E-118'),
    (8, 'AquaPump X200で水漏れ、E-105が表示されます。'),
    (9, 'gcc -Wall --version, C++ and C#, SELECT * FROM pump WHERE a->b'),
    (10, 'Le café près de la gare'), (11, 'the cafe'), (12, '');
CREATE INDEX said_body ON said USING rag_bm25 (body) WITH (text_config = 'english');
CREATE INDEX said_code ON said USING rag_bm25 ((body || '')) WITH (text_config = 'english',
    analysis = 'code', accents = 'fold');
CREATE INDEX said_exact ON said USING rag_bm25 ((body || ' ')) WITH (text_config = 'english',
    analysis = 'exact', positions = on);
SELECT i AS index, id, rag_highlight(body, 'café session.commit "write-ahead log" conf*',
    index => i::regclass, settings => '{"start": "[", "stop": "]"}')
FROM unnest(ARRAY['said_body', 'said_code', 'said_exact']) i, said
WHERE id IN (1, 4, 6, 10, 11) ORDER BY i DESC, id;
-- words without conditions are marked in the texts that match, and in no others
SELECT i, q, count(*) FILTER (WHERE body @@@ rag_bm25_query(q, i::regclass)) AS matching
FROM unnest(ARRAY['said_body', 'said_code', 'said_exact']) i,
    unnest(ARRAY['write', 'logs', 'config*', 'databse~', 'E-117', 'e117', '117', 'session',
        'db.session.commit', '水漏れ', 'cafe', 'café', 'timeout pump', 'X200', '2.11', 'the',
        '"write ahead log"', '"ahead log"~1', '"session commit"', '"E-117 after"', '"水漏れ"',
        '"漏水"', '"lib session"']) q,
    said
GROUP BY i, q
HAVING bool_or((body @@@ rag_bm25_query(q, i::regclass)) <> (rag_highlight(body, q,
    index => i::regclass, settings => '{"start": "\u001b", "escape_html": false}') ~ E'\x1b'));
-- several languages
CREATE TABLE letters (language text, body text);
INSERT INTO letters VALUES ('de', 'Die Häuser am Fluss'), ('en', 'The houses at the river'),
    ('xx', 'houses Häuser');
CREATE INDEX letters_body ON letters
    USING rag_bm25 ((chr(1) || language || chr(1) || body)) WITH (text_config = 'rag.auto');
SELECT replace(rag_highlight(chr(1) || language || chr(1) || body, 'house Haus',
    index => 'letters_body', settings => '{"start": "[", "stop": "]"}'), chr(1), '|') FROM letters;
SELECT marked('Die Häuser am Fluss wurden letztes Jahr verkauft.', 'Haus', 'auto'),
    marked('The houses at the river were sold last year.', 'house', 'auto');
DROP TABLE letters;
-- a dictionary that reads several words at once
CREATE TEXT SEARCH DICTIONARY stars (
    TEMPLATE = thesaurus, DictFile = thesaurus_sample, Dictionary = english_stem);
CREATE TEXT SEARCH CONFIGURATION starry (COPY = english);
ALTER TEXT SEARCH CONFIGURATION starry
    ALTER MAPPING FOR asciiword, asciihword, hword_asciipart WITH stars, english_stem;
SELECT q AS query,
    marked('Some supernovae stars exploded, and lib/stars.py saw supernovae', q, 'starry')
FROM unnest(ARRAY['supernovae stars', 'sn', 'exploded', 'stars.py', 'star', '"sn exploded"',
    '"exploded sn"', 'expl*', 'supernovae']) q;
DROP TEXT SEARCH CONFIGURATION starry;
DROP TEXT SEARCH DICTIONARY stars;

-- HTML, and marks by choice
SELECT rag_highlight('if a<b && c>"d": leak()', 'leak d');
SELECT rag_highlight('a <b>leak</b>', 'leak', settings => s)
FROM unnest(ARRAY['{}', '{"start": "", "stop": ""}', '{"escape_html": false}',
    '{"start": "<em class=\"x\">", "stop": "</em>"}', '{"start": null}']::jsonb[]) s;
-- a part of the text
SELECT rag_highlight('The canteen opens at noon. Tokens are signed with a key that is replaced '
    'every 90 days. The key is rotated by the security team, which keeps the former one.', q,
    settings => '{"max_characters": 50, "ellipsis": "..."}')
FROM unnest(ARRAY['rotate key', 'former', 'bicycle', 'tokens', 'days']) q;
SELECT rag_highlight(repeat('水漏れ。', 30), '水漏れ', settings => '{"max_characters": 20}');
SELECT rag_highlight(repeat('x', 100) || ' leak', 'leak', settings => '{"max_characters": 20}');
SELECT length(rag_highlight(repeat('x', 100), repeat('x', 100),
    settings => '{"max_characters": 20}'));

-- nothing, and bad arguments
SELECT rag_highlight(NULL, 'x') IS NULL, rag_highlight('x', NULL) IS NULL, rag_highlight('', 'x'),
    rag_highlight(' ', ' '), rag_highlight('x & y', '');
SELECT rag_highlight('x', 'x', 'nosuch'); :sqlstate
SELECT rag_highlight('x', 'x', 'nosuch.config'); :sqlstate
SELECT rag_highlight('x', 'x', collection => 'nosuch'); :sqlstate
SELECT rag_highlight('x', 'x', 'english', 'default'); :sqlstate
SELECT rag_highlight('x', 'x', index => 'said_pkey'); :sqlstate
SELECT rag_highlight('x', 'x', index => 'said'); :sqlstate
SELECT rag_highlight('x', 'x', settings => '{"mark": "b"}'); :sqlstate
SELECT rag_highlight('x', 'x', settings => '{"start": 1}'); :sqlstate
SELECT rag_highlight('x', 'x', settings => '[]'); :sqlstate
SELECT rag_highlight('x', 'x', settings => '{"max_characters": 0}'); :sqlstate
SELECT rag_highlight('x', 'x', settings => '{"max_characters": 1e300}'); :sqlstate
SELECT rag_highlight('x', 'x', settings => '{"escape_html": "no"}'); :sqlstate
SELECT rag_highlight('x', 'x', settings => jsonb_build_object('start', repeat('x', 101))); :sqlstate
SELECT length(rag_highlight('leak', 'leak',
    settings => jsonb_build_object('start', repeat('ä', 100))));
-- control characters, and long texts
SELECT rag_highlight(E'\x01leak\x1b\x7f\r\nleak\tleak', 'leak',
    settings => '{"start": "[", "stop": "]"}') = E'\x01[leak]\x1b\x7f\r\n[leak]\t[leak]' AS same;
SELECT length(t), length(replace(replace(t, '<mark>', ''), '</mark>', '')),
    length(rag_highlight(b, 'leak', settings => '{"max_characters": 100}'))
FROM (SELECT repeat('The pump is leaking again. ', 120000) AS b) b,
    LATERAL (SELECT rag_highlight(b, 'leak "pump is"')) h (t);
SELECT length(rag_highlight(repeat('a ', 1400000), 'a', 'simple', settings => jsonb_build_object(
    'start', repeat(U&'\+01F600', 100), 'stop', repeat(U&'\+01F600', 100)))); :sqlstate

-- results of searches
SELECT rag_create_collection('tickets');
SELECT count(*) FROM (VALUES
    ('The pump leaks. Error E-117 is shown & the <display> blinks.', 't1'),
    ('AquaPump X200で水漏れ、E-105が表示されます。', 't2'),
    ('Vehicles are washed on Fridays. The keys hang in the office. ' ||
     'Whoever takes one signs the list at the door. Trucks get new oil every 60,000 kilometres. ' ||
     'A bus carries at most fifty passengers, and nobody may stand on the stairs.', 't3'))
    AS v (content, uri), LATERAL rag_add_document(content, uri, uri, collection => 'tickets');
SELECT title, snippet FROM rag_find('水漏れ', 'tickets', top_k => 1);
SELECT title, snippet FROM rag_find('E-117 leak', 'tickets', top_k => 1);
SELECT mode, uri, snippet, matches,
    ARRAY(SELECT substr(content, lower(m) + 1, upper(m) - lower(m)) FROM unnest(matches) m) AS words
FROM unnest(ARRAY['hybrid', 'vector', 'keyword']) mode,
    LATERAL rag_search('e117 leaking', 'tickets', 1, mode) ORDER BY mode;
SELECT snippet, matches FROM rag_search('"pump leaks" -bus', 'tickets', 1,
    settings => '{"highlight": {"start": "*", "stop": "*", "escape_html": false,
                                "max_characters": 30}}');
-- nothing in common with the query: the nearest sentence
SELECT snippet, matches FROM rag_search('lorries need lubrication', 'tickets', 1, 'vector',
    settings => '{"highlight": {"max_characters": 60}}');
SELECT snippet FROM rag_search('lorries need lubrication', 'tickets', 1, 'vector',
    settings => '{"highlight": {"max_characters": 60, "nearest_sentences": 0}}');
SELECT uri, snippet FROM rag_search(NULL, 'tickets', 1, 'vector',
    settings => '{"highlight": {"max_characters": 60}}',
    query_embedding => rag_embed('lorries need lubrication'));
SELECT q, snippet FROM unnest(ARRAY['lorries need lubrication', 'where are the keys?']) q,
    LATERAL (SELECT rag_embed(q) AS v OFFSET 0) e, LATERAL rag_search(NULL, 'tickets', 20, 'vector',
        settings => '{"highlight": {"max_characters": 60, "nearest_sentences": 20}}',
        query_embedding => e.v)
    WHERE length(content) > 200 ORDER BY q, snippet;
-- neighbours are part of the content
SELECT bool_and(substr(content, lower(m) + 1, upper(m) - lower(m)) ~* '^leak') AS all_leaks
FROM rag_search('leak', 'tickets', 3, settings => '{"neighbours": 2}'), unnest(matches) m;
-- several collections
SELECT rag_create_collection('letters', text_config => 'auto');
SELECT count(*) FROM (VALUES
    ('Die Häuser am Fluss haben undichte Leitungen und wurden letztes Jahr verkauft.', 'l1'),
    ('The houses at the river have leaks, and were sold last year.', 'l2')) AS v (content, uri),
    LATERAL rag_add_document(content, uri, collection => 'letters');
SELECT collection, uri, snippet FROM rag_search('leaking house', ARRAY['letters', 'tickets'], 3,
    'keyword');
SELECT uri, matches FROM rag_search('Haus', 'letters', 1, 'keyword');
SELECT snippet FROM rag_find('leak house', ARRAY['letters', 'tickets'], 2);
SELECT rag_highlight('Das Haus und die Häuser sind die schönsten am Platz', 'Häuser',
    collection => 'letters');
SELECT rag_drop_collection('letters');
-- the columns are not computed if nobody asks for them
CREATE FUNCTION computed(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    line text;
    plan text := '';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS off) ' || query LOOP
        plan := plan || line;
    END LOOP;
    RETURN (SELECT string_agg(m[1], ' ')
            FROM regexp_matches(plan, 'chunk_(snippet|matches)', 'g') m);
END $$;
SELECT computed(format('SELECT %s FROM rag_search(%L, %L)', columns, 'leak', 'tickets'))
FROM unnest(ARRAY['rank, uri', 'rank, snippet', 'count(*)', 'count(matches)', '*']) columns;
SELECT computed('SELECT uri FROM unnest(ARRAY[''a'', ''b'']) q, rag_search(q, ''tickets'')'),
    computed('SELECT uri FROM rag_search(''a'', ARRAY[''tickets''])');
-- arguments that are queries or change each time
SELECT uri, snippet FROM rag_search((SELECT 'leak'), 'tickets', 1);
SELECT uri, matches FROM rag_search('leak' || left(random()::text, 0), 'tickets', 1);
SELECT q, uri, matches FROM unnest(ARRAY['leak', 'oil']) q, rag_search(q, 'tickets', 1, 'keyword');
PREPARE find_it(text) AS SELECT uri, snippet FROM rag_search($1, 'tickets', 1, 'keyword');
EXECUTE find_it('leak');
EXECUTE find_it('passengers');
SELECT (rag_search('leak', 'tickets', 1)).matches;
SELECT rag_highlight('Die Pumpe leaks', 'leak', collection => 'tickets');
SELECT uri FROM rag_search('x', 'tickets', settings => '{"highlight": {"start": 1}}'); :sqlstate
SELECT uri FROM rag_search('x', 'tickets', settings => '{"highlight": true}'); :sqlstate
SELECT * FROM rag_search('x', 5); :sqlstate

-- rights
CREATE ROLE regress_marks IN ROLE rag_reader;
CREATE ROLE regress_nobody;
REVOKE ALL ON said FROM PUBLIC;
SET ROLE regress_marks;
SELECT rag_highlight('a leak', 'leak');
SELECT rag_highlight('a leak', 'leak', collection => 'tickets'); :sqlstate
SELECT rag_highlight('a leak', 'leak', index => 'said_body'); :sqlstate
SELECT rag_internal.chunk_snippet('a leak', NULL, 'leak', 'tickets', NULL, NULL); :sqlstate
SELECT rag_internal.chunk_matches('a leak', NULL, 'leak', 'tickets', NULL, NULL); :sqlstate
SELECT count(*) FROM rag_internal.search_chunks('leak', '{tickets}', NULL, NULL, NULL, NULL, NULL,
    NULL); :sqlstate
SELECT count(*) FROM rag_search('leak', 'tickets'); :sqlstate
RESET ROLE;
SELECT rag_grant_collection('tickets', 'regress_marks', 'read');
SET ROLE regress_marks;
SELECT uri, snippet FROM rag_search('leak', 'tickets', 1);
RESET ROLE;
SET ROLE regress_nobody;
SELECT rag_highlight('a leak', 'leak'); :sqlstate
SELECT count(*) FROM rag_search('leak', 'tickets'); :sqlstate
RESET ROLE;
-- rows that the caller must not see do not weigh words
GRANT SELECT ON said TO regress_marks;
ALTER TABLE said ENABLE ROW LEVEL SECURITY;
CREATE POLICY none ON said USING (false);
SET ROLE regress_marks;
SELECT rag_highlight('the timeout of it ' || repeat('. ', 30) || ' the log of it', w,
    index => 'said_body', settings => '{"max_characters": 20}')
FROM unnest(ARRAY['timeout log', 'log timeout']) w;
RESET ROLE;
DROP TABLE said;
SELECT rag_revoke_collection('tickets', 'regress_marks', 'read');
SELECT rag_drop_collection('tickets');
DROP ROLE regress_marks, regress_nobody;
DROP FUNCTION marked;
DROP FUNCTION computed;
