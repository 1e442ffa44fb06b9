# Documents of thousands of chunks, by every way in. The engine accepts 4,096 texts of a client at a
# time, and a socket holds few of them: neither side may wait until the other reads.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagLargeDocuments;

my $node = large_node('large_documents');

# The engine is late: it is stopped until the client waits for it.
sub embed_late
{
	my ($count) = @_;
	my $pid     = engine_pid($node, 'embed');
	my $session = start_sql($node, embed($count));
	$session->await_waiting;
	freeze($pid);
	select undef, undef, undef, 0.5;
	thaw($pid);
	return $session->finish;
}

sub embed
{
	my ($count) = @_;
	return "SET statement_timeout = '100s'; SELECT cardinality(rag_embed(array_agg(
		'text ' || i || repeat(' x', 400)), model => 'tiny')) FROM generate_series(1, $count) i";
}

run_sql($node, embed(1));
for my $count (1, 4095, 4097, 20000)
{
	my $result = run_sql($node, embed($count));
	is($result->{out}, $count, "rag_embed of $count texts") or diag $result->{err};
}
is(embed_late(9000)->{out}, '9000', 'an engine that is late');

my $folder = temp_folder();
for my $count (1, 4095, 4097)
{
	write_file("$folder/file$count.txt", large_text('Chunk', $count));
	$node->safe_psql('postgres', "SET statement_timeout = '100s';
		SELECT rag_add_document(pg_read_file('$folder/file$count.txt'), 'added$count',
			document_type => 'text', collection => 'large')");
	is(chunks_of($node, "added$count"),
		join('|', ($count) x 3), "rag_add_document of $count chunks");
	$node->safe_psql('postgres', "SET statement_timeout = '100s';
		SELECT rag_upsert_chunks((SELECT jsonb_agg(jsonb_build_object(
			'chunk_id', md5('$count ' || i)::uuid, 'uri', 'chunks$count',
			'text', 'given ' || $count || ' ' || i || repeat(' word', 160)))
			FROM generate_series(1, $count) i), 'large')");
	is(chunks_of($node, "chunks$count"),
		join('|', ($count) x 3), "rag_upsert_chunks of $count chunks");
}
$node->safe_psql('postgres', "SELECT rag_create_source('folder', 'folder',
	'{\"path\": \"$folder\"}', collection => 'large')");
# new texts, since known ones are not embedded again
write_file("$folder/file$_.txt", 'New. ' . large_text('Piece', $_)) for 1, 4095, 4097;
$node->safe_psql('postgres', "SET statement_timeout = '100s'; SELECT rag_sync('folder')");
is(chunks_of($node, "file$_.txt"), join('|', ($_) x 3), "a source of $_ chunks") for 1, 4095, 4097;

$node->stop;
done_testing;
