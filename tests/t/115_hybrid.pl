# Searches in all modes of a collection with indexes: filters at every selectivity, row-level
# security, a standby, an engine that is missing, and a corrupted keyword index.
use strict;
use warnings;
use Test::More;
use RagCluster;
use PostgreSQL::Test::Cluster;

my $node = rag_node('hybrid',
	conf => "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\nautovacuum = off\n");
sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(
	q{SELECT rag_create_collection('big', text_config => 'simple');
	SELECT success FROM rag_add_document('A first document.', 'first', collection => 'big')});
# 40 words, of which the first are frequent
sql(
	q{SELECT setseed(0.5);
	CREATE FUNCTION words(n int) RETURNS text LANGUAGE sql AS $$
		SELECT string_agg('w' || floor(exp(random() * ln(400))), ' ') FROM generate_series(1, n) $$;
	INSERT INTO rag_internal.rag_kb_big (collection, uri, title, document_id, document_type,
		category,
		chunk_id,
		chunk_index, start_index, content, metadata, embedding, embedding_key, fetched_at,
		indexed_at, start_line, end_line)
	SELECT 'big', 'made:' || i / 4, 'Title ' || i / 4, md5((i / 4)::text)::uuid, 'text',
		CASE WHEN i % 3 = 0 THEN 'open' ELSE 'closed' END, md5('c' || i)::uuid, i % 4, 0,
		words(20 + i % 40), jsonb_build_object('n', i),
		array(SELECT random() - 0.5 + 0 * i FROM generate_series(1, 384))::rag_types.vector,
		md5('e' || i)::uuid, now(), now(), 1, 1
	FROM generate_series(1, 6000) AS i;
	SELECT success FROM rag_add_document('A last document.', 'last', collection => 'big');
	CREATE TABLE probe AS SELECT words(6) AS query,
		array(SELECT random() - 0.5 + 0 * i FROM generate_series(1, 384))::rag_types.vector
			AS vector, i AS id
	FROM generate_series(1, 5) AS i});
is( sql(q{SELECT count(*) FROM pg_indexes WHERE tablename = 'rag_kb_big'
		AND indexdef ~ 'USING rag_(hnsw|bm25)'}),
	2,
	'the collection has an index on embeddings and one on words');

# The order that the scores of all chunks give. The scores of the two modes alone are those of a
# search that returns everything.
sql(
	q{CREATE TABLE exact AS
	SELECT p.id, c.chunk_id, c.category, (c.metadata ->> 'n')::int AS n,
		greatest(1 - (c.embedding <=> p.vector), 0) AS vector,
		coalesce(k.keyword_score, 0) AS keyword
	FROM probe AS p CROSS JOIN rag.chunks AS c
	LEFT JOIN LATERAL rag_search(p.query, 'big', 10000, 'keyword') AS k
		ON k.chunk_id = c.chunk_id
	WHERE c.collection = 'big'});

# The weight of the keyword score, if c is the best keyword hit: all words are codes.
my $weight = q{round(least(0.7, greatest(0.3, 0.22 + 0.8 * (
	SELECT avg((' ' || c.content || ' ' LIKE '% ' || w || ' %')::int) ^ 2
	FROM regexp_split_to_table(p.query, ' ') AS w))), 2)};

