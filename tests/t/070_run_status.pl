# The status of a source is that of its last finished run, beside the queued or current run. Each
# run writes one line into the log when it ends. The end of a run is recorded although it is
# cancelled many times.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use RagCluster;
use RagHold ();
use RagWorkers qw(runner status_of);

RagHold::origin();
my $node = rag_node('run_status', scheduler => 1, conf => <<'CONF');
rag.retry_delay = '30min'
rag.max_running_syncs = 1
rag.allowed_private_hosts = '127.0.0.1'
max_worker_processes = 20
CONF

sub sql { return $node->safe_psql('postgres', @_) }

sub status
{
	my ($name, $columns) = @_;
	return ask($node, "SELECT $columns FROM rag.sources WHERE name = '$name'");
}

sub held_spec
{
	my ($name) = @_;
	return sprintf '{"endpoints": ["%s/%s/1.md", "%s/%s-broken/2.md"]}', RagHold::origin(), $name,
	  RagHold::origin(), $name;
}

sub create_held
{
	my ($name, $more) = @_;
	return sql(sprintf q{SELECT rag_create_source('%s', 'static', '%s', %s)},
		$name, held_spec($name), $more // 'max_retries => 0');
}

sub source_becomes
{
	my ($source, $columns, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $seen = '';
	eval {
		await("$source is $expected", sub { ($seen = status($source, $columns)) eq $expected });
	};
	return is($seen, $expected, $name) || diag(status_of($node));
}

# Lines of the server's log about the ends of a source's runs.
sub ends
{
	my ($source) = @_;
	return grep { /LOG:.*rag: source=\Q$source\E run=/ } split /\n/, slurp_file($node->logfile);
}

sub end_of
{
	my ($source, $run) = @_;
	my @lines = grep { / run=$run / } ends($source);
	is(scalar @lines, 1, "run $run of $source has one line in the log");
	return $lines[0] // '';
}

my $last =
	'phase, error, documents_processed, last_run_duration_seconds IS NOT NULL AS d, '
  . 'array_length(errors, 1), last_run_id';

subtest 'the last finished run and the current run' => sub {
	RagHold::answer('main-broken', '404 Not Found');
	create_held('main');
	source_becomes('main', 'phase', 'Completed', 'a sync of two documents succeeds');
	my $first = run_row($node, 'main', 'run_id');
	is( status('main', "$last, current_run_id"),
		"Completed|t|2|t|1|$first|",
		'one document of the sync failed');

	RagHold::hold('busy');
	create_held('busy');
	source_becomes('busy', 'phase', 'Running', 'the only slot is taken by another source');
	my $queued = sql(q{SELECT rag_sync('main', wait => false)});
	is( status('main', "$last, current_run_id"),
		"Pending|t|2|t|1|$first|$queued",
		'a queued run does not clear the errors of the last run');
	my $status = decode_json(sql(q{SELECT rag_get_manifest('AutoIndexer', 'main')}))->{status};
	is_deeply(
		[
			@$status{qw(phase lastRunID currentRunID documentsProcessed)},
			scalar @{ $status->{errors} }
		],
		[ 'Pending', $first + 0, $queued + 0, 2, 1 ],
		'a queued run does not clear the errors in rag_get_manifest');

	RagHold::hold('main');
	RagHold::release('busy');
	source_becomes('main', 'phase', 'Running', 'the queued run starts');
	is( status('main', "$last, current_run_id, indexing"),
		"Running|t|2|t|1|$first|$queued|t",
		'a current run does not clear the errors of the last run');
	RagHold::answer('main', '404 Not Found');
	RagHold::release('main');
	source_becomes(
		'main', "phase, current_run_id, last_run_id",
		"Failed||$queued", 'a failed run replaces the errors of the last run');
	like(
		status('main', 'errors[1]'),
		qr{^no document of the source could be fetched: http://.*/main/1\.md: .*404.*, and 1 more},
		'the error of a run contains its DETAIL');
	is(status('main', 'array_length(errors, 1)'),
		'2', 'the document that the error of the run quotes is not told twice');
	is(status('main', 'documents_processed'), '2', 'the status shows what the failed run did');
};

subtest 'a run that has lost its process' => sub {
	RagHold::answer($_) for qw(main main-broken);
	sql(q{SELECT rag_suspend('main'); SELECT rag_alter_source('main', max_retries => 3)});
	# The run asks for both documents at once: it stores neither.
	RagHold::hold($_) for qw(main main-broken);
	my $run = sql(q{SELECT rag_sync('main', wait => false)});
	source_becomes('main', 'phase', 'Running', 'a run is in progress whose process will be killed');
	RagHold::await_request('main');
	kill 'TERM', runner($node, 'main');
	source_becomes(
		'main',
		"phase, last_run_id, errors",
		"Suspended|$run|{\"the run's process ended before the run did\"}",
		'a lost run is the last run');
	await('the scheduler has ended it',
		sub { run_row($node, 'main', "errors -> 0 ->> 'hint' IS NOT NULL") eq 't' });
	is(run_row($node, 'main', 'errors -> 0 @> rag_internal.lost_run_error()'),
		't', 'the recorded error of a lost run is that of the views');
	RagHold::release(qw(main main-broken));
	sql(q{SELECT rag_resume('main')});
	my $seconds = qr/seconds=\d+\.\d+/;
	my $process_ended = "the run's process ended";
	like(
		end_of('main', $run),
		qr/ outcome=lost sqlstate=57P01 trigger=manual attempt=1 .* $seconds error="$process_ended/,
		'a lost run is Failed with outcome lost');
};

subtest 'the log has one line for each run' => sub {
	my $run = sync_ok($node, 'main');
	my $counts = 'added=1 updated=1 deleted=0 unchanged=0 failed=0 warnings=0 skipped=0'
	  . ' chunks_written=2 chunks_embedded=\d bytes_fetched=\d+';
	like(
		end_of('main', $run),
		qr/ outcome=completed sqlstate=00000 trigger=manual attempt=1 $counts seconds=\d+\.\d+$/,
		'a completed run is logged') or diag(join "\n", ends('main'));

	sql(q{SELECT rag_alter_source('main', max_retries => 0)});
	RagHold::answer($_, '503 Service Unavailable') for qw(main main-broken);
	$run = sql(q{SELECT rag_sync('main', wait => false)});
	is(sql("SELECT rag_wait($run)"), 'Failed', 'a failed run that nobody waits for is logged');
	like(
		end_of('main', $run),
		qr/ outcome=failed sqlstate=08\w{3} trigger=manual .* error="/,
		'a failed run is logged with its error');
	RagHold::answer($_) for qw(main main-broken);

	RagHold::hold('busy');
	my $busy = sql(q{SELECT rag_sync('busy', wait => false)});
	source_becomes('busy', 'phase', 'Running', 'the only slot is taken before the cancel');
	$run = sql(q{SELECT rag_sync('main', wait => false)});
	sql("BEGIN; SELECT rag_cancel_run($run); ROLLBACK");
	is(scalar(grep { / run=$run / } ends('main')), 0, 'a rolled back cancel is not logged');
	sql("BEGIN; SAVEPOINT a; SELECT rag_cancel_run($run); ROLLBACK TO a; COMMIT");
	is(scalar(grep { / run=$run / } ends('main')),
		0, 'a cancel rolled back to a savepoint is not logged');
	sql("BEGIN; SAVEPOINT a; SELECT rag_cancel_run($run); RELEASE a; COMMIT");
	my $cancelled = 'the run was cancelled before it began';
	like(
		end_of('main', $run),
		qr/ outcome=cancelled sqlstate=57014 .* seconds=0 error="$cancelled"/,
		'a run cancelled while queued is logged');
	RagHold::await_request('busy');
	sql("SELECT rag_cancel_run($busy)");
	source_becomes('busy', 'phase', 'Failed', 'a current run can be cancelled');
	RagHold::release('busy');
	like(
		end_of('busy', $busy),
		qr/ outcome=cancelled sqlstate=57014 .* error="the run was cancelled"/,
		'a cancelled current run is logged');
};

subtest 'many cancels of one run at once' => sub {
	for my $try (1 .. 3)
	{
		RagHold::hold('busy');
		my $syncing = start_sql($node, q{SELECT rag_sync('busy')});
		RagHold::await_request('busy');
		my $runner = runner($node, 'busy');
		my $run = status('busy', 'current_run_id');
		# cancels the session, which cancels its run, and the runner itself, until it has ended
		kill 'INT', $syncing->backend, $runner;
		while (is_running($runner)) { kill 'INT', $runner }
		error_like($syncing->finish, '57014', 'cancel', undef,
			'the session that waits is cancelled');
		RagHold::release('busy');
		await('the run has ended', sub { status('busy', 'current_run_id') eq '' });
		is(run_row($node, 'busy', "run_id, phase, errors -> 0 ->> 'sqlstate'"),
			"$run|Failed|57014", 'the run is cancelled, not lost');
		like(
			end_of('busy', $run),
			qr/ outcome=cancelled sqlstate=57014 /,
			'the log reports the run as cancelled');
	}
};

subtest 'seconds of each stage' => sub {
	sync_ok($node, 'main');
	is( run_row(
			$node, 'main',
			q{duration = finished_at - started_at, extract(epoch FROM duration) >= fetch_seconds,
			fetch_seconds > 0,
		extract_seconds >= 0, embed_seconds >= 0, store_seconds >= 0}),
		't|t|t|t|t|t',
		'the stages of a web source have their seconds');
	sql(q{CREATE TABLE texts (id int PRIMARY KEY, body text);
	INSERT INTO texts SELECT n, 'Text number ' || n FROM generate_series(1, 50) n;
		SELECT rag_create_collection('texts');
		SELECT rag_create_source('texts', 'table',
		'{"relation": "public.texts", "contentColumns": ["body"]}', 'texts')}
	);
	source_becomes('texts', 'phase', 'Completed', 'a sync of a table succeeds');
	is( run_row(
			$node,
			'texts',
			q{fetch_seconds > 0, embed_seconds > 0, store_seconds > 0, extract(epoch
			FROM duration) >= store_seconds}
		),
		't|t|t|t',
		'the stages of a table source have their seconds');
};

subtest 'errors and losses of many documents' => sub {
	my $folder = temp_folder();
	write_file("$folder/good.md", 'A good document.');
	write_file("$folder/lossy.md", "A document before\0and after.");
	write_file("$folder/broken$_.docx", "PK\x03\x04 no archive $_") for 1 .. 12;
	sql(qq{SELECT rag_create_source('many', 'folder', '{"path": "$folder"}', suspend => true)});
	my $of = sub { decode_json(sql(q{SELECT rag_get_manifest('AutoIndexer', 'many')}))->{status} };
	is_deeply([ @{ $of->() }{qw(documentsProcessed documentsWithWarnings)} ],
		[ 0, 0 ], 'a source without a run has processed no document');
	sql(q{SELECT rag_sync('many')});
	is_deeply([ @{ $of->() }{qw(documentsProcessed documentsWithWarnings)} ],
		[ 14, 1 ], 'rag_get_manifest tells documents with loss of content');
	is(status('many', 'array_length(errors, 1)'), '11', 'ten errors, and their number');
	is( status('many', 'errors[11]'),
		'12 documents could not be indexed; rag.run_errors has all',
		'the last one says that there are more');
	unlink map { "$folder/broken$_.docx" } 11, 12;
	sql(q{SELECT rag_sync('many')});
	unlike(status('many', 'errors'), qr/could not be indexed; rag/, 'of ten errors all are shown');
};

subtest 'forged notifications' => sub {
	my $before =
	  sql(q{SELECT name, phase, last_run_id, current_run_id FROM rag.sources ORDER BY 1});
	my $documents = sql('SELECT count(*) FROM rag.documents');
	sql(qq{CREATE ROLE nobody LOGIN; SET ROLE nobody;
	NOTIFY rag_events, '{"source": "main", "phase": "$_"}'}
	) for 'Deleted';
	sql(q{SET ROLE nobody; NOTIFY rag_events, '{"source": "main", "run_id": 1, "phase": "Failed"}';
	NOTIFY rag_events, 'not JSON'}
	);
	sync_ok($node, 'texts');
	sql(q{SELECT rag_check_drift('main')});
	is( sql(q{SELECT name, phase, last_run_id, current_run_id FROM rag.sources WHERE name <> 'texts'
	ORDER BY 1}
		),
		join("\n", grep { !/^texts/ } split /\n/, $before),
		'forged notifications change no source');
	is(sql('SELECT count(*) FROM rag.documents'),
		$documents, 'forged notifications change no document');
};

$node->stop;
done_testing();
