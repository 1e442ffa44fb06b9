# How runs begin, end, are tried again, cancelled, put off and forgotten, and what is said of them.
# The time until something is due is long; where it shall have come the test says so in the catalog.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use Time::HiRes qw(time);
use RagCluster;
use RagHold ();
use RagWorkers qw(runner never_two_at_once status_of);

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
	return $node->safe_psql('postgres', "SELECT rag_create_source('$name', '$kind', '$spec'" . ($more // '') . ')');
}
sub create_folder { my ($name, $path, $more) = @_; return create($name, 'folder', qq({"path": "$path"}), $more) }

# A source of one web page (or more) whose answer can be held back.
sub held_spec { my ($name, $count) = @_; return sprintf '{"endpoints": [%s]}', join ', ', map { sprintf '"%s/%s/%d.md"', RagHold::origin(), $name, $_ } 1 .. $count // 1 }
sub create_held { my ($name, $more, $count) = @_; return create($name, 'static', held_spec($name, $count), $more) }

sub status { my ($name, $columns) = @_; return ask($node, "SELECT $columns FROM rag.sources WHERE name = '$name'") }

# Waits until columns of a source, or of its last run, are so.
sub comes
{
	my ($what, $look, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 2;
	my $seen = '';
	eval { await($what, sub { ($seen = $look->()) eq $expected }) };
	return is($seen, $expected, $name // $what) || diag(status_of($node));
}
sub status_comes { my ($source, $columns, $expected, $name) = @_; return comes("$source is $expected", sub { status($source, $columns) }, $expected, $name) }
sub run_comes { my ($source, $columns, $expected, $name) = @_; return comes("the run of $source is $expected", sub { run_row($node, $source, $columns) // '' }, $expected, $name) }
sub run_id { return run_row($node, $_[0], 'run_id') }

# The time has come for what is due of some sources.
sub time_comes
{
	my ($column, @names) = @_;
	my $list = join ', ', map { "'$_'" } @names;
	ask($node, "UPDATE rag.source SET $column = clock_timestamp() WHERE name IN ($list)");
	return wake();
}
sub wake { return ask($node, 'SELECT pg_reload_conf()') }

sub condition
{
	my ($source, $type) = @_;
	my ($found) = grep { $_->{type} eq $type } @{ decode_json(status($source, 'conditions')) };
	return $found;
}
sub reason { return condition(@_)->{reason} }

# A source with a schedule whose run comes after all that was due before: what has not begun by its
# end was not to begin.
create_folder('marker', $folder, ", schedule => '\@yearly'");
sub scheduler_passes
{
	my $before = status('marker', 'successful_run_count');
	time_comes('next_run', 'marker');
	return status_comes('marker', 'successful_run_count', $before + 1, 'the scheduler passes');
}

sub runs_of { return ask($node, "SELECT coalesce(string_agg(trigger || ' ' || attempt, ', ' ORDER BY run_id), '') FROM rag.runs WHERE source = '$_[0]'") }

# Whether the next retry is in the bounds of the delay after that many failed tries.
sub retry_in_bounds
{
	my ($source, $attempt) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $most = 900 * 2**($attempt - 1);
	my $delay = ask($node, "SELECT extract(epoch FROM s.next_retry - r.finished_at) FROM rag.sources s JOIN rag.runs r ON r.run_id = s.last_run_id
		WHERE s.name = '$source'");
	# the delay counts from a moment before finished_at
	ok($delay > $most / 2 - 30 && $delay <= $most, "$source: after try $attempt it is $most s at most, and half of it at least") or diag("$delay s");
	return;
}

# What a source and its runs say, for the comparison with later.
sub definition { return ask($node, "SELECT kind, spec, collection, schedule, suspend, max_retries, generation, uid FROM rag.sources WHERE name = '$_[0]'") }
sub documents { return ask($node, "SELECT coalesce(string_agg(collection || ' ' || regexp_replace(uri, '.*/', ''), ', ' ORDER BY collection, uri), '') FROM rag.documents WHERE coalesce(source, former_source) = '$_[0]'") }

subtest 'retries' => sub {
	create_folder('failing', $missing);
	for my $attempt (1 .. 3)
	{
		status_comes('failing', 'phase, error_run_count', "Retrying|$attempt", "try $attempt fails and is to be tried again");
		retry_in_bounds('failing', $attempt);
		like(condition('failing', 'AutoIndexerError')->{message}, qr/tried again in \d+ s/, 'the condition says so');
		time_comes('retry_at', 'failing');
	}
	status_comes('failing', 'phase, error_run_count, next_retry IS NULL', 'Failed|4|t', 'after max_retries of them it has failed');
	is(runs_of('failing'), 'create 1, retry 2, retry 3, retry 4', 'the tries are counted');
	unlike(condition('failing', 'AutoIndexerError')->{message}, qr/again/, 'the condition promises nothing');

	create_folder('by-hand', $missing);
	status_comes('by-hand', 'phase', 'Retrying');
	time_comes('retry_at', 'by-hand');
	status_comes('by-hand', 'phase, error_run_count', 'Retrying|2');
	isnt(run_sql($node, "SELECT rag_sync('by-hand')")->{rc}, 0, 'a run that someone asks for fails too');
	is(runs_of('by-hand'), 'create 1, retry 2, manual 1', 'and counts from 1');
	retry_in_bounds('by-hand', 1);
	time_comes('retry_at', 'by-hand');
	status_comes('by-hand', 'phase, error_run_count', 'Retrying|4');
	$node->safe_psql('postgres', "SELECT rag_sync('by-hand', wait => false)");
	status_comes('by-hand', 'phase, error_run_count', 'Retrying|5', 'so does one that is queued');
	is(runs_of('by-hand'), 'create 1, retry 2, manual 1, retry 2, manual 1', 'with its own count');
	retry_in_bounds('by-hand', 1);
	RagHold::hold('recovers');
	create_held('recovers');
	status_comes('recovers', 'phase', 'Running');
	is(status('recovers', 'next_retry IS NULL'), 't', 'no retry is due during a run');
	RagHold::release('recovers');
	status_comes('recovers', 'phase', 'Completed');

	create_folder('scheduled', $missing, ", schedule => '\@yearly'");
	is(status('scheduled', "phase, next_scheduled_run > now() - interval '1 s'"), 'Pending|t', 'a source with a schedule waits for its time');
	time_comes('next_run', 'scheduled');
	status_comes('scheduled', 'phase, error_run_count', 'Retrying|1');
	time_comes('next_run', 'scheduled');
	status_comes('scheduled', 'phase, error_run_count', 'Retrying|2', 'which has come again before the retry');
	is(runs_of('scheduled'), 'schedule 1, schedule 1', 'and takes its place');
	retry_in_bounds('scheduled', 1);
	is(status('scheduled', "next_scheduled_run > now()"), 't', 'the next time is one to come');
	ask($node, "UPDATE rag.source SET next_run = clock_timestamp(), retry_at = clock_timestamp() WHERE name = 'scheduled'");
	wake();
	status_comes('scheduled', 'phase, error_run_count', 'Retrying|3');
	scheduler_passes();
	is(runs_of('scheduled'), 'schedule 1, schedule 1, schedule 1', 'also where both are due at once');
};

subtest 'throttling' => sub {
	RagHold::answer('busy', '429 Too Many Requests', 'Retry-After: 7200');
	create_held('busy', ', max_retries => 1');
	for my $time (1 .. 3)
	{
		status_comes('busy', 'phase, error_run_count', "Retrying|$time", "a server that asks to be left alone is left alone, $time");
		is(ask($node, "SELECT s.next_retry - r.finished_at > '7190 s' FROM rag.sources s JOIN rag.runs r ON r.run_id = s.last_run_id WHERE s.name = 'busy'"),
			't', 'for as long as it asks');
		is(reason('busy', 'AutoIndexerError'), 'Throttled', 'and the condition says why');
		time_comes('retry_at', 'busy');
	}
	status_comes('busy', 'phase, error_run_count', 'Retrying|4', 'that uses up no retries');
	RagHold::answer('busy');
	time_comes('retry_at', 'busy');
	status_comes('busy', 'phase, error, errors, documents_processed', 'Completed|f|{}|1', 'later it succeeds');
	is(runs_of('busy'), 'create 1, retry 2, retry 3, retry 4, retry 5', 'each try has a number');
	RagHold::answer('busy', '429 Too Many Requests', 'Retry-After: 60');
	isnt(run_sql($node, "SELECT rag_sync('busy')")->{rc}, 0);
	retry_in_bounds('busy', 1);
};

subtest 'timeout' => sub {
	RagHold::hold('slow');
	create_held('slow', ", timeout => '5 seconds'");
	my $engine = engine_pid($node, 'ingest');
	freeze($engine);
	run_comes('slow', "phase, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message'",
		"Failed|57014|the run took longer than the source's timeout of 5 s", 'a run whose engine does nothing is ended in time');
	await('the engine is gone', sub { !is_running($engine) });
	is(reason('slow', "AutoIndexer$_"), 'Timeout', "$_: Timeout") for qw(Error Completed Indexing);
	is(status('slow', 'phase'), 'Retrying', 'it is to be tried again');
	RagHold::release('slow');
	time_comes('retry_at', 'slow');
	status_comes('slow', 'phase, error', 'Completed|f', 'and is');
};

subtest 'rag_cancel_run' => sub {
	RagHold::hold('first');
	RagHold::hold('second');
	create_held($_) for qw(first second);
	RagHold::await_asked($_) for qw(first second);
	status_comes($_, 'phase', 'Running') for qw(first second);
	my $queued = $node->safe_psql('postgres', "SELECT rag_sync('marker', wait => false)");
	run_comes('marker', 'phase, waiting', 'Pending|as many runs are under way as rag.max_running_syncs allows (2)', 'a run that waits says why');
	is(status('marker', 'phase'), 'Pending', 'so does its source');
	is($node->safe_psql('postgres', "SELECT rag_cancel_run($queued)"), 't', 'it is cancelled');
	is(run_row($node, 'marker', "phase, started_at IS NULL, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message'"),
		'Failed|t|57014|the run was cancelled before it began', 'and has failed');
	is(run_row($node, 'marker', 'waiting IS NULL'), 't', 'and waits for nothing');
	is(status('marker', 'phase, next_retry IS NULL') . reason('marker', 'AutoIndexerError'), 'Failed|tCancelled', 'for good');
	my $running = run_id('first');
	is($node->safe_psql('postgres', "SELECT rag_cancel_run($running)"), 't', 'so is one that is under way');
	run_comes('first', "run_id, phase, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message'", "$running|Failed|57014|the run was cancelled");
	is(status('first', 'phase, next_retry IS NULL') . reason('first', 'AutoIndexerError'), 'Failed|tCancelled', 'it is not tried again');
	is($node->safe_psql('postgres', "SELECT rag_cancel_run($_)"), 'f', 'one that has ended is not cancelled') for $running, $queued;
	error_like(run_sql($node, 'SELECT rag_cancel_run(999999)'), '42704', 'run 999999 does not exist', 'rag.runs lists them', 'nor one that never was');
	is(status('second', 'phase'), 'Running', 'another run is not disturbed');
	is(scalar(() = engines($node, 'ingest')), 1, 'nor its engine, while that of the cancelled one is gone');

	# one that is queued and not yet seen by the scheduler: its phase cannot change between the look
	# and the end
	my $session = session($node);
	my $both = $session->query("BEGIN; SELECT rag_sync('first', wait => false)");
	is($session->query("SELECT rag_cancel_run($both); COMMIT"), 't', 'in the transaction that queued it');
	scheduler_passes();
	is(run_row($node, 'first', 'run_id, phase, started_at IS NULL'), "$both|Failed|t", 'it never begins');
	RagHold::release($_) for qw(first second);
	status_comes('second', 'phase', 'Completed');
};

subtest 'rag_sync where all slots are taken' => sub {
	RagHold::hold($_) for qw(first second);
	$node->safe_psql('postgres', "SELECT rag_sync(name, wait => false) FROM unnest('{first,second}'::text[]) name");
	status_comes($_, 'phase', 'Running') for qw(first second);
	my $asked = start_sql($node, "SELECT rag_sync('marker')");
	$asked->await_waiting;
	isnt(status('marker', 'phase'), 'Running', 'waits');
	RagHold::release('first');
	my $result = $asked->finish;
	is($result->{rc}, 0, 'for a slot') or diag($result->{err});
	like($result->{err}, qr/NOTICE:.*waiting: as many runs are under way as rag\.max_running_syncs allows \(2\)/, 'and says so');
	RagHold::release('second');
	status_comes($_, 'phase', 'Completed') for qw(first second);
};

subtest 'rag_wait' => sub {
	RagHold::hold('first');
	my $run = $node->safe_psql('postgres', "SELECT rag_sync('first', wait => false)");
	run_comes('first', 'phase', 'Running');
	is($node->safe_psql('postgres', "SELECT rag_wait($run, '50 ms')"), 'Running', 'for a while');
	is($node->safe_psql('postgres', "SELECT rag_wait($run, '0')"), 'Running', 'or not at all');
	my $waiting = start_sql($node, "SELECT rag_wait($run)");
	$waiting->await_waiting;
	RagHold::release('first');
	is($waiting->finish->{out}, 'Completed', 'until the end');
	is($node->safe_psql('postgres', "SELECT rag_wait($run)"), 'Completed', 'or after it');
	error_like(run_sql($node, 'SELECT rag_wait(999999)'), '42704', 'run 999999 does not exist', 'rag.runs lists them', 'a run that never was');
	error_like(run_sql($node, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT rag_wait($run)"), '25001',
		'rag_wait cannot wait in a transaction whose snapshot is fixed', 'READ COMMITTED', 'a snapshot that does not move on');
	error_like(run_sql($node, "SELECT rag_wait(rag_sync('first', wait => false))"), '25001',
		'run \d+ cannot begin or end before this transaction has', 'COMMIT', 'a run that nobody can begin');
	error_like(run_sql($node, "BEGIN; SELECT rag_sync('first', wait => false); SELECT rag_sync('first')"), '25001',
		'is not committed', 'COMMIT', 'nor with rag_sync');
};

subtest 'progress' => sub {
	RagHold::hold('first');
	my $began = time;
	my $sync = start_sql($node, "SELECT rag_sync('first')");
	my $said = sub { $sync->is_waiting; scalar(() = $sync->{err} =~ /NOTICE:.*first: \d+( of 1)? documents done, 0 chunks written/g) };
	await('a run that takes its time says how far it is', sub { $said->() >= 1 });
	cmp_ok(time - $began, '>=', 2, 'after a while');
	is(ask($node, "SELECT source, stage IN ('fetch', 'embed'), documents_done, rate, eta IS NULL FROM rag.progress"), 'first|t|0|0.0|t', 'rag.progress too');
	await('and again', sub { $said->() >= 2 });
	cmp_ok(time - $began, '>=', 5, 'after a longer while');
	RagHold::release('first');
	is($sync->finish->{rc}, 0, 'it ends well');
	is(ask($node, 'SELECT count(*) FROM rag.progress'), '0', 'and makes no more progress');
};

subtest 'suspend and resume' => sub {
	RagHold::hold('first');
	$node->safe_psql('postgres', "SELECT rag_sync('first', wait => false)");
	run_comes('first', 'phase', 'Running');
	$node->safe_psql('postgres', "SELECT rag_suspend('first')");
	is(status('first', 'phase, suspend'), 'Running|t', 'a run under way goes on');
	RagHold::release('first');
	run_comes('first', 'phase', 'Completed', 'to its end');
	is(status('first', 'phase, scheduled') . reason('first', 'AutoIndexerScheduled'), 'Suspended|fSuspended', 'then the source is suspended');

	create_folder('resting', $missing, ", schedule => '\@yearly'");
	time_comes('next_run', 'resting');
	status_comes('resting', 'phase', 'Retrying');
	$node->safe_psql('postgres', "SELECT rag_suspend('resting')");
	is(status('resting', 'phase, next_retry, next_scheduled_run'), 'Suspended||', 'a source that is suspended has no next time');
	time_comes('next_run', 'resting');
	time_comes('retry_at', 'resting');
	scheduler_passes();
	is(runs_of('resting'), 'schedule 1', 'neither its schedule nor its retry starts a run');
	write_documents($missing, 1, 1);
	sync_ok($node, 'resting', 'rag_sync does');
	is(status('resting', 'phase, error, documents_processed'), 'Suspended|f|1', 'and it is suspended afterwards');
	$node->safe_psql('postgres', "SELECT rag_resume('resting')");
	is(status('resting', 'phase, next_scheduled_run > now()'), 'Completed|t', 'when it is resumed, its next time is one to come');
	scheduler_passes();
	is(runs_of('resting'), 'schedule 1, manual 1', 'what it missed is not caught up with');
	unlink glob "$missing/*";
	rmdir $missing;
	time_comes('next_run', 'resting');
	status_comes('resting', 'phase', 'Retrying');
	$node->safe_psql('postgres', "SELECT rag_suspend('resting')");
	time_comes('retry_at', 'resting');
	$node->safe_psql('postgres', "SELECT rag_resume('resting')");
	run_comes('resting', 'trigger, attempt, phase', 'retry|2|Failed', 'a retry that came meanwhile is');

	# one that is queued when it is suspended
	RagHold::hold($_) for qw(first second);
	$node->safe_psql('postgres', "SELECT rag_resume('first'); SELECT rag_sync('first', wait => false); SELECT rag_sync('second', wait => false)");
	run_comes($_, 'phase', 'Running') for qw(first second);
	create_folder('queued', $folder, ", schedule => '\@yearly'");
	time_comes('next_run', 'queued');
	run_comes('queued', 'phase', 'Pending');
	is(status('queued', 'phase'), 'Pending', 'a run that is due waits for room');
	$node->safe_psql('postgres', "SELECT rag_suspend('queued')");
	is(status('queued', 'phase') . '|' . run_row($node, 'queued', 'phase, waiting'), 'Suspended|Pending|the source is suspended', 'a queued run rests too');
	RagHold::release($_) for qw(first second);
	run_comes($_, 'phase', 'Completed') for qw(first second);
	scheduler_passes();
	is(run_row($node, 'queued', 'phase'), 'Pending', 'though there is room for it');
	my $run = run_id('queued');
	is($node->safe_psql('postgres', "SELECT rag_sync('queued', wait => false)"), $run, 'until someone asks for it');
	status_comes('queued', 'phase, successful_run_count', 'Suspended|1');
};

subtest 'a definition that changes during a run' => sub {
	RagHold::hold($_) for qw(second other);
	my $before = status('second', 'last_indexed, observed_generation, successful_run_count');
	my $conditions = condition('second', 'AutoIndexerCompleted');
	$node->safe_psql('postgres', "SELECT rag_sync('second', wait => false)");
	run_comes('second', 'phase', 'Running');
	my ($old, $spec) = (run_id('second'), held_spec('other', 2));
	$node->safe_psql('postgres', "SELECT rag_alter_source('second', spec => '$spec', collection => 'moved', max_retries => 0)");
	is(status('second', 'phase, generation, observed_generation'), 'Running|2|1', 'is a new generation');
	RagHold::release('second');
	run_comes('second', "run_id > $old, phase, trigger, generation", 't|Running|create|2', 'the run after it carries that out');
	is(ask($node, "SELECT phase, generation, collection, documents_updated + documents_unchanged FROM rag.runs WHERE run_id = $old"),
		'Completed|1|default|1', 'that one has carried out the old one to its end');
	is(documents('second'), 'default 1.md', 'its documents are where they were');
	my ($indexed, $observed, $count) = split /\|/, $before;
	is(status('second', 'last_indexed, observed_generation, successful_run_count'), "$indexed|$observed|" . ($count + 1), 'it counts, and is no status of the new one');
	is_deeply(condition('second', 'AutoIndexerCompleted'), $conditions, 'nor is its end a condition of it');
	is(condition('second', 'ResourceReady')->{observedGeneration}, 2, 'others speak of the new one');
	RagHold::release('other');
	status_comes('second', 'phase, generation, observed_generation, documents_processed', 'Completed|2|2|2', 'the new one has a status of its own');
	is(documents('second'), 'moved 1.md, moved 2.md', 'documents move with it');
	is(condition('second', 'AutoIndexerCompleted')->{observedGeneration}, 2, 'and conditions');
};

# Starts a session that drops a source in the middle of a run, and gives it with the runner, which
# is stopped.
sub begin_to_drop
{
	my ($source, $statements) = @_;
	RagHold::hold($source);
	$node->safe_psql('postgres', "SELECT rag_sync('$source', wait => false)");
	RagHold::await_asked($source);
	my $runner = runner($node, $source);
	await("the runner of $source waits", sub { ask($node, "SELECT wait_event = 'Extension' FROM pg_stat_activity WHERE pid = $runner") eq 't' });
	freeze_asleep($runner);
	my $session = start_sql($node, $statements);
	status_comes($source, 'phase', 'Terminating', "$source is Terminating while its run stops");
	return ($session, $runner);
}

subtest 'a source that is dropped during a run' => sub {
	for my $keep ('true', 'false')
	{
		create_held('going');
		status_comes('going', 'phase', 'Completed');
		my ($dropping, $runner) = begin_to_drop('going', "SELECT rag_drop_source('going', keep_documents => $keep)");
		error_like(run_sql($node, "SELECT rag_sync('going', wait => $_)"), '55006', 'source "going" is being dropped by another session', undef,
			"nobody can sync it, wait => $_") for 'true', 'false';
		error_like(run_sql($node, "SELECT rag_drop_source('going')"), '55006', 'is being dropped by another session', undef, 'or drop it');
		thaw($runner);
		my $result = $dropping->finish;
		is($result->{rc}, 0, 'it is dropped');
		like($result->{err}, qr/WARNING:.*source "going" is being synced: its run is asked to stop/, 'with a warning');
		is(ask($node, "SELECT (SELECT count(*) FROM rag.sources WHERE name = 'going') + (SELECT count(*) FROM rag.runs WHERE source = 'going')"), '0', 'so are its runs');
		is(documents('going'), $keep eq 'true' ? 'default 1.md' : '', "keep_documents => $keep");
		RagHold::release('going');
	}

	create_held('staying');
	status_comes('staying', 'phase', 'Completed');
	my ($definition, $documents) = (definition('staying'), documents('staying'));
	my ($dropping, $runner) = begin_to_drop('staying', "BEGIN; SELECT rag_drop_source('staying', keep_documents => false); ROLLBACK");
	thaw($runner);
	is($dropping->finish->{rc}, 0, 'a transaction that drops one and is rolled back');
	status_comes('staying', 'phase', 'Retrying', 'leaves it there: its run is to be tried again');
	is(definition('staying') . documents('staying'), $definition . $documents, 'and as it was');
	is(reason('staying', 'AutoIndexerError'), 'Interrupted', 'and says what happened');
	RagHold::release('staying');
	time_comes('retry_at', 'staying');
	status_comes('staying', 'phase, error', 'Completed|f', 'it goes on');

	# the session has the source's row locked, and the run cannot write down how it ended
	for my $end ('ROLLBACK', 'COMMIT')
	{
		($dropping, $runner) = begin_to_drop('staying',
			"BEGIN; SELECT rag_alter_source('staying', max_retries => 7); SELECT rag_drop_source('staying', keep_documents => false); $end");
		thaw($runner);
		my $result = $dropping->finish;
		is($result->{rc}, 0, "alter and drop and $end, in one transaction") or diag($result->{err});
		RagHold::release('staying');
		next if $end eq 'COMMIT';
		status_comes('staying', 'phase', 'Retrying', 'its run is to be tried again');
		is(definition('staying') . documents('staying'), $definition . $documents, 'it is as it was');
		is(reason('staying', 'AutoIndexerError'), 'Interrupted', 'and says what happened');
	}
	is(ask($node, "SELECT count(*) FROM rag.sources WHERE name = 'staying'") . documents('staying'), '0', 'once committed it is gone, with its documents');
	my @both = map { $_->finish } map { start_sql($node, "SELECT rag_drop_source('recovers')") } 1 .. 2;
	is(join(' ', sort map { $_->{rc} } @both), '0 3', 'of two sessions that drop a source one does');
	my ($other) = grep { $_->{rc} } @both;
	like($other->{err}, qr/ERROR:  (55006|42704): /, 'the other is told so');
};

subtest 'a row that someone keeps locked' => sub {
	create_folder($_, $folder, ", schedule => '\@yearly'") for qw(locked beside);
	my $session = session($node);
	$session->query("BEGIN; SELECT rag_alter_source('locked', max_retries => 5)");
	# as the row would say if it had been due before; the test cannot write it now
	$session->query("ROLLBACK; UPDATE rag.source SET next_run = clock_timestamp() WHERE name IN ('locked', 'beside')");
	$session->query("BEGIN; SELECT rag_alter_source('locked', max_retries => 5)");
	wake();
	status_comes('beside', 'phase', 'Completed', 'is in no other source\'s way');
	scheduler_passes();
	$session->query('COMMIT');
	status_comes('locked', 'phase', 'Completed', 'and the source is synced afterwards');

	RagHold::hold($_) for qw(first second other);
	$node->safe_psql('postgres', "SELECT rag_sync('first', wait => false)");
	run_comes('first', 'phase', 'Running');
	$session->query("BEGIN; SELECT rag_alter_source('first', max_retries => 6)");
	$node->safe_psql('postgres', "SELECT rag_sync('second', wait => false)");
	run_comes('second', 'phase', 'Running');
	RagHold::release('first');
	sync_ok($node, 'beside', 'a run that cannot write down its end gives its slot to others');
	is(run_row($node, 'first', 'phase'), 'Running', 'as long as it cannot');
	$session->query('ROLLBACK');
	run_comes('first', 'phase', 'Completed', 'then it does');
	RagHold::release($_) for qw(second other);
	run_comes('second', 'phase', 'Completed');
};

subtest 'a run whose process cannot begin it' => sub {
	# new processes can write nothing in this database
	ask($node, 'ALTER DATABASE postgres SET default_transaction_read_only = on');
	my $run = ask($node, "SELECT rag_sync('first', wait => false)");
	run_comes('first', 'run_id, phase, waiting', "$run|Pending|its process keeps ending before the run begins, see the server's log", 'waits, and says so');
	my @tries = slurp_file($node->logfile) =~ /Run\($run\) of source "first" could not be carried out: cannot execute/g;
	ok(@tries >= 4 && @tries <= 15, 'it is not tried all the time') or diag(scalar @tries);
	ask($node, 'ALTER DATABASE postgres RESET default_transaction_read_only');
	run_comes('first', 'run_id, phase', "$run|Completed", 'later it is carried out');
};

subtest 'one that always fails beside one that works' => sub {
	for my $round (1 .. 3)
	{
		my ($good, $bad) = (status('beside', 'successful_run_count'), status('scheduled', 'error_run_count'));
		time_comes('next_run', qw(scheduled beside));
		status_comes('scheduled', 'phase, error_run_count', 'Retrying|' . ($bad + 1));
		status_comes('beside', 'phase, error, errors, successful_run_count, error_run_count', 'Completed|f|{}|' . ($good + 1) . '|0', 'is not disturbed');
	}
};

subtest 'counts' => sub {
	my $path = write_documents(temp_folder(), 3, 1);
	write_file("$path/broken.pdf", 'no PDF');
	create_folder('counted', $path);
	status_comes('counted', 'phase, documents_processed, error, successful_run_count, error_run_count, last_indexed IS NOT NULL, last_run_duration_seconds > 0',
		'Completed|4|t|1|0|t|t', 'of a source');
	is(status('counted', "errors[1] LIKE 'broken.pdf: %' OR errors[1] LIKE '%/broken.pdf: %', cardinality(errors)"), 't|1', 'with what could not be indexed');
	is(reason('counted', 'AutoIndexerError') . ' ' . reason('counted', 'AutoIndexerCompleted'), 'DocumentsFailed RunCompleted', 'and conditions');
	is(run_row($node, 'counted', 'documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed, chunks_written, chunks_embedded > 0, bytes_fetched > 0'),
		'3|0|0|0|1|3|t|t', 'of a run');
	write_file("$path/doc-001.md", "# Another\n\nText.\n");
	unlink "$path/doc-002.md";
	sync_ok($node, 'counted');
	is(run_row($node, 'counted', 'documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed'), '0|1|1|1|1', 'and of the next');
	is(status('counted', 'documents_processed'), '3', 'documents that it looked at');
	is(ask($node, "SELECT count(*), count(DISTINCT run_id) FROM rag.run_errors WHERE source = 'counted'"), '2|2', 'each run has its errors');
};

subtest 'retention' => sub {
	my $path = write_documents(temp_folder(), 1, 1);
	write_file("$path/broken.pdf", 'no PDF');
	create_folder('kept', $path);
	status_comes('kept', 'phase', 'Completed');
	sync_ok($node, 'kept') for 1 .. 3;
	rename $path, "$path.away";
	run_sql($node, "SELECT rag_sync('kept')") for 1 .. 3;
	my $kept = sub { ask($node, "SELECT count(*) FILTER (WHERE phase = 'Completed'), count(*) FILTER (WHERE phase = 'Failed'),
		(SELECT count(DISTINCT run_id) FROM rag.run_errors e WHERE e.source = 'kept') FROM rag.runs WHERE source = 'kept'") };
	is($kept->(), '4|3|4', 'all runs are there');
	configure($node, 'rag.successful_runs_history_limit', 2);
	comes('the oldest completed ones go', $kept, '2|3|2', 'where the setting is lowered the oldest completed ones go, with their errors');
	configure($node, 'rag.failed_runs_history_limit', 1);
	comes('the oldest failed ones go', $kept, '2|1|2', 'the failed ones are counted apart');
	comes('so it is with all sources', sub { ask($node, "SELECT max(c), max(f) FROM (SELECT count(*) FILTER (WHERE phase = 'Completed') AS c,
		count(*) FILTER (WHERE phase = 'Failed') AS f FROM rag.runs GROUP BY source) AS n") }, '2|1', 'so it is with all sources');
	is(ask($node, "SELECT count(*) FROM rag.run_errors e WHERE NOT EXISTS (SELECT FROM rag.runs r WHERE r.run_id = e.run_id)"), '0', 'no error is left without its run');
	my $last = run_id('kept');
	run_sql($node, "SELECT rag_sync('kept')");
	is($kept->() . (run_id('kept') > $last), '2|1|21', 'each further run takes the place of the oldest');
	configure($node, 'rag.failed_runs_history_limit', 0);
	configure($node, 'rag.successful_runs_history_limit', 0);
	comes('the last run stays', $kept, '0|1|0', 'the last run stays, whatever the limits');
	is(status('kept', 'phase, successful_run_count, error_run_count'), 'Retrying|4|4', 'the counts count all');
	configure($node, $_) for qw(rag.failed_runs_history_limit rag.successful_runs_history_limit);
};

subtest 'conditions' => sub {
	create_folder('conditioned', my $path = write_documents(temp_folder(), 1, 1));
	status_comes('conditioned', 'phase', 'Completed');
	my $then = '2001-02-03T04:05:06Z';
	my $age = sub { ask($node, "UPDATE rag.source SET conditions = (SELECT jsonb_agg(c || '{\"lastTransitionTime\": \"$then\"}' ORDER BY n)
		FROM jsonb_array_elements(conditions) WITH ORDINALITY AS e (c, n)) WHERE name = 'conditioned'") };
	my $changed = sub { join ' ', map { "$_->{type}=$_->{status}" } grep { $_->{lastTransitionTime} ne $then } @{ decode_json(status('conditioned', 'conditions')) } };
	$age->();
	sync_ok($node, 'conditioned');
	is($changed->(), 'AutoIndexerIndexing=False', 'lastTransitionTime stays where the status does');
	$age->();
	rename $path, "$path.away";
	run_sql($node, "SELECT rag_sync('conditioned')");
	is($changed->(), 'ResourceReady=False AutoIndexerIndexing=False AutoIndexerCompleted=False AutoIndexerError=True', 'and changes with it');
	$age->();
	run_sql($node, "SELECT rag_sync('conditioned')");
	is($changed->(), 'AutoIndexerIndexing=False', 'another failure is no change');
	my $conditions = decode_json(status('conditioned', 'conditions'));
	is(join(' ', map { $_->{type} } @$conditions),
		'ResourceReady AutoIndexerScheduled AutoIndexerIndexing AutoIndexerCompleted AutoIndexerError AutoIndexerDriftDetected', 'each type is there once');
	is_deeply([ grep { !($_->{status} =~ /^(True|False|Unknown)$/ && $_->{reason} =~ /^[A-Z][A-Za-z]+$/ && defined $_->{message}
		&& $_->{observedGeneration} == 1 && $_->{lastTransitionTime} =~ /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) } @$conditions ], [], 'with all that a condition has');
	my $run = run_id('conditioned');
	like(condition('conditioned', 'AutoIndexerError')->{message}, qr/^run $run: .*; it is tried again in \d+ s$/, 'the message says what happened and what will');
};

subtest 'rag_events' => sub {
	my $listener = session($node);
	$listener->query('LISTEN rag_events');
	my @events;
	my $hear = sub {
		push @events, grep { $_->{source} eq 'heard' } map { decode_json($_) } $listener->query('SELECT 1') =~ /notification "rag_events" with payload "(.*)" received/g;
		return join ', ', map { my $event = $_; join ' ', map { $event->{$_} // () } qw(phase trigger attempt) } @events;
	};
	my $hears = sub {
		my ($expected, $name) = @_;
		comes("heard: $expected", $hear, $expected, $name);
		@events = ();
	};
	RagHold::hold('heard');
	create_held('heard', ', max_retries => 1');
	$hears->('Pending, Pending create 1, Running create 1', 'a new source, and its run');
	$node->safe_psql('postgres', "SELECT rag_suspend('heard')");
	RagHold::release('heard');
	$hears->('Completed create 1, Suspended', 'its end, and the rest that was asked for meanwhile');
	$node->safe_psql('postgres', "SELECT rag_resume('heard')");
	$hears->('Completed', 'resumed, it is as its last run ended');
	RagHold::answer('heard', '404 Not Found');
	isnt(run_sql($node, "SELECT rag_sync('heard')")->{rc}, 0);
	$hears->('Running manual 1, Retrying manual 1', 'a run that fails and will be tried again');
	time_comes('retry_at', 'heard');
	$hears->('Pending retry 2, Running retry 2, Failed retry 2', 'and fails for good');
	isnt(run_sql($node, "SELECT rag_sync('heard')")->{rc}, 0);
	$node->safe_psql('postgres', "SELECT rag_alter_source('heard', max_retries => 0)");
	$hears->('Running manual 1, Retrying manual 1, Failed', 'or will not be tried again after all');
	$node->safe_psql('postgres', "BEGIN; SELECT rag_suspend('heard'); ROLLBACK; SELECT rag_drop_source('heard')");
	comes('Deleted', $hear, 'Terminating, Deleted', 'it is dropped; what is rolled back is not heard');
	is_deeply([ sort keys %{ $events[0] } ], [qw(at phase source)], 'an event of a source');
	RagHold::answer('heard');
	@events = ();
	create_held('heard', ', suspend => true');
	$hears->('Suspended', 'a new source that is suspended');
	my $run = sync_ok($node, 'heard');
	comes('a run', $hear, 'Running manual 1, Completed manual 1, Suspended', 'is suspended after a run that someone asks for');
	is_deeply([ sort keys %{ $events[0] } ], [qw(at attempt phase run_id source trigger)], 'an event of a run');
	is($events[0]{run_id}, $run, 'has its id');
};

subtest 'comments' => sub {
	is(ask($node, "SELECT count(*) > 60, string_agg(attrelid::regclass || '.' || attname, ', ') FILTER (WHERE coalesce(col_description(attrelid, attnum), '') = '')
		FROM pg_attribute WHERE attrelid = ANY ('{rag.sources,rag.runs,rag.run_errors,rag.progress}'::regclass[]) AND attnum > 0 AND NOT attisdropped"),
		't|', 'every column of the views has one');
	is(ask($node, "SELECT count(*) FROM unnest('{rag.sources,rag.runs,rag.run_errors,rag.progress}'::regclass[]) AS v WHERE obj_description(v, 'pg_class') IS NULL"), '0', 'so has every view');
};

is(ask($node, "SELECT count(*) FROM rag.runs WHERE phase IN ('Pending', 'Running')"), '0', 'no run is left');
never_two_at_once($node, 'postgres', 'no two of one source were under way at once');
same_cluster($witness, 'all of this');
$node->stop;
done_testing();
