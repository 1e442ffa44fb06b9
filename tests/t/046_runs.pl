# How a run is queued, started, retried, postponed and cancelled, ends at its timeout, and is waited
# for.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use RagCluster;
use RagHold ();
use RagRuns;
use RagWorkers qw(runs_never_overlap);

my ($node) = runs_node('runs');
my $witness = witness($node);
my $missing = temp_folder() . '/not-there';

subtest 'failed runs are retried' => sub {
	create_folder('failing', $missing);
	for my $attempt (1 .. 3)
	{
		source_becomes(
			'failing', 'phase, error_run_count',
			"Retrying|$attempt", "attempt $attempt fails and will be retried");
		retry_delay_is_valid('failing', $attempt);
		like(
			condition('failing', 'AutoIndexerError')->{message},
			qr/the next attempt is in \d+ s/,
			'the condition AutoIndexerError reports the next retry');
		make_due('retry_at', 'failing');
	}
	source_becomes(
		'failing', 'phase, error_run_count, next_retry IS NULL',
		'Failed|4|t', 'a source is Failed after max_retries retries');
	is(attempts_of('failing'), 'create 1, retry 2, retry 3, retry 4', 'retries are counted');
	unlike(condition('failing', 'AutoIndexerError')->{message},
		qr/again/, 'the condition AutoIndexerError reports no further retry');

	create_folder('by-hand', $missing);
	source_becomes('by-hand', 'phase', 'Retrying');
	make_due('retry_at', 'by-hand');
	source_becomes('by-hand', 'phase, error_run_count', 'Retrying|2');
	isnt(run_sql($node, "SELECT rag_sync('by-hand')")->{rc},
		0, 'rag_sync of a failing source fails');
	is(attempts_of('by-hand'), 'create 1, retry 2, manual 1',
		'a manual run counts attempts from 1');
	retry_delay_is_valid('by-hand', 1);
	make_due('retry_at', 'by-hand');
	source_becomes('by-hand', 'phase, error_run_count', 'Retrying|4');
	$node->safe_psql('postgres', "SELECT rag_sync('by-hand', wait => false)");
	source_becomes(
		'by-hand', 'phase, error_run_count',
		'Retrying|5', 'a failed manual run without waiting is retried');
	is( attempts_of('by-hand'),
		'create 1, retry 2, manual 1, retry 2, manual 1',
		'each manual run counts attempts from 1');
	retry_delay_is_valid('by-hand', 1);
	RagHold::hold('recovers');
	create_held('recovers');
	source_becomes('recovers', 'phase', 'Running');
	is(status('recovers', 'next_retry IS NULL'), 't', 'no retry is due during a run');
	RagHold::release('recovers');
	source_becomes('recovers', 'phase', 'Completed');

	create_folder('scheduled', $missing, ", schedule => '\@yearly'");
	source_becomes(
		'scheduled', 'phase, error_run_count',
		'Retrying|1', 'a source with a schedule is synced on creation');
	make_due('next_run', 'scheduled');
	source_becomes(
		'scheduled', 'phase, error_run_count',
		'Retrying|2', 'a scheduled run can start before the retry');
	is(attempts_of('scheduled'), 'create 1, schedule 1', 'a scheduled run replaces the retry');
	retry_delay_is_valid('scheduled', 1);
	is(status('scheduled', "next_scheduled_run > now()"),
		't', 'the next scheduled run is in the future');
	ask($node,
		"UPDATE rag_internal.source SET next_run = clock_timestamp(), retry_at = clock_timestamp()
		WHERE name = 'scheduled'"
	);
	wake_scheduler();
	source_becomes('scheduled', 'phase, error_run_count', 'Retrying|3');
	await_scheduler_pass();
	is( attempts_of('scheduled'),
		'create 1, schedule 1, schedule 1',
		'one run starts when schedule and retry are due at once');
};

