-- Permissions: only members of rag_reader can search, or write documents where they were granted
-- write. Only members of rag_admin can change something else.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

-- functions and sources are tested with the collection default; tests/sql/access.sql tests rights
-- on collections
SELECT rag_create_collection('staff'), rag_grant_collection('staff', 'rag_reader', 'write');
SELECT success FROM rag_add_document('Salaries are paid on the 25th.', 'pay',
    document_type => 'text', category => 'internal', collection => 'staff');
SELECT success FROM rag_add_document('The canteen opens at noon.', 'canteen',
    document_type => 'text', category => 'public', collection => 'staff');

CREATE ROLE regress_rag_nobody;
CREATE ROLE regress_rag_reader IN ROLE rag_reader;
CREATE ROLE regress_rag_admin IN ROLE rag_admin;
CREATE ROLE regress_rag_files IN ROLE rag_admin, pg_read_server_files;

-- what everybody may: use the vector type ---------------------------------

SET ROLE regress_rag_nobody;
SELECT '[1,2]'::rag_types.vector <-> '[1,3]' AS distance, '[1]'::rag_types.vector + '[2]' AS sum;
SELECT * FROM rag_search('pay', 'staff'); :sqlstate
SELECT rag_retrieve('{"knowledge_id": "staff", "query": "pay"}'); :sqlstate
SELECT rag_dify_retrieval('{"knowledge_id": "staff", "query": "pay"}'); :sqlstate
SELECT rag_knowledge_search('{"query": "pay", "collection": "staff"}'::jsonb); :sqlstate
SELECT rag_knowledge_search(q => 'pay'); :sqlstate
SELECT rag_embed('pay'); :sqlstate
SELECT * FROM rag_answer('pay'); :sqlstate
SELECT rag_answer_stream('pay'); :sqlstate
SELECT rag_rerank('pay', '{a}', 'm'); :sqlstate
SELECT rag_test_model('m'); :sqlstate
SELECT count(*) FROM rag.models; :sqlstate
SELECT count(*) FROM rag.model_usage; :sqlstate
SELECT * FROM rag_split('pay'); :sqlstate
SELECT rag_stats('staff'); :sqlstate
SELECT rag_create_collection('mine'); :sqlstate
SELECT count(*) FROM rag.chunks; :sqlstate
SELECT count(*) FROM rag_internal.rag_kb_staff; :sqlstate
SELECT count(*) FROM rag.documents; :sqlstate
SELECT count(*) FROM rag.sources; :sqlstate
RESET ROLE;

-- a reader ----------------------------------------------------------------

SET ROLE regress_rag_reader;
SELECT uri FROM rag_search('when do I get my money?', 'staff', top_k => 1);
SELECT rag_retrieve('{"knowledge_id": "staff", "query": "when do I get my money?",
    "retrieval_setting": {"top_k": 1}}') #>> '{records,0,source_file}' AS retrieve,
    rag_dify_retrieval('{"knowledge_id": "staff", "query": "when do I get my money?"}')
        #>> '{records,0,title}' AS dify,
    rag_knowledge_search('{"query": "when do I get my money?", "collection": "staff"}'::jsonb)
        #>> '{results,0,uri}' AS knowledge_search;
SELECT rag_functions.vector_dims(rag_embed('pay')), (SELECT count(*)
    FROM rag_split('pay')) AS chunks, rag_stats('staff') ->> 'total_chunks' AS total;
SELECT document_count FROM rag_collection_status('staff');
SELECT count(*) FROM rag.chunks WHERE collection = 'staff';
SELECT count(*) >= 0 AS may_read FROM rag.documents, rag.collections, rag.retrievers,
    rag.run_errors, rag.sources, rag.runs, rag.progress;
