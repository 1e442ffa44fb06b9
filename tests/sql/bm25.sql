-- The access method rag_bm25 in a database. Speed is measured elsewhere.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET client_min_messages = notice;
-- costs of disabled plans are high
SET jit = off;

CREATE TABLE article (id int PRIMARY KEY, category int, body text);
INSERT INTO article VALUES
    (1, 1, 'The write-ahead log is archived before it is removed.'),
    (2, 1, 'Archiving the log: an archive command copies each log segment.'),
    (3, 2, 'A standby replays the write-ahead log.'),
    (4, 2, 'Vacuum removes dead rows.'),
    (5, 1, 'of the and'),
    (6, 1, ''),
    (7, 1, NULL),
    (8, 2, 'Log log log log.');

-- options -----------------------------------------------------------------

CREATE INDEX article_body ON article USING rag_bm25 (body); :sqlstate
CREATE INDEX article_body ON article USING rag_bm25 (body) WITH (k1 = 1); :sqlstate
CREATE INDEX article_body ON article USING rag_bm25 (body) WITH (text_config = 'nosuch'); :sqlstate
CREATE INDEX article_body ON article USING rag_bm25 (body)
    WITH (text_config = 'nowhere.english'); :sqlstate
CREATE INDEX article_body ON article USING rag_bm25 (body) WITH (text_config = 'a.b.c'); :sqlstate
CREATE INDEX article_body ON article USING rag_bm25 (body) WITH (text_config = ''); :sqlstate
CREATE INDEX article_body ON article USING rag_bm25 (body)
    WITH (text_config = 'english', k1 = 10.1); :sqlstate
CREATE INDEX article_body ON article USING rag_bm25 (body)
    WITH (text_config = 'english', b = -0.1); :sqlstate
CREATE INDEX article_body ON article USING rag_bm25 (body)
    WITH (text_config = 'english', m = 1); :sqlstate
CREATE INDEX ON article USING rag_bm25 (id) WITH (text_config = 'english'); :sqlstate
CREATE INDEX ON article USING rag_bm25 (body, body) WITH (text_config = 'english'); :sqlstate
CREATE UNIQUE INDEX ON article USING rag_bm25 (body) WITH (text_config = 'english'); :sqlstate
CREATE INDEX ON article USING rag_bm25 (body) INCLUDE (id) WITH (text_config = 'english'); :sqlstate
CREATE INDEX ON article USING rag_bm25 (body DESC) WITH (text_config = 'english'); :sqlstate
SELECT id FROM article ORDER BY body <@> 'log'; :sqlstate
SELECT id FROM article WHERE body @@@ 'log'; :sqlstate

-- the words of to_tsvector, with which scores are compared
CREATE INDEX article_body ON article USING rag_bm25 (body)
    WITH (text_config = 'english', analysis = 'exact');
SELECT opcname, amvalidate(oid) FROM pg_opclass WHERE opcmethod = (SELECT oid FROM pg_am
    WHERE amname = 'rag_bm25') ORDER BY 1;
SELECT p AS property, pg_index_column_has_property('article_body', 1, p)
FROM unnest(ARRAY['distance_orderable', 'orderable', 'returnable', 'search_nulls',
    'search_array']) AS p;
SELECT p AS property, pg_index_has_property('article_body', p)
    FROM unnest(ARRAY['index_scan', 'bitmap_scan', 'backward_scan', 'clusterable']) AS p;
SELECT text_config, k1, b, documents, deleted, average_length, segments, pending_documents, hint
    FROM rag_bm25_info('article_body');

-- order -------------------------------------------------------------------