subtest 'throttled runs are postponed' => sub {
	RagHold::answer('busy', '429 Too Many Requests', 'Retry-After: 7200');
	create_held('busy', ', max_retries => 1');
	for my $time (1 .. 3)
	{
		source_becomes(
			'busy', 'phase, error_run_count',
			"Retrying|$time", "a throttled run is retried, attempt $time");
		is( ask($node,
				"SELECT s.next_retry - r.finished_at > '7190 s' FROM rag.sources s
				JOIN rag.runs r ON r.run_id = s.last_run_id WHERE s.name = 'busy'"
			),
			't',
			'the retry waits as long as Retry-After demands');
		is(reason('busy', 'AutoIndexerError'),
			'Throttled', 'the reason of AutoIndexerError is Throttled');
		make_due('retry_at', 'busy');
	}
	source_becomes(
		'busy', 'phase, error_run_count',
		'Retrying|4', 'throttled attempts do not count towards max_retries');
	RagHold::answer('busy');
	make_due('retry_at', 'busy');
	source_becomes(
		'busy', 'phase, error, errors, documents_processed',
		'Completed|f|{}|1', 'a run succeeds when the server answers again');
	is( attempts_of('busy'),
		'create 1, retry 2, retry 3, retry 4, retry 5',
		'throttled attempts are numbered');
	RagHold::answer('busy', '429 Too Many Requests', 'Retry-After: 60');
	isnt(run_sql($node, "SELECT rag_sync('busy')")->{rc}, 0);
	retry_delay_is_valid('busy', 1);
};

subtest 'a run ends at its timeout' => sub {
	RagHold::hold('slow');
	create_held('slow', ", timeout => '5 seconds'");
	my $engine = engine_pid($node, 'ingest');
	freeze($engine);
	run_becomes(
		'slow',
		"phase, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message'",
		"Failed|57014|the run took longer than the source's timeout of 5 s",
		'a run whose engine is stuck ends at its timeout');
	await('the engine is gone', sub { !is_running($engine) });
	is(reason('slow', "AutoIndexer$_"), 'Timeout', "the reason of AutoIndexer$_ is Timeout")
	  for qw(Error Completed Indexing);
	is(status('slow', 'phase'), 'Retrying', 'a run that exceeded its timeout will be retried');
	RagHold::release('slow');
	make_due('retry_at', 'slow');
	source_becomes(
		'slow', 'phase, error',
		'Completed|f', 'the retry of a run that exceeded its timeout succeeds');
};

subtest 'rag_cancel_run cancels queued and current runs' => sub {
	RagHold::hold('first');
	RagHold::hold('second');
	create_held($_) for qw(first second);
	RagHold::await_request($_) for qw(first second);
	source_becomes($_, 'phase', 'Running') for qw(first second);
	my $queued = $node->safe_psql('postgres', "SELECT rag_sync('marker', wait => false)");
	run_becomes(
		'marker',
		'phase, waiting',
		'Pending|too many runs in progress (rag.max_running_syncs = 2)',
		'a queued run reports why it waits');
	is(status('marker', 'phase'), 'Pending', 'the source of a queued run is Pending');
	is($node->safe_psql('postgres', "SELECT rag_cancel_run($queued)"),
		't', 'a queued run can be cancelled');
	is( run_row(
			$node, 'marker',
			"phase, started_at IS NULL, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message'"),
		'Failed|t|57014|the run was cancelled before it began',
		'a cancelled queued run is Failed');
	is(run_row($node, 'marker', 'waiting IS NULL'), 't', 'a cancelled run no longer waits');
	is(status('marker', 'phase, next_retry IS NULL') . reason('marker', 'AutoIndexerError'),
		'Failed|tCancelled', 'a cancelled queued run is not retried');
	my $running = run_id('first');
	is($node->safe_psql('postgres', "SELECT rag_cancel_run($running)"),
		't', 'a current run can be cancelled');
	run_becomes(
		'first',
		"run_id, phase, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message'",
		"$running|Failed|57014|the run was cancelled");
	is(status('first', 'phase, next_retry IS NULL') . reason('first', 'AutoIndexerError'),
		'Failed|tCancelled', 'a cancelled current run is not retried');
	is($node->safe_psql('postgres', "SELECT rag_cancel_run($_)"),
		'f', 'a finished run cannot be cancelled')
	  for $running, $queued;
	error_like(
		run_sql($node, 'SELECT rag_cancel_run(999999)'),
		'42704',
		'run 999999 does not exist',
		'The view rag.runs lists all runs',
		'a run that does not exist cannot be cancelled');
	is(status('second', 'phase'), 'Running', 'another run is not disturbed by rag_cancel_run');
	is(scalar(() = engines($node, 'ingest')), 1, 'only the engine of the cancelled run ends');

	# a run that is queued and invisible to the scheduler: its phase cannot change before it is
	# cancelled
	my $session = session($node);
	my $both = $session->query("BEGIN; SELECT rag_sync('first', wait => false)");
	is($session->query("SELECT rag_cancel_run($both); COMMIT"),
		't', 'a run can be cancelled in the transaction that queued it');
	await_scheduler_pass();
	is(run_row($node, 'first', 'run_id, phase, started_at IS NULL'),
		"$both|Failed|t", 'a run cancelled before its commit never starts');
	RagHold::release($_) for qw(first second);
	source_becomes('second', 'phase', 'Completed');
};

