# rag-engine is killed while it works: the one query or the one run that needed it gets a clear error, the next one
# works, what was stored stays, and nobody else notices.
use strict;
use warnings;

use Test::More;
use RagTest;

my $node = rag_node('killed');
my $folder = write_documents(temp_folder(), 60, 8);
$node->safe_psql('postgres', "SELECT rag_create_source('docs', 'folder', '{\"path\": \"$folder\"}')");
my $witness = witness($node);
my $many_texts = "SELECT cardinality(rag_embed(array_agg('text number ' || i || repeat(' of some length', 40)))) FROM generate_series(1, 2000) i";

sub killed_during_a_query
{
	my $query = start_sql($node, $many_texts);
	$query->backend;
	my $engine = engine_pid($node, 'embed');
	freeze($engine);
	kill 'KILL', $engine;
	my $result = $query->finish;
	error_like($result, '08006', 'rag-engine', 'repeat the command', 'a query whose engine is killed says so');
	isnt(engine_pid($node, 'embed'), $engine, 'another engine is started');
	is($node->safe_psql('postgres', "SELECT vector_dims(rag_embed('hello')) > 0"), 't', 'the next query works');
	same_cluster($witness, 'engine killed during a query');
}

# Kills a process of the run after it has stored its first documents; gives what the waiting session got.
sub killed_during_a_sync
{
	my ($kind, $signal) = @_;
	my $sync = start_sql($node, "SELECT rag_sync('docs')");
	wait_for_stored($node, 'docs');
	my $embed = engine_pid($node, 'embed');
	freeze($embed);
	my $victim = $kind eq 'embed' ? $embed : engine_pid($node, $kind);
	my $stored = $node->safe_psql('postgres', "SELECT count(*) FROM rag.documents");
	cmp_ok($stored, '<', 60, "$kind is killed in the middle");
	kill $signal, $victim;
	thaw($embed);
	my $result = $sync->finish;
	cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM rag.documents WHERE status = 'active'"),
		'>=', $stored, 'documents that were stored stay');
	is(run_row($node, 'docs', 'phase'), 'Failed', 'the run is Failed');
	is(run_row($node, 'docs', "errors -> 0 ->> 'sqlstate'"), '08006', 'and says why');
	is($node->safe_psql('postgres', "SELECT phase FROM rag.sources"), 'Failed', 'so does the source');
	same_cluster($witness, "$kind killed during a sync");
	is_deeply([ engines($node, 'ingest') ], [], 'no process of the run is left');
	return $result;
}

$node->safe_psql('postgres', "SELECT rag_embed('hello')");
killed_during_a_query();

sync_ok($node, 'docs', 'a first, undisturbed sync');
my $clean = state($node);
like($clean, qr/\A0\n0\n60\|/, 'stores all documents with all their chunks');

sub the_next_sync_finishes
{
	sync_ok($node, 'docs', 'the next sync finishes');
	is(state($node), $clean, 'the state is that of an undisturbed sync');
	reset_collection($node);
}

reset_collection($node);
error_like(killed_during_a_sync('embed', 'KILL'), '08006', 'rag-engine', 'repeat|again', 'a sync whose embedding engine is killed');
the_next_sync_finishes();
error_like(killed_during_a_sync('ingest', 'KILL'), '08006', 'rag-engine was killed by signal 9', 'sync again',
	'a sync whose ingesting engine is killed');
the_next_sync_finishes();
error_like(killed_during_a_sync('ingest', 'SEGV'), '08006', 'rag-engine was killed by signal 11', 'sync again',
	'a sync whose ingesting engine crashes');
the_next_sync_finishes();

$witness->{session}->quit;
$node->stop;
is_deeply([ engines($node) ], [], 'no engine outlives the server');
done_testing();
