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

-- Checks
-- ----------------------------------------

-- Each row is a reason why chunks cannot be distributed.
CREATE FUNCTION rag_internal.distribution_problems(by text, shards integer, replicas integer)
RETURNS SETOF text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own_version CONSTANT text := (SELECT extversion FROM pg_extension WHERE extname = 'rag');
    citus_version text;
    group_id integer;
    nodes integer;
    answer record;
BEGIN
    IF by IS NULL OR by NOT IN ('document', 'collection') THEN
        RETURN NEXT format('by must be document or collection, not %s', coalesce(by, 'NULL'));
    END IF;
    IF shards NOT BETWEEN 1 AND 1000 THEN
        RETURN NEXT format('shards must be between 1 and 1000, not %s', shards);
    END IF;
    -- Citus creates no index on a partition with copies, and a collection gets its own
    IF replicas IS DISTINCT FROM 1 THEN
        RETURN NEXT format('replicas must be 1, not %s: use a standby of each worker instead',
            coalesce(replicas::text, 'NULL'));
    END IF;
    SELECT extversion INTO citus_version FROM pg_extension WHERE extname = 'citus';
    IF citus_version IS NULL THEN
        RETURN NEXT 'this database has no extension citus: put citus before rag in '
            'shared_preload_libraries, restart, and run CREATE EXTENSION citus on every server';
        RETURN;
    END IF;
    IF split_part(citus_version, '.', 1)::integer < 12 THEN
        RETURN NEXT format('Citus %s is too old: 12 or newer is needed', citus_version);
        RETURN;
    END IF;
    EXECUTE 'SELECT groupid FROM pg_dist_local_group' INTO group_id;
    IF group_id <> 0 THEN
        RETURN NEXT 'this server is a worker: connect to the coordinator';
        RETURN;
    END IF;
    IF rag_internal.distributed_by() IS NOT NULL THEN
        RETURN NEXT format('chunks are distributed by %s already: rag_undistribute() brings them '
            'back', rag_internal.distributed_by());
        RETURN;
    END IF;
    EXECUTE 'SELECT count(*) FROM pg_dist_node
             WHERE noderole = ''primary'' AND isactive AND shouldhaveshards' INTO nodes;
    IF nodes = 0 THEN
        RETURN NEXT 'no node may have shards: add the workers with citus_add_node(host, port)';
        RETURN;
    END IF;
    IF getdatabaseencoding() <> 'UTF8' THEN
        RETURN NEXT format('the database has the encoding %s: UTF8 is needed',
            getdatabaseencoding());
    END IF;
    IF current_setting('max_prepared_transactions')::integer = 0 THEN
        RETURN NEXT 'max_prepared_transactions is 0 on the coordinator: set it to at least '
            'max_connections, and restart';
    END IF;
    FOR answer IN EXECUTE
        'SELECT nodename || '':'' || nodeport AS node FROM pg_dist_node
         WHERE noderole = ''primary'' AND isactive AND NOT (hasmetadata AND metadatasynced)' LOOP
        RETURN NEXT format('node %s has no metadata: SELECT start_metadata_sync_to_node(...)',
            answer.node);
    END LOOP;
    FOR answer IN EXECUTE
        'SELECT nodename || '':'' || nodeport AS node, success, result
         FROM run_command_on_workers($c$
             SELECT json_build_object(
                 ''prepared'', current_setting(''max_prepared_transactions''),
                 ''rag'', (SELECT extversion FROM pg_extension WHERE extname = ''rag''))$c$)' LOOP
        IF NOT answer.success THEN
            RETURN NEXT format('node %s is unavailable: %s', answer.node, answer.result);
        ELSE
            IF answer.result::json ->> 'prepared' = '0' THEN
                RETURN NEXT format('max_prepared_transactions is 0 on node %s: set it to at least '
                    'max_connections, and restart', answer.node);
            END IF;
            IF answer.result::json ->> 'rag' IS DISTINCT FROM own_version THEN
                RETURN NEXT format('node %s has version %s of rag, and the coordinator %s',
                    answer.node, coalesce(answer.result::json ->> 'rag', '(none)'), own_version);
            END IF;
        END IF;
    END LOOP;
    FOR answer IN
        SELECT o.rolname FROM pg_extension e JOIN pg_roles o ON o.oid = e.extowner
        WHERE e.extname = 'rag' AND NOT o.rolcanlogin LOOP
        RETURN NEXT format('role %s, which owns the extension, cannot log in: Citus connects to '
            'the nodes as this role', answer.rolname);
    END LOOP;
    FOR answer IN
        SELECT p.polname FROM pg_policy p
        WHERE p.polrelid = 'rag.chunks'::regclass
          AND p.polname NOT IN ('rag_default', 'rag_collections') LOOP
        RETURN NEXT format('policy %s on rag.chunks cannot be distributed: drop it',
            answer.polname);
    END LOOP;
    FOR answer IN
        SELECT k.name, r.spec #>> '{storageConfig,type}' AS storage
        FROM rag_internal.collection k JOIN rag_internal.retriever r ON r.name = k.retriever
        WHERE r.spec #>> '{storageConfig,type}' IN ('qdrant', 'elasticsearch')
          AND k.partition IS NOT NULL LOOP
        RETURN NEXT format('collection %s has its vectors on a server, too (%s): give it another '
            'retriever', answer.name, answer.storage);
    END LOOP;
    FOR answer IN SELECT r.collection FROM rag_internal.rebuild r LOOP
        RETURN NEXT format('collection %s is being rebuilt: wait until it is done',
            answer.collection);
    END LOOP;
    FOR answer IN
        SELECT t.tgname, t.tgrelid::regclass AS relation FROM pg_trigger t
        JOIN pg_inherits i ON i.inhrelid = t.tgrelid AND i.inhparent = 'rag.chunks'::regclass
        WHERE NOT t.tgisinternal LOOP
        RETURN NEXT format('trigger %s on %s cannot be distributed: drop it', answer.tgname,
            answer.relation);
    END LOOP;
