-- Statistics of searches since the server was started, or since they were reset.

SET LOCAL search_path = pg_catalog, pg_temp;

-- It leaves out collections that the current role may neither read nor monitor.
CREATE FUNCTION rag_internal.search_statistics()
    RETURNS TABLE (collection text, mode text, calls bigint, errors bigint, rows bigint,
                   empty bigint, fewer bigint, degraded bigint,
                   totals double precision[], maxima double precision[])
    AS 'MODULE_PATHNAME', 'search_statistics_wrapper' LANGUAGE c STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.search_statistics() IS
    'counts and times of searches in collections that the caller may read or monitor; '
    'use rag.search_stats instead';
CREATE FUNCTION rag_internal.search_durations()
    RETURNS TABLE (collection text, mode text, limits double precision[], counts bigint[],
                   count bigint, sum double precision)
    AS 'MODULE_PATHNAME', 'search_durations_wrapper' LANGUAGE c STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.search_durations() IS
    'histogram of the times of searches in collections that the caller may read or monitor, in '
    'seconds; use rag.metrics instead';

CREATE VIEW rag.search_stats AS
    SELECT collection, mode, calls, errors, rows, empty, fewer, degraded,
           totals[1] AS total_ms, totals[1] / ok.n AS mean_ms, maxima[1] AS max_ms,
           totals[2] AS embedding_total_ms, totals[2] / ok.n AS embedding_mean_ms,
           maxima[2] AS embedding_max_ms,
           totals[3] AS vector_total_ms, totals[3] / ok.n AS vector_mean_ms,
           maxima[3] AS vector_max_ms,
           totals[4] AS keyword_total_ms, totals[4] / ok.n AS keyword_mean_ms,
           maxima[4] AS keyword_max_ms,
           totals[5] AS fusion_total_ms, totals[5] / ok.n AS fusion_mean_ms,
           maxima[5] AS fusion_max_ms
    FROM rag_internal.search_statistics() AS s,
         LATERAL (SELECT nullif(s.calls - s.errors, 0) AS n) AS ok;
COMMENT ON VIEW rag.search_stats IS
    'counts and times of searches, by collection and mode; times are of those without error';
COMMENT ON COLUMN rag.search_stats.collection IS 'collection that was searched';
COMMENT ON COLUMN rag.search_stats.mode IS 'mode that was asked for';
COMMENT ON COLUMN rag.search_stats.calls IS 'number of searches';
COMMENT ON COLUMN rag.search_stats.errors IS 'searches that failed or were cancelled';
COMMENT ON COLUMN rag.search_stats.rows IS 'number of results of all searches';
COMMENT ON COLUMN rag.search_stats.empty IS 'searches without results';
COMMENT ON COLUMN rag.search_stats.fewer IS 'searches with fewer results than top_k';
COMMENT ON COLUMN rag.search_stats.degraded IS 'searches for which another mode was used';
COMMENT ON COLUMN rag.search_stats.total_ms IS 'time of all searches, in milliseconds';
COMMENT ON COLUMN rag.search_stats.mean_ms IS 'mean time of a search';
COMMENT ON COLUMN rag.search_stats.max_ms IS 'time of the slowest search';
COMMENT ON COLUMN rag.search_stats.embedding_total_ms IS 'time in which queries were embedded';
COMMENT ON COLUMN rag.search_stats.embedding_mean_ms IS 'mean of these times';
COMMENT ON COLUMN rag.search_stats.embedding_max_ms IS 'longest of these times';
COMMENT ON COLUMN rag.search_stats.vector_total_ms IS
    'time in which chunks were found by vectors, or by a filter that few chunks pass';
COMMENT ON COLUMN rag.search_stats.vector_mean_ms IS 'mean of these times';
COMMENT ON COLUMN rag.search_stats.vector_max_ms IS 'longest of these times';
COMMENT ON COLUMN rag.search_stats.keyword_total_ms IS
    'time in which chunks were found by words, and scores of words computed';
COMMENT ON COLUMN rag.search_stats.keyword_mean_ms IS 'mean of these times';
COMMENT ON COLUMN rag.search_stats.keyword_max_ms IS 'longest of these times';
COMMENT ON COLUMN rag.search_stats.fusion_total_ms IS
    'time in which both lists were combined, and the results read';
COMMENT ON COLUMN rag.search_stats.fusion_mean_ms IS 'mean of these times';
COMMENT ON COLUMN rag.search_stats.fusion_max_ms IS 'longest of these times';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
