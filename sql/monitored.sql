-- What the current role can see, or monitor as a member of pg_monitor, of sources, runs and
-- collections.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Everybody sees the sources that their roles own, and the runs of these. Members of rag_admin also
-- see those of the collections that they can read. Counts and messages of a source cover all of its
-- documents. If added policies hide chunks, only roles that can write to the collection see them.
-- Members of pg_monitor see that other sources and runs are there, their times and their counts.
-- They do not see definitions, nor texts that may quote documents: messages and addresses.
CREATE FUNCTION rag_internal.is_monitor() RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_has_role('pg_monitor', 'USAGE')
$$;
COMMENT ON FUNCTION rag_internal.is_monitor() IS
    'true if the current role has the privileges of pg_monitor';
CREATE VIEW rag_internal.monitored_source WITH (security_barrier) AS
    SELECT * FROM (
        SELECT s.*,
               s.owner_id IN (SELECT oid FROM pg_catalog.pg_roles
                              WHERE pg_catalog.pg_has_role(oid, 'USAGE'))
               OR EXISTS (SELECT FROM pg_catalog.pg_roles
                          WHERE rolname = 'rag_admin' AND pg_catalog.pg_has_role(oid, 'USAGE'))
                  AND s.collection = ANY ((SELECT rag_internal.overseen_collections())::text[])
                   AS is_visible
        FROM rag_internal.source s) AS source
    WHERE is_visible OR (SELECT rag_internal.is_monitor());
COMMENT ON VIEW rag_internal.monitored_source IS
    'sources that the caller can see or monitor; use rag.sources instead';

-- Earlier runs of a source may belong to another collection. Only roles that can see that
-- collection see these runs.
CREATE VIEW rag_internal.monitored_run WITH (security_barrier) AS
    SELECT * FROM (
        SELECT r.*,
               s.is_visible AND (r.collection = s.collection
                   OR r.collection = ANY ((SELECT rag_internal.overseen_collections())::text[]))
                   AS is_visible
        FROM rag_internal.run r JOIN rag_internal.monitored_source s ON s.name = r.source) AS run
    WHERE is_visible OR (SELECT rag_internal.is_monitor());
COMMENT ON VIEW rag_internal.monitored_run IS
    'runs that the caller can see or monitor; use rag.runs instead';

-- What of an error tells its kind, but quotes nothing.
CREATE FUNCTION rag_internal.error_kind(error jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT error - ARRAY['message', 'detail', 'hint']
$$;
COMMENT ON FUNCTION rag_internal.error_kind(jsonb) IS 'an error of a run without its texts';

CREATE VIEW rag_internal.monitored_collection WITH (security_barrier) AS
    SELECT * FROM (
        SELECT c.name, c.retriever, c.model, coalesce(c.embedding_model, t.model) AS named_model,
               t.name IS NOT NULL AS has_retriever,
               c.name = ANY ((SELECT rag_internal.readable_collections())::text[]) AS is_readable
        FROM rag_internal.collection c LEFT JOIN rag_internal.retriever t ON t.name = c.retriever)
            AS collection
    WHERE is_readable OR (SELECT rag_internal.is_monitor());
COMMENT ON VIEW rag_internal.monitored_collection IS
    'collections that the caller can read or monitor; use rag.collections instead';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
