-- Describes all that belongs to the extension rag in this database. RagCatalog.pm compares two such
-- descriptions, and scripts/upgrade.sh writes from their difference what an upgrade script lacks.
--
-- Each line is a JSON object, one property of an object of the database:
--
--   kind, name    the object; the schema of the extension is written @extschema@
--   property      one of its properties; "exists": there is such an object
--   value         must be equal after an upgrade
--   make          the statement that gives the object this property, if one does
--   remove        the statement that drops the object
--   recreates     another value needs a new object, with all of its properties
--   created       CREATE sets it
--   rank          the order of statements: first what others need
\set QUIET on
\pset tuples_only on
\pset format unaligned
\pset pager off
SET search_path = pg_catalog, pg_temp;
SET client_min_messages = warning;

CREATE TEMP VIEW extension AS SELECT * FROM pg_extension WHERE extname = 'rag';

CREATE TEMP VIEW member AS
    SELECT d.classid, d.objid, i.type, i.identity AS name
    FROM pg_depend d CROSS JOIN pg_identify_object(d.classid, d.objid, 0) i
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
      AND d.refobjid = (SELECT oid FROM extension);

CREATE TEMP VIEW relation AS
    SELECT c.*, c.oid::regclass::text AS name, m.type
    FROM pg_class c JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid;

-- Roles that functions and tables are granted to. Whatever else is granted is told, too.
CREATE FUNCTION pg_temp.privileges(privileges aclitem[]) RETURNS TABLE (grantee text, rights text)
LANGUAGE sql AS $$
    SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
           string_agg(a.privilege_type || CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION'
                                               ELSE '' END, ', ' ORDER BY a.privilege_type)
    FROM aclexplode(privileges) a
    WHERE a.grantee <> (SELECT extowner FROM extension)
    GROUP BY a.grantee
$$;

