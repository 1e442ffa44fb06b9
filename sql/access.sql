-- Functions that row-level security and the views use to check what the current role can see
-- (src/catalog/access/mod.rs). They run with the rights of that role and report only its own
-- rights.
--
-- An additional policy is a policy that an administrator has created on a table of the extension.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_internal.readable_collections() RETURNS text[]
    AS 'MODULE_PATHNAME', 'readable_collections_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.readable_collections()
    IS 'collections that the current role can read';
CREATE FUNCTION rag_internal.writable_collections() RETURNS text[]
    AS 'MODULE_PATHNAME', 'writable_collections_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.writable_collections()
    IS 'collections that the current role can write to';
CREATE FUNCTION rag_internal.may_read_collection(collection text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'may_read_collection_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.may_read_collection(text) IS
    'true if the current role can read a collection; false if it does not exist';
CREATE FUNCTION rag_internal.may_write_collection(collection text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'may_write_collection_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.may_write_collection(text) IS
    'true if the current role can write to a collection; false if it does not exist';
CREATE FUNCTION rag_internal.sees_all_chunks() RETURNS boolean
    AS 'MODULE_PATHNAME', 'all_chunks_are_visible_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.sees_all_chunks() IS
    'true if no additional policy on rag.chunks applies to the current role';
CREATE FUNCTION rag_internal.overseen_collections() RETURNS text[]
    LANGUAGE sql STABLE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN rag_internal.sees_all_chunks() THEN rag_internal.readable_collections()
                ELSE rag_internal.writable_collections() END
$$;
COMMENT ON FUNCTION rag_internal.overseen_collections() IS
    'collections whose sources a member of rag_admin sees';
CREATE FUNCTION rag_internal.has_no_policy(relation regclass) RETURNS boolean
    AS 'MODULE_PATHNAME', 'has_no_policy_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag_internal.has_no_policy(regclass) IS
    'true if no additional permissive policy on a table applies to the current role';
CREATE FUNCTION rag_internal.sees_document(collection text, document_id uuid) RETURNS boolean
    AS 'MODULE_PATHNAME', 'sees_document_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION rag_internal.sees_document(text, uuid) IS
    'true if at least one chunk of a document is visible; for a document without chunks, true if '
    'the current role can write to the collection';
CREATE FUNCTION rag_internal.sees_uri(collection text, source text, uri text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'sees_uri_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION rag_internal.sees_uri(text, text, text) IS
    'true if the document that a source stored under a uri is visible, by the rule of '
    'rag_internal.sees_document';
CREATE FUNCTION rag_internal.sees_knowledge(collection text, knowledge_id bigint) RETURNS boolean
    AS 'MODULE_PATHNAME', 'sees_knowledge_wrapper'
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION rag_internal.sees_knowledge(text, bigint) IS
    'true if a knowledge item is visible, by the rule of rag_internal.sees_document';

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
