-- Collections whose documents have different languages: text_config => 'auto'.
\set sqlstate '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT rag_detect_language(text) FROM (VALUES
    ('The houses at the river were sold last year.'),
    ('Die Häuser am Fluss wurden letztes Jahr verkauft.'),
    ('Les maisons au bord de la rivière ont été vendues.'),
    ('川のそばの家は去年売れました。'), (''), ('42'), (NULL)) AS t (text);

SELECT rag_create_collection('mixed', text_config => 'auto', metadata_whitelist => '{owner}');
SELECT text_config FROM rag.collections WHERE name = 'mixed';
SELECT uri, action FROM rag_add_documents(jsonb_build_array(
    jsonb_build_object('uri', 'en', 'content',
        'The houses at the river were sold last year. The buyers come from Berlin.'),
    jsonb_build_object('uri', 'de', 'content',
        'Die Häuser am Fluss wurden letztes Jahr verkauft. Die Käufer kommen aus Berlin.'),
    jsonb_build_object('uri', 'fr', 'content',
        'Les maisons au bord de la rivière ont été vendues. Les acheteurs viennent de Berlin.'),
    jsonb_build_object('uri', 'ja', 'content', '川のそばの家は去年売れました。 Berlin'),
    jsonb_build_object('uri', 'pl', 'content',
        'Domy nad rzeką zostały sprzedane w zeszłym roku. Nabywcy są z Berlina.'),
    jsonb_build_object('uri', 'short', 'content', 'Berlin 42'),
    jsonb_build_object('uri', 'said', 'metadata', '{"language": "de-AT", "owner": "ann"}'::jsonb,
        'content', 'Jänner, Jänners'),
    jsonb_build_object('uri', 'unknown', 'metadata', '{"language": 7}'::jsonb,
        'content', 'These numbers name no language, but the houses are here.')), 'mixed')
ORDER BY uri;
-- it is stored, and the whitelist does not remove it
SELECT d.uri, d.metadata ->> 'language' AS language, c.metadata
    FROM rag.documents d JOIN rag.chunks c USING (document_id)
    WHERE d.collection = 'mixed' ORDER BY d.uri;
SELECT uri FROM rag_search('Berlin', 'mixed', mode => 'keyword', filter => '{"language": "fr"}');

-- inflections are found in each language
PREPARE found (text) AS
    SELECT $1 AS query, coalesce(string_agg(uri, ' ' ORDER BY uri), '') AS uris
    FROM rag_search($1, 'mixed', mode => 'keyword', top_k => 20);
EXECUTE found('house');
EXECUTE found('Haus');
EXECUTE found('Flusses');
EXECUTE found('buyer');
EXECUTE found('maison');
EXECUTE found('Jänner');
EXECUTE found('rzeką');
EXECUTE found('rzeka');
EXECUTE found('Berlin');
-- one query in two languages
EXECUTE found('house Haus');
-- stop words of the query's language
EXECUTE found('who are the people that have come from the river');
EXECUTE found('wer sind die Leute, die aus der Stadt und von den Bergen kommen');
-- no words: the meaning answers
SELECT count(*) > 0 AS found FROM rag_search('–', 'mixed');

-- each text has a term for its language
SELECT text_config, documents, round(average_length::numeric, 1) AS average_length
    FROM rag_bm25_info((SELECT i.indexrelid FROM pg_index i
        JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
        WHERE a.amname = 'rag_bm25'
            AND i.indrelid = (SELECT format('rag_internal.%I', partition)::regclass
            FROM rag.collections WHERE name = 'mixed')));

-- other metadata do not make a document forget its language
SELECT rag_update_document(document_id, metadata => '{"owner": "bob"}')
    FROM rag.documents WHERE collection = 'mixed' AND uri = 'de';
SELECT metadata FROM rag.chunks WHERE collection = 'mixed' AND uri = 'de';
SELECT rag_update_document(document_id, metadata => '{"language": "en"}')
    FROM rag.documents WHERE collection = 'mixed' AND uri = 'de';
EXECUTE found('Haus');
SELECT rag_update_document(document_id, metadata => '{"language": "german"}')
    FROM rag.documents WHERE collection = 'mixed' AND uri = 'de';
EXECUTE found('Haus');

