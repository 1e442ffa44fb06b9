# A source in object storage, with a real server of the protocol of S3 on loopback: pages of the
# list, what a second sync fetches, renamed and deleted objects, and errors.
use strict;
use warnings;
use Test::More;
use RagBucket;
use RagCluster;

my $folder = temp_folder();
write_file("$folder/guides/$_.md", "# Guide $_\n\n" . paragraph($_)) for 1 .. 5;
write_file("$folder/guides/image.png", 'no document');
write_file("$folder/other/a.md", "# Other\n\nNot below the prefix.");
my $origin = bucket_server($folder, 2);
my $node = rag_node('object_storage',
	conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.scheduler = off");
my $counts =
  'documents_added, documents_updated, documents_deleted, documents_unchanged, documents_failed';

# Syncs the source, and checks the counts of the run and the objects that were fetched.
sub sync_does
{
	my ($expected, $fetched, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	bucket_requests();
	run_sql($node, "SELECT rag_sync('bucket')");
	is(run_row($node, 'bucket', $counts) =~ tr/|/ /r, $expected, $name);
	my @objects = grep { !m{^/docs/ } } @{ bucket_requests() };
	is_deeply(\@objects, [ map { "/docs/guides/$_ 200" } @$fetched ], "$name: what is fetched");
	return;
}

$node->safe_psql('postgres', "SELECT rag_create_secret('storage', '$RagBucket::KEY_ID', 'username');
	SELECT rag_create_secret('storage', '$RagBucket::SECRET_KEY', 'password');
	SELECT rag_create_source('bucket', 's3', '{\"bucket\": \"docs\", \"prefix\": \"guides/\",
		\"endpoint\": \"$origin\"}', credentials => 'storage', suspend => true)");
sync_does('5 0 0 0 0', [ map { "$_.md" } 1 .. 5 ], 'all documents below the prefix are added');
is( ask(
		$node,
		"SELECT string_agg(uri, ' ' ORDER BY uri) FROM rag.documents WHERE source = 'bucket'"),
	join(' ', map { "s3://docs/guides/$_.md" } 1 .. 5), 'a document has the address of its object');
like(run_row($node, 'bucket', 'note'), qr/1 \.png/, 'skipped types are counted');
sync_does('0 0 0 5 0', [], 'objects with the same ETags are not fetched again');

write_file("$folder/guides/1.md", "# Guide 1\n\nIt was changed.");
rename "$folder/guides/2.md", "$folder/guides/two.md" or die $!;
unlink "$folder/guides/3.md";
my $before = run_row($node, 'bucket', 'run_id');
sync_does('1 1 2 2 0', [ '1.md', 'two.md' ], 'changes, renames and deletions are found');
is(ask($node, "SELECT chunks_embedded FROM rag.runs WHERE run_id > $before"),
	1, 'a renamed object embeds nothing');

$node->safe_psql('postgres',
	"SELECT rag_alter_source('bucket', spec => '{\"bucket\": \"docs\", \"region\": \"eu-west-1\",
	\"endpoint\": \"$origin\"}')");
error_like(run_sql($node, "SELECT rag_sync('bucket')"),
	'08006', 'the bucket is in the region us-east-1, not in eu-west-1',
	'Set "region" to "us-east-1"', 'a wrong region is told');
$node->safe_psql('postgres', "SELECT rag_create_secret('storage', 'wrong', 'password')");
$node->safe_psql('postgres',
	"SELECT rag_alter_source('bucket',
	spec => '{\"bucket\": \"docs\", \"endpoint\": \"$origin\"}')");
error_like(run_sql($node, "SELECT rag_sync('bucket')"),
	'28000', 'the signature is refused', 'Check the value "password"', 'a wrong key is told');
is(ask($node, "SELECT count(*) FROM rag.documents WHERE source = 'bucket'"),
	4, 'a run that fails changes nothing');

configure($node, 'rag.allow_instance_identity', 'on');
$node->safe_psql('postgres', "SELECT rag_create_source('machine', 's3',
	'{\"bucket\": \"docs\", \"endpoint\": \"$origin\", \"instanceIdentity\": true}',
	suspend => true)");
configure($node, 'rag.allow_instance_identity');
error_like(run_sql($node, "SELECT rag_sync('machine')"),
	'42501', "permission denied to use the identity of the server's machine",
	'rag.allow_instance_identity',
	'the right to the identity of the machine is checked in each run');
done_testing();
