-- 0.1.0 to 0.2.0.
\echo Use "ALTER EXTENSION rag UPDATE TO '0.2.0'" to load this file. \quit
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT rag_internal.require_library();
