-- Secrets: credentials for the servers of sources. No role is granted anything on these tables. A
-- value is encrypted with a key of a file outside of the database (src/secrets), or it is a
-- reference to a place where a superuser keeps it. Users read the view rag.secrets.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Names. crates/definition/src/name.rs has the same patterns and maximum lengths.

CREATE FUNCTION rag_internal.namespace_of(name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN strpos($1, '/') > 0 THEN split_part($1, '/', 1) ELSE 'default' END
$$;
COMMENT ON FUNCTION rag_internal.namespace_of(text) IS 'namespace of a source, retriever or secret';

-- Sources, retrievers and secrets: a DNS subdomain as in Kubernetes, with the namespace before it
-- unless that is default.
CREATE FUNCTION rag_internal.is_qualified_name(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT $1 ~ ('^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?'
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')
        AND $1 NOT LIKE 'default/%'
        AND length(rag_internal.namespace_of($1)) <= 63
        AND length(substr($1, strpos($1, '/') + 1)) <= 253
$$;
COMMENT ON FUNCTION rag_internal.is_qualified_name(text) IS
    'true if a source, retriever or secret can have this name: name or namespace/name';

CREATE FUNCTION rag_internal.is_collection_name(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT $1 ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND length($1) <= 56
$$;
COMMENT ON FUNCTION rag_internal.is_collection_name(text)
    IS 'true if a collection can have this name';

CREATE FUNCTION rag_internal.is_secret_key(key text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT $1 ~ '^[-._a-zA-Z0-9]+$' AND length($1) <= 253
$$;
COMMENT ON FUNCTION rag_internal.is_secret_key(text)
    IS 'true if a key of a secret can have this name';

REVOKE ALL ON FUNCTION rag_internal.is_qualified_name(text), rag_internal.namespace_of(text),
    rag_internal.is_collection_name(text), rag_internal.is_secret_key(text) FROM PUBLIC;

CREATE TABLE rag_internal.secret (
    name text PRIMARY KEY CHECK (rag_internal.is_qualified_name(name)),
    namespace text NOT NULL GENERATED ALWAYS AS (rag_internal.namespace_of(name)) STORED,
    owner text NOT NULL,
    owner_id oid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag_internal.secret IS 'secrets and their owners; use rag.secrets instead';
COMMENT ON COLUMN rag_internal.secret.owner IS
    'last known name of the owner; used to find the role when a dump is restored';
COMMENT ON COLUMN rag_internal.secret.owner_id IS
    'role whose members can use the secret; 0: the role did not exist when a dump was restored';

CREATE TABLE rag_internal.secret_value (
    name text NOT NULL,
    key text NOT NULL CHECK (rag_internal.is_secret_key(key)),
    sealed bytea,
    reference text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, key),
    CHECK (num_nonnulls(sealed, reference) = 1)
);
COMMENT ON TABLE rag_internal.secret_value IS
    'encrypted values of secrets, or references to values; use rag.secrets instead';
COMMENT ON COLUMN rag_internal.secret_value.sealed IS
    'version, id of the encryption key, nonce, XChaCha20-Poly1305 ciphertext';
COMMENT ON COLUMN rag_internal.secret_value.reference IS 'env:NAME or file:/path';

CREATE VIEW rag.secrets AS
    SELECT v.name, v.key,
           (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = s.owner_id) AS owner,
           CASE WHEN v.sealed IS NOT NULL THEN 'encrypted'
                ELSE split_part(v.reference, ':', 1) END AS kind,
           encode(substr(v.sealed, 2, 8), 'hex') AS encryption_key_id,
           v.created_at, v.updated_at, s.namespace
    FROM rag_internal.secret_value v JOIN rag_internal.secret s USING (name);
COMMENT ON VIEW rag.secrets IS 'secrets, without their values';
COMMENT ON COLUMN rag.secrets.name IS
    'name of the secret; namespace/name if the namespace is not default';
COMMENT ON COLUMN rag.secrets.namespace IS
    'namespace, taken from the name; only sources and models of the same namespace can use the '
    'secret';
COMMENT ON COLUMN rag.secrets.key IS
    'token, username, password, ...; a secret can have several keys';
COMMENT ON COLUMN rag.secrets.owner IS
    'role whose members can replace, drop and use the secret; NULL if the role no longer exists';
COMMENT ON COLUMN rag.secrets.kind IS
    'encrypted, or a reference: env (an environment variable of the server) or file';
COMMENT ON COLUMN rag.secrets.encryption_key_id IS
    'key of the key file that the value is encrypted with';
COMMENT ON COLUMN rag.secrets.created_at IS 'time when the value was first stored';
COMMENT ON COLUMN rag.secrets.updated_at IS 'time when the value was last replaced';

-- Dumps contain the encrypted values; restoring them requires the key file.
SELECT pg_catalog.pg_extension_config_dump('rag_internal.secret', '');
SELECT pg_catalog.pg_extension_config_dump('rag_internal.secret_value', '');

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
