-- Functions of rag-gateway's routes of OpenAI's API: models, embeddings, files, vector stores, and
-- what chat completions and responses have in common. A vector store is a collection, and its files
-- are documents. See api.sql.

SET LOCAL search_path = pg_catalog, pg_temp;

-- What a vector store has that a collection does not.
CREATE TABLE rag_internal.vector_store (
    collection text PRIMARY KEY,
    name text,
    metadata jsonb NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE rag_internal.vector_store IS
    'names and metadata that clients of OpenAI''s API gave to collections';
-- Files that were uploaded, and that a vector store may take later. Dumps do not have them.
CREATE TABLE rag_internal.uploaded_file (
    file_id text PRIMARY KEY
        DEFAULT 'file-' || pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-', ''),
    owner_id oid NOT NULL,
    filename text NOT NULL,
    purpose text NOT NULL,
    content bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rag_internal.uploaded_file IS 'files that clients of OpenAI''s API have uploaded';
COMMENT ON COLUMN rag_internal.uploaded_file.owner_id IS 'role that sees the file';
SELECT pg_catalog.pg_extension_config_dump('rag_internal.vector_store', '');

-- The functions below write both tables with the caller's rights.
ALTER TABLE rag_internal.vector_store ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON rag_internal.vector_store FOR SELECT
    USING (collection = ANY ((SELECT rag_internal.readable_collections())::text[]));
CREATE POLICY writers ON rag_internal.vector_store
    USING (collection = ANY ((SELECT rag_internal.writable_collections())::text[]));
ALTER TABLE rag_internal.uploaded_file ENABLE ROW LEVEL SECURITY;
-- A role that may write to no collection has no use for a file.
CREATE POLICY owner ON rag_internal.uploaded_file
    USING (owner_id = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user))
    WITH CHECK (owner_id = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user)
                AND (SELECT cardinality(rag_internal.writable_collections()) > 0));
GRANT SELECT, INSERT, UPDATE, DELETE ON rag_internal.vector_store TO rag_reader;
GRANT SELECT, INSERT, DELETE ON rag_internal.uploaded_file TO rag_reader;

CREATE FUNCTION rag_internal.follow_collection() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM rag_internal.vector_store WHERE collection = OLD.name;
    ELSE
        UPDATE rag_internal.vector_store SET collection = NEW.name WHERE collection = OLD.name;
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.follow_collection() IS
    'renames and deletes the vector store of a collection with it';
REVOKE ALL ON FUNCTION rag_internal.follow_collection() FROM PUBLIC;
CREATE TRIGGER follow_collection AFTER DELETE OR UPDATE OF name ON rag_internal.collection
    FOR EACH ROW EXECUTE FUNCTION rag_internal.follow_collection();

