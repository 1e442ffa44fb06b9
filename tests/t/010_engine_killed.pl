# rag-engine is killed while it works: the one query or the one run that needed it gets a clear
# error, the next one works, what was stored stays, and nobody else notices.
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

# Kills the engine after it has got a query and before it has answered.
sub killed_during_a_query
{
	my $engine = engine_pid($node, 'embed');
	freeze($engine);
	my $query = start_sql($node, "SELECT rag_embed(array_agg('text number ' || i)) FROM generate_series(1, 1000) i");
	$query->await_waiting;
	kill 'KILL', $engine;
	error_like($query->finish, '08006', 'rag-engine', 'repeat the command', 'a query whose engine is killed says so');
	isnt(engine_pid($node, 'embed'), $engine, 'another engine is started');
	is($node->safe_psql('postgres', "SELECT rag_functions.vector_dims(rag_embed('hello'))"), '384', 'the next query works');
	same_cluster($witness, 'the engine is killed during a query');
	return;
}

# Signals a process of the run after it has stored half its documents, as it embeds the others;
# gives what the waiting session got.
sub killed_during_a_sync
{
	my ($kind, $signal) = @_;
	my $sync = RagHold::begin_in_the_middle($node, 'docs', 33);
	my $embed = engine_pid($node, 'embed');
	freeze($embed);
	RagHold::release('middle');
	# where it waits for what is read it looks at the clock each second; where it waits for the engine
	# it does not
	await_asleep(worker($node, 'runner'), 1.5);
	my $victim = $kind eq 'embed' ? $embed : engine_pid($node, $kind);
	is(ask($node, 'SELECT count(*) FROM rag.documents'), '33', "rag-engine $kind is killed in the middle, by $signal");
	# the first SIGSEGV from outside only ends Rust's own handling of it
	await("process $victim ends", sub { kill $signal, $victim; !is_running($victim) });
	thaw($embed);
	my $result = $sync->finish;
	cmp_ok(ask($node, "SELECT count(*) FROM rag.documents WHERE status = 'active'"), '>=', 33, 'documents that were stored stay');
	is(run_row($node, 'docs', "phase, errors -> 0 ->> 'sqlstate'"), 'Failed|08006', 'the run is Failed and says why');
	is(ask($node, 'SELECT phase, indexing FROM rag.sources'), 'Failed|f', 'so is the source');
	same_cluster($witness, "rag-engine $kind is killed during a sync");
	is_deeply([ engines($node, 'ingest') ], [], 'no process of the run is left');
	return $result;
}

my $clean;

sub the_next_sync_finishes
{
	sync_ok($node, 'docs', 'the next sync finishes');
	is(stored($node), $clean, 'and leaves the state of an undisturbed one');
	forget_collection($node);
	return;
}

$node->safe_psql('postgres', "SELECT rag_embed('hello')");
killed_during_a_query();

sync_ok($node, 'docs', 'an undisturbed sync');
$clean = stored($node);
like($clean, qr/\A0\n0\n67\|/, 'stores all documents with all their chunks');
forget_collection($node);

error_like(killed_during_a_sync('embed', 'KILL'), '08006', 'rag-engine', 'again',
	'a sync whose embedding engine is killed says so');
the_next_sync_finishes();
error_like(killed_during_a_sync('ingest', 'KILL'), '08006', 'rag-engine was killed by signal 9', 'sync again',
	'a sync whose ingesting engine is killed says so');
the_next_sync_finishes();
error_like(killed_during_a_sync('ingest', 'SEGV'), '08006', 'rag-engine was killed by signal 11', 'sync again',
	'a sync whose ingesting engine crashes says so');
the_next_sync_finishes();

$node->stop;
is_deeply([ engines($node) ], [], 'no engine outlives the server');
done_testing();
