# Every type of storage does the same. Qdrant and Elasticsearch are servers that the test brings
# along, or real ones at RAG_TEST_QDRANT_URL and RAG_TEST_ELASTICSEARCH_URL.
use strict;
use warnings;
use Test::More;
use RagStorage;
use RagCluster;
use RagVectors;

my $node = rag_node('storage_types', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $sql = sub { return $node->safe_psql('postgres', $_[0]) };

my @types = (
	{ name => 'flat', config => '{"type": "flat"}' },
	{ name => 'flat-l2', metric => 'l2', config => '{"type": "flat", "metric": "l2"}' },
	{ name => 'hnsw', index => 'rag_hnsw', config => '{"type": "hnsw"}' },
	{
		name => 'hnsw-l2',
		index => 'rag_hnsw',
		metric => 'l2',
		config => '{"type": "hnsw", "metric": "l2"}'
	},
	{
		name => 'hnsw-product',
		index => 'rag_hnsw',
		metric => 'inner_product',
		config => '{"metric": "inner_product", "ext": {"m": 12}}'
	});

# -- pgvector, where it is installed
my $has_pgvector =
  $sql->(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'}) eq '1';
my $early = run_sql($node,
	q{SELECT rag_create_retriever('early', '{"storageConfig": {"type": "pgvector"}}')});
error_like($early, '22023', qr/invalid definition of retriever "early"/,
	qr/CREATE EXTENSION vector/, 'pgvector is refused without the extension');
like(
	$early->{err},
	qr/spec\.storageConfig\.type: "pgvector" cannot be used: extension "vector"/,
	'the path of the setting is named');
if ($has_pgvector)
{
	$sql->('CREATE SCHEMA "odd one"; CREATE EXTENSION vector SCHEMA "odd one";
		SELECT rag_pgvector_casts()');
	# by pgvector's estimates of costs, fewer chunks are searched without the index
	push @types,
	  { name => 'pgvector', index => 'hnsw', chunks => 9000, config => '{"type": "pgvector"}' },
	  {
		name => 'pgvector-l2',
		index => 'hnsw',
		chunks => 9000,
		metric => 'l2',
		config => '{"type": "pgvector", "metric": "l2", "ext": {"m": 8}}'
	  };
}
else
{
	note 'pgvector is not installed, and is not tested';
}

# -- other servers; a real one may have indexes of others, and of earlier tests
my $prefix = sprintf 'rag%08x', int rand 2**32;
for my $kind ('qdrant', 'elasticsearch')
{
	my $url = RagVectors::server($kind);
	for my $metric ('cosine', 'l2', 'inner_product')
	{
		my $name = $metric eq 'cosine' ? $kind : "$kind-" . $metric =~ tr/_/-/r;
		push @types,
		  {
			name => $name,
			metric => $metric,
			is_remote => 1,
			prefix => $prefix,
			chunks => 600,
			config => qq({"type": "$kind", "url": "$url", "metric": "$metric",
				"indexStrategy": {"prefix": "$prefix"}}),
			sync => sub {
				is( $sql->(
						qq{SELECT documents_pending, server_chunks = chunks, error
							FROM rag_sync_storage('$name')}),
					'0|t|',
					"$name: both sides have the same number of chunks");
			}
		  };
	}
}

for my $type (@types)
{
	conforms($node, $type);
	next if $type->{name} =~ /flat|-product/;
	next if $type->{is_remote} && $type->{metric} ne 'cosine';
	fill_many($node, $type);
	if ($type->{is_remote})
	{
		like(
			$sql->(
				qq{SELECT detail FROM rag_explain_search('', '$type->{name}', mode => 'vector',
					query_embedding => (SELECT vector FROM probe LIMIT 1)) WHERE step = 'vector'}),
			qr/candidates of the server: 10; changed documents: 0; of both are found: 10/,
			"$type->{name}: searches use it");
	}
	next if !$type->{index};
	is( $sql->(
			qq{SELECT string_agg(DISTINCT a.amname, ' ') FROM pg_class c
				JOIN pg_am a ON a.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid
			WHERE i.indrelid = 'rag_internal."rag_kb_$type->{name}"'::regclass
				AND a.amname IN ('hnsw', 'rag_hnsw')}),
		$type->{index},
		"$type->{name}: the partition has the index of its type");
	like(
		$sql->(
			qq{SELECT detail FROM rag_explain_search('', '$type->{name}', mode => 'vector',
				query_embedding => (SELECT vector FROM probe LIMIT 1)) WHERE step = 'vector'}),
		qr/index search/,
		"$type->{name}: searches use it");
}

# -- another type of storage, later
$sql->(q{SELECT rag_alter_retriever('hnsw', '{"storageConfig": {"type": "flat"}}')});
is($sql->(q{SELECT has_vector_index FROM rag_collection_status('hnsw')}),
	'f', 'a collection loses the index that its retriever does not want any more');
$sql->(
	q{SELECT rag_alter_retriever('hnsw', '{"storageConfig": {"metric": "inner_product"}}');
	SELECT rag_upsert_chunks(jsonb_build_array(chunk(8, 'f', axis(9))), 'hnsw')});
like(
	$sql->(
		q{SELECT string_agg(indexdef, ' ') FROM pg_indexes WHERE tablename = 'rag_kb_hnsw'}),
	qr/vector_ip_ops/,
	'and gets the index for another metric with the next write');
$sql->(q{SELECT rag_alter_retriever('hnsw', '{}');
	SELECT rag_upsert_chunks(jsonb_build_array(chunk(9, 'f', axis(9))), 'hnsw')});

# -- names with capitals, which Elasticsearch refuses
for my $kind ('qdrant', 'elasticsearch')
{
	$sql->(qq{SELECT rag_create_collection('Up_Case.1-$kind', retriever => '$kind');
		SELECT rag_upsert_chunks(jsonb_build_array(chunk(1, 'a', axis(1))), 'Up_Case.1-$kind')});
	is( $sql->(qq{SELECT documents_pending, server_chunks, error
			FROM rag_sync_storage('Up_Case.1-$kind')}),
		'0|1|', "$kind: a collection with capitals gets to the server");
}

$node->restart;
stays($node, $_) for @types;

# -- nothing is left on the servers
$node->append_conf('postgresql.conf', 'rag.scheduler = on');
$node->reload;
$sql->(q{SELECT rag_drop_collection(c.name) FROM rag.collections c
	JOIN rag.retrievers r ON r.name = c.retriever WHERE r.name ~ '^(qdrant|elastic)'});
$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM rag_internal.storage_removal')
  || die 'the removals were not replicated';
done_testing();
