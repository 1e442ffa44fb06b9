-- The argument filter of rag_search. The rules are in crates/filter/src/lib.rs.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

SELECT rag_create_collection('library');
SELECT count(*) FROM (VALUES
    ('faust', 'drama', ARRAY['classic', 'german'], 1::bigint,
    '{"year": 1808, "author": "Goethe", "printed": "1808-04-01", "lent": true}'::jsonb),
    ('emma', 'novel', ARRAY['classic', 'english'], 2,
    '{"year": 1815, "author": "Austen", "printed": "1815-12-23", "lent": false, "rooms": ["A",
    "B"]}'),
    ('ulysses', 'novel', ARRAY['modern', 'english'], 3,
    '{"year": 1922, "author": "Joyce", "printed": "1922-02-02T08:00:00Z",
    "place": {"city": "Dublin"}}'),
    ('leaflet', NULL, NULL, NULL, '{"year": "1999", "author": null}'),
    ('100% blank', '', '{}', -4, '{"author": ""}'))
    AS v (uri, category, tags, knowledge_id, metadata),
    LATERAL rag_add_document('A text.', uri, document_type => 'text', category => category,
    tags => tags, knowledge_id => knowledge_id,
                             metadata => metadata, title => initcap(uri),
                             collection => 'library') AS added WHERE added.success;

CREATE FUNCTION pg_temp.found(filter jsonb) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(uri, ', ' ORDER BY uri COLLATE "C")
    FROM rag_search('text', 'library', top_k => 100, filter => filter,
                    settings => '{"distinct_text": false}') $$;
CREATE FUNCTION pg_temp.found(key text, operator text, value jsonb) RETURNS text LANGUAGE sql AS
    $$ SELECT pg_temp.found(jsonb_build_object('operator', 'and', 'conditions',
                            jsonb_build_array(jsonb_build_object(
                                'key', key, 'operator', operator, 'value', value)))) $$;

-- no filter
SELECT pg_temp.found(NULL) AS of_null, pg_temp.found('{}') = pg_temp.found(NULL) AS of_empty,
    pg_temp.found('null') = pg_temp.found(NULL) AS of_json_null;

-- a single condition needs no group
SELECT pg_temp.found('{"key": "year", "operator": "gte", "value": 1900}') AS one,
    pg_temp.found('{"name": ["category"], "comparison_operator": "IS", "value": "drama"}') AS dify;

-- several keys: of chunks, of documents and of their origin
SELECT pg_temp.found('{"knowledge_ids": [1, 3, 7]}') AS knowledge_ids,
    pg_temp.found('{"knowledge_id": ["2"]}') AS one_of,
    pg_temp.found('{"category": ["drama", "novel"]}') AS categories,
    pg_temp.found('{"chunk_index": 0}') = pg_temp.found('{}') AS chunk_index,
    pg_temp.found('{"chunk_index": 1}') AS second,
    pg_temp.found('{"source_file": "emma"}') AS source_file,
    pg_temp.found('{"key": "page", "operator": "empty"}') = pg_temp.found('{}') AS page;
SELECT pg_temp.found(jsonb_build_object('document_id', document_id)) AS document_id,
    pg_temp.found(jsonb_build_object('doc_ref', document_id)) AS doc_ref
FROM rag.documents WHERE collection = 'library' AND uri = 'emma';
SELECT pg_temp.found(jsonb_build_object('chunk_id', array_agg(chunk_id))) AS chunk_ids
    FROM rag.chunks WHERE collection = 'library' AND uri IN ('emma', 'faust');
SELECT success FROM rag_add_document(E'# Guide\n\nRead this.\n\n## Install\n\nRun it.',
    'handbook/guide.md', metadata => '{"document_id": "own", "priority": 4}',
    collection => 'library');
SELECT pg_temp.found('{"heading": "Guide"}') AS heading,
    pg_temp.found('{"key": "heading", "operator": "text_match",
    "value": "GUI"}') AS part_of_heading,
    pg_temp.found('{"source_file": "guide.md"}') AS source_file,
    pg_temp.found('{"metadata.document_id": "own"}') AS metadata;

-- a number can be compared with a text that is a number
SELECT pg_temp.found('{"priority": "4"}') AS text, pg_temp.found('{"year": 1999}') AS number,
    pg_temp.found('year', '>', '1950') AS greater,
    pg_temp.found('year', 'lt', '"1900"') AS less_than_text;