CREATE TEMP VIEW privilege AS
    SELECT m.classid, m.objid, m.type AS kind, m.name, o.subject, o.rank,
           o.owner = (SELECT extowner FROM extension) AS has_owner,
           coalesce(o.privileges, acldefault(o.class, o.owner)) AS privileges,
           coalesce(i.initprivs, acldefault(o.class, o.owner)) AS initial
    FROM member m
    JOIN (
        SELECT 'pg_proc'::regclass AS classid, oid, 'f'::"char" AS class, proowner AS owner,
               proacl AS privileges, 'FUNCTION' AS subject, 4 AS rank
        FROM pg_proc
        UNION ALL
        SELECT 'pg_class'::regclass, oid, (CASE relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char",
               relowner, relacl, CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, 5
        FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
        UNION ALL
        SELECT 'pg_namespace'::regclass, oid, 'n', nspowner, nspacl, 'SCHEMA', 1
        FROM pg_namespace
        UNION ALL
        SELECT 'pg_type'::regclass, oid, 'T', typowner, typacl, 'TYPE', 2 FROM pg_type
    ) o ON o.classid = m.classid AND o.oid = m.objid
    LEFT JOIN pg_init_privs i ON i.classoid = m.classid AND i.objoid = m.objid AND i.objsubid = 0;

-- Parts of tables and views, which are no members of the extension themselves.
CREATE TEMP VIEW part AS
    SELECT m.classid, m.objid, 0 AS part, m.type, m.name FROM member m
    UNION ALL
    SELECT 'pg_class'::regclass, r.oid, a.attnum, 'column', i.identity
    FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
        AND NOT a.attisdropped
    CROSS JOIN pg_identify_object('pg_class'::regclass, r.oid, a.attnum) i
    UNION ALL
    SELECT s.classid, s.oid, 0, replace(i.type, 'table constraint', 'constraint'), i.identity
    FROM (
        SELECT 'pg_class'::regclass AS classid, x.indexrelid AS oid
        FROM pg_index x JOIN relation r ON r.oid = x.indrelid
        UNION ALL
        SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint c
        JOIN relation r ON r.oid = c.conrelid
        UNION ALL
        SELECT 'pg_trigger'::regclass, t.oid FROM pg_trigger t JOIN relation r ON r.oid = t.tgrelid
        WHERE NOT t.tgisinternal
        UNION ALL
        SELECT 'pg_policy'::regclass, p.oid FROM pg_policy p JOIN relation r ON r.oid = p.polrelid
    ) s CROSS JOIN pg_identify_object(s.classid, s.oid, 0) i;

CREATE TEMP VIEW property AS
-- The extension itself
SELECT 'extension' AS kind, 'rag' AS name, 'properties' AS property,
       format('version %s, relocatable %s', extversion, extrelocatable) AS value,
       NULL AS make, NULL AS remove, false AS recreates, false AS created, 0 AS rank, 0::oid AS id
FROM extension
UNION ALL
SELECT 'contents in dumps', c.oid::regclass::text, 'condition', c.condition,
       format('SELECT pg_catalog.pg_extension_config_dump(%L, %L);',
              c.oid::regclass::text, c.condition),
       NULL, false, false, 21, 0
FROM extension, unnest(extconfig, extcondition) AS c (oid, condition)
-- Schemas and types
UNION ALL
SELECT type, name, 'exists', '', format('CREATE SCHEMA %s;', name),
       format('DROP SCHEMA %s;', name), false, false, 1, 0
FROM member WHERE classid = 'pg_namespace'::regclass
UNION ALL
SELECT m.type, m.name, p.property, p.value, p.make, p.remove, false, p.property <> 'exists', 2,
       0::oid
FROM member m JOIN pg_type t ON m.classid = 'pg_type'::regclass AND t.oid = m.objid
CROSS JOIN LATERAL (VALUES
    ('exists', '', CASE t.typtype WHEN 'c' THEN format('CREATE TYPE %s AS (%s);', m.name, (
           SELECT string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod),
                             ', ' ORDER BY a.attnum)
           FROM pg_attribute a
           WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)) END,
     format('DROP TYPE %s;', m.name)),
    ('definition', CASE t.typtype
           WHEN 'c' THEN (SELECT string_agg(a.attname || ' ' ||
                                            format_type(a.atttypid, a.atttypmod), ', '
                                            ORDER BY a.attnum)
                          FROM pg_attribute a
                          WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
           WHEN 'e' THEN (SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder)
                          FROM pg_enum e WHERE e.enumtypid = t.oid)
           ELSE concat_ws(' ', t.typtype, t.typlen, t.typbyval, t.typcategory, t.typispreferred,
                          t.typinput::regproc, t.typoutput::regproc, t.typreceive::regproc,
                          t.typsend::regproc, t.typmodin::regproc, t.typmodout::regproc,
                          t.typanalyze::regproc, t.typsubscript::regproc, t.typalign,
                          t.typstorage, t.typnotnull, format_type(t.typbasetype, t.typtypmod),
                          t.typdefault)
       END, NULL, NULL)
) AS p (property, value, make, remove)
WHERE t.typcategory <> 'A'
  AND (t.typrelid = 0 OR (SELECT relkind FROM pg_class WHERE oid = t.typrelid) = 'c')
-- Sequences
UNION ALL
SELECT r.type, r.name, p.property, p.value, p.make, p.remove, false, p.property <> 'exists', 3, 0
FROM relation r JOIN pg_sequence s ON s.seqrelid = r.oid
CROSS JOIN LATERAL (VALUES
    ('exists', '',
     format('CREATE SEQUENCE %s AS %s START %s INCREMENT %s MINVALUE %s MAXVALUE %s CACHE %s;',
            r.name, format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax,
            s.seqcache),
     format('DROP SEQUENCE %s;', r.name)),
    ('definition',
     concat_ws(' ', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax,
               s.seqcache, s.seqcycle), NULL, NULL)
) AS p (property, value, make, remove)
-- Functions
UNION ALL
SELECT m.type, m.name, 'signature',
       format('(%s) returns %s', pg_get_function_identity_arguments(p.oid),
              pg_get_function_result(p.oid)),
       NULL, format('DROP ROUTINE %s;', m.name), true, true, 4, p.oid
FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
UNION ALL
SELECT m.type, m.name, 'definition', pg_get_functiondef(p.oid),
       rtrim(replace(pg_get_functiondef(p.oid), E'\nAS ''rag'', ',
                     E'\nAS ''MODULE_PATHNAME'', '), E'\n') || ';',
       NULL, false, false, 4, p.oid
FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
WHERE p.prokind <> 'a'
UNION ALL
SELECT m.type, m.name, 'definition',
       concat_ws(' ', to_jsonb(a) - 'aggfnoid' - 'aggtranstype' - 'aggsortop' - 'aggmtranstype',
                 a.aggtranstype::regtype, a.aggsortop::regoperator, a.aggmtranstype::regtype,
                 p.proparallel),
       NULL, NULL, false, false, 4, 0
FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
JOIN pg_aggregate a ON a.aggfnoid = p.oid
-- Tables and their columns
UNION ALL
SELECT r.type, r.name, p.property, p.value, p.make, p.remove, false, p.property <> 'exists', 3,
       r.oid
FROM relation r
CROSS JOIN LATERAL (VALUES
    ('exists', '', CASE r.relkind WHEN 'r' THEN
        format('CREATE %sTABLE %s ()%s;',
               CASE r.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, r.name,
               ' WITH (' || array_to_string(r.reloptions, ', ') || ')') END,
     format('DROP TABLE %s;', r.name)),
    ('definition',
     concat_ws(' ', r.relkind, r.relpersistence, pg_get_partkeydef(r.oid), r.reloptions::text,
               (SELECT amname FROM pg_am WHERE oid = r.relam), r.relreplident,
               (SELECT string_agg(inhparent::regclass::text, ' ') FROM pg_inherits
                WHERE inhrelid = r.oid), pg_get_expr(r.relpartbound, r.oid)), NULL, NULL)
) AS p (property, value, make, remove)
WHERE r.relkind IN ('r', 'p', 'f')
UNION ALL
SELECT r.type, r.name, 'row-level security',
       concat_ws(', ', CASE WHEN r.relrowsecurity THEN 'enabled' END,
                 CASE WHEN r.relforcerowsecurity THEN 'forced' END),
       format('ALTER TABLE %s %s ROW LEVEL SECURITY; ALTER TABLE %s %s ROW LEVEL SECURITY;', r.name,
              CASE WHEN r.relrowsecurity THEN 'ENABLE' ELSE 'DISABLE' END, r.name,
              CASE WHEN r.relforcerowsecurity THEN 'FORCE' ELSE 'NO FORCE' END),
       NULL, false, false, 19, 0
FROM relation r WHERE r.relkind IN ('r', 'p', 'f')
UNION ALL
SELECT 'column', r.name || '.' || quote_ident(a.attname), p.property, p.value, p.make,
       format('ALTER TABLE %s DROP COLUMN %I;', r.name, a.attname), false,
       p.property NOT IN ('exists', 'storage', 'compression and statistics')
           OR p.property = 'storage' AND a.attstorage = t.typstorage, 5, a.attnum::text::oid
