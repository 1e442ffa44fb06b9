# A cursor over many rows of one vector reads them in portions. It returns each row of its snapshot
# once, whatever other sessions insert, delete and vacuum meanwhile.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('equal');
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v rag_types.vector);
SELECT setseed(0.3);
INSERT INTO t SELECT i, point(64) FROM generate_series(1, 500) i;
INSERT INTO t SELECT i, (SELECT v FROM t WHERE id = 7) FROM generate_series(1001, 9000) i;
DELETE FROM t WHERE id BETWEEN 1001 AND 9000 AND id % 4 = 0;
CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops);
SQL

my $reader = session($node);
$reader->query('SET enable_seqscan = off; SET enable_sort = off');
$reader->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
$reader->query(
	'DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 7)');
my @found = split /\n/, $reader->query('FETCH 50 FROM c');
my $round = 0;
while (1)
{
	# rows of this vector are inserted and deleted; vacuum removes those that the cursor does not
	# see
	my $first = 10_000 + 1000 * $round;
	$node->safe_psql(
		'postgres',
		"INSERT INTO t SELECT i, (SELECT v FROM t WHERE id = 7)
		FROM generate_series($first, $first + 399) i"
	);
	$node->safe_psql(
		'postgres',
		"DELETE FROM t WHERE id BETWEEN $first AND $first + 299;
		DELETE FROM t WHERE id % 97 = $round AND id > 1000"
	);
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t');
	my @rows = split /\n/, $reader->query('FETCH ' . 100 * 2**$round . ' FROM c');
	last if !@rows;
	push @found, @rows;
	$round++;
}
cmp_ok($round, '>', 4, 'the cursor returned rows in several portions');
my %times;
$times{$_}++ for @found;
is(scalar(grep { $_ > 1 } values %times), 0, 'the cursor returns no row twice');
is( join(',', sort { $a <=> $b } keys %times),
	join(',', 1 .. 500, grep { $_ % 4 } 1001 .. 9000),
	'the cursor returns every row of its snapshot');
is(scalar(grep { $_ > 500 } @found[ 0 .. 6000 ]), 6000, 'the cursor returns the equal rows first');
$reader->query('COMMIT');
index_is_correct($node, 't', 'the index is correct with equal rows');
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) t');
index_is_correct($node, 't', 'the index is correct with equal rows after vacuum');

done_testing();
