-- Values that the catalog and the library both contain: SQL functions return those of the catalog,
-- and calls of the library show those of the library.

-- names: the functions that the CHECKs use, and rag_create_collection, rag_validate_source and
-- rag_create_secret
CREATE TEMP TABLE names AS
SELECT replace(form, '+', repeat('a', length)) AS name
FROM unnest(ARRAY['+', 'A+', '+Z', '+_', '+-', '-+', '.+', '+.', '+..a', '+.-a', '+-.a', '+_a',
    '+.A', '+/b', '/+', '+/', '+/b/c', '+/B', '+/b.c', 'a.b/+', '-b/+', 'b-/+', 'default/+', '+ a',
    '+ä', ' +', '+:', '']) AS form,
    unnest(ARRAY[1, 54, 55, 56, 57, 62, 63, 64, 251, 252, 253, 254, 300, 317, 318]) AS length;
CREATE FUNCTION pg_temp.succeeds(statement text, name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        EXECUTE statement USING name;
        RAISE division_by_zero;
    EXCEPTION
        WHEN division_by_zero THEN RETURN true;
        WHEN invalid_name OR invalid_parameter_value THEN RETURN false;
    END;
END $$;
SET client_min_messages = error;
SELECT count(*) AS names, count(*) FILTER (WHERE rag_internal.is_collection_name(name)) AS valid,
    array_agg(name) FILTER (WHERE rag_internal.is_collection_name(name)
        <> pg_temp.succeeds('SELECT rag_create_collection($1)', name)) AS differing
FROM names;
-- rag_validate_source also accepts default/name, which is stored without the namespace
SELECT count(*) AS names, count(*) FILTER (WHERE rag_internal.is_qualified_name(name)) AS valid,
    array_agg(name) FILTER (WHERE rag_internal.is_qualified_name(name) <> NOT EXISTS (
        SELECT FROM rag_validate_source('static', '{"endpoints": ["https://a.example.com/a.md"]}',
            name => n.name) WHERE field = 'name')) AS differing
FROM names n WHERE name NOT LIKE 'default/%';
SELECT count(*) AS keys, count(*) FILTER (WHERE rag_internal.is_secret_key(name)) AS valid,
    array_agg(name) FILTER (WHERE rag_internal.is_secret_key(name)
        <> pg_temp.succeeds('SELECT rag_create_secret(''constants'', ''hidden'', $1)', name))
        AS differing
FROM names;
SELECT name, rag_internal.namespace_of(name) FROM unnest(ARRAY['a', 'b/a', 'b/c.d']) AS name;

-- types of conditions, in their order
SELECT rag_create_source('constants', 'static', '{"endpoints": ["https://a.example.com/a.md"]}',
    suspend => true);
SELECT array_agg(c ->> 'type' ORDER BY n) = rag_internal.condition_types() AS equal
FROM rag.sources, jsonb_array_elements(conditions) WITH ORDINALITY AS x (c, n)
WHERE name = 'constants';

-- a session that drops a source has both locks on it
BEGIN;
SELECT rag_drop_source('constants');
SELECT array_agg(purpose ORDER BY purpose)
        = ARRAY[rag_internal.lock_purpose('sync'), rag_internal.lock_purpose('drop')] AS purposes,
    bool_and(source_hash = rag_internal.source_hash('constants')) AS hash,
    bool_and(pid = pg_backend_pid()) AS own
FROM rag_internal.source_locks();
SELECT rag_internal.is_being_dropped('constants'), rag_internal.is_syncing('constants');
COMMIT;
SELECT rag_internal.is_being_dropped('constants');
