-- Single documents: rag_add_document and rag_delete_document.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

SELECT rag_create_collection('notes', chunk_size => 200, chunk_overlap => 0);

-- ids are hashes of address and content, the same on every machine
SELECT * FROM rag_add_document(E'# Tea\n\nBlack tea is brewed with boiling water for four minutes.',
    'kitchen/tea', collection => 'notes');
SELECT * FROM rag_add_document('Coffee is ground right before it is brewed.', 'kitchen/coffee',
    title => 'Coffee', document_type => 'text',
    category => 'drinks', tags => ARRAY['hot', 'bitter'], knowledge_id => 7,
    metadata => '{"minutes": 3}', collection => 'notes');
SELECT document_id, chunk_id, chunk_index, start_index, content FROM rag.chunks
    WHERE collection = 'notes' ORDER BY uri;
SELECT uri, title, document_type, category, tags, knowledge_id, metadata, source, status, error,
    chunk_count, content,
    content_hash = encode(sha256(convert_to(content, 'UTF8')), 'hex') AS hashed,
    fetched_at IS NOT NULL AS fetched, indexed_at IS NOT NULL AS indexed
FROM rag.documents WHERE collection = 'notes' ORDER BY uri \gx

SELECT rank, score BETWEEN 0.6 AND 0.7 AS similar, title, content, citation
    FROM rag_search('how long does tea take?', 'notes', mode => 'vector');
SELECT rag_functions.vector_dims(embedding), round(rag_functions.vector_norm(embedding)::numeric,
    3) AS norm FROM rag.chunks WHERE collection = 'notes';

-- the same uri replaces the document and its metadata
SELECT document_id, chunks_indexed
    FROM rag_add_document(E'# Roasting\n\nCoffee is roasted at 200 degrees. '
        || repeat('Then it rests for a day. ', 20), 'kitchen/coffee',
    collection => 'notes');
SELECT uri, title, category, tags, knowledge_id, metadata, chunk_count FROM rag.documents
    WHERE collection = 'notes' ORDER BY uri;
SELECT uri, count(*), bool_and(knowledge_id IS NULL AND category IS NULL AND tags IS NULL
    AND metadata = '{}') AS plain
FROM rag.chunks WHERE collection = 'notes' GROUP BY uri ORDER BY uri;
SELECT bool_and(substr(d.content, c.start_index + 1, length(c.content)) = c.content) AS exact
FROM rag.documents d JOIN rag.chunks c USING (document_id) WHERE d.collection = 'notes';

-- the same uri in another collection is another document
SELECT document_id FROM rag_add_document('Tea.', 'kitchen/tea');

-- an unchanged document is not written again
SELECT document_id, xmin FROM rag.chunks WHERE collection = 'notes' AND uri = 'kitchen/tea' \gset
SELECT success, chunks_indexed, content_hash IS NOT NULL AS hashed, action
FROM rag_add_document(E'# Tea\n\nBlack tea is brewed with boiling water for four minutes.',
'kitchen/tea', collection => 'notes');
SELECT count(*) AS same_row FROM rag.chunks WHERE document_id = :'document_id' AND xmin = :xmin;
-- changed metadata are written without embedding the text again
SELECT embedding_key FROM rag.chunks WHERE document_id = :'document_id' \gset
SELECT action
FROM rag_add_document(E'# Tea\n\nBlack tea is brewed with boiling water for four minutes.',
'kitchen/tea', metadata => '{"minutes": 4}', collection => 'notes');
SELECT embedding_key = :'embedding_key' AS same_embedding, metadata FROM rag.chunks
    WHERE document_id = :'document_id';
-- deleted chunks of an unchanged document are written again
DELETE FROM rag.chunks WHERE document_id = :'document_id';
SELECT action
    FROM rag_add_document(E'# Tea\n\nBlack tea is brewed with boiling water for four minutes.',
    'kitchen/tea', metadata => '{"minutes": 4}', collection => 'notes');
SELECT action
    FROM rag_add_document(E'# Tea\n\nBlack tea is brewed with boiling water for four minutes.',
    'kitchen/tea', collection => 'notes');

