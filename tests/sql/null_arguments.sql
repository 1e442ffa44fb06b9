-- No function raises an internal error for arguments that are NULL.
\set VERBOSITY terse
CREATE FUNCTION internal_error(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call;
    RAISE 'undone' USING ERRCODE = 'P0002';
EXCEPTION WHEN others THEN
    RETURN CASE WHEN SQLSTATE LIKE 'XX%' THEN SQLERRM END;
END $$;
CREATE TEMP VIEW calls AS
    SELECT format('SELECT %s(%s)', p.oid::regproc,
               (SELECT string_agg('NULL::' || format_type(type, NULL), ', ' ORDER BY place)
                FROM unnest(p.proargtypes) WITH ORDINALITY AS a (type, place))) AS call
    FROM pg_depend AS d JOIN pg_proc AS p ON p.oid = d.objid
    JOIN pg_extension AS e ON e.oid = d.refobjid
    WHERE d.classid = 'pg_proc'::regclass AND d.deptype = 'e' AND e.extname = 'rag'
      AND p.prokind = 'f' AND NOT p.proisstrict AND p.pronargs > 0
      AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
      AND 'internal'::regtype <> ALL (p.proargtypes);
SELECT count(*) > 200 AS "there are many" FROM calls;
SELECT call, internal_error(call) AS message FROM calls
WHERE internal_error(call) IS NOT NULL ORDER BY call;
DROP VIEW calls;
DROP FUNCTION internal_error;