-- the definition of BM25, over the lexemes of a text search configuration
CREATE FUNCTION regress_score(query text, document text, k1 float8, b float8, OUT score float8)
LANGUAGE sql AS $$
    WITH word AS (
        SELECT a.id, l.lexeme, cardinality(l.positions) AS frequency
        FROM article a, unnest(to_tsvector('english', a.body)) l),
    document AS (SELECT id, sum(frequency) AS length FROM word GROUP BY id),
    collection AS (SELECT count(*) AS n, avg(length) AS average FROM document),
    asked AS (SELECT lexeme, cardinality(positions) AS repeated,
            (SELECT count(*) FROM word w WHERE w.lexeme = l.lexeme) AS df
        FROM unnest(to_tsvector('english', query)) l),
    mine AS (SELECT lexeme, cardinality(positions) AS frequency
        FROM unnest(to_tsvector('english', document)) l)
    SELECT coalesce(sum(repeated * ln(1 + (n - df + 0.5) / (df + 0.5)) * frequency * (k1 + 1) /
        (frequency + k1 * (1 - b + b * (SELECT sum(frequency) FROM mine) / average))), 0)
    FROM asked JOIN mine USING (lexeme), collection $$;

SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM article ORDER BY body <@> 'log archive' LIMIT 10;
SELECT id, round((body <@> 'log archive')::numeric, 4) AS score,
    round(((body <@> 'log archive') + regress_score('log archive', body, 1.2, 0.75))::numeric, 4)
        AS difference
    FROM article ORDER BY body <@> 'log archive' LIMIT 10;
-- the score of a repeated word counts as often
SELECT id, round(((body <@> 'log log archive') + regress_score('log log archive', body, 1.2,
    0.75))::numeric, 4) AS difference FROM article ORDER BY body <@> 'log log archive';
-- without the index: the same scores, and rows that do not match come last
SET enable_seqscan = on;
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM article ORDER BY body <@> 'log archive', id;
SELECT id, round((body <@> 'log archive')::numeric, 4) AS score FROM article
    ORDER BY body <@> 'log archive', id;
SET enable_indexscan = on;
SET enable_seqscan = off;
-- in every bit
CREATE TEMP TABLE by_index AS SELECT id, body <@> 'log archive' AS score FROM article
    ORDER BY body <@> 'log archive';
SELECT count(*), bool_and(i.score = a.body <@> 'log archive') AS equal
    FROM by_index i JOIN article a USING (id);
SELECT bool_and(i.score = -s.score) AS equal FROM by_index i JOIN article a USING (id)
    JOIN rag_bm25_search('article_body', 'log archive', 100) s ON s.ctid = a.ctid;
SELECT bool_and(i.score = -s.score) AS equal FROM by_index i JOIN article a USING (id)
    JOIN rag_bm25_scores('article_body', 'log archive', ARRAY(SELECT ctid FROM article)) s
    ON s.ctid = a.ctid;
-- queries without words, and words that are nowhere
SELECT id FROM article ORDER BY body <@> 'the of' LIMIT 10;
SELECT id FROM article ORDER BY body <@> '' LIMIT 10;
SELECT id FROM article ORDER BY body <@> 'elephant' LIMIT 10;
SELECT 'log' <@> rag_bm25_query('the of', 'article_body') AS nothing,
    'log' <@> rag_bm25_query('', 'article_body') AS empty,
    'log' <@> rag_bm25_query('elephant', 'article_body') AS nowhere,
    '' <@> rag_bm25_query('log', 'article_body') AS no_text,
    'log' <@> NULL::rag.bm25_query AS "null",
    'log' <@> rag_bm25_query(NULL, 'article_body') AS null_words,
    'log' <@> ROW(NULL, 'article_body')::rag.bm25_query AS null_field,
    'log' @@@ rag_bm25_query('Logs', 'article_body') AS matches,
    'the' @@@ rag_bm25_query('the', 'article_body') AS stop_word;
SELECT 'log' <@> ROW('log', NULL)::rag.bm25_query; :sqlstate

-- conditions --------------------------------------------------------------

EXPLAIN (COSTS OFF) SELECT id FROM article WHERE body @@@ 'log';
SELECT id FROM article WHERE body @@@ 'log' ORDER BY id;
EXPLAIN (COSTS OFF) SELECT id FROM article WHERE body @@@ 'log' ORDER BY body <@> 'log' LIMIT 2;
SELECT id FROM article WHERE body @@@ 'log' ORDER BY body <@> 'log' LIMIT 2;
-- all rows of the condition, whatever they are ordered by
EXPLAIN (COSTS OFF) SELECT id FROM article WHERE body @@@ 'log' ORDER BY body <@> 'standby';
SELECT id, body <@> 'standby' < 0 AS matches FROM article WHERE body @@@ 'log'
    ORDER BY body <@> 'standby';
