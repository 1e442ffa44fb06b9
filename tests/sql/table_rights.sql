-- Rights of table sources: whose rights a run uses, and attempts to get the rights of another role.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'
\set show 'SELECT uri, title, metadata, content FROM rag.documents WHERE source = :''source'' ORDER BY uri COLLATE "C"'
\set why 'SELECT phase, error ->> ''sqlstate'' AS sqlstate, error ->> ''message'' AS message, error ->> ''detail'' AS detail, error ->> ''hint'' AS hint FROM rag.runs LEFT JOIN LATERAL jsonb_array_elements(errors) AS error ON true WHERE source = :''source'' ORDER BY run_id DESC LIMIT 1'
SET client_min_messages = warning;
CREATE ROLE regress_tab_blog;
CREATE ROLE regress_tab_ada IN ROLE rag_admin;
CREATE ROLE regress_tab_bob IN ROLE rag_admin;
CREATE SCHEMA regress_blog AUTHORIZATION regress_tab_blog;
GRANT USAGE ON SCHEMA regress_blog TO regress_tab_ada, regress_tab_bob;
-- what each function below does with a superuser's rights, and which rights it had
CREATE TABLE regress_ran (i int GENERATED ALWAYS AS IDENTITY, by_role name);
GRANT INSERT ON regress_ran TO PUBLIC;
SET ROLE regress_tab_blog;
CREATE TABLE regress_blog.posts (id int PRIMARY KEY, title text, body text);
INSERT INTO regress_blog.posts VALUES (1, 'Bread', 'Bread is baked in the morning.');
CREATE FUNCTION regress_blog.evil(t text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.regress_ran (by_role) VALUES (current_user);
    IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        EXECUTE 'ALTER ROLE regress_tab_blog SUPERUSER';
    END IF;
    RETURN t;
END $$;
RESET ROLE;

-- a superuser's source of another role's table runs as that role, and does not read a view that
-- replaces the table
SELECT rag_create_source('posts', 'table', '{"relation": "regress_blog.posts"}');
\set source posts
SELECT rag_sync('posts') > 0 AS ran;
SET ROLE regress_tab_blog;
ALTER TABLE regress_blog.posts RENAME TO posts_real;
CREATE VIEW regress_blog.posts AS SELECT id, title, regress_blog.evil(body) AS body
    FROM regress_blog.posts_real;
RESET ROLE;
\set VERBOSITY terse
SELECT rag_sync('posts'); :sqlstate
\set VERBOSITY default
:why;
SELECT rolsuper FROM pg_roles WHERE rolname = 'regress_tab_blog';
-- also if the superuser defines the source on the view
SELECT rag_alter_source('posts',
    spec => '{"relation": "regress_blog.posts", "idColumns": ["id"], "contentColumns": ["body"],
    "titleColumn": "title"}');
SELECT rag_sync('posts') > 0 AS ran;
:why;
SELECT count(*) > 0 AS ran, array_agg(DISTINCT by_role) AS by_roles, (SELECT rolsuper FROM pg_roles
    WHERE rolname = 'regress_tab_blog') FROM regress_ran;
TRUNCATE regress_ran;
SELECT rag_drop_source('posts', keep_documents => false);
DROP VIEW regress_blog.posts;
ALTER TABLE regress_blog.posts_real RENAME TO posts;

-- casts of a type's owner to text and JSON are not called: not for a composite type, an enum, or an
-- array of these; nor are casts from text
SET ROLE regress_tab_blog;
CREATE TYPE regress_blog.body AS (text text);
CREATE TYPE regress_blog.mood AS ENUM ('sad', 'it''s "ok"');
CREATE FUNCTION regress_blog.cast_body(b regress_blog.body) RETURNS text LANGUAGE sql AS $$
    SELECT regress_blog.evil('cast') $$;
CREATE FUNCTION regress_blog.cast_mood(m regress_blog.mood) RETURNS text LANGUAGE sql AS $$
    SELECT regress_blog.evil('cast') $$;
CREATE FUNCTION regress_blog.mood_json(m regress_blog.mood) RETURNS json LANGUAGE sql AS $$
    SELECT pg_catalog.to_json(regress_blog.evil('cast')) $$;
CREATE FUNCTION regress_blog.text_mood(t text) RETURNS regress_blog.mood LANGUAGE plpgsql AS $$
    BEGIN PERFORM regress_blog.evil('cast'); RETURN 'sad'; END $$;
CREATE CAST (regress_blog.body AS text) WITH FUNCTION regress_blog.cast_body(regress_blog.body);
CREATE CAST (regress_blog.mood AS text) WITH FUNCTION regress_blog.cast_mood(regress_blog.mood);
CREATE CAST (regress_blog.mood AS json) WITH FUNCTION regress_blog.mood_json(regress_blog.mood);
CREATE CAST (text AS regress_blog.mood) WITH FUNCTION regress_blog.text_mood(text);
CREATE TABLE regress_blog.typed (mood regress_blog.mood, n int, body regress_blog.body,
    moods regress_blog.mood[], PRIMARY KEY (mood, n));
INSERT INTO regress_blog.typed VALUES ('it''s "ok"', 1, ROW('Typed text.'), '{sad}'),
    ('sad', 2, NULL, NULL);
RESET ROLE;
TRUNCATE regress_ran;
SELECT rag_create_source('typed', 'table',
    '{"relation": "regress_blog.typed", "contentColumns": ["body"], "metadataColumns": ["mood", "n",
    "moods"], "filter": {"n": 1}, "sync": "trigger"}');
