# Clients that change and search a table at the same time, while its owner works on it.
package RagLoad;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use RagCluster;
use RagTest ();
use Test::More;
use Time::HiRes qw(time);

our @EXPORT = qw(run_load index_has_exactly_the_rows);

# Runs scripts with pgbench for some seconds: name => [weight, statement]. Meanwhile runs the
# statements of the owner one after another, each at least once. Tests that nothing fails.
sub run_load
{
	my ($node, $seconds, $script, @work) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $witness = witness($node);
	my $folder = temp_folder();
	my @files = map {
		'--file=' . write_file("$folder/$_.sql", "$script->{$_}[1]\n") . '@' . $script->{$_}[0]
	} sort keys %$script;
	my ($out, $err) = ('', '');
	my @command = (
		$node->installed_command('pgbench'),
		'--no-vacuum', '--client=6', "--time=$seconds", '--max-tries=1', '--report-per-command',
		@files, $node->connstr('postgres'));
	my $end = time + $seconds;
	my $pgbench = IPC::Run::start(\@command, '<', \undef, '>', \$out, '2>', \$err);

	my ($done, @failed) = (0);
	while (time < $end or $done < @work)
	{
		for my $statement (split /; /, $work[ $done % @work ])
		{
			my $result = run_sql($node, $statement);
			push @failed, "$statement: $result->{err}" if $result->{rc} != 0;
		}
		$done++;
	}
	$pgbench->finish;
	is( join('', @failed),
		'',
		"VACUUM, REINDEX CONCURRENTLY and
			CREATE INDEX CONCURRENTLY do not fail under load ($done times)"
	);
	is($pgbench->result(0), 0, "no client fails in $seconds s");
	is($err =~ s/^pgbench \(.*\n//r, '', 'no statement fails');
	my ($count) = $out =~ /number of transactions actually processed: (\d+)/;
	cmp_ok($count // 0, '>=', @files, 'clients have executed transactions');
	same_cluster($witness, 'load on the index');
	return;
}

# Tests that an index has as many entries as its table has rows. VACUUM is repeated: it leaves dead
# rows that a snapshot could still see, one of a background worker for example.
sub index_has_exactly_the_rows
{
	my ($node, $table, $entries) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($vacuum, $found, $rows);
	RagTest::wait_until(
		sub {
			$vacuum = run_sql($node, "VACUUM (VERBOSE) $table")->{err};
			$found = $node->safe_psql('postgres', "SELECT $entries");
			$rows = $node->safe_psql('postgres', "SELECT count(*) FROM $table");
			return $found == $rows;
		});
	is($found, $rows, 'the index contains exactly the rows of the table') or diag($vacuum);
	return;
}

1;
