-- A search ordered by <@> returns the rows that match, and no others, whatever its form and plan.
-- Each form runs with each kind of plan disabled. The results must be the same, and those of a
-- statement over scores that were computed without the index.
SET client_min_messages = warning;
SET jit = off;

-- 60 of 300 texts have the word "rust", at different lengths, so that all scores are different
CREATE TABLE doc (id int PRIMARY KEY, category int, body text);
INSERT INTO doc SELECT i, i % 7, CASE
    WHEN i % 50 = 3 THEN NULL
    WHEN i % 50 = 9 THEN ''
    WHEN i % 15 = 0 THEN 'rust go' || repeat(' filler', i / 5 - 1)
    WHEN i % 5 = 0 THEN 'rust' || repeat(' filler', i / 5)
    WHEN i % 4 = 0 THEN 'other text go'
    ELSE 'other text' END
FROM generate_series(1, 300) i;
CREATE INDEX doc_category ON doc (category);
CREATE INDEX doc_body ON doc USING rag_bm25 (body) WITH (text_config = 'simple');
CREATE TABLE label (category int, name text);
INSERT INTO label SELECT i, 'label ' || i FROM generate_series(0, 5) i;
CREATE TABLE part (LIKE doc) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE TABLE part_2 (body text, dropped int, category int, id int NOT NULL);
ALTER TABLE part_2 DROP dropped;
ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES FROM (100) TO (1000);
INSERT INTO part TABLE doc;
CREATE INDEX ON part (category);
CREATE INDEX part_body ON part USING rag_bm25 (body) WITH (text_config = 'simple');
CREATE VIEW doc_view AS SELECT id, category, body, body <@> 'rust' AS score FROM doc;
CREATE VIEW doc_barrier WITH (security_barrier) AS SELECT id, category, body FROM doc
    WHERE category < 6;
CREATE FUNCTION inlined(words text, count int) RETURNS TABLE (id int, score float8)
    LANGUAGE sql STABLE AS $$
    SELECT id, body <@> words FROM doc ORDER BY body <@> words LIMIT count $$;
CREATE FUNCTION planned(words text, count int) RETURNS TABLE (id int, score float8)
    LANGUAGE sql VOLATILE AS $$
    SELECT id, body <@> words FROM doc ORDER BY body <@> words LIMIT count $$;
CREATE TABLE found (id int, score float8);
ANALYZE doc;
ANALYZE label;
ANALYZE part;

CREATE TABLE oracle AS SELECT id, category, body, body <@> 'rust' AS score, body <@> 'go' AS go
    FROM doc;
SELECT count(*), count(*) FILTER (WHERE score < 0) AS matching,
    count(DISTINCT score) FILTER (WHERE score < 0) AS scores,
    count(*) FILTER (WHERE score = 0) AS others, count(*) FILTER (WHERE go < 0) AS go FROM oracle;

CREATE FUNCTION regress_rows(statement text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    line record;
    lines text[] := '{}';
BEGIN
    FOR line IN EXECUTE statement LOOP
        lines := lines || line::text;
    END LOOP;
    RETURN lines;
END $$;
-- The settings that are off, with the number of rows of each result.
CREATE FUNCTION regress_form(statement text, expected text, OUT rows int, OUT problems text)
LANGUAGE plpgsql AS $$
DECLARE
    off text;
    setting text;
    settings text[];
    right_rows text[] := regress_rows(expected);
    found text[];
BEGIN
    rows := cardinality(right_rows);
    FOREACH off IN ARRAY '{nothing,enable_seqscan,enable_indexscan,enable_bitmapscan,enable_sort,
        enable_incremental_sort,enable_nestloop,enable_hashjoin,rag.enable_filtered_scan,
        enable_seqscan enable_sort,enable_indexscan enable_bitmapscan,
        enable_seqscan enable_bitmapscan,enable_seqscan enable_indexscan,
        enable_hashjoin enable_mergejoin enable_material enable_hashagg}'::text[]
    LOOP
        settings := regexp_split_to_array(off, '\s+');
        FOR setting IN SELECT name FROM pg_settings WHERE name = ANY (settings) LOOP
            PERFORM set_config(setting, 'off', true);
        END LOOP;
        found := regress_rows(statement);
        IF found <> right_rows THEN
            problems := concat_ws('; ', problems, off || ': ' || cardinality(found));
        END IF;
        FOR setting IN SELECT name FROM pg_settings WHERE name = ANY (settings) LOOP
            PERFORM set_config(setting, 'on', true);
        END LOOP;
    END LOOP;
