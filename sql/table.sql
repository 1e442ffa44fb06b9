-- Changes of tables that sources read: triggers record them, and runs process them. Neither table
-- is dumped: a restored source has no state, so its first run reads the whole table. The keys can
-- be confidential, so only functions of the extension read them. There is no index, so that a
-- writer pays for one row only.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE SEQUENCE rag_internal.table_change_id AS bigint;
CREATE TABLE rag_internal.table_change (
    change_id bigint NOT NULL,
    source text NOT NULL,
    keys bytea
);
ALTER TABLE rag_internal.table_change ALTER COLUMN keys SET STORAGE EXTERNAL;
COMMENT ON TABLE rag_internal.table_change IS
    'changed rows of tables that sources read, since the sources'' last runs';
COMMENT ON COLUMN rag_internal.table_change.keys IS
    'keys of the rows that one statement changed (src/source/table/trigger.rs); NULL: all rows';

CREATE TABLE rag_internal.table_state (
    source text PRIMARY KEY,
    definition text NOT NULL,
    documents bigint NOT NULL
);
COMMENT ON TABLE rag_internal.table_state IS
    'sources whose table was read completely; their next run reads only the changed rows';
COMMENT ON COLUMN rag_internal.table_state.definition IS
    'hash of relation, spec and chunking at that time; if it differs, the table is read again';
COMMENT ON COLUMN rag_internal.table_state.documents
    IS 'number of documents of the source at that time';

CREATE FUNCTION rag_internal.table_changed() RETURNS trigger
    AS 'MODULE_PATHNAME', 'rag_table_changed' LANGUAGE c;
COMMENT ON FUNCTION rag_internal.table_changed() IS
    'trigger function of tables that are read with "sync": "trigger": records the rows that a '
    'statement changed';
-- only the extension creates triggers with it
REVOKE ALL ON FUNCTION rag_internal.table_changed() FROM PUBLIC;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
