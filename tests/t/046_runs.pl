# The life of a run: how it is queued, started, retried, cancelled, postponed, ended and deleted,
# and what views, conditions and notifications report. All delays are long; the test sets due times
# in the catalog.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use Time::HiRes qw(time);
use RagCluster;
use RagHold ();
use RagWorkers qw(runner runs_never_overlap status_of);

RagHold::origin();
my $node = rag_node('runs', scheduler => 1, conf => <<'CONF');
rag.retry_delay = '15min'
rag.max_running_syncs = 2
rag.allowed_private_hosts = '127.0.0.1'
max_worker_processes = 20
CONF
my $witness = witness($node);
my $folder = write_documents(temp_folder(), 2, 1);
my $missing = temp_folder() . '/not-there';
$node->safe_psql('postgres', "SELECT rag_embed('hello'); SELECT rag_create_collection('moved')");

sub create
{
	my ($name, $kind, $spec, $more) = @_;
	return $node->safe_psql('postgres',
		"SELECT rag_create_source('$name', '$kind', '$spec'" . ($more // '') . ')');
}

sub create_folder
{
	my ($name, $path, $more) = @_;
	return create($name, 'folder', qq({"path": "$path"}), $more);
}

# The spec of a source with one web page or more, whose requests can be held.
sub held_spec
{
	my ($name, $count) = @_;
	return sprintf '{"endpoints": [%s]}', join ', ',
	  map { sprintf '"%s/%s/%d.md"', RagHold::origin(), $name, $_ } 1 .. $count // 1;
}

sub create_held
{
	my ($name, $more, $count) = @_;
	return create($name, 'static', held_spec($name, $count), $more);
}

sub status
{
	my ($name, $columns) = @_;
	return ask($node, "SELECT $columns FROM rag.sources WHERE name = '$name'");
}

# Waits until a value, columns of a source, or columns of its last run are as expected.
sub becomes
{
	my ($what, $look, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 2;
	my $seen = '';
	eval {
		await($what, sub { ($seen = $look->()) eq $expected });
	};
	return is($seen, $expected, $name // $what) || diag(status_of($node));
}

sub source_becomes
{
	my ($source, $columns, $expected, $name) = @_;
	return becomes("$source is $expected", sub { status($source, $columns) }, $expected, $name);
}

sub run_becomes
{
	my ($source, $columns, $expected, $name) = @_;
	return becomes(
		"the run of $source is $expected",
		sub { run_row($node, $source, $columns) // '' },
		$expected, $name);
}
sub run_id { return run_row($node, $_[0], 'run_id') }

# Makes runs or retries of sources due now.
sub make_due
{
	my ($column, @names) = @_;
	my $list = join ', ', map { "'$_'" } @names;
	ask($node, "UPDATE rag.source SET $column = clock_timestamp() WHERE name IN ($list)");
	return wake_scheduler();
}
sub wake_scheduler { return ask($node, 'SELECT pg_reload_conf()') }

sub condition
{
	my ($source, $type) = @_;
	my ($found) = grep { $_->{type} eq $type } @{ decode_json(status($source, 'conditions')) };
	return $found;
}
sub reason { return condition(@_)->{reason} }

# The run of this source comes after everything that was due before. So whatever has not started
# when it ends was not going to start.
create_folder('marker', $folder, ", schedule => '\@yearly'");

sub await_scheduler_pass
{
	my $before = status('marker', 'successful_run_count');
	make_due('next_run', 'marker');
	return source_becomes(
		'marker', 'successful_run_count',
		$before + 1,
		'the scheduler has handled everything that was due');
}

sub attempts_of
{
	return ask(
		$node,
		"SELECT coalesce(string_agg(trigger || ' ' || attempt, ', ' ORDER BY run_id), '')
		FROM rag.runs WHERE source = '$_[0]'"
	);
}

# Checks that the delay of the next retry is within its limits after a number of failed attempts.
sub retry_delay_is_valid
{
	my ($source, $attempt) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $most = 900 * 2**($attempt - 1);
	my $delay = ask(
		$node,
		"SELECT extract(epoch FROM s.next_retry - r.finished_at) FROM rag.sources s
		JOIN rag.runs r ON r.run_id = s.last_run_id
		WHERE s.name = '$source'");
	# the delay counts from a moment before finished_at
	ok( $delay > $most / 2 - 30 && $delay <= $most,
		"$source: the retry after attempt $attempt is at most $most s away and at least half of "
		  . "that") or diag("$delay s");
	return;
}

# Definition and documents of a source, to compare them later.
sub definition
{
	return ask(
		$node,
		"SELECT kind, spec, collection, schedule, suspend, max_retries, generation, uid
		FROM rag.sources WHERE name = '$_[0]'"
	);
}

sub documents
{
	return ask(
		$node,
		"SELECT coalesce(string_agg(collection || ' ' || regexp_replace(uri, '.*/', ''), ', '
		ORDER BY collection, uri), '') FROM rag.documents
		WHERE coalesce(source, former_source) = '$_[0]'"
	);
}

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
	is(status('scheduled', "phase, next_scheduled_run > now() - interval '1 s'"),
		'Pending|t', 'a source with a schedule waits for its time');
	make_due('next_run', 'scheduled');
	source_becomes('scheduled', 'phase, error_run_count', 'Retrying|1');
	make_due('next_run', 'scheduled');
	source_becomes(
		'scheduled', 'phase, error_run_count',
		'Retrying|2', 'a scheduled run can start before the retry');
	is(attempts_of('scheduled'), 'schedule 1, schedule 1', 'a scheduled run replaces the retry');
	retry_delay_is_valid('scheduled', 1);
	is(status('scheduled', "next_scheduled_run > now()"),
		't', 'the next scheduled run is in the future');
	ask($node,
		"UPDATE rag.source SET next_run = clock_timestamp(), retry_at = clock_timestamp()
		WHERE name = 'scheduled'"
	);
	wake_scheduler();
	source_becomes('scheduled', 'phase, error_run_count', 'Retrying|3');
	await_scheduler_pass();
	is( attempts_of('scheduled'),
		'schedule 1, schedule 1, schedule 1',
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
	make_due('next_run', 'resting');
	source_becomes('resting', 'phase', 'Retrying');
	$node->safe_psql('postgres', "SELECT rag_suspend('resting')");
	is(status('resting', 'phase, next_retry, next_scheduled_run'),
		'Suspended||', 'a suspended source has no next scheduled run');
	make_due('next_run', 'resting');
	make_due('retry_at', 'resting');
	await_scheduler_pass();
	is(attempts_of('resting'), 'schedule 1',
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
		'schedule 1, manual 1',
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
	my @both =
	  map { $_->finish } map { start_sql($node, "SELECT rag_drop_source('recovers')") } 1 .. 2;
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
		"ROLLBACK; UPDATE rag.source SET next_run = clock_timestamp()
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
	for my $round (1 .. 3)
	{
		my ($good, $bad) =
		  (status('beside', 'successful_run_count'), status('scheduled', 'error_run_count'));
		make_due('next_run', qw(scheduled beside));
		source_becomes('scheduled', 'phase, error_run_count', 'Retrying|' . ($bad + 1));
		source_becomes(
			'beside',
			'phase, error, errors, successful_run_count, error_run_count',
			'Completed|f|{}|' . ($good + 1) . '|0',
			'a source beside a failing one completes without errors');
	}
};

subtest 'counts of sources and runs' => sub {
	my $path = write_documents(temp_folder(), 3, 1);
	write_file("$path/broken.pdf", 'no PDF');
	create_folder('counted', $path);
	source_becomes(
		'counted',
		'phase, documents_processed, error, successful_run_count, error_run_count, last_indexed IS '
		  . 'NOT NULL, last_run_duration_seconds > 0',
		'Completed|4|t|1|0|t|t',
		'rag.sources counts documents and runs');
	is( status(
			'counted',
			"errors[1] LIKE 'broken.pdf: %' OR errors[1] LIKE '%/broken.pdf: %',
			cardinality(errors)"
		),
		't|1',
		'rag.sources lists documents that could not be indexed');
	is( reason('counted', 'AutoIndexerError') . ' ' . reason('counted', 'AutoIndexerCompleted'),
		'DocumentsFailed RunCompleted',
		'conditions report documents that could not be indexed');
	is( run_row(
			$node,
			'counted',
			'documents_added, documents_updated, documents_deleted, documents_unchanged, '
			  . 'documents_failed, chunks_written, chunks_embedded > 0, bytes_fetched > 0'),
		'3|0|0|0|1|3|t|t',
		'rag.runs counts documents, chunks and bytes');
	write_file("$path/doc-001.md", "# Another\n\nText.\n");
	unlink "$path/doc-002.md";
	sync_ok($node, 'counted');
	is( run_row(
			$node,
			'counted',
			'documents_added, documents_updated, documents_deleted, documents_unchanged, '
			  . 'documents_failed'),
		'0|1|1|1|1',
		'rag.runs counts added, updated, deleted and unchanged documents');
	is(status('counted', 'documents_processed'),
		'3', 'documents_processed is the number of processed documents');
	is( ask($node,
			"SELECT count(*), count(DISTINCT run_id) FROM rag.run_errors WHERE source = 'counted'"),
		'2|2',
		'each run has its own errors');
};

subtest 'old runs are deleted' => sub {
	my $path = write_documents(temp_folder(), 1, 1);
	write_file("$path/broken.pdf", 'no PDF');
	create_folder('kept', $path);
	source_becomes('kept', 'phase', 'Completed');
	sync_ok($node, 'kept') for 1 .. 3;
	rename $path, "$path.away";
	run_sql($node, "SELECT rag_sync('kept')") for 1 .. 3;
	my $kept = sub {
		ask($node,
			"SELECT count(*) FILTER (WHERE phase = 'Completed'),
			count(*) FILTER (WHERE phase = 'Failed'),
		(SELECT count(DISTINCT run_id) FROM rag.run_errors e WHERE e.source = 'kept') FROM rag.runs
		WHERE source = 'kept'"
		);
	};
	is($kept->(), '4|3|4', 'all runs are kept within the limits');
	configure($node, 'rag.successful_runs_history_limit', 2);
	becomes('the oldest completed ones go',
		$kept, '2|3|2', 'lower limits delete the oldest completed runs with their errors');
	configure($node, 'rag.failed_runs_history_limit', 1);
	becomes('the oldest failed ones go', $kept, '2|1|2', 'failed runs have their own limit');
	becomes(
		'the limits apply to all sources',
		sub {
			ask($node,
				"SELECT max(c), max(f)
				FROM (SELECT count(*) FILTER (WHERE phase = 'Completed') AS c,
		count(*) FILTER (WHERE phase = 'Failed') AS f FROM rag.runs GROUP BY source) AS n");
		},
		'2|1',
		'the limits apply to all sources');
	is( ask($node,
			"SELECT count(*) FROM rag.run_errors e WHERE NOT EXISTS (SELECT FROM rag.runs r
			WHERE r.run_id = e.run_id)"
		),
		'0',
		'no error remains without its run');
	my $last = run_id('kept');
	run_sql($node, "SELECT rag_sync('kept')");
	is($kept->() . (run_id('kept') > $last), '2|1|21', 'each further run replaces the oldest');
	configure($node, 'rag.failed_runs_history_limit', 0);
	configure($node, 'rag.successful_runs_history_limit', 0);
	becomes('the last run stays', $kept, '0|1|0', 'the last run is kept with limits of 0');
	is(status('kept', 'phase, successful_run_count, error_run_count'),
		'Retrying|4|4', 'the counts of rag.sources include deleted runs');
	configure($node, $_) for qw(rag.failed_runs_history_limit rag.successful_runs_history_limit);
};

subtest 'conditions of a source' => sub {
	create_folder('conditioned', my $path = write_documents(temp_folder(), 1, 1));
	source_becomes('conditioned', 'phase', 'Completed');
	my $then = '2001-02-03T04:05:06Z';
	my $age = sub {
		ask($node,
			"UPDATE rag.source
			SET conditions = (SELECT jsonb_agg(c || '{\"lastTransitionTime\": \"$then\"}'
			ORDER BY n)
		FROM jsonb_array_elements(conditions) WITH ORDINALITY AS e (c, n))
		WHERE name = 'conditioned'");
	};
	my $changed = sub {
		join ' ', map { "$_->{type}=$_->{status}" }
		  grep { $_->{lastTransitionTime} ne $then }
		  @{ decode_json(status('conditioned', 'conditions')) };
	};
	$age->();
	sync_ok($node, 'conditioned');
	is($changed->(), 'AutoIndexerIndexing=False',
		'lastTransitionTime does not change while the status is the same');
	$age->();
	rename $path, "$path.away";
	run_sql($node, "SELECT rag_sync('conditioned')");
	is( $changed->(),
		'ResourceReady=False AutoIndexerIndexing=False AutoIndexerCompleted=False '
		  . 'AutoIndexerError=True',
		'lastTransitionTime changes with the status');
	$age->();
	run_sql($node, "SELECT rag_sync('conditioned')");
	is($changed->(), 'AutoIndexerIndexing=False', 'a second failure changes no status');
	my $conditions = decode_json(status('conditioned', 'conditions'));
	is( join(' ', map { $_->{type} } @$conditions),
		'ResourceReady AutoIndexerScheduled AutoIndexerIndexing AutoIndexerCompleted '
		  . 'AutoIndexerError AutoIndexerDriftDetected',
		'each type of condition exists once');
	is_deeply(
		[
			grep {
				!(     $_->{status} =~ /^(True|False|Unknown)$/
					&& $_->{reason} =~ /^[A-Z][A-Za-z]+$/
					&& defined $_->{message}
					&& $_->{observedGeneration} == 1
					&& $_->{lastTransitionTime} =~ /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
			} @$conditions
		],
		[],
		'each condition has status, reason, message, time and generation');
	my $run = run_id('conditioned');
	like(
		condition('conditioned', 'AutoIndexerError')->{message},
		qr/^run $run: .*; the next attempt is in \d+ s$/,
		'the condition AutoIndexerError reports the failed run and the next retry');
};

subtest 'notifications on rag_events' => sub {
	my $listener = session($node);
	$listener->query('LISTEN rag_events');
	my @events;
	my $hear = sub {
		push @events, grep { $_->{source} eq 'heard' }
		  map { decode_json($_) }
		  $listener->query('SELECT 1') =~ /notification "rag_events" with payload "(.*)" received/g;
		return join ', ', map {
			my $event = $_;
			join ' ', map { $event->{$_} // () } qw(phase trigger attempt)
		} @events;
	};
	my $hears = sub {
		my ($expected, $name) = @_;
		becomes("heard: $expected", $hear, $expected, $name);
		@events = ();
	};
	RagHold::hold('heard');
	create_held('heard', ', max_retries => 1');
	$hears->(
		'Pending, Pending create 1, Running create 1',
		'creation of a source and its first run are announced');
	$node->safe_psql('postgres', "SELECT rag_suspend('heard')");
	RagHold::release('heard');
	$hears->('Completed create 1, Suspended', 'the end of a run and the suspension are announced');
	$node->safe_psql('postgres', "SELECT rag_resume('heard')");
	$hears->('Completed', 'rag_resume announces the phase of the last run');
	RagHold::answer('heard', '404 Not Found');
	isnt(run_sql($node, "SELECT rag_sync('heard')")->{rc}, 0);
	$hears->(
		'Running manual 1, Retrying manual 1',
		'a failed run that will be retried is announced as Retrying');
	make_due('retry_at', 'heard');
	$hears->(
		'Pending retry 2, Running retry 2, Failed retry 2',
		'the last retry is announced as Failed');
	isnt(run_sql($node, "SELECT rag_sync('heard')")->{rc}, 0);
	$node->safe_psql('postgres', "SELECT rag_alter_source('heard', max_retries => 0)");
	$hears->(
		'Running manual 1, Retrying manual 1, Failed',
		'a cancelled retry is announced as Failed');
	$node->safe_psql('postgres',
		"BEGIN; SELECT rag_suspend('heard'); ROLLBACK; SELECT rag_drop_source('heard')");
	becomes(
		'Deleted', $hear,
		'Terminating, Deleted',
		'a drop is announced, a rolled back suspension is not');
	is_deeply([ sort keys %{ $events[0] } ],
		[qw(at phase source)], 'a notification of a source has at, phase and source');
	RagHold::answer('heard');
	@events = ();
	create_held('heard', ', suspend => true');
	$hears->('Suspended', 'creation of a suspended source is announced');
	my $run = sync_ok($node, 'heard');
	becomes(
		'a run', $hear,
		'Running manual 1, Completed manual 1, Suspended',
		'a manual run of a suspended source is announced');
	is_deeply(
		[ sort keys %{ $events[0] } ],
		[qw(at attempt phase run_id source trigger)],
		'a notification of a run has attempt, run_id and trigger as well');
	is($events[0]{run_id}, $run, 'a notification of a run has its id');
};

subtest 'comments of views and columns' => sub {
	is( ask($node,
			"SELECT count(*) > 60, string_agg(attrelid::regclass || '.' || attname, ', ')
			FILTER (WHERE coalesce(col_description(attrelid, attnum), '') = '')
		FROM pg_attribute
		WHERE attrelid = ANY ('{rag.sources,rag.runs,rag.run_errors,rag.progress}'::regclass[])
		AND attnum > 0 AND NOT attisdropped"
		),
		't|',
		'every column of the views has a comment');
	is( ask($node,
			"SELECT count(*)
			FROM unnest('{rag.sources,rag.runs,rag.run_errors,rag.progress}'::regclass[]) AS v
			WHERE obj_description(v, 'pg_class') IS NULL"
		),
		'0',
		'every view has a comment');
};

is(ask($node, "SELECT count(*) FROM rag.runs WHERE phase IN ('Pending', 'Running')"),
	'0', 'no run is active in the end');
runs_never_overlap($node, 'postgres', 'no two runs of one source overlapped');
same_cluster($witness, 'all tests of runs');
$node->stop;
done_testing();
