# What every type of storage must do: the same statements and the same answers, whichever it is.
package RagStorage;

use strict;
use warnings;
use Exporter 'import';
use RagCluster;
use Test::More;

our @EXPORT = qw(conforms stays fill_many);

# The scores of vectors at an axis, halfway to it, and at another axis, by metric.
my %SCORES = (
	cosine => [ '1.000', '0.707', '0.000' ],
	l2 => [ '1.000', '0.566', '0.414' ],
	inner_product => [ '0.750', '0.707', '0.500' ]);

# Functions that the tests call. Vectors have 384 dimensions.
sub prepare
{
	my ($sql) = @_;
	$sql->(<<'SQL');
CREATE FUNCTION axis(i int) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_agg(CASE WHEN n = i THEN 1 ELSE 0 END ORDER BY n)
	FROM generate_series(1, 384) n $$;
CREATE FUNCTION halfway(i int, j int) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_agg(CASE WHEN n IN (i, j) THEN sqrt(0.5) ELSE 0 END ORDER BY n)
	FROM generate_series(1, 384) n $$;
CREATE FUNCTION id(n int) RETURNS uuid LANGUAGE sql AS $$
	SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid $$;
CREATE FUNCTION chunk(n int, uri text, embedding jsonb, more jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE sql AS $$
	SELECT jsonb_build_object('chunk_id', id(n), 'uri', uri, 'text', 'text ' || n,
		'embedding', embedding) || more $$;
CREATE FUNCTION found(name text, query jsonb, k int DEFAULT 10, f jsonb DEFAULT NULL)
RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(right(chunk_id::text, 1) || ' ' || round(score::numeric, 3), ', '
		ORDER BY rank)
	FROM rag_search('', name, k, 'vector', f, query_embedding => query::text::rag_types.vector) $$;
SQL
	return;
}

# Creates a retriever and a collection, and checks what every type of storage must do. `sync` waits
# until everything is written.
sub conforms
{
	my ($node, $type) = @_;
	my ($name, $config, $sync) = @$type{qw(name config sync)};
	my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
	my $metric = $type->{metric} // 'cosine';
	my ($same, $half, $other) = @{ $SCORES{$metric} };
	$sync //= sub { };

	prepare($sql) if $sql->(q{SELECT to_regprocedure('axis(int)') IS NULL}) eq 't';
	$sql->(
		qq{SELECT rag_create_retriever('$name', '{"storageConfig": $config}');
		SELECT rag_create_collection('$name', retriever => '$name')});
	is($sql->(qq{SELECT success FROM rag_test_retriever('$name')}), 't',
		"$name: the retriever can be used");
	is($sql->(qq{SELECT coalesce(found('$name', axis(1)), 'none')}),
		'none', "$name: a search of an empty collection finds nothing");

	# known vectors
	my $chunks = qq{jsonb_build_array(
		chunk(3, 'a', axis(2), '{"metadata": {"team": "red", "year": 2020}}'),
		chunk(2, 'a', axis(1), '{"metadata": {"team": "blue", "year": 2021}}'),
		chunk(1, 'b', axis(1), '{"category": "ops", "tags": ["x", "y"]}'),
		chunk(4, 'c', halfway(1, 3), '{"metadata": {"team": "red"}}'))};
	is($sql->(qq{SELECT rag_upsert_chunks($chunks, '$name')}), '4', "$name: chunks are written");
	is($sql->(qq{SELECT rag_upsert_chunks($chunks, '$name')}),
		'0', "$name: chunks that exist are not written again");
	my $all = "1 $same, 2 $same, 4 $half, 3 $other";
	is($sql->(qq{SELECT found('$name', axis(1))}),
		$all, "$name: the order is by score, then by chunk_id, at once");
	$sync->();
	is($sql->(qq{SELECT found('$name', axis(1))}), $all,
		"$name: a search finds the same after a sync");
	is($sql->(qq{SELECT found('$name', axis(1), 1)}),
		"1 $same", "$name: of equal scores, top_k takes the first chunk_id");

	# filters
	for (
		[ '{"team": "red"}', "4 $half, 3 $other" ],
		[ '{"category": "ops"}', "1 $same" ],
		[ '{"tags": ["y"]}', "1 $same" ],
		[ '{"key": "year", "operator": "gte", "value": 2021}', "2 $same" ],
		[ '{"year": "2020"}', "3 $other" ],
		[ '{"key": "team", "operator": "ne", "value": "red"}', "1 $same, 2 $same" ],
		[
			'{"operator": "or", "conditions": [{"key": "category", "operator": "eq",
				"value": "ops"}, {"key": "year", "operator": "in", "value": [2020, 7]}]}',
			"1 $same, 3 $other"
		],
		[ '{"team": "green"}', 'none' ])
	{
		my ($filter, $expected) = @$_;
		is( $sql->(qq{SELECT coalesce(found('$name', axis(1), f => '$filter'), 'none')}),
			$expected, "$name: filter " . $filter =~ s/\s+/ /gr);
	}

	# what is replaced
	$sql->(
		qq{SELECT rag_upsert_chunks(jsonb_build_array(
			chunk(3, 'a', axis(1), '{"metadata": {"team": "red"}}')), '$name',
				skip_existing => false)});
	my $replaced = "1 $same, 2 $same, 3 $same, 4 $half";
	is($sql->(qq{SELECT found('$name', axis(1))}), $replaced, "$name: a vector is replaced");
	$sync->();
	is($sql->(qq{SELECT found('$name', axis(1))}), $replaced, "$name: and stays so");

	# what is deleted
	my $delete = qq{SELECT rag_delete_chunks(ARRAY[id(2), id(9)]::text[], '$name')};
	is($sql->($delete), '1', "$name: a chunk is deleted");
	is($sql->($delete), '0', "$name: and not again");
	is($sql->(qq{SELECT found('$name', axis(1))}),
		"1 $same, 3 $same, 4 $half", "$name: it is not found any more");
	$sync->();
	is( $sql->(
			qq{SELECT chunk_count, document_count, state FROM rag_collection_status('$name')}),
		'3|3|ready',
		"$name: counts are exact");

	# dimensions
	error_like(
		run_sql(
			$node, qq{SELECT rag_upsert_chunks(jsonb_build_array(
			chunk(5, 'd', '[1, 2, 3]')), '$name')}),
		'22000', qr/expected 384 dimensions, not 3/, undef,
		"$name: a vector with another number of dimensions is refused");
	error_like(
		run_sql($node, qq{SELECT found('$name', '[1, 2, 3]')}),
		'22000', qr/different vector dimensions 3 and 384/,
		undef, "$name: and so is a query");
	return;
}

