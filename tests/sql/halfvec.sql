-- The type rag_types.halfvec: pgvector's text form, binary form, operators and errors, in another
-- schema. Most cases are those that pgvector tests its own type with.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET search_path = public, rag_types, rag_functions;

-- text in and out ---------------------------------------------------------

SELECT '[1,2,3]'::halfvec AS whole, '[-1,-2,-3]'::halfvec AS negative,
    '[1.,2.,3.]'::halfvec AS dots, ' [ 1,  2 ,    3  ] '::halfvec AS spaced;

-- the nearest number of 16 bits, and of two the even one
SELECT '[1.23456]'::halfvec AS rounded, '[0.1]'::halfvec AS tenth, '[2049,2051]'::halfvec AS even,
    '[65519,-65519]'::halfvec AS largest;
SELECT '[1e-8,-1e-8]'::halfvec AS zeros, '[1e-46,1]'::halfvec AS zero, '[6e-8]'::halfvec AS least;

-- invalid vectors
SELECT '[hello,1]'::halfvec; :sqlstate
SELECT '[NaN,1]'::halfvec; :sqlstate
SELECT '[Infinity,1]'::halfvec; :sqlstate
SELECT '[-Infinity,1]'::halfvec; :sqlstate
SELECT '[65520,-65520]'::halfvec; :sqlstate
SELECT '[4e38,1]'::halfvec; :sqlstate
SELECT '[1,2,3'::halfvec; :sqlstate
SELECT '[1,2,3]9'::halfvec; :sqlstate
SELECT '1,2,3'::halfvec; :sqlstate
SELECT ''::halfvec; :sqlstate
SELECT '['::halfvec; :sqlstate
SELECT '[,'::halfvec; :sqlstate
SELECT '[]'::halfvec; :sqlstate
SELECT '[ ]'::halfvec; :sqlstate
SELECT '[,]'::halfvec; :sqlstate
SELECT '[1,]'::halfvec; :sqlstate
SELECT '[1a]'::halfvec; :sqlstate
SELECT '[1,,3]'::halfvec; :sqlstate
SELECT '[1, ,3]'::halfvec; :sqlstate

-- dimensions --------------------------------------------------------------

SELECT '[1,2,3]'::halfvec(3), format_type('halfvec'::regtype, 3);
SELECT '[1,2,3]'::halfvec(2); :sqlstate
SELECT '[1,2,3]'::halfvec(3, 2); :sqlstate
SELECT '[1,2,3]'::halfvec('a'); :sqlstate
SELECT '[1,2,3]'::halfvec(0); :sqlstate
SELECT '[1,2,3]'::halfvec(16001); :sqlstate
SELECT unnest('{"[1,2,3]", "[4,5,6]"}'::halfvec[]);
SELECT '{"[1,2,3]"}'::halfvec(2)[]; :sqlstate
CREATE TABLE item (id int, embedding halfvec(3));
INSERT INTO item VALUES (1, '[1,2,3]'), (2, '[4,5,6]'), (3, NULL);
INSERT INTO item VALUES (4, '[1,2]'); :sqlstate
INSERT INTO item VALUES (4, '[1,2]'::vector); :sqlstate

-- arithmetic --------------------------------------------------------------

SELECT '[1,2,3]'::halfvec + '[4,5,6]' AS sum, '[1,2,3]'::halfvec - '[4,5,6]' AS difference,
    '[1,2,3]'::halfvec * '[4,5,6]' AS product, '[1,2,3]'::halfvec || '[4,5]' AS concatenation;
SELECT '[65519]'::halfvec + '[65519]'; :sqlstate
SELECT '[1,2]'::halfvec + '[3]'; :sqlstate
SELECT '[-65519]'::halfvec - '[65519]'; :sqlstate
SELECT '[1,2]'::halfvec - '[3]'; :sqlstate
SELECT '[65519]'::halfvec * '[65519]'; :sqlstate
SELECT '[1e-7]'::halfvec * '[1e-7]'; :sqlstate
SELECT '[1,2]'::halfvec * '[3]'; :sqlstate
SELECT array_fill(0, ARRAY[16000])::halfvec || '[1]'; :sqlstate

-- order as values ---------------------------------------------------------

SELECT a, b, a < b AS lt, a <= b AS le, a = b AS eq, a <> b AS ne, a >= b AS ge, a > b AS gt,
    halfvec_cmp(a, b)
FROM (VALUES ('[1,2,3]'::halfvec, '[1,2,3]'::halfvec), ('[1,2,3]', '[1,2]'),
    ('[1,2,3]', '[0,0,0]'), ('[0,0,0]', '[1,2,3]'), ('[1,2]', '[1,2,3]'),
    ('[1,2]', '[2,3,4]'), ('[2,3]', '[1,2,3]'), ('[0]', '[-0]')) AS v (a, b);
