-- The type rag_types.vector: pgvector's text form, binary form, operators and errors, in another
-- schema.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET search_path = public, rag_functions;

-- text in and out ---------------------------------------------------------

SELECT '[1,2,3]'::rag_types.vector, ' [ 1 , -2.50,3e2 ] '::rag_types.vector AS spaced,
    '[.5]'::rag_types.vector AS one, '[0,-0]'::rag_types.vector AS zeros;

-- the shortest text that reads back as the same 32-bit float
SELECT '[0.1,0.30000001192092896,1e-45,3.4028235e38,123456789]'::rag_types.vector;

-- invalid vectors
SELECT ''::rag_types.vector; :sqlstate
SELECT '1,2'::rag_types.vector; :sqlstate
SELECT '[1,2'::rag_types.vector; :sqlstate
SELECT '[1,2]3'::rag_types.vector; :sqlstate
SELECT '[1,,2]'::rag_types.vector; :sqlstate
SELECT '[1,2,]'::rag_types.vector; :sqlstate
SELECT '[1 2]'::rag_types.vector; :sqlstate
SELECT '[a]'::rag_types.vector; :sqlstate
SELECT '[[1]]'::rag_types.vector; :sqlstate
SELECT '{1,2}'::rag_types.vector; :sqlstate
SELECT '[]'::rag_types.vector; :sqlstate
SELECT '[ ]'::rag_types.vector; :sqlstate
SELECT '[NaN]'::rag_types.vector; :sqlstate
SELECT '[1,Infinity]'::rag_types.vector; :sqlstate
SELECT '[-inf]'::rag_types.vector; :sqlstate
SELECT '[1e39]'::rag_types.vector; :sqlstate
SELECT ('[' || repeat('7,', 60) || 'x]')::rag_types.vector; :sqlstate

-- 1 to 16000 dimensions
SELECT vector_dims(('[' || repeat('1,', 15999) || '1]')::rag_types.vector);
SELECT vector_dims(('[' || repeat('1,', 16000) || '1]')::rag_types.vector); :sqlstate

-- the number of dimensions as part of a column's type ---------------------

CREATE TABLE item (id int, embedding rag_types.vector(3));
INSERT INTO item VALUES (1, '[1,2,3]'), (2, '[4,5,6]'), (3, NULL);
INSERT INTO item VALUES (4, '[1,2]'); :sqlstate
UPDATE item SET embedding = ARRAY[1, 2, 3, 4] WHERE id = 1; :sqlstate
SELECT '[1,2]'::rag_types.vector(3); :sqlstate
SELECT ARRAY[1,2]::rag_types.vector(3); :sqlstate
SELECT '[1,2]'::rag_types.vector::rag_types.vector(2), format_type('rag_types.vector'::regtype, 3);
CREATE TABLE wrong (embedding rag_types.vector(0)); :sqlstate
CREATE TABLE wrong (embedding rag_types.vector(-1)); :sqlstate
CREATE TABLE wrong (embedding rag_types.vector(16001)); :sqlstate
CREATE TABLE wrong (embedding rag_types.vector(1, 2)); :sqlstate
CREATE TABLE wrong (embedding rag_types.vector(three)); :sqlstate

-- binary form ------------------------------------------------------------
-- dimensions and a zero as 16-bit integers, then 32-bit floats, in network byte order

SELECT rag_internal.vector_send('[1,-2.5]');
CREATE TEMP TABLE original AS
    SELECT i AS id, ARRAY[i, -i / 3.0, i * 1e10]::real[]::rag_types.vector AS embedding
    FROM generate_series(1, 1000) AS i;
\set file `mktemp "${TMPDIR:-/tmp}/vector.XXXXXX"`
\set SHOW_CONTEXT never
COPY original TO :'file' (FORMAT binary);
CREATE TEMP TABLE copied (LIKE original);
COPY copied FROM :'file' (FORMAT binary);
SELECT count(*), bool_and(o.embedding = c.embedding) AS equal FROM original o
    JOIN copied c USING (id);

