# Sources are synced automatically in several databases that are created and dropped.
use strict;
use warnings;

use RagCluster;
use RagTest ();
use RagWorkers qw(await_scheduled worker);
use Test::More;

my $node = RagTest::new_node('schedulers', scheduler => 1);
$node->append_conf('postgresql.conf', "max_worker_processes = 20\nrag.retry_delay = 50ms");
$node->start;

sub run_in { return $node->safe_psql(@_) }

sub create_source
{
	my ($database, $name, $folder, $more) = @_;
	return run_in($database,
		qq{SELECT rag_create_source('$name', 'folder', '{"path": "$folder"}'$more)});
}

sub await_run
{
	my ($database, $source, $condition, $name) = @_;
	my $query = "SELECT count(*) > 0 FROM rag.runs WHERE source = '$source' AND $condition";
	return ok(RagTest::wait_until(sub { run_in($database, $query) eq 't' }), $name)
	  || diag(
		run_in(
			$database,
			"SELECT run_id, trigger, phase, waiting, errors FROM rag.runs;
				SELECT * FROM rag.sources"
		));
}

my $folder = write_documents(temp_folder(), 3, 1);

subtest 'schedulers follow databases that come and go' => sub {
	await_scheduled($node, '', 'a cluster without the extension has only a launcher');
	run_in('postgres', 'CREATE EXTENSION rag');
	await_scheduled($node, 'postgres', 'CREATE EXTENSION is noticed');
	run_in('postgres', 'CREATE DATABASE first');
	run_in('first', 'CREATE EXTENSION rag');
	await_scheduled($node, 'first postgres',
		'CREATE EXTENSION starts a scheduler in each database');

	run_in('postgres', 'CREATE DATABASE copy TEMPLATE first');
	await_scheduled($node, 'copy first postgres', 'a copy of a database gets a scheduler');
	run_in('postgres', 'ALTER DATABASE copy RENAME TO renamed');
	await_scheduled($node, 'first postgres renamed', 'a renamed database keeps a scheduler');
	run_in('renamed', 'DROP EXTENSION rag');
	await_scheduled($node, 'first postgres', 'DROP EXTENSION is noticed');
	run_in('renamed', 'BEGIN; CREATE EXTENSION rag; ROLLBACK');
	run_in('renamed', 'CREATE EXTENSION rag');
	await_scheduled(
		$node,
		'first postgres renamed',
		'an extension that is created again has a scheduler');
	run_in('postgres', 'DROP DATABASE renamed');
	await_scheduled($node, 'first postgres', 'a database with a scheduler can be dropped');
	run_in('postgres',
		"SET allow_in_place_tablespaces = on; CREATE TABLESPACE elsewhere LOCATION ''");
	run_in('postgres', 'ALTER DATABASE first SET TABLESPACE elsewhere');
	is( run_in(
			'postgres',
			"SELECT spcname FROM pg_database d JOIN pg_tablespace t ON t.oid = d.dattablespace
				WHERE datname = 'first'"
		),
		'elsewhere',
		'a database with a scheduler can be moved to another tablespace');
	await_scheduled($node, 'first postgres', 'a moved database gets a scheduler');
	run_in('postgres', 'CREATE ROLE stranger LOGIN');
	error_like(
		run_sql($node, 'DROP DATABASE first', user => 'stranger'),
		'42501', 'must be owner of database first',
		undef, 'DROP DATABASE by a role that is not the owner is rejected');
};

subtest 'a new source is synced with and without a schedule' => sub {
	create_source('postgres', 'once', $folder, '');
	await_run(
		'postgres', 'once',
		"phase = 'Completed' AND trigger = 'create' AND documents_added = 3",
		'a source without a schedule is synced on creation');
	is( run_in(
			'postgres',
			"SELECT phase, next_scheduled_run IS NULL FROM rag.sources WHERE name = 'once'"),
		'Completed|t',
		'a source without a schedule has no next run');
	create_source('first', 'often', $folder, ", schedule => '\@every 1s'");
	await_run(
		'first', 'often',
		"phase = 'Completed' AND trigger = 'create' AND documents_added = 3",
		'a source with a schedule is synced on creation');
	await_run(
		'first', 'often',
		"phase = 'Completed' AND trigger = 'schedule' AND documents_unchanged = 3",
		'a source with a schedule is synced when it is due');
	run_in('first', "SELECT rag_drop_source('often')");
};

