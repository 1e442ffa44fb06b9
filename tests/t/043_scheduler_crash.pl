# Runner, scheduler, launcher, engine and server end during runs. No run stays Running, the next one
# finishes the work automatically, and no run is started twice.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use RagCluster;
use RagHold ();
use RagTest ();
use RagWorkers;

my $node = rag_node('scheduler_crash', scheduler => 1, conf => <<CONF);
max_worker_processes = 20
rag.retry_delay = 100ms
rag.lock_timeout = 10min
rag.successful_runs_history_limit = 1000
rag.failed_runs_history_limit = 1000
rag.allowed_private_hosts = '127.0.0.1'
restart_after_crash = on
log_line_prefix = '%m [%p] %b %d '
CONF
# more than the batches of texts that are embedded before the first one is stored
my $spec = RagHold::files_between_pages(write_documents(temp_folder(), 50, 8));
my $small = write_documents(temp_folder(), 1, 1, 'small');

$node->safe_psql('postgres', "SELECT rag_create_source('docs', 'static', '$spec')");
await_true(
	$node, 'postgres',
	"phase = 'Completed' FROM rag.sources WHERE name = 'docs'",
	'a new source is synced automatically');
my $clean = stored($node);
like($clean, qr/\A0\n0\n52\|\w+\n402\|/,
	'the first run stores all documents with all their chunks');
$node->safe_psql('postgres', "SELECT rag_create_collection('aside')");
create_folder_source($node, 'other', $small, 'aside');
await_true(
	$node, 'postgres',
	"phase = 'Completed' FROM rag.sources WHERE name = 'other'",
	'a second new source is synced automatically');

# -- each phase of a run, and how a run is held in it
my $locked;
my %hold = (
	queued => sub {
		configure($node, 'rag.max_running_syncs', 1);
		my $engine = frozen_ingest();
		$node->safe_psql('postgres', "SELECT rag_sync('other', wait => false)");
		await(
			'the run is queued',
			sub {
				ask($node,
					"SELECT waiting ~ 'max_running_syncs' FROM rag.runs WHERE phase = 'Pending'")
				  eq 't';
			});
		return $engine;
	},
	fetching => sub { return frozen_ingest() },
	embedding => sub {
		begin_to_read();
		my $embed = engine_pid($node, 'embed');
		freeze($embed);
		RagHold::release('first');
		# a runner that waits for its source checks the time each second; one that waits for the
		# engine does not
		await_asleep(worker($node, 'runner'), 1.5);
		return $embed;
	},
	storing => sub {
		$locked = session($node);
		$locked->query('BEGIN; LOCK TABLE rag.chunks IN SHARE MODE; SELECT 1');
		begin_to_read();
		RagHold::release('first');
		await(
			'the run waits for the lock',
			sub {
				ask($node,
					"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'
					AND wait_event_type = 'Lock'"
				);
			});
		return;
	});

# Starts a run of "docs", whose engine requests the first page.
sub begin_to_read
{
	RagHold::hold($_) for qw(first last);
	$node->safe_psql('postgres', "SELECT rag_sync('docs', wait => false)");
	return RagHold::await_request('first');
}

sub frozen_ingest
{
	begin_to_read();
	my $engine = engine_pid($node, 'ingest');
	freeze($engine);
	return $engine;
}

# Brings a run of "docs" that has everything to do into a phase. Returns a text for messages and the
# engine that was frozen.
sub hold
{
	my ($phase) = @_;
	all_runs_ended($node, 'postgres', "no run is active before a run is held in the phase $phase");
	forget_collection($node);
	my $frozen = $hold{$phase}->();
	return ($phase, $frozen);
}

sub release
{
	my ($frozen) = @_;
	RagHold::release(qw(first last));
	thaw($frozen) if $frozen && is_running($frozen);
	undef $locked;
	configure($node, 'rag.max_running_syncs')
	  if $node->safe_psql('postgres', 'SHOW rag.max_running_syncs') ne '2';
	return;
}

# What must be true in the end, whatever was killed.
sub is_well
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	await_true(
		$node,
		'postgres',
		"bool_and(phase = 'Completed') AND NOT EXISTS (SELECT FROM rag.run
		WHERE phase IN ('Pending', 'Running')) FROM rag.sources WHERE name IN ('docs', 'other')",
		"$name: the work is completed automatically");
	is(stored($node), $clean, "$name: the stored documents are those of an undisturbed sync");
	runs_are_consistent($node, 'postgres', $name);
	await_scheduled($node, 'postgres', "$name: one launcher and no superfluous worker is running");
	return;
}

