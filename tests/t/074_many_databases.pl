# Twenty databases with the extension under the default max_worker_processes: schedulers come when
# something is due and leave when nothing is, and all sources are synced.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagTest ();
use RagWorkers;

my $node = rag_node('many_databases', scheduler => 1);
is($node->safe_psql('postgres', 'SHOW max_worker_processes'), '8', 'the server has as many workers as PostgreSQL is installed with');
my $folder = write_documents(temp_folder(), 1, 1);
my $source = qq{SELECT rag_create_source('docs', 'folder', '{"path": "$folder"}', schedule => '\@yearly')};
await_kept($node, 'postgres', 'at rest there is a launcher and nothing else');
my @databases = map { "db$_" } 1 .. 20;
# psql is in the database postgres, which as a template nobody may be connected to
$node->safe_psql('postgres', 'CREATE DATABASE db1');
$node->safe_psql('db1', "CREATE EXTENSION rag; $source");
$node->safe_psql('db1', "SELECT rag_sync('docs')");
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE db1") for @databases[ 1 .. 19 ];
await_kept($node, join(' ', @databases), 'all databases are looked after, by workers that have left again');

subtest 'all are due at once' => sub {
	$node->safe_psql($_, 'UPDATE rag.source SET next_run = now()') for @databases;
	for my $database (@databases)
	{
		await_true($node, $database, "count(*) = 1 FROM rag.runs WHERE trigger = 'schedule' AND phase = 'Completed'", "$database is synced");
	}
	await_kept($node, join(' ', @databases), 'and everybody has left');
};

subtest 'often' => sub {
	$node->safe_psql($_, "SELECT rag_alter_source('docs', schedule => '\@every 1s')") for @databases[ 0 .. 3 ];
	for my $database (@databases[ 0 .. 3 ])
	{
		await_true($node, $database, "count(*) > 3 FROM rag.runs WHERE trigger = 'schedule' AND phase = 'Completed'",
			"$database has its turn each time, beside more such databases than there are schedulers");
	}
	put_to_rest($node, $_, 'docs') for @databases[ 0 .. 3 ];
	all_ended($node, $_, "$_ is at rest") for @databases[ 0 .. 3 ];
};

subtest 'what the server forgets when it ends is found again' => sub {
	# without a checkpoint the sequences of copied databases fall back to what they were when they were
	# copied
	$node->stop('immediate');
	# the processes that a crash leaves behind have 'FATAL' lines of their own
	rename $node->logfile, $node->logfile . '.before';
	$node->start;
	await_kept($node, join(' ', @databases), 'after a crash all databases are looked after');
	$node->safe_psql('db7', 'UPDATE rag.source SET next_run = now()');
	await_true($node, 'db7', "count(*) = 2 FROM rag.runs WHERE trigger = 'schedule' AND phase = 'Completed'", 'and synced');
};

subtest 'places for databases that must be empty' => sub {
	# more of them in one transaction than a session has places for
	my $session = session($node);
	$session->query('BEGIN');
	$session->query("ALTER DATABASE db$_ RENAME TO other$_") for 1 .. 12;
	is($node->safe_psql('postgres', 'DROP DATABASE db20; SELECT 1'), '1', 'another database can be dropped meanwhile');
	$node->safe_psql('db19', "SELECT rag_sync('docs', wait => false)");
	await_true($node, 'db19', "bool_and(phase = 'Completed') FROM rag.runs", 'and carried out in yet another one');
	$session->query('ROLLBACK');
	await_true($node, 'db1', 'rag.has_scheduler()', 'the databases are looked after again');
};

$node->stop;
is(log_lines($node, 'FATAL:  (?!terminating connection)'), 0, 'no worker that was asked to end is in the log as a failure');
done_testing();
