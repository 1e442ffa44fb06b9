-- The schemas, and the vector type with its functions, operators, casts and aggregates. Names,
-- signatures and behaviour are those of pgvector; only the schema of the type differs.

-- Unqualified names are found in pg_catalog only, whatever schema the extension is installed in.
SET LOCAL search_path = pg_catalog, pg_temp;

-- Texts are exchanged with programs whose strings are UTF-8, and positions count characters.
DO $$
BEGIN
    IF pg_catalog.getdatabaseencoding() <> 'UTF8' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'feature_not_supported',
            MESSAGE = pg_catalog.format(
                'encoding %s of the database is not supported by extension rag',
                pg_catalog.getdatabaseencoding()),
            DETAIL = 'The extension requires a database with encoding UTF8.',
            HINT = 'Use CREATE DATABASE ... TEMPLATE template0 ENCODING ''UTF8''.';
    END IF;
END $$;

CREATE SCHEMA rag;
COMMENT ON SCHEMA rag IS 'tables and views of the extension rag';
GRANT USAGE ON SCHEMA rag TO PUBLIC;

-- What the functions and views of the extension are made of, and the partitions of rag.chunks. No
-- role is granted anything on its tables, and nothing in it is an interface.
CREATE SCHEMA rag_internal;
COMMENT ON SCHEMA rag_internal IS 'internal tables and functions of the extension rag';
GRANT USAGE ON SCHEMA rag_internal TO PUBLIC;

-- Two schemas without tables that users can add to search_path. The schema of the type contains no
-- functions, so that calls remain unambiguous if pgvector is installed as well.
CREATE SCHEMA rag_types;
COMMENT ON SCHEMA rag_types IS 'the type vector of the extension rag';
GRANT USAGE ON SCHEMA rag_types TO PUBLIC;
CREATE SCHEMA rag_functions;
COMMENT ON SCHEMA rag_functions IS
    'functions of the extension rag that have the same names as functions of pgvector';
GRANT USAGE ON SCHEMA rag_functions TO PUBLIC;

-- type
-- ----------------------------------------

CREATE TYPE rag_types.vector;

CREATE FUNCTION rag_internal.vector_in(cstring, oid, integer) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'vector_in_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.vector_out(rag_types.vector) RETURNS cstring
    AS 'MODULE_PATHNAME', 'vector_out_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.vector_recv(internal, oid, integer) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'vector_recv_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.vector_send(rag_types.vector) RETURNS bytea
    AS 'MODULE_PATHNAME', 'vector_send_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.vector_typmod_in(cstring[]) RETURNS integer
    AS 'MODULE_PATHNAME', 'vector_typmod_in_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE rag_types.vector (
    INPUT = rag_internal.vector_in,
    OUTPUT = rag_internal.vector_out,
    RECEIVE = rag_internal.vector_recv,
    SEND = rag_internal.vector_send,
    TYPMOD_IN = rag_internal.vector_typmod_in,
    STORAGE = external
);
COMMENT ON TYPE rag_types.vector IS
    'array of 32-bit floats with a fixed number of dimensions (1 to 16000); text form [1,2,3]';

-- functions
-- ----------------------------------------

CREATE FUNCTION rag_functions.l2_distance(rag_types.vector, rag_types.vector)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'l2_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_l2_squared_distance(rag_types.vector, rag_types.vector)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'vector_l2_squared_distance_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.inner_product(rag_types.vector, rag_types.vector)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'inner_product_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_negative_inner_product(rag_types.vector, rag_types.vector)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'vector_negative_inner_product_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.cosine_distance(rag_types.vector, rag_types.vector)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'cosine_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.l1_distance(rag_types.vector, rag_types.vector)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'l1_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_dims(rag_types.vector) RETURNS integer
    AS 'MODULE_PATHNAME', 'vector_dims_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_norm(rag_types.vector) RETURNS double precision
    AS 'MODULE_PATHNAME', 'vector_norm_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.l2_normalize(rag_types.vector) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'l2_normalize_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.subvector(rag_types.vector, integer, integer) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'subvector_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.binary_quantize(rag_types.vector) RETURNS bit
    AS 'MODULE_PATHNAME', 'binary_quantize_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_add(rag_types.vector, rag_types.vector)
    RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'vector_add_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_sub(rag_types.vector, rag_types.vector)
    RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'vector_sub_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_mul(rag_types.vector, rag_types.vector)
    RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'vector_mul_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_concat(rag_types.vector, rag_types.vector)
    RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'vector_concat_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_lt(rag_types.vector, rag_types.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_lt_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_le(rag_types.vector, rag_types.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_le_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_eq(rag_types.vector, rag_types.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_eq_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_ne(rag_types.vector, rag_types.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_ne_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_ge(rag_types.vector, rag_types.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_ge_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_gt(rag_types.vector, rag_types.vector) RETURNS boolean
    AS 'MODULE_PATHNAME', 'vector_gt_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_cmp(rag_types.vector, rag_types.vector) RETURNS integer
    AS 'MODULE_PATHNAME', 'vector_cmp_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION rag_functions.l2_distance(rag_types.vector, rag_types.vector) IS
    'Euclidean distance, also available as operator <->';
