-- Keys of rag-gateway: who may create and drop them, what they may be for, and how they are
-- checked.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
\set VERBOSITY terse

CREATE ROLE regress_key_web IN ROLE rag_reader;
CREATE ROLE regress_key_other IN ROLE rag_reader;
CREATE ROLE regress_key_admin IN ROLE rag_admin, regress_key_web;
CREATE ROLE regress_key_boss SUPERUSER;
CREATE ROLE regress_key_deputy IN ROLE regress_key_boss;

-- create ------------------------------------------------------------------

SELECT rag_create_api_key('web', 'regress_key_web', description => 'the website') AS key \gset
SELECT :'key' ~ '^rag_[0-9a-f]{16}_[0-9a-f]{64}$' AS is_key;
SELECT name, prefix = left(:'key', 20) AS prefix, role, description, owner, expires_at, calls
FROM rag.api_keys;
SELECT pg_has_role('rag_gateway', 'regress_key_web', 'MEMBER') AS member,
       pg_has_role('rag_gateway', 'regress_key_web', 'USAGE') AS inherits;
SELECT count(*) FROM rag_internal.api_key k
WHERE k::text LIKE '%' || split_part(:'key', '_', 3) || '%';

SELECT rag_create_api_key('web', 'regress_key_web'); :sqlstate
SELECT rag_create_api_key(NULL, 'regress_key_web'); :sqlstate
SELECT rag_create_api_key('x', NULL); :sqlstate
SELECT rag_create_api_key('', 'regress_key_web'); :sqlstate
SELECT rag_create_api_key(E'a\nb', 'regress_key_web'); :sqlstate
SELECT rag_create_api_key('x', 'regress_key_nobody'); :sqlstate
SELECT rag_create_api_key('x', 'regress_key_web', expires_in => '0'); :sqlstate
SELECT rag_create_api_key('x', 'regress_key_boss'); :sqlstate
SELECT rag_create_api_key('x', 'regress_key_deputy'); :sqlstate
SELECT rag_create_api_key('x', 'rag_gateway'); :sqlstate

-- rights ------------------------------------------------------------------

SET ROLE regress_key_admin;
SELECT rag_create_api_key('mine', 'regress_key_web') LIKE 'rag\_%' AS created;
SELECT rag_create_api_key('x', 'regress_key_other'); :sqlstate
SELECT name, owner FROM rag.api_keys;
SELECT name FROM rag_list_api_keys();
SELECT rag_drop_api_key('web'); :sqlstate
SELECT count(*) FROM rag_internal.api_key; :sqlstate
SET ROLE regress_key_web;
SELECT rag_create_api_key('x', 'regress_key_web'); :sqlstate
SELECT rag_drop_api_key('mine'); :sqlstate
SELECT count(*) FROM rag.api_keys; :sqlstate
SELECT rag_internal.api_key_role('a', 'b'); :sqlstate
SELECT rag_internal.named_role('regress_key_web'); :sqlstate
SELECT rag_internal.count_api_calls('[]'); :sqlstate
RESET ROLE;

-- check -------------------------------------------------------------------

SET SESSION AUTHORIZATION rag_gateway;
SELECT rag_internal.api_key_role(split_part(:'key', '_', 2), split_part(:'key', '_', 3)) AS role;
SELECT rag_internal.api_key_role(split_part(:'key', '_', 2), 'x'); :sqlstate
SELECT rag_internal.api_key_role('x', split_part(:'key', '_', 3)); :sqlstate
SELECT rag_internal.named_role('regress_key_web') AS role;
SELECT rag_internal.named_role('regress_key_other'); :sqlstate
SELECT rag_internal.named_role('regress_key_boss'); :sqlstate
SELECT rag_internal.named_role('regress_key_nobody'); :sqlstate
SELECT rag_api.status('{}'); :sqlstate
SELECT count(*) FROM rag.documents; :sqlstate
SELECT cardinality(rag_internal.count_api_calls(format(
    '[{"key_id": "%s", "calls": 3, "last_used": 1700000000}, {"key_id": "x", "calls": 1}]',
    split_part(:'key', '_', 2))::jsonb)) AS counted;
BEGIN;
SELECT set_config('role', rag_internal.api_key_role(split_part(:'key', '_', 2),
                                                    split_part(:'key', '_', 3))::text, true);
SELECT rag_api.status('{}') ->> 'role' AS role;
SELECT rag_api.create_collection('{"name": "new"}'); :sqlstate
ROLLBACK;
RESET SESSION AUTHORIZATION;
SELECT name, calls, last_used_at AT TIME ZONE 'UTC' AS last_used FROM rag.api_keys
WHERE name = 'web';

-- what makes a key invalid ------------------------------------------------

ALTER ROLE regress_key_web SUPERUSER;
SET SESSION AUTHORIZATION rag_gateway;
SELECT rag_internal.api_key_role(split_part(:'key', '_', 2), split_part(:'key', '_', 3)); :sqlstate
RESET SESSION AUTHORIZATION;
ALTER ROLE regress_key_web NOSUPERUSER;
REVOKE regress_key_web FROM rag_gateway;
SET SESSION AUTHORIZATION rag_gateway;
SELECT rag_internal.api_key_role(split_part(:'key', '_', 2), split_part(:'key', '_', 3)); :sqlstate
RESET SESSION AUTHORIZATION;
UPDATE rag_internal.api_key SET expires_at = now() WHERE name = 'web';
SET SESSION AUTHORIZATION rag_gateway;
SELECT rag_internal.api_key_role(split_part(:'key', '_', 2), split_part(:'key', '_', 3)); :sqlstate
RESET SESSION AUTHORIZATION;
SELECT rag_drop_api_key('web');
SELECT rag_drop_api_key('web'); :sqlstate
SELECT rag_drop_api_key('web', if_exists => true);
DROP OWNED BY regress_key_admin;
DROP ROLE regress_key_admin;
SELECT name, owner FROM rag.api_keys;
SELECT rag_drop_api_key('mine');

-- functions of routes are not inlined into plans that other roles use -----

SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'rag_api'::regnamespace
    AND (p.proconfig IS NULL OR p.prosecdef);
SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'rag_api'::regnamespace
    AND has_function_privilege('public', p.oid, 'EXECUTE');

DROP ROLE regress_key_web, regress_key_other, regress_key_boss, regress_key_deputy;