-- a binary COPY file: its header, a row of one column of 4 + 4 * n bytes, and the end
CREATE TEMP TABLE received (embedding rag_types.vector);
CREATE FUNCTION pg_temp.receive(file text, vector bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    -- signature, flags, no extension
    head CONSTANT bytea := '\x5047434f50590aff0d0a000000000000000000';
    large oid := lo_from_bytea(0,
        head || '\x0001' || int4send(length(vector)) || vector || '\xffff');
BEGIN
    PERFORM lo_export(large, file), lo_unlink(large);
    EXECUTE format('COPY received FROM %L (FORMAT binary)', file);
END $$;
SELECT pg_temp.receive(:'file', '\x00020000' || float4send(1) || float4send(-2.5));
SELECT * FROM received;
SELECT pg_temp.receive(:'file', '\x00000000'); :sqlstate
SELECT pg_temp.receive(:'file', '\xffff0000'); :sqlstate
SELECT pg_temp.receive(:'file', '\x3e810000'); :sqlstate
SELECT pg_temp.receive(:'file', '\x00010001' || float4send(1)); :sqlstate
SELECT pg_temp.receive(:'file', '\x00020000' || float4send(1)); :sqlstate
SELECT pg_temp.receive(:'file', '\x00010000' || float4send(1) || float4send(1)); :sqlstate
SELECT pg_temp.receive(:'file', '\x00010000' || float4send('NaN')); :sqlstate
SELECT pg_temp.receive(:'file', '\x00010000' || float4send('-Infinity')); :sqlstate
\setenv FILE :file
\! rm "$FILE"

-- distances ---------------------------------------------------------------

-- Euclidean, negative inner product, cosine, taxicab
SELECT a <-> b AS l2, a <#> b AS negative_inner_product, round((a <=> b)::numeric, 6) AS cosine,
    a <+> b AS l1
FROM (VALUES ('[0,3]'::rag_types.vector, '[4,0]'::rag_types.vector), ('[1,2]', '[1,2]'),
('[1,1]', '[-1,-1]'), ('[1,2]', '[3,4]')) AS v (a, b);
SELECT l2_distance('[0,0]', '[3,4]'), vector_l2_squared_distance('[0,0]', '[3,4]'),
    inner_product('[1,2]', '[3,4]'),
    vector_negative_inner_product('[1,2]', '[3,4]'), cosine_distance('[1,0]', '[0,2]'),
    l1_distance('[0,0]', '[3,-4]');

-- sums do not overflow if the floats themselves do not; a vector without direction has no cosine
SELECT round((('[3e38]'::rag_types.vector <-> '[-3e38]') / 6e38)::numeric, 6) AS l2,
    round(('[3e38,3e38]'::rag_types.vector <=> '[3e38,3e38]')::numeric, 6) AS cosine,
    '[0,0]'::rag_types.vector <=> '[1,1]' AS of_zero;

SELECT '[1,2]'::rag_types.vector <-> '[1]'; :sqlstate
SELECT '[1,2]'::rag_types.vector <#> '[1]'; :sqlstate
SELECT '[1,2]'::rag_types.vector <=> '[1]'; :sqlstate
SELECT '[1,2]'::rag_types.vector <+> '[1]'; :sqlstate
SELECT '[1]'::rag_types.vector <-> NULL AS unknown;

-- nearest first
SELECT id, embedding <-> '[3,3,3]' AS distance FROM item ORDER BY embedding <-> '[3,3,3]', id;

-- arithmetic --------------------------------------------------------------

SELECT '[1,2]'::rag_types.vector + '[3,4]' AS sum,
    '[1,2]'::rag_types.vector - '[3,4]' AS difference,
    '[1,2]'::rag_types.vector * '[3,4]' AS product,
    '[1,2]'::rag_types.vector || '[3]' AS concatenation;
SELECT '[1]'::rag_types.vector + '[1,2]'; :sqlstate
SELECT '[1]'::rag_types.vector - '[1,2]'; :sqlstate
SELECT '[1]'::rag_types.vector * '[1,2]'; :sqlstate
SELECT '[3e38]'::rag_types.vector + '[3e38]'; :sqlstate
SELECT '[-3e38]'::rag_types.vector - '[3e38]'; :sqlstate
SELECT '[1e37]'::rag_types.vector * '[1e37]'; :sqlstate
SELECT '[1e-37]'::rag_types.vector * '[1e-37]'; :sqlstate
SELECT ('[' || repeat('1,', 15999) || '1]')::rag_types.vector || '[1]'; :sqlstate

SELECT vector_dims('[1,2,3]'), vector_norm('[3,4]'), l2_normalize('[3,4]'),
    l2_normalize('[0,0]') AS of_zero, l2_normalize('[3e38]') AS of_large;

-- subvector(v, start, count) counts from 1 and ignores positions outside, like substr
SELECT subvector('[1,2,3,4,5]', 1, 3) AS first, subvector('[1,2,3,4,5]', 3, 9) AS rest,
    subvector('[1,2,3,4,5]', -1, 3) AS before,
    subvector('[1,2,3,4,5]', 5, 1) AS last, subvector('[1,2,3,4,5]', 2, 2147483647) AS long;
SELECT subvector('[1,2,3]', 1, 0); :sqlstate
SELECT subvector('[1,2,3]', 2, -1); :sqlstate
SELECT subvector('[1,2,3]', 4, 1); :sqlstate
SELECT subvector('[1,2,3]', -1, 2); :sqlstate
SELECT subvector('[1,2,3]', -2147483648, 2147483647); :sqlstate
SELECT subvector('[1,2,3]', 2147483647, 2147483647); :sqlstate

-- order as values: element by element, the shorter first ------------------

SELECT '[1,2]'::rag_types.vector < '[1,3]' AS less,
    '[1,2]'::rag_types.vector <= '[1,2]' AS less_or_equal,
    '[1,2]'::rag_types.vector = '[1,2,0]' AS equal,
    '[1,2]'::rag_types.vector <> '[1,2,0]' AS unequal,
    '[2]'::rag_types.vector > '[1,9]' AS greater,
    '[1]'::rag_types.vector >= '[1,0]' AS greater_or_equal,
    '[0]'::rag_types.vector = '[-0]' AS zeros;
SELECT vector_cmp('[1,2]', '[1,3]'), vector_cmp('[1,2]', '[1,2]'), vector_cmp('[1,2]', '[1]');

CREATE TABLE listed (embedding rag_types.vector);
INSERT INTO listed VALUES ('[2]'), ('[1,2]'), ('[1]'), ('[1,2]'), (NULL), ('[-1,5,5]');
SELECT * FROM listed ORDER BY embedding;
SELECT DISTINCT embedding FROM listed ORDER BY embedding DESC NULLS LAST;
SELECT embedding, count(*) FROM listed GROUP BY embedding HAVING count(*) > 1;
CREATE INDEX listed_btree ON listed (embedding);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS off) SELECT * FROM listed WHERE embedding = '[1,2]';
SELECT * FROM listed WHERE embedding = '[1,2]';
SELECT * FROM listed WHERE embedding < '[1,2]' ORDER BY embedding;
RESET enable_seqscan;
RESET enable_bitmapscan;
CREATE UNIQUE INDEX ON item (embedding);
INSERT INTO item VALUES (5, '[4,5,6]'); :sqlstate

