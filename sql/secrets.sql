-- Secrets: what a source's server asks for. Nobody is granted anything on these tables: values are encrypted under keys of
-- a file outside of the database (src/secrets), or are references to where a superuser keeps them. People read rag.secrets.

CREATE TABLE rag.secret (
    name text PRIMARY KEY CHECK (name ~ '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$' AND length(name) <= 56),
    owner text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag.secret IS 'secrets and who owns them; read rag.secrets instead';

CREATE TABLE rag.secret_value (
    name text NOT NULL,
    key text NOT NULL CHECK (key ~ '^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$' AND length(key) <= 56),
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
    SELECT v.name, v.key, s.owner,
           CASE WHEN v.sealed IS NOT NULL THEN 'encrypted' ELSE split_part(v.reference, ':', 1) END AS kind,
           encode(substr(v.sealed, 2, 8), 'hex') AS encryption_key_id,
           v.created_at, v.updated_at
    FROM rag.secret_value v JOIN rag.secret s USING (name);
COMMENT ON VIEW rag.secrets IS 'secrets, without their values';
COMMENT ON COLUMN rag.secrets.key IS 'token, username, password: a secret may have several';
COMMENT ON COLUMN rag.secrets.owner IS 'role whose members may replace, drop and use it';
COMMENT ON COLUMN rag.secrets.kind IS 'encrypted, or a reference: env (a variable of the server''s environment) or file';
COMMENT ON COLUMN rag.secrets.encryption_key_id IS 'key of the key file that it is encrypted under';

-- What is dumped is ciphertext: a dump gives no value away, and is of use where the key file is.
SELECT pg_catalog.pg_extension_config_dump('rag.secret', '');
SELECT pg_catalog.pg_extension_config_dump('rag.secret_value', '');