subtest 'rag_sync with a scheduler' => sub {
	create_source('postgres', 'asked', $folder, '');
	my $id = run_in('postgres', "SELECT rag_sync('asked')");
	is(run_in('postgres', "SELECT phase FROM rag.runs WHERE run_id = $id"),
		'Completed', 'rag_sync right after creation completes');
	RagWorkers::runs_never_overlap($node, 'postgres', 'rag_sync never overlaps with the first run');
	$id = run_in('postgres', "SELECT rag_sync('asked', wait => false)");
	is(run_in('postgres', "SELECT rag_wait($id)"), 'Completed', 'a queued run completes');
	$id = run_in('postgres', "BEGIN; SELECT rag_sync('asked', wait => false); ROLLBACK");
	is(run_in('postgres', "SELECT count(*) FROM rag.runs WHERE run_id = $id"),
		'0', 'a run queued in a rolled back transaction does not exist');
	my @all = split /\n/, run_in('postgres', 'SELECT rag_sync_all()');
	is(scalar @all, 2, 'rag_sync_all queues all sources');

	for my $pair (@all)
	{
		my ($run) = $pair =~ /(\d+)\)/;
		is(run_in('postgres', "SELECT rag_wait($run)"), 'Completed', "$pair completes");
	}
};

subtest 'failed runs are retried' => sub {
	my $missing = "$folder/not-there";
	create_source('postgres', 'failing', $missing, ', max_retries => 2');
	await_run(
		'postgres', 'failing',
		"phase = 'Failed' AND attempt = 3", 'a failed run is retried up to max_retries');
	is( run_in(
			'postgres',
			"SELECT string_agg(trigger || ' ' || attempt, ', ' ORDER BY run_id) FROM rag.runs
				WHERE source = 'failing'"
		),
		'create 1, retry 2, retry 3',
		'retries are counted');
	ok( RagTest::wait_until(
			sub {
				run_in('postgres',
					"SELECT phase, error, error_run_count FROM rag.sources WHERE name = 'failing'")
				  eq 'Failed|t|3';
			}),
		'a source is Failed after its last retry');
	create_source('postgres', 'once-failing', $missing, ', max_retries => 0');
	await_run('postgres', 'once-failing', "phase = 'Failed'", 'max_retries 0 makes one attempt');
	is( run_in(
			'postgres',
			"SELECT phase, next_retry IS NULL FROM rag.sources WHERE name = 'once-failing'"),
		'Failed|t',
		'max_retries 0 schedules no retry');
	create_source('postgres', 'recovering', $missing, ', max_retries => 50');
	await_run(
		'postgres', 'recovering',
		"phase = 'Failed' AND attempt = 2", 'a source whose folder is missing fails');
	write_documents($missing, 1, 1);
	await_run(
		'postgres', 'recovering',
		"phase = 'Completed' AND trigger = 'retry'", 'a retry succeeds once the folder exists');
	is( run_in(
			'postgres', "SELECT phase, error, errors FROM rag.sources WHERE name = 'recovering'"),
		'Completed|f|{}',
		'a successful retry clears the error of the source');
};

