-- rag_get_chunks: chunks by ids and by filters, and groups of filters with "not".
\set VERBOSITY terse
SELECT rag_create_collection('vectors', dimensions => 3);
SELECT count(*) FROM rag_get_chunks('vectors');
SELECT rag_upsert_chunks('[
    {"chunk_id": "https://example.org/a?b=1", "document_id": "d1", "text": "One.",
     "embedding": [1, 0, 0], "metadata": {"n": 1}},
    {"chunk_id": "0B7A3C52-0002-4C7E-9D6E-6F1D6C7A9E01", "document_id": "d1", "text": "Two.",
     "embedding": [0, 1, 0], "metadata": {"n": 2}},
    {"chunk_id": "0b7a3c52-0003-4c7e-9d6e-6f1d6c7a9e01", "uri": "c", "text": "Three.",
     "embedding": [0, 0, 1], "metadata": {"s": null}, "category": "x", "tags": ["t"],
     "page": 3, "title": "Third"}]', 'vectors');
SELECT given_id, uri, title, chunk_index, content, metadata, category, tags, page, embedding
FROM rag_get_chunks('vectors');
SELECT chunk_id, embedding
FROM rag_get_chunks('vectors', '{0b7a3c52-0003-4c7e-9d6e-6f1d6c7a9e01}', with_embeddings => true);
-- as it was given, or as the database writes it
SELECT given_id FROM rag_get_chunks('vectors', (SELECT array_agg(chunk_id::text)
    FROM rag_get_chunks('vectors', '{https://example.org/a?b=1}')));
SELECT count(*) FROM rag_get_chunks('vectors', '{}');
SELECT count(*) FROM rag_get_chunks('vectors', '{nowhere,NULL}');
SELECT content FROM rag_get_chunks('vectors', NULL, '{"n": 2}');
SELECT content FROM rag_get_chunks('vectors', '{https://example.org/a?b=1}', '{"n": 2}');
SELECT content FROM rag_get_chunks('vectors', filter => '{"operator": "not", "conditions": [
    {"key": "n", "operator": "gt", "value": 1}]}');
SELECT content FROM rag_get_chunks('vectors', filter => '{"operator": "not", "conditions": [
    {"key": "n", "operator": "gt", "value": 1}, {"key": "tags", "operator": "empty"}]}');
SELECT content FROM rag_get_chunks('vectors', filter => '{"operator": "not", "conditions": [
    {"operator": "or", "conditions": [{"key": "n", "operator": "in", "value": [1, 2]},
                                      {"key": "n", "operator": "empty"}]}]}');
-- in a search that finds nothing, too
SELECT content FROM rag_search(NULL, 'vectors', query_embedding => '[1,0,0]', filter =>
    '{"operator": "not", "conditions": [{"key": "n", "operator": "ne", "value": "text"}]}');
-- chunks that rag has split
SELECT rag_create_collection('notes');
SELECT action FROM rag_add_document(E'# A\n\nKeys.', 'note:a', collection => 'notes',
                                    metadata => '{"k": [1]}');
SELECT given_id, uri, content, metadata FROM rag_get_chunks('notes', filter => '{"uri": "note:a"}');
SELECT rag_delete_chunks(ARRAY(SELECT chunk_id::text FROM rag_get_chunks(
    'vectors', filter => '{"n": 2}')), 'vectors');
-- problems
SELECT rag_get_chunks(NULL);
SELECT rag_get_chunks('nowhere');
SELECT rag_get_chunks('vectors', with_embeddings => NULL);
SELECT rag_get_chunks('vectors', filter => '{"n": {"$gt": 1}}');
SELECT rag_get_chunks('vectors', filter => '{"operator": "nor", "conditions": [{"key": "n"}]}');
SELECT rag_get_chunks('vectors', filter => '{"operator": "not", "conditions": []}');
-- rights, and policies
CREATE ROLE regress_reader IN ROLE rag_reader;
SET ROLE regress_reader;
SELECT rag_get_chunks('vectors');
RESET ROLE;
SELECT rag_grant_collection('vectors', 'regress_reader', 'read');
CREATE POLICY regress_reader ON rag.chunks FOR SELECT TO regress_reader USING (category = 'x');
SET ROLE regress_reader;
SELECT content FROM rag_get_chunks('vectors');
RESET ROLE;
DROP POLICY regress_reader ON rag.chunks;
SELECT rag_drop_collection('vectors');
SELECT rag_drop_collection('notes');
DROP ROLE regress_reader;
