# Twenty databases with the extension under the default max_worker_processes: schedulers are started
# when something is due and end when nothing is, and all sources are synced.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagTest ();
use RagWorkers;

my $node = rag_node('many_databases', scheduler => 1);
is($node->safe_psql('postgres', 'SHOW max_worker_processes'),
	'8', 'max_worker_processes has the default of PostgreSQL');
my $folder = write_documents(temp_folder(), 1, 1);
my $source =
  qq{SELECT rag_create_source('docs', 'folder', '{"path": "$folder"}', schedule => '\@yearly')};
await_scheduled($node, 'postgres', 'only the launcher is running while nothing is due');
my @databases = map { "db$_" } 1 .. 20;
# psql is connected to postgres, to which nobody may be connected while it is a template
$node->safe_psql('postgres', 'CREATE DATABASE db1');
$node->safe_psql('db1', "CREATE EXTENSION rag; $source");
$node->safe_psql('db1', "SELECT rag_sync('docs')");
$node->safe_psql('postgres', "CREATE DATABASE $_ TEMPLATE db1") for @databases[ 1 .. 19 ];
await_scheduled(
	$node,
	join(' ', @databases),
	'all databases get a scheduler, and idle schedulers end');

subtest 'sources of all databases are due at once' => sub {
	$node->safe_psql($_, 'UPDATE rag_internal.source SET next_run = now()') for @databases;
	for my $database (@databases)
	{
		await_true(
			$node, $database,
			"count(*) = 1 FROM rag.runs WHERE trigger = 'schedule' AND phase = 'Completed'",
			"$database is synced");
	}
	await_scheduled($node, join(' ', @databases), 'only the launcher is running after all syncs');
};

subtest 'a database that is due often keeps its scheduler' => sub {
	$node->safe_psql($_, "SELECT rag_alter_source('docs', schedule => '\@every 1s')")
	  for @databases[ 0 .. 3 ];
	for my $database (@databases[ 0 .. 3 ])
	{
		await_true(
			$node,
			$database,
			"count(*) > 3 FROM rag.runs WHERE trigger = 'schedule' AND phase = 'Completed'",
			"$database has its turn each time, beside more such databases than there are schedulers"
		);
	}
	suspend_and_end_runs($node, $_, 'docs') for @databases[ 0 .. 3 ];
	all_runs_ended($node, $_, "no scheduler is running in $_") for @databases[ 0 .. 3 ];
};

subtest 'due times survive a crash of the server' => sub {
	# without a checkpoint the sequences of copied databases would return to their values at the
	# time of the copy
	$node->stop('immediate');
	# processes ended by a crash have FATAL lines of their own
	rename $node->logfile, $node->logfile . '.before';
	$node->start;
	await_scheduled($node, join(' ', @databases), 'all databases get a scheduler after a crash');
	$node->safe_psql('db7', 'UPDATE rag_internal.source SET next_run = now()');
	await_true(
		$node, 'db7',
		"count(*) = 2 FROM rag.runs WHERE trigger = 'schedule' AND phase = 'Completed'",
		'a source is synced after a crash');
};

subtest 'commands on databases that nobody may be connected to' => sub {
	# more databases in one transaction than a session has places for
	my $session = session($node);
	$session->query('BEGIN');
	$session->query("ALTER DATABASE db$_ RENAME TO other$_") for 1 .. 12;
	is($node->safe_psql('postgres', 'DROP DATABASE db20; SELECT 1'),
		'1', 'another database can be dropped meanwhile');
	$node->safe_psql('db19', "SELECT rag_sync('docs', wait => false)");
	await_true(
		$node, 'db19',
		"bool_and(phase = 'Completed') FROM rag.runs",
		'CREATE DATABASE from another template succeeds');
	$session->query('ROLLBACK');
	await_true($node, 'db1', 'rag_internal.has_scheduler()', 'all databases get schedulers again');
};

$node->stop;
is(log_lines($node, 'FATAL:  (?!terminating connection)'),
	0, 'the log contains no FATAL message about workers other than their termination');
done_testing();
