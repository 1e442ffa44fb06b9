# Waits for locks: sessions that keep a source or its row locked do not block other sessions. What
# was decided before a wait is checked again after it.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();
use RagWorkers;

RagHold::origin();
my $node = rag_node('waits', scheduler => 1, conf => <<'CONF');
rag.retry_delay = '30min'
rag.max_running_syncs = 1
rag.allowed_private_hosts = '127.0.0.1'
max_worker_processes = 20
CONF
my $witness = witness($node);
my $folder = write_documents(temp_folder(), 2, 1);
my $session = session($node);

sub sql { return $node->safe_psql('postgres', @_) }

sub create_folder
{
	my ($name, $more) = @_;
	return sql(
		qq{SELECT rag_create_source('$name', 'folder',
		'{"path": "$folder"}'} . ($more // '') . ')');
}

sub create_held
{
	my ($name) = @_;
	return sql(sprintf q{SELECT rag_create_source('%s', 'static', '{"endpoints": ["%s"]}')},
		$name, RagHold::page($name));
}

sub source_becomes
{
	my ($name, $columns, $expected, $what) = @_;
	return await_value(sub { ask($node, "SELECT $columns FROM rag.sources WHERE name = '$name'") },
		$expected, $what);
}
sub triggers { return sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'notes'::regclass}) }

create_folder($_) for qw(locked beside);
source_becomes($_, 'phase', 'Completed', "$_ is synced") for qw(locked beside);

subtest 'a drift check of a source whose row is locked' => sub {
	# it is due first, and the check cannot be recorded
	sql(q{UPDATE rag_internal.source SET drift_checked_at = CASE name
	WHEN 'locked' THEN '2000-01-01'::timestamptz ELSE '2001-01-01' END;
		DELETE FROM rag.documents WHERE source = 'beside'});
	$session->query(q{BEGIN; SELECT rag_alter_source('locked', max_retries => 5)});
	configure($node, 'rag.drift_check_interval', '1s');
	source_becomes(
		'beside', q{(SELECT count(*) FROM rag.documents WHERE source = 'beside')},
		'2', 'other checks and runs continue during a drift check of a locked source');
	is(run_sql($node, 'SELECT 1')->{out},
		'1', 'other sessions can write during a drift check of a locked source');
	my $dropped =
	  $session->query(q{SELECT 'dropped' FROM rag_drop_source('locked', keep_documents => false)});
	is($dropped, 'dropped', 'a session that has locked the source can drop it');
	$session->query('COMMIT');
	is(sql(q{SELECT string_agg(name, ' ') FROM rag.sources}),
		'beside', 'the dropped source does not exist');
	configure($node, 'rag.drift_check_interval', '0');
	await(
		'no check is under way',
		sub {
			ask($node,
				q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity
				WHERE backend_type = 'rag runner')}
			) eq 't';
		});
};

subtest 'a queued run that a session has locked' => sub {
	configure($node, 'rag.max_running_syncs', '2');
	for my $name (qw(holding held))
	{
		RagHold::hold($name);
		create_held($name);
		source_becomes($name, 'phase', 'Running', 'the only slot is taken');
	}
	my $waits = q{(SELECT waiting FROM rag.runs r WHERE r.source = name)};
	create_folder('cancelled');
	source_becomes(
		'cancelled', $waits,
		'too many runs in progress (rag.max_running_syncs = 2)',
		'another run is queued');
	my $run = sql(q{SELECT current_run_id FROM rag.sources WHERE name = 'cancelled'});
	$session->query("BEGIN; SELECT rag_cancel_run($run)");
	# the reason has changed, but cannot be recorded for that run
	configure($node, 'rag.max_running_syncs', '1');
	create_folder('free');
	source_becomes(
		'free', $waits,
		'too many runs in progress (rag.max_running_syncs = 1)',
		'waiting sessions report the reason');
	RagHold::release($_) for qw(holding held);
	source_becomes($_, 'phase', 'Completed', "$_ is synced") for qw(holding held free);
	$session->query('COMMIT');
	is(sql("SELECT phase, errors -> 0 ->> 'sqlstate' FROM rag.runs WHERE run_id = $run"),
		'Failed|57014', 'the locked run was cancelled');
};

