-- rag_search in mode vector, its arguments, and rag_embed. The test hybrid has the other modes.
\set sqlstate '\\echo SQLSTATE :SQLSTATE'

SELECT rag_create_collection('zoo');
SELECT count(*)
    FROM (VALUES
        ('lion', 'Lions live in prides on the savannah and hunt antelopes at night.'),
        ('penguin', 'Penguins cannot fly. They swim, and hatch their eggs on the ice.'),
        ('invoice', 'Invoices are paid within thirty days of receipt.'),
        ('recipe', 'Knead the dough, let it rise for an hour, then bake the bread.')
        ) AS v (uri, content),
    LATERAL rag_add_document(content, uri, document_type => 'text', title => initcap(uri),
    collection => 'zoo') AS added WHERE added.success;

-- for people at a terminal: cut to its width, with the words of the query
SELECT rank, title, snippet, location FROM rag_find('who hunts at night?', 'zoo', top_k => 2);
SELECT * FROM rag_find(NULL, 'zoo'); :sqlstate
SELECT rag_create_collection('wide');
SELECT success FROM rag_add_document(repeat('Elephants remember. ', 30),
    'https://zoo.example.org/' || repeat('a', 100), title => repeat('Elephant ', 20),
    collection => 'wide');
SELECT title, snippet, location FROM rag_find('elephant', 'wide');
SELECT rag_drop_collection('wide');

-- scores differ a little with the processor: the int8 model rounds
SELECT rank, title, score BETWEEN 0.25 AND 0.35 AS similar, score < 0.2 AS unlike
    FROM rag_search('which big cat eats other animals?', 'zoo', top_k => 2, mode => 'vector');
SELECT rank, title FROM rag_search('when do we have to pay?', 'zoo', top_k => 1);
SELECT rank, score = vector_score AS is_vector_score, vector_rank, keyword_score, keyword_rank,
    title, uri, chunk_index, start_index, source,
    knowledge_id, metadata, citation, content
FROM rag_search('birds', 'zoo', top_k => 1, mode => 'vector') \gx

-- the score is the cosine similarity, at least 0; ranks count from 1 by score, then chunk_id
SELECT bool_and(round(s.score::numeric,
    6) = round(greatest(1 - (c.embedding <=> rag_embed('birds')), 0)::numeric, 6)) AS is_similarity,
    count(*),
    bool_and(s.rank = n) AS ranked
FROM (SELECT *, row_number() OVER (ORDER BY score DESC, chunk_id) AS n
FROM rag_search('birds', 'zoo', top_k => 100, mode => 'vector')) AS s
JOIN rag.chunks c USING (chunk_id);

-- thresholds
SELECT title FROM rag_search('which big cat eats other animals?', 'zoo', mode => 'vector',
                             settings => '{"score_threshold": 0.21}');
SELECT count(*) FROM rag_search('which big cat eats other animals?', 'zoo',
    settings => '{"score_threshold": 1}');
SELECT count(*) FROM rag_search('which big cat eats other animals?', 'zoo',
    settings => '{"score_threshold": 0}');

-- an embedding instead of a text
SELECT title FROM rag_search(NULL, 'zoo', top_k => 1, query_embedding => rag_embed('sea birds'));
SELECT title, round(score::numeric, 3) AS score FROM rag_search(NULL, 'zoo', top_k => 1,
    query_embedding => (SELECT embedding FROM rag.chunks WHERE collection = 'zoo'
    AND uri = 'recipe'));

-- a query in SQL
SELECT title FROM rag.chunks WHERE collection = 'zoo' ORDER BY embedding <=> rag_embed('ice')
    LIMIT 1;