\set source typed
SELECT rag_sync('typed') > 0 AS ran;
:show;
UPDATE regress_blog.typed SET body = ROW('Typed again.') WHERE n = 1;
SELECT rag_sync('typed') > 0 AS ran;
SELECT content, documents_updated AS updated, documents_unchanged AS unchanged
    FROM rag.documents d, rag.runs r WHERE d.source = 'typed' AND r.source = 'typed'
    ORDER BY run_id DESC LIMIT 1;
SELECT count(*) AS casts_that_ran FROM regress_ran;
-- the row's key is metadata for filters
SELECT uri, metadata -> 'row_key' AS row_key
    FROM rag_search('typed', filter => '{"row_key": {"n": 1}}');
SELECT uri FROM rag_search('typed', filter => '{"row_key": {"n": 2}}');
SELECT rag_drop_source('typed', keep_documents => false);

-- policies of row-level security can call functions as well
SET ROLE regress_tab_blog;
CREATE TABLE regress_blog.guarded (id int PRIMARY KEY, body text);
INSERT INTO regress_blog.guarded VALUES (1, 'Seen.');
ALTER TABLE regress_blog.guarded ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY spy ON regress_blog.guarded USING (regress_blog.evil('x') IS NOT NULL);
GRANT SELECT ON regress_blog.guarded, regress_blog.posts TO regress_tab_ada;
RESET ROLE;
TRUNCATE regress_ran;
SET ROLE regress_tab_ada;
SELECT rag_create_source('guarded', 'table', '{"relation": "regress_blog.guarded"}'); :sqlstate
-- an ordinary role's table is read for roles that are members of it and can read the table
-- themselves
SELECT rag_create_source('posts', 'table', '{"relation": "regress_blog.posts"}'); :sqlstate
RESET ROLE;
GRANT regress_tab_blog TO regress_tab_ada;
SET ROLE regress_tab_ada;
SELECT rag_create_source('posts', 'table', '{"relation": "regress_blog.posts"}');
SELECT rag_create_source('guarded', 'table', '{"relation": "regress_blog.guarded"}'); :sqlstate
RESET ROLE;
SELECT rag_sync('posts') > 0 AS ran;
\set source posts
:why;
SELECT count(*) AS policies_that_ran FROM regress_ran;
-- the table's owner can read it with its own rights, including policies
GRANT rag_admin TO regress_tab_blog;
SET ROLE regress_tab_blog;
SELECT rag_create_source('guarded', 'table', '{"relation": "regress_blog.guarded"}');
RESET ROLE;
SELECT rag_sync('guarded') > 0 AS ran;
\set source guarded
:show;
SELECT array_agg(DISTINCT by_role) AS by_roles FROM regress_ran;
SELECT rag_drop_source('guarded', keep_documents => false);
-- a source is stopped if its owner is no longer a member of the relation's owner or cannot read it
REVOKE regress_tab_blog FROM regress_tab_ada;
\set VERBOSITY terse
SELECT rag_sync('posts'); :sqlstate
GRANT regress_tab_blog TO regress_tab_ada;
-- a source is stopped if its relation has another owner, until the source is altered
ALTER TABLE regress_blog.posts OWNER TO regress_tab_ada;
SELECT rag_sync('posts'); :sqlstate
\set VERBOSITY default
\set source posts
:why;
SET ROLE regress_tab_bob;
SELECT rag_alter_source('posts', spec => (SELECT spec FROM rag.sources
    WHERE name = 'posts')); :sqlstate
