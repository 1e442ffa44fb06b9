# The faults of the campaign. Each is a function of the campaign and a die. It strikes, and returns
# what it hit and a function that heals, if one must. A fault that finds nothing to hit returns "no
# ..." alone.
package RagFaultsInject;

use strict;
use warnings;

use Exporter 'import';
use RagCluster;
use RagFaultsOrigins;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(strike faults);

our %fault;
# Variables of the environment that a server of a name is started with.
our %environment;

sub faults { return sort keys %fault }

sub strike
{
	my ($campaign, $name, $die) = @_;
	my $fault = $fault{$name} or die "there is no fault $name";
	return $fault->($campaign, $die);
}

# -- processes
# ----------------------------------------

# Signals a process that pg_stat_activity has, once there is one.
sub _hit
{
	my ($campaign, $die, $what, $condition, $end) = @_;
	my $until = time + 3;
	while (time < $until)
	{
		my @pids = split /\n/, $campaign->{session}->insist("SELECT pid FROM pg_stat_activity
			WHERE $condition AND pid <> pg_backend_pid() ORDER BY backend_start, pid", 30) // '';
		my $pid = @pids ? $pids[ $die->(scalar @pids) ] : 0;
		return $what if $pid && $end->($pid);
		usleep(10_000);
	}
	return "no $what";
}

sub _kill { my ($pid) = @_; return kill 'KILL', $pid }

my %process = (
	backend => q{application_name LIKE 'faults-%' AND state = 'active'},
	writer => q{application_name = 'faults-writer' AND state = 'active'},
	owner => q{application_name = 'faults-owner' AND state = 'active'},
	runner => q{backend_type = 'rag runner'},
	scheduler => q{backend_type = 'rag scheduler'},
	launcher => q{backend_type = 'rag launcher'},
	checkpointer => q{backend_type = 'checkpointer'},
	walwriter => q{backend_type = 'walwriter'},
	walsender => q{backend_type = 'walsender'});
for my $name (keys %process)
{
	$fault{"kill_$name"} = sub {
		my ($campaign, $die) = @_;
		return _hit($campaign, $die, $name, $process{$name}, \&_kill);
	};
	my $call = $name =~ /checkpointer|walwriter/ ? 'pg_cancel_backend' : 'pg_terminate_backend';
	$fault{"terminate_$name"} = sub {
		my ($campaign, $die) = @_;
		return _hit($campaign, $die, $name, $process{$name},
			sub { $campaign->{session}->insist("SELECT $call($_[0])", 30) // '' eq 't' });
	};
}
for my $kind (qw(embed ingest))
{
	my $pick = sub {
		my ($campaign, $die) = @_;
		my $until = time + 3;
		while (time < $until)
		{
			my @pids = engines($campaign->{primary}, $kind);
			return $pids[ $die->(scalar @pids) ] if @pids;
			usleep(2000);
		}
		return;
	};
	$fault{"kill_engine_$kind"} = sub {
		my $pid = $pick->(@_);
		return $pid && kill('KILL', $pid) ? "engine $kind" : "no engine $kind";
	};
	$fault{"freeze_engine_$kind"} = sub {
		my $pid = $pick->(@_);
		return "no engine $kind" if !$pid || !kill 'STOP', $pid;
		return ("engine $kind", sub { kill 'CONT', $pid });
	};
}

# The supervisor has no access to shared memory, and is no backend.
for my $signal (qw(KILL TERM))
{
	my $name = $signal eq 'KILL' ? 'kill' : 'terminate';
	$fault{"${name}_supervisor"} = sub {
		my ($campaign) = @_;
		my ($pid) = grep { RagProcesses::slurp("/proc/$_/cmdline") =~ /rag engine supervisor/ }
		  processes($campaign->{primary});
		return $pid && kill($signal, $pid) ? 'supervisor' : 'no supervisor';
	};
}

# Everything that the clients do is cancelled, or their sessions are ended, many times.
for my $call (qw(cancel terminate))
{
	$fault{"${call}_all"} = sub {
		my ($campaign, $die) = @_;
		my $count = 0;
		for (0 .. 3 + $die->(5))
		{
			$count += $campaign->{session}->insist("SELECT count(pg_${call}_backend(pid))
				FROM pg_stat_activity WHERE application_name LIKE 'faults-%'
				AND pid <> pg_backend_pid() AND state = 'active'", 30) // 0;
			usleep(1000 * $die->(150));
		}
		return $count ? 'sessions' : 'no session';
	};
}
$fault{cancel_run} = sub {
	my ($campaign, $die) = @_;
	my $until = time + 3;
	while (time < $until)
	{
		my $count = $campaign->{session}->insist("SELECT count(*)
				FILTER (WHERE rag_cancel_run(run_id))
			FROM rag.runs WHERE phase IN ('Pending', 'Running')", 30) // 0;
		return 'run' if $count;
		usleep(10_000);
	}
	return 'no run';
};

# -- servers
# ----------------------------------------

sub processes
{
	my ($node) = @_;
	my $data = $node->data_dir;
	return grep { (readlink("/proc/$_/cwd") // '') eq $data && RagProcesses::is_running($_) }
	  map { m{(\d+)$} } glob '/proc/[0-9]*';
}

# Kills a server: its postmaster, whose children must end by themselves, or all processes at once.
# The function that heals starts it again.
sub kill_server
{
	my ($node, $is_all) = @_;
	my ($postmaster) = RagProcesses::slurp($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	kill 'KILL', $is_all ? processes($node) : $postmaster;
	await('the processes of a killed server end',
		sub { my @pids = processes($node); kill 'KILL', @pids if $is_all; !@pids });
	return sub { start_again($node) };
}

# Starts a server that has ended by itself or was killed.
sub start_again
{
	my ($node) = @_;
	my $until = time + 60;
	while (1)
	{
		# a dead postmaster looks alive to the next one until its parent has waited for it
		unlink $node->data_dir . '/postmaster.pid',
		  $node->host . '/.s.PGSQL.' . $node->port . '.lock'
		  if !processes($node);
		$node->{_pid} = undef;
		local %ENV = (%ENV, %{ $RagFaultsInject::environment{ $node->name } // {} });
		last if $node->start(fail_ok => 1);
		die 'the server cannot be started' if time > $until;
		usleep(200_000);
	}
	return;
}

$fault{kill_postmaster} = sub { ('postmaster', kill_server($_[0]{primary}, 0)) };
$fault{kill_server} = sub { ('server', kill_server($_[0]{primary}, 1)) };
# The second one dies while it recovers, or soon after.
$fault{kill_server_twice} = sub {
	my ($campaign, $die) = @_;
	my $node = $campaign->{primary};
	my $heal = kill_server($node, 1);
	my $pause = 1000 * $die->(600);
	return (
		'server twice',
		sub {
			$heal->();
			usleep($pause);
			kill_server($node, 1)->();
		});
};
$fault{stop_immediate} = sub {
	my $node = $_[0]{primary};
	$node->stop('immediate');
	return ('server', sub { start_again($node) });
};
$fault{restart} = sub {
	$_[0]{primary}->stop;
	start_again($_[0]{primary});
	return 'server';
};
for my $other (qw(standby subscriber))
{
	$fault{"kill_$other"} = sub {
		my ($campaign, $die) = @_;
		my $node = $campaign->{$other} or return "no $other";
		return ($other, kill_server($node, $die->(2)));
	};
	$fault{"restart_$other"} = sub {
		my ($campaign) = @_;
		my $node = $campaign->{$other} or return "no $other";
		$node->stop('immediate');
		return ($other, sub { start_again($node) });
	};
}

# -- the network
# ----------------------------------------

for my $way (RagFaultsOrigins::ways())
{
	$fault{"network_$way"} = sub {
		my ($campaign) = @_;
		my $origins = $campaign->{origins};
		$origins->break($way);
		return ('web server', sub { $origins->break(undef) });
	};
}

$fault{nothing} = sub { return 'nothing' };

1;
