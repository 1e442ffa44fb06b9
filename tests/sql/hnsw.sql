-- The access method rag_hnsw in a database. Recall and speed are measured elsewhere.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET enable_seqscan = off;
SET client_min_messages = notice;

-- Points on a grid in random order, whose nearest neighbours are known.
CREATE TABLE point (id int, category int, v rag_types.vector(3));
INSERT INTO point SELECT x * 100 + y * 10 + z, x, ARRAY[x, y, z]::rag_types.vector
FROM generate_series(0, 9) x, generate_series(0, 9) y, generate_series(0, 9) z
ORDER BY md5((x * 100 + y * 10 + z)::text);

-- each distance has its operator class ------------------------------------

CREATE INDEX point_l2 ON point USING rag_hnsw (v vector_l2_ops);
EXPLAIN (COSTS OFF) SELECT id FROM point ORDER BY v <-> '[4,5,6.2]' LIMIT 3;
SELECT id, round((v <-> '[4,5,6.2]')::numeric, 3) AS distance FROM point ORDER BY v <-> '[4,5,6.2]'
    LIMIT 3;
-- an index does not support other distances
SET enable_seqscan = on;
EXPLAIN (COSTS OFF) SELECT id FROM point ORDER BY v <=> '[4,5,6.2]' LIMIT 3;
SET enable_seqscan = off;
DROP INDEX point_l2;

CREATE INDEX point_ip ON point USING rag_hnsw (v vector_ip_ops);
EXPLAIN (COSTS OFF) SELECT id FROM point ORDER BY v <#> '[4,5,6.2]' LIMIT 3;
SELECT id, round((v <#> '[4,5,6.2]')::numeric, 3) AS distance FROM point ORDER BY v <#> '[4,5,6.2]'
    LIMIT 3;
DROP INDEX point_ip;

CREATE INDEX point_cosine ON point USING rag_hnsw (v vector_cosine_ops);
EXPLAIN (COSTS OFF) SELECT id FROM point ORDER BY v <=> '[1,2,9]' LIMIT 3;
SELECT id, round((v <=> '[1,2,9]')::numeric, 5) AS distance FROM point ORDER BY v <=> '[1,2,9]'
    LIMIT 3;
-- the zero vector has no direction and is not in the index
SELECT vectors FROM rag_hnsw_info('point_cosine');
SELECT count(*) FROM (SELECT id FROM point ORDER BY v <=> '[1,2,9]' OFFSET 0) AS found;
-- a zero vector as query returns rows in any order
SELECT count(*), count(distance) FILTER (WHERE distance <> 'NaN') AS known
FROM (SELECT v <=> '[0,0,0]' AS distance FROM point ORDER BY v <=> '[0,0,0]' OFFSET 0) AS found;
SELECT count(*) FROM (SELECT id FROM point ORDER BY v <=> NULL OFFSET 0) AS found;
DROP INDEX point_cosine;
CREATE INDEX point_l1 ON point USING rag_hnsw (v vector_l1_ops);
EXPLAIN (COSTS OFF) SELECT id FROM point ORDER BY v <+> '[4,5,6.2]' LIMIT 3;
SELECT id, v <+> '[4,5,6.2]' AS distance FROM point ORDER BY v <+> '[4,5,6.2]' LIMIT 3;
SELECT metric, vectors FROM rag_hnsw_info('point_l1');
SELECT * FROM rag_check_index('point_l1');
-- codes do not estimate this distance: candidates are found by the Euclidean distance
SELECT bool_and(recall > 0.9) AS good FROM rag_hnsw_recall('point_l1', 50, 5);
DROP INDEX point_l1;

-- what the catalog says ---------------------------------------------------

SELECT opcname, amvalidate(oid) FROM pg_opclass WHERE opcmethod = (SELECT oid FROM pg_am
    WHERE amname = 'rag_hnsw') ORDER BY 1;
CREATE INDEX point_l2 ON point USING rag_hnsw (v vector_l2_ops) WITH (m = 8, ef_construction = 40);
SELECT p AS property, pg_index_column_has_property('point_l2', 1, p)
FROM unnest(ARRAY['distance_orderable', 'orderable', 'returnable', 'search_nulls',
'search_array']) AS p;
SELECT p AS property, pg_index_has_property('point_l2', p)
    FROM unnest(ARRAY['index_scan', 'bitmap_scan', 'backward_scan', 'clusterable']) AS p;
SELECT metric, dimensions, m, ef_construction, vectors, nodes, tombstones, levels > 0 AS has_levels,
    average_degree BETWEEN 2 AND 16 AS is_linked,
    pages > 1 AS has_pages, bytes = pages * 8192 AS bytes, slots_per_page, code_dimensions, hint
    FROM rag_hnsw_info('point_l2');
SELECT * FROM rag_check_index('point_l2');
ALTER INDEX point_l2 SET (m = 20);
SELECT m, hint FROM rag_hnsw_info('point_l2');
REINDEX INDEX point_l2;
SELECT m, hint FROM rag_hnsw_info('point_l2');

-- what is refused ---------------------------------------------------------

CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops) WITH (m = 1); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops) WITH (m = 101); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops) WITH (ef_construction = 3); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops) WITH (ef_construction = 1001); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops)
    WITH (m = 16, ef_construction = 31); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops) WITH (m = 'many'); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops) WITH (lists = 10); :sqlstate
