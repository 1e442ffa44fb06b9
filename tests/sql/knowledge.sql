-- Knowledge items: documents with a number of the user's, fetched from a uri.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
\set files `echo "$RAG_TEST_FILES"`
\set handbook :files '/handbook'
\set one 'file://' :handbook '/backups.md'
\set other :handbook '/guides'
\set items 'SELECT knowledge_id, title, document_type, category, tags, status, replace(error, :''handbook'', ''...'') AS error, content_hash IS NOT NULL AS hashed, fetched_at IS NOT NULL AS fetched, indexed_at IS NOT NULL AS indexed FROM rag.knowledge ORDER BY collection, knowledge_id'
\set documents 'SELECT knowledge_id, right(uri, -length(''file://'' || :''handbook'')) AS path, title, category, tags, source, status FROM rag.documents WHERE knowledge_id IS NOT NULL ORDER BY 1, uri COLLATE "C"'

-- one file
SELECT success, document_id IS NOT NULL AS has_id, chunks_indexed, content_hash, error FROM rag_index_knowledge(1, 'How to back up', :'one', 'markdown', 'ops', 'backup, disaster,,');
:items;
:documents;
SELECT k.content_hash = d.content_hash AS same_hash, d.content_hash = encode(sha256(convert_to(d.content, 'UTF8')), 'hex') AS is_of_text
FROM rag.knowledge k JOIN rag.documents d USING (knowledge_id);
SELECT rank, knowledge_id, title FROM rag_search('somebody deleted rows by accident', top_k => 1, filter => '{"knowledge_id": 1, "tags": ["backup"]}');

-- all files of a folder are one item
SELECT success, document_id, chunks_indexed > 0 AS chunks, length(content_hash), error FROM rag_index_knowledge(2, NULL, :'other', 'folder');
:documents;
SELECT rag_stats() ->> 'unique_knowledge_items' AS items;

-- the same file as another item, and put in directly, are other documents
SELECT success FROM rag_index_knowledge(3, NULL, :'one');
SELECT success FROM rag_add_document('Something else.', :'one');
SELECT count(*), count(DISTINCT document_id) FROM rag.documents WHERE uri = :'one';
SELECT rag_remove_knowledge(3), rag_remove_knowledge(3);
SELECT knowledge_id FROM rag.documents WHERE uri = :'one' ORDER BY 1;
SELECT rag_remove_document(document_id) FROM rag.documents WHERE uri = :'one' AND knowledge_id IS NULL;

-- an item that moves leaves nothing behind
SELECT success, chunks_indexed FROM rag_index_knowledge(2, 'Backups', :'one');
:documents;

-- failures: status and error change, and nothing else
SELECT * FROM rag_index_knowledge(1, 'How to back up', '/nonexistent/backups.md', 'markdown', 'ops', 'backup');
SELECT * FROM rag_index_knowledge(4, 'Nothing', '/nonexistent', 'folder');
:items;
:documents;
\set empty :files '/empty.md'
SELECT success, chunks_indexed, error FROM rag_index_knowledge(5, 'Empty', :'empty');
-- another try
SELECT success, error FROM rag_index_knowledge(1, 'How to back up', :'one');
SELECT status, error FROM rag.knowledge WHERE knowledge_id = 1;

-- several at once
SELECT * FROM rag_index_knowledge(6, 'Later', :'one', defer => true);
SELECT knowledge_id, status FROM rag.knowledge ORDER BY 1;
SELECT knowledge_id, success, chunks_indexed, error FROM rag_index_all();
SELECT knowledge_id, success, chunks_indexed, error FROM rag_index_all('pending');
SELECT knowledge_id, success, error FROM rag_index_all('error');
:items;
SELECT count(*) FROM rag_index_all('pending');

-- a rollback leaves nothing
BEGIN;
SELECT success FROM rag_index_knowledge(7, NULL, :'one');
ROLLBACK;
SELECT count(*) FROM rag.knowledge WHERE knowledge_id = 7;

-- wrong arguments
SELECT rag_index_knowledge(8, NULL, 'relative/path.md'); :sqlstate
SELECT rag_index_knowledge(8, NULL, :'one', 'docx'); :sqlstate
SELECT rag_index_knowledge(8, NULL, :'one', collection => 'nowhere'); :sqlstate
SELECT rag_index_all('done'); :sqlstate
SELECT rag_remove_knowledge(1, 'nowhere'); :sqlstate
\set VERBOSITY sqlstate
SELECT rag_index_knowledge(NULL, NULL, :'one');
SELECT rag_index_knowledge(8, NULL, NULL);
\set VERBOSITY default

-- files of the server are read by those who may
CREATE ROLE regress_rag_curator IN ROLE rag_admin;
SET ROLE regress_rag_curator;
SELECT rag_index_knowledge(8, NULL, :'one'); :sqlstate
SELECT success, error FROM rag_index_all() LIMIT 1;
RESET ROLE;
DROP ROLE regress_rag_curator;

-- with the collection its items go
SELECT rag_create_collection('shelf');
SELECT success FROM rag_index_knowledge(1, NULL, :'one', collection => 'shelf');
SELECT rag_drop_collection('shelf');
SELECT collection, count(*) FROM rag.knowledge GROUP BY 1;
SELECT rag_remove_knowledge(knowledge_id) FROM rag.knowledge ORDER BY knowledge_id;
SELECT count(*) AS documents, (SELECT count(*) FROM rag.knowledge) AS items FROM rag.documents;
