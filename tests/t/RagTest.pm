# What the tests of whole clusters share.
package RagTest;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(new_node engine_pids handbook create_handbook wait_until);

# A cluster of its own, not started yet; initdb => [...] are further options of initdb, preload => 0
# leaves shared_preload_libraries empty, scheduler => 1 lets sources be synced by themselves, which
# most tests would rather do.
sub new_node
{
	my ($name, %option) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(extra => [ '--encoding=UTF8', '--no-locale', @{ $option{initdb} // [] } ]);
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'rag'")
	  unless exists $option{preload} && !$option{preload};
	$node->append_conf('postgresql.conf', "rag.scheduler = off")
	  unless $option{scheduler} || exists $option{preload} && !$option{preload};
	# the log is read where a test has failed: without the queries that tests repeat until something is
	# so. And a statement that does not come to its end says so, before the test's patience ends.
	$node->append_conf('postgresql.conf', "log_min_messages = info\nlog_statement = none\nstatement_timeout = 170s");
	return $node;
}

# The processes rag-engine of a cluster: they work in its data directory. Takes an option to look
# for, as in engine_pids($node, 'embed').
sub engine_pids
{
	my ($node, $subcommand) = @_;
	my $data_dir = $node->data_dir;
	my @pids;
	for my $proc (glob '/proc/[0-9]*')
	{
		my $cwd = readlink "$proc/cwd" or next;
		next unless $cwd eq $data_dir;
		open my $file, '<', "$proc/cmdline" or next;
		my $line = do { local $/; <$file> };
		next unless defined $line;
		my ($program, $first) = split /\0/, $line;
		next unless defined $program && $program =~ m{/rag-engine$} && (!defined $subcommand || $first eq $subcommand);
		push @pids, $proc =~ /(\d+)/;
	}
	return @pids;
}

# The folder of documents that the tests sync.
sub handbook { return "$ENV{RAG_TEST_FILES}/handbook" }

sub create_handbook
{
	my ($node) = @_;
	my $path = handbook();
	$node->safe_psql('postgres',
		qq{SELECT rag_create_source('handbook', 'folder', '{"path": "$path", "excludePaths": ["drafts/"]}')});
	return;
}

# Whether a condition came true, sooner or later.
sub wait_until
{
	my ($condition) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if $condition->();
		select undef, undef, undef, 0.1;
	}
	return 0;
}

1;
