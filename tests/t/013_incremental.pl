# What a sync does after the first one: it embeds new texts, moves documents, removes deleted files,
# and keeps what it cannot read.
use strict;
use warnings;
use Test::More;
use RagCluster;

my $node = rag_node('incremental');
my $counts =
	'documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed, '
  . 'chunks_written, chunks_embedded';

# Syncs a source and checks the counts of the run: added updated deleted unchanged failed, chunks
# written embedded.
sub sync_does
{
	my ($source, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = run_sql($node, "SELECT rag_sync('$source')");
	is(run_row($node, $source, $counts) =~ tr/|/ /r, $expected, $name) or diag($result->{err});
	return;
}

sub document
{
	my ($columns, $uri) = @_;
	return ask($node, "SELECT $columns FROM rag.documents WHERE uri LIKE '%$uri'");
}

# -- a folder
my $folder = temp_folder();
my $text = join "\n\n", map { paragraph("shared $_") } 1 .. 3;
write_file("$folder/a.txt", $text);
write_file("$folder/b.md", "# Bread\n\nBread is baked in the morning.\n");
write_file("$folder/sub/c.md", "# Rolls\n\nRolls are baked at noon.\n");
create_folder_source($node, 'docs', $folder);
sync_does('docs', '3 0 0 0 0 5 5', 'the first sync embeds all files');
sync_does('docs', '0 0 0 3 0 0 0', 'a second sync of the same files does nothing');

utime 1, 1, "$folder/b.md";
sync_does('docs', '0 0 0 3 0 0 0', 'a changed modification time alone does not update a file');

write_file("$folder/d.md", "# Cake\n\nCake is baked in the evening.\n");
sync_does('docs', '1 0 0 3 0 1 1', 'a new file is added');

write_file("$folder/b.md", "# Bread\n\nBread is baked at night.\n");
sync_does('docs', '0 1 0 3 0 1 1', 'an edited file is updated');
is( ask($node, "SELECT content FROM rag_search('when is bread baked', top_k => 1)"),
	"# Bread\n\nBread is baked at night.",
	'a search returns the new text of an edited file');
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE content LIKE '%in the morning%'"),
	'0', 'no chunk contains the old text of an edited file');

write_file("$folder/a.txt", join("\n\n", $text, paragraph('shared 4')));
sync_does('docs', '0 1 0 3 0 4 1', 'only the new chunk of a longer file is embedded');

rename "$folder/a.txt", "$folder/renamed.txt" or die $!;
sync_does('docs', '1 0 1 3 0 4 0', 'a renamed file keeps its embeddings');
is(document('title', 'renamed.txt'), 'renamed', 'a renamed file gets a title from its new name');
mkdir "$folder/deep" or die $!;
rename "$folder/b.md", "$folder/deep/b.md" or die $!;
sync_does('docs', '1 0 1 3 0 1 0', 'a moved file keeps its embeddings');

write_file("$folder/copy.txt", join("\n\n", $text, paragraph('shared 4')));
write_file("$folder/twin-1.md", "# Twin\n\nThe same text twice.\n");
write_file("$folder/twin-2.md", "# Twin\n\nThe same text twice.\n");
sync_does(
	'docs',
	'3 0 0 4 0 6 1',
	'a copy is not embedded, and two equal new files are embedded once');

write_file("$folder/twin-2.md", "# Another title\n\nThe same text twice.\n");
sync_does('docs', '0 1 0 6 0 1 1', 'a changed title embeds the chunks again');
write_file("$folder/front.md", "---\ntitle: First\n---\n\nA text below front matter.\n");
sync_does('docs', '1 0 0 7 0 1 1', 'a file with a title in its front matter is added');
write_file("$folder/front.md", "---\ntitle: Second\n---\n\nA text below front matter.\n");
sync_does('docs', '0 1 0 7 0 1 1', 'a changed title in the front matter embeds the chunks again');
is(document('title', 'front.md'), 'Second', 'the title comes from the changed front matter');

unlink "$folder/d.md", "$folder/copy.txt" or die $!;
sync_does('docs', '0 0 2 6 0 0 0', 'deleted files are removed');
is(document('count(*)', 'd.md'), '0', 'no documents of deleted files remain');
like(stored($node), qr/\A0\n0\n6\|/, 'no chunks of deleted files remain');

