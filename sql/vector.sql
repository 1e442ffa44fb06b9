-- The schema of the catalog, and the vector type with its functions, operators, casts and aggregates.
-- Names, signatures and behaviour are pgvector's; only the schema of the type differs.

-- Names are looked up in pg_catalog alone, whatever schema the extension goes to.
SET LOCAL search_path = pg_catalog, pg_temp;

-- Texts come from and go to programs whose strings are UTF-8, and positions are counted in characters.
DO $$
BEGIN
    IF pg_catalog.getdatabaseencoding() <> 'UTF8' THEN
        RAISE EXCEPTION 'the extension rag needs a database whose encoding is UTF8, not %', pg_catalog.getdatabaseencoding()
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'CREATE DATABASE ... TEMPLATE template0 ENCODING ''UTF8'' makes one.';
    END IF;
END $$;

CREATE SCHEMA rag;
COMMENT ON SCHEMA rag IS 'catalog of the extension rag: tables, views and the vector type';
GRANT USAGE ON SCHEMA rag TO PUBLIC;

-- type ----------------------------------------------------------------------------------------------------------------

CREATE TYPE rag.vector;

CREATE FUNCTION rag.vector_in(cstring, oid, integer) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'vector_in_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.vector_out(rag.vector) RETURNS cstring
    AS 'MODULE_PATHNAME', 'vector_out_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.vector_recv(internal, oid, integer) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'vector_recv_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.vector_send(rag.vector) RETURNS bytea
    AS 'MODULE_PATHNAME', 'vector_send_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.vector_typmod_in(cstring[]) RETURNS integer
    AS 'MODULE_PATHNAME', 'vector_typmod_in_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE rag.vector (
    INPUT = rag.vector_in,
    OUTPUT = rag.vector_out,
    RECEIVE = rag.vector_recv,
    SEND = rag.vector_send,
    TYPMOD_IN = rag.vector_typmod_in,
    STORAGE = external
);
COMMENT ON TYPE rag.vector IS 'array of 32-bit floats with a fixed number of dimensions, 1 to 16000; text form [1,2,3]';

-- functions -----------------------------------------------------------------------------------------------------------

CREATE FUNCTION @extschema@.l2_distance(rag.vector, rag.vector) RETURNS double precision
    AS 'MODULE_PATHNAME', 'l2_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_l2_squared_distance(rag.vector, rag.vector) RETURNS double precision
    AS 'MODULE_PATHNAME', 'vector_l2_squared_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.inner_product(rag.vector, rag.vector) RETURNS double precision
    AS 'MODULE_PATHNAME', 'inner_product_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_negative_inner_product(rag.vector, rag.vector) RETURNS double precision
    AS 'MODULE_PATHNAME', 'vector_negative_inner_product_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.cosine_distance(rag.vector, rag.vector) RETURNS double precision
    AS 'MODULE_PATHNAME', 'cosine_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.l1_distance(rag.vector, rag.vector) RETURNS double precision
    AS 'MODULE_PATHNAME', 'l1_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_dims(rag.vector) RETURNS integer
    AS 'MODULE_PATHNAME', 'vector_dims_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_norm(rag.vector) RETURNS double precision
    AS 'MODULE_PATHNAME', 'vector_norm_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.l2_normalize(rag.vector) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'l2_normalize_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.subvector(rag.vector, integer, integer) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'subvector_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_add(rag.vector, rag.vector) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'vector_add_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_sub(rag.vector, rag.vector) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'vector_sub_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_mul(rag.vector, rag.vector) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'vector_mul_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_concat(rag.vector, rag.vector) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'vector_concat_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_lt(rag.vector, rag.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_lt_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_le(rag.vector, rag.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_le_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_eq(rag.vector, rag.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_eq_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_ne(rag.vector, rag.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_ne_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_ge(rag.vector, rag.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_ge_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_gt(rag.vector, rag.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_gt_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.vector_cmp(rag.vector, rag.vector) RETURNS integer
    AS 'MODULE_PATHNAME', 'vector_cmp_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION @extschema@.l2_distance(rag.vector, rag.vector) IS 'Euclidean distance, also written a <-> b';