ALTER INDEX point_l2 SET (m = 60); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v); :sqlstate
CREATE INDEX ON point USING rag_hnsw (id); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops, v vector_l2_ops); :sqlstate
CREATE UNIQUE INDEX ON point USING rag_hnsw (v vector_l2_ops); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops) INCLUDE (id); :sqlstate
CREATE INDEX ON point USING rag_hnsw (v vector_l2_ops DESC); :sqlstate
SELECT id FROM point ORDER BY v <-> '[1,2]' LIMIT 1; :sqlstate
SET rag.ef_search = 0; :sqlstate
SET rag.ef_search = 10001; :sqlstate
SET rag.iterative_scan = maybe; :sqlstate
SET rag.max_scan_tuples = -1; :sqlstate
SELECT * FROM rag_check_index('point'); :sqlstate
SELECT * FROM rag_hnsw_info('pg_class_oid_index'); :sqlstate
SELECT * FROM rag_hnsw_recall('point_l2', 0); :sqlstate
SELECT * FROM rag_hnsw_recall('point_l2', 10, 1001); :sqlstate
SELECT * FROM rag_hnsw_info(NULL);

-- filters and the iterative scan ------------------------------------------

-- all rows of a category in order, however far away; a row found too late comes last
SET rag.ef_search = 10;
WITH found AS (SELECT id, v <-> '[0,0,0]' AS distance, row_number() OVER () AS place
    FROM (SELECT * FROM point WHERE category = 9 ORDER BY v <-> '[0,0,0]' OFFSET 0) AS p)
SELECT count(*), count(*) FILTER (WHERE distance < previous) <= 2 AS in_order
FROM (SELECT *, lag(distance) OVER (ORDER BY place) AS previous FROM found) AS f;
SELECT count(*) FROM (SELECT id FROM point WHERE category = 9 ORDER BY v <-> '[0,0,0]'
    LIMIT 50) AS found;
SET rag.iterative_scan = relaxed;
SELECT count(*) FROM (SELECT id FROM point WHERE category = 9 ORDER BY v <-> '[0,0,0]'
    LIMIT 50) AS found;
SET rag.iterative_scan = off;
SELECT count(*) FROM (SELECT id FROM point ORDER BY v <-> '[0,0,0]' OFFSET 0) AS found;
SELECT count(*) FROM (SELECT id FROM point WHERE category = 9 ORDER BY v <-> '[0,0,0]'
    LIMIT 50) AS found;
SET rag.iterative_scan = strict;
SET rag.max_scan_tuples = 100;
SELECT count(*) < 1000 AS stopped FROM (SELECT id
    FROM point ORDER BY v <-> '[0,0,0]' OFFSET 0) AS found;
