-- The plan RagCountScan: the number of rows that match, by the index.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET jit = off;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE paper (id int PRIMARY KEY, kind text, body text) WITH (autovacuum_enabled = off);
INSERT INTO paper SELECT n, 'k' || n % 5, CASE WHEN n % 50 <> 0 THEN
    (SELECT string_agg('w' || n * k % (3 + 2 * k), ' ') FROM generate_series(1, 5 + n % 20) k) END
    FROM generate_series(1, 20000) n;
CREATE INDEX paper_body ON paper USING rag_bm25 (body)
    WITH (text_config = 'simple', positions = on);
VACUUM ANALYZE paper;

CREATE FUNCTION regress_plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || statement; END $$;

-- Returns whether the plan is used, whether it counts as others do, and what it counts.
CREATE FUNCTION regress_both(statement text, OUT is_used bool, OUT is_same bool, OUT counts text)
LANGUAGE plpgsql AS $$
DECLARE plain text;
BEGIN
    statement := 'SELECT s::text FROM (' || statement || ') s';
    SET LOCAL rag.enable_count_scan = off;
    EXECUTE statement INTO plain;
    SET LOCAL rag.enable_count_scan = on;
    EXECUTE statement INTO counts;
    is_used := EXISTS (SELECT FROM regress_plan(statement) p WHERE p ~ 'RagCountScan');
    is_same := plain = counts;
END $$;

-- plans -------------------------------------------------------------------

SELECT regress_plan($$SELECT count(*) FROM paper WHERE body @@@ 'w1 w5'$$);
EXPLAIN (COSTS OFF, VERBOSE) SELECT count(*) + 1 AS more, count(1) FROM paper
    WHERE body @@@ 'w1 w5';
EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM paper
    WHERE body @@@ 'w1 w5';
EXPLAIN (COSTS OFF) SELECT id FROM paper p
    WHERE id < 3 AND (SELECT count(*) FROM paper WHERE body @@@ p.kind) > 0;
-- settings
BEGIN;
SET LOCAL rag.enable_count_scan = off;
SELECT regress_plan($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$);
SET LOCAL rag.enable_count_scan = on;
SET LOCAL enable_indexonlyscan = off;
SELECT regress_plan($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$);
ROLLBACK;
SET rag.enable_count_scan = 'perhaps'; :sqlstate

-- counts ------------------------------------------------------------------

SELECT query, (regress_both(format('SELECT count(*) FROM paper WHERE body @@@ %L', query))).*
FROM unnest(ARRAY['w1', 'w0 w1 w2', 'w38', 'missing', '', '-"w1"', 'w1 -"w2"', '+w1 +w2',
    '+w1 w2 -"w3"', '+"w1 w2" -w38', '"w1 w2"', '"w1 w2"~4 w7', '-"w1 w2" w1', 'w3*', 'w33~',
    'w1*~ "w1', '"w1 w2" OR "w2 w1"', 'w1 w1', NULL]) query;
-- the same, with other targets and levels
SELECT (regress_both(statement)).*, statement FROM unnest(ARRAY[
    $$SELECT count(*), count(*) * 2, 'x', now() > '2000-01-01' FROM paper WHERE body @@@ 'w1'$$,
    $$SELECT count('x') FROM paper WHERE body @@@ 'w1'$$,
    $$SELECT count(*) FROM paper WHERE body @@@ rag_bm25_query('w1', 'paper_body')$$,
    $$SELECT count(*) OVER () FROM (SELECT count(*) FROM paper WHERE body @@@ 'w1') s$$,
    $$SELECT sum(c) FROM (SELECT count(*) AS c FROM paper WHERE body @@@ 'w1'
        UNION ALL SELECT count(*) FROM paper WHERE body @@@ 'w2') s$$,
    $$SELECT string_agg(c::text, ',') FROM (VALUES ('w1'), ('w7'), (NULL), ('w2')) AS v (word),
        LATERAL (SELECT count(*) AS c FROM paper WHERE body @@@ word) s$$,
    $$SELECT string_agg((SELECT count(*) FROM paper p WHERE p.body @@@ ('w' || n))::text, ',')
        FROM generate_series(1, 5) n$$,
    $$SELECT count(*) FROM paper WHERE body @@@ 'w1' HAVING true$$]) statement;
