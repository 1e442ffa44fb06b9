-- Owners and grants of collections, and row-level security by them.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE rag_internal.collection_grant (
    collection text NOT NULL,
    role text NOT NULL,
    role_id oid,
    privilege text NOT NULL CHECK (privilege IN ('read', 'write')),
    UNIQUE (collection, role_id, privilege)
);
COMMENT ON TABLE rag_internal.collection_grant IS
    'privileges on collections; use rag.collection_grants instead';
COMMENT ON COLUMN rag_internal.collection_grant.role IS
    'name of the role when the privilege was granted; used to find the role when a dump is '
    'restored';
COMMENT ON COLUMN rag_internal.collection_grant.role_id IS
    'role that has the privilege; 0: all roles; NULL: the role did not exist when a dump was '
    'restored';

-- Like rag_internal.find_owner. A grant to a role that does not exist has no effect, also not for
-- a role of that name that is created later.
CREATE FUNCTION rag_internal.find_grantee() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF rag_internal.is_restoring() AND NEW.role_id IS DISTINCT FROM 0 THEN
        NEW.role_id := (SELECT oid FROM pg_roles WHERE rolname = NEW.role);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag_internal.find_grantee() IS
    'sets role_id of a restored grant to the role that has the name now';
CREATE TRIGGER find_grantee BEFORE INSERT ON rag_internal.collection_grant
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_grantee();

-- The data of a dump may be restored where CREATE EXTENSION has inserted the grants of collection
-- default. The grants of the dump replace these. Each row of a dump with INSERTs is a statement of
-- its own, so these add to what is there.
CREATE FUNCTION rag_internal.replace_builtin_grants() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        IF rag_internal.is_restoring() AND current_query() ~* '^\s*copy\s' THEN
            DELETE FROM rag_internal.collection_grant WHERE collection = 'default';
        END IF;
        RETURN NULL;
    END IF;
    IF rag_internal.is_restoring()
        AND EXISTS (SELECT FROM rag_internal.collection_grant g
                    WHERE (g.collection, g.role_id, g.privilege)
                        = (NEW.collection, NEW.role_id, NEW.privilege)) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag_internal.replace_builtin_grants() IS
    'replaces the grants on collection default by those of a restored dump';
CREATE TRIGGER replace_builtin_grants BEFORE INSERT ON rag_internal.collection_grant
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.replace_builtin_grants();
-- after find_grantee
CREATE TRIGGER skip_builtin_grant BEFORE INSERT ON rag_internal.collection_grant
    FOR EACH ROW EXECUTE FUNCTION rag_internal.replace_builtin_grants();
-- This trigger fires before replace_builtin, which can skip the insertion.
CREATE TRIGGER find_owner BEFORE INSERT ON rag_internal.collection
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_owner();

CREATE VIEW rag.collection_grants WITH (security_barrier) AS
    SELECT g.collection, coalesce(r.rolname, 'public')::text AS role, g.privilege
    FROM rag_internal.collection_grant g LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.role_id
    WHERE (g.role_id = 0 OR r.oid IS NOT NULL)
      AND g.collection = ANY ((SELECT rag_internal.readable_collections())::text[]);
COMMENT ON VIEW rag.collection_grants IS 'privileges on collections';
COMMENT ON COLUMN rag.collection_grants.collection IS 'name of the collection';
COMMENT ON COLUMN rag.collection_grants.role IS
    'role whose members have the privilege; public: all roles';
COMMENT ON COLUMN rag.collection_grants.privilege IS 'read, or write, which includes read';

-- Each table has two policies. rag_collections is restrictive: independent of other policies, only
-- rows of readable collections are visible. rag_default permits these rows, but not for roles to
-- which an additional permissive policy applies. Therefore each additional policy, restrictive or
-- permissive, removes rows and never adds any.
--
-- The sub-selects are evaluated once per statement. Only functions of the extension write to these
-- tables, as their owner, to whom policies do not apply.
ALTER TABLE rag.documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.chunks ENABLE ROW LEVEL SECURITY;

CREATE POLICY rag_default ON rag.chunks FOR SELECT
    USING ((SELECT rag_internal.has_no_policy('rag.chunks')));
CREATE POLICY rag_collections ON rag.chunks AS RESTRICTIVE FOR SELECT
    USING (collection = ANY ((SELECT rag_internal.readable_collections())::text[]));
CREATE POLICY rag_default ON rag.documents FOR SELECT
    USING ((SELECT rag_internal.has_no_policy('rag.documents')));
CREATE POLICY rag_collections ON rag.documents AS RESTRICTIVE FOR SELECT
    USING (collection = ANY ((SELECT rag_internal.readable_collections())::text[])
           AND ((SELECT rag_internal.sees_all_chunks())
               OR rag_internal.sees_document(collection, document_id)));

-- A restored database has only the grants of the dump, so that revoked privileges stay revoked.
-- pg_dump and pg_restore turn row_security off. (They turn check_function_bodies off, too, but so
-- does CREATE EXTENSION.)
INSERT INTO rag_internal.collection_grant (collection, role, role_id, privilege)
    SELECT 'default', r.rolname, r.oid, CASE r.rolname WHEN 'rag_admin' THEN 'write' ELSE 'read' END
    FROM pg_catalog.pg_roles r
    WHERE r.rolname IN ('rag_admin', 'rag_reader')
      AND pg_catalog.current_setting('row_security') = 'on';

SELECT pg_catalog.pg_extension_config_dump('rag_internal.collection_grant', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
