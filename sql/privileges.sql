-- Comments on the functions, and who may do what. Nothing is granted to PUBLIC but the vector type
-- and its operators.

SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
DECLARE
    what record;
BEGIN
    FOR what IN
        SELECT p.oid::regprocedure AS signature, c.comment, c.readers
        FROM (VALUES
            ('rag_create_collection', false, 'makes a collection: a named set of documents that are searched together'),
            ('rag_drop_collection', false, 'drops a collection with its documents'),
            ('rag_grant_collection', true, 'lets a role read a collection, or write to it; public: all roles'),
            ('rag_revoke_collection', true, 'takes a privilege on a collection from a role; NULL: both'),
            ('rag_alter_collection_owner', true, 'gives a collection to another owner'),
            ('rag_collection_status', true, 'what a collection, or each, holds, how large it is and how it is'),
            ('rag_stats', true, 'counts of a collection as JSON'),
            ('rag_create_source', false, 'makes a source: where documents of a collection come from'),
            ('rag_alter_source', true, 'changes a source; what is NULL stays, and an empty schedule or credentials take that away'),
            ('rag_validate_source', false, 'what is wrong with the definition of a source, each row a problem; makes nothing'),
            ('rag_suspend', true, 'has schedule, retries and drift checks of a source rest; a run under way goes on'),
            ('rag_resume', true, 'ends what rag_suspend began; times that came meanwhile are not caught up with'),
            ('rag_next_runs', true, 'the next times of a schedule'),
            ('rag_drop_source', true, 'drops a source; its documents stay unless keep_documents is false'),
            ('rag_apply', true, 'makes or changes what a manifest (YAML or JSON, one or many documents) describes'),
            ('rag_get', true, 'the manifest of a source or retriever, with its status'),
            ('rag_delete', true, 'drops the source or retriever of a manifest; false where there is none'),
            ('rag_create_secret', false, 'stores a value that a source''s server asks for; it can be replaced and dropped, never read'),
            ('rag_drop_secret', false, 'drops a secret, or one of its keys'),
            ('rag_rotate_secret_key', false, 'adds a key to the key file and encrypts the secrets of the database under it'),
            ('rag_drop_secret_key', false, 'removes from the key file a key that nothing is encrypted under any more'),
            ('rag_secret_keys', false, 'keys that secrets are or can be encrypted under, without the keys themselves'),
            ('rag_sync', true, 'indexes what a source has now; returns the id of the run'),
            ('rag_sync_all', true, 'queues runs of all sources of a collection, or of all there are, that the caller may sync'),
            ('rag_cancel_run', true, 'ends a run that is queued or under way; false where it has ended already'),
            ('rag_wait', true, 'waits until a run has ended, or for so long; its phase then'),
            ('rag_check_drift', true, 'compares what is stored of a source with what its runs have indexed'),
            ('rag_add_document', false, 'indexes one document, a text or the bytes of a file, in the place of what was stored under its uri'),
            ('rag_add_documents', false, 'indexes documents of a JSON array, each row one of them'),
            ('rag_update_document', false, 'changes title, category, tags or metadata of a document without its text; false where there is none'),
            ('rag_remove_document', false, 'removes one document; false where there is none'),
            ('rag_create_knowledge', false, 'registers a knowledge item, which is fetched when it is indexed'),
            ('rag_alter_knowledge', false, 'changes what is said of a knowledge item; what is NULL stays'),
            ('rag_index_knowledge', false, 'fetches and indexes one knowledge item, in the place of what was indexed of it'),
            ('rag_index_all', false, 'indexes all knowledge items of a collection, or those of a status, each in a transaction of its own'),
            ('rag_unindex_knowledge', false, 'removes the documents of a knowledge item and keeps the item; false where there are none'),
            ('rag_remove_knowledge', false, 'removes a knowledge item with its documents; false where there is none'),
            ('rag_status', true, 'what is wrong now with the server, sources, runs, collections and secrets, and what to do; no row: all is well'),
            ('rag_split', true, 'shows how a text is cut into chunks'),
            ('rag_embed', true, 'the embedding of a text, or of each of several'),
            ('rag_search', true, 'finds the chunks of a collection that answer a query, best first'),
            ('rag_index_check', true, 'verifies a rag_hnsw index, each row a problem'),
            ('rag_index_info', true, 'parameters, counts and size of a rag_hnsw index'),
            ('rag_index_recall', true, 'how many of the true nearest neighbours a rag_hnsw index finds, and how fast'),
            ('rag_pgvector_casts', false, 'creates the casts between rag_types.vector and pgvector''s vector; false where pgvector is not installed')
        ) AS c (name, readers, comment)
        JOIN pg_catalog.pg_proc p ON p.proname = c.name AND p.pronamespace = '@extschema@'::regnamespace
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
        JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid AND e.extname = 'rag'
    LOOP
        EXECUTE format('COMMENT ON ROUTINE %s IS %L', what.signature, what.comment);
        EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', what.signature);
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', what.signature,
            CASE WHEN what.readers THEN 'rag_reader' ELSE 'rag_admin' END);
    END LOOP;
END $$;

REVOKE ALL ON FUNCTION rag.is_syncing(text), rag.has_not_ended(bigint), rag.has_scheduler(), rag.source_locks(), rag.has_condition(jsonb, text), rag.without_scheduler(jsonb, text), rag.why_idle(), rag.why_waiting(), rag.source_changed(), rag.merge_conditions(jsonb, jsonb),
    rag.is_restoring(), rag.announce(jsonb), rag.announce_run(), rag.announce_source(), rag.replace_builtin(), rag.find_owner(), rag.find_grantee(), rag.find_relation() FROM PUBLIC;
REVOKE ALL ON FUNCTION rag.is_going(text), rag.before_drop(), rag.is_preloaded(), rag.present_model() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rag.is_preloaded(), rag.present_model() TO rag_reader;
-- the views are read with their owner's rights, but call functions with the reader's
GRANT EXECUTE ON FUNCTION rag.is_syncing(text), rag.has_not_ended(bigint), rag.has_scheduler(), rag.source_locks(), rag.has_condition(jsonb, text), rag.without_scheduler(jsonb, text), rag.why_idle(), rag.why_waiting() TO rag_reader;
GRANT SELECT ON rag.secrets TO rag_admin;
GRANT SELECT ON rag.chunks, rag.documents, rag.collections, rag.retrievers, rag.run_errors, rag.knowledge, rag.collection_grants,
    rag.sources, rag.runs, rag.progress, rag.collection_sizes TO rag_reader;