RESET rag.max_scan_tuples;
RESET rag.ef_search;
-- a query for each row of another table
SELECT q.id, nearest.id AS nearest FROM (VALUES (1, '[0.2,0,0]'::rag_types.vector),
    (2, '[5,5,5.1]'), (3, NULL), (4, '[9,8.9,9]')) AS q (id, v)
LEFT JOIN LATERAL (SELECT p.id FROM point p WHERE q.v IS NOT NULL ORDER BY p.v <-> q.v
LIMIT 1) AS nearest ON true ORDER BY 1;
-- a cursor continues where it was
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM point ORDER BY v <-> '[9,9,9.3]';
FETCH 1 FROM c;
MOVE FORWARD 996 FROM c;
MOVE FORWARD ALL FROM c;
CLOSE c;
COMMIT;
-- rows of uncommitted transactions are not found
BEGIN;
DELETE FROM point WHERE id = 999;
SELECT id FROM point ORDER BY v <-> '[9,9,9.3]' LIMIT 1;
ROLLBACK;
SELECT id FROM point ORDER BY v <-> '[9,9,9.3]' LIMIT 1;

-- inserts, updates, deletes, vacuum ---------------------------------------

INSERT INTO point VALUES (5000, 5, '[4.4,4.4,4.4]'), (5001, 5, NULL);
SELECT id FROM point ORDER BY v <-> '[4.4,4.4,4.4]' LIMIT 2;
UPDATE point SET v = '[20,20,20]' WHERE id = 5000;
SELECT id FROM point ORDER BY v <-> '[4.4,4.4,4.4]' LIMIT 1;
SELECT id FROM point ORDER BY v <-> '[30,30,30]' LIMIT 1;
UPDATE point SET category = 6 WHERE id = 5000;
SELECT id, category FROM point ORDER BY v <-> '[30,30,30]' LIMIT 1;
SELECT * FROM rag_check_index('point_l2');
DELETE FROM point WHERE category < 5;
VACUUM point;
SELECT vectors, nodes, tombstones FROM rag_hnsw_info('point_l2');
SELECT * FROM rag_check_index('point_l2');
SELECT id FROM point ORDER BY v <-> '[0,0,0]' LIMIT 1;
SELECT count(*) FROM (SELECT id FROM point ORDER BY v <-> '[0,0,0]' OFFSET 0) AS found;
INSERT INTO point SELECT x * 100 + y * 10 + z, x, ARRAY[x, y, z]::rag_types.vector
    FROM generate_series(0, 4) x, generate_series(0, 9) y, generate_series(0, 9) z;
SELECT id FROM point ORDER BY v <-> '[0,0,0.1]' LIMIT 2;
SELECT * FROM rag_check_index('point_l2');
SELECT bool_and(recall > 0.95) AS good, count(*) FROM rag_hnsw_recall('point_l2', 20, 5);
-- a text embedding has other dimensions
SELECT * FROM rag_hnsw_recall('point_l2', ARRAY['x']); :sqlstate

-- indexes of a table without vectors, of one without dimensions -----------

