# Whatever waits for rag-engine can be cancelled, timed out and terminated, however long the engine
# would take: here it is stopped, so that without the cancel nothing would ever end. The next call
# works.
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
	'rag_embed of an array' => "SELECT rag_embed(array_agg('text number ' || i)) FROM generate_series(1, 2000) i",
	rag_search => "SELECT * FROM rag_search('bread')",
	rag_add_document => "SELECT rag_add_document('Rolls are baked at noon.', 'rolls')",
	rag_sync => "SELECT rag_sync('docs')");

# What every way to end a call leaves behind.
sub ends_cleanly
{
	my ($call, $how, $result) = @_;
	cmp_ok($result->{seconds}, '<', 60, "$call is ended at once by $how");
	same_cluster($witness, "$call ended by $how");
	return unless $call eq 'rag_sync';
	await('the run has ended', sub { !ask($node, 'SELECT count(*) FROM rag.progress') });
	is(run_row($node, 'docs', "phase, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message', finished_at IS NOT NULL"),
		'Failed|57014|the run was cancelled|t', 'its run is Failed: cancelled');
	await('the runner has ended', sub { ask($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'rag runner'") eq '0' });
	is_deeply([ engines($node, 'ingest') ], [], 'no process of the run is left');
	return;
}

# A call that waits for the engine, or for a run that does, and its backend.
sub waiting
{
	my ($call) = @_;
	my $session = start_sql($node, $call{$call});
	my $pid = $session->await_waiting;
	await('the run has begun', sub { ask($node, 'SELECT count(*) FROM rag.progress') }) if $call eq 'rag_sync';
	return ($session, $pid);
}

for my $call (sort keys %call)
{
	freeze($embed);

	my ($waiting, $pid) = waiting($call);
	ask($node, "SELECT pg_cancel_backend($pid)");
	my $result = $waiting->finish;
	error_like($result, '57014', 'canceling statement due to user request', undef, "$call is cancelled");
	ends_cleanly($call, 'pg_cancel_backend', $result);

	$result = run_sql($node, "SET statement_timeout = '300ms'; $call{$call}");
	error_like($result, '57014', 'canceling statement due to statement timeout', undef, "$call is timed out");
	ends_cleanly($call, 'statement_timeout', $result);

	($waiting, $pid) = waiting($call);
	ask($node, "SELECT pg_terminate_backend($pid)");
	$result = $waiting->finish;
	error_like($result, '57P01', 'terminating connection due to administrator command', undef, "$call is terminated");
	ends_cleanly($call, 'pg_terminate_backend', $result);

	thaw($embed);
	is($node->safe_psql('postgres', "SELECT uri FROM rag_search('bread', top_k => 1)"), 'bread', "after $call a search works");
}

# an engine that is busy, not stopped: what was asked by the session that left is dropped
my $long = start_sql($node, "SELECT rag_embed(array_agg(repeat('text number ' || i, 60))) FROM generate_series(1, 5000) i");
$long->await_waiting;
ask($node, "SELECT pg_cancel_backend(" . $long->backend . ")");
error_like($long->finish, '57014', 'user request', undef, 'a long rag_embed is cancelled in the middle');
is($node->safe_psql('postgres', "SELECT rag_functions.vector_dims((rag_embed(ARRAY['hello']))[1])"), '384', 'and the next one does not wait for it');

# a run that nobody waits for
sub run_of_its_own
{
	my ($function) = @_;
	freeze($embed);
	$node->safe_psql('postgres', "SELECT rag_sync('docs', wait => false)");
	my $runner = await('the run has begun',
		sub { ask($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'rag runner' AND wait_event = 'Extension'
			AND EXISTS (SELECT FROM rag.progress)") });
	ask($node, "SELECT $function($runner)");
	await('the runner has ended', sub { !is_running($runner) });
	is_deeply([ engines($node, 'ingest') ], [], "$function of a runner leaves no process of the run");
	thaw($embed);
	same_cluster($witness, "$function of a runner");
	return;
}

run_of_its_own('pg_cancel_backend');
is(run_row($node, 'docs', "phase, errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message'"), 'Failed|57014|the run was cancelled',
	'a runner that is cancelled writes it down');
run_of_its_own('pg_terminate_backend');
sync_ok($node, 'docs', 'the next sync works');
is($node->safe_psql('postgres', "SELECT count(*) FROM rag.runs WHERE phase = 'Running'"), '0',
	'and has marked the run whose process was terminated');
is($node->safe_psql('postgres', "SELECT errors -> 0 ->> 'sqlstate' FROM rag.runs ORDER BY run_id DESC OFFSET 1 LIMIT 1"), '57P01',
	'as Failed');

# a run has a time limit of its own, whatever it waits for
$node->safe_psql('postgres', "SELECT rag_create_collection('limited')");
$node->safe_psql('postgres', qq{SELECT rag_create_source('limited', 'folder', '{"path": "$folder"}', 'limited', timeout => '1 second')});
freeze($embed);
error_like(run_sql($node, "SELECT rag_sync('limited')"), '57014', "the run took longer than the source's timeout of 1 s",
	"Raise the source's timeout", 'a run that takes too long is ended');
is_deeply([ engines($node, 'ingest') ], [], 'with its processes');
is(run_row($node, 'limited', "phase, errors -> 0 ->> 'sqlstate'"), 'Failed|57014', 'and Failed');
thaw($embed);
same_cluster($witness, 'a run that takes too long');

like(stored($node), qr/\A0\n0\n49\|/, 'all documents are stored with all their chunks');
is_deeply([ grep { /Z/ } map { children_of($_) } split /\n/, $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity') ],
	[], 'no process of the server has zombies');

$node->stop;
done_testing();
