# What a sync does after the first one: it embeds what is new, moves what moved, removes what is
# gone, and leaves alone what it cannot read.
use strict;
use warnings;
use Test::More;
use RagCluster;

my $node = rag_node('incremental');
my $counts = 'documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed, chunks_written, chunks_embedded';

# Syncs, and says what the run did: added updated deleted unchanged failed, chunks written embedded.
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
sync_does('docs', '3 0 0 0 0 5 5', 'the first sync embeds everything');
sync_does('docs', '0 0 0 3 0 0 0', 'the second one nothing');

utime 1, 1, "$folder/b.md";
sync_does('docs', '0 0 0 3 0 0 0', 'another time of the same file is no change');

write_file("$folder/d.md", "# Cake\n\nCake is baked in the evening.\n");
sync_does('docs', '1 0 0 3 0 1 1', 'a new file is added');

write_file("$folder/b.md", "# Bread\n\nBread is baked at night.\n");
sync_does('docs', '0 1 0 3 0 1 1', 'an edited file is replaced');
is(ask($node, "SELECT content FROM rag_search('when is bread baked', top_k => 1)"), "# Bread\n\nBread is baked at night.",
	'and found with its new text');
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE content LIKE '%in the morning%'"), '0', 'not with its old one');

write_file("$folder/a.txt", join("\n\n", $text, paragraph('shared 4')));
sync_does('docs', '0 1 0 3 0 4 1', 'of a file that grew only what is new is embedded');

rename "$folder/a.txt", "$folder/renamed.txt" or die $!;
sync_does('docs', '1 0 1 3 0 4 0', 'a renamed file keeps its embeddings');
is(document('title', 'renamed.txt'), 'renamed', 'and has its new name as its title');
mkdir "$folder/deep" or die $!;
rename "$folder/b.md", "$folder/deep/b.md" or die $!;
sync_does('docs', '1 0 1 3 0 1 0', 'so does a file that moved to another folder');

write_file("$folder/copy.txt", join("\n\n", $text, paragraph('shared 4')));
write_file("$folder/twin-1.md", "# Twin\n\nThe same text twice.\n");
write_file("$folder/twin-2.md", "# Twin\n\nThe same text twice.\n");
sync_does('docs', '3 0 0 4 0 6 1', 'a copy is not embedded, and two new twins once');

write_file("$folder/twin-2.md", "# Another title\n\nThe same text twice.\n");
sync_does('docs', '0 1 0 6 0 1 1', 'a changed title is embedded anew, with its chunks');
write_file("$folder/front.md", "---\ntitle: First\n---\n\nA text below front matter.\n");
sync_does('docs', '1 0 0 7 0 1 1', 'a file with a title in its front matter');
write_file("$folder/front.md", "---\ntitle: Second\n---\n\nA text below front matter.\n");
sync_does('docs', '0 1 0 7 0 1 1', 'is embedded anew when only that title changes');
is(document('title', 'front.md'), 'Second', 'and has its new title');

unlink "$folder/d.md", "$folder/copy.txt" or die $!;
sync_does('docs', '0 0 2 6 0 0 0', 'deleted files are removed');
is(document('count(*)', 'd.md'), '0', 'their documents are gone');
like(stored($node), qr/\A0\n0\n6\|/, 'and their chunks');

# -- what cannot be read any more
write_file("$folder/deep/b.md", "\x7fELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0");
sync_does('docs', '0 0 0 5 1 0 0', 'a file that has become invalid fails');
is(document("status, error, chunk_count, content", 'deep/b.md'),
	"error|the file is binary: it is not text in any known encoding|1|# Bread\n\nBread is baked at night.\n", 'and keeps what was indexed');
is(ask($node, "SELECT content FROM rag_search('when is bread baked', top_k => 1)"), "# Bread\n\nBread is baked at night.", 'and is found');
write_file("$folder/deep/b.md", "# Bread\n\nBread is baked at night.\n");
sync_does('docs', '0 1 0 5 0 1 0', 'repaired it is indexed without being embedded');
is(document("status, error IS NULL", 'deep/b.md'), 'active|t', 'and active again');

chmod 0000, "$folder/deep/b.md";
sync_does('docs', '0 0 0 5 1 0 0', 'a file that must not be read fails');
is(document("status, error, chunk_count", 'deep/b.md'), 'error|permission denied|1', 'and keeps what was indexed');
chmod 0644, "$folder/deep/b.md";
sync_does('docs', '0 1 0 5 0 1 0', 'until it may be read again');

