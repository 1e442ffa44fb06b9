# A standby has no launcher and no scheduler; what was under way on the primary when it died is done
# after the promotion.
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
await_true($primary, 'postgres', "phase = 'Completed' FROM rag.sources WHERE name = 'docs'", 'the primary syncs a source');
my $clean = stored($primary);
$primary->safe_psql('postgres', qq{SELECT rag_create_source('often', 'folder', '{"path": "$small"}', 'aside', schedule => '\@every 1s');
	SELECT rag_create_source('boot', 'folder', '{"path": "$small"}', 'aside', schedule => '\@reboot');
	SELECT rag_create_source('waiting', 'folder', '{"path": "$small"}', 'aside', schedule => '0 0 1 1 *')});
await_true($primary, 'postgres', "count(*) > 0 FROM rag.runs WHERE source = 'often' AND phase = 'Completed'", 'and one with a schedule');

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
my $witness = witness($standby);

is(workers($standby), '', 'a standby has neither launcher nor scheduler');
is($standby->safe_psql('postgres', "SELECT count(*) FROM rag_search('document', top_k => 3)"), '3', 'it is searched');
my $sources = 'SELECT name, kind, schedule, phase FROM rag.sources WHERE name <> $$often$$ ORDER BY name';
is($standby->safe_psql('postgres', $sources), $primary->safe_psql('postgres', $sources), 'it shows the sources');
is($standby->safe_psql('postgres', "SELECT count(*) > 1 FROM rag.runs WHERE phase = 'Completed'"), 't', 'and the runs');
error_like(run_sql($standby, "SELECT rag_sync('docs', wait => $_)"), '25006', 'cannot execute rag_sync', undef, "wait => $_: a sync is refused")
  for qw(true false);

# a run is under way, and another one queued, when the primary dies
put_to_rest($primary, 'postgres', 'often');
all_ended($primary, 'postgres', 'nothing else is under way');
forget_collection($primary);
RagHold::hold('first');
my $run = $primary->safe_psql('postgres', "SELECT rag_sync('docs', wait => false)");
RagHold::await_asked('first');
freeze(engine_pid($primary, 'ingest'));
my $queued = $primary->safe_psql('postgres', "SELECT rag_sync('waiting', wait => false)");
$primary->safe_psql('postgres', "SELECT rag_resume('often')");
is($primary->safe_psql('postgres', "SELECT string_agg(phase, ', ' ORDER BY run_id) FROM rag.runs WHERE run_id IN ($run, $queued)"), 'Running, Pending',
	'the primary is at work');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT string_agg(phase, ', ' ORDER BY run_id) FROM rag.runs WHERE run_id IN ($run, $queued)"), 'Running, Pending',
	'the standby shows it');
is($standby->safe_psql('postgres', "SELECT phase FROM rag.sources WHERE name = 'docs'"), 'Running', 'in the sources too');
my $before = $standby->safe_psql('postgres', "SELECT max(run_id) FROM rag.runs");
$primary->kill9;
await('all processes of the primary have ended', sub { !server_processes($primary) });
RagHold::release('first');
is(workers($standby), '', 'the standby still has neither launcher nor scheduler');

$standby->promote;
ok(worker($standby, $_), "a promoted standby has a $_") for qw(launcher scheduler);
await_true($standby, 'postgres', "phase = 'Completed' AND error_run_count = 1 FROM rag.sources WHERE name = 'docs'", 'what was under way is done');
is($standby->safe_psql('postgres', "SELECT phase, errors -> 0 ->> 'sqlstate' FROM rag.runs WHERE run_id = $run"), 'Failed|57P01',
	'the run that lost its process says so');
is(stored($standby), $clean, 'what is stored is what a clean sync stores');
await_true($standby, 'postgres', "phase = 'Completed' FROM rag.runs WHERE run_id = $queued", 'what was queued runs');
await_true($standby, 'postgres', "count(*) > 1 FROM rag.runs WHERE source = 'often' AND run_id > $before AND trigger = 'schedule' AND phase = 'Completed'",
	'schedules go on');
await_true($standby, 'postgres', "count(*) = 1 FROM rag.runs WHERE source = 'boot' AND phase = 'Completed'", '@reboot runs: the server has started since');
put_to_rest($standby, 'postgres', 'often');
all_ended($standby, 'postgres', 'nothing stays under way');
runs_are_sound($standby, 'postgres', 'after the promotion');
same_cluster($witness, 'promotion');

$standby->stop;
is_deeply([ engines($standby) ], [], 'no engine outlives it');
done_testing();
