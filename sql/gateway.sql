-- API keys, and the role that rag-gateway logs in as (docs/decisions/gateway.md). Only the hash of
-- a key is stored.

SET LOCAL search_path = pg_catalog, pg_temp;

-- rag_gateway has no right but to check keys. It takes on the role of a key for one transaction, so
-- it must be a member of that role, and must not have the rights of it otherwise.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'rag_gateway') THEN
        CREATE ROLE rag_gateway LOGIN NOINHERIT;
        COMMENT ON ROLE rag_gateway IS 'role that the program rag-gateway logs in as';
    ELSIF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rag_gateway'
                  AND (rolsuper OR rolinherit OR rolcreaterole OR rolcreatedb OR rolreplication
                       OR rolbypassrls)) THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'role "rag_gateway" already exists with unexpected attributes',
            DETAIL = 'The role inherits rights or has another attribute that the extension does not'
                     ' give it.',
            HINT = 'ALTER ROLE rag_gateway NOINHERIT NOSUPERUSER NOCREATEROLE NOCREATEDB'
                   ' NOREPLICATION NOBYPASSRLS;';
    END IF;
END $$;

CREATE TABLE rag_internal.api_key (
    name text PRIMARY KEY CHECK (name ~ '^[^[:cntrl:]]{1,100}$'),
    key_id text NOT NULL UNIQUE,
    digest bytea NOT NULL,
    role text NOT NULL,
    role_id oid,
    description text,
    owner text NOT NULL,
    owner_id oid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    last_used_at timestamptz,
    calls bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE rag_internal.api_key IS 'keys of rag-gateway; use rag.api_keys instead';
COMMENT ON COLUMN rag_internal.api_key.key_id IS 'public part of the key, which finds the row';
COMMENT ON COLUMN rag_internal.api_key.digest IS 'SHA-256 of the secret part of the key';
COMMENT ON COLUMN rag_internal.api_key.role IS
    'name of the role when the key was created; used to find the role when a dump is restored';
COMMENT ON COLUMN rag_internal.api_key.role_id IS
    'role of the requests; NULL: the role did not exist when a dump was restored';
COMMENT ON COLUMN rag_internal.api_key.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag_internal.api_key.owner_id IS
    'role whose members can see and drop the key; 0: the role did not exist when a dump was '
    'restored';
CREATE TRIGGER find_owner BEFORE INSERT ON rag_internal.api_key
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_owner();
CREATE TRIGGER find_grantee BEFORE INSERT ON rag_internal.api_key
    FOR EACH ROW EXECUTE FUNCTION rag_internal.find_grantee();
SELECT pg_catalog.pg_extension_config_dump('rag_internal.api_key', '');

CREATE VIEW rag.api_keys WITH (security_barrier) AS
    SELECT k.name, 'rag_' || k.key_id AS prefix,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = k.role_id) AS role,
           k.description,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = k.owner_id) AS owner,
           k.created_at, k.expires_at, k.last_used_at, k.calls
    FROM rag_internal.api_key k
    WHERE k.owner_id IN (SELECT oid FROM pg_catalog.pg_roles
                         WHERE pg_catalog.pg_has_role(oid, 'USAGE'))
       OR (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
COMMENT ON VIEW rag.api_keys IS
    'keys of rag-gateway that the current role owns; for superusers, all';
COMMENT ON COLUMN rag.api_keys.name IS 'name of the key';
COMMENT ON COLUMN rag.api_keys.prefix IS 'how the key begins';
COMMENT ON COLUMN rag.api_keys.role IS
    'role that requests with the key have; NULL if it no longer exists, so that the key is invalid';
COMMENT ON COLUMN rag.api_keys.description IS 'what the key is for';
COMMENT ON COLUMN rag.api_keys.owner IS
    'role whose members can see and drop the key; NULL if it no longer exists';
COMMENT ON COLUMN rag.api_keys.created_at IS 'time when the key was created';
COMMENT ON COLUMN rag.api_keys.expires_at IS
    'time from which the key is no longer valid; NULL: it does not expire';
COMMENT ON COLUMN rag.api_keys.last_used_at IS
    'time of the last request, as rag-gateway last reported it; NULL: none';
COMMENT ON COLUMN rag.api_keys.calls IS
    'number of requests that rag-gateway has reported; it reports every few seconds';

CREATE FUNCTION @extschema@.rag_list_api_keys() RETURNS SETOF rag.api_keys
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS 'SELECT * FROM rag.api_keys ORDER BY name';

-- A role that a request may have. The same message for all reasons: requests learn nothing.
CREATE FUNCTION rag_internal.check_gateway_role(role oid) RETURNS name
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found name;
BEGIN
    SELECT r.rolname INTO found FROM pg_roles r
    WHERE r.oid = role AND pg_has_role('rag_gateway', r.oid, 'MEMBER')
      AND NOT EXISTS (SELECT FROM pg_roles s
                      WHERE s.rolsuper AND pg_has_role(r.oid, s.oid, 'MEMBER'));
    IF found IS NULL THEN
        RAISE invalid_authorization_specification USING MESSAGE = 'the role of the request is gone';
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION rag_internal.check_gateway_role(oid) IS
    'name of a role that rag_gateway may have in a request: no superuser, nor a member of one';

-- Both digests are hashed again with a number that the caller cannot know. So the time of the
-- comparison tells nothing of them.
CREATE FUNCTION rag_internal.api_key_role(key_id text, secret text) RETURNS name
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    k record;
    salt CONSTANT bytea := uuid_send(gen_random_uuid());
BEGIN
    SELECT digest, role_id, expires_at INTO k FROM rag_internal.api_key
    WHERE key_id = api_key_role.key_id;
    IF NOT FOUND OR sha256(salt || k.digest)
        <> sha256(salt || sha256(convert_to(secret, 'UTF8'))) THEN
        RAISE invalid_password USING MESSAGE = 'the key is invalid';
    END IF;
    IF k.expires_at <= now() THEN
        RAISE invalid_password USING MESSAGE = 'the key has expired';
    END IF;
    RETURN rag_internal.check_gateway_role(k.role_id);
END $$;
COMMENT ON FUNCTION rag_internal.api_key_role(text, text) IS 'role of the requests with a key';

CREATE FUNCTION rag_internal.named_role(role text) RETURNS name
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT rag_internal.check_gateway_role((SELECT oid FROM pg_roles WHERE rolname = $1))
$$;
COMMENT ON FUNCTION rag_internal.named_role(text) IS
    'role of requests without a key, which a token or the configuration of rag-gateway names';

-- Rows that another session has locked are left for the next report.
CREATE FUNCTION rag_internal.count_api_calls(counts jsonb) RETURNS text[]
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH reported AS (
        SELECT k.name, c.key_id, c.calls, to_timestamp(c.last_used) AS last_used_at
        FROM jsonb_to_recordset($1) AS c (key_id text, calls bigint, last_used double precision)
             JOIN rag_internal.api_key k USING (key_id)
        ORDER BY k.name FOR UPDATE OF k SKIP LOCKED
    ), written AS (
        UPDATE rag_internal.api_key AS k
        SET calls = k.calls + r.calls, last_used_at = greatest(k.last_used_at, r.last_used_at)
        FROM reported r WHERE r.name = k.name
        RETURNING k.key_id
    )
    SELECT coalesce(array_agg(key_id), '{}') FROM written
$$;
COMMENT ON FUNCTION rag_internal.count_api_calls(jsonb) IS
    'adds numbers of requests to keys; returns the ids of the keys that were counted';

REVOKE ALL ON FUNCTION rag_internal.check_gateway_role(oid),
    rag_internal.api_key_role(text, text), rag_internal.named_role(text),
    rag_internal.count_api_calls(jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag_internal.api_key_role(text, text), rag_internal.named_role(text),
    rag_internal.count_api_calls(jsonb) TO rag_gateway;

-- One function for each route of rag-gateway: a request in, an answer out. They run with the rights
-- of the caller. api.sql and the files after it have them.
CREATE SCHEMA rag_api;
COMMENT ON SCHEMA rag_api IS 'functions that the routes of rag-gateway call';
-- rag_gateway looks the functions up, and the role of the request calls them
GRANT USAGE ON SCHEMA rag_api TO rag_reader, rag_gateway;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
