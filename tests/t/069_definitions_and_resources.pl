# What a run would refuse cannot be defined; what is not there is told when a source is made, and
# once it is gone; a clone is no larger than it may be.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagGit;

my $node = rag_node('resources', conf => "rag.max_clone_size = '1MB'\nrag.allowed_private_hosts = '127.0.0.1'");
my $folder = temp_folder();

sub condition
{
	my ($source) = @_;
	return ask($node, "SELECT c ->> 'status', c ->> 'reason' FROM rag.sources, jsonb_array_elements(conditions) c
		WHERE name = '$source' AND c ->> 'type' = 'ResourceReady'");
}

# -- not there yet
sub validated { my ($kind, $spec) = @_; return $node->safe_psql('postgres', "SELECT field, problem, severity FROM rag_validate_source('$kind', '$spec')") }

for (['folder', qq{{"path": "$folder/later"}}, "spec.path|\"$folder/later\" does not exist|warning"],
	['static', qq{{"endpoints": ["$folder/a.md", "$folder"]}}, "spec.endpoints[0]|\"$folder/a.md\" does not exist|warning\nspec.endpoints[1]|\"$folder\" is not a plain file|warning"],
	['markdown', qq{{"uri": "$folder/a.md"}}, "spec.uri|\"$folder/a.md\" does not exist|warning"],
	['git', qq{{"repositoryURL": "$folder/a.git"}}, "spec.repositoryURL|\"$folder/a.git\" does not exist|warning"],
	['folder', qq{{"path": "$folder"}}, ''])
{
	my ($kind, $spec, $expected) = @$_;
	is(validated($kind, $spec), $expected, "$kind: a missing path is a warning");
}
my $result = run_sql($node, qq{SELECT rag_create_source('later', 'folder', '{"path": "$folder/later"}')});
is($result->{rc}, 0, 'a source may be made before its folder');
like($result->{err}, qr/NOTICE:.*source "later": "\Q$folder\E\/later" does not exist\nHINT:.*The path is on the database server/, 'its creator is told');
is(condition('later'), 'False|NotReady', 'so does the condition say');
is(run_sql($node, qq{SELECT rag_alter_source('later', spec => '{"path": "$folder/later", "paths": ["*.md"]}')})->{err} =~ /NOTICE:.*does not exist/, 1, 'and who alters it');
mkdir "$folder/later" or die $!;
write_file("$folder/later/a.md", "# A\n\nText.\n");
sync_ok($node, 'later');
is(condition('later'), 'True|Ready', 'once it is there it is ready');

# who may not read files of the server learns nothing of them
$node->safe_psql('postgres', 'CREATE ROLE clerk LOGIN; GRANT rag_admin TO clerk');
like(run_sql($node, qq{SELECT * FROM rag_validate_source('folder', '{"path": "/no/such"}')}, user => 'clerk')->{out},
	qr/\Aspec.path\|permission denied [^\n]*\|error\z/, 'a role without the right is told nothing of the path');

# -- gone
rename "$folder/later", "$folder/gone" or die $!;
error_like(run_sql($node, "SELECT rag_sync('later')"), '58P01', 'does not exist', undef, 'a run of a source whose folder is gone fails');
is(condition('later'), 'False|NotReady', 'and what it names is not ready');
rename "$folder/gone", "$folder/later" or die $!;
sync_ok($node, 'later');
is(condition('later'), 'True|Ready', 'until it is back');

my $repository = git_repository();
$repository->write('a.md', "# A\n\nText of a repository.\n");
my $commit = $repository->commit;
my $url = git_server($repository);
$node->safe_psql('postgres', qq{SELECT rag_create_source('web', 'git', '{"repositoryURL": "$url"}')});
sync_ok($node, 'web');
$repository->git('checkout', '--quiet', '-b', 'other');
$repository->git('branch', '--quiet', '-D', 'main');
error_like(run_sql($node, "SELECT rag_sync('web')"), '08006', 'there is no branch', undef, 'a branch is gone');
is(condition('web'), 'False|NotReady', 'that is what the source names');
$repository->git('checkout', '--quiet', '-b', 'main');
sync_ok($node, 'web');
is(condition('web'), 'True|Ready', 'it is back');

# a table that is gone
$node->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, body text); INSERT INTO t VALUES (1, 'x'); SELECT rag_create_source('rows', 'table', '{"relation": "t"}')});
sync_ok($node, 'rows');
$node->safe_psql('postgres', 'DROP TABLE t');
isnt(run_sql($node, "SELECT rag_sync('rows')")->{rc}, 0, 'a table is gone');
is(condition('rows'), 'False|NotReady', 'that is what the source names');

# -- too large
$repository->write('large.md', join '', map { chr(33 + int rand 90) } 1 .. 3_000_000);
$repository->commit;
error_like(run_sql($node, "SELECT rag_sync('web')"), '54000', 'the clone of \S+ would be larger than rag.max_clone_size', 'Raise rag.max_clone_size',
	'a clone is bounded');
is(ask($node, "SELECT last_commit, (SELECT count(*) FROM rag.documents WHERE source = 'web') FROM rag.sources WHERE name = 'web'"), "$commit|1",
	'what was indexed stays');

$node->stop;
done_testing();
