-- Functions on the results of searches.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Filters by source_file call it. Everybody may call it.
CREATE FUNCTION rag_internal.uri_file_name(uri text) RETURNS text
    AS 'MODULE_PATHNAME', 'uri_file_name_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.uri_file_name(text) IS
    'name of the file of a uri: what follows the last / or #, without percent-encoding';

-- Words of a query in a text. The third argument is not the collection, because most texts are in
-- tables of users.
CREATE FUNCTION @extschema@.rag_highlight(content text, query text, text_config text DEFAULT NULL,
    collection text DEFAULT NULL, index regclass DEFAULT NULL, settings jsonb DEFAULT NULL)
    RETURNS text
    AS 'MODULE_PATHNAME', 'rag_highlight_wrapper' LANGUAGE c STABLE PARALLEL RESTRICTED COST 20000;

-- The columns of rag_search that cost something of their own. 1,000 rows of both must cost less
-- than jit_above_cost.
CREATE FUNCTION rag_internal.chunk_snippet(content text, language text, query text, collection text,
    settings jsonb, query_embedding rag_types.vector) RETURNS text
    AS 'MODULE_PATHNAME', 'chunk_snippet_wrapper' LANGUAGE c STABLE PARALLEL RESTRICTED COST 1000;
COMMENT ON FUNCTION rag_internal.chunk_snippet(text, text, text, text, jsonb, rag_types.vector) IS
    'column snippet of rag_search: the part of a chunk that shows why it was found';
CREATE FUNCTION rag_internal.chunk_matches(content text, language text, query text, collection text,
    settings jsonb, query_embedding rag_types.vector) RETURNS int4range[]
    AS 'MODULE_PATHNAME', 'chunk_matches_wrapper' LANGUAGE c STABLE PARALLEL RESTRICTED COST 1000;
COMMENT ON FUNCTION rag_internal.chunk_matches(text, text, text, text, jsonb, rag_types.vector) IS
    'column matches of rag_search: where words of the query are in a chunk';
CREATE FUNCTION rag_internal.search_chunks(query text, collections text[], top_k integer, mode text,
    filter jsonb, rerank text, settings jsonb, query_embedding rag_types.vector)
RETURNS TABLE (rank integer, score double precision, content text, title text, uri text,
    chunk_index integer, start_index integer, source text, document_id uuid, knowledge_id bigint,
    chunk_id uuid, metadata jsonb, vector_score double precision, keyword_score double precision,
    vector_rank integer, keyword_rank integer, citation text,
    start_line integer, end_line integer, page integer, heading_path text[],
    anchor text, document_type text, category text, tags text[],
    indexed_at timestamptz, fetched_at timestamptz, also_at text[], collection text)
    AS 'MODULE_PATHNAME', 'search_chunks_wrapper' LANGUAGE c STABLE PARALLEL RESTRICTED COST 100000;
COMMENT ON FUNCTION rag_internal.search_chunks(
    text, text[], integer, text, jsonb, text, jsonb, rag_types.vector) IS
    'the columns of rag_search except for snippet and matches';

-- The planner replaces a call by the query of the function, and leaves out columns that are not
-- used. That needs functions without SET and STRICT, so each name has its schema. An expression for
-- the embedding is computed for each row that needs it.
CREATE FUNCTION @extschema@.rag_search(query text, collection text DEFAULT 'default',
    top_k integer DEFAULT NULL, mode text DEFAULT NULL, filter jsonb DEFAULT NULL,
    rerank text DEFAULT NULL, settings jsonb DEFAULT NULL,
    query_embedding rag_types.vector DEFAULT NULL)
RETURNS TABLE (rank integer, score double precision, content text, title text, uri text,
    chunk_index integer, start_index integer, source text, document_id uuid, knowledge_id bigint,
    chunk_id uuid, metadata jsonb, vector_score double precision, keyword_score double precision,
    vector_rank integer, keyword_rank integer, citation text,
    start_line integer, end_line integer, page integer, heading_path text[],
    anchor text, document_type text, category text, tags text[],
    indexed_at timestamptz, fetched_at timestamptz, also_at text[], collection text,
    snippet text, matches int4range[])
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 AS $$
    SELECT s.*,
        rag_internal.chunk_snippet(s.content,
            pg_catalog.jsonb_extract_path_text(s.metadata, 'language'), $1, s.collection, $7,
            CASE WHEN $1 IS NULL THEN $8 END),
        rag_internal.chunk_matches(s.content,
            pg_catalog.jsonb_extract_path_text(s.metadata, 'language'), $1, s.collection, $7,
            CASE WHEN $1 IS NULL THEN $8 END)
    FROM rag_internal.search_chunks($1, ARRAY[$2], $3, $4, $5, $6, $7, $8) AS s
$$;
CREATE FUNCTION @extschema@.rag_search(query text, collection text[],
    top_k integer DEFAULT NULL, mode text DEFAULT NULL, filter jsonb DEFAULT NULL,
    rerank text DEFAULT NULL, settings jsonb DEFAULT NULL,
    query_embedding rag_types.vector DEFAULT NULL)
RETURNS TABLE (rank integer, score double precision, content text, title text, uri text,
    chunk_index integer, start_index integer, source text, document_id uuid, knowledge_id bigint,
    chunk_id uuid, metadata jsonb, vector_score double precision, keyword_score double precision,
    vector_rank integer, keyword_rank integer, citation text,
    start_line integer, end_line integer, page integer, heading_path text[],
    anchor text, document_type text, category text, tags text[],
    indexed_at timestamptz, fetched_at timestamptz, also_at text[], collection text,
    snippet text, matches int4range[])
LANGUAGE sql STABLE PARALLEL RESTRICTED COST 100000 AS $$
    SELECT s.*,
        rag_internal.chunk_snippet(s.content,
            pg_catalog.jsonb_extract_path_text(s.metadata, 'language'), $1, s.collection, $7,
            CASE WHEN $1 IS NULL THEN $8 END),
        rag_internal.chunk_matches(s.content,
            pg_catalog.jsonb_extract_path_text(s.metadata, 'language'), $1, s.collection, $7,
            CASE WHEN $1 IS NULL THEN $8 END)
    FROM rag_internal.search_chunks($1, $2, $3, $4, $5, $6, $7, $8) AS s
$$;

-- rag_search(query, 5) explains that the second argument is not top_k
CREATE FUNCTION @extschema@.rag_search(query text, integer)
RETURNS TABLE (rank integer, score double precision, content text, title text, uri text,
    chunk_index integer, start_index integer, source text, document_id uuid, knowledge_id bigint,
    chunk_id uuid, metadata jsonb, vector_score double precision, keyword_score double precision,
    vector_rank integer, keyword_rank integer, citation text,
    start_line integer, end_line integer, page integer, heading_path text[],
    anchor text, document_type text, category text, tags text[],
    indexed_at timestamptz, fetched_at timestamptz, also_at text[], collection text,
    snippet text, matches int4range[])
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
