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

-- Scripts call it first. A server that was not restarted still has an older library.
CREATE FUNCTION rag_internal.require_library() RETURNS void
    AS 'MODULE_PATHNAME', 'require_library_wrapper' LANGUAGE c;
COMMENT ON FUNCTION rag_internal.require_library() IS
    'fails if the loaded library is older than the extension';
REVOKE ALL ON FUNCTION rag_internal.require_library() FROM PUBLIC;
SELECT rag_internal.require_library();

-- Two schemas without tables that users can add to search_path. The schema of the types contains no
-- functions, so that calls remain unambiguous if pgvector is installed as well.
CREATE SCHEMA rag_types;
COMMENT ON SCHEMA rag_types IS 'the types of vectors of the extension rag';
GRANT USAGE ON SCHEMA rag_types TO PUBLIC;
CREATE SCHEMA rag_functions;
COMMENT ON SCHEMA rag_functions IS
    'functions and operators of the extension rag that have the names of those of pgvector';
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
    STORAGE = external,
    -- A literal without a type is of this type if a function takes several types of vectors.
    PREFERRED = true
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

-- pgvector
-- ----------------------------------------

-- Casts to and from pgvector's types. The layouts are equal, so the casts copy nothing. They are
-- dropped with either extension.
--
-- Operators of pgvector in the operator families of rag_hnsw. A class accepts columns of a type
-- with an implicit cast that copies nothing, and the index then serves the operators of its family.
-- These entries are dropped with either extension. A dump does not have them.
CREATE FUNCTION rag_internal.cast_goes_with("cast" oid, extension oid) RETURNS void
    AS 'MODULE_PATHNAME', 'rag_cast_goes_with_wrapper' LANGUAGE c VOLATILE STRICT;
REVOKE ALL ON FUNCTION rag_internal.cast_goes_with(oid, oid) FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.cast_goes_with(oid, oid) IS
    'makes a cast depend on an extension, so that it is dropped with the extension';

-- Returns the types of pgvector that this extension has, too, each with the own type. Returns no
-- rows if pgvector is not installed.
CREATE FUNCTION rag_internal.pgvector_types() RETURNS TABLE (theirs oid, ours oid)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.oid, o.oid
    FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_depend d
        ON d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.refobjid = e.oid
       AND d.classid = 'pg_catalog.pg_type'::regclass AND d.deptype = 'e'
    JOIN pg_catalog.pg_type t ON t.oid = d.objid AND t.typname IN ('vector', 'halfvec')
    JOIN pg_catalog.pg_type o ON o.typname = t.typname
    JOIN pg_catalog.pg_namespace n ON n.oid = o.typnamespace AND n.nspname = 'rag_types'
    WHERE e.extname = 'vector'
$$;
COMMENT ON FUNCTION rag_internal.pgvector_types() IS
    'returns the types vector and halfvec of pgvector, with the own ones';

