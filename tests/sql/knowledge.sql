-- Knowledge items: documents that users identify by a number, fetched from a uri.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
\set files `echo "$RAG_TEST_FILES"`
\set handbook :files '/handbook'
\set one 'file://' :handbook '/backups.md'
\set other :handbook '/guides'
\set items 'SELECT knowledge_id, title, document_type, category, tags, status, replace(error, :''handbook'', ''...'') AS error, content_hash IS NOT NULL AS hashed, last_fetched_at IS NOT NULL AS fetched, indexed_at IS NOT NULL AS indexed FROM rag.knowledge ORDER BY collection, knowledge_id'
\set documents 'SELECT knowledge_id, right(uri, -length(''file://'' || :''handbook'')) AS path, title, category, tags, source, status FROM rag.documents WHERE knowledge_id IS NOT NULL ORDER BY 1, uri COLLATE "C"'

-- one file
SELECT success, knowledge_id, document_id IS NOT NULL AS has_id, chunks_indexed, content_hash, error
    FROM rag_index_knowledge(1, title => 'How to back up', uri => :'one',
    document_type => 'markdown', category => 'ops', tags => 'backup, disaster,,backup');
:items;
:documents;
SELECT k.content_hash = d.content_hash AS same_hash,
    d.content_hash = encode(sha256(convert_to(d.content, 'UTF8')), 'hex') AS is_of_text
FROM rag.knowledge k JOIN rag.documents d USING (knowledge_id);
SELECT rank, knowledge_id, title FROM rag_search('somebody deleted rows by accident', top_k => 1,
    filter => '{"knowledge_id": 1, "tags": ["backup"]}');

-- all files of a folder are one item
SELECT success, document_id, chunks_indexed > 0 AS chunks, length(content_hash), error
    FROM rag_index_knowledge(2, uri => :'other', document_type => 'folder');
:documents;
SELECT rag_stats() ->> 'unique_knowledge_items' AS items;

-- the same file as another item, or added directly, is another document
SELECT success FROM rag_index_knowledge(3, uri => :'one');
SELECT success FROM rag_add_document('Something else.', :'one');
SELECT count(*), count(DISTINCT document_id) FROM rag.documents WHERE uri = :'one';
SELECT rag_drop_knowledge(3), rag_drop_knowledge(3);
SELECT knowledge_id FROM rag.documents WHERE uri = :'one' ORDER BY 1;
SELECT rag_delete_document(document_id) FROM rag.documents
    WHERE uri = :'one' AND knowledge_id IS NULL;

-- an item with another uri leaves no documents behind
SELECT success, chunks_indexed
    FROM rag_index_knowledge(2, title => 'Backups', uri => :'one', document_type => 'markdown');
:documents;

-- a registered item is indexed by its number; arguments that are NULL keep their values
SELECT success, knowledge_id, chunks_indexed, error FROM rag_index_knowledge(1);
:items;
SELECT success FROM rag_index_knowledge(1, category => 'operations');
:items;
:documents;

-- a failure changes only status and error
SELECT * FROM rag_index_knowledge(1, title => 'Another title', uri => '/nonexistent/backups.md',
    document_type => 'markdown', category => 'other', tags => 'other');
SELECT uri = :'one' AS same_uri FROM rag.knowledge WHERE knowledge_id = 1;
SELECT * FROM rag_index_knowledge(4, title => 'Nothing', uri => '/nonexistent',
    document_type => 'folder');
:items;
:documents;
\set empty :files '/empty.md'
SELECT success, chunks_indexed, error
    FROM rag_index_knowledge(5, title => 'Empty', uri => :'empty');
-- another attempt
SELECT success, error FROM rag_index_knowledge(1);
SELECT status, error FROM rag.knowledge WHERE knowledge_id = 1;

-- registered, changed, indexed, removed from the index and kept
SELECT knowledge_id, collection, title, uri = :'one' AS uri, document_type, category, tags, paths,
    status, created_at = now() AS now FROM rag_create_knowledge(6, 'Later', :'one', tags => 'a,b');
