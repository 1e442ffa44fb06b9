-- Secrets: values that can be stored, replaced and dropped, but not read.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

SELECT rag_create_secret('git-host', 'canary-token');
SELECT rag_create_secret('git-host', 'canary-user', 'username');
SELECT rag_create_secret('wiki', 'canary-password', key => 'password');
SELECT name, key, owner = current_user AS mine, kind,
    encryption_key_id ~ '^[0-9a-f]{16}$' AS has_key_id, updated_at = created_at AS is_new
    FROM rag.secrets ORDER BY name, key;

-- storing again replaces the value; the stored form always differs
SELECT sealed AS before FROM rag_internal.secret_value WHERE name = 'git-host'
    AND key = 'token' \gset
SELECT rag_create_secret('git-host', 'canary-token');
SELECT sealed <> :'before' AS differs, length(sealed) = length(:'before'::bytea) AS same_length,
    updated_at > created_at AS updated
FROM rag_internal.secret_value WHERE name = 'git-host' AND key = 'token';
SELECT count(*) FROM rag_internal.secret_value v WHERE v::text ~ 'canary'
    OR encode(sealed, 'escape') ~ 'canary';

-- invalid secrets; no message repeats the value
SELECT rag_create_secret(NULL, 'canary'); :sqlstate
SELECT rag_create_secret('a', NULL); :sqlstate
SELECT rag_create_secret('a', 'canary', NULL); :sqlstate
SELECT rag_create_secret('a', ''); :sqlstate
SELECT rag_create_secret('a', repeat('canary', 20000)); :sqlstate
SELECT rag_create_secret('Canary swapped', 'a'); :sqlstate
SELECT rag_create_secret('a', 'canary', 'Canary key'); :sqlstate
SELECT rag_create_secret('a', 'canary', ''); :sqlstate
SELECT rag_create_secret('a', E'can\x01ary\r\n', 'api_key-2');
SELECT rag_drop_secret('a');
SELECT rag_create_secret('a', repeat('é', 32768)), rag_drop_secret('a');

-- the expression that PL/pgSQL evaluates is not quoted
DO $$ BEGIN PERFORM rag_create_secret('Bad name', 'canary'); END $$; :sqlstate
-- a caught error does not change the context of later errors
DO $$
BEGIN
    BEGIN
        PERFORM rag_create_secret('Bad name', 'canary');
    EXCEPTION WHEN invalid_name THEN
        RAISE NOTICE '% %', SQLSTATE, SQLERRM;
    END;
    PERFORM 1 / (SELECT count(*) FROM rag.secrets WHERE name = 'nowhere');
END $$;
-- the statement's text is replaced while it continues
SELECT rag_create_secret('a', 'canary'), current_query();
SELECT current_query();
SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid() AND query ~ 'canar[y]';
SELECT rag_drop_secret('a');

-- only superusers can create references
SELECT rag_create_secret('from-env', 'env:RAG_CANARY'),
    rag_create_secret('from-file', 'file:/run/canary', 'password');
SELECT name, key, kind, encryption_key_id FROM rag.secrets WHERE name LIKE 'from-%' ORDER BY name;
SELECT rag_create_secret('a', 'env:'); :sqlstate
SELECT rag_create_secret('a', 'env:canary/1'); :sqlstate
SELECT rag_create_secret('a', 'file:canary'); :sqlstate
SELECT rag_create_secret('a', 'file://canary/x'); :sqlstate
SELECT count(*) FROM rag.secrets WHERE name = 'a';

-- permissions: members of rag_admin, for secrets of their roles
CREATE ROLE regress_rag_reader IN ROLE rag_reader;
CREATE ROLE regress_rag_anna IN ROLE rag_admin;
CREATE ROLE regress_rag_bert IN ROLE rag_admin;
CREATE ROLE regress_rag_team IN ROLE rag_admin, regress_rag_anna;
SET ROLE regress_rag_reader;
SELECT rag_create_secret('a', 'canary'); :sqlstate
SELECT * FROM rag.secrets; :sqlstate
RESET ROLE;
GRANT EXECUTE ON FUNCTION rag_create_secret TO regress_rag_reader;
SET ROLE regress_rag_reader;
SELECT rag_create_secret('a', 'canary'); :sqlstate
RESET ROLE;
REVOKE EXECUTE ON FUNCTION rag_create_secret FROM regress_rag_reader;
SET ROLE regress_rag_anna;
SELECT rag_create_secret('annas', 'canary');
SELECT rag_create_secret('annas', 'canary', 'username');
SELECT rag_create_secret('annas', 'env:canary'); :sqlstate
SELECT rag_create_secret('annas', 'file:/canary'); :sqlstate
SELECT rag_create_secret('git-host', 'canary'); :sqlstate
SELECT rag_drop_secret('git-host'); :sqlstate
SELECT name, key, owner, kind FROM rag.secrets WHERE owner = current_user ORDER BY key;
SELECT * FROM rag_internal.secret; :sqlstate
SELECT * FROM rag_internal.secret_value; :sqlstate
SELECT rag_rotate_secret_key(); :sqlstate
SELECT rag_drop_secret_key('0000000000000000'); :sqlstate
SELECT * FROM rag_secret_keys(); :sqlstate
-- a reference works only in a superuser's secret
RESET ROLE;
SELECT rag_create_secret('annas', 'env:RAG_CANARY'); :sqlstate
SET ROLE regress_rag_bert;
SELECT rag_create_secret('annas', 'canary'); :sqlstate
SELECT rag_create_source('berts', 'git', '{"repositoryURL": "https://example.org/a.git"}',
    credentials => 'annas'); :sqlstate
