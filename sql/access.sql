-- What row-level security asks about the role that reads (src/catalog/access.rs). Policies and
-- views call these functions with that role's rights. They tell a role about its own rights alone.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag.readable_collections() RETURNS text[]
    AS 'MODULE_PATHNAME', 'readable_collections_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag.readable_collections() IS 'collections that the current role may read';
CREATE FUNCTION rag.writable_collections() RETURNS text[]
    AS 'MODULE_PATHNAME', 'writable_collections_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag.writable_collections() IS 'collections that the current role may write to';
CREATE FUNCTION rag.may_read_collection(collection text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'may_read_collection_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag.may_read_collection(text) IS 'whether the current role may read a collection; false where there is none';
CREATE FUNCTION rag.may_write_collection(collection text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'may_write_collection_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag.may_write_collection(text) IS 'whether the current role may write to a collection; false where there is none';
CREATE FUNCTION rag.sees_all_chunks() RETURNS boolean
    AS 'MODULE_PATHNAME', 'all_chunks_are_visible_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag.sees_all_chunks() IS 'whether no policy of an administrator''s on rag.chunks applies to the current role';
CREATE FUNCTION rag.overseen_collections() RETURNS text[] LANGUAGE sql STABLE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN rag.sees_all_chunks() THEN rag.readable_collections() ELSE rag.writable_collections() END
$$;
COMMENT ON FUNCTION rag.overseen_collections() IS 'collections whose sources a member of rag_admin sees';
CREATE FUNCTION rag.has_no_policy(relation regclass) RETURNS boolean
    AS 'MODULE_PATHNAME', 'has_no_policy_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION rag.has_no_policy(regclass) IS 'whether no permissive policy of an administrator''s on a table applies to the current role';
CREATE FUNCTION rag.sees_document(collection text, document_id uuid) RETURNS boolean
    AS 'MODULE_PATHNAME', 'sees_document_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION rag.sees_document(text, uuid) IS 'whether a chunk of a document is visible; of one without chunks, whether the current role may write to the collection';
CREATE FUNCTION rag.sees_uri(collection text, source text, uri text) RETURNS boolean
    AS 'MODULE_PATHNAME', 'sees_uri_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION rag.sees_uri(text, text, text) IS 'whether the document that a source has under a uri is visible, as rag.sees_document says';
CREATE FUNCTION rag.sees_knowledge(collection text, knowledge_id bigint) RETURNS boolean
    AS 'MODULE_PATHNAME', 'sees_knowledge_wrapper' LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 100;
COMMENT ON FUNCTION rag.sees_knowledge(text, bigint) IS 'whether a knowledge item is visible, as rag.sees_document says';

-- where the functions that follow are made
SET LOCAL search_path = @extschema@, pg_temp;
