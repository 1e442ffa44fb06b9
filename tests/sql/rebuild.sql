-- rag_rebuild_collection, and the settings that wait for it.
\set sqlstate '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
\set state 'SELECT state, detail FROM rag_collection_status(''moving'')'
\set chunks 'SELECT count(*) AS chunks, count(DISTINCT document_id) AS documents, max(length(content)) <= 120 AS are_small FROM rag.chunks WHERE collection = ''moving'''
SELECT rag_create_collection('moving', chunk_size => 600);

-- without chunks, changes act at once, and there is nothing to rebuild
SELECT rag_alter_collection('moving', chunk_size => 500, title_weight => 3);
SELECT chunk_size, title_weight, wanted FROM rag.collections WHERE name = 'moving';
CALL rag_rebuild_collection('moving');

-- texts, source code and chunks of an application
SELECT action FROM rag_add_documents(jsonb_build_array(
    jsonb_build_object('uri', 'a.md', 'metadata', '{"owner": "ann", "team": "x"}'::jsonb, 'content',
        E'# Keys\n\n' || repeat('Rotate the signing keys each month. ', 20)
        || E'\n\n## Locks\n\n' || repeat('Locks are changed once a year. ', 20)),
    jsonb_build_object('uri', 'b.txt', 'document_type', 'text', 'content',
        repeat('Backups are kept for ten days. ', 40))), 'moving');
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-0000-0000-000000000001",
    "uri": "given", "text": "An application has split this text."}]', 'moving');
CREATE TABLE before AS SELECT * FROM rag.chunks WHERE collection = 'moving';
:state;

-- the same settings: the same chunks, in another partition
SELECT partition FROM rag.collections WHERE name = 'moving';
CALL rag_rebuild_collection('moving');
SELECT partition FROM rag.collections WHERE name = 'moving';
SELECT count(*) AS same FROM before b JOIN rag.chunks c
    ON c.chunk_id = b.chunk_id AND c.embedding_key = b.embedding_key AND c.content = b.content
   AND c.indexed_at = b.indexed_at AND c.collection = b.collection;
SELECT count(*) = (SELECT count(*) FROM before) AS all_of_them FROM rag.chunks
    WHERE collection = 'moving';

-- other settings wait, and are told
SELECT rag_alter_collection('moving', chunk_size => 120, chunk_overlap => 0,
                            metadata_whitelist => '{owner}', text_config => 'simple');
SELECT chunk_size, wanted FROM rag.collections WHERE name = 'moving';
:state;
:chunks;
-- a value that the collection has is not wanted any more
SELECT rag_alter_collection('moving', text_config => 'english');
SELECT wanted FROM rag.collections WHERE name = 'moving';
-- writes go on with the present settings
SELECT success FROM rag_add_document(repeat('Access is granted by the owner. ', 10), 'c.txt',
    collection => 'moving');
CALL rag_rebuild_collection('moving');
SELECT chunk_size, chunk_overlap, metadata_whitelist, wanted FROM rag.collections
    WHERE name = 'moving';
:state;
:chunks;
SELECT DISTINCT metadata FROM rag.chunks WHERE collection = 'moving' ORDER BY 1;
SELECT d.uri, d.chunk_count = count(*) AS counted
    FROM rag.documents d JOIN rag.chunks c USING (collection, document_id)
    WHERE d.collection = 'moving' GROUP BY d.collection, d.document_id ORDER BY d.uri;
SELECT uri FROM rag_search('how often do we change keys?', 'moving', top_k => 1);
-- the same document is unchanged afterwards, and the default size comes back
SELECT rag_alter_collection('moving', chunk_size => 0, chunk_overlap => -1,
                            metadata_whitelist => '{}');
CALL rag_rebuild_collection('moving');
SELECT chunk_size, chunk_overlap, metadata_whitelist FROM rag.collections WHERE name = 'moving';
SELECT title_weight, text_config FROM rag.collections WHERE name = 'moving';
SELECT rag_alter_collection('moving', title_weight => 0);
CALL rag_rebuild_collection('moving');
SELECT uri, keyword_score > 0 AS scored
    FROM rag_search('backups', 'moving', top_k => 1, mode => 'keyword');