subtest 'rag_sync waits for a free slot' => sub {
	RagHold::hold($_) for qw(first second);
	$node->safe_psql('postgres',
		"SELECT rag_sync(name, wait => false) FROM unnest('{first,second}'::text[]) name");
	source_becomes($_, 'phase', 'Running') for qw(first second);
	my $asked = start_sql($node, "SELECT rag_sync('marker')");
	$asked->await_waiting;
	isnt(status('marker', 'phase'),
		'Running', 'the source is not Running while rag_sync waits for a slot');
	RagHold::release('first');
	my $result = $asked->finish;
	is($result->{rc}, 0, 'rag_sync succeeds when a slot is free') or diag($result->{err});
	like(
		$result->{err},
		qr/NOTICE:.*waiting: too many runs in progress \(rag\.max_running_syncs = 2\)/,
		'rag_sync reports that it waits for a slot');
	RagHold::release('second');
	source_becomes($_, 'phase', 'Completed') for qw(first second);
};

subtest 'rag_wait waits for the end of a run' => sub {
	RagHold::hold('first');
	my $run = $node->safe_psql('postgres', "SELECT rag_sync('first', wait => false)");
	run_becomes('first', 'phase', 'Running');
	is($node->safe_psql('postgres', "SELECT rag_wait($run, '50 ms')"),
		'Running', 'rag_wait returns Running after its timeout');
	is($node->safe_psql('postgres', "SELECT rag_wait($run, '0')"),
		'Running', 'rag_wait with timeout 0 returns at once');
	my $waiting = start_sql($node, "SELECT rag_wait($run)");
	$waiting->await_waiting;
	RagHold::release('first');
	is($waiting->finish->{out}, 'Completed', 'rag_wait returns Completed when the run ends');
	is($node->safe_psql('postgres', "SELECT rag_wait($run)"),
		'Completed', 'rag_wait returns Completed after the run has ended');
	error_like(
		run_sql($node, 'SELECT rag_wait(999999)'),
		'42704',
		'run 999999 does not exist',
		'The view rag.runs lists all runs',
		'rag_wait rejects a run that does not exist');
	error_like(
		run_sql($node, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT rag_wait($run)"),
		'25001',
		'rag_wait cannot wait in a transaction with a fixed snapshot',
		'READ COMMITTED',
		'rag_wait rejects a transaction with a fixed snapshot');
	error_like(
		run_sql($node, "SELECT rag_wait(rag_sync('first', wait => false))"),
		'25001',
		'run \d+ cannot begin or end before this transaction',
		'COMMIT',
		'rag_wait rejects a run queued in the same transaction');
	error_like(
		run_sql($node, "BEGIN; SELECT rag_sync('first', wait => false); SELECT rag_sync('first')"),
		'25001',
		'is not committed',
		'COMMIT',
		'rag_sync rejects a source whose run was queued in the same transaction');
};

subtest 'rag_sync and rag.progress report progress' => sub {
	RagHold::hold('first');
	my $began = time;
	my $sync = start_sql($node, "SELECT rag_sync('first')");
	my $said = sub {
		$sync->is_waiting;
		scalar(() =
			  $sync->{err} =~ /NOTICE:.*first: \d+( of 1)? documents done, 0 chunks written/g);
	};
	await('a run that takes its time says how far it is', sub { $said->() >= 1 });
	cmp_ok(time - $began, '>=', 2, 'the first progress notice comes after at least 2 seconds');
	is( ask($node,
			"SELECT source, stage IN ('fetch', 'embed'), documents_done, rate, eta IS NULL FROM "
			  . "rag.progress"),
		'first|t|0|0.0|t',
		'rag.progress shows the current run');
	await('a second progress notice', sub { $said->() >= 2 });
	cmp_ok(time - $began, '>=', 5, 'the second progress notice comes after at least 5 seconds');
	RagHold::release('first');
	is($sync->finish->{rc}, 0, 'rag_sync succeeds after progress notices');
	is(ask($node, 'SELECT count(*) FROM rag.progress'), '0', 'rag.progress is empty after the run');
};

is(ask($node, "SELECT count(*) FROM rag.runs WHERE phase IN ('Pending', 'Running')"),
	'0', 'no run is active in the end');
runs_never_overlap($node, 'postgres', 'no two runs of one source overlapped');
same_cluster($witness, 'all tests of runs');
$node->stop;
done_testing();
