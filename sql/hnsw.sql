-- The index access method rag_hnsw, its operator classes, and functions that inspect an index.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_internal.hnsw_handler(internal) RETURNS index_am_handler
    AS 'MODULE_PATHNAME', 'hnsw_handler_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag_internal.hnsw_handler(internal) IS 'handler of the access method rag_hnsw';

CREATE ACCESS METHOD rag_hnsw TYPE INDEX HANDLER rag_internal.hnsw_handler;
COMMENT ON ACCESS METHOD rag_hnsw IS
    'index for nearest neighbor search: a graph (HNSW) over 4-bit codes';

-- The support function of an operator class identifies its distance to the access method.
CREATE FUNCTION rag_internal.hnsw_metric_l2() RETURNS integer
    AS 'MODULE_PATHNAME', 'hnsw_metric_l2_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.hnsw_metric_inner_product() RETURNS integer
    AS 'MODULE_PATHNAME', 'hnsw_metric_inner_product_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.hnsw_metric_cosine() RETURNS integer
    AS 'MODULE_PATHNAME', 'hnsw_metric_cosine_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.hnsw_metric_l1() RETURNS integer
    AS 'MODULE_PATHNAME', 'hnsw_metric_l1_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.hnsw_metric_hamming() RETURNS integer
    AS 'MODULE_PATHNAME', 'hnsw_metric_hamming_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION rag_internal.hnsw_metric_jaccard() RETURNS integer
    AS 'MODULE_PATHNAME', 'hnsw_metric_jaccard_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.hnsw_metric_hamming() IS
    'identifies operator classes of rag_hnsw that order by Hamming distance';
COMMENT ON FUNCTION rag_internal.hnsw_metric_jaccard() IS
    'identifies operator classes of rag_hnsw that order by Jaccard distance';
COMMENT ON FUNCTION rag_internal.hnsw_metric_l1() IS
    'identifies operator classes of rag_hnsw that order by taxicab distance';
COMMENT ON FUNCTION rag_internal.hnsw_metric_l2() IS
    'identifies operator classes of rag_hnsw that order by Euclidean distance';
COMMENT ON FUNCTION rag_internal.hnsw_metric_inner_product() IS
    'identifies operator classes of rag_hnsw that order by negative inner product';
COMMENT ON FUNCTION rag_internal.hnsw_metric_cosine() IS
    'identifies operator classes of rag_hnsw that order by cosine distance';

CREATE OPERATOR CLASS @extschema@.vector_l2_ops FOR TYPE rag_types.vector USING rag_hnsw AS
    OPERATOR 1 @extschema@.<-> (rag_types.vector, rag_types.vector) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_l2();
CREATE OPERATOR CLASS @extschema@.vector_ip_ops FOR TYPE rag_types.vector USING rag_hnsw AS
    OPERATOR 1 @extschema@.<#> (rag_types.vector, rag_types.vector) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_inner_product();
CREATE OPERATOR CLASS @extschema@.vector_cosine_ops FOR TYPE rag_types.vector USING rag_hnsw AS
    OPERATOR 1 @extschema@.<=> (rag_types.vector, rag_types.vector) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_cosine();
CREATE OPERATOR CLASS @extschema@.vector_l1_ops FOR TYPE rag_types.vector USING rag_hnsw AS
    OPERATOR 1 @extschema@.<+> (rag_types.vector, rag_types.vector) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_l1();
COMMENT ON OPERATOR CLASS @extschema@.vector_l1_ops USING rag_hnsw IS
    'ORDER BY a <+> b, taxicab distance';
COMMENT ON OPERATOR CLASS @extschema@.vector_l2_ops USING rag_hnsw IS
    'ORDER BY a <-> b, Euclidean distance';
COMMENT ON OPERATOR CLASS @extschema@.vector_ip_ops USING rag_hnsw IS
    'ORDER BY a <#> b, negative inner product';
COMMENT ON OPERATOR CLASS @extschema@.vector_cosine_ops USING rag_hnsw IS
    'ORDER BY a <=> b, cosine distance';

CREATE OPERATOR CLASS @extschema@.halfvec_l2_ops FOR TYPE rag_types.halfvec USING rag_hnsw AS
    OPERATOR 1 @extschema@.<-> (rag_types.halfvec, rag_types.halfvec) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_l2();
