-- rag_rebuild_collection (src/sync/rebuild). Its tables are in catalog.sql, because rag.progress
-- reads them.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_internal.check_rebuild(collection text) RETURNS void
    AS 'MODULE_PATHNAME', 'check_rebuild_wrapper' LANGUAGE c;
COMMENT ON FUNCTION rag_internal.check_rebuild(text) IS
    'checks that the current role may rebuild a collection';
CREATE FUNCTION rag_internal.continue_rebuild(collection text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'continue_rebuild_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag_internal.continue_rebuild(text) IS
    'does the next part of a rebuild, for rag_rebuild_collection; returns false after the last';

-- A procedure, because a function cannot commit. It runs with the caller's search_path, so all
-- names in it are qualified.
CREATE PROCEDURE @extschema@.rag_rebuild_collection(name text)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM rag_internal.check_rebuild(name);
    -- if the caller does not allow COMMIT, fail before the work begins
    COMMIT;
    WHILE rag_internal.continue_rebuild(name) LOOP
        COMMIT;
    END LOOP;
END $$;

REVOKE ALL ON FUNCTION rag_internal.check_rebuild(text), rag_internal.continue_rebuild(text)
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.check_rebuild(text), rag_internal.continue_rebuild(text)
    TO rag_admin;

-- Not rag_internal.rebuilt_document: a restored row has another version.
SELECT pg_catalog.pg_extension_config_dump('rag_internal.rebuild', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