SELECT rag_create_knowledge(6, 'Again', :'one'); :sqlstate
SELECT rag_alter_knowledge(6, tags => 'b , c,b', category => 'drafts');
SELECT title, uri = :'one' AS same_uri, category, tags, status, owner = current_user AS own
    FROM rag.knowledge WHERE knowledge_id = 6;
SELECT success, knowledge_id FROM rag_index_knowledge(6);
-- title, category and tags change the documents at once, another uri when the item is indexed next
SELECT rag_alter_knowledge(6, title => 'Sooner', category => 'final');
SELECT d.title, d.category, d.tags, (c.title, c.category, c.tags) = (d.title, d.category,
    d.tags) AS in_chunks
FROM rag.documents d JOIN rag.chunks c USING (document_id) WHERE d.knowledge_id = 6 LIMIT 1;
SELECT rag_alter_knowledge(6, uri => :'handbook' || '/deploy.md');
SELECT k.status, d.uri = :'one' AS as_before FROM rag.knowledge k
    JOIN rag.documents d USING (knowledge_id) WHERE knowledge_id = 6;
SELECT success FROM rag_index_knowledge(6);
SELECT title, right(uri, 9) AS uri FROM rag.documents WHERE knowledge_id = 6;
-- a document of an item cannot be changed directly
\set VERBOSITY sqlstate
SELECT rag_update_document(document_id, title => 'x') FROM rag.documents WHERE knowledge_id = 6;
\set VERBOSITY default
SELECT rag_unindex_knowledge(6), rag_unindex_knowledge(6);
:items;
SELECT count(*) FROM rag.documents WHERE knowledge_id = 6;

-- some files of a folder
SELECT paths, title FROM rag_create_knowledge(9, 'Some', :'handbook', 'folder',
    paths => '{/*.md}');
SELECT success, error FROM rag_index_knowledge(9);
SELECT count(*) > 0 AS some, bool_and(uri LIKE '%.md' AND uri NOT LIKE '%/guides/%') AS selected
    FROM rag.documents WHERE knowledge_id = 9;
SELECT rag_alter_knowledge(9, paths => '{backups.md}');
SELECT status, paths FROM rag.knowledge WHERE knowledge_id = 9;
SELECT success, chunks_indexed FROM rag_index_knowledge(9);
SELECT right(uri, 10) AS uri FROM rag.documents WHERE knowledge_id = 9;
SELECT rag_alter_knowledge(9, paths => '{[z-a]}'); :sqlstate
SELECT rag_alter_knowledge(6, paths => '{*.md}'); :sqlstate
-- an item that is no folder any more has no patterns
SELECT rag_alter_knowledge(9, uri => :'one', document_type => 'markdown');
SELECT document_type, paths FROM rag.knowledge WHERE knowledge_id = 9;
SELECT rag_drop_knowledge(9);

-- all items: a worker indexes them, with failures as results
\set show 'SELECT :''summary''::jsonb - ''results'' AS summary, jsonb_path_query_array(:''summary''::jsonb, ''$.results[*].knowledge_id'') AS ids, jsonb_path_query_array(:''summary''::jsonb, ''$.results[*].success'') AS success'
SELECT rag_index_all_knowledge() AS summary \gset
:show;
SELECT r ->> 'knowledge_id' AS item, array_agg(key ORDER BY key) AS keys
    FROM jsonb_array_elements(:'summary'::jsonb -> 'results') r, jsonb_object_keys(r) key
    WHERE r ->> 'knowledge_id' IN ('1', '4') GROUP BY 1 ORDER BY 1;
SELECT r - 'error' FROM jsonb_array_elements(:'summary'::jsonb -> 'results') r
    WHERE r ->> 'knowledge_id' = '4';
:items;
SELECT rag_index_all_knowledge('error') AS summary \gset
:show;
SELECT rag_index_all_knowledge(status => 'pending') AS summary \gset
:show;
SELECT rag_index_all_knowledge(collection => 'nowhere'); :sqlstate
-- inside a transaction it works; what the transaction has registered is not committed
BEGIN;
SELECT knowledge_id FROM rag_create_knowledge(10, 'Mine', :'one');
SELECT rag_index_all_knowledge() AS summary \gset
:show;
ROLLBACK;

