-- Documents that a dropped source leaves belong to nobody: they do not say that they are of a
-- source, and each source that brings their uri adopts them.
\getenv files RAG_TEST_FILES
\set VERBOSITY default
SELECT format('{"path": "%s/handbook"}', :'files') AS spec \gset
CREATE VIEW kept AS
    SELECT d.source, d.former_source, count(*) AS documents,
           count(*) FILTER (WHERE c.wrong) AS wrong_chunks
    FROM rag.documents d,
         LATERAL (SELECT count(*) FILTER (WHERE (c.source, c.former_source)
                             IS DISTINCT FROM (d.source, d.former_source)) > 0 AS wrong
                  FROM rag.chunks c
                  WHERE c.collection = d.collection AND c.document_id = d.document_id) AS c
    WHERE d.collection = 'dup' GROUP BY 1, 2;
SELECT rag_create_collection('dup');
SELECT rag_create_source('docs', 'folder', :'spec', collection => 'dup');
SELECT rag_sync('docs') > 0 AS synced;
SELECT count(*) AS n, min(uri) AS uri FROM rag.documents WHERE collection = 'dup' \gset
SELECT rag_drop_source('docs');
SELECT former_source, documents = :n AS all, wrong_chunks FROM kept;
SELECT DISTINCT source, former_source FROM rag.chunks WHERE collection = 'dup';
-- A later source of the name is not taken for theirs, in results and filters.
SELECT rag_create_source('docs', 'static', '{"endpoints": ["https://example.com/a.md"]}',
                         collection => 'dup', suspend => true);
SELECT count(*) FROM rag_search('keys', 'dup', 5, filter => '{"source": "docs"}');
SELECT count(*) > 0 AS found, count(source) AS with_source
FROM rag_search('keys', 'dup', 5, filter => '{"former_source": "docs"}');
SELECT rag_drop_source('docs', keep_documents => false);
SELECT documents = :n AS all FROM kept;
-- Chunks that a rebuild splits are like the others.
SELECT rag_alter_collection('dup', chunk_size => 400);
CALL rag_rebuild_collection('dup');
SELECT former_source, documents = :n AS all, wrong_chunks FROM kept;
-- A source under another name adopts what it brings. Nothing is embedded again, nothing doubles.
SELECT success FROM rag_add_document('Not of a source.', :'uri', collection => 'dup');
SELECT rag_create_source('docs-v2', 'folder', :'spec', collection => 'dup');
SELECT rag_sync('docs-v2') > 0 AS synced;
SELECT source, former_source, documents = :n AS all, wrong_chunks FROM kept ORDER BY 1;
SELECT count(*) FILTER (WHERE c.document_id NOT IN (
    SELECT document_id FROM rag.documents WHERE collection = 'dup')) AS orphans
FROM rag.chunks c WHERE collection = 'dup';
-- The same after an import without the source.
CREATE TABLE blocks AS SELECT * FROM rag_export_blocks('dup');
SELECT collection FROM rag_import_blocks('blocks', 'copy');
SELECT DISTINCT source, former_source FROM rag.chunks WHERE collection = 'copy' ORDER BY 1, 2;
SELECT rag_create_source('docs-v3', 'folder', :'spec', collection => 'copy');
SELECT rag_sync('docs-v3') > 0 AS synced;
SELECT count(*) FILTER (WHERE source IS NOT NULL) = :n AS all,
       count(*) FILTER (WHERE source IS NULL) AS others
FROM rag.documents WHERE collection = 'copy';
DROP TABLE blocks;
DROP VIEW kept;
SELECT rag_drop_collection('dup', with_sources => true),
       rag_drop_collection('copy', with_sources => true);
