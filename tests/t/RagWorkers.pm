# For the tests of the launcher, the schedulers and the runners: who works, and what must be true of
# runs afterwards.
package RagWorkers;

use strict;
use warnings;

use Exporter 'import';
use RagCluster;
use Test::More;

our @EXPORT = qw(workers worker runner put_to_rest await_workers await_kept await_true await_value status_of log_lines cpu_ticks server_processes never_two_at_once runs_are_sound all_ended);

# The extension's workers but the supervisor, as "rag scheduler postgres, ...". A runner's or a
# starting worker's name is among them.
sub workers
{
	my ($node) = @_;
	return ask($node, q{SELECT string_agg(backend_type || ' ' || coalesce(datname, '-'), ', ' ORDER BY backend_type, datname)
		FROM pg_stat_activity WHERE backend_type LIKE 'rag %' AND backend_type <> 'rag engine supervisor'});
}

# Process id of the one worker of a kind ("scheduler"), waited for. Schedulers stay for a moment
# only: one is made to look.
sub worker
{
	my ($node, $kind, $database) = @_;
	my $look = $kind eq 'scheduler' && session($node, $database // 'postgres');
	my $query = "SELECT min(pid) FROM pg_stat_activity WHERE backend_type = 'rag $kind'"
	  . (defined $database ? " AND datname = '$database'" : '');
	return await("there is a $kind", sub {
		my $pid = ask($node, $query);
		$look->query('UPDATE rag.source SET name = name WHERE false') if $look && !$pid;
		return $pid;
	});
}

# The process that carries out a run of a source.
sub runner
{
	my ($node, $source) = @_;
	return await("a runner of $source", sub { ask($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'rag runner' AND query = 'rag: syncing $source'") });
}

sub await_workers
{
	my ($node, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return await_value(sub { workers($node) }, $expected, $name, $node);
}

# Waits until the sources of these databases ("first postgres") are synced by themselves, and no
# worker but the launcher is left.
sub await_kept
{
	my ($node, $databases, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $all = join ' ', sort split / /, $databases;
	my $kept = sub { join ' ', sort grep { run_sql($node, 'SELECT rag.has_scheduler()', database => $_)->{out} eq 't' } split / /, $databases };
	return await_value(sub { workers($node) . ": " . $kept->() }, "rag launcher -: $all", $name);
}

# Polls until what is asked for is as expected, and says what it was last where it never is; with a
# node, also what its sources and runs say then.
sub await_value
{
	my ($ask, $expected, $name, $node) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $last = '';
	eval { await($name, sub { ($last = $ask->() // '') eq $expected }) };
	return is($last, $expected, $name) || defined $node && diag(status_of($node));
}

# Polls until a query in a database says true.
sub await_true
{
	my ($node, $database, $query, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $last = '';
	my $came = eval { await($name, sub { ($last = run_sql($node, "SELECT $query", database => $database)->{out}) eq 't' }) };
	return ok($came, $name) || diag(status_of($node, $database));
}

sub status_of
{
	my ($node, $database) = @_;
	my $all = run_sql($node, "SELECT run_id, source, trigger, attempt, phase, waiting, started_at, finished_at, errors FROM rag.runs ORDER BY run_id;
		SELECT name, phase, next_scheduled_run, next_retry, errors FROM rag.sources", database => $database // 'postgres');
	return $all->{out} . $all->{err} . "\nworkers: " . workers($node);
}

# How many lines of the server's log match.
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

# The processes of the server: they work in its data directory.
sub server_processes
{
	my ($node) = @_;
	return grep { (readlink("$_/cwd") // '') eq $node->data_dir } glob '/proc/[0-9]*';
}

# Suspends sources, whose runs, begun or queued, end: a run that is queued by a schedule would rest
# with its source, so that it is asked for.
sub put_to_rest
{
	my ($node, $database, @sources) = @_;
	for my $source (@sources)
	{
		$node->safe_psql($database, "SELECT rag_suspend('$source')");
		# at work it is in no need of that
		$node->psql($database, "SELECT rag_sync('$source', wait => false)", stderr => \my $ignored);
	}
	return;
}

# Whether no run of a database is queued or under way.
sub all_ended
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return await_true($node, $database, "NOT EXISTS (SELECT FROM rag.run WHERE phase IN ('Pending', 'Running'))", $name);
}

# Whether no two runs of one source were under way at the same time. Those that never began were
# not.
sub never_two_at_once
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($node->safe_psql($database, "SELECT count(*) FROM rag.run a JOIN rag.run b ON a.source = b.source AND a.run_id < b.run_id
			AND a.started_at IS NOT NULL AND b.started_at IS NOT NULL
			AND tstzrange(a.started_at, a.finished_at) && tstzrange(b.started_at, b.finished_at)"), '0', $name) || diag(status_of($node, $database));
}

# What is true of runs whatever has happened, once they have ended: each has begun and ended, no two
# of one source were under way at the same time, and the source's counts are those of the rows.
sub runs_are_sound
{
	my ($node, $database, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($node->safe_psql($database, "SELECT count(*) FROM rag.run WHERE phase NOT IN ('Completed', 'Failed') OR finished_at IS NULL"), '0',
		"$name: all runs have ended");
	never_two_at_once($node, $database, "$name: never two of one source");
	return is($node->safe_psql($database, "SELECT count(*) FROM rag.sources s, LATERAL (
			SELECT count(*) FILTER (WHERE phase = 'Completed') AS completed, count(*) FILTER (WHERE phase = 'Failed') AS failed
			FROM rag.runs r WHERE r.source = s.name) r
			WHERE (successful_run_count, error_run_count) IS DISTINCT FROM (completed, failed)"), '0',
		"$name: the sources' counts are those of the runs") || diag(status_of($node, $database));
}

1;
