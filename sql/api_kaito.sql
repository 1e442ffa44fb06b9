-- Functions of rag-gateway's routes of KAITO's RAG engine. An index is a collection, and the id of
-- a document is its uri. See api.sql.

SET LOCAL search_path = pg_catalog, pg_temp;

-- An id that the request leaves out is drawn from the text, so that the same text is one document.
CREATE FUNCTION rag_internal.kaito_documents(documents jsonb)
    RETURNS TABLE (document jsonb, i bigint)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
               'uri', coalesce(nullif(d ->> 'doc_id', ''),
                               encode(sha256(convert_to(d ->> 'text', 'UTF8')), 'hex')),
               'content', d -> 'text',
               'metadata', coalesce(nullif(d -> 'metadata', 'null'), '{}')), i
    FROM jsonb_array_elements($1) WITH ORDINALITY AS e (d, i)
$$;
COMMENT ON FUNCTION rag_internal.kaito_documents(jsonb) IS
    'documents of KAITO''s RAG engine as rag_add_documents takes them';

CREATE FUNCTION rag_internal.kaito_document(document jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'doc_id', $1 -> 'uri', 'text', $1 -> 'content', 'metadata', $1 -> 'metadata',
        'hash_value', $1 -> 'content_hash', 'is_truncated', false)
$$;
COMMENT ON FUNCTION rag_internal.kaito_document(jsonb) IS
    'a document as KAITO''s RAG engine describes it';

CREATE FUNCTION rag_internal.kaito_add(documents jsonb, name text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known jsonb;
    problem text;
    answer jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(k.document ORDER BY k.i), '[]') INTO known
    FROM rag_internal.kaito_documents(documents) AS k;
    SELECT min(a.error) FILTER (WHERE NOT a.success),
           coalesce(jsonb_agg(rag_internal.kaito_document(
                        (known -> (a.ordinality - 1)::integer)
                        || jsonb_build_object('content_hash', a.content_hash))
                        || jsonb_build_object('action', a.action) ORDER BY a.ordinality), '[]')
    INTO problem, answer
    FROM @extschema@.rag_add_documents(known, name) WITH ORDINALITY AS a;
    IF problem IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = problem;
    END IF;
    RETURN answer;
END $$;
COMMENT ON FUNCTION rag_internal.kaito_add(jsonb, text) IS
    'indexes documents of KAITO''s RAG engine; returns them with what was done';

