# A server with a worker for one run at a time: sessions that need another worker report that they
# wait, and get the next one.
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
	# beside the server's own workers: supervisor, launcher and one more; without preload the
	# supervisor and one more
	my $node = rag_node(
		"workers_$preload",
		preload => $preload,
		conf =>
		  "rag.allowed_private_hosts = '127.0.0.1'\nrag.max_running_syncs = 4\nrag.scheduler = off"
	);
	$node->safe_psql('postgres', q{SELECT rag_functions.vector_dims(rag_embed('hello'))});
	for my $name (qw(first second third))
	{
		$node->safe_psql('postgres',
			sprintf q{SELECT rag_create_source('%s', 'static', '{"endpoints": ["%s"]}')},
			"$name-$preload", RagHold::page("$name-$preload"));
	}
	$node->append_conf('postgresql.conf', 'max_worker_processes = ' . (3 + $preload));
	$node->restart;
	$node->safe_psql('postgres', q{SELECT rag_functions.vector_dims(rag_embed('hello'))});

	subtest $preload ? 'with preload' : 'without preload' => sub {
		RagHold::hold("first-$preload");
		my $first = start_sql($node, "SELECT rag_sync('first-$preload')");
		RagHold::await_request("first-$preload");
		my $cancelled =
		  run_sql($node, "SET statement_timeout = '1s'; SELECT rag_sync('third-$preload')");
		my $reason = 'all background worker slots are in use (max_worker_processes)';
		like(
			$cancelled->{err},
			qr/NOTICE: .*waiting: \Q$reason\E/,
			'rag_sync reports that it waits for a background worker');
		like(
			$cancelled->{err},
			qr/ERROR:  57014/,
			'rag_sync can be cancelled while it waits for a background worker');
		my $second = start_sql($node, "SELECT rag_sync('second-$preload')");
		$second->await_waiting;
		RagHold::release("first-$preload");
		is($first->finish->{rc}, 0, 'the run that has the only worker completes');
		my $result = $second->finish;
		is($result->{rc}, 0, 'a waiting rag_sync gets the next free worker')
		  or diag($result->{err});
		is($node->safe_psql('postgres', "SELECT rag_sync('third-$preload') > 0"),
			't', 'rag_sync starts at once when workers are free');
	};
	$node->stop;
}
done_testing();
