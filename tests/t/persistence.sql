-- What RagPersistence.pm asks the server.
CREATE SCHEMA probe;

-- The retrievers of its collections: vectors alone without an index, an index of other options,
-- words alone, and partitions that several collections share.
SELECT rag_create_retriever('persist-fixed',
    '{"storageConfig": {"indexStrategy": {"mode": "fixed", "fixedName": "persist"}}}');
SELECT rag_create_retriever('persist-rolling',
    '{"storageConfig": {"indexStrategy": {"mode": "rolling", "rollingStep": 20}}}');
SELECT rag_create_retriever('persist-flat', '{"storageConfig": {"type": "flat"},
    "retrievalMethods": {"vector": {"enabled": true}}}');
SELECT rag_create_retriever('persist-small',
    '{"storageConfig": {"type": "hnsw", "ext": {"m": 8}}}');
SELECT rag_create_retriever('persist-words',
    '{"retrievalMethods": {"keyword": {"enabled": true}}}');

-- Everything that the server says of a collection. Chunks are read from its partition: a statement
-- over rag.chunks may be planned over the damaged indexes of others.
CREATE FUNCTION probe.observe(name text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    c rag.collections;
    status record;
    answer jsonb;
BEGIN
    SELECT * INTO c FROM rag.collections WHERE rag.collections.name = observe.name;
    SELECT * INTO status FROM rag_collection_status(name);
    answer := jsonb_build_object('status', jsonb_build_object(
        'has_index', status.has_index::int, 'document_count', status.document_count,
        'error_count', status.error_count, 'chunk_count', status.chunk_count,
        'state', status.state, 'retriever', status.retriever,
        'dimensions', status.embedding_dimension, 'wanted', status.wanted_index_type,
        'updated_at', status.updated_at, 'description', c.description,
        'sources', (SELECT coalesce(string_agg(s ->> 'name', ' '), '')
                    FROM jsonb_array_elements(status.sources) s),
        'sizes', CASE WHEN status.total_size_bytes = status.text_bytes + status.chunk_bytes
                               + status.embedding_bytes + status.index_bytes
                           AND (status.text_bytes > 0) = (status.document_count > 0)
                           AND (status.embedding_bytes > 0) = (status.chunk_count > 0)
                      THEN 'sum' ELSE status.total_size_bytes::text END));
    IF status.partition IS NULL THEN
        RETURN answer || jsonb_build_object('documents', (
            SELECT coalesce(jsonb_object_agg(d.uri, jsonb_build_object(
                'status', d.status, 'text', md5(d.content))), '{}')
            FROM rag.documents d WHERE d.collection = name));
    END IF;
    RETURN answer || probe.documents(name, status.partition, c) || probe.relations(status.partition)
        || jsonb_build_object('found', CASE WHEN c.retriever <> 'persist-words'
                                            THEN probe.not_found(name, status.partition) END);
END $$;

CREATE FUNCTION probe.documents(name text, partition text, c rag.collections) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb;
BEGIN
    EXECUTE format($query$
        WITH stored AS MATERIALIZED (
            SELECT document_id, count(*) AS chunks, array_agg(content ORDER BY chunk_index) AS texts
            FROM %s WHERE collection = $1 GROUP BY document_id)
        SELECT jsonb_build_object(
            'documents', coalesce(jsonb_object_agg(d.uri, jsonb_build_object(
                'status', d.status, 'title', d.title, 'category', d.category, 'tags', d.tags,
                'text', md5(d.content), 'chunks', coalesce(s.chunks, 0),
                'is_split', coalesce(s.chunks, 0) = d.chunk_count AND CASE d.chunking
                    WHEN 'given' THEN array_to_string(s.texts, E'\n\n') = d.content
                    ELSE d.content IS NULL OR s.texts = ARRAY(
                        SELECT r.content FROM rag_split(d.content, d.document_type, $2, $3) r
                        ORDER BY r.chunk_index) END)), '{}'),
            'orphans', (SELECT count(*) FROM stored s WHERE NOT EXISTS (
                SELECT FROM rag.documents d WHERE d.document_id = s.document_id
                    AND d.collection = $1)))
        FROM rag.documents d LEFT JOIN stored s USING (document_id) WHERE d.collection = $1
        $query$, partition) INTO answer USING name, c.chunk_size, c.chunk_overlap;
    RETURN answer;
END $$;

-- The access methods of a partition's relations, and relations without a file.
CREATE FUNCTION probe.relations(partition regclass) RETURNS jsonb LANGUAGE sql AS $$
    WITH relation (oid) AS (
        SELECT partition::oid
        UNION SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = partition
        UNION SELECT reltoastrelid FROM pg_class
            WHERE pg_class.oid = partition AND reltoastrelid <> 0
        UNION SELECT i.indexrelid FROM pg_class t JOIN pg_index i ON i.indrelid = t.reltoastrelid
            WHERE t.oid = partition)
    SELECT jsonb_build_object(
        'methods', jsonb_agg(DISTINCT a.amname),
        'missing_files', jsonb_agg(r.oid::regclass)
            FILTER (WHERE (pg_stat_file(pg_relation_filepath(r.oid), true)).size IS NULL))
    FROM relation r JOIN pg_class USING (oid) LEFT JOIN pg_am a ON a.oid = relam
$$;

-- A chunk that a search by its embedding does not find.
CREATE FUNCTION probe.not_found(name text, partition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    chunk record;
BEGIN
    EXECUTE format('SELECT embedding, content FROM %s WHERE collection = $1
                    ORDER BY md5(content) LIMIT 1', partition) INTO chunk USING name;
    IF chunk.content IS NULL OR EXISTS (
        SELECT FROM rag_search(NULL, name, 3, 'vector', query_embedding => chunk.embedding) s
        WHERE s.score > 0.9999 AND s.content = chunk.content) THEN
        RETURN NULL;
    END IF;
    RETURN chunk.content;
END $$;

-- A value that changes with everything that is stored of a collection. Sizes are left out: those of
-- a shared partition change with other collections, and after a crash there may be a free space map
-- more.
CREATE FUNCTION probe.digest(name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    status record;
    chunks text;
BEGIN
    SELECT * INTO status FROM rag_collection_status(name);
    IF status.partition IS NOT NULL THEN
        EXECUTE format('SELECT md5(string_agg(c::text, ''|'' ORDER BY c.document_id, c.chunk_id))
                        FROM %s c WHERE c.collection = $1', status.partition)
            INTO chunks USING name;
    END IF;
    RETURN md5(concat_ws('|', chunks,
        to_jsonb(status) - '{total_size_bytes,chunk_bytes,index_bytes,embedding_bytes,
            vector_index_bytes,keyword_index_bytes}'::text[],
        (SELECT md5(string_agg(d::text, '|' ORDER BY d.document_id)) FROM rag.documents d
         WHERE d.collection = name),
        (SELECT c::text FROM rag.collections c WHERE c.name = digest.name),
        (SELECT md5(string_agg(d::text, '|' ORDER BY d::text)) FROM rag_internal.document_digest d
         WHERE d.collection = name)));
END $$;

-- Rows of the catalog that name collections or their sources, and partitions of nobody.
CREATE FUNCTION probe.left_of(names text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    place record;
    rows bigint;
BEGIN
    FOR place IN
        SELECT a.attrelid::regclass AS relation, a.attname
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace IN ('rag'::regnamespace, 'rag_internal'::regnamespace)
          AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND a.atttypid = 'text'::regtype AND a.attnum > 0 AND NOT a.attisdropped
          AND a.attname IN ('collection', 'source', 'name', 'former_source', 'partition')
    LOOP
        EXECUTE format('SELECT count(*) FROM %s WHERE %I = ANY ($1)',
                       place.relation, place.attname)
            INTO rows USING names || ARRAY(SELECT 'source-' || n FROM unnest(names) n);
        IF rows > 0 THEN
            RETURN NEXT rows || ' rows of ' || place.relation;
        END IF;
    END LOOP;
    RETURN QUERY SELECT 'partition ' || inhrelid::regclass FROM pg_inherits
        WHERE inhparent = 'rag.chunks'::regclass
          AND inhrelid NOT IN (SELECT partition::regclass FROM rag_collection_status()
                               WHERE partition IS NOT NULL);
END $$;

CREATE FUNCTION probe.stray_files() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT f FROM pg_ls_dir('base/' || (SELECT oid FROM pg_database
                                        WHERE datname = current_database())) AS f
    WHERE f ~ '^\d+' AND substring(f FROM '^\d+')::oid NOT IN (
        SELECT pg_relation_filenode(oid) FROM pg_class
        WHERE pg_relation_filenode(oid) IS NOT NULL)
$$;
