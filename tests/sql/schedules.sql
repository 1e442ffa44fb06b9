-- Schedules of sources, and changes of their definition.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

-- the times of a schedule, in the time zone of the database ---------------

-- the time zone of the session does not matter, because a client can set its default
SELECT (t AT TIME ZONE setting)::time AS noon
FROM rag_next_runs('0 12 * * *', 1) AS t, pg_file_settings WHERE name ILIKE 'timezone';
ALTER DATABASE :DBNAME SET timezone = 'America/Los_Angeles';
SELECT rag_next_runs('30 6 * * mon-fri', 3, '2026-05-29 12:00:00+00');
SELECT rag_next_runs('@monthly', after => '2026-05-29 12:00:00+00');
SELECT rag_next_runs('CRON_TZ=Europe/Berlin 30 6 * * mon-fri', 2,
    '2026-05-29 12:00:00+00') AT TIME ZONE 'Europe/Berlin' AS berlin;
SELECT rag_next_runs('@every 1h30m', 2, '2026-05-29 12:00:00.75+00');
SET timezone = 'Asia/Tokyo';
SELECT rag_next_runs('@daily', 1, '2026-05-29 12:00:00+00') AT TIME ZONE 'PST8PDT' AS midnight;
RESET timezone;
-- a night without 02:30, and one with 01:30 twice
SELECT rag_next_runs('30 2 * * *', 2, '2026-03-07 12:00:00-08');
SELECT rag_next_runs('30 1 * * *', 2, '2026-10-31 12:00:00-07');
-- Postgres accepts a number of hours eastward, and zones that are unknown here, which do not matter
-- if the schedule names one
ALTER DATABASE :DBNAME SET timezone = '-3.5';
SELECT rag_next_runs('0 12 * * *', 1, '2026-05-29 12:00:00+00') AT TIME ZONE 'UTC' AS noon;
ALTER DATABASE :DBNAME SET timezone = '100';
SELECT rag_next_runs('0 12 * * *'); :sqlstate
SELECT rag_next_runs('CRON_TZ=UTC 0 12 * * *', 1,
    '2026-05-29 12:00:00+00') AT TIME ZONE 'UTC' AS noon,
    rag_next_runs('@every 1h', 1, '2026-05-29 12:00:00+00') AT TIME ZONE 'UTC' AS one;
ALTER DATABASE :DBNAME SET timezone = 'America/Los_Angeles';
-- schedules without next times
SELECT rag_next_runs('@reboot');
SELECT count(*) FROM rag_next_runs('@daily', 1000, '9999-12-01');
SELECT rag_next_runs('@daily', 1, 'infinity');
SELECT count(*) FROM rag_next_runs('@daily', 1000);
SELECT rag_next_runs('@daily', 1)  > now() AS from_now;
SELECT rag_next_runs('@daily', 0); :sqlstate
SELECT rag_next_runs('@daily', 1001); :sqlstate
SELECT rag_next_runs(NULL); :sqlstate
SELECT rag_next_runs('@daily', NULL); :sqlstate
SELECT rag_next_runs('@daily', 1, NULL); :sqlstate

-- invalid schedules: the error names the field and its position
SELECT rag_next_runs(''); :sqlstate
SELECT rag_next_runs('61 * * * *'); :sqlstate
SELECT rag_next_runs('0 2 * *'); :sqlstate
SELECT rag_next_runs('0 2 * foo *'); :sqlstate
SELECT rag_next_runs('0 2 30 2 *'); :sqlstate
SELECT rag_next_runs('@dialy'); :sqlstate
SELECT rag_next_runs('@every 1x'); :sqlstate
SELECT rag_next_runs('CRON_TZ=Europe/Berln 0 2 * * *'); :sqlstate

-- a source with a schedule ------------------------------------------------

\set handbook `echo "$RAG_TEST_FILES/handbook"`
\set spec '{"path": "' :handbook '/guides"}'
SELECT rag_create_source('nightly', 'folder', :'spec', schedule => '0 4 * * *', max_retries => 0,
    timeout => '30 min', drift_policy => 'manual');
SELECT name, schedule, suspend, phase, resource_ready, scheduled, indexing, error,
    next_scheduled_run > now() AND next_scheduled_run <= now() + interval '25 h' AS is_next_night,
    generation, observed_generation, max_retries, timeout, drift_policy, errors
FROM rag.sources \gx
CREATE VIEW conditions AS
    SELECT s.name, c ->> 'type' AS type, c ->> 'status' AS status, c ->> 'reason' AS reason,
    c ->> 'message' AS message,
           c -> 'observedGeneration' AS of
    FROM rag.sources s, jsonb_array_elements(conditions) WITH ORDINALITY AS x (c, i)
    ORDER BY s.name, i;
