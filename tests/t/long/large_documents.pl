# A document of 20,000 chunks, by each way in, and while the engine is late.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagLargeDocuments;

my $chunks = 20_000;
my $node = large_node('very_large_documents');

my $folder = temp_folder();
write_file("$folder/file.txt", large_text('File', $chunks));
my $added = large_text('Added', $chunks);
write_file("$folder.txt", $added);

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
is(chunks_of($node, 'added'), $all, 'rag_add_document, by an engine that stops again and again');

$node->safe_psql('postgres', "SELECT rag_upsert_chunks((SELECT jsonb_agg(
		jsonb_build_object('chunk_id', md5(i::text)::uuid, 'uri', 'given',
		'text', 'given ' || i || repeat(' word', 160))) FROM generate_series($_, $_ + 9999) i),
			'large')")
  for 1, 10_001;
is(chunks_of($node, 'given'), $all, 'rag_upsert_chunks stores all chunks');

$node->safe_psql('postgres', "SELECT rag_create_source('folder', 'folder',
	'{\"path\": \"$folder\"}', collection => 'large'); SELECT rag_sync('folder')");
is(chunks_of($node, 'file.txt'), $all, 'a source stores all chunks');

$node->stop;
done_testing;
