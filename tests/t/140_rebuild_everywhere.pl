# rag_rebuild_collection with what else a collection may have: an index of its vectors, vectors on
# another server, a dump that is taken meanwhile. And what rag.progress tells.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagVectors;

my $node = rag_node('rebuild_everywhere', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $witness = witness($node);
my $sql = sub { return $node->safe_psql('postgres', @_) };

# -- a collection with an index of its vectors: more than one transaction copies
$sql->(
	q{SELECT rag_create_collection('large');
	SELECT rag_upsert_chunks((SELECT jsonb_agg(jsonb_build_object(
		'chunk_id', md5(i::text)::uuid, 'uri', 'made:' || i % 2500, 'text', 'made word' || i,
		'embedding', (SELECT jsonb_agg(sin(i * j)) FROM generate_series(1, 384) j)))
		FROM generate_series(1, 3500) i), 'large')});
my $contents = q{SELECT count(*), md5(string_agg(c::text, '' ORDER BY chunk_id)) FROM (
	SELECT chunk_id, uri, chunk_index, content, embedding::text FROM rag.chunks
	WHERE collection = 'large') c};
my $before = $sql->($contents);
my $nearest = q{SELECT string_agg(uri, ' ') FROM rag_search(NULL, 'large', top_k => 5,
	query_embedding => (SELECT embedding FROM rag.chunks WHERE content = 'made word77'))};
my $found = $sql->($nearest);
$sql->(q{SELECT rag_alter_collection('large', text_config => 'simple')});
$sql->(q{CALL rag_rebuild_collection('large')});
is($sql->($contents), $before, 'all chunks are the same');
is($sql->($nearest), $found, 'so is what a vector search finds');
is($sql->(q{SELECT uri FROM rag_search('word77', 'large', mode => 'keyword', top_k => 1)}),
	'made:77', 'and a keyword search');
is($sql->(q{SELECT has_vector_index, index_type, state FROM rag_collection_status('large')}),
	't|hnsw|ready', 'the new partition has an index of the vectors');
like(
	$sql->(
		q{SELECT detail FROM rag_explain_search('', 'large', mode => 'vector', query_embedding =>
			(SELECT embedding FROM rag.chunks WHERE content = 'made word77'))
		WHERE step = 'vector'}),
	qr/index search/,
	'searches use the new index');
is( $sql->(
		q{SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		JOIN pg_am a ON a.oid = c.relam AND a.amname IN ('rag_hnsw', 'rag_bm25')
		CROSS JOIN LATERAL rag_check_index(c.oid) WHERE c.relkind = 'i'}),
	'0',
	'the indexes are complete');

my $storage = q{SELECT string_agg(DISTINCT attstorage::text, '') FROM pg_attribute
	JOIN pg_inherits ON inhrelid = attrelid WHERE attname = 'content'};
is($sql->($storage), 'x', 'texts are compressed again');

# -- into a partition that others may join: the first one brings its indexes, and others join them
my $indexes = q{SELECT string_agg(DISTINCT a.amname, ' ' ORDER BY a.amname), count(*)
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
	WHERE i.indrelid = 'rag_internal.together'::regclass};
$sql->(
	q{SELECT rag_create_retriever('together',
		'{"storageConfig": {"indexStrategy": {"mode": "fixed", "fixedName": "together"}}}');
	SELECT rag_alter_collection('large', text_config => 'english', retriever => 'together');
	CALL rag_rebuild_collection('large')});
is($sql->($contents), $before, 'all chunks are in a shared partition');
is($sql->(q{SELECT partition, has_vector_index, state FROM rag_collection_status('large')}),
	'rag_internal.together|t|ready', 'which has the index of vectors at once');
my $of_first = $sql->($indexes);
like($of_first, qr/rag_bm25 rag_hnsw/, 'and that of words');
is($sql->($nearest), $found, 'searches find the same');
$sql->(
	q{SELECT rag_create_collection('small');
	SELECT rag_add_document('Milk is fetched in the evening.', 'milk', collection => 'small');
	SELECT rag_alter_collection('small', retriever => 'together');
	CALL rag_rebuild_collection('small')});
is($sql->($indexes), $of_first, 'a second collection uses the same indexes');
is($sql->(q{SELECT uri FROM rag_search('milk', 'small', top_k => 1)}), 'milk',
	'a document of the second collection is found');
$sql->(q{SELECT rag_alter_collection('large', text_config => 'english', retriever => 'default');
	CALL rag_rebuild_collection('large')});
is($sql->(q{SELECT partition, has_vector_index, state FROM rag_collection_status('large')}),
	'rag_internal.rag_kb_large|t|ready', 'the first one leaves again');
is($sql->($contents), $before, 'with all its chunks');
$sql->(q{SELECT rag_alter_collection('small', chunk_size => 90);
	CALL rag_rebuild_collection('small')});
is($sql->(q{SELECT partition, chunk_count, state FROM rag_collection_status('small')}),
	'rag_internal.together|1|ready', 'the last one in it is rebuilt');
is($sql->(q{SELECT uri FROM rag_search('milk', 'small', mode => 'keyword')}),
	'milk', 'and searched by words');

# -- progress, and a dump that is taken meanwhile
my $folder = write_documents(temp_folder(), 12, 6);
$sql->(
	qq{SELECT rag_create_collection('books');
	SELECT rag_create_source('docs', 'folder', '{"path": "$folder"}', 'books',
		schedule => '\@yearly');
	SELECT rag_sync('docs');
	CREATE ROLE reader LOGIN; GRANT rag_reader TO reader;
	SELECT rag_grant_collection('books', 'reader', 'read')});
my $stored = stored($node, 'books');
$sql->(q{SELECT rag_alter_collection('books', chunk_size => 80, chunk_overlap => 0)});
my $call = start_sql($node, "CALL rag_rebuild_collection('books')");
await('the rebuild has begun', sub { ask($node, 'SELECT count(*) FROM rag.progress') });
my $embed = engine_pid($node, 'embed');
freeze($embed);
my $progress = q{SELECT collection, source IS NULL AND run_id IS NULL, stage,
	documents_done < documents_total, documents_total, chunks_done >= documents_done
	FROM rag.progress};
is(ask($node, $progress), 'books|t|copy|t|12|t', 'rag.progress shows the rebuild');
is(run_sql($node, $progress, user => 'reader')->{out},
	'books|t|copy|t|12|t', 'also to those who may only read the collection');
my $dump = temp_folder() . '/dump';
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
command_ok([ 'pg_dump', @connect, '-Fc', '-f', $dump, 'postgres' ],
	'a dump does not wait for a rebuild');
thaw($embed);
is($call->finish->{rc}, 0, 'the rebuild ends after the dump');
is(ask($node, 'SELECT count(*) FROM rag.progress'), '0', 'there is no progress afterwards');

$sql->('CREATE DATABASE copy TEMPLATE template0');
command_ok([ 'pg_restore', @connect, '--exit-on-error', '-d', 'copy', $dump ],
	'the dump can be restored');
is(stored($node, 'books', 'copy'), $stored, 'it has the chunks of before the rebuild');
my $copy = sub { return $node->safe_psql('copy', @_) };
is($copy->(q{SELECT state FROM rag_collection_status('books')}),
	'stale', 'the copy says that a rebuild is wanted');
$copy->(q{CALL rag_rebuild_collection('books')});
is(stored($node, 'books', 'copy'), stored($node, 'books'), 'which does the same there');
is( $copy->(
		q{SELECT state FROM rag_collection_status('books');
		SELECT count(*) FROM rag_internal.rebuild;
		SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
			WHERE nspname = 'rag_internal' AND relkind = 'r' AND relname ~ '^rag_rebuild_'}),
	"ready\n0\n0",
	'nothing is left of the interrupted one');
$sql->('DROP DATABASE copy');

# -- vectors on another server
for my $kind ('qdrant', 'elasticsearch')
{
	my $url = RagVectors::start($kind);
	$sql->(
		qq{SELECT rag_create_retriever('$kind',
			'{"storageConfig": {"type": "$kind", "url": "$url"}}');
		SELECT rag_create_collection('$kind', retriever => '$kind');
		SELECT rag_add_document(repeat('Bread is baked in the morning. ', 40), 'bread',
			collection => '$kind');
		SELECT rag_add_document('Tea is made at five.', 'tea', collection => '$kind');
		SELECT count(*) FROM rag_sync_storage('$kind');
		SELECT rag_alter_collection('$kind', chunk_size => 120, chunk_overlap => 0);
		CALL rag_rebuild_collection('$kind')});
	my $counts = qq{SELECT server_chunks = chunks, chunks > 10, documents_pending, error
		FROM rag_sync_storage('$kind')};
	is($sql->($counts), 't|t|0|', "$kind: the server has the new chunks, and no other");
	is($sql->(qq{SELECT state FROM rag_collection_status('$kind')}), 'ready',
		"$kind: the collection is ready");
	is($sql->(qq{SELECT uri FROM rag_search('tea', '$kind', mode => 'vector', top_k => 1)}),
		'tea', "$kind: a search finds the document");
	like(
		$sql->(
			qq{SELECT detail FROM rag_explain_search('tea', '$kind', mode => 'vector')
				WHERE step = 'vector'}),
		qr/candidates of the server: [1-9]\d*; changed documents: 0/,
		"$kind: by the server");

	# a server that fails meanwhile delays nothing
	RagVectors::stop_all();
	$sql->(qq{SELECT rag_alter_collection('$kind', chunk_size => 200)});
	is(run_sql($node, "CALL rag_rebuild_collection('$kind')")->{rc},
		0, "$kind: a rebuild does not need the server");
	my $without = run_sql($node,
		"SELECT uri FROM rag_search('tea', '$kind', mode => 'vector', top_k => 1)");
	is($without->{out}, 'tea', "$kind: a search answers without it");
	is($sql->(qq{SELECT state FROM rag_collection_status('$kind')}),
		'syncing', "$kind: the state tells that the server lacks the changes");
}

# -- statements that use partitions of other collections do not matter
$sql->(
	q{SELECT rag_add_document('Other text.', 'other', collection => 'other')
		FROM (SELECT rag_create_collection('other')) c;
	SELECT rag_add_document('A text.', 'own', collection => 'own')
		FROM (SELECT rag_create_collection('own')) c;
	SELECT rag_alter_collection('own', text_config => 'simple')});
my $other = $sql->(q{SELECT partition FROM rag.collections WHERE name = 'other'});
my $reader = session($node);
$reader->query("BEGIN");
$reader->query("LOCK TABLE rag_internal.$other IN SHARE UPDATE EXCLUSIVE MODE");
my $rebuilt = run_sql($node,
	q{SET rag.lock_timeout = '10s'; CALL rag_rebuild_collection('own')});
is($rebuilt->{rc}, 0, 'a rebuild does not wait for a VACUUM of another collection')
  or diag $rebuilt->{err};
is( run_sql($node, q{SET lock_timeout = '10s'; SELECT rag_drop_collection('own');
		SELECT count(*) FROM rag.collections WHERE name = 'own'})->{out} =~ s/\s//gr,
	'0', 'nor does a drop');
$reader->query('COMMIT');

same_cluster($witness, 'rebuilds');
$node->stop;
done_testing();
