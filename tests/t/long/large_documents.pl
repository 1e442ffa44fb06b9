# A document of 20,000 chunks, by each way in, and while the engine is late.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $chunks = 20_000;
my $node   = rag_node('very_large_documents');
my $model  = "$ENV{RAG_TEST_FILES}/models/modernbert";
$node->safe_psql(
	'postgres', qq{
	SELECT rag_create_model('tiny', 'embedding', 'local', '{"path": "$model"}');
	SELECT rag_create_collection('large', model => 'tiny', chunk_size => 250,
		chunk_overlap => 0)});

my $folder = temp_folder();
write_file("$folder/file.txt", text('File'));
my $added = text('Added');
write_file("$folder.txt", $added);

sub text
{
	my ($word) = @_;
	return join "\n\n", map { "$word $_ " . ('word ' x 40) . 'end.' } 1 .. $chunks;
}

sub chunks_of
{
	my ($uri) = @_;
	return ask($node, "SELECT count(*), count(embedding), count(DISTINCT content)
		FROM rag.chunks WHERE collection = 'large' AND uri LIKE '%$uri'");
}

my $all = join '|', ($chunks) x 3;
my $adding = start_sql($node, "SELECT rag_add_document(pg_read_file('$folder.txt'), 'added',
	document_type => 'text', collection => 'large')");
my $engine = engine_pid($node, 'embed');
for (1 .. 5)
{
	select undef, undef, undef, 1;
	freeze($engine);
	select undef, undef, undef, 1;
	thaw($engine);
}
$adding->finish;
is(chunks_of('added'), $all, 'rag_add_document, by an engine that stops again and again');

$node->safe_psql('postgres', "SELECT rag_upsert_chunks('large', (SELECT jsonb_agg(
		jsonb_build_object('chunk_id', md5(i::text)::uuid, 'uri', 'given',
		'text', 'given ' || i || repeat(' word', 160))) FROM generate_series($_, $_ + 9999) i))")
  for 1, 10_001;
is(chunks_of('given'), $all, 'rag_upsert_chunks');

$node->safe_psql('postgres', "SELECT rag_create_source('folder', 'folder',
	'{\"path\": \"$folder\"}', collection => 'large'); SELECT rag_sync('folder')");
is(chunks_of('file.txt'), $all, 'a source');

$node->stop;
done_testing;
