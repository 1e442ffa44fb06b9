-- Tables and views as sources: which rows and columns are read, the documents, and rejected
-- definitions.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
\set show 'SELECT uri, title, document_type, status, metadata, content FROM rag.documents WHERE source = :''source'' ORDER BY uri COLLATE "C"'
\set did 'SELECT phase, documents_added AS added, documents_updated AS updated, documents_deleted AS deleted, documents_unchanged AS unchanged, documents_failed AS failed, files_skipped AS skipped, chunks_embedded AS embedded FROM rag.runs WHERE source = :''source'' ORDER BY run_id DESC LIMIT 1'

\set why 'SELECT error ->> ''sqlstate'' AS sqlstate, error ->> ''message'' AS message, error ->> ''detail'' AS detail, error ->> ''hint'' AS hint FROM rag.runs, jsonb_array_elements(errors) AS error WHERE source = :''source'' ORDER BY run_id DESC LIMIT 1'

CREATE SCHEMA blog;
CREATE TABLE blog.posts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slug varchar(50) NOT NULL,
    title text,
    body text,
    author text,
    published date,
    rating numeric);
INSERT INTO blog.posts (slug, title, body, author, published, rating) VALUES
    ('bread', 'Bread', 'Bread is baked in the **morning**.', 'ada', '2024-05-31', 4.5),
    ('rolls', NULL, E'# Rolls\n\nRolls are baked at noon.', 'bob', NULL, 'NaN'),
    ('empty', 'Nothing', E' \n', 'ada', NULL, NULL),
    ('null', 'Nothing at all', NULL, 'ada', NULL, NULL),
    ('cake', ' ', 'Cake is baked in the evening.', NULL, 'infinity', 3);

-- only the relation is given: primary key, long texts, title
\set source posts
SELECT rag_create_source('posts', 'table', '{"relation": "blog.posts"}');
SELECT kind, jsonb_pretty(spec) FROM rag.sources WHERE name = 'posts';
SELECT rag_sync('posts') AS run \gset
:did;
:show;
SELECT rank, title FROM rag_search('when is bread baked?', top_k => 1);
SELECT rag_sync('posts') AS run \gset
:did;

-- changes of used and unused columns
UPDATE blog.posts SET body = 'Bread is baked at night.' WHERE slug = 'bread';
UPDATE blog.posts SET slug = 'buns', rating = 1 WHERE slug = 'rolls';
DELETE FROM blog.posts WHERE slug = 'cake';
INSERT INTO blog.posts (slug, body) VALUES ('pie', 'Pie is baked on Sunday.');
SELECT rag_sync('posts') AS run \gset
:did;
-- a row whose text becomes blank is no longer a document
UPDATE blog.posts SET (body, author) = ('', NULL) WHERE slug = 'pie';
SELECT rag_sync('posts') AS run \gset
:did;
TRUNCATE blog.posts;
SELECT rag_sync('posts') AS run \gset
:did;
:show;
SELECT rag_drop_source('posts', keep_documents => false);

-- chosen columns, in both spellings; metadata keep their types; rows that do not match the filter
-- are not documents
INSERT INTO blog.posts (slug, title, body, author, published, rating) VALUES
    ('a', 'First', 'About apples.', 'ada', '2024-01-02', 4.5),
    ('b', 'Second', 'About pears.', 'bob', '2024-02-03', 2),
    ('c', 'Third', 'About plums.', 'ada', NULL, 5),
    ('d', 'Fourth', 'About figs.', NULL, '2023-01-01', NULL);
\set source chosen
SELECT rag_create_source('chosen', 'table',
    '{"relation": "blog.posts", "idColumns": "slug", "contentColumns": ["title", "body"],
    "titleColumn": "slug",
    "metadataColumns": ["author", "published", "rating"],
    "filter": {"operator": "and", "conditions": [{"key": "rating", "operator": "gte", "value": 3},
    {"key": "author", "operator": "not empty"}]}, "documentType": "text"}');