END $$;
COMMENT ON FUNCTION rag_internal.distribution_problems(text, integer, integer) IS
    'reasons why the chunks cannot be distributed';

-- Fails if there is a problem, and names all of them.
CREATE FUNCTION rag_internal.require_distributable(by text, shards integer, replicas integer)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    problems CONSTANT text[] := ARRAY(
        SELECT rag_internal.distribution_problems(by, shards, replicas));
BEGIN
    IF problems <> '{}' THEN
        RAISE EXCEPTION 'chunks cannot be distributed: % problem(s)', cardinality(problems)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  DETAIL = (SELECT string_agg(format('%s. %s.', n, p), E'\n' ORDER BY n)
                            FROM unnest(problems) WITH ORDINALITY AS u (p, n)),
                  HINT = 'The guide has a page on scale-out: docs/guide/scale-out.md.';
    END IF;
END $$;
COMMENT ON FUNCTION rag_internal.require_distributable(text, integer, integer) IS
    'fails if the chunks cannot be distributed, and names all reasons';

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
    libraries text := current_setting('session_preload_libraries');
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'permission denied to distribute chunks'
            USING ERRCODE = 'insufficient_privilege', HINT = 'Must be superuser.';
    END IF;
    PERFORM rag_internal.require_distributable(by, shards, replicas);
    EXECUTE 'SELECT count(*) FROM pg_dist_node
             WHERE noderole = ''primary'' AND isactive AND shouldhaveshards' INTO nodes;
    shards := coalesce(shards, CASE by WHEN 'collection' THEN 4 * nodes ELSE nodes END);
    -- no document, partition or policy changes meanwhile
    LOCK TABLE rag_internal.collection, rag.documents IN SHARE ROW EXCLUSIVE MODE;
    LOCK TABLE rag.chunks IN ACCESS EXCLUSIVE MODE;
    -- sessions of workers plan searches with the library from their first statement on
    IF NOT 'rag' = ANY (regexp_split_to_array(libraries, '\s*,\s*')) THEN
        EXECUTE format('ALTER DATABASE %I SET session_preload_libraries = %L', current_database(),
            concat_ws(', ', nullif(libraries, ''), 'rag'));
    END IF;
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
    rag_internal.distribution_problems(text, integer, integer),
    rag_internal.require_distributable(text, integer, integer),
    rag_internal.drop_chunk_indexes(), rag_internal.set_chunk_keys(text) FROM PUBLIC;
-- the policy is evaluated with the rights of the reading role
GRANT EXECUTE ON FUNCTION rag_internal.may_read_shard(text),
    rag_internal.distributed_by() TO PUBLIC;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
