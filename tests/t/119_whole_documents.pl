# Searches during syncs and writes find each document whole: all of its chunks, of one version.
use strict;
use warnings;
use Test::More;
use RagCluster;

use constant { DOCUMENTS => 6, VERSIONS => 10 };

my $node = rag_node('whole_documents', conf => 'autovacuum = off');
my $folder = temp_folder();
my @modes = qw(vector keyword hybrid);

# Each paragraph is a chunk. Their number depends on version and document.
sub text
{
	my ($version, $n) = @_;
	return join "\n\n",
	  map { "Part $_ of version $version: the tide is high at the pier of harbour $n." }
	  1 .. 4 + ($version + $n) % 5;
}

# A version lacks one of the files.
sub write_version
{
	my ($version) = @_;
	for my $n (1 .. DOCUMENTS)
	{
		my $path = "$folder/file-$n.md";
		$version % DOCUMENTS + 1 == $n ? unlink $path : write_file($path, text($version, $n));
	}
	return;
}

# The same without a source: a document that is replaced, and one that comes and goes.
sub add_version
{
	my ($version) = @_;
	my ($first, $second) = map { text($version, $_) } 1, 2;
	my $last =
	  $version % 2
	  ? "SELECT success FROM rag_add_document('$second', 'text-2', collection => 'whole')"
	  : "SELECT rag_delete_document(document_id) FROM rag.documents WHERE uri = 'text-2'";
	return run_sql($node, "BEGIN; SELECT success
		FROM rag_add_document('$first', 'text-1', collection => 'whole'); $last; COMMIT");
}

write_version(1);
$node->safe_psql(
	'postgres', q{
	SELECT rag_create_collection('whole', chunk_size => 100, chunk_overlap => 0);
	CREATE TABLE ended (); CREATE TABLE searches (mode text, uri text, version int, versions int,
		chunks int)}
);
create_folder_source($node, 'docs', $folder, 'whole');
sync_ok($node, 'docs', 'the first version is synced');

# Records what a search finds of each document, until the table "ended" is renamed.
my $watch = q{DO $$BEGIN
	WHILE to_regclass('ended') IS NOT NULL LOOP
		INSERT INTO searches
		SELECT '%1$s', uri, min(version), count(DISTINCT version), count(*)
		FROM (SELECT uri, substring(content FROM 'version (\d+)')::int AS version
			FROM rag_search('tide', 'whole', top_k => 1000, mode => '%1$s',
				settings => '{"distinct_text": false}')) AS s
		GROUP BY uri;
		COMMIT;
	END LOOP;
END$$};
my @sessions = map { start_sql($node, sprintf $watch, $_) } @modes;
my @failed;
for my $version (2 .. VERSIONS)
{
	write_version($version);
	my $sync = start_sql($node, "SELECT rag_sync('docs')");
	push @failed, grep { $_->{rc} != 0 } add_version($version), $sync->finish;
	await(
		"all modes find version $version",
		sub {
			ask($node, "SELECT count(DISTINCT mode) FROM searches WHERE version = $version") ==
			  @modes;
		});
}
is(join('', map { $_->{err} } @failed), '', 'no write fails during searches');
$node->safe_psql('postgres', 'ALTER TABLE ended RENAME TO no_longer');
is(join(' ', map { $_->finish->{rc} } @sessions), '0 0 0', 'no search fails during writes');
for my $mode (@modes)
{
	is( ask(
			$node, "SELECT count(*) FROM searches WHERE mode = '$mode' AND (versions <> 1
			OR chunks <> 4 + (version + substring(uri FROM '\\d(?=\\D*\$)')::int) % 5)"
		),
		'0',
		"$mode: each search finds all chunks of one version of a document");
	is(ask($node, "SELECT count(DISTINCT version) FROM searches WHERE mode = '$mode'"),
		VERSIONS, "$mode: searches have found all versions");
}
$node->stop;
done_testing();
