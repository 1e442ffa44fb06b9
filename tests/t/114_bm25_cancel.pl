# Long statements on a keyword index can be cancelled, timed out and terminated, and they fail
# without enough memory. The server and other sessions are undisturbed, and nothing is left behind.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagBm25;
use RagMemory;

my $node = bm25_node('cancel');
$node->safe_psql(
	'postgres',
	"CREATE TABLE t (id int PRIMARY KEY, body text); SELECT setseed(0.2);
		INSERT INTO t SELECT i, sentence(60) FROM generate_series(1, 12000) i"
);
my $witness = witness($node);
my $create =
  "CREATE INDEX t_body ON t USING rag_bm25 (body) WITH (text_config = 'english', positions = on)";

# Starts a statement and waits until the session works on it.
sub start_work
{
	my ($statement) = @_;
	my $session = start_sql($node, $statement);
	my $backend = $session->backend;
	await(
		'the statement has begun',
		sub {
			ask($node,
				"SELECT state = 'active' AND query !~ '^SET' FROM pg_stat_activity
					WHERE pid = $backend"
			) eq 't';
		});
	return ($session, $backend);
}

# -- builds
# ----------------------------------------

my %end = (
	pg_cancel_backend => [ '57014', 'canceling statement due to user request' ],
	pg_terminate_backend => [ '57P01', 'terminating connection due to administrator command' ]);
for my $memory ('1MB', '64MB')
{
	for my $function (sort keys %end)
	{
		my ($session, $pid) = start_work("SET maintenance_work_mem = '$memory'; $create");
		is(ask($node, "SELECT $function($pid)"), 't', "$function succeeds during a build");
		error_like($session->finish, $end{$function}->@*, undef,
			"$function ends a build with $memory");
		is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 't_body'"),
			'0', "a build with $memory ended by $function leaves no index");
	}
}
error_like(
	run_sql($node, "SET statement_timeout = '100ms'; $create"),
	'57014', 'canceling statement due to statement timeout',
	undef, 'a build can time out');
$node->safe_psql('postgres', $create);
index_is_correct($node, 't', 'CREATE INDEX succeeds after cancelled builds');

# -- searches, inserts, merges, vacuum, check
# ----------------------------------------

my %call = (
	'a search to its end' => "SET enable_sort = off; SET enable_seqscan = off;
			SELECT count(*) FROM generate_series(1, 10000) g,
		LATERAL (SELECT id FROM t ORDER BY body <@> ('w1 w2 w3 w' || g) OFFSET 0) s",
	'a search for rows that are not there' => "SET enable_sort = off; SET enable_seqscan = off;
			SELECT count(*) FROM generate_series(1, 10000) g,
		LATERAL (SELECT id FROM t WHERE id < -g ORDER BY body <@> 'w1 w2 w3' LIMIT 1) s",
	'a search with clauses' => "SET enable_sort = off; SET enable_seqscan = off;
			SELECT count(*) FROM generate_series(1, 10000) g, LATERAL (SELECT id FROM t
			ORDER BY body <@> ('w1* w23~ +w2 -w4 \"w1 w2\"~9 w' || g) OFFSET 0) s",
	'scores without the index' => "SET enable_indexscan = off;
			SELECT count(*) FROM generate_series(1, 1000) g, t WHERE body <@> ('w1 w' || g) < 0",
	'an insert' =>
	  "INSERT INTO t SELECT 100000 + i, sentence(60) FROM generate_series(1, 1000000) i",
	'an insert of a huge document' =>
	  "INSERT INTO t SELECT 200000, string_agg('word' || i, ' ')
		FROM generate_series(1, 3000000) i",
	'rag_check_index' => "SELECT count(*) FROM generate_series(1, 10000) g,
			LATERAL rag_check_index(('t_body' || left(g::text, 0))::regclass)",
	'merges' => "DO \$\$ BEGIN FOR i IN 1..100000 LOOP INSERT INTO t VALUES (300000 + i, 'word');
			PERFORM rag_bm25_merge('t_body'); END LOOP; END \$\$",
	'vacuum' => "SET vacuum_cost_delay = '100ms'; SET vacuum_cost_limit = 1; VACUUM t");
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 4 = 0');
for my $what (sort keys %call)
{
	error_like(
		run_sql($node, "SET statement_timeout = '200ms'; $call{$what}"),
		'57014', 'statement timeout',
		undef, "$what can time out");
	my ($session, $backend) = start_work($call{$what});
	ask($node, "SELECT pg_cancel_backend($backend)");
	error_like($session->finish, '57014', 'user request', undef, "$what can be cancelled");
}
index_is_correct($node, 't', 'the index is correct after cancelled statements');
$node->safe_psql('postgres', 'VACUUM t');
$node->safe_psql('postgres', "SELECT rag_bm25_merge('t_body')");
is($node->safe_psql('postgres', "SELECT documents, segments, deleted FROM rag_bm25_info('t_body')"),
	'9000|1|0', 'the index contains all rows after cancelled statements');
index_is_correct($node, 't', 'the index is correct after cancelled statements, vacuum and a merge');
same_cluster($witness, 'cancelled statements');

# -- memory
# ----------------------------------------

# An allocation of PostgreSQL's that fails may end the session.
sub more_and_more { return with_more_and_more($node, @_, may_end => 1) }

$node->safe_psql('postgres', 'DROP INDEX t_body');
cmp_ok(
	more_and_more("SET maintenance_work_mem = '1GB'; $create", 2_000_000, 'a build'),
	'>', 0, 'a build without enough memory');
my $scan = "SET enable_seqscan = off; SET enable_sort = off; SET work_mem = '1GB';
	SELECT count(*) FROM (SELECT id FROM t ORDER BY body <@> 'w1 w2 w3 w4 w5' OFFSET 0) s";
more_and_more($scan, 200_000, 'a search to its end');
$scan =~ s/'w1 w2 w3 w4 w5'/'w1* w22~ +w2 -w3 -"w1 w4"'/;
more_and_more($scan, 200_000, 'a search with clauses');
more_and_more("SELECT * FROM rag_check_index('t_body')", 100_000, 'a check');
more_and_more(
	"INSERT INTO t SELECT 500000, string_agg('word' || i, ' ') FROM generate_series(1, 200000) i",
	6_000_000, 'an insert of a huge document');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 3 = 0');
more_and_more('VACUUM (PARALLEL 0) t', 200_000, 'a vacuum');
more_and_more("SELECT rag_bm25_merge('t_body')", 200_000, 'a merge');
index_is_correct($node, 't', 'the index is correct after statements without enough memory');
same_cluster($witness, 'statements without enough memory');

$node->stop;
done_testing();
