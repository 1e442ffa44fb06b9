-- The plan RagFilteredScan: a keyword search that ranks only the rows that another index finds.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE paper (id int PRIMARY KEY, bucket int, kind text, body text);
INSERT INTO paper SELECT n, n * 7919 % 1000, 'k' || n % 5, CASE WHEN n % 50 <> 0 THEN
    (SELECT string_agg('w' || n * k % (3 + 2 * k), ' ') FROM generate_series(1, 5 + n % 20) k) END
    FROM generate_series(1, 20000) n;
CREATE INDEX paper_bucket ON paper (bucket);
CREATE INDEX paper_body ON paper USING rag_bm25 (body) WITH (text_config = 'simple');
VACUUM ANALYZE paper;

CREATE FUNCTION regress_plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || statement; END $$;

-- Runs a statement without and with the plan. Returns whether the latter is used, whether the rows
-- are the same, and their number.
CREATE FUNCTION regress_both(statement text, OUT is_used bool, OUT is_same bool, OUT rows int)
LANGUAGE plpgsql AS $$
DECLARE plain text[]; filtered text[];
BEGIN
    statement := 'SELECT array(SELECT s::text FROM (' || statement || ') s)';
    SET LOCAL enable_sort = off;
    SET LOCAL rag.enable_filtered_scan = off;
    EXECUTE statement INTO plain;
    SET LOCAL rag.enable_filtered_scan = on;
    -- reading the table at random is what this plan spares
    SET LOCAL random_page_cost = 1000;
    EXECUTE statement INTO filtered;
    is_used := EXISTS (SELECT FROM regress_plan(statement) p WHERE p ~ 'RagFilteredScan');
    is_same := plain = filtered;
    rows := cardinality(filtered);
END $$;

-- plans -------------------------------------------------------------------

SELECT regress_plan($$SELECT id FROM paper WHERE bucket < 10 ORDER BY body <@> 'w1 w5' LIMIT 10$$);
-- few rows pass: most of those that match are read otherwise
SELECT regress_plan($$SELECT id FROM paper WHERE bucket = 1 AND kind = 'k1'
    ORDER BY body <@> 'w1 w5' LIMIT 10$$);
-- many rows pass
SELECT regress_plan($$SELECT id FROM paper WHERE bucket < 500 ORDER BY body <@> 'w1' LIMIT 10$$);
-- no index has the filter
SELECT regress_plan($$SELECT id FROM paper WHERE kind = 'k1' ORDER BY body <@> 'w1' LIMIT 10$$);
-- conditions of several indexes, and of the same one
SELECT regress_plan($$SELECT id FROM paper WHERE (bucket = 7 OR id BETWEEN 100 AND 150)
    AND body @@@ 'w1' ORDER BY body <@> 'w1' LIMIT 10$$);
SELECT regress_plan($$SELECT id FROM paper WHERE bucket < 10 AND now() > '2000-01-01'
    ORDER BY body <@> 'w1' LIMIT 10 FOR UPDATE$$);
-- with the names of columns
EXPLAIN (COSTS OFF, VERBOSE) SELECT id FROM paper WHERE bucket < 10
    ORDER BY body <@> 'w1' LIMIT 10;
-- settings
BEGIN;
SET LOCAL enable_sort = off;
SET LOCAL rag.enable_filtered_scan = off;
SELECT regress_plan($$SELECT id FROM paper WHERE bucket < 10 ORDER BY body <@> 'w1' LIMIT 10$$);
SET LOCAL rag.enable_filtered_scan = on;
SET LOCAL enable_bitmapscan = off;
SELECT count(*) FROM regress_plan($$SELECT id FROM paper WHERE bucket < 10
    ORDER BY body <@> 'w1' LIMIT 10$$) p WHERE p ~ 'RagFilteredScan';
ROLLBACK;
SET rag.enable_filtered_scan = 'perhaps'; :sqlstate

-- rows --------------------------------------------------------------------

SELECT filter, words, (regress_both(format(
    'SELECT id, body <@> %1$L AS score FROM paper WHERE %2$s ORDER BY body <@> %1$L LIMIT 10',
    words, filter))).*
