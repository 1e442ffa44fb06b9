-- Owners and grants of collections, and the row-level security that follows from them.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE rag.collection_grant (
    collection text NOT NULL,
    role text NOT NULL,
    role_id oid,
    privilege text NOT NULL CHECK (privilege IN ('read', 'write')),
    UNIQUE (collection, role_id, privilege)
);
COMMENT ON TABLE rag.collection_grant IS 'privileges on collections; read rag.collection_grants instead';
COMMENT ON COLUMN rag.collection_grant.role IS 'name of the role when the privilege was granted: what a dump is restored by';
COMMENT ON COLUMN rag.collection_grant.role_id IS 'the role, 0: all roles; NULL: restored, and there was no role of this name';

-- As rag.find_owner: of a grant to a role that there is not, nobody profits, nor does a later role
-- of that name.
CREATE FUNCTION rag.find_grantee() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF rag.is_restoring() AND NEW.role_id IS DISTINCT FROM 0 THEN
        NEW.role_id := (SELECT oid FROM pg_roles WHERE rolname = NEW.role);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION rag.find_grantee() IS 'gives a grant of a restored dump the role that has its role''s name now';
CREATE TRIGGER find_grantee BEFORE INSERT ON rag.collection_grant FOR EACH ROW EXECUTE FUNCTION rag.find_grantee();
-- before replace_builtin, which ends the insertion of a row
CREATE TRIGGER find_owner BEFORE INSERT ON rag.collections FOR EACH ROW EXECUTE FUNCTION rag.find_owner();

CREATE VIEW rag.collection_grants WITH (security_barrier) AS
    SELECT g.collection, coalesce(r.rolname, 'public')::text AS role, g.privilege
    FROM rag.collection_grant g LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.role_id
    WHERE (g.role_id = 0 OR r.oid IS NOT NULL) AND g.collection = ANY ((SELECT rag.readable_collections())::text[]);
COMMENT ON VIEW rag.collection_grants IS 'privileges on collections';
COMMENT ON COLUMN rag.collection_grants.collection IS 'the collection';
COMMENT ON COLUMN rag.collection_grants.role IS 'role whose members hold the privilege; public: all roles';
COMMENT ON COLUMN rag.collection_grants.privilege IS 'read, or write, which includes read';

-- Each table has two policies. rag_collections is restrictive: whatever other policies say, only
-- rows of readable collections are seen. rag_default lets these be seen, but steps back for roles
-- to which a permissive policy of an administrator's applies. So each policy of an administrator's,
-- restrictive or permissive, takes away rows and adds none.
--
-- The sub-selects are evaluated once per statement. Nobody but the extension's functions writes
-- these tables, as their owner, whom policies do not concern.
ALTER TABLE rag.collections ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.chunks ENABLE ROW LEVEL SECURITY;
ALTER TABLE rag.knowledge ENABLE ROW LEVEL SECURITY;

CREATE POLICY rag_default ON rag.collections FOR SELECT USING ((SELECT rag.has_no_policy('rag.collections')));
CREATE POLICY rag_collections ON rag.collections AS RESTRICTIVE FOR SELECT
    USING (name = ANY ((SELECT rag.readable_collections())::text[]));
CREATE POLICY rag_default ON rag.chunks FOR SELECT USING ((SELECT rag.has_no_policy('rag.chunks')));
CREATE POLICY rag_collections ON rag.chunks AS RESTRICTIVE FOR SELECT
    USING (collection = ANY ((SELECT rag.readable_collections())::text[]));
CREATE POLICY rag_default ON rag.documents FOR SELECT USING ((SELECT rag.has_no_policy('rag.documents')));
CREATE POLICY rag_collections ON rag.documents AS RESTRICTIVE FOR SELECT
    USING (collection = ANY ((SELECT rag.readable_collections())::text[])
           AND ((SELECT rag.sees_all_chunks()) OR rag.sees_document(collection, document_id)));
CREATE POLICY rag_default ON rag.knowledge FOR SELECT USING ((SELECT rag.has_no_policy('rag.knowledge')));
CREATE POLICY rag_collections ON rag.knowledge AS RESTRICTIVE FOR SELECT
    USING (collection = ANY ((SELECT rag.readable_collections())::text[])
           AND ((SELECT rag.sees_all_chunks()) OR rag.sees_knowledge(collection, knowledge_id)));

-- The grants of a dump are all there are where it is restored, so that what was revoked stays
-- revoked: pg_dump and pg_restore switch row_security off. (They switch check_function_bodies off,
-- too, but so does CREATE EXTENSION.)
INSERT INTO rag.collection_grant (collection, role, role_id, privilege)
    SELECT 'default', r.rolname, r.oid, CASE r.rolname WHEN 'rag_admin' THEN 'write' ELSE 'read' END
    FROM pg_catalog.pg_roles r
    WHERE r.rolname IN ('rag_admin', 'rag_reader') AND pg_catalog.current_setting('row_security') = 'on';

SELECT pg_catalog.pg_extension_config_dump('rag.collection_grant', '');

-- where the functions that follow are made
SET LOCAL search_path = @extschema@, pg_temp;