-- from auto, and to it again: a rebuild
SELECT rag_alter_collection('mixed', text_config => 'simple');
SELECT wanted FROM rag.collections WHERE name = 'mixed';
CALL rag_rebuild_collection('mixed');
EXECUTE found('Haus');
EXECUTE found('Häuser');
SELECT success FROM rag_add_document('Das Haus gehört der Stadt, und die Türen sind offen.', 'new',
    collection => 'mixed', metadata => '{"owner": "eve"}');
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-0000-0000-000000000001",
    "uri": "given", "text": "Eine Anwendung hat diesen Text über Häuser selbst geteilt.",
    "metadata": {"owner": "app"}}]', 'mixed');
SELECT metadata FROM rag.documents WHERE collection = 'mixed' AND uri = 'new';
SELECT rag_alter_collection('mixed', text_config => 'auto');
CALL rag_rebuild_collection('mixed');
SELECT uri, metadata FROM rag.documents
    WHERE collection = 'mixed' AND uri IN ('new', 'given', 'said') ORDER BY uri;
SELECT uri, metadata FROM rag.chunks
    WHERE collection = 'mixed' AND uri IN ('new', 'given', 'said') ORDER BY uri;
EXECUTE found('Haus');
EXECUTE found('house');
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-0000-0000-000000000002",
    "uri": "given", "text": "Another text of an application is about houses and doors."}]',
        'mixed');
SELECT content, metadata FROM rag.chunks WHERE collection = 'mixed' AND uri = 'given' ORDER BY 1;
EXECUTE found('house');

-- an index of a table of one's own: a mark names the language of a text
CREATE TABLE posts (id int PRIMARY KEY, language text, body text);
CREATE INDEX posts_body ON posts
    USING rag_bm25 ((chr(1) || coalesce(language, '') || chr(1) || body))
    WITH (text_config = 'rag.auto');
INSERT INTO posts VALUES (1, 'de', 'zwei Häuser'), (2, 'en', 'two houses'), (3, NULL, 'houses'),
    (4, repeat('x', 100), 'a house'), (5, 'en', ''), (6, 'de', NULL);
SELECT id, round(((chr(1) || coalesce(language, '') || chr(1) || body)
        <@> rag_bm25_query('house', 'posts_body'))::numeric, 3) AS score
    FROM posts ORDER BY (chr(1) || coalesce(language, '') || chr(1) || body)
        <@> rag_bm25_query('house', 'posts_body'), id;
-- marks that are none, and marks in texts and queries
INSERT INTO posts VALUES (7, NULL, chr(1) || 'en' || chr(1) || 'houses in the rest'),
    (8, 'en', chr(1)), (9, 'de', 'ein Haus' || chr(1) || 'en' || chr(1) || 'houses');
INSERT INTO posts SELECT i, (ARRAY['en', 'de', 'fr', 'pl', 'xx'])[1 + i % 5],
        (ARRAY['house', 'Häuser', 'the', 'die', 'maisons', 'domy', 'log'])[1 + i % 7]
        || ' ' || (ARRAY['logs', 'Haus', 'and', 'und', 'Berlin'])[1 + i % 11 % 5]
    FROM generate_series(100, 499) i;
CREATE VIEW marked AS
    SELECT id, chr(1) || coalesce(language, '') || chr(1) || body AS text FROM posts;
SELECT id FROM marked WHERE text @@@ rag_bm25_query('rest houses', 'posts_body') AND id < 100
    ORDER BY id;
SELECT count(*) FROM marked
    WHERE text @@@ rag_bm25_query(chr(1) || 'en' || chr(1), 'posts_body');
