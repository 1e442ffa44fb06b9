# rag-engine is killed while it is busy. Only the query or run that needs it gets an error, and the
# next one succeeds. Stored documents are kept, and no other session is disturbed.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();
use RagWorkers;

my $spec = RagHold::files_between_pages(write_documents(temp_folder(), 64, 16), 'middle');
my $node = rag_node('killed', conf => "rag.allowed_private_hosts = '127.0.0.1'");
$node->safe_psql('postgres', "SELECT rag_create_source('docs', 'static', '$spec')");
my $witness = witness($node);

# Kills the engine after it was sent two queries and before it has answered. One session has used it
# before. The other one may have met an engine that was about to exit, and asks the next one.
sub killed_during_a_query
{
	my $engine = engine_pid($node, 'embed');
	my $gate = session($node);
	$gate->query('BEGIN; SELECT pg_advisory_xact_lock(10)');
	my $texts = "SELECT cardinality(rag_embed(array_agg('text number ' || i)))
		FROM generate_series(1, 1000) i";
	my $query = start_sql($node,
		"SELECT rag_embed('hello') IS NULL; SELECT pg_advisory_xact_lock(10); $texts");
	$query->await_locked;
	freeze($engine);
	my $first = start_sql($node, $texts);
	$gate->query('COMMIT');
	$_->await_waiting for $query, $first;
	kill 'KILL', $engine;
	error_like(
		$query->finish, '08006', 'rag-engine',
		'Repeat the command',
		'a query reports that its engine was killed');
	like($first->finish->{out},
		qr/^1000$/m, 'the first query of a session is answered by the next engine');
	isnt(engine_pid($node, 'embed'), $engine, 'a new engine is started');
	is($node->safe_psql('postgres', "SELECT rag_functions.vector_dims(rag_embed('hello'))"),
		'384', 'the next query succeeds');
	same_cluster($witness, 'an engine killed during a query');
	return;
}

# Signals a process of the run while it embeds the second half of its documents. Returns the result
# of the waiting session.
sub killed_during_a_sync
{
	my ($kind, $signal) = @_;
	my $sync = RagHold::start_sync_and_hold($node, 'docs', 33);
	my $embed = engine_pid($node, 'embed');
	freeze($embed);
	RagHold::release('middle');
	# a runner that waits for its source checks the time each second; one that waits for the engine
	# does not
	await_asleep(worker($node, 'runner'), 1.5);
	my $victim = $kind eq 'embed' ? $embed : engine_pid($node, $kind);
	is(ask($node, 'SELECT count(*) FROM rag.documents'),
		'33', "half of the documents are stored when rag-engine $kind gets $signal");
	# the first SIGSEGV from outside only ends Rust's own handling of it
	await("process $victim ends", sub { kill $signal, $victim; !is_running($victim) });
	thaw($embed);
	my $result = $sync->finish;
	cmp_ok(ask($node, "SELECT count(*) FROM rag.documents WHERE status = 'active'"),
		'>=', 33, 'stored documents are kept');
	is(run_row($node, 'docs', "phase, errors -> 0 ->> 'sqlstate'"),
		'Failed|08006', 'the run is Failed with an error');
	is(ask($node, 'SELECT phase, indexing FROM rag.sources'), 'Failed|f', 'the source is Failed');
	same_cluster($witness, "rag-engine $kind killed during a sync");
	is_deeply([ engines($node, 'ingest') ], [], 'no process of the failed run remains');
	return $result;
}

my $clean;

sub the_next_sync_finishes
{
	sync_ok($node, 'docs', 'the next sync completes');
	is(stored($node), $clean, 'the next sync leaves the same state as an undisturbed sync');
	forget_collection($node);
	return;
}

$node->safe_psql('postgres', "SELECT rag_embed('hello')");
killed_during_a_query();

sync_ok($node, 'docs', 'an undisturbed sync succeeds');
$clean = stored($node);
like($clean, qr/\A0\n0\n67\|/, 'an undisturbed sync stores all documents with all their chunks');
forget_collection($node);

error_like(
	killed_during_a_sync('embed', 'KILL'),
	'08006', 'rag-engine',
	'Repeat the command', 'a sync reports that its embedding engine was killed');
the_next_sync_finishes();
error_like(
	killed_during_a_sync('ingest', 'KILL'),
	'08006', 'rag-engine was killed by signal 9',
	'Sync again', 'a sync reports that its ingesting engine was killed');
the_next_sync_finishes();
error_like(
	killed_during_a_sync('ingest', 'SEGV'),
	'08006', 'rag-engine was killed by signal 11',
	'Sync again', 'a sync reports that its ingesting engine crashed');
the_next_sync_finishes();

$node->stop;
is_deeply([ engines($node) ], [], 'no engine is running after the server stopped');
done_testing();
