-- Functions on bundles of collections with types that pgrx does not know.

CREATE FUNCTION @extschema@.rag_import_blocks(
    blocks regclass, name text DEFAULT NULL, with_sources boolean DEFAULT false)
    RETURNS TABLE (collection text, documents bigint, chunks bigint, bytes bigint)
    AS 'MODULE_PATHNAME', 'rag_import_blocks_wrapper' LANGUAGE c;
