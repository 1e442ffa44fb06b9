# What happens to a source and its run if the source is suspended, altered, dropped or locked during
# the run, or if the run's process cannot start.
use strict;
use warnings;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use RagCluster;
use RagHold ();
use RagRuns;
use RagWorkers qw(runner runs_never_overlap);

my ($node, $folder) = runs_node('sources_during_runs');
my $witness = witness($node);
my $missing = temp_folder() . '/not-there';
$node->safe_psql('postgres', "SELECT rag_create_collection('moved')");
create_held($_) for qw(first second);
source_becomes($_, 'phase', 'Completed') for qw(first second);

subtest 'rag_suspend and rag_resume' => sub {
	RagHold::hold('first');
	$node->safe_psql('postgres', "SELECT rag_sync('first', wait => false)");
	run_becomes('first', 'phase', 'Running');
	$node->safe_psql('postgres', "SELECT rag_suspend('first')");
	is(status('first', 'phase, suspend'), 'Running|t', 'a current run continues after rag_suspend');
	RagHold::release('first');
	run_becomes('first', 'phase', 'Completed', 'a current run completes after rag_suspend');
	is(status('first', 'phase, scheduled') . reason('first', 'AutoIndexerScheduled'),
		'Suspended|fSuspended', 'a suspended source is Suspended after its run');

	create_folder('resting', $missing, ", schedule => '\@yearly'");
	source_becomes('resting', 'phase', 'Retrying');
	$node->safe_psql('postgres', "SELECT rag_suspend('resting')");
	is(status('resting', 'phase, next_retry, next_scheduled_run'),
		'Suspended||', 'a suspended source has no next scheduled run');
	make_due('next_run', 'resting');
	make_due('retry_at', 'resting');
	await_scheduler_pass();
	is(attempts_of('resting'), 'create 1',
		'neither schedule nor retry starts a run of a suspended source');
	write_documents($missing, 1, 1);
	sync_ok($node, 'resting', 'rag_sync runs a suspended source');
	is(status('resting', 'phase, error, documents_processed'),
		'Suspended|f|1', 'a suspended source stays suspended after rag_sync');
	$node->safe_psql('postgres', "SELECT rag_resume('resting')");
	is(status('resting', 'phase, next_scheduled_run > now()'),
		'Completed|t', 'the next scheduled run of a resumed source is in the future');
	await_scheduler_pass();
	is( attempts_of('resting'),
		'create 1, manual 1',
		'a resumed source does not make up for missed runs');
	unlink glob "$missing/*";
	rmdir $missing;
	make_due('next_run', 'resting');
	source_becomes('resting', 'phase', 'Retrying');
	$node->safe_psql('postgres', "SELECT rag_suspend('resting')");
	make_due('retry_at', 'resting');
	$node->safe_psql('postgres', "SELECT rag_resume('resting')");
	run_becomes(
		'resting', 'trigger, attempt, phase',
		'retry|2|Failed', 'a resumed source runs a retry that was due');

	# a run that is queued when its source is suspended
	RagHold::hold($_) for qw(first second);
	$node->safe_psql('postgres',
			"SELECT rag_resume('first'); SELECT rag_sync('first', wait => false); SELECT "
		  . "rag_sync('second', wait => false)");
	run_becomes($_, 'phase', 'Running') for qw(first second);
	create_folder('queued', $folder, ", schedule => '\@yearly'");
	make_due('next_run', 'queued');
	run_becomes('queued', 'phase', 'Pending');
	is(status('queued', 'phase'), 'Pending', 'a scheduled run waits for a free slot');
	$node->safe_psql('postgres', "SELECT rag_suspend('queued')");
	is( status('queued', 'phase') . '|' . run_row($node, 'queued', 'phase, waiting'),
		'Suspended|Pending|the source is suspended',
		'a queued scheduled run of a suspended source reports the suspension');
	RagHold::release($_) for qw(first second);
	run_becomes($_, 'phase', 'Completed') for qw(first second);
	await_scheduler_pass();
	is(run_row($node, 'queued', 'phase'),
		'Pending', 'a queued run of a suspended source does not start when a slot is free');
	my $run = run_id('queued');
	is($node->safe_psql('postgres', "SELECT rag_sync('queued', wait => false)"),
		$run, 'rag_sync runs a suspended source with a queued run');
	source_becomes('queued', 'phase, successful_run_count', 'Suspended|1');
};