CREATE OPERATOR CLASS @extschema@.halfvec_ip_ops FOR TYPE rag_types.halfvec USING rag_hnsw AS
    OPERATOR 1 @extschema@.<#> (rag_types.halfvec, rag_types.halfvec) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_inner_product();
CREATE OPERATOR CLASS @extschema@.halfvec_cosine_ops FOR TYPE rag_types.halfvec USING rag_hnsw AS
    OPERATOR 1 @extschema@.<=> (rag_types.halfvec, rag_types.halfvec) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_cosine();
CREATE OPERATOR CLASS @extschema@.halfvec_l1_ops FOR TYPE rag_types.halfvec USING rag_hnsw AS
    OPERATOR 1 @extschema@.<+> (rag_types.halfvec, rag_types.halfvec) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_l1();
COMMENT ON OPERATOR CLASS @extschema@.halfvec_l1_ops USING rag_hnsw IS
    'ORDER BY a <+> b, taxicab distance';
COMMENT ON OPERATOR CLASS @extschema@.halfvec_l2_ops USING rag_hnsw IS
    'ORDER BY a <-> b, Euclidean distance';
COMMENT ON OPERATOR CLASS @extschema@.halfvec_ip_ops USING rag_hnsw IS
    'ORDER BY a <#> b, negative inner product';
COMMENT ON OPERATOR CLASS @extschema@.halfvec_cosine_ops USING rag_hnsw IS
    'ORDER BY a <=> b, cosine distance';

CREATE OPERATOR CLASS @extschema@.bit_hamming_ops FOR TYPE bit USING rag_hnsw AS
    OPERATOR 1 rag_functions.<~> (bit, bit) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_hamming();
COMMENT ON OPERATOR CLASS @extschema@.bit_hamming_ops USING rag_hnsw IS
    'ORDER BY a <~> b, Hamming distance';
CREATE OPERATOR CLASS @extschema@.bit_jaccard_ops FOR TYPE bit USING rag_hnsw AS
    OPERATOR 1 rag_functions.<%> (bit, bit) FOR ORDER BY float_ops,
    FUNCTION 1 rag_internal.hnsw_metric_jaccard();
COMMENT ON OPERATOR CLASS @extschema@.bit_jaccard_ops USING rag_hnsw IS
    'ORDER BY a <%> b, Jaccard distance';

-- pgvector may be there already.
DO $$ BEGIN PERFORM @extschema@.rag_pgvector_casts(); END $$;

-- Comments and privileges of these functions are in sql/privileges.sql.
CREATE FUNCTION @extschema@.rag_check_index(index regclass)
    RETURNS TABLE (level integer, block bigint, slot integer, problem text)
    AS 'MODULE_PATHNAME', 'rag_check_index_wrapper' LANGUAGE c STRICT PARALLEL RESTRICTED;
CREATE FUNCTION @extschema@.rag_hnsw_info(index regclass)
    RETURNS TABLE (metric text, dimensions integer, m integer, ef_construction integer,
        vectors bigint, nodes bigint, tombstones bigint, free_slots bigint, levels integer,
        average_degree double precision, pages bigint, bytes bigint, slots_per_page integer,
        code_dimensions integer, hint text)
    AS 'MODULE_PATHNAME', 'rag_hnsw_info_wrapper' LANGUAGE c STRICT PARALLEL RESTRICTED;
CREATE FUNCTION @extschema@.rag_hnsw_recall(
    index regclass, queries integer DEFAULT 100, top_k integer DEFAULT 10)
    RETURNS TABLE (ef_search integer, recall double precision, milliseconds double precision,
        exact_milliseconds double precision)
    AS 'MODULE_PATHNAME', 'rag_hnsw_recall_wrapper' LANGUAGE c STRICT;
CREATE FUNCTION @extschema@.rag_hnsw_recall(
    index regclass, queries text[], top_k integer DEFAULT 10, model text DEFAULT NULL)
    RETURNS TABLE (ef_search integer, recall double precision, milliseconds double precision,
        exact_milliseconds double precision)
    AS 'MODULE_PATHNAME', 'rag_hnsw_recall_of_texts_wrapper' LANGUAGE c;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
