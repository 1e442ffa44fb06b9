-- Functions on the results of searches.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Filters by source_file call it. Everybody may call it.
CREATE FUNCTION rag_internal.uri_file_name(uri text) RETURNS text
    AS 'MODULE_PATHNAME', 'uri_file_name_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.uri_file_name(text) IS
    'name of the file of a uri: what follows the last / or #, without percent-encoding';

-- rag_search(query, 5) explains that the second argument is not top_k
CREATE FUNCTION @extschema@.rag_search(query text, integer)
RETURNS TABLE (rank integer, score double precision, content text, title text, uri text,
    chunk_index integer, start_index integer, source text, document_id uuid, knowledge_id bigint,
    chunk_id uuid, metadata jsonb, vector_score double precision, keyword_score double precision,
    vector_rank integer, keyword_rank integer, citation text,
    start_line integer, end_line integer, page integer, heading_path text[],
    document_type text, category text, tags text[],
    indexed_at timestamptz, fetched_at timestamptz, also_at text[], collection text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
        MESSAGE = 'the second argument of rag_search must be a collection, not a number',
        HINT = 'Use rag_search(query, top_k => ' || $2 || ').';
END $$;

CREATE FUNCTION @extschema@.rag_score_band(vector_score double precision) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN NOT vector_score BETWEEN 0 AND 1 THEN NULL -- NaN is greater than all
                WHEN vector_score >= 0.9 THEN 'highly relevant'
                WHEN vector_score >= 0.7 THEN 'good'
                WHEN vector_score >= 0.5 THEN 'partial'
                ELSE 'weak' END
$$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
