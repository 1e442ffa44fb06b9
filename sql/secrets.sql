-- Secrets: what a source's server asks for. Nobody is granted anything on these tables: values are
-- encrypted under keys of a file outside of the database (src/secrets), or are references to where
-- a superuser keeps them. People read rag.secrets.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Names of sources, retrievers and secrets: a DNS subdomain as Kubernetes has it, behind its
-- namespace where that is not the one named default (crates/protocol/src/name.rs).
CREATE FUNCTION rag.is_qualified_name(name text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT $1 ~ '^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'
        AND $1 NOT LIKE 'default/%' AND length($1) <= 317
$$;
COMMENT ON FUNCTION rag.is_qualified_name(text) IS 'returns true for name and namespace/name';
REVOKE ALL ON FUNCTION rag.is_qualified_name(text) FROM PUBLIC;

CREATE TABLE rag.secret (
    name text PRIMARY KEY CHECK (rag.is_qualified_name(name)),
    namespace text NOT NULL GENERATED ALWAYS AS
        (CASE WHEN pg_catalog.strpos(name, '/') > 0 THEN pg_catalog.split_part(name, '/', 1)
              ELSE 'default' END) STORED,
    owner text NOT NULL,
    owner_id oid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag.secret IS 'secrets and who owns them; read rag.secrets instead';
COMMENT ON COLUMN rag.secret.owner IS 'name that the owner had last; dumps know roles by it';
COMMENT ON COLUMN rag.secret.owner_id IS 'role whose members may use it; 0: there was none of that name when a dump was restored';

CREATE TABLE rag.secret_value (
    name text NOT NULL,
    key text NOT NULL CHECK (key ~ '^[-._a-zA-Z0-9]+$' AND length(key) <= 253),
    sealed bytea,
    reference text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, key),
    CHECK (num_nonnulls(sealed, reference) = 1)
);
COMMENT ON TABLE rag.secret_value IS 'values of secrets, encrypted, or where they are kept; read rag.secrets instead';
COMMENT ON COLUMN rag.secret_value.sealed IS 'version, id of the encryption key, nonce, XChaCha20-Poly1305 ciphertext';
COMMENT ON COLUMN rag.secret_value.reference IS 'env:NAME or file:/path';

CREATE VIEW rag.secrets AS
    SELECT v.name, v.key, (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = s.owner_id) AS owner,
           CASE WHEN v.sealed IS NOT NULL THEN 'encrypted' ELSE split_part(v.reference, ':', 1) END AS kind,
           encode(substr(v.sealed, 2, 8), 'hex') AS encryption_key_id,
           v.created_at, v.updated_at, s.namespace
    FROM rag.secret_value v JOIN rag.secret s USING (name);
COMMENT ON VIEW rag.secrets IS 'secrets, without their values';
COMMENT ON COLUMN rag.secrets.name IS 'name of the secret, or namespace/name in another namespace than default';
COMMENT ON COLUMN rag.secrets.namespace IS 'namespace of the name: sources of the same one can use the secret';
COMMENT ON COLUMN rag.secrets.key IS 'token, username, password, ...: a secret may have several';
COMMENT ON COLUMN rag.secrets.owner IS 'role whose members may replace, drop and use it; NULL: it does not exist any more';
COMMENT ON COLUMN rag.secrets.kind IS 'encrypted, or a reference: env (a variable of the server''s environment) or file';
COMMENT ON COLUMN rag.secrets.encryption_key_id IS 'key of the key file that it is encrypted under';

-- What is dumped is ciphertext: a dump gives no value away, and is of use where the key file is.
SELECT pg_catalog.pg_extension_config_dump('rag.secret', '');
SELECT pg_catalog.pg_extension_config_dump('rag.secret_value', '');

-- where the functions that follow are made
SET LOCAL search_path = @extschema@, pg_temp;