SELECT id FROM article WHERE body @@@ 'log' AND body @@@ 'archive' AND body @@@ 'remove vacuum';
SELECT id FROM article WHERE body @@@ 'log' AND body @@@ 'archive standby'
    ORDER BY body <@> 'archive standby';
SELECT id FROM article WHERE body @@@ 'log' AND body @@@ 'of' ORDER BY body <@> 'log';
SELECT id FROM article WHERE body @@@ 'log' ORDER BY body <@> 'of', id;
SELECT id FROM article WHERE NOT body @@@ 'log' ORDER BY id;
SET enable_indexscan = off;
SET enable_seqscan = on;
EXPLAIN (COSTS OFF) SELECT id FROM article WHERE body @@@ 'log';
SELECT id FROM article WHERE body @@@ 'log' ORDER BY id;
RESET enable_indexscan;
SET enable_seqscan = off;

-- where the planner finds the index ---------------------------------------

CREATE VIEW article_view AS SELECT id AS number, body AS content FROM article WHERE category = 1;
EXPLAIN (COSTS OFF) SELECT number FROM article_view ORDER BY content <@> 'log' LIMIT 2;
SELECT number FROM article_view ORDER BY content <@> 'log' LIMIT 2;
CREATE VIEW article_log AS SELECT id FROM article WHERE body @@@ 'log' ORDER BY body <@> 'log';
SELECT * FROM article_log;
SELECT s.id FROM (SELECT id, body FROM article OFFSET 0) s WHERE s.body @@@ 'archive' ORDER BY 1;
WITH one AS MATERIALIZED (SELECT id, body AS text FROM article),
    two AS MATERIALIZED (SELECT id, text AS content FROM one)
SELECT id FROM two WHERE content @@@ 'archive' ORDER BY 1;
SELECT a.id, (SELECT a.body <@> 'archive' < 0) AS matches FROM article a WHERE id < 4 ORDER BY 1;
SELECT id FROM article a LEFT JOIN (SELECT 1 AS id, 2 AS x) b USING (id) WHERE a.body @@@ 'archive'
    ORDER BY 1;
SELECT b.body <@> 'archive' < 0 AS matches FROM (VALUES (1), (4), (100)) v (id)
    LEFT JOIN article b USING (id);
SELECT category, count(*) FILTER (WHERE body @@@ 'log') FROM article GROUP BY 1 ORDER BY 1;
SELECT body @@@ 'log' AS found, count(*) FROM article GROUP BY 1 ORDER BY 1;
-- not of a UNION, nor of something that is computed
SELECT text FROM (SELECT body AS text FROM article UNION ALL SELECT 'log') u
    ORDER BY text <@> 'log'; :sqlstate
SELECT id FROM article ORDER BY lower(body) <@> 'log'; :sqlstate
SELECT text FROM (SELECT body AS text FROM article WHERE id = 4 UNION ALL SELECT 'log') u
    ORDER BY text <@> rag_bm25_query('log', 'article_body');
-- the query is a parameter, a column, a subquery
PREPARE best(text) AS SELECT id FROM article ORDER BY body <@> $1 LIMIT 2;
EXECUTE best('archive');
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE best('archive');
EXECUTE best('archive');
EXECUTE best('vacuum');
EXECUTE best(NULL);
PREPARE matching(text) AS
    SELECT id FROM article WHERE body @@@ $1 ORDER BY body <@> $1 LIMIT 2;
EXPLAIN (COSTS OFF) EXECUTE matching('archive');
EXECUTE matching('archive');
RESET plan_cache_mode;
EXPLAIN (COSTS OFF) SELECT q.words, found.id FROM (VALUES ('archive'), ('vacuum'), (NULL)) q (words)
    LEFT JOIN LATERAL (SELECT id FROM article ORDER BY body <@> q.words LIMIT 1) found ON true;
