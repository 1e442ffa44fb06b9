-- Functions of rag-gateway's routes of OpenAI's vector stores. See api_openai.sql.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_internal.vector_store_json(collection text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'id', c.name, 'object', 'vector_store', 'created_at', rag_internal.unix_time(c.created_at),
        'name', coalesce(v.name, c.name), 'metadata', coalesce(v.metadata, '{}'),
        'usage_bytes', coalesce(d.bytes, 0), 'status', 'completed', 'expires_after', NULL,
        'expires_at', NULL,
        'last_active_at', rag_internal.unix_time(coalesce(d.indexed_at, c.created_at)),
        'file_counts', jsonb_build_object(
            'in_progress', coalesce(d.pending, 0), 'completed', coalesce(d.active, 0),
            'failed', coalesce(d.failed, 0), 'cancelled', 0, 'total', coalesce(d.total, 0)))
    FROM rag.collections c
         LEFT JOIN rag_internal.vector_store v ON v.collection = c.name
         LEFT JOIN LATERAL (
             SELECT sum(octet_length(content)) AS bytes, max(indexed_at) AS indexed_at,
                    count(*) FILTER (WHERE status = 'pending') AS pending,
                    count(*) FILTER (WHERE status = 'active') AS active,
                    count(*) FILTER (WHERE status = 'error') AS failed, count(*) AS total
             FROM rag.documents WHERE collection = c.name) d ON true
    WHERE c.name = $1
$$;
COMMENT ON FUNCTION rag_internal.vector_store_json(text) IS
    'a collection as OpenAI''s API describes a vector store';