-- containment: all members must match
SELECT pg_temp.found('{"category": "novel"}') AS category,
    pg_temp.found('{"category": "novel", "year": 1815}') AS both,
    pg_temp.found('{"tags": "classic"}') AS tag,
    pg_temp.found('{"tags": ["english", "modern"]}') AS tags,
    pg_temp.found('{"place": {"city": "Dublin"}}') AS nested,
    pg_temp.found('{"rooms": ["B"]}') AS part_of_array,
    pg_temp.found('{"knowledge_id": 3}') AS id, pg_temp.found('{"nothing": 1}') AS nothing;

-- every operator on metadata
SELECT operator, key, value, pg_temp.found(key, operator, value) FROM (VALUES
    ('eq', 'year', '1808'::jsonb), ('eq', 'year', '1808.0'), ('eq', 'year', '"1808"'),
    ('eq', 'author', 'null'), ('eq', 'rooms', '["A", "B"]'), ('eq', 'rooms', '["B", "A"]'),
    ('ne', 'year', '1808'), ('in', 'year', '[1808, 1922]'), ('in', 'year', '[]'),
    ('nin', 'year', '[1808, 1922]'), ('nin', 'year', '[]'),
    ('gt', 'year', '1815'), ('gte', 'year', '1815'), ('lt', 'year', '1815'),
    ('lte', 'year', '1815'), ('gt', 'year', '"0"'), ('gte', 'author', '"Goethe"'),
    ('contains', 'author', '"oyc"'), ('contains', 'rooms', '"A"'),
    ('not contains', 'author', '"o"'),
    ('start with', 'author', '"Go"'), ('end with', 'author', '"n"'), ('end with', 'author', '"en"'),
    ('empty', 'author', 'null'), ('not empty', 'author', 'null'), ('not empty', 'rooms', 'null'),
    ('before', 'printed', '"1815-12-23"'), ('after', 'printed', '"1815-12-23"'),
    ('after', 'year', '1815'),
    ('is', 'lent', 'true'), ('is not', 'lent', 'true'), ('=', 'year', '1808'),
    ('≠', 'year', '1808'), ('>', 'year', '1815'), ('≥', 'year', '1815'),
    ('<', 'year', '1815'), ('≤', 'year', '1815'), ('not in', 'year', '[1808]'))
    AS v (operator, key, value);

SELECT operator, key, value, pg_temp.found(key, operator, value) FROM (VALUES
    ('==', 'year', '1808'::jsonb), ('!=', 'year', '1808'), ('>=', 'year', '1815'),
    ('<=', 'year', '1815'), ('EQ', 'author', '"Joyce"'), ('Not In', 'year', '[1808]'),
    ('text_match', 'author', '"JOY"'), ('text_match', 'rooms', '"a"'),
    ('contains', 'author', '"oyc"')) AS v (operator, key, value);

-- columns
SELECT operator, key, value, pg_temp.found(key, operator, value) FROM (VALUES
    ('eq', 'category', '"novel"'::jsonb), ('ne', 'category', '"novel"'), ('eq', 'category', 'null'),
    ('empty', 'category', 'null'), ('not empty', 'category', 'null'),
    ('in', 'category', '["novel", "drama"]'), ('lt', 'category', '"e"'),
    ('eq', 'tags', '"classic"'), ('eq', 'tags', '["classic", "german"]'),
    ('eq', 'tags', '["classic"]'), ('in', 'tags', '["german", "modern"]'),
    ('contains', 'tags', '["classic", "english"]'),
    ('not contains', 'tags', '"classic"'), ('empty', 'tags', 'null'),
    ('eq', 'knowledge_id', '2'), ('eq', 'knowledge_id', '"2"'), ('lt', 'knowledge_id', '2'),
    ('nin', 'knowledge_id', '[1, 2]'), ('empty', 'knowledge_id', 'null'),
    ('start with', 'uri', '"e"'), ('contains', 'uri', '"%"'), ('contains', 'uri', '"_"'),
    ('eq', 'document_type', '"text"'), ('eq', 'title', '"Emma"'),
    ('empty', 'source', 'null'), ('after', 'indexed_at', '"2001-01-01"'),
    ('before', 'fetched_at', '"2001-01-01T00:00:00Z"'),
    ('eq', 'metadata.author', '"Joyce"'), ('text_match', 'title', '"EMM"'),
    ('text_match', 'tags', '"CLASS"'),
    ('eq', 'category', '["novel", "drama"]'), ('ne', 'knowledge_id', '[1, 2]'))
    AS v (operator, key, value);

