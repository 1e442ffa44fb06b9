# Sources that are synced by themselves, in several databases that come and go.
use strict;
use warnings;

use RagCluster;
use RagTest ();
use RagWorkers qw(await_kept worker);
use Test::More;

my $node = RagTest::new_node('schedulers', scheduler => 1);
$node->append_conf('postgresql.conf', "max_worker_processes = 20\nrag.retry_delay = 50ms");
$node->start;

sub run_in { return $node->safe_psql(@_) }

sub create_source
{
	my ($database, $name, $folder, $more) = @_;
	return run_in($database, qq{SELECT rag_create_source('$name', 'folder', '{"path": "$folder"}'$more)});
}

sub await_run
{
	my ($database, $source, $condition, $name) = @_;
	my $query = "SELECT count(*) > 0 FROM rag.runs WHERE source = '$source' AND $condition";
	return ok(RagTest::wait_until(sub { run_in($database, $query) eq 't' }), $name)
	  || diag(run_in($database, "SELECT run_id, trigger, phase, waiting, errors FROM rag.runs; SELECT * FROM rag.sources"));
}

my $folder = write_documents(temp_folder(), 3, 1);

subtest 'databases come and go' => sub {
	await_kept($node, '', 'a cluster without the extension has a launcher and nothing else');
	run_in('postgres', 'CREATE EXTENSION rag');
	await_kept($node, 'postgres', 'CREATE EXTENSION is noticed');
	run_in('postgres', 'CREATE DATABASE first');
	run_in('first', 'CREATE EXTENSION rag');
	await_kept($node, 'first postgres', 'in another database too');

	run_in('postgres', 'CREATE DATABASE copy TEMPLATE first');
	await_kept($node, 'copy first postgres', 'a copy of a database is noticed');
	run_in('postgres', 'ALTER DATABASE copy RENAME TO renamed');
	await_kept($node, 'first postgres renamed', 'a database can be renamed');
	run_in('renamed', 'DROP EXTENSION rag');
	await_kept($node, 'first postgres', 'DROP EXTENSION is noticed');
	run_in('renamed', 'BEGIN; CREATE EXTENSION rag; ROLLBACK');
	run_in('renamed', 'CREATE EXTENSION rag');
	await_kept($node, 'first postgres renamed', 'so is creating it again');
	run_in('postgres', 'DROP DATABASE renamed');
	await_kept($node, 'first postgres', 'a database can be dropped');
	run_in('postgres', "SET allow_in_place_tablespaces = on; CREATE TABLESPACE elsewhere LOCATION ''");
	run_in('postgres', 'ALTER DATABASE first SET TABLESPACE elsewhere');
	is(run_in('postgres', "SELECT spcname FROM pg_database d JOIN pg_tablespace t ON t.oid = d.dattablespace WHERE datname = 'first'"), 'elsewhere', 'or moved');
	await_kept($node, 'first postgres', 'and is looked after afterwards');
	run_in('postgres', 'CREATE ROLE stranger LOGIN');
	error_like(run_sql($node, 'DROP DATABASE first', user => 'stranger'), '42501', 'must be owner of database first', undef, 'who does not own a database does not drop it');
};

subtest 'a new source is synced, without and with a schedule' => sub {
	create_source('postgres', 'once', $folder, '');
	await_run('postgres', 'once', "phase = 'Completed' AND trigger = 'create' AND documents_added = 3", 'once when it is made');
	is(run_in('postgres', "SELECT phase, next_scheduled_run IS NULL FROM rag.sources WHERE name = 'once'"), 'Completed|t',
		'and not by itself again');
	create_source('first', 'often', $folder, ", schedule => '\@every 1s'");
	await_run('first', 'often', "phase = 'Completed' AND trigger = 'schedule' AND documents_added = 3", 'when it is due');
	await_run('first', 'often', "phase = 'Completed' AND trigger = 'schedule' AND documents_unchanged = 3", 'and again');
	run_in('first', "SELECT rag_drop_source('often')");
};