SELECT rag_sync('chosen') AS run \gset
:did;
:show;
SELECT title
    FROM rag_search('plums', top_k => 5,
    filter => '{"operator": "and", "conditions": [{"key": "rating", "operator": "gt",
    "value": 4.6}]}');
-- rows that no longer match are removed, rows that match now are added
UPDATE blog.posts SET rating = 6 - rating;
SELECT rag_sync('chosen') AS run \gset
:did;
:show;
SELECT rag_drop_source('chosen', keep_documents => false);
-- the other form of the filter, on a column with a name of rag.chunks
SELECT rag_create_source('chosen', 'table',
    '{"relation": "blog.posts", "contentColumns": "body", "filter": {"title": "Third"}}');
SELECT rag_sync('chosen') AS run \gset
:show;
SELECT rag_drop_source('chosen', keep_documents => false);

-- composite keys and odd names
CREATE SCHEMA "Weird Schema";
CREATE TABLE "Weird Schema"."Tab.le" ("a/b" text, "C ""d""" int, "a text" text, "another" text,
    UNIQUE (another), PRIMARY KEY ("C ""d""", "a/b"));
INSERT INTO "Weird Schema"."Tab.le" VALUES ('x/y', 1, 'Zürich is a city.', 'It''s in Switzerland.'),
    ('ä%.', -2, 'Basel is another.', NULL), ('', 3, NULL, NULL),
    ('z', 4, 'Bern is the third.', 'And the capital.');
\set source weird
SELECT rag_create_source('weird', 'table',
    '{"relation": "\"Weird Schema\".\"Tab.le\"", "sync": "trigger"}');
SELECT spec -> 'relation' AS relation, spec -> 'idColumns' AS ids FROM rag.sources
    WHERE name = 'weird';
SELECT rag_sync('weird') AS run \gset
:did;
:show;
-- recorded changes are looked up by key
UPDATE "Weird Schema"."Tab.le" SET "a/b" = 'new/key' WHERE "C ""d""" = 1;
DELETE FROM "Weird Schema"."Tab.le" WHERE "a/b" = 'z';
UPDATE "Weird Schema"."Tab.le" SET another = 'On the Rhine.' WHERE "a/b" = 'ä%.';
SELECT rag_sync('weird') AS run \gset
:did;
:show;
SELECT rag_drop_source('weird', keep_documents => false);

-- changes that triggers record
CREATE TABLE blog.notes (id int PRIMARY KEY, body text, views int DEFAULT 0);
SELECT rag_create_source('notes', 'table', '{"relation": "blog.notes", "sync": "trigger"}');
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'blog.notes'::regclass ORDER BY 1;
\set source notes
INSERT INTO blog.notes SELECT i, 'Note ' || i FROM generate_series(1, 5) i;
SELECT source, octet_length(keys) AS bytes FROM rag_internal.table_change;
SELECT rag_sync('notes') AS run \gset
:did;
SELECT count(*) FROM rag_internal.table_change;
SELECT rag_sync('notes') AS run \gset
:did;
-- changes of unused columns are not recorded
UPDATE blog.notes SET views = views + 1;
SELECT count(*) FROM rag_internal.table_change;
UPDATE blog.notes SET body = body || CASE WHEN id = 3 THEN '!' ELSE '' END;
SELECT octet_length(keys) AS bytes FROM rag_internal.table_change;
SELECT rag_sync('notes') AS run \gset
:did;
-- unless a trigger sets a used column
CREATE FUNCTION blog.shout() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN NEW.body := NEW.body || '!'; RETURN NEW; END $$;
CREATE TRIGGER shout BEFORE UPDATE ON blog.notes FOR EACH ROW EXECUTE FUNCTION blog.shout();
UPDATE blog.notes SET views = 0 WHERE id = 2;
DROP TRIGGER shout ON blog.notes;
SELECT octet_length(keys) AS bytes FROM rag_internal.table_change;
SELECT rag_sync('notes') AS run \gset
:did;
-- changes that do not fit into work_mem are all recorded, and unchanged rows are detected
SET work_mem = '64kB';
INSERT INTO blog.notes SELECT 1000 + i, repeat('The same long note. ', 20)
    FROM generate_series(1, 500) i;
