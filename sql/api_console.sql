-- Functions of the routes that the console of rag-gateway adds to those of others. See api.sql.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_api.access(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    writable CONSTANT text[] := rag_internal.writable_collections();
BEGIN
    RETURN jsonb_build_object(
        'role', current_user,
        'roles', (SELECT jsonb_agg(r.rolname ORDER BY r.rolname) FROM pg_roles r
                  WHERE pg_has_role(r.oid, 'USAGE')),
        'is_admin', pg_has_role('rag_admin', 'USAGE'),
        'is_standby', pg_is_in_recovery(),
        'version', (SELECT extversion FROM pg_extension WHERE extname = 'rag'),
        'collections', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'name', c.name, 'write', c.name = ANY (writable)) ORDER BY c.name), '[]')
            FROM rag.collections c),
        'chat_models', (
            SELECT coalesce(jsonb_agg(m.name ORDER BY m.name), '[]')
            FROM rag.models m WHERE m.kind = 'chat' AND m.may_use),
        'rerankers', (
            SELECT coalesce(jsonb_agg(m.name ORDER BY m.name), '[]')
            FROM rag.models m WHERE m.kind = 'rerank' AND m.may_use));
END $$;

CREATE FUNCTION rag_api.overview(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object(
        'sources', (
            SELECT coalesce(jsonb_object_agg(p.phase, p.number), '{}')
            FROM (SELECT s.phase, count(*) AS number FROM rag.sources s GROUP BY 1) p),
        'failing', (
            SELECT coalesce(jsonb_agg(to_jsonb(f)), '[]')
            FROM (SELECT s.name, s.collection, s.phase, s.errors, s.next_retry
                  FROM rag.sources s WHERE s.phase IN ('Failed', 'Retrying')
                  ORDER BY s.name LIMIT 20) f),
        'sizes', (
            SELECT jsonb_build_object(
                'collections', count(*), 'documents', coalesce(sum(z.documents), 0),
                'chunks', coalesce(sum(z.chunks), 0), 'bytes', coalesce(sum(z.total_bytes), 0))
            FROM rag.collection_sizes z),
        'usage', (
            SELECT jsonb_build_object('calls', coalesce(sum(u.calls), 0),
                                      'tokens', coalesce(sum(u.tokens), 0), 'cost', sum(u.cost))
            FROM rag.model_usage u WHERE u.day > current_date - 30));
END $$;

CREATE FUNCTION rag_api.search_stats(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT jsonb_build_object('searches', coalesce(
                       jsonb_agg(to_jsonb(s) ORDER BY s.calls DESC, s.collection, s.mode), '[]'))
            FROM rag.search_stats s);
END $$;

CREATE FUNCTION rag_api.model_usage(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object(
        'models', (SELECT coalesce(jsonb_agg(to_jsonb(m) - '{spec,prompt_template}'::text[]
                                             ORDER BY m.name), '[]')
                   FROM rag.models m),
        'days', (SELECT coalesce(jsonb_agg(to_jsonb(u) ORDER BY u.day, u.model), '[]')
                 FROM rag.model_usage u));
END $$;

CREATE FUNCTION rag_internal.collection_indexes(name text)
    RETURNS TABLE (id oid, index text, method text, bytes bigint, is_valid boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT i.oid, i.relname::text, a.amname::text, pg_relation_size(i.oid), x.indisvalid
    FROM @extschema@.rag_collection_status($1) s
    JOIN pg_index x ON x.indrelid = to_regclass(s.partition)
    JOIN pg_class i ON i.oid = x.indexrelid
    JOIN pg_am a ON a.oid = i.relam
$$;
COMMENT ON FUNCTION rag_internal.collection_indexes(text) IS
    'indexes on the chunks of a collection that the caller may read';

-- Only roles that may read every row of the partition learn what is inside of an index.
CREATE FUNCTION rag_api.collection_indexes(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := rag_internal.visible_collection(request ->> 'name');
    index record;
    details jsonb;
    found jsonb := '[]';
BEGIN
    FOR index IN
        SELECT * FROM rag_internal.collection_indexes(name) i
        ORDER BY i.bytes DESC, i.index LOOP
        details := NULL;
        BEGIN
            IF index.method = 'rag_hnsw' THEN
                SELECT to_jsonb(p) INTO details FROM @extschema@.rag_hnsw_info(index.id) p;
            ELSIF index.method = 'rag_bm25' THEN
                SELECT to_jsonb(p) INTO details FROM @extschema@.rag_bm25_info(index.id) p;
            END IF;
        EXCEPTION WHEN insufficient_privilege THEN
            details := NULL;
        END;
        found := found || (to_jsonb(index) - 'id' || jsonb_build_object('details', details));
    END LOOP;
    RETURN jsonb_build_object('name', name, 'indexes', found);
END $$;

CREATE FUNCTION rag_api.collection_recall(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := rag_internal.visible_collection(request ->> 'name');
    index oid;
BEGIN
    SELECT i.id INTO index FROM rag_internal.collection_indexes(name) i
    WHERE i.method = 'rag_hnsw' LIMIT 1;
    IF index IS NULL THEN
        RAISE undefined_object
            USING MESSAGE = format('collection "%s" has no index of vectors', left(name, 100));
    END IF;
    RETURN jsonb_build_object('name', name, 'recall', (
        SELECT coalesce(jsonb_agg(to_jsonb(r) ORDER BY r.ef_search), '[]')
        FROM @extschema@.rag_hnsw_recall(
            index, coalesce((request ->> 'queries')::integer, 50),
            coalesce((request ->> 'top_k')::integer, 10)) r));
END $$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
