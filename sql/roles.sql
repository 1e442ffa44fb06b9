-- The roles rag_reader and rag_admin.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Roles belong to the cluster. A role may already exist, from an installation in another database
-- or created by a user with CREATEROLE. Only superusers may be able to grant it.
DO $$
DECLARE
    role record;
    names text;
BEGIN
    FOR role IN
        SELECT * FROM (VALUES
            ('rag_reader'::name, 'can search collections of the extension rag'),
            ('rag_admin', 'can create and manage collections and sources of the extension rag')
        ) AS r (name, comment)
    LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role.name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role.name);
            EXECUTE format('COMMENT ON ROLE %I IS %L', role.name, role.comment);
            CONTINUE;
        END IF;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = role.name
                   AND (rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication
                        OR rolbypassrls)) THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('role "%s" already exists with unexpected attributes', role.name),
                DETAIL = 'The role can log in or has another attribute that the extension does not'
                         ' give it.',
                HINT = format('ALTER ROLE %I NOLOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB'
                              ' NOREPLICATION NOBYPASSRLS;', role.name);
        END IF;
        SELECT string_agg(quote_ident(m.rolname), ', ' ORDER BY m.rolname) INTO names
        FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
        WHERE a.roleid = (SELECT oid FROM pg_roles WHERE rolname = role.name)
          AND a.admin_option AND NOT m.rolsuper;
        IF names IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('role "%s" already exists and can be granted by roles that are not'
                                 ' superusers', role.name),
                DETAIL = format('Roles with ADMIN OPTION: %s. They could add members to the role in'
                                ' every database.', names),
                HINT = format('REVOKE ADMIN OPTION FOR %I FROM %s;', role.name, names);
        END IF;
        SELECT string_agg(quote_ident(m.rolname), ', ' ORDER BY m.rolname) INTO names
        FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
        WHERE a.roleid = (SELECT oid FROM pg_roles WHERE rolname = role.name)
          AND m.rolname <> 'rag_admin';
        IF names IS NOT NULL THEN
            RAISE WARNING USING
                MESSAGE = format('role "%s" already exists and has members', role.name),
                DETAIL = format('They have its privileges in this database, too: %s.', names);
        END IF;
    END LOOP;
    GRANT rag_reader TO rag_admin;
END $$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