SELECT rag_sync('notes') AS run \gset
:did;
UPDATE blog.notes SET body = body || CASE WHEN id = 1003 THEN '!' ELSE '' END WHERE id > 1000;
SELECT octet_length(keys) AS bytes FROM rag_internal.table_change;
SELECT rag_sync('notes') AS run \gset
:did;
UPDATE blog.notes SET id = id + 1000 WHERE id > 1000;
SELECT octet_length(keys) AS bytes FROM rag_internal.table_change;
DELETE FROM blog.notes WHERE id > 2010;
RESET work_mem;
SELECT rag_sync('notes') AS run \gset
:did;
DELETE FROM blog.notes WHERE id > 1000;
SELECT rag_sync('notes') AS run \gset
-- a rollback records nothing, and neither does a statement without rows
BEGIN; UPDATE blog.notes SET body = 'x'; ROLLBACK;
DELETE FROM blog.notes WHERE id > 100;
SELECT count(*) FROM rag_internal.table_change;
-- keys that are exchanged
BEGIN; UPDATE blog.notes SET id = -1 WHERE id = 1; UPDATE blog.notes SET id = 1 WHERE id = 2;
UPDATE blog.notes SET id = 2 WHERE id = -1; COMMIT;
INSERT INTO blog.notes VALUES (4, 'Note four'), (6, 'Note six') ON CONFLICT (id) DO UPDATE
    SET body = excluded.body;
MERGE INTO blog.notes n USING (VALUES (5), (7)) AS v (id) ON n.id = v.id WHEN MATCHED THEN DELETE
    WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'Note seven');
SELECT rag_sync('notes') AS run \gset
:did;
:show;
-- rows that are deleted by a cascade
CREATE TABLE blog.parents (id int PRIMARY KEY);
ALTER TABLE blog.notes ADD parent int REFERENCES blog.parents ON DELETE CASCADE;
INSERT INTO blog.parents VALUES (1);
UPDATE blog.notes SET parent = 1 WHERE id < 3;
DELETE FROM blog.parents;
SELECT rag_sync('notes') AS run \gset
:did;
-- COPY, TRUNCATE
COPY blog.notes (id, body) FROM stdin;
8	Note eight
\.
SELECT rag_sync('notes') AS run \gset
:did;
TRUNCATE blog.notes, blog.parents;
INSERT INTO blog.notes VALUES (3, 'Note three again');
SELECT rag_sync('notes') AS run \gset
:did;
:show;
-- a document that was removed by hand comes back
SELECT rag_delete_document(document_id) FROM rag.documents WHERE source = 'notes';
SELECT rag_sync('notes') AS run \gset
:did;
-- a table without its triggers is read completely, and so it is when they exist again
ALTER TABLE blog.notes DISABLE TRIGGER USER;
INSERT INTO blog.notes VALUES (9, 'Note nine');
SELECT rag_sync('notes') AS run \gset
:did;
INSERT INTO blog.notes VALUES (10, 'Note ten');
ALTER TABLE blog.notes ENABLE TRIGGER USER;
SELECT rag_sync('notes') AS run \gset
:did;
-- the trigger never fails a statement: without its queue it raises a warning
ALTER TABLE rag_internal.table_change RENAME TO hidden;
INSERT INTO blog.notes VALUES (11, 'Note eleven');
ALTER TABLE rag_internal.hidden RENAME TO table_change;
-- a renamed column: the next run reads the table completely and names the column
ALTER TABLE blog.notes RENAME body TO text;
UPDATE blog.notes SET text = 'Note 9' WHERE id = 9;
SELECT keys IS NULL AS everything FROM rag_internal.table_change;
\set VERBOSITY sqlstate
SELECT rag_sync('notes');
\set VERBOSITY default
:why;
ALTER TABLE blog.notes RENAME text TO body;
SELECT rag_sync('notes') AS run \gset
:did;
-- a renamed, then a dropped table
ALTER TABLE blog.notes RENAME TO remarks;
\set VERBOSITY sqlstate
SELECT rag_sync('notes');
\set VERBOSITY default
:why;
DROP TABLE blog.remarks;
\set VERBOSITY sqlstate
SELECT rag_sync('notes');
\set VERBOSITY default
:why;
SELECT count(*) > 0 AS kept FROM rag.documents WHERE source = 'notes';
SELECT rag_drop_source('notes', keep_documents => false);
-- dropping a source drops its triggers and its queue
CREATE TABLE blog.notes (id int PRIMARY KEY, body text);
SELECT rag_create_source('notes', 'table', '{"relation": "blog.notes", "sync": "trigger"}'),
    rag_create_source('notes2', 'table', '{"relation": "blog.notes", "sync": "trigger"}');