# Filters that pass 1 of 6000 chunks up to all.
for my $below (2, 7, 61, 301, 601, 1801, 3001, 5401, 7000)
{
	my $filter = qq({"conditions": [{"key": "n", "operator": "<", "value": $below}]});
	is( sql(
			qq{SELECT count(*) FROM probe AS p,
				LATERAL (SELECT count(*) AS found, count(DISTINCT s.chunk_id) AS different,
						count(*) FILTER (WHERE (s.metadata ->> 'n')::int >= $below) AS wrong
					FROM rag_search(p.query, 'big', 20, 'vector', '$filter',
						query_embedding => p.vector) AS s) AS v,
				LATERAL (SELECT count(*) AS found, count(DISTINCT s.chunk_id) AS different,
						count(*) FILTER (WHERE (s.metadata ->> 'n')::int >= $below) AS wrong
					FROM rag_search(p.query, 'big', 20, 'hybrid', '$filter',
						query_embedding => p.vector) AS s) AS h
			WHERE (v.found, v.different, v.wrong) <> (least(20, $below - 1), v.found, 0)
				OR (h.found, h.different, h.wrong) <> (least(20, $below - 1), h.found, 0)}),
		0,
		"n < $below: as many chunks as pass the filter, up to top_k");
	# ties are ordered by chunk_id
	is( sql(
			qq{SELECT count(*) FROM probe AS p WHERE
				(SELECT array_agg(s.chunk_id ORDER BY s.rank)
				 FROM rag_search(p.query, 'big', 20, 'keyword', '$filter') AS s)
				IS DISTINCT FROM
				(SELECT array_agg(chunk_id ORDER BY keyword DESC, chunk_id) FROM (
					SELECT * FROM exact WHERE id = p.id AND n < $below AND keyword > 0
					ORDER BY keyword DESC, chunk_id LIMIT 20) AS e)}),
		0,
		"n < $below: mode keyword is exact");
	# the score is that of the exact scores, where the best keyword score is that of the filtered,
	# and the words of that chunk, which are codes, decide the weights
	is( sql(
			qq{SELECT count(*) FROM probe AS p
				CROSS JOIN LATERAL rag_search(p.query, 'big', 20, 'hybrid', '$filter',
					query_embedding => p.vector) AS s
				JOIN exact AS e ON e.id = p.id AND e.chunk_id = s.chunk_id
				CROSS JOIN LATERAL (SELECT x.keyword AS best, $weight AS weight
					FROM exact AS x JOIN rag.chunks AS c ON c.chunk_id = x.chunk_id
					WHERE x.id = p.id AND x.n < $below
					ORDER BY x.keyword DESC, x.chunk_id LIMIT 1) AS m
			WHERE abs(s.score - ((1 - m.weight) * e.vector
					+ m.weight * coalesce(e.keyword / nullif(m.best, 0), 0))) > 1e-6}),
		0,
		"n < $below: the scores of mode hybrid are exact");
}
# the same for other ways to choose
for my $choice (
	q{'hybrid', settings => '{"fusion": "rrf"}'},
	q{'hybrid', settings => '{"per_document": 1}'},
	q{'hybrid', settings => '{"mmr_lambda": 0.5}'},
	q{'vector', settings => '{"per_document": 1}'})
{
	for my $below (7, 301, 5401)
	{
		my $filter = qq({"conditions": [{"key": "n", "operator": "<", "value": $below}]});
		# the first document has three chunks, the others four
		my $most = $choice =~ /per_document/ ? int(($below - 1) / 4) + 1 : $below - 1;
		is( sql(
				qq{SELECT count(*) FROM probe AS p, LATERAL (
					SELECT count(*) AS found, count(DISTINCT s.chunk_id) AS different,
						count(*) FILTER (WHERE (s.metadata ->> 'n')::int >= $below) AS wrong,
						bool_and(s.score BETWEEN 0 AND 1) AS scored
					FROM rag_search(p.query, 'big', 20, $choice, filter => '$filter',
						query_embedding => p.vector) AS s) AS s
				WHERE (found, different, wrong, scored) <> (least(20, $most), found, 0, true)}),
			0,
			"n < $below, mode $choice: as many chunks as pass the filter");
	}
}
# the pools of both searches have 100 chunks, so the first ten can hardly be missed
my ($same, $all) = split /\|/, sql(
	q{SELECT count(*) FILTER (WHERE e.chunk_id IS NOT NULL), count(*)
	FROM probe AS p
	CROSS JOIN LATERAL rag_search(p.query, 'big', 10, query_embedding => p.vector,
		settings => '{"vector_weight": 0.7}') AS s
	LEFT JOIN LATERAL (SELECT x.chunk_id FROM exact AS x
		WHERE x.id = p.id 
		ORDER BY 0.7 * x.vector
			+ 0.3 * x.keyword / (SELECT max(keyword) FROM exact WHERE id = p.id) DESC
		LIMIT 10) AS e
		ON e.chunk_id = s.chunk_id});
cmp_ok($same, '>=', 0.9 * $all, 'mode hybrid finds the chunks with the best sums');

# -- row-level security
# ----------------------------------------

sql(
	q{CREATE ROLE reader LOGIN; GRANT rag_reader TO reader; GRANT SELECT ON probe TO reader;
	SELECT rag_grant_collection('big', 'reader', 'read');
	CREATE POLICY open_only ON rag.chunks FOR SELECT TO reader USING (category = 'open')});