SELECT rag_create_collection('mine'); :sqlstate
SELECT rag_drop_collection('staff'); :sqlstate
SELECT rag_add_document('Text.', 'a'); :sqlstate
SELECT rag_create_source('mine', 'folder', '{"path": "/"}'); :sqlstate
SELECT rag_drop_source('mine'); :sqlstate
SELECT rag_sync('mine'); :sqlstate
DELETE FROM rag.chunks; :sqlstate
UPDATE rag.documents SET title = 'Mine'; :sqlstate
SELECT * FROM rag_internal.source; :sqlstate
SET rag.model_dir = '/etc'; :sqlstate
SET rag.model_precision = fp32; :sqlstate
\set VERBOSITY sqlstate
SHOW rag.engine_path;
\set VERBOSITY default
RESET ROLE;

-- a writer: a reader that was granted write on a collection ----------------

CREATE ROLE regress_rag_writer IN ROLE rag_reader;
SELECT rag_create_collection('notes'),
    rag_grant_collection('notes', 'regress_rag_writer', 'write');
SET ROLE regress_rag_writer;
SELECT action, document_id AS note FROM rag_add_document('The lift is out of order.', 'lift',
    collection => 'notes') \gset
SELECT :'action' AS action;
SELECT action FROM rag_add_document(convert_to('The door is open.', 'UTF8'), 'door.txt',
    collection => 'notes');
SELECT action FROM rag_add_documents('[{"uri": "heating", "content": "It is cold."}]', 'notes');
SELECT rag_update_document(:'note', title => 'The lift');
SELECT rag_upsert_chunks('[{"chunk_id": "1", "uri": "d", "text": "Text."}]', 'notes') AS chunks;
SELECT rag_delete_chunks('{1}', 'notes') AS deleted;
SELECT uri, title FROM rag_search('the lift', 'notes', top_k => 1);
SELECT rag_add_document('Text.', 'a'); :sqlstate
SELECT rag_create_source('mine', 'markdown', '{"uri": "https://example.org/a.md"}', 'notes');
:sqlstate
SELECT rag_create_knowledge(1, 'A', 'https://example.org/a.md', collection => 'notes'); :sqlstate
SELECT rag_drop_collection('notes'); :sqlstate
SET ROLE regress_rag_reader;
SELECT rag_add_document('Text.', 'a', collection => 'notes'); :sqlstate
SELECT rag_upsert_chunks('[]', 'notes'); :sqlstate
SELECT rag_delete_document(:'note') AS does_not_see_it;
RESET ROLE;
SELECT rag_grant_collection('notes', 'rag_reader', 'read');
SET ROLE regress_rag_reader;
SELECT rag_delete_document(:'note'); :sqlstate
SELECT rag_update_document(:'note', title => 'Mine'); :sqlstate
SET ROLE regress_rag_writer;
SELECT rag_delete_document(:'note');
SELECT deleted >= 0 AS may_plan FROM rag_apply_plan('{}', 'notes');
RESET ROLE;
SELECT rag_drop_collection('notes');
DROP ROLE regress_rag_writer;

-- an admin ----------------------------------------------------------------

SET ROLE regress_rag_admin;
SELECT rag_create_collection('mine');
SELECT success FROM rag_add_document('Text.', 'a', collection => 'mine');
SELECT count(*) FROM rag_search('text', 'mine');
SELECT rag_delete_document(document_id) FROM rag.documents WHERE collection = 'mine';
SELECT rag_drop_collection('mine');
-- only functions can write to the catalog
DELETE FROM rag.chunks; :sqlstate
INSERT INTO rag_internal.collection (name) VALUES ('mine'); :sqlstate
-- files of the server require pg_read_server_files, repositories on the server a superuser
SELECT rag_create_source('mine', 'folder', '{"path": "/etc"}'); :sqlstate
SELECT rag_create_source('mine', 'markdown', '{"uri": "/etc/passwd"}'); :sqlstate
SELECT rag_create_source('mine', 'git', '{"repositoryURL": "/srv/git/a"}'); :sqlstate
SELECT field, problem
    FROM rag_validate_source('static',
    '{"endpoints": ["https://example.org/a.md", "/etc/passwd"]}');