CREATE FUNCTION rag_internal.unix_time(at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS 'SELECT floor(extract(epoch FROM $1))::bigint';
COMMENT ON FUNCTION rag_internal.unix_time(timestamptz) IS 'seconds since 1970';

-- models and embeddings
-- ----------------------------------------

CREATE FUNCTION rag_internal.openai_models()
    RETURNS TABLE (id text, created bigint, owned_by text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'rag', 0::bigint, 'rag'
    UNION ALL SELECT 'rag/' || name, rag_internal.unix_time(created_at), coalesce(owner, 'rag')
              FROM rag.collections
    UNION ALL SELECT rag_internal.current_model(), 0::bigint, 'rag'
    UNION ALL SELECT name, rag_internal.unix_time(created_at), coalesce(owner, 'rag')
              FROM rag.models WHERE may_use AND kind = 'embedding'
$$;
COMMENT ON FUNCTION rag_internal.openai_models() IS
    'names that a request of OpenAI''s API may give as its model';

CREATE FUNCTION rag_api.list_models(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT jsonb_build_object('object', 'list', 'data', jsonb_agg(jsonb_build_object(
                       'id', m.id, 'object', 'model', 'created', m.created,
                       'owned_by', m.owned_by) ORDER BY m.id))
            FROM rag_internal.openai_models() m WHERE m.id IS NOT NULL);
END $$;

CREATE FUNCTION rag_api.get_model(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN rag_internal.found_or_missing(
        (SELECT jsonb_build_object('id', m.id, 'object', 'model', 'created', m.created,
                                   'owned_by', m.owned_by)
         FROM rag_internal.openai_models() m WHERE m.id = request ->> 'model' LIMIT 1),
        'model', request ->> 'model');
END $$;

-- The server does not count the tokens of embeddings: they are a quarter of the bytes, as in
-- rag.model_usage.
CREATE FUNCTION rag_api.embeddings(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    input CONSTANT jsonb := CASE jsonb_typeof(request -> 'input')
        WHEN 'string' THEN jsonb_build_array(request -> 'input') ELSE request -> 'input' END;
    texts text[];
    named text := request ->> 'model';
    vectors rag_types.vector[];
    tokens bigint;
    wanted CONSTANT integer := (request ->> 'dimensions')::integer;
BEGIN
    IF jsonb_typeof(input) <> 'array' OR jsonb_array_length(input) NOT BETWEEN 1 AND 2048
        OR EXISTS (SELECT FROM jsonb_array_elements(input) AS e WHERE jsonb_typeof(e) <> 'string')
    THEN
        RAISE invalid_parameter_value
            USING MESSAGE = 'input: must be a text, or an array of 1 to 2048 texts';
    END IF;
    texts := rag_internal.text_array(input);
    IF '' = ANY (texts) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'input: a text must not be empty';
    END IF;
    IF named IS NULL OR named IN ('rag', 'default', rag_internal.current_model()) THEN
        named := NULL;
    ELSIF NOT EXISTS (SELECT FROM rag.models m
                      WHERE m.name = named AND m.kind = 'embedding' AND m.may_use) THEN
        PERFORM rag_internal.found_or_missing(NULL, 'model', named);
    END IF;
    vectors := @extschema@.rag_embed(texts, named, coalesce(request ->> 'purpose', 'query'));
    IF wanted IS NOT NULL AND wanted <> rag_functions.vector_dims(vectors[1]) THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'dimensions: the model has %s', rag_functions.vector_dims(vectors[1]));
    END IF;
    SELECT sum((octet_length(t) + 3) / 4) INTO tokens FROM unnest(texts) AS t;
    RETURN jsonb_build_object(
        'object', 'list',
        'data', (SELECT jsonb_agg(jsonb_build_object(
                     'object', 'embedding', 'index', v.i - 1,
                     'embedding', v.vector::text::jsonb) ORDER BY v.i)
                 FROM unnest(vectors) WITH ORDINALITY AS v (vector, i)),
        'model', coalesce(request ->> 'model', rag_internal.current_model()),
        'usage', jsonb_build_object('prompt_tokens', tokens, 'total_tokens', tokens));
END $$;

-- files
-- ----------------------------------------

CREATE FUNCTION rag_internal.file_json(f rag_internal.uploaded_file) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'id', $1.file_id, 'object', 'file', 'bytes', octet_length($1.content),
        'created_at', rag_internal.unix_time($1.created_at), 'filename', $1.filename,
        'purpose', $1.purpose, 'status', 'processed', 'expires_at', NULL, 'status_details', NULL)
$$;
COMMENT ON FUNCTION rag_internal.file_json(rag_internal.uploaded_file) IS
    'a file as OpenAI''s API describes it';

CREATE FUNCTION rag_api.create_file(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stored rag_internal.uploaded_file;
BEGIN
    INSERT INTO rag_internal.uploaded_file (owner_id, filename, purpose, content)
    VALUES ((SELECT oid FROM pg_roles WHERE rolname = current_user),
            coalesce(request ->> 'filename', 'file'), coalesce(request ->> 'purpose', 'assistants'),
            decode(request ->> 'content_base64', 'base64'))
    RETURNING * INTO stored;
    RETURN rag_internal.file_json(stored);
END $$;

CREATE FUNCTION rag_api.list_files(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    data jsonb;
BEGIN
    SELECT coalesce(jsonb_agg(rag_internal.file_json(f) ORDER BY f.created_at DESC), '[]')
    INTO data FROM rag_internal.uploaded_file f
    WHERE request ->> 'purpose' IS NULL OR f.purpose = request ->> 'purpose';
    RETURN jsonb_build_object('object', 'list', 'data', data, 'first_id', data #> '{0,id}',
                              'last_id', data #> '{-1,id}', 'has_more', false);
END $$;

CREATE FUNCTION rag_api.get_file(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN rag_internal.found_or_missing(
        (SELECT rag_internal.file_json(f) FROM rag_internal.uploaded_file f
         WHERE f.file_id = request ->> 'file_id'), 'file', request ->> 'file_id');
END $$;

CREATE FUNCTION rag_api.delete_file(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM rag_internal.uploaded_file WHERE file_id = request ->> 'file_id';
    IF NOT FOUND THEN
        PERFORM rag_internal.found_or_missing(NULL, 'file', request ->> 'file_id');
    END IF;
    RETURN jsonb_build_object('id', request -> 'file_id', 'object', 'file', 'deleted', true);
END $$;

-- answers
-- ----------------------------------------

-- A content is a text, or an array of parts of which only texts count.
CREATE FUNCTION rag_internal.content_text(content jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE jsonb_typeof($1)
        WHEN 'string' THEN $1 #>> '{}'
        WHEN 'array' THEN (SELECT string_agg(p ->> 'text', E'\n' ORDER BY i)
                           FROM jsonb_array_elements($1) WITH ORDINALITY AS c (p, i))
        END
$$;
COMMENT ON FUNCTION rag_internal.content_text(jsonb) IS 'text of a message of OpenAI''s API';

-- The model rag/x, or the members index_name (KAITO) or collection, name the collection. The last
-- message of the user is the question.
CREATE FUNCTION rag_internal.chat_arguments(request jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named CONSTANT text := coalesce(request ->> 'model', 'rag');
    input CONSTANT jsonb := coalesce(request -> 'messages', request -> 'input');
    messages jsonb;
    question integer;
BEGIN
    IF named <> 'rag' AND named NOT LIKE 'rag/%' AND request ->> 'index_name' IS NULL THEN
        PERFORM rag_internal.found_or_missing(NULL, 'model', named);
    END IF;
    messages := CASE jsonb_typeof(input)
        WHEN 'string' THEN jsonb_build_array(jsonb_build_object('role', 'user', 'content', input))
        WHEN 'array' THEN input END;
    IF request ->> 'instructions' IS NOT NULL THEN
        messages := jsonb_build_array(jsonb_build_object(
            'role', 'system', 'content', request -> 'instructions')) || messages;
    END IF;
    SELECT max(i) INTO question
    FROM jsonb_array_elements(messages) WITH ORDINALITY AS m (message, i)
    WHERE message ->> 'role' = 'user'
      AND rag_internal.content_text(message -> 'content') IS NOT NULL;
    IF question IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            '%s: must have a message of the user', CASE WHEN request ? 'input' THEN 'input'
                                                        ELSE 'messages' END);
    END IF;
    RETURN jsonb_build_object(
        'query', rag_internal.content_text(messages -> (question - 1) -> 'content'),
        'collection', coalesce(request ->> 'collection', request ->> 'index_name',
                               CASE WHEN named LIKE 'rag/%' THEN substr(named, 5) END, 'default'),
        'top_k', request -> 'top_k',
        'filter', request -> 'filter', 'model', request -> 'chat_model',
        'conversation_history', (
            SELECT jsonb_agg(jsonb_build_object(
                       'role', CASE message ->> 'role' WHEN 'developer' THEN 'system'
                                                       ELSE message ->> 'role' END,
                       'content', rag_internal.content_text(message -> 'content')) ORDER BY i)
            FROM jsonb_array_elements(messages) WITH ORDINALITY AS m (message, i)
            WHERE i < question
              AND rag_internal.content_text(message -> 'content') IS NOT NULL));
END $$;
COMMENT ON FUNCTION rag_internal.chat_arguments(jsonb) IS
    'request of rag_api.answer for a chat completion or response of OpenAI''s API';

CREATE FUNCTION rag_internal.source_nodes(context_used jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object(
               'doc_id', c -> 'document_id', 'node_id', c -> 'chunk_id', 'text', c -> 'snippet',
               'score', c -> 'score', 'metadata', jsonb_build_object(
                   'title', c -> 'title', 'uri', c -> 'uri', 'citation', c -> 'citation'))
               ORDER BY i), '[]')
    FROM jsonb_array_elements($1) WITH ORDINALITY AS u (c, i)
$$;
COMMENT ON FUNCTION rag_internal.source_nodes(jsonb) IS
    'chunks that a model was given, as KAITO''s RAG engine returns them';

CREATE FUNCTION rag_api.chat_completion(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer CONSTANT jsonb := rag_api.answer(rag_internal.chat_arguments(request));
    tokens CONSTANT jsonb := answer #> '{metadata,tokens}';
BEGIN
    RETURN jsonb_build_object(
        'id', 'chatcmpl-' || replace(gen_random_uuid()::text, '-', ''),
        'object', 'chat.completion', 'created', rag_internal.unix_time(now()),
        'model', coalesce(request ->> 'model', 'rag'),
        'choices', jsonb_build_array(jsonb_build_object(
            'index', 0, 'logprobs', NULL,
            'finish_reason', CASE answer #>> '{metadata,finish_reason}' WHEN 'length' THEN 'length'
                                                                        ELSE 'stop' END,
            'message', jsonb_build_object('role', 'assistant', 'content', answer -> 'message',
                                          'refusal', NULL))),
        'usage', jsonb_build_object(
            'prompt_tokens', coalesce(tokens -> 'input', '0'),
            'completion_tokens', coalesce(tokens -> 'output', '0'),
            'total_tokens', coalesce(tokens -> 'total', '0')),
        'source_nodes', rag_internal.source_nodes(answer -> 'context_used'));
END $$;

CREATE FUNCTION rag_api.response(request jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer CONSTANT jsonb := rag_api.answer(rag_internal.chat_arguments(request));
    tokens CONSTANT jsonb := answer #> '{metadata,tokens}';
BEGIN
    RETURN jsonb_build_object(
        'text', answer -> 'message',
        'usage', jsonb_build_object(
            'input_tokens', coalesce(tokens -> 'input', '0'),
            'output_tokens', coalesce(tokens -> 'output', '0'),
            'total_tokens', coalesce(tokens -> 'total', '0')),
        'finish_reason', answer #> '{metadata,finish_reason}',
        'source_nodes', rag_internal.source_nodes(answer -> 'context_used'));
END $$;

-- The rows of rag_api.answer_stream. The program makes the events of both contracts of them.
CREATE FUNCTION rag_api.chat_stream(request jsonb) RETURNS SETOF jsonb
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT rag_api.answer_stream(rag_internal.chat_arguments($1))
$$;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
