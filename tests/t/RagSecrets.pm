# For tests of secrets: a value that must not be found, a cluster whose engine records what it gets,
# and files that contain the value.
package RagSecrets;

use strict;
use warnings;

use Exporter 'import';
use File::Find qw(find);
use JSON::PP;
use PostgreSQL::Test::Utils;
use RagCluster;
use RagTest ();

our @EXPORT = qw(
  $canary secrets_node create_source create engine_credentials
  has_statistics found);

# A value that must not be found; each way of storing it appends its own suffix.
our $canary = 'CaNaRy0secret';

my ($node, $folder, $job_file, $has_statistics);

sub has_statistics { return $has_statistics }

# Returns a node that can be copied to a standby, its folder for files, and the path of its key
# file. Statements are counted if this PostgreSQL has pg_stat_statements.
sub secrets_node
{
	my ($name) = @_;
	$folder = temp_folder();
	$node = RagTest::new_node($name);
	my $libdir = `@{[ $node->installed_command('pg_config') ]} --pkglibdir`;
	chomp $libdir;
	$has_statistics = -f "$libdir/pg_stat_statements.so";
	# Replaces rag-engine: records the job of a run and exits. Other calls run the real program.
	$job_file = "$folder/job";
	write_file("$folder/engine", <<PERL);
#!$^X
exec '$libdir/rag/rag-engine', \@ARGV if \$ARGV[0] ne 'ingest';
binmode STDIN;
read STDIN, my \$length, 4 or die;
read STDIN, my \$frame, unpack('V', \$length) or die;
open my \$file, '>', '$job_file' or die;
print \$file substr(\$frame, 4, unpack('V', \$frame));
close \$file;
exit 9;
PERL
	chmod 0755, "$folder/engine";
	$node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = 'rag@{[ $has_statistics ? ',pg_stat_statements' : '' ]}'
log_statement = none
log_lock_waits = on
deadlock_timeout = '10ms'
wal_level = replica
max_wal_senders = 5
rag.engine_path = '$folder/engine'
CONF
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION rag');
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements') if $has_statistics;
	return ($node, $folder, $node->data_dir . '/pg_rag/secret.key');
}

my $sources = 0;

sub create_source
{
	my ($secret, %option) = @_;
	my $name = 'source-' . ++$sources;
	$node->safe_psql(
		'postgres',
		($option{role} ? "SET ROLE $option{role}; " : '')
		  . qq{SELECT rag_create_source('$name', 'git',
		  '{"repositoryURL": "https://git.example.org/$name.git"}', credentials => '$secret')}
	);
	return $name;
}

# What the engine receives for a source; nothing if its run ends before.
sub engine_credentials
{
	my ($source, $on) = @_;
	unlink $job_file;
	run_sql($on // $node, "SELECT rag_sync('$source')");
	return undef unless -f $job_file;
	my $job = decode_json(slurp_file($job_file));
	unlink $job_file;
	return $job->{credentials};
}

sub create
{
	my ($arguments, %option) = @_;
	return run_sql($option{node} // $node, "SELECT rag_create_secret($arguments)", %option);
}

# Files below a folder that contain the value.
sub found
{
	my @found;
	find(
		{
			no_chdir => 1,
			wanted => sub {
				return unless -f $_ && !-l $_;
				open my $in, '<:raw', $_ or return;
				local $/;
				push @found, $_ if index(<$in> // '', $canary) >= 0;
			}
		},
		@_);
	return \@found;
}

1;