SELECT q.words, found.id FROM (VALUES ('archive'), ('vacuum'), (NULL)) q (words)
    LEFT JOIN LATERAL (SELECT id FROM article ORDER BY body <@> q.words LIMIT 1) found ON true;
SELECT id FROM article ORDER BY body <@> (SELECT 'vacuum' OFFSET 0) LIMIT 1;
DO $$
DECLARE
    found int;
    words text;
BEGIN
    FOREACH words IN ARRAY ARRAY['archive', 'vacuum', 'standby', 'archive', 'vacuum', 'standby',
        'archive'] LOOP
        SELECT id INTO found FROM article ORDER BY body <@> words LIMIT 1;
        RAISE NOTICE '% %', words, found;
    END LOOP;
END $$;
-- the query is named by its type
SELECT id FROM article ORDER BY body <@> rag_bm25_query('archive', 'article_body') LIMIT 1;
SELECT id FROM article
    ORDER BY body <@> ROW('archive', 'article_body')::rag.bm25_query LIMIT 1;
SELECT 'x' <@> rag_bm25_query('x', 'article'); :sqlstate
SELECT 'x' <@> rag_bm25_query('x', 'article_pkey'); :sqlstate
SELECT 'x' <@> rag_bm25_query('x', 1); :sqlstate
-- cursors
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM article ORDER BY body <@> 'log';
FETCH 1 FROM c;
MOVE FORWARD 2 FROM c;
FETCH ALL FROM c;
FETCH 1 FROM c;
CLOSE c;
ROLLBACK;
-- rows of uncommitted transactions are not found
BEGIN;
DELETE FROM article WHERE id = 8;
SELECT id FROM article ORDER BY body <@> 'log' LIMIT 1;
ROLLBACK;
SELECT id FROM article ORDER BY body <@> 'log' LIMIT 1;
BEGIN;
INSERT INTO article VALUES (9, 1, 'elephants');
SELECT id FROM article ORDER BY body <@> 'elephant';
ROLLBACK;
SELECT id FROM article ORDER BY body <@> 'elephant';

-- inserts, updates, deletes, vacuum ---------------------------------------

INSERT INTO article SELECT i, i % 10, 'number ' || i || ' of ' || (ARRAY['cats', 'dogs', 'birds',
    'fish'])[1 + i % 4] || CASE WHEN i % 100 = 0 THEN ' with a rare word' ELSE '' END
    FROM generate_series(100, 2099) i;
SELECT segments > 0 AS spilled, documents, deleted, pending_documents > 0 AS pending
    FROM rag_bm25_info('article_body');
SELECT * FROM rag_check_index('article_body');
SELECT count(*), min(id), max(id) FROM (SELECT id FROM article ORDER BY body <@> 'rare' OFFSET 0) f;
SELECT count(*) FROM (SELECT id FROM article ORDER BY body <@> 'cat' OFFSET 0) f;
-- every row that passes a filter is found
SELECT id FROM article WHERE id IN (400, 2000, 2001) ORDER BY body <@> 'cat rare', id;
SELECT count(*) FROM (SELECT id FROM article WHERE category = 3 ORDER BY body <@> 'number'
    LIMIT 1000) f;
-- an update that leaves the text keeps the row's place in the index
UPDATE article SET category = 11 WHERE id = 200;
SELECT id, category FROM article ORDER BY body <@> '200' LIMIT 1;
SELECT a.id, a.category FROM rag_bm25_search('article_body', '200', 1) s
    JOIN article a ON a.ctid = s.ctid;
SELECT score > 0 AS found FROM rag_bm25_scores('article_body', '200',
    ARRAY(SELECT ctid FROM article WHERE id = 200));