-- casts -------------------------------------------------------------------

SELECT ARRAY[1, 2]::real[]::rag_types.vector AS real,
    ARRAY[0.1, 2]::float8[]::rag_types.vector AS double, ARRAY[1, 2]::rag_types.vector AS integer,
    ARRAY[1.5, 2]::numeric[]::rag_types.vector AS numeric,
    '[1,2.5]'::rag_types.vector::real[] AS back;
SELECT '{}'::real[]::rag_types.vector; :sqlstate
SELECT ARRAY[1, NULL]::real[]::rag_types.vector; :sqlstate
SELECT ARRAY[1, NULL]::rag_types.vector; :sqlstate
SELECT '{{1,2},{3,4}}'::real[]::rag_types.vector; :sqlstate
SELECT '{NaN}'::real[]::rag_types.vector; :sqlstate
SELECT '{-Infinity}'::float8[]::rag_types.vector; :sqlstate
SELECT '{1e39}'::float8[]::rag_types.vector; :sqlstate
SELECT '{1e400}'::numeric[]::rag_types.vector; :sqlstate
SELECT '{NaN}'::numeric[]::rag_types.vector; :sqlstate
SELECT array_fill(1, ARRAY[16001])::rag_types.vector; :sqlstate
-- arrays are accepted for vectors on assignment, vectors are accepted for arrays everywhere
INSERT INTO item VALUES (6, ARRAY[7, 8, 9]);
CREATE TABLE plain (elements real[]);
INSERT INTO plain SELECT embedding FROM item WHERE id = 6;
SELECT * FROM plain;
-- without pgvector no casts are created
SELECT rag_pgvector_casts();

-- the signs of the elements
SELECT binary_quantize('[1,0,-1]'), binary_quantize('[1,2,3,4,5,6,7,8,-9]'),
    binary_quantize('[-1]') = B'0' AS below;

-- aggregates --------------------------------------------------------------

SELECT avg(embedding), sum(embedding) FROM item;
SELECT avg(embedding), sum(embedding) FROM item WHERE id < 0;
SELECT avg(v), sum(v) FROM unnest(ARRAY['[3e38]', '[3e38]']::rag_types.vector[]) AS v WHERE false;
-- the mean does not overflow; the sum does
SELECT avg(v) FROM unnest(ARRAY['[3e38]', '[3e38]']::rag_types.vector[]) AS v;
SELECT sum(v) FROM unnest(ARRAY['[3e38]', '[3e38]']::rag_types.vector[]) AS v; :sqlstate
SELECT avg(v) FROM unnest(ARRAY['[1,2]', '[1]']::rag_types.vector[]) AS v; :sqlstate
SELECT sum(v) FROM unnest(ARRAY['[1,2]', '[1]']::rag_types.vector[]) AS v; :sqlstate
-- parallel aggregates
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
CREATE TABLE many AS SELECT ARRAY[i, i * 2]::rag_types.vector AS embedding
    FROM generate_series(1, 1000) AS i;
ANALYZE many;
EXPLAIN (COSTS off) SELECT avg(embedding), sum(embedding) FROM many;
SELECT avg(embedding), sum(embedding) FROM many;

DROP TABLE item, listed, plain, many;
