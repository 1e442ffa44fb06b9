# A standby has neither launcher nor scheduler. Runs that were active on the primary when it crashed
# are completed after promotion.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use Test::More;
use RagCluster;
use RagHold ();
use RagWorkers;

my $primary = rag_node('primary', scheduler => 1, conf => <<CONF);
wal_level = replica
max_wal_senders = 5
hot_standby = on
max_worker_processes = 20
rag.retry_delay = 100ms
rag.successful_runs_history_limit = 1000
rag.failed_runs_history_limit = 1000
rag.max_running_syncs = 1
rag.allowed_private_hosts = '127.0.0.1'
CONF
my $spec = RagHold::files_between_pages(write_documents(temp_folder(), 30, 8));
my $small = write_documents(temp_folder(), 2, 1, 'small');

$primary->safe_psql('postgres', "SELECT rag_create_collection('aside')");
$primary->safe_psql('postgres', "SELECT rag_create_source('docs', 'static', '$spec')");
await_true(
	$primary, 'postgres',
	"phase = 'Completed' FROM rag.sources WHERE name = 'docs'",
	'the primary syncs a source');
my $clean = stored($primary);
$primary->safe_psql(
	'postgres',
	qq{SELECT rag_create_source('often', 'folder', '{"path": "$small"}', 'aside',
	schedule => '\@every 1s');
	SELECT rag_create_source('boot', 'folder', '{"path": "$small"}', 'aside',
	schedule => '\@reboot', suspend => true);
	SELECT rag_resume('boot');
	SELECT rag_create_source('waiting', 'folder', '{"path": "$small"}', 'aside',
	schedule => '0 0 1 1 *')}
);
await_true(
	$primary, 'postgres',
	"count(*) > 0 FROM rag.runs WHERE source = 'often' AND phase = 'Completed'",
	'the primary syncs a source with a schedule');

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
my $witness = witness($standby);

is(workers($standby), '', 'a standby has neither launcher nor scheduler');
is($standby->safe_psql('postgres', "SELECT count(*) FROM rag_search('document', top_k => 3)"),
	'3', 'rag_search works on a standby');
my $sources =
  'SELECT name, kind, schedule, phase FROM rag.sources WHERE name <> $$often$$ ORDER BY name';
is( $standby->safe_psql('postgres', $sources),
	$primary->safe_psql('postgres', $sources),
	'rag.sources can be read on a standby');
is( $standby->safe_psql('postgres', "SELECT count(*) > 1 FROM rag.runs WHERE phase = 'Completed'"),
	't',
	'rag.runs can be read on a standby');
error_like(
	run_sql($standby, "SELECT rag_sync('docs', wait => $_)"),
	'25006', 'cannot execute rag_sync',
	undef, "rag_sync with wait => $_ is rejected on a standby") for qw(true false);

# one run is active and another one queued when the primary crashes
suspend_and_end_runs($primary, 'postgres', 'often');
all_runs_ended($primary, 'postgres', 'no other run is active');
forget_collection($primary);
RagHold::hold('first');
my $run = $primary->safe_psql('postgres', "SELECT rag_sync('docs', wait => false)");
RagHold::await_request('first');
freeze(engine_pid($primary, 'ingest'));
my $queued = $primary->safe_psql('postgres', "SELECT rag_sync('waiting', wait => false)");
$primary->safe_psql('postgres', "SELECT rag_resume('often')");
is( $primary->safe_psql(
		'postgres',
		"SELECT string_agg(phase, ', ' ORDER BY run_id) FROM rag.runs
		WHERE run_id IN ($run, $queued)"
	),
	'Running, Pending',
	'a run is active on the primary');
$primary->wait_for_catchup($standby);
is( $standby->safe_psql(
		'postgres',
		"SELECT string_agg(phase, ', ' ORDER BY run_id) FROM rag.runs
		WHERE run_id IN ($run, $queued)"
	),
	'Running, Pending',
	'the standby shows the active run in rag.runs');
is($standby->safe_psql('postgres', "SELECT phase FROM rag.sources WHERE name = 'docs'"),
	'Running', 'the standby shows the active run in rag.sources');
my $before = $standby->safe_psql('postgres', "SELECT max(run_id) FROM rag.runs");
$primary->kill9;
await('all processes of the primary have ended', sub { !server_processes($primary) });
RagHold::release('first');
is(workers($standby), '', 'the standby still has neither launcher nor scheduler');

$standby->promote;
ok(worker($standby, $_), "a promoted standby has a $_") for qw(launcher scheduler);
await_true(
	$standby, 'postgres',
	"phase = 'Completed' AND error_run_count = 1 FROM rag.sources WHERE name = 'docs'",
	'a promoted standby completes the interrupted run');
is( $standby->safe_psql(
		'postgres', "SELECT phase, errors -> 0 ->> 'sqlstate' FROM rag.runs WHERE run_id = $run"),
	'Failed|57P01',
	'the interrupted run records that its process was lost');
is(stored($standby), $clean, 'the stored documents are those of an undisturbed sync');
await_true(
	$standby, 'postgres',
	"phase = 'Completed' FROM rag.runs WHERE run_id = $queued",
	'a promoted standby starts queued runs');
await_true(
	$standby,
	'postgres',
	"count(*) > 1 FROM rag.runs WHERE source = 'often' AND run_id > $before AND trigger = 'schedule'
	AND phase = 'Completed'",
	'schedules run after promotion');
await_true(
	$standby, 'postgres',
	"count(*) = 1 FROM rag.runs WHERE source = 'boot' AND phase = 'Completed'",
	'@reboot runs after promotion');
suspend_and_end_runs($standby, 'postgres', 'often');
all_runs_ended($standby, 'postgres', 'no run is active in the end');
runs_are_consistent($standby, 'postgres', 'after the promotion');
same_cluster($witness, 'promotion');

$standby->stop;
is_deeply([ engines($standby) ], [], 'no engine is running after the standby stopped');
done_testing();
