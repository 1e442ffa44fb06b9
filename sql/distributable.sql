-- What rag_distribute checks before it begins. Citus is no requirement of the extension, so its
-- functions and tables are named in texts only.

SET LOCAL search_path = pg_catalog, pg_temp;

-- Each row is a reason why texts cannot be embedded on all nodes by the model of the coordinator.
CREATE FUNCTION rag_internal.model_problems() RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own json;
    answer record;
BEGIN
    BEGIN
        own := rag_internal.default_model_of_node();
    EXCEPTION WHEN OTHERS THEN
        RETURN NEXT format('the model of the coordinator does not answer: %s', SQLERRM);
    END;
    FOR answer IN EXECUTE
        'SELECT nodename || '':'' || nodeport AS node, success, result
         FROM run_command_on_workers(''SELECT rag_internal.default_model_of_node()'')' LOOP
        IF NOT answer.success THEN
            RETURN NEXT format('the model of node %s does not answer: %s', answer.node,
                regexp_replace(answer.result, '^ERROR:\s*', ''));
        ELSIF answer.result::json ->> 'fingerprint' <> own ->> 'fingerprint' THEN
            RETURN NEXT format('node %s has model %s with another fingerprint than model %s of the '
                'coordinator: install the same model, and set the same rag.model_dir and '
                'rag.model_precision', answer.node, answer.result::json ->> 'model',
                own ->> 'model');
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION rag_internal.model_problems() IS
    'reasons why texts cannot be embedded on all nodes';

-- Each row is a reason why chunks cannot be distributed.
CREATE FUNCTION rag_internal.distribution_problems(by text, shards integer, replicas integer)
RETURNS SETOF text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own_version CONSTANT text := (SELECT extversion FROM pg_extension WHERE extname = 'rag');
    citus_version text;
    group_id integer;
    nodes integer;
    are_same boolean := true;
    answer record;
BEGIN
    IF by IS NULL OR by NOT IN ('document', 'collection') THEN
        RETURN NEXT format('by must be document or collection, not %s', coalesce(by, 'NULL'));
    END IF;
    -- with two, servers can be made to commit together: src/catalog/shards.rs
    IF shards NOT BETWEEN 2 AND 1000 THEN
        RETURN NEXT format('shards must be between 2 and 1000, not %s', shards);
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
    IF NOT 'rag' = ANY (regexp_split_to_array(current_setting('shared_preload_libraries'),
        '\s*,\s*')) THEN
        RETURN NEXT 'shared_preload_libraries of the coordinator lacks rag: set it to citus, rag, '
            'and restart';
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
            are_same := false;
            RETURN NEXT format('node %s is unavailable: %s', answer.node, answer.result);
        ELSE
            IF answer.result::json ->> 'prepared' = '0' THEN
                RETURN NEXT format('max_prepared_transactions is 0 on node %s: set it to at least '
                    'max_connections, and restart', answer.node);
            END IF;
            IF answer.result::json ->> 'rag' IS DISTINCT FROM own_version THEN
                are_same := false;
                RETURN NEXT format('node %s has version %s of rag, and the coordinator %s',
                    answer.node, coalesce(answer.result::json ->> 'rag', '(none)'), own_version);
            END IF;
        END IF;
    END LOOP;
    IF are_same THEN
        RETURN QUERY SELECT * FROM rag_internal.model_problems();
    END IF;
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

REVOKE ALL ON FUNCTION rag_internal.model_problems(),
    rag_internal.distribution_problems(text, integer, integer),
    rag_internal.require_distributable(text, integer, integer) FROM PUBLIC;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
