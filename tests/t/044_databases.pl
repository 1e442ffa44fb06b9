# Databases and extensions are created, changed and dropped while schedulers and runs are active.
# And a server without free background workers.
use strict;
use warnings;
use IPC::Run ();
use Test::More;
use RagCluster;
use RagHold ();
use RagTest ();
use RagWorkers;

my $node = rag_node('databases', scheduler => 1, conf => <<CONF);
max_worker_processes = 24
max_prepared_transactions = 5
rag.max_running_syncs = 4
rag.retry_delay = 100ms
rag.allowed_private_hosts = '127.0.0.1'
CONF
my $folder = write_documents(temp_folder(), 30, 8);
my $between = RagHold::files_between_pages($folder);
my $small = write_documents(temp_folder(), 2, 1, 'small');

sub run_in { return $node->safe_psql(@_) }

sub create_source
{
	my ($database, $name, $path, $more) = @_;
	$more //= '';
	run_in($database, qq{SELECT rag_create_source('$name', 'folder', '{"path": "$path"}'$more)});
	return;
}

# Creates a source that can be held during its run.
sub create_held
{
	my ($database, $name, $more) = @_;
	$more //= '';
	run_in($database, "SELECT rag_create_source('$name', 'static', '$between'$more)");
	return;
}

# Creates a database whose source "docs" is being synced by a frozen engine. Returns the engine.
sub database_at_work
{
	my ($name) = @_;
	run_in('postgres', "CREATE DATABASE $name");
	run_in($name, 'CREATE EXTENSION rag');
	return frozen_run(sub { create_held($name, 'docs') });
}

# Starts a run and stops its engine before it has read anything. Returns the engine.
sub frozen_run
{
	my ($begin) = @_;
	RagHold::hold('first');
	$begin->();
	RagHold::await_request('first');
	my $engine = engine_pid($node, 'ingest');
	freeze($engine);
	return $engine;
}

# Lets a stopped run continue.
sub go_on
{
	my ($engine) = @_;
	RagHold::release('first');
	return thaw($engine);
}

sub is_synced
{
	my ($database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	await_true(
		$node,
		$database,
		"bool_and(phase = 'Completed') AND NOT EXISTS (SELECT FROM rag_internal.run
		WHERE phase IN ('Pending', 'Running')) FROM rag.sources",
		"$name: the sources are synced");
	return runs_are_consistent($node, $database, $name);
}

create_held('postgres', 'docs');
await_true($node, 'postgres', "phase = 'Completed' FROM rag.sources", 'a source is synced');
my $clean = stored($node);

for my $how ('DROP DATABASE gone', 'DROP DATABASE gone WITH (FORCE)')
{
	subtest $how => sub {
		my $engine = database_at_work('gone');
		my $result = run_sql($node, $how);
		is($result->{rc}, 0, 'a database can be dropped during a run') or diag($result->{err});
		await('the engine of its run ends', sub { !is_running($engine) });
		RagHold::release('first');
		await_scheduled($node, 'postgres', 'no worker of a dropped database remains');
		is_deeply([ engines($node, 'ingest') ], [], 'no engine of a dropped database remains');
		is_deeply([ glob $node->data_dir . '/pg_rag/work/*' ],
			[], 'no folder of the run of a dropped database remains');
	};
}

subtest 'DROP DATABASE while texts are being embedded' => sub {
	my $ingest = database_at_work('gone');
	my $embed = engine_pid($node, 'embed');
	freeze($embed);
	go_on($ingest);
	# a runner that waits for its source checks the time each second; one that waits for the engine
	# does not
	await_asleep(worker($node, 'runner', 'gone'), 1.5);
	is(run_sql($node, 'DROP DATABASE gone')->{rc},
		0, 'a database can be dropped while texts are embedded');
	thaw($embed);
	await_scheduled($node, 'postgres', 'no worker of the database remains after DROP DATABASE');
};

