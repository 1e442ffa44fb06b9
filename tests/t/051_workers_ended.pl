# Engines are killed, and workers terminated, during each phase of a run. No run stays Running, and
# the next one finishes the work automatically.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHeldRuns;
use RagTest ();
use RagWorkers;

my ($node) = held_runs_node('workers_ended');

# -- the engine is killed
for my $case (
	[ 'ingest', 'fetching', 'while reading the source' ],
	[ 'ingest', 'embedding', 'while reading the source' ],
	[ 'ingest', 'storing', 'while reading the source' ],
	[ 'embed', 'fetching', 'rag-engine' ],
	[ 'embed', 'embedding', 'rag-engine' ],
	# which has everything it needs by then, or not
	[ 'embed', 'storing', undef ])
{
	my ($kind, $phase, $reason) = @$case;
	subtest "SIGKILL of rag-engine $kind, $phase" => sub {
		begin();
		my $witness = witness($node);
		my (undef, $frozen) = hold($phase);
		my $engine = engine_pid($node, $kind);
		kill 'KILL', $engine;
		await('the engine has ended', sub { !is_running($engine) });
		release($frozen);
		is_well("rag-engine $kind, $phase");
		failed_as('08006', $reason, 'the interrupted run is Failed with SQLSTATE 08006')
		  if defined $reason;
		same_cluster($witness, "SIGKILL of rag-engine $kind");
	};
}

# -- a worker is terminated
for my $phase (qw(queued fetching embedding storing))
{
	for my $kind (qw(runner scheduler launcher))
	{
		subtest "pg_terminate_backend of the $kind, $phase" => sub {
			my $before = begin();
			my $witness = witness($node);
			my (undef, $frozen) = hold($phase);
			my $pid = end_worker($node, $kind, sub { terminate($node, @_) });
			ok($pid, "the $kind can be terminated");
			await("the $kind ends", sub { !is_running($pid) });
			if ($kind eq 'runner')
			{
				# the retry may be held as well
				await_true(
					$node,
					'postgres',
					"count(*) = 1 FROM rag.runs WHERE run_id > $before AND source = 'docs' AND "
					  . "phase = 'Failed'",
					'the run of a terminated runner is Failed at once');
				failed_as(
					'57P01',
					'process ended before',
					'the run of a terminated runner has SQLSTATE 57P01');
				ok( RagTest::wait_until(sub { !is_running($frozen) }),
					'rag-engine ingest ends with its runner') if $phase eq 'fetching';
			}
			elsif ($kind eq 'launcher')
			{
				isnt(worker($node, 'launcher'), $pid, 'a new launcher is started');
			}
			else
			{
				isnt(worker($node, 'scheduler'), $pid, 'a new scheduler is started during the run');
				is(ask($node, 'SELECT count(*) FROM rag.progress'),
					'1', 'a new scheduler does not disturb the run');
			}
			release($frozen);
			is_well("$kind, $phase");
			is( ask($node,
					"SELECT count(*) FROM rag.runs WHERE run_id > $before AND phase = 'Failed'"),
				'0',
				'no run has failed') if $kind ne 'runner';
			same_cluster($witness, "the end of the $kind");
		};
	}
}

$node->stop;
is_deeply([ engines($node) ], [], 'no engine is running after the server stopped');
done_testing();
