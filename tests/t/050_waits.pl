# Who waits for whom: sessions that keep a source's row locked, or a source from being worked at,
# are in nobody else's way, and what was decided before a wait is decided by what is so after it.
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
sub create_folder { my ($name, $more) = @_; return sql(qq{SELECT rag_create_source('$name', 'folder', '{"path": "$folder"}'} . ($more // '') . ')') }
sub create_held { my ($name) = @_; return sql(sprintf q{SELECT rag_create_source('%s', 'static', '{"endpoints": ["%s"]}')}, $name, RagHold::page($name)) }
sub source_is { my ($name, $columns, $expected, $what) = @_; return await_value(sub { ask($node, "SELECT $columns FROM rag.sources WHERE name = '$name'") }, $expected, $what) }
sub triggers { return sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'notes'::regclass}) }

create_folder($_) for qw(locked beside);
source_is($_, 'phase', 'Completed', "$_ is synced") for qw(locked beside);

subtest 'a check for drift of a source whose row is locked' => sub {
	# it is the first that is due, and cannot be written down
	sql(q{UPDATE rag.source SET drift_checked_at = CASE name WHEN 'locked' THEN '2000-01-01'::timestamptz ELSE '2001-01-01' END;
		DELETE FROM rag.documents WHERE source = 'beside'});
	$session->query(q{BEGIN; SELECT rag_alter_source('locked', max_retries => 5)});
	configure($node, 'rag.drift_check_interval', '1s');
	source_is('beside', q{(SELECT count(*) FROM rag.documents WHERE source = 'beside')}, '2', 'is in the way of no other check or run');
	is(run_sql($node, 'SELECT 1')->{out}, '1', 'nor of anybody else');
	my $dropped = $session->query(q{SELECT 'dropped' FROM rag_drop_source('locked', keep_documents => false)});
	is($dropped, 'dropped', 'who has it locked can drop it');
	$session->query('COMMIT');
	is(sql(q{SELECT string_agg(name, ' ') FROM rag.sources}), 'beside', 'and it is gone');
	configure($node, 'rag.drift_check_interval', '0');
	await('no check is under way', sub { ask($node, q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'rag runner')}) eq 't' });
};

subtest 'a queued run that a session has locked' => sub {
	configure($node, 'rag.max_running_syncs', '2');
	for my $name (qw(holding held))
	{
		RagHold::hold($name);
		create_held($name);
		source_is($name, 'phase', 'Running', 'a slot is taken');
	}
	my $waits = q{(SELECT waiting FROM rag.runs r WHERE r.source = name)};
	create_folder('cancelled');
	source_is('cancelled', $waits, 'as many runs are under way as rag.max_running_syncs allows (2)', 'another run waits');
	my $run = sql(q{SELECT current_run_id FROM rag.sources WHERE name = 'cancelled'});
	$session->query("BEGIN; SELECT rag_cancel_run($run)");
	# the reason is another one now, which cannot be said of that run
	configure($node, 'rag.max_running_syncs', '1');
	create_folder('free');
	source_is('free', $waits, 'as many runs are under way as rag.max_running_syncs allows (1)', 'others are told why they wait');
	RagHold::release($_) for qw(holding held);
	source_is($_, 'phase', 'Completed', "$_ is synced") for qw(holding held free);
	$session->query('COMMIT');
	is(sql("SELECT phase, errors -> 0 ->> 'sqlstate' FROM rag.runs WHERE run_id = $run"), 'Failed|57014', 'it was cancelled');
};

subtest 'a session that waits for a run that it keeps from beginning' => sub {
	RagHold::hold('holding');
	sql(q{SELECT rag_sync('holding', wait => false)});
	source_is('holding', 'phase', 'Running', 'the only slot is taken');
	my $run = sql(q{SELECT rag_sync('free', wait => false)});
	error_like(run_sql($node, q{SELECT rag_wait(rag_sync('free', wait => false))}), '25001', "run $run cannot begin or end before this transaction has", 'COMMIT first', 'is told so');
	error_like(run_sql($node, q{BEGIN; SELECT rag_alter_source('free', max_retries => 3); SELECT rag_sync('free')}), '25001', 'made, changed or locked in this transaction', 'COMMIT first',
		'also where it has only locked the source');
	my $holding = run_row($node, 'holding', 'run_id');
	error_like(run_sql($node, "BEGIN; SELECT rag_suspend('holding'); SELECT rag_wait($holding)"), '25001', "run $holding cannot begin or end", 'COMMIT first',
		'and where it keeps one from ending');
	RagHold::release('holding');
	is(sql("SELECT rag_wait($run)"), 'Completed', 'it begins for others');
};