INSERT INTO blog.notes VALUES (1, 'One.');
SELECT source FROM rag_internal.table_change ORDER BY 1;
SELECT rag_drop_source('notes');
SELECT tgname FROM pg_trigger WHERE tgrelid = 'blog.notes'::regclass ORDER BY 1;
SELECT source FROM rag_internal.table_change ORDER BY 1;
SELECT rag_drop_source('notes2');
SELECT count(*) AS triggers, (SELECT count(*) FROM rag_internal.table_change)
    AS queued, (SELECT count(*)
    FROM rag_internal.table_state) AS states FROM pg_trigger WHERE tgrelid = 'blog.notes'::regclass;

-- views, materialized views, partitioned tables
CREATE VIEW blog.digest AS SELECT id % 3 AS third, id, body AS text FROM blog.notes;
INSERT INTO blog.notes SELECT i, 'Digest ' || i FROM generate_series(2, 4) i;
SELECT rag_create_source('digest', 'table', '{"relation": "blog.digest"}'); :sqlstate
SELECT rag_create_source('digest', 'table',
    '{"relation": "blog.digest", "idColumns": "id", "sync": "trigger"}'); :sqlstate
SELECT rag_create_source('digest', 'table', '{"relation": "blog.digest", "idColumns": "id"}');
\set source digest
SELECT rag_sync('digest') AS run \gset
:did;
SELECT rag_drop_source('digest', keep_documents => false);
-- columns that do not identify rows
SELECT rag_create_source('digest', 'table', '{"relation": "blog.digest", "idColumns": "third"}');
SELECT rag_sync('digest') AS run \gset
:did;
SELECT uri, stage, message, hint FROM rag.run_errors WHERE source = 'digest' ORDER BY uri;
SELECT rag_drop_source('digest', keep_documents => false);
CREATE MATERIALIZED VIEW blog.frozen AS SELECT * FROM blog.notes;
CREATE UNIQUE INDEX ON blog.frozen (id);
SELECT rag_create_source('frozen', 'table', '{"relation": "blog.frozen", "idColumns": ["id"]}');
\set source frozen
SELECT rag_sync('frozen') AS run \gset
:did;
SELECT rag_drop_source('frozen', keep_documents => false);
CREATE TABLE blog.parts (id int, region text, body text,
    PRIMARY KEY (region, id)) PARTITION BY LIST (region);
CREATE TABLE blog.parts_n PARTITION OF blog.parts FOR VALUES IN ('n');
CREATE TABLE blog.parts_s PARTITION OF blog.parts FOR VALUES IN ('s');
INSERT INTO blog.parts VALUES (1, 'n', 'North one.'), (1, 's', 'South one.');
SELECT rag_create_source('parts', 'table',
    '{"relation": "blog.parts", "sync": "trigger"}'); :sqlstate
