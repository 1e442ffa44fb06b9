-- Bundles: export and import of collections, through folders of the server and through rows.
\set VERBOSITY default
\set SHOW_CONTEXT never
\set sqlstate '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SET client_min_messages = warning;

-- every column of a collection's rows
CREATE FUNCTION snapshot(of text) RETURNS TABLE (part text, hash text) LANGUAGE sql
BEGIN ATOMIC
    SELECT 'documents', md5(string_agg(to_jsonb(d)::text, ',' ORDER BY d.document_id))
    FROM rag.documents d WHERE d.collection = $1
    UNION ALL
    SELECT 'chunks', md5(string_agg((to_jsonb(c) - 'embedding')::text
                                    || encode(rag_internal.vector_send(c.embedding), 'hex'), ','
                                    ORDER BY c.document_id, c.chunk_id))
    FROM rag.chunks c WHERE c.collection = $1
    UNION ALL
    SELECT 'knowledge', md5(string_agg(to_jsonb(k)::text, ',' ORDER BY k.knowledge_id))
    FROM rag_internal.knowledge_item k WHERE k.collection = $1
    UNION ALL
    SELECT 'collection', md5((to_jsonb(c) - '{serial,updated_at,imported}'::text[])::text)
    FROM rag_internal.collection c WHERE c.name = $1
    UNION ALL
    SELECT 'answers', md5(string_agg(s::text, ',' ORDER BY s.rank))
    FROM rag_search('vessel', $1) s;
END;

SELECT rag_create_collection('boats', chunk_size => 60, chunk_overlap => 0,
    metadata_whitelist => '{n}', description => 'About "boats"', external_id => 'kb-7',
    max_documents => 10, title_weight => 3);
SELECT success FROM rag_add_document(E'# Vessels\n\nA vessel floats.\n\nAn anchor "holds" \\ it.',
    'boat:1', title => 'Größe 日本', category => 'a''b', tags => '{x,"y,{z}\""}',
    knowledge_id => 5, metadata => '{"n": 1.50, "t": "u\n"}', collection => 'boats');
SELECT success FROM rag_add_document('A second text.', 'boat:2', document_type => 'text',
    collection => 'boats');
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-0000-0000-000000000009",
    "document_id": "00000000-0000-0000-0000-000000000007", "uri": "own", "text": "A vessel"}]',
        'boats');
SELECT knowledge_id FROM rag_create_knowledge(9, 'K', 'https://example.org/x.md', 'website',
    tags => 'a, b', collection => 'boats');
CREATE TABLE before AS SELECT * FROM snapshot('boats');

-- through rows, as \copy moves them
CREATE TABLE moved AS SELECT * FROM rag_export_blocks('boats');
SELECT file, count(*), sum(length(data)) > 0 AS has_bytes FROM moved GROUP BY file ORDER BY file;
SELECT m ->> 'rag_name' AS name, m -> 'document_count' AS documents, m -> 'chunk_count' AS chunks,
       m -> 'embedding_dimension' AS dimension, m ->> 'index_type' AS index_type,
       m -> 'dataset_info' AS dataset_info, m #>> '{settings,description}' AS description,
       m #>> '{model,name}' AS model,
       (m #>> '{file_sizes,embeddings_npy}')::int
           = (SELECT length(data) FROM moved WHERE file = 'embeddings.npy') AS size_is_right
FROM (SELECT convert_from(data, 'UTF8')::jsonb AS m FROM moved WHERE file = 'metadata.json') AS x;
SELECT substr(convert_from(substr(data, 11, 70), 'UTF8'), 1, 60) AS header
FROM moved WHERE file = 'embeddings.npy';
SELECT rag_import_blocks('moved'); :sqlstate
SELECT rag_drop_collection('boats');
SELECT collection, documents, chunks FROM rag_import_blocks('moved');
SELECT part FROM (SELECT * FROM before EXCEPT SELECT * FROM snapshot('boats')) AS x;
-- exported again, the bundle is the same
CREATE TABLE again AS SELECT * FROM rag_export_blocks('boats');
SELECT file FROM moved a JOIN again b USING (file, block)
WHERE a.data <> b.data AND file <> 'metadata.json';

-- another name: ids that were made from the name are made again, and others stay
SELECT collection, documents, chunks FROM rag_import_blocks('moved', 'copy');
-- other collections do not take embeddings from it, which could be false
SELECT imported FROM rag_internal.collection WHERE name = 'copy';
SELECT success FROM rag_add_document('A third text.', 'boat:3', collection => 'copy');
CALL rag_rebuild_collection('copy');
SELECT count(*) AS places FROM rag_internal.embedding_place WHERE collection = 'copy';
SELECT uri, status, action FROM rag_add_document('A second text.', 'boat:2',
    document_type => 'text', collection => 'copy'), (SELECT 1) AS x,
    LATERAL (SELECT uri, status FROM rag.documents
             WHERE collection = 'copy' AND uri = 'boat:2') AS d;
SELECT external_id IS NULL AS no_external_id FROM rag.collections WHERE name = 'copy';
SELECT rag_drop_collection('copy');
SELECT rag_drop_collection('boats');

-- a retriever that would send a secret of the importing role to a server of the bundle
SELECT rag_create_secret('vectors', 'canary');
SELECT rag_create_retriever('remote', '{"storageConfig": {"type": "qdrant",
    "url": "https://qdrant.example.org", "apiKeyRef": {"name": "vectors"}}}');
