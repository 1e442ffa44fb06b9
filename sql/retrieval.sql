-- Functions that answer requests of applications. PostgREST passes the body of a request to a
-- function with one unnamed parameter, which pgrx cannot generate. They are STABLE, so that it
-- calls them in a read-only transaction, on standbys too.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION @extschema@.rag_retrieve(jsonb) RETURNS jsonb
    AS 'MODULE_PATHNAME', 'rag_retrieve_wrapper'
    LANGUAGE c STABLE PARALLEL RESTRICTED COST 100000;
-- it sets response.status, which a parallel query cannot
CREATE FUNCTION @extschema@.rag_dify_retrieval(jsonb) RETURNS jsonb
    AS 'MODULE_PATHNAME', 'rag_dify_retrieval_wrapper'
    LANGUAGE c STABLE PARALLEL UNSAFE COST 100000;
CREATE FUNCTION @extschema@.rag_knowledge_search(jsonb) RETURNS jsonb
    AS 'MODULE_PATHNAME', 'rag_knowledge_search_wrapper'
    LANGUAGE c STABLE PARALLEL RESTRICTED COST 100000;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