subtest 'ALTER DATABASE RENAME' => sub {
	my $engine = database_at_work('before');
	my $result = run_sql($node, 'ALTER DATABASE before RENAME TO after');
	is($result->{rc}, 0, 'a database can be renamed during a run') or diag($result->{err});
	ok(RagTest::wait_until(sub { !is_running($engine) }), 'the run in a renamed database ended');
	RagHold::release('first');
	is_synced('after', 'renamed');
	is( run_in('after', "SELECT errors -> 0 ->> 'sqlstate' FROM rag.runs ORDER BY run_id LIMIT 1"),
		'57P01',
		'the interrupted run in a renamed database records the reason');
	is(stored($node, 'default', 'after'),
		$clean, 'the interrupted run in a renamed database is completed by a retry');
	await_scheduled($node, 'after postgres', 'a renamed database has a scheduler');
};

subtest 'CREATE DATABASE with a template that is busy' => sub {
	run_in('after', "SELECT rag_create_collection('more')");
	frozen_run(sub { create_held('after', 'more', ", 'more'") });
	my $result = run_sql($node, 'CREATE DATABASE copy TEMPLATE after');
	is($result->{rc}, 0, 'a database with a run in progress can be copied') or diag($result->{err});
	RagHold::release('first');
	for my $database (qw(after copy))
	{
		is_synced($database, $database);
		is(stored($node, 'default', $database), $clean, "$database: all documents exist");
		is(run_in($database, "SELECT count(*) FROM rag.documents WHERE collection = 'more'"),
			'32', "$database: interrupted runs are completed");
	}
	await_scheduled($node, 'after copy postgres', 'copy and template have schedulers');
	my $again = run_sql($node, join ';',
		map { "DROP DATABASE copy;\nCREATE DATABASE copy TEMPLATE after" } 1 .. 4);
	is($again->{rc}, 0, 'a database can be copied several times during runs')
	  or diag($again->{err});
	await_scheduled($node, 'after copy postgres', 'copies have schedulers soon');
	run_in('postgres', 'DROP DATABASE copy');
};

subtest 'roles without privileges cannot stop workers' => sub {
	run_in('after', 'DELETE FROM rag.chunks; DELETE FROM rag.documents');
	my $engine = frozen_run(sub { run_in('after', "SELECT rag_sync('docs', wait => false)") });
	my $before = worker($node, 'runner', 'after');
	run_in('postgres', 'CREATE ROLE plain LOGIN CREATEDB');
	for my $command (
		'DROP DATABASE after',
		'ALTER DATABASE after RENAME TO other',
		'CREATE DATABASE other TEMPLATE after',
		'ALTER DATABASE after SET TABLESPACE pg_default')
	{
		error_like(
			run_sql($node, $command, user => 'plain'),
			'42501', 'must be owner|permission denied',
			undef, "$command is rejected");
	}
	error_like(
		run_sql($node, 'DROP EXTENSION rag', user => 'plain', database => 'after'),
		'42501', 'must be owner',
		undef, 'DROP EXTENSION is rejected for a role without privileges');
	is(worker($node, 'runner', 'after'),
		$before, 'the worker is not disturbed by rejected commands');
	go_on($engine);
	is_synced('after', 'afterwards');
};