FROM relation r
JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
CROSS JOIN LATERAL (
    SELECT format('ALTER TABLE %s ALTER COLUMN %I ', r.name, a.attname) AS change,
           format_type(a.atttypid, a.atttypmod) AS type, pg_get_expr(d.adbin, r.oid) AS expression,
           (SELECT format(' COLLATE %s', l.oid::regcollation) FROM pg_collation l
            JOIN pg_type t ON t.oid = a.atttypid
            WHERE l.oid = a.attcollation AND l.oid <> t.typcollation) AS collation,
           (SELECT count(*) FROM pg_attribute b WHERE b.attrelid = r.oid
            AND b.attnum > 0 AND b.attnum <= a.attnum AND NOT b.attisdropped) AS place
) e
CROSS JOIN LATERAL (VALUES
    ('exists', '', format('ALTER TABLE %s ADD COLUMN %I %s', r.name, a.attname, e.type)
         || coalesce(e.collation, '')
         || CASE WHEN a.attgenerated <> '' THEN format(' GENERATED ALWAYS AS (%s) STORED',
                                                       e.expression)
                 WHEN a.attidentity = 'a' THEN ' GENERATED ALWAYS AS IDENTITY'
                 WHEN a.attidentity = 'd' THEN ' GENERATED BY DEFAULT AS IDENTITY'
                 ELSE coalesce(' DEFAULT ' || e.expression, '') END
         || CASE WHEN a.attnotnull THEN ' NOT NULL;' ELSE ';' END),
    ('place', e.place::text, NULL),
    ('type', concat(e.type, e.collation), format('%sTYPE %s%s;', e.change, e.type, e.collation)),
    ('default', concat_ws(' ', a.attgenerated, a.attidentity, e.expression),
     CASE WHEN a.attgenerated <> '' OR a.attidentity <> '' THEN NULL
          WHEN e.expression IS NULL THEN e.change || 'DROP DEFAULT;'
          ELSE format('%sSET DEFAULT %s;', e.change, e.expression) END),
    ('not null', a.attnotnull::text,
     e.change || CASE WHEN a.attnotnull THEN 'SET NOT NULL;' ELSE 'DROP NOT NULL;' END),
    ('storage', a.attstorage::text,
     format('%sSET STORAGE %s;', e.change, CASE a.attstorage WHEN 'p' THEN 'PLAIN'
         WHEN 'm' THEN 'MAIN' WHEN 'x' THEN 'EXTENDED' ELSE 'EXTERNAL' END)),
    ('compression and statistics', concat_ws(' ', a.attcompression,
         nullif(coalesce(a.attstattarget, -1), -1),
         -- some versions keep a number of their own here
         (SELECT string_agg(o, ', ') FROM unnest(a.attoptions) o WHERE o NOT LIKE 'pg_attver=%')),
     NULL),
    ('privileges', (SELECT string_agg(g.grantee || ': ' || g.rights, '; ' ORDER BY g.grantee)
                    FROM pg_temp.privileges(a.attacl) g), NULL)
) AS p (property, value, make)
WHERE r.relkind IN ('r', 'p', 'f')
UNION ALL
SELECT 'constraint', p.name, 'definition',
       concat_ws(' ', pg_get_constraintdef(c.oid),
                 CASE WHEN NOT c.convalidated THEN 'NOT VALID' END),
       format('ALTER TABLE %s ADD CONSTRAINT %I %s;', c.conrelid::regclass, c.conname,
              pg_get_constraintdef(c.oid)),
       format('ALTER TABLE %s DROP CONSTRAINT %I;', c.conrelid::regclass, c.conname),
       true, false, CASE c.contype WHEN 'f' THEN 15 ELSE 14 END, c.oid
FROM part p JOIN pg_constraint c ON p.classid = 'pg_constraint'::regclass AND c.oid = p.objid
WHERE c.contype NOT IN ('n', 't') AND c.conrelid <> 0
UNION ALL
SELECT 'index', p.name, 'definition',
       concat_ws(' ', pg_get_indexdef(x.indexrelid), CASE WHEN NOT x.indisvalid THEN 'invalid' END,
                 CASE WHEN x.indisreplident THEN 'replica identity' END),
       CASE WHEN c.oid IS NULL THEN pg_get_indexdef(x.indexrelid) || ';'
            ELSE '' END,
       CASE WHEN c.oid IS NULL THEN format('DROP INDEX %s;', p.name) ELSE '' END,
       true, false, 16, x.indexrelid
FROM part p JOIN pg_index x ON p.classid = 'pg_class'::regclass AND x.indexrelid = p.objid
LEFT JOIN pg_constraint c ON c.conindid = x.indexrelid AND c.conrelid = x.indrelid
-- Views
UNION ALL
SELECT r.type, r.name, 'columns',
       (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', '
                          ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = r.oid AND a.attnum > 0),
       NULL, format('DROP VIEW %s;', r.name), true, true, 17, r.oid
FROM relation r WHERE r.relkind IN ('v', 'm')
UNION ALL
SELECT r.type, r.name, 'definition',
       concat(r.reloptions::text, pg_get_viewdef(r.oid)),
       concat('CREATE OR REPLACE VIEW ', r.name,
              ' WITH (' || array_to_string(r.reloptions, ', ') || ')', E' AS\n',
              pg_get_viewdef(r.oid)),
       NULL, false, false, 17, r.oid