sub as_reader
{
	return $node->safe_psql('postgres', shift, extra_params => [ '-U', 'reader' ]);
}
sub best
{
	my ($most, $rows) = @_;
	return join "\n", grep { (split /\|/)[1] <= $most } split /\n/, $rows;
}
for my $mode (qw(vector keyword hybrid))
{
	my $search = qq{SELECT p.id, s.rank, s.chunk_id, s.score, s.category
		FROM probe AS p, LATERAL rag_search(p.query, 'big', 30, '$mode', %s,
			query_embedding => p.vector) AS s ORDER BY 1, 2};
	my ($by_policy, $by_filter) =
	  (sprintf($search, 'NULL'), sprintf($search, q('{"category": "open"}')));
	my $as_reader = as_reader($by_policy);
	is(scalar(grep { !/\|open$/ } split /\n/, $as_reader),
		0, "$mode: a policy hides chunks from a search");
	is(scalar(split /\n/, $as_reader), 5 * 30, "$mode: as many chunks as were asked for");
	next if $mode eq 'vector';    # the index finds others among the last ones
	# The planner expects other numbers of rows, and leaves the index of vectors later or earlier.
	my $most = $mode eq 'hybrid' ? 10 : 30;
	is(best($most, $as_reader), best($most, sql($by_filter)),
		"$mode: a policy gives the same best $most chunks as a filter");
	my $by_index = 'SET rag.enable_filtered_scan = off; ';
	is(as_reader($by_index . $by_policy), sql($by_index . $by_filter),
		"$mode: a policy gives the same chunks and scores as a filter");
}
# nothing of a chunk that is hidden counts towards the places of reciprocal rank fusion
is( sql(
		q{SET ROLE reader;
		SELECT count(*) FROM probe AS p, LATERAL (
			SELECT count(*) FILTER (WHERE s.category <> 'open') AS hidden,
				count(s.vector_rank) AS vectors, max(s.vector_rank) AS last_vector,
				count(s.keyword_rank) AS words, max(s.keyword_rank) AS last_word
			FROM rag_search(p.query, 'big', 200, 'hybrid', settings => '{"fusion": "rrf"}',
				query_embedding => p.vector) AS s) AS s
		WHERE hidden > 0 OR last_vector > 200 OR last_word > 200 OR vectors + words < 200}),
	0,
	'rrf: hidden chunks have no places');
sql('DROP POLICY open_only ON rag.chunks');
# a policy that hides nearly everything: 60 of 6000 chunks are left
sql(
	q{CREATE POLICY few ON rag.chunks FOR SELECT TO reader
	USING ((metadata ->> 'n')::int % 100 = 7)});
for my $mode (qw(vector keyword hybrid))
{
	is( sql(
			qq{SET ROLE reader;
			SELECT count(*) FROM probe AS p, LATERAL (
				SELECT count(*) AS found,
					count(*) FILTER (WHERE (s.metadata ->> 'n')::int % 100 <> 7) AS hidden
				FROM rag_search(p.query, 'big', 20, '$mode', query_embedding => p.vector) AS s) AS s
			WHERE (found, hidden) <> (20, 0)}),
		0,
		"$mode: as many chunks as were asked for, although a policy hides 99 of 100");
}
sql('DROP POLICY few ON rag.chunks');

# -- a standby
# ----------------------------------------

my $hybrid = q{SELECT string_agg(s.chunk_id::text, ' ' ORDER BY p.id, s.rank)
	FROM probe AS p, LATERAL rag_search(p.query, 'big', query_embedding => p.vector,
		filter => '%s') AS s};
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
for my $filter ('{}', '{"category": "open"}',
	'{"conditions": [{"key": "n", "operator": "<", "value": 50}]}')
{
	is($standby->safe_psql('postgres', sprintf $hybrid, $filter),
		sql(sprintf $hybrid, $filter), "a standby finds the same with filter $filter");
}
is( $standby->safe_psql('postgres',
		q{SELECT count(*) FROM rag_explain_search('w1 w2', 'big',
			query_embedding => (SELECT vector FROM probe LIMIT 1)) WHERE step = 'total'}),
	1,
	'a standby explains searches');
