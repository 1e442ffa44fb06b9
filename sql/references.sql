-- References between tables of the catalog, instead of foreign keys. pg_dump does not order the
-- data of an extension's tables by foreign keys, and with --jobs it is restored in any order.
-- Foreign keys would reject it. Restored rows are not checked.

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION rag_internal.check_parent() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_found boolean;
BEGIN
    IF rag_internal.is_restoring() THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT true FROM rag_internal.%I WHERE name = ($1).%I FOR KEY SHARE',
                   TG_ARGV[0], TG_ARGV[1])
        INTO is_found USING NEW;
    IF is_found IS NULL THEN
        RAISE foreign_key_violation USING
            MESSAGE = format('insert or update on table "%s" violates its reference to table "%s"',
                             TG_TABLE_NAME, TG_ARGV[0]),
            DETAIL = format('The value of column "%s" is not present in table "%s".',
                            TG_ARGV[1], TG_ARGV[0]);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.check_parent() IS
    'rejects a row whose column (second argument) does not name a row of a table (first argument)';

-- The same for all rows that a statement has inserted into rag.documents. Many have one parent.
CREATE FUNCTION rag_internal.check_parents() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found text[];
BEGIN
    IF rag_internal.is_restoring() THEN
        RETURN NULL;
    END IF;
    found := ARRAY(SELECT c.name FROM rag_internal.collection c
                   WHERE c.name IN (SELECT a.collection FROM added a) FOR KEY SHARE OF c);
    IF EXISTS (SELECT FROM added a WHERE a.collection <> ALL (found)) THEN
        RAISE foreign_key_violation USING
            MESSAGE = 'insert or update on table "documents" violates its reference to table '
                      '"collection"',
            DETAIL = 'The value of column "collection" is not present in table "collection".';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.check_parents() IS
    'rejects documents whose column collection does not name a collection';

CREATE FUNCTION rag_internal.check_children() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_found boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %I = $1)',
                   TG_ARGV[0]::regclass, TG_ARGV[1])
        INTO is_found USING OLD.name;
    IF is_found THEN
        RAISE foreign_key_violation USING
            MESSAGE = format('update or delete on table "%s" violates the reference of table "%s"',
                             TG_TABLE_NAME, split_part(TG_ARGV[0], '.', 2)),
            DETAIL = format('%s "%s" is still referenced from table "%s".',
                            TG_TABLE_NAME, OLD.name, split_part(TG_ARGV[0], '.', 2));
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION rag_internal.check_children() IS
    'rejects the change or deletion of a row that a column (second argument) of a table (first '
    'argument) refers to';

DO $$
DECLARE
    reference record;
BEGIN
    FOR reference IN
        SELECT * FROM (VALUES
            ('rag_internal.collection', 'retriever', 'retriever'),
            ('rag_internal.source', 'collection', 'collection'),
            ('rag_internal.source', 'credentials', 'secret'),
            ('rag_internal.model', 'credentials', 'secret'),
            ('rag_internal.model_grant', 'model', 'model'),
            ('rag.documents', 'collection', 'collection'),
            ('rag_internal.knowledge_item', 'collection', 'collection'),
            ('rag_internal.queued_document', 'collection', 'collection'),
            ('rag_internal.collection_grant', 'collection', 'collection'),
            ('rag_internal.secret_value', 'name', 'secret')
        ) AS r (child, via, parent)
    LOOP
        EXECUTE format('CREATE TRIGGER %1$I AFTER %5$s UPDATE OF %2$I ON %3$s'
                       ' FOR EACH ROW WHEN (NEW.%2$I IS NOT NULL)'
                       ' EXECUTE FUNCTION rag_internal.check_parent(%4$L, %2$L)',
            'check_' || reference.via, reference.via, reference.child, reference.parent,
            CASE reference.child WHEN 'rag.documents' THEN '' ELSE 'INSERT OR' END);
        EXECUTE format('CREATE TRIGGER %I AFTER DELETE ON rag_internal.%I'
                       ' FOR EACH ROW EXECUTE FUNCTION rag_internal.check_children(%L, %L)',
            format('check_%s_dropped', split_part(reference.child, '.', 2)),
            reference.parent, reference.child, reference.via);
        EXECUTE format('CREATE TRIGGER %I AFTER UPDATE OF name ON rag_internal.%I'
                       ' FOR EACH ROW WHEN (OLD.name <> NEW.name)'
                       ' EXECUTE FUNCTION rag_internal.check_children(%L, %L)',
            format('check_%s_renamed', split_part(reference.child, '.', 2)),
            reference.parent, reference.child, reference.via);
    END LOOP;
END $$;
CREATE TRIGGER check_collections AFTER INSERT ON rag.documents REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION rag_internal.check_parents();

REVOKE ALL ON FUNCTION rag_internal.check_parent(), rag_internal.check_parents(),
    rag_internal.check_children() FROM PUBLIC;

-- the schema of the functions that follow
SET LOCAL search_path = @extschema@, pg_temp;