COMMENT ON FUNCTION rag_functions.vector_l2_squared_distance(rag_types.vector, rag_types.vector) IS
    'square of the Euclidean distance';
COMMENT ON FUNCTION rag_functions.inner_product(rag_types.vector, rag_types.vector) IS
    'inner product';
COMMENT ON FUNCTION rag_functions.vector_negative_inner_product(
    rag_types.vector, rag_types.vector) IS
    'negative inner product, also available as operator <#>';
COMMENT ON FUNCTION rag_functions.cosine_distance(rag_types.vector, rag_types.vector) IS
    '1 - cosine similarity (0 to 2), also available as operator <=>';
COMMENT ON FUNCTION rag_functions.l1_distance(rag_types.vector, rag_types.vector) IS
    'taxicab distance, also available as operator <+>';
COMMENT ON FUNCTION rag_functions.vector_dims(rag_types.vector) IS 'number of dimensions';
COMMENT ON FUNCTION rag_functions.vector_norm(rag_types.vector) IS 'Euclidean length';
COMMENT ON FUNCTION rag_functions.l2_normalize(rag_types.vector) IS
    'vector of length 1 with the same direction';
COMMENT ON FUNCTION rag_functions.subvector(rag_types.vector, integer, integer) IS
    'elements of a vector: position of the first, from 1, and their number';
COMMENT ON FUNCTION rag_functions.binary_quantize(rag_types.vector) IS
    'one bit for each element, 1 if the element is greater than zero';
COMMENT ON FUNCTION rag_functions.vector_add(rag_types.vector, rag_types.vector) IS
    'element-wise sum, also available as operator +';
COMMENT ON FUNCTION rag_functions.vector_sub(rag_types.vector, rag_types.vector) IS
    'element-wise difference, also available as operator -';
COMMENT ON FUNCTION rag_functions.vector_mul(rag_types.vector, rag_types.vector) IS
    'element-wise product, also available as operator *';
COMMENT ON FUNCTION rag_functions.vector_concat(rag_types.vector, rag_types.vector) IS
    'concatenation, also available as operator ||';
COMMENT ON FUNCTION rag_functions.vector_lt(rag_types.vector, rag_types.vector) IS
    'implementation of < operator';
COMMENT ON FUNCTION rag_functions.vector_le(rag_types.vector, rag_types.vector) IS
    'implementation of <= operator';
COMMENT ON FUNCTION rag_functions.vector_eq(rag_types.vector, rag_types.vector) IS
    'implementation of = operator';
COMMENT ON FUNCTION rag_functions.vector_ne(rag_types.vector, rag_types.vector) IS
    'implementation of <> operator';
COMMENT ON FUNCTION rag_functions.vector_ge(rag_types.vector, rag_types.vector) IS
    'implementation of >= operator';
COMMENT ON FUNCTION rag_functions.vector_gt(rag_types.vector, rag_types.vector) IS
    'implementation of > operator';
COMMENT ON FUNCTION rag_functions.vector_cmp(rag_types.vector, rag_types.vector) IS
    'less-equal-greater';

-- casts
-- ----------------------------------------

CREATE FUNCTION rag_internal.vector(rag_types.vector, integer, boolean) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'vector_typmod_cast_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_vector(real[], integer, boolean) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'array_to_vector_real_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_vector(double precision[], integer, boolean)
    RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'array_to_vector_double_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_vector(integer[], integer, boolean) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'array_to_vector_integer_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_vector(numeric[], integer, boolean) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'array_to_vector_numeric_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.vector_to_float4(rag_types.vector, integer, boolean) RETURNS real[]
    AS 'MODULE_PATHNAME', 'vector_to_float4_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (rag_types.vector AS rag_types.vector)
    WITH FUNCTION rag_internal.vector(rag_types.vector, integer, boolean) AS IMPLICIT;