-- nothing is left
SELECT count(*) FROM rag_internal.rebuild;
SELECT count(*) FROM rag_internal.rebuilt_document;
SELECT count(*) AS partitions FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname = 'rag_internal' AND relname LIKE 'rag\_kb\_moving%' AND relkind = 'r';

-- a source: what a run indexed has not drifted, and the next run has nothing to do
CREATE TABLE pages (id int PRIMARY KEY, body text);
INSERT INTO pages SELECT i, 'Page ' || i || '. ' || repeat('It is about access. ', 30)
    FROM generate_series(1, 3) i;
SELECT rag_create_source('pages', 'table', '{"relation": "pages"}', 'moving',
                         schedule => '@yearly');
SELECT rag_sync('pages') > 0 AS done;
SELECT rag_alter_collection('moving', chunk_size => 150);
CALL rag_rebuild_collection('moving');
SELECT count(*) AS drifted FROM rag_internal.drifted_documents('moving', 'pages');
SELECT rag_sync('pages') > 0 AS done;
SELECT documents_added, documents_updated, documents_unchanged FROM rag.runs
    WHERE source = 'pages' ORDER BY run_id DESC LIMIT 1;

-- retrievers: other options of the index make collections stale
SELECT rag_create_retriever('wide', '{"storageConfig": {"type": "hnsw", "ext": {"m": 24}}}');
SELECT rag_alter_collection('moving', retriever => 'wide');
SELECT retriever, wanted FROM rag.collections WHERE name = 'moving';
SELECT rag_drop_retriever('wide'); :sqlstate
CALL rag_rebuild_collection('moving');
SELECT retriever, wanted FROM rag.collections WHERE name = 'moving';
:state;

-- strategies: into a shared partition, split again in it, and back
SELECT rag_create_retriever('together', '{"storageConfig": {"indexStrategy":
    {"mode": "fixed", "fixedName": "together"}}}');
SELECT rag_create_collection('other', retriever => 'together', title_weight => 0);
SELECT success FROM rag_add_document('Another collection.', 'other', collection => 'other');
SELECT rag_alter_collection('moving', retriever => 'together');
CALL rag_rebuild_collection('moving');
SELECT name, partition, index_strategy FROM rag.collections WHERE name IN ('moving', 'other')
    ORDER BY name;
SELECT rag_alter_collection('moving', chunk_size => 200);
CALL rag_rebuild_collection('moving');
:state;
SELECT collection, count(DISTINCT document_id) AS documents, count(*) > 1 AS several
    FROM rag.chunks WHERE collection IN ('moving', 'other') GROUP BY 1 ORDER BY 1;
SELECT rag_alter_collection('moving', title_weight => 5); :sqlstate
SELECT rag_alter_collection('moving', retriever => 'default');
CALL rag_rebuild_collection('moving');
SELECT name, index_strategy FROM rag.collections WHERE name IN ('moving', 'other') ORDER BY name;
SELECT collection, count(DISTINCT document_id) AS documents FROM rag.chunks
    WHERE collection IN ('moving', 'other') GROUP BY 1 ORDER BY 1;
SELECT count(*) AS drifted FROM rag_internal.drifted_documents('moving', 'pages');
-- a long name: the relation that is filled first has a shorter one, and does not stay
SELECT rag_create_collection(repeat('n', 56));
SELECT success FROM rag_add_document('A long name.', 'long', collection => repeat('n', 56));
SELECT rag_alter_collection(repeat('n', 56), retriever => 'together', title_weight => 0);
CALL rag_rebuild_collection(repeat('n', 56));
SELECT collection, count(*) FROM rag.chunks WHERE partition = 'together' GROUP BY 1 ORDER BY 1;
SELECT rag_drop_collection(repeat('n', 56));
SELECT relname FROM pg_class
    WHERE relnamespace = 'rag_internal'::regnamespace AND relname LIKE 'rag\_rebuild\_%';
SELECT rag_drop_collection('other');
SELECT rag_drop_retriever('together');

