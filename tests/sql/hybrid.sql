-- Search by meaning and by words at once: modes, weights, fusion, and what follows it.
\set VERBOSITY terse
SELECT rag_create_collection('fleet');
SELECT count(*) FROM (VALUES
    ('The gearbox of the truck needs new oil every 60,000 kilometres.', 'truck', 'Lorry manual'),
    ('Error code XK-4711 means that the oil pressure sensor has failed.', 'codes', 'Error codes'),
    ('Vehicles are washed on Fridays. The keys hang in the office.', 'wash', 'Cleaning'),
    ('A bus carries at most fifty passengers.', 'bus', 'Buses')) AS v (text, uri, title),
    LATERAL rag_add_document(text, uri, title, collection => 'fleet');

-- The default is hybrid: words that the model does not know count, and so does meaning.
SELECT rank, uri, vector_rank, keyword_rank, keyword_score = 1 AS has_best_words
FROM rag_search('XK-4711', 'fleet', top_k => 2);
SELECT rank, uri, keyword_rank
FROM rag_search('how many people fit into a coach?', 'fleet', top_k => 1);

-- The score is the weighted sum of the two scores that the row shows.
SELECT bool_and(abs(score - (0.7 * vector_score + 0.3 * keyword_score)) < 1e-9) AS is_sum, count(*)
FROM rag_search('oil for the gearbox', 'fleet');
SELECT bool_and(abs(score - (0.2 * vector_score + 0.8 * keyword_score)) < 1e-9) AS is_sum, count(*)
FROM rag_search('oil for the gearbox', 'fleet', settings => '{"vector_weight": 0.2}');
SELECT bool_and(abs(score - (0.9 * vector_score + 0.1 * keyword_score)) < 1e-9) AS is_sum, count(*)
FROM rag_search('oil for the gearbox', 'fleet', settings => '{"keyword_weight": 0.1}');
-- The scores are exact for rows that only one of the two searches has found.
SELECT h.uri, abs(h.vector_score - v.score) < 1e-9 AS same_vector_score,
       abs(h.keyword_score - coalesce(k.score, 0)) < 1e-9 AS same_keyword_score
FROM rag_search('oil pressure', 'fleet') h
JOIN rag_search('oil pressure', 'fleet', mode => 'vector') v USING (chunk_id)
LEFT JOIN rag_search('oil pressure', 'fleet', mode => 'keyword') k USING (chunk_id)
ORDER BY h.rank;

-- Each mode alone.
SELECT uri, score = vector_score AS is_vector, keyword_score, keyword_rank, vector_rank
FROM rag_search('oil', 'fleet', mode => 'vector', top_k => 1);
SELECT uri, score = keyword_score AS is_keyword, vector_score, vector_rank, keyword_rank
FROM rag_search('oil', 'fleet', mode => 'keyword');
-- The title counts in keyword search.
SELECT uri FROM rag_search('lorry', 'fleet', mode => 'keyword');

-- Reciprocal rank fusion: by places alone. First in both lists is 1.
SELECT uri, score = 1 AS is_first_in_both
FROM rag_search('error code XK-4711', 'fleet', settings => '{"fusion": "rrf"}', top_k => 1);
SELECT bool_and(abs(score - (coalesce(1.0 / (60 + vector_rank), 0)
                             + coalesce(1.0 / (60 + keyword_rank), 0)) * 61 / 2) < 1e-9) AS is_rrf
FROM rag_search('oil pressure', 'fleet', settings => '{"fusion": "rrf"}');

-- A threshold applies to the score of the mode.
SELECT count(*) FILTER (WHERE score < 0.3) AS below, count(*) > 0 AS some
FROM rag_search('oil pressure', 'fleet', settings => '{"score_threshold": 0.3}');

-- Without words to search for, the vector answers; with query_embedding alone, too.
SELECT count(*) FROM rag_search('is it the?', 'fleet');
SELECT count(*) FROM rag_search('?!', 'fleet', mode => 'keyword');
SELECT count(*), count(keyword_score)
FROM rag_search(NULL, 'fleet', query_embedding => (SELECT embedding FROM rag.chunks
                                                   WHERE collection = 'fleet' LIMIT 1));
-- Words without a match count nothing.
SELECT count(*), max(keyword_score) FROM rag_search('xylophone', 'fleet');
SELECT count(*) FROM rag_search('xylophone', 'fleet', mode => 'keyword');

-- Documents, neighbours, diversity
SELECT rag_create_collection('books', chunk_size => 60, chunk_overlap => 20);
SELECT chunks_indexed FROM rag_add_document(
    'The first chapter is on rivers. Rivers carry water to the sea. The second chapter is on '
    'lakes. '
    'Lakes keep water in the mountains. The third chapter is on rain. Rain brings the water back.',
    'water', 'Water', collection => 'books');
SELECT success FROM rag_add_document('Water is wet.', 'wet', 'Wet', collection => 'books');
SELECT uri, count(*) FROM rag_search('water', 'books', top_k => 10) GROUP BY 1 ORDER BY 2 DESC;
SELECT uri, count(*) FROM rag_search('water', 'books', top_k => 10,
    settings => '{"per_document": 1}')
GROUP BY 1 ORDER BY 1;
-- Neighbours are joined without the overlap: the text is a part of the document.
SELECT d.uri, s.chunk_index, strpos(d.content, s.content) = s.start_index + 1 AS is_part,
       length(s.content) > length(c.content) AS is_longer
