-- Functions of rag-gateway's routes of other contracts: Dify, Wegent, agent_core and RAG-benchmark.
-- See api.sql.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_api.dify_retrieval(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN @extschema@.rag_dify_retrieval(request);
END $$;

-- Retrievers of Wegent: requests in which a name is a path are of one namespace.
CREATE FUNCTION rag_api.retrieve(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN @extschema@.rag_retrieve(request);
END $$;

CREATE FUNCTION rag_internal.retriever_name(request jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE $1 ->> 'namespace' WHEN 'default' THEN '' ELSE ($1 ->> 'namespace') || '/' END
        || ($1 ->> 'name')
$$;
COMMENT ON FUNCTION rag_internal.retriever_name(jsonb) IS
    'name of the retriever that the path of a request names';

CREATE FUNCTION rag_api.list_retrievers(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('items', (
        SELECT coalesce(jsonb_agg(@extschema@.rag_get_manifest('Retriever', r.name)
                                  ORDER BY r.name), '[]')
        FROM rag.retrievers r WHERE r.namespace = request ->> 'namespace'));
END $$;

CREATE FUNCTION rag_api.get_retriever(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN @extschema@.rag_get_manifest('Retriever', rag_internal.retriever_name(request));
END $$;

-- The body is a Retriever. Its namespace is that of the path.
CREATE FUNCTION rag_internal.apply_retriever(request jsonb, name text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    body CONSTANT jsonb := request -> 'body';
    given CONSTANT text := body #>> '{metadata,namespace}';
BEGIN
    IF body ->> 'kind' IS DISTINCT FROM 'Retriever' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'kind: must be "Retriever"';
    END IF;
    IF given <> request ->> 'namespace' THEN
        RAISE invalid_parameter_value USING MESSAGE =
            'metadata.namespace: differs from the namespace of the path';
    END IF;
    IF body #>> '{metadata,name}' IS DISTINCT FROM name THEN
        RAISE invalid_parameter_value USING MESSAGE =
            'metadata.name: differs from the name of the path';
    END IF;
    PERFORM @extschema@.rag_apply_manifest(jsonb_set(
        body - 'status', '{metadata,namespace}', request -> 'namespace')::text);
    RETURN @extschema@.rag_get_manifest('Retriever', rag_internal.retriever_name(
        request || jsonb_build_object('name', name)));
END $$;
COMMENT ON FUNCTION rag_internal.apply_retriever(jsonb, text) IS
    'applies the Retriever of a request, and returns it';

CREATE FUNCTION rag_api.create_retriever(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := request #>> '{body,metadata,name}';
    full_name CONSTANT text :=
        rag_internal.retriever_name(request || jsonb_build_object('name', name));
BEGIN
    IF EXISTS (SELECT FROM rag.retrievers r WHERE r.name = full_name) THEN
        RAISE duplicate_object
            USING MESSAGE = format('retriever "%s" already exists', full_name);
    END IF;
    RETURN rag_internal.apply_retriever(request, name);
END $$;

CREATE FUNCTION rag_api.update_retriever(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM rag.retrievers r
                   WHERE r.name = rag_internal.retriever_name(request)) THEN
        PERFORM rag_internal.found_or_missing(NULL, 'retriever', request ->> 'name');
    END IF;
    RETURN rag_internal.apply_retriever(request, request ->> 'name');
END $$;

CREATE FUNCTION rag_api.delete_retriever(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM @extschema@.rag_drop_retriever(rag_internal.retriever_name(request));
    RETURN jsonb_build_object('name', request -> 'name', 'namespace', request -> 'namespace',
                              'deleted', true);
END $$;

CREATE FUNCTION rag_api.test_retriever(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT to_jsonb(t)
            FROM @extschema@.rag_test_retriever(rag_internal.retriever_name(request)) AS t);
END $$;

-- retriever_ref is the retriever that the collection must have. A form has it as a text.
CREATE FUNCTION rag_api.upload_document(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    collection CONSTANT text := rag_internal.visible_collection(request ->> 'knowledge_id');
    ref CONSTANT jsonb := CASE jsonb_typeof(request -> 'retriever_ref')
        WHEN 'string' THEN (request ->> 'retriever_ref')::jsonb
        WHEN 'object' THEN request -> 'retriever_ref' END;
    wanted CONSTANT text := rag_internal.retriever_name(
        jsonb_build_object('namespace', coalesce(ref ->> 'namespace', 'default')) || ref);
    answer jsonb;
BEGIN
    IF wanted <> (SELECT c.retriever FROM rag.collections c WHERE c.name = collection) THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('retriever_ref: the knowledge base has another retriever than "%s"',
                             wanted);
    END IF;
    IF nullif(request -> 'embedding_config', 'null') IS NOT NULL THEN
        RAISE feature_not_supported USING MESSAGE =
            'embedding_config: a knowledge base has one embedding model for all documents';
    END IF;
    -- the number of a knowledge item is something else
    answer := rag_internal.add_document(request - 'knowledge_id', collection);
    RETURN answer || jsonb_build_object(
        'knowledge_id', request -> 'knowledge_id', 'doc_ref', answer -> 'document_id',
        'source_file', coalesce(request -> 'filename', request -> 'uri'));
END $$;

-- knowledge items
-- ----------------------------------------

CREATE FUNCTION rag_internal.asked_collection(request jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT rag_internal.visible_collection(coalesce($1 ->> 'collection', 'default'))
$$;
COMMENT ON FUNCTION rag_internal.asked_collection(jsonb) IS
    'collection that a request names; default if it names none';

CREATE FUNCTION rag_api.create_knowledge(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    item jsonb;
BEGIN
    SELECT to_jsonb(k) INTO item FROM @extschema@.rag_create_knowledge(
        (request ->> 'id')::bigint, request ->> 'title', request ->> 'uri',
        coalesce(request ->> 'document_type', 'markdown'), request ->> 'category',
        CASE jsonb_typeof(request -> 'tags')
            WHEN 'array' THEN array_to_string(rag_internal.text_array(request -> 'tags'), ',')
            ELSE request ->> 'tags' END,
        rag_internal.asked_collection(request)) AS k;
    RETURN item || jsonb_build_object('id', item -> 'knowledge_id');
END $$;

CREATE FUNCTION rag_api.index_knowledge(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT to_jsonb(k) || jsonb_build_object('content_hash', coalesce(k.content_hash, ''))
            FROM @extschema@.rag_index_knowledge(
                (request ->> 'knowledge_id')::bigint, rag_internal.asked_collection(request))
                AS k);
END $$;

-- An item is pending until it is indexed, so the status active of this contract means all items
-- that are not in error.
CREATE FUNCTION rag_api.index_all_knowledge(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN @extschema@.rag_index_all_knowledge(
        request ->> 'status', rag_internal.asked_collection(request));
END $$;

CREATE FUNCTION rag_api.unindex_knowledge(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked CONSTANT text := rag_internal.asked_collection(request);
    id CONSTANT bigint := (request ->> 'knowledge_id')::bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM rag.knowledge k
                   WHERE k.collection = asked AND k.knowledge_id = id) THEN
        PERFORM rag_internal.found_or_missing(NULL, 'knowledge item', id::text);
    END IF;
    RETURN jsonb_build_object(
        'success', true, 'knowledge_id', id,
        'removed', @extschema@.rag_unindex_knowledge(id, asked));
END $$;

CREATE FUNCTION rag_api.knowledge_search(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN @extschema@.rag_knowledge_search(request);
END $$;

CREATE FUNCTION rag_api.knowledge_query(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN @extschema@.rag_knowledge_search(
        request ->> 'q', coalesce((request ->> 'n')::integer, 5), request ->> 'category',
        rag_internal.asked_collection(request));
END $$;

CREATE FUNCTION rag_api.stats(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN @extschema@.rag_stats(rag_internal.asked_collection(request));
END $$;

-- instances of RAG-benchmark: a collection each, which is stored as it is indexed
-- ----------------------------------------

CREATE FUNCTION rag_internal.instance_status(name text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'has_index', s.document_count > 0, 'document_count', s.document_count,
        'embedding_dimension', s.embedding_dimension, 'created_at', s.created_at,
        'updated_at', s.updated_at, 'total_size_bytes', s.total_size_bytes)
    FROM @extschema@.rag_collection_status($1) s
$$;
COMMENT ON FUNCTION rag_internal.instance_status(text) IS 'IndexStatus of a collection';

-- Documents are texts, or objects as rag_add_documents takes them. They replace the former ones.
CREATE FUNCTION rag_api.index_instance(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    instance CONSTANT text := request ->> 'rag_name';
    documents jsonb;
    former record;
    indexed bigint;
    problem text;
BEGIN
    IF NOT EXISTS (SELECT FROM rag.collections c WHERE c.name = instance) THEN
        PERFORM @extschema@.rag_create_collection(instance);
    END IF;
    SELECT jsonb_agg(CASE jsonb_typeof(d)
               WHEN 'object' THEN jsonb_build_object('uri', format('document-%s', i)) || d
               ELSE jsonb_build_object('uri', format('document-%s', i), 'content', d) END
               ORDER BY i)
    INTO documents FROM jsonb_array_elements(request -> 'documents') WITH ORDINALITY AS e (d, i);
    SELECT count(*) FILTER (WHERE a.success), min(a.error) FILTER (WHERE NOT a.success)
    INTO indexed, problem
    FROM @extschema@.rag_add_documents(coalesce(documents, '[]'), instance) AS a;
    FOR former IN SELECT d.document_id FROM rag.documents d
            WHERE d.collection = instance AND d.source IS NULL
              AND NOT EXISTS (SELECT FROM jsonb_array_elements(documents) AS n
                              WHERE n ->> 'uri' = d.uri) LOOP
        PERFORM @extschema@.rag_delete_document(former.document_id, instance);
    END LOOP;
    RETURN jsonb_build_object(
        'success', problem IS NULL, 'rag_name', instance, 'document_count', indexed,
        'error', problem, 'index_status', rag_internal.instance_status(instance));
END $$;

CREATE FUNCTION rag_internal.instance_json(name text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'name', c.name, 'rag_type', 'baseline',
        'model_info', jsonb_build_object('embedding_model', c.model),
        'rag_config', jsonb_build_object(
            'retriever', c.retriever, 'chunk_size', c.chunk_size,
            'chunk_overlap', c.chunk_overlap, 'description', c.description),
        'index_status', rag_internal.instance_status(c.name))
    FROM rag.collections c WHERE c.name = $1
$$;
COMMENT ON FUNCTION rag_internal.instance_json(text) IS 'RAGInfo of a collection';

CREATE FUNCTION rag_api.list_instances(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN jsonb_build_object('rags', (
        SELECT coalesce(jsonb_agg(rag_internal.instance_json(c.name) ORDER BY c.name), '[]')
        FROM rag.collections c));
END $$;

CREATE FUNCTION rag_api.delete_instance(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name CONSTANT text := rag_internal.visible_collection(request ->> 'rag_name');
BEGIN
    PERFORM @extschema@.rag_drop_collection(name);
    RETURN jsonb_build_object('success', true, 'rag_name', name);
END $$;

-- Nothing has to be loaded: the answer is the state of what is stored.
CREATE FUNCTION rag_api.instance_status(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN rag_internal.instance_status(
        rag_internal.visible_collection(request ->> 'rag_name'));
END $$;

CREATE FUNCTION rag_api.reload_instance(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    status CONSTANT jsonb := rag_api.instance_status(request);
BEGIN
    RETURN jsonb_build_object('success', status -> 'has_index', 'rag_name', request -> 'rag_name',
                              'index_status', status);
END $$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
