# Empty files, binary files, hidden files and key files are not documents, in folders and in
# repositories, and cause no errors. If a document becomes such a file, it is removed.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagGit;

my $node = rag_node('no_document');
my $counts =
	'documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed, '
  . 'files_skipped';
my $repository = git_repository();
my $folder = temp_folder();
my %place = (folder => $folder, git => $repository->path);

sub write_everywhere
{
	my ($file, $content) = @_;
	write_file("$_/$file", $content) for values %place;
	return;
}

sub create
{
	my ($name, $filter) = @_;
	my $kind = $name =~ s/-.*//r;
	my $key = $kind eq 'git' ? 'repositoryURL' : 'path';
	$node->safe_psql('postgres', "SELECT rag_create_collection('$name')");
	$node->safe_psql('postgres',
		qq{SELECT rag_create_source('$name', '$kind', '{"$key": "$place{$kind}"$filter}', '$name')}
	);
	return;
}

sub sync_does
{
	my ($source, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = run_sql($node, "SELECT rag_sync('$source')");
	is(run_row($node, $source, $counts) =~ tr/|/ /r, $expected, "$source: $name")
	  or diag($result->{err});
	return $result;
}

sub files
{
	my ($source) = @_;
	return ask(
		$node, "SELECT string_agg(regexp_replace(uri, '.*[/#]', ''), ' ' ORDER BY uri COLLATE \"C\")
		FROM rag.documents WHERE source = '$source'");
}

my $binary = "\x7fELF\2\1\1" . join('', map { chr($_ * 7919 % 256) } 1 .. 3000);
write_everywhere('alpha.md', "# Alpha\n\nThe alpha text speaks of zebras.\n");
write_everywhere('data', "The data file holds text about giraffes.\n");
write_everywhere('matter.md', "---\ntitle: Front matter alone\n---\n");
write_everywhere('pkg/__init__.py', '');
write_everywhere('.gitkeep', '');
write_everywhere('blank.txt', " \n\t\n");
write_everywhere('program', $binary);
write_everywhere('.env', "PASSWORD=swordfish\n");
write_everywhere('.github/workflows.md', "# Workflows\n\nHow this is built.\n");
write_everywhere('.notes.md', "# Notes\n\nNot for everybody.\n");
write_everywhere('deploy/id_rsa', "The password is swordfish.\n");
write_everywhere('deploy/server.pem', "The password is swordfish.\n");
write_everywhere('deploy/prod.env', "PASSWORD=swordfish\n");
symlink 'deploy/id_rsa', "$folder/innocent.md" or die $!;
my $commit = $repository->commit;

create($_, '') for qw(folder git);
for my $source (qw(folder git))
{
	# blank.txt, matter.md, pkg/__init__.py, program; deploy/*; in the folder also the link to a key
	my $skipped = $source eq 'folder' ? 8 : 7;
	sync_does($source, "2 0 0 0 0 $skipped",
		'files that are not documents are skipped and counted');
	is(files($source), 'alpha.md data', "$source: only documents are stored");
	is(ask($node, "SELECT error, resource_ready FROM rag.sources WHERE name = '$source'"),
		'f|t', "$source: the source has no error");
	is(ask($node, "SELECT count(*) FROM rag.run_errors WHERE source = '$source'"),
		'0', "$source: no error is stored");
	is( ask($node,
			"SELECT count(*) FROM rag.documents WHERE source = '$source' AND content ~ 'swordfish'"
		),
		'0',
		"$source: no key file was read");
	sync_does($source, "0 0 0 2 0 $skipped", 'a second run changes nothing');
}
is(ask($node, "SELECT last_commit FROM rag.sources WHERE name = 'git'"),
	$commit, 'the source records the commit');

# -- files that become empty or binary
write_everywhere('alpha.md', '');
write_everywhere('data', $binary);
write_everywhere('beta.md', "# Beta\n\nThe beta text.\n");
$commit = $repository->commit;
for my $source (qw(folder git))
{
	my $skipped = $source eq 'folder' ? 10 : 9;
	sync_does(
		$source,
		"1 0 2 0 0 $skipped",
		'an emptied file and a file that became binary are removed');
	is(files($source), 'beta.md', "$source: no chunk has the old text");
	is( $node->safe_psql(
			'postgres',
			"SELECT count(*) FROM rag_search('zebras and giraffes', '$source') WHERE uri !~ 'beta'"
		),
		'0',
		"$source: a search does not find removed documents");
	is(ask($node, "SELECT count(*) FROM rag_internal.document_digest WHERE source = '$source'"),
		'1', "$source: one digest is stored");
	is(ask($node, "SELECT drifted FROM rag_check_drift('$source')"),
		'f', "$source: rag_check_drift finds no drift");
}
is(ask($node, "SELECT last_commit FROM rag.sources WHERE name = 'git'"),
	$commit, 'the source records the new commit');

# -- failed documents do not prevent recording the commit, and are attempted again
write_file("$place{git}/broken.pdf", '%PDF-1.7 broken');
$commit = $repository->commit;
sync_does('git', '0 0 0 1 1 9', 'a broken PDF fails');
is(ask($node, "SELECT last_commit, error FROM rag.sources WHERE name = 'git'"),
	"$commit|t", 'the run records the commit in spite of the error');
sync_does('git', '0 0 0 1 1 9', 'a failed file is attempted again');

# -- files included by patterns
unlink "$folder/innocent.md" or die $!;
create("$_-named", ', "paths": ["*.md", ".*", ".github/", "/deploy/id_rsa"]') for qw(folder git);
for my $source (qw(folder-named git-named))
{
	run_sql($node, "SELECT rag_sync('$source')");
	is( files($source),
		'.github/workflows.md .notes.md beta.md deploy/id_rsa' =~ s/\S+\///gr,
		"$source: a pattern includes hidden files, and key files only by their exact name");
}
is(ask($node, "SELECT count(*) FROM rag.documents WHERE uri ~ '[.]env'"),
	'0', 'a pattern for dot files does not include .env');

# -- no documents found
create('folder-none', ', "paths": ["*.adoc"]');
my $result = run_sql($node, "SELECT rag_sync('folder-none')");
like(
	$result->{err},
	qr/NOTICE:.*folder-none: no file matches the patterns of "paths" and "excludePaths"/,
	'a run without documents reports it');
is( run_row($node, 'folder-none', 'phase, note'),
	'Completed|no file matches the patterns of "paths" and "excludePaths"',
	'rag.runs.note reports a run without documents');
like(
	ask($node, "SELECT c ->> 'message' FROM rag.sources, jsonb_array_elements(conditions) c
	WHERE name = 'folder-none' AND c ->> 'type' = 'AutoIndexerCompleted'"),
	qr/^run \d+ completed; no file matches/,
	'the condition reports a run without documents');

$node->stop;
done_testing();
