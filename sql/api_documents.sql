-- Functions of rag-gateway's own routes on documents. See api.sql.

SET LOCAL search_path = pg_catalog, pg_temp;

-- A document whose ids are looked up has a collection: ids say nothing outside of it.
CREATE FUNCTION rag_internal.document_id(value text) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN value::uuid;
EXCEPTION WHEN invalid_text_representation THEN
    RAISE undefined_object USING MESSAGE = format('document "%s" does not exist', left(value, 100));
END $$;
COMMENT ON FUNCTION rag_internal.document_id(text) IS
    'id of a document; for a text that is none, an error that it does not exist';

-- The content of a request, as bytes or as text. A file is told by its bytes and its name.
CREATE FUNCTION rag_internal.add_document(request jsonb, collection text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    uri CONSTANT text := coalesce(request ->> 'uri', request ->> 'filename');
    answer jsonb;
BEGIN
    IF uri IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'uri: is required';
    END IF;
    IF num_nonnulls(request ->> 'content', request ->> 'content_base64') <> 1 THEN
        RAISE invalid_parameter_value
            USING MESSAGE = 'content: give either content or content_base64';
    END IF;
    IF request ->> 'content_base64' IS NOT NULL THEN
        SELECT to_jsonb(a) INTO answer FROM @extschema@.rag_add_document(
            decode(request ->> 'content_base64', 'base64'), uri, request ->> 'title',
            request ->> 'document_type', request ->> 'category',
            rag_internal.text_array(request -> 'tags'), (request ->> 'knowledge_id')::bigint,
            nullif(request -> 'metadata', 'null'), collection) AS a;
    ELSE
        SELECT to_jsonb(a) INTO answer FROM @extschema@.rag_add_document(
            request ->> 'content', uri, request ->> 'title',
            coalesce(request ->> 'document_type', 'markdown'), request ->> 'category',
            rag_internal.text_array(request -> 'tags'), (request ->> 'knowledge_id')::bigint,
            nullif(request -> 'metadata', 'null'), collection) AS a;
    END IF;
    RETURN jsonb_build_object('uri', uri, 'collection', collection) || answer;
END $$;
COMMENT ON FUNCTION rag_internal.add_document(jsonb, text) IS
    'indexes the document of a request; returns the row of rag_add_document';

CREATE FUNCTION rag_api.add_document(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN rag_internal.add_document(
        request,
        rag_internal.visible_collection(coalesce(request ->> 'collection', 'default')));
END $$;

CREATE FUNCTION rag_api.add_documents(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT jsonb_build_object('documents',
                       coalesce(jsonb_agg(to_jsonb(a) - 'ordinality' ORDER BY a.ordinality), '[]'))
            FROM @extschema@.rag_add_documents(
                request -> 'documents',
                rag_internal.visible_collection(coalesce(request ->> 'collection', 'default')))
                WITH ORDINALITY AS a);
END $$;

-- In the order of uris, a page after the last uri of the previous one.
CREATE FUNCTION rag_api.list_documents(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked CONSTANT text :=
        rag_internal.visible_collection(coalesce(request ->> 'collection', 'default'));
    size CONSTANT integer := coalesce((request ->> 'limit')::integer, 50);
    page jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(to_jsonb(d) - 'content' ORDER BY d.uri, d.document_id), '[]')
    INTO page
    FROM (SELECT a.document_id, a.collection, a.source, a.uri, a.title, a.knowledge_id,
                 a.document_type, a.category, a.tags, a.status, a.error, a.content_hash,
                 a.chunk_count, a.metadata, a.created_at, a.fetched_at, a.indexed_at
          FROM rag.documents a
          WHERE a.collection = asked
            AND (request ->> 'source' IS NULL OR a.source = request ->> 'source')
            AND (request ->> 'contains' IS NULL
                 OR strpos(lower(concat(a.uri, ' ', a.title)), lower(request ->> 'contains')) > 0)
            AND (request ->> 'after' IS NULL OR a.uri > request ->> 'after')
          ORDER BY a.uri, a.document_id LIMIT size + 1) d;
    RETURN jsonb_build_object(
        'documents', page - size,
        'next', CASE WHEN jsonb_array_length(page) > size
                     THEN page #>> ARRAY[(size - 1)::text, 'uri'] END);
END $$;

CREATE FUNCTION rag_api.get_document(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked CONSTANT text :=
        rag_internal.visible_collection(coalesce(request ->> 'collection', 'default'));
    id CONSTANT uuid := rag_internal.document_id(request ->> 'document_id');
    answer jsonb;
BEGIN
    SELECT to_jsonb(d) - '{chunking,validator,raw_hash,own_title}'::text[] INTO answer
    FROM rag.documents d WHERE d.collection = asked AND d.document_id = id;
    answer := rag_internal.found_or_missing(answer, 'document', request ->> 'document_id');
    IF (request ->> 'chunks')::boolean THEN
        answer := answer || jsonb_build_object('chunks', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                       'chunk_id', c.chunk_id, 'chunk_index', c.chunk_index,
                       'start_index', c.start_index, 'content', c.content,
                       'start_line', c.start_line, 'end_line', c.end_line, 'page', c.page,
                       'heading_path', c.heading_path) ORDER BY c.chunk_index), '[]')
            FROM rag.chunks c WHERE c.collection = asked AND c.document_id = id));
    END IF;
    RETURN answer;
END $$;

CREATE FUNCTION rag_api.update_document(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked CONSTANT text :=
        rag_internal.visible_collection(coalesce(request ->> 'collection', 'default'));
BEGIN
    IF NOT @extschema@.rag_update_document(
        rag_internal.document_id(request ->> 'document_id'), asked, request ->> 'title',
        request ->> 'category', rag_internal.text_array(request -> 'tags'),
        nullif(request -> 'metadata', 'null')) THEN
        PERFORM rag_internal.found_or_missing(NULL, 'document', request ->> 'document_id');
    END IF;
    RETURN rag_api.get_document(request - 'chunks');
END $$;

CREATE FUNCTION rag_api.delete_document(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked CONSTANT text :=
        rag_internal.visible_collection(coalesce(request ->> 'collection', 'default'));
BEGIN
    IF NOT @extschema@.rag_delete_document(
        rag_internal.document_id(request ->> 'document_id'), asked) THEN
        PERFORM rag_internal.found_or_missing(NULL, 'document', request ->> 'document_id');
    END IF;
    RETURN jsonb_build_object('document_id', request -> 'document_id', 'deleted', true);
END $$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
