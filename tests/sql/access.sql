-- Owners and grants of collections: a role sees only what it can read, everywhere.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
SET client_min_messages = warning;

CREATE ROLE regress_acl_owner IN ROLE rag_admin;
CREATE ROLE regress_acl_other IN ROLE rag_admin;
CREATE ROLE regress_acl_writer IN ROLE rag_admin;
CREATE ROLE regress_acl_reader IN ROLE rag_reader;
CREATE ROLE regress_acl_group;
CREATE ROLE regress_acl_member IN ROLE rag_reader, regress_acl_group;
CREATE ROLE regress_acl_nobody;

-- owners and grants -------------------------------------------------------

-- every role can use the collection default
SELECT * FROM rag.collection_grants ORDER BY 1, 2, 3;
SELECT owner = current_user AS is_mine, owner_id = current_user::regrole AS has_oid
    FROM rag_internal.collection WHERE name = 'default';

SET ROLE regress_acl_owner;
SELECT rag_create_collection('acl-staff');
SELECT rag_create_collection('acl-other', owner => 'regress_acl_other'); :sqlstate
SELECT rag_create_collection('acl-other', owner => 'regress_acl_nowhere'); :sqlstate
RESET ROLE;
SELECT rag_create_collection('acl-other', owner => 'regress_acl_other');
SELECT name, owner FROM rag.collections WHERE name LIKE 'acl-%' ORDER BY name;

SET ROLE regress_acl_owner;
SELECT rag_grant_collection('acl-staff', 'regress_acl_reader', 'read');
SELECT rag_grant_collection('acl-staff', 'regress_acl_reader', 'READ');
SELECT rag_grant_collection('acl-staff', 'regress_acl_writer', 'write');
SELECT rag_grant_collection('acl-staff', 'regress_acl_group', 'read');
SELECT * FROM rag.collection_grants WHERE collection = 'acl-staff' ORDER BY 2, 3;
SELECT rag_grant_collection('acl-staff', 'regress_acl_nowhere', 'read'); :sqlstate
SELECT rag_grant_collection('acl-staff', 'regress_acl_reader', 'admin'); :sqlstate
SELECT rag_grant_collection('acl-nowhere', 'regress_acl_reader', 'read'); :sqlstate
SELECT rag_grant_collection('acl-staff', NULL, 'read'); :sqlstate
SELECT rag_grant_collection('acl-staff', 'regress_acl_reader', NULL); :sqlstate
SELECT rag_grant_collection('acl-other', 'regress_acl_owner', 'read'); :sqlstate
SELECT rag_revoke_collection('acl-other', 'regress_acl_other'); :sqlstate
SELECT rag_revoke_collection('acl-staff', 'regress_acl_nowhere'); :sqlstate
SELECT rag_alter_collection('acl-other', owner => 'regress_acl_owner'); :sqlstate
SELECT rag_alter_collection('acl-staff', owner => 'regress_acl_other'); :sqlstate
-- the privilege write does not include the right to grant
SET ROLE regress_acl_writer;
SELECT rag_grant_collection('acl-staff', 'regress_acl_other', 'read'); :sqlstate
SELECT rag_internal.may_read_collection('acl-staff'),
    rag_internal.may_write_collection('acl-staff'),
    rag_internal.may_read_collection('acl-nowhere'),
    rag_internal.readable_collections(), rag_internal.writable_collections();
SET ROLE regress_acl_member;
SELECT rag_internal.may_read_collection('acl-staff'),
    rag_internal.may_write_collection('acl-staff'),
    rag_internal.readable_collections();
RESET ROLE;

-- what there is -----------------------------------------------------------

CREATE TABLE acl_notes (id int PRIMARY KEY, body text);
INSERT INTO acl_notes VALUES (1, 'The canteen opens at noon.'), (2, '');
GRANT SELECT ON acl_notes TO regress_acl_owner, regress_acl_other, regress_acl_writer;
SET ROLE regress_acl_owner;
SELECT success FROM rag_add_document('Salaries are paid on the 25th.', 'pay',
    document_type => 'text', category => 'internal', knowledge_id => 7, collection => 'acl-staff');
SELECT success FROM rag_add_document('The office is closed on Sundays.', 'hours',
    document_type => 'text', category => 'public', collection => 'acl-staff');
SELECT success FROM rag_add_document(' ', 'blank', document_type => 'text',
    collection => 'acl-staff');