-- title, category, tags and metadata can be changed without the text
SELECT content_hash, embedding_key FROM rag.documents d JOIN rag.chunks c USING (document_id)
    WHERE document_id = :'document_id' \gset
SELECT rag_update_document(:'document_id', title => 'Black tea', category => 'drinks',
tags => ARRAY['hot ', 'hot']);
SELECT rag_update_document(:'document_id', metadata => '{"minutes": 5}');
SELECT d.title, d.own_title, d.category, d.tags, d.metadata,
    d.content_hash = :'content_hash' AS same_text,
    c.embedding_key = :'embedding_key' AS same_embedding,
    (c.title, c.category, c.tags, c.metadata) = (d.title, d.category, d.tags,
    d.metadata) AS in_chunks
FROM rag.documents d JOIN rag.chunks c USING (document_id) WHERE document_id = :'document_id';
SELECT xmin FROM rag.documents WHERE document_id = :'document_id' \gset
SELECT rag_update_document(:'document_id', title => 'Black tea'),
rag_update_document(:'document_id'), rag_update_document('00000000-0000-0000-0000-000000000000',
title => 'x') AS nothing;
SELECT count(*) AS same_row FROM rag.documents WHERE document_id = :'document_id' AND xmin = :xmin;
SELECT rag_update_document(:'document_id', title => ' '); :sqlstate
SELECT rag_update_document(:'document_id', metadata => '[]'); :sqlstate
SELECT rag_update_document(NULL); :sqlstate
-- adding the same text again resets them
SELECT action
    FROM rag_add_document(E'# Tea\n\nBlack tea is brewed with boiling water for four minutes.',
    'kitchen/tea', collection => 'notes');
SELECT title, own_title, category, tags, metadata FROM rag.documents
    WHERE document_id = :'document_id';

-- several documents at once: one result row for each
SELECT uri, success, chunks_indexed, content_hash IS NOT NULL AS hashed, error, action
    FROM rag_add_documents('[
    {"uri": "kitchen/tea",
    "content": "# Tea\n\nBlack tea is brewed with boiling water for four minutes."},
    {"uri": "kitchen/bread", "content": "Bread is baked in the morning.", "document_type": "text",
    "title": "Bread", "category": "food", "tags": ["warm", "warm"], "knowledge_id": 9,
    "metadata": {"grams": 500}},
    {"uri": "kitchen/nothing", "content": " "},
    {"uri": "kitchen/page", "content": "<h1>Page</h1><p>Text.</p>", "document_type": "html",
    "title": null}]', 'notes');
SELECT uri, title, document_type, category, tags, knowledge_id, metadata, status FROM rag.documents
    WHERE collection = 'notes' AND uri IN ('kitchen/bread', 'kitchen/nothing', 'kitchen/page')
    ORDER BY uri;
SELECT count(*) FROM rag_add_documents('[]', 'notes');
-- an error names its position and prevents all writes
SELECT rag_add_documents('{}'); :sqlstate
SELECT rag_add_documents('[{"uri": "a", "content": "x"}, 7]'); :sqlstate
SELECT rag_add_documents('[{"uri": "a", "content": "x", "titel": "y"}]'); :sqlstate
SELECT rag_add_documents('[{"uri": "a"}]'); :sqlstate
SELECT rag_add_documents('[{"uri": " ", "content": "x"}]'); :sqlstate
SELECT rag_add_documents('[{"uri": "a", "content": 7}]'); :sqlstate
SELECT rag_add_documents('[{"uri": "a", "content": "x", "tags": "y"}]'); :sqlstate
SELECT rag_add_documents('[{"uri": "a", "content": "x", "document_type": "wpd"}]'); :sqlstate
SELECT rag_add_documents('[{"uri": "a", "content": "x", "knowledge_id": 1.5}]'); :sqlstate
SELECT rag_add_documents('[{"uri": "a", "content": "x", "metadata": []}]'); :sqlstate
SELECT rag_add_documents('[{"uri": "a", "content": "x"}, {"uri": "b", "content": "x"}, {"uri": "a",
    "content": "y"}]'); :sqlstate