SELECT rag_drop_secret('annas', key => 'username'); :sqlstate
SET ROLE regress_rag_team;
SELECT rag_create_secret('annas', 'canary');
SELECT rag_create_source('team', 'git', '{"repositoryURL": "https://example.org/a.git"}',
    credentials => 'annas');
RESET ROLE;

-- sources can use secrets that exist and kinds that send credentials
SELECT rag_create_source('docs', 'git', '{"repositoryURL": "https://example.org/a.git"}',
    credentials => 'nowhere'); :sqlstate
SELECT rag_create_source('docs', 'git', '{"repositoryURL": "https://example.org/a.git"}',
    credentials => 'wiki'); :sqlstate
SELECT rag_create_source('docs', 'folder', '{"path": "/srv"}', credentials => 'git-host'); :sqlstate
SELECT rag_create_source('docs', 'git', '{"repositoryURL": "/srv/a.git"}',
    credentials => 'git-host'); :sqlstate
SELECT rag_create_secret('wiki', 'canary', 'username');
SELECT rag_create_source('docs', 'git', '{"repositoryURL": "https://example.org/a.git"}',
    credentials => 'wiki');
SELECT name, credentials FROM rag.sources ORDER BY name;

-- dropping
SELECT rag_drop_secret('wiki'); :sqlstate
SELECT rag_drop_secret('annas', key => 'username');
SELECT rag_drop_secret('annas', key => 'username'); :sqlstate
SELECT rag_drop_secret('annas', key => 'username', if_exists => true);
SELECT rag_drop_secret('annas', key => 'token'); :sqlstate
SELECT rag_drop_secret('nowhere'); :sqlstate
SELECT rag_drop_secret('nowhere', if_exists => true);
SELECT rag_drop_secret(NULL); :sqlstate
SELECT rag_drop_source('docs'), rag_drop_source('team'), rag_drop_secret('wiki'),
    rag_drop_secret('annas', key => 'token'), rag_drop_secret('from-env'),
    rag_drop_secret('from-file');
SELECT name, key FROM rag.secrets ORDER BY key;

-- rotation: values are encrypted with a new key; the old key is kept until it is dropped
SELECT encryption_key_id AS old FROM rag.secrets WHERE name = 'git-host' AND key = 'token' \gset
SELECT key_id = :'old' AS same_key, in_file, is_current, encrypted_values FROM rag_secret_keys();
SELECT key_id AS new, reencrypted FROM rag_rotate_secret_key() \gset
SELECT :'new' <> :'old' AS differs, :reencrypted AS reencrypted;
SELECT key, encryption_key_id = :'new' AS is_under_new, updated_at > created_at AS updated
    FROM rag.secrets ORDER BY key;
SELECT key_id = :'old' AS old, in_file, is_current, encrypted_values FROM rag_secret_keys()
    ORDER BY is_current;
SELECT key_id = :'new' AS same_key, reencrypted FROM rag_rotate_secret_key(add_key => false);
-- the old key is needed if the transaction that encrypts again is rolled back
BEGIN;
SELECT reencrypted FROM rag_rotate_secret_key();
SELECT rag_drop_secret_key(:'new'); :sqlstate
ROLLBACK;
SELECT count(*) FILTER (WHERE encryption_key_id = :'new') AS under_new, count(*) FROM rag.secrets;
SELECT rag_drop_secret_key('nonsense'); :sqlstate
SELECT key_id AS current FROM rag_secret_keys() WHERE is_current \gset
\set VERBOSITY sqlstate
SELECT rag_drop_secret_key(:'current');
SELECT rag_drop_secret_key(:'new');
\set VERBOSITY default
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT rag_drop_secret_key(:'old'); :sqlstate
ROLLBACK;
SELECT rag_drop_secret_key(:'old');
SELECT reencrypted FROM rag_rotate_secret_key(add_key => false);
SELECT rag_drop_secret_key(:'new');
SELECT in_file, is_current, encrypted_values FROM rag_secret_keys();

-- a value that was changed or moved is rejected
BEGIN;
UPDATE rag_internal.secret_value SET sealed = set_byte(sealed, 40, get_byte(sealed, 40) # 1)
    WHERE name = 'git-host' AND key = 'token';
SELECT rag_rotate_secret_key(); :sqlstate
ROLLBACK;
BEGIN;
UPDATE rag_internal.secret_value v SET sealed = (SELECT sealed FROM rag_internal.secret_value
    WHERE name = v.name AND key = 'token') WHERE key = 'username';
SELECT rag_rotate_secret_key(); :sqlstate
ROLLBACK;

SELECT rag_drop_secret('git-host');
DROP ROLE regress_rag_reader, regress_rag_team, regress_rag_anna, regress_rag_bert;
