-- Scans of rag_hnsw: how much they read, and the order of their rows. Graphs differ from build to
-- build, so tests check bounds, which are far from usual values.
SET enable_seqscan = off;
SET enable_sort = off;

-- Numbers that look random and are reproducible.
CREATE FUNCTION noise(n bigint) RETURNS float8 IMMUTABLE
    LANGUAGE sql AS 'SELECT hashint8extended(n, 7) / 18446744073709551616.0';

-- Number of pages that a statement reads.
CREATE FUNCTION pages(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || statement INTO plan;
    RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint
        + (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
END $$;

-- rows of one vector ------------------------------------------------------

CREATE TABLE same (id int, v rag_types.vector);
INSERT INTO same SELECT i, ARRAY[noise(i), noise(-i), noise(3 * i)]::rag_types.vector
    FROM generate_series(1, 1000) i;
INSERT INTO same SELECT i, '[0.1,0.1,0.1]' FROM generate_series(1001, 51000) i;
CREATE INDEX same_v ON same USING rag_hnsw (v vector_l2_ops);
SELECT id > 1000 AS found FROM same ORDER BY v <-> '[0.1,0.1,0.1]' LIMIT 1;
-- reading a few of them reads few pages
SELECT pages($$SELECT id FROM same ORDER BY v <-> '[0.1,0.1,0.1]' LIMIT 1$$) < 1000 AS few;
SELECT pages($$SELECT id FROM same ORDER BY v <-> '[0.1,0.1,0.1]' LIMIT 100$$) < 2000 AS few;
-- if all are requested, each comes once, before rows that are farther away
SELECT count(*), count(DISTINCT id), min(id) FROM (SELECT id
    FROM same ORDER BY v <-> '[0.1,0.1,0.1]' LIMIT 50000) AS nearest;
SELECT count(*), count(DISTINCT id) FROM (SELECT id
    FROM same ORDER BY v <-> '[0.1,0.1,0.1]' OFFSET 0) AS everything;
SELECT count(*) FROM (SELECT id FROM same WHERE id IN (1001, 26000, 51000)
    ORDER BY v <-> '[0.1,0.1,0.1]' LIMIT 3) AS found;
-- rows inserted after the snapshot, or deleted, are not returned
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM same ORDER BY v <-> '[0.1,0.1,0.1]';
MOVE FORWARD 10 FROM c;
INSERT INTO same SELECT i, '[0.1,0.1,0.1]' FROM generate_series(51001, 51100) i;
DELETE FROM same WHERE id BETWEEN 2001 AND 40000;
MOVE FORWARD ALL FROM c;
CLOSE c;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM same ORDER BY v <-> '[0.1,0.1,0.1]'
    LIMIT 12100) AS nearest WHERE id > 1000;
COMMIT;
-- a query without direction has no distance to any row
SELECT count(*) FROM (SELECT id FROM same ORDER BY v <-> NULL OFFSET 0) AS found;
VACUUM same;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM same ORDER BY v <-> '[0.1,0.1,0.1]'
    LIMIT 12100) AS nearest WHERE id > 1000;
-- vectors that are almost equal may have the same code, but come in order
CREATE TABLE parallel (id int, v rag_types.vector);
INSERT INTO parallel SELECT i, ARRAY[i, 2 * i, -i]::rag_types.vector
    FROM generate_series(1, 3000) i;
CREATE INDEX ON parallel USING rag_hnsw (v vector_cosine_ops);
SELECT count(*), count(*) FILTER (WHERE distance < previous) AS out_of_order
    FROM (SELECT distance, lag(distance) OVER () AS previous
    FROM (SELECT v <=> '[1,1,0]' AS distance FROM parallel ORDER BY v <=> '[1,1,0]'
    LIMIT 2900) AS found) AS f;

-- rag.max_scan_tuples -----------------------------------------------------

-- no visited row is discarded
CREATE TABLE many (id int, v rag_types.vector);
INSERT INTO many SELECT i, (SELECT array_agg(noise(i * 16 + j))
    FROM generate_series(1, 16) j)::rag_types.vector FROM generate_series(1, 10000) i;
CREATE INDEX many_v ON many USING rag_hnsw (v vector_l2_ops);
ANALYZE many;
SELECT v AS q FROM many WHERE id = 7 \gset
SET rag.max_scan_tuples = 4000;
SELECT count(*) BETWEEN 3500 AND 4100 AS visited
    FROM (SELECT id FROM many ORDER BY v <-> :'q' OFFSET 0) AS found;
SELECT count(*) BETWEEN 150 AND 250 AS a_twentieth
    FROM (SELECT id FROM many WHERE id % 20 = 0 ORDER BY v <-> :'q' OFFSET 0) AS found;
-- strict order
SELECT count(*) < 10 AS in_order FROM (SELECT distance, lag(distance) OVER () AS previous
    FROM (SELECT v <-> :'q' AS distance FROM many ORDER BY 1 OFFSET 0) AS found) AS f
    WHERE distance < previous;
RESET rag.max_scan_tuples;

-- strict order ------------------------------------------------------------

-- Rows found too late come last, which is rare even in a full scan of vectors of different lengths.
-- Ranks, ties and merged partitions are correct up to there.
CREATE TABLE lengths (id int, v rag_types.vector) PARTITION BY LIST ((id % 2));
CREATE TABLE lengths_0 PARTITION OF lengths FOR VALUES IN (0);
CREATE TABLE lengths_1 PARTITION OF lengths FOR VALUES IN (1);
INSERT INTO lengths SELECT i, (SELECT array_agg(noise(i * 16 + j) * 10 ^ (4 * noise(-i)))
    FROM generate_series(1, 16) j)::rag_types.vector
FROM generate_series(1, 10000) i;
CREATE INDEX ON lengths USING rag_hnsw (v vector_l2_ops);
ANALYZE lengths;
SELECT v AS q FROM lengths WHERE id = 7 \gset
CREATE VIEW ranked AS SELECT id, v <-> :'q' AS distance, rank() OVER (ORDER BY v <-> :'q')
FROM lengths_1;
CREATE TABLE truth AS SELECT id, rank() OVER (ORDER BY distance)
    FROM (SELECT id, v <-> :'q' AS distance FROM lengths_1 OFFSET 0) AS l;
SELECT count(*)
FROM (SELECT rank, distance, lag(distance) OVER () AS previous
FROM (SELECT * FROM ranked OFFSET 0) AS r) AS f WHERE distance < previous AND rank <= 4900;
SELECT max(abs(r.rank - t.rank)) < 20 AS ranks_are_right FROM ranked r JOIN truth t USING (id)
    WHERE r.rank <= 4900;
SELECT count(*) > 4990 AS ranked FROM ranked;
-- merged partitions
SELECT count(*) FILTER (WHERE distance < previous) AS out_of_order
    FROM (SELECT distance, lag(distance) OVER () AS previous
    FROM (SELECT v <-> :'q' AS distance FROM lengths ORDER BY 1 LIMIT 9500) AS found) AS f;
-- ties
SELECT count(*) FROM (SELECT id FROM same ORDER BY v <-> '[0.1,0.1,0.1]' FETCH FIRST 1 ROW
    WITH TIES) AS tied;

DROP TABLE same, parallel, many, lengths, truth CASCADE;
DROP FUNCTION noise, pages;