FROM rag_search('lakes', 'books', mode => 'keyword', settings => '{"neighbours": 1}') s
JOIN rag.documents d USING (document_id) JOIN rag.chunks c USING (chunk_id)
ORDER BY s.rank;
SELECT s.content = d.content AS is_whole
FROM rag_search('lakes', 'books', mode => 'keyword', settings => '{"neighbours": 10}', top_k => 1) s
JOIN rag.documents d USING (document_id);
-- Copies come last in a search for diversity.
SELECT count(*) FROM generate_series(1, 5) AS n,
    LATERAL rag_add_document('Water is wet.', 'copy ' || n, 'Wet', collection => 'books');
SELECT count(DISTINCT content)
FROM rag_search('water is wet', 'books', top_k => 3, settings => '{"distinct_text": false}');
SELECT count(DISTINCT content)
FROM rag_search('water is wet', 'books', top_k => 3,
    settings => '{"mmr_lambda": 0.3, "distinct_text": false}');
SELECT count(*) = 5 AS is_full, count(DISTINCT rank) = 5 AS ranks
FROM rag_search('water is wet', 'books', settings => '{"mmr_lambda": 0}');

-- Filters: the searches of both modes obey them.
SELECT count(*) FILTER (WHERE uri <> 'water') AS others, count(*) > 1 AS some
FROM rag_search('water is wet', 'books', filter => '{"uri": "water"}', top_k => 20);
SELECT count(*) FROM rag_search('water is wet', 'books', filter => '{"uri": "nowhere"}');

-- A retriever may disable modes and set defaults.
SELECT * FROM rag_apply_manifest('
apiVersion: agent.wecode.io/v1
kind: Retriever
metadata: {name: words}
spec:
  retrievalMethods:
    keyword: {enabled: true}
');
SELECT rag_create_collection('words', retriever => 'words', text_config => 'simple',
                             title_weight => 0);
SELECT success FROM rag_add_document('Running runs run.', 'run', 'Sprint', collection => 'words');
SELECT uri, vector_score, keyword_score FROM rag_search('running', 'words');
SELECT count(*) FROM rag_search('ran', 'words');
SELECT count(*) AS title_is_not_searched FROM rag_search('sprint', 'words');
SELECT * FROM rag_search('running', 'words', mode => 'vector');
SELECT * FROM rag_search('running', 'words', mode => 'hybrid');
SELECT count(*) FROM rag_search('?!', 'words');

-- Invalid arguments
SELECT * FROM rag_search('oil', 'fleet', settings => '{"fusion": "dbsf"}');
SELECT * FROM rag_search('oil', 'fleet',
    settings => '{"vector_weight": 0.7, "keyword_weight": 0.7}');
SELECT * FROM rag_search('oil', 'fleet', settings => '{"vector_weight": 1.5}');
SELECT * FROM rag_search('oil', 'fleet', settings => '{"keyword_weight": "NaN"}');
SELECT * FROM rag_search('oil', 'fleet', settings => '{"per_document": 0}');
SELECT * FROM rag_search('oil', 'fleet', settings => '{"neighbours": -1}');
SELECT * FROM rag_search('oil', 'fleet', settings => '{"neighbours": 11}');
SELECT * FROM rag_search('oil', 'fleet', settings => '{"mmr_lambda": 2}');
SELECT * FROM rag_search('oil', 'fleet', settings => '{"mmr_lambda": 0.5}', top_k => 1001);
SELECT * FROM rag_search(NULL, 'fleet', mode => 'hybrid', query_embedding => (
    SELECT embedding FROM rag.chunks WHERE collection = 'fleet' LIMIT 1));
SELECT rag_create_collection('wrong', text_config => 'klingon');
SELECT rag_create_collection('wrong', text_config => NULL);
SELECT rag_create_collection('wrong', title_weight => 11);

SELECT rag_score_band('NaN'), rag_score_band(2), rag_score_band(-1);
SELECT score, rag_score_band(score)
FROM unnest(ARRAY[1, 0.9, 0.89, 0.7, 0.69, 0.5, 0.49, 0, NULL]) AS score;

-- The default model begins near 0. With another one the cosine counts from its baseline on.
SELECT embedding_baseline < 0.1 AS near_0 FROM rag.collections WHERE name = 'fleet';
UPDATE rag_internal.collection SET embedding_baseline = 0.25 WHERE name = 'fleet';
SELECT bool_and(abs(score - (0.7 * greatest((vector_score - 0.25) / 0.75, 0)
                             + 0.3 * keyword_score)) < 1e-9) AS is_sum, count(*)
FROM rag_search('oil for the gearbox', 'fleet');
SELECT bool_and(score = vector_score) AS is_cosine
FROM rag_search('oil for the gearbox', 'fleet', mode => 'vector');
SELECT detail FROM rag_explain_search('oil', 'fleet') WHERE step = 'fusion';

-- A text that is in thousands of places
SELECT rag_create_collection('copies', dimensions => 3);
SELECT rag_upsert_chunks((SELECT jsonb_agg(jsonb_build_object('chunk_id', 'c' || i,
    'uri', 'd' || i, 'text', 'Water is wet.', 'embedding', '[1, 0, 0]'::jsonb))
    FROM generate_series(1, 4000) AS i), 'copies');
SELECT rag_upsert_chunks('[{"chunk_id": "x", "uri": "x", "text": "Water is cold.",
    "embedding": [0, 1, 0]}]', 'copies');
SELECT content, cardinality(also_at) AS places
FROM rag_search('water', 'copies', top_k => 3, query_embedding => '[1, 0, 0]');
SELECT content FROM rag_search('cold water', 'copies', top_k => 1);
SELECT count(*) FROM rag_search('water', 'copies', top_k => 5000,
    settings => '{"distinct_text": false}');

SELECT rag_drop_collection(name)
FROM unnest(ARRAY['fleet', 'books', 'words', 'copies']) AS name;
SELECT * FROM rag_delete_manifest('Retriever', 'words');
