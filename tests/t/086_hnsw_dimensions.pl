# The first vector sets the dimensions of an index, but not permanently if it was rolled back.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('dimensions');
$node->safe_psql(
	'postgres',
	'CREATE TABLE t (id int, v rag_types.vector);
		CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops)'
);
my $dimensions = "SELECT dimensions FROM rag_hnsw_info('t_v')";

# another session that has cached the index before
my $other = session($node);
$node->safe_psql('postgres', "BEGIN; INSERT INTO t VALUES (1, '[1,2,3]'); ROLLBACK");
is( $other->query(
		"SET enable_seqscan = off; SELECT count(*)
			FROM (SELECT id FROM t ORDER BY v <-> '[1,2,3]' LIMIT 1) s"
	),
	'0',
	'a rolled back row is not found');
is($node->safe_psql('postgres', $dimensions),
	'3', 'a rolled back row sets the dimensions of an empty index');
my $refused = run_sql($node, "INSERT INTO t VALUES (2, '[1,2,3,4]')");
error_like(
	$refused, '22000',
	'expected 3 dimensions, not 4',
	'VACUUM the table, or REINDEX INDEX t_v',
	'a vector with other dimensions is rejected with a hint');

$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', $dimensions), '', 'vacuum clears the dimensions of an empty index');
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, point(64) FROM generate_series(1, 300) i');
is($node->safe_psql('postgres', $dimensions), '64', 'the next vectors set the dimensions');
is( $other->query(
		"SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 7)
			LIMIT 400) s"
	),
	'300',
	'another session finds vectors with the new dimensions');
index_is_correct($node, 't', 'the index is correct with the new dimensions');

# again with many pages; the new dimensions survive a crash
$node->safe_psql('postgres', 'DELETE FROM t');
$node->safe_psql('postgres', 'VACUUM t');
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, point(3) FROM generate_series(1, 1000) i');
crash($node);
is($node->safe_psql('postgres', $dimensions),
	'3', 'the dimensions set after vacuum survive a crash');
index_is_correct($node, 't', 'the index is correct after a crash');

# dimensions set by a build stay, because they are those of committed rows
$node->safe_psql('postgres', 'REINDEX INDEX t_v; DELETE FROM t');
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', $dimensions),
	'3', 'vacuum does not clear dimensions that a build has set');
$node->safe_psql('postgres',
	'REINDEX INDEX t_v; INSERT INTO t SELECT i, point(64) FROM generate_series(1, 300) i');
index_is_correct($node, 't', 'the index is correct with new dimensions after REINDEX');

$node->stop;
done_testing();