CREATE FUNCTION rag_internal.check_metadata(metadata jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF metadata IS NULL OR metadata = 'null' THEN
        RETURN '{}';
    END IF;
    IF jsonb_typeof(metadata) <> 'object'
        OR (SELECT count(*) > 16 OR bool_or(length(key) > 64
                OR jsonb_typeof(value) NOT IN ('string', 'number', 'boolean')
                OR length(value #>> '{}') > 512) FROM jsonb_each(metadata)) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'metadata and attributes: at most 16 keys of 64 characters, with texts of up '
                      'to 512 characters, numbers and booleans';
    END IF;
    RETURN metadata;
END $$;
COMMENT ON FUNCTION rag_internal.check_metadata(jsonb) IS
    'the value; an error unless it keeps to the limits of OpenAI''s API';

-- The id of a store is its name if a collection can have it, and is drawn otherwise.
CREATE FUNCTION rag_api.create_vector_store(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked CONSTANT text := request ->> 'name';
    strategy CONSTANT jsonb := nullif(request -> 'chunking_strategy', 'null');
    id text := 'vs_' || replace(gen_random_uuid()::text, '-', '');
    file text;
BEGIN
    IF nullif(request -> 'expires_after', 'null') IS NOT NULL THEN
        RAISE feature_not_supported USING MESSAGE = 'expires_after: is not supported';
    END IF;
    IF rag_internal.is_collection_name(asked)
        AND rag_internal.collection_is_free(asked) THEN
        id := asked;
    END IF;
    PERFORM @extschema@.rag_create_collection(
        id, description => request ->> 'description',
        chunk_unit => CASE strategy ->> 'type' WHEN 'static' THEN 'tokens' ELSE 'characters' END,
        chunk_size => (strategy #>> '{static,max_chunk_size_tokens}')::integer,
        chunk_overlap => (strategy #>> '{static,chunk_overlap_tokens}')::integer);
    INSERT INTO rag_internal.vector_store (collection, name, metadata)
    VALUES (id, asked, rag_internal.check_metadata(request -> 'metadata'));
    FOREACH file IN ARRAY coalesce(rag_internal.text_array(request -> 'file_ids'), '{}') LOOP
        PERFORM rag_internal.attach_file(id, file, '{}');
    END LOOP;
    RETURN rag_internal.vector_store_json(id);
END $$;

CREATE FUNCTION rag_internal.collection_is_free(name text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT NOT EXISTS (SELECT FROM rag_internal.collection c
                       WHERE c.name = $1 OR c.external_id = $1)
$$;
COMMENT ON FUNCTION rag_internal.collection_is_free(text) IS
    'true if no collection has this name or external id';

CREATE FUNCTION rag_api.list_vector_stores(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    size CONSTANT integer := coalesce((request ->> 'limit')::integer, 20);
    data jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(rag_internal.vector_store_json(c.name) ORDER BY c.name), '[]')
    INTO data
    FROM (SELECT name FROM rag.collections
          WHERE request ->> 'after' IS NULL OR name > request ->> 'after'
          ORDER BY name LIMIT size + 1) c;
    RETURN rag_internal.openai_page(data, size);
END $$;

CREATE FUNCTION rag_internal.openai_page(data jsonb, size integer) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'object', 'list', 'data', $1 - $2, 'first_id', $1 #> '{0,id}',
        'last_id', ($1 - $2) #> '{-1,id}', 'has_more', jsonb_array_length($1) > $2)
$$;
COMMENT ON FUNCTION rag_internal.openai_page(jsonb, integer) IS
    'a page of a list, from an array that has one element more if there are further pages';

CREATE FUNCTION rag_api.get_vector_store(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN rag_internal.vector_store_json(
        rag_internal.visible_collection(request ->> 'vector_store_id'));
END $$;

CREATE FUNCTION rag_api.update_vector_store(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    store CONSTANT text := rag_internal.visible_collection(request ->> 'vector_store_id');
BEGIN
    IF nullif(request -> 'expires_after', 'null') IS NOT NULL THEN
        RAISE feature_not_supported USING MESSAGE = 'expires_after: is not supported';
    END IF;
    INSERT INTO rag_internal.vector_store AS v (collection, name, metadata)
    VALUES (store, request ->> 'name', rag_internal.check_metadata(request -> 'metadata'))
    ON CONFLICT (collection) DO UPDATE
    SET name = coalesce(excluded.name, v.name),
        metadata = CASE WHEN request ? 'metadata' THEN excluded.metadata ELSE v.metadata END;
    RETURN rag_internal.vector_store_json(store);
END $$;

CREATE FUNCTION rag_api.delete_vector_store(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    store CONSTANT text := rag_internal.visible_collection(request ->> 'vector_store_id');
BEGIN
    PERFORM @extschema@.rag_drop_collection(store);
    RETURN jsonb_build_object('id', store, 'object', 'vector_store.deleted', 'deleted', true);
END $$;

-- files of a store
-- ----------------------------------------

-- The uri of a document that was a file begins with the id of the file. Other documents have their
-- own id.
CREATE FUNCTION rag_internal.openai_file_id(uri text, document_id uuid) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN $1 ~ '^file-[0-9a-f]{32}/' THEN split_part($1, '/', 1) ELSE $2::text END
$$;
COMMENT ON FUNCTION rag_internal.openai_file_id(text, uuid) IS
    'id of the file that a document is in OpenAI''s API';

CREATE FUNCTION rag_internal.openai_attributes(metadata jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(key, CASE jsonb_typeof(value)
               WHEN 'string' THEN to_jsonb(left(value #>> '{}', 512)) ELSE value END), '{}')
    FROM (SELECT key, value FROM jsonb_each($1)
          WHERE jsonb_typeof(value) IN ('string', 'number', 'boolean')
          ORDER BY key LIMIT 16) m
$$;
COMMENT ON FUNCTION rag_internal.openai_attributes(jsonb) IS
    'metadata of a document within the limits of attributes in OpenAI''s API';

CREATE FUNCTION rag_internal.store_file_json(d rag.documents) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'id', rag_internal.openai_file_id($1.uri, $1.document_id), 'object', 'vector_store.file',
        'created_at', rag_internal.unix_time($1.created_at), 'vector_store_id', $1.collection,
        'status', CASE $1.status WHEN 'active' THEN 'completed' WHEN 'error' THEN 'failed'
                                 ELSE 'in_progress' END,
        'usage_bytes', coalesce(octet_length($1.content), 0),
        'attributes', rag_internal.openai_attributes($1.metadata),
        'last_error', CASE WHEN $1.status = 'error' THEN
            jsonb_build_object('code', 'invalid_file', 'message', $1.error) END)
$$;
COMMENT ON FUNCTION rag_internal.store_file_json(rag.documents) IS
    'a document as OpenAI''s API describes a file of a vector store';

CREATE FUNCTION rag_internal.attach_file(store text, file text, attributes jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    uploaded rag_internal.uploaded_file;
    indexed record;
BEGIN
    SELECT * INTO uploaded FROM rag_internal.uploaded_file f WHERE f.file_id = file;
    IF NOT FOUND THEN
        PERFORM rag_internal.found_or_missing(NULL, 'file', file);
    END IF;
    SELECT * INTO indexed FROM @extschema@.rag_add_document(
        uploaded.content, file || '/' || uploaded.filename, title => uploaded.filename,
        metadata => rag_internal.check_metadata(attributes), collection => store);
    RETURN jsonb_build_object(
        'id', file, 'object', 'vector_store.file',
        'created_at', rag_internal.unix_time(now()), 'vector_store_id', store,
        'status', CASE WHEN indexed.success THEN 'completed' ELSE 'failed' END,
        'usage_bytes', octet_length(uploaded.content),
        'attributes', rag_internal.openai_attributes(coalesce(attributes, '{}')),
        'last_error', CASE WHEN NOT indexed.success THEN
            jsonb_build_object('code', 'invalid_file', 'message', indexed.error) END);
END $$;
COMMENT ON FUNCTION rag_internal.attach_file(text, text, jsonb) IS
    'indexes an uploaded file as a document of a collection';

CREATE FUNCTION rag_api.create_vector_store_file(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(request #>> '{chunking_strategy,type}', 'auto') <> 'auto' THEN
        RAISE feature_not_supported
            USING MESSAGE = 'chunking_strategy: a vector store has one for all its files';
    END IF;
    RETURN rag_internal.attach_file(
        rag_internal.visible_collection(request ->> 'vector_store_id'), request ->> 'file_id',
        coalesce(nullif(request -> 'attributes', 'null'), '{}'));
END $$;

CREATE FUNCTION rag_api.list_vector_store_files(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    store CONSTANT text := rag_internal.visible_collection(request ->> 'vector_store_id');
    size CONSTANT integer := coalesce((request ->> 'limit')::integer, 20);
    data jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(rag_internal.store_file_json(f.document) ORDER BY f.id), '[]')
    INTO data
    FROM (SELECT d AS document, rag_internal.openai_file_id(d.uri, d.document_id) AS id
          FROM rag.documents d WHERE d.collection = store
            AND (request ->> 'after' IS NULL
                 OR rag_internal.openai_file_id(d.uri, d.document_id) > request ->> 'after')
          ORDER BY id LIMIT size + 1) f;
    RETURN rag_internal.openai_page(data, size);
END $$;

-- A file of a store that the caller can read. NULL: there is none.
CREATE FUNCTION rag_internal.store_file(store text, file text) RETURNS rag.documents
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT d FROM rag.documents d
    WHERE d.collection = $1 AND (d.document_id::text = $2
          OR d.uri LIKE replace($2, '_', '\_') || '/%'
             AND rag_internal.openai_file_id(d.uri, d.document_id) = $2)
    LIMIT 1
$$;
COMMENT ON FUNCTION rag_internal.store_file(text, text) IS
    'document of a collection by the id that it has in OpenAI''s API';

CREATE FUNCTION rag_api.get_vector_store_file(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found rag.documents := rag_internal.store_file(
        rag_internal.visible_collection(request ->> 'vector_store_id'), request ->> 'file_id');
BEGIN
    RETURN rag_internal.found_or_missing(
        CASE WHEN found.document_id IS NOT NULL THEN rag_internal.store_file_json(found) END,
        'file', request ->> 'file_id');
END $$;

CREATE FUNCTION rag_api.update_vector_store_file(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    store CONSTANT text := rag_internal.visible_collection(request ->> 'vector_store_id');
    found rag.documents := rag_internal.store_file(store, request ->> 'file_id');
BEGIN
    IF found.document_id IS NULL OR NOT @extschema@.rag_update_document(
        found.document_id, store,
        metadata => rag_internal.check_metadata(request -> 'attributes')) THEN
        PERFORM rag_internal.found_or_missing(NULL, 'file', request ->> 'file_id');
    END IF;
    RETURN rag_internal.store_file_json(rag_internal.store_file(store, request ->> 'file_id'));
END $$;

CREATE FUNCTION rag_api.delete_vector_store_file(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    store CONSTANT text := rag_internal.visible_collection(request ->> 'vector_store_id');
    found rag.documents := rag_internal.store_file(store, request ->> 'file_id');
BEGIN
    IF found.document_id IS NULL
        OR NOT @extschema@.rag_delete_document(found.document_id, store) THEN
        PERFORM rag_internal.found_or_missing(NULL, 'file', request ->> 'file_id');
    END IF;
    RETURN jsonb_build_object('id', request -> 'file_id', 'object', 'vector_store.file.deleted',
                              'deleted', true);
END $$;

CREATE FUNCTION rag_api.vector_store_file_content(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found rag.documents := rag_internal.store_file(
        rag_internal.visible_collection(request ->> 'vector_store_id'), request ->> 'file_id');
BEGIN
    RETURN rag_internal.found_or_missing(
        CASE WHEN found.document_id IS NOT NULL THEN jsonb_build_object(
            'object', 'vector_store.file_content.page', 'has_more', false, 'next_page', NULL,
            'data', jsonb_build_array(jsonb_build_object('type', 'text', 'text', found.content)))
            END, 'file', request ->> 'file_id');
END $$;

-- All files are indexed in one transaction, so a batch is complete when it has an id.
CREATE FUNCTION rag_api.create_file_batch(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    store CONSTANT text := rag_internal.visible_collection(request ->> 'vector_store_id');
    file jsonb;
    completed integer := 0;
    failed integer := 0;
BEGIN
    FOR file IN SELECT f FROM jsonb_array_elements(coalesce(
            nullif(request -> 'files', 'null'),
            (SELECT jsonb_agg(jsonb_build_object('file_id', i))
             FROM jsonb_array_elements(request -> 'file_ids') AS i))) AS f LOOP
        IF rag_internal.attach_file(
            store, file ->> 'file_id',
            coalesce(nullif(file -> 'attributes', 'null'), nullif(request -> 'attributes', 'null'),
                     '{}')) ->> 'status' = 'completed' THEN
            completed := completed + 1;
        ELSE
            failed := failed + 1;
        END IF;
    END LOOP;
    RETURN jsonb_build_object(
        'id', 'vsfb_' || replace(gen_random_uuid()::text, '-', ''),
        'object', 'vector_store.file_batch', 'created_at', rag_internal.unix_time(now()),
        'vector_store_id', store, 'status', 'completed',
        'file_counts', jsonb_build_object(
            'in_progress', 0, 'completed', completed, 'failed', failed, 'cancelled', 0,
            'total', completed + failed));
END $$;

-- search
-- ----------------------------------------

-- {type, key, value} and {type: and | or, filters: [...]} as a filter of rag_search. A key is
-- always that of an attribute, also where documents have a column of its name.
CREATE FUNCTION rag_internal.openai_filter(filter jsonb, path text DEFAULT 'filters')
    RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind CONSTANT text := filter ->> 'type';
BEGIN
    IF filter IS NULL OR filter = 'null' THEN
        RETURN NULL;
    END IF;
    IF kind IN ('and', 'or') AND jsonb_typeof(filter -> 'filters') = 'array' THEN
        RETURN jsonb_build_object('operator', kind, 'conditions', (
            SELECT coalesce(jsonb_agg(rag_internal.openai_filter(f, format(
                       '%s.filters[%s]', path, i - 1)) ORDER BY i), '[]')
            FROM jsonb_array_elements(filter -> 'filters') WITH ORDINALITY AS e (f, i)));
    END IF;
    IF kind IN ('eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'in', 'nin')
        AND jsonb_typeof(filter -> 'key') = 'string' AND filter ? 'value' THEN
        RETURN jsonb_build_object('key', 'metadata.' || (filter ->> 'key'), 'operator', kind,
                                  'value', filter -> 'value');
    END IF;
    RAISE invalid_parameter_value USING MESSAGE = format(
        '%s: must be {type, key, value} with type eq, ne, gt, gte, lt, lte, in or nin, or '
        '{type, filters} with type and or or', path);
END $$;
COMMENT ON FUNCTION rag_internal.openai_filter(jsonb, text) IS
    'filter of rag_search for a filter of OpenAI''s API';

-- Several queries find the best chunks of each, by their best score.
CREATE FUNCTION rag_api.search_vector_store(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    store CONSTANT text := rag_internal.visible_collection(request ->> 'vector_store_id');
    queries CONSTANT jsonb := CASE jsonb_typeof(request -> 'query')
        WHEN 'array' THEN request -> 'query' ELSE jsonb_build_array(request -> 'query') END;
    size CONSTANT integer := coalesce((request ->> 'max_num_results')::integer, 10);
    filter CONSTANT jsonb := rag_internal.openai_filter(request -> 'filters');
    settings CONSTANT jsonb := jsonb_strip_nulls(jsonb_build_object(
        'score_threshold', request #> '{ranking_options,score_threshold}',
        'vector_weight', request #> '{ranking_options,hybrid_search,embedding_weight}',
        'keyword_weight', request #> '{ranking_options,hybrid_search,text_weight}'));
    data jsonb;
BEGIN
    IF size NOT BETWEEN 1 AND 50 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'max_num_results: must be 1 to 50';
    END IF;
    SELECT coalesce(jsonb_agg(jsonb_build_object(
               'file_id', rag_internal.openai_file_id(f.uri, f.document_id),
               'filename', coalesce(f.title, f.uri), 'score', f.score,
               'attributes', rag_internal.openai_attributes(f.metadata),
               'content', jsonb_build_array(jsonb_build_object('type', 'text',
                                                               'text', f.content)))
               ORDER BY f.score DESC, f.rank, f.chunk_id), '[]') INTO data
    FROM (SELECT b.* FROM (
              SELECT DISTINCT ON (s.chunk_id) s.*
              FROM jsonb_array_elements_text(queries) AS q (query),
                   LATERAL @extschema@.rag_search(q.query, store, size, filter => filter,
                                                  settings => settings) AS s
              ORDER BY s.chunk_id, s.score DESC) b
          ORDER BY b.score DESC, b.rank, b.chunk_id LIMIT size) f;
    RETURN jsonb_build_object(
        'object', 'vector_store.search_results.page', 'search_query', queries, 'data', data,
        'has_more', false, 'next_page', NULL);
END $$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
