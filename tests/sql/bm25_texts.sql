-- Texts of all kinds in an index rag_bm25: long, repeated, in other scripts.
SET client_min_messages = notice;
-- costs of disabled plans are high
SET jit = off;

CREATE TABLE odd (id int, body text);
CREATE INDEX odd_body ON odd USING rag_bm25 (body) WITH (text_config = 'english');
-- a megabyte; words of more than 2 KB; a word that is repeated 100,000 times
INSERT INTO odd VALUES (1, (SELECT string_agg('word' || i, ' ') FROM generate_series(1, 110000) i)),
    (2, repeat('x', 3000) || ' short'), (3, repeat('moose ', 100000)),
    (4, 'Größe 東京タワー русский язык naïve 😀 emoji'),
    (5, 'a''b "c" \ % _ <b>tag</b> &amp; x@y.org'),
    (6, repeat('x', 2046));
SELECT id, length(body) FROM odd WHERE id < 4 ORDER BY 1;
SELECT * FROM rag_check_index('odd_body');
SELECT id FROM odd ORDER BY body <@> 'word77777';
SELECT id FROM odd ORDER BY body <@> 'word110000 word1 elephant';
SELECT id FROM odd ORDER BY body <@> 'short';
SELECT id FROM odd ORDER BY body <@> repeat('x', 3000);
SELECT id FROM odd ORDER BY body <@> repeat('x', 2046);
SELECT id FROM odd ORDER BY body <@> 'moose';
SELECT id FROM odd ORDER BY body <@> 'größe';
SELECT id FROM odd ORDER BY body <@> 'язык';
SELECT id FROM odd ORDER BY body <@> 'x@y.org';
-- a query of a megabyte
SELECT o.id, o.body <@> o.body < 0 AS matches FROM odd o WHERE id = 1;
SELECT rag_bm25_merge('odd_body');
SELECT * FROM rag_check_index('odd_body');
SELECT id FROM odd ORDER BY body <@> 'word77777';
SELECT o.id, f.id FROM odd o, LATERAL (SELECT id FROM odd ORDER BY body <@> o.body LIMIT 1) f
    ORDER BY 1;
REINDEX INDEX odd_body;
SELECT * FROM rag_check_index('odd_body');
SELECT o.id, f.id FROM odd o, LATERAL (SELECT id FROM odd ORDER BY body <@> o.body LIMIT 1) f
    ORDER BY 1;

DROP TABLE odd;