subtest 'a session cannot wait for a run that it blocks' => sub {
	RagHold::hold('holding');
	sql(q{SELECT rag_sync('holding', wait => false)});
	source_becomes('holding', 'phase', 'Running', 'the only slot is taken by another run');
	my $run = sql(q{SELECT rag_sync('free', wait => false)});
	error_like(
		run_sql($node, q{SELECT rag_wait(rag_sync('free', wait => false))}),
		'25001',
		"run $run cannot begin or end before this transaction",
		'COMMIT first',
		'rag_wait rejects a run that the session keeps from starting');
	error_like(
		run_sql(
			$node,
			q{BEGIN; SELECT rag_alter_source('free', max_retries => 3); SELECT rag_sync('free')}),
		'25001',
		'created, changed or locked in this transaction',
		'COMMIT first',
		'rag_wait rejects a run whose source the session has locked');
	my $holding = run_row($node, 'holding', 'run_id');
	error_like(
		run_sql($node, "BEGIN; SELECT rag_suspend('holding'); SELECT rag_wait($holding)"),
		'25001',
		"run $holding cannot begin or end",
		'COMMIT first',
		'rag_wait rejects a run that the session keeps from ending');
	RagHold::release('holding');
	is(sql("SELECT rag_wait($run)"),
		'Completed', 'the run starts after the session released its locks');
};

subtest 'a session locks the row of a current run' => sub {
	RagHold::hold('sharing');
	create_held('sharing');
	source_becomes('sharing', 'phase', 'Running', 'a run is in progress whose row will be locked');
	my $run = sql(q{SELECT current_run_id FROM rag.sources WHERE name = 'sharing'});
	$session->query('SELECT pg_advisory_lock(1)');
	# changes nothing; the run then stores a document and shares the lock, so that the row does not
	# show who has locked it
	my $waiting = start_sql(
		$node,
		"BEGIN; SELECT rag_alter_source('sharing', max_retries => 3);
		SELECT pg_advisory_xact_lock(1); SELECT rag_wait($run)"
	);
	$waiting->await_locked;
	RagHold::release('sharing');
	await_value(sub { ask($node, q{SELECT count(*) FROM rag.documents WHERE source = 'sharing'}) },
		'1', 'a run stores documents while its row is locked');
	$session->query('SELECT pg_advisory_unlock(1)');
	error_like($waiting->finish, '25001', "run $run cannot begin or end",
		'COMMIT first', 'rag_wait rejects a run whose row the session has locked');
	source_becomes('sharing', 'phase', 'Completed', 'the run ends after its row is unlocked');
};

subtest 'a query that began before a run ended' => sub {
	RagHold::hold('ending');
	create_held('ending');
	source_becomes('ending', 'phase', 'Running', 'a run is in progress when the query begins');
	is( sql(q{SELECT count(*) FROM rag_internal.source_locks()
		WHERE purpose = rag_internal.lock_purpose('sync')
			AND source_hash = rag_internal.source_hash('ending')}),
		'1',
		'a runner holds the lock of its source');
	$session->query('SELECT pg_advisory_lock(2)');
	my $asking = start_sql(
		$node,
		q{SELECT pg_advisory_xact_lock(2), (SELECT phase || errors::text FROM rag.runs
		WHERE source = 'ending'),
		(SELECT phase || errors::text || indexing || error FROM rag.sources
		WHERE name = 'ending')});
	$asking->await_locked;
	RagHold::release('ending');
	source_becomes('ending', 'phase', 'Completed', 'the run ends during the query');
	await(
		'the process of the run has ended',
		sub {
			ask($node,
				q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity
				WHERE backend_type = 'rag runner')}
			) eq 't';
		});
	$session->query('SELECT pg_advisory_unlock(2)');
	is( $asking->finish->{out},
		'|Running[]|Running{}truefalse',
		'the query does not report the run as lost');
};

subtest 'the first document of a collection' => sub {
	sql(q{SELECT rag_create_collection('fresh')});
	$session->query('BEGIN; SELECT count(*) FROM rag.chunks');
	my $added = run_sql(
		$node,
		q{SET lock_timeout = '20s'; SELECT success
		FROM rag_add_document('Bread is baked in the morning.', 'bread', collection => 'fresh')}
	);
	is($added->{out}, 't', 'a first document can be added while others read')
	  or diag($added->{err});
	is($session->query(q{SELECT uri FROM rag_search('bread', 'fresh')}),
		'bread', 'readers find the first document');
	$session->query('COMMIT');
};