CREATE FUNCTION rag_internal.create_pgvector_cast(source oid, target oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- pgvector's vectors are accepted as those of rag_types, but not the other way round. So an
    -- operator between both types has one meaning.
    EXECUTE pg_catalog.format('CREATE CAST (%s AS %s) WITHOUT FUNCTION AS %s',
        source::regtype, target::regtype,
        CASE WHEN (SELECT n.nspname FROM pg_catalog.pg_type t
                   JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
                   WHERE t.oid = target) = 'rag_types' THEN 'IMPLICIT' ELSE 'ASSIGNMENT' END);
END $$;
REVOKE ALL ON FUNCTION rag_internal.create_pgvector_cast(oid, oid) FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.create_pgvector_cast(oid, oid) IS
    'creates a cast between a type of rag_types and that of pgvector';

CREATE FUNCTION rag_internal.keep_pgvector_cast(source oid, target oid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    cast_oid oid;
    extension oid;
BEGIN
    SELECT c.oid INTO cast_oid
    FROM pg_catalog.pg_cast c WHERE c.castsource = source AND c.casttarget = target;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- A cast that CREATE EXTENSION creates is a member of the extension. pgvector could not be
    -- dropped without this extension.
    IF EXISTS (SELECT FROM pg_catalog.pg_depend d
               WHERE d.classid = 'pg_catalog.pg_cast'::regclass AND d.objid = cast_oid
                 AND d.deptype = 'e') THEN
        EXECUTE pg_catalog.format('ALTER EXTENSION rag DROP CAST (%s AS %s)',
                                  source::regtype, target::regtype);
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
END $$;
REVOKE ALL ON FUNCTION rag_internal.keep_pgvector_cast(oid, oid) FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.keep_pgvector_cast(oid, oid) IS
    'makes a cast between a type of rag_types and that of pgvector depend on both extensions';

-- An operator on PostgreSQL's type bit has another strategy than the own one on that type.
CREATE FUNCTION rag_internal.add_pgvector_operators() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT pg_catalog.format('ALTER OPERATOR FAMILY %I.%I USING rag_hnsw ADD OPERATOR %s '
                   '%I.%s (%s, %s) FOR ORDER BY pg_catalog.float_ops',
                   fn.nspname, f.opfname, m.strategy, n.nspname, o.oprname,
                   o.oprleft::regtype, o.oprright::regtype)
        FROM (SELECT t.typname || c.family AS family, c.name, t.oid AS type, 1 AS strategy
              FROM rag_internal.pgvector_types() p
              JOIN pg_catalog.pg_type t ON t.oid = p.theirs,
                  (VALUES ('_l2_ops', '<->'), ('_ip_ops', '<#>'), ('_cosine_ops', '<=>'),
                          ('_l1_ops', '<+>')) AS c (family, name)
              UNION ALL
              VALUES ('bit_hamming_ops', '<~>', 'bit'::regtype::oid, 2),
                     ('bit_jaccard_ops', '<%>', 'bit'::regtype::oid, 2)) AS m
        JOIN pg_catalog.pg_am a ON a.amname = 'rag_hnsw'
        JOIN pg_catalog.pg_opfamily f ON f.opfmethod = a.oid AND f.opfname = m.family
        JOIN pg_catalog.pg_namespace fn
            ON fn.oid = f.opfnamespace AND fn.oid = '@extschema@'::regnamespace
        JOIN pg_catalog.pg_operator o
            ON o.oprname = m.name AND o.oprleft = m.type AND o.oprright = m.type
        JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
        JOIN pg_catalog.pg_depend d
            ON d.classid = 'pg_catalog.pg_operator'::regclass AND d.objid = o.oid
           AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.deptype = 'e'
        JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND e.extname = 'vector'
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_amop p
                          WHERE p.amopfamily = f.oid AND p.amopopr = o.oid)
    LOOP
        EXECUTE statement;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION rag_internal.add_pgvector_operators() FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.add_pgvector_operators() IS
    'adds the operators of pgvector to the operator families of rag_hnsw';

CREATE FUNCTION @extschema@.rag_pgvector_casts() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    types oid[];
    is_installed boolean := false;
BEGIN
    FOR types IN
        SELECT ARRAY[p.theirs, p.ours] FROM rag_internal.pgvector_types() p
        UNION ALL SELECT ARRAY[p.ours, p.theirs] FROM rag_internal.pgvector_types() p
    LOOP
        is_installed := true;
        IF NOT (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user) THEN
            RAISE EXCEPTION 'permission denied to create casts for the type of pgvector'
                USING ERRCODE = 'insufficient_privilege', HINT = 'Must be superuser.';
        END IF;
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_cast
                       WHERE castsource = types[1] AND casttarget = types[2]) THEN
            PERFORM rag_internal.create_pgvector_cast(types[1], types[2]);
        END IF;
        PERFORM rag_internal.keep_pgvector_cast(types[1], types[2]);
    END LOOP;
    IF is_installed THEN
        PERFORM rag_internal.add_pgvector_operators();
    END IF;
    RETURN is_installed;
END $$;
COMMENT ON FUNCTION @extschema@.rag_pgvector_casts() IS
    'creates the casts between the types of rag_types and pgvector''s, and lets rag_hnsw index '
    'pgvector''s types; returns false if pgvector is not installed';

-- Does the same after CREATE EXTENSION vector. A restore creates the casts itself, then or later.
-- pg_dump and pg_restore switch check_function_bodies off for all that they restore.
CREATE FUNCTION rag_internal.after_create() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_restored CONSTANT boolean :=
        NOT pg_catalog.current_setting('check_function_bodies')::boolean;
BEGIN
    IF tg_tag = 'CREATE CAST' THEN
        IF is_restored THEN
            PERFORM rag_internal.keep_pgvector_cast(p.theirs, p.ours),
                rag_internal.keep_pgvector_cast(p.ours, p.theirs)
            FROM rag_internal.pgvector_types() p;
        END IF;
    ELSIF EXISTS (SELECT FROM pg_catalog.pg_event_trigger_ddl_commands() c
                  JOIN pg_catalog.pg_extension e ON e.oid = c.objid AND e.extname = 'vector'
                  WHERE c.classid = 'pg_catalog.pg_extension'::regclass) THEN
        IF is_restored THEN
            PERFORM rag_internal.add_pgvector_operators();
        ELSE
            PERFORM @extschema@.rag_pgvector_casts();
        END IF;
    END IF;
END $$;
REVOKE ALL ON FUNCTION rag_internal.after_create() FROM PUBLIC;
COMMENT ON FUNCTION rag_internal.after_create() IS
    'lets rag_hnsw index the types of pgvector after CREATE EXTENSION vector';
CREATE EVENT TRIGGER rag_after_create
    ON ddl_command_end WHEN TAG IN ('CREATE EXTENSION', 'CREATE CAST')
    EXECUTE FUNCTION rag_internal.after_create();
COMMENT ON EVENT TRIGGER rag_after_create IS
    'lets rag_hnsw index the types of pgvector after CREATE EXTENSION vector';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