is( $standby->safe_psql('postgres',
		q{SELECT tokens BETWEEN 100 AND 500 FROM rag_context('w1 w2', 'big', max_tokens => 500,
			query_embedding => (SELECT vector FROM probe LIMIT 1))}),
	't',
	'a standby quotes what a search finds');
is( $standby->safe_psql('postgres',
		q{SELECT count(*) FROM rag.metrics WHERE name = 'rag_searches_total' AND value > 0}),
	1,
	'a standby has metrics of its own searches');
$standby->stop;

# -- without the engine
# ----------------------------------------

configure($node, 'rag.engine_path', '/nowhere/rag-engine');
$node->restart;
my ($rc, $out, $err) =
  $node->psql('postgres', q{SELECT uri, vector_score, keyword_rank FROM rag_search('last', 'big')});
is($out, 'last||1', 'without the engine mode hybrid finds by words');
like($err, qr/NOTICE:.*mode "keyword" was used instead of "hybrid": the query cannot be embedded/,
	'a notice says so');
error_like(
	run_sql($node, q{SELECT * FROM rag_search('last', 'big', mode => 'vector')}),
	'58P01', 'rag-engine', undef, 'mode vector fails without the engine');
like(
	sql(q{SELECT rag_retrieve('{"knowledge_id": "big", "query": "last"}') ->> 'degraded'}),
	qr/cannot be embedded/,
	'the answer to a request says so, too');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET rag.engine_path');
$node->restart;

# -- a corrupted keyword index
# ----------------------------------------

my $index = sql(q{SELECT indexrelid::regclass FROM pg_index
	JOIN pg_class AS i ON i.oid = indexrelid JOIN pg_am AS a ON a.oid = i.relam
	WHERE indrelid = 'rag_internal.rag_kb_big'::regclass AND a.amname = 'rag_bm25'});
my $fusion = q{SELECT regexp_replace(s.detail, '; candidates.*', '')
	FROM probe AS p, LATERAL rag_explain_search(p.query, 'big', query_embedding => p.vector) AS s
	WHERE s.step = 'fusion' ORDER BY p.id};
my $by_index = sql($fusion);

# Damages the pages of the index from one on.
sub damage_from
{
	my ($first) = @_;
	my $path = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('$index')");
	sql('CHECKPOINT');
	$node->stop;
	open my $file, '+<:raw', $path or die "$path: $!";
	for my $block ($first .. (-s $path) / 8192 - 1)
	{
		seek $file, $block * 8192 + 100, 0;
		print $file 'damaged ' x 500;
	}
	close $file;
	$node->start;
	return;
}
damage_from(0);
($rc, $out, $err) = $node->psql('postgres', q{SELECT count(*), count(keyword_score)
	FROM rag_search('last document', 'big')});
is($out, '5|5', 'with a corrupted keyword index words are searched for in the table');
like($err, qr/WARNING:.*an index of collection "big" is corrupted/,
	'a warning names the collection');
is(sql($fusion), $by_index, 'the table decides the same weights as the index');
is(sql(q{SELECT state FROM rag_collection_status('big')}), 'damaged', 'the status says so');
sql(q{SELECT success FROM rag_add_document('A document later.', 'after', collection => 'big')});
is(sql(q{SELECT uri FROM rag_search('later', 'big', 1, 'keyword')}),
	'after', 'a write rebuilds the index');
damage_from(1);
sql(q{BEGIN; SELECT success FROM rag_add_document('The last but one.', 'one', collection => 'big');
	SELECT success FROM rag_add_document('The very last.', 'two', collection => 'big'); COMMIT});
is(sql(q{SELECT count(*) FROM rag_search('very but one', 'big', 10, 'keyword')
	WHERE uri IN ('one', 'two')}), '2', 'also if only other pages than the first are damaged');

# Of a page with a wrong checksum, the server raises the error.
$node->stop;
$node->command_ok([ 'pg_checksums', '--enable', '--pgdata', $node->data_dir ], 'checksums are on')
  if $node->pg_version < 18;
$node->start;
damage_from(1);
sql(q{BEGIN; SELECT success FROM rag_add_document('The third.', 'three', collection => 'big');
	SELECT success FROM rag_add_document('The fourth.', 'four', collection => 'big'); COMMIT});
is(sql(q{SELECT count(*) FROM rag_search('third fourth', 'big', 10, 'keyword')
	WHERE uri IN ('three', 'four')}), '2', 'also if pages have wrong checksums');

done_testing();