SELECT rag_create_source('parts', 'table',
    '{"relation": "blog.parts_n", "sync": "trigger"}'); :sqlstate
SELECT rag_create_source('parts', 'table', '{"relation": "blog.parts"}');
\set source parts
SELECT rag_sync('parts') AS run \gset
:show;
SELECT rag_drop_source('parts', keep_documents => false);

-- keys of many types are the same in every session
CREATE DOMAIN blog.code AS text CHECK (value <> '');
CREATE TYPE blog.mood AS ENUM ('sad', 'ok');
CREATE TABLE blog.typed (d date, t timestamptz, u uuid, m blog.mood, b bytea, c char(4), n numeric,
    o blog.code, f float8, i interval, body text, PRIMARY KEY (d, t, u, m, b, c, n, o, f, i));
SELECT rag_create_source('typed', 'table', '{"relation": "blog.typed", "sync": "trigger"}');
\set source typed
INSERT INTO blog.typed VALUES ('2024-02-01', '2024-02-01 12:00+02',
    '0188b2a5-a0ff-7d4c-8f3e-000000000001', 'ok', '\x00ff', 'ab', 1.50, 'x y', 0.1, '1 day 2 hours',
    'Typed.');
SELECT rag_sync('typed') AS run \gset
:show;
SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Tokyo'; SET IntervalStyle = 'iso_8601';
SET bytea_output = 'escape'; SET extra_float_digits = -10;
UPDATE blog.typed SET body = 'Typed again.';
RESET ALL;
SELECT rag_sync('typed') AS run \gset
:did;
:show;
SELECT rag_drop_source('typed', keep_documents => false);

-- rejected definitions
SELECT rag_create_source('bad', 'table', '{"relation": "blog.nothing"}'); :sqlstate
SELECT rag_create_source('bad', 'table',
    '{"relation": "blog.posts; DROP TABLE blog.posts"}'); :sqlstate
SELECT rag_create_source('bad', 'table', '{"relation": "blog.posts_id_seq"}'); :sqlstate
SELECT rag_create_source('bad', 'table',
    '{"relation": "blog.posts", "contentColumns": ["text"]}'); :sqlstate
SELECT rag_create_source('bad', 'table',
    '{"relation": "blog.posts", "filter": {"nope": 1}}'); :sqlstate
SELECT rag_create_source('bad', 'table',
    '{"relation": "blog.posts", "filter": {"conditions": [{"key": "author", "operator": "like",
    "value": "a%"}]}}'); :sqlstate
SELECT rag_create_source('bad', 'table',
    '{"relation": "blog.posts", "filter": {"key": "author", "operator": "like",
    "value": "a%"}}'); :sqlstate
SELECT rag_create_source('bad', 'table',
    '{"relation": "blog.posts", "filter": "author = ''ada''"}'); :sqlstate
SELECT rag_create_source('bad', 'table',
    '{"relation": "blog.posts", "sync": "maybe", "where": "true"}'); :sqlstate
CREATE TABLE blog.keyless (body text);
SELECT rag_create_source('bad', 'table', '{"relation": "blog.keyless"}'); :sqlstate
CREATE TABLE blog.wordless (id int PRIMARY KEY, n int);
SELECT rag_create_source('bad', 'table', '{"relation": "blog.wordless"}'); :sqlstate
CREATE TEMPORARY TABLE passing (id int PRIMARY KEY, body text);
SELECT rag_create_source('bad', 'table', '{"relation": "passing"}'); :sqlstate
SELECT count(*) FROM rag.sources;

-- only the rights of the source's owner count
CREATE ROLE regress_rag_writer IN ROLE rag_admin;
CREATE TABLE blog.private (id int PRIMARY KEY, tenant text, body text, secret text);
INSERT INTO blog.private VALUES (1, 'regress_rag_writer', 'Mine.', 's'),
    (2, 'other', 'Not mine.', 's');
