-- Functions that Citus calls where shards of rag.chunks are (src/index/bm25/given.rs,
-- src/search/shard_settings.rs), and what shows the indexes of all shards.

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
    'BM25 score of a row of a shard, by the statistics that the query comes with; NULL if the row '
    'lacks what the query requires, or has what it excludes';
CREATE FUNCTION rag_internal.keyword_terms(relation oid, place tid, query text) RETURNS boolean[]
    AS 'MODULE_PATHNAME', 'keyword_terms_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000;
COMMENT ON FUNCTION rag_internal.keyword_terms(oid, tid, text) IS
    'which terms of a query a row of a shard has';

CREATE FUNCTION rag_internal.embed_for(fingerprint text, texts text[]) RETURNS text
    AS 'MODULE_PATHNAME', 'embed_for_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag_internal.embed_for(text, text[]) IS
    'embeds texts for another server, by the model with this fingerprint';

CREATE FUNCTION rag_internal.default_model_of_node() RETURNS text
    AS 'MODULE_PATHNAME', 'default_model_of_node_wrapper' LANGUAGE c;
COMMENT ON FUNCTION rag_internal.default_model_of_node() IS
    'name and fingerprint of the default model, as JSON';

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

-- Inspection of the indexes on all shards
-- ----------------------------------------

-- Called where a shard is. Returns one object for each index of vectors and words.
CREATE FUNCTION rag_internal.describe_shard(relation regclass, checks boolean) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    index record;
    found jsonb;
    described jsonb := '[]';
BEGIN
    FOR index IN
        SELECT c.oid, c.relname, a.amname FROM pg_index i
        JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
        WHERE i.indrelid = relation AND a.amname IN ('rag_hnsw', 'rag_bm25') ORDER BY c.oid LOOP
        IF checks THEN
            SELECT coalesce(jsonb_agg(to_jsonb(p)), '[]') INTO found
            FROM @extschema@.rag_check_index(index.oid) p;
        ELSIF index.amname = 'rag_hnsw' THEN
            SELECT to_jsonb(p) INTO found FROM @extschema@.rag_hnsw_info(index.oid) p;
        ELSE
            SELECT to_jsonb(p) INTO found FROM @extschema@.rag_bm25_info(index.oid) p;
        END IF;
        described := described
            || jsonb_build_object('index', index.relname, 'method', index.amname, 'found', found);
    END LOOP;
    RETURN described;
END $$;
COMMENT ON FUNCTION rag_internal.describe_shard(regclass, boolean) IS
    'describes or checks the indexes of vectors and words on a shard';

CREATE FUNCTION rag_internal.describe_shards(of_collection text, checks boolean)
RETURNS TABLE (node text, shard bigint, index text, method text, found jsonb, problem text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    relation text;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'permission denied to read the indexes of shards'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Must be superuser.';
    END IF;
    IF rag_internal.distributed_by() IS NULL THEN
        RAISE EXCEPTION 'chunks are not distributed'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Use rag_check_index, rag_hnsw_info and rag_bm25_info.';
    END IF;
    IF of_collection IS NOT NULL
        AND NOT EXISTS (SELECT FROM rag_internal.collection k WHERE k.name = of_collection) THEN
        RAISE EXCEPTION 'collection "%" does not exist', of_collection
            USING ERRCODE = 'undefined_object';
    END IF;
    FOR relation IN
        SELECT DISTINCT format('rag_internal.%I', k.partition) FROM rag_internal.collection k
        WHERE (of_collection IS NULL OR k.name = of_collection) AND k.partition IS NOT NULL
        ORDER BY 1 LOOP
        RETURN QUERY EXECUTE $query$
            SELECT p.nodename || ':' || p.nodeport, p.shardid, e.entry ->> 'index',
                   e.entry ->> 'method', e.entry -> 'found',
                   CASE WHEN NOT p.success THEN p.result END
            FROM run_command_on_placements($1::regclass, $2) p
            LEFT JOIN LATERAL jsonb_array_elements(
                CASE WHEN p.success THEN p.result::jsonb END) e (entry) ON true
            WHERE e.entry IS NOT NULL OR NOT p.success $query$
            USING relation, format('SELECT rag_internal.describe_shard(%L, %L)', '%s', checks);
    END LOOP;
END $$;
COMMENT ON FUNCTION rag_internal.describe_shards(text, boolean) IS
    'describes or checks the indexes of vectors and words on all shards';

CREATE FUNCTION @extschema@.rag_shard_indexes(collection text DEFAULT NULL)
RETURNS TABLE (node text, shard bigint, index text, method text, info jsonb, problem text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.node, d.shard, d.index, d.method, d.found, d.problem
    FROM rag_internal.describe_shards(collection, false) d
$$;
CREATE FUNCTION @extschema@.rag_check_shards(collection text DEFAULT NULL)
RETURNS TABLE (node text, shard bigint, index text, problem text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.node, d.shard, d.index, coalesce(d.problem, p.problem ->> 'problem')
    FROM rag_internal.describe_shards(collection, true) d
    LEFT JOIN LATERAL jsonb_array_elements(d.found) p (problem) ON true
    WHERE d.problem IS NOT NULL OR p.problem IS NOT NULL
$$;

REVOKE ALL ON FUNCTION rag_internal.embed_for(text, text[]),
    rag_internal.default_model_of_node(),
    rag_internal.describe_shard(regclass, boolean),
    rag_internal.describe_shards(text, boolean), rag_internal.shard_sizes(regclass),
    rag_internal.scan_settings_support(internal),
    rag_internal.keyword_statistics(oid, text, text[]),
    rag_internal.keyword_score(oid, tid, text), rag_internal.keyword_terms(oid, tid, text)
    FROM PUBLIC;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
