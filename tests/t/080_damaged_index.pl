# Pages of a collection's indexes are overwritten on disk. Searches then read the table, and answer
# what it holds; the status says so; a sync, a write or REINDEX rebuilds the index. Damage of the
# table itself is an error that names the collection.
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
$node->safe_psql('postgres', q{
	SELECT setseed(0.5);
	INSERT INTO rag.rag_kb_big
	SELECT c.collection, NULL, 'made:' || i, c.title, gen_random_uuid(), i, c.document_type, 'made', c.tags, gen_random_uuid(), 0, 0, 'made ' || i,
	       '{}', array(SELECT random() - 0.5 + 0 * i FROM generate_series(1, 384))::rag_types.vector, gen_random_uuid(), now(), now(), 1, 1
	FROM rag.rag_kb_big AS c, generate_series(1, 3500) AS i});
write_file("$folder/backups.txt", 'Backups are taken every night.');
sync_ok($node, 'notes', 'a sync that makes the indexes');

my $search = q{SELECT string_agg(chunk_id::text, ' ' ORDER BY rank) FROM rag_search('how often are keys rotated?', 'big', top_k => 30)};
my $status = q{SELECT state FROM rag_collection_status('big')};
# what the table alone answers
my $exact = q{SET enable_indexscan = off; SELECT string_agg(chunk_id::text, ' ' ORDER BY distance, chunk_id) FROM (
	SELECT chunk_id, embedding <=> (SELECT rag_embed('how often are keys rotated?')) AS distance FROM rag.rag_kb_big ORDER BY 2, 1 LIMIT 30) b};
my $expected = $node->safe_psql('postgres', $exact);
is($node->safe_psql('postgres', $status), 'ready', 'all is sound before');
is(ask($node, "SELECT has_vector_index FROM rag_collection_status('big')"), 't', 'there is an index on the embeddings');

# Overwrites pages of a relation while the server is down.
sub damage
{
	my ($relation, @blocks) = @_;
	my $path = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$relation')");
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
	# a sound index on embeddings may miss one of those that are far away
	is($out, $expected, "$name: a search finds what the table holds") if $warning ne qr/^$/;
	is((split ' ', $out)[0], (split ' ', $expected)[0], "$name: a search finds the nearest");
	like($err, $warning, "$name: " . ($err eq '' ? 'without a warning' : 'with a warning'));
	return;
}

my $warning = qr/WARNING:  an index of collection "big" is damaged.*HINT:  The next sync into it rebuilds the index, as REINDEX TABLE rag.rag_kb_big does/s;

# -- the index on the embeddings
damage('rag.rag_kb_big_embedding_idx');
is($node->safe_psql('postgres', $status), 'ready', 'damage that nothing has met is not known');
my ($result, $out, $err) = $node->psql('postgres', "BEGIN READ ONLY; $search; COMMIT");
like($out, qr/\Q$expected\E/, 'a transaction that may not write finds what the table holds');
like($err, $warning, 'with a warning');
searches('an index on embeddings', $warning);
is($node->safe_psql('postgres', "SELECT state, detail LIKE '%the next sync rebuilds the index%' FROM rag_collection_status('big')"), 'damaged|t', 'the status says so');
is($node->safe_psql('postgres', "SELECT count(*) FROM rag.index_damage d JOIN pg_class c ON c.oid = d.index AND c.relname = 'rag_kb_big_embedding_idx'"), '1',
	'of this index alone');
searches('the same once more', $warning);
is($node->safe_psql('postgres', "SELECT count(*) FROM rag_search('what is made?', 'default')"), '0', 'other collections answer');
sync_ok($node, 'notes', 'the next sync');
is($node->safe_psql('postgres', $status), 'ready', 'makes it sound');
is($node->safe_psql('postgres', q{SELECT count(*) FROM rag_index_check('rag.rag_kb_big_embedding_idx')}), '0', 'as its check says');
searches('after the sync', qr/^$/);

# -- its first page, and REINDEX by hand
damage('rag.rag_kb_big_embedding_idx', 0);
searches('the first page of it', $warning);
is($node->safe_psql('postgres', $status), 'damaged', 'the status says so');
$node->safe_psql('postgres', 'REINDEX TABLE rag.rag_kb_big');
is($node->safe_psql('postgres', $status), 'ready', 'REINDEX makes it sound');
searches('after REINDEX', qr/^$/);

# -- a B-tree whose first page the planner reads, and a write
damage('rag.rag_kb_big_pkey', 0, 1);
searches('the first page of a B-tree', $warning);
is($node->safe_psql('postgres', $status), 'damaged', 'the status says so');
is($node->safe_psql('postgres', q{SELECT success FROM rag_add_document('Laptops are encrypted.', 'laptops', collection => 'big')}), 't', 'a document that is added');
is($node->safe_psql('postgres', $status), 'ready', 'repairs the index');
is($node->safe_psql('postgres', q{SELECT uri FROM rag_search('is my laptop encrypted?', 'big', top_k => 1)}), 'laptops', 'and is found');

# -- what is said of a document is changed
damage('rag.rag_kb_big_pkey', 0, 1);
is($node->safe_psql('postgres', q{SELECT rag_update_document(document_id, title => 'Laptops') FROM rag.documents WHERE uri = 'laptops'}), 't', 'a document that is changed');
is($node->safe_psql('postgres', $status), 'ready', 'repairs the index');
is($node->safe_psql('postgres', q{SELECT title FROM rag.chunks WHERE uri = 'laptops'}), 'Laptops', 'and is changed');

# -- damage that a sync meets first
$expected = $node->safe_psql('postgres', $exact);
damage('rag.rag_kb_big_embedding_idx');
write_file("$folder/lunch.txt", 'Lunch is at noon.');
sync_ok($node, 'notes', 'a sync that meets the damage');
is($node->safe_psql('postgres', q{SELECT documents_added, documents_failed FROM rag.runs ORDER BY run_id DESC LIMIT 1}), '1|0', 'stores what is new');
is($node->safe_psql('postgres', $status), 'ready', 'and leaves a sound index');
is($node->safe_psql('postgres', q{SELECT count(*) FROM rag_index_check('rag.rag_kb_big_embedding_idx')}), '0', 'as its check says');

# -- the table: all of its blocks but the first, so that every search meets one
damage('rag.rag_kb_big');
error_like(run_sql($node, $search), 'XX001', 'the data of collection "big" are damaged', 'restore it from a backup', 'damage of the table is an error that names the collection');
is($node->safe_psql('postgres', $status), 'ready', 'which is no damage of an index');

done_testing();
