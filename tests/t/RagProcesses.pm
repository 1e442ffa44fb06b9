# For tests that stop or end processes: waiting for a condition, the processes of rag-engine, and
# processes that are stopped while they are busy.
package RagProcesses;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use RagTest ();
use Time::HiRes qw(time usleep);

our @EXPORT = qw(
  await engines engine_pid freeze await_asleep freeze_asleep thaw is_running children_of);

# Longest wait for anything, in seconds.
our $LONGEST_WAIT = $PostgreSQL::Test::Utils::timeout_default || 180;

# -- waiting
# ----------------------------------------

# Polls until the condition is true and returns its value. If that never happens, the test ends and
# reports the last value.
sub await
{
	my ($what, $condition) = @_;
	my $deadline = time + $LONGEST_WAIT;
	my $value;
	while (time < $deadline)
	{
		$value = $condition->();
		return $value if $value;
		usleep(5000);
	}
	croak "waited in vain: $what; in the end it was '" . ($value // '') . "'";
}

# -- processes of rag-engine
# ----------------------------------------

# Process ids of the cluster's rag-engine processes, of one kind (embed, ingest) or all, also of
# those whose parent has ended.
sub engines
{
	return sort { $a <=> $b } RagTest::engine_pids(@_);
}

# Waits for the one process of a kind. Returns its id.
sub engine_pid
{
	my ($node, $kind) = @_;
	return await("rag-engine $kind runs", sub { (engines($node, $kind))[0] });
}

# -- processes that are stopped
# ----------------------------------------

# Stops a process where it is, so that what happens next happens while it is busy.
sub freeze
{
	my ($pid) = @_;
	kill 'STOP', $pid or croak "cannot stop $pid: $!";
	await("process $pid has stopped", sub { (_stat($pid)->{state} // 't') =~ /t/i });
	return;
}

# Stops a process of PostgreSQL right after it fell asleep. Otherwise it may hold a lock that all
# sessions need.
sub freeze_asleep
{
	my ($pid) = @_;
	# Waits for a process that wakes up about once a second. A process without anything to do does
	# not wake up.
	my ($before, $deadline) = (_slept($pid), time + 2);
	usleep(1000) while _slept($pid) eq $before && time < $deadline;
	await_asleep($pid, 0.02);
	return freeze($pid);
}

# Waits until a process of one thread has slept for a number of seconds.
sub await_asleep
{
	my ($pid, $seconds) = @_;
	my ($count, $since) = ('', time);
	return await(
		"process $pid sleeps for $seconds s",
		sub {
			my $now = _slept($pid);
			($count, $since) = ($now, time) if $now ne $count;
			return $count ne '' && time - $since >= $seconds;
		});
}

# The number of times that a process has fallen asleep, if it is asleep now.
sub _slept
{
	my ($pid) = @_;
	return slurp("/proc/$pid/status") =~ /^State:\s+S.*^voluntary_ctxt_switches:\s+(\d+)/ms
	  ? $1
	  : '';
}

sub thaw { return kill 'CONT', @_ }

# True if a process exists and is not a zombie.
sub is_running
{
	my ($pid) = @_;
	return (_stat($pid)->{state} // 'Z') ne 'Z';
}

# Children of a process in the process table, including zombies, as "pid state".
sub children_of
{
	my ($parent) = @_;
	my @found;
	for my $pid (map { s{.*/}{}r } glob '/proc/[0-9]*')
	{
		my $stat = _stat($pid);
		push @found, "$pid $stat->{state}" if ($stat->{parent} // 0) == $parent;
	}
	return @found;
}

sub _stat
{
	my ($pid) = @_;
	my ($state, $parent) = slurp("/proc/$pid/stat") =~ /^.*\) (\S) (\d+)/s or return {};
	return { state => $state, parent => $parent };
}

sub slurp
{
	my ($path) = @_;
	open my $file, '<', $path or return '';
	local $/;
	return <$file> // '';
}

1;