GRANT USAGE ON SCHEMA blog TO regress_rag_writer;
SET ROLE regress_rag_writer;
SELECT rag_create_source('private', 'table',
    '{"relation": "blog.private", "contentColumns": ["body"]}'); :sqlstate
RESET ROLE;
GRANT SELECT (id, tenant, body) ON blog.private TO regress_rag_writer;
ALTER TABLE blog.private ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON blog.private USING (tenant = current_user);
SET ROLE regress_rag_writer;
SELECT rag_create_source('private', 'table',
    '{"relation": "blog.private", "contentColumns": ["secret"]}'); :sqlstate
SELECT rag_create_source('private', 'table',
    '{"relation": "blog.private", "sync": "trigger"}'); :sqlstate
SELECT rag_create_source('private', 'table',
    '{"relation": "blog.private", "titleColumn": "tenant"}');
RESET ROLE;
\set source private
SELECT rag_sync('private') AS run \gset
:show;
GRANT TRIGGER ON blog.private TO regress_rag_writer;
SELECT rag_drop_source('private', keep_documents => false);
SET ROLE regress_rag_writer;
SELECT rag_create_source('private', 'table',
    '{"relation": "blog.private", "titleColumn": "tenant", "sync": "trigger"}');
SELECT * FROM rag_internal.table_change; :sqlstate
SELECT * FROM rag_internal.table_state; :sqlstate
RESET ROLE;
SELECT rag_sync('private') AS run \gset
-- a row that the owner can no longer see is no longer a document
UPDATE blog.private SET tenant = 'other' WHERE id = 1;
UPDATE blog.private SET tenant = 'regress_rag_writer' WHERE id = 2;
SELECT rag_sync('private') AS run \gset
:did;
:show;
-- a writer without rights on the extension
CREATE ROLE regress_rag_app;
GRANT USAGE ON SCHEMA blog TO regress_rag_app;
GRANT INSERT ON blog.private TO regress_rag_app;
ALTER TABLE blog.private DISABLE ROW LEVEL SECURITY;
SET ROLE regress_rag_app;
INSERT INTO blog.private VALUES (3, 'x', 'From an application.');
CREATE TEMPORARY TABLE mine (id int);
CREATE TRIGGER t AFTER INSERT ON mine FOR EACH STATEMENT
    EXECUTE FUNCTION rag_internal.table_changed('private', '1', 'id'); :sqlstate
DROP TABLE mine;
RESET ROLE;
SELECT rag_sync('private') AS run \gset
:did;
REVOKE SELECT ON blog.private FROM regress_rag_writer;
REVOKE SELECT (id, tenant, body) ON blog.private FROM regress_rag_writer;
\set VERBOSITY sqlstate
SELECT rag_sync('private');
\set VERBOSITY default
:why;
SELECT rag_drop_source('private', keep_documents => false);

-- functions of a view run with the rights of the source's owner only
GRANT SELECT ON blog.notes TO regress_rag_writer;
CREATE FUNCTION blog.who() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT current_user || ' ' || current_setting('search_path') $$;
CREATE VIEW blog.spy AS SELECT 1 AS id, blog.who() AS body;
GRANT SELECT ON blog.spy TO regress_rag_writer;
SET ROLE regress_rag_writer;
SELECT rag_create_source('spy', 'table', '{"relation": "blog.spy", "idColumns": "id"}');
RESET ROLE;
\set source spy
SELECT rag_sync('spy') AS run \gset
:show;
SELECT rag_drop_source('spy', keep_documents => false);

SET client_min_messages = warning;
DROP SCHEMA blog, "Weird Schema" CASCADE;
DROP ROLE regress_rag_writer, regress_rag_app;
SELECT count(*) FROM rag.documents;
