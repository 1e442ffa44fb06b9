# Slots are shared between databases and owners. An owner with more than its share gives a slot up,
# sessions and schedules take turns, and a session with locks blocks no slot for long.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();
use RagTest ();
use RagWorkers;

RagHold::origin();
my $node = rag_node('fair', scheduler => 1, conf => <<'CONF');
rag.max_running_syncs = 2
rag.fair_wait = 100ms
rag.lock_timeout = 200ms
rag.retry_delay = '30min'
rag.allowed_private_hosts = '127.0.0.1'
max_worker_processes = 20
CONF
for my $database (qw(other third))
{
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, 'CREATE EXTENSION rag');
}
$node->safe_psql('postgres',
	join(';', map { "CREATE ROLE $_ IN ROLE rag_admin" } qw(alice bob carol dave))
	  . '; GRANT ALL ON SCHEMA public TO alice');

sub create_held
{
	my ($database, $role, $name) = @_;
	RagHold::hold($name);
	$node->safe_psql($database,
		sprintf q{SET ROLE %s; SELECT rag_create_source('%s', 'static', '{"endpoints": ["%s"]}')},
		$role, $name, RagHold::page($name));
	return;
}

sub phase_becomes
{
	my ($database, $name, $phase, $what) = @_;
	return await_true($node, $database, "phase = '$phase' FROM rag.sources WHERE name = '$name'",
		$what);
}

subtest 'three owners share two slots' => sub {
	create_held('postgres', 'alice', $_) for qw(alice-1 alice-2);
	phase_becomes('postgres', $_, 'Running', "alice has a slot for $_") for qw(alice-1 alice-2);
	create_held('postgres', 'bob', 'bob-1');
	phase_becomes('postgres', 'bob-1', 'Running', 'another owner gets one of two slots of alice');
	phase_becomes('postgres', 'alice-2', 'Pending', 'the latest run of alice is queued again');
	like(
		$node->safe_psql(
			'postgres', "SELECT conditions::text FROM rag.sources WHERE name = 'alice-2'"),
		qr/GaveWay/,
		'the source of the queued run reports the reason');
	create_held('other', 'carol', 'carol-1');
	phase_becomes('other', 'carol-1', 'Running', 'another database gets one of two slots');
	phase_becomes('postgres', 'bob-1', 'Pending',
		'the latest run of the first database is queued again');
	create_held('third', 'dave', 'dave-1');
	await_true(
		$node, 'third',
		"waiting ~ 'max_running_syncs' FROM rag.runs WHERE source = 'dave-1'",
		'a third database waits while each other database has one run');
	phase_becomes('postgres', 'alice-1', 'Running', 'the run of alice continues');
	phase_becomes('other', 'carol-1', 'Running', 'the run of the second database continues');
	RagHold::release('alice-1');
	phase_becomes(
		'third', 'dave-1',
		'Running', 'the third database gets the next slot before runs that were queued earlier');
	phase_becomes('postgres', $_, 'Pending', "$_ still waits") for qw(alice-2 bob-1);
	RagHold::release(qw(bob-1 carol-1 dave-1 alice-2));
	phase_becomes('postgres', $_, 'Completed', "$_ completes") for qw(alice-1 alice-2 bob-1);
	phase_becomes('other', 'carol-1', 'Completed', 'the run of the second database completes');
	phase_becomes('third', 'dave-1', 'Completed', 'the run of the third database completes');
	is($node->safe_psql('postgres', "SELECT count(*) FROM rag.runs WHERE source = 'alice-2'"),
		'1', 'a run that was queued again is still one run');
	runs_are_consistent($node, 'postgres', 'fair');
};

subtest 'sessions that call rag_sync in a loop' => sub {
	configure($node, 'rag.max_running_syncs', 1);
	my $folder = write_documents(temp_folder(), 1, 1);
	$node->safe_psql('postgres',
		qq{SELECT rag_create_source('$_', 'folder', '{"path": "$folder"}', schedule => '\@yearly',
		suspend => true); SELECT rag_resume('$_')}) for qw(looped-1 looped-2 due);
	my @loops = map {
		my $n = $_;
		start_sql($node, join "\n", map { "SELECT rag_sync('looped-$n');" } 1 .. 30)
	} 1, 2;
	await_true(
		$node, 'postgres',
		"count(*) > 2 FROM rag.runs WHERE source LIKE 'looped-%' AND phase = 'Completed'",
		'sessions that call rag_sync in a loop use all free slots');
	$node->safe_psql('postgres', "UPDATE rag_internal.source SET next_run = now()
		WHERE name = 'due'");
	phase_becomes('postgres', 'due', 'Completed', 'a scheduled run gets a slot');
	$_->finish for @loops;
	my $after = $node->safe_psql(
		'postgres', "SELECT count(*) FROM rag.runs r WHERE source LIKE 'looped-%'
		AND started_at > (SELECT started_at FROM rag.runs WHERE source = 'due')");
	cmp_ok($after, '>', 0, 'sessions still call rag_sync after the scheduled run');
	configure($node, 'rag.max_running_syncs', 2);
};

subtest 'a locked table' => sub {
	$node->safe_psql(
		'postgres',
		q{SET ROLE alice; CREATE TABLE held (id int PRIMARY KEY, body text);
		INSERT INTO held VALUES (1, 'A text.')}
	);
	my $session = session($node);
	$session->query('BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE');
	# creating the source reads the table
	my $making = start_sql(
		$node,
		q{SET ROLE alice;
		SELECT rag_create_source('of-held', 'table',
		'{"relation": "public.held", "contentColumns": ["body"]}', max_retries => 1,
		suspend => true)}
	);
	$making->await_locked;
	$session->query('COMMIT');
	is($making->finish->{rc}, 0, 'a source of a locked table can be created');
	$session->query('BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE');
	$node->safe_psql('postgres', q{SELECT rag_resume('of-held')});
	phase_becomes(
		'postgres', 'of-held',
		'Retrying', 'a run that cannot lock its table fails and releases its slot');
	is( $node->safe_psql(
			'postgres',
			q{SELECT errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message' FROM rag.runs
			WHERE source = 'of-held'}
		),
		'55P03|the run waited for a lock for longer than rag.lock_timeout, 200 ms',
		'a run that cannot lock its table reports the lock timeout');
	$session->query('COMMIT');
	is($node->safe_psql('postgres', q{SELECT rag_sync('of-held') > 0}),
		't', 'the source is synced after the table is unlocked');
};

subtest 'the maximum timeout' => sub {
	error_like(
		run_sql($node, q{SET ROLE alice; SELECT rag_alter_source('alice-1', timeout => '2 days')}),
		'22023',
		'timeout must be at most 86400 seconds \(rag\.max_timeout\)',
		'Only superusers',
		'roles have a maximum timeout');
	is(run_sql($node, q{SELECT rag_alter_source('alice-1', timeout => '2 days')})->{rc},
		0, 'superusers have no maximum timeout');
	configure($node, 'rag.max_timeout', '1s');
	RagHold::hold('alice-1');
	error_like(
		run_sql($node, q{SELECT rag_sync('alice-1')}),
		'57014', 'the run took longer than rag.max_timeout \(1 s\)',
		'Raise', 'runs end at the maximum timeout');
	RagHold::release('alice-1');
};

$node->stop;
done_testing();