-- the index finds the rows and the scores that the operator computes
CREATE FUNCTION ranked(query text) RETURNS TABLE (id int, score float8) LANGUAGE plpgsql AS $$
BEGIN RETURN QUERY EXECUTE format(
    'SELECT id, text <@> rag_bm25_query(%1$L, ''posts_body'') FROM marked
     WHERE text @@@ rag_bm25_query(%1$L, ''posts_body'')
     ORDER BY text <@> rag_bm25_query(%1$L, ''posts_body''), id LIMIT 1000', query); END $$;
SET enable_seqscan = off;
CREATE TABLE by_index AS SELECT q.query, r.* FROM unnest(ARRAY['house', 'Haus', 'die maison',
    'the houses and logs', 'Berlin', 'nothing']) AS q (query), ranked(q.query) r;
SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off;
CREATE TABLE by_operator AS SELECT q.query, r.* FROM unnest(ARRAY['house', 'Haus', 'die maison',
    'the houses and logs', 'Berlin', 'nothing']) AS q (query), ranked(q.query) r;
RESET enable_seqscan; RESET enable_indexscan; RESET enable_bitmapscan;
SELECT query, count(*) FROM by_index GROUP BY query ORDER BY query;
SELECT count(*) AS different FROM (
    (TABLE by_index EXCEPT TABLE by_operator) UNION ALL
    (TABLE by_operator EXCEPT TABLE by_index)) d;
REINDEX INDEX posts_body;
SELECT count(*) AS different FROM by_index b
    WHERE score IS DISTINCT FROM (SELECT r.score FROM ranked(b.query) r WHERE r.id = b.id);
SELECT id FROM posts WHERE (chr(1) || coalesce(language, '') || chr(1) || body)
        @@@ rag_bm25_query('Haus', 'posts_body') AND id < 100 ORDER BY id;
DROP TEXT SEARCH CONFIGURATION rag.auto;
:sqlstate;

-- in one language, a query is what it is with the configuration of this language
SELECT rag_create_collection('one', text_config => 'auto', retriever => 'default');
SELECT action FROM rag_add_document('The houses at the river were sold, and not the boats.', 'one',
    collection => 'one');
SELECT count(*) FROM rag_search('house', 'one', mode => 'keyword');
SELECT detail FROM rag_explain_search('the house and the boat', 'one', mode => 'keyword')
    WHERE detail LIKE '%words:%';

-- wrong names
SELECT rag_create_collection('wrong', text_config => 'automatic');
:sqlstate;
DROP FUNCTION ranked;
DROP TABLE by_index, by_operator;
DROP TABLE posts CASCADE;
SELECT rag_drop_collection('mixed'), rag_drop_collection('one');

-- the script decides before names and codes in Latin letters
SELECT text, rag_detect_language(text) FROM (VALUES
    ('アップデート後、AquaPump X200にE-105が表示され、12分後に停止します。'),
    ('E-117 エラーが出る'), ('AquaPump X200 이 물이 샙니다'), ('AquaPump X200 รั่ว'),
    ('设备显示错误E-117'), ('北京大学'), ('AquaPump X200')) AS t (text);
-- short texts have the language of most others
SELECT rag_create_collection('tickets', text_config => 'auto');
SELECT uri, action FROM rag_add_documents(jsonb_build_array(
    jsonb_build_object('uri', 'first', 'content', 'E-117'),
    jsonb_build_object('uri', 'a', 'content', 'Die Pumpe verliert seit gestern Wasser.'),
    jsonb_build_object('uri', 'b', 'content', 'Der Motor wird nach einer Stunde zu heiß.'),
    jsonb_build_object('uri', 'c', 'content', 'Das Gerät zeigt etwas, das ich nicht kenne.')),
    'tickets') ORDER BY uri COLLATE "C";
SELECT uri, action FROM rag_add_documents(jsonb_build_array(
    jsonb_build_object('uri', 'short', 'content', 'AquaPump X200'),
    jsonb_build_object('uri', 'script', 'content', '北京大学'),
    jsonb_build_object('uri', 'english', 'content', 'The pump has been leaking since yesterday.')),
    'tickets') ORDER BY uri COLLATE "C";
SELECT uri, metadata ->> 'language' AS language FROM rag.documents
    WHERE collection = 'tickets' ORDER BY uri COLLATE "C";
-- and those of an application that of their document
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-0000-0000-000000000003",
    "uri": "app", "text": "Sikkerhed"}, {"chunk_id": "00000000-0000-0000-0000-000000000004",
    "uri": "app", "text": "Hvor er det nærmeste hospital nu, og hvad skal jeg gøre?"}]',
    'tickets');
SELECT content, metadata FROM rag.chunks WHERE collection = 'tickets' AND uri = 'app' ORDER BY 1;
SELECT rag_drop_collection('tickets');
