# All vectors of a table are updated again and again, and vacuumed. The vectors lie in clusters, so
# that a graph easily falls into pieces. Used by tests/t/090_hnsw_rounds.pl and, with more rows, by
# tests/t/long/.
package RagHnswRounds;

use strict;
use warnings;

use Exporter 'import';
use RagHnsw;
use Test::More;

our @EXPORT = qw(rounds_node test_rounds seed);

# Returns the seed of the random numbers, which RAG_TEST_SEED repeats, and prints it.
sub seed
{
	my $seed = $ENV{RAG_TEST_SEED} // int(rand(1e6));
	note "RAG_TEST_SEED=$seed";
	return $seed;
}

# Returns a node with a table of vectors in clusters, of 48 dimensions. Options: clusters, rows,
# seed.
sub rounds_node
{
	my ($name, %option) = @_;
	my $node = hnsw_node($name, conf => "shared_buffers = 256MB\nfsync = off\n");
	$node->safe_psql(
		'postgres',
		sprintf(
			q{SELECT setseed(%d / 1e6);
			CREATE TABLE cluster AS SELECT i AS id, noise(48, 4) AS v
				FROM generate_series(0, %d) i;
			CREATE FUNCTION near(row_number int) RETURNS rag_types.vector LANGUAGE sql
				AS 'SELECT v + noise(48, 2) FROM cluster WHERE id = row_number %% %d';
			CREATE TABLE t (id int PRIMARY KEY, v rag_types.vector);
			INSERT INTO t SELECT i, near(i) FROM generate_series(1, %d) i;
			CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops);
			INSERT INTO query SELECT 48, near(i) FROM generate_series(1, 60) i;
			VACUUM ANALYZE t},
			$option{seed}, $option{clusters} - 1, $option{clusters}, $option{rows}));
	return $node;
}

# Updates all vectors of the table and vacuums it, some times. Then as many of the nearest rows must
# be found as in a new index. Options: rounds, nearest (numbers of rows).
sub test_rounds
{
	my ($node, %option) = @_;
	my $recall = sub {
		my ($k) = @_;
		return $node->safe_psql('postgres',
			"ALTER FUNCTION nearest RESET rag.ef_search; SELECT recall('t', '<->', $k)");
	};
	for my $round (1 .. $option{rounds})
	{
		$node->safe_psql('postgres',
			"SELECT setseed(0.0$round); UPDATE t SET v = near(id); VACUUM t");
		is($node->safe_psql('postgres', "SELECT problem FROM rag_check_index('t_v')"),
			'', "the check finds nothing after round $round");
	}
	my %worn = map { $_ => $recall->($_) } @{ $option{nearest} };
	$node->safe_psql('postgres', 'REINDEX INDEX t_v');
	for my $k (@{ $option{nearest} })
	{
		my $new = $recall->($k);
		note "recall at $k: $worn{$k}, of a new index $new";
		cmp_ok($worn{$k}, '>=', $new - 0.005, "recall at $k is that of a new index");
	}
	return;
}

1;
