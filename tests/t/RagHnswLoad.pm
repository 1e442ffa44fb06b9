# Clients insert, delete, update and search a table with a rag_hnsw index, while it is vacuumed and
# rebuilt. Used by tests/t/022_hnsw_concurrency.pl for some seconds and by tests/t/long/ for a
# minute.
package RagHnswLoad;

use strict;
use warnings;

use Exporter 'import';
use RagHnsw;
use RagLoad;
use Test::More;

our @EXPORT = qw(test_under_load);

# Scripts of pgbench's clients, with their weights. The table stays at about the same size.
my %script = (
	insert => [ 6, "INSERT INTO t SELECT nextval('t_id'), random() * 9, point(64);" ],
	# equal vectors among them, so that nodes gain and lose rows
	insert_equal => [
		1,
		"INSERT INTO t SELECT nextval('t_id'), 3, v FROM query WHERE dimensions = 64
			ORDER BY random() LIMIT 3;"
	],
	insert_many => [
		1,
		"BEGIN; INSERT INTO t SELECT nextval('t_id'), 5, point(64) FROM generate_series(1, 20);
			ROLLBACK;"
	],
	delete => [
		5,
		"DELETE FROM t WHERE id IN (SELECT id FROM t OFFSET floor(random() * 2000) LIMIT 2
			FOR UPDATE SKIP LOCKED);"
	],
	update => [
		3,
		"UPDATE t SET v = point(64) WHERE id IN (SELECT id FROM t OFFSET floor(random() * 2000)
			LIMIT 1 FOR UPDATE SKIP LOCKED);"
	],
	update_other => [
		2,
		"UPDATE t SET kind = kind + 1 WHERE id IN (SELECT id FROM t OFFSET floor(random() * 2000)
			LIMIT 1 FOR UPDATE SKIP LOCKED);"
	],
	search => [ 5, "SELECT nearest('t', '<->', v, 10) FROM query WHERE dimensions = 64;" ],
	# every row that the statement sees is in the index once
	search_all => [
		2,
		"DO 'BEGIN ASSERT fault(\$\$t\$\$, false, false) = \$\$\$\$, fault(\$\$t\$\$, false, "
		  . "false); END';"
	]);

sub test_under_load
{
	my ($seconds) = @_;
	my $node = hnsw_node('load', conf => "deadlock_timeout = 100ms\n");
	$node->safe_psql(
		'postgres',
		"CREATE TABLE t (id int PRIMARY KEY, kind int, v rag_types.vector); CREATE SEQUENCE t_id;
		SELECT setseed(0.2); INSERT INTO t SELECT nextval('t_id'), i % 7, point(64)
		FROM generate_series(1, 2000) i;
		CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops)");

	# everything that an owner does with a table
	run_load(
		$node, $seconds, \%script,
		'VACUUM t',
		'REINDEX INDEX CONCURRENTLY t_v',
		'VACUUM t',
		'CREATE INDEX CONCURRENTLY t_w ON t USING rag_hnsw (v vector_l2_ops);
			DROP INDEX CONCURRENTLY t_v; ALTER INDEX t_w RENAME TO t_v',
		'VACUUM t',
		'DELETE FROM t WHERE id % 10 < 3; VACUUM t');

	index_is_correct($node, 't', 'the index is correct after the load');
	$node->safe_psql('postgres', 'VACUUM t');
	index_is_correct($node, 't', 'the index is correct after the load and vacuum');
	index_has_exactly_the_rows($node, 't', "vectors FROM rag_hnsw_info('t_v')");
	$node->stop;
	return;
}

1;