-- other plans
SELECT (regress_both(statement)).*, statement FROM unnest(ARRAY[
    $$SELECT count(*) FROM paper WHERE body @@@ 'w1' AND kind = 'k1'$$,
    $$SELECT count(*) FROM paper WHERE body @@@ 'w1' AND body @@@ 'w2'$$,
    $$SELECT count(*) FROM paper WHERE body @@@ 'w1' AND NOT body @@@ 'w2'$$,
    $$SELECT count(*) FROM paper WHERE body @@@ 'w1' OR id = 7$$,
    $$SELECT count(*) FROM paper WHERE body !@@@ 'w1'$$,
    $$SELECT count(kind) FROM paper WHERE body @@@ 'w1'$$,
    $$SELECT count(NULL) FROM paper WHERE body @@@ 'w1'$$,
    $$SELECT count(*), max(id) FROM paper WHERE body @@@ 'w1'$$,
    $$SELECT count(*) FILTER (WHERE body @@@ 'w2') FROM paper WHERE body @@@ 'w1'$$,
    $$SELECT count(DISTINCT kind) FROM paper WHERE body @@@ 'w1'$$,
    $$SELECT count(*) FROM paper WHERE body @@@ 'w1' HAVING count(*) > 100000$$,
    $$SELECT count(*) FROM paper WHERE body @@@ 'w1' GROUP BY kind ORDER BY 1 LIMIT 1$$,
    $$SELECT count(*) FROM paper a JOIN paper b USING (id) WHERE a.body @@@ 'w1'$$,
    $$SELECT count(*) FROM paper TABLESAMPLE system (100) WHERE body @@@ 'w1'$$,
    $$SELECT count(*) FROM paper WHERE body @@@ 'w1' AND random() >= 0$$]) statement;
-- a false condition, and one that is only known when the statement runs
SELECT count(*) FROM paper WHERE body @@@ 'w1' AND false;
PREPARE counted(text, bool) AS SELECT count(*) FROM paper WHERE body @@@ $1 AND $2;
EXECUTE counted('w1', true);
EXECUTE counted('w1', false);
-- parameters
SET plan_cache_mode = force_generic_plan;
PREPARE given(text) AS SELECT count(*) FROM paper WHERE body @@@ $1;
EXPLAIN (COSTS OFF) EXECUTE given('w1');
EXECUTE given('w1');
EXECUTE given('"w1 w2"');
EXECUTE given(NULL);
RESET plan_cache_mode;
-- a cursor goes back
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT count(*) FROM paper WHERE body @@@ 'w1';
FETCH FROM c;
FETCH FROM c;
FETCH BACKWARD FROM c;
ROLLBACK;

-- rows that not all transactions see --------------------------------------

BEGIN;
DELETE FROM paper WHERE id % 10 = 3;
UPDATE paper SET kind = 'x' WHERE id % 10 = 4;
UPDATE paper SET body = body || ' w1' WHERE id % 10 = 5;
INSERT INTO paper SELECT n, 'new', 'w1 w2' FROM generate_series(30001, 30100) n;
SELECT (regress_both($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$)).*;
SAVEPOINT s;
DELETE FROM paper WHERE id < 5000;
SELECT (regress_both($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$)).*;
ROLLBACK TO s;
SELECT (regress_both($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$)).*;
ROLLBACK;
SELECT (regress_both($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$)).*;
DELETE FROM paper WHERE id % 10 = 3;
SELECT (regress_both($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$)).*;
VACUUM paper;
SELECT (regress_both($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$)).*;
-- no row of the table is visited now, also where documents are deleted
EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM paper
    WHERE body @@@ 'w1';
-- other rows at the places of deleted ones
INSERT INTO paper SELECT n, 'again', 'w2 w7' FROM generate_series(35001, 35500) n;
SELECT (regress_both($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$)).*;
SELECT (regress_both($$SELECT count(*) FROM paper WHERE body @@@ 'w2'$$)).*;
VACUUM paper;
SELECT rag_bm25_merge('paper_body');
SELECT (regress_both($$SELECT count(*) FROM paper WHERE body @@@ 'w1'$$)).*;
INSERT INTO paper VALUES (40001, 'new', 'w1');
EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM paper
    WHERE body @@@ 'w1';