FROM unnest(ARRAY['bucket < 0', 'bucket = 1 AND id < 200', 'bucket < 1', 'bucket < 10',
    'bucket < 100', 'bucket < 1000', 'bucket IN (1, 7, 300, 999)', 'bucket IS NULL',
    'id > 19990 OR bucket = 5', 'bucket < 100 AND id < 3000 AND kind <> ''k2''']) AS filter,
    unnest(ARRAY['w1', 'w1 w5 w17']) AS words;
-- With unknown bounds the planner expects few rows to pass, so that the same plan serves all.
CREATE FUNCTION regress_plain(low int, high int, words text, first int, count int)
RETURNS text[] LANGUAGE plpgsql SET rag.enable_filtered_scan = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN RETURN array(SELECT s::text FROM (SELECT id, body <@> words FROM paper
    WHERE bucket BETWEEN low AND high ORDER BY body <@> words LIMIT count OFFSET first) s); END $$;
CREATE FUNCTION regress_filtered(low int, high int, words text, first int, count int)
RETURNS text[] LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN RETURN array(SELECT s::text FROM (SELECT id, body <@> words FROM paper
    WHERE bucket BETWEEN low AND high ORDER BY body <@> words LIMIT count OFFSET first) s); END $$;
SET plan_cache_mode = force_generic_plan;
PREPARE same(int, int, text, int, int) AS SELECT id, body <@> $3 FROM paper
    WHERE bucket BETWEEN $1 AND $2 ORDER BY body <@> $3 LIMIT $5 OFFSET $4;
EXPLAIN (COSTS OFF) EXECUTE same(0, 10, 'w1', 0, 10);
RESET plan_cache_mode;
SELECT high, count(*) FILTER (WHERE filtered IS DISTINCT FROM plain) AS wrong,
    array_agg(cardinality(filtered) ORDER BY words, first, count) AS rows
FROM unnest(ARRAY[-1, 0, 1, 10, 100, 500, 999]) AS high,
    unnest(ARRAY['w1', 'w3 w11 w17 w2', 'nosuchword', '', NULL]) AS words,
    (VALUES (0, 10), (7, 300), (1000000, 10), (0, NULL)) AS v (first, count),
    LATERAL regress_plain(0, high, words, first, count) AS plain,
    LATERAL regress_filtered(0, high, words, first, count) AS filtered
GROUP BY high ORDER BY high;
-- other conditions on the words, and other queries
SELECT (regress_both($$SELECT id FROM paper WHERE bucket < 20 AND body @@@ 'w2'
    ORDER BY body <@> 'w3 w11' LIMIT 20$$)).*;
SELECT (regress_both($$SELECT id FROM paper
    WHERE bucket < 20 AND body @@@ 'w3 w11' AND body @@@ 'w2'
    ORDER BY body <@> 'w3 w11' LIMIT 20$$)).*;
SELECT (regress_both($$SELECT id, body <@> 'w9' FROM paper WHERE bucket < 10
    ORDER BY body <@> rag_bm25_query('w3', 'paper_body') LIMIT 20$$)).*;
SELECT (regress_both($$SELECT id FROM paper WHERE bucket < 10
    ORDER BY body <@> NULL::text LIMIT 20$$)).*;
SELECT (regress_both($$SELECT id FROM paper WHERE bucket < 10
    ORDER BY body <@> (SELECT 'w' || max(id) % 10 FROM paper) LIMIT 20$$)).*;
SELECT (regress_both($$SELECT id FROM paper WHERE bucket < 10
    ORDER BY body <@> 'w3', id LIMIT 20$$)).is_same;
-- a bitmap with blocks instead of rows
CREATE TABLE sparse (id int, bucket int, body text, pad text);
ALTER TABLE sparse ALTER pad SET STORAGE PLAIN;
INSERT INTO sparse SELECT id, bucket, body, repeat('x', 2500) FROM paper WHERE id <= 9000;
CREATE INDEX ON sparse (bucket);
CREATE INDEX ON sparse USING rag_bm25 (body) WITH (text_config = 'simple');
VACUUM ANALYZE sparse;
SET work_mem = '64kB';
SET plan_cache_mode = force_generic_plan;
PREPARE lossy(int, int) AS SELECT id, body <@> 'w3 w8' < 0 FROM sparse
    WHERE bucket BETWEEN $1 AND $2 ORDER BY body <@> 'w3 w8' LIMIT 5;