-- nested groups, and the equivalent names of Dify
SELECT pg_temp.found('{"operator": "or", "conditions": [
    {"key": "author", "operator": "eq", "value": "Goethe"},
    {"operator": "and", "conditions": [{"key": "category", "operator": "eq", "value": "novel"},
    {"key": "year", "operator": "gt", "value": 1900}]}]}');
SELECT pg_temp.found('{"logical_operator": "and", "conditions": [{"name": ["category"],
    "comparison_operator": "is", "value": "novel"},
    {"name": ["year"], "comparison_operator": "<", "value": 1900}]}');

-- a filter never loses results: the best matching chunks are found with any top_k
SELECT count(*) FROM rag_search('text', 'library', top_k => 1, filter => '{"author": "Joyce"}');

-- values are never interpreted as SQL
SELECT pg_temp.found('{"author": "''; DROP TABLE rag.chunks; --"}') AS quoted,
    pg_temp.found('a'' OR true --', 'eq', '1') AS key;

-- errors name the position in the filter
SELECT * FROM rag_search('text', 'library', filter => '[]'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '"category"'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"conditions": []}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"conditions": {}}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"operator": "xor", "conditions": [{"key": "a", "operator": "eq",
    "value": 1}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "a", "operator": "like", "value": 1}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"operator": "eq", "value": 1}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "a", "value": 1}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "a", "operator": "eq"}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "a", "operator": "eq", "value": 1, "extra": 2}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"conditions": [7]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "year", "operator": "gt", "value": true}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "year", "operator": "in", "value": 7}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "knowledge_id", "operator": "eq",
    "value": "seven"}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "knowledge_id", "operator": "eq",
    "value": 99999999999999999999}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "indexed_at", "operator": "after",
    "value": "yesterday"}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "category", "operator": "before",
    "value": "2026-01-01"}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"category": 7}'); :sqlstate

SELECT * FROM rag_search('text', 'library',
    filter => '{"key": "priority", "operator": "bigger", "value": 4}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"priority": {"$gt": 3}}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"$or": [{"priority": 3}]}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"document_type": "website"}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"document_id": "own"}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"page": "iv"}'); :sqlstate

-- if nothing is found, a value of another type than all stored values is an error
SELECT * FROM rag_search('text', 'library', filter => '{"priority": true}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"rooms": "A"}'); :sqlstate
SELECT * FROM rag_search('text', 'library', filter => '{"priority": {"gt": 3}}'); :sqlstate
SELECT * FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "year", "operator": "gt", "value": 1}, {"key": "lent",
    "operator": "gt", "value": 3}]}'); :sqlstate
-- it is no error if something is found, or a score threshold may be the reason
SELECT pg_temp.found('{"operator": "or", "conditions": [{"key": "priority", "operator": "eq",
    "value": true}, {"key": "author", "operator": "eq", "value": "Joyce"}]}');
SELECT count(*) FROM rag_search('text', 'library', filter => '{"priority": true}',
    settings => '{"score_threshold": 1}');
-- dates of another form than the stored ones are reported, whatever is found
SELECT count(*) > 0 AS found FROM rag_search('text', 'library', filter => '{"conditions": [
    {"key": "printed", "operator": "gt", "value": "01.06.1700"}]}');
SELECT count(*) FROM rag_search('text', 'library', filter => '{"conditions": [
    {"key": "printed", "operator": "lt", "value": "6/1/1700"}]}');
SELECT count(*) > 0 AS found FROM rag_search('text', 'library', filter => '{"conditions": [
    {"key": "printed", "operator": "gt", "value": "1700-06-01"},
    {"key": "author", "operator": "gt", "value": "1.2.3"}]}');
-- an unknown key is reported with similar keys
SELECT count(*) FROM rag_search('text', 'library', filter => '{"priorty": 4}');
SELECT count(*)
    FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "categry", "operator": "eq", "value": "novel"},
    {"key": "xyz", "operator": "not empty"}]}');
SELECT count(*) > 0 AS without_key
    FROM rag_search('text', 'library',
    filter => '{"conditions": [{"key": "xyz", "operator": "empty"}]}');
SELECT rag_create_collection('desert');
SELECT count(*) FROM rag_search('text', 'desert', filter => '{"priorty": 4}');

-- numbers that PostgreSQL accepts and no double precision holds
SELECT count(*) FROM rag_search('text', 'desert', filter => '{"priority": 1e400}');

SELECT rag_drop_collection('library'), rag_drop_collection('desert');
