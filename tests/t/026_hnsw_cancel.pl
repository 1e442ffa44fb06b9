# Long statements can be cancelled, timed out and terminated. The server and other sessions are
# undisturbed, and nothing is left behind.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

my $node = hnsw_node('cancel');
$node->safe_psql(
	'postgres',
	"CREATE TABLE t (id int PRIMARY KEY, v rag_types.vector); SELECT setseed(0.2);
		INSERT INTO t SELECT i, point(64) FROM generate_series(1, 10000) i"
);
my $witness = witness($node);

# -- builds: in each phase that takes long, with one thread and two
# -------------------------------------------------------

my $create =
  "CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops) WITH (m = 40, ef_construction = 1000)";
my %build = (
	'linking vectors' => $create,
	'linking' => "SET max_parallel_maintenance_workers = 0; $create",
	'inserting what does not fit' =>
	  "SET client_min_messages = error; SET maintenance_work_mem = '1MB'; $create");
my %end = (
	pg_cancel_backend => [ '57014', 'canceling statement due to user request' ],
	pg_terminate_backend => [ '57P01', 'terminating connection due to administrator command' ]);
for my $phase (sort keys %build)
{
	for my $function (sort keys %end)
	{
		my $session = start_sql($node, $build{$phase});
		my $pid = await_phase($session, 'create_index', $phase);
		thaw($pid);
		is(ask($node, "SELECT $function($pid)"), 't', "$function succeeds while a build is $phase");
		error_like($session->finish, $end{$function}->@*, undef,
			"$function ends a build that is $phase");
		await('the backend of the build has ended', sub { !is_running($pid) });
		is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class WHERE relname = 't_v'"),
			'0', "a build ended by $function leaves no index ($phase)");
	}
	my $result = run_sql($node, "SET statement_timeout = '300ms'; $build{$phase}");
	error_like($result, '57014', 'canceling statement due to statement timeout',
		undef, "a build is ended by statement_timeout ($phase)");
}
my $concurrent = start_sql($node, $create =~ s/INDEX/INDEX CONCURRENTLY/r);
my $pid = await_phase($concurrent, 'create_index', 'linking vectors');
thaw($pid);
ask($node, "SELECT pg_cancel_backend($pid)");
error_like($concurrent->finish, '57014', 'user request', undef,
	'CREATE INDEX CONCURRENTLY is cancelled');
is( $node->safe_psql(
		'postgres', "SELECT indisvalid FROM pg_index WHERE indexrelid = 't_v'::regclass"),
	'f',
	'a cancelled CREATE INDEX CONCURRENTLY leaves an invalid index');
$node->safe_psql('postgres', 'REINDEX INDEX t_v; DROP INDEX t_v');

# -- scans, inserts, vacuum, check
# ----------------------------------------

$node->safe_psql('postgres', 'CREATE INDEX t_v ON t USING rag_hnsw (v vector_l2_ops)');
index_is_correct($node, 't', 'CREATE INDEX succeeds after cancelled builds');

# each takes long and spends much of the time in the index
my %call = (
	'a sweep' => "SET enable_sort = off; SET enable_seqscan = off;
			SELECT count(*) FROM generate_series(1, 10000) g,
		LATERAL (SELECT id FROM t ORDER BY v <-> (SELECT v FROM query WHERE dimensions = 64
		AND g > 0 LIMIT 1) OFFSET 0) s",
	'a sweep for rows that are not there' => "SET enable_sort = off; SET enable_seqscan = off;
			SELECT count(*) FROM generate_series(1, 10000) g,
		LATERAL (SELECT id FROM t WHERE id < -g ORDER BY v <-> (SELECT v FROM query
		WHERE dimensions = 64 LIMIT 1) LIMIT 1) s",
	'an insert' => "INSERT INTO t SELECT 100000 + i, point(64) FROM generate_series(1, 1000000) i",
	'rag_check_index' => "SELECT count(*) FROM generate_series(1, 10000) g,
			LATERAL rag_check_index(('t_v' || left(g::text, 0))::regclass)",
	'rag_hnsw_recall' => "SELECT count(*) FROM rag_hnsw_recall('t_v', 10000, 100)",
	'vacuum' => "SET vacuum_cost_delay = '100ms'; SET vacuum_cost_limit = 1; VACUUM t");
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 4 = 0');
for my $what (sort keys %call)
{
	error_like(
		run_sql($node, "SET statement_timeout = '200ms'; $call{$what}"),
		'57014', 'statement timeout',
		undef, "$what can time out");
	my $session = start_sql($node, $call{$what});
	my $backend = $session->backend;
	# a cancel between two statements has no effect
	await(
		"$what has begun",
		sub {
			ask($node,
				"SELECT state = 'active' AND query !~ '^SET' FROM pg_stat_activity
					WHERE pid = $backend"
			) eq 't';
		});
	ask($node, "SELECT pg_cancel_backend($backend)");
	error_like($session->finish, '57014', 'user request', undef, "$what can be cancelled");
}
index_is_correct($node, 't', 'the index is correct after cancelled statements');
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', "SELECT vectors FROM rag_hnsw_info('t_v')"),
	'7500', 'the index contains all rows after cancelled statements');
index_is_correct($node, 't', 'the index is correct after cancelled statements and vacuum');

# vacuum is cancelled during its repair
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 4 = 1');
my $vacuum =
  start_sql($node, "SET vacuum_cost_delay = '20ms'; SET vacuum_cost_limit = 100; VACUUM t");
$pid = await_phase($vacuum, 'vacuum', 'cleaning up indexes');
thaw($pid);
ask($node, "SELECT pg_cancel_backend($pid)");
error_like($vacuum->finish, '57014', 'user request', undef,
	'vacuum can be cancelled while it repairs the graph');
index_is_correct($node, 't', 'the index is correct after a cancelled vacuum');
$node->safe_psql('postgres', 'VACUUM t');
is($node->safe_psql('postgres', "SELECT vectors, tombstones FROM rag_hnsw_info('t_v')"),
	'5000|0', 'the next vacuum completes the repair');
index_is_correct($node, 't', 'the index is correct after the repair');
same_cluster($witness, 'cancelled statements');

$node->stop;
done_testing();
