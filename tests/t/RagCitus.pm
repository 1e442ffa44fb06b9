# Clusters on loopback that Citus joins: a coordinator, and workers that have shards of rag.chunks.
package RagCitus;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Utils;
use RagTest;

our @EXPORT = qw(citus_is_missing citus_nodes);

my $conf = <<'EOC';
listen_addresses = '127.0.0.1'
max_prepared_transactions = 50
max_worker_processes = 24
wal_level = logical
max_wal_senders = 10
hot_standby = on
citus.node_conninfo = 'sslmode=disable'
citus.stat_statements_track = 'none'
citus.enable_statistics_collection = off
rag.scheduler = off
rag.embedding_cache_size = 0
autovacuum = off
EOC

# Returns why there can be no such clusters, or nothing. Waits for scripts/test.sh if it builds
# Citus.
sub citus_is_missing
{
	wait_until(sub { -f $ENV{RAG_TEST_CITUS} })
	  || wait_until(sub { -f $ENV{RAG_TEST_CITUS} })
	  || wait_until(sub { -f $ENV{RAG_TEST_CITUS} })
	  if $ENV{RAG_TEST_CITUS};
	my ($sharedir) = run_command([ 'pg_config', '--sharedir' ]);
	return -f "$sharedir/extension/citus.control"
	  ? undef
	  : 'Citus is not installed: see scripts/citus.sh';
}

# Returns a coordinator with the extension, and a number of workers that it knows. The extension has
# the present version, or a released one.
sub citus_nodes
{
	my ($name, $workers, $version) = @_;
	my @nodes;
	for my $number (0 .. $workers)
	{
		my $node = new_node($number ? "${name}_worker$number" : $name, preload => 0);
		$node->append_conf('postgresql.conf',
			"shared_preload_libraries = '" . ($number ? 'citus' : 'citus, rag') . "'");
		$node->append_conf('postgresql.conf', $conf);
		$node->start;
		$node->safe_psql('postgres', 'CREATE EXTENSION citus');
		push @nodes, $node;
	}
	my ($coordinator, @others) = @nodes;
	$coordinator->safe_psql('postgres',
		"SELECT citus_set_coordinator_host('127.0.0.1', " . $coordinator->port . ')');
	$coordinator->safe_psql('postgres', "SELECT citus_add_node('127.0.0.1', " . $_->port . ')')
	  for @others;
	$coordinator->safe_psql('postgres',
		'CREATE EXTENSION rag' . (defined $version ? " VERSION '$version'" : ''));
	return @nodes;
}

1;