sub failed_as
{
	my ($sqlstate, $reason, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(
		ask($node,
			"SELECT count(*) > 0 FROM rag.runs WHERE run_id > $main::before AND source = 'docs'
			AND phase = 'Failed'
		AND errors -> 0 ->> 'sqlstate' = '$sqlstate' AND errors -> 0 ->> 'message' ~ '$reason'"),
		't',
		$name) || diag(status_of($node));
}

our $before = 0;
sub begin { return $before = ask($node, 'SELECT max(run_id) FROM rag.runs') }

# -- the engine is killed
for my $case (
	[ 'ingest', 'fetching', 'while reading the source' ],
	[ 'ingest', 'embedding', 'while reading the source' ],
	[ 'ingest', 'storing', 'while reading the source' ],
	[ 'embed', 'fetching', 'rag-engine' ],
	[ 'embed', 'embedding', 'rag-engine' ],
	# which has everything it needs by then, or not
	[ 'embed', 'storing', undef ])
{
	my ($kind, $phase, $reason) = @$case;
	subtest "SIGKILL of rag-engine $kind, $phase" => sub {
		begin();
		my $witness = witness($node);
		my (undef, $frozen) = hold($phase);
		my $engine = engine_pid($node, $kind);
		kill 'KILL', $engine;
		await('the engine has ended', sub { !is_running($engine) });
		release($frozen);
		is_well("rag-engine $kind, $phase");
		failed_as('08006', $reason, 'the interrupted run is Failed with SQLSTATE 08006')
		  if defined $reason;
		same_cluster($witness, "SIGKILL of rag-engine $kind");
	};
}

# -- a worker is terminated
for my $phase (qw(queued fetching embedding storing))
{
	for my $kind (qw(runner scheduler launcher))
	{
		subtest "pg_terminate_backend of the $kind, $phase" => sub {
			begin();
			my $witness = witness($node);
			my (undef, $frozen) = hold($phase);
			my $pid = worker($node, $kind);
			is(ask($node, "SELECT pg_terminate_backend($pid)"), 't', "the $kind can be terminated");
			await("the $kind ends", sub { !is_running($pid) });
			if ($kind eq 'runner')
			{
				# the retry may be held as well
				await_true(
					$node,
					'postgres',
					"count(*) = 1 FROM rag.runs WHERE run_id > $before AND source = 'docs' AND "
					  . "phase = 'Failed'",
					'the run of a terminated runner is Failed at once');
				failed_as(
					'57P01',
					'process ended before',
					'the run of a terminated runner has SQLSTATE 57P01');
				ok( RagTest::wait_until(sub { !is_running($frozen) }),
					'rag-engine ingest ends with its runner') if $phase eq 'fetching';
			}
			elsif ($kind eq 'launcher')
			{
				isnt(worker($node, 'launcher'), $pid, 'a new launcher is started');
			}
			else
			{
				isnt(worker($node, 'scheduler'), $pid, 'a new scheduler is started during the run');
				is(ask($node, 'SELECT count(*) FROM rag.progress'),
					'1', 'a new scheduler does not disturb the run');
			}
			release($frozen);
			is_well("$kind, $phase");
			is( ask($node,
					"SELECT count(*) FROM rag.runs WHERE run_id > $before AND phase = 'Failed'"),
				'0',
				'no run has failed') if $kind ne 'runner';
			same_cluster($witness, "the end of the $kind");
		};
	}
}

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
	schedule => '\@reboot')}
);
for my $case ((map { [ 'runner', $_ ] } qw(fetching embedding storing)),
	map { ([ 'scheduler', $_ ], [ 'launcher', $_ ]) } qw(queued fetching embedding storing))
{
	my ($kind, $phase) = @$case;
	subtest "SIGKILL of the $kind, $phase" => sub {
		begin();
		my (undef, $frozen) = hold($phase);
		my $pid = worker($node, $kind);
		kill 'KILL', $pid;
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
		schedule => '$minute * * * *')}
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
		"UPDATE rag.source SET next_run = now() - interval '10 hours' WHERE name = 'missed';
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
	my $pid = worker($node, 'scheduler');
	is(ask($node, "SELECT pg_terminate_backend($pid)"), 't', 'another scheduler');
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
	await_true($node, 'second', 'rag.has_scheduler()',
		'a new launcher starts schedulers of other databases');
	is($schedulers->('true'), $first, 'a new launcher does not replace a frozen scheduler');
	is( ask($node, "SELECT count(*) FROM pg_locks WHERE pid = $first AND granted
			AND locktype = 'advisory' AND objsubid = 3
			AND classid::bigint = rag.scheduler_lock_key()"),
		'1',
		'a scheduler holds the lock that rag.scheduler_lock_key() identifies');
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
	my $before = ask($node, 'SELECT max(run_id) FROM rag.run');
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
