-- Chunks with nearly equal texts: rag_duplicates, and the setting distinct_similarity.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

SELECT rag_create_collection('notes');
CREATE FUNCTION pg_temp.add(uri text, content text) RETURNS boolean LANGUAGE sql AS
    $$ SELECT success FROM rag_add_document(content, uri, document_type => 'text',
                                            title => initcap(uri), collection => 'notes') $$;
\set keys 'Tokens are signed with a key that is replaced every 90 days. The security team rotates the key and keeps the former one for a week, so that old tokens stay valid until they expire.'
SELECT count(*) FILTER (WHERE pg_temp.add(uri, content)) AS added FROM (VALUES
    ('keys-2024', replace(:'keys', '90', '30')),
    ('keys-2025', :'keys'),
    ('keys-copy', upper(replace(:'keys', '. ', E'.\n\n'))),
    ('keys-short', left(:'keys', 60)),
    ('pump-1', 'The pump leaks at the lower seal. Replace the seal, and test it with cold water.'),
    ('pump-2', 'The pump leaks at the lower seal. Replace the seal and test it with hot water.'),
    ('menu', 'The canteen has soup on Mondays, and fish on Fridays.'),
    ('water', '水漏れがあります。ポンプの下のシールを交換して、冷たい水で試してください。'),
    ('water-2', '水漏れがあります。ポンプの下のシールを交換して、冷たい水で試してください!'))
    AS v (uri, content);

SELECT group_number, round(similarity::numeric, 2) AS similarity, title, uri, chunk_index
FROM rag_duplicates('notes');
SELECT group_number, round(similarity::numeric, 2) AS similarity, uri
FROM rag_duplicates('notes', 0.7);
SELECT group_number, round(similarity::numeric, 2) AS similarity, uri
FROM rag_duplicates('notes', 1);
SELECT count(*) = count(c.*) AS ids_are_those_of_chunks
FROM rag_duplicates('notes') AS d
     LEFT JOIN rag.chunks AS c USING (document_id, chunk_id, uri, chunk_index);
SELECT rag_create_collection('none');
SELECT count(*) FROM rag_duplicates('none');

-- a search folds them by choice
SELECT rank, uri, also_at FROM rag_search('key rotation', 'notes', 3, 'keyword');
SELECT rank, uri, also_at FROM rag_search('key rotation', 'notes', 3, 'keyword',
                                          settings => '{"distinct_similarity": 0.8}');
SELECT count(*) FROM rag_search('key pump', 'notes', 10, settings => '{"distinct_similarity": 1}');
SELECT count(*) FROM rag_search('key pump', 'notes', 10);

-- a role compares what it may see
CREATE ROLE duplicates_reader;
GRANT rag_reader TO duplicates_reader;
SELECT rag_grant_collection('notes', 'duplicates_reader', 'read');
CREATE POLICY no_copies ON rag.chunks FOR SELECT TO duplicates_reader USING (uri <> 'keys-copy');
SET ROLE duplicates_reader;
SELECT group_number, uri FROM rag_duplicates('notes');
RESET ROLE;
DROP POLICY no_copies ON rag.chunks;
SELECT rag_revoke_collection('notes', 'duplicates_reader', 'read');
SET ROLE duplicates_reader;
SELECT * FROM rag_duplicates('notes');
:sqlstate
RESET ROLE;
DROP ROLE duplicates_reader;

-- what is refused
SELECT * FROM rag_duplicates('nowhere');
SELECT * FROM rag_duplicates('notes', 0.69);
:sqlstate
SELECT * FROM rag_duplicates('notes', 'NaN');
SELECT * FROM rag_duplicates('notes', NULL);
:sqlstate
SELECT * FROM rag_search('key', 'notes', settings => '{"distinct_similarity": 0.4}');
:sqlstate
SELECT * FROM rag_search('key', 'notes',
                         settings => '{"distinct_similarity": 0.9, "distinct_text": false}');
:sqlstate
SELECT rag_drop_collection('notes'), rag_drop_collection('none');
