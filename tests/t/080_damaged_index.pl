# Pages of a collection's indexes are overwritten on disk. Searches then read the table and return
# correct results, and the status reports the corruption. A sync, a write or REINDEX rebuilds the
# index. Corruption of the table itself is an error that names the collection.
use strict;
use warnings;
use Test::More;
use RagCluster;
use PostgreSQL::Test::Utils;

use constant PAGE => 8192;

my $node = rag_node('damaged_index', initdb => ['--data-checksums'], conf => 'autovacuum = off');
my $folder = temp_folder();
write_file("$folder/keys.txt", 'Signing keys are rotated twice a year.');
$node->safe_psql('postgres', q{SELECT rag_create_collection('big')});
create_folder_source($node, 'notes', $folder, 'big');
sync_ok($node, 'notes', 'a document');
$node->safe_psql(
	'postgres', q{
	SELECT setseed(0.5);
	INSERT INTO rag_internal.rag_kb_big
	SELECT c.collection, c.partition, NULL, 'made:' || i, c.title, gen_random_uuid(), i,
		c.document_type, 'made',
	       c.tags, gen_random_uuid(), 0, 0, 'made ' || i, '{}',
	       array(SELECT random() - 0.5 + 0 * i FROM generate_series(1, 384))::rag_types.vector,
	       gen_random_uuid(), now(), now(), 1, 1
	FROM rag_internal.rag_kb_big AS c, generate_series(1, 3500) AS i});
write_file("$folder/backups.txt", 'Backups are taken every night.');
sync_ok($node, 'notes', 'a sync that makes the indexes');

my $search = q{SELECT string_agg(chunk_id::text, ' ' ORDER BY rank)
		FROM rag_search('how often are keys rotated?', 'big', top_k => 30, mode => 'vector')};
my $status = q{SELECT state FROM rag_collection_status('big')};
# the result of a search without indexes
my $exact =
  q{SET enable_indexscan = off; SELECT string_agg(chunk_id::text, ' ' ORDER BY distance, chunk_id)
		FROM (
	SELECT chunk_id, embedding <=> (SELECT rag_embed('how often are keys rotated?')) AS distance
	FROM rag_internal.rag_kb_big ORDER BY 2, 1 LIMIT 30) b};
my $expected = $node->safe_psql('postgres', $exact);
is($node->safe_psql('postgres', $status), 'ready', 'the index is correct before it is damaged');
is(ask($node, "SELECT has_vector_index FROM rag_collection_status('big')"),
	't', 'the collection has an index on its embeddings');

# Overwrites pages of a relation while the server is stopped.
sub damage
{
	my ($relation, @blocks) = @_;
	my $path = $node->data_dir . '/'
	  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$relation')");
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->stop;
	open my $file, '+<:raw', $path or die "$path: $!";
	my $last = (-s $path) / PAGE - 1;
	@blocks = (1 .. $last) unless @blocks;
	for my $block (@blocks)
	{
		seek $file, $block * PAGE + 100, 0;
		print $file 'damaged ' x 500;
	}
	close $file;
	$node->start;
	return;
}

sub searches
{
	my ($name, $warning) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($result, $out, $err) = $node->psql('postgres', $search);
	# a correct index on embeddings may miss a row that is far away
	is($out, $expected, "$name: a search finds all documents") if $warning ne qr/^$/;
	is( (split ' ', $out)[0],
		(split ' ', $expected)[0],
		"$name: a search finds the nearest documents");
	like($err, $warning,
		$err eq '' ? "$name: no warning" : "$name: a search warns about the index");
	return;
}

my $hint =
  qr/HINT:  .*The next sync rebuilds the index.*run REINDEX TABLE rag_internal.rag_kb_big/;
my $warning = qr/WARNING:  an index of collection "big" is corrupted.*$hint/s;

# -- the index on the embeddings
damage('rag_internal.rag_kb_big_embedding_idx');
is($node->safe_psql('postgres', $status),
	'ready', 'corruption that no statement has met is not reported');
my ($result, $out, $err) = $node->psql('postgres', "BEGIN READ ONLY; $search; COMMIT");
like($out, qr/\Q$expected\E/, 'a read-only transaction finds all documents');
like($err, $warning, 'a read-only transaction gets a warning');
searches('an index on embeddings', $warning);
is( $node->safe_psql(
		'postgres',
		"SELECT state, detail LIKE '%the next sync or REINDEX rebuilds the index%'
			FROM rag_collection_status('big')"
	),
	'damaged|t',
	'rag_collection_status reports the corrupted index');
