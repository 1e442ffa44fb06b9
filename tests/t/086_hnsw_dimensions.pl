# The first vector fixes the dimensions of an index; but not for ever, if it was rolled back.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('dimensions');
$node->safe_psql('postgres', 'CREATE TABLE t (id int, v rag_types.vector); CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops)');
my $dimensions = "SELECT dimensions FROM rag_index_info('t_v')";

# another session that knows the index as it was
my $other = session($node);
$node->safe_psql('postgres', "BEGIN; INSERT INTO t VALUES (1, '[1,2,3]'); ROLLBACK");
is($other->query("SET enable_seqscan = off; SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> '[1,2,3]' LIMIT 1) s"), '0', 'the row is not there');
is($node->safe_psql('postgres', $dimensions), '3', 'but it has fixed the dimensions');
my $refused = run_sql($node, "INSERT INTO t VALUES (2, '[1,2,3,4]')");
error_like($refused, '22000', 'expected 3 dimensions, not 4', 'VACUUM the table, or REINDEX INDEX t_v', 'a vector of others is refused, with a hint what to do');

$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', $dimensions), '', 'vacuum forgets them');
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, point(64) FROM generate_series(1, 300) i');
is($node->safe_psql('postgres', $dimensions), '64', 'other vectors come');
is($other->query("SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 7) LIMIT 400) s"), '300', 'the other session finds them');
is_sound($node, 't', 'with other dimensions');

# again, with many pages, and the new ones outlive a crash
$node->safe_psql('postgres', 'DELETE FROM t');
$node->safe_psql('postgres', 'VACUUM t');
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, point(3) FROM generate_series(1, 1000) i');
crash($node);
is($node->safe_psql('postgres', $dimensions), '3', 'after a crash');
is_sound($node, 't', 'after a crash');

# dimensions that a build has found stay: they are those of committed rows
$node->safe_psql('postgres', 'REINDEX INDEX t_v; DELETE FROM t');
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', $dimensions), '3', 'dimensions that a build has found stay');
$node->safe_psql('postgres', 'REINDEX INDEX t_v; INSERT INTO t SELECT i, point(64) FROM generate_series(1, 300) i');
is_sound($node, 't', 'until a REINDEX');

$node->stop;
done_testing();
