-- Distributing the chunks over servers with Citus: rag_distribute, rag_undistribute and
-- rag_distribution. Citus is no requirement of the extension, so its functions and tables are named
-- in texts only.

SET LOCAL search_path = pg_catalog, pg_temp;

-- What rag.chunks is distributed by: document or collection; NULL if it is not distributed.
CREATE FUNCTION rag_internal.distributed_by() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer text;
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT CASE column_to_column_name(logicalrelid, partkey)
                            WHEN ''document_id'' THEN ''document'' ELSE ''collection'' END
                 FROM pg_catalog.pg_dist_partition WHERE logicalrelid = ''rag.chunks''::regclass'
            INTO answer;
    END IF;
    RETURN answer;
END $$;
COMMENT ON FUNCTION rag_internal.distributed_by() IS
    'what rag.chunks is distributed by: document or collection; NULL if it is not distributed';

-- Row-level security of shards
-- ----------------------------------------

-- Citus makes restrictive policies permissive on shards, and permits no subqueries in them. So
-- distributed chunks have one policy. Servers with shards do not know who may read which
-- collection.
CREATE FUNCTION rag_internal.may_read_shard(collection text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'permission denied to read distributed chunks'
        USING ERRCODE = 'insufficient_privilege',
              DETAIL = 'Servers with shards of rag.chunks do not know the privileges on '
                  'collections.',
              HINT = 'Use rag_search, or read rag.documents, which is on the coordinator.';
END $$;
COMMENT ON FUNCTION rag_internal.may_read_shard(text) IS
    'fails: chunks on shards are read with the rights of the extension''s owner only';

CREATE FUNCTION rag_internal.set_chunk_policies(are_distributed boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DROP POLICY IF EXISTS rag_default ON rag.chunks;
    DROP POLICY IF EXISTS rag_collections ON rag.chunks;
    IF are_distributed THEN
        CREATE POLICY rag_collections ON rag.chunks FOR SELECT
            USING (rag_internal.may_read_shard(collection));
    ELSE
        CREATE POLICY rag_default ON rag.chunks FOR SELECT
            USING ((SELECT rag_internal.has_no_policy('rag.chunks')));
        CREATE POLICY rag_collections ON rag.chunks AS RESTRICTIVE FOR SELECT
            USING (collection = ANY ((SELECT rag_internal.readable_collections())::text[]));
    END IF;
END $$;
COMMENT ON FUNCTION rag_internal.set_chunk_policies(boolean) IS
    'creates the policies of rag.chunks, for chunks that are distributed or not';

CREATE FUNCTION rag_internal.reject_chunk_policy() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF rag_internal.distributed_by() IS NOT NULL AND EXISTS (
        SELECT FROM pg_event_trigger_ddl_commands() c
        JOIN pg_policy p ON p.oid = c.objid AND c.classid = 'pg_policy'::regclass
        WHERE p.polrelid = to_regclass('rag.chunks') AND p.polname <> 'rag_collections') THEN
        RAISE EXCEPTION 'cannot create a policy on distributed chunks'
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = 'Citus does not keep restrictive policies when it moves a shard.',
                  HINT = 'Use collections and their privileges, or rag_undistribute() first.';
    END IF;
END $$;
COMMENT ON FUNCTION rag_internal.reject_chunk_policy() IS
    'rejects policies on rag.chunks while it is distributed';
CREATE EVENT TRIGGER rag_reject_chunk_policy ON ddl_command_end
    WHEN TAG IN ('CREATE POLICY', 'ALTER POLICY')
    EXECUTE FUNCTION rag_internal.reject_chunk_policy();
COMMENT ON EVENT TRIGGER rag_reject_chunk_policy IS
    'rejects policies on rag.chunks while it is distributed';

-- Indexes
-- ----------------------------------------

-- Drops the indexes of all partitions that are no keys, and returns the statements that create them
-- again. An index is built from what is there several times faster than row by row.
CREATE FUNCTION rag_internal.drop_chunk_indexes() RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    index record;
    statements text[] := '{}';
BEGIN
    FOR index IN
        SELECT c.oid::regclass AS name, pg_get_indexdef(c.oid) AS definition
        FROM pg_inherits h
        JOIN pg_index i ON i.indrelid = h.inhrelid
        JOIN pg_class c ON c.oid = i.indexrelid
        WHERE h.inhparent = 'rag.chunks'::regclass AND NOT i.indisprimary
          AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = c.oid)
        ORDER BY c.oid LOOP
        statements := statements || index.definition;
        EXECUTE format('DROP INDEX %s', index.name);
    END LOOP;
    RETURN statements;
END $$;
COMMENT ON FUNCTION rag_internal.drop_chunk_indexes() IS
    'drops the indexes of partitions, and returns the statements that create them again';

-- The column by which chunks are distributed is in each unique key. A key that lacks it becomes one
-- that has it, or an index that is not unique.
CREATE FUNCTION rag_internal.set_chunk_keys(by text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key record;
BEGIN
    FOR key IN
        SELECT k.conname, k.conrelid::regclass AS relation FROM pg_constraint k
        JOIN pg_inherits h ON h.inhrelid = k.conrelid
        WHERE h.inhparent = 'rag.chunks'::regclass AND k.contype = 'p'
          AND (cardinality(k.conkey) = 2) = (by IS NOT DISTINCT FROM 'collection')
          AND EXISTS (SELECT FROM pg_constraint c
                      WHERE c.conrelid = k.conrelid AND c.conname = 'partition_collection') LOOP
        EXECUTE format(
            'ALTER TABLE %s DROP CONSTRAINT %I, ADD PRIMARY KEY (document_id, chunk_id%s)',
            key.relation, key.conname,
            CASE WHEN by IS NOT DISTINCT FROM 'collection' THEN ', collection' ELSE '' END);
    END LOOP;
END $$;
COMMENT ON FUNCTION rag_internal.set_chunk_keys(text) IS
    'creates the keys of partitions for chunks that are distributed by a column, or not';

-- Sessions of workers plan searches with the library from their first statement on: so it is in
-- session_preload_libraries of the database, on all servers.
CREATE FUNCTION rag_internal.set_session_library(is_wanted boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- that of the database, and where it has none, that of the server
    known CONSTANT text := coalesce(
        (SELECT split_part(c.entry, '=', 2) FROM pg_db_role_setting s, unnest(s.setconfig) c (entry)
         WHERE s.setdatabase = (
                   SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
           AND s.setrole = 0 AND c.entry LIKE 'session_preload_libraries=%'),
        (SELECT reset_val FROM pg_settings WHERE name = 'session_preload_libraries'));
    libraries text[] := ARRAY(
        SELECT l FROM regexp_split_to_table(known, '\s*,\s*') l WHERE l NOT IN ('', 'rag'));
BEGIN
    IF is_wanted THEN
        libraries := libraries || 'rag'::text;
    END IF;
    IF libraries = '{}' THEN
        EXECUTE format('ALTER DATABASE %I RESET session_preload_libraries', current_database());
    ELSE
        EXECUTE format('ALTER DATABASE %I SET session_preload_libraries = %s', current_database(),
            (SELECT string_agg(quote_literal(l), ', ' ORDER BY n)
             FROM unnest(libraries) WITH ORDINALITY u (l, n)));
    END IF;
END $$;
COMMENT ON FUNCTION rag_internal.set_session_library(boolean) IS
    'adds rag to session_preload_libraries of the database, or removes it';

-- Functions for users
-- ----------------------------------------

-- Comments and privileges of these functions are in sql/privileges.sql.
CREATE FUNCTION @extschema@.rag_distribute(
    by text DEFAULT 'document', shards integer DEFAULT NULL, replicas integer DEFAULT 1)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statements text[];
    statement text;
    nodes integer;
    chunks bigint;
    done integer := 0;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'permission denied to distribute chunks'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Must be superuser.';
    END IF;
    PERFORM rag_internal.require_distributable(by, shards, replicas);
    EXECUTE 'SELECT count(*) FROM pg_dist_node
             WHERE noderole = ''primary'' AND isactive AND shouldhaveshards' INTO nodes;
    shards := coalesce(shards,
        CASE by WHEN 'collection' THEN 4 * nodes ELSE greatest(nodes, 2) END);
    -- no document, partition or policy changes meanwhile
    LOCK TABLE rag_internal.collection, rag.documents IN SHARE ROW EXCLUSIVE MODE;
    LOCK TABLE rag.chunks IN ACCESS EXCLUSIVE MODE;
    PERFORM rag_internal.set_session_library(true);
    statements := rag_internal.drop_chunk_indexes();
    PERFORM rag_internal.set_chunk_keys(by);
    PERFORM rag_internal.set_chunk_policies(true);
    SELECT count(*) FROM rag.chunks INTO chunks;
    RAISE NOTICE 'distributing % chunks over % shards', chunks, shards;
    PERFORM set_config('citus.shard_count', shards::text, true),
            set_config('citus.shard_replication_factor', '1', true),
            set_config('client_min_messages', 'warning', true);
    EXECUTE format('SELECT create_distributed_table(''rag.chunks'', %L, colocate_with => ''none'')',
        CASE by WHEN 'document' THEN 'document_id' ELSE 'collection' END);
    EXECUTE 'SELECT truncate_local_data_after_distributing_table(''rag.chunks'')';
    PERFORM set_config('client_min_messages', 'notice', true);
    FOREACH statement IN ARRAY statements LOOP
        -- ids of chunks are derived from those of documents, so they stay unique
        IF by = 'document' AND statement ~ '^CREATE UNIQUE INDEX .* \(chunk_id, collection\)$' THEN
            statement := replace(statement, 'CREATE UNIQUE INDEX', 'CREATE INDEX');
        END IF;
        EXECUTE statement;
        done := done + 1;
        IF statement ~ 'USING (rag_hnsw|rag_bm25|hnsw) ' THEN
            RAISE NOTICE 'built index % of %', done, cardinality(statements);
        END IF;
    END LOOP;
    FOR statement IN
        SELECT format('ANALYZE %s', i.inhrelid::regclass) FROM pg_inherits i
        WHERE i.inhparent = 'rag.chunks'::regclass LOOP
        EXECUTE statement;
    END LOOP;
    RETURN chunks;
END $$;

CREATE FUNCTION @extschema@.rag_undistribute() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statements text[];
    statement text;
    comments text[];
    chunks bigint;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'permission denied to bring chunks back'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Must be superuser.';
    END IF;
    IF rag_internal.distributed_by() IS NULL THEN
        RAISE EXCEPTION 'chunks are not distributed'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    LOCK TABLE rag_internal.collection, rag.documents IN SHARE ROW EXCLUSIVE MODE;
    statements := rag_internal.drop_chunk_indexes();
    comments := ARRAY(
        SELECT format('COMMENT ON COLUMN rag.chunks.%I IS %L', a.attname, d.description)
        FROM pg_description d JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid
        WHERE d.classoid = 'pg_class'::regclass AND d.objoid = 'rag.chunks'::regclass
          AND d.objsubid > 0
        UNION ALL
        SELECT format('COMMENT ON TABLE rag.chunks IS %L',
                      obj_description('rag.chunks'::regclass, 'pg_class')));
    -- Citus makes a new table of it, and refuses to replace one of an extension
    PERFORM set_config('client_min_messages', 'warning', true);
    ALTER EXTENSION rag DROP TABLE rag.chunks;
    EXECUTE 'SELECT undistribute_table(''rag.chunks'')';
    ALTER EXTENSION rag ADD TABLE rag.chunks;
    PERFORM set_config('client_min_messages', 'notice', true);
    PERFORM rag_internal.set_session_library(false);
    PERFORM rag_internal.set_chunk_policies(false);
    PERFORM rag_internal.set_chunk_keys(NULL);
    FOREACH statement IN ARRAY comments || statements LOOP
        IF statement ~ '^CREATE INDEX .* \(chunk_id, collection\)$' THEN
            statement := replace(statement, 'CREATE INDEX', 'CREATE UNIQUE INDEX');
        END IF;
        EXECUTE statement;
    END LOOP;
    ANALYZE rag.chunks;
    SELECT count(*) FROM rag.chunks INTO chunks;
    RETURN chunks;
END $$;

CREATE FUNCTION @extschema@.rag_distribution()
RETURNS TABLE (node text, is_coordinator boolean, is_available boolean, shards bigint,
    chunks bigint, bytes bigint, share double precision, problem text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'permission denied to read the distribution'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Must be superuser.';
    END IF;
    IF rag_internal.distributed_by() IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY EXECUTE $query$
        WITH node AS (
            SELECT n.nodename || ':' || n.nodeport AS node, n.nodename, n.nodeport, n.groupid,
                   n.isactive, n.shouldhaveshards
            FROM pg_dist_node n WHERE n.noderole = 'primary'),
        placement AS (
            SELECT p.nodename, p.nodeport, p.success, p.result
            FROM run_command_on_placements('rag.chunks', $command$
                SELECT json_build_object(
                    'chunks', (SELECT count(*) FROM %1$s),
                    'bytes', (SELECT sum(pg_total_relation_size(t.relid))
                              FROM pg_partition_tree('%1$s') t),
                    'damage', (SELECT count(*) FROM pg_partition_tree('%1$s') t
                               JOIN pg_index i ON i.indrelid = t.relid WHERE NOT i.indisvalid))
                $command$) p),
        total AS (
            SELECT n.node, n.groupid = 0 AS is_coordinator,
                   n.isactive AND coalesce(bool_and(p.success), true) AS is_available,
                   count(p.result) AS shards,
                   sum((CASE WHEN p.success THEN p.result::json END ->> 'chunks')::bigint)::bigint
                       AS chunks,
                   sum((CASE WHEN p.success THEN p.result::json END ->> 'bytes')::bigint)::bigint
                       AS bytes,
                   sum((CASE WHEN p.success THEN p.result::json END ->> 'damage')::bigint)
                       AS invalid,
                   min(p.result) FILTER (WHERE NOT p.success) AS error,
                   n.shouldhaveshards
            FROM node n LEFT JOIN placement p USING (nodename, nodeport)
            GROUP BY n.node, n.groupid, n.isactive, n.shouldhaveshards)
        SELECT t.node, t.is_coordinator, t.is_available, t.shards, t.chunks, t.bytes,
               round((t.chunks / nullif(sum(t.chunks) OVER (), 0))::numeric, 3)::float8,
               CASE WHEN NOT t.is_available THEN coalesce('unavailable: ' || t.error, 'not active')
                    WHEN t.invalid > 0 THEN t.invalid || ' invalid indexes: REINDEX the partition'
                    WHEN t.shouldhaveshards AND t.shards = 0
                        THEN 'no shards: move some with citus_rebalance_start() or '
                             'citus_move_shard_placement'
                    WHEN t.chunks > 1000 AND t.chunks > 1.5 * avg(t.chunks)
                         FILTER (WHERE t.shards > 0) OVER ()
                        THEN 'out of balance: more than 1.5 times the average' END
        FROM total t ORDER BY t.is_coordinator DESC, t.node $query$;
END $$;

REVOKE ALL ON FUNCTION rag_internal.distributed_by(), rag_internal.may_read_shard(text),
    rag_internal.set_chunk_policies(boolean), rag_internal.reject_chunk_policy(),
    rag_internal.drop_chunk_indexes(), rag_internal.set_chunk_keys(text),
    rag_internal.set_session_library(boolean) FROM PUBLIC;
-- the policy is evaluated with the rights of the reading role
GRANT EXECUTE ON FUNCTION rag_internal.may_read_shard(text),
    rag_internal.distributed_by() TO PUBLIC;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
