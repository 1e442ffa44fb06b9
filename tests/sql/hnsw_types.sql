-- Indexes of rag_hnsw on halfvec and bit: the order of rows is that of the operators.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET search_path = public, rag_types, rag_functions;
SET enable_seqscan = off;
SELECT setseed(0.3);

-- The rows that an index returns first, and those that are nearest, as counts.
CREATE FUNCTION found(relation text, distance text, wanted int DEFAULT 10)
RETURNS TABLE (rows bigint, nearest bigint, is_ordered boolean, plan text) LANGUAGE plpgsql AS $$
DECLARE
    by_index float8[];
    exact float8[];
    search text := format(
        'SELECT array_agg(d ORDER BY n) FROM (SELECT d, row_number() OVER () AS n FROM ('
        'SELECT %2$s AS d FROM %1$I ORDER BY %2$s LIMIT %3$s) AS s) AS s',
        relation, distance, wanted);
BEGIN
    EXECUTE 'EXPLAIN (COSTS off, FORMAT json) ' || format('SELECT 1 FROM %I ORDER BY %s LIMIT 1',
        relation, distance) INTO plan;
    plan := plan::json -> 0 -> 'Plan' -> 'Plans' -> 0 ->> 'Node Type';
    EXECUTE search INTO by_index;
    PERFORM set_config('enable_indexscan', 'off', true);
    EXECUTE search INTO exact;
    PERFORM set_config('enable_indexscan', 'on', true);
    RETURN QUERY SELECT count(d), count(*) FILTER (WHERE d <= exact[wanted]),
        array_agg(d ORDER BY n) = array_agg(d ORDER BY d), plan
        FROM unnest(by_index) WITH ORDINALITY AS u (d, n);
END $$;

-- halfvec -----------------------------------------------------------------

CREATE TABLE t (id int PRIMARY KEY, val halfvec(3));
INSERT INTO t VALUES (1, '[0,0,0]'), (2, '[1,2,3]'), (3, '[1,1,1]'), (4, NULL);
CREATE INDEX ON t USING rag_hnsw (val halfvec_l2_ops);
INSERT INTO t VALUES (5, '[1,2,4]');
SELECT * FROM t ORDER BY val <-> '[3,3,3]';
SELECT count(*) FROM (SELECT * FROM t ORDER BY val <-> (SELECT NULL::halfvec)) AS s;
SELECT id FROM t ORDER BY val <-> '[3,3]'; :sqlstate
DROP INDEX t_val_idx;
CREATE INDEX ON t USING rag_hnsw (val halfvec_ip_ops);
SELECT * FROM t ORDER BY val <#> '[3,3,3]';
DROP INDEX t_val_idx;
CREATE INDEX ON t USING rag_hnsw (val halfvec_cosine_ops);
SELECT * FROM t ORDER BY val <=> '[3,3,3]';
SELECT count(*) FROM (SELECT * FROM t ORDER BY val <=> '[0,0,0]') AS s;
DROP INDEX t_val_idx;
CREATE INDEX ON t USING rag_hnsw (val halfvec_l1_ops);
SELECT * FROM t ORDER BY val <+> '[3,3,3]';
CREATE INDEX ON t USING rag_hnsw (val vector_l2_ops); :sqlstate
CREATE INDEX ON t USING rag_hnsw (val); :sqlstate
DROP TABLE t;

-- in rows of 100 dimensions, in a column and as an expression of a vector
CREATE TABLE items (id int PRIMARY KEY, kind int, embedding vector(100), half halfvec(100));
INSERT INTO items (id, kind, embedding)
    SELECT i, i % 4, array(SELECT random() - 0.5 + 0 * i FROM generate_series(1, 100))::vector
    FROM generate_series(1, 1500) AS i;
UPDATE items SET half = embedding;
ANALYZE items;
CREATE INDEX ON items USING rag_hnsw (half halfvec_cosine_ops);
CREATE INDEX ON items USING rag_hnsw ((embedding::halfvec(100)) halfvec_l2_ops);
SELECT * FROM found('items', 'half <=> (SELECT half FROM items WHERE id = 7)');
SELECT * FROM found('items', 'embedding::halfvec(100) <-> (SELECT half FROM items WHERE id = 7)');
SELECT recall >= 0.95 AS is_good FROM rag_hnsw_recall('items_half_idx', 20) WHERE ef_search = 320;
SELECT recall >= 0.95 AS is_good FROM rag_hnsw_recall('items_embedding_idx', 20)
WHERE ef_search = 320;
SELECT metric, dimensions, vectors FROM rag_hnsw_info('items_half_idx');
-- changes, vacuum, and a transaction of its own
UPDATE items SET half = half + half WHERE kind = 1;
DELETE FROM items WHERE kind = 2;
BEGIN;
INSERT INTO items SELECT id + 5000, 2, embedding, half FROM items WHERE kind = 3;
SELECT * FROM found('items', 'half <=> (SELECT half FROM items WHERE id = 5007)');
COMMIT;
VACUUM items;
SELECT * FROM found('items', 'half <=> (SELECT half FROM items WHERE id = 5007)');
SELECT problem FROM rag_check_index('items_half_idx');
SELECT problem FROM rag_check_index('items_embedding_idx');
DROP INDEX items_half_idx, items_embedding_idx;