SET ROLE regress_rag_files;
SELECT rag_create_source('mine', 'folder', '{"path": "/nonexistent"}');
SELECT rag_create_source('ours', 'git', '{"repositoryURL": "/srv/git/a"}'); :sqlstate
RESET ROLE;
-- a run has the current rights of the source's owner
REVOKE pg_read_server_files FROM regress_rag_files;
\set VERBOSITY terse
SELECT rag_sync('mine'); :sqlstate
\set VERBOSITY default
SELECT rag_drop_source('mine');

-- row-level security decides what is found, before the best are chosen ----

CREATE POLICY regress_public ON rag.chunks FOR SELECT TO rag_reader USING (category = 'public');
SET ROLE regress_rag_reader;
SELECT rank, uri FROM rag_search('when do I get my money?', 'staff');
SELECT rank, uri FROM rag_search('when do I get my money?', 'staff', top_k => 1);
SELECT count(*) FROM rag_search('when do I get my money?', 'staff',
    filter => '{"category": "internal"}');
RESET ROLE;
SELECT rank, uri FROM rag_search('when do I get my money?', 'staff', top_k => 1);
DROP POLICY regress_public ON rag.chunks;

-- a SECURITY DEFINER function can give other roles access to a part
CREATE FUNCTION regress_ask(question text) RETURNS TABLE (uri text) LANGUAGE sql SECURITY DEFINER
    SET search_path = public, pg_temp AS
    $$ SELECT uri FROM rag_search(question, 'staff', filter => '{"category": "public"}') $$;
SET ROLE regress_rag_nobody;
SELECT * FROM regress_ask('when do I get my money?');
RESET ROLE;
DROP FUNCTION regress_ask;

-- who may do what with a source -------------------------------------------

-- an owner who is not a member of rag_admin, admins who own something else, and admins who are
-- members of the owner
CREATE ROLE regress_rag_owner IN ROLE rag_reader;
CREATE ROLE regress_rag_member IN ROLE rag_admin, regress_rag_owner;
CREATE TABLE lunches (id int PRIMARY KEY, body text NOT NULL);
INSERT INTO lunches VALUES (1, 'Soup on Mondays.');
CREATE TABLE salaries (id int PRIMARY KEY, body text NOT NULL);
GRANT SELECT ON lunches TO regress_rag_owner;
SET client_min_messages = warning;
SELECT rag_create_source('theirs', 'table', '{"relation": "salaries", "contentColumns": ["body"]}',
    'staff', owner => 'regress_rag_owner'); :sqlstate
SET ROLE regress_rag_member;
SELECT rag_create_source('theirs', 'table', '{"relation": "lunches"}', 'staff', '@daily',
    owner => 'regress_rag_owner');
SELECT rag_create_source('other', 'table', '{"relation": "lunches"}',
    owner => 'regress_rag_admin'); :sqlstate
SELECT rag_create_secret('theirs', 'abc');
RESET ROLE;
SELECT rag_create_source('ours', 'table', '{"relation": "salaries"}', 'staff');
SELECT rag_create_secret('ours', 'abc');
GRANT SELECT ON lunches, salaries TO regress_rag_admin, regress_rag_member;
SELECT rag_sync('theirs') AS run \gset
SELECT name, owner FROM rag.sources ORDER BY name;