SELECT type, status, reason, message, of FROM conditions;
SELECT c ->> 'lastTransitionTime' ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$' AS time,
    count(*) FILTER (WHERE c ->> 'reason' = 'NoScheduler') AS without
FROM rag.sources, jsonb_array_elements(conditions) c GROUP BY 1 ORDER BY 1;

-- a source without a schedule is synced once, at once; a suspended one later; one with @reboot at
-- the start of the server
SELECT rag_create_source('once', 'folder', :'spec'), rag_create_source('later', 'folder', :'spec',
    suspend => true);
SELECT rag_create_source('boot', 'folder', :'spec', schedule => '@reboot');
SELECT name, phase, scheduled, next_scheduled_run IS NOT NULL
    AND next_scheduled_run <= now() AS is_due FROM rag.sources ORDER BY name;
SELECT name, status, reason FROM conditions WHERE type = 'AutoIndexerScheduled';

-- all errors are reported at once, also by rag_validate_source ------------

SELECT rag_create_source('Once', 'git',
    '{"repositoryURL": "github.com/org/repo", "brunch": "main"}', collection => 'nowhere',
    schedule => '0 25 * * *',
    credentials => 'nobodys/token', max_retries => 101, timeout => '25 days',
    drift_policy => 'never', owner => 'regress_rag_nowhere'); :sqlstate
SELECT * FROM rag_validate_source('git',
    '{"repositoryURL": "github.com/org/repo", "brunch": "main"}', '0 25 * * *', 'nowhere',
    'nobodys/token', 101, '25 days',
    'Once', 'never', 'regress_rag_nowhere');
SELECT * FROM rag_validate_source('folder', :'spec');
SELECT * FROM rag_validate_source('folder', :'spec', '@hourly', name => 'fine',
    drift_policy => 'ignore', owner => current_user);
SELECT * FROM rag_validate_source(NULL, NULL, collection => NULL, max_retries => NULL,
    timeout => NULL, drift_policy => NULL);
SELECT * FROM rag_validate_source('ftp', '{}', name => 'once');
SELECT * FROM rag_validate_source('folder', '{"path": "/srv"}', credentials => 'nobodys');
SELECT * FROM rag_validate_source('table', '{"relation": "nowhere"}', '@never');
CREATE TABLE notes (id int PRIMARY KEY, body text NOT NULL);
SELECT * FROM rag_validate_source('table',
    '{"relation": "notes", "contentColumns": ["body", "boddy"]}');
SELECT * FROM rag_validate_source('table', '{"relation": "notes", "filter": {"author": 7}}',
    '@never');
SELECT * FROM rag_validate_source('table', '{"relation": "notes"}');
-- also in a read-only transaction
BEGIN READ ONLY;
SELECT count(*) FROM rag_validate_source('git', '{"repositoryURL": "https://example.org/a.git"}',
    credentials => 'nobodys/token');
COMMIT;
-- single errors
SELECT rag_create_source('fine', 'folder', :'spec', schedule => '0 2 * * * *'); :sqlstate
SELECT rag_create_source('fine', 'folder', :'spec', schedule => ''); :sqlstate
SELECT rag_create_source('fine', 'folder', :'spec', max_retries => -1); :sqlstate
SELECT rag_create_source('fine', 'folder', :'spec', timeout => '1 month'); :sqlstate
SELECT rag_create_source('fine', 'folder', :'spec', drift_policy => 'never'); :sqlstate
SELECT rag_create_source('fine', 'folder', :'spec', owner => 'regress_rag_nowhere'); :sqlstate
SELECT rag_create_source('fine', 'folder', :'spec', suspend => NULL); :sqlstate
SELECT rag_create_source(NULL, 'folder', :'spec'); :sqlstate
SELECT name FROM rag.sources WHERE name = 'fine';

-- credentials: a secret, or one of its values
SELECT rag_create_secret('forge', 'glpat-1234', 'token'), rag_create_secret('forge', 'reader',
    'username'), rag_create_secret('forge', 'abcd', 'api-key');
\set git '{"repositoryURL": "https://example.org/a.git"}'
SELECT * FROM rag_validate_source('git', :'git', credentials => 'forge/api-key');
SELECT * FROM rag_validate_source('git', :'git', credentials => 'forge/apikey');
SELECT rag_create_source('private', 'git', :'git', credentials => 'forge/apikey',
    suspend => true); :sqlstate
