# What views, conditions and notifications report of runs, and which runs are deleted.
use strict;
use warnings;
use JSON::PP qw(decode_json);
use Test::More;
use RagCluster;
use RagHold ();
use RagRuns;
use RagWorkers qw(runs_never_overlap);

my ($node) = runs_node('run_records');
my $witness = witness($node);

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
			"UPDATE rag_internal.source
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
same_cluster($witness, 'all tests of records of runs');
$node->stop;
done_testing();