CREATE TABLE empty (id int, v rag_types.vector);
CREATE INDEX empty_v ON empty USING rag_hnsw (v vector_l2_ops);
SELECT * FROM rag_check_index('empty_v');
SELECT metric, dimensions, vectors FROM rag_hnsw_info('empty_v');
SELECT id FROM empty ORDER BY v <-> '[1,2]';
SELECT * FROM rag_hnsw_recall('empty_v');
SELECT * FROM rag_hnsw_recall('empty_v', ARRAY['how are keys rotated?']);
SELECT * FROM rag_hnsw_recall('empty_v', ARRAY['x', NULL]); :sqlstate
SELECT * FROM rag_hnsw_recall('empty_v', '{}'::text[]); :sqlstate
SELECT * FROM rag_hnsw_recall('empty_v', ARRAY['x'], 1001); :sqlstate
SELECT * FROM rag_hnsw_recall('empty_v', ARRAY['x'], model => 'not-there'); :sqlstate
VACUUM empty;
INSERT INTO empty VALUES (1, NULL);
INSERT INTO empty VALUES (2, '[1,2]');
INSERT INTO empty VALUES (3, '[1,2,3]'); :sqlstate
SELECT id FROM empty ORDER BY v <-> '[1,2,3]'; :sqlstate
SELECT id FROM empty ORDER BY v <-> '[1,3]';
SELECT dimensions, vectors FROM rag_hnsw_info('empty_v');
TRUNCATE empty;
SELECT dimensions, vectors FROM rag_hnsw_info('empty_v');
INSERT INTO empty VALUES (3, '[1,2,3]');
SELECT id FROM empty ORDER BY v <-> '[1,2,4]';
DROP INDEX empty_v;
INSERT INTO empty VALUES (4, '[1,2]');
CREATE INDEX ON empty USING rag_hnsw (v vector_l2_ops); :sqlstate
-- the maximum number of dimensions
TRUNCATE empty;
INSERT INTO empty SELECT i, array_fill(i::real, ARRAY[16000])::rag_types.vector
    FROM generate_series(1, 20) i;
CREATE INDEX empty_v ON empty USING rag_hnsw (v vector_l2_ops);
SELECT id FROM empty ORDER BY v <-> array_fill(7.2::real, ARRAY[16000])::rag_types.vector LIMIT 2;
SELECT vectors, slots_per_page, code_dimensions < 16000 AS projected, hint IS NOT NULL AS hint
    FROM rag_hnsw_info('empty_v');
SELECT * FROM rag_check_index('empty_v');

-- many equal vectors ------------------------------------------------------

CREATE TABLE same (id int, v rag_types.vector(2));
INSERT INTO same SELECT i, '[1,1]' FROM generate_series(1, 3000) i;
CREATE INDEX same_v ON same USING rag_hnsw (v vector_cosine_ops);
INSERT INTO same SELECT i, '[1,1]' FROM generate_series(3001, 3500) i;
INSERT INTO same VALUES (0, '[-1,1]');
SELECT count(DISTINCT id) FROM (SELECT id FROM same ORDER BY v <=> '[1,1]' LIMIT 3500) AS found
    WHERE id > 0;
SELECT vectors, nodes FROM rag_hnsw_info('same_v');
DELETE FROM same WHERE id BETWEEN 1 AND 3499;
VACUUM same;
SELECT id FROM same ORDER BY v <=> '[1,1]';
SELECT * FROM rag_check_index('same_v');

-- tables and indexes of all kinds -----------------------------------------

CREATE TEMP TABLE temporary AS SELECT * FROM point;
CREATE INDEX temporary_v ON temporary USING rag_hnsw (v vector_l2_ops);
INSERT INTO temporary VALUES (6000, 0, '[30,30,30]');
SELECT id FROM temporary ORDER BY v <-> '[29,29,29]' LIMIT 1;
DELETE FROM temporary WHERE id < 500;
VACUUM temporary;
SELECT id FROM temporary ORDER BY v <-> '[0,0,0]' LIMIT 1;
SELECT * FROM rag_check_index('temporary_v');

CREATE UNLOGGED TABLE unlogged AS SELECT * FROM point;
CREATE INDEX unlogged_v ON unlogged USING rag_hnsw (v vector_l2_ops);
INSERT INTO unlogged VALUES (6000, 0, '[30,30,30]');
SELECT id FROM unlogged ORDER BY v <-> '[29,29,29]' LIMIT 1;
ALTER TABLE unlogged SET LOGGED;
SELECT id FROM unlogged ORDER BY v <-> '[29,29,29]' LIMIT 1;
SELECT * FROM rag_check_index('unlogged_v');

