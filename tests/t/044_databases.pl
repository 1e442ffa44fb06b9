# Databases and extensions that go, come and change under schedulers and runs; and a server without
# room for workers.
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

# One that can be held in the middle of its run.
sub create_held
{
	my ($database, $name, $more) = @_;
	$more //= '';
	run_in($database, "SELECT rag_create_source('$name', 'static', '$between'$more)");
	return;
}

# A database whose source "docs" is being synced by a frozen engine; gives the engine.
sub database_at_work
{
	my ($name) = @_;
	run_in('postgres', "CREATE DATABASE $name");
	run_in($name, 'CREATE EXTENSION rag');
	return frozen_run(sub { create_held($name, 'docs') });
}

# Has a run begin, and stops its engine before it has read anything; gives the engine.
sub frozen_run
{
	my ($begin) = @_;
	RagHold::hold('first');
	$begin->();
	RagHold::await_asked('first');
	my $engine = engine_pid($node, 'ingest');
	freeze($engine);
	return $engine;
}

# Lets a run go on that was stopped.
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
	await_true($node, $database, "bool_and(phase = 'Completed') AND NOT EXISTS (SELECT FROM rag.run WHERE phase IN ('Pending', 'Running')) FROM rag.sources",
		"$name: the sources are synced");
	return runs_are_sound($node, $database, $name);
}

create_held('postgres', 'docs');
await_true($node, 'postgres', "phase = 'Completed' FROM rag.sources", 'a source is synced');
my $clean = stored($node);

for my $how ('DROP DATABASE gone', 'DROP DATABASE gone WITH (FORCE)')
{
	subtest $how => sub {
		my $engine = database_at_work('gone');
		my $result = run_sql($node, $how);
		is($result->{rc}, 0, 'a database is dropped while it is at work') or diag($result->{err});
		await('the engine of its run ends', sub { !is_running($engine) });
		RagHold::release('first');
		await_kept($node, 'postgres', 'no worker of it is left');
		is_deeply([ engines($node, 'ingest') ], [], 'nor an engine');
		is_deeply([ glob $node->data_dir . '/pg_rag/work/*' ], [], 'nor a folder of its run');
	};
}

subtest 'DROP DATABASE while texts are being embedded' => sub {
	my $ingest = database_at_work('gone');
	my $embed = engine_pid($node, 'embed');
	freeze($embed);
	go_on($ingest);
	# where it waits for what is read it looks at the clock each second; where it waits for the engine
	# it does not
	await_asleep(worker($node, 'runner', 'gone'), 1.5);
	is(run_sql($node, 'DROP DATABASE gone')->{rc}, 0, 'it is dropped');
	thaw($embed);
	await_kept($node, 'postgres', 'no worker of it is left');
};

subtest 'ALTER DATABASE RENAME' => sub {
	my $engine = database_at_work('before');
	my $result = run_sql($node, 'ALTER DATABASE before RENAME TO after');
	is($result->{rc}, 0, 'a database is renamed while it is at work') or diag($result->{err});
	ok(RagTest::wait_until(sub { !is_running($engine) }), 'the run was ended');
	RagHold::release('first');
	is_synced('after', 'renamed');
	is(run_in('after', "SELECT errors -> 0 ->> 'sqlstate' FROM rag.runs ORDER BY run_id LIMIT 1"), '57P01', 'the run that was ended says so');
	is(stored($node, 'default', 'after'), $clean, 'and what it left was done');
	await_kept($node, 'after postgres', 'there is a scheduler');
};

subtest 'CREATE DATABASE with a template that is at work' => sub {
	run_in('after', "SELECT rag_create_collection('more')");
	frozen_run(sub { create_held('after', 'more', ", 'more'") });
	my $result = run_sql($node, 'CREATE DATABASE copy TEMPLATE after');
	is($result->{rc}, 0, 'it is copied') or diag($result->{err});
	RagHold::release('first');
	for my $database (qw(after copy))
	{
		is_synced($database, $database);
		is(stored($node, 'default', $database), $clean, "$database: all is there");
		is(run_in($database, "SELECT count(*) FROM rag.documents WHERE collection = 'more'"), '32', "$database: and all that was under way");
	}
	await_kept($node, 'after copy postgres', 'both have a scheduler');
	my $again = run_sql($node, join ';', map { "DROP DATABASE copy;\nCREATE DATABASE copy TEMPLATE after" } 1 .. 4);
	is($again->{rc}, 0, 'and again and again') or diag($again->{err});
	await_kept($node, 'after copy postgres', 'they have a scheduler soon after');
	run_in('postgres', 'DROP DATABASE copy');
};

