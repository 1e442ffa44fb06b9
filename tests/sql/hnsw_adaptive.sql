-- A plan that begins with the index, and ranks the rows of the filter if that does not find enough.
SET jit = off;
SET max_parallel_workers_per_gather = 0;
-- 20 clusters of 1,000 rows on a circle
CREATE TABLE place (id int PRIMARY KEY, cluster int, bucket int, at rag_types.vector(2));
SELECT setseed(.5);
INSERT INTO place SELECT i, i % 20, i / 20 % 100, format('[%s,%s]',
        100 * cos(i % 20 * pi() / 10) + 3 * random(), 100 * sin(i % 20 * pi() / 10) + 3 * random())
    ::rag_types.vector FROM generate_series(1, 20000) i;
CREATE INDEX place_at ON place USING rag_hnsw (at vector_l2_ops);
ANALYZE place;

CREATE FUNCTION place_plan(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || statement;
END $$;

-- how many rows came from the index, and how many were ranked
CREATE FUNCTION place_rows(statement text, OUT adaptive bool, OUT from_index bool, OUT ranked int)
LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || statement
        INTO plan;
    plan := plan -> 0 -> 'Plan';
    WHILE plan -> 'Plans' IS NOT NULL AND plan ->> 'Custom Plan Provider' IS NULL LOOP
        plan := plan -> 'Plans' -> 0;
    END LOOP;
    adaptive := coalesce(plan ->> 'Custom Plan Provider' = 'RagAdaptiveScan', false);
    from_index := (plan ->> 'Rows from Index')::int > 0;
    ranked := (plan ->> 'Ranked Rows')::int;
END $$;

-- true if a statement returns the same rows as without the index
CREATE FUNCTION place_is_exact(statement text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    found int[];
    expected int[];
BEGIN
    EXECUTE format('SELECT array_agg(id ORDER BY id) FROM (%s) x', statement) INTO found;
    SET LOCAL enable_indexscan = off;
    EXECUTE format('SELECT array_agg(id ORDER BY id) FROM (%s) x', statement) INTO expected;
    SET LOCAL enable_indexscan = on;
    RETURN found = expected AND cardinality(found) > 0;
END $$;

SELECT place_plan($$SELECT id FROM place WHERE cluster = 3 ORDER BY at <-> '[100,0]' LIMIT 10$$);

-- near rows come from the index alone, far ones are ranked
SELECT s.name, place_is_exact(q), r.* FROM (VALUES
    ('the cluster of the query', 'cluster = 0', 10),
    ('the cluster, many rows', 'cluster = 0', 900),
    ('a far cluster', 'cluster = 10', 10),
    ('all of a far cluster', 'cluster = 10', 2000),
    ('rows anywhere', 'bucket = 7', 10),
    ('no rows but few', 'id % 5000 = 17', 10)) s (name, condition, n),
    LATERAL format('SELECT id FROM place WHERE %s ORDER BY at <-> ''[100,0]'' LIMIT %s',
        condition, n) q, LATERAL place_rows(q) r;

-- with indexes for the filter
CREATE INDEX place_cluster ON place (cluster);
CREATE INDEX place_bucket ON place (bucket);
SELECT place_plan($$SELECT id FROM place WHERE cluster = 3 ORDER BY at <-> '[100,0]' LIMIT 10$$);
SELECT s.name, place_is_exact(q), r.* FROM (VALUES
    ('the cluster of the query', 'cluster = 0', 10),
    ('a far cluster', 'cluster = 10', 10),
    ('all of a far cluster', 'cluster = 10', 2000),
    ('rows anywhere', 'bucket = 7', 10),
    ('two indexes', 'bucket = 7 AND cluster IN (3, 9)', 10),
    ('either of two', 'bucket = 7 OR cluster = 9', 50),
    ('and a condition without', 'bucket = 7 AND id % 2 = 1', 10)) s (name, condition, n),
    LATERAL format('SELECT id FROM place WHERE %s ORDER BY at <-> ''[100,0]'' LIMIT %s',
        condition, n) q, LATERAL place_rows(q) r;

-- as often as it is asked, with each query
SELECT place_is_exact($$SELECT p.id FROM (VALUES ('[100,0]'), ('[0,100]'), ('[-70,-70]')) q (v),
    LATERAL (SELECT id FROM place WHERE cluster = 10 ORDER BY at <-> q.v::rag_types.vector
        LIMIT 5) p$$);
SELECT place_is_exact($$SELECT id FROM place WHERE cluster = 10
    ORDER BY at <-> (SELECT at FROM place WHERE id = 17) LIMIT 5$$);
PREPARE nearest (int, rag_types.vector) AS
    SELECT id FROM place WHERE cluster = $1 ORDER BY at <-> $2 LIMIT 3;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE nearest (10, '[100,0]');
EXECUTE nearest (10, '[100,0]');
EXECUTE nearest (0, '[100,0]');
EXECUTE nearest (10, NULL);
RESET plan_cache_mode;

-- in order, with rows from the index and ranked ones
SELECT count(*), count(*) FILTER (WHERE distance < lag) FROM (
    SELECT distance, lag(distance) OVER () FROM (
        SELECT at <-> '[100,0]' AS distance FROM place WHERE cluster = 0
        ORDER BY at <-> '[100,0]' LIMIT 900) x) y;

-- rows that are locked, updated, deleted, and read by a cursor
SELECT id FROM place WHERE cluster = 10 ORDER BY at <-> '[100,0]' LIMIT 2 FOR UPDATE;
BEGIN;
DECLARE rows CURSOR FOR SELECT id FROM place WHERE cluster = 10 ORDER BY at <-> '[100,0]';
FETCH 2 FROM rows;
DELETE FROM place WHERE cluster = 10;
FETCH 2 FROM rows;
MOVE 990 FROM rows;
FETCH 10 FROM rows;
ROLLBACK;
UPDATE place SET bucket = bucket + 1 WHERE cluster = 10 AND id % 3 = 0;
DELETE FROM place WHERE cluster = 10 AND id % 7 = 0;
SELECT place_is_exact($$SELECT id FROM place WHERE cluster = 10 ORDER BY at <-> '[100,0]'$$);
SELECT ctid = (SELECT p.ctid FROM place p WHERE p.id = x.id), tableoid::regclass
FROM (SELECT ctid, tableoid, id FROM place WHERE cluster = 10 ORDER BY at <-> '[100,0]' LIMIT 2) x;

-- more rows than there is memory for: each comes once
SET enable_sort = off;
SET work_mem = '64kB';
SELECT adaptive, from_index, ranked > 19000 FROM place_rows(
    $$SELECT id FROM place WHERE cluster <> 0 ORDER BY at <-> '[100,0]'$$);
SELECT count(*), count(DISTINCT id), count(*) = (SELECT count(*) FROM place WHERE cluster <> 0)
FROM (SELECT id FROM place WHERE cluster <> 0 ORDER BY at <-> '[100,0]') x;
RESET work_mem;

-- rows without a vector or without a direction are not in the index
CREATE TABLE direction AS SELECT id, cluster, at FROM place;
INSERT INTO direction SELECT -i, 10, CASE WHEN i % 2 = 0 THEN '[0,0]' END::rag_types.vector
    FROM generate_series(1, 10) i;
ALTER TABLE direction ALTER at TYPE rag_types.vector(2);
CREATE INDEX direction_at ON direction USING rag_hnsw (at vector_cosine_ops);
ANALYZE direction;
SELECT adaptive, ranked > 0 FROM place_rows(
    $$SELECT id FROM direction WHERE cluster = 10 ORDER BY at <=> '[1,0]'$$);
SELECT count(*) = (SELECT count(*) FROM place WHERE cluster = 10), min(id) > 0 FROM (
    SELECT id FROM direction WHERE cluster = 10 ORDER BY at <=> '[1,0]') x;
SELECT count(*) FROM (
    SELECT id FROM direction WHERE cluster = 10 ORDER BY at <=> '[0,0]' LIMIT 100) x;
RESET enable_sort;

-- partitions
CREATE TABLE part (id int, kind int, at rag_types.vector(2)) PARTITION BY LIST (kind);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (2);
INSERT INTO part SELECT id, id % 2 + 1, at FROM place;
CREATE INDEX ON part USING rag_hnsw (at vector_l2_ops);
ANALYZE part;
SELECT place_plan($$SELECT id FROM part WHERE id % 100 = 7 ORDER BY at <-> '[100,0]' LIMIT 5$$);
SELECT place_is_exact($$SELECT id FROM part WHERE id % 100 = 7 ORDER BY at <-> '[100,0]' LIMIT 5$$);

-- a role sees the rows of its policy
CREATE ROLE rag_test_near;
GRANT SELECT ON place TO rag_test_near;
GRANT USAGE ON SCHEMA rag_types TO rag_test_near;
ALTER TABLE place ENABLE ROW LEVEL SECURITY;
CREATE POLICY far ON place FOR SELECT TO rag_test_near USING (cluster = 10);
SET ROLE rag_test_near;
SELECT place_plan($$SELECT id FROM place ORDER BY at <-> '[100,0]' LIMIT 3$$);
SELECT count(*), min(cluster), max(cluster) FROM (
    SELECT cluster FROM place ORDER BY at <-> '[100,0]' LIMIT 50) x;
RESET ROLE;
ALTER TABLE place DISABLE ROW LEVEL SECURITY;
DROP OWNED BY rag_test_near;
DROP ROLE rag_test_near;

-- never
SELECT adaptive FROM place_rows($$SELECT id FROM place ORDER BY at <-> '[100,0]' LIMIT 5$$);
SELECT adaptive FROM place_rows($$SELECT id FROM place WHERE random() < 2 AND cluster = 3
    ORDER BY at <-> '[100,0]' LIMIT 5$$);
SET rag.iterative_scan = off;
SELECT adaptive FROM place_rows($$SELECT id FROM place WHERE cluster = 3
    ORDER BY at <-> '[100,0]' LIMIT 5$$);
RESET rag.iterative_scan;
SET rag.enable_filtered_scan = off;
SELECT adaptive FROM place_rows($$SELECT id FROM place WHERE cluster = 3
    ORDER BY at <-> '[100,0]' LIMIT 5$$);
RESET rag.enable_filtered_scan;

DROP TABLE place, direction, part;
DROP FUNCTION place_plan, place_rows, place_is_exact;
RESET jit;
RESET max_parallel_workers_per_gather;