UPDATE article SET body = 'renamed to zebra' WHERE id = 200;
SELECT id FROM article ORDER BY body <@> 'zebra';
SELECT id FROM article ORDER BY body <@> '200';
DELETE FROM article WHERE id >= 100 AND id % 4 <> 0;
SELECT count(*) FROM (SELECT id FROM article ORDER BY body <@> 'dog' OFFSET 0) f;
VACUUM article;
SELECT documents, deleted > 0 AS deleted FROM rag_bm25_info('article_body');
SELECT * FROM rag_check_index('article_body');
SELECT count(*) FROM (SELECT id FROM article ORDER BY body <@> 'cat' OFFSET 0) f;
SELECT count(*) FROM (SELECT id FROM article ORDER BY body <@> 'dog' OFFSET 0) f;
SELECT rag_bm25_merge('article_body');
SELECT segments, documents, deleted, pending_documents FROM rag_bm25_info('article_body');
SELECT * FROM rag_check_index('article_body');
SELECT count(*) FROM (SELECT id FROM article ORDER BY body <@> 'cat' OFFSET 0) f;
SELECT id, round(((body <@> 'log archive') + regress_score('log archive', body, 1.2,
    0.75))::numeric, 4) AS difference FROM article ORDER BY body <@> 'log archive';

-- the row that a scan has returned is known by its place ------------------

CREATE TABLE twice (a text, b text);
INSERT INTO twice VALUES ('log', 'archive log log'), ('archive log', 'x'), ('y', 'log');
CREATE INDEX twice_a ON twice USING rag_bm25 (a) WITH (text_config = 'english');
EXPLAIN (COSTS OFF, VERBOSE) SELECT a, a <@> 'log' < 0 AS a_matches,
    coalesce(b, a) <@> rag_bm25_query('log', 'twice_a') < 0 AS b_matches
    FROM twice ORDER BY a <@> 'log';
SELECT a, b, a <@> 'log' < 0 AS a_matches,
    coalesce(b, a) <@> rag_bm25_query('log', 'twice_a') < 0 AS b_matches
    FROM twice ORDER BY a <@> 'log';
-- the index of another column of the table is an error
SELECT a FROM twice ORDER BY b <@> rag_bm25_query('log', 'twice_a'); :sqlstate
SELECT a FROM (SELECT a, b AS c FROM twice) x
    WHERE c @@@ rag_bm25_query('log', 'twice_a'); :sqlstate
-- a row and another row of the same table
SELECT x.a, y.a, x.a <@> 'log' = y.a <@> 'log' AS equal, x.a = y.a AS same
    FROM (SELECT * FROM twice ORDER BY a <@> 'log' LIMIT 2) x,
    LATERAL (SELECT * FROM twice ORDER BY a <@> 'log' LIMIT 2) y ORDER BY 1, 2;
DROP TABLE twice;

-- changed options, configurations -----------------------------------------

ALTER INDEX article_body SET (k1 = 2);
SELECT k1, hint FROM rag_bm25_info('article_body');
ALTER INDEX article_body SET (text_config = 'simple');
SELECT id FROM article ORDER BY body <@> 'Archives' LIMIT 1;
ALTER INDEX article_body RESET (text_config); :sqlstate
REINDEX INDEX article_body;
SELECT text_config, k1, hint FROM rag_bm25_info('article_body');
SELECT id FROM article ORDER BY body <@> 'archived';
SELECT id FROM article ORDER BY body <@> 'archives';
CREATE TEXT SEARCH CONFIGURATION mine (COPY = english);
CREATE INDEX article_mine ON article USING rag_bm25 (body) WITH (text_config = 'mine'); :sqlstate
CREATE INDEX article_mine ON article USING rag_bm25 (body) WITH (text_config = 'public.mine');
SELECT text_config FROM rag_bm25_info('article_mine');
DROP TEXT SEARCH CONFIGURATION mine; :sqlstate
ALTER TEXT SEARCH CONFIGURATION mine RENAME TO yours;
SELECT 'log' <@> rag_bm25_query('log', 'article_mine'); :sqlstate
INSERT INTO article VALUES (10, 1, 'log'); :sqlstate
ALTER TEXT SEARCH CONFIGURATION yours RENAME TO mine;
SELECT 'log' <@> rag_bm25_query('log', 'article_mine') < 0 AS matches;
-- of two indexes the oldest is used
EXPLAIN (COSTS OFF) SELECT id FROM article ORDER BY body <@> 'log';
DROP INDEX article_body;
EXPLAIN (COSTS OFF) SELECT id FROM article ORDER BY body <@> 'log';
DROP TEXT SEARCH CONFIGURATION mine CASCADE;

