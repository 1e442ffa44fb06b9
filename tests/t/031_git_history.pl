# A repository is synced step by step from the server's disk and over HTTP. After each step both
# sources equal a sync of everything, and moved files are not embedded again.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagGit;

my $node = rag_node('git_history',
	conf => "rag.max_file_size = '1MB'\nrag.allowed_private_hosts = 'wiki.local'
rag.embedding_cache_size = 0");
my $counts =
	'documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed, '
  . 'chunks_written, chunks_embedded';
my $repository = git_repository();
my $path = $repository->path;
my $url = git_server($repository);
my $filter =
  '"paths": ["/docs", "guide/", "main.md", "*.txt"], "excludePaths": ["drafts/", "secret.md"], '
  . '"lfs": false';
my %url = (local => $path, web => $url, clean => $path);

sub create_sources
{
	for my $name (sort keys %url)
	{
		$node->safe_psql('postgres', "SELECT rag_create_collection('$name')");
		$node->safe_psql(
			'postgres',
			qq{SELECT rag_create_source('$name', 'git', '{"repositoryURL": "$url{$name}", $filter}',
				'$name')}
		);
	}
	return;
}

# All that is stored of a source, without what depends on its address and on time.
sub contents
{
	my ($source) = @_;
	return $node->safe_psql('postgres', <<SQL);
SELECT split_part(uri, '#', 2), title, status, content_hash, md5(content), chunk_count,
metadata - '{repository,commit}'::text[],
       metadata ? 'commit'
FROM rag.documents WHERE source = '$source' ORDER BY 1;
SELECT split_part(uri, '#', 2), chunk_index, start_index, md5(content), embedding_key,
md5(embedding::text)
FROM rag.chunks WHERE source = '$source' ORDER BY 1, 2;
SQL
}

# Checks that both sources equal a sync of everything.
sub equals_full_sync
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	forget_collection($node, 'clean');
	sync_ok($node, 'clean', "$name: a sync from nothing") or return;
	my $clean = contents('clean');
	is(contents('local'), $clean, "$name: the source of the folder equals a sync of everything");
	is(contents('web'), $clean, "$name: the source over HTTP equals a sync of everything");
	return;
}

