# A run whose process makes no progress is reported by rag_status(), by one line in the log and by a
# metric, and a session that the engine does not answer by the first two.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHold ();
use PostgreSQL::Test::Utils;

my $node = rag_node(
	'stalled_runs',
	scheduler => 1,
	conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.stall_timeout = 2s");
my $files = write_documents(temp_folder(), 2, 1);
RagHold::hold('last');
my $spec = RagHold::files_between_pages($files);
my $log = -s $node->logfile;
$node->safe_psql('postgres', "SELECT rag_create_source('slow', 'static', '$spec')");
RagHold::await_request('last');
RagCluster::await_stored($node, 'slow', 3);

my $rows = q{SELECT severity, object ~ '^run \d+ of source slow$', problem, remedy
	FROM rag_status() WHERE problem LIKE '%no progress%'};
my $metric = q{SELECT value FROM rag.metrics WHERE name = 'rag_runs_stalled'};
my $line = qr/WARNING:.*rag: run \d+ of source "slow" has made no progress since/;
sub lines { return scalar(() = slurp_file($node->logfile, $log) =~ /$line/g) }

# a slow server is no reason: the process says each second that it works
sleep 3;
is(ask($node, $rows), '', 'a run that waits for a server is not reported');
is(ask($node, $metric), '0', 'a run that waits for a server is not counted');

my $runner = ask($node, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'rag runner'});
freeze_asleep($runner);
await('the run is reported', sub { ask($node, $rows) ne '' });
like(ask($node, $rows),
	qr/^warning\|t\|the run has made no progress since .*\|SELECT rag_cancel_run\(\d+\);$/,
	'rag_status() tells the run, since when, and what to do');
is(ask($node, $metric), '1', 'the metric counts it');
await('the log has it', \&lines);
sleep 3;
is(lines(), 1, 'the log has one line');
configure($node, 'rag.stall_timeout', 0);
await('0 reports none', sub { ask($node, $rows) eq '' });
configure($node, 'rag.stall_timeout');
await('the run is reported again', sub { ask($node, $rows) ne '' });

thaw($runner);
RagHold::release('last');
await('the run ends', sub { ask($node, q{SELECT phase FROM rag.runs}) eq 'Completed' });
is(ask($node, $rows), '', 'a run that has ended is not reported');
is(ask($node, $metric), '0', 'a run that waits for a server is not counted');
is(lines(), 1, 'and not logged again');

# -- a session whose engine does not answer
$rows = q{SELECT severity, object, problem, remedy FROM rag_status() WHERE object LIKE 'session %'};
$line = qr/WARNING:  rag-engine has not answered for \d+ seconds/;
$log = -s $node->logfile;
ask($node, q{SELECT length(rag_embed('The model is loaded.')::text) > 0});
my $engine = engine_pid($node, 'embed');
freeze($engine);
my $statement = start_sql($node, q{SELECT pg_backend_pid(), rag_embed('A text.') IS NOT NULL});
await('the session is reported', sub { ask($node, $rows) ne '' });
my ($pid) = ask($node, $rows) =~ /session (\d+)/;
is( ask($node, $rows),
	"warning|session $pid|the session waits for rag-engine, which does not answer"
	  . "|SELECT pg_cancel_backend($pid);",
	'rag_status() tells the session and what to do');
is(lines(), 1, 'the log has it');
is(ask($node, $metric), '0', 'it is no run');
sleep 3;
is(lines(), 1, 'the log has one line');
thaw($engine);
is($statement->finish->{out}, "$pid|t", 'the statement goes on when the engine answers');
is(ask($node, $rows), '', 'the session is not reported any more');

freeze($engine);
$statement = start_sql($node, q{SELECT rag_embed('A text.')});
await('a second one is reported', sub { ask($node, $rows) ne '' });
ask($node, ask($node, q{SELECT remedy FROM rag_status() WHERE object LIKE 'session %'}));
$statement->finish;
is(ask($node, $rows), '', 'the remedy ends the statement and its report');
thaw($engine);

$node->stop;
done_testing();
