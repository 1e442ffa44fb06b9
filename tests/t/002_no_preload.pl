# Without shared_preload_libraries everything works too: the first session that needs the engine
# starts it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagHold ();
use RagTest;
use RagWorkers ();

my $node = new_node('no_preload', preload => 0);
$node->append_conf('postgresql.conf', "rag.allowed_private_hosts = '127.0.0.1'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION rag');
is(scalar(engine_pids($node)), 0, 'no engine runs before the first call');

is($node->safe_psql('postgres', q{SELECT rag_functions.vector_dims(rag_embed('hello'))}),
	'384', 'rag_embed returns a vector without preload');
is(scalar(engine_pids($node, 'embed')), 1, 'the first call starts the engine');

create_handbook($node);
like($node->safe_psql('postgres', q{SELECT rag_sync('handbook')}),
	qr/^[12]$/, 'a source is synced on creation or by rag_sync');
is( $node->safe_psql(
		'postgres',
		q{SELECT title FROM rag_search('how do I rotate the signing keys?', top_k => 1)}),
	'Rotating the signing keys',
	'a search finds the synced document');
is( $node->safe_psql(
		'postgres',
		q{SELECT success FROM rag_add_document('Bread is baked in the morning.', 'bread')}),
	't',
	'rag_add_document adds a document');

$node->safe_psql('postgres', q{SELECT rag_enqueue_document('Rolls are baked at noon.', 'rolls')});
await('a queued document is indexed',
	sub { $node->safe_psql('postgres', q{SELECT status FROM rag.queued_documents}) eq 'indexed' });

# Schedules need workers that start with the server. Statements that set one raise a warning.
my @statements = (
	[
		qq{SELECT rag_create_source('nightly', 'folder',
			'{"path": "$ENV{RAG_TEST_FILES}/handbook"}', schedule => '\@daily')},
		'a source is made with a schedule'
	],
	[ q{SELECT rag_alter_source('nightly', schedule => '@hourly')}, 'given another one' ],
	[
		q{SELECT rag_apply_manifest(jsonb_set(rag_get_manifest('AutoIndexer', 'nightly'),
			'{spec,schedule}',
			'"@weekly"')::text)},
		'by a manifest'
	]);
my $not_synced =
  'source "nightly" is not synced by its schedule: rag is not in shared_preload_libraries';
for my $statement (@statements)
{
	my ($sql, $name) = @$statement;
	$node->psql('postgres', $sql, stderr => \my $said);
	like($said, qr/^psql:.*WARNING:  \Q$not_synced\E\nHINT:  Add rag to/, $name);
}
$node->psql(
	'postgres',
	q{SELECT rag_alter_source('nightly', max_retries => 1), rag_suspend('nightly'),
		rag_resume('nightly')},
	stderr => \my $said);
is($said, '', 'changes that keep the schedule raise no warning');
is( $node->safe_psql(
		'postgres',
		q{SELECT scheduled, c ->> 'reason' FROM rag.sources, jsonb_array_elements(conditions) c
	WHERE name = 'nightly' AND c ->> 'type' = 'AutoIndexerScheduled'}),
	'f|NoScheduler',
	'the condition AutoIndexerScheduled reports NoScheduler');

# with wait => false, rag_sync returns the id of a run that has started
is($node->safe_psql('postgres', q{SELECT rag_wait(rag_sync('handbook', wait => false))}),
	'Completed', 'rag_wait reports the end of a run started with wait => false');
$node->safe_psql(
	'postgres',
	"SELECT rag_create_source('part-' || n, 'folder',
		'{\"path\": \"$ENV{RAG_TEST_FILES}/handbook\"}') FROM generate_series(1, 6) n"
);
my $out = '';
$node->psql(
	'postgres', 'SELECT source, run_id FROM rag_sync_all()',
	stdout => \$out,
	stderr => \$said);
my @begun = map { (split /\|/)[1] } split /\n/, $out;
is( scalar(@begun) +
	  (() = $said =~ /WARNING:  source "[\w-]+" is not synced: too many runs in progress/g) +
	  (() = $said =~ /NOTICE:  source "[\w-]+" is being synced by another/g),
	8,
	'each source is started, queued or busy, or a warning gives the reason') or diag("$out\n$said");
