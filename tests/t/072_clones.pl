# A clone of a repository is deleted with the last source that uses it, with its database, and with
# the extension. Other clones remain.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagGit;

my $node = rag_node('clones', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $repository = git_repository();
$repository->write('one.md', "# One\n\nThe first page.\n");
$repository->commit;
$repository->git('branch', 'other');
my $url = git_server($repository);
my $clones = $node->data_dir . '/pg_rag/clones';

sub clones { return scalar(() = glob "$clones/*/state") }

sub create
{
	my ($name, $database, $branch) = @_;
	$branch //= 'main';
	my $result = run_sql(
		$node,
		qq{SELECT rag_create_source('$name', 'git',
			'{"repositoryURL": "$url", "branch": "$branch"}'); SELECT rag_sync('$name')},
		database => $database // 'postgres');
	return is($result->{rc}, 0, "$name of " . ($database // 'postgres') . ' is synced')
	  || diag($result->{err});
}
sub run_in { my ($database, $sql) = @_; return $node->safe_psql($database, $sql) }

sub drop_source
{
	my ($name) = @_;
	return run_in('postgres', "SELECT rag_drop_source('$name', keep_documents => false)");
}

subtest 'clones of sources' => sub {
	create($_) for qw(a b);
	create('c', 'postgres', 'other');
	is(clones(), 2, 'two sources of a branch share a clone, another branch has its own');
	drop_source('a');
	is(clones(), 2, 'a clone in use remains when one of its sources is dropped');
	run_in(
		'postgres',
		q{BEGIN; SELECT rag_drop_source('b'); ROLLBACK; BEGIN; SAVEPOINT s;
			SELECT rag_drop_source('b'); ROLLBACK TO s; COMMIT}
	);
	is(clones(), 2, 'a clone remains after the rollback of a drop');
	drop_source('b');
	is(clones(), 1, 'a clone is removed with its last source');
	sync_ok($node, 'c');
	is(clones(), 1, 'the clone of another source remains');
	run_in('postgres',
		qq{SELECT rag_alter_source('c', spec => '{"repositoryURL": "$url", "branch": "main"}')});
	sync_ok($node, 'c', 'a source can change its branch');
	is(clones(), 1, 'a changed branch removes the previous clone');
	my $folder = write_documents(temp_folder(), 1, 1);
	run_in('postgres',
		qq{SELECT rag_alter_source('c', kind => 'folder', spec => '{"path": "$folder"}')});
	sync_ok($node, 'c', 'a source can change its kind to folder');
	is(clones(), 0, 'a folder source has no clone');
	drop_source('c');
};

subtest 'clones of several databases' => sub {
	$node->safe_psql('postgres', "CREATE DATABASE $_") for qw(one two);
	for my $database (qw(one two))
	{
		run_in($database, 'CREATE EXTENSION rag');
		create('a', $database);
	}
	is(clones(), 1, 'two databases share a clone');
	run_in('two', q{SELECT rag_drop_source('a', keep_documents => false)});
	create('a', 'two', 'other');
	is(clones(), 2, 'two databases have a clone each');
	$node->safe_psql('postgres', 'DROP DATABASE one');
	is(clones(), 1, 'the clone of a dropped database is removed');
	error_like(
		run_sql($node, 'DROP EXTENSION rag', database => 'two'),
		'2BP01', 'because collections contain documents',
		'CASCADE', 'DROP EXTENSION is rejected while documents exist');
	is(clones(), 1, 'the clones remain after a rejected DROP EXTENSION');
	run_in('two', 'BEGIN; DROP EXTENSION rag CASCADE; ROLLBACK');
	is(clones(), 1, 'the clones remain after a rolled back DROP EXTENSION');
	create('own');
	run_in('two', 'DROP EXTENSION rag CASCADE');
	is(clones(), 1, 'DROP EXTENSION CASCADE removes the clones of its database only');
	drop_source('own');
	is(clones(), 0, 'no clone remains');
};

subtest 'a drop that the launcher did not see' => sub {
	create('a');
	# as after a crash between a commit and the work that follows it
	my ($folder) = glob "$clones/*";
	write_file("$folder/users/4294967294-0b7a5c6e-6a55-4c37-9a53-0a1d3a7f0001", '');
	my $database = $node->safe_psql('postgres',
		'SELECT oid FROM pg_database WHERE datname = current_database()');
	write_file("$folder/users/$database-0b7a5c6e-6a55-4c37-9a53-0a1d3a7f0002", '');
	is(scalar(() = glob "$folder/users/*"), 3, 'a clone has users that no longer exist');
	sync_ok($node, 'a');
	is(scalar(() = glob "$folder/users/*"), 1, 'the next run removes users that no longer exist');
	drop_source('a');
	is(clones(), 0, 'the clone is removed with its last source');
};

$node->stop;
done_testing();
