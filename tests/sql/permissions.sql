-- Who may do what: nobody but members of rag_reader search, nobody but members of rag_admin change.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

SELECT rag_create_collection('staff');
SELECT success FROM rag_add_document('Salaries are paid on the 25th.', 'pay', document_type => 'text', category => 'internal', collection => 'staff');
SELECT success FROM rag_add_document('The canteen opens at noon.', 'canteen', document_type => 'text', category => 'public', collection => 'staff');

CREATE ROLE regress_rag_nobody;
CREATE ROLE regress_rag_reader IN ROLE rag_reader;
CREATE ROLE regress_rag_admin IN ROLE rag_admin;
CREATE ROLE regress_rag_files IN ROLE rag_admin, pg_read_server_files;

-- what everybody may: use the vector type -----------------------------------------------------------------------------

SET ROLE regress_rag_nobody;
SELECT '[1,2]'::rag.vector <-> '[1,3]' AS distance, '[1]'::rag.vector + '[2]' AS sum;
SELECT * FROM rag_search('pay', 'staff'); :sqlstate
SELECT rag_embed('pay'); :sqlstate
SELECT * FROM rag_split('pay'); :sqlstate
SELECT rag_stats('staff'); :sqlstate
SELECT rag_create_collection('mine'); :sqlstate
SELECT count(*) FROM rag.chunks; :sqlstate
SELECT count(*) FROM rag.rag_kb_staff; :sqlstate
SELECT count(*) FROM rag.documents; :sqlstate
SELECT count(*) FROM rag.sources; :sqlstate
RESET ROLE;

-- a reader ------------------------------------------------------------------------------------------------------------

SET ROLE regress_rag_reader;
SELECT uri FROM rag_search('when do I get my money?', 'staff', top_k => 1);
SELECT vector_dims(rag_embed('pay')), (SELECT count(*) FROM rag_split('pay')) AS chunks, rag_stats('staff') ->> 'total_chunks' AS total;
SELECT document_count FROM rag_collection_status('staff');
SELECT count(*) FROM rag.chunks WHERE collection = 'staff';
SELECT count(*) >= 0 AS may_read FROM rag.documents, rag.collections, rag.retrievers, rag.run_errors, rag.sources, rag.runs, rag.progress;
SELECT rag_create_collection('mine'); :sqlstate
SELECT rag_drop_collection('staff'); :sqlstate
SELECT rag_add_document('Text.', 'a'); :sqlstate
SELECT rag_remove_document(document_id) FROM rag.documents; :sqlstate
SELECT rag_create_source('mine', 'folder', '{"path": "/"}'); :sqlstate
SELECT rag_drop_source('mine'); :sqlstate
SELECT rag_sync('mine'); :sqlstate
DELETE FROM rag.chunks; :sqlstate
UPDATE rag.documents SET title = 'Mine'; :sqlstate
SELECT * FROM rag.source; :sqlstate
SET rag.model_dir = '/etc'; :sqlstate
SET rag.model_precision = fp32; :sqlstate
\set VERBOSITY sqlstate
SHOW rag.engine_path;
\set VERBOSITY default
RESET ROLE;

-- an admin ------------------------------------------------------------------------------------------------------------

SET ROLE regress_rag_admin;
SELECT rag_create_collection('mine');
SELECT success FROM rag_add_document('Text.', 'a', collection => 'mine');
SELECT count(*) FROM rag_search('text', 'mine');
SELECT rag_remove_document(document_id) FROM rag.documents WHERE collection = 'mine';
SELECT rag_drop_collection('mine');
-- the catalog is written through functions only
DELETE FROM rag.chunks; :sqlstate
INSERT INTO rag.collections (name) VALUES ('mine'); :sqlstate
-- files of the server need pg_read_server_files too, repositories on the server a superuser
SELECT rag_create_source('mine', 'folder', '{"path": "/etc"}'); :sqlstate
SELECT rag_create_source('mine', 'markdown', '{"uri": "/etc/passwd"}'); :sqlstate
SELECT rag_create_source('mine', 'git', '{"repositoryURL": "/srv/git/a"}'); :sqlstate
SET ROLE regress_rag_files;
SELECT rag_create_source('mine', 'folder', '{"path": "/nonexistent"}');
SELECT rag_create_source('ours', 'git', '{"repositoryURL": "/srv/git/a"}'); :sqlstate
RESET ROLE;
-- a run has the rights of the source's owner as they are then
REVOKE pg_read_server_files FROM regress_rag_files;
\set VERBOSITY terse
SELECT rag_sync('mine'); :sqlstate
\set VERBOSITY default
SELECT rag_drop_source('mine');

-- row-level security decides what is found, before the best are chosen ------------------------------------------------

ALTER TABLE rag.chunks ENABLE ROW LEVEL SECURITY;
CREATE POLICY regress_public ON rag.chunks FOR SELECT TO rag_reader USING (category = 'public');
SET ROLE regress_rag_reader;
SELECT rank, uri FROM rag_search('when do I get my money?', 'staff');
SELECT rank, uri FROM rag_search('when do I get my money?', 'staff', top_k => 1);
SELECT count(*) FROM rag_search('when do I get my money?', 'staff', filter => '{"category": "internal"}');
RESET ROLE;
SELECT rank, uri FROM rag_search('when do I get my money?', 'staff', top_k => 1);
DROP POLICY regress_public ON rag.chunks;
ALTER TABLE rag.chunks DISABLE ROW LEVEL SECURITY;

-- a function that is SECURITY DEFINER hands on a part to others
CREATE FUNCTION regress_ask(question text) RETURNS TABLE (uri text) LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS
    $$ SELECT uri FROM rag_search(question, 'staff', filter => '{"category": "public"}') $$;
SET ROLE regress_rag_nobody;
SELECT * FROM regress_ask('when do I get my money?');
RESET ROLE;
DROP FUNCTION regress_ask;

SELECT rag_drop_collection('staff');
DROP ROLE regress_rag_nobody, regress_rag_reader, regress_rag_admin, regress_rag_files;

-- every function says what it does, and is granted to nobody by accident
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid
WHERE e.extname = 'rag' AND p.proname LIKE 'rag\_%' AND (obj_description(p.oid, 'pg_proc') IS NULL OR has_function_privilege('public', p.oid, 'EXECUTE'));
