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

REVOKE ALL ON FUNCTION rag_internal.scan_settings_support(internal),
    rag_internal.keyword_statistics(oid, text, text[]),
    rag_internal.keyword_score(oid, tid, text), rag_internal.keyword_allows(oid, tid, text),
    rag_internal.keyword_terms(oid, tid, text) FROM PUBLIC;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