SELECT rag_add_documents((SELECT jsonb_agg(jsonb_build_object('uri', n, 'content', 'x'))
    FROM generate_series(1, 10001) n)); :sqlstate
SELECT rag_add_documents(NULL); :sqlstate
SELECT count(*) FROM rag.documents WHERE collection = 'default' AND uri IN ('a', 'b');
SELECT rag_delete_document(document_id) FROM rag.documents WHERE collection = 'notes'
    AND uri IN ('kitchen/bread', 'kitchen/nothing', 'kitchen/page');

-- the content of a file: name and first bytes determine its type
\set files '''kitchen/kettle.md'', ''kitchen/pan'', ''kitchen/fry.py'', ''kitchen/pan.png'', ''kitchen/oven'', ''kitchen/table'''
SELECT action, error FROM rag_add_document(convert_to(E'# Kettle\n\nW\u00e4rmt Wasser.', 'LATIN1'),
    'kitchen/kettle.md', collection => 'notes');
SELECT action, error
    FROM rag_add_document('<!doctype html><title>Pan</title><p>Heats <b>oil</b>.</p>'::bytea,
    'kitchen/pan', collection => 'notes');
SELECT action, error FROM rag_add_document('def fry(egg):\012    return egg\012'::bytea,
    'kitchen/fry.py', collection => 'notes');
SELECT action, error FROM rag_add_document('\x89504e470d0a1a0a'::bytea, 'kitchen/pan.png',
    collection => 'notes');
SELECT action, error IS NOT NULL AS error FROM rag_add_document('%PDF-1.4 nothing'::bytea,
    'kitchen/oven', collection => 'notes');
SELECT action, error FROM rag_add_document('a,b\0121,2\012'::bytea, 'kitchen/table',
    document_type => 'csv', collection => 'notes');
SELECT action FROM rag_add_document('a,b\0121,2\012'::bytea, 'kitchen/table',
    document_type => 'csv', collection => 'notes');
SELECT uri, title, own_title, document_type, metadata, content, status FROM rag.documents
    WHERE collection = 'notes' AND uri IN (:files) ORDER BY uri COLLATE "C";
SELECT count(rag_delete_document(document_id)) FROM rag.documents WHERE collection = 'notes'
    AND uri IN (:files);

-- front matter sets title and metadata; arguments take precedence
SELECT success FROM rag_add_document(E'---\ntitle: Water\nkind: still\nlitres: 2\n---\nDrink it.',
    'kitchen/water', metadata => '{"kind": "sparkling"}', collection => 'notes');
SELECT title, metadata, content FROM rag.documents WHERE uri = 'kitchen/water';
SELECT success FROM rag_add_document(E'---\ntitle: Water\n---\nDrink it.', 'kitchen/water',
    title => 'Mineral water', collection => 'notes');
SELECT title, metadata FROM rag.documents WHERE uri = 'kitchen/water';

-- HTML
SELECT success
    FROM rag_add_document('<html><head><title>Juice &amp; more</title></head>'
        '<body><h1>Juice</h1><p>From <em>apples</em>.</p></body></html>', 'kitchen/juice',
    document_type => 'html', collection => 'notes');
SELECT title, content FROM rag.documents WHERE uri = 'kitchen/juice';

-- a document that cannot be indexed returns success = false; previously stored content is kept
SELECT success, document_id, chunks_indexed, content_hash, error
    FROM rag_add_document('', 'kitchen/tea', collection => 'notes');
SELECT success, chunks_indexed, error FROM rag_add_document(E' \n\t ', 'kitchen/air',
    collection => 'notes');
SELECT uri, status, error, chunk_count, content IS NULL AS empty FROM rag.documents
    WHERE collection = 'notes' AND status = 'error' ORDER BY uri;
SELECT title, uri FROM rag_search('how long does tea take?', 'notes', top_k => 1);
SELECT state, detail FROM rag_collection_status('notes');
SELECT success
    FROM rag_add_document(E'# Tea\n\nBlack tea is brewed with boiling water for four minutes.',
    'kitchen/tea', collection => 'notes');