SELECT knowledge_id FROM rag_create_knowledge(7, 'Pay', 'https://example.org/pay.md',
    collection => 'acl-staff');
SELECT knowledge_id FROM rag_create_knowledge(
    8, 'Never fetched', 'https://example.org/never.md', collection => 'acl-staff');
SELECT rag_create_source('acl-notes', 'table',
    '{"relation": "acl_notes", "contentColumns": ["body"]}', 'acl-staff');
SELECT rag_sync('acl-notes') AS run \gset
RESET ROLE;
-- documents that a run could not index: one with earlier chunks, and one without any
INSERT INTO rag_internal.run_error (run_id, source, uri, stage, message)
    VALUES (:run, 'acl-notes', 'table://public.acl_notes/1', 'extract', 'x'),
    (:run, 'acl-notes', 'table://public.acl_notes/3', 'extract', 'x');

-- what each role sees; NULL if it has no permission
CREATE FUNCTION acl_count(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    EXECUTE statement INTO result;
    SET LOCAL ROLE NONE;
    RETURN result;
EXCEPTION WHEN insufficient_privilege OR undefined_object THEN RETURN NULL;
END $$;
CREATE TABLE acl_looks (i int GENERATED ALWAYS AS IDENTITY, what text, statement text);
INSERT INTO acl_looks (what, statement) VALUES
    ('collections', $$SELECT count(*) FROM rag.collections WHERE name = 'acl-staff'$$),
    ('grants', $$SELECT count(*) FROM rag.collection_grants WHERE collection = 'acl-staff'$$),
    ('chunks', $$SELECT count(*) FROM rag.chunks WHERE collection = 'acl-staff'$$),
    ('documents', $$SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag.documents
    WHERE collection = 'acl-staff'$$),
    ('texts', $$SELECT count(content) FROM rag.documents WHERE collection = 'acl-staff'$$),
    ('knowledge', $$SELECT string_agg(knowledge_id::text, ' ' ORDER BY knowledge_id)
    FROM rag.knowledge WHERE collection = 'acl-staff'$$),
    ('source', $$SELECT count(*) FROM rag.sources WHERE name = 'acl-notes'$$),
    ('its runs', $$SELECT count(*) FROM rag.runs WHERE source = 'acl-notes'$$),
    ('its errors', $$SELECT string_agg(right(uri, 1), ' ' ORDER BY uri) FROM rag.run_errors
    WHERE source = 'acl-notes'$$),
    ('status', $$SELECT document_count || ' ' || error_count || ' ' || chunk_count
    FROM rag_collection_status('acl-staff')$$),
    ('sizes', $$SELECT count(*) FROM rag.collection_sizes WHERE collection = 'acl-staff'$$),
    ('problems', $$SELECT count(*) FROM rag_status() s WHERE s::text LIKE '%acl-%'$$),
    ('stats', $$SELECT rag_stats('acl-staff') ->> 'total_chunks'$$),
    ('search', $$SELECT count(*) FROM rag_search('when do I get my money?', 'acl-staff')$$),
    ('retriever', $$SELECT count(*)
    FROM jsonb_array_elements_text(rag_get_manifest('Retriever', 'default')
        #> '{status,collections}') c
    WHERE c = 'acl-staff'$$);
\set look 'SELECT what, acl_count(\'regress_acl_owner\', statement) AS owner, acl_count(\'regress_acl_writer\', statement) AS writer, acl_count(\'regress_acl_reader\', statement) AS reader, acl_count(\'regress_acl_member\', statement) AS member, acl_count(\'regress_acl_other\', statement) AS "other admin", acl_count(\'postgres\', statement) AS superuser FROM acl_looks ORDER BY i'
:look;

-- messages
SET ROLE regress_acl_other;
SELECT * FROM rag_search('pay', 'acl-staff'); :sqlstate
SELECT rag_stats('acl-staff'); :sqlstate
SELECT name FROM rag.collections ORDER BY name;
RESET ROLE;

-- who may fill and drop it ------------------------------------------------

-- the SQLSTATE of an attempt, whose effects are rolled back; "yes" if it succeeds
CREATE FUNCTION acl_try(role text, statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    EXECUTE statement;
    RAISE SQLSTATE 'RR000';
EXCEPTION
    WHEN SQLSTATE 'RR000' THEN RETURN 'yes';
    WHEN insufficient_privilege OR undefined_object THEN RETURN '-';
    WHEN others THEN RETURN SQLSTATE;
END $$;
CREATE TABLE acl_attempts (i int GENERATED ALWAYS AS IDENTITY, action text, statement text);
INSERT INTO acl_attempts (action, statement) VALUES
    ('add', $$SELECT rag_add_document('Text.', 'a', collection => 'acl-staff')$$),
    ('remove', format('SELECT 1 / rag_delete_document(%L)::int', (SELECT document_id
    FROM rag.documents WHERE uri = 'pay' AND collection = 'acl-staff'))),
    ('add many', $$SELECT rag_add_documents('[{"uri": "a", "content": "Text."}]', 'acl-staff')$$),
    ('update', format('SELECT 1 / rag_update_document(%L, title => $$Pay$$)::int',
    (SELECT document_id FROM rag.documents WHERE uri = 'pay' AND collection = 'acl-staff'))),
    ('knowledge: create',
    $$SELECT rag_create_knowledge(9, NULL, 'https://example.org/', collection => 'acl-staff')$$),
    ('knowledge: alter', $$SELECT rag_alter_knowledge(8, 'acl-staff', title => 'Renamed')$$),
    ('knowledge: all', $$SELECT rag_index_all_knowledge('error', 'acl-staff')$$),
    ('knowledge: unindex', $$SELECT rag_unindex_knowledge(7, 'acl-staff')$$),
    ('knowledge: remove', $$SELECT rag_drop_knowledge(7, 'acl-staff')$$),
    ('source: create',
    $$SELECT rag_create_source('new', 'table', '{"relation": "acl_notes",
    "contentColumns": ["body"]}', 'acl-staff')$$),
    ('source: apply', format('SELECT rag_apply_manifest(%L)', jsonb_set(
        rag_get_manifest('AutoIndexer', 'acl-notes'),
    '{metadata,name}', '"new"'))),
    ('source: suspend', $$SELECT rag_suspend('acl-notes')$$),
    ('source: schedule', $$SELECT rag_alter_source('acl-notes', schedule => '@daily')$$),
    ('source: drift', $$SELECT rag_check_drift('acl-notes')$$),
    ('source: drop', $$SELECT rag_drop_source('acl-notes', keep_documents => false)$$),
    ('drop', $$SELECT rag_drop_source('acl-notes'), rag_drop_collection('acl-staff')$$),
    ('grant', $$SELECT rag_grant_collection('acl-staff', 'public', 'read')$$);
SELECT action, acl_try('regress_acl_owner', statement) AS owner,
    acl_try('regress_acl_writer', statement) AS writer,
    acl_try('regress_acl_reader', statement) AS reader,
    acl_try('regress_acl_other', statement) AS "other admin",
    acl_try('postgres', statement) AS superuser
FROM acl_attempts ORDER BY i;
SET ROLE regress_acl_other;
SELECT rag_drop_collection('acl-staff'); :sqlstate
SELECT rag_add_document('Text.', 'a', collection => 'acl-staff'); :sqlstate
SELECT rag_create_source('new', 'table', '{"relation": "acl_notes", "contentColumns": ["body"]}',
    'acl-staff'); :sqlstate
SELECT field, problem
    FROM rag_validate_source('table', '{"relation": "acl_notes", "contentColumns": ["body"]}',
    collection => 'acl-staff');
SELECT rag_sync('acl-notes'); :sqlstate
-- other ways to write to the collection through an own source are rejected, too
SELECT rag_create_source('acl-own', 'table',
    '{"relation": "acl_notes", "contentColumns": ["body"]}', 'acl-other');
SELECT rag_sync('acl-own') > 0 AS ran;
SELECT rag_alter_source('acl-own', collection => 'acl-staff'); :sqlstate
RESET ROLE;
-- documents are written with the rights of the source's owner, which each run checks
SELECT rag_alter_source('acl-own', collection => 'acl-staff', owner => 'regress_acl_writer');
SET ROLE regress_acl_owner;
SELECT rag_revoke_collection('acl-staff', 'regress_acl_writer', 'write');
RESET ROLE;
\set VERBOSITY terse
SELECT rag_sync('acl-own'); :sqlstate
\set VERBOSITY default
SELECT errors -> 0 ->> 'sqlstate' AS sqlstate FROM rag.runs WHERE source = 'acl-own'
    ORDER BY run_id DESC LIMIT 1;
SELECT rag_grant_collection('acl-staff', 'regress_acl_writer', 'write');
SELECT rag_sync('acl-own') > 0 AS ran;
-- earlier runs of a source are visible to roles that can read the collection of that time
SET ROLE regress_acl_owner;
SELECT DISTINCT collection FROM rag.runs WHERE source = 'acl-own';
RESET ROLE;
-- the owner of a source cannot remove documents without the privilege write
SELECT rag_revoke_collection('acl-staff', 'regress_acl_writer');
SET ROLE regress_acl_writer;
SELECT rag_get_manifest('AutoIndexer', 'acl-own') #>> '{spec,ragEngineRef,name}' AS retriever;
SELECT rag_drop_source('acl-own', keep_documents => false); :sqlstate
RESET ROLE;
SELECT rag_grant_collection('acl-staff', 'regress_acl_writer', 'write');
SET ROLE regress_acl_writer;
SELECT rag_drop_source('acl-own', keep_documents => false);
RESET ROLE;

-- an administrator's policies ---------------------------------------------

-- a restrictive policy hides documents everywhere
CREATE POLICY acl_public ON rag.chunks AS RESTRICTIVE FOR SELECT TO regress_acl_reader,
    regress_acl_writer USING (category = 'public');
:look;
-- a permissive policy hides documents, too, and never adds any
DROP POLICY acl_public ON rag.chunks;
CREATE POLICY acl_public ON rag.chunks FOR SELECT TO regress_acl_reader, regress_acl_writer,
    regress_acl_other USING (category = 'public');
:look;
SET ROLE regress_acl_reader;
SELECT rank, uri FROM rag_search('when do I get my money?', 'acl-staff', top_k => 1);
RESET ROLE;
DROP POLICY acl_public ON rag.chunks;
-- a policy for all roles
CREATE POLICY acl_all ON rag.chunks AS RESTRICTIVE FOR SELECT USING (category = 'public');
SET ROLE regress_acl_member;
SELECT uri FROM rag_search('when do I get my money?', 'acl-staff');
SELECT uri FROM rag.documents;
RESET ROLE;
DROP POLICY acl_all ON rag.chunks;
-- a policy on metadata with a setting of the caller
CREATE POLICY acl_tenant ON rag.chunks AS RESTRICTIVE FOR SELECT TO regress_acl_reader
    USING (metadata ->> 'tenant' IS NULL OR metadata ->> 'tenant' = current_setting('acl.tenant',
    true));
SELECT success FROM rag_add_document('The red team meets on Mondays.', 'red',
    metadata => '{"tenant": "red"}', collection => 'acl-staff');
SELECT success FROM rag_add_document('The blue team meets on Fridays.', 'blue',
    metadata => '{"tenant": "blue"}', collection => 'acl-staff');
SET ROLE regress_acl_reader;
SET acl.tenant = 'red';
SELECT uri FROM rag_search('when does the team meet?', 'acl-staff', top_k => 1);
SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag.documents WHERE metadata ? 'tenant';
SET acl.tenant = 'blue';
SELECT uri FROM rag_search('when does the team meet?', 'acl-staff', top_k => 1);
SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag.documents WHERE metadata ? 'tenant';
RESET ROLE;
DROP POLICY acl_tenant ON rag.chunks;

-- policies are evaluated once per statement; other partitions are not planned, and the index on
-- embeddings is used
SET ROLE regress_acl_reader;
EXPLAIN (COSTS OFF) SELECT uri FROM rag.chunks WHERE collection = 'acl-staff';
RESET ROLE;

-- indexes -----------------------------------------------------------------

CREATE TABLE acl_items (id int, embedding rag_types.vector(2));
INSERT INTO acl_items SELECT i, format('[%s,1]', i)::rag_types.vector FROM generate_series(1, 50) i;
CREATE INDEX acl_items_embedding ON acl_items USING rag_hnsw (embedding vector_l2_ops);
CREATE INDEX acl_chunks_embedding ON rag_internal."rag_kb_acl-staff"
    USING rag_hnsw (embedding vector_cosine_ops);
ALTER TABLE acl_items ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON acl_items USING (id < 5);
GRANT SELECT ON acl_items TO regress_acl_reader;
SET ROLE regress_acl_reader;
SELECT count(*) FROM acl_items;
SELECT vectors FROM rag_hnsw_info('acl_items_embedding'); :sqlstate
SELECT * FROM rag_check_index('acl_items_embedding'); :sqlstate
SELECT * FROM rag_hnsw_recall('acl_items_embedding'); :sqlstate
-- indexes of a collection can be inspected by roles that can read all of it
SELECT vectors > 0 AS told FROM rag_hnsw_info('rag_internal.acl_chunks_embedding');
SET ROLE regress_acl_other;
SELECT vectors > 0 AS told FROM rag_hnsw_info('rag_internal.acl_chunks_embedding'); :sqlstate
RESET ROLE;
CREATE POLICY acl_public ON rag.chunks AS RESTRICTIVE FOR SELECT TO regress_acl_reader
    USING (category = 'public');
SET ROLE regress_acl_reader;
SELECT vectors > 0 AS told FROM rag_hnsw_info('rag_internal.acl_chunks_embedding'); :sqlstate
SET enable_seqscan = off;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT uri FROM rag.chunks WHERE collection = 'acl-staff'
    ORDER BY embedding <=> (SELECT rag_embed('money')) LIMIT 1;
RESET enable_seqscan;
RESET enable_sort;
RESET ROLE;
DROP POLICY acl_public ON rag.chunks;
DROP TABLE acl_items;

-- taken away, and given away ----------------------------------------------

-- write includes read
SELECT rag_grant_collection('acl-staff', 'regress_acl_writer', 'read');
SELECT rag_revoke_collection('acl-staff', 'regress_acl_writer', 'write');
SELECT role, privilege FROM rag.collection_grants WHERE collection = 'acl-staff' ORDER BY 1, 2;
SELECT rag_grant_collection('acl-staff', 'regress_acl_writer', 'write'),
    rag_revoke_collection('acl-staff', 'regress_acl_writer', 'read');
SELECT rag_revoke_collection('acl-staff', 'regress_acl_group');
SELECT role, privilege FROM rag.collection_grants WHERE collection = 'acl-staff' ORDER BY 1, 2;
SELECT rag_grant_collection('acl-staff', 'PUBLIC', 'read');
SET ROLE regress_acl_other;
SELECT count(*) FROM rag_search('money', 'acl-staff', top_k => 1);
RESET ROLE;
SELECT rag_revoke_collection('acl-staff', 'public');
-- a new role with the name of a dropped role inherits nothing, and a renamed role keeps everything
DROP ROLE regress_acl_reader;
CREATE ROLE regress_acl_reader IN ROLE rag_reader;
SET ROLE regress_acl_reader;
SELECT * FROM rag_search('money', 'acl-staff', top_k => 1); :sqlstate
RESET ROLE;
SELECT role, privilege FROM rag.collection_grants WHERE collection = 'acl-staff' ORDER BY 1, 2;
SELECT rag_grant_collection('acl-staff', 'regress_acl_reader', 'read');
ALTER ROLE regress_acl_reader RENAME TO regress_acl_renamed;
SELECT role, privilege FROM rag.collection_grants WHERE collection = 'acl-staff' ORDER BY 1, 2;
SET ROLE regress_acl_renamed;
SELECT count(*) FROM rag_search('money', 'acl-staff', top_k => 1);
RESET ROLE;
SELECT rag_alter_collection('acl-staff', owner => 'regress_acl_other');
SET ROLE regress_acl_owner;
SELECT rag_internal.may_read_collection('acl-staff');
SET ROLE regress_acl_other;
SELECT rag_internal.may_write_collection('acl-staff');
RESET ROLE;
-- only superusers can manage a collection whose owner was dropped
REVOKE SELECT ON acl_notes FROM regress_acl_other;
DROP ROLE regress_acl_other;
CREATE ROLE regress_acl_other IN ROLE rag_admin;
SET ROLE regress_acl_other;
SELECT rag_drop_collection('acl-staff'); :sqlstate
RESET ROLE;

SELECT rag_drop_source('acl-notes');
SELECT rag_drop_collection('acl-staff'), rag_drop_collection('acl-other');
SELECT count(*) FROM rag.collection_grants WHERE collection LIKE 'acl-%';
DROP FUNCTION acl_try, acl_count;
DROP TABLE acl_notes, acl_looks, acl_attempts;
DROP ROLE regress_acl_owner, regress_acl_other, regress_acl_writer, regress_acl_renamed,
    regress_acl_member, regress_acl_group, regress_acl_nobody;
RESET client_min_messages;