-- the SQLSTATE of an attempt, whose effects are rolled back; "yes" if it succeeds
CREATE FUNCTION regress_try(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    EXECUTE statement;
    RAISE SQLSTATE 'RR000';
EXCEPTION
    WHEN SQLSTATE 'RR000' THEN RETURN 'yes';
    WHEN division_by_zero THEN RETURN 'no';
    WHEN insufficient_privilege THEN RETURN '-';
    WHEN others THEN RETURN SQLSTATE;
END $$;
CREATE TABLE attempts (i int GENERATED ALWAYS AS IDENTITY, action text, statement text);
INSERT INTO attempts (action, statement) VALUES
    ('see it', $$SELECT 1 / count(*) FROM rag.sources WHERE name = 'theirs'$$),
    ('its manifest', $$SELECT rag_get_manifest('AutoIndexer', 'theirs')$$),
    ('sync', $$SELECT rag_sync('theirs')$$),
    ('see its runs', $$SELECT 1 / count(*) FROM rag.runs WHERE source = 'theirs'$$),
    ('wait', 'SELECT rag_wait(' || :run || ')'),
    ('cancel', 'SELECT rag_cancel_run(' || :run || ')'),
    ('check drift', $$SELECT rag_check_drift('theirs')$$),
    ('suspend', $$SELECT rag_suspend('theirs')$$),
    ('resume', $$SELECT rag_resume('theirs')$$),
    ('nothing', $$SELECT rag_alter_source('theirs')$$),
    ('schedule', $$SELECT rag_alter_source('theirs', schedule => '@hourly')$$),
    ('retries', $$SELECT rag_alter_source('theirs', max_retries => 1)$$),
    ('timeout', $$SELECT rag_alter_source('theirs', timeout => '1 min')$$),
    ('drift policy', $$SELECT rag_alter_source('theirs', drift_policy => 'ignore')$$),
    ('spec', $$SELECT rag_alter_source('theirs', spec => '{"relation": "lunches",
    "filter": {"id": 1}}')$$),
    ('the same spec', $$SELECT rag_alter_source('theirs', spec => (SELECT spec FROM rag.sources
    WHERE name = 'theirs'))$$),
    ('spec: unreadable',
    $$SELECT rag_alter_source('theirs', spec => '{"relation": "salaries",
    "contentColumns": ["body"], "idColumns": ["id"]}')$$),
    ('kind: files',
    $$SELECT rag_alter_source('theirs', kind => 'folder', spec => '{"path": "/srv"}')$$),
    ('kind: network',
    $$SELECT rag_alter_source('theirs', kind => 'git',
     spec => '{"repositoryURL": "https://example.org/a.git"}')$$),
    ('a secret of member''s',
    $$SELECT rag_alter_source('theirs', 'git',
     '{"repositoryURL": "https://example.org/a.git"}', credentials => 'theirs')$$),
    ('another''s secret',
    $$SELECT rag_alter_source('theirs', 'git',
     '{"repositoryURL": "https://example.org/a.git"}', credentials => 'ours')$$),
    ('collection', $$SELECT rag_alter_source('theirs', collection => 'default')$$),
    ('owner: itself', $$SELECT rag_alter_source('theirs', owner => current_user)$$),
    ('owner: superuser', $$SELECT rag_alter_source('theirs', owner => 'postgres')$$),
    ('drop', $$SELECT rag_drop_source('theirs')$$),
    ('with documents', $$SELECT rag_drop_source('theirs', keep_documents => false)$$),
    ('delete', $$SELECT rag_delete_manifest('AutoIndexer', 'theirs')$$),
    ('create', $$SELECT rag_create_source('new', 'table', '{"relation": "lunches"}')$$),
    ('create: network',
    $$SELECT rag_create_source('new', 'git', '{"repositoryURL": "https://example.org/a.git"}')$$),
    ('create: files', $$SELECT rag_create_source('new', 'folder', '{"path": "/srv"}')$$),
    ('validate', $$SELECT rag_validate_source('folder', '{"path": "/srv"}')$$),
    ('next runs', $$SELECT rag_next_runs('@daily')$$),
    ('its manifest again', (SELECT format('SELECT rag_apply_manifest(%L)',
    rag_get_manifest('AutoIndexer', 'theirs')))),
    ('with another schedule', (SELECT format('SELECT rag_apply_manifest(%L)',
    jsonb_set(rag_get_manifest('AutoIndexer', 'theirs'), '{spec,schedule}', '"@hourly"')))),
    ('a new manifest', (SELECT format('SELECT rag_apply_manifest(%L)',
    jsonb_set(rag_get_manifest('AutoIndexer', 'theirs'), '{metadata,name}', '"new"')))),
    ('retriever',
    $$SELECT rag_apply_manifest('{"apiVersion": "rag/v1", "kind": "Retriever",
        "metadata": {"name": "new"},
    "spec": {}}')$$),
    ('retriever: manifest', $$SELECT rag_get_manifest('Retriever', 'default')$$),
    ('retriever: delete', $$SELECT rag_delete_manifest('Retriever', 'nowhere')$$),
    ('see another''s source', $$SELECT 1 / count(*) FROM rag.sources WHERE name = 'ours'$$),
    ('sync another''s source', $$SELECT rag_sync('ours')$$),
    ('alter another''s source',
    $$SELECT rag_alter_source('ours', spec => '{"relation": "salaries", "filter": {"id": 1}}')$$),
    ('a source there is not', $$SELECT rag_alter_source('nowhere', max_retries => 1)$$);
SELECT action, regress_try('regress_rag_nobody', statement) AS nobody,
    regress_try('regress_rag_reader', statement) AS reader,
    regress_try('regress_rag_owner', statement) AS owner,
    regress_try('regress_rag_admin', statement) AS admin,
    regress_try('regress_rag_member', statement) AS member,
    regress_try('postgres', statement) AS superuser
FROM attempts ORDER BY i;

-- an owner with more rights can define more: one who can read files of the server, and has a secret
-- from the time when it was an admin
CREATE ROLE regress_rag_filer IN ROLE rag_reader, rag_admin, pg_read_server_files;
SET ROLE regress_rag_filer;
SELECT rag_create_source('files', 'folder', '{"path": "/srv"}', 'staff', '@daily');
SELECT rag_create_secret('files', 'abc');
RESET ROLE;
REVOKE rag_admin FROM regress_rag_filer;
CREATE ROLE regress_rag_deputy IN ROLE rag_admin, regress_rag_filer;
GRANT SELECT ON lunches TO regress_rag_filer;
TRUNCATE attempts RESTART IDENTITY;
INSERT INTO attempts (action, statement) VALUES
    ('spec', $$SELECT rag_alter_source('files', spec => '{"path": "/srv", "paths": ["*.md"]}')$$),
    ('kind: files', $$SELECT rag_alter_source('files', 'markdown', '{"uri": "/srv/a.md"}')$$),
    ('kind: table', $$SELECT rag_alter_source('files', 'table', '{"relation": "lunches"}')$$),
    ('kind: unreadable table',
    $$SELECT rag_alter_source('files', 'table', '{"relation": "salaries",
    "contentColumns": ["body"]}')$$),
    ('kind: git on the server',
    $$SELECT rag_alter_source('files', 'git', '{"repositoryURL": "/srv/git/a"}')$$),
    ('kind: network',
    $$SELECT rag_alter_source('files', 'git',
     '{"repositoryURL": "https://example.org/a.git"}')$$),
    ('the owner''s secret',
    $$SELECT rag_alter_source('files', 'git',
     '{"repositoryURL": "https://example.org/a.git"}', credentials => 'files')$$),
    ('another''s secret',
    $$SELECT rag_alter_source('files', 'git',
     '{"repositoryURL": "https://example.org/a.git"}', credentials => 'ours')$$),
    ('another manifest', (SELECT format('SELECT rag_apply_manifest(%L)',
    jsonb_set(rag_get_manifest('AutoIndexer', 'files'), '{spec,dataSource,folder,path}',
        '"/srv/docs"'))));
SELECT action, regress_try('regress_rag_reader', statement) AS reader,
    regress_try('regress_rag_filer', statement) AS owner,
    regress_try('regress_rag_admin', statement) AS admin,
    regress_try('regress_rag_deputy', statement) AS member,
    regress_try('postgres', statement) AS superuser
FROM attempts ORDER BY i;
SELECT rag_drop_source('files'), rag_drop_secret('files');
REVOKE SELECT ON lunches FROM regress_rag_filer;
DROP ROLE regress_rag_filer, regress_rag_deputy;

-- messages
SET ROLE regress_rag_admin;
SELECT rag_alter_source('theirs', spec => '{"relation": "salaries"}'); :sqlstate
SET ROLE regress_rag_owner;
SELECT rag_alter_source('theirs', 'git',
    '{"repositoryURL": "https://example.org/a.git"}'); :sqlstate
SELECT rag_alter_source('theirs', collection => 'default'); :sqlstate
SELECT rag_suspend('ours'); :sqlstate
SELECT rag_suspend('nowhere'); :sqlstate
-- a manifest does not reveal whether its source and the objects that it names exist
\set manifest '{"apiVersion": "rag/v1", "kind": "AutoIndexer", "metadata": {"name": "nowhere"}, "spec": {"ragEngineRef": {"name": "nowhere"}, "indexName": "nowhere", "dataSource": {"type": "Table", "table": {"relation": "nowhere"}}}}'
SELECT rag_apply_manifest(:'manifest'); :sqlstate
SELECT rag_apply_manifest(jsonb_set(:'manifest', '{metadata,name}', '"ours"')::text); :sqlstate
-- each document without permission is named, together with errors in the others
\set retriever '{"apiVersion": "rag/v1", "kind": "Retriever", "metadata": {"name": "exact"}, "spec": {}}'
SELECT rag_apply_manifest(:'manifest' || E'\n---\n' || :'retriever' || E'\n---\n'
    || jsonb_set(rag_get_manifest('AutoIndexer', 'theirs'), '{spec,schedule}',
        '"@dialy"')); :sqlstate
SELECT rag_apply_manifest(jsonb_set(rag_get_manifest('AutoIndexer', 'theirs'), '{spec,indexName}',
    '"nowhere"')::text); :sqlstate
SET ROLE regress_rag_admin;
SELECT rag_apply_manifest(jsonb_set(jsonb_set(rag_get_manifest('AutoIndexer', 'theirs'),
    '{spec,schedule}',
    '"@dialy"'),
    '{spec,dataSource,table,relation}', '"salaries"')::text); :sqlstate
SELECT rag_alter_source('theirs', schedule => '@dialy',
    spec => '{"relation": "salaries"}'); :sqlstate
-- a run uses the rights of its owner: a relation that the owner can no longer read is not read
RESET ROLE;
REVOKE SELECT ON lunches FROM regress_rag_owner;
\set VERBOSITY terse
SELECT rag_sync('theirs'); :sqlstate
\set VERBOSITY default
-- nothing can be checked with the rights of an owner who was dropped
CREATE ROLE regress_rag_gone IN ROLE rag_admin;
GRANT SELECT ON lunches TO regress_rag_gone;
SET ROLE regress_rag_gone;
SELECT rag_create_source('orphan', 'table', '{"relation": "lunches"}', 'staff');
RESET ROLE;
DROP OWNED BY regress_rag_gone;
DROP ROLE regress_rag_gone;
SELECT rag_apply_manifest(jsonb_set(rag_get_manifest('AutoIndexer', 'orphan'),
    '{spec,dataSource,table,relation}',
    '"salaries"')::text); :sqlstate
SELECT rag_drop_source('orphan');
-- an owner without rights does not prevent changes by others
SELECT rag_alter_source('theirs', owner => 'postgres', schedule => '');
SELECT rag_sync('theirs') > 0 AS ran;
SELECT owner, schedule, generation, observed_generation FROM rag.sources WHERE name = 'theirs';
SELECT rag_drop_source('theirs', keep_documents => false), rag_drop_source('ours'),
    rag_drop_secret('theirs'), rag_drop_secret('ours');
DROP FUNCTION regress_try;
DROP TABLE lunches, salaries, attempts;
DROP ROLE regress_rag_owner, regress_rag_member;
RESET client_min_messages;

SELECT rag_drop_collection('staff');
DROP ROLE regress_rag_nobody, regress_rag_reader, regress_rag_admin, regress_rag_files;

-- every function has a comment and is not executable by PUBLIC
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
    JOIN pg_extension e ON e.oid = d.refobjid
WHERE e.extname = 'rag' AND p.proname LIKE 'rag\_%' AND (obj_description(p.oid, 'pg_proc') IS NULL
OR has_function_privilege('public', p.oid, 'EXECUTE'));