-- an empty query is an error; a query that is too long for the model is truncated with a notice
SELECT count(*) FROM rag_search('', 'zoo'); :sqlstate
SELECT count(*) FROM rag_search(E' \n ', 'zoo'); :sqlstate
-- a number instead of the collection
SELECT count(*) FROM rag_search('lion', 5); :sqlstate
SELECT count(*) FROM rag_search(repeat('lion ', 10000), 'zoo');
SELECT count(*) FROM rag_search('''; DROP TABLE rag.chunks; --', 'zoo');
SELECT count(*) FROM rag_search('🦁 獅子', 'zoo');

-- wrong arguments
SELECT * FROM rag_search('lion', 'nowhere'); :sqlstate
SELECT * FROM rag_search('lion', 'zoo', top_k => 0); :sqlstate
SELECT * FROM rag_search('lion', 'zoo', top_k => -1); :sqlstate
SELECT * FROM rag_search('lion', 'zoo', top_k => 1000000000); :sqlstate
SELECT * FROM rag_search('lion', 'zoo', mode => 'Vector'); :sqlstate
SELECT * FROM rag_search('lion', 'zoo', mode => ''); :sqlstate
SELECT * FROM rag_search('lion', 'zoo', settings => '{"score_threshold": 1.5}'); :sqlstate
SELECT * FROM rag_search('lion', 'zoo', settings => '{"score_threshold": -0.1}'); :sqlstate
SELECT * FROM rag_search('lion', 'zoo', settings => '{"score_threshold": "NaN"}'); :sqlstate
SELECT * FROM rag_search(NULL, 'zoo'); :sqlstate
SELECT * FROM rag_search(NULL, 'zoo', query_embedding => '[1,2,3]'); :sqlstate
\set VERBOSITY sqlstate
-- the null vector is similar to nothing
SELECT rank, score, title
    FROM rag_search(NULL, 'zoo', query_embedding => (SELECT array_fill(0::real,
    ARRAY[384])::rag_types.vector));
SELECT * FROM rag_search('lion', NULL);
-- NULL is the retriever's setting
SELECT count(*) FROM rag_search('lion', 'zoo', top_k => NULL);
SELECT count(*) FROM rag_search('lion', 'zoo', mode => NULL);
\set VERBOSITY default

-- the search_path of the session does not matter
SET search_path = pg_catalog;
SELECT title FROM public.rag_search('lion', 'zoo', top_k => 1);
RESET search_path;

-- embeddings --------------------------------------------------------------

SELECT rag_functions.vector_dims(rag_embed('hello')),
    round(rag_functions.vector_norm(rag_embed('hello'))::numeric, 3) AS norm;
SELECT (rag_embed('hello') <=> rag_embed('hi')) BETWEEN 0.15 AND 0.25 AS hello_hi,
    (rag_embed('hello') <=> rag_embed('a tax return')) > 0.7 AS hello_tax,
    (rag_embed('hello') <=> rag_embed('hello')) < 1e-6 AS hello_hello;
-- single texts or arrays: the embedding does not depend on the batch
CREATE TEMP TABLE texts AS SELECT ARRAY['a', 'a much longer text that is padded to another length',
    'hello there', '', repeat('long ', 1000)] AS texts;
SELECT count(*), bool_and((rag_embed(t) <=> e) < 1e-5) AS same
    FROM texts, unnest(texts, rag_embed(texts)) AS v (t, e);
-- a text is embedded once for consecutive rows, and another text is embedded separately
SELECT count(*), count(DISTINCT e) AS vectors, bool_and(e = CASE n / 5000 % 2 WHEN 0 THEN hello
    ELSE hi END) AS right_ones
FROM (SELECT n, rag_embed(CASE n / 5000 % 2 WHEN 0 THEN 'hello' ELSE 'hi' END) AS e
FROM generate_series(0, 19999) AS n) AS rows,
     (SELECT rag_embed('hello') AS hello, rag_embed('hi') AS hi) AS once;
SET rag.model_precision = fp32;
SELECT count(*), bool_and((rag_embed(t) <=> e) < 1e-5) AS same
    FROM texts, unnest(texts, rag_embed(texts)) AS v (t, e);
RESET rag.model_precision;
SELECT rag_embed('{}'::text[]), rag_embed(NULL::text) IS NULL AS of_null,
    rag_embed(NULL::text[]) IS NULL AS of_no_array;
SELECT (rag_embed('hello', model => 'all-MiniLM-L6-v2') <=> rag_embed('hello')) < 0.001 AS by_name;
SELECT rag_embed('hello', model => 'no-such-model'); :sqlstate
SELECT rag_embed('hello', model => '../secrets'); :sqlstate
SELECT rag_embed(ARRAY['a', NULL]); :sqlstate
-- the other precision of the model gives similar embeddings
CREATE TEMP TABLE int8 AS SELECT rag_embed('hello') AS embedding;
SET rag.model_precision = fp32;
SELECT (rag_embed('hello') <=> embedding) BETWEEN 1e-5 AND 0.05 AS nearly FROM int8;
RESET rag.model_precision;

-- the planner expects low cost for the same text in every row, and high cost for different texts
CREATE TABLE vectors AS SELECT i AS id, 'text ' || i AS body, rag_embed('a table') AS v
    FROM generate_series(1, 500) i;
ANALYZE vectors;
CREATE FUNCTION cost_of(statement text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || statement INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
SELECT cost_of($$SELECT id FROM vectors ORDER BY v <=> rag_embed('x')
    LIMIT 10$$) < 1000 AS constant,
    cost_of($$SELECT id FROM vectors ORDER BY v <=> rag_embed('x', 'all-MiniLM-L6-v2')
    LIMIT 10$$) < 1000 AS with_a_model,
    cost_of($$SELECT id FROM vectors ORDER BY v <=> rag_embed(body)
    LIMIT 10$$) > 100000 AS of_the_row,
    cost_of($$SELECT id FROM vectors ORDER BY v <=> rag_embed(random()::text)
    LIMIT 10$$) > 100000 AS volatile;
-- another model in the same statement gives another embedding
SELECT set_config('rag.model_dir', CASE id WHEN 2 THEN '/nonexistent' ELSE '' END, true) IS NULL,
    rag_embed('x') IS NULL FROM vectors WHERE id < 3; :sqlstate
DROP TABLE vectors;
DROP FUNCTION cost_of;

-- errors of another model folder
\set VERBOSITY terse
SET rag.model_dir = '/nonexistent/model';
SELECT rag_embed('hello'); :sqlstate
RESET rag.model_dir;
SET rag.model_precision = fp16; :sqlstate
SET rag.model_precison = fp32; :sqlstate
\set VERBOSITY default

SELECT rag_drop_collection('zoo');