CREATE FUNCTION rag_api.kaito_index(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := request ->> 'index_name';
BEGIN
    IF rag_internal.collection_is_free(name) THEN
        PERFORM @extschema@.rag_create_collection(name);
    END IF;
    RETURN (SELECT jsonb_build_object('items', coalesce(jsonb_agg(d - 'action' ORDER BY i), '[]'))
            FROM jsonb_array_elements(rag_internal.kaito_add(
                request -> 'documents', rag_internal.visible_collection(name)))
                WITH ORDINALITY AS e (d, i));
END $$;

CREATE FUNCTION rag_api.kaito_indexes(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('items', (
        SELECT coalesce(jsonb_agg(c.name ORDER BY c.name), '[]') FROM rag.collections c));
END $$;

CREATE FUNCTION rag_api.kaito_list(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := rag_internal.visible_collection(request ->> 'index_name');
    size CONSTANT integer := coalesce((request ->> 'max_text_length')::integer, 1000);
    wanted CONSTANT jsonb := nullif(request ->> 'metadata_filter', '')::jsonb;
    documents jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(jsonb_build_object(
               'doc_id', d.uri, 'text', left(d.content, size), 'metadata', d.metadata,
               'hash_value', d.content_hash, 'is_truncated', length(d.content) > size)
               ORDER BY d.uri), '[]') INTO documents
    FROM (SELECT * FROM rag.documents a
          WHERE a.collection = name AND (wanted IS NULL OR a.metadata @> wanted)
          ORDER BY a.uri LIMIT coalesce((request ->> 'limit')::integer, 10)
          OFFSET coalesce((request ->> 'offset')::integer, 0)) d;
    RETURN jsonb_build_object(
        'documents', documents, 'count', jsonb_array_length(documents),
        'total_items', (SELECT count(*) FROM rag.documents a WHERE a.collection = name
                        AND (wanted IS NULL OR a.metadata @> wanted)));
END $$;

CREATE FUNCTION rag_api.kaito_update(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := rag_internal.visible_collection(request ->> 'index_name');
    known jsonb;
    missing jsonb;
    done jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(e.d ORDER BY e.i) FILTER (WHERE e.is_there), '[]'),
           coalesce(jsonb_agg(e.d ORDER BY e.i) FILTER (WHERE NOT e.is_there), '[]')
    INTO known, missing
    FROM (SELECT d, i, EXISTS (SELECT FROM rag.documents a WHERE a.collection = name
                               AND a.source IS NULL AND a.uri = d ->> 'doc_id') AS is_there
          FROM jsonb_array_elements(request -> 'documents') WITH ORDINALITY AS w (d, i)) e;
    done := rag_internal.kaito_add(known, name);
    RETURN (SELECT jsonb_build_object(
                'updated_documents', coalesce(
                    jsonb_agg(d - 'action' ORDER BY i) FILTER (WHERE d ->> 'action' <> 'unchanged'),
                    '[]'),
                'unchanged_documents', coalesce(
                    jsonb_agg(d - 'action' ORDER BY i) FILTER (WHERE d ->> 'action' = 'unchanged'),
                    '[]'),
                'not_found_documents', missing)
            FROM jsonb_array_elements(done) WITH ORDINALITY AS e (d, i));
END $$;

CREATE FUNCTION rag_api.kaito_delete_documents(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := rag_internal.visible_collection(request ->> 'index_name');
    asked text;
    id uuid;
    deleted jsonb := '[]';
    missing jsonb := '[]';
BEGIN
    FOREACH asked IN ARRAY rag_internal.text_array(request -> 'doc_ids') LOOP
        SELECT d.document_id INTO id FROM rag.documents d
        WHERE d.collection = name AND d.source IS NULL AND d.uri = asked;
        IF FOUND AND @extschema@.rag_delete_document(id, name) THEN
            deleted := deleted || to_jsonb(asked);
        ELSE
            missing := missing || to_jsonb(asked);
        END IF;
    END LOOP;
    RETURN jsonb_build_object('deleted_doc_ids', deleted, 'not_found_doc_ids', missing);
END $$;

CREATE FUNCTION rag_api.kaito_delete_index(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.rag_drop_collection(
        rag_internal.visible_collection(request ->> 'index_name'));
    RETURN jsonb_build_object(
        'message', format('Successfully deleted index %s.', request ->> 'index_name'));
END $$;

-- What is indexed is stored, so both only say that the index is there.
CREATE FUNCTION rag_api.kaito_persist(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('message', format(
        'Successfully persisted index %s.',
        rag_internal.visible_collection(request ->> 'index_name')));
END $$;

CREATE FUNCTION rag_api.kaito_load(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('message', format(
        'Successfully loaded index %s.',
        rag_internal.visible_collection(request ->> 'index_name')));
END $$;

CREATE FUNCTION rag_api.kaito_retrieve(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    results jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(jsonb_build_object(
               'doc_id', s.uri, 'node_id', s.chunk_id, 'text', s.content, 'score', s.score,
               'dense_score', CASE WHEN s.vector_rank IS NOT NULL THEN s.vector_score END,
               'sparse_score', CASE WHEN s.keyword_rank IS NOT NULL THEN s.keyword_score END,
               'source', CASE WHEN s.keyword_rank IS NULL THEN 'dense_only'
                              WHEN s.vector_rank IS NULL THEN 'sparse_only' ELSE 'both' END,
               'metadata', s.metadata) ORDER BY s.rank), '[]') INTO results
    FROM @extschema@.rag_search(
        request ->> 'query', rag_internal.visible_collection(request ->> 'index_name'),
        coalesce((request ->> 'max_node_count')::integer, 5),
        filter => nullif(request -> 'metadata_filter', 'null')) AS s;
    RETURN jsonb_build_object('query', request -> 'query', 'results', results,
                              'count', jsonb_array_length(results));
END $$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