CREATE FUNCTION regress_lossy(OUT blocks text) LANGUAGE plpgsql AS $$
BEGIN
    FOR blocks IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
        EXECUTE lossy(0, 600)' LOOP
        EXIT WHEN blocks ~ 'Lossy Heap Blocks';
    END LOOP;
END $$;
SELECT regress_lossy() ~ 'Lossy Heap Blocks: [1-9]' AS is_lossy;
EXECUTE lossy(0, 600);
EXECUTE lossy(300, 900);
RESET work_mem;
EXECUTE lossy(0, 600);
EXECUTE lossy(300, 900);
RESET plan_cache_mode;

-- rows of one index are read without a bitmap -----------------------------

-- The counts of EXPLAIN ANALYZE.
CREATE FUNCTION regress_counts(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF) ' || statement LOOP
        IF line ~ 'Bitmap|Filtered Rows|Lossy' THEN
            RETURN NEXT regexp_replace(line, 'time=\S+ |\.00(?= loops)', '', 'g');
        END IF;
    END LOOP;
END $$;
SET plan_cache_mode = force_generic_plan;
PREPARE counted(int, int, text) AS SELECT id FROM paper WHERE bucket BETWEEN $1 AND $2
    ORDER BY body <@> $3 LIMIT 3;
SELECT regress_counts($$EXECUTE counted(0, 9, 'w3')$$);
SELECT regress_counts($$EXECUTE counted(9, 0, 'w3')$$);
SELECT regress_counts($$EXECUTE counted(NULL, 9, 'w3')$$);
-- all rows of the table, with room for them and without: 32 bytes each
SELECT regress_counts($$EXECUTE counted(0, 999, 'w3')$$);
SET work_mem = '624kB';
SELECT regress_counts($$EXECUTE counted(0, 999, 'w3')$$);
SET work_mem = '626kB';
SELECT regress_counts($$EXECUTE counted(0, 999, 'w3')$$);
RESET work_mem;
RESET plan_cache_mode;
-- several indexes
SELECT regress_counts($$SELECT id FROM paper WHERE bucket = 7 OR id BETWEEN 100 AND 150
    ORDER BY body <@> 'w3' LIMIT 3$$);
-- a search for each row
SELECT regress_counts($$SELECT (SELECT id FROM paper WHERE bucket BETWEEN low AND high
    ORDER BY body <@> 'w3' LIMIT 1) FROM (VALUES (0, 4), (7, 7), (3, 1)) q (low, high)$$);
-- other access methods: one with rows and bitmaps, and one with bitmaps only
BEGIN;
DROP INDEX paper_bucket;
CREATE INDEX paper_hash ON paper USING hash (bucket);
SELECT regress_counts($$SELECT id FROM paper WHERE bucket = 7 ORDER BY body <@> 'w3' LIMIT 3$$);
SELECT (regress_both($$SELECT id, body <@> 'w3' FROM paper WHERE bucket = 7
    ORDER BY body <@> 'w3' LIMIT 20$$)).*;
-- hash indexes find one value at a time, so that the node below goes through the array
SELECT regress_counts($$SELECT id FROM paper WHERE bucket IN (7, 8) ORDER BY body <@> 'w3'
    LIMIT 3$$);
SELECT (regress_both($$SELECT id, body <@> 'w3' FROM paper WHERE bucket IN (7, 8)
    ORDER BY body <@> 'w3' LIMIT 20$$)).*;
CREATE INDEX paper_gin ON paper USING gin ((ARRAY[bucket]));
ANALYZE paper;
SELECT regress_counts($$SELECT id FROM paper WHERE ARRAY[bucket] @> '{7}' ORDER BY body <@> 'w3'
    LIMIT 3$$);
SELECT (regress_both($$SELECT id, body <@> 'w3' FROM paper WHERE ARRAY[bucket] @> '{7}'
    ORDER BY body <@> 'w3' LIMIT 20$$)).*;
CREATE INDEX paper_point ON paper USING gist (point(bucket, id));
ANALYZE paper;
SELECT regress_counts($$SELECT id FROM paper WHERE point(bucket, id) <@ box '((1, 1), (9, 20000))'
    ORDER BY body <@> 'w3' LIMIT 3$$);
