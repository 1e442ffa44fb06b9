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
is(scalar(engine_pids($node)), 0, 'no engine runs before it is needed');

is($node->safe_psql('postgres', q{SELECT rag_functions.vector_dims(rag_embed('hello'))}), '384', 'a text is embedded');
is(scalar(engine_pids($node, 'embed')), 1, 'the engine runs');

create_handbook($node);
like($node->safe_psql('postgres', q{SELECT rag_sync('handbook')}), qr/^[12]$/, 'a source is synced, if it is not yet');
is($node->safe_psql('postgres', q{SELECT title FROM rag_search('how do I rotate the signing keys?', top_k => 1)}),
	'Rotating the signing keys', 'and found');
is($node->safe_psql('postgres', q{SELECT success FROM rag_add_document('Bread is baked in the morning.', 'bread')}), 't', 'a document is added');

# schedules are kept by workers that start with the server: whoever gives one is told
my @statements = (
	[ qq{SELECT rag_create_source('nightly', 'folder', '{"path": "$ENV{RAG_TEST_FILES}/handbook"}', schedule => '\@daily')}, 'a source is made with a schedule' ],
	[ q{SELECT rag_alter_source('nightly', schedule => '@hourly')}, 'given another one' ],
	[ q{SELECT rag_apply(jsonb_set(rag_get('AutoIndexer', 'nightly'), '{spec,schedule}', '"@weekly"')::text)}, 'by a manifest' ]);
for my $statement (@statements)
{
	my ($sql, $name) = @$statement;
	$node->psql('postgres', $sql, stderr => \my $said);
	like($said, qr/^psql:.*WARNING:  source "nightly" is not synced by its schedule: rag is not in shared_preload_libraries\nHINT:  Add rag to/, $name);
}
$node->psql('postgres', q{SELECT rag_alter_source('nightly', max_retries => 1), rag_suspend('nightly'), rag_resume('nightly')}, stderr => \my $said);
is($said, '', 'who leaves the schedule alone is not');
is($node->safe_psql('postgres', q{SELECT scheduled, c ->> 'reason' FROM rag.sources, jsonb_array_elements(conditions) c
	WHERE name = 'nightly' AND c ->> 'type' = 'AutoIndexerScheduled'}), 'f|NoScheduler', 'the status says it, too');

# who does not wait gets the id of a run that has begun
is($node->safe_psql('postgres', q{SELECT rag_wait(rag_sync('handbook', wait => false))}), 'Completed', 'a run that nobody waits for at first');
$node->safe_psql('postgres', "SELECT rag_create_source('part-' || n, 'folder', '{\"path\": \"$ENV{RAG_TEST_FILES}/handbook\"}') FROM generate_series(1, 6) n");
my $out = '';
$node->psql('postgres', 'SELECT source, run_id FROM rag_sync_all()', stdout => \$out, stderr => \$said);
my @begun = map { (split /\|/)[1] } split /\n/, $out;
is(scalar(@begun) + (() = $said =~ /WARNING:  source "[\w-]+" is not synced: as many runs are under way/g) + (() = $said =~ /NOTICE:  source "[\w-]+" is being synced by another/g), 8,
	'each source begins, is queued, or at work, or a warning says why not')
	or diag("$out\n$said");
is($node->safe_psql('postgres', "SELECT count(rag_wait(run)) FROM unnest('{" . join(',', @begun) . "}'::bigint[]) run"), scalar(@begun),
	'what was begun ends');
RagWorkers::all_ended($node, 'postgres', 'so do the first runs of new sources');

# many sessions at once that find no engine: one is started, and one worker with it. One is all
# there is room for beside the server's own for logical replication.
configure($node, max_worker_processes => 2);
$node->restart;
is(scalar(engine_pids($node)), 0, 'no engine runs after a restart');
my @sessions = map { { out => '', in => q{SELECT uri FROM rag_search('bread', top_k => 1)} } } 1 .. 8;
for my $session (@sessions)
{
	$session->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $session->{in} ],
		'>', \$session->{out}, '2>', \$session->{err});
}
$_->{run}->finish for @sessions;
is(join(',', map { $_->{out} . $_->{err} } @sessions), join(',', ("bread\n") x 8), 'eight sessions get their answers');
is(scalar(engine_pids($node, 'embed')), 1, 'from one engine');

# it belongs to the cluster, not to the session that started it
await('no session is left', sub { $node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}) eq '1' });
is($node->safe_psql('postgres', q{SELECT rag_functions.vector_dims(rag_embed('hello'))}), '384', 'the engine still answers');

# whoever finds the engine gone while its worker starts another needs no slot for a second one
kill 'KILL', engine_pids($node, 'embed');
# one that is being killed takes connections a few milliseconds longer, and then says that it ended
my $next;
await('the next engine answers', sub { $next = run_sql($node, q{SELECT rag_functions.vector_dims(rag_embed('hello'))}); $next->{err} !~ /ERROR:  08006/ });
is($next->{out}, '384', 'the next engine answers, too') or diag($next->{err});
configure($node, 'max_worker_processes');
$node->restart;

# a run, who waits for it, and who drops the extension do not wait for each other for ever
$node->safe_psql('postgres', 'CREATE DATABASE dropping');
$node->safe_psql('dropping', 'CREATE EXTENSION rag');
# suspended, or it would be synced when it is made
$node->safe_psql('dropping', sprintf q{SELECT rag_create_source('page', 'static', '{"endpoints": ["%s"]}', suspend => true)}, RagHold::page('page'));
RagHold::hold('page');
my $sync = start_sql($node, q{SELECT rag_sync('page')}, database => 'dropping');
RagHold::await_asked('page');
my $dropping = start_sql($node, 'DROP EXTENSION rag CASCADE', database => 'dropping');
$dropping->await_locked;
RagHold::release('page');
# one of the three is the one to give way: the run, who waits for it, or who drops
my $synced = $sync->finish;
like($synced->{err}, qr/page: \d added|ERROR: .*deadlock/s, 'who waits for a run, and for whom the dropping of the extension waits, goes on');
my $dropped = $dropping->finish;
like("$dropped->{rc} $dropped->{err}", qr/^0 |ERROR:  40P01/, 'and so does that');
$dropped = run_sql($node, 'DROP EXTENSION IF EXISTS rag CASCADE', database => 'dropping');
is($dropped->{rc}, 0, 'afterwards it can be dropped') or diag($dropped->{err});

# a database may be dropped while it runs
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{CREATE EXTENSION rag; SELECT rag_embed('hello')});
$node->safe_psql('postgres', 'DROP DATABASE other');

$node->stop;
is(scalar(engine_pids($node)), 0, 'no engine outlives the server');
done_testing();
