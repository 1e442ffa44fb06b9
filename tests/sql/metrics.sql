-- rag.metrics: searches, runs and sizes for monitoring systems.
\set VERBOSITY terse
SELECT rag_create_collection('measured');
CREATE TABLE measured_rows (id int PRIMARY KEY, body text);
INSERT INTO measured_rows VALUES (1, 'The tide is high.'), (2, 'The harbour closes.');
SELECT rag_create_source('measured', 'table', '{"relation": "measured_rows"}', 'measured');
SELECT rag_sync('measured') IS NOT NULL AS synced;
SELECT rag_reset_search_stats();
SELECT count(*) FROM rag_search('tide', 'measured');
CREATE VIEW measured AS
    SELECT name, labels, value FROM rag.metrics WHERE labels ->> 'collection' = 'measured';
SELECT name, labels - 'collection' AS labels, value FROM measured
WHERE name !~ '_(seconds|bytes)' ORDER BY name, labels::text;
SELECT name, labels - 'collection' AS labels, value > 0 AS value FROM measured
WHERE name ~ '_(seconds|bytes)' AND NOT labels ? 'le'
  AND labels ->> 'stage' IS DISTINCT FROM 'extract'
  AND labels ->> 'stage' IS DISTINCT FROM 'fetch'
ORDER BY name, labels::text;
-- Each name with its labels is there once.
SELECT name, labels FROM rag.metrics GROUP BY name, labels HAVING count(*) > 1;
-- Sums over runs include those that are deleted, as the limits of the history do.
UPDATE measured_rows SET body = body || ' Often.';
SELECT rag_sync('measured') IS NOT NULL AS synced;
SELECT rag_sync('measured') IS NOT NULL AS synced;
CREATE TABLE before_deletion AS SELECT * FROM measured WHERE name LIKE 'rag_run%_total';
WITH deleted AS (DELETE FROM rag_internal.run WHERE source = 'measured'
    AND run_id < (SELECT max(run_id) FROM rag_internal.run WHERE source = 'measured') RETURNING 1)
SELECT count(*) FROM deleted;
SELECT count(*) FROM rag.runs WHERE source = 'measured';
SELECT count(*) AS metrics, count(*) FILTER (WHERE abs(m.value - b.value) < 1e-9) AS equal
FROM measured m JOIN before_deletion b USING (name, labels);
DROP TABLE before_deletion;
SELECT name, labels ->> 'result' AS result, value FROM measured
WHERE name IN ('rag_runs_total', 'rag_run_documents_total') ORDER BY 1, 2;

-- Readers see collections that they may read, and sources that they oversee.
CREATE ROLE regress_metrics;
GRANT rag_reader TO regress_metrics;
GRANT SELECT ON measured TO regress_metrics;
SET ROLE regress_metrics;
SELECT count(*) FROM rag.metrics WHERE labels ->> 'collection' = 'measured';
RESET ROLE;
SELECT rag_grant_collection('measured', 'regress_metrics', 'read');
SET ROLE regress_metrics;
SELECT DISTINCT name FROM rag.metrics WHERE labels ->> 'collection' = 'measured' ORDER BY 1;
SELECT count(*) FROM rag_internal.run_total;
RESET ROLE;
REVOKE ALL ON measured FROM regress_metrics;
SELECT rag_revoke_collection('measured', 'regress_metrics', NULL);
DROP ROLE regress_metrics;
SELECT rag_drop_source('measured', keep_documents => false);
SELECT name, value FROM measured WHERE labels ? 'source';
SELECT count(*) FROM rag_internal.run_total WHERE source = 'measured';
DROP VIEW measured;
DROP TABLE measured_rows;
SELECT rag_drop_collection('measured');

-- Operations on collections, those that fail too: their transactions are rolled back. ------------
SELECT rag_create_collection('operated', max_documents => 3);
CREATE VIEW operations AS
    SELECT labels ->> 'operation' AS operation, labels ->> 'collection' AS collection,
           labels ->> 'result' AS result, value
    FROM rag.metrics WHERE name = 'rag_operations_total';
CREATE VIEW operated AS
    SELECT operation, result, value FROM operations WHERE collection = 'operated';