SELECT rag_create_collection('far', retriever => 'remote');
CREATE TABLE far AS SELECT * FROM rag_export_blocks('far');
SELECT rag_drop_collection('far'), rag_drop_retriever('remote');
SELECT rag_import_blocks('far'); :sqlstate
SELECT collection FROM rag_import_blocks('far', with_sources => true);
SELECT rag_drop_collection('far');
SELECT collection FROM rag_import_blocks('far');
SELECT rag_drop_collection('far'), rag_drop_retriever('remote'), rag_drop_secret('vectors');
DROP TABLE far;
-- without a secret vectors, labels and queries would go there all the same
SELECT rag_create_retriever('remote', '{"storageConfig": {"type": "qdrant",
    "url": "https://qdrant.example.org"}}');
SELECT rag_create_collection('far', retriever => 'remote');
CREATE TABLE far AS SELECT * FROM rag_export_blocks('far');
SELECT rag_drop_collection('far'), rag_drop_retriever('remote');
SELECT rag_import_blocks('far'); :sqlstate
SELECT count(*) FROM rag.retrievers WHERE name = 'remote';
DROP TABLE far;

-- damaged bundles
CREATE FUNCTION import_damaged(change text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    CREATE TEMP TABLE damaged AS SELECT * FROM moved;
    EXECUTE change;
    PERFORM rag_import_blocks('pg_temp.damaged');
    RETURN 'imported';
EXCEPTION WHEN OTHERS THEN
    DECLARE
        detail text;
    BEGIN
        GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
        RETURN SQLSTATE || ' ' || SQLERRM || coalesce(': ' || nullif(detail, ''), '');
    END;
END $$;
SELECT name, regexp_replace(import_damaged(change), '\d{8,}', 'N', 'g') AS result FROM (VALUES
    (1, 'no metadata', $$DELETE FROM damaged WHERE file = 'metadata.json'$$),
    (2, 'no corpus', $$DELETE FROM damaged WHERE file = 'corpus.jsonl'$$),
    (3, 'cut corpus', $$UPDATE damaged SET data = substr(data, 1, length(data) - 5)
                        WHERE file = 'corpus.jsonl'$$),
    (4, 'no line at the end', $$UPDATE damaged SET data = substr(data, 1, 400)
                                WHERE file = 'chunks.jsonl'$$),
    (5, 'longer sources', $$UPDATE damaged SET data = data || 'x' WHERE file = 'sources.yaml'$$),
    (6, 'not UTF-8', $$UPDATE damaged SET data = set_byte(data, 30, 255)
                       WHERE file = 'corpus.jsonl'$$),
    (7, 'a changed letter', $$UPDATE damaged SET data = decode(replace(encode(data, 'hex'),
                              encode('second', 'hex'), encode('Second', 'hex')), 'hex')
                              WHERE file = 'corpus.jsonl'$$),
    (8, 'NaN', $$UPDATE damaged SET data = overlay(data PLACING '\x0000c07f' FROM 129)
                 WHERE file = 'embeddings.npy'$$),
    (9, 'fewer rows', $$UPDATE damaged SET data = substr(data, 1, length(data) - 4)
                        WHERE file = 'embeddings.npy'$$),
    (10, 'no array', $$UPDATE damaged SET data = 'x' WHERE file = 'embeddings.npy'$$),
    (11, 'a block twice', $$INSERT INTO damaged SELECT * FROM moved WHERE file = 'corpus.jsonl'$$),
    (12, 'a block is missing', $$UPDATE damaged SET block = 1 WHERE file = 'corpus.jsonl'$$),
    (13, 'a document twice', $$UPDATE damaged SET data = data || data
                               WHERE file = 'corpus.jsonl'$$),
    (14, 'another version', $$UPDATE damaged SET data = convert_to(replace(
        convert_from(data, 'UTF8'), '"rag_version": "', '"rag_version": "9.'), 'UTF8')
        WHERE file = 'metadata.json'$$),
    (15, 'another format', $$UPDATE damaged SET data = convert_to(replace(
        convert_from(data, 'UTF8'), '"format_version": 1', '"format_version": 2'), 'UTF8')
        WHERE file = 'metadata.json'$$),
    (16, 'another model', $$UPDATE damaged SET data = convert_to(regexp_replace(
        convert_from(data, 'UTF8'), '"(fingerprint|identity)": "[0-9a-f]{12}',
        '"\1": "000000000000', 'g'), 'UTF8') WHERE file = 'metadata.json'$$),
    (17, 'a name with ..', $$UPDATE damaged SET data = convert_to(replace(
        convert_from(data, 'UTF8'), '"rag_name": "boats', '"rag_name": "../boats'), 'UTF8')
        WHERE file = 'metadata.json'$$),
    (18, 'too large', $$UPDATE damaged SET data = convert_to(regexp_replace(
        convert_from(data, 'UTF8'), '("embeddings.npy": \{\s*"bytes": )\d+',
        '\1 9000000000000000000'), 'UTF8') WHERE file = 'metadata.json'$$),
    (19, '1e400', $$UPDATE damaged SET data = convert_to(regexp_replace(
        convert_from(data, 'UTF8'), '"baseline": [0-9.]+', '"baseline": 1e400'), 'UTF8')
        WHERE file = 'metadata.json'$$),
    (20, 'no tokens', $$UPDATE damaged SET data = convert_to(regexp_replace(
        convert_from(data, 'UTF8'), '"max_tokens": [0-9]+', '"max_tokens": 0'), 'UTF8')
        WHERE file = 'metadata.json'$$),
    (21, 'beyond its quota', $$UPDATE damaged SET data = convert_to(replace(
        convert_from(data, 'UTF8'), '"max_documents": 10', '"max_documents": 1'), 'UTF8')
        WHERE file = 'metadata.json'$$)
) AS d (n, name, change) ORDER BY n;
SELECT count(*) AS imported FROM rag.collections WHERE name = 'boats';
SELECT count(*) AS left_over FROM rag.documents WHERE collection = 'boats';
CREATE TABLE wrong (file text, data bytea);
SELECT rag_import_blocks('wrong'); :sqlstate
SELECT rag_import_blocks(NULL); :sqlstate

-- rights
SELECT collection FROM rag_import_blocks('moved');
CREATE ROLE bundle_admin IN ROLE rag_admin;
CREATE ROLE bundle_reader IN ROLE rag_reader;
SELECT rag_grant_collection('boats', 'bundle_admin', 'write');
SET ROLE bundle_reader;
SELECT rag_export_blocks('boats'); :sqlstate
SET ROLE bundle_admin;
SELECT rag_export_blocks('boats'); :sqlstate
SELECT rag_export_collection('boats', '/tmp/x'); :sqlstate
SELECT rag_import_collection('/tmp/x'); :sqlstate
SELECT rag_bundle_info('/tmp/x'); :sqlstate
SELECT rag_import_blocks('moved', 'mine'); :sqlstate
RESET ROLE;
SELECT rag_alter_collection('boats', owner => 'bundle_admin');
SET ROLE bundle_admin;
SELECT count(DISTINCT file) AS files FROM rag_export_blocks('boats');
SELECT rag_export_collection('boats', '/tmp/x'); :sqlstate
RESET ROLE;
-- a policy hides documents from the owner
CREATE POLICY no_second ON rag.chunks AS RESTRICTIVE FOR SELECT TO bundle_admin
    USING (uri <> 'boat:2');
SET ROLE bundle_admin;
SELECT rag_export_blocks('boats'); :sqlstate
RESET ROLE;
DROP POLICY no_second ON rag.chunks;
CREATE POLICY no_ninth ON rag.documents AS RESTRICTIVE FOR SELECT TO bundle_admin
    USING (knowledge_id <> 9);
SET ROLE bundle_admin;
SELECT rag_export_blocks('boats'); :sqlstate
RESET ROLE;
DROP POLICY no_ninth ON rag.documents;
-- a model that the importing role may not use: named by an empty collection, and by its retriever
SELECT rag_create_model('paid', 'embedding', 'openai',
    '{"base_url": "https://llm.example.org/v1", "model": "small", "dimensions": 256}');
SELECT rag_create_retriever('paid', '{"embedding": {"model": "paid"}}');
SELECT rag_create_collection('paid', model => 'paid');
SELECT rag_create_collection('paid-too', 'paid');
CREATE TABLE paid AS SELECT * FROM rag_export_blocks('paid');
CREATE TABLE paid_too AS SELECT * FROM rag_export_blocks('paid-too');
GRANT SELECT ON paid, paid_too TO bundle_admin;
SELECT rag_drop_collection('paid'), rag_drop_collection('paid-too');
SET ROLE bundle_admin;
SELECT rag_import_blocks('paid'); :sqlstate
SELECT rag_import_blocks('paid_too'); :sqlstate
RESET ROLE;
SELECT rag_drop_retriever('paid');
SET ROLE bundle_admin;
SELECT rag_import_blocks('paid_too'); :sqlstate
RESET ROLE;
SELECT rag_grant_model('paid', 'bundle_admin');
SET ROLE bundle_admin;
SELECT collection FROM rag_import_blocks('paid');
SELECT collection FROM rag_import_blocks('paid_too');
SELECT rag_drop_collection('paid'), rag_drop_collection('paid-too');
SELECT rag_drop_retriever('paid');
RESET ROLE;
SELECT rag_drop_model('paid');
DROP TABLE paid, paid_too;

-- folders of the server
SELECT rag_export_collection('boats', '/tmp/x'); :sqlstate
SET rag.bundle_folders = '/nonexistent, /tmp';
SELECT rag_export_collection('boats', '/nonexistent/x'); :sqlstate
SELECT rag_export_collection('boats', '/etc/x'); :sqlstate
SELECT rag_export_collection('boats', 'x'); :sqlstate
SELECT rag_export_collection('boats', '/tmp/../etc/x'); :sqlstate
SELECT rag_export_collection('boats', NULL); :sqlstate
SELECT rag_export_collection('nowhere', '/tmp/x'); :sqlstate
SELECT rag_import_collection('/tmp/rag-no-such-bundle'); :sqlstate
SELECT rag_bundle_info('/tmp/rag-no-such-bundle'); :sqlstate
SELECT rag_bundle_info('/etc/x'); :sqlstate
SELECT rag_bundle_info('x'); :sqlstate
SELECT rag_bundle_info(NULL); :sqlstate
SELECT rag_bundle_info('/tmp/x', NULL); :sqlstate
RESET rag.bundle_folders;

SELECT rag_drop_collection('boats');
DROP FUNCTION snapshot, import_damaged;
DROP TABLE before, moved, again, wrong;
DROP ROLE bundle_admin, bundle_reader;