FROM relation r WHERE r.relkind IN ('v', 'm')
UNION ALL
SELECT 'rule', w.rulename || ' on ' || r.name, 'definition', pg_get_ruledef(w.oid),
       pg_get_ruledef(w.oid), format('DROP RULE %I ON %s;', w.rulename, r.name), true, false, 18, 0
FROM relation r JOIN pg_rewrite w ON w.ev_class = r.oid AND w.rulename <> '_RETURN'
-- Triggers and policies
UNION ALL
SELECT 'trigger', p.name, 'definition',
       format('%s (enabled: %s)', pg_get_triggerdef(t.oid), t.tgenabled),
       concat(pg_get_triggerdef(t.oid), ';', CASE WHEN t.tgenabled <> 'O' THEN
           format(E'\nALTER TABLE %s %s TRIGGER %I;', t.tgrelid::regclass, CASE t.tgenabled
               WHEN 'D' THEN 'DISABLE' WHEN 'A' THEN 'ENABLE ALWAYS' ELSE 'ENABLE REPLICA' END,
               t.tgname) END),
       format('DROP TRIGGER %I ON %s;', t.tgname, t.tgrelid::regclass), true, false, 18, 0
FROM part p JOIN pg_trigger t ON p.classid = 'pg_trigger'::regclass AND t.oid = p.objid
UNION ALL
SELECT 'policy', p.name, 'definition', e.definition,
       format('CREATE POLICY %I ON %s%s;', y.polname, y.polrelid::regclass, e.definition),
       format('DROP POLICY %I ON %s;', y.polname, y.polrelid::regclass), true, false, 18, 0
FROM part p JOIN pg_policy y ON p.classid = 'pg_policy'::regclass AND y.oid = p.objid
CROSS JOIN LATERAL (SELECT concat(
    CASE WHEN y.polpermissive THEN '' ELSE ' AS RESTRICTIVE' END,
    ' FOR ' || CASE y.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE'
                   WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
    ' TO ' || (SELECT string_agg(CASE r WHEN 0 THEN 'PUBLIC' ELSE r::regrole::text END, ', '
                                 ORDER BY r) FROM unnest(y.polroles) r),
    ' USING (' || pg_get_expr(y.polqual, y.polrelid) || ')',
    ' WITH CHECK (' || pg_get_expr(y.polwithcheck, y.polrelid) || ')') AS definition) e
UNION ALL
SELECT m.type, m.name, 'definition', format('%s (enabled: %s)', e.definition, t.evtenabled),
       format('CREATE EVENT TRIGGER %s %s;', m.name, e.definition),
       format('DROP EVENT TRIGGER %s;', m.name), true, false, 20, 0
FROM member m
JOIN pg_event_trigger t ON m.classid = 'pg_event_trigger'::regclass AND t.oid = m.objid
CROSS JOIN LATERAL (SELECT concat('ON ', t.evtevent,
    (SELECT format(' WHEN TAG IN (%s)', string_agg(quote_literal(tag), ', '))
     FROM unnest(t.evttags) tag),
    format(' EXECUTE FUNCTION %s()', t.evtfoid::regproc)) AS definition) e
-- Operators, access methods, and what belongs to them
UNION ALL
SELECT m.type, m.name, 'definition',
       concat_ws(' ', o.oprcode, o.oprresult::regtype, o.oprcom::regoperator,
                 o.oprnegate::regoperator, o.oprrest, o.oprjoin, o.oprcanmerge, o.oprcanhash),
       NULL, format('DROP OPERATOR %s;', m.name), false, false, 6, 0
FROM member m JOIN pg_operator o ON m.classid = 'pg_operator'::regclass AND o.oid = m.objid
UNION ALL
SELECT m.type, m.name, p.property, p.value, p.make,
       format('DROP ACCESS METHOD %s;', m.name), false, p.property <> 'exists', 7, 0
