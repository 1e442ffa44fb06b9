-- rag_split shows how a text is split into chunks.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

-- split by paragraphs, then lines, sentences, words, characters; start_index counts characters from
-- 0
SELECT * FROM rag_split(
    E'# Keys\n\nKeys sign tokens. They are replaced every 90 days.\n\nAsk the security team.',
    chunk_size => 40, chunk_overlap => 0);
SELECT * FROM rag_split('one two three four five six seven eight nine ten', 'text', 20, 10);
SELECT * FROM rag_split('abcdefghijklmnopqrstuvwxyz', 'text', 10, 0);
SELECT * FROM rag_split('short', 'text');

-- a chunk is the text at its start_index, in characters, not bytes
\set text 'Zürich, Besançon und Malmö liegen nicht am Meer. 東京は日本の首都です。 Ядро, ель, ёж. 👩‍👩‍👧‍👦 family. e\u0301tude. The end.'
CREATE TEMP TABLE texts AS
    SELECT 'words' AS name, string_agg('word' || i, ' ') AS content
    FROM generate_series(1, 400) AS i
    UNION ALL
    SELECT 'paragraphs',
    string_agg('Paragraph ' || i || ' has a sentence. And another one, somewhat longer.', E'\n\n')
    FROM generate_series(1, 60) AS i
    UNION ALL SELECT 'lines', string_agg(repeat('x', i % 50), E'\n')
    FROM generate_series(1, 200) AS i
    UNION ALL SELECT 'scripts', repeat(:'text' || E'\n', 10)
    UNION ALL SELECT 'windows', repeat(E'A line.\r\n', 100)
    UNION ALL SELECT 'one word', repeat('x', 3000)
    UNION ALL SELECT 'blanks', 'a' || repeat(E' \t\n', 1000) || 'b';
SELECT name, chunk_size, bool_and(substr(t.content, start_index + 1,
    length(s.content)) = s.content) AS exact,
    bool_and(length(s.content) <= chunk_size) AS within_size, count(*) > 1 AS several,
    bool_and(btrim(s.content, E' \t\r\n') <> '') AS none_blank,
    bool_and(chunk_index = n) AS numbered,
    bool_and(start_index > before) AS in_order
FROM texts t, unnest(ARRAY[1, 7, 100, 1000]) AS chunk_size,
     LATERAL (SELECT *, row_number() OVER () - 1 AS n, lag(start_index, 1, -1) OVER () AS before
              FROM rag_split(t.content, 'text', chunk_size, chunk_size / 5)) AS s
GROUP BY name, chunk_size ORDER BY name COLLATE "C", chunk_size;

-- only white space is lost between chunks
SELECT name, regexp_replace(string_agg(s.content, '' ORDER BY s.chunk_index), '\s', '',
    'g') = regexp_replace(t.content, '\s', '', 'g') AS whole
FROM texts t, rag_split(t.content, 'text', 100, 0) AS s GROUP BY name, t.content
ORDER BY name COLLATE "C";

-- the text of HTML is split
SELECT content
    FROM rag_split('<html><head><title>T</title><script>no()</script></head>'
    '<body><h1>Head</h1><p>Some <b>bold</b> text.</p></body></html>', 'html');
-- front matter is not part of the text
SELECT content FROM rag_split(E'---\ntitle: T\n---\nText.');

-- chunks carry metadata of the document and of the caller
SELECT content, metadata
    FROM rag_split(E'---\nlicence: MIT\nteam: blue\n---\nA [link](https://example.org/).',
    metadata => '{"team": "red"}');
SELECT * FROM rag_split('Text.', metadata => '[1]'); :sqlstate

-- no content, no chunks
SELECT count(*) FROM rag_split('', 'text');
SELECT count(*) FROM rag_split(E' \n ', 'text');
SELECT * FROM rag_split('a', 'word'); :sqlstate
SELECT * FROM rag_split('a', chunk_size => 0); :sqlstate
SELECT * FROM rag_split('a', chunk_size => -5); :sqlstate
SELECT * FROM rag_split('a', chunk_overlap => -1); :sqlstate
SELECT * FROM rag_split('a', chunk_size => 10, chunk_overlap => 10); :sqlstate
SELECT * FROM rag_split('no pdf', 'pdf'); :sqlstate