-- indexes -----------------------------------------------------------------

-- without positions, texts tell which rows have a phrase
DROP INDEX paper_body;
CREATE INDEX paper_body ON paper USING rag_bm25 (body) WITH (text_config = 'simple');
SELECT query, (regress_both(format('SELECT count(*) FROM paper WHERE body @@@ %L', query))).*
FROM unnest(ARRAY['w1', '"w1 w2"', '-"w1 w2" w1', '+w1 +w2']) query;
-- an expression, and a partial index
CREATE INDEX paper_both ON paper USING rag_bm25 ((kind || ' ' || body))
    WITH (text_config = 'simple');
SELECT (regress_both($$SELECT count(*) FROM paper WHERE (kind || ' ' || body) @@@ 'k1 w7'$$)).*;
DROP INDEX paper_body;
CREATE INDEX paper_some ON paper USING rag_bm25 (body) WITH (text_config = 'simple')
    WHERE kind = 'k1';
SELECT (regress_both($$SELECT count(*) FROM paper WHERE kind = 'k1' AND body @@@ 'w1'$$)).*;
-- partitions, inheritance, and columns of another type
CREATE TABLE part (id int, body varchar(100)) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (100) TO (200);
INSERT INTO part SELECT n, 'w' || n % 3 FROM generate_series(0, 199) n;
CREATE INDEX part_body ON part USING rag_bm25 (body) WITH (text_config = 'simple');
VACUUM ANALYZE part;
SELECT (regress_both($$SELECT count(*) FROM part WHERE body @@@ 'w1'$$)).counts;
SELECT (regress_both($$SELECT count(*) FROM part_1 WHERE body @@@ 'w1'$$)).*;
CREATE TABLE heir () INHERITS (paper);
INSERT INTO heir VALUES (50001, 'k1', 'w1');
SELECT count(*) FROM ONLY paper WHERE kind = 'k1' AND body @@@ 'w1';
DROP TABLE heir;

-- row-level security and privileges ---------------------------------------

CREATE ROLE regress_reader;
GRANT USAGE ON SCHEMA rag TO regress_reader;
GRANT rag_reader TO regress_reader;
CREATE TABLE own (id int, owner text, body text);
INSERT INTO own SELECT n, CASE WHEN n % 4 = 0 THEN 'regress_reader' ELSE 'x' END, 'word ' || n
    FROM generate_series(1, 400) n;
CREATE INDEX own_body ON own USING rag_bm25 (body) WITH (text_config = 'simple');
VACUUM ANALYZE own;
SET ROLE regress_reader;
SELECT count(*) FROM own WHERE body @@@ 'word'; :sqlstate
RESET ROLE;
GRANT SELECT ON own TO regress_reader;
SET ROLE regress_reader;
SELECT (regress_both($$SELECT count(*) FROM own WHERE body @@@ 'word'$$)).*;
RESET ROLE;
CREATE POLICY of_owner ON own USING (owner = current_user);
ALTER TABLE own ENABLE ROW LEVEL SECURITY;
SET ROLE regress_reader;
SELECT (regress_both($$SELECT count(*) FROM own WHERE body @@@ 'word'$$)).*;
RESET ROLE;
-- a policy that is a condition of the index
DROP POLICY of_owner ON own;
CREATE POLICY of_words ON own USING (body @@@ 'word');
SET ROLE regress_reader;
SELECT (regress_both($$SELECT count(*) FROM own$$)).*;
SELECT (regress_both($$SELECT count(*) FROM own WHERE body @@@ '7'$$)).*;
RESET ROLE;
SELECT (regress_both($$SELECT count(*) FROM own WHERE body @@@ 'word'$$)).*;
DROP TABLE own, part, paper;
REVOKE USAGE ON SCHEMA rag FROM regress_reader;
DROP ROLE regress_reader;
DROP FUNCTION regress_plan(text), regress_both(text);