SELECT (regress_both($$SELECT id, body <@> 'w3' FROM paper
    WHERE point(bucket, id) <@ box '((1, 1), (9, 20000))' ORDER BY body <@> 'w3' LIMIT 20$$)).*;
ROLLBACK;
-- a cursor begins again
BEGIN;
DECLARE again SCROLL CURSOR FOR SELECT id FROM paper WHERE bucket < 10
    ORDER BY body <@> 'w3' LIMIT 4;
FETCH 3 FROM again;
MOVE ABSOLUTE 0 FROM again;
FETCH ALL FROM again;
ROLLBACK;

-- parameters --------------------------------------------------------------

SET plan_cache_mode = force_generic_plan;
PREPARE search(int, int, text) AS SELECT id FROM paper WHERE bucket BETWEEN $1 AND $2
    ORDER BY body <@> $3 LIMIT 3;
EXPLAIN (COSTS OFF) EXECUTE search(0, 10, 'w3');
EXECUTE search(0, 10, 'w3');
EXECUTE search(0, 999, 'w3');
EXECUTE search(20, 10, 'w3');
EXECUTE search(0, 10, 'w4 w9');
EXECUTE search(0, 10, NULL);
EXECUTE search(NULL, 10, 'w3');
-- the plan is made again without the index of the filter, and with another one
BEGIN;
DROP INDEX paper_bucket;
EXECUTE search(0, 10, 'w3');
CREATE INDEX paper_other ON paper USING brin (bucket);
EXECUTE search(0, 10, 'w3');
ROLLBACK;
BEGIN;
REINDEX INDEX paper_body;
EXECUTE search(0, 10, 'w3');
DROP INDEX paper_body;
EXECUTE search(0, 10, 'w3'); :sqlstate
ROLLBACK;
EXECUTE search(0, 10, 'w3');
RESET plan_cache_mode;
-- a search for each row
CREATE FUNCTION regress_words(words text, low int, high int) RETURNS TABLE (found int)
LANGUAGE sql STABLE AS $$
    SELECT id FROM paper WHERE bucket BETWEEN low AND high ORDER BY body <@> words LIMIT 2 $$;
SELECT regress_plan($$SELECT * FROM (VALUES ('w3', 0, 10)) q (words, low, high)
    CROSS JOIN LATERAL regress_words(words, low, high)$$);
SELECT * FROM (VALUES ('w3', 0, 10), ('w4 w9', 0, 10), ('w3', 5, 3), ('nosuchword', 0, 10),
    (NULL, 0, 10), ('w3', 0, NULL), ('w3', 0, 10)) q (words, low, high)
    LEFT JOIN LATERAL regress_words(words, low, high) ON true;

-- changes -----------------------------------------------------------------

BEGIN;
SELECT id, body <@> 'w3 w7' < 0 FROM paper WHERE bucket < 10 ORDER BY body <@> 'w3 w7' LIMIT 4;
DECLARE before SCROLL CURSOR FOR
    SELECT id, kind FROM paper WHERE bucket < 10 ORDER BY body <@> 'w3 w7' LIMIT 5;
FETCH 2 FROM before;
-- in place, into the filter, out of the filter, another text, a deleted row
UPDATE paper SET kind = 'changed' WHERE id IN
    (SELECT id FROM paper WHERE bucket < 10 ORDER BY body <@> 'w3 w7' LIMIT 1);
UPDATE paper SET bucket = 3 WHERE id IN
    (SELECT id FROM paper WHERE bucket > 900 ORDER BY body <@> 'w3 w7' LIMIT 1);
INSERT INTO paper VALUES (100001, 3, 'new', 'w3 w7 w3 w7'), (100002, 3, 'new', NULL),
    (100003, 300, 'new', 'w3 w7');
DELETE FROM paper WHERE id IN
    (SELECT id FROM paper WHERE bucket < 10 ORDER BY body <@> 'w3 w7' LIMIT 1 OFFSET 2);
FETCH ALL FROM before;
FETCH BACKWARD ALL FROM before;
SELECT (regress_both($$SELECT id, kind, xmin <> '0' AS has_xmin, tableoid::regclass, ctid
    FROM paper WHERE bucket < 10 ORDER BY body <@> 'w3 w7' LIMIT 30$$)).*;
