-- rag.metrics: searches, runs and sizes for monitoring systems.
\set VERBOSITY terse
SELECT rag_create_collection('measured');
CREATE TABLE measured_rows (id int PRIMARY KEY, body text);
INSERT INTO measured_rows VALUES (1, 'The tide is high.'), (2, 'The harbour closes.');
SELECT rag_create_source('measured', 'table', '{"relation": "measured_rows"}', 'measured');
SELECT rag_sync('measured') IS NOT NULL AS synced;
SELECT rag_search_stats_reset();
SELECT count(*) FROM rag_search('tide', 'measured');
CREATE VIEW measured AS
    SELECT name, labels, value FROM rag.metrics WHERE labels ->> 'collection' = 'measured';
SELECT name, labels - 'collection' AS labels, value FROM measured
WHERE name !~ '_(seconds|bytes)' ORDER BY name, labels::text;
SELECT name, labels - 'collection' AS labels, value > 0 AS value FROM measured
WHERE name ~ '_(seconds|bytes)' AND labels ->> 'stage' IS DISTINCT FROM 'extract'
  AND labels ->> 'stage' IS DISTINCT FROM 'fetch'
ORDER BY name, labels::text;
-- Each name with its labels is there once.
SELECT name, labels FROM rag.metrics GROUP BY name, labels HAVING count(*) > 1;
-- Sums over runs include those that are deleted, as the limits of the history do.
UPDATE measured_rows SET body = body || ' Often.';
SELECT rag_sync('measured') IS NOT NULL AS synced;
SELECT rag_sync('measured') IS NOT NULL AS synced;
CREATE TABLE before_deletion AS SELECT * FROM measured WHERE name LIKE 'rag_run%_total';
WITH deleted AS (DELETE FROM rag.run WHERE source = 'measured'
    AND run_id < (SELECT max(run_id) FROM rag.run WHERE source = 'measured') RETURNING 1)
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
SELECT count(*) FROM rag.run_total;
RESET ROLE;
REVOKE ALL ON measured FROM regress_metrics;
SELECT rag_revoke_collection('measured', 'regress_metrics', NULL);
DROP ROLE regress_metrics;
SELECT rag_drop_source('measured', keep_documents => false);
SELECT name, value FROM measured WHERE labels ? 'source';
SELECT count(*) FROM rag.run_total WHERE source = 'measured';
DROP VIEW measured;
DROP TABLE measured_rows;
SELECT rag_drop_collection('measured');