# What was found before a restart is found after it.
sub stays
{
	my ($node, $type) = @_;
	my $name = $type->{name};
	my ($same, $half) = @{ $SCORES{ $type->{metric} // 'cosine' } };
	my $known = '{"key": "uri", "operator": "in", "value": ["a", "b", "c"]}';
	is($node->safe_psql('postgres', qq{SELECT found('$name', axis(1), 3, '$known')}),
		"1 $same, 3 $same, 4 $half", "$name: a restart changes nothing");
	return;
}

# Adds chunks in clusters, 3,500 of them by default, so that the collection gets an index, and
# compares searches with the exact distances.
sub fill_many
{
	my ($node, $type) = @_;
	my ($name, $sync) = @$type{qw(name sync)};
	my $partition = ($type->{prefix} // 'rag') . "_kb_$name";
	my $chunks = $type->{chunks} // 3500;
	my $sql = sub { return $node->safe_psql('postgres', $_[0]) };
	my $score = {
		cosine => '1 - (c.embedding <=> p.vector)',
		l2 => '1 / (1 + (c.embedding <-> p.vector))',
		inner_product => '(1 - (c.embedding <#> p.vector)
			/ (1 + abs(c.embedding <#> p.vector))) / 2'
	}->{ $type->{metric} // 'cosine' };
	$sql->(
		qq{CREATE TABLE IF NOT EXISTS probe AS SELECT i,
			array(SELECT sin(i * n) + 0.3 * random() FROM generate_series(1, 384) n)
				::rag_types.vector AS vector
		FROM generate_series(1, 8) AS i;
		INSERT INTO rag.chunks (partition, collection, uri, title, document_id, document_type,
			chunk_id, chunk_index, start_index, content, metadata, embedding, embedding_key,
			fetched_at, indexed_at, start_line, end_line)
		SELECT '$partition', '$name', 'made:' || i, 'Title', md5('d' || i / 5)::uuid, 'text',
			md5('$name' || i)::uuid, i % 5, 0, 'made ' || i, jsonb_build_object('part', i % 50),
			array(SELECT sin((i % 40 + 1) * n) + random() + 0 * i
				FROM generate_series(1, 384) n)::rag_types.vector,
			md5('e' || i)::uuid, now(), now(), 1, 1
		FROM generate_series(1, $chunks) AS i;
		SELECT rag_upsert_chunks(jsonb_build_array(chunk(6, 'e', axis(7))), '$name')});
	$sync->() if $sync;
	# of the ten nearest, how many a search finds
	for my $where ([ 'all', 'true', 'NULL' ],
		[ 'filtered', q{c.metadata @> '{"part": 7}'}, q{'{"part": 7}'} ])
	{
		my ($what, $condition, $filter) = @$where;
		my $result = $sql->(
			qq{WITH best AS (
				SELECT p.i, e.chunk_id, e.score FROM probe AS p, LATERAL (
					SELECT c.chunk_id, $score AS score FROM rag.chunks AS c
					WHERE c.collection = '$name' AND $condition ORDER BY score DESC, c.chunk_id
					LIMIT 10) AS e),
			found AS (
				SELECT p.i, s.chunk_id, s.score FROM probe AS p, LATERAL rag_search('', '$name',
					10, 'vector', $filter, query_embedding => p.vector) AS s)
			SELECT count(f.chunk_id), count(*) FILTER (WHERE abs(f.score - b.score) > 1e-6)
			FROM best AS b LEFT JOIN found AS f USING (i, chunk_id)});
		my ($hits, $wrong) = split /\|/, $result;
		cmp_ok($hits, '>=', 76, "$name: searches find the nearest of $what chunks");
		is($wrong, '0', "$name: with their exact scores");
	}
	return;
}

1;