subtest 'terminated workers are started again' => sub {
	for my $kind ('rag scheduler', 'rag launcher')
	{
		my $pid = worker($node, $kind =~ s/^rag //r, $kind eq 'rag scheduler' ? 'postgres' : undef);
		run_in('postgres', "SELECT pg_terminate_backend($pid)");
		ok(RagTest::wait_until(sub { !is_running($pid) }), "the $kind ends");
		await_scheduled(
			$node,
			'first postgres',
			"schedulers run again after the $kind was terminated");
	}
	create_source('postgres', 'afterwards', $folder, '');
	await_run(
		'postgres', 'afterwards',
		"phase = 'Completed'", 'a new source is synced after workers were terminated');
};

subtest 'rag.scheduler can be turned off and on' => sub {
	configure($node, 'rag.scheduler', 'off');
	is( run_in('postgres', 'SELECT rag.why_idle()'),
		'rag.scheduler is off',
		'rag.why_idle() reports rag.scheduler = off');
	await_scheduled($node, '', 'schedulers end when rag.scheduler is off');
	create_source('postgres', 'by-hand', $folder, '');
	is(run_in('postgres', "SELECT rag_sync('by-hand') > 0"),
		't', 'rag_sync works while rag.scheduler is off');
	configure($node, 'rag.scheduler', 'on');
	await_scheduled($node, 'first postgres', 'schedulers start when rag.scheduler is on');
};

# What a clock leaves that was two days ahead and was set back: times that only it can have written.
subtest 'the clock was set back' => sub {
	create_source('postgres', 'hourly', $folder, ", schedule => '\@every 1h'");
	create_source('postgres', 'daily', $folder, ", schedule => '30 4 * * *'");
	run_in('postgres', "SELECT rag_sync('hourly'), rag_sync('daily')");
	await_scheduled($node, 'first postgres', 'nothing is due');
	my $next = q{SELECT string_agg(name || CASE WHEN next_run < now() + interval '25 hours'
		AND next_run > now() THEN ' soon' ELSE ' late' END, ', ' ORDER BY name)
		FROM rag_internal.source WHERE name IN ('hourly', 'daily')};
	is(run_in('postgres', $next), 'daily soon, hourly soon', 'both sources are planned');
	run_in('postgres',
		"UPDATE rag_internal.source SET next_run = next_run + interval '2 days'
			WHERE name IN ('hourly', 'daily')");
	RagWorkers::await_value(sub { run_in('postgres', $next) }, 'daily soon, hourly soon',
		'their next runs are computed again');
	my $line = 'LOG: .*the clock was set back: the next run of source "hourly" is planned again';
	is(RagWorkers::log_lines($node, $line), 1, 'the log tells it');

	configure($node, 'rag.retry_delay', '1h');
	create_source('postgres', 'gone', "$folder/nowhere", '');
	await_run('postgres', 'gone', "phase = 'Failed'", 'a source fails');
	await_scheduled($node, 'first postgres', 'its retry is not due');
	is(run_in('postgres', "SELECT phase FROM rag.sources WHERE name = 'gone'"),
		'Retrying', 'it will be retried');
	run_in('postgres',
		"UPDATE rag_internal.source SET retry_at = retry_at + interval '2 days'
			WHERE name = 'gone'");
	await_run(
		'postgres', 'gone',
		"phase = 'Failed' AND trigger = 'retry' AND attempt = 2",
		'a retry that lies too far in the future is due at once');
	is(RagWorkers::log_lines($node, 'LOG: .*the clock was set back: retries that are due now: 1'),
		1, 'the log tells it');
	configure($node, 'rag.retry_delay');

	await_scheduled($node, 'first postgres', 'nothing is due again');
	run_in('postgres', "BEGIN; SELECT rag_enqueue_document('A text of the future.', 'ahead');
		UPDATE rag_internal.queued_document
			SET next_attempt_at = next_attempt_at + interval '2 days' WHERE uri = 'ahead'; COMMIT");
	RagWorkers::await_value(
		sub { run_in('postgres', "SELECT status FROM rag.queued_documents WHERE uri = 'ahead'") },
		'indexed', 'a queued document that lies in the future is indexed');

	my $row = q{SELECT severity, object, problem FROM rag_status() WHERE problem LIKE '%clock%'};
	is(run_in('postgres', $row), '', 'rag_status() tells nothing of a clock that is right');
	run_in('postgres',
		"UPDATE rag_internal.run SET queued_at = queued_at + interval '2 days'
			WHERE source = 'hourly'");
	is(run_in('postgres', $row),
		'notice|server|the clock was set back: runs have begun in the future',
		'rag_status() tells that the clock was set back');
};

$node->stop;
is(RagWorkers::log_lines($node, 'FATAL:  (?!terminating connection)'),
	0, 'the log contains no FATAL message about workers other than their termination');
done_testing();