END $$;

CREATE TABLE form (number serial, statement text, expected text);
INSERT INTO form (statement, expected)
SELECT replace(statement, '#', count), replace(expected, '#', count) FROM (VALUES
    -- limits, filters
    ($$SELECT id, body <@> 'rust' FROM doc ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE category = 3 ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category = 3 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE id < 20 ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND id < 20 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE category < 3 AND id > 100 ORDER BY body <@> 'rust' LIMIT # OFFSET
     2$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category < 3 AND id > 100 ORDER BY score
     LIMIT # OFFSET 2$$),
    -- a tie-break, a positive score
    ($$SELECT id FROM doc ORDER BY body <@> 'rust', id LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE category = 3 ORDER BY body <@> 'rust', id DESC LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category = 3 ORDER BY score LIMIT #$$),
    ($$SELECT id, -(body <@> 'rust') AS score FROM doc ORDER BY score DESC LIMIT #$$,
     $$SELECT id, -score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE category < 3 ORDER BY -(body <@> 'rust') DESC NULLS LAST, id
     LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category < 3 ORDER BY score LIMIT #$$),
    -- the worst first
    ($$SELECT id FROM doc ORDER BY body <@> 'rust' DESC LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score DESC LIMIT #$$),
    ($$SELECT id FROM doc ORDER BY -(body <@> 'rust') LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score DESC LIMIT #$$),
    -- conditions
    ($$SELECT id FROM doc WHERE body @@@ 'rust' ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE body @@@ 'go' ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND go < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE (body @@@ 'go' OR id = 5) ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND (go < 0 OR id = 5) ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE NOT body @@@ 'go' ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND NOT go < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE body <@> 'rust' < -0.5 ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < -0.5 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE category IN (SELECT category FROM label WHERE name < 'label 3')
     ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category < 3 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc WHERE NOT EXISTS (SELECT FROM label WHERE label.category = doc.category)
     ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category > 5 ORDER BY score LIMIT #$$),
    -- joins
    ($$SELECT id, name FROM doc JOIN label USING (category) ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id, name FROM oracle JOIN label USING (category) WHERE score < 0 ORDER BY score
     LIMIT #$$),
    ($$SELECT id, name FROM doc LEFT JOIN label USING (category) ORDER BY body <@> 'rust', id
     LIMIT #$$,
     $$SELECT id, name FROM oracle LEFT JOIN label USING (category) WHERE score < 0
     ORDER BY score LIMIT #$$),
    ($$SELECT id, name FROM label LEFT JOIN doc USING (category) ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id, name FROM oracle JOIN label USING (category) WHERE score < 0 ORDER BY score
     LIMIT #$$),
    ($$SELECT a.id, b.id FROM doc a FULL JOIN part b ON a.id = b.id + 5 ORDER BY a.body <@> 'rust'
     LIMIT #$$,
     $$SELECT a.id, b.id FROM oracle a LEFT JOIN oracle b ON a.id = b.id + 5 WHERE a.score < 0
     ORDER BY a.score LIMIT #$$),
    -- subqueries, common table expressions, views, functions
    ($$SELECT * FROM (SELECT id, body <@> 'rust' AS score FROM doc) x ORDER BY score LIMIT #$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT * FROM (SELECT id, body <@> 'rust' AS score FROM doc OFFSET 0) x ORDER BY score
     LIMIT #$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM (SELECT id, -(body <@> 'rust') AS score FROM doc OFFSET 0) x
     ORDER BY score DESC, id LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM (SELECT id, body FROM doc ORDER BY id OFFSET 0) x ORDER BY body <@> 'rust'
     LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$WITH c AS (SELECT id, body <@> 'rust' AS score FROM doc) SELECT * FROM c ORDER BY score
     LIMIT #$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$WITH c AS (SELECT id, body <@> 'rust' AS score FROM doc)
     SELECT a.id, b.id FROM c a JOIN c b ON b.id = a.id + 5 ORDER BY a.score LIMIT #$$,
     $$SELECT a.id, b.id FROM oracle a JOIN oracle b ON b.id = a.id + 5 WHERE a.score < 0
     ORDER BY a.score LIMIT #$$),
    ($$WITH c AS MATERIALIZED (SELECT id, body <@> 'rust' AS score FROM doc)
     SELECT * FROM c ORDER BY score, id LIMIT #$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$WITH best AS (SELECT id FROM doc ORDER BY body <@> 'rust' LIMIT #)
     SELECT count(*), sum(id) FROM best$$,
     $$SELECT count(*), sum(id) FROM (SELECT id FROM oracle WHERE score < 0 ORDER BY score LIMIT
     #) x$$),
    ($$SELECT id, score FROM doc_view ORDER BY score LIMIT #$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc_view WHERE category = 2 ORDER BY body <@> 'rust', id LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category = 2 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc_barrier ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category < 6 ORDER BY score LIMIT #$$),
    ($$SELECT * FROM inlined('rust', #)$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT * FROM planned('rust', #)$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT name, (SELECT max(id) FROM (SELECT id FROM doc WHERE doc.category = label.category
     ORDER BY body <@> 'rust' LIMIT #) x) FROM label ORDER BY 1$$,
     $$SELECT name, (SELECT max(id) FROM (SELECT id FROM oracle WHERE oracle.category =
     label.category
     AND score < 0 ORDER BY score LIMIT #) x) FROM label ORDER BY 1$$),
    ($$SELECT name, best.id FROM label CROSS JOIN LATERAL (SELECT id FROM doc
     WHERE doc.category = label.category ORDER BY body <@> 'rust', id LIMIT #) best ORDER BY 1, 2$$,
     $$SELECT name, best.id FROM label CROSS JOIN LATERAL (SELECT id FROM oracle
     WHERE oracle.category = label.category AND score < 0 ORDER BY score LIMIT #) best ORDER BY
     1, 2$$),
    -- partitions
    ($$SELECT id, body <@> 'rust' FROM part ORDER BY body <@> 'rust' LIMIT #$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM part WHERE category = 3 ORDER BY body <@> 'rust', id LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category = 3 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM part ORDER BY -(body <@> 'rust') DESC LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id, body <@> 'rust' AS score FROM doc WHERE category < 3
     UNION ALL SELECT id, score FROM doc_view WHERE category = 3
     UNION ALL SELECT id, body <@> 'rust' FROM part WHERE category > 3 ORDER BY score LIMIT #$$,
     $$SELECT id, score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM (SELECT id, -(body <@> 'rust') AS score FROM doc WHERE category < 3
     UNION ALL SELECT id, -score FROM doc_view WHERE category >= 3) x
     ORDER BY score DESC, id LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id, body <@> 'rust' AS score FROM doc WHERE category < 3
     UNION ALL SELECT category, 0 FROM label ORDER BY score, id LIMIT #$$,
     $$SELECT id, score FROM oracle WHERE category < 3
     UNION ALL SELECT category, 0 FROM label ORDER BY score, id LIMIT #$$),
    ($$SELECT l.category, x.id FROM label l LEFT JOIN (SELECT id, category, body <@> 'rust' AS score
     FROM doc WHERE id < 150 UNION ALL SELECT id, category, body <@> 'rust' FROM part
     WHERE id >= 150) x USING (category) ORDER BY score LIMIT #$$,
     $$SELECT l.category, id FROM oracle JOIN label l USING (category) WHERE score < 0
     ORDER BY score LIMIT #$$),
    -- several keys: the first with the operator counts
    ($$SELECT id FROM doc ORDER BY category, body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY category, score LIMIT #$$),
    ($$SELECT id FROM doc WHERE category = 3 ORDER BY category, body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 AND category = 3 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc ORDER BY body <@> 'go' < 0, body <@> 'rust' LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY go < 0, score LIMIT #$$),
    -- groups, distinct rows and windows, with an order
    ($$SELECT DISTINCT body <@> 'rust' AS score FROM doc ORDER BY 1 LIMIT #$$,
     $$SELECT score FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT DISTINCT ON (category) category, id FROM doc ORDER BY category, body <@> 'rust'
     LIMIT #$$,
     $$SELECT DISTINCT ON (category) category, id FROM oracle WHERE score < 0
     ORDER BY category, score LIMIT #$$),
    ($$SELECT body <@> 'rust' AS score, count(*) FROM doc GROUP BY 1 ORDER BY 1 LIMIT #$$,
     $$SELECT score, 1::bigint FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id, rank() OVER (ORDER BY body <@> 'rust') FROM doc ORDER BY body <@> 'rust' LIMIT
     #$$,
     $$SELECT id, rank() OVER (ORDER BY score) FROM oracle WHERE score < 0 ORDER BY score LIMIT
     #$$),
    ($$SELECT id, count(*) OVER (ORDER BY body <@> 'go') FROM doc ORDER BY body <@> 'rust' LIMIT
     #$$,
     $$SELECT id, count(*) OVER (ORDER BY go) FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc ORDER BY body <@> 'rust' LIMIT # FOR UPDATE$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$),
    ($$SELECT id FROM doc ORDER BY body <@> NULL LIMIT #$$,
     $$SELECT id FROM oracle WHERE false LIMIT #$$),
    ($$SELECT id FROM doc ORDER BY body <@> 'nothing' LIMIT #$$, $$SELECT id FROM oracle WHERE
     false LIMIT #$$),
    ($$SELECT id FROM doc ORDER BY body <@> (SELECT 'rust') LIMIT #$$,
     $$SELECT id FROM oracle WHERE score < 0 ORDER BY score LIMIT #$$)
) f (statement, expected) CROSS JOIN unnest('{1,10,"NULL"}'::text[]) AS count;
-- without an order no row is lost
INSERT INTO form (statement, expected) VALUES
    ($$SELECT count(*), count(s), sum(n) FROM (SELECT body <@> 'rust' AS s, count(*) AS n FROM doc
     GROUP BY 1) x$$,
     $$SELECT count(*), count(s), sum(n) FROM (SELECT score AS s, count(*) AS n FROM oracle GROUP
     BY 1) x$$),
    ($$SELECT count(*) FROM (SELECT DISTINCT body <@> 'rust' FROM doc) x$$,
     $$SELECT count(*) FROM (SELECT DISTINCT score FROM oracle) x$$),
    ($$SELECT count(*) FROM (SELECT DISTINCT ON (body <@> 'rust') id FROM doc) x$$,
     $$SELECT count(*) FROM (SELECT DISTINCT ON (score) id FROM oracle) x$$),
    ($$SELECT count(r), max(r) FROM (SELECT rank() OVER (ORDER BY body <@> 'rust') AS r FROM doc)
     x$$,
     $$SELECT count(r), max(r) FROM (SELECT rank() OVER (ORDER BY score) AS r FROM oracle) x$$),
    ($$SELECT id FROM (SELECT id, row_number() OVER (ORDER BY body <@> 'rust', id) AS r FROM doc) x
     ORDER BY r LIMIT 100$$,
     $$SELECT id FROM oracle ORDER BY score, id LIMIT 100$$),
    ($$SELECT count(r) FROM (SELECT rank() OVER (ORDER BY body <@> NULL) AS r FROM doc
     WHERE body @@@ 'rust') x$$, $$SELECT count(*) FROM oracle WHERE score < 0$$),
    ($$SELECT count(r) FROM (SELECT rank() OVER (ORDER BY body <@> 'go') AS r FROM doc
     WHERE body @@@ 'rust') x$$, $$SELECT count(*) FROM oracle WHERE score < 0$$),
    ($$SELECT count(*) FROM (SELECT body <@> 'rust' FROM doc WHERE id < 100
     UNION SELECT body <@> 'rust' FROM doc) x$$, $$SELECT count(DISTINCT score) + 1 FROM oracle$$),
    ($$SELECT count(*) FROM (SELECT body <@> 'rust' FROM doc EXCEPT SELECT 0) x$$,
     $$SELECT count(DISTINCT score) FROM oracle$$),
    ($$SELECT min(body <@> 'rust'), max(body <@> 'rust') FROM doc$$, $$SELECT min(score),
     max(score) FROM oracle$$),
    ($$SELECT min(body <@> 'nothing') FROM doc$$, $$SELECT 0::float8$$),
    ($$SELECT count(*) FROM doc a JOIN part b ON a.body <@> 'rust' = b.body <@> 'rust'
     WHERE a.id = b.id$$, $$SELECT count(score) FROM oracle$$),
    ($$SELECT count(*) FROM (SELECT count(*) FROM doc GROUP BY GROUPING SETS ((body <@> 'rust'), ())
     ORDER BY body <@> 'rust') x$$, $$SELECT count(DISTINCT score) + 2 FROM oracle$$),
    -- a column of an outer level is the same for all rows
    ($$SELECT count((SELECT l.name FROM label l ORDER BY x.score, l.name LIMIT 1))
     FROM (SELECT body <@> 'rust' AS score FROM doc OFFSET 0) x$$, $$SELECT count(*) FROM oracle$$),
    ($$SELECT count((SELECT l.name FROM label l ORDER BY doc.body <@> 'rust', l.name LIMIT 1))
     FROM doc$$, $$SELECT count(*) FROM oracle$$),
    -- thresholds and conditions
    ($$SELECT count(*) FROM doc WHERE body <@> 'rust' < 0$$, $$SELECT count(*) FROM oracle WHERE
     score < 0$$),
    ($$SELECT count(*) FROM doc WHERE body <@> 'rust' <= 0$$, $$SELECT count(*) FROM oracle WHERE
     score <= 0$$),
    ($$SELECT count(*) FROM doc WHERE body <@> 'rust' > -1$$, $$SELECT count(*) FROM oracle WHERE
     score > -1$$),
    ($$SELECT count(*) FROM doc WHERE body <@> 'rust' <= -1$$, $$SELECT count(*) FROM oracle
     WHERE score <= -1$$),
    ($$SELECT count(*) FROM doc WHERE -1 > body <@> 'rust'$$, $$SELECT count(*) FROM oracle WHERE
     score < -1$$),
    ($$SELECT count(*) FROM doc WHERE -(body <@> 'rust') >= 1$$, $$SELECT count(*) FROM oracle
     WHERE score <= -1$$),
    ($$SELECT count(*) FROM doc WHERE 0 < -(body <@> 'rust')$$, $$SELECT count(*) FROM oracle
     WHERE score < 0$$),
    ($$SELECT count(*) FROM doc WHERE -(body <@> 'rust') > -1$$, $$SELECT count(*) FROM oracle
     WHERE score < 1$$),
    ($$SELECT count(*) FROM doc WHERE body <@> 'rust' < 'NaN'$$, $$SELECT count(*) FROM oracle
     WHERE score < 'NaN'$$),
    ($$SELECT count(*) FROM doc WHERE body @@@ 'rust' OR body @@@ 'go'$$,
     $$SELECT count(*) FROM oracle WHERE score < 0 OR go < 0$$),
    ($$SELECT count(*) FROM doc WHERE body @@@ 'rust' OR id = 3$$,
     $$SELECT count(*) FROM oracle WHERE score < 0 OR id = 3$$),
    ($$SELECT count(*) FROM doc WHERE body @@@ 'rust' AND NOT body @@@ 'go'$$,
     $$SELECT count(*) FROM oracle WHERE score < 0 AND NOT go < 0$$),
    ($$SELECT count(*) FROM doc WHERE NOT body @@@ 'go'$$, $$SELECT count(*) FROM oracle WHERE
     NOT go < 0$$),
    ($$SELECT count(*) FROM doc WHERE NOT (body @@@ 'rust' OR body @@@ 'go')$$,
     $$SELECT count(*) FROM oracle WHERE NOT (score < 0 OR go < 0)$$),
    ($$SELECT count(*) FROM doc WHERE body @@@ 'go' AND category = 3$$,
     $$SELECT count(*) FROM oracle WHERE go < 0 AND category = 3$$),
    ($$SELECT count(*) FROM part WHERE body @@@ 'rust' OR category = 3$$,
     $$SELECT count(*) FROM oracle WHERE score < 0 OR category = 3$$),
    ($$SELECT count(*) FROM doc WHERE body @@@ NULL$$, $$SELECT 0::bigint$$);

CREATE TABLE result AS SELECT number, statement, rows, problems
FROM form CROSS JOIN LATERAL regress_form(statement, expected);
SELECT count(*) AS forms, sum(rows) AS rows, count(problems) AS with_problems FROM result;
SELECT number, rows, problems, statement FROM result WHERE problems <> '' ORDER BY number;

-- prepared statements, also with NULL
SET plan_cache_mode = force_generic_plan;
PREPARE best(text, int) AS SELECT id FROM doc ORDER BY body <@> $1, id LIMIT $2;
PREPARE above(text, float8) AS SELECT count(*) FROM doc WHERE body <@> $1 < $2;
SELECT regress_form($$EXECUTE best('rust', 1000)$$,
    'SELECT id FROM oracle WHERE score < 0 ORDER BY score');
SELECT regress_form($$EXECUTE best(NULL, 10)$$, 'SELECT id FROM oracle WHERE false');
SELECT regress_form($$EXECUTE best('rust', NULL)$$,
    'SELECT id FROM oracle WHERE score < 0 ORDER BY score');
SELECT regress_form($$EXECUTE above('rust', 0)$$, 'SELECT count(*) FROM oracle WHERE score < 0');
SELECT regress_form($$EXECUTE above('rust', 1)$$, 'SELECT count(score) FROM oracle');
RESET plan_cache_mode;
-- a cursor
BEGIN;
DECLARE worst SCROLL CURSOR FOR SELECT id FROM doc ORDER BY body <@> 'rust' DESC;
FETCH 2 FROM worst;
MOVE FORWARD ALL FROM worst;
FETCH BACKWARD 2 FROM worst;
ROLLBACK;
-- rows of another statement
INSERT INTO found SELECT id, body <@> 'rust' FROM doc ORDER BY body <@> 'rust';
CREATE TABLE ranks AS SELECT id, rank() OVER (ORDER BY body <@> 'rust') FROM doc;
CREATE TABLE best AS SELECT id FROM doc ORDER BY body <@> 'rust';
SELECT (SELECT count(*) FROM found) AS found, (SELECT count(*) FROM ranks) AS ranks,
    (SELECT count(*) FROM best) AS best;

-- plans -------------------------------------------------------------------

-- enough rows for costs like those of real tables
INSERT INTO doc SELECT i, i % 7, 'other text ' || i || ' of many' FROM generate_series(301, 5000) i;
VACUUM ANALYZE doc;
EXPLAIN (COSTS OFF) SELECT id FROM doc ORDER BY body <@> 'many', id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id, -(body <@> 'many') AS score FROM doc ORDER BY score DESC LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id FROM doc ORDER BY -(body <@> 'many') DESC, id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id FROM doc WHERE category = 3 ORDER BY body <@> 'many', id LIMIT 10;
-- few rows match: they are listed, and sorted
EXPLAIN (COSTS OFF) SELECT id FROM doc ORDER BY body <@> 'rust', id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT count(*) FROM doc WHERE body <@> 'rust' < -1;
EXPLAIN (COSTS OFF) SELECT count(*) FROM doc WHERE 0 > body <@> 'rust';
EXPLAIN (COSTS OFF) SELECT id FROM doc ORDER BY body <@> 'rust' DESC LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id FROM part ORDER BY -(body <@> 'rust') DESC, id LIMIT 10;
EXPLAIN (COSTS OFF) SELECT name, id FROM label LEFT JOIN doc USING (category)
    ORDER BY body <@> 'rust' LIMIT 10;
EXPLAIN (COSTS OFF) SELECT DISTINCT body <@> 'rust' FROM doc;
EXPLAIN (COSTS OFF) SELECT rank() OVER (ORDER BY body <@> 'rust') FROM doc;
-- UNION ALL
EXPLAIN (COSTS OFF) SELECT id, body <@> 'rust' AS score FROM doc
    UNION ALL SELECT id, body <@> 'rust' FROM doc WHERE category = 3 ORDER BY score LIMIT 10;
-- bitmaps
EXPLAIN (COSTS OFF) SELECT count(*) FROM doc WHERE body @@@ 'rust' OR id = 7;
EXPLAIN (COSTS OFF) SELECT count(*) FROM doc WHERE body @@@ 'rust' OR body @@@ 'many';
EXPLAIN (COSTS OFF) SELECT id FROM doc WHERE body @@@ 'go' OR id = 7 ORDER BY body <@> 'rust';
-- none where rows need their scores
EXPLAIN (COSTS OFF) SELECT round((body <@> 'many')::numeric, 2) FROM doc
    WHERE body @@@ 'many' AND category < 2;
-- rows that must not match
EXPLAIN (COSTS OFF) SELECT count(*) FROM doc WHERE body @@@ 'rust' AND NOT body @@@ 'go';
EXPLAIN (COSTS OFF) SELECT id FROM doc WHERE body !@@@ 'go' ORDER BY body <@> 'rust' LIMIT 3;
SELECT id FROM doc WHERE body !@@@ 'go' ORDER BY body <@> 'rust' LIMIT 3;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM doc WHERE body !@@@ 'rust' AND NOT body @@@ 'go';
SELECT count(*) FROM doc WHERE body !@@@ 'rust' AND NOT body @@@ 'go';
SELECT count(*) FROM doc WHERE body !@@@ 'rust' OR id = 5;
RESET enable_seqscan;
SELECT 'x' !@@@ 'y';
SELECT 'go rust' !@@@ rag_bm25_query(words, 'doc_body')
    FROM (VALUES ('go'), ('other'), (''), (NULL)) AS q (words);

-- small tables, and searches without LIMIT
EXPLAIN (COSTS OFF) SELECT id FROM doc ORDER BY body <@> 'rust';
EXPLAIN (COSTS OFF) WITH c AS MATERIALIZED (SELECT id FROM doc ORDER BY body <@> 'rust')
    SELECT count(*) FROM c;
-- neither an operator of PostgreSQL of the same name nor another schema's is meant
CREATE TABLE shape (id int, place point, area box);
INSERT INTO shape SELECT i, point(i, i), box(point(0, 0), point(i, i)) FROM generate_series(0, 9) i;
EXPLAIN (COSTS OFF) SELECT id FROM shape ORDER BY place <-> '(0,0)', id;
CREATE SCHEMA other;
CREATE FUNCTION other.bm25_order(text, text) RETURNS float8 LANGUAGE sql IMMUTABLE
    AS $$ SELECT length($1)::float8 $$;
CREATE OPERATOR other.<@> (LEFTARG = text, RIGHTARG = text, FUNCTION = other.bm25_order);
SET search_path = other, public;
EXPLAIN (COSTS OFF) SELECT id FROM doc WHERE id < 9 ORDER BY body OPERATOR(other.<@>) 'rust';
SELECT count(*) FROM (SELECT id FROM doc ORDER BY body OPERATOR(other.<@>) 'rust') x;
SELECT id FROM doc ORDER BY body OPERATOR(public.<@>) 'rust' LIMIT 1;
RESET search_path;
DROP SCHEMA other CASCADE;

-- of several partial indexes the conditions tell which one is meant
CREATE TABLE letter (id int, lang text, body text);
INSERT INTO letter VALUES (1, 'en', 'die hard dies'), (2, 'de', 'die Katze'), (3, 'de', 'Katzen'),
    (4, 'en', 'cat'), (5, 'fr', 'chat');
CREATE INDEX letter_en ON letter USING rag_bm25 (body) WITH (text_config = 'english')
    WHERE lang = 'en';
CREATE INDEX letter_de ON letter USING rag_bm25 (body) WITH (text_config = 'german')
    WHERE lang = 'de';
EXPLAIN (COSTS OFF) SELECT id FROM letter WHERE lang = 'de' ORDER BY body <@> 'die Katze';
SELECT id FROM letter WHERE lang = 'de' ORDER BY body <@> 'die Katze', id;
SELECT id FROM letter WHERE lang = 'en' ORDER BY body <@> 'die', id;
SELECT id FROM (SELECT * FROM letter WHERE lang = 'de' OFFSET 0) x ORDER BY body <@> 'Katze', id;
SELECT l.id FROM label JOIN letter l ON lang = 'de' AND l.id = category
    ORDER BY body <@> 'Katze', id;
SELECT id FROM letter WHERE lang IN ('de', 'en') ORDER BY body <@> 'Katze';
SELECT id FROM letter ORDER BY body <@> 'Katze';
SELECT id FROM letter ORDER BY body <@> rag_bm25_query('Katze', 'letter_de'), id;
CREATE INDEX letter_all ON letter USING rag_bm25 (body) WITH (text_config = 'simple');
SELECT id FROM letter ORDER BY body <@> 'Katze';
DROP TABLE letter;

-- rows that a policy hides: the condition is checked after the policy
CREATE ROLE regress_search_reader;
GRANT SELECT ON doc TO regress_search_reader;
ALTER TABLE doc ENABLE ROW LEVEL SECURITY;
CREATE POLICY three ON doc USING (category = 3);
SET ROLE regress_search_reader;
EXPLAIN (COSTS OFF) SELECT id FROM doc ORDER BY body <@> 'rust', id LIMIT 3;
SELECT id FROM doc ORDER BY body <@> 'rust', id LIMIT 3;
SELECT count(*) FROM (SELECT id FROM doc ORDER BY -(body <@> 'rust') DESC) x;
SET enable_indexscan = off;
SELECT count(*) FROM (SELECT id FROM doc ORDER BY -(body <@> 'rust') DESC) x;
RESET enable_indexscan;
RESET ROLE;
ALTER TABLE doc DISABLE ROW LEVEL SECURITY;
REVOKE SELECT ON doc FROM regress_search_reader;
GRANT SELECT (id) ON doc TO regress_search_reader;
SET ROLE regress_search_reader;
SELECT id FROM doc ORDER BY body <@> 'rust' LIMIT 1;
RESET ROLE;
REVOKE SELECT (id) ON doc FROM regress_search_reader;
DROP ROLE regress_search_reader;

DEALLOCATE ALL;
DROP VIEW doc_view, doc_barrier;
DROP FUNCTION inlined, planned, regress_rows, regress_form;
DROP TABLE doc, label, part, oracle, form, result, found, ranks, best, shape;