subtest 'who has no rights evicts nobody' => sub {
	run_in('after', 'DELETE FROM rag.chunks; DELETE FROM rag.documents');
	my $engine = frozen_run(sub { run_in('after', "SELECT rag_sync('docs', wait => false)") });
	my $before = worker($node, 'runner', 'after');
	run_in('postgres', 'CREATE ROLE plain LOGIN CREATEDB');
	for my $command ('DROP DATABASE after', 'ALTER DATABASE after RENAME TO other', 'CREATE DATABASE other TEMPLATE after', 'ALTER DATABASE after SET TABLESPACE pg_default')
	{
		error_like(run_sql($node, $command, user => 'plain'), '42501', 'must be owner|permission denied', undef, "$command is refused");
	}
	error_like(run_sql($node, 'DROP EXTENSION rag', user => 'plain', database => 'after'), '42501', 'must be owner', undef, 'so is DROP EXTENSION');
	is(worker($node, 'runner', 'after'), $before, 'its worker is where it was');
	go_on($engine);
	is_synced('after', 'afterwards');
};

subtest 'DROP EXTENSION' => sub {
	run_in('after', 'DELETE FROM rag.chunks; DELETE FROM rag.documents');
	my $engine = frozen_run(sub { run_in('after', "SELECT rag_sync('docs', wait => false)") });
	error_like(run_sql($node, 'DROP SCHEMA rag CASCADE', database => 'after'), '2BP01', 'extension rag requires it', undef, 'DROP SCHEMA rag is refused');
	ok(is_running($engine), 'which disturbs no run');
	# both of them in one transaction: the new one is not mistaken for the old one
	my $result = run_sql($node, "BEGIN; DROP EXTENSION rag CASCADE; CREATE EXTENSION rag; COMMIT;
		SELECT rag_create_source('docs', 'folder', '{\"path\": \"$small\"}')", database => 'after');
	is($result->{rc}, 0, 'the extension is dropped and made again while it is at work') or diag($result->{err});
	await('the engine of the run ends', sub { !is_running($engine) });
	RagHold::release('first');
	is_synced('after', 'a source of the same name');
	is(run_in('after', "SELECT count(*), min(phase), min(documents_added) FROM rag.runs"), '1|Completed|2', 'knows nothing of the old one');
	for (1 .. 5)
	{
		run_in('after', 'DROP EXTENSION rag CASCADE');
		run_in('after', 'CREATE EXTENSION rag');
	}
	await_kept($node, 'after postgres', 'there is a scheduler soon after many of them');
	run_in('after', 'DROP EXTENSION rag CASCADE');
	await_kept($node, 'postgres', 'and none without the extension');
	run_in('after', 'BEGIN; CREATE EXTENSION rag; ROLLBACK');
	run_in('after', "BEGIN; CREATE EXTENSION rag; PREPARE TRANSACTION 'extension'");
	run_in('after', "COMMIT PREPARED 'extension'");
	await_kept($node, 'after postgres', 'COMMIT PREPARED is noticed');
};

subtest 'databases that take no connections, and templates' => sub {
	run_in('postgres', 'ALTER DATABASE after ALLOW_CONNECTIONS false');
	await_kept($node, 'postgres', 'nobody stays where no connections are allowed');
	run_in('postgres', 'ALTER DATABASE after ALLOW_CONNECTIONS true');
	await_kept($node, 'after postgres', 'it comes back with them');
	run_in('postgres', 'ALTER DATABASE after IS_TEMPLATE true');
	await_kept($node, 'postgres', 'nor in a template');
	run_in('postgres', 'ALTER DATABASE after IS_TEMPLATE false; DROP DATABASE after');
	run_in('template1', 'CREATE EXTENSION rag');
	run_in('postgres', 'CREATE DATABASE born');
	await_kept($node, 'born postgres', 'a copy of a template that has the extension has a scheduler');
	create_source('born', 'docs', $small);
	is_synced('born', 'there');
	run_in('template1', 'DROP EXTENSION rag');
	run_in('postgres', 'DROP DATABASE born');
};

subtest 'pg_restore beside a scheduler' => sub {
	run_in('postgres', 'CREATE DATABASE origin');
	run_in('origin', 'CREATE EXTENSION rag');
	run_in('origin', "SELECT rag_create_collection(c) FROM unnest('{empty,failing}'::text[]) AS c");
	create_source('origin', 'often', $folder, q{, schedule => '@every 1s'});
	create_source('origin', 'failing', "$small/not-there", q{, 'failing', schedule => '@every 1s'});
	create_source('origin', 'empty', temp_folder(), q{, 'empty', schedule => '@every 1s'});
	await_true($node, 'origin', "count(*) = 3 FROM (SELECT source FROM rag.runs WHERE phase <> 'Pending' GROUP BY source HAVING count(*) > 1) r", 'there are many runs');
	my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
	my $file = temp_folder() . '/dump';
	my ($out, $err);
	is(IPC::Run::run([ 'pg_dump', @connect, '--format=custom', '--file', $file, 'origin' ], '>', \$out, '2>', \$err), 1, 'a dump') or diag($err);
	run_in('postgres', 'DROP DATABASE origin');
	for my $n (1 .. 3)
	{
		run_in('postgres', 'CREATE DATABASE restored TEMPLATE template0');
		my @restore = ('pg_restore', @connect, '--exit-on-error', '--dbname', 'restored', $file);
		is(IPC::Run::run(\@restore, '>', \$out, '2>', \$err), 1, "is restored: $n") or diag($err);
		my $last = run_in('restored', 'SELECT last_value FROM rag.run_id');
		await_true($node, 'restored', "count(*) = 3 FROM (SELECT source FROM rag.runs WHERE run_id > $last AND trigger = 'schedule' AND phase IN ('Completed', 'Failed') GROUP BY source) r",
			"the schedules go on there: $n");
		run_in('postgres', 'DROP DATABASE restored');
	}
};

$node->stop;
ok(await('nothing is left of the server', sub { !server_processes($node) }), 'nothing outlives the server');

# -- room for two runners beside the supervisor, the launcher, logical replication's and one
# scheduler
my $narrow = rag_node('narrow', scheduler => 1, conf => <<CONF);
max_worker_processes = 6
max_parallel_workers = 0
rag.max_running_syncs = 10
rag.retry_delay = 100ms
rag.allowed_private_hosts = '127.0.0.1'
CONF

subtest 'max_worker_processes exhausted' => sub {
	my $sources = join ';', map { qq{SELECT rag_create_collection('docs$_'); SELECT rag_create_source('docs$_', 'static', '$between', 'docs$_', suspend => true)} } 1 .. 4;
	$narrow->safe_psql('postgres', $sources);
	RagHold::hold('first');
	my @engines;
	for my $n (1, 2)
	{
		$narrow->safe_psql('postgres', "SELECT rag_sync('docs$n', wait => false)");
		push @engines, await('an engine runs', sub { my %frozen = map { $_ => 1 } @engines; (grep { !$frozen{$_} } engines($narrow, 'ingest'))[0] });
		freeze($engines[-1]);
	}
	$narrow->safe_psql('postgres', "SELECT rag_sync('docs$_', wait => false)") for 3, 4;
	await_true($narrow, 'postgres', "count(*) = 2 FROM rag.runs WHERE phase = 'Pending' AND waiting ~ 'all slots are in use'", 'runs say why they wait');
	$narrow->safe_psql('postgres', 'CREATE DATABASE second');
	$narrow->safe_psql('second', "CREATE EXTENSION rag; SELECT rag_create_source('docs', 'folder', '{\"path\": \"$small\"}')");
	my $complaint = 'WARNING:  rag: (?:runs wait|sources of a database are not synced)';
	await('the log says so', sub { log_lines($narrow, $complaint) });
	await_true($narrow, 'second', "rag.why_idle() ~ 'max_worker_processes'", 'the other database says why nothing happens');

	# some rounds of the next looks
	my $launcher = worker($narrow, 'launcher');
	my ($ticks, $lines, $complaints) = (cpu_ticks($launcher), log_lines($narrow, ''), log_lines($narrow, $complaint));
	select undef, undef, undef, 0.1 for 1 .. 40;
	cmp_ok(log_lines($narrow, $complaint) - $complaints, '<=', 1, 'nobody complains again and again');
	is(worker($narrow, 'launcher'), $launcher, 'the launcher is the same still');
	cmp_ok(log_lines($narrow, '') - $lines, '<', 20, 'the log does not fill');
	cmp_ok(cpu_ticks($launcher) - $ticks, '<', 20, 'nothing spins');

	RagHold::release('first');
	thaw(@engines);
	await_true($narrow, 'postgres', "bool_and(phase = 'Completed') AND count(*) = 4 FROM rag.runs", 'the runs go on when there is room');
	await_true($narrow, 'second', "bool_and(phase = 'Completed') AND count(*) = 1 FROM rag.runs", 'and so does the other database');
	runs_are_sound($narrow, 'postgres', 'exhausted');
};

$narrow->stop;
done_testing();