# -- files that can no longer be read
write_file("$folder/deep/b.md", "\x7fELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0");
sync_does('docs', '0 0 1 5 0 0 0', 'a file that became binary is no document');
is(document('count(*)', 'deep/b.md'), '0', 'its former text is removed');
is( ask($node, "SELECT severity, message FROM rag.run_errors
		WHERE uri LIKE '%/deep/b.md' ORDER BY run_id DESC LIMIT 1"),
	'warning|the file was skipped because it is binary',
	'a warning tells why');
write_file("$folder/deep/b.md", "# Bread\n\nBread is baked at night.\n");
sync_does('docs', '1 0 0 5 0 1 0', 'a repaired file is indexed again');
is(document("status, error IS NULL", 'deep/b.md'), 'active|t', 'a repaired file is active');

chmod 0000, "$folder/deep/b.md";
sync_does('docs', '0 0 0 5 1 0 0', 'an unreadable file fails');
is( document("status, error, chunk_count", 'deep/b.md'),
	'error|permission denied|1',
	'an unreadable file keeps its indexed text');
chmod 0644, "$folder/deep/b.md";
sync_does('docs', '0 1 0 5 0 1 0', 'a file that is readable again is indexed');

chmod 0000, "$folder/deep", "$folder/sub";
unlink "$folder/twin-1.md" or die $!;
sync_does(
	'docs',
	'0 0 0 3 2 0 0',
	'unreadable folders are errors, and an incomplete sync removes nothing');
is( ask($node,
		"SELECT count(*) FROM rag.documents WHERE uri LIKE '%/deep/b.md' OR uri LIKE '%/sub/c.md'"),
	'2',
	'documents in unreadable folders are kept');
is( ask($node,
		"SELECT count(*) FROM rag.chunks WHERE uri LIKE '%/deep/b.md' OR uri LIKE '%/sub/c.md'"),
	'2',
	'documents in unreadable folders keep their chunks');
is( ask($node,
		"SELECT DISTINCT stage, message, hint IS NOT NULL FROM rag.run_errors
			WHERE uri LIKE '%/deep' OR uri LIKE '%/sub'"
	),
	'fetch|permission denied|t',
	'rag.run_errors lists unreadable folders');
chmod 0755, "$folder/deep", "$folder/sub";
sync_ok($node, 'docs');
is(document('count(*)', 'twin-1.md'),
	'0', 'files deleted meanwhile are removed by the next complete sync');
is(ask($node, "SELECT count(*) FROM rag.documents WHERE status <> 'active'"),
	'0', 'the next complete sync leaves no document with an error');

# -- one of several documents that are stored together is refused
$node->safe_psql(
	'postgres', "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN IF new.content LIKE ''%refuse me%'' THEN RAISE ''refused by a trigger''; END IF;
		RETURN new; END';
	CREATE TRIGGER refuse BEFORE INSERT ON rag.chunks FOR EACH ROW EXECUTE FUNCTION refuse()");
write_file("$folder/new-$_.md", "# New\n\nText number $_.\n") for 1, 3;
write_file("$folder/new-2.md", "# New\n\nPlease refuse me.\n");
sync_does('docs', '2 0 0 5 1 2 2', 'documents that were stored with a refused one are stored');
is( document('status, error', 'new-2.md'),
	'error|refused by a trigger',
	'the refused one tells why');
$node->safe_psql('postgres', 'DROP TRIGGER refuse ON rag.chunks');
sync_does('docs', '0 1 0 7 0 1 0', 'it is stored once nothing refuses it');
unlink map { "$folder/new-$_.md" } 1 .. 3;
sync_does('docs', '0 0 3 5 0 0 0', 'they are removed');

# -- another precision of the model
my $before =
  ask($node, 'SELECT md5(string_agg(embedding::text, chr(10) ORDER BY chunk_id)) FROM rag.chunks');
my $chunks = ask($node, 'SELECT count(*) FROM rag.chunks');
configure($node, 'rag.model_precision', 'fp32');
sync_does(
	'docs',
	"0 5 0 0 0 $chunks $chunks",
	'a change of rag.model_precision embeds all chunks again');
isnt(
	ask($node, 'SELECT md5(string_agg(embedding::text, chr(10) ORDER BY chunk_id)) FROM rag.chunks'
	),
	$before,
	'a change of rag.model_precision changes the vectors');
sync_does('docs', '0 0 0 5 0 0 0', 'a change of rag.model_precision takes effect only once');
configure($node, 'rag.model_precision');

# -- a git repository
SKIP:
{
	skip 'there is no git', 1 unless system('git --version >/dev/null 2>&1') == 0;
	my $repository = temp_folder();
	my $git = sub {
		local %ENV = (%ENV, GIT_CONFIG_GLOBAL => '/dev/null', GIT_CONFIG_SYSTEM => '/dev/null');
		my @identity = ('-c', 'user.name=Test', '-c', 'user.email=test@example.org');
		system('git', '-C', $repository, @identity, @_) == 0 or die "git @_ failed";
		return;
	};
	my $commit = sub {
		$git->('add', '--all');
		$git->('commit', '--quiet', '--message', 'a change');
		return head($repository);
	};
	sub head { my ($path) = @_; chomp(my $id = `git -C $path rev-parse HEAD`); return $id }

	$git->('init', '--quiet');
	$git->('checkout', '--quiet', '-b', 'main');
	write_file("$repository/docs/one.md", "# One\n\nThe first page of the manual.\n");
	write_file("$repository/docs/two.md", "# Two\n\nThe second page of the manual.\n");
	write_file("$repository/docs/drafts/three.md", "# Three\n\nA draft.\n");
	write_file("$repository/README.md", "# Read me\n\nNot a part of the manual.\n");
	my $id = $commit->();
	$node->safe_psql('postgres', "SELECT rag_create_collection('manual')");
	$node->safe_psql(
		'postgres', qq{SELECT rag_create_source('manual', 'git',
		'{"repositoryURL": "$repository", "branch": "main", "paths": ["docs/"],
		"excludePaths": ["drafts/"]}', 'manual')}
	);
	sync_does('manual', '2 0 0 0 0 2 2', 'only the selected paths of a repository are indexed');
	is(run_row($node, 'manual', 'commit'), $id, 'the run records the commit');
	is(ask($node, "SELECT last_commit FROM rag.sources WHERE name = 'manual'"),
		$id, 'the source records the commit');
	sync_does('manual', '0 0 0 2 0 0 0', 'a sync of the same commit does nothing');

	write_file("$repository/docs/one.md", "# One\n\nThe first page, rewritten.\n");
	write_file("$repository/uncommitted.md", "# Nothing\n");
	$git->('mv', 'docs/two.md', 'docs/second.md');
	$id = $commit->();
	write_file("$repository/docs/uncommitted.md", "# Not committed\n");
	sync_does(
		'manual',
		'1 1 1 0 0 2 1',
		'edited and moved files of a commit are indexed, uncommitted files are not');
	is(ask($node, "SELECT last_commit FROM rag.sources WHERE name = 'manual'"),
		$id, 'the source records the new commit');
	unlink "$repository/docs/uncommitted.md";
	$git->('rm', '--quiet', 'docs/second.md');
	$commit->();
	sync_does('manual', '0 0 1 1 0 0 0', 'a file deleted from the repository is removed');

	$git->('checkout', '--quiet', '-b', 'next');
	write_file("$repository/docs/four.md", "# Four\n\nOnly on the other branch.\n");
	$commit->();
	sync_does('manual', '0 0 0 1 0 0 0', 'a commit on another branch changes nothing');

	$git->('branch', '--quiet', '-D', 'main');
	error_like(
		run_sql($node, "SELECT rag_sync('manual')"),
		'08006',
		'branch "main" does not exist',
		'Branches: next',
		'a deleted branch is an error');
	is(ask($node, "SELECT count(*) FROM rag.documents WHERE source = 'manual'"),
		'1', 'a deleted branch removes no documents');
	is(ask($node, "SELECT last_commit IS NOT NULL FROM rag.sources WHERE name = 'manual'"),
		't', 'a deleted branch leaves the last commit of the source');
}

$node->stop;
done_testing();