subtest 'a definition can change during a run' => sub {
	RagHold::hold($_) for qw(second other);
	my $before = status('second', 'last_indexed, observed_generation, successful_run_count');
	my $conditions = condition('second', 'AutoIndexerCompleted');
	$node->safe_psql('postgres', "SELECT rag_sync('second', wait => false)");
	run_becomes('second', 'phase', 'Running');
	my ($old, $spec) = (run_id('second'), held_spec('other', 2));
	$node->safe_psql('postgres',
		"SELECT rag_alter_source('second', spec => '$spec', collection => 'moved', max_retries => "
		  . "0)");
	is(status('second', 'phase, generation, observed_generation'),
		'Running|2|1', 'rag_alter_source during a run creates a new generation');
	RagHold::release('second');
	run_becomes(
		'second', "run_id > $old, phase, trigger, generation",
		't|Running|create|2', 'the next run uses the new definition');
	is( ask($node,
			"SELECT phase, generation, collection, documents_updated + documents_unchanged FROM "
			  . "rag.runs WHERE run_id = $old"),
		'Completed|1|default|1',
		'the current run completes with the old definition');
	is(documents('second'), 'default 1.md',
		'the documents stay in the old collection until the next run');
	my ($indexed, $observed, $count) = split /\|/, $before;
	is( status('second', 'last_indexed, observed_generation, successful_run_count'),
		"$indexed|$observed|" . ($count + 1),
		'a run of the old definition counts, but is not the status of the new one');
	is_deeply(condition('second', 'AutoIndexerCompleted'),
		$conditions, 'the end of a run of the old definition changes no condition of the new one');
	is(condition('second', 'ResourceReady')->{observedGeneration},
		2, 'other conditions have the new generation');
	RagHold::release('other');
	source_becomes(
		'second', 'phase, generation, observed_generation, documents_processed',
		'Completed|2|2|2', 'the run of the new definition is its status');
	is(documents('second'), 'moved 1.md, moved 2.md', 'the documents move to the new collection');
	is(condition('second', 'AutoIndexerCompleted')->{observedGeneration},
		2, 'conditions have the generation of the new definition');
};

# Starts a session that drops a source during a run. Returns the session and the runner, which is
# stopped.
sub start_drop
{
	my ($source, $statements) = @_;
	RagHold::hold($source);
	$node->safe_psql('postgres', "SELECT rag_sync('$source', wait => false)");
	RagHold::await_request($source);
	my $runner = runner($node, $source);
	await(
		"the runner of $source waits",
		sub {
			ask($node, "SELECT wait_event = 'Extension' FROM pg_stat_activity WHERE pid = $runner")
			  eq 't';
		});
	freeze_asleep($runner);
	my $session = start_sql($node, $statements);
	source_becomes($source, 'phase', 'Terminating', "$source is Terminating while its run stops");
	return ($session, $runner);
}

subtest 'a source can be dropped during a run' => sub {
	for my $keep ('true', 'false')
	{
		create_held('going');
		source_becomes('going', 'phase', 'Completed');
		my ($dropping, $runner) =
		  start_drop('going', "SELECT rag_drop_source('going', keep_documents => $keep)");
		error_like(
			run_sql($node, "SELECT rag_sync('going', wait => $_)"),
			'55006',
			'source "going" is being dropped by another session',
			undef,
			"rag_sync of a source being dropped is rejected, wait => $_") for 'true', 'false';
		error_like(
			run_sql($node, "SELECT rag_drop_source('going')"),
			'55006', 'is being dropped by another session',
			undef, 'rag_drop_source of a source being dropped is rejected');
		thaw($runner);
		my $result = $dropping->finish;
		is($result->{rc}, 0, 'rag_drop_source succeeds after the run stopped');
		like(
			$result->{err},
			qr/WARNING:.*source "going" is being synced: stopping its run/,
			'rag_drop_source warns that it stops a run');
		is( ask($node,
				"SELECT (SELECT count(*) FROM rag.sources WHERE name = 'going') + (SELECT count(*) "
				  . "FROM rag.runs WHERE source = 'going')"),
			'0',
			'a dropped source has no runs');
		is( documents('going'),
			$keep eq 'true' ? 'default 1.md' : '',
			"documents of a source dropped with keep_documents => $keep");
		RagHold::release('going');
	}

	create_held('staying');
	source_becomes('staying', 'phase', 'Completed');
	my ($definition, $documents) = (definition('staying'), documents('staying'));
	my ($dropping, $runner) = start_drop('staying',
		"BEGIN; SELECT rag_drop_source('staying', keep_documents => false); ROLLBACK");
	thaw($runner);
	is($dropping->finish->{rc}, 0, 'rag_drop_source can be rolled back');
	source_becomes('staying', 'phase', 'Retrying', 'the stopped run is retried after a rollback');
	is( definition('staying') . documents('staying'),
		$definition . $documents,
		'definition and documents are unchanged after a rollback');
	is(reason('staying', 'AutoIndexerError'),
		'Interrupted', 'the reason of AutoIndexerError is Interrupted after a rollback');
	RagHold::release('staying');
	make_due('retry_at', 'staying');
	source_becomes('staying', 'phase, error', 'Completed|f', 'the retry after a rollback succeeds');

	# the session has locked the source's row, so the run cannot record its end
	for my $end ('ROLLBACK', 'COMMIT')
	{
		($dropping, $runner) = start_drop(
			'staying',
			"BEGIN; SELECT rag_alter_source('staying', max_retries => 7);
			SELECT rag_drop_source('staying', keep_documents => false); $end"
		);
		thaw($runner);
		my $result = $dropping->finish;
		is($result->{rc}, 0, "alter, drop and $end of a source succeed in one transaction")
		  or diag($result->{err});
		RagHold::release('staying');
		next if $end eq 'COMMIT';
		source_becomes(
			'staying', 'phase',
			'Retrying', 'the stopped run is retried after alter, drop and rollback');
		is( definition('staying') . documents('staying'),
			$definition . $documents,
			'definition and documents are unchanged after alter, drop and rollback');
		is(reason('staying', 'AutoIndexerError'),
			'Interrupted',
			'the reason of AutoIndexerError is Interrupted after alter, drop and rollback');
	}
	is( ask($node, "SELECT count(*) FROM rag.sources WHERE name = 'staying'")
		  . documents('staying'),
		'0',
		'a source dropped with its documents leaves none after the commit');
	create_held('once');
	source_becomes('once', 'phase', 'Completed');
	my @both =
	  map { $_->finish } map { start_sql($node, "SELECT rag_drop_source('once')") } 1 .. 2;
	is(join(' ', sort map { $_->{rc} } @both),
		'0 3', 'one of two concurrent rag_drop_source succeeds');
	my ($other) = grep { $_->{rc} } @both;
	like(
		$other->{err},
		qr/ERROR:  (55006|42704): /,
		'the other of two concurrent rag_drop_source is rejected');
};