is( $node->safe_psql(
		'postgres',
		"SELECT count(rag_wait(run)) FROM unnest('{" . join(',', @begun) . "}'::bigint[]) run"),
	scalar(@begun),
	'all started runs end');
RagWorkers::all_runs_ended($node, 'postgres', 'the first runs of new sources end');

# Many sessions find no engine at once: one engine and one worker are started. There is room for one
# worker only, beside the server's own for logical replication.
configure($node, max_worker_processes => 2);
$node->restart;
is(scalar(engine_pids($node)), 0, 'no engine runs after a restart');
my @sessions =
  map { { out => '', in => q{SELECT uri FROM rag_search('bread', top_k => 1)} } } 1 .. 8;
for my $session (@sessions)
{
	$session->{run} =
	  IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $session->{in} ],
		'>', \$session->{out}, '2>', \$session->{err});
}
$_->{run}->finish for @sessions;
is( join(',', map { $_->{out} . $_->{err} } @sessions),
	join(',', ("bread\n") x 8),
	'eight concurrent sessions get their answers');
is(scalar(engine_pids($node, 'embed')), 1, 'eight concurrent sessions start one engine');

# the engine belongs to the cluster, not to the session that started it
await(
	'no session is left',
	sub {
		$node->safe_psql('postgres',
			q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}) eq '1';
	});
is($node->safe_psql('postgres', q{SELECT rag_functions.vector_dims(rag_embed('hello'))}),
	'384', 'the engine survives the session that started it');

# a session that finds no engine while its worker restarts it needs no second worker slot
kill 'KILL', engine_pids($node, 'embed');
# an engine that is being killed accepts connections a few milliseconds longer
my $next;
await(
	'the next engine answers',
	sub {
		$next = run_sql($node, q{SELECT rag_functions.vector_dims(rag_embed('hello'))});
		$next->{err} !~ /ERROR:  08006/;
	});
is($next->{out}, '384', 'the next call gets an answer after the engine was killed')
  or diag($next->{err});
configure($node, 'max_worker_processes');
$node->restart;

is( $node->safe_psql(
		'postgres', q{SELECT success FROM rag_add_document('A text.', 'added');
			SELECT count(*) FROM rag.metrics WHERE name LIKE 'rag_operation%'}),
	"t\n0",
	'without shared memory operations work and are not counted');

# a run, a session that waits for it, and DROP EXTENSION do not wait for each other forever
$node->safe_psql('postgres', 'CREATE DATABASE dropping');
$node->safe_psql('dropping', 'CREATE EXTENSION rag');
# suspended, because it would be synced on creation otherwise
$node->safe_psql(
	'dropping',
	sprintf q{SELECT rag_create_source('page', 'static', '{"endpoints": ["%s"]}', suspend => true)},
	RagHold::page('page'));
RagHold::hold('page');
my $sync = start_sql($node, q{SELECT rag_sync('page')}, database => 'dropping');
RagHold::await_request('page');
my $dropping = start_sql($node, 'DROP EXTENSION rag CASCADE', database => 'dropping');
$dropping->await_locked;
RagHold::release('page');
# one of the three has to give way: the run, the waiting session or DROP EXTENSION
my $synced = $sync->finish;
like(
	$synced->{err},
	qr/page: \d added|ERROR: .*deadlock/s,
	'a session that waits for a run continues while DROP EXTENSION waits');
my $dropped = $dropping->finish;
like(
	"$dropped->{rc} $dropped->{err}",
	qr/^0 |ERROR:  40P01/,
	'DROP EXTENSION succeeds or fails with a deadlock error');
$dropped = run_sql($node, 'DROP EXTENSION IF EXISTS rag CASCADE', database => 'dropping');
is($dropped->{rc}, 0, 'DROP EXTENSION succeeds after the run') or diag($dropped->{err});

# a database can be dropped while the engine is running
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{CREATE EXTENSION rag; SELECT rag_embed('hello')});
$node->safe_psql('postgres', 'DROP DATABASE other');

$node->stop;
is(scalar(engine_pids($node)), 0, 'no engine is running after the server stopped');
done_testing();