CREATE CAST (rag_types.vector AS real[])
    WITH FUNCTION rag_internal.vector_to_float4(rag_types.vector, integer, boolean) AS IMPLICIT;
CREATE CAST (real[] AS rag_types.vector)
    WITH FUNCTION rag_internal.array_to_vector(real[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (double precision[] AS rag_types.vector)
    WITH FUNCTION rag_internal.array_to_vector(double precision[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (integer[] AS rag_types.vector)
    WITH FUNCTION rag_internal.array_to_vector(integer[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (numeric[] AS rag_types.vector)
    WITH FUNCTION rag_internal.array_to_vector(numeric[], integer, boolean) AS ASSIGNMENT;

-- operators
-- ----------------------------------------

CREATE OPERATOR @extschema@.<-> (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector,
    FUNCTION = rag_functions.l2_distance, COMMUTATOR = OPERATOR(@extschema@.<->));
CREATE OPERATOR @extschema@.<#> (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector,
    FUNCTION = rag_functions.vector_negative_inner_product, COMMUTATOR = OPERATOR(@extschema@.<#>));
CREATE OPERATOR @extschema@.<=> (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector,
    FUNCTION = rag_functions.cosine_distance, COMMUTATOR = OPERATOR(@extschema@.<=>));
CREATE OPERATOR @extschema@.<+> (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector,
    FUNCTION = rag_functions.l1_distance, COMMUTATOR = OPERATOR(@extschema@.<+>));
CREATE OPERATOR @extschema@.+ (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector,
    FUNCTION = rag_functions.vector_add, COMMUTATOR = OPERATOR(@extschema@.+));
CREATE OPERATOR @extschema@.- (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector,
    FUNCTION = rag_functions.vector_sub);
CREATE OPERATOR @extschema@.* (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector,
    FUNCTION = rag_functions.vector_mul, COMMUTATOR = OPERATOR(@extschema@.*));
CREATE OPERATOR @extschema@.|| (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector,
    FUNCTION = rag_functions.vector_concat);

CREATE OPERATOR @extschema@.< (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector, FUNCTION = rag_functions.vector_lt,
    COMMUTATOR = OPERATOR(@extschema@.>), NEGATOR = OPERATOR(@extschema@.>=),
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
CREATE OPERATOR @extschema@.<= (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector, FUNCTION = rag_functions.vector_le,
    COMMUTATOR = OPERATOR(@extschema@.>=), NEGATOR = OPERATOR(@extschema@.>),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
CREATE OPERATOR @extschema@.= (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector, FUNCTION = rag_functions.vector_eq,
    COMMUTATOR = OPERATOR(@extschema@.=), NEGATOR = OPERATOR(@extschema@.<>),
    RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR @extschema@.<> (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector, FUNCTION = rag_functions.vector_ne,
    COMMUTATOR = OPERATOR(@extschema@.<>), NEGATOR = OPERATOR(@extschema@.=),
    RESTRICT = neqsel, JOIN = neqjoinsel);
CREATE OPERATOR @extschema@.>= (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector, FUNCTION = rag_functions.vector_ge,
    COMMUTATOR = OPERATOR(@extschema@.<=), NEGATOR = OPERATOR(@extschema@.<),
    RESTRICT = scalargesel, JOIN = scalargejoinsel);
CREATE OPERATOR @extschema@.> (
    LEFTARG = rag_types.vector, RIGHTARG = rag_types.vector, FUNCTION = rag_functions.vector_gt,
    COMMUTATOR = OPERATOR(@extschema@.<), NEGATOR = OPERATOR(@extschema@.<=),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel);

-- In the schema rag, because pgvector's class of the same name may be in the extension's schema.
CREATE OPERATOR CLASS rag.vector_ops DEFAULT FOR TYPE rag_types.vector USING btree AS
    OPERATOR 1 @extschema@.<, OPERATOR 2 @extschema@.<=, OPERATOR 3 @extschema@.=,
    OPERATOR 4 @extschema@.>=, OPERATOR 5 @extschema@.>,
    FUNCTION 1 rag_functions.vector_cmp(rag_types.vector, rag_types.vector);

-- aggregates
-- ----------------------------------------

CREATE FUNCTION rag_internal.vector_accum(double precision[], rag_types.vector)
    RETURNS double precision[]
    AS 'MODULE_PATHNAME', 'vector_accum_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.vector_combine(double precision[], double precision[])
    RETURNS double precision[]
    AS 'MODULE_PATHNAME', 'vector_combine_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.vector_avg(double precision[]) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'vector_avg_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE AGGREGATE @extschema@.avg(rag_types.vector) (
    SFUNC = rag_internal.vector_accum, STYPE = double precision[],
    FINALFUNC = rag_internal.vector_avg,
    COMBINEFUNC = rag_internal.vector_combine, INITCOND = '{0}', PARALLEL = SAFE
);
CREATE AGGREGATE @extschema@.sum(rag_types.vector) (
    SFUNC = rag_functions.vector_add, STYPE = rag_types.vector,
    COMBINEFUNC = rag_functions.vector_add, PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.avg(rag_types.vector) IS 'element-wise mean';
COMMENT ON AGGREGATE @extschema@.sum(rag_types.vector) IS 'element-wise sum';

-- Casts to and from pgvector's type. The layouts are equal, so the casts copy nothing. They are
-- dropped with either extension. If pgvector is installed later, or a dump was restored, which has
-- the casts without these dependencies, users call rag_pgvector_casts().
CREATE FUNCTION rag_internal.cast_goes_with("cast" oid, extension oid) RETURNS void
    AS 'MODULE_PATHNAME', 'rag_cast_goes_with_wrapper' LANGUAGE c VOLATILE STRICT;
REVOKE ALL ON FUNCTION rag_internal.cast_goes_with(oid, oid) FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.cast_goes_with(oid, oid) IS
    'makes a cast depend on an extension, so that it is dropped with the extension';

CREATE FUNCTION @extschema@.rag_pgvector_casts() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pgvector pg_catalog.pg_type;
    ours CONSTANT oid := 'rag_types.vector'::pg_catalog.regtype;
    types oid[];
    cast_oid oid;
    extension oid;
BEGIN
    SELECT t.* INTO pgvector
        FROM pg_catalog.pg_extension e
        JOIN pg_catalog.pg_type t ON t.typnamespace = e.extnamespace AND t.typname = 'vector'
        WHERE e.extname = 'vector' AND t.oid <> ours;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF NOT (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user) THEN
        RAISE EXCEPTION 'permission denied to create casts for the type of pgvector'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Must be superuser.';
    END IF;
    FOREACH types SLICE 1 IN ARRAY ARRAY[[pgvector.oid, ours], [ours, pgvector.oid]] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_cast
                       WHERE castsource = types[1] AND casttarget = types[2]) THEN
            EXECUTE pg_catalog.format('CREATE CAST (%s AS %s) WITHOUT FUNCTION AS ASSIGNMENT',
                                      types[1]::regtype, types[2]::regtype);
        END IF;
        SELECT c.oid INTO STRICT cast_oid
        FROM pg_catalog.pg_cast c WHERE castsource = types[1] AND casttarget = types[2];
        -- A cast that CREATE EXTENSION creates is a member of the extension. pgvector could not be
        -- dropped without this extension.
        IF EXISTS (SELECT FROM pg_catalog.pg_depend d
                   WHERE d.classid = 'pg_catalog.pg_cast'::regclass AND d.objid = cast_oid
                     AND d.deptype = 'e') THEN
            EXECUTE pg_catalog.format('ALTER EXTENSION rag DROP CAST (%s AS %s)',
                                      types[1]::regtype, types[2]::regtype);
        END IF;
        FOR extension IN
            SELECT e.oid FROM pg_catalog.pg_extension e WHERE e.extname IN ('rag', 'vector')
        LOOP
            IF NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                           WHERE d.classid = 'pg_catalog.pg_cast'::regclass AND d.objid = cast_oid
                             AND d.refclassid = 'pg_catalog.pg_extension'::regclass
                             AND d.refobjid = extension) THEN
                PERFORM rag_internal.cast_goes_with(cast_oid, extension);
            END IF;
        END LOOP;
    END LOOP;
    RETURN true;
END $$;
COMMENT ON FUNCTION @extschema@.rag_pgvector_casts() IS
    'creates the casts between rag_types.vector and pgvector''s vector; returns false if pgvector '
    'is not installed';
DO $$ BEGIN PERFORM @extschema@.rag_pgvector_casts(); END $$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
