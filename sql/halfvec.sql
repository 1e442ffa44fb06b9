-- The type halfvec: vectors of 16-bit floats, with its functions, operators, casts and aggregates.
-- Names, signatures and behaviour are those of pgvector; only the schema of the type differs.

SET LOCAL search_path = pg_catalog, pg_temp;

-- type
-- ----------------------------------------

CREATE TYPE rag_types.halfvec;

CREATE FUNCTION rag_internal.halfvec_in(cstring, oid, integer) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_in_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_out(rag_types.halfvec) RETURNS cstring
    AS 'MODULE_PATHNAME', 'halfvec_out_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_recv(internal, oid, integer) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_recv_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_send(rag_types.halfvec) RETURNS bytea
    AS 'MODULE_PATHNAME', 'halfvec_send_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_typmod_in(cstring[]) RETURNS integer
    AS 'MODULE_PATHNAME', 'halfvec_typmod_in_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE TYPE rag_types.halfvec (
    INPUT = rag_internal.halfvec_in,
    OUTPUT = rag_internal.halfvec_out,
    RECEIVE = rag_internal.halfvec_recv,
    SEND = rag_internal.halfvec_send,
    TYPMOD_IN = rag_internal.halfvec_typmod_in,
    STORAGE = external
);
COMMENT ON TYPE rag_types.halfvec IS
    'array of 16-bit floats with a fixed number of dimensions (1 to 16000); text form [1,2,3]';

-- functions
-- ----------------------------------------

