-- Scores of <@> and @@@ do not tell how often words occur in rows that a role must not see.
CREATE ROLE regress_words_reader IN ROLE rag_reader;
SELECT rag_create_collection('words_board');
SELECT count(*) FROM (
    SELECT rag_add_document('The merger codenamed zebrafish, part ' || i, 'doc' || i, 'Board',
                            'text', collection => 'words_board')
    FROM generate_series(1, 7) AS i) AS added;
SELECT indexrelid::regclass AS words_index
FROM pg_index AS x JOIN pg_class AS i ON i.oid = indexrelid
    JOIN pg_am AS a ON a.oid = i.relam AND a.amname = 'rag_bm25'
WHERE indrelid = 'rag_internal.rag_kb_words_board'::regclass \gset
-- its owner: the scores differ
SELECT min(score) <> max(score) AS differ
FROM (SELECT 'x ' || w || ' y' <@> rag_bm25_query(w, :'words_index') AS score
      FROM unnest('{zebrafish,giraffe}'::text[]) AS w) AS s;
SET ROLE regress_words_reader;
SELECT count(*) FROM rag.chunks WHERE collection = 'words_board';
SELECT min(score) = max(score) AS equal
FROM (SELECT 'x ' || w || ' y' <@> rag_bm25_query(w, :'words_index') AS score
      FROM unnest('{zebrafish,giraffe}'::text[]) AS w) AS s;
RESET ROLE;

-- a table of the user's under row-level security
CREATE TABLE words_notes (id integer, owner_name text, body text);
INSERT INTO words_notes
SELECT i, CASE WHEN i = 1 THEN 'regress_words_reader' ELSE 'somebody' END,
       CASE WHEN i = 1 THEN 'my zebrafish and my giraffe' ELSE 'their zebrafish' END
FROM generate_series(1, 20) AS i;
CREATE INDEX words_notes_body ON words_notes USING rag_bm25 (body) WITH (text_config = 'english');
ALTER TABLE words_notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON words_notes USING (owner_name = current_user);
GRANT SELECT ON words_notes TO regress_words_reader;
SET ROLE regress_words_reader;
SELECT count(DISTINCT 'x ' || w || ' y' <@> rag_bm25_query(w, 'words_notes_body')) AS scores
FROM unnest('{zebrafish,giraffe}'::text[]) AS w;
-- its own rows are found, with and without the index
SELECT id FROM words_notes WHERE body @@@ 'zebrafish' ORDER BY body <@> 'zebrafish' LIMIT 5;
SET enable_seqscan = off;
SELECT id FROM words_notes WHERE body @@@ 'zebrafish' ORDER BY body <@> 'zebrafish' LIMIT 5;
RESET enable_seqscan;
RESET ROLE;
REVOKE SELECT ON words_notes FROM regress_words_reader;
-- the right is checked before anything is locked
BEGIN;
SET LOCAL ROLE regress_words_reader;
SAVEPOINT s;
SELECT 'zebrafish' <@> rag_bm25_query('zebrafish', 'words_notes_body');
ROLLBACK TO s;
SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()
    AND relation IN ('words_notes'::regclass, 'words_notes_body'::regclass);
ROLLBACK;
DROP TABLE words_notes;
SELECT rag_drop_collection('words_board');
DROP ROLE regress_words_reader;
