-- Ids of documents say nothing outside of their collection: they are predictable, and applications
-- choose them. Nothing that one role does in its collection changes a row of another's.
\set VERBOSITY default
\set sqlstate '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
CREATE ROLE regress_owner IN ROLE rag_admin;
CREATE ROLE regress_attacker IN ROLE rag_admin;
CREATE VIEW stored AS
    SELECT collection, title, content, chunk_count, raw_hash IS NULL AS no_hash FROM rag.documents
    WHERE collection IN ('team', 'attacker', 'red', 'blue');

-- Chunks under the id of a document of another collection, before and after that exists.
SET ROLE regress_attacker;
SELECT rag_create_collection('team'), rag_create_collection('attacker');
SELECT document_id AS id FROM rag_add_document('x', 'handbook', 't', 'text', collection => 'team')
\gset
SELECT rag_delete_document(:'id');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('document_id', :'id', 'text', 'WRITTEN BY THE ATTACKER', 'chunk_id',
                       'aaaaaaaa-0000-0000-0000-000000000001'),
    jsonb_build_object('document_id', :'id', 'text', 'second', 'chunk_id',
                       'aaaaaaaa-0000-0000-0000-000000000002')), 'attacker');
SELECT action FROM rag_add_document('x', 'handbook', 't', 'text', collection => 'team');
SELECT rag_drop_collection('team');
SET ROLE regress_owner;
SELECT rag_create_collection('team');
SELECT rag_upsert_chunks('[{"uri": "handbook", "text": "Text of the owner", "chunk_id":
    "bbbbbbbb-0000-0000-0000-000000000001", "title": "the owner"}]', 'team');
SELECT action FROM rag_add_document('Added by the owner.', 'added', collection => 'team');
RESET ROLE;
TABLE stored ORDER BY 1, 3;
SET ROLE regress_attacker;
SELECT rag_delete_chunks('{aaaaaaaa-0000-0000-0000-000000000002}', 'attacker');
SELECT rag_delete_chunks('{aaaaaaaa-0000-0000-0000-000000000001}', 'attacker');
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('document_id', document_id, 'text', 'forged', 'chunk_id', document_id)),
        'attacker')
FROM (SELECT :'id'::uuid) AS d (document_id);
SELECT * FROM rag_apply_plan('{}', 'attacker');
RESET ROLE;
TABLE stored ORDER BY 1, 3;
SELECT count(*) AS chunks FROM rag.chunks WHERE collection = 'attacker';

-- An id in several collections: functions that take ids alone choose the one that the caller can
-- write to, and else ask.
SET ROLE regress_attacker;
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('document_id', :'id', 'text', 'forged again', 'chunk_id', :'id')),
        'attacker');
SELECT rag_grant_collection('attacker', 'regress_owner', 'read');
SET ROLE regress_owner;
SELECT rag_update_document(:'id', title => 'renamed');
RESET ROLE;
SELECT rag_update_document(:'id', title => 'whose?'); :sqlstate
SELECT rag_update_document(:'id', title => 'forged', collection => 'attacker');
SELECT rag_delete_document(:'id'); :sqlstate
SELECT rag_delete_document(:'id', 'elsewhere'), rag_delete_document(NULL);
TABLE stored ORDER BY 1, 3;
SET ROLE regress_attacker;
SELECT rag_delete_document(:'id', 'team');
SELECT rag_delete_document(:'id');
RESET ROLE;
TABLE stored ORDER BY 1, 3;
SELECT rag_drop_collection('team'), rag_drop_collection('attacker');

-- The same ids of documents and chunks in one partition.
SELECT rag_create_retriever('shared', '{"storageConfig": {"type": "flat", "indexStrategy": {"mode":
    "fixed", "fixedName": "regress-shared"}}}');
SELECT rag_create_collection(name, retriever => 'shared') FROM unnest('{red,blue}'::text[]) name;
SELECT rag_upsert_chunks(jsonb_build_array(
    jsonb_build_object('document_id', :'id', 'text', 'text of ' || name, 'chunk_id', :'id')), name)
FROM unnest('{red,blue}'::text[]) name;
SELECT collection, partition, content FROM rag.chunks WHERE document_id = :'id' ORDER BY 1;
SELECT rag_delete_chunks(ARRAY[:'id'], 'red');
TABLE stored ORDER BY 1, 3;
SELECT rag_drop_collection('red'), rag_drop_collection('blue'), rag_drop_retriever('shared');
DROP VIEW stored;
DROP ROLE regress_owner, regress_attacker;