-- tables and indexes of all kinds -----------------------------------------

CREATE TABLE empty (body text);
CREATE INDEX empty_body ON empty USING rag_bm25 (body) WITH (text_config = 'english');
SELECT * FROM rag_check_index('empty_body');
SELECT documents, average_length, segments FROM rag_bm25_info('empty_body');
SELECT body FROM empty ORDER BY body <@> 'x';
VACUUM empty;
SELECT rag_bm25_merge('empty_body');
INSERT INTO empty VALUES ('x');
SELECT body FROM empty ORDER BY body <@> 'x';
TRUNCATE empty;
SELECT body FROM empty ORDER BY body <@> 'x';
-- built again in the same file
BEGIN;
CREATE TABLE same (body text);
CREATE INDEX same_body ON same USING rag_bm25 (body) WITH (text_config = 'english');
INSERT INTO same VALUES ('old');
SELECT body FROM same ORDER BY body <@> 'old';
TRUNCATE same;
INSERT INTO same VALUES ('new');
SELECT body FROM same ORDER BY body <@> 'old';
SELECT body FROM same ORDER BY body <@> 'new';
COMMIT;

CREATE TEMP TABLE temporary AS SELECT * FROM article;
CREATE INDEX temporary_body ON temporary USING rag_bm25 (body) WITH (text_config = 'english');
INSERT INTO temporary VALUES (3000, 0, 'elephants');
SELECT id FROM temporary ORDER BY body <@> 'elephant';
DELETE FROM temporary WHERE id < 1000;
VACUUM temporary;
SELECT id FROM temporary ORDER BY body <@> '1000' LIMIT 1;
SELECT * FROM rag_check_index('temporary_body');

CREATE UNLOGGED TABLE unlogged AS SELECT * FROM article;
CREATE INDEX unlogged_body ON unlogged USING rag_bm25 (body) WITH (text_config = 'english');
INSERT INTO unlogged VALUES (3000, 0, 'elephants');
SELECT id FROM unlogged ORDER BY body <@> 'elephant';
ALTER TABLE unlogged SET LOGGED;
SELECT id FROM unlogged ORDER BY body <@> 'elephant';
SELECT * FROM rag_check_index('unlogged_body');

-- partial indexes are used for what they have; an index without condition is preferred
CREATE INDEX article_partial ON article USING rag_bm25 (body) WITH (text_config = 'english')
    WHERE category = 1;
SELECT documents FROM rag_bm25_info('article_partial');
SELECT * FROM rag_check_index('article_partial');
EXPLAIN (COSTS OFF) SELECT id FROM article WHERE category = 1 ORDER BY body <@> 'log';
SELECT id FROM article WHERE category = 1 ORDER BY body <@> 'log';
EXPLAIN (COSTS OFF) SELECT id FROM article WHERE category = 2 ORDER BY body <@> 'log', id;
SELECT id FROM article WHERE category = 2 AND id < 100 ORDER BY body <@> 'log', id;
CREATE INDEX article_body ON article USING rag_bm25 (body) WITH (text_config = 'english');
SELECT id FROM article WHERE category = 1 ORDER BY body <@> 'log';
EXPLAIN (COSTS OFF) SELECT id FROM article ORDER BY body <@> 'log' LIMIT 1;
DROP INDEX article_partial;

-- expressions, and types that texts can be read as
CREATE TABLE page (title varchar(100), body text COLLATE "C", tags text[]);
INSERT INTO page VALUES ('WAL', 'The log.', '{log,archive}'), ('Vacuum', 'Dead rows.', '{rows}');
CREATE INDEX page_both ON page USING rag_bm25 ((title || ' ' || body))
    WITH (text_config = 'english');
EXPLAIN (COSTS OFF) SELECT title FROM page ORDER BY (title || ' ' || body) <@> 'vacuum';
SELECT title FROM page ORDER BY (title || ' ' || body) <@> 'vacuum log';
SELECT p.title FROM (VALUES (1)) v (i) LEFT JOIN page p ON true
    WHERE (p.title || ' ' || p.body) @@@ 'vacuum';
