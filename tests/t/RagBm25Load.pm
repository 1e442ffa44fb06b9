# Clients insert, delete, update and search a table with a rag_bm25 index, while it is vacuumed,
# merged and rebuilt. Used by tests/t/112_bm25_concurrency.pl for some seconds and by tests/t/long/
# for a minute.
package RagBm25Load;

use strict;
use warnings;

use Exporter 'import';
use RagBm25;
use RagLoad;
use Test::More;

our @EXPORT = qw(test_under_load);

# Scripts of pgbench's clients, with their weights. The table stays at about the same size.
my %script = (
	insert => [ 6, "INSERT INTO t SELECT nextval('t_id'), random() * 9, sentence(40);" ],
	insert_large => [ 1, "INSERT INTO t SELECT nextval('t_id'), 3, sentence(1500);" ],
	insert_many => [
		1,
		"BEGIN; INSERT INTO t SELECT nextval('t_id'), 5, sentence(40) FROM generate_series(1, 20);
			ROLLBACK;"
	],
	delete => [
		6,
		"DELETE FROM t WHERE id IN (SELECT id FROM t OFFSET floor(random() * 2000) LIMIT 2
			FOR UPDATE SKIP LOCKED);"
	],
	update => [
		3,
		"UPDATE t SET body = sentence(40) WHERE id IN (SELECT id FROM t
			OFFSET floor(random() * 2000) LIMIT 1 FOR UPDATE SKIP LOCKED);"
	],
	update_other => [
		2,
		"UPDATE t SET kind = kind + 1 WHERE id IN (SELECT id FROM t OFFSET floor(random() * 2000)
			LIMIT 1 FOR UPDATE SKIP LOCKED);"
	],
	search => [
		5, "SELECT (SELECT count(*) FROM (SELECT id FROM t ORDER BY body <@> query LIMIT 10) s)
			FROM search ORDER BY random() LIMIT 1;"
	],
	# every row that the statement sees and that matches is found once
	search_all => [
		2, "DO 'BEGIN ASSERT fault(\$\$t\$\$, false, false) = \$\$\$\$; END';"
	]);

sub test_under_load
{
	my ($seconds) = @_;
	my $node = bm25_node('load', conf => "deadlock_timeout = 100ms\n");
	$node->safe_psql(
		'postgres',
		"CREATE TABLE t (id int PRIMARY KEY, kind int, body text); CREATE SEQUENCE t_id;
		SELECT setseed(0.2); INSERT INTO t SELECT nextval('t_id'), i % 7, sentence(40)
		FROM generate_series(1, 2000) i;
		CREATE INDEX t_body ON t USING rag_bm25 (body)
			WITH (text_config = 'simple', positions = on)");

	# everything that an owner does with a table
	run_load(
		$node, $seconds, \%script,
		'VACUUM t',
		"SELECT rag_bm25_merge('t_body')",
		'REINDEX INDEX CONCURRENTLY t_body',
		'VACUUM t',
		"CREATE INDEX CONCURRENTLY t_other ON t USING rag_bm25 (body) WITH (text_config = 'simple');
			DROP INDEX CONCURRENTLY t_body; ALTER INDEX t_other RENAME TO t_body",
		'VACUUM t',
		"DELETE FROM t WHERE id % 10 < 3; VACUUM t; SELECT rag_bm25_merge('t_body')");

	index_is_correct($node, 't', 'the index is correct after the load');
	$node->safe_psql('postgres', 'VACUUM t');
	$node->safe_psql('postgres', "SELECT rag_bm25_merge('t_body')");
	index_is_correct($node, 't', 'the index is correct after the load, vacuum and a merge');
	index_has_exactly_the_rows($node, 't', "documents FROM rag_bm25_info('t_body')");
	$node->stop;
	return;
}

1;