COMMENT ON FUNCTION @extschema@.vector_l2_squared_distance(rag.vector, rag.vector) IS 'square of the Euclidean distance';
COMMENT ON FUNCTION @extschema@.inner_product(rag.vector, rag.vector) IS 'inner product';
COMMENT ON FUNCTION @extschema@.vector_negative_inner_product(rag.vector, rag.vector) IS 'negative inner product, also written a <#> b';
COMMENT ON FUNCTION @extschema@.cosine_distance(rag.vector, rag.vector) IS '1 - cosine similarity, 0 to 2, also written a <=> b';
COMMENT ON FUNCTION @extschema@.l1_distance(rag.vector, rag.vector) IS 'taxicab distance, also written a <+> b';
COMMENT ON FUNCTION @extschema@.vector_dims(rag.vector) IS 'number of dimensions';
COMMENT ON FUNCTION @extschema@.vector_norm(rag.vector) IS 'Euclidean length';
COMMENT ON FUNCTION @extschema@.l2_normalize(rag.vector) IS 'vector of length 1 in the same direction';
COMMENT ON FUNCTION @extschema@.subvector(rag.vector, integer, integer) IS 'elements from a position (counted from 1), so many of them';
COMMENT ON FUNCTION @extschema@.vector_add(rag.vector, rag.vector) IS 'element-wise sum, also written a + b';
COMMENT ON FUNCTION @extschema@.vector_sub(rag.vector, rag.vector) IS 'element-wise difference, also written a - b';
COMMENT ON FUNCTION @extschema@.vector_mul(rag.vector, rag.vector) IS 'element-wise product, also written a * b';
COMMENT ON FUNCTION @extschema@.vector_concat(rag.vector, rag.vector) IS 'concatenation, also written a || b';
COMMENT ON FUNCTION @extschema@.vector_lt(rag.vector, rag.vector) IS 'implementation of < operator';
COMMENT ON FUNCTION @extschema@.vector_le(rag.vector, rag.vector) IS 'implementation of <= operator';
COMMENT ON FUNCTION @extschema@.vector_eq(rag.vector, rag.vector) IS 'implementation of = operator';
COMMENT ON FUNCTION @extschema@.vector_ne(rag.vector, rag.vector) IS 'implementation of <> operator';
COMMENT ON FUNCTION @extschema@.vector_ge(rag.vector, rag.vector) IS 'implementation of >= operator';
COMMENT ON FUNCTION @extschema@.vector_gt(rag.vector, rag.vector) IS 'implementation of > operator';
COMMENT ON FUNCTION @extschema@.vector_cmp(rag.vector, rag.vector) IS 'less-equal-greater';

-- casts ---------------------------------------------------------------------------------------------------------------

CREATE FUNCTION rag.vector(rag.vector, integer, boolean) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'vector_typmod_cast_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.array_to_vector(real[], integer, boolean) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'array_to_vector_real_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.array_to_vector(double precision[], integer, boolean) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'array_to_vector_double_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.array_to_vector(integer[], integer, boolean) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'array_to_vector_integer_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.array_to_vector(numeric[], integer, boolean) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'array_to_vector_numeric_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.vector_to_float4(rag.vector, integer, boolean) RETURNS real[]
    AS 'MODULE_PATHNAME', 'vector_to_float4_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (rag.vector AS rag.vector) WITH FUNCTION rag.vector(rag.vector, integer, boolean) AS IMPLICIT;