subtest 'a locked row of a source' => sub {
	create_folder($_, $folder, ", schedule => '\@yearly'") for qw(locked beside);
	my $session = session($node);
	$session->query("BEGIN; SELECT rag_alter_source('locked', max_retries => 5)");
	# as if the source had been due before; the row is locked now
	$session->query(
		"ROLLBACK; UPDATE rag_internal.source SET next_run = clock_timestamp()
		WHERE name IN ('locked', 'beside')"
	);
	$session->query("BEGIN; SELECT rag_alter_source('locked', max_retries => 5)");
	wake_scheduler();
	source_becomes('beside', 'phase', 'Completed',
		'a locked row of a source does not delay other sources');
	await_scheduler_pass();
	$session->query('COMMIT');
	source_becomes('locked', 'phase', 'Completed', 'a source is synced after its row is unlocked');

	RagHold::hold($_) for qw(first second other);
	$node->safe_psql('postgres', "SELECT rag_sync('first', wait => false)");
	run_becomes('first', 'phase', 'Running');
	$session->query("BEGIN; SELECT rag_alter_source('first', max_retries => 6)");
	$node->safe_psql('postgres', "SELECT rag_sync('second', wait => false)");
	run_becomes('second', 'phase', 'Running');
	RagHold::release('first');
	sync_ok($node, 'beside', 'a run that cannot record its end releases its slot');
	is(run_row($node, 'first', 'phase'), 'Running', 'a run that cannot record its end is Running');
	$session->query('ROLLBACK');
	run_becomes('first', 'phase', 'Completed', 'a run records its end when the row is unlocked');
	RagHold::release($_) for qw(second other);
	run_becomes('second', 'phase', 'Completed');
};

subtest 'a run whose process cannot start' => sub {
	# new processes cannot write in this database
	ask($node, 'ALTER DATABASE postgres SET default_transaction_read_only = on');
	my $run = ask($node, "SELECT rag_sync('first', wait => false)");
	run_becomes(
		'first',
		'run_id, phase, waiting',
		"$run|Pending|its process keeps ending before the run begins, see the server's log",
		'a run whose process cannot start waits and reports the reason');
	my @tries = slurp_file($node->logfile) =~
	  /Run\($run\) of source "first" could not be carried out: cannot execute/g;
	ok(@tries >= 4 && @tries <= 15,
		'a run whose process cannot start is attempted at growing intervals')
	  or diag(scalar @tries);
	ask($node, 'ALTER DATABASE postgres RESET default_transaction_read_only');
	run_becomes(
		'first', 'run_id, phase',
		"$run|Completed", 'the run completes when its process can start');
};

subtest 'a failing source does not disturb others' => sub {
	create_folder('failing', $missing, ", schedule => '\@yearly'");
	source_becomes('failing', 'phase, error_run_count', 'Retrying|1', 'the first run fails');
	for my $round (1 .. 3)
	{
		my ($good, $bad) =
		  (status('beside', 'successful_run_count'), status('failing', 'error_run_count'));
		make_due('next_run', qw(failing beside));
		source_becomes('failing', 'phase, error_run_count', 'Retrying|' . ($bad + 1));
		source_becomes(
			'beside',
			'phase, error, errors, successful_run_count, error_run_count',
			'Completed|f|{}|' . ($good + 1) . '|0',
			'a source beside a failing one completes without errors');
	}
};

is(ask($node, "SELECT count(*) FROM rag.runs WHERE phase IN ('Pending', 'Running')"),
	'0', 'no run is active in the end');
runs_never_overlap($node, 'postgres', 'no two runs of one source overlapped');
same_cluster($witness, 'all tests of sources during runs');
$node->stop;
done_testing();
