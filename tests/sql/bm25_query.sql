-- The query language of rag_bm25: phrases, nearness, prefixes, typos, required words, exclusions
-- and OR. Each query is asked of the index in all of its plans, and of each text by itself.
SET client_min_messages = notice;
SET jit = off;

CREATE TABLE said (id int PRIMARY KEY, kind int, body text);
INSERT INTO said VALUES
    (1, 0, 'Write ahead, then log. The write-ahead log is archived.'),
    (2, 0, 'The log of the archive was written ahead of time.'),
    (3, 1, 'Configure the database before you commit.'),
    (4, 1, 'Configuration of databases, a config file and a conflict.'),
    (5, 0, 'Error E-117 after update 2.11.3 of AquaPump X200, order SO-25532'),
    (6, 1, 'ERR_AUTH_TIMEOUT in lib/session/lock.py, called by db.session.commit()'),
    (7, 0, 'The timeout is too short, and the pump stops with E-118'),
    (8, 1, 'AquaPump X200で水漏れ、E-105が表示されます。'),
    (9, 0, 'gcc -Wall --version, C++ and C#, SELECT * FROM pump WHERE a->b'),
    (10, 1, 'bye bye'),
    (11, 0, 'bye'),
    (12, 1, 'We receive a database. Data bases are received.'),
    (13, 0, NULL);
INSERT INTO said
    SELECT n, n % 2, 'filler number ' || n || ' of the archive' || repeat(' log', n % 3)
    FROM generate_series(101, 400) n;
CREATE INDEX said_kind ON said (kind);
CREATE INDEX said_body ON said USING rag_bm25 (body) WITH (text_config = 'english');
ANALYZE said;

-- the ids below 100 that a query finds, the best first
CREATE FUNCTION found(q text, OUT query text, OUT ids text) LANGUAGE sql AS $$
    SELECT q, string_agg(id::text, ' ' ORDER BY n) FROM (
        SELECT id, row_number() OVER () AS n FROM (
            SELECT id FROM said WHERE id < 100
            ORDER BY body <@> rag_bm25_query(q, 'said_body'), id) s) n $$;

-- phrases
SELECT (found(q)).* FROM unnest(ARRAY['write ahead log', '"write ahead"', '"write-ahead log"',
    '"ahead log"', '"write log"~2', '"ahead write"', '"ahead write"~2', '"archive of the log"~6',
    '"error E-117"', '"error e117 after"', '"session commit"', '"lock.py called"', '"水漏れ"',
    '"水漏"', '"漏水"', '"bye bye"', '"bye bye"~3', '"the"', '"" archived', '“then log”']) q;
-- nothing, required and excluded
SELECT (found(q)).* FROM unnest(ARRAY['+config database', '+database +commit', 'log -archive',
    'log -"written ahead"', 'database -config*', '+E-117', '+e117 pump', 'pump -E-117', '-pump',
    'pump -水漏れ', '+the pump', 'pump -the', '-"no such phrase" pump', '+nosuchword pump']) q;
-- OR
SELECT (found(q)).* FROM unnest(ARRAY['config OR commit', '"write ahead" OR "bye bye"',
    '"bye bye" OR +commit OR nothing', 'pump "bye bye" OR commit', 'config OR -pump']) q;
-- prefixes and typos
SELECT (found(q)).* FROM unnest(ARRAY['conf*', 'config*', 'configurations*', 'data*', 'e1*',
    'aquap*', 'sess*', 'nosuch*', 'databse~', 'databse', 'recieve~', 'e-118~1', 'aquapmup~',
    'timout~1', '+databse~ -conf*']) q;
-- what is no clause is text
SELECT (found(q)).* FROM unnest(ARRAY['gcc --version', 'a->b', 'C++', 'SELECT * FROM', '-25532',
    'lock.py)', '"config', 'E-117', 'OR', 'x - y', 'print("pump")']) q;
SELECT q, rag_escape_query(q), (found(rag_escape_query(q))).ids
FROM unnest(ARRAY['gcc -Wall', '"write ahead"', 'conf*', 'pump OR bye', 'plain text']) q;

-- each query in all plans, and row by row
CREATE TABLE queries (q text);
INSERT INTO queries VALUES ('write ahead log'), ('"write-ahead log"'), ('"write log"~2'),
    ('log -archive'), ('log -"written ahead"'), ('"archive log"'), ('"number 200" OR "bye bye"'),
    ('conf*'), ('+conf* databse~'), ('databse~'), ('-pump'), ('fil*'), ('archive -log'),
    ('"the archive" -"number 300"'), ('+archive +log -"archive log"'), ('"水漏れ" OR conf*'),
    ('+lo* -"archive log log"'), ('archives');
