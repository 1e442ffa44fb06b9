# No run is started twice: by many sessions at once, and by two schedulers of one database.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagWorkers;

my $node = rag_node('two_schedulers', scheduler => 1, conf => <<CONF);
max_worker_processes = 20
rag.retry_delay = 100ms
rag.lock_timeout = 10min
rag.successful_runs_history_limit = 1000
rag.failed_runs_history_limit = 1000
log_line_prefix = '%m [%p] %b %d '
CONF
my $small = write_documents(temp_folder(), 1, 1, 'small');
$node->safe_psql('postgres', "SELECT rag_create_collection('aside')");

subtest 'no run starts twice' => sub {
	my @names = qw(one two);
	my $run = join "\n", '\set ON_ERROR_STOP 0',
	  map { "SELECT rag_sync('$_'); SELECT rag_sync('$_', wait => false);" } (@names) x 6;
	$node->safe_psql(
		'postgres',
		qq{SELECT rag_create_source('$_', 'folder', '{"path": "$small"}', 'aside',
		schedule => '\@every 1s')}
	) for @names;
	my @sessions = map { start_sql($node, $run) } 1 .. 4;
	# the launcher is started and ended meanwhile
	for (1 .. 2)
	{
		my $pid = worker($node, 'launcher');
		ask($node, "SELECT pg_terminate_backend($pid)");
		await('there is another launcher', sub { !is_running($pid) && worker($node, 'launcher') });
		cmp_ok(
			ask($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag scheduler'"
			),
			'<=', '1',
			'at most one scheduler is running');
	}
	my @other = grep { $_->{err} =~ /ERROR:  (?!55006)/ } map { $_->finish } @sessions;
	is(scalar @other, 0, 'rejected sessions report only that the source is busy')
	  or diag($other[0]{err});
	for my $name (@names)
	{
		await_true(
			$node,
			'postgres',
			"count(*) > 1 FROM rag.runs WHERE source = '$name' AND trigger = 'schedule' AND phase "
			  . "= 'Completed'",
			"$name runs by its schedule");
		suspend_and_end_runs($node, 'postgres', $name);
	}
	all_runs_ended($node, 'postgres', 'no run is active after concurrent requests');
	runs_are_consistent($node, 'postgres', 'many that ask at once');
	is( $node->safe_psql(
			'postgres',
			"SELECT count(*) FROM rag.runs WHERE source IN ('one', 'two') AND phase = 'Failed'"),
		'0',
		'no concurrent request has failed');
};

subtest 'two schedulers of one database' => sub {
	my @names = map { "each-$_" } 1 .. 4;
	$node->safe_psql(
		'postgres',
		qq{SELECT rag_create_source('$_', 'folder', '{"path": "$small"}', 'aside',
		schedule => '\@every 1s')}
	) for @names;
	$node->safe_psql('postgres', 'CREATE DATABASE second');
	my $schedulers = sub {
		ask($node,
				"SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE "
			  . "backend_type = 'rag scheduler' AND datname = 'postgres' AND ($_[0])");
	};
	my $end = sub {
		my ($pid) = @_;
		ask($node, "SELECT pg_terminate_backend($pid)");
		await("process $pid ends", sub { !is_running($pid) });
	};

	# a frozen scheduler is not replaced by a launcher that has not started it
	my $first = worker($node, 'scheduler', 'postgres');
	freeze_asleep($first);
	$end->(worker($node, 'launcher'));
	$node->safe_psql('second', 'CREATE EXTENSION rag');
	await_true($node, 'second', 'rag_internal.has_scheduler()',
		'a new launcher starts schedulers of other databases');
	is($schedulers->('true'), $first, 'a new launcher does not replace a frozen scheduler');
	is( ask($node, "SELECT count(*) FROM pg_locks WHERE pid = $first AND granted
			AND locktype = 'advisory' AND objsubid = 3
			AND classid::bigint = rag_internal.scheduler_lock_key()"),
		'1',
		'a scheduler holds the lock that rag_internal.scheduler_lock_key() identifies');
	thaw($first);

	# two schedulers start before either is known: both wait for the check that the extension exists
	my $gate = session($node);
	$gate->query('BEGIN; LOCK TABLE pg_extension IN ACCESS EXCLUSIVE MODE');
	$end->($first);
	my $second = await('another one begins', sub { $schedulers->("wait_event_type = 'Lock'") });
	$end->(worker($node, 'launcher'));
	my $both = await('a second scheduler, of a launcher that does not know the first',
		sub { my $found = $schedulers->("wait_event_type = 'Lock'"); $found =~ / / && $found });
	like($both, qr/^(?:$second \d+|\d+ $second)$/, 'two schedulers of one database can start');
	my $before = ask($node, 'SELECT max(run_id) FROM rag_internal.run');
	$gate->query('COMMIT');
	await('one of them ends', sub { $schedulers->('true') !~ / / });

	for my $name (@names)
	{
		await_true(
			$node,
			'postgres',
			"count(*) > 1 FROM rag.runs WHERE run_id > $before AND source = '$name' AND phase = "
			  . "'Completed'",
			"$name runs by its schedule with two schedulers");
		suspend_and_end_runs($node, 'postgres', $name);
	}
	all_runs_ended($node, 'postgres', 'no run is active after two schedulers ran');
	runs_are_consistent($node, 'postgres', 'two schedulers');
	is( $node->safe_psql(
			'postgres',
			"SELECT count(*) FROM rag.runs WHERE source LIKE 'each-%' AND phase = 'Failed'"),
		'0',
		'no run has failed with two schedulers');
	$node->safe_psql('postgres', 'DROP DATABASE second');
};

$node->stop;
is_deeply([ engines($node) ], [], 'no engine is running after the server stopped');
done_testing();
