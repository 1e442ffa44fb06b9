-- Owners of sources and secrets are roles, not names: a renamed role keeps its rights, and a later
-- role of the same name gets none.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET client_min_messages = warning;
CREATE TABLE recipes (id int PRIMARY KEY, body text);
INSERT INTO recipes VALUES (1, 'Bread is baked in the morning.');
CREATE ROLE regress_own_cook IN ROLE rag_admin;
CREATE ROLE regress_own_other IN ROLE rag_reader;
GRANT SELECT ON recipes TO regress_own_cook;
SET ROLE regress_own_cook;
SELECT rag_create_source('recipes', 'table', '{"relation": "recipes"}'),
    rag_create_secret('oven', 'abc');
RESET ROLE;
SELECT name, owner FROM rag.sources UNION ALL SELECT name, owner FROM rag.secrets;

-- a renamed role is shown with its new name
ALTER ROLE regress_own_cook RENAME TO regress_own_chef;
SELECT name, owner FROM rag.sources UNION ALL SELECT name, owner FROM rag.secrets;
SELECT rag_sync('recipes') > 0 AS ran;
SET ROLE regress_own_chef;
SELECT rag_create_secret('oven', 'abcd');
SELECT rag_alter_source('recipes', spec => '{"relation": "recipes", "filter": {"id": 1}}');
RESET ROLE;
-- a role that takes the name has no rights on them
CREATE ROLE regress_own_cook IN ROLE rag_admin;
GRANT SELECT ON recipes TO regress_own_cook;
SET ROLE regress_own_cook;
SELECT rag_alter_source('recipes', spec => '{"relation": "recipes"}'); :sqlstate
SELECT rag_create_secret('oven', 'abcde'); :sqlstate
RESET ROLE;
-- a superuser is told that it is not the same owner
SELECT rag_alter_source('recipes', owner => 'regress_own_cook');
SELECT owner FROM rag.sources;
SELECT rag_alter_source('recipes', owner => 'regress_own_chef');
DROP OWNED BY regress_own_cook;
DROP ROLE regress_own_cook;

-- a role that was dropped and created again is another role without rights
DROP OWNED BY regress_own_chef;
DROP ROLE regress_own_chef;
SELECT name, owner FROM rag.sources UNION ALL SELECT name, owner FROM rag.secrets;
CREATE ROLE regress_own_chef IN ROLE rag_reader;
GRANT SELECT ON recipes TO regress_own_chef;
SELECT name, owner FROM rag.sources UNION ALL SELECT name, owner FROM rag.secrets;
SET ROLE regress_own_chef;
SELECT count(*) FROM rag.sources;
SELECT rag_sync('recipes'); :sqlstate
SELECT rag_drop_source('recipes'); :sqlstate
RESET ROLE;
\set VERBOSITY terse
SELECT rag_sync('recipes'); :sqlstate
\set VERBOSITY default
SELECT error ->> 'sqlstate' AS sqlstate, error ->> 'message' AS message, error ->> 'hint' AS hint
FROM rag.runs, jsonb_array_elements(errors) AS error ORDER BY run_id DESC LIMIT 1;
GRANT rag_admin TO regress_own_chef;
SET ROLE regress_own_chef;
SELECT rag_alter_source('recipes', spec => '{"relation": "recipes"}'); :sqlstate
SELECT rag_alter_source('recipes', owner => 'regress_own_chef'); :sqlstate
SELECT rag_drop_secret('oven'); :sqlstate
SELECT rag_create_source('web', 'git', '{"repositoryURL": "https://example.org/a.git"}',
    credentials => 'oven'); :sqlstate
RESET ROLE;
-- superusers can manage the source and change its owner
SELECT rag_alter_source('recipes', spec => '{"relation": "recipes"}'); :sqlstate
SELECT rag_alter_source('recipes', owner => 'regress_own_chef');
SELECT owner FROM rag.sources;
SELECT rag_sync('recipes') > 0 AS ran;
SELECT rag_drop_secret('oven');

-- a restored dump finds roles by name; a row has no owner if the role does not exist
SET check_function_bodies = off;
INSERT INTO rag_internal.secret (name, owner, owner_id) VALUES ('known', 'regress_own_chef', 1),
    ('unknown', 'regress_own_nobody', 'regress_own_chef'::regrole);
RESET check_function_bodies;
SELECT name, owner, owner_id = 'regress_own_chef'::regrole AS is_chefs, owner_id = 0 AS is_nobodys
    FROM rag_internal.secret ORDER BY name;
SET ROLE regress_own_chef;
SELECT rag_drop_secret('known', if_exists => true), rag_drop_secret('unknown'); :sqlstate
RESET ROLE;
SELECT rag_drop_secret('unknown'), rag_drop_secret('known');

SELECT rag_drop_source('recipes', keep_documents => false);
DROP TABLE recipes;
DROP OWNED BY regress_own_chef;
DROP ROLE regress_own_chef, regress_own_other;