SELECT rag_create_source('private', 'git', :'git', credentials => 'forge/api-key', suspend => true);
SELECT credentials FROM rag.sources WHERE name = 'private';
-- which cannot be dropped while a source needs them
SELECT rag_drop_secret('forge', key => 'api-key'); :sqlstate
SELECT rag_drop_secret('forge', key => 'username'), rag_drop_secret('forge', key => 'token');
SELECT rag_alter_source('private', credentials => 'forge'); :sqlstate
SELECT rag_create_secret('forge', 'glpat-5678');
SELECT rag_alter_source('private', credentials => 'forge');
SELECT rag_drop_secret('forge', key => 'token'); :sqlstate
SELECT rag_drop_secret('forge', key => 'api-key');
SELECT credentials, generation FROM rag.sources WHERE name = 'private';
SELECT rag_alter_source('private', credentials => '');
SELECT credentials, generation FROM rag.sources WHERE name = 'private';
SELECT rag_drop_secret('forge');
SELECT rag_drop_source('private');

-- altered -----------------------------------------------------------------

SET client_min_messages = warning;
SELECT rag_sync('nightly') AS run \gset
RESET client_min_messages;
SELECT phase, generation, observed_generation FROM rag.sources WHERE name = 'nightly';
SELECT type, status, reason, message ~ 'run \d+ completed' AS by_run, of FROM conditions
    WHERE name = 'nightly';
-- nothing changes
SELECT rag_alter_source('nightly');
SELECT rag_alter_source('nightly', 'folder', :'spec', 'default', '0 4 * * *', '', 0, '1800 s',
    false, 'manual', current_user);
SELECT generation, observed_generation FROM rag.sources WHERE name = 'nightly';
-- another schedule: the status still refers to the previous definition
SELECT next_scheduled_run AS before FROM rag.sources WHERE name = 'nightly' \gset
SELECT rag_alter_source('nightly', schedule => '0 5 * * *');
SELECT schedule, generation, observed_generation, phase, next_scheduled_run <> :'before'
    AND next_scheduled_run > now() AS is_other_time FROM rag.sources WHERE name = 'nightly';
SELECT type, status, reason, of FROM conditions WHERE name = 'nightly';
-- an equivalent spec is not a change; with a schedule the source waits for its time
SELECT rag_alter_source('nightly', spec => jsonb_set(:'spec', '{paths}', '[]'));
SELECT generation FROM rag.sources WHERE name = 'nightly';
SELECT rag_alter_source('nightly', spec => jsonb_set(:'spec', '{paths}', '["*.md"]'),
    max_retries => 5);
SELECT generation, spec - 'path' AS spec, max_retries, next_scheduled_run > now() AS waits
    FROM rag.sources WHERE name = 'nightly';
SET client_min_messages = warning;
SELECT rag_sync('nightly') > :run AS ran;
RESET client_min_messages;
SELECT phase, generation, observed_generation FROM rag.sources WHERE name = 'nightly';
SELECT r.generation FROM rag.runs r WHERE source = 'nightly' ORDER BY run_id;
-- without a schedule, a change of the documents makes the source due, other changes do not
SELECT rag_alter_source('nightly', schedule => '');
SELECT schedule, next_scheduled_run FROM rag.sources WHERE name = 'nightly';
SELECT rag_alter_source('nightly', max_retries => 1, timeout => '10 min', drift_policy => 'ignore');
SELECT max_retries, timeout, drift_policy, next_scheduled_run, generation FROM rag.sources
    WHERE name = 'nightly';
SELECT rag_alter_source('nightly', 'markdown',
    jsonb_build_object('uri', :'handbook' || '/backups.md'));
SELECT kind, next_scheduled_run <= now() AS is_due, generation FROM rag.sources
    WHERE name = 'nightly';
SELECT status, reason FROM conditions WHERE name = 'nightly' AND type = 'AutoIndexerScheduled';
SELECT rag_create_collection('other');
SELECT rag_alter_source('nightly', collection => 'other');
SELECT collection, generation FROM rag.sources WHERE name = 'nightly';
-- a source that loses its schedule before its first run is due; one with @reboot has no time
SELECT rag_create_source('hourly', 'folder', :'spec', schedule => '@hourly');
SELECT rag_alter_source('hourly', schedule => '@reboot');
SELECT next_scheduled_run FROM rag.sources WHERE name = 'hourly';
SELECT rag_alter_source('hourly', schedule => '');
SELECT next_scheduled_run <= now() AS is_due FROM rag.sources WHERE name = 'hourly';