CREATE CAST (rag.vector AS real[]) WITH FUNCTION rag.vector_to_float4(rag.vector, integer, boolean) AS IMPLICIT;
CREATE CAST (real[] AS rag.vector) WITH FUNCTION rag.array_to_vector(real[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (double precision[] AS rag.vector) WITH FUNCTION rag.array_to_vector(double precision[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (integer[] AS rag.vector) WITH FUNCTION rag.array_to_vector(integer[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (numeric[] AS rag.vector) WITH FUNCTION rag.array_to_vector(numeric[], integer, boolean) AS ASSIGNMENT;

-- operators -----------------------------------------------------------------------------------------------------------

CREATE OPERATOR @extschema@.<-> (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.l2_distance, COMMUTATOR = OPERATOR(@extschema@.<->));
CREATE OPERATOR @extschema@.<#> (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_negative_inner_product, COMMUTATOR = OPERATOR(@extschema@.<#>));
CREATE OPERATOR @extschema@.<=> (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.cosine_distance, COMMUTATOR = OPERATOR(@extschema@.<=>));
CREATE OPERATOR @extschema@.<+> (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.l1_distance, COMMUTATOR = OPERATOR(@extschema@.<+>));
CREATE OPERATOR @extschema@.+ (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_add, COMMUTATOR = OPERATOR(@extschema@.+));
CREATE OPERATOR @extschema@.- (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_sub);
CREATE OPERATOR @extschema@.* (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_mul, COMMUTATOR = OPERATOR(@extschema@.*));
CREATE OPERATOR @extschema@.|| (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_concat);

CREATE OPERATOR @extschema@.< (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_lt,
    COMMUTATOR = OPERATOR(@extschema@.>), NEGATOR = OPERATOR(@extschema@.>=), RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
CREATE OPERATOR @extschema@.<= (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_le,
    COMMUTATOR = OPERATOR(@extschema@.>=), NEGATOR = OPERATOR(@extschema@.>), RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
CREATE OPERATOR @extschema@.= (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_eq,
    COMMUTATOR = OPERATOR(@extschema@.=), NEGATOR = OPERATOR(@extschema@.<>), RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR @extschema@.<> (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_ne,
    COMMUTATOR = OPERATOR(@extschema@.<>), NEGATOR = OPERATOR(@extschema@.=), RESTRICT = neqsel, JOIN = neqjoinsel);
CREATE OPERATOR @extschema@.>= (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_ge,
    COMMUTATOR = OPERATOR(@extschema@.<=), NEGATOR = OPERATOR(@extschema@.<), RESTRICT = scalargesel, JOIN = scalargejoinsel);
CREATE OPERATOR @extschema@.> (LEFTARG = rag.vector, RIGHTARG = rag.vector, FUNCTION = @extschema@.vector_gt,
    COMMUTATOR = OPERATOR(@extschema@.<), NEGATOR = OPERATOR(@extschema@.<=), RESTRICT = scalargtsel, JOIN = scalargtjoinsel);

-- In the schema of the type: pgvector's of the same name may be in the other.
CREATE OPERATOR CLASS rag.vector_ops DEFAULT FOR TYPE rag.vector USING btree AS
    OPERATOR 1 @extschema@.<, OPERATOR 2 @extschema@.<=, OPERATOR 3 @extschema@.=, OPERATOR 4 @extschema@.>=, OPERATOR 5 @extschema@.>,
    FUNCTION 1 @extschema@.vector_cmp(rag.vector, rag.vector);

-- aggregates ----------------------------------------------------------------------------------------------------------

CREATE FUNCTION rag.vector_accum(double precision[], rag.vector) RETURNS double precision[]
    AS 'MODULE_PATHNAME', 'vector_accum_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.vector_combine(double precision[], double precision[]) RETURNS double precision[]
    AS 'MODULE_PATHNAME', 'vector_combine_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag.vector_avg(double precision[]) RETURNS rag.vector
    AS 'MODULE_PATHNAME', 'vector_avg_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE AGGREGATE @extschema@.avg(rag.vector) (
    SFUNC = rag.vector_accum, STYPE = double precision[], FINALFUNC = rag.vector_avg,
    COMBINEFUNC = rag.vector_combine, INITCOND = '{0}', PARALLEL = SAFE
);
CREATE AGGREGATE @extschema@.sum(rag.vector) (
    SFUNC = @extschema@.vector_add, STYPE = rag.vector, COMBINEFUNC = @extschema@.vector_add, PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.avg(rag.vector) IS 'element-wise mean';
COMMENT ON AGGREGATE @extschema@.sum(rag.vector) IS 'element-wise sum';

-- pgvector's type: the layouts are equal, so the casts copy nothing. They belong to no extension, so that either can be
-- dropped without the other. Where pgvector comes later, rag_pgvector_casts() adds them.
CREATE FUNCTION @extschema@.rag_pgvector_casts() RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pgvector text;
    made oid;
    cast_name text;
BEGIN
    SELECT pg_catalog.quote_ident(n.nspname) || '.vector' INTO pgvector
        FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'vector';
    IF pgvector IS NULL THEN
        RETURN false;
    END IF;
    FOREACH cast_name IN ARRAY ARRAY[pgvector || ' AS rag.vector', 'rag.vector AS ' || pgvector] LOOP
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_catalog.pg_cast
            WHERE castsource = pg_catalog.split_part(cast_name, ' AS ', 1)::regtype
              AND casttarget = pg_catalog.split_part(cast_name, ' AS ', 2)::regtype);
        EXECUTE pg_catalog.format('CREATE CAST (%s) WITHOUT FUNCTION AS ASSIGNMENT', cast_name);
        SELECT d.objid INTO made FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_cast c ON c.oid = d.objid
            WHERE d.classid = 'pg_catalog.pg_cast'::regclass AND d.deptype = 'e'
              AND c.castsource = pg_catalog.split_part(cast_name, ' AS ', 1)::regtype
              AND c.casttarget = pg_catalog.split_part(cast_name, ' AS ', 2)::regtype;
        IF made IS NOT NULL THEN
            EXECUTE pg_catalog.format('ALTER EXTENSION rag DROP CAST (%s)', cast_name);
        END IF;
    END LOOP;
    RETURN true;
END $$;
COMMENT ON FUNCTION @extschema@.rag_pgvector_casts() IS 'creates the casts between rag.vector and pgvector''s vector; false where pgvector is not installed';
DO $$ BEGIN PERFORM @extschema@.rag_pgvector_casts(); END $$;

-- where the functions that follow are made
SET LOCAL search_path = @extschema@, pg_temp;