-- a rollback leaves nothing
BEGIN;
SELECT success FROM rag_index_knowledge(7, uri => :'one');
ROLLBACK;
SELECT count(*) FROM rag.knowledge WHERE knowledge_id = 7;

-- wrong arguments
SELECT rag_index_knowledge(8); :sqlstate
SELECT rag_alter_knowledge(8, title => 'Title'); :sqlstate
SELECT rag_index_knowledge(8, uri => 'relative/path.md'); :sqlstate
SELECT rag_create_knowledge(8, NULL, 'relative/path.md'); :sqlstate
SELECT rag_alter_knowledge(1, uri => 'relative/path.md'); :sqlstate
SELECT rag_index_knowledge(8, uri => :'one', document_type => 'docx'); :sqlstate
SELECT rag_index_knowledge(8, uri => :'one', category => repeat('x', 201)); :sqlstate
SELECT rag_index_knowledge(8, uri => :'one', collection => 'nowhere'); :sqlstate
SELECT rag_index_all_knowledge('done'); :sqlstate
SELECT rag_drop_knowledge(1, 'nowhere'); :sqlstate
\set VERBOSITY sqlstate
SELECT rag_index_knowledge(NULL, uri => :'one');
SELECT rag_create_knowledge(8, NULL, NULL);
\set VERBOSITY default

-- Files of the server require pg_read_server_files. An item is fetched only if its owner and the
-- caller can read it, so nobody can use the rights of another role.
CREATE ROLE regress_rag_curator IN ROLE rag_admin;
CREATE ROLE regress_rag_librarian IN ROLE rag_admin, pg_read_server_files;
SELECT setting || '/postgresql.auto.conf' AS secret FROM pg_settings
    WHERE name = 'data_directory' \gset
SET ROLE regress_rag_curator;
SELECT rag_index_knowledge(8, uri => :'one'); :sqlstate
SELECT rag_create_knowledge(8, NULL, :'secret'); :sqlstate
SELECT rag_alter_knowledge(1, uri => :'secret'); :sqlstate
SELECT rag_alter_knowledge(2, document_type => 'folder'); :sqlstate
SELECT rag_index_knowledge(1); :sqlstate
SELECT knowledge_id FROM rag_create_knowledge(8, 'Web', 'http://127.0.0.1:1/a.md');
RESET ROLE;
-- an item of an earlier version, or of a role whose right was revoked
UPDATE rag_internal.knowledge_item SET uri = :'secret' WHERE knowledge_id = 8;
SELECT rag_index_knowledge(8); :sqlstate
SELECT rag_index_all_knowledge('pending') AS summary \gset
SELECT :'summary'::jsonb -> 'results' -> 0 -> 'error' AS error;
SELECT count(*) FROM rag.documents WHERE knowledge_id = 8;
-- the role that changes the uri becomes the owner
SELECT owner FROM rag.knowledge WHERE knowledge_id = 8;
SET ROLE regress_rag_librarian;
SELECT rag_alter_knowledge(8, uri => :'one');
SELECT success FROM rag_index_knowledge(8);
RESET ROLE;
SELECT owner FROM rag.knowledge WHERE knowledge_id = 8;
SELECT success FROM rag_index_knowledge(8);
SELECT owner FROM rag.knowledge WHERE knowledge_id = 8;
REVOKE pg_read_server_files FROM regress_rag_librarian;
SELECT rag_index_knowledge(8); :sqlstate
DROP ROLE regress_rag_librarian;
SELECT rag_index_knowledge(8); :sqlstate
CREATE ROLE regress_rag_librarian SUPERUSER;
SELECT rag_index_knowledge(8); :sqlstate
SELECT rag_drop_knowledge(8);
DROP ROLE regress_rag_curator, regress_rag_librarian;

-- rag_drop_collection drops the items
SELECT rag_create_collection('shelf');
SELECT success FROM rag_index_knowledge(1, 'shelf', uri => :'one');
SELECT rag_drop_collection('shelf');
SELECT collection, count(*) FROM rag.knowledge GROUP BY 1;
SELECT rag_drop_knowledge(knowledge_id) FROM rag.knowledge ORDER BY knowledge_id;
SELECT count(*) AS documents, (SELECT count(*) FROM rag.knowledge) AS items FROM rag.documents;