CREATE TABLE oracle AS SELECT q, id, kind, -(body <@> rag_bm25_query(q, 'said_body')) AS score
    FROM queries, (SELECT * FROM said OFFSET 0) s
    WHERE body @@@ rag_bm25_query(q, 'said_body');
CREATE FUNCTION asked(statement text, q text) RETURNS TABLE (id int, score float8)
    LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY EXECUTE statement USING q; END $$;
CREATE FUNCTION differences(statement text, condition text DEFAULT 'true') RETURNS bigint
    LANGUAGE plpgsql AS $$
DECLARE
    q text;
    found bigint;
    total bigint := 0;
BEGIN
    FOR q IN SELECT queries.q FROM queries LOOP
        EXECUTE format('SELECT count(*) FROM asked($1, $2) a FULL JOIN
            (SELECT * FROM oracle WHERE q = $2 AND %s) o USING (id)
            WHERE a.score IS DISTINCT FROM o.score', condition) INTO found USING statement, q;
        total := total + found;
        IF found > 0 THEN
            RAISE NOTICE '%: % differences', q, found;
        END IF;
    END LOOP;
    RETURN total;
END $$;
SELECT count(*) FROM oracle;
-- ranked by the index
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT differences('SELECT id, -(body <@> rag_bm25_query($1, ''said_body'')) FROM said
    ORDER BY body <@> rag_bm25_query($1, ''said_body'')');
SELECT differences('SELECT id, -(body <@> rag_bm25_query($1, ''said_body'')) FROM said
    WHERE body @@@ rag_bm25_query($1, ''said_body'')');
-- with a filter
SELECT differences('SELECT id, -(body <@> rag_bm25_query($1, ''said_body'')) FROM said
    WHERE kind = 1 ORDER BY body <@> rag_bm25_query($1, ''said_body'')', 'kind = 1');
RESET enable_bitmapscan;
-- bitmaps
SET enable_indexscan = off;
SELECT differences('SELECT id, -(body <@> rag_bm25_query($1, ''said_body'')) FROM said
    WHERE body @@@ rag_bm25_query($1, ''said_body'')');
RESET enable_seqscan;
SELECT differences('SELECT id, -(body <@> rag_bm25_query($1, ''said_body'')) FROM said
    ORDER BY body <@> rag_bm25_query($1, ''said_body'')');
RESET enable_indexscan;
-- without the planner
SELECT differences('SELECT id, score FROM rag_bm25_search(''said_body'', $1, 1000) f
    JOIN said ON said.ctid = f.ctid');
SELECT differences('SELECT id, f.score FROM rag_bm25_scores(''said_body'', $1,
    (SELECT array_agg(ctid) FROM said)) f JOIN said ON said.ctid = f.ctid WHERE f.score > 0');
-- ordered by another query; negated
SET enable_seqscan = off;
SELECT count(*), count(*) FILTER (WHERE a.score <> coalesce((
    SELECT o.score FROM oracle o WHERE o.id = a.id AND o.q = other.q), 0)) AS differences
FROM queries one, queries other, LATERAL asked(format('SELECT id,
        -(body <@> rag_bm25_query(%L, ''said_body'')) FROM said
    WHERE body @@@ rag_bm25_query($1, ''said_body'')
    ORDER BY body <@> rag_bm25_query(%L, ''said_body'')', other.q, other.q), one.q) a
WHERE one.q IN ('archive -log', '"write log"~2') AND other.q LIKE '%"%';
SELECT count(*) FROM said WHERE body @@@ 'archive' AND NOT body @@@ '"the archive log log"';
SELECT count(*) FROM said WHERE id > 0 AND NOT body @@@ '"the archive log log"';
RESET enable_seqscan;

-- rows that are pending, and of several segments
INSERT INTO said VALUES (14, 0, 'A config, written later: "write ahead" is the phrase'),
    (15, 0, 'ahead write config'),
    (16, 1, 'databses and receivers, ' || repeat('long ', 3000) || 'confer');
DELETE FROM said WHERE id = 1;
TRUNCATE oracle;
INSERT INTO oracle SELECT q, id, kind, -(body <@> rag_bm25_query(q, 'said_body'))
    FROM queries, (SELECT * FROM said OFFSET 0) s
    WHERE body @@@ rag_bm25_query(q, 'said_body');
SELECT count(*) FROM oracle WHERE id < 100;
SELECT differences('SELECT id, score FROM rag_bm25_search(''said_body'', $1, 1000) f
    JOIN said ON said.ctid = f.ctid');
SELECT (found(q)).* FROM unnest(ARRAY['"write ahead"', 'conf*', 'databse~']) q;

-- an index that knows where words are
CREATE INDEX said_placed ON said USING rag_bm25 (body)
    WITH (text_config = 'english', positions = on);
SELECT count(*), count(placed.score) AS placed, count(plain.score) AS plain FROM queries,
    LATERAL (SELECT ctid, score FROM rag_bm25_search('said_placed', q, 1000)) placed
    FULL JOIN LATERAL (SELECT ctid, score FROM rag_bm25_search('said_body', q, 1000)) plain
    USING (ctid);
SET enable_seqscan = off;
SELECT q, id FROM queries, LATERAL (SELECT id FROM said WHERE id < 100
    AND body @@@ rag_bm25_query(q, 'said_placed')) s WHERE q LIKE '%"%' ORDER BY q COLLATE "C", id;
RESET enable_seqscan;
DROP INDEX said_placed;

-- other analyses, and accents
CREATE INDEX said_exact ON said USING rag_bm25 (body)
    WITH (text_config = 'english', analysis = 'exact');
CREATE INDEX said_code ON said USING rag_bm25 (body)
    WITH (text_config = 'simple', analysis = 'code', accents = 'fold');
SELECT i, q, array(SELECT id FROM said JOIN rag_bm25_search(i::regclass, q, 100) f
        ON said.ctid = f.ctid WHERE id < 100 ORDER BY score DESC, id) AS ids
FROM unnest(ARRAY['said_exact', 'said_code']) i, unnest(ARRAY['"written ahead"', '"session commit"',
    'conf*', '+Config', 'databse~', 'pump -E-117', '+session.commit', '"bye bye"']) q
ORDER BY i, q COLLATE "C";
SELECT i, count(*) FROM unnest(ARRAY['said_exact', 'said_code']) i, queries,
    (SELECT ctid, body FROM said OFFSET 0) s
WHERE body <@> rag_bm25_query(q, i::regclass) <> -coalesce(
    (SELECT score FROM rag_bm25_search(i::regclass, q, 1000) f WHERE f.ctid = s.ctid), 0)
GROUP BY i;
DROP INDEX said_exact, said_code;

-- a text has the words of its own language
CREATE TABLE letters (id int, language text, body text);
INSERT INTO letters VALUES (1, 'en', 'The houses of the running writers'),
    (2, 'de', 'Die Häuser der laufenden Schreiber'), (3, 'de', 'Der Schreiber eines Hauses'),
    (4, NULL, 'haus');
CREATE INDEX letters_body ON letters
    USING rag_bm25 ((chr(1) || coalesce(language, '') || chr(1) || body))
    WITH (text_config = 'rag.auto');
SELECT q, array(SELECT id FROM letters JOIN rag_bm25_search('letters_body', q, 10) f
    ON letters.ctid = f.ctid ORDER BY score DESC, id) AS ids
FROM unnest(ARRAY['"running writers"', '"laufenden Schreiber"', '+haus', 'schreiber -haus',
    'häus*', 'schriber~', 'english~', '"der Schreiber"']) q;

-- partitions have statistics together
CREATE TABLE part (LIKE said) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (6);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (6) TO (1000);
INSERT INTO part SELECT * FROM said;
CREATE INDEX part_body ON part USING rag_bm25 (body) WITH (text_config = 'english');
VACUUM said;
SELECT rag_bm25_merge('said_body');
SELECT count(*), count(*) FILTER (WHERE p.score = s.score) FROM queries,
    LATERAL (SELECT id, body <@> rag_bm25_query(q, 'part_body') AS score FROM part
        ORDER BY body <@> rag_bm25_query(q, 'part_body')) p
    FULL JOIN LATERAL (SELECT id, body <@> rag_bm25_query(q, 'said_body') AS score FROM said
        ORDER BY body <@> rag_bm25_query(q, 'said_body')) s USING (id);
DROP TABLE said, letters, part, queries, oracle;
DROP FUNCTION found, asked, differences;