subtest 'rag_sync and drift checks of the same source' => sub {
	$session->query(q{BEGIN; SELECT rag_check_drift('free')});
	my $syncing = start_sql($node, q{SELECT rag_sync('free')});
	$syncing->await_waiting;
	my $queued = sql(q{SELECT rag_sync('beside', wait => false)});
	is(sql("SELECT rag_wait($queued)"),
		'Completed', 'other sources are synced during a drift check');
	ok($syncing->is_waiting, 'rag_sync waits for a drift check of its source');
	$session->query('COMMIT');
	my $result = $syncing->finish;
	is($result->{rc}, 0, 'rag_sync succeeds after the drift check') or diag($result->{err});

	# a run that is queued meanwhile, for example by its schedule
	$session->query(q{BEGIN; SELECT rag_check_drift('free')});
	my $run = $session->query(q{SELECT run_id FROM rag.runs LIMIT 0});
	sql(q{INSERT INTO rag_internal.run (run_id, source, collection, trigger, attempt, generation,
		phase)
		SELECT nextval('rag_internal.run_id'), name, collection, 'schedule', 1, generation,
			'Pending'
		FROM rag_internal.source WHERE name = 'free'}
	);
	$syncing = start_sql($node, q{SELECT rag_sync('free')});
	$syncing->await_waiting;
	ok($syncing->is_waiting, 'rag_sync waits for a drift check if a run is queued');
	$session->query('COMMIT');
	$result = $syncing->finish;
	is($result->{rc}, 0, 'rag_sync waits for the queued run') or diag($result->{err});
	is( run_row($node, 'free', 'run_id, trigger, phase'),
		$result->{out} . '|schedule|Completed',
		'rag_sync reports the queued run');
};

