-- Distances of PostgreSQL's type bit. Names, signatures and behaviour are those of pgvector.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_functions.hamming_distance(bit, bit) RETURNS double precision
    AS 'MODULE_PATHNAME', 'hamming_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_functions.jaccard_distance(bit, bit) RETURNS double precision
    AS 'MODULE_PATHNAME', 'jaccard_distance_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.bits_to_vector(bit) RETURNS rag_types.vector
    AS 'MODULE_PATHNAME', 'bits_to_vector_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_functions.hamming_distance(bit, bit) IS
    'number of bits that differ, also available as operator <~>';
COMMENT ON FUNCTION rag_functions.jaccard_distance(bit, bit) IS
    '1 - the share of common bits (0 to 1), also available as operator <%>';
COMMENT ON FUNCTION rag_internal.bits_to_vector(bit) IS
    'returns a vector with an element for each bit: 0 or 1';

-- Not in the schema of the extension, because pgvector's operators may be there: they have the same
-- names and types.
CREATE OPERATOR rag_functions.<~> (
    LEFTARG = bit, RIGHTARG = bit,
    FUNCTION = rag_functions.hamming_distance, COMMUTATOR = OPERATOR(rag_functions.<~>));
CREATE OPERATOR rag_functions.<%> (
    LEFTARG = bit, RIGHTARG = bit,
    FUNCTION = rag_functions.jaccard_distance, COMMUTATOR = OPERATOR(rag_functions.<%>));

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
