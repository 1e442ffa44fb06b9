# Statements in sessions with little memory.
package RagMemory;

use strict;
use warnings;

use Exporter 'import';
use RagCluster;
use Test::More;

our @EXPORT = qw(limited with_more_and_more);

# Gives the session a limit of additional memory, in bytes. It runs on the server, as a child of the
# session's backend. Libraries are loaded before, as the server calls a lack of memory for those
# another error.
sub limited
{
	my ($bytes) = @_;
	my $now = q{$(($(sed -n "s/VmSize:[^0-9]*\([0-9]*\) kB/\1/p" /proc/$PPID/status) * 1024 + }
	  . $bytes . '))';
	return "LOAD 'rag'; LOAD 'dict_snowball'; COPY (SELECT 1) TO PROGRAM \$\$cat > /dev/null;
			prlimit --pid \$PPID --as=$now\$\$;";
}

# Runs a statement in sessions with increasing memory, until there is enough. Tests that all fail
# for lack of memory, and that in each another statement works afterwards. Returns the number of
# failed attempts. Options: first (bytes), tries, and may_end (the session may end instead).
sub with_more_and_more
{
	my ($node, $sql, $step, $name, %option) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $first = $option{first} // 1_000_000;
	my $error = $option{may_end} ? qr/(?:ERROR|FATAL):  (\w+):/ : qr/ERROR:  (\w+):/;
	my ($failed, $wrong) = (0, '');
	for my $try (0 .. $option{tries} // 40)
	{
		my $result = run_sql($node,
			limited($first + $try * $step)
			  . "\\set ON_ERROR_STOP 0\n$sql;\n\\echo :LAST_ERROR_SQLSTATE\nSELECT 'alive'");
		my $state = $result->{err} =~ $error ? $1 : '';
		$wrong .= "with $try x $step: $result->{out} $result->{err}\n"
		  if (!$option{may_end} and $result->{out} !~ /alive/)
		  or $state !~ /^(?:53200)?$/;
		last if $state eq '';
		$failed++;
	}
	is($wrong, '', "$name: a result, or an error that memory ran out");
	return $failed;
}

1;
