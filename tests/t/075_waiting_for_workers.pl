# A server that has a worker for one run at a time: whoever asks for another one is told that it
# waits, and gets the next worker.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();
use RagTest ();
use RagWorkers;

RagHold::origin();
for my $preload (1, 0)
{
	# beside the workers of the server's own: supervisor, launcher, and one; without preload the
	# supervisor, and one
	my $node = rag_node("workers_$preload", preload => $preload, conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.max_running_syncs = 4\nrag.scheduler = off");
	$node->safe_psql('postgres', q{SELECT rag_functions.vector_dims(rag_embed('hello'))});
	for my $name (qw(first second third))
	{
		$node->safe_psql('postgres', sprintf q{SELECT rag_create_source('%s', 'static', '{"endpoints": ["%s"]}')}, "$name-$preload", RagHold::page("$name-$preload"));
	}
	$node->append_conf('postgresql.conf', 'max_worker_processes = ' . (3 + $preload));
	$node->restart;
	$node->safe_psql('postgres', q{SELECT rag_functions.vector_dims(rag_embed('hello'))});

	subtest $preload ? 'with preload' : 'without preload' => sub {
		RagHold::hold("first-$preload");
		my $first = start_sql($node, "SELECT rag_sync('first-$preload')");
		RagHold::await_asked("first-$preload");
		my $cancelled = run_sql($node, "SET statement_timeout = '1s'; SELECT rag_sync('third-$preload')");
		like($cancelled->{err}, qr/NOTICE: .*waiting: all background workers of the server are in use \(max_worker_processes\)/, 'who waits is told so');
		like($cancelled->{err}, qr/ERROR:  57014/, 'and can be cancelled');
		my $second = start_sql($node, "SELECT rag_sync('second-$preload')");
		$second->await_waiting;
		RagHold::release("first-$preload");
		is($first->finish->{rc}, 0, 'the run that had the worker ends');
		my $result = $second->finish;
		is($result->{rc}, 0, 'who waits gets the next one') or diag($result->{err});
		is($node->safe_psql('postgres', "SELECT rag_sync('third-$preload') > 0"), 't', 'afterwards nobody is kept from it');
	};
	$node->stop;
}
done_testing();