CREATE TABLE failed_imports AS
    SELECT coalesce(sum(value), 0) AS n FROM operations
    WHERE operation = 'import' AND collection IS NULL AND result = 'failure';
-- documents: two that are added, one that cannot be read, two of a statement that fails
SELECT uri, success FROM rag_add_documents('[{"uri": "a", "content": "Tides."},
    {"uri": "b", "content": "Ships."}]', 'operated');
SELECT success FROM rag_add_document('no pdf'::bytea, 'c.pdf', collection => 'operated');
SELECT rag_add_documents('[{"uri": "d", "content": "Harbours."},
    {"uri": "e", "content": "Piers."}]', 'operated');
-- arguments that are wrong do not count
SELECT rag_add_document('A text.', '', collection => 'operated');
-- chunks
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-0000-0000-000000000001",
    "uri": "f", "text": "An anchor."}, {"chunk_id": "00000000-0000-0000-0000-000000000002",
    "uri": "f", "text": "A rope."}]', 'operated');
SELECT rag_upsert_chunks('[{"chunk_id": "00000000-0000-0000-0000-000000000003",
    "uri": "g", "text": "A sail.", "embedding": [1, 2]}]', 'operated');
SELECT operation, result, value FROM operated ORDER BY 1, 2;
-- exports, in one statement or read in parts, and imports
CREATE TABLE operated_bundle AS SELECT * FROM rag_export_blocks('operated');
SELECT count(*) FROM (SELECT (rag_export_blocks('operated')).file LIMIT 1) AS x;
SELECT rag_export_collection('operated', '/nowhere/operated');
SELECT collection, documents FROM rag_import_blocks('operated_bundle', 'operated-too');
SELECT rag_import_blocks('operated_bundle');
SELECT rag_import_collection('/nowhere/operated');
SELECT collection, result, value FROM operations
WHERE operation = 'import' AND collection IS NOT NULL ORDER BY 1, 2;
SELECT sum(value) - (SELECT n FROM failed_imports) AS failed_imports FROM operations
WHERE operation = 'import' AND collection IS NULL AND result = 'failure';
-- rebuilds
CALL rag_rebuild_collection('operated');
SET default_transaction_read_only = on;
CALL rag_rebuild_collection('operated');
RESET default_transaction_read_only;
SELECT operation, result, value FROM operated ORDER BY 1, 2;
SELECT labels ->> 'operation' AS operation, value > 0 AS has_time FROM rag.metrics
WHERE name = 'rag_operation_seconds_total' AND labels ->> 'collection' = 'operated' ORDER BY 1;
SELECT name, labels FROM rag.metrics GROUP BY name, labels HAVING count(*) > 1;

-- Readers see those of collections that they may read, and failed imports.
CREATE ROLE regress_operations;
GRANT rag_reader TO regress_operations;
SET ROLE regress_operations;
SELECT collection, count(*) FROM rag_internal.operation_statistics() WHERE collection ~ 'operated'
    OR collection IS NULL GROUP BY 1;
RESET ROLE;
SELECT rag_grant_collection('operated', 'regress_operations', 'read');
SET ROLE regress_operations;
SELECT collection, count(*) FROM rag_internal.operation_statistics() WHERE collection ~ 'operated'
    OR collection IS NULL GROUP BY 1 ORDER BY 1;
RESET ROLE;
SELECT rag_revoke_collection('operated', 'regress_operations', NULL);
DROP ROLE regress_operations;
-- A collection with another name begins again, and nothing is left of one that is dropped.
SELECT rag_rename_collection('operated', 'renamed');
SELECT rag_create_collection('operated');
SELECT count(*) FROM operations WHERE collection IN ('operated', 'renamed');
BEGIN;
SELECT rag_drop_collection('operated-too');
ROLLBACK;
SELECT count(*) FROM operations WHERE collection = 'operated-too';
SELECT rag_drop_collection('operated-too'), rag_drop_collection('operated'),
       rag_drop_collection('renamed');
SELECT rag_create_collection('operated-too');
SELECT count(*) FROM operations WHERE collection = 'operated-too';
SELECT rag_drop_collection('operated-too');
DROP VIEW operated, operations;
DROP TABLE operated_bundle, failed_imports;
