-- An index that was created on an empty table learns the centroid of its vectors from the first
-- ones: many tools create the table and its indexes before they load data. The vectors have a
-- common direction and lie in clusters, as embeddings do.
SELECT setseed(0.5);
CREATE FUNCTION pg_temp.some(count int) RETURNS SETOF rag_types.vector LANGUAGE sql
    AS 'SELECT array_agg(6 + (hashint4(i % 50 * 64 + j) & 255) / 255.0
                           + random() / 2)::rag_types.vector
        FROM generate_series(1, count) i, generate_series(1, 64) j GROUP BY i';
CREATE TABLE late (id int GENERATED ALWAYS AS IDENTITY, v rag_types.vector(64));
CREATE INDEX late_v ON late USING rag_hnsw (v vector_cosine_ops);
INSERT INTO late (v) SELECT pg_temp.some(500);
SELECT vectors, hint FROM rag_hnsw_info('late_v');
-- rolled back and deleted rows do not matter
BEGIN;
INSERT INTO late (v) SELECT pg_temp.some(200);
ROLLBACK;
DELETE FROM late WHERE id % 10 = 0;
INSERT INTO late (v) SELECT pg_temp.some(2000);
VACUUM late;
SELECT vectors, hint FROM rag_hnsw_info('late_v');
SELECT count(*) FROM rag_check_index('late_v');
SELECT bool_and(recall > 0.9) FROM rag_hnsw_recall('late_v', 50, 10) WHERE ef_search >= 80;
-- as good as an index that was created after the rows
CREATE TABLE same AS SELECT * FROM late;
CREATE INDEX same_v ON same USING rag_hnsw (v vector_cosine_ops);
SELECT a.recall > b.recall - 0.05 AS as_good FROM rag_hnsw_recall('late_v', 100, 10) a
    JOIN rag_hnsw_recall('same_v', 100, 10) b USING (ef_search) WHERE ef_search = 80;
-- an index on an expression
CREATE TABLE expressions (id int, a real[]);
CREATE INDEX expressions_v ON expressions USING rag_hnsw ((a::rag_types.vector(64)) vector_l2_ops);
INSERT INTO expressions SELECT 1, v::real[] FROM pg_temp.some(2000) v;
SELECT vectors, hint FROM rag_hnsw_info('expressions_v');
SELECT count(*) FROM rag_check_index('expressions_v');
-- vectors in the TOAST table
CREATE TABLE part AS SELECT i, array_agg(3 + random())::rag_types.vector AS v
    FROM generate_series(0, 79) i, generate_series(1, 1000) GROUP BY i;
CREATE TABLE wide (v rag_types.vector(1000));
CREATE INDEX wide_v ON wide USING rag_hnsw (v vector_l2_ops);
INSERT INTO wide SELECT a.v + b.v FROM part a, part b WHERE a.i < 40 AND b.i >= 40;
SELECT vectors, hint FROM rag_hnsw_info('wide_v');
SELECT count(*) FROM rag_check_index('wide_v');
DROP TABLE late, same, expressions, part, wide;