is( $node->safe_psql(
		'postgres',
		"SELECT severity, field, problem, hint LIKE '%the next sync or REINDEX rebuilds the index.'
			FROM rag_validate_source('folder', '{\"path\": \"$folder\"}', collection => 'big')"
	),
	'warning|collection|collection "big" is damaged|t',
	'rag_validate_source reports the corrupted index');
my $damaged = q{SELECT string_agg(labels ->> 'collection', ' ') FROM rag.metrics
	WHERE name = 'rag_collection_damaged' AND value = 1};
is($node->safe_psql('postgres', $damaged), 'big', 'rag.metrics reports the collection');
is( $node->safe_psql(
		'postgres',
		"SELECT count(*) FROM rag.damage WHERE relation = 'rag_internal.rag_kb_big_embedding_idx'"
	),
	'1',
	'rag_collection_status reports only the corrupted index');
searches('the same once more', $warning);
is($node->safe_psql('postgres', "SELECT count(*) FROM rag_search('what is made?', 'default')"),
	'0', 'other collections can be searched');
sync_ok($node, 'notes', 'the next sync succeeds with a corrupted index');
is($node->safe_psql('postgres', $status), 'ready', 'the next sync rebuilds the index');
is( $node->safe_psql(
		'postgres', q{SELECT count(*)
			FROM rag_check_index('rag_internal.rag_kb_big_embedding_idx')}),
	'0',
	'the rebuilt index is correct');
is($node->safe_psql('postgres', $damaged), '', 'rag.metrics reports nothing after that');
searches('after the sync', qr/^$/);

# -- its first page, and REINDEX
damage('rag_internal.rag_kb_big_embedding_idx', 0);
searches('the first page of it', $warning);
is($node->safe_psql('postgres', $status),
	'damaged', 'rag_collection_status reports no corruption after the rebuild');
$node->safe_psql('postgres', 'REINDEX TABLE rag_internal.rag_kb_big');
is($node->safe_psql('postgres', $status), 'ready', 'REINDEX rebuilds the index');
searches('after REINDEX', qr/^$/);

# -- a B-tree whose first page the planner reads, and a write
damage('rag_internal.rag_kb_big_pkey', 0, 1);
searches('the first page of a B-tree', $warning);
is($node->safe_psql('postgres', $status),
	'damaged', 'rag_collection_status reports no corruption after REINDEX');
is( $node->safe_psql(
		'postgres',
		q{SELECT success FROM rag_add_document('Laptops are encrypted.', 'laptops',
			collection => 'big')}
	),
	't',
	'rag_add_document succeeds with a corrupted index');
is($node->safe_psql('postgres', $status), 'ready', 'rag_add_document rebuilds the index');
is( $node->safe_psql(
		'postgres', q{SELECT uri FROM rag_search('is my laptop encrypted?', 'big', top_k => 1)}),
	'laptops',
	'a search finds the added document');

# -- changed metadata of a document
damage('rag_internal.rag_kb_big_pkey', 0, 1);
is( $node->safe_psql(
		'postgres',
		q{SELECT rag_update_document(document_id, title => 'Laptops') FROM rag.documents
			WHERE uri = 'laptops'}
	),
	't',
	'rag_update_document succeeds with a corrupted index');
is($node->safe_psql('postgres', $status), 'ready', 'rag_update_document rebuilds the index');
is($node->safe_psql('postgres', q{SELECT title FROM rag.chunks WHERE uri = 'laptops'}),
	'Laptops', 'the document is updated');

# -- corruption that a sync meets first
$expected = $node->safe_psql('postgres', $exact);
damage('rag_internal.rag_kb_big_embedding_idx');
write_file("$folder/lunch.txt", 'Lunch is at noon.');
sync_ok($node, 'notes', 'a sync that meets the corruption succeeds');
is( $node->safe_psql(
		'postgres',
		q{SELECT documents_added, documents_failed FROM rag.runs ORDER BY run_id DESC LIMIT 1}),
	'1|0',
	'a sync that meets the corruption stores new documents');
is($node->safe_psql('postgres', $status),
	'ready', 'a sync that meets the corruption rebuilds the index');
is( $node->safe_psql(
		'postgres', q{SELECT count(*)
			FROM rag_check_index('rag_internal.rag_kb_big_embedding_idx')}),
	'0',
	'the index rebuilt by the sync is correct');

# -- the table: all of its blocks but the first, so that every search meets one
damage('rag_internal.rag_kb_big');
error_like(
	run_sql($node, $search),
	'XX001',
	'data of collection "big" is corrupted',
	'rag_rebuild_collection',
	'corruption of the table is an error that names the collection');
is($node->safe_psql('postgres', $status),
	'damaged', 'corruption of the table is reported, too');

done_testing();
