# A definition is rejected if a run would reject it. Missing resources are reported when a source is
# created, and when they disappear. The size of clones is limited.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagGit;

my $node = rag_node('resources',
	conf => "rag.max_clone_size = '1MB'\nrag.allowed_private_hosts = '127.0.0.1'");
my $folder = temp_folder();

sub condition
{
	my ($source) = @_;
	return ask(
		$node,
		"SELECT c ->> 'status', c ->> 'reason' FROM rag.sources, jsonb_array_elements(conditions) c
		WHERE name = '$source' AND c ->> 'type' = 'ResourceReady'");
}

# -- resources that do not exist yet
sub validated
{
	my ($kind, $spec) = @_;
	return $node->safe_psql('postgres',
		"SELECT field, problem, severity FROM rag_validate_source('$kind', '$spec')");
}

for (
	[
		'folder',
		qq{{"path": "$folder/later"}},
		"spec.path|\"$folder/later\" does not exist|warning"
	],
	[
		'static',
		qq{{"endpoints": ["$folder/a.md", "$folder"]}},
		"spec.endpoints[0]|\"$folder/a.md\" does not exist|warning\nspec.endpoints[1]|\"$folder\" "
		  . "is not a regular file|warning"
	],
	[ 'markdown', qq{{"uri": "$folder/a.md"}}, "spec.uri|\"$folder/a.md\" does not exist|warning" ],
	[
		'git',
		qq{{"repositoryURL": "$folder/a.git"}},
		"spec.repositoryURL|\"$folder/a.git\" does not exist|warning"
	],
	[ 'folder', qq{{"path": "$folder"}}, '' ])
{
	my ($kind, $spec, $expected) = @$_;
	is(validated($kind, $spec),
		$expected, "$kind: a missing path is a warning of rag_validate_source");
}

# -- addresses: those of this machine are allowed on all ports
my $refused = 'are not allowed: it is';
for (
	[ 'static', '{"endpoints": ["http://127.0.0.1:8080/x", "http://localhost/x"]}', '' ],
	[ 'website', '{"url": "http://127.0.0.2/"}', "spec.url|connections to 127.0.0.2 $refused" ],
	[ 'markdown', '{"uri": "http://10.0.0.1/a.md"}', "spec.uri|connections to 10.0.0.1 $refused" ],
	[ 'git', '{"repositoryURL": "http://127.0.0.1/a.git"}', '' ],
	[
		'git', '{"repositoryURL": "http://example.org/a.git"}',
		'spec.repositoryURL|"http://example.org/a.git" does not start with https://|error'
	])
{
	my ($kind, $spec, $expected) = @$_;
	my $found = validated($kind, $spec);
	is(substr($found, 0, length $expected || length $found),
		$expected, "$kind: an address is judged by rag.allowed_private_hosts: $spec");
}
$node->safe_psql('postgres', "SELECT rag_create_secret('token', 'swordfish')");
for ([ 'http://127.0.0.1/a', '' ], [ 'http://example.org/a', 'cannot be sent over http' ])
{
	my ($url, $expected) = @$_;
	my $found = $node->safe_psql('postgres',
		qq{SELECT problem FROM rag_validate_source('website', '{"url": "$url"}',
		credentials => 'token')});
	like($found, $expected ? qr/$expected/ : qr/^$/, "credentials for $url");
}
my $result =
  run_sql($node, qq{SELECT rag_create_source('later', 'folder', '{"path": "$folder/later"}')});
is($result->{rc}, 0, 'a source can be created before its folder exists');
my $path_hint = 'The path is on the database server';
like(
	$result->{err},
	qr{NOTICE:.*source "later": "\Q$folder\E/later" does not exist\nHINT:.*$path_hint},
	'rag_create_source reports the missing folder');
is(condition('later'), 'False|NotReady', 'the condition ResourceReady reports the missing folder');
is( run_sql($node,
		qq{SELECT rag_alter_source('later', spec => '{"path": "$folder/later", "paths": ["*.md"]}')}
	)->{err} =~ /NOTICE:.*does not exist/,
	1,
	'rag_alter_source reports the missing folder');
mkdir "$folder/later" or die $!;
write_file("$folder/later/a.md", "# A\n\nText.\n");
sync_ok($node, 'later');
is(condition('later'), 'True|Ready', 'a source is ready once its folder exists');

# roles that cannot read files of the server learn nothing about them
$node->safe_psql('postgres', 'CREATE ROLE clerk LOGIN; GRANT rag_admin TO clerk');
like(
	run_sql(
		$node,
		qq{SELECT * FROM rag_validate_source('folder', '{"path": "/no/such"}')},
		user => 'clerk')->{out},
	qr/\Aspec.path\|permission denied [^\n]*\|error\z/,
	'a role without pg_read_server_files learns nothing about the path');

# -- resources that no longer exist
rename "$folder/later", "$folder/gone" or die $!;
error_like(
	run_sql($node, "SELECT rag_sync('later')"),
	'58P01', 'does not exist',
	undef, 'a run of a source with a missing folder fails');
is(condition('later'), 'False|NotReady',
	'ResourceReady is False after a run with a missing folder');
rename "$folder/gone", "$folder/later" or die $!;
sync_ok($node, 'later');
is(condition('later'), 'True|Ready', 'ResourceReady is True after a run with the restored folder');

my $repository = git_repository();
$repository->write('a.md', "# A\n\nText of a repository.\n");
my $commit = $repository->commit;
my $url = git_server($repository);
$node->safe_psql('postgres',
	qq{SELECT rag_create_source('web', 'git', '{"repositoryURL": "$url"}')});
sync_ok($node, 'web');
$repository->git('checkout', '--quiet', '-b', 'other');
$repository->git('branch', '--quiet', '-D', 'main');
error_like(
	run_sql($node, "SELECT rag_sync('web')"),
	'08006', 'branch "[^"]*" does not exist',
	undef, 'a run with a missing branch fails');
is(condition('web'), 'False|NotReady', 'ResourceReady is False with a missing branch');
$repository->git('checkout', '--quiet', '-b', 'main');
sync_ok($node, 'web');
is(condition('web'), 'True|Ready', 'ResourceReady is True with the restored branch');

# a table that was dropped
$node->safe_psql(
	'postgres',
	q{CREATE TABLE t (id int PRIMARY KEY, body text); INSERT INTO t VALUES (1, 'x');
		SELECT rag_create_source('rows', 'table', '{"relation": "t"}')}
);
sync_ok($node, 'rows');
$node->safe_psql('postgres', 'DROP TABLE t');
isnt(run_sql($node, "SELECT rag_sync('rows')")->{rc}, 0, 'a run with a missing table fails');
is(condition('rows'), 'False|NotReady', 'ResourceReady is False with a missing table');

# -- too large
$repository->write('large.md', join '', map { chr(33 + int rand 90) } 1 .. 3_000_000);
$repository->commit;
error_like(
	run_sql($node, "SELECT rag_sync('web')"),
	'54000',
	'the clone of \S+ would be larger than rag.max_clone_size',
	'Raise rag.max_clone_size',
	'rag.max_clone_size limits a clone');
is( ask($node,
		"SELECT last_commit, (SELECT count(*) FROM rag.documents WHERE source = 'web')
			FROM rag.sources WHERE name = 'web'"
	),
	"$commit|1",
	'a clone beyond the limit removes no documents');

$node->stop;
done_testing();
