-- Functions of rag-gateway's tools and resources of MCP. See api.sql.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Which tools a role can use at all. A tool that is listed may still be refused for a collection.
CREATE FUNCTION rag_api.mcp_tools(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    may_write CONSTANT boolean :=
        NOT pg_is_in_recovery() AND cardinality(rag_internal.writable_collections()) > 0;
BEGIN
    RETURN jsonb_build_object(
        'search', true, 'fetch', true, 'list_collections', true, 'list_sources', true,
        'answer', EXISTS (SELECT FROM rag.models m WHERE m.kind = 'chat' AND m.may_use),
        'add_document', may_write,
        'sync_source', may_write AND EXISTS (SELECT FROM rag.sources));
END $$;

CREATE FUNCTION rag_internal.resource_uri(collection text, document_id uuid) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('rag://collection/%s/document/%s', $1, $2)
$$;
COMMENT ON FUNCTION rag_internal.resource_uri(text, uuid) IS 'address of a document as a resource';

CREATE FUNCTION rag_api.mcp_search(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found CONSTANT jsonb := rag_api.search(
        request || jsonb_build_object('top_k', coalesce(nullif(request -> 'top_k', 'null'), '5')));
BEGIN
    RETURN jsonb_build_object('query', request -> 'query', 'results', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'id', rag_internal.resource_uri(r ->> 'collection',
                                                   (r ->> 'document_id')::uuid),
                   'title', coalesce(r ->> 'title', r ->> 'uri'), 'url', r -> 'uri',
                   'text', r -> 'content', 'score', r -> 'score', 'citation', r -> 'citation',
                   'collection', r -> 'collection') ORDER BY i), '[]')
        FROM jsonb_array_elements(found -> 'results') WITH ORDINALITY AS e (r, i)));
END $$;

CREATE FUNCTION rag_api.mcp_fetch(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts CONSTANT text[] := regexp_match(request ->> 'id',
                                          '^rag://collection/([^/]+)/document/([0-9a-f-]+)$');
    document jsonb;
BEGIN
    document := rag_api.get_document(jsonb_build_object(
        'collection', coalesce(parts[1], request ->> 'collection', 'default'),
        'document_id', coalesce(parts[2], request ->> 'id')));
    RETURN jsonb_build_object(
        'id', rag_internal.resource_uri(document ->> 'collection',
                                        (document ->> 'document_id')::uuid),
        'title', coalesce(document ->> 'title', document ->> 'uri'), 'url', document -> 'uri',
        'text', coalesce(document ->> 'content', ''), 'metadata', document -> 'metadata');
END $$;

CREATE FUNCTION rag_api.mcp_collections(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('collections', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'name', c.name, 'description', c.description,
                   'document_count', s.document_count, 'state', s.state) ORDER BY c.name), '[]')
        FROM rag.collections c JOIN @extschema@.rag_collection_status() s USING (name)));
END $$;

CREATE FUNCTION rag_api.mcp_sources(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('sources', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'name', s.name, 'kind', s.kind, 'collection', s.collection, 'phase', s.phase,
                   'last_indexed', s.last_indexed) ORDER BY s.name), '[]')
        FROM rag.sources s));
END $$;

CREATE FUNCTION rag_api.mcp_answer(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer CONSTANT jsonb := rag_api.answer(request);
BEGIN
    RETURN jsonb_build_object('answer', answer -> 'message', 'sources', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'title', c -> 'title', 'url', c -> 'uri', 'citation', c -> 'citation',
                   'score', c -> 'score') ORDER BY i), '[]')
        FROM jsonb_array_elements(answer -> 'context_used') WITH ORDINALITY AS e (c, i)));
END $$;

CREATE FUNCTION rag_api.mcp_add_document(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    added CONSTANT jsonb := rag_api.add_document(request);
BEGIN
    IF NOT (added ->> 'success')::boolean THEN
        RAISE invalid_parameter_value USING MESSAGE = added ->> 'error';
    END IF;
    RETURN jsonb_build_object(
        'id', rag_internal.resource_uri(added ->> 'collection', (added ->> 'document_id')::uuid),
        'action', added -> 'action', 'chunks_indexed', added -> 'chunks_indexed');
END $$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
