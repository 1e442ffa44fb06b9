-- Cost estimates of rag_embed for the planner (src/api/model.rs).

CREATE FUNCTION rag_internal.embed_support(internal) RETURNS internal
    AS 'MODULE_PATHNAME', 'embed_support_wrapper' LANGUAGE c STRICT;
COMMENT ON FUNCTION rag_internal.embed_support(internal) IS
    'planner support function of rag_embed: estimates the cost of a call';
REVOKE ALL ON FUNCTION rag_internal.embed_support(internal) FROM PUBLIC;

ALTER FUNCTION @extschema@.rag_embed(text) SUPPORT rag_internal.embed_support;
ALTER FUNCTION @extschema@.rag_embed(text, text, text) SUPPORT rag_internal.embed_support;
ALTER FUNCTION @extschema@.rag_embed(text[], text, text) SUPPORT rag_internal.embed_support;