subtest 'rag_sync' => sub {
	create_source('postgres', 'asked', $folder, '');
	my $id = run_in('postgres', "SELECT rag_sync('asked')");
	is(run_in('postgres', "SELECT phase FROM rag.runs WHERE run_id = $id"), 'Completed', 'right after creation joins that run, or takes it over');
	RagWorkers::never_two_at_once($node, 'postgres', 'or comes after it, if it has ended by then');
	$id = run_in('postgres', "SELECT rag_sync('asked', wait => false)");
	is(run_in('postgres', "SELECT rag_wait($id)"), 'Completed', 'a queued run is carried out');
	$id = run_in('postgres', "BEGIN; SELECT rag_sync('asked', wait => false); ROLLBACK");
	is(run_in('postgres', "SELECT count(*) FROM rag.runs WHERE run_id = $id"), '0', 'not if the transaction is rolled back');
	my @all = split /\n/, run_in('postgres', 'SELECT rag_sync_all()');
	is(scalar @all, 2, 'rag_sync_all asks for all');
	for my $pair (@all)
	{
		my ($run) = $pair =~ /(\d+)\)/;
		is(run_in('postgres', "SELECT rag_wait($run)"), 'Completed', "$pair is carried out");
	}
};

subtest 'retries' => sub {
	my $missing = "$folder/not-there";
	create_source('postgres', 'failing', $missing, ', max_retries => 2');
	await_run('postgres', 'failing', "phase = 'Failed' AND attempt = 3", 'a run that fails is tried again');
	is(run_in('postgres', "SELECT string_agg(trigger || ' ' || attempt, ', ' ORDER BY run_id) FROM rag.runs WHERE source = 'failing'"),
		'create 1, retry 2, retry 3', 'as often as max_retries says');
	ok(RagTest::wait_until(sub { run_in('postgres', "SELECT phase, error, error_run_count FROM rag.sources WHERE name = 'failing'") eq 'Failed|t|3' }),
		'then it has failed');
	create_source('postgres', 'once-failing', $missing, ', max_retries => 0');
	await_run('postgres', 'once-failing', "phase = 'Failed'", 'with max_retries 0 it is tried once');
	is(run_in('postgres', "SELECT phase, next_retry IS NULL FROM rag.sources WHERE name = 'once-failing'"), 'Failed|t', 'and not again');
	create_source('postgres', 'recovering', $missing, ', max_retries => 50');
	await_run('postgres', 'recovering', "phase = 'Failed' AND attempt = 2", 'one that fails');
	write_documents($missing, 1, 1);
	await_run('postgres', 'recovering', "phase = 'Completed' AND trigger = 'retry'", 'is well once the trouble is over');
	is(run_in('postgres', "SELECT phase, error, errors FROM rag.sources WHERE name = 'recovering'"), 'Completed|f|{}', 'with its status');
};

subtest 'workers that are ended come back' => sub {
	for my $kind ('rag scheduler', 'rag launcher')
	{
		my $pid = worker($node, $kind =~ s/^rag //r, $kind eq 'rag scheduler' ? 'postgres' : undef);
		run_in('postgres', "SELECT pg_terminate_backend($pid)");
		ok(RagTest::wait_until(sub { !is_running($pid) }), "the $kind ends");
		await_kept($node, 'first postgres', "and the databases are looked after without the $kind");
	}
	create_source('postgres', 'afterwards', $folder, '');
	await_run('postgres', 'afterwards', "phase = 'Completed'", 'sources are synced afterwards');
};

subtest 'rag.scheduler' => sub {
	configure($node, 'rag.scheduler', 'off');
	is(run_in('postgres', 'SELECT rag.why_idle()'), 'rag.scheduler is off', 'off is the reason that is given');
	await_kept($node, '', 'off ends the schedulers');
	create_source('postgres', 'by-hand', $folder, '');
	is(run_in('postgres', "SELECT rag_sync('by-hand') > 0"), 't', 'rag_sync works without');
	configure($node, 'rag.scheduler', 'on');
	await_kept($node, 'first postgres', 'on brings them back');
};

$node->stop;
is(RagWorkers::log_lines($node, 'FATAL:  (?!terminating connection)'), 0, 'no worker that was asked to end is in the log as a failure');
done_testing();