subtest 'DROP EXTENSION' => sub {
	run_in('after', 'DELETE FROM rag.chunks; DELETE FROM rag.documents');
	my $engine = frozen_run(sub { run_in('after', "SELECT rag_sync('docs', wait => false)") });
	error_like(
		run_sql($node, 'DROP SCHEMA rag CASCADE', database => 'after'),
		'2BP01', 'extension rag requires it',
		undef, 'DROP SCHEMA rag is refused');
	ok(is_running($engine), 'a rejected DROP EXTENSION disturbs no run');
	# both in one transaction: the new extension is not taken for the old one
	my $result = run_sql(
		$node, "BEGIN; DROP EXTENSION rag CASCADE; CREATE EXTENSION rag; COMMIT;
		SELECT rag_create_source('docs', 'folder', '{\"path\": \"$small\"}')", database => 'after');
	is($result->{rc}, 0, 'the extension can be dropped and created again during a run')
	  or diag($result->{err});
	await('the engine of the run ends', sub { !is_running($engine) });
	RagHold::release('first');
	is_synced('after', 'a source of the same name can be created');
	is(run_in('after', "SELECT count(*), min(phase), min(documents_added) FROM rag.runs"),
		'1|Completed|2', 'the new source has no documents of the old one');
	for (1 .. 5)
	{
		run_in('after', 'DROP EXTENSION rag CASCADE');
		run_in('after', 'CREATE EXTENSION rag');
	}
	await_scheduled(
		$node,
		'after postgres',
		'a scheduler is running soon after several DROP and CREATE EXTENSION');
	run_in('after', 'DROP EXTENSION rag CASCADE');
	await_scheduled($node, 'postgres', 'no scheduler is running without the extension');
	run_in('after', 'BEGIN; CREATE EXTENSION rag; ROLLBACK');
	run_in('after', "BEGIN; CREATE EXTENSION rag; PREPARE TRANSACTION 'extension'");
	run_in('after', "COMMIT PREPARED 'extension'");
	await_scheduled($node, 'after postgres', 'a scheduler is started after COMMIT PREPARED');
};

subtest 'databases without connections, and templates' => sub {
	run_in('postgres', 'ALTER DATABASE after ALLOW_CONNECTIONS false');
	await_scheduled($node, 'postgres',
		'no scheduler runs in a database that allows no connections');
	run_in('postgres', 'ALTER DATABASE after ALLOW_CONNECTIONS true');
	await_scheduled($node, 'after postgres', 'a scheduler runs again when connections are allowed');
	run_in('postgres', 'ALTER DATABASE after IS_TEMPLATE true');
	await_scheduled($node, 'postgres', 'no scheduler runs in a template');
	run_in('postgres', 'ALTER DATABASE after IS_TEMPLATE false; DROP DATABASE after');
	run_in('template1', 'CREATE EXTENSION rag');
	run_in('postgres', 'CREATE DATABASE born');
	await_scheduled(
		$node,
		'born postgres',
		'a copy of a template with the extension has a scheduler');
	create_source('born', 'docs', $small);
	is_synced('born', 'there');
	run_in('template1', 'DROP EXTENSION rag');
	run_in('postgres', 'DROP DATABASE born');
};

subtest 'pg_restore while a scheduler is running' => sub {
	run_in('postgres', 'CREATE DATABASE origin');
	run_in('origin', 'CREATE EXTENSION rag');
	run_in('origin', "SELECT rag_create_collection(c) FROM unnest('{empty,failing}'::text[]) AS c");
	create_source('origin', 'often', $folder, q{, schedule => '@every 1s'});
	create_source('origin', 'failing', "$small/not-there", q{, 'failing', schedule => '@every 1s'});
	create_source('origin', 'empty', temp_folder(), q{, 'empty', schedule => '@every 1s'});
	await_true(
		$node,
		'origin',
		"count(*) = 3 FROM (SELECT source FROM rag.runs WHERE phase <> 'Pending' GROUP BY source
		HAVING count(*) > 1) r",
		'many runs have completed');
	my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
	my $file = temp_folder() . '/dump';
	my ($out, $err);
	is( IPC::Run::run(
			[ 'pg_dump', @connect, '--format=custom', '--file', $file, 'origin' ],
			'>', \$out, '2>', \$err),
		1,
		'pg_dump succeeds') or diag($err);
	run_in('postgres', 'DROP DATABASE origin');

	for my $n (1 .. 3)
	{
		run_in('postgres', 'CREATE DATABASE restored TEMPLATE template0');
		my @restore = ('pg_restore', @connect, '--exit-on-error', '--dbname', 'restored', $file);
		is(IPC::Run::run(\@restore, '>', \$out, '2>', \$err), 1, "pg_restore succeeds: $n")
		  or diag($err);
		my $last = run_in('restored', 'SELECT last_value FROM rag_internal.run_id');
		await_true(
			$node,
			'restored',
			"count(*) = 3 FROM (SELECT source FROM rag.runs WHERE run_id > $last
			AND trigger = 'schedule' AND phase IN ('Completed', 'Failed') GROUP BY source) r",
			"schedules run in the restored database: $n");
		run_in('postgres', 'DROP DATABASE restored');
	}
};

