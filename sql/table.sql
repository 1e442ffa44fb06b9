-- Changes of tables that sources read: what triggers have noted and no run has handled yet. Neither
-- table is dumped: a restored source has no state, and so its first run reads the whole table. The
-- keys may be anybody's secrets: nobody but the extension's functions reads them. There is no
-- index, so that a writer pays for one row and nothing else.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE SEQUENCE rag.table_change_id AS bigint;
CREATE TABLE rag.table_changes (
    change_id bigint NOT NULL,
    source text NOT NULL,
    keys bytea
);
ALTER TABLE rag.table_changes ALTER COLUMN keys SET STORAGE EXTERNAL;
COMMENT ON TABLE rag.table_changes IS 'rows of tables that statements have changed since the sources'' last runs';
COMMENT ON COLUMN rag.table_changes.keys IS 'keys of the rows that one statement changed (src/catalog/table/trigger.rs); NULL: all rows';

CREATE TABLE rag.table_state (
    source text PRIMARY KEY,
    definition text NOT NULL,
    documents bigint NOT NULL
);
COMMENT ON TABLE rag.table_state IS 'sources whose table was read completely, so that their next run needs only what triggers note';
COMMENT ON COLUMN rag.table_state.definition IS 'hash of relation, spec and chunking as of then: with others the table is read again';
COMMENT ON COLUMN rag.table_state.documents IS 'documents that the source had then';

CREATE FUNCTION rag.table_changed() RETURNS trigger
    AS 'MODULE_PATHNAME', 'rag_table_changed' LANGUAGE c;
COMMENT ON FUNCTION rag.table_changed() IS 'trigger of tables that sources with "sync": "trigger" read: notes which rows a statement changed';
-- nobody but the extension makes triggers of it
REVOKE ALL ON FUNCTION rag.table_changed() FROM PUBLIC;

-- where the functions that follow are made
SET LOCAL search_path = @extschema@, pg_temp;