INSERT INTO page VALUES ('Standby', 'Replays the log.', '{}');
SELECT title FROM page ORDER BY (title || ' ' || body) <@> 'replays';
SELECT * FROM rag_check_index('page_both');
CREATE INDEX page_title ON page USING rag_bm25 (title) WITH (text_config = 'simple');
EXPLAIN (COSTS OFF) SELECT title FROM page ORDER BY title <@> 'wal';
SELECT title FROM page ORDER BY title <@> 'wal';
SELECT title FROM page WHERE title @@@ 'WAL vacuum' ORDER BY title <@> 'vacuum';
CREATE INDEX page_body ON page USING rag_bm25 (body) WITH (text_config = 'english');
SELECT title FROM page ORDER BY body <@> 'log' COLLATE "C.utf8"; :sqlstate
SELECT title FROM page ORDER BY body COLLATE "C.utf8" <@> 'replay'; :sqlstate
EXPLAIN (COSTS OFF) SELECT title FROM page ORDER BY body <@> 'replay';
SELECT title FROM page ORDER BY body <@> 'replay';

CREATE TABLE parted (id int, body text) PARTITION BY RANGE (id);
CREATE INDEX parted_body ON parted USING rag_bm25 (body) WITH (text_config = 'english');
SELECT id FROM parted ORDER BY body <@> 'cat';
SELECT 'cat' <@> rag_bm25_query('cat', 'parted_body') < 0 AS matches;
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (1000);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (1000) TO (10000)
    PARTITION BY RANGE (id);
CREATE TABLE parted_2a PARTITION OF parted_2 FOR VALUES FROM (1000) TO (2000);
CREATE TABLE parted_2b PARTITION OF parted_2 FOR VALUES FROM (2000) TO (10000);
INSERT INTO parted SELECT id, body FROM article WHERE body IS NOT NULL;
EXPLAIN (COSTS OFF) SELECT id FROM parted ORDER BY body <@> 'rare cat' LIMIT 3;
SELECT id FROM parted ORDER BY body <@> 'rare cat', id LIMIT 3;
-- scores depend on all partitions
SELECT count(*), bool_and(p.body <@> 'rare cat' = a.body <@> 'rare cat') AS equal
    FROM parted p JOIN article a USING (id);
SELECT count(*) FROM parted WHERE body @@@ 'cat';
EXPLAIN (COSTS OFF) SELECT id FROM parted_2a ORDER BY body <@> 'rare cat' LIMIT 3;
EXPLAIN (COSTS OFF) SELECT id FROM parted_2a
    ORDER BY body <@> rag_bm25_query('rare cat', 'parted_body') LIMIT 3;
EXPLAIN (COSTS OFF) SELECT id FROM article
    ORDER BY body <@> rag_bm25_query('rare cat', 'parted_body') LIMIT 3;
SELECT * FROM rag_bm25_info('parted_body'); :sqlstate
SELECT documents FROM rag_bm25_info('parted_2a_body_idx');
SELECT * FROM rag_check_index('parted_2a_body_idx');
SELECT rag_bm25_merge('parted_body'); :sqlstate
SELECT rag_bm25_merge('parted_2a_body_idx');
-- partitions with other options
CREATE TABLE parted_3 (id int, body text);
CREATE INDEX parted_3_body ON parted_3 USING rag_bm25 (body) WITH (text_config = 'simple');
ALTER TABLE parted ATTACH PARTITION parted_3 FOR VALUES FROM (10000) TO (20000);
SELECT id FROM parted ORDER BY body <@> 'rare cat' LIMIT 3; :sqlstate
ALTER INDEX parted_3_body SET (text_config = 'english');
REINDEX INDEX parted_3_body;
SELECT id FROM parted ORDER BY body <@> 'rare cat', id LIMIT 1;

-- rebuilding --------------------------------------------------------------

CREATE INDEX CONCURRENTLY article_concurrent ON article USING rag_bm25 (body)
    WITH (text_config = 'english');