CREATE TABLE ordered (v halfvec(3));
INSERT INTO ordered VALUES ('[0,0,0]'), ('[1,2,3]'), ('[1,1,1]'), (NULL);
CREATE INDEX ON ordered (v);
SET enable_seqscan = off;
SELECT * FROM ordered WHERE v = '[1,2,3]';
SELECT * FROM ordered ORDER BY v LIMIT 1;
SELECT count(*), count(DISTINCT v) FROM ordered;
RESET enable_seqscan;

-- functions ---------------------------------------------------------------

SELECT vector_dims('[1,2,3]'::halfvec), round(l2_norm('[1,1]'::halfvec)::numeric, 5) AS root,
    l2_norm('[3,4]'::halfvec), l2_norm('[0,0]'::halfvec) AS of_zero;
SELECT l2_normalize('[3,4]'::halfvec), l2_normalize('[3,0]'::halfvec) AS one,
    l2_normalize('[0,0.1]'::halfvec) AS small, l2_normalize('[0,0]'::halfvec) AS of_zero,
    l2_normalize('[65504]'::halfvec) AS of_large;
SELECT binary_quantize('[1,0,-1]'::halfvec),
    binary_quantize('[0,0.1,-0.2,-0.3,0.4,0.5,0.6,-0.7,0.8,-0.9,1]'::halfvec) AS eleven,
    binary_quantize('[1,2,3,-4,5,6,-7,8,1,-2,-3,4,5,-6,7,8,-1,2,3]'::halfvec) AS nineteen;
SELECT subvector('[1,2,3,4,5]'::halfvec, 1, 3), subvector('[1,2,3,4,5]'::halfvec, 3, 2) AS middle,
    subvector('[1,2,3,4,5]'::halfvec, -1, 3) AS before,
    subvector('[1,2,3,4,5]'::halfvec, 3, 9) AS rest,
    subvector('[1,2,3,4,5]'::halfvec, 3, 2147483647) AS long,
    subvector('[1,2,3,4,5]'::halfvec, -2147483644, 2147483647) AS far;
SELECT subvector('[1,2,3,4,5]'::halfvec, 1, 0); :sqlstate
SELECT subvector('[1,2,3,4,5]'::halfvec, 3, -1); :sqlstate
SELECT subvector('[1,2,3,4,5]'::halfvec, -1, 2); :sqlstate
SELECT subvector('[1,2,3,4,5]'::halfvec, 2147483647, 10); :sqlstate

-- distances ---------------------------------------------------------------

SELECT a, b, l2_distance(a, b) AS l2, inner_product(a, b) AS inner_product,
    round(cosine_distance(a, b)::numeric, 6) AS cosine, l1_distance(a, b) AS l1
FROM (VALUES ('[0,0]'::halfvec, '[3,4]'::halfvec), ('[0,0]', '[0,1]'), ('[1,2]', '[3,4]'),
    ('[1,2]', '[2,4]'), ('[1,2]', '[0,0]'), ('[1,1]', '[1,1]'), ('[1,0]', '[0,2]'),
    ('[1,1]', '[-1,-1]'), ('[1,1]', '[1.1,1.1]'), ('[1,1]', '[-1.1,-1.1]'),
    ('[1,1,1,1,1,1,1,1,1]', '[1,1,1,1,1,1,1,4,5]'),
    ('[1,1,1,1,1,1,1,1,1]', '[1,2,3,4,5,6,7,8,9]'), ('[1,2,3,4,5,6,7,8,9]', '[0,3,2,5,4,7,6,9,8]'),
    ('[1,2,3,4,5,6,7,8,9]', '[-1,-2,-3,-4,-5,-6,-7,-8,-9]'), ('[65504]', '[65504]'),
    ('[65504]', '[-65504]')) AS v (a, b);
SELECT '[0,0]'::halfvec <-> '[3,4]' AS l2, '[1,2]'::halfvec <#> '[3,4]' AS negative_inner_product,
    '[1,2]'::halfvec <=> '[2,4]' AS cosine, '[0,0]'::halfvec <+> '[3,4]' AS l1,
    halfvec_l2_squared_distance('[0,0]', '[3,4]') AS squared,
    halfvec_negative_inner_product('[1,2]', '[3,4]') AS negative;
SELECT '[1,2]'::halfvec <-> '[3]'; :sqlstate
SELECT '[1,2]'::halfvec <#> '[3]'; :sqlstate
SELECT '[1,2]'::halfvec <=> '[3]'; :sqlstate
SELECT '[1,2]'::halfvec <+> '[3]'; :sqlstate

-- the same bits as the distance of the same numbers in 32 bits
SELECT count(*) FROM generate_series(1, 200) AS n,
    LATERAL (SELECT array_agg(sin(n * i)) AS a, array_agg(cos(n * i * i)) AS b
             FROM generate_series(1, n) AS i) AS s,
    LATERAL (SELECT a::halfvec AS x, b::halfvec AS y) AS h,
    LATERAL (SELECT x::vector AS p, y::vector AS q) AS v
