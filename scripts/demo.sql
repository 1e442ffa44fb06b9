-- The tour that scripts/demo.sh gives; the variable handbook is a folder of documents.
\pset footer off
\echo
\echo '-- The extension, in a database of yours:'
CREATE EXTENSION rag;

\echo '-- Where documents come from: Markdown files, and whatever is in guides/, but no drafts.'
\set spec '{"path": "' :handbook '", "paths": ["*.md", "guides/"], "excludePaths": ["drafts/"]}'
SELECT rag_create_source('handbook', 'folder', :'spec');

\echo '-- Fetch, extract, split, embed and store them:'
SELECT rag_sync('handbook');

\echo '-- What came of it:'
\x on
SELECT run_id, source, trigger, phase, documents_added, documents_failed, chunks_written, chunks_embedded, finished_at - started_at AS took
FROM rag.runs;
\x off
SELECT title, document_type, chunk_count, length(content) AS characters, metadata ->> 'owner' AS owner
FROM rag.documents ORDER BY uri;

\echo '-- Ask:'
SELECT rank, round(score::numeric, 3) AS score, title, left(regexp_replace(content, '\s+', ' ', 'g'), 80) AS content
FROM rag_search('how do I rotate the signing keys?');

SELECT rank, round(score::numeric, 3) AS score, title, left(regexp_replace(content, '\s+', ' ', 'g'), 80) AS content
FROM rag_search('somebody deleted rows by accident, what now?', top_k => 3);

\echo '-- Ask only what the security team owns:'
SELECT rank, round(score::numeric, 3) AS score, title, citation
FROM rag_search('somebody deleted rows by accident, what now?', filter => '{"owner": "security"}', top_k => 3);

\echo '-- Embeddings are values like others. 0 is the same meaning, 1 has nothing to do with it:'
SELECT rag_embed('hello') <=> rag_embed('hi') AS hello_hi, rag_embed('hello') <=> rag_embed('a tax return') AS hello_tax_return;

\echo '-- Nothing has changed since: a second sync fetches nothing anew and embeds nothing.'
SELECT rag_sync('handbook');

\echo '-- Runs that are under way (none is):'
SELECT source, stage, documents_done, documents_total, eta FROM rag.progress;