subtest 'a session that locks the row of a run that is under way' => sub {
	RagHold::hold('sharing');
	create_held('sharing');
	source_is('sharing', 'phase', 'Running', 'a run is under way');
	my $run = sql(q{SELECT current_run_id FROM rag.sources WHERE name = 'sharing'});
	$session->query('SELECT pg_advisory_lock(1)');
	# changes nothing; then the run stores a document, for which it shares the lock, and row and run do
	# not say any more who has it
	my $waiting = start_sql($node, "BEGIN; SELECT rag_alter_source('sharing', max_retries => 3); SELECT pg_advisory_xact_lock(1); SELECT rag_wait($run)");
	$waiting->await_locked;
	RagHold::release('sharing');
	await_value(sub { ask($node, q{SELECT count(*) FROM rag.documents WHERE source = 'sharing'}) }, '1', 'it stores what it has read');
	$session->query('SELECT pg_advisory_unlock(1)');
	error_like($waiting->finish, '25001', "run $run cannot begin or end", 'COMMIT first', 'cannot wait for its end');
	source_is('sharing', 'phase', 'Completed', 'which comes then');
};

subtest 'a query that began before a run ended, and looks for its process afterwards' => sub {
	RagHold::hold('ending');
	create_held('ending');
	source_is('ending', 'phase', 'Running', 'a run is under way');
	$session->query('SELECT pg_advisory_lock(2)');
	my $asking = start_sql($node, q{SELECT pg_advisory_xact_lock(2), (SELECT phase || errors::text FROM rag.runs WHERE source = 'ending'),
		(SELECT phase || errors::text || indexing || error FROM rag.sources WHERE name = 'ending')});
	$asking->await_locked;
	RagHold::release('ending');
	source_is('ending', 'phase', 'Completed', 'it ends');
	await('its process is gone', sub { ask($node, q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'rag runner')}) eq 't' });
	$session->query('SELECT pg_advisory_unlock(2)');
	is($asking->finish->{out}, '|Running[]|Running{}truefalse', 'does not take it for one that has lost its process');
};

subtest 'the first document of a collection' => sub {
	sql(q{SELECT rag_create_collection('fresh')});
	$session->query('BEGIN; SELECT count(*) FROM rag.chunks');
	my $added = run_sql($node, q{SET lock_timeout = '20s'; SELECT success FROM rag_add_document('Bread is baked in the morning.', 'bread', collection => 'fresh')});
	is($added->{out}, 't', 'is added while others read') or diag($added->{err});
	is($session->query(q{SELECT uri FROM rag_search('bread', 'fresh')}), 'bread', 'who find it');
	$session->query('COMMIT');
};

subtest 'rag_sync and checks for drift' => sub {
	$session->query(q{BEGIN; SELECT rag_check_drift('free')});
	my $syncing = start_sql($node, q{SELECT rag_sync('free')});
	$syncing->await_waiting;
	my $queued = sql(q{SELECT rag_sync('beside', wait => false)});
	is(sql("SELECT rag_wait($queued)"), 'Completed', 'others go on');
	ok($syncing->is_waiting, 'a sync waits for a check of its source');
	$session->query('COMMIT');
	my $result = $syncing->finish;
	is($result->{rc}, 0, 'and then begins') or diag($result->{err});

	# queued meanwhile, say by its schedule
	$session->query(q{BEGIN; SELECT rag_check_drift('free')});
	my $run = $session->query(q{SELECT run_id FROM rag.runs LIMIT 0});
	sql(q{INSERT INTO rag.run (run_id, source, collection, trigger, attempt, generation, phase)
		SELECT nextval('rag.run_id'), name, collection, 'schedule', 1, generation, 'Pending' FROM rag.source WHERE name = 'free'});
	$syncing = start_sql($node, q{SELECT rag_sync('free')});
	$syncing->await_waiting;
	ok($syncing->is_waiting, 'also where a run is queued');
	$session->query('COMMIT');
	$result = $syncing->finish;
	is($result->{rc}, 0, 'which it then waits for') or diag($result->{err});
	is(run_row($node, 'free', 'run_id, trigger, phase'), $result->{out} . '|schedule|Completed', 'and names');
};

