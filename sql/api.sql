-- Functions of rag-gateway's own routes on searches, sources, collections and runs. Each takes a
-- request and returns an answer, both JSON, with the rights of the caller. The table of routes in
-- crates/gateway/src/routes says which fields a request has; the program has checked their types.
--
-- All of them set search_path, so that none is inlined: a session of rag-gateway keeps plans, which
-- other roles use later, and the right to call a function must be checked for each.

SET LOCAL search_path = pg_catalog, pg_temp;

-- A collection that the caller may not read does not exist for a request.
CREATE FUNCTION rag_internal.visible_collection(name text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found text;
BEGIN
    SELECT c.name INTO found FROM rag.collections c
    WHERE c.name = $1 OR c.external_id = $1 LIMIT 1;
    IF found IS NULL THEN
        RAISE undefined_object
            USING MESSAGE = format('collection "%s" does not exist', left($1, 100));
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION rag_internal.visible_collection(text) IS
    'name of a collection that the caller may read, from its name or external id';

CREATE FUNCTION rag_internal.asked_collections(request jsonb) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF jsonb_typeof(request -> 'collection') = 'array' THEN
        RETURN ARRAY(SELECT CASE WHEN n LIKE '%*%' THEN n
                                 ELSE rag_internal.visible_collection(n) END
                     FROM jsonb_array_elements_text(request -> 'collection') WITH ORDINALITY
                         AS c (n, i) ORDER BY i);
    END IF;
    RETURN ARRAY[rag_internal.visible_collection(coalesce(request ->> 'collection', 'default'))];
END $$;
COMMENT ON FUNCTION rag_internal.asked_collections(jsonb) IS
    'collections that a request names, as one or as an array; default if it names none';

CREATE FUNCTION rag_internal.text_array(value jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN jsonb_typeof($1) = 'array'
                THEN ARRAY(SELECT jsonb_array_elements_text($1)) END
$$;
COMMENT ON FUNCTION rag_internal.text_array(jsonb) IS 'array of texts; NULL: the value is no array';

CREATE FUNCTION rag_internal.found_or_missing(answer jsonb, what text, name text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF answer IS NULL THEN
        RAISE undefined_object
            USING MESSAGE = format('%s "%s" does not exist', what, left(name, 100));
    END IF;
    RETURN answer;
END $$;
COMMENT ON FUNCTION rag_internal.found_or_missing(jsonb, text, text) IS
    'the answer; an error if it is NULL';

-- searches
-- ----------------------------------------

CREATE FUNCTION rag_api.search(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked CONSTANT text[] := rag_internal.asked_collections(request);
    results jsonb;
BEGIN
    IF cardinality(asked) = 1 AND asked[1] NOT LIKE '%*%' THEN
        SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.rank), '[]') INTO results
        FROM @extschema@.rag_search(
            request ->> 'query', asked[1], (request ->> 'top_k')::integer, request ->> 'mode',
            request -> 'filter', request ->> 'rerank', nullif(request -> 'settings', 'null')) AS s;
    ELSE
        SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.rank), '[]') INTO results
        FROM @extschema@.rag_search(
            request ->> 'query', asked, (request ->> 'top_k')::integer, request ->> 'mode',
            request -> 'filter', request ->> 'rerank', nullif(request -> 'settings', 'null')) AS s;
    END IF;
    RETURN jsonb_build_object('query', request -> 'query', 'results', results);
END $$;

CREATE FUNCTION rag_api.context(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT to_jsonb(c) FROM @extschema@.rag_context(
        request ->> 'query',
        rag_internal.visible_collection(coalesce(request ->> 'collection', 'default')),
        coalesce((request ->> 'max_tokens')::integer, 2000), (request ->> 'top_k')::integer,
        request ->> 'mode', request -> 'filter', nullif(request -> 'settings', 'null')) AS c);
END $$;

