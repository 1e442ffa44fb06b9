# Every call that waits for rag-engine can be cancelled, timed out and terminated. The engine is
# stopped here, so that the calls would never end otherwise. The next call succeeds.
use strict;
use warnings;
use Test::More;
use RagCluster;

my $node = rag_node('cancel');
my $folder = write_documents(temp_folder(), 48, 8);
create_folder_source($node, 'docs', $folder);
$node->safe_psql('postgres', "SELECT rag_add_document('Bread is baked in the morning.', 'bread')");
my $witness = witness($node);
my $embed = engine_pid($node, 'embed');

my %call = (
	rag_embed => "SELECT rag_embed('hello')",
	'rag_embed of an array' =>
	  "SELECT rag_embed(array_agg('text number ' || i)) FROM generate_series(1, 2000) i",
	rag_search => "SELECT * FROM rag_search('bread')",
	rag_add_document => "SELECT rag_add_document('Rolls are baked at noon.', 'rolls')",
	rag_sync => "SELECT rag_sync('docs')");

# Checks the state after a call was ended in any way.
sub ends_cleanly
{
	my ($call, $how, $result) = @_;
	cmp_ok($result->{seconds}, '<', 60, "$call ends promptly after $how");
	same_cluster($witness, "$call ended by $how");
	return unless $call eq 'rag_sync';
	await('the run has ended', sub { !ask($node, 'SELECT count(*) FROM rag.progress') });
	is( run_row(
			$node,
			'docs',
			"phase, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message', finished_at IS NOT NULL"
		),
		'Failed|57014|the run was cancelled|t',
		'the run of a cancelled rag_sync is Failed with SQLSTATE 57014');
	await(
		'the runner has ended',
		sub {
			ask($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'")
			  eq '0';
		});
	is_deeply([ engines($node, 'ingest') ], [], 'no process of the cancelled run remains');
	return;
}

# Starts a call that waits for the engine, or for a run that does. Returns the session and its
# backend.
sub waiting
{
	my ($call) = @_;
	my $session = start_sql($node, $call{$call});
	my $pid = $session->await_waiting;
	await('the run has begun', sub { ask($node, 'SELECT count(*) FROM rag.progress') })
	  if $call eq 'rag_sync';
	return ($session, $pid);
}

for my $call (sort keys %call)
{
	freeze($embed);

	my ($waiting, $pid) = waiting($call);
	ask($node, "SELECT pg_cancel_backend($pid)");
	my $result = $waiting->finish;
	error_like($result, '57014', 'canceling statement due to user request',
		undef, "$call can be cancelled");
	ends_cleanly($call, 'pg_cancel_backend', $result);

	$result = run_sql($node, "SET statement_timeout = '300ms'; $call{$call}");
	error_like($result, '57014', 'canceling statement due to statement timeout',
		undef, "$call can time out");
	ends_cleanly($call, 'statement_timeout', $result);

	($waiting, $pid) = waiting($call);
	ask($node, "SELECT pg_terminate_backend($pid)");
	$result = $waiting->finish;
	error_like($result, '57P01', 'terminating connection due to administrator command',
		undef, "$call can be terminated");
	ends_cleanly($call, 'pg_terminate_backend', $result);

	thaw($embed);
	is($node->safe_psql('postgres', "SELECT uri FROM rag_search('bread', top_k => 1)"),
		'bread', "a search works after $call");
}

# an engine that is busy, not stopped: it drops requests of a session that has left
my $long = start_sql($node,
	"SELECT rag_embed(array_agg(repeat('text number ' || i, 60))) FROM generate_series(1, 5000) i");
$long->await_waiting;
ask($node, "SELECT pg_cancel_backend(" . $long->backend . ")");
error_like($long->finish, '57014', 'user request', undef,
	'a long rag_embed can be cancelled while it runs');
is( $node->safe_psql(
		'postgres', "SELECT rag_functions.vector_dims((rag_embed(ARRAY['hello']))[1])"),
	'384',
	'the next rag_embed does not wait for a cancelled one');

# a run that no session waits for
sub run_of_its_own
{
	my ($function) = @_;
	freeze($embed);
	$node->safe_psql('postgres', "SELECT rag_sync('docs', wait => false)");
	my $runner = await(
		'the run has begun',
		sub {
			ask($node,
				"SELECT pid FROM pg_stat_activity WHERE backend_type = 'rag runner'
					AND wait_event = 'Extension'
			AND EXISTS (SELECT FROM rag.progress)");
		});
	ask($node, "SELECT $function($runner)");
	await('the runner has ended', sub { !is_running($runner) });
	is_deeply([ engines($node, 'ingest') ],
		[], "$function of a runner leaves no process of the run");
	thaw($embed);
	same_cluster($witness, "$function of a runner");
	return;
}

run_of_its_own('pg_cancel_backend');
is( run_row($node, 'docs', "phase, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message'"),
	'Failed|57014|the run was cancelled',
	'a cancelled runner records the cancellation');
run_of_its_own('pg_terminate_backend');
sync_ok($node, 'docs', 'the next sync after a cancelled runner succeeds');
is($node->safe_psql('postgres', "SELECT count(*) FROM rag.runs WHERE phase = 'Running'"),
	'0', 'the next sync finds the run whose process was terminated');
is( $node->safe_psql(
		'postgres',
		"SELECT errors -> 0 ->> 'sqlstate' FROM rag.runs ORDER BY run_id DESC OFFSET 1 LIMIT 1"),
	'57P01',
	'a run whose process was terminated is Failed');

# a run has its own time limit, whatever it waits for
$node->safe_psql('postgres', "SELECT rag_create_collection('limited')");
$node->safe_psql(
	'postgres',
	qq{SELECT rag_create_source('limited', 'folder', '{"path": "$folder"}', 'limited',
		timeout => '1 second')}
);
freeze($embed);
error_like(
	run_sql($node, "SELECT rag_sync('limited')"),
	'57014',
	"the run took longer than the source's timeout of 1 s",
	"Raise the source's timeout",
	'a run that exceeds its timeout ends');
is_deeply([ engines($node, 'ingest') ], [],
	'no process remains of a run that exceeded its timeout');
is(run_row($node, 'limited', "phase, errors -> 0 ->> 'sqlstate'"),
	'Failed|57014', 'a run that exceeded its timeout is Failed');
thaw($embed);
same_cluster($witness, 'a run that exceeded its timeout');

like(stored($node), qr/\A0\n0\n49\|/, 'all documents are stored with all their chunks');
is_deeply(
	[
		grep { /Z/ } map { children_of($_) } split /\n/,
		$node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity')
	],
	[],
	'the server has no zombie processes');

$node->stop;
done_testing();
