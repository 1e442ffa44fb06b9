-- Orders of index scans: tie-breaks use them, and no row is lost where a statement has no order.
SET jit = off;
CREATE TABLE place (id int PRIMARY KEY, kind int, at rag_types.vector(2));
INSERT INTO place SELECT i, i % 5, CASE WHEN i % 10 <> 0 THEN format('[%s,1]', i % 1500) END
    ::rag_types.vector FROM generate_series(1, 6000) i;
CREATE INDEX place_at ON place USING rag_hnsw (at vector_l2_ops);
ANALYZE place;

-- the planner sorts rows of equal distance
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM place ORDER BY at <-> '[3,1]', id LIMIT 5;
SELECT id, at <-> '[3,1]' AS distance FROM place ORDER BY at <-> '[3,1]', id DESC LIMIT 5;
SELECT id FROM place WHERE kind = 3 ORDER BY at <-> '[3,1]', kind, id LIMIT 3;

-- rows without a vector are not in the index
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT DISTINCT at <-> '[3,1]' FROM place;
SELECT count(*) FROM (SELECT DISTINCT at <-> '[3,1]' FROM place) x;
SELECT count(*), sum(count) FROM (SELECT at <-> '[3,1]', count(*) FROM place GROUP BY 1) x;
SELECT count(*) FROM (SELECT rank() OVER (ORDER BY at <-> '[3,1]') FROM place) x;
SELECT count(*) FROM (SELECT rank() OVER (ORDER BY at <-> '[3,1]') FROM place ORDER BY id) x;
SELECT min(at <-> '[3,1]') FROM place;
RESET enable_seqscan;
RESET enable_sort;
DROP TABLE place;