CREATE FUNCTION rag_functions.l2_distance(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_l2_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_l2_squared_distance(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_l2_squared_distance_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.inner_product(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_inner_product_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_negative_inner_product(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_negative_inner_product_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.cosine_distance(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_cosine_distance_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.l1_distance(rag_types.halfvec, rag_types.halfvec)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_l1_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.vector_dims(rag_types.halfvec) RETURNS integer
    AS 'MODULE_PATHNAME', 'halfvec_dims_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.l2_norm(rag_types.halfvec) RETURNS double precision
    AS 'MODULE_PATHNAME', 'halfvec_l2_norm_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.l2_normalize(rag_types.halfvec) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_l2_normalize_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.subvector(rag_types.halfvec, integer, integer)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_subvector_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.binary_quantize(rag_types.halfvec) RETURNS bit
    AS 'MODULE_PATHNAME', 'halfvec_binary_quantize_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_add(rag_types.halfvec, rag_types.halfvec)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_add_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_sub(rag_types.halfvec, rag_types.halfvec)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_sub_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_mul(rag_types.halfvec, rag_types.halfvec)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_mul_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_concat(rag_types.halfvec, rag_types.halfvec)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_concat_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_lt(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_lt_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_le(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_le_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_eq(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_eq_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_ne(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_ne_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_ge(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_ge_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_gt(rag_types.halfvec, rag_types.halfvec) RETURNS boolean
    AS 'MODULE_PATHNAME', 'halfvec_gt_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.halfvec_cmp(rag_types.halfvec, rag_types.halfvec) RETURNS integer
    AS 'MODULE_PATHNAME', 'halfvec_cmp_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

COMMENT ON FUNCTION rag_functions.l2_distance(rag_types.halfvec, rag_types.halfvec) IS
    'Euclidean distance, also available as operator <->';
COMMENT ON FUNCTION rag_functions.halfvec_l2_squared_distance(
    rag_types.halfvec, rag_types.halfvec) IS
    'square of the Euclidean distance';
COMMENT ON FUNCTION rag_functions.inner_product(rag_types.halfvec, rag_types.halfvec) IS
    'inner product';
COMMENT ON FUNCTION rag_functions.halfvec_negative_inner_product(
    rag_types.halfvec, rag_types.halfvec) IS
    'negative inner product, also available as operator <#>';
COMMENT ON FUNCTION rag_functions.cosine_distance(rag_types.halfvec, rag_types.halfvec) IS
    '1 - cosine similarity (0 to 2), also available as operator <=>';
COMMENT ON FUNCTION rag_functions.l1_distance(rag_types.halfvec, rag_types.halfvec) IS
    'taxicab distance, also available as operator <+>';
COMMENT ON FUNCTION rag_functions.vector_dims(rag_types.halfvec) IS
    'number of dimensions';
COMMENT ON FUNCTION rag_functions.l2_norm(rag_types.halfvec) IS
    'Euclidean length';
COMMENT ON FUNCTION rag_functions.l2_normalize(rag_types.halfvec) IS
    'vector of length 1 with the same direction';
COMMENT ON FUNCTION rag_functions.subvector(rag_types.halfvec, integer, integer) IS
    'elements of a vector: position of the first, from 1, and their number';
COMMENT ON FUNCTION rag_functions.binary_quantize(rag_types.halfvec) IS
    'one bit for each element, 1 if the element is greater than zero';
COMMENT ON FUNCTION rag_functions.halfvec_add(rag_types.halfvec, rag_types.halfvec) IS
    'element-wise sum, also available as operator +';
COMMENT ON FUNCTION rag_functions.halfvec_sub(rag_types.halfvec, rag_types.halfvec) IS
    'element-wise difference, also available as operator -';
COMMENT ON FUNCTION rag_functions.halfvec_mul(rag_types.halfvec, rag_types.halfvec) IS
    'element-wise product, also available as operator *';
COMMENT ON FUNCTION rag_functions.halfvec_concat(rag_types.halfvec, rag_types.halfvec) IS
    'concatenation, also available as operator ||';
COMMENT ON FUNCTION rag_functions.halfvec_lt(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of < operator';
COMMENT ON FUNCTION rag_functions.halfvec_le(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of <= operator';
COMMENT ON FUNCTION rag_functions.halfvec_eq(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of = operator';
COMMENT ON FUNCTION rag_functions.halfvec_ne(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of <> operator';
COMMENT ON FUNCTION rag_functions.halfvec_ge(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of >= operator';
COMMENT ON FUNCTION rag_functions.halfvec_gt(rag_types.halfvec, rag_types.halfvec) IS
    'implementation of > operator';
COMMENT ON FUNCTION rag_functions.halfvec_cmp(rag_types.halfvec, rag_types.halfvec) IS
    'less-equal-greater';

-- casts
-- ----------------------------------------

CREATE FUNCTION rag_internal.halfvec(rag_types.halfvec, integer, boolean) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_typmod_cast_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_halfvec(real[], integer, boolean) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'array_to_halfvec_real_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_halfvec(double precision[], integer, boolean)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'array_to_halfvec_double_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_halfvec(integer[], integer, boolean) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'array_to_halfvec_integer_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.array_to_halfvec(numeric[], integer, boolean) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'array_to_halfvec_numeric_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_to_float4(rag_types.halfvec, integer, boolean) RETURNS real[]
    AS 'MODULE_PATHNAME', 'halfvec_to_float4_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_to_vector(rag_types.halfvec, integer, boolean)
    RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'halfvec_to_vector_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.vector_to_halfvec(rag_types.vector, integer, boolean)
    RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'vector_to_halfvec_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE CAST (rag_types.halfvec AS rag_types.halfvec)
    WITH FUNCTION rag_internal.halfvec(rag_types.halfvec, integer, boolean) AS IMPLICIT;
CREATE CAST (rag_types.halfvec AS rag_types.vector)
    WITH FUNCTION rag_internal.halfvec_to_vector(rag_types.halfvec, integer, boolean) AS ASSIGNMENT;
CREATE CAST (rag_types.vector AS rag_types.halfvec)
    WITH FUNCTION rag_internal.vector_to_halfvec(rag_types.vector, integer, boolean) AS IMPLICIT;
CREATE CAST (rag_types.halfvec AS real[])
    WITH FUNCTION rag_internal.halfvec_to_float4(rag_types.halfvec, integer, boolean) AS ASSIGNMENT;
CREATE CAST (real[] AS rag_types.halfvec)
    WITH FUNCTION rag_internal.array_to_halfvec(real[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (double precision[] AS rag_types.halfvec)
    WITH FUNCTION rag_internal.array_to_halfvec(double precision[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (integer[] AS rag_types.halfvec)
    WITH FUNCTION rag_internal.array_to_halfvec(integer[], integer, boolean) AS ASSIGNMENT;
CREATE CAST (numeric[] AS rag_types.halfvec)
    WITH FUNCTION rag_internal.array_to_halfvec(numeric[], integer, boolean) AS ASSIGNMENT;

-- operators
-- ----------------------------------------

CREATE OPERATOR @extschema@.<-> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.l2_distance, COMMUTATOR = OPERATOR(@extschema@.<->));
CREATE OPERATOR @extschema@.<#> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_negative_inner_product,
    COMMUTATOR = OPERATOR(@extschema@.<#>));
CREATE OPERATOR @extschema@.<=> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.cosine_distance, COMMUTATOR = OPERATOR(@extschema@.<=>));
CREATE OPERATOR @extschema@.<+> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.l1_distance, COMMUTATOR = OPERATOR(@extschema@.<+>));
CREATE OPERATOR @extschema@.+ (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_add, COMMUTATOR = OPERATOR(@extschema@.+));
CREATE OPERATOR @extschema@.- (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_sub);
CREATE OPERATOR @extschema@.* (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_mul, COMMUTATOR = OPERATOR(@extschema@.*));
CREATE OPERATOR @extschema@.|| (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec,
    FUNCTION = rag_functions.halfvec_concat);

CREATE OPERATOR @extschema@.< (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_lt,
    COMMUTATOR = OPERATOR(@extschema@.>), NEGATOR = OPERATOR(@extschema@.>=),
    RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
CREATE OPERATOR @extschema@.<= (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_le,
    COMMUTATOR = OPERATOR(@extschema@.>=), NEGATOR = OPERATOR(@extschema@.>),
    RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
CREATE OPERATOR @extschema@.= (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_eq,
    COMMUTATOR = OPERATOR(@extschema@.=), NEGATOR = OPERATOR(@extschema@.<>),
    RESTRICT = eqsel, JOIN = eqjoinsel);
CREATE OPERATOR @extschema@.<> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_ne,
    COMMUTATOR = OPERATOR(@extschema@.<>), NEGATOR = OPERATOR(@extschema@.=),
    RESTRICT = neqsel, JOIN = neqjoinsel);
CREATE OPERATOR @extschema@.>= (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_ge,
    COMMUTATOR = OPERATOR(@extschema@.<=), NEGATOR = OPERATOR(@extschema@.<),
    RESTRICT = scalargesel, JOIN = scalargejoinsel);
CREATE OPERATOR @extschema@.> (
    LEFTARG = rag_types.halfvec, RIGHTARG = rag_types.halfvec, FUNCTION = rag_functions.halfvec_gt,
    COMMUTATOR = OPERATOR(@extschema@.<), NEGATOR = OPERATOR(@extschema@.<=),
    RESTRICT = scalargtsel, JOIN = scalargtjoinsel);

-- In the schema rag, because pgvector's class of the same name may be in the extension's schema.
CREATE OPERATOR CLASS rag.halfvec_ops DEFAULT FOR TYPE rag_types.halfvec USING btree AS
    OPERATOR 1 @extschema@.<, OPERATOR 2 @extschema@.<=, OPERATOR 3 @extschema@.=,
    OPERATOR 4 @extschema@.>=, OPERATOR 5 @extschema@.>,
    FUNCTION 1 rag_functions.halfvec_cmp(rag_types.halfvec, rag_types.halfvec);

-- aggregates
-- ----------------------------------------

CREATE FUNCTION rag_internal.halfvec_accum(double precision[], rag_types.halfvec)
    RETURNS double precision[]
    AS 'MODULE_PATHNAME', 'halfvec_accum_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.halfvec_avg(double precision[]) RETURNS rag_types.halfvec
    AS 'MODULE_PATHNAME', 'halfvec_avg_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;

CREATE AGGREGATE @extschema@.avg(rag_types.halfvec) (
    SFUNC = rag_internal.halfvec_accum, STYPE = double precision[],
    FINALFUNC = rag_internal.halfvec_avg,
    COMBINEFUNC = rag_internal.vector_combine, INITCOND = '{0}', PARALLEL = SAFE
);
CREATE AGGREGATE @extschema@.sum(rag_types.halfvec) (
    SFUNC = rag_functions.halfvec_add, STYPE = rag_types.halfvec,
    COMBINEFUNC = rag_functions.halfvec_add, PARALLEL = SAFE
);
COMMENT ON AGGREGATE @extschema@.avg(rag_types.halfvec) IS 'element-wise mean';
COMMENT ON AGGREGATE @extschema@.sum(rag_types.halfvec) IS 'element-wise sum';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
