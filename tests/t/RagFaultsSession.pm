# A session of the fault campaign: psql that tells of each statement what became of it, and survives
# a server that is gone.
package RagFaultsSession;

use strict;
use warnings;

use IO::Handle ();
use IPC::Open2;
use POSIX ();
use RagProcesses ();
use Time::HiRes qw(time usleep);

# Longest time that a statement may take, in seconds. Servers end statements before.
our $LONGEST_STATEMENT = 120;

# Option: name, the application's, of one word.
sub new
{
	my ($class, $node, %option) = @_;
	return bless {
		psql => $node->installed_command('psql'),
		connection => $node->connstr('postgres') . " application_name=$option{name}",
		name => $option{name}
	}, $class;
}

sub _open
{
	my ($self) = @_;
	# psql prints errors where it prints results, so that both are in their order
	my $pid = open2(my $from, my $to, 'sh', '-c', 'exec "$@" 2>&1', 'sh', $self->{psql},
		'--no-psqlrc', '--no-align', '--tuples-only', '--quiet', '--set', 'VERBOSITY=verbose',
		'--dbname', $self->{connection}, '--file', '-');
	$to->autoflush;
	@$self{qw(pid from to owner)} = ($pid, $from, $to, $$);
	return;
}

# Runs statements, which psql sends as one if "\;" is between them. Returns the outcome, the output
# and the SQLSTATE. The outcome is "done", "failed" if nothing was changed, "unknown" if the server
# did not say, "away" if there was no connection, or "hung".
sub run
{
	my ($self, $sql) = @_;
	local $SIG{PIPE} = 'IGNORE';
	if (!$self->{pid})
	{
		$self->_open;
		my ($outcome) = $self->_exchange('SELECT 1');
		return ('away', '', '') if $outcome ne 'done';
	}
	return $self->_exchange($sql);
}

sub _exchange
{
	my ($self, $sql) = @_;
	my $is_late = 0;
	local $SIG{ALRM} = sub { $is_late = 1; kill 'KILL', $self->{pid} };
	alarm $LONGEST_STATEMENT;
	print { $self->{to} } "$sql;\n\\echo -- end :SQLSTATE\n";
	my ($output, $state) = ('');
	while (defined(my $line = readline $self->{from}))
	{
		if ($line =~ /^-- end (\w*)$/) { $state = $1; last }
		$output .= $line;
	}
	alarm 0;
	chomp $output;
	my ($error) = $output =~ /^(?:psql:\S+ )?(?:ERROR|FATAL|PANIC):  (\w{5}): /m;
	$state //= '';
	my $is_lost = $output =~ /connection to server was lost|server closed the connection/
	  || $output =~ /FATAL:  |WARNING:  57P02|canceling wait for/;
	my $outcome =
		$is_late ? 'hung'
	  : $state eq '' || $is_lost ? 'unknown'
	  : $state eq '00000' ? 'done'
	  : 'failed';
	# notices and warnings
	$output = join "\n", grep { !/^psql:<stdin>|^(?:DETAIL|HINT|CONTEXT|LOCATION): / }
	  split /\n/, $output
	  if $outcome eq 'done';
	$self->close if $outcome eq 'unknown' || $outcome eq 'hung';
	$self->_exchange('ROLLBACK') if $outcome eq 'failed' && $sql =~ /^BEGIN/;
	return ($outcome, $output, $error // $state);
}

# Runs a statement until there is an answer, for a number of seconds, or 5 if it fails. Returns the
# output, or undef.
sub insist
{
	my ($self, $sql, $seconds) = @_;
	my $until = time + $seconds;
	while (1)
	{
		my ($outcome, $output) = $self->run($sql);
		return $output if $outcome eq 'done';
		$self->{last} = $output;
		$until = time + 5 if $outcome eq 'failed' && $until > time + 5;
		return if time > $until;
		usleep(50_000);
	}
}

sub close
{
	my ($self) = @_;
	my $pid = delete $self->{pid} or return;
	local ($?, $!);
	CORE::close(delete $self->{to});
	kill 'TERM', $pid;
	CORE::close(delete $self->{from});
	waitpid $pid, 0;
	return;
}

sub DESTROY { my ($self) = @_; $self->close if ($self->{owner} // $$) == $$; return }

1;