subtest 'a lost run of a locked source' => sub {
	RagHold::hold('holding');
	my $syncing = start_sql($node, q{SELECT rag_sync('holding')});
	source_becomes('holding', 'phase', 'Running',
		'a run is in progress whose process will be killed');
	$session->query(q{BEGIN; SELECT rag_alter_source('holding', max_retries => 2)});
	my $runner = runner($node, 'holding');
	sql("SELECT pg_terminate_backend($runner)");
	# the process that would correct the row gives up after two seconds
	await(
		'the end of the run was attempted',
		sub {
			ask($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'})
			  ne '0';
		});
	await(
		'the end of the run was given up',
		sub {
			ask($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'})
			  eq '0';
		});
	ok($syncing->is_waiting, 'rag_sync does not report a lost run as completed');
	$session->query('ROLLBACK');
	RagHold::release('holding');
	error_like($syncing->finish, '57P01', "the run's process ended",
		undef, 'rag_sync reports a lost run when its end can be recorded');
};

subtest 'a source is dropped while a session waits for its queued run' => sub {
	RagHold::hold('holding');
	sql(q{SELECT rag_sync('holding', wait => false)});
	source_becomes('holding', 'phase', 'Running', 'the only slot is taken before the drop');
	create_folder('dropped');
	my $syncing = start_sql($node, q{SELECT rag_sync('dropped')});
	$syncing->await_waiting;
	sql(q{SELECT rag_drop_source('dropped')});
	RagHold::release('holding');
	error_like($syncing->finish, '55000', 'source "dropped" was dropped during the run',
		undef, 'the waiting session reports the drop');
};

subtest 'a schedule that cannot be evaluated' => sub {
	create_folder('zoned', q{, schedule => '0 12 * * *'});
	source_becomes(
		'zoned', 'scheduled, next_scheduled_run IS NOT NULL',
		't|t', 'a source with a schedule is scheduled');
	sql(q{ALTER DATABASE postgres SET timezone = '100';
	UPDATE rag_internal.source SET next_run = now() WHERE name = 'zoned'; SELECT pg_reload_conf()}
	);
	my $why = q{(SELECT c ->> 'reason' FROM jsonb_array_elements(conditions) c
		WHERE c ->> 'type' = 'AutoIndexerScheduled')};
	source_becomes(
		'zoned', "scheduled, next_scheduled_run, $why",
		'f||InvalidSchedule', 'a source whose schedule cannot be evaluated reports the reason');
	create_folder('beside-it', q{, schedule => '@every 1h'});
	sql(q{UPDATE rag_internal.source SET next_run = now() WHERE name = 'beside-it';
		SELECT pg_reload_conf()}
	);
	source_becomes('beside-it', 'phase', 'Completed', 'other sources are synced meanwhile');
	is(sql(q{SELECT action FROM rag_apply_manifest(rag_get_manifest('AutoIndexer',
		'zoned')::text)}),
		'unchanged', 'the manifest of the source is unchanged');
	error_like(
		run_sql($node, q{SELECT rag_alter_source('zoned', timeout => '2 hours')}),
		'0A000',
		'time zone "100" is not supported for schedules',
		'Name a zone',
		'rag_alter_source rejects the schedule');
	sql(q{ALTER DATABASE postgres RESET timezone; SELECT pg_reload_conf()});
	source_becomes(
		'zoned', "scheduled, next_scheduled_run IS NOT NULL, $why",
		't|t|Scheduled', 'the source is scheduled again when its time zone is known');
};

subtest 'rag_resume and rag_drop_source use the definition after waiting for a lock' => sub {
	create_folder('yearly', q{, schedule => '@yearly', suspend => true});
	$session->query(q{BEGIN; SELECT rag_alter_source('yearly', schedule => '@every 1h')});
	my $resuming = start_sql($node, q{SELECT rag_resume('yearly')});
	$resuming->await_locked;
	$session->query('COMMIT');
	is($resuming->finish->{rc}, 0, 'a source can be resumed while its schedule is changed');
	source_becomes(
		'yearly', q{next_scheduled_run <= now() + interval '1 h', scheduled},
		't|t', 'the next run follows the changed schedule');

	sql(q{CREATE TABLE notes (id int PRIMARY KEY, body text)});
	$session->query(
		q{BEGIN; SELECT rag_alter_source('yearly', 'table', '{"relation": "public.notes",
		"contentColumns": ["body"], "sync": "trigger"}')}
	);
	my $dropping = start_sql($node, q{SELECT rag_drop_source('yearly')});
	$dropping->await_locked;
	$session->query('COMMIT');
	is($dropping->finish->{rc}, 0, 'a source can be dropped while its kind is changed to table');
	is(triggers(), '0', 'no trigger is left on the table');

	sql(q{CREATE ROLE editor IN ROLE rag_reader; CREATE ROLE other IN ROLE rag_reader});
	create_folder('given');
	source_becomes('given', 'phase', 'Completed', 'a source is synced before its owner changes');
	sql(q{UPDATE rag_internal.source SET owner = 'editor', owner_id = 'editor'::regrole
		WHERE name = 'given'}
	);
	$session->query(
		q{BEGIN; UPDATE rag_internal.source SET owner = 'other', owner_id = 'other'::regrole
		WHERE name = 'given'}
	);
	my $former = start_sql($node, q{SET ROLE editor; SELECT rag_drop_source('given')});
	$former->await_locked;
	$session->query('COMMIT');
	error_like($former->finish, '42501', 'permission denied to drop a source',
		undef, 'a former owner cannot drop the source');
};

subtest 'a run that waits for the transaction that waits for it' => sub {
	sql(q{CREATE TABLE locked_notes (id int PRIMARY KEY, body text);
	INSERT INTO locked_notes VALUES (1, 'A text.');
		SELECT rag_create_source('of-table', 'table', '{"relation": "public.locked_notes",
		"contentColumns": ["body"]}')}
	);
	source_becomes('of-table', 'phase', 'Completed', 'a source of a table is synced');
	error_like(run_sql($node, q{BEGIN; LOCK TABLE locked_notes; SELECT rag_sync('of-table')}),
		'40P01', 'deadlock', 'COMMIT before', 'rag_sync with the table locked is rejected');
	source_becomes('of-table', 'indexing', 'f', 'the run ended with an error');
	$session->query(q{BEGIN; LOCK TABLE locked_notes});
	my $run = sql(q{SELECT rag_sync('of-table', wait => false)});
	source_becomes('of-table', 'indexing', 't', 'a run of the locked table is in progress');
	my $waited = $session->query(
			"DO \$\$ BEGIN PERFORM rag_wait($run); EXCEPTION WHEN deadlock_detected THEN NULL; END "
		  . "\$\$; SELECT 'goes on'");
	is($waited, 'goes on',
		'rag_wait with the table locked fails and leaves the transaction usable');
	$session->query('COMMIT');
	source_becomes('of-table', 'phase', 'Completed',
		'the run completes after the table is unlocked');
};

same_cluster($witness, 'all tests of waits');

subtest 'the time zone of the server' => sub {
	my $noon =
	  q{SELECT rag_next_runs('0 12 * * *', 1, '2026-01-01 00:00:00+00') AT TIME ZONE 'UTC'};
	$node->append_conf('postgresql.conf', "timezone = 'Asia/Tokyo'");
	is( sql($noon),
		sql(q{SELECT timestamp '2026-01-01 12:00:00' AT TIME ZONE reset_val AT TIME ZONE 'UTC'
		FROM pg_settings WHERE name = 'TimeZone'}
		),
		'a changed file is not used before it is read');
	$node->reload;
	await_value(
		sub { ask($node, $noon) },
		'2026-01-01 03:00:00',
		'the time zone of the files is used');
	$node->stop;
	is( IPC::Run::run(
			[
				'pg_ctl', '--wait',
				'--pgdata', $node->data_dir,
				'--log', $node->logfile,
				'--options', '-c timezone=America/Bogota',
				'start'
			],
			'>',
			'/dev/null'),
		1,
		'the server starts with a time zone on the command line');
	$node->_update_pid(1);
	is(sql($noon), '2026-01-01 17:00:00', 'the time zone of the command line is used');
};

$node->stop;
done_testing();