WHERE (x <-> y, x <#> y, x <=> y, x <+> y) IS DISTINCT FROM (p <-> q, p <#> q, p <=> q, p <+> q);

-- an operand that is a vector becomes a halfvec, and so does a literal beside one
SELECT '[1,2]'::halfvec <-> '[1.00001,3]'::vector AS mixed,
    '[1.00001,3]'::vector <-> '[1,2]'::halfvec AS other;
-- a literal is a vector if nothing says that it is a halfvec
SELECT pg_typeof(l2_normalize('[3,4]')), vector_dims('[1,2,3]'), l2_distance('[0,0]', '[3,4]');

-- casts -------------------------------------------------------------------

SELECT ARRAY[1,2,3]::halfvec AS integers, ARRAY[1.5,2.5]::halfvec AS numerics,
    '{1,2,3}'::real[]::halfvec(3) AS reals, '{1e-8,-1e-8}'::double precision[]::halfvec AS doubles,
    '[1,2,3]'::halfvec::real[] AS floats, '[1,2,3]'::vector::halfvec(3) AS half,
    '[1,2,3]'::halfvec::vector(3) AS vector, '[1e-8]'::vector::halfvec AS zero;
SELECT '{1,2,3}'::real[]::halfvec(2); :sqlstate
SELECT '{65520,-65520}'::real[]::halfvec; :sqlstate
SELECT '{1e39}'::double precision[]::halfvec; :sqlstate
SELECT '{NULL}'::real[]::halfvec; :sqlstate
SELECT '{NaN}'::real[]::halfvec; :sqlstate
SELECT '{Infinity}'::real[]::halfvec; :sqlstate
SELECT '{}'::real[]::halfvec; :sqlstate
SELECT '{{1}}'::real[]::halfvec; :sqlstate
SELECT '[1,2,3]'::vector::halfvec(2); :sqlstate
SELECT '[65520]'::vector::halfvec; :sqlstate
SELECT '[1,2,3]'::halfvec::vector(2); :sqlstate
SELECT array_agg(n)::halfvec FROM generate_series(1, 16001) AS n; :sqlstate

-- aggregates --------------------------------------------------------------

SELECT avg(v), sum(v) FROM unnest(ARRAY['[1,2,3]'::halfvec, '[3,5,7]', NULL]) AS v;
SELECT avg(v), sum(v) FROM unnest(ARRAY[]::halfvec[]) AS v;
SELECT avg(v) FROM unnest(ARRAY['[65504]'::halfvec, '[65504]']) AS v;
SELECT avg(v) FROM unnest(ARRAY['[1,2]'::halfvec, '[3]']) AS v; :sqlstate
SELECT sum(v) FROM unnest(ARRAY['[1,2]'::halfvec, '[3]']) AS v; :sqlstate
SELECT sum(v) FROM unnest(ARRAY['[65504]'::halfvec, '[65504]']) AS v; :sqlstate
SELECT rag_internal.halfvec_avg(array_agg(n)) FROM generate_series(1, 16002) AS n; :sqlstate

-- binary form -------------------------------------------------------------
-- dimensions and a zero as 16-bit integers, then 16 bits each, in network byte order

SELECT rag_internal.halfvec_send('[1,-2.5,65504,6e-8,0]');
CREATE TEMP TABLE original AS
    SELECT i AS id, ARRAY[i, -i / 3.0, i * 1e-7]::halfvec AS embedding
    FROM generate_series(1, 1000) AS i;
\set file `mktemp "${TMPDIR:-/tmp}/halfvec.XXXXXX"`
\set SHOW_CONTEXT never
COPY original TO :'file' (FORMAT binary);
CREATE TEMP TABLE copied (LIKE original);
COPY copied FROM :'file' (FORMAT binary);
SELECT count(*), bool_and(o.embedding = c.embedding) AS equal FROM original o
    JOIN copied c USING (id);

-- a binary COPY file: its header, a row of one column of 4 + 2 * n bytes, and the end
CREATE TEMP TABLE received (embedding halfvec);
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
SELECT pg_temp.receive(:'file', '\x000200003c00c100');
SELECT * FROM received;
SELECT pg_temp.receive(:'file', '\x00000000'); :sqlstate
SELECT pg_temp.receive(:'file', '\xffff0000'); :sqlstate
SELECT pg_temp.receive(:'file', '\x3e810000'); :sqlstate
SELECT pg_temp.receive(:'file', '\x000100013c00'); :sqlstate
SELECT pg_temp.receive(:'file', '\x000200003c00'); :sqlstate
SELECT pg_temp.receive(:'file', '\x000100003c003c00'); :sqlstate
SELECT pg_temp.receive(:'file', '\x000100007e00'); :sqlstate
SELECT pg_temp.receive(:'file', '\x00010000fc00'); :sqlstate
\setenv FILE :file
\! rm "$FILE"

-- half of the bytes
SELECT pg_column_size(v), pg_column_size(v::vector) AS of_vector
FROM (SELECT array_fill(1, ARRAY[384])::halfvec AS v) AS s;

DROP TABLE item, ordered;