CREATE INDEX point_partial ON point USING rag_hnsw (v vector_cosine_ops) WHERE category = 7;
SELECT vectors FROM rag_hnsw_info('point_partial');
SELECT * FROM rag_check_index('point_partial');
EXPLAIN (COSTS OFF) SELECT id FROM point WHERE category = 7 ORDER BY v <=> '[1,1,1]' LIMIT 1;
SELECT id FROM point WHERE category = 7 ORDER BY v <=> '[1,1,1]' LIMIT 1;
SELECT bool_and(recall > 0.9) AS good FROM rag_hnsw_recall('point_partial', 10, 3);

CREATE TABLE embedded (id int, elements real[]);
INSERT INTO embedded SELECT i, ARRAY[i, i % 7] FROM generate_series(1, 500) i;
CREATE INDEX embedded_v ON embedded USING rag_hnsw ((elements::rag_types.vector(2)) vector_l2_ops);
EXPLAIN (COSTS OFF) SELECT id FROM embedded ORDER BY elements::rag_types.vector(2) <-> '[100,2]'
    LIMIT 3;
SELECT id FROM embedded ORDER BY elements::rag_types.vector(2) <-> '[100,2]' LIMIT 3;
INSERT INTO embedded VALUES (1000, '{1,2,3}'); :sqlstate
SELECT * FROM rag_check_index('embedded_v');
SELECT bool_and(recall > 0.9) AS good FROM rag_hnsw_recall('embedded_v', 10, 3);

CREATE TABLE parted (id int, v rag_types.vector(3)) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (500);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (500) TO (10000);
INSERT INTO parted SELECT id, v FROM point;
CREATE INDEX parted_v ON parted USING rag_hnsw (v vector_l2_ops) WITH (m = 8, ef_construction = 50);
EXPLAIN (COSTS OFF) SELECT id FROM parted ORDER BY v <-> '[4.9,5,5]' LIMIT 3;
SELECT id FROM parted ORDER BY v <-> '[4.9,5,5]' LIMIT 2;
SELECT m, ef_construction FROM rag_hnsw_info('parted_1_v_idx');
SELECT * FROM rag_hnsw_info('parted_v'); :sqlstate
SELECT * FROM rag_check_index('parted_2_v_idx');

-- rebuilding --------------------------------------------------------------

CREATE INDEX CONCURRENTLY point_concurrent ON point USING rag_hnsw (v vector_l2_ops);
SELECT * FROM rag_check_index('point_concurrent');
REINDEX INDEX CONCURRENTLY point_concurrent;
SELECT * FROM rag_check_index('point_concurrent');
SELECT vectors FROM rag_hnsw_info('point_concurrent');
REINDEX TABLE CONCURRENTLY point;
SELECT id FROM point ORDER BY v <-> '[4,5,6.2]' LIMIT 1;
-- with less memory than the graph needs
CREATE TABLE large AS SELECT i AS id, ARRAY[sin(i), cos(i * 3), sin(i * 7),
    cos(i * 11)]::rag_types.vector AS v FROM generate_series(1, 4000) i;
SET maintenance_work_mem = '1MB';
\set VERBOSITY terse
CREATE INDEX large_v ON large USING rag_hnsw (v vector_l2_ops);
\set VERBOSITY default
SELECT vectors FROM rag_hnsw_info('large_v');
SELECT * FROM rag_check_index('large_v');
SELECT bool_and(recall > 0.9) AS good FROM rag_hnsw_recall('large_v', 10, 10);
RESET maintenance_work_mem;
-- with several threads
SET max_parallel_maintenance_workers = 8;
REINDEX INDEX large_v;
SELECT * FROM rag_check_index('large_v');

-- who may look: who may read the table ------------------------------------

CREATE ROLE regress_rag_stranger IN ROLE rag_reader;
SET ROLE regress_rag_stranger;
SELECT * FROM rag_hnsw_info('point_l2'); :sqlstate
SELECT * FROM rag_check_index('point_l2'); :sqlstate
SELECT * FROM rag_hnsw_recall('point_l2'); :sqlstate
RESET ROLE;
DROP ROLE regress_rag_stranger;

DROP TABLE point, empty, same, temporary, unlogged, embedded, parted, large;