-- bit ---------------------------------------------------------------------

SELECT hamming_distance('111', '111'), hamming_distance('111', '110') AS one,
    hamming_distance('111', '000') AS three, hamming_distance('', '') AS none,
    hamming_distance(repeat('10', 257)::bit(514), repeat('01', 257)::bit(514)) AS all,
    hamming_distance('111', '000'::varbit(4)) AS varying, B'1010' <~> B'0110' AS operator;
SELECT jaccard_distance('1111', '1111'), jaccard_distance('1111', '1110') AS quarter,
    jaccard_distance('1100', '1000') AS half, jaccard_distance('1111', '0000') AS nothing,
    jaccard_distance('0000', '0000') AS none, jaccard_distance('', '') AS empty,
    B'1010' <%> B'0110' AS operator;
SELECT hamming_distance('111', '00'); :sqlstate
SELECT jaccard_distance('1111', '00000'::varbit(5)); :sqlstate

CREATE TABLE b (val bit(3));
INSERT INTO b VALUES (B'000'), (B'100'), (B'111'), (NULL);
CREATE INDEX ON b USING rag_hnsw (val bit_hamming_ops);
INSERT INTO b VALUES (B'110');
SELECT * FROM b ORDER BY val <~> B'111';
SELECT count(*) FROM (SELECT * FROM b ORDER BY val <~> (SELECT NULL::bit)) AS s;
SELECT * FROM b ORDER BY val <~> B'11'; :sqlstate
SELECT problem FROM rag_check_index('b_val_idx');
DROP TABLE b;

CREATE TABLE b (val bit(4));
INSERT INTO b VALUES (B'0000'), (B'1100'), (B'1111'), (NULL);
CREATE INDEX ON b USING rag_hnsw (val bit_jaccard_ops);
INSERT INTO b VALUES (B'1110'), (B'0000');
SELECT * FROM b ORDER BY val <%> B'1111';
SELECT count(*) FROM (SELECT * FROM b ORDER BY val <%> B'0000') AS s;
SELECT metric, dimensions, vectors FROM rag_hnsw_info('b_val_idx');
SELECT problem FROM rag_check_index('b_val_idx');
DROP TABLE b;

-- lengths
CREATE TABLE b (val varbit);
CREATE INDEX ON b USING rag_hnsw ((val::bit(16001)) bit_hamming_ops); :sqlstate
CREATE INDEX ON b USING rag_hnsw (val bit_hamming_ops);
INSERT INTO b VALUES (B''); :sqlstate
INSERT INTO b VALUES (B'1'), (B'11'); :sqlstate
INSERT INTO b SELECT repeat('1', 16001)::varbit; :sqlstate
DROP TABLE b;

-- binary quantization, with an exact order of more rows than are wanted
CREATE INDEX ON items USING rag_hnsw ((binary_quantize(embedding)::bit(100)) bit_hamming_ops);
SELECT * FROM found('items', 'binary_quantize(embedding)::bit(100) <~>
    (SELECT binary_quantize(embedding) FROM items WHERE id = 7)', 5);
SELECT id FROM (
    SELECT id, embedding FROM items ORDER BY binary_quantize(embedding)::bit(100) <~>
        binary_quantize((SELECT embedding FROM items WHERE id = 7)) LIMIT 20
) AS s ORDER BY embedding <=> (SELECT embedding FROM items WHERE id = 7) LIMIT 1;
SELECT recall >= 0.9 AS is_good FROM rag_hnsw_recall('items_binary_quantize_idx', 20)
WHERE ef_search = 320;
SELECT metric, dimensions, vectors FROM rag_hnsw_info('items_binary_quantize_idx');
DROP INDEX items_binary_quantize_idx;
CREATE INDEX ON items USING rag_hnsw ((binary_quantize(half)::bit(100)) bit_jaccard_ops);
SELECT * FROM found('items', 'binary_quantize(half)::bit(100) <%>
    (SELECT binary_quantize(half) FROM items WHERE id = 7)', 5);
SELECT recall >= 0.9 AS is_good FROM rag_hnsw_recall('items_binary_quantize_idx', 20)
WHERE ef_search = 320;
SELECT problem FROM rag_check_index('items_binary_quantize_idx');

-- all rows, as an order without an index has them
SELECT count(*), count(*) FILTER (WHERE is_less) AS less FROM (
    SELECT d < lag(d) OVER (ORDER BY n) AS is_less FROM (
        SELECT d, row_number() OVER () AS n FROM (SELECT binary_quantize(half)::bit(100) <%>
            (SELECT binary_quantize(half) FROM items WHERE id = 7) AS d FROM items
            ORDER BY binary_quantize(half)::bit(100) <%>
            (SELECT binary_quantize(half) FROM items WHERE id = 7)) AS s) AS s) AS s;
SELECT count(*) FROM items;

-- the classes are valid
SELECT c.opcname FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
WHERE a.amname = 'rag_hnsw' AND NOT amvalidate(c.oid);

DROP TABLE items;
DROP FUNCTION found;