SET ROLE regress_tab_ada;
SELECT rag_alter_source('posts', max_retries => 1);
SELECT rag_alter_source('posts', spec => (SELECT spec FROM rag.sources WHERE name = 'posts'));
RESET ROLE;
SELECT rag_sync('posts') > 0 AS ran;
-- a table created again under the same name is another table
DROP TABLE regress_blog.posts;
CREATE TABLE regress_blog.posts (id int PRIMARY KEY, title text, body text);
ALTER TABLE regress_blog.posts OWNER TO regress_tab_ada;
\set VERBOSITY terse
SELECT rag_sync('posts'); :sqlstate
\set VERBOSITY default
:why;
SELECT rag_drop_source('posts', keep_documents => false);

-- a superuser's relation is read with the rights of the source's owner, unless it uses functions of
-- other roles
CREATE VIEW public.regress_list AS SELECT id, body FROM regress_blog.guarded;
CREATE VIEW public.regress_evil AS SELECT id, regress_blog.evil(body) AS body
    FROM regress_blog.guarded;
SET ROLE regress_tab_blog;
CREATE VIEW regress_blog.theirs AS SELECT id, regress_blog.evil(body) AS body
    FROM regress_blog.guarded;
GRANT SELECT ON regress_blog.theirs TO PUBLIC;
RESET ROLE;
CREATE VIEW public.regress_nested AS SELECT * FROM regress_blog.theirs;
GRANT SELECT ON public.regress_list, public.regress_evil, public.regress_nested TO regress_tab_bob;
TRUNCATE regress_ran;
SET ROLE regress_tab_bob;
SELECT rag_create_source('list', 'table',
    '{"relation": "public.regress_list", "idColumns": ["id"]}');
SELECT rag_create_source('evil', 'table',
    '{"relation": "public.regress_evil", "idColumns": ["id"]}'); :sqlstate
RESET ROLE;
SELECT rag_create_source('evil', 'table',
    '{"relation": "public.regress_evil", "idColumns": ["id"]}'); :sqlstate
SELECT rag_create_source('nested', 'table',
    '{"relation": "public.regress_nested", "idColumns": ["id"]}'); :sqlstate
SELECT rag_sync('list') > 0 AS ran;
\set source list
:show;
SELECT count(*) AS ran FROM regress_ran;
SELECT rag_drop_source('list', keep_documents => false);

-- names are resolved safely: nothing on the caller's search_path is called
CREATE TABLE public.regress_found (id int PRIMARY KEY, body text);
SET ROLE regress_tab_blog;
CREATE FUNCTION regress_blog.evil_eq(oid, regclass) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN PERFORM regress_blog.evil(''); RETURN true; END $$;
CREATE FUNCTION regress_blog.to_regclass(text) RETURNS regclass LANGUAGE plpgsql AS $$
    BEGIN PERFORM regress_blog.evil(''); RETURN NULL; END $$;
CREATE OPERATOR regress_blog.= (LEFTARG = oid, RIGHTARG = regclass,
    FUNCTION = regress_blog.evil_eq);
CREATE FUNCTION regress_blog.format(text, regprocedure, text) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN PERFORM regress_blog.evil(''); RETURN pg_catalog.format($1, $2, $3); END $$;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA regress_blog TO PUBLIC;
RESET ROLE;
TRUNCATE regress_ran;
SET search_path = regress_blog, public;
SELECT public.rag_validate_source('table', '{"relation": "regress_found"}');
SELECT public.rag_create_source('found', 'table', '{"relation": "regress_found"}');
SELECT public.rag_alter_source('found',
    spec => '{"relation": "regress_found", "filter": {"id": 1}}');
SELECT spec ->> 'relation' AS relation FROM rag.sources;
SELECT public.rag_drop_source('found');
RESET search_path;
SELECT count(*) AS ran FROM regress_ran;

-- triggers ----------------------------------------------------------------
CREATE TABLE public.regress_notes (id int PRIMARY KEY, body text);
CREATE TABLE public.regress_other (id int PRIMARY KEY, body text);
SELECT rag_create_source('notes', 'table',
    '{"relation": "public.regress_notes", "sync": "trigger"}');
-- only the extension can create them
GRANT ALL ON public.regress_other TO regress_tab_ada;
SET ROLE regress_tab_ada;
CREATE TRIGGER rag_i_notes AFTER INSERT ON public.regress_other REFERENCING NEW TABLE AS rag_new
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.table_changed('notes', '1', 'id', 'body');
        :sqlstate