$node->stop;
ok(await('nothing is left of the server', sub { !server_processes($node) }),
	'no process remains after DROP DATABASE');

# -- room for two runners beside supervisor, launcher, the launcher of logical replication and one
# scheduler
my $narrow = rag_node('narrow', scheduler => 1, conf => <<CONF);
max_worker_processes = 6
max_parallel_workers = 0
rag.max_running_syncs = 10
rag.retry_delay = 100ms
rag.allowed_private_hosts = '127.0.0.1'
CONF

subtest 'no free background worker' => sub {
	my $sources = join ';', map {
		qq{SELECT rag_create_collection('docs$_');
		SELECT rag_create_source('docs$_', 'static', '$between', 'docs$_', suspend => true)}
	} 1 .. 4;
	$narrow->safe_psql('postgres', $sources);
	RagHold::hold('first');
	my @engines;
	for my $n (1, 2)
	{
		$narrow->safe_psql('postgres', "SELECT rag_sync('docs$n', wait => false)");
		push @engines, await(
			'an engine runs',
			sub {
				my %frozen = map { $_ => 1 } @engines;
				(grep { !$frozen{$_} } engines($narrow, 'ingest'))[0];
			});
		freeze($engines[-1]);
	}
	$narrow->safe_psql('postgres', "SELECT rag_sync('docs$_', wait => false)") for 3, 4;
	await_true(
		$narrow, 'postgres',
		"count(*) = 2 FROM rag.runs WHERE phase = 'Pending' AND waiting ~ 'all slots are in use'",
		'queued runs report that no worker is free');
	$narrow->safe_psql('postgres', 'CREATE DATABASE second');
	$narrow->safe_psql('second',
		"CREATE EXTENSION rag; SELECT rag_create_source('docs', 'folder', '{\"path\": \"$small\"}')"
	);
	my $complaint = 'WARNING:  rag: (?:runs wait|sources of a database are not synced)';
	await('the log says so', sub { log_lines($narrow, $complaint) });
	await_true(
		$narrow, 'second',
		"rag.why_idle() ~ 'max_worker_processes'",
		'the other database reports max_worker_processes');

	# some rounds of later attempts
	my $launcher = worker($narrow, 'launcher');
	my ($ticks, $lines, $complaints) =
	  (cpu_ticks($launcher), log_lines($narrow, ''), log_lines($narrow, $complaint));
	select undef, undef, undef, 0.1 for 1 .. 40;
	cmp_ok(log_lines($narrow, $complaint) - $complaints,
		'<=', 1, 'the log contains the warning at most once per minute');
	is(worker($narrow, 'launcher'), $launcher, 'the launcher is not restarted');
	cmp_ok(log_lines($narrow, '') - $lines, '<', 20, 'the log does not fill');
	cmp_ok(cpu_ticks($launcher) - $ticks, '<', 20, 'no process uses the processor while waiting');

	RagHold::release('first');
	thaw(@engines);
	await_true(
		$narrow, 'postgres',
		"bool_and(phase = 'Completed') AND count(*) = 4 FROM rag.runs",
		'queued runs start when a worker is free');
	await_true(
		$narrow, 'second',
		"bool_and(phase = 'Completed') AND count(*) = 1 FROM rag.runs",
		'the other database gets a scheduler when a worker is free');
	runs_are_consistent($narrow, 'postgres', 'exhausted');
};

$narrow->stop;
done_testing();
