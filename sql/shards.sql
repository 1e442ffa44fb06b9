-- Functions that Citus calls where shards of rag.chunks are (src/index/bm25/given.rs,
-- src/search/shard_settings.rs).

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_internal.scan_settings_support(internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'scan_settings_support_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag_internal.scan_settings_support(internal) IS
    'planner support function of scan_settings';
CREATE FUNCTION rag_internal.scan_settings(partition text, settings text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scan_settings_wrapper'
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF SUPPORT rag_internal.scan_settings_support;
COMMENT ON FUNCTION rag_internal.scan_settings(text, text) IS
    'true; where a shard is, the planner sets the settings until the transaction ends';

CREATE FUNCTION rag_internal.keyword_statistics(relation oid, words text, used text[])
    RETURNS text
    AS 'MODULE_PATHNAME', 'keyword_statistics_wrapper' LANGUAGE c STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.keyword_statistics(oid, text, text[]) IS
    'what the keyword index on a shard has of some words, as JSON';
CREATE FUNCTION rag_internal.keyword_score(relation oid, place tid, query text)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'keyword_score_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000;
COMMENT ON FUNCTION rag_internal.keyword_score(oid, tid, text) IS
    'BM25 score of a row of a shard, by the statistics that the query comes with';
CREATE FUNCTION rag_internal.keyword_allows(relation oid, place tid, query text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'keyword_allows_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000;
COMMENT ON FUNCTION rag_internal.keyword_allows(oid, tid, text) IS
    'true if a row of a shard has what a query requires, and nothing that it excludes';
CREATE FUNCTION rag_internal.keyword_terms(relation oid, place tid, query text) RETURNS boolean[]
    AS 'MODULE_PATHNAME', 'keyword_terms_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000;
COMMENT ON FUNCTION rag_internal.keyword_terms(oid, tid, text) IS
    'which terms of a query a row of a shard has';

-- Servers that cannot be reached count as empty.
CREATE FUNCTION rag_internal.shard_sizes(partition regclass, OUT table_bytes bigint,
    OUT vector_index_bytes bigint, OUT keyword_index_bytes bigint, OUT index_bytes bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE $query$
        SELECT coalesce(sum((r.sizes ->> 0)::bigint), 0), coalesce(sum((r.sizes ->> 1)::bigint), 0),
               coalesce(sum((r.sizes ->> 2)::bigint), 0), coalesce(sum((r.sizes ->> 3)::bigint), 0)
        FROM (SELECT CASE WHEN p.success THEN p.result::json END AS sizes
              FROM run_command_on_shards($1, $command$
                  SELECT json_build_array(
                      pg_table_size('%1$s'),
                      coalesce(sum(i.bytes) FILTER (WHERE i.method IN ('rag_hnsw', 'hnsw')), 0),
                      coalesce(sum(i.bytes) FILTER (WHERE i.method = 'rag_bm25'), 0),
                      coalesce(sum(i.bytes), 0))
                  FROM (SELECT a.amname AS method, pg_relation_size(c.oid) AS bytes
                        FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid
                        JOIN pg_am a ON a.oid = c.relam
                        WHERE x.indrelid = '%1$s'::regclass) i $command$) p) r $query$
        INTO table_bytes, vector_index_bytes, keyword_index_bytes, index_bytes USING partition;
END $$;
COMMENT ON FUNCTION rag_internal.shard_sizes(regclass) IS
    'sizes of a partition and its indexes on all servers';

REVOKE ALL ON FUNCTION rag_internal.shard_sizes(regclass),
    rag_internal.scan_settings_support(internal),
    rag_internal.keyword_statistics(oid, text, text[]),
    rag_internal.keyword_score(oid, tid, text), rag_internal.keyword_allows(oid, tid, text),
    rag_internal.keyword_terms(oid, tid, text) FROM PUBLIC;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