RESET ROLE;
-- triggers of a superuser's record nothing for a source that does not read the table
CREATE TRIGGER rag_i_notes AFTER INSERT ON public.regress_other REFERENCING NEW TABLE AS rag_new
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.table_changed('notes', '1', 'id', 'body');
INSERT INTO public.regress_other VALUES (1, 'Other.');
SELECT count(*) AS queued FROM rag_internal.table_change;
-- they do not belong to the source: it neither waits for their table nor drops them
SELECT rag_alter_source('notes',
    spec => '{"relation": "public.regress_notes", "sync": "trigger", "filter": {"id": 1}}');
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgname LIKE 'rag%' ORDER BY 1, 2;
-- a renamed trigger belongs to the source
ALTER TRIGGER rag_i_notes ON public.regress_notes RENAME TO something;
SELECT rag_drop_source('notes');
SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE tgname LIKE 'rag%' OR tgname = 'something'
    ORDER BY 1, 2;
INSERT INTO public.regress_other VALUES (2, 'Other.');
DROP TRIGGER rag_i_notes ON public.regress_other;
-- other definitions are rejected without effects
CREATE FUNCTION regress_shape(shape text, what text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE pg_catalog.format($t$CREATE TRIGGER shape %s
    EXECUTE FUNCTION rag_internal.table_changed('notes', '1', 'id', 'body')$t$, shape);
    EXECUTE what;
    RAISE 'nothing was refused';
EXCEPTION WHEN others THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE VIEW public.regress_view AS SELECT * FROM public.regress_other;
SELECT shape, regress_shape(shape, what) FROM (VALUES
    ('AFTER UPDATE ON public.regress_other FOR EACH ROW', $$UPDATE public.regress_other
    SET body = 'b'$$),
    ('BEFORE UPDATE ON public.regress_other FOR EACH ROW', $$UPDATE public.regress_other
    SET body = 'b'$$),
    ('BEFORE UPDATE ON public.regress_other FOR EACH STATEMENT', $$UPDATE public.regress_other
    SET body = 'b'$$),
    ('AFTER UPDATE ON public.regress_other FOR EACH STATEMENT', $$UPDATE public.regress_other
    SET body = 'b'$$),
    ('AFTER UPDATE ON public.regress_other REFERENCING NEW TABLE AS n FOR EACH STATEMENT',
    $$UPDATE public.regress_other SET body = 'b'$$),
    ('AFTER UPDATE ON public.regress_other REFERENCING OLD TABLE AS n FOR EACH STATEMENT',
    $$UPDATE public.regress_other SET body = 'b'$$),
    ('AFTER INSERT ON public.regress_other FOR EACH STATEMENT', $$INSERT INTO public.regress_other
    VALUES (3)$$),
    ('AFTER DELETE ON public.regress_other FOR EACH STATEMENT', $$DELETE
    FROM public.regress_other$$),
    ('AFTER DELETE ON public.regress_other FOR EACH ROW', $$DELETE FROM public.regress_other$$),
    ('BEFORE TRUNCATE ON public.regress_other FOR EACH STATEMENT',
    $$TRUNCATE public.regress_other$$),
    ('AFTER INSERT OR UPDATE OR DELETE ON public.regress_other FOR EACH ROW', $$DELETE
    FROM public.regress_other$$),
    ('INSTEAD OF INSERT ON public.regress_view FOR EACH ROW', $$INSERT INTO public.regress_view
    VALUES (3)$$),
    ('INSTEAD OF UPDATE ON public.regress_view FOR EACH ROW', $$UPDATE public.regress_view
    SET body = 'b'$$)) AS s (shape, what);
CREATE TRIGGER shape AFTER TRUNCATE ON public.regress_other FOR EACH STATEMENT
    EXECUTE FUNCTION rag_internal.table_changed();
TRUNCATE public.regress_other; :sqlstate
DROP TRIGGER shape ON public.regress_other;
CREATE TRIGGER shape AFTER TRUNCATE ON public.regress_other FOR EACH STATEMENT
    EXECUTE FUNCTION rag_internal.table_changed('notes', '7', 'id');
TRUNCATE public.regress_other; :sqlstate
DROP TRIGGER shape ON public.regress_other;
CREATE CONSTRAINT TRIGGER shape AFTER UPDATE ON public.regress_other DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION rag_internal.table_changed('notes', '1', 'id');
UPDATE public.regress_other SET body = 'c'; :sqlstate
DROP TRIGGER shape ON public.regress_other;
SELECT rag_internal.table_changed(); :sqlstate
SELECT count(*) AS queued FROM rag_internal.table_change;

DROP FUNCTION regress_shape;
DROP VIEW public.regress_view, public.regress_list, public.regress_evil, public.regress_nested;
DROP TABLE public.regress_notes, public.regress_other, public.regress_found;
DROP SCHEMA regress_blog CASCADE;
DROP TABLE regress_ran;
DROP ROLE regress_tab_blog, regress_tab_ada, regress_tab_bob;
SELECT count(*) FROM rag.sources;
