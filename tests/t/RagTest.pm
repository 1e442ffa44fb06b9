# Functions for all cluster tests.
package RagTest;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(new_node engine_pids handbook create_handbook wait_until);

# Returns a new cluster, not started yet. Options: initdb => [...] for initdb, preload => 0 for
# empty shared_preload_libraries, scheduler => 1 for automatic syncs, which most tests do not want,
# install_path => the folder of another PostgreSQL.
sub new_node
{
	my ($name, %option) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name,
		$option{install_path} ? (install_path => $option{install_path}) : ());
	my @extra = ('--encoding=UTF8', '--no-locale', @{ $option{initdb} // [] });
	if ($ENV{RAG_TEST_TEMPLATE} && @extra == 2 && !$option{install_path})
	{
		no warnings 'redefine';
		my $run = \&PostgreSQL::Test::Utils::system_or_bail;
		local *PostgreSQL::Test::Utils::system_or_bail = sub {
			@_ = ('cp', '-R', $ENV{RAG_TEST_TEMPLATE}, $node->data_dir) if $_[0] eq 'initdb';
			$run->(@_);
		};
		$node->init;
	}
	else
	{
		$node->init(extra => \@extra);
	}
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'rag'")
	  unless exists $option{preload} && !$option{preload};
	$node->append_conf('postgresql.conf', "rag.scheduler = off")
	  unless $option{scheduler} || exists $option{preload} && !$option{preload};
	# The log is read when a test has failed, so it does not contain the queries that tests repeat.
	# A statement that does not end reports that before the timeout of the test.
	$node->append_conf('postgresql.conf',
		"log_min_messages = info\nlog_statement = none\nstatement_timeout = 170s");
	return $node;
}

# The rag-engine processes of a cluster: their working directory is its data directory. Takes a
# subcommand, as in engine_pids($node, 'embed').
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
		next
		  unless defined $program
		  && $program =~ m{/rag-engine$}
		  && (!defined $subcommand || $first eq $subcommand);
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
	$node->safe_psql(
		'postgres',
		qq{SELECT rag_create_source('handbook', 'folder',
			'{"path": "$path", "excludePaths": ["drafts/"]}')}
	);
	return;
}

# Waits for a condition. Returns true if it came true.
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