SELECT * FROM rag_check_index('article_concurrent');
SELECT documents FROM rag_bm25_info('article_concurrent');
REINDEX INDEX CONCURRENTLY article_concurrent;
SELECT * FROM rag_check_index('article_concurrent');
DROP INDEX article_concurrent;
REINDEX TABLE CONCURRENTLY article;
SELECT id FROM article ORDER BY body <@> 'log' LIMIT 1;
VACUUM FULL article;
SELECT id FROM article ORDER BY body <@> 'log' LIMIT 1;
SELECT * FROM rag_check_index('article_body');
-- with little memory
SET maintenance_work_mem = '1MB';
REINDEX INDEX article_body;
SELECT * FROM rag_check_index('article_body');
RESET maintenance_work_mem;

-- who may look: who may read the table ------------------------------------

CREATE ROLE regress_rag_stranger IN ROLE rag_reader;
SET ROLE regress_rag_stranger;
SELECT * FROM rag_bm25_info('article_body'); :sqlstate
SELECT * FROM rag_check_index('article_body'); :sqlstate
SELECT * FROM rag_bm25_search('article_body', 'log', 1); :sqlstate
SELECT * FROM rag_bm25_scores('article_body', 'log', ARRAY['(0,1)'::tid]); :sqlstate
SELECT rag_bm25_merge('article_body'); :sqlstate
-- scores tell how often words occur, so that they require SELECT on the column
SELECT 'log' <@> rag_bm25_query('log', 'article_body') < 0 AS matches; :sqlstate
SELECT 'log' @@@ rag_bm25_query('log', 'article_body') AS matches; :sqlstate
RESET ROLE;
CREATE VIEW article_public AS SELECT id, body FROM article WHERE category = 1;
GRANT SELECT ON article_public TO regress_rag_stranger;
SET ROLE regress_rag_stranger;
SELECT id FROM article_public ORDER BY body <@> 'log' LIMIT 1; :sqlstate
RESET ROLE;
GRANT SELECT (category, body) ON article TO regress_rag_stranger;
SET ROLE regress_rag_stranger;
SELECT id FROM article_public ORDER BY body <@> 'log' LIMIT 1;
SELECT category FROM article WHERE body @@@ 'log' ORDER BY body <@> 'log' LIMIT 1;
SELECT 'log' <@> rag_bm25_query('log', 'article_body') < 0 AS matches;
SELECT documents FROM rag_bm25_info('article_body'); :sqlstate
RESET ROLE;
-- a partition is read with the rights on its parent
GRANT SELECT ON parted TO regress_rag_stranger;
SET ROLE regress_rag_stranger;
SELECT count(*) FROM parted WHERE body @@@ 'cat';
SELECT 'cat' <@> rag_bm25_query('cat', 'parted_1_body_idx') < 0 AS matches;
RESET ROLE;
DROP OWNED BY regress_rag_stranger;
DROP ROLE regress_rag_stranger;
DROP VIEW article_public;
SELECT * FROM rag_hnsw_info('article_body'); :sqlstate
SELECT * FROM rag_hnsw_recall('article_body'); :sqlstate
SELECT * FROM rag_bm25_info('article_pkey'); :sqlstate
SELECT * FROM rag_bm25_info('article'); :sqlstate
SELECT rag_bm25_merge('article_pkey'); :sqlstate
SELECT * FROM rag_bm25_search('article_body', 'log', 0); :sqlstate
SELECT * FROM rag_bm25_scores('article_body', 'log', ARRAY[NULL::tid]); :sqlstate
SELECT * FROM rag_bm25_scores('article_body', 'log',
    ARRAY['(0,0)', '(4000000,1)', '(0,9999)']::tid[]);
SELECT * FROM rag_bm25_info(NULL);
BEGIN READ ONLY;
SELECT id FROM article ORDER BY body <@> 'log' LIMIT 1;
COMMIT;

DROP FUNCTION regress_score;
DROP VIEW article_view, article_log;
DROP TABLE article, by_index, empty, same, temporary, unlogged, page, parted;
