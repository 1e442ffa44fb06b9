# Runner, scheduler, launcher and server are killed during each phase of a run. No run stays
# Running, and the next one finishes the work automatically.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHeldRuns;
use RagWorkers;

my ($node, $small) = held_runs_node('scheduler_crash');

# -- a process is killed, and the server restarts
sub restarted
{
	my ($pid, $name) = @_;
	await("$name ends", sub { !is_running($pid) });
	return await('the server works again', sub { run_sql($node, 'SELECT 1')->{out} eq '1' });
}

$node->safe_psql(
	'postgres',
	qq{SELECT rag_create_source('boot', 'folder', '{"path": "$small"}', 'aside',
	schedule => '\@reboot', suspend => true);
	SELECT rag_resume('boot')}
);
for my $case ((map { [ 'runner', $_ ] } qw(fetching embedding storing)),
	map { ([ 'scheduler', $_ ], [ 'launcher', $_ ]) } qw(queued fetching embedding storing))
{
	my ($kind, $phase) = @$case;
	subtest "SIGKILL of the $kind, $phase" => sub {
		begin();
		my (undef, $frozen) = hold($phase);
		my $pid = end_worker($node, $kind, sub { is_running(@_) && kill 'KILL', @_ });
		restarted($pid, "the $kind");
		release($frozen);
		is_well("SIGKILL of the $kind, $phase");
		failed_as(
			'57P01',
			'process ended before',
			'the run interrupted by SIGKILL is Failed with SQLSTATE 57P01');
		is($node->safe_psql('postgres', "SELECT count(*) FROM rag.runs WHERE source = 'boot'"),
			'0', 'a crash does not trigger @reboot');
	};
}

subtest 'SIGKILL of the postmaster' => sub {
	begin();
	# due ten hours ago when the server starts again, and each hour since; the next time is half an
	# hour away
	my $minute = $node->safe_psql('postgres', "SELECT extract(minute FROM now() + '30 min')");
	$node->safe_psql(
		'postgres',
		qq{SELECT rag_create_source('missed', 'folder', '{"path": "$small"}', 'aside',
		schedule => '$minute * * * *', suspend => true);
		SELECT rag_resume('missed')}
	);
	my (undef, $frozen) = hold('storing');
	$node->safe_psql('postgres', "ALTER SYSTEM SET rag.max_running_syncs = 1");
	configure($node, 'rag.scheduler', 'off');
	await(
		'the scheduler leaves',
		sub {
			!ask($node,
				"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag scheduler'");
		});
	$node->safe_psql(
		'postgres',
		"UPDATE rag_internal.source SET next_run = now() - interval '10 hours'
			WHERE name = 'missed';
		ALTER SYSTEM RESET rag.scheduler; SELECT pg_switch_wal()");
	$node->kill9;
	await('all processes of the server have ended', sub { !server_processes($node) });
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	$node->start;
	release($frozen);
	is_well('SIGKILL of the postmaster');
	failed_as(
		'57P01',
		'process ended before',
		'the run interrupted by SIGKILL of the postmaster is Failed with SQLSTATE 57P01');
	await_true(
		$node, 'postgres',
		"count(*) = 1 FROM rag.runs WHERE source = 'boot' AND phase = 'Completed'",
		'@reboot runs after a start of the server');
	await_true(
		$node,
		'postgres',
		"count(*) = 1 FROM rag.runs WHERE source = 'missed' AND phase = 'Completed' AND trigger = "
		  . "'schedule'",
		'a run missed while the server was down is made up for');
	is( $node->safe_psql(
			'postgres', "SELECT next_scheduled_run > now() FROM rag.sources WHERE name = 'missed'"),
		't', 'once');
	my $pid = end_worker($node, 'scheduler', sub { terminate($node, @_) });
	ok($pid, 'another scheduler');
	await("process $pid ends", sub { !is_running($pid) });
	my $run = $node->safe_psql('postgres', "SELECT rag_sync('missed', wait => false)");
	is($node->safe_psql('postgres', "SELECT rag_wait($run)"),
		'Completed', 'rag_sync works after the crash');
	is( $node->safe_psql(
			'postgres', "SELECT string_agg(source || ' ' || n, ', ' ORDER BY source) FROM (
		SELECT source, count(*) AS n FROM rag.runs WHERE source IN ('boot', 'missed')
		GROUP BY source) r"
		),
		'boot 1, missed 2',
		'neither @reboot nor the missed run runs a second time');
};

$node->stop;
is_deeply([ engines($node) ], [], 'no engine is running after the server stopped');
done_testing();
