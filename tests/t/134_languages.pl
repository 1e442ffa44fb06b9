# Documents of several languages in one collection: a sync, drift, a dump, a crash and a standby.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $node =
  rag_node('languages', conf => "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n");
my $folder = temp_folder();
write_file("$folder/en.txt",
	'The houses at the river were sold last year to a family from Berlin.');
write_file("$folder/de.txt", 'Die Häuser am Fluss wurden letztes Jahr an eine Familie verkauft.');
write_file("$folder/fr.md", "---\nlanguage: fr\n---\nMaisons au bord de la rivière");
$node->safe_psql('postgres', qq{
	SELECT rag_create_collection('mixed', text_config => 'auto');
	SELECT rag_create_source('files', 'folder', '{"path": "$folder"}', collection => 'mixed');
	SELECT rag_sync('files')});

sub found
{
	my ($query, $at, $database) = @_;
	return ($at // $node)->safe_psql($database // 'postgres',
		"SELECT coalesce(string_agg(regexp_replace(uri, '.*/', ''), ' ' ORDER BY uri), 'nothing')
		FROM rag_search('$query', 'mixed', mode => 'keyword')");
}

my %expected = (Haus => 'de.txt', house => 'en.txt', maison => 'fr.md', Berlin => 'en.txt');

sub all_found
{
	my ($name, @where) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is_deeply({ map { $_ => found($_, @where) } keys %expected }, \%expected, $name);
}

all_found('after a sync');
is( $node->safe_psql('postgres', "SELECT string_agg(metadata ->> 'language', ' ' ORDER BY uri)
	FROM rag.documents WHERE collection = 'mixed'"),
	'de en fr', 'languages of documents');
is( $node->safe_psql('postgres', q{SELECT rag_sync('files');
	SELECT documents_updated || ' ' || documents_unchanged FROM rag.runs
	ORDER BY run_id DESC LIMIT 1})
	=~ s/.*\n//r,
	'0 3', 'a second sync changes nothing');
write_file("$folder/de.txt",
	'The house has been translated into the English language for the buyers.');
$node->safe_psql('postgres', q{SELECT rag_sync('files')});
is(found('houses'), 'de.txt en.txt', 'a document that is in another language now');
is(found('Häuser'), 'nothing', 'and no longer in the first');
write_file("$folder/de.txt", 'Die Häuser am Fluss wurden letztes Jahr an eine Familie verkauft.');
$node->safe_psql('postgres', q{SELECT rag_sync('files')});

# -- a dump, restored into another database
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '--file', $dump, $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok(
	[ 'psql', '--no-psqlrc', '--quiet', '--set', 'ON_ERROR_STOP=1', '--file', $dump, '--dbname',
		$node->connstr('restored') ],
	'restored');
all_found('in the restored database', $node, 'restored');

# -- a crash, and a standby
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', q{SELECT rag_add_document(
	'Das Haus der Familie steht noch, und die Tür ist offen.', 'spät.txt', collection => 'mixed')});
crash($node);
$expected{Haus} = 'de.txt spät.txt';
all_found('after a crash');
$node->wait_for_catchup($standby);
all_found('on a standby', $standby);

$standby->stop;
$node->stop;
done_testing;