CREATE FUNCTION rag_api.answer(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT to_jsonb(a) FROM @extschema@.rag_answer(
        request ->> 'query',
        rag_internal.visible_collection(coalesce(request ->> 'collection', 'default')),
        (request ->> 'top_k')::integer, request ->> 'mode', request -> 'filter',
        nullif(request -> 'settings', 'null'), request ->> 'model',
        nullif(request -> 'conversation_history', 'null'),
        nullif(request -> 'context', 'null')) AS a);
END $$;

-- In SQL, because a function in PL/pgSQL collects all rows before it returns the first one.
CREATE FUNCTION rag_api.answer_stream(request jsonb) RETURNS SETOF jsonb
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('event', (s.a).event, 'text', (s.a).text, 'data', (s.a).data)
    FROM (SELECT @extschema@.rag_answer_stream(
        request ->> 'query',
        rag_internal.visible_collection(coalesce(request ->> 'collection', 'default')),
        (request ->> 'top_k')::integer, request ->> 'mode', request -> 'filter',
        nullif(request -> 'settings', 'null'), request ->> 'model',
        nullif(request -> 'conversation_history', 'null'),
        nullif(request -> 'context', 'null')) AS a OFFSET 0) AS s
$$;

CREATE FUNCTION rag_api.explain(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('query', request -> 'query', 'steps', (
        SELECT coalesce(jsonb_agg(to_jsonb(e) - 'ordinality' ORDER BY e.ordinality), '[]')
        FROM @extschema@.rag_explain_search(
            request ->> 'query',
            rag_internal.visible_collection(coalesce(request ->> 'collection', 'default')),
            (request ->> 'top_k')::integer, request ->> 'mode', request -> 'filter',
            nullif(request -> 'settings', 'null')) WITH ORDINALITY AS e));
END $$;

CREATE FUNCTION rag_api.facets(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('query', request -> 'query', 'facets', (
        SELECT coalesce(jsonb_agg(to_jsonb(f) - 'ordinality' ORDER BY f.ordinality), '[]')
        FROM @extschema@.rag_facets(
            request ->> 'query',
            rag_internal.visible_collection(coalesce(request ->> 'collection', 'default')),
            rag_internal.text_array(request -> 'keys'), request -> 'filter',
            coalesce((request ->> 'top')::integer, 10)) WITH ORDINALITY AS f));
END $$;

-- collections
-- ----------------------------------------

CREATE FUNCTION rag_internal.collection_json(name text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_jsonb(c) || jsonb_build_object('status', (
        SELECT to_jsonb(s) - '{name,retriever,external_id,partition}'::text[]
        FROM @extschema@.rag_collection_status(c.name) s))
    FROM rag.collections c WHERE c.name = $1
$$;
COMMENT ON FUNCTION rag_internal.collection_json(text) IS
    'a collection that the caller may read, with its status';

CREATE FUNCTION rag_api.list_collections(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT jsonb_build_object('collections',
                       coalesce(jsonb_agg(to_jsonb(c) || jsonb_build_object(
                           'document_count', s.document_count, 'chunk_count', s.chunk_count,
                           'total_size_bytes', s.total_size_bytes, 'state', s.state)
                           ORDER BY c.name), '[]'))
            FROM rag.collections c JOIN @extschema@.rag_collection_status() s USING (name));
END $$;

CREATE FUNCTION rag_api.get_collection(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN rag_internal.collection_json(rag_internal.visible_collection(request ->> 'name'));
END $$;

CREATE FUNCTION rag_api.create_collection(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.rag_create_collection(
        request ->> 'name', retriever => coalesce(request ->> 'retriever', 'default'),
        chunk_size => (request ->> 'chunk_size')::integer,
        chunk_overlap => (request ->> 'chunk_overlap')::integer,
        description => request ->> 'description',
        chunk_unit => coalesce(request ->> 'chunk_unit', 'characters'),
        external_id => request ->> 'external_id',
        text_config => coalesce(request ->> 'text_config', 'pg_catalog.english'),
        model => request ->> 'model', dimensions => (request ->> 'dimensions')::integer);
    RETURN rag_internal.collection_json(request ->> 'name');
END $$;

CREATE FUNCTION rag_api.update_collection(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := rag_internal.visible_collection(request ->> 'name');
BEGIN
    PERFORM @extschema@.rag_alter_collection(
        name, retriever => request ->> 'retriever', description => request ->> 'description',
        external_id => request ->> 'external_id',
        chunk_size => (request ->> 'chunk_size')::integer,
        chunk_overlap => (request ->> 'chunk_overlap')::integer,
        chunk_unit => request ->> 'chunk_unit', text_config => request ->> 'text_config',
        model => request ->> 'model');
    RETURN rag_internal.collection_json(name);
END $$;

CREATE FUNCTION rag_api.delete_collection(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := rag_internal.visible_collection(request ->> 'name');
BEGIN
    PERFORM @extschema@.rag_drop_collection(name);
    RETURN jsonb_build_object('name', name, 'deleted', true);
END $$;

-- sources
-- ----------------------------------------

CREATE FUNCTION rag_internal.source_json(name text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT rag_internal.found_or_missing(
        (SELECT to_jsonb(s) FROM rag.sources s WHERE s.name = $1), 'source', $1)
$$;
COMMENT ON FUNCTION rag_internal.source_json(text) IS 'a source that the caller can see';

-- In the order of names, a page after the last name of the previous one. Without a limit, all.
CREATE FUNCTION rag_api.list_sources(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked CONSTANT text := CASE WHEN request ->> 'collection' IS NOT NULL
                                THEN rag_internal.visible_collection(request ->> 'collection') END;
    size CONSTANT integer := (request ->> 'limit')::integer;
    page jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(to_jsonb(a) ORDER BY a.name), '[]') INTO page
    FROM (SELECT * FROM rag.sources s
          WHERE (asked IS NULL OR s.collection = asked)
            AND (request ->> 'phase' IS NULL OR s.phase = request ->> 'phase')
            AND (request ->> 'contains' IS NULL
                 OR strpos(lower(s.name), lower(request ->> 'contains')) > 0)
            AND (request ->> 'after' IS NULL OR s.name > request ->> 'after')
          ORDER BY s.name LIMIT size + 1) a;
    RETURN jsonb_build_object(
        'sources', CASE WHEN size IS NULL THEN page ELSE page - size END,
        'next', CASE WHEN jsonb_array_length(page) > size
                     THEN page #>> ARRAY[(size - 1)::text, 'name'] END);
END $$;

CREATE FUNCTION rag_api.get_source(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN rag_internal.source_json(request ->> 'name');
END $$;

CREATE FUNCTION rag_api.create_source(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.rag_create_source(
        request ->> 'name', request ->> 'kind', request -> 'spec',
        rag_internal.visible_collection(coalesce(request ->> 'collection', 'default')),
        schedule => request ->> 'schedule', credentials => request ->> 'credentials',
        max_retries => coalesce((request ->> 'max_retries')::integer, 3),
        timeout => coalesce((request ->> 'timeout')::interval, '1 hour'),
        suspend => coalesce((request ->> 'suspend')::boolean, false),
        drift_policy => coalesce(request ->> 'drift_policy', 'auto'));
    RETURN rag_internal.source_json(request ->> 'name');
END $$;

CREATE FUNCTION rag_api.update_source(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.rag_alter_source(
        request ->> 'name', kind => request ->> 'kind', spec => nullif(request -> 'spec', 'null'),
        collection => request ->> 'collection', schedule => request ->> 'schedule',
        credentials => request ->> 'credentials',
        max_retries => (request ->> 'max_retries')::integer,
        timeout => (request ->> 'timeout')::interval,
        suspend => (request ->> 'suspend')::boolean, drift_policy => request ->> 'drift_policy');
    RETURN rag_internal.source_json(request ->> 'name');
END $$;

CREATE FUNCTION rag_api.delete_source(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.rag_drop_source(
        request ->> 'name',
        keep_documents => coalesce((request ->> 'keep_documents')::boolean, true));
    RETURN jsonb_build_object('name', request -> 'name', 'deleted', true);
END $$;

CREATE FUNCTION rag_api.validate_source(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT jsonb_build_object('problems',
                       coalesce(jsonb_agg(to_jsonb(v) - 'ordinality' ORDER BY v.ordinality), '[]'))
            FROM @extschema@.rag_validate_source(
                request ->> 'kind', request -> 'spec', request ->> 'schedule',
                coalesce(request ->> 'collection', 'default'), request ->> 'credentials',
                name => request ->> 'name') WITH ORDINALITY AS v);
END $$;

CREATE FUNCTION rag_api.suspend_source(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.rag_suspend(request ->> 'name');
    RETURN rag_internal.source_json(request ->> 'name');
END $$;

CREATE FUNCTION rag_api.resume_source(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.rag_resume(request ->> 'name');
    RETURN rag_internal.source_json(request ->> 'name');
END $$;

-- runs
-- ----------------------------------------

CREATE FUNCTION rag_api.sync_source(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('source', request -> 'name', 'run_id',
                              @extschema@.rag_sync(request ->> 'name', wait => false));
END $$;

CREATE FUNCTION rag_api.list_runs(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT jsonb_build_object('runs',
                       coalesce(jsonb_agg(to_jsonb(r) ORDER BY r.run_id DESC), '[]'))
            FROM (SELECT * FROM rag.runs a
                  WHERE (request ->> 'source' IS NULL OR a.source = request ->> 'source')
                    AND (request ->> 'phase' IS NULL OR a.phase = request ->> 'phase')
                    AND (request ->> 'before' IS NULL
                         OR a.run_id < (request ->> 'before')::bigint)
                  ORDER BY a.run_id DESC
                  LIMIT coalesce((request ->> 'limit')::integer, 50)) r);
END $$;

CREATE FUNCTION rag_api.get_run(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    id CONSTANT bigint := (request ->> 'run_id')::bigint;
BEGIN
    RETURN rag_internal.found_or_missing(
        (SELECT to_jsonb(r) || jsonb_build_object(
             'document_errors', (SELECT coalesce(jsonb_agg(to_jsonb(e)), '[]')
                                 FROM (SELECT * FROM rag.run_errors f WHERE f.run_id = id
                                       ORDER BY f.uri LIMIT 1000) e),
             'progress', (SELECT to_jsonb(p) FROM rag.progress p WHERE p.run_id = id))
         FROM rag.runs r WHERE r.run_id = id), 'run', request ->> 'run_id');
END $$;

CREATE FUNCTION rag_api.cancel_run(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object(
        'run_id', (request ->> 'run_id')::bigint,
        'cancelled', @extschema@.rag_cancel_run((request ->> 'run_id')::bigint));
END $$;

-- the server
-- ----------------------------------------

CREATE FUNCTION rag_api.status(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object(
        'role', current_user,
        'is_standby', pg_is_in_recovery(),
        'problems', (
            SELECT coalesce(jsonb_agg(to_jsonb(s) - 'ordinality' ORDER BY s.ordinality), '[]')
            FROM @extschema@.rag_status() WITH ORDINALITY AS s),
        'progress', (SELECT coalesce(jsonb_agg(to_jsonb(p)), '[]') FROM rag.progress p));
END $$;

CREATE FUNCTION rag_api.metrics(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('text', @extschema@.rag_metrics_text(
        coalesce((request ->> 'openmetrics')::boolean, false)));
END $$;

-- An event names its source. Only roles that can see the source get it. Nobody can see a source
-- that is gone: members of rag_admin get its last event, which has its name.
CREATE FUNCTION rag_api.event(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM rag.sources s WHERE s.name = request ->> 'source')
        OR request ->> 'phase' = 'Deleted' AND pg_has_role('rag_admin', 'USAGE') THEN
        RETURN request;
    END IF;
    RETURN NULL;
END $$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
