# Documents of thousands of chunks, in a collection with a small model.
package RagLargeDocuments;
use strict;
use warnings;
use Exporter 'import';
use RagCluster;

our @EXPORT = qw(large_node large_text chunks_of);

# Starts a server with the collection "large". Its model "tiny" has random weights: its texts are as
# large as others, and fast.
sub large_node
{
	my ($name) = @_;
	my $node = rag_node($name);
	my $model = "$ENV{RAG_TEST_FILES}/models/modernbert";
	$node->safe_psql(
		'postgres', qq{
		SELECT rag_create_model('tiny', 'embedding', 'local', '{"path": "$model"}');
		SELECT rag_create_collection('large', model => 'tiny', chunk_size => 250,
			chunk_overlap => 0)});
	return $node;
}

# Returns a text of a number of chunks, which all begin with a word.
sub large_text
{
	my ($word, $chunks) = @_;
	return join "\n\n", map { "$word $_ " . ('word ' x 40) . 'end.' } 1 .. $chunks;
}

# Returns the numbers of chunks, embeddings and different texts of a document.
sub chunks_of
{
	my ($node, $uri) = @_;
	return ask($node, "SELECT count(*), count(embedding), count(DISTINCT content)
		FROM rag.chunks WHERE collection = 'large' AND uri LIKE '%$uri'");
}

1;