SELECT id FROM paper WHERE bucket < 10 ORDER BY body <@> 'w3 w7' LIMIT 1 FOR UPDATE;
UPDATE paper SET bucket = 2 FROM
    (SELECT id FROM paper WHERE bucket < 10 ORDER BY body <@> 'w3 w7' LIMIT 2 FOR UPDATE) best
    WHERE paper.id = best.id RETURNING paper.id, paper.bucket;
SAVEPOINT before_error;
SELECT id FROM paper WHERE bucket < 10 AND 1 / (bucket - bucket) > 0
    ORDER BY body <@> 'w3 w7' LIMIT 1; :sqlstate
ROLLBACK TO before_error;
FETCH FIRST FROM before;
ROLLBACK;

-- partitions --------------------------------------------------------------

CREATE TABLE part (LIKE paper) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (8000);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (8000) TO (30000);
INSERT INTO part TABLE paper;
CREATE INDEX ON part (bucket);
CREATE INDEX part_body ON part USING rag_bm25 (body) WITH (text_config = 'simple');
VACUUM ANALYZE part;
SELECT regress_plan($$SELECT id FROM part WHERE bucket < 10 ORDER BY body <@> 'w3' LIMIT 10$$);
SELECT (regress_both($$SELECT id, body <@> 'w3 w9' FROM part WHERE bucket < 10
    ORDER BY body <@> 'w3 w9' LIMIT 50$$)).*;

-- expressions and partial indexes -----------------------------------------

CREATE TABLE titled (id int, bucket int, title text, body text);
INSERT INTO titled SELECT id, bucket, 'w1 w2', body FROM paper;
CREATE INDEX ON titled (bucket);
CREATE INDEX ON titled USING rag_bm25 ((title || ' ' || body)) WITH (text_config = 'simple');
CREATE INDEX ON titled USING rag_bm25 (body) WITH (text_config = 'simple') WHERE bucket < 100;
CREATE INDEX ON titled (id) WHERE bucket = 7;
VACUUM ANALYZE titled;
SELECT (regress_both($$SELECT id, (title || ' ' || body) <@> 'w2 w5' FROM titled WHERE bucket < 10
    ORDER BY (title || ' ' || body) <@> 'w2 w5' LIMIT 20$$)).*;
SELECT (regress_both($$SELECT id, body <@> 'w2 w5' FROM titled WHERE bucket < 10
    ORDER BY body <@> 'w2 w5' LIMIT 20$$)).*;
SELECT (regress_both($$SELECT id FROM titled WHERE bucket = 7
    ORDER BY (title || ' ' || body) <@> 'w2 w5' LIMIT 20$$)).*;

-- rights ------------------------------------------------------------------

CREATE ROLE regress_reader;
GRANT SELECT ON paper TO regress_reader;
CREATE FUNCTION regress_leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$
BEGIN RAISE NOTICE 'seen: %', $1; RETURN true; END $$;
GRANT EXECUTE ON FUNCTION regress_leak TO regress_reader;
CREATE POLICY of_reader ON paper TO regress_reader USING (bucket < 20 AND kind = 'k1');
ALTER TABLE paper ENABLE ROW LEVEL SECURITY;
SET ROLE regress_reader;
SELECT regress_plan($$SELECT id FROM paper WHERE regress_leak(kind)
    ORDER BY body <@> 'w3' LIMIT 2$$);
SELECT id FROM paper WHERE regress_leak(kind) ORDER BY body <@> 'w3' LIMIT 2;
RESET ROLE;
REVOKE SELECT ON paper FROM regress_reader;
GRANT SELECT (id, bucket) ON paper TO regress_reader;
ALTER TABLE paper DISABLE ROW LEVEL SECURITY;
CREATE VIEW paper_ids AS SELECT id, bucket, body FROM paper;
GRANT SELECT ON paper_ids TO regress_reader;
SET ROLE regress_reader;
SELECT id FROM paper_ids WHERE bucket < 10 ORDER BY body <@> 'w3' LIMIT 2; :sqlstate
RESET ROLE;

DROP VIEW paper_ids;
DROP TABLE paper, sparse, part, titled;
DEALLOCATE ALL;
DROP FUNCTION regress_plan, regress_both, regress_plain, regress_filtered, regress_lossy,
    regress_counts, regress_words, regress_leak;
DROP ROLE regress_reader;