subtest 'a run that lost its process while someone has the source locked' => sub {
	RagHold::hold('holding');
	my $syncing = start_sql($node, q{SELECT rag_sync('holding')});
	source_is('holding', 'phase', 'Running', 'a run is under way');
	$session->query(q{BEGIN; SELECT rag_alter_source('holding', max_retries => 2)});
	my $runner = runner($node, 'holding');
	sql("SELECT pg_terminate_backend($runner)");
	# the process that would put the row right gives up after two seconds
	await('it has been tried', sub { ask($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'}) ne '0' });
	await('it was given up', sub { ask($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'}) eq '0' });
	ok($syncing->is_waiting, 'is not told of as if it had completed');
	$session->query('ROLLBACK');
	RagHold::release('holding');
	error_like($syncing->finish, '57P01', "the run's process ended", undef, 'but as what it is, once that can be written down');
};

subtest 'a source that is dropped while a session waits for its queued run' => sub {
	RagHold::hold('holding');
	sql(q{SELECT rag_sync('holding', wait => false)});
	source_is('holding', 'phase', 'Running', 'the only slot is taken');
	create_folder('dropped');
	my $syncing = start_sql($node, q{SELECT rag_sync('dropped')});
	$syncing->await_waiting;
	sql(q{SELECT rag_drop_source('dropped')});
	RagHold::release('holding');
	error_like($syncing->finish, '55000', 'source "dropped" was dropped during the run', undef, 'it is told so');
};

subtest 'a source whose schedule cannot be kept' => sub {
	create_folder('zoned', q{, schedule => '0 12 * * *'});
	source_is('zoned', 'scheduled, next_scheduled_run IS NOT NULL', 't|t', 'it is scheduled');
	sql(q{ALTER DATABASE postgres SET timezone = '100'; UPDATE rag.source SET next_run = now() WHERE name = 'zoned'; SELECT pg_reload_conf()});
	my $why = q{(SELECT c ->> 'reason' FROM jsonb_array_elements(conditions) c WHERE c ->> 'type' = 'AutoIndexerScheduled')};
	source_is('zoned', "scheduled, next_scheduled_run, $why", 'f||InvalidSchedule', 'says so when it is due');
	create_folder('beside-it', q{, schedule => '@every 1h'});
	sql(q{UPDATE rag.source SET next_run = now() WHERE name = 'beside-it'; SELECT pg_reload_conf()});
	source_is('beside-it', 'phase', 'Completed', 'no other source waits for that');
	is(sql(q{SELECT action FROM rag_apply(rag_get('AutoIndexer', 'zoned')::text)}), 'unchanged', 'its manifest is what it was');
	error_like(run_sql($node, q{SELECT rag_alter_source('zoned', timeout => '2 hours')}), '0A000', 'schedules cannot be kept in the time zone "100"', 'Name a zone', 'it cannot be altered as if it were well');
	sql(q{ALTER DATABASE postgres RESET timezone; SELECT pg_reload_conf()});
	source_is('zoned', "scheduled, next_scheduled_run IS NOT NULL, $why", 't|t|Scheduled', 'it is scheduled again once its zone is known');
};

subtest 'resume and drop go by what is so once the source is theirs' => sub {
	create_folder('yearly', q{, schedule => '@yearly', suspend => true});
	$session->query(q{BEGIN; SELECT rag_alter_source('yearly', schedule => '@every 1h')});
	my $resuming = start_sql($node, q{SELECT rag_resume('yearly')});
	$resuming->await_locked;
	$session->query('COMMIT');
	is($resuming->finish->{rc}, 0, 'a source is resumed whose schedule is altered meanwhile');
	source_is('yearly', q{next_scheduled_run <= now() + interval '1 h', scheduled}, 't|t', 'its next run is that of the new schedule');

	sql(q{CREATE TABLE notes (id int PRIMARY KEY, body text)});
	$session->query(q{BEGIN; SELECT rag_alter_source('yearly', 'table', '{"relation": "public.notes", "contentColumns": ["body"], "sync": "trigger"}')});
	my $dropping = start_sql($node, q{SELECT rag_drop_source('yearly')});
	$dropping->await_locked;
	$session->query('COMMIT');
	is($dropping->finish->{rc}, 0, 'a source is dropped that has become one of a table meanwhile');
	is(triggers(), '0', 'no trigger is left on the table');

	sql(q{CREATE ROLE editor IN ROLE rag_reader; CREATE ROLE other IN ROLE rag_reader});
	create_folder('given');
	source_is('given', 'phase', 'Completed', 'a source is synced');
	sql(q{UPDATE rag.source SET owner = 'editor', owner_id = 'editor'::regrole WHERE name = 'given'});
	$session->query(q{BEGIN; UPDATE rag.source SET owner = 'other', owner_id = 'other'::regrole WHERE name = 'given'});
	my $former = start_sql($node, q{SET ROLE editor; SELECT rag_drop_source('given')});
	$former->await_locked;
	$session->query('COMMIT');
	error_like($former->finish, '42501', 'permission denied to drop a source', undef, 'who was its owner cannot drop it any more');
};

subtest 'a run that waits for the transaction that waits for it' => sub {
	sql(q{CREATE TABLE locked_notes (id int PRIMARY KEY, body text); INSERT INTO locked_notes VALUES (1, 'A text.');
		SELECT rag_create_source('of-table', 'table', '{"relation": "public.locked_notes", "contentColumns": ["body"]}')});
	source_is('of-table', 'phase', 'Completed', 'a table is synced');
	error_like(run_sql($node, q{BEGIN; LOCK TABLE locked_notes; SELECT rag_sync('of-table')}), '40P01', 'deadlock', 'COMMIT first', 'rag_sync with the table locked');
	source_is('of-table', 'indexing', 'f', 'the run has ended');
	$session->query(q{BEGIN; LOCK TABLE locked_notes});
	my $run = sql(q{SELECT rag_sync('of-table', wait => false)});
	source_is('of-table', 'indexing', 't', 'a run is under way');
	my $waited = $session->query("DO \$\$ BEGIN PERFORM rag_wait($run); EXCEPTION WHEN deadlock_detected THEN NULL; END \$\$; SELECT 'goes on'");
	is($waited, 'goes on', 'rag_wait with the table locked fails, too, and leaves the transaction whole');
	$session->query('COMMIT');
	source_is('of-table', 'phase', 'Completed', 'the run goes on with its end');
};

same_cluster($witness, 'all of it');

subtest 'the server\'s time zone' => sub {
	my $noon = q{SELECT rag_next_runs('0 12 * * *', 1, '2026-01-01 00:00:00+00') AT TIME ZONE 'UTC'};
	$node->append_conf('postgresql.conf', "timezone = 'Asia/Tokyo'");
	is(sql($noon), sql(q{SELECT timestamp '2026-01-01 12:00:00' AT TIME ZONE reset_val AT TIME ZONE 'UTC' FROM pg_settings WHERE name = 'TimeZone'}), 'is not what a file says that nobody has read');
	$node->reload;
	await_value(sub { ask($node, $noon) }, '2026-01-01 03:00:00', 'is what the files say');
	$node->stop;
	is(IPC::Run::run([ 'pg_ctl', '--wait', '--pgdata', $node->data_dir, '--log', $node->logfile, '--options', '-c timezone=America/Bogota', 'start' ], '>', '/dev/null'), 1, 'the server starts');
	$node->_update_pid(1);
	is(sql($noon), '2026-01-01 17:00:00', 'and where it is given on the command line, that');
};

$node->stop;
done_testing();