-- rejected: nothing is changed
SELECT rag_alter_source('nowhere', max_retries => 1); :sqlstate
SELECT rag_alter_source(NULL, max_retries => 1); :sqlstate
SELECT rag_alter_source('nightly', kind => 'git'); :sqlstate
SELECT rag_alter_source('nightly', schedule => '@fortnightly', max_retries => -1, timeout => '0',
    drift_policy => '', credentials => 'nobodys'); :sqlstate
SELECT rag_alter_source('nightly', schedule => '* * * * 8'); :sqlstate
SELECT rag_alter_source('nightly', collection => 'nowhere'); :sqlstate
SELECT rag_alter_source('nightly', owner => 'regress_rag_nowhere'); :sqlstate
SELECT kind, schedule, collection, max_retries, generation FROM rag.sources WHERE name = 'nightly';

-- suspended and resumed ---------------------------------------------------

SELECT rag_suspend('boot'), rag_suspend('hourly');
SELECT name, suspend, phase, scheduled, next_scheduled_run, generation FROM rag.sources
    WHERE suspend ORDER BY name;
SELECT name, status, reason, message FROM conditions WHERE type = 'AutoIndexerScheduled'
    AND reason = 'Suspended';
SELECT rag_suspend('boot');
-- altered while suspended
SELECT rag_alter_source('boot', schedule => '@hourly');
SELECT next_scheduled_run, phase, generation FROM rag.sources WHERE name = 'boot';
SELECT rag_resume('boot'), rag_resume('hourly'), rag_resume('later');
SELECT name, suspend, phase, next_scheduled_run <= now() AS is_due, generation FROM rag.sources
    WHERE name IN ('boot', 'hourly', 'later') ORDER BY name;
SELECT rag_resume('boot');
-- resumed by rag_alter_source, which creates a generation
SELECT rag_alter_source('boot', suspend => true);
SELECT suspend, phase, generation FROM rag.sources WHERE name = 'boot';
SELECT rag_alter_source('boot', suspend => false);
SELECT suspend, next_scheduled_run > now() AS waits, generation FROM rag.sources
    WHERE name = 'boot';
-- a run that was missed is not made up for
SELECT rag_suspend('boot');
UPDATE rag_internal.source SET next_run = now() - interval '3 days' WHERE name = 'boot';
SELECT rag_resume('boot');
SELECT next_scheduled_run > now() AS waits FROM rag.sources WHERE name = 'boot';
-- a source without a schedule that was synced is not synced again
SET client_min_messages = warning;
SELECT rag_sync('once') > 0 AS ran;
RESET client_min_messages;
SELECT rag_suspend('once'), rag_resume('once');
SELECT suspend, next_scheduled_run FROM rag.sources WHERE name = 'once';
SELECT rag_suspend('nowhere'); :sqlstate
SELECT rag_resume('nowhere'); :sqlstate

-- tables: triggers follow -------------------------------------------------

CREATE TABLE letters (id int PRIMARY KEY, body text NOT NULL, subject text);
INSERT INTO notes VALUES (1, 'The canteen opens at noon.');
INSERT INTO letters VALUES (1, 'We regret to inform you.', 'Refusal');
SELECT rag_create_source('table', 'table', '{"relation": "notes", "sync": "trigger"}',
    schedule => '@daily');
CREATE VIEW triggers AS SELECT tgrelid::regclass AS relation, count(*) FROM pg_trigger
    WHERE tgname LIKE 'rag\_%table' GROUP BY 1 ORDER BY 1;
SELECT * FROM triggers;
-- rows are removed as the old filter selected them
SELECT rag_alter_source('table', spec => '{"relation": "notes", "sync": "trigger"}');
SELECT generation, spec ->> 'contentColumns' AS content FROM rag.sources WHERE name = 'table';
SELECT rag_alter_source('table', spec => '{"relation": "letters", "sync": "trigger"}');
SELECT * FROM triggers;
SELECT generation, spec ->> 'relation' AS relation, spec ->> 'titleColumn' AS title FROM rag.sources
    WHERE name = 'table';
SELECT rag_alter_source('table', spec => '{"relation": "letters"}');
SELECT * FROM triggers;
SELECT rag_alter_source('table', spec => '{"relation": "notes", "sync": "trigger"}',
    schedule => '');
SELECT * FROM triggers;
SELECT rag_alter_source('table', 'folder', :'spec');
SELECT * FROM triggers;
SELECT kind, generation FROM rag.sources WHERE name = 'table';

SET client_min_messages = warning;
SELECT rag_drop_source(name, keep_documents => false) FROM rag.sources;
SELECT rag_drop_collection('other');
DROP TABLE notes, letters;
DROP VIEW triggers, conditions;
ALTER DATABASE :DBNAME RESET timezone;