FROM member m JOIN pg_am a ON m.classid = 'pg_am'::regclass AND a.oid = m.objid
CROSS JOIN LATERAL (VALUES
    ('exists', '', format('CREATE ACCESS METHOD %s TYPE INDEX HANDLER %s;', m.name, a.amhandler)),
    ('definition', concat_ws(' ', a.amtype, a.amhandler), NULL)
) AS p (property, value, make)
UNION ALL
SELECT m.type, m.name, 'members',
       (SELECT string_agg(format('%s %s', i.type, i.identity), E'\n' ORDER BY i.identity)
        FROM (SELECT 'pg_amop'::regclass AS classid, oid FROM pg_amop WHERE amopfamily = f.oid
              UNION ALL
              SELECT 'pg_amproc'::regclass, oid FROM pg_amproc WHERE amprocfamily = f.oid) x
        CROSS JOIN pg_identify_object(x.classid, x.oid, 0) i),
       NULL, format('DROP OPERATOR FAMILY %s;', m.name), false, false, 8, 0
FROM member m JOIN pg_opfamily f ON m.classid = 'pg_opfamily'::regclass AND f.oid = m.objid
UNION ALL
SELECT m.type, m.name, 'definition',
       concat_ws(' ', c.opcintype::regtype, c.opcdefault, c.opckeytype::regtype),
       NULL, format('DROP OPERATOR CLASS %s;', m.name), false, false, 9, 0
FROM member m JOIN pg_opclass c ON m.classid = 'pg_opclass'::regclass AND c.oid = m.objid
UNION ALL
SELECT m.type, m.name, 'definition',
       concat_ws(' ', nullif(c.castfunc, 0)::regprocedure, c.castcontext, c.castmethod),
       NULL, format('DROP CAST %s;', m.name), false, false, 10, 0
FROM member m JOIN pg_cast c ON m.classid = 'pg_cast'::regclass AND c.oid = m.objid
UNION ALL
SELECT m.type, m.name, 'exists', '', NULL, NULL, false, false, 20, 0
FROM member m
WHERE m.classid::regclass::text NOT IN (
    'pg_namespace', 'pg_type', 'pg_class', 'pg_proc', 'pg_event_trigger', 'pg_operator', 'pg_am',
    'pg_opfamily', 'pg_opclass', 'pg_cast')
-- Comments and privileges
UNION ALL
SELECT p.type, p.name, 'comment', obj.comment,
       format('COMMENT ON %s %s IS %L;', upper(p.type), p.name, obj.comment),
       NULL, false, false, 22, 0
FROM part p
CROSS JOIN LATERAL (
    SELECT description AS comment FROM pg_description d
    WHERE d.classoid = p.classid AND d.objoid = p.objid AND d.objsubid = p.part) obj
UNION ALL
SELECT p.kind, p.name, 'privileges',
       concat_ws('; ', CASE WHEN NOT p.has_owner THEN 'another owner' END, g.rights),
       concat_ws(E'\n',
           format('REVOKE ALL ON %s %s FROM PUBLIC, rag_reader, rag_admin;', p.subject, p.name),
           g.grants),
       NULL, false, false, 23, 0
FROM privilege p
CROSS JOIN LATERAL (
    SELECT string_agg(grantee || ': ' || rights, '; ' ORDER BY grantee) AS rights,
           string_agg(format('GRANT %s ON %s %s TO %s;', rights, p.subject, p.name, grantee), E'\n'
                      ORDER BY grantee) AS grants
    FROM pg_temp.privileges(p.privileges)) g
UNION ALL
SELECT p.kind, p.name, 'initial privileges',
       (SELECT string_agg(grantee || ': ' || rights, '; ' ORDER BY grantee)
        FROM pg_temp.privileges(p.initial)),
       NULL, NULL, false, false, 24, 0
FROM privilege p;

SELECT replace(replace(jsonb_strip_nulls(to_jsonb(p))::text,
    e.name || '.', '@extschema@.'),
    quote_literal(e.name) || '::regnamespace', '''@extschema@''::regnamespace')
FROM property p, (SELECT extnamespace::regnamespace::text AS name FROM extension) e
ORDER BY rank, id, kind, p.name, property <> 'exists', property;