chmod 0000, "$folder/deep", "$folder/sub";
unlink "$folder/twin-1.md" or die $!;
sync_does('docs', '0 0 0 3 2 0 0', 'folders that must not be read are errors, and nothing is removed by a sync that has not seen all');
is(ask($node, "SELECT count(*) FROM rag.documents WHERE uri LIKE '%/deep/b.md' OR uri LIKE '%/sub/c.md'"), '2', 'what was below them stays');
is(ask($node, "SELECT count(*) FROM rag.chunks WHERE uri LIKE '%/deep/b.md' OR uri LIKE '%/sub/c.md'"), '2', 'with its chunks');
is(ask($node, "SELECT DISTINCT stage, message, hint IS NOT NULL FROM rag.run_errors WHERE uri LIKE '%/deep' OR uri LIKE '%/sub'"),
	'fetch|permission denied|t', 'and rag.run_errors says why');
chmod 0755, "$folder/deep", "$folder/sub";
sync_ok($node, 'docs');
is(document('count(*)', 'twin-1.md'), '0', 'what was gone meanwhile is removed by the next sync that sees all');
is(ask($node, "SELECT count(*) FROM rag.documents WHERE status <> 'active'"), '0', 'and no error is left over');

# -- another precision of the model
my $before = ask($node, 'SELECT md5(string_agg(embedding::text, chr(10) ORDER BY chunk_id)) FROM rag.chunks');
my $chunks = ask($node, 'SELECT count(*) FROM rag.chunks');
configure($node, 'rag.model_precision', 'fp32');
sync_does('docs', "0 5 0 0 0 $chunks $chunks", 'after a change of rag.model_precision everything is embedded anew');
isnt(ask($node, 'SELECT md5(string_agg(embedding::text, chr(10) ORDER BY chunk_id)) FROM rag.chunks'), $before, 'to other vectors');
sync_does('docs', '0 0 0 5 0 0 0', 'once');
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
	my $commit = sub { $git->('add', '--all'); $git->('commit', '--quiet', '--message', 'a change'); return head($repository) };
	sub head { my ($path) = @_; chomp(my $id = `git -C $path rev-parse HEAD`); return $id }

	$git->('init', '--quiet');
	$git->('checkout', '--quiet', '-b', 'main');
	write_file("$repository/docs/one.md", "# One\n\nThe first page of the manual.\n");
	write_file("$repository/docs/two.md", "# Two\n\nThe second page of the manual.\n");
	write_file("$repository/docs/drafts/three.md", "# Three\n\nA draft.\n");
	write_file("$repository/README.md", "# Read me\n\nNot a part of the manual.\n");
	my $id = $commit->();
	$node->safe_psql('postgres', "SELECT rag_create_collection('manual')");
	$node->safe_psql('postgres', qq{SELECT rag_create_source('manual', 'git',
		'{"repositoryURL": "$repository", "branch": "main", "paths": ["docs/"], "excludePaths": ["drafts/"]}', 'manual')});
	sync_does('manual', '2 0 0 0 0 2 2', 'of a repository the selected paths are indexed');
	is(run_row($node, 'manual', 'commit'), $id, 'the run knows the commit');
	is(ask($node, "SELECT last_commit FROM rag.sources WHERE name = 'manual'"), $id, 'and so does the source');
	sync_does('manual', '0 0 0 2 0 0 0', 'the same commit again changes nothing');

	write_file("$repository/docs/one.md", "# One\n\nThe first page, rewritten.\n");
	write_file("$repository/uncommitted.md", "# Nothing\n");
	$git->('mv', 'docs/two.md', 'docs/second.md');
	$id = $commit->();
	write_file("$repository/docs/uncommitted.md", "# Not committed\n");
	sync_does('manual', '1 1 1 0 0 2 1', 'an edited, a moved and an uncommitted file');
	is(ask($node, "SELECT last_commit FROM rag.sources WHERE name = 'manual'"), $id, 'the source is at the new commit');
	unlink "$repository/docs/uncommitted.md";
	$git->('rm', '--quiet', 'docs/second.md');
	$commit->();
	sync_does('manual', '0 0 1 1 0 0 0', 'a deleted file is removed');

	$git->('checkout', '--quiet', '-b', 'next');
	write_file("$repository/docs/four.md", "# Four\n\nOnly on the other branch.\n");
	$commit->();
	sync_does('manual', '0 0 0 1 0 0 0', 'another branch is of no concern');

	$git->('branch', '--quiet', '-D', 'main');
	error_like(run_sql($node, "SELECT rag_sync('manual')"), '08006', 'there is no branch "main"', 'Branches: next', 'a branch that is gone is an error');
	is(ask($node, "SELECT count(*) FROM rag.documents WHERE source = 'manual'"), '1', 'that removes nothing');
	is(ask($node, "SELECT last_commit IS NOT NULL FROM rag.sources WHERE name = 'manual'"), 't', 'the source keeps its last commit');
}

$node->stop;
done_testing();
