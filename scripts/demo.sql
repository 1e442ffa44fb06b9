-- The tour that scripts/demo.sh gives. The variable handbook names a folder of documents.
\pset footer off
\echo
\echo '-- Create the extension in your database:'
CREATE EXTENSION rag;

\echo '-- Say where documents come from: Markdown files and everything in guides/, but no drafts.'
\echo '-- They are synced every hour.'
\set spec '{"path": "' :handbook '", "paths": ["*.md", "guides/"], "excludePaths": ["drafts/"]}'
SELECT rag_create_source('handbook', 'folder', :'spec', schedule => '@hourly');
SELECT name, schedule, next_scheduled_run FROM rag.sources;

\echo '-- Fetch, extract, split, embed and store them now:'
SELECT rag_sync('handbook');

\echo '-- See what the run did:'
\x on
SELECT run_id, source, trigger, phase, documents_added, documents_failed,
       chunks_written, chunks_embedded, finished_at - started_at AS took
FROM rag.runs;
\x off
SELECT title, document_type, chunk_count, length(content) AS characters,
       metadata ->> 'owner' AS owner
FROM rag.documents ORDER BY uri;

\echo '-- Ask. Both meaning and words count, and words of the question are marked:'
SELECT * FROM rag_find('how do I rotate the signing keys?');

SELECT * FROM rag_find('somebody deleted rows by accident, what now?');

\echo '-- The same with scores, and only in documents of the security team:'
SELECT rank, round(score::numeric, 3) AS score, title
FROM rag_search('somebody deleted rows by accident, what now?',
                filter => '{"owner": "security"}', top_k => 3);

\echo '-- Embeddings are ordinary values. Distance 0 means the same, 1 means unrelated:'
SELECT round((rag_embed('hello') <=> rag_embed('hi'))::numeric, 2) AS hello_hi,
       round((rag_embed('hello') <=> rag_embed('a tax return'))::numeric, 2) AS hello_tax_return;

\echo '-- Nothing has changed: a second sync fetches and embeds nothing.'
SELECT rag_sync('handbook');

\echo '-- Somebody deletes a document by hand. A check finds that, and a sync repairs it:'
DELETE FROM rag.documents WHERE uri LIKE '%backups.md';
SELECT expected, actual, drifted FROM rag_check_drift('handbook');
SELECT rag_sync('handbook');

\echo '-- What a chat model gets to answer from. After rag_create_model, rag_answer sends it one:'
SELECT context FROM rag_context('how often are restores tested?', top_k => 1);