# Commits, syncs, and checks the counts of the runs: added updated deleted unchanged failed, chunks
# written embedded.
sub step
{
	my ($name, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $commit = $repository->commit;
	my $embedded_once = $expected =~ s/\d+$/0/r;
	for ([ 'local', $expected ], [ 'web', $embedded_once ])
	{
		my ($source, $does) = @$_;
		my $result = run_sql($node, "SELECT rag_sync('$source')");
		is(run_row($node, $source, $counts) =~ tr/|/ /r, $does, "$name ($source)")
		  or diag($result->{err});
		is(run_row($node, $source, 'commit'),
			$commit, "$name: the run of $source records the commit");
	}
	equals_full_sync($name);
	return;
}

sub page
{
	my ($title, $text) = @_;
	return "# $title\n\n" . ($text // "The page called $title.") . "\n";
}

error_like(
	run_sql($node, qq{SELECT rag_create_source('web', 'git', '{"repositoryURL": "$url"}')}),
	'22023', 'does not start with https://',
	'rag.allowed_private_hosts', 'a source over http of another host cannot be created');
configure($node, 'rag.allowed_private_hosts', '127.0.0.1');
create_sources();
configure($node, 'rag.allowed_private_hosts', 'wiki.local');
error_like(
	run_sql($node, "SELECT rag_sync('local')"),
	'08006', 'branch "main" does not exist',
	'repository is empty', 'an empty repository is an error');
error_like(
	run_sql($node, "SELECT rag_sync('web')"),
	'22023', 'does not start with https://',
	'rag.allowed_private_hosts', 'a host that is not public is rejected');
configure($node, 'rag.allowed_private_hosts', '127.0.0.1');
error_like(
	run_sql($node, "SELECT rag_sync('web')"),
	'08006', 'branch "main" does not exist',
	'repository is empty', 'an allowed private host is connected to');

# -- selected files
$repository->write('docs/one.md', page('One'));
$repository->write('docs/two.md', page('Two'));
$repository->write('docs/drafts/draft.md', page('Draft'));
$repository->write('docs/secret.md', page('Secret'));
$repository->write('sub/docs/other.md', page('Other'));
$repository->write('sub/guide/deep/guide.md', page('Guide'));
$repository->write('sub/main.md', page('Main'));
$repository->write('notes/note.txt', "A note about nothing in particular.\n");
$repository->write('README.md', page('Read me'));
step('the first commit', '5 0 0 0 0 5 5');
is( ask($node,
		"SELECT string_agg(split_part(uri, '#', 2), ' ' ORDER BY uri) FROM rag.documents
		WHERE source = 'web'"
	),
	'docs/one.md docs/two.md notes/note.txt sub/guide/deep/guide.md sub/main.md',
	'folders, names and extensions select files');
is( ask($node,
		"SELECT metadata - '{blob,encoding}'::text[] FROM rag.documents WHERE source = 'web'
		AND uri LIKE '%one.md'"
	),
	qq({"path": "docs/one.md", "branch": "main", "commit": "@{[$repository->head]}", )
	  . qq("repository": "$url"}),
	'documents record path, branch, commit and repository');
step('a commit without changes', '0 0 0 5 0 0 0');

# -- additions, changes, renames
$repository->write('docs/three.md', page('Three'));
step('an added file', '1 0 0 5 0 1 1');
$repository->write('docs/one.md', page('One', 'The page has changed.'));
step('an edited file', '0 1 0 5 0 1 1');
$repository->remove('docs/one.md');
step('a deleted file', '0 0 1 5 0 0 0');
$repository->rename('docs/two.md', 'docs/deeper/zwei.md');
step('a renamed file', '1 0 1 4 0 1 0');
$repository->rename('docs/three.md', 'docs/drei.md');
$repository->write('docs/drei.md', page('Three', 'Renamed and edited.'));
step('a file renamed and edited', '1 0 1 4 0 1 1');
$repository->rename('docs/drei.md', 'docs/drafts/drei.md');
step('a file renamed into an excluded folder', '0 0 1 4 0 0 0');
$repository->rename('docs/drafts/draft.md', 'docs/final.md');
$repository->rename('README.md', 'docs/readme.md');
step('files renamed into the selection', '2 0 0 4 0 2 2');
$repository->rename('docs/final.md', 'docs/temporary.md');
$repository->rename('docs/readme.md', 'docs/final.md');
$repository->rename('docs/temporary.md', 'docs/readme.md');
step('two files that change places', '0 2 0 4 0 2 0');
$repository->write('docs/copy.md', page('Guide'));
step('a copy of another file', '1 0 0 6 0 1 0');
chmod 0755, "$path/docs/copy.md";
step('a file made executable', '0 0 0 7 0 0 0');

# -- entries that are not files
$repository->rename('notes/note.txt', 'notes/note.txt/inner.txt');
step('a file that becomes a folder', '1 0 1 6 0 1 0');
$repository->remove('sub/main.md');
symlink 'guide/deep/guide.md', "$path/sub/main.md" or die $!;
step('a file that becomes a symbolic link', '0 0 1 6 0 0 0');
$repository->remove('sub/main.md');
$repository->write('sub/main.md', page('Main', 'A file again.'));
step('a symbolic link that becomes a file', '1 0 0 6 0 1 1');
$repository->remove('notes/note.txt');
$repository->write('notes/note.txt', "A file where a folder was.\n");
step('a folder that becomes a file', '1 0 1 6 0 1 1');
$repository->write('docs/copy.md',
	"version https://git-lfs.github.com/spec/v1\noid sha256:" . ('0' x 64) . "\nsize 12\n");
step('a file that goes to LFS', '0 0 1 6 0 0 0');
$repository->write('docs/picture.png', join '', map { chr } 0 .. 255);
my $module = $repository->commit;
$repository->git('update-index', '--add', '--cacheinfo', "160000,$module,docs/module");
$repository->git('commit', '--quiet', '--message', 'a submodule');
$repository->git('update-index', '--skip-worktree', 'docs/module');
step('a picture and a submodule', '0 0 0 6 0 0 0');
like(
	`git -C $path ls-tree HEAD docs/module`,
	qr/^160000 commit/,
	'the commit contains the submodule');
is( run_row($node, $_, 'note'),
	'skipped 1 pointer of Git LFS, 1 submodule, 1 .png',
	"$_: the note counts what was skipped by kind")
  for qw(local web);
$repository->write("docs/caf\xe9.md", page('Café', 'In Latin 1.'));
$repository->write("docs/caf\xe8.md", page('Caffè', 'In Latin 1, too.'));
step('names that are not UTF-8', '2 0 0 6 0 2 2');

# -- failures
$repository->write('docs/huge.md', page('Huge', join "\n\n", ('word ' x 100) x 4000));
step('a file beyond the limit', '0 0 0 8 1 0 0');
is( ask($node,
		"SELECT stage, message ~ 'more than the limit', hint IS NOT NULL FROM rag.run_errors
		WHERE uri LIKE 'http%huge.md' ORDER BY occurred_at DESC LIMIT 1"
	),
	'fetch|t|t',
	'a file beyond the limit has an error with a hint');
$repository->remove('docs/huge.md');
$repository->write('docs/one.md', page('One'));
step('the run after it', '1 0 0 8 0 1 1');

# -- rewritten history
$repository->git('checkout', '--quiet', '--orphan', 'rewritten');
$repository->write('docs/one.md', page('One', 'In another history.'));
$repository->remove('docs/readme.md');
$repository->git('add', '--all');
$repository->git('commit', '--quiet', '--message', 'another beginning');
$repository->git('branch', '--quiet', '-M', 'main');
$repository->git('reflog', 'expire', '--expire=now', '--all');
$repository->git('gc', '--quiet', '--prune=now');
step('a force-push after which the old commits are gone', '0 1 1 7 0 1 1');

# -- other filters
$node->safe_psql(
	'postgres',
	qq{UPDATE rag_internal.source SET spec = jsonb_set(spec, '{excludePaths}', '["guide/"]')
	WHERE kind = 'git'}
);
step('other filters', '2 0 1 7 0 2 2');

# -- clones
my $clones = $node->data_dir . '/pg_rag/clones';
my @packs = glob "$clones/*/repository.git/objects/pack/*.pack";
cmp_ok(scalar @packs, '>', 1, 'the clone was fetched into several times');
for my $pack (@packs)
{
	chmod 0600, $pack;
	truncate $pack, (-s $pack) / 2 or die "$pack: $!";
}
$repository->write('docs/one.md', page('One', 'After damage.'));
step('a damaged clone', '0 1 0 8 0 1 1');
is(scalar(() = glob "$clones/*/repository.git/objects/pack/*.pack"),
	1, 'a corrupted clone is created again');

# -- the engine is killed
srand 31;
my $witness = witness($node);
my $killed = 0;
for my $round (1 .. 20)
{
	$repository->write("docs/round-$_.md",
		page("Round $round of $_") . "\n" . paragraph("$round $_") . "\n")
	  for 1 .. 3;
	$repository->write('docs/picture.png', pack 'N*', map { int rand 2**32 } 1 .. 200_000);
	$repository->write("guide/round-$round.md", page("Round $round"));
	$repository->commit;
	my $sync = start_sql($node, "SELECT rag_sync('web')");
	my $engine = await('the run begins or has ended',
		sub { (engines($node, 'ingest'))[0] || (!$sync->is_waiting && -1) });
	select undef, undef, undef, rand 0.15;
	$killed++ if $engine > 0 && kill 'KILL', $engine;
	$sync->finish;
}
cmp_ok($killed, '>', 0, "the engine was killed in $killed of 20 runs");
sync_ok($node, 'local');
sync_ok($node, 'web', 'the run after the engine was killed succeeds');
equals_full_sync('after the engine was killed');
same_cluster($witness, 'the engine killed during runs of git');

# -- removal of all documents
$repository->remove(map { s{.*/}{}r } grep { !m{/\.git$} } glob "$path/{*,.[a-z]*}");
my $stored = ask($node, "SELECT count(*) FROM rag.documents WHERE source = 'web'");
step('a commit without files', "0 0 $stored 0 0 0 0");

$node->stop;
done_testing();