-- another model, with other dimensions: also for chunks of an application. Searches use the former
-- model until the rebuild has ended.
\getenv files RAG_TEST_FILES
\set folder :files '/models/modernbert'
SELECT rag_create_model('tiny', 'embedding', 'local', jsonb_build_object('path', :'folder'));
SELECT rag_create_collection('models');
SELECT count(*) FROM (VALUES ('bread', 'Bread is baked in the morning.'),
        ('keys', 'Keys are rotated each quarter.')) AS v (uri, t),
    LATERAL rag_add_document(t, uri, collection => 'models');
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-0000-0000-000000000001",
    "uri": "given", "text": "Tea is steeped for three minutes."}]', 'models');
SELECT rag_alter_collection('models', model => 'tiny');
SELECT rag_drop_model('tiny'); :sqlstate
SELECT state, detail, model, embedding_dimension FROM rag_collection_status('models');
SELECT uri FROM rag_search('when is bread baked?', 'models', mode => 'vector', top_k => 1);
CALL rag_rebuild_collection('models');
SELECT state, model, embedding_dimension FROM rag_collection_status('models');
SELECT count(*) AS chunks, min(rag_functions.vector_dims(embedding)) AS least,
    max(rag_functions.vector_dims(embedding)) AS most
    FROM rag.chunks WHERE collection = 'models';
SELECT count(*) FROM rag_search('when is bread baked?', 'models', mode => 'vector');
SELECT rag_alter_collection('models', model => '');
CALL rag_rebuild_collection('models');
SELECT state, model, embedding_dimension FROM rag_collection_status('models');
SELECT uri FROM rag_search('when is bread baked?', 'models', mode => 'vector', top_k => 1);
SELECT rag_drop_collection('models'), rag_drop_model('tiny');

-- a transaction that cannot be serialized is an error: nothing is copied again because of it
CREATE SEQUENCE attempts;
CREATE FUNCTION fail_to_serialize() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.nextval('public.attempts');
    RAISE EXCEPTION 'could not serialize access' USING ERRCODE = 'serialization_failure';
END $$;
CREATE TRIGGER fail_to_serialize BEFORE UPDATE OF model_fingerprint
    ON rag_internal.collection
    FOR EACH ROW EXECUTE FUNCTION fail_to_serialize();
SET statement_timeout = '1min';
CALL rag_rebuild_collection('moving'); :sqlstate
RESET statement_timeout;
SELECT last_value AS attempts FROM attempts;
DROP TRIGGER fail_to_serialize ON rag_internal.collection;
CALL rag_rebuild_collection('moving');
DROP FUNCTION fail_to_serialize;
DROP SEQUENCE attempts;

-- mistakes
CALL rag_rebuild_collection(NULL); :sqlstate
CALL rag_rebuild_collection('nowhere'); :sqlstate
SELECT rag_alter_collection('moving', chunk_size => 10, chunk_overlap => 10); :sqlstate
SELECT rag_alter_collection('moving', chunk_size => -5); :sqlstate
SELECT rag_alter_collection('moving', chunk_unit => 'words'); :sqlstate
SELECT rag_alter_collection('moving', title_weight => 11); :sqlstate
SELECT rag_alter_collection('moving', text_config => 'klingon'); :sqlstate
SELECT rag_alter_collection('moving', metadata_whitelist => '{a,a}'); :sqlstate
BEGIN;
CALL rag_rebuild_collection('moving'); :sqlstate
ROLLBACK;
SET default_transaction_isolation = 'repeatable read';
CALL rag_rebuild_collection('moving'); :sqlstate
RESET default_transaction_isolation;
CREATE ROLE rebuild_stranger IN ROLE rag_admin;
SET ROLE rebuild_stranger;
CALL rag_rebuild_collection('moving'); :sqlstate
RESET ROLE;
DROP ROLE rebuild_stranger;

SELECT rag_drop_source('pages', keep_documents => false);
SELECT rag_drop_collection('moving');
SELECT rag_drop_retriever('wide');
DROP TABLE before, pages;