SELECT status, error FROM rag.documents WHERE uri = 'kitchen/tea' AND collection = 'notes';

-- only metadata in the collection's whitelist are copied to chunks
SELECT rag_create_collection('strict', metadata_whitelist => ARRAY['year', 'author']);
SELECT success FROM rag_add_document('Text.', 'a', metadata => '{"year": 2026, "secret": true}',
    collection => 'strict');
SELECT rag_create_collection('lenient', metadata_whitelist => '{}');
SELECT success FROM rag_add_document('Text.', 'a', metadata => '{"year": 2026, "secret": true}',
    collection => 'lenient');
SELECT metadata FROM rag.chunks WHERE collection = 'lenient';
SELECT rag_create_collection('faulty', metadata_whitelist => ARRAY['', 'a']); :sqlstate
SELECT rag_create_collection('faulty', metadata_whitelist => ARRAY['a', 'b', 'a']); :sqlstate
SELECT rag_drop_collection('lenient');
SELECT d.metadata AS of_document, c.metadata AS of_chunk FROM rag.documents d
    JOIN rag.chunks c USING (document_id) WHERE d.collection = 'strict';

-- wrong arguments
SELECT rag_add_document('Text.', ''); :sqlstate
SELECT rag_add_document('note:swapped', repeat('All of the text. ', 1000)); :sqlstate
SELECT rag_add_document('Text.', 'a', title => ' '); :sqlstate
SELECT rag_add_document('Text.', 'a', document_type => 'wpd'); :sqlstate
SELECT rag_add_document('Text.', 'a', metadata => '[1]'); :sqlstate
SELECT rag_add_document('Text.', 'a', collection => 'nowhere'); :sqlstate
\set VERBOSITY sqlstate
SELECT rag_add_document(NULL, 'a');
SELECT rag_add_document('Text.', NULL);
SELECT rag_add_document('Text.', 'a', tags => ARRAY['x', NULL]);
\set VERBOSITY default

-- a rollback leaves nothing
BEGIN;
SELECT success FROM rag_add_document('Text.', 'kitchen/milk', collection => 'notes');
SELECT uri FROM rag_search('text', 'notes', top_k => 1);
ROLLBACK;
SELECT count(*) FROM rag.documents WHERE uri = 'kitchen/milk';

-- removing
SELECT rag_delete_document(document_id) FROM rag.documents WHERE uri = 'kitchen/coffee';
SELECT rag_delete_document('00000000-0000-0000-0000-000000000000');
SELECT uri, count(*) FROM rag.chunks WHERE collection = 'notes' GROUP BY uri ORDER BY uri;

SELECT rag_drop_collection('notes'), rag_drop_collection('strict');
SELECT rag_delete_document(document_id) FROM rag.documents;

-- titles: 1,000 characters are kept and 200 are cited; names of files are decoded, and those that a
-- file of each folder may have come with the folder
SELECT rag_create_collection('titles');
SELECT count(*) FROM rag_add_documents('[
    {"content": "A file.", "uri": "file:///srv/My%20File%20%C3%BC%231.md"},
    {"content": "Another file.", "uri": "file:///srv/100%25%zz%FF.md"},
    {"content": "How to start.", "uri": "docs/api/README.md"},
    {"content": "What is new.", "uri": "CHANGELOG.md"}]', 'titles')
    WHERE success;
SELECT title, uri FROM rag.documents WHERE collection = 'titles' ORDER BY title COLLATE "C";
SELECT success FROM rag_add_document('Long.', 'long', title => repeat('title ', 300),
    collection => 'titles');
SELECT length(d.title), length(s.citation), right(s.citation, 12) AS citation
    FROM rag_search('long title', 'titles', mode => 'keyword') s JOIN rag.documents d USING (uri)
    WHERE uri = 'long';
SELECT uri FROM rag_search('file', 'titles', filter => '{"source_file": "My File ü#1.md"}');
SELECT uri FROM rag_search('file', 'titles',
    filter => '{"source_file": "My%20File%20%C3%BC%231.md"}');
SELECT rag_drop_collection('titles');
