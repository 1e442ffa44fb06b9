-- The index access method rag_bm25: the type of its queries, operators, operator class, and
-- functions that inspect and search an index.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_internal.bm25_handler(internal) RETURNS index_am_handler
    AS 'MODULE_PATHNAME', 'bm25_handler_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag_internal.bm25_handler(internal) IS 'handler of the access method rag_bm25';

CREATE ACCESS METHOD rag_bm25 TYPE INDEX HANDLER rag_internal.bm25_handler;
COMMENT ON ACCESS METHOD rag_bm25 IS
    'index for ranked keyword search: inverted lists of words, scored by BM25';

-- queries
-- ----------------------------------------

CREATE TYPE rag.bm25_query AS (query text, index regclass);
COMMENT ON TYPE rag.bm25_query IS
    'words to search for, and the rag_bm25 index that has their statistics';

-- Everybody may call these functions: the operators need them.
CREATE FUNCTION rag_internal.bm25_query(query text, index regclass) RETURNS rag.bm25_query
    AS 'MODULE_PATHNAME', 'bm25_query_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.bm25_query(text, regclass) IS
    'returns a query; the planner puts it into expressions whose index it has found';

-- planner support
-- ----------------------------------------

CREATE FUNCTION rag_internal.bm25_support(internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'bm25_support_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag_internal.bm25_support(internal) IS
    'planner support function of <@> and @@@: finds the index of the column, estimates the cost';
REVOKE ALL ON FUNCTION rag_internal.bm25_support(internal) FROM PUBLIC;
CREATE FUNCTION rag_internal.bm25_restrict(internal, oid, internal, integer)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'bm25_restrict_wrapper' LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.bm25_restrict(internal, oid, internal, integer) IS
    'estimates the fraction of rows that satisfy @@@';
CREATE FUNCTION rag_internal.bm25_restrict_not(internal, oid, internal, integer)
    RETURNS double precision
    AS 'MODULE_PATHNAME', 'bm25_restrict_not_wrapper' LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.bm25_restrict_not(internal, oid, internal, integer) IS
    'estimates the fraction of rows that satisfy !@@@';

-- operators
-- ----------------------------------------

-- Making words of a text takes as long as tens of thousands of comparisons.
CREATE FUNCTION rag_internal.bm25_order(text, rag.bm25_query) RETURNS double precision
    AS 'MODULE_PATHNAME', 'bm25_order_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000 SUPPORT rag_internal.bm25_support;
CREATE FUNCTION rag_internal.bm25_order(text, text) RETURNS double precision
    AS 'MODULE_PATHNAME', 'bm25_order_by_text_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000 SUPPORT rag_internal.bm25_support;
CREATE FUNCTION rag_internal.bm25_matches(text, rag.bm25_query) RETURNS boolean
    AS 'MODULE_PATHNAME', 'bm25_matches_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000 SUPPORT rag_internal.bm25_support;
CREATE FUNCTION rag_internal.bm25_matches(text, text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'bm25_matches_text_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000 SUPPORT rag_internal.bm25_support;
CREATE FUNCTION rag_internal.bm25_misses(text, rag.bm25_query) RETURNS boolean
    AS 'MODULE_PATHNAME', 'bm25_misses_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000 SUPPORT rag_internal.bm25_support;
CREATE FUNCTION rag_internal.bm25_misses(text, text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'bm25_misses_text_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 20000 SUPPORT rag_internal.bm25_support;
COMMENT ON FUNCTION rag_internal.bm25_order(text, rag.bm25_query) IS
    'negative BM25 score of a text, 0 if it does not match; also available as operator <@>';
COMMENT ON FUNCTION rag_internal.bm25_order(text, text) IS
    'as with a query of the rag_bm25 index that the planner finds for the first argument';
COMMENT ON FUNCTION rag_internal.bm25_matches(text, rag.bm25_query) IS
    'whether a text has at least one word of a query; also available as operator @@@';
COMMENT ON FUNCTION rag_internal.bm25_matches(text, text) IS
    'as with a query of the rag_bm25 index that the planner finds for the first argument';
COMMENT ON FUNCTION rag_internal.bm25_misses(text, rag.bm25_query) IS
    'whether a text has no word of a query; also available as operator !@@@';
COMMENT ON FUNCTION rag_internal.bm25_misses(text, text) IS
    'as with a query of the rag_bm25 index that the planner finds for the first argument';

CREATE OPERATOR @extschema@.<@> (
    LEFTARG = text, RIGHTARG = rag.bm25_query, FUNCTION = rag_internal.bm25_order);
CREATE OPERATOR @extschema@.<@> (
    LEFTARG = text, RIGHTARG = text, FUNCTION = rag_internal.bm25_order);
CREATE OPERATOR @extschema@.@@@ (
    LEFTARG = text, RIGHTARG = rag.bm25_query, FUNCTION = rag_internal.bm25_matches,
    NEGATOR = OPERATOR(@extschema@.!@@@),
    RESTRICT = rag_internal.bm25_restrict, JOIN = contjoinsel);
CREATE OPERATOR @extschema@.@@@ (
    LEFTARG = text, RIGHTARG = text, FUNCTION = rag_internal.bm25_matches,
    NEGATOR = OPERATOR(@extschema@.!@@@),
    RESTRICT = rag_internal.bm25_restrict, JOIN = contjoinsel);
CREATE OPERATOR @extschema@.!@@@ (
    LEFTARG = text, RIGHTARG = rag.bm25_query, FUNCTION = rag_internal.bm25_misses,
    NEGATOR = OPERATOR(@extschema@.@@@), RESTRICT = rag_internal.bm25_restrict_not);
CREATE OPERATOR @extschema@.!@@@ (
    LEFTARG = text, RIGHTARG = text, FUNCTION = rag_internal.bm25_misses,
    NEGATOR = OPERATOR(@extschema@.@@@), RESTRICT = rag_internal.bm25_restrict_not);
COMMENT ON OPERATOR @extschema@.<@> (text, rag.bm25_query) IS
    'negative BM25 score, for ORDER BY: the best rows come first';
COMMENT ON OPERATOR @extschema@.<@> (text, text) IS
    'negative BM25 score, for ORDER BY: the best rows come first';
COMMENT ON OPERATOR @extschema@.@@@ (text, rag.bm25_query) IS
    'has at least one word of the query';
COMMENT ON OPERATOR @extschema@.@@@ (text, text) IS 'has at least one word of the query';
COMMENT ON OPERATOR @extschema@.!@@@ (text, rag.bm25_query) IS 'has no word of the query';
COMMENT ON OPERATOR @extschema@.!@@@ (text, text) IS 'has no word of the query';

CREATE OPERATOR CLASS @extschema@.text_bm25_ops DEFAULT FOR TYPE text USING rag_bm25 AS
    OPERATOR 1 @extschema@.<@> (text, rag.bm25_query) FOR ORDER BY float_ops,
    OPERATOR 2 @extschema@.@@@ (text, rag.bm25_query),
    OPERATOR 3 @extschema@.!@@@ (text, rag.bm25_query);
COMMENT ON OPERATOR CLASS @extschema@.text_bm25_ops USING rag_bm25 IS
    'ORDER BY text <@> query, BM25';

-- functions
-- ----------------------------------------

CREATE FUNCTION rag_internal.bm25_has_words(config oid, analysis text, value text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'bm25_has_words_wrapper' LANGUAGE c STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION rag_internal.bm25_has_words(oid, text, text) IS
    'whether a rag_bm25 index with this text search configuration and analysis stores a text';

CREATE FUNCTION rag_internal.bm25_title_matches(title text, query text, config text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'bm25_title_matches_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED
    COST 1000;
COMMENT ON FUNCTION rag_internal.bm25_title_matches(text, text, text) IS
    'whether a title has what a field of a query requires';

-- Comments and privileges of these functions are in sql/privileges.sql.
CREATE FUNCTION @extschema@.rag_bm25_query(query text, index regclass)
    RETURNS rag.bm25_query
    AS 'MODULE_PATHNAME', 'bm25_query_wrapper' LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.rag_bm25_info(index regclass)
    RETURNS TABLE (text_config text, analysis text, accents text, positions boolean,
        k1 double precision, b double precision, documents bigint, deleted bigint,
        average_length double precision, segments integer,
        pending_documents bigint, pending_pages bigint, pages bigint, bytes bigint,
        free_pages bigint, in_flight_pages bigint, hint text)
    AS 'MODULE_PATHNAME', 'rag_bm25_info_wrapper' LANGUAGE c STRICT PARALLEL RESTRICTED;
CREATE FUNCTION @extschema@.rag_bm25_merge(index regclass) RETURNS void
    AS 'MODULE_PATHNAME', 'rag_bm25_merge_wrapper' LANGUAGE c STRICT;
CREATE FUNCTION @extschema@.rag_bm25_search(index regclass, query text, top_k integer)
    RETURNS TABLE (ctid tid, score double precision)
    AS 'MODULE_PATHNAME', 'rag_bm25_search_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION @extschema@.rag_bm25_scores(index regclass, query text, rows tid[])
    RETURNS TABLE (ctid tid, score double precision)
    AS 'MODULE_PATHNAME', 'rag_bm25_scores_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
