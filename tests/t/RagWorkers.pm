# For tests of launcher, schedulers and runners: lists of workers, and checks of runs.
package RagWorkers;

use strict;
use warnings;

use Exporter 'import';
use RagCluster;
use Test::More;

our @EXPORT =
  qw(workers worker end_worker terminate runner suspend_and_end_runs await_workers await_scheduled
  await_true await_value status_of log_lines cpu_ticks server_processes runs_never_overlap
  runs_are_consistent all_runs_ended);

# The extension's workers without the supervisor, as "rag scheduler postgres, ...". Includes runners
# and workers that are starting.
sub workers
{
	my ($node) = @_;
	return ask(
		$node,
		q{SELECT string_agg(backend_type || ' ' || coalesce(datname, '-'), ', '
			ORDER BY backend_type, datname)
		FROM pg_stat_activity WHERE backend_type LIKE 'rag %'
		AND backend_type <> 'rag engine supervisor'}
	);
}

# Waits for the one worker of a kind ("scheduler"). Returns its process id. Schedulers run only for
# a moment, so a change makes one start.
sub worker
{
	my ($node, $kind, $database) = @_;
	my $look = $kind eq 'scheduler' && session($node, $database // 'postgres');
	my $query = "SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'rag $kind'"
	  . (defined $database ? " AND datname = '$database'" : '');
	return await(
		"there is a $kind",
		sub {
			my $pid = ask($node, $query);
			$look->query('UPDATE rag_internal.source SET name = name
				WHERE false') if $look && !$pid;
			return $pid;
		});
}

# Ends the worker of a kind with a function that returns true if there was such a process: a
# scheduler may end by itself before. Returns its process id.
sub end_worker
{
	my ($node, $kind, $end) = @_;
	my $pid;
	await("a $kind is ended", sub { $end->($pid = worker($node, $kind)) });
	return $pid;
}

# True if a backend was there to be terminated.
sub terminate
{
	my ($node, $pid) = @_;
	return ask($node, "SELECT pg_terminate_backend($pid)") eq 't';
}

# The process that runs a source.
sub runner
{
	my ($node, $source) = @_;
	return await(
		"a runner of $source",
		sub {
			ask($node,
				"SELECT pid FROM pg_stat_activity WHERE backend_type = 'rag runner'
					AND query = 'rag: syncing $source'"
			);
		});
}

sub await_workers
{
	my ($node, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return await_value(sub { workers($node) }, $expected, $name, $node);
}

# Waits until the sources of these databases ("first postgres") are synced automatically, and no
# worker but the launcher is running.
sub await_scheduled
{
	my ($node, $databases, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $all = join ' ', sort split / /, $databases;
	my $kept = sub {
		join ' ',
		  sort grep { run_sql($node, 'SELECT rag_internal.has_scheduler()', database => $_)->{out}
		  	eq 't' }
		  split / /, $databases;
	};
	return await_value(sub { workers($node) . ": " . $kept->() }, "rag launcher -: $all", $name);
}

# Polls until a value is as expected, and reports the last value if that never happens. With a node,
# also reports the status of its sources and runs.
sub await_value
{
	my ($ask, $expected, $name, $node) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $last = '';
	eval {
		await($name, sub { ($last = $ask->() // '') eq $expected });
	};
	return is($last, $expected, $name) || defined $node && diag(status_of($node));
}

# Polls until a query in a database returns true.
sub await_true
{
	my ($node, $database, $query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $last = '';
	my $came = eval {
		await($name,
			sub { ($last = run_sql($node, "SELECT $query", database => $database)->{out}) eq 't' });
	};
	return ok($came, $name) || diag(status_of($node, $database));
}

sub status_of
{
	my ($node, $database) = @_;
	my $all = run_sql(
		$node,
		"SELECT run_id, source, trigger, attempt, phase, waiting, started_at, finished_at, errors
			FROM rag.runs ORDER BY run_id;
		SELECT name, phase, next_scheduled_run, next_retry, errors FROM rag.sources",
		database => $database // 'postgres');
	return $all->{out} . $all->{err} . "\nworkers: " . workers($node);
}

# Number of lines of the server's log that match.
sub log_lines
{
	my ($node, $pattern) = @_;
	open my $file, '<', $node->logfile or return 0;
	return scalar grep { /$pattern/ } <$file>;
}

# Processor time that a process has used, in ticks of the clock (a hundredth of a second).
sub cpu_ticks
{
	my ($pid) = @_;
	open my $file, '<', "/proc/$pid/stat" or return 0;
	my ($user, $system) = <$file> =~ /^.*\) \S(?: \S+){10} (\d+) (\d+)/;
	return ($user // 0) + ($system // 0);
}

# Processes of the server: their working directory is the data directory.
sub server_processes
{
	my ($node) = @_;
	return grep { (readlink("$_/cwd") // '') eq $node->data_dir } glob '/proc/[0-9]*';
}

# Suspends sources and starts their runs by rag_sync. Runs that a schedule has queued would wait
# with their source otherwise.
sub suspend_and_end_runs
{
	my ($node, $database, @sources) = @_;
	for my $source (@sources)
	{
		$node->safe_psql($database, "SELECT rag_suspend('$source')");
		# not needed if the source is busy
		$node->psql($database, "SELECT rag_sync('$source', wait => false)", stderr => \my $ignored);
	}
	return;
}

# Waits until no run of a database is queued or in progress.
sub all_runs_ended
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return await_true($node, $database,
		"NOT EXISTS (SELECT FROM rag_internal.run WHERE phase IN ('Pending', 'Running'))", $name);
}

# Checks that no two runs of a source overlapped. Runs that never started are left out.
sub runs_never_overlap
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(
		$node->safe_psql(
			$database,
			"SELECT count(*) FROM rag_internal.run a JOIN rag_internal.run b ON a.source = b.source
				AND a.run_id < b.run_id
			AND a.started_at IS NOT NULL AND b.started_at IS NOT NULL
			AND tstzrange(a.started_at, a.finished_at) && tstzrange(b.started_at, b.finished_at)"),
		'0',
		$name) || diag(status_of($node, $database));
}

# Checks runs after they have ended: each has started and ended, no two of a source overlapped, and
# the source's counts are those of the rows.
sub runs_are_consistent
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( $node->safe_psql(
			$database,
			"SELECT count(*) FROM rag_internal.run WHERE phase NOT IN ('Completed', 'Failed')
				OR finished_at IS NULL"
		),
		'0',
		"$name: all runs have ended");
	runs_never_overlap($node, $database, "$name: no two runs of a source overlap");
	return is(
		$node->safe_psql(
			$database, "SELECT count(*) FROM rag.sources s, LATERAL (
			SELECT count(*) FILTER (WHERE phase = 'Completed') AS completed,
			count(*) FILTER (WHERE phase = 'Failed') AS failed
			FROM rag.runs r WHERE r.source = s.name) r
			WHERE (successful_run_count, error_run_count) IS DISTINCT FROM (completed, failed)"),
		'0',
		"$name: counts of sources equal those of their runs") || diag(status_of($node, $database));
}

1;
